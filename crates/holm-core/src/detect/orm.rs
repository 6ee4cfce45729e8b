//! Databases and migrations of Node's Prisma, Drizzle, Knex, Sequelize and TypeORM.

use super::database_url::Kind;
use super::directory::Directory;
use super::needs::{self, Need};
use super::proposal::Part;
use super::sample::Sample;

/// How programs of a package's dependencies are run.
pub struct Tools {
    /// Before a program's name.
    pub execute: &'static str,
    /// Runs the package's own script for migrations.
    pub script: Option<String>,
}

const SCHEMAS: [&str; 3] = [
    "prisma/schema.prisma",
    "src/prisma/schema.prisma",
    "schema.prisma",
];
const DRIZZLE: [&str; 3] = [
    "drizzle.config.ts",
    "drizzle.config.js",
    "drizzle.config.mjs",
];

pub fn look(package: Directory<'_>, dependencies: &[&str], tools: &Tools, part: &mut Part) {
    if let Some(schema) = package.first(&SCHEMAS) {
        prisma(package, schema, tools, part);
        return;
    }
    let drizzle = package.first(&DRIZZLE);
    if let Some(config) = drizzle {
        let text = package.text(config).unwrap_or_default();
        let dialect = ["dialect", "driver"]
            .iter()
            .find_map(|key| setting(text, key));
        let kind = dialect.and_then(Kind::named);
        let mut need = kind.map(|kind| Need::new(kind, package.path(config)));
        if let (Some(need), Some(name)) = (&mut need, variable(text)) {
            need.variables.push((name.to_owned(), None));
        }
        need.into_iter()
            .for_each(|need| needs::add(&mut part.needs, need));
    }
    let known = [
        ("drizzle-kit", "drizzle-kit migrate"),
        ("knex", "knex migrate:latest"),
        ("sequelize-cli", "sequelize-cli db:migrate"),
        ("typeorm", ""),
    ];
    let tool = known.iter().find(|(name, _)| dependencies.contains(name));
    let Some((name, command)) = tool else {
        return;
    };
    let command = match (&tools.script, *command) {
        (Some(script), _) => script.clone(),
        (None, "") => return,
        (None, command) => format!("{} {command}", tools.execute),
    };
    part.migrate(package, command, format!("migrations of {name}"));
}

fn prisma(package: Directory<'_>, schema: &str, tools: &Tools, part: &mut Part) {
    let text = package.text(schema).unwrap_or_default();
    let file = package.path(schema);
    let source = text.split("datasource ").nth(1).unwrap_or_default();
    let source = source.split('}').next().unwrap_or_default();
    let provider = setting(source, "provider");
    let variables: Vec<&str> = source
        .match_indices("env(\"")
        .filter_map(|(at, start)| source[at + start.len()..].split('"').next())
        .collect();
    match provider.and_then(Kind::named) {
        Some(kind) => {
            let mut need = Need::new(kind, file.clone());
            let names = variables.iter().map(|name| ((*name).to_owned(), None));
            need.variables = names.collect();
            needs::add(&mut part.needs, need);
        }
        // SQLite: Prisma refuses to start without the variable.
        None => {
            let sample = Sample::of(package).or_else(|| Sample::of(package.to_root()));
            for name in variables {
                let shown = sample.as_ref().and_then(|sample| sample.value(name));
                let value = shown.filter(|value| value.starts_with("file:"));
                part.env
                    .push((name.to_owned(), value.unwrap_or("file:./dev.db").to_owned()));
            }
        }
    }
    let folder = schema.rsplit_once('/').map_or("", |(folder, _)| folder);
    let migrations = match folder {
        "" => "migrations/".to_owned(),
        folder => format!("{folder}/migrations/"),
    };
    let command = if package.has(&migrations) {
        "migrate deploy"
    } else {
        "db push"
    };
    let command = format!("{} prisma {command}", tools.execute);
    part.migrate(package, command, file);
}

/// The text in `key = "text"` or `key: 'text'`.
fn setting<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut places = text
        .match_indices(key)
        .map(|(at, _)| &text[at + key.len()..]);
    places.find_map(|rest| {
        let rest = rest.trim_start().strip_prefix(['=', ':'])?.trim_start();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        rest[1..].split(quote).next()
    })
}

/// The variable in `process.env.NAME`.
fn variable(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("process.env.")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    Some(&rest[..end.unwrap_or(rest.len())]).filter(|name| !name.is_empty())
}
