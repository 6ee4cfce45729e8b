//! Ruby projects: Rails becomes a service; for others only the installation is known.

use super::directory::Directory;
use super::proposal::{Part, Service};

pub fn look(directory: Directory<'_>) -> Option<Part> {
    let gemfile = directory.text("Gemfile")?;
    let is_rails = directory.has("bin/rails") && has_gem(gemfile, "rails");
    let kind = if is_rails { "Rails" } else { "Ruby" };
    let mut part = Part::new(kind, directory.path("Gemfile"));
    let file = directory.first(&["Gemfile.lock"]).unwrap_or("Gemfile");
    part.install(directory, &["bundle install"], file);
    if is_rails {
        part.programs.push(Service {
            name: directory.service_name(),
            run: directory.run("bin/rails server"),
            port: Some((3000, "Rails' default".to_owned())),
            reason: directory.path("bin/rails"),
            ..Service::default()
        });
    } else {
        part.has_no_start(&directory.path("Gemfile"));
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
