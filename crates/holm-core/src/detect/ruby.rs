//! Ruby projects: Rails becomes a service; for others only the installation is known.

use super::database_url::Kind;
use super::directory::Directory;
use super::needs::{self, Need, of_dependencies};
use super::proposal::{Part, Service};
use super::sample::{is_plain, with_samples};

pub fn look(directory: Directory<'_>) -> Option<Part> {
    let gemfile = directory.text("Gemfile")?;
    let is_rails = directory.has("bin/rails") && has_gem(gemfile, "rails");
    let kind = if is_rails { "Rails" } else { "Ruby" };
    let mut part = Part::of(kind, directory, "Gemfile");
    let file = directory.first(&["Gemfile.lock"]).unwrap_or("Gemfile");
    part.install(directory, &["bundle install"], file);
    if is_rails {
        part.programs.push(Service {
            name: directory.service_name(),
            at: directory.at().to_owned(),
            run: directory.run("bin/rails server"),
            port: Some((3000, "Rails' default".to_owned())),
            reason: directory.path("bin/rails"),
            ..Service::default()
        });
        let command = "bin/rails db:prepare".to_owned();
        part.migrate(directory, command, directory.path("bin/rails"));
        part.needs.extend(rails_database(directory));
    } else {
        part.has_no_start(&directory.path("Gemfile"));
    }
    let file = directory.path("Gemfile");
    for need in of_dependencies(gems(gemfile), &file) {
        needs::add(&mut part.needs, need);
    }
    let sql = [
        ("pg", Kind::Postgres),
        ("mysql2", Kind::Mysql),
        ("trilogy", Kind::Mysql),
    ];
    for (gem, kind) in sql {
        if has_gem(gemfile, gem) {
            needs::add(&mut part.needs, Need::new(kind, format!("{file}: {gem}")));
        }
    }
    with_samples(&mut part.needs, directory);
    Some(part)
}

/// The database of `config/database.yml`, which is a template of Ruby and so not parsed as YAML.
fn rails_database(directory: Directory<'_>) -> Option<Need> {
    let name = "config/database.yml";
    let text = directory.text(name)?;
    let value = |text: &str, key: &str| {
        let lines = text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix(key));
        let mut values = lines.map(|value| value.trim().trim_matches(['"', '\'']).to_owned());
        values.next()
    };
    let kind = Kind::named(&value(text, "adapter:")?)?;
    let mut need = Need::new(kind, directory.path(name));
    let development = text.split("\ndevelopment:").nth(1).unwrap_or(text);
    need.database = value(development, "database:").filter(|name| is_plain(name));
    Some(need)
}

fn has_gem(gemfile: &str, gem: &str) -> bool {
    gems(gemfile).any(|name| name == gem)
}

fn gems(gemfile: &str) -> impl Iterator<Item = &str> {
    gemfile.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("gem ")?;
        let name = rest.trim_start().trim_start_matches(['"', '\'', '(']);
        name.split(['"', '\'']).next()
    })
}
