//! Ruby projects: Rails becomes a service; for others only the installation is known.

use super::directory::Directory;
use super::proposal::{Part, Program};

pub fn look(directory: Directory<'_>) -> Option<Part> {
    let gemfile = directory.text("Gemfile")?;
    let is_rails = directory.has("bin/rails") && has_gem(gemfile, "rails");
    let kind = if is_rails { "Rails" } else { "Ruby" };
    let mut part = Part::new(kind, directory.path("Gemfile"));
    let file = directory.first(&["Gemfile.lock"]).unwrap_or("Gemfile");
    part.set_up(directory.run("bundle install"), directory.path(file));
    if !directory.is_root() {
        part.setup_inputs.push(directory.path(file));
    }
    if is_rails {
        part.programs.push(Program {
            name: if directory.is_root() {
                "web".to_owned()
            } else {
                directory.name().to_owned()
            },
            run: directory.run("bin/rails server"),
            port: Some((3000, "Rails' default".to_owned())),
            reason: directory.path("bin/rails"),
            ..Program::default()
        });
    } else {
        part.remarks.push(format!(
            "{} does not say how the program is started",
            directory.path("Gemfile")
        ));
    }
    Some(part)
}

fn has_gem(gemfile: &str, gem: &str) -> bool {
    gemfile.lines().any(|line| {
        let rest = line.trim_start().strip_prefix("gem ");
        let name = rest.map(|rest| rest.trim_start().trim_start_matches(['"', '\'', '(']));
        let name = name.and_then(|name| name.split(['"', '\'']).next());
        name == Some(gem)
    })
}
