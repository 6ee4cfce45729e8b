//! The Compose file of a repository. `holm up` runs it as it is, so the proposal names the file, and the programs that
//! it does not run. Databases of the file are those of these programs.

use super::COMPOSE;
use super::database_url::{Access, Kind};
use super::directory::Directory;
use super::proposal::{Composed, Part, Proposal, Sign};
use super::{Found, focus};
use crate::compose::{MountKind, Service as FromFile, Stack};
use crate::compose_services::Translated;
use crate::config;
use crate::container::{Attachment, Source};

/// A Compose file as `holm up` would read it.
#[derive(Clone, Debug, Default)]
pub struct Composition {
    /// Relative to the repository's root.
    pub file: String,
    /// Without values of the user.
    pub stack: Stack,
    pub translated: Translated,
    /// Files that git ignores and without which it cannot be read.
    pub included: Vec<String>,
    /// What it asks of the host, each with its place.
    pub requests: Vec<String>,
    /// Why `holm up` refuses it, each with its place.
    pub errors: Vec<String>,
    /// Services whose image is built by commands that load something, each with the reason.
    pub downloads: Vec<(String, String)>,
}

/// Directories below the root in which Compose files are looked for.
const PLACES: [&str; 4] = ["docker", ".devcontainer", "infra", "deploy"];

/// Servers that show files and run no program of the repository.
const SHOW_FILES: [&str; 6] = ["nginx", "httpd", "caddy", "traefik", "haproxy", "envoy"];

/// The compose file to read: of the directory, else of the root, else of the usual subdirectories.
pub fn file(found: &Found) -> Option<String> {
    let root = Directory::root(found);
    let focus = focus(root, &found.current);
    let below = PLACES.into_iter().filter_map(|name| root.below(name));
    let above = focus.into_iter().flat_map(Directory::and_above);
    let mut places = above.chain([root]).chain(below);
    places.find_map(|place| Some(place.path(place.first(&COMPOSE)?)))
}

/// Adds the file to the proposal, and takes away what it runs already.
pub fn add(composition: &Composition, parts: &mut [Part], proposal: &mut Proposal) {
    let Composition { file, errors, .. } = composition;
    proposal.looks_like.push(Sign {
        kind: "Compose",
        file: file.clone(),
    });
    let mut composed = Composed {
        file: file.clone(),
        requests: composition.requests.clone(),
        errors: errors.clone(),
        ..Composed::default()
    };
    if errors.is_empty() {
        composed.included.clone_from(&composition.included);
        composed.downloads.clone_from(&composition.downloads);
        let services = composition.translated.services.iter();
        composed.databases = services
            .clone()
            .filter_map(|(name, service)| access(name.as_str(), service, &composition.stack))
            .collect();
        composed.forked = services
            .clone()
            .filter_map(|(name, service)| {
                Some((data_volume(service, &composition.stack)?, name.to_string()))
            })
            .collect();
        composed.services = services.map(|(name, _)| name.to_string()).collect();
        let ports = composition.translated.ports.iter();
        composed.ports = ports
            .map(|(name, port)| (port.port.get(), name.to_string()))
            .collect();
    }
    proposal.compose = Some(composed);
    if errors.is_empty() {
        leave_out(composition, parts, proposal);
    }
}

/// Removes the programs that services of the file run, and the set-up if no other program is left.
fn leave_out(composition: &Composition, parts: &mut [Part], proposal: &mut Proposal) {
    let all = |parts: &[Part]| parts.iter().map(|part| part.programs.len()).sum::<usize>();
    let before = all(parts);
    let mut running: Vec<(&str, [Option<String>; 2])> = Vec::new();
    for (name, service) in &composition.stack.services {
        if let Some(places) = places(service) {
            running.push((name, places));
        }
    }
    let is_at = |parts: &[Part], place: &String| {
        let mut programs = parts.iter().flat_map(|part| &part.programs);
        programs.any(|program| program.at == *place)
    };
    let only = running.len() == 1 && before == 1;
    for (name, places) in running {
        let place = places.into_iter().flatten();
        let place = { place }.find(|place| is_at(parts, place));
        for part in parts.iter_mut() {
            part.programs.retain(|program| {
                let is_same = program.name == name || place.as_ref() == Some(&program.at);
                !is_same && !only
            });
        }
    }
    if before > 0 && all(parts) == 0 && !proposal.setup.is_empty() {
        let commands = proposal.setup.drain(..).map(|step| step.command);
        let commands: Vec<String> = commands.collect();
        let (file, commands) = (&composition.file, commands.join(" && "));
        let remark = format!("{file} runs the program, so `setup` was left out: {commands}");
        proposal.remarks.push(remark);
        proposal.setup_inputs.clear();
    }
}

/// Where the program of a service may be, likelier places first. `None`: it runs none of the repository.
fn places(service: &FromFile) -> Option<[Option<String>; 2]> {
    let words = service.command.iter().flatten();
    let words: Vec<&str> = words.map(String::as_str).collect();
    // A container that programs are started in by hand.
    let waits = ["sleep", "tail", "/bin/sleep"]
        .iter()
        .any(|it| words.first() == Some(it));
    if waits || kind(service).is_some() {
        return None;
    }
    let plain = |path: &str| path.trim_start_matches("./").trim_matches('/').to_owned();
    let root = |path: String| if path == "." { String::new() } else { path };
    if let Some(build) = &service.build {
        let context = root(plain(&build.context));
        let below = build
            .dockerfile
            .as_deref()
            .and_then(|file| file.rsplit_once('/'));
        let dockerfile = below.map(|(directory, _)| match context.as_str() {
            "" => plain(directory),
            context => format!("{context}/{}", plain(directory)),
        });
        return Some([dockerfile, Some(context)]);
    }
    let image = service.image.as_deref().map(base_name);
    let shows = image.is_some_and(|image| SHOW_FILES.contains(&image));
    if shows || (service.command.is_none() && service.working_dir.is_none()) {
        return None;
    }
    let mut bound = service.volumes.iter();
    let bound = bound.find(|mount| mount.kind == MountKind::Bind)?;
    Some([bound.source.as_deref().map(|path| root(plain(path))), None])
}

/// The last part of an image's name: `postgres` of `docker.io/library/postgres:16`.
fn base_name(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or(image);
    let name = name.rsplit('/').next().unwrap_or(name);
    name.split(':').next().unwrap_or(name)
}

/// The kind of database that a service is.
fn kind(service: &FromFile) -> Option<Kind> {
    Some(match base_name(service.image.as_deref()?) {
        "postgres" | "postgresql" | "postgis" | "pgvector" | "timescaledb" => Kind::Postgres,
        "mysql" | "mariadb" | "percona" => Kind::Mysql,
        "redis" | "valkey" | "redis-stack" | "redis-stack-server" => Kind::Redis,
        "mongo" | "mongodb" => Kind::Mongo,
        _ => return None,
    })
}

/// How programs of the workspace reach a service that is a database.
fn access(name: &str, service: &config::Service, stack: &Stack) -> Option<(String, Access)> {
    let container = service.image.as_ref()?.container.as_ref()?;
    let from_file = stack.services.get(&container.name)?;
    let kind = kind(from_file)?;
    let own = match &container.network {
        Attachment::Own(own) => Some(own),
        Attachment::Workspace => None,
        Attachment::Nothing | Attachment::Of(_) => return None,
    };
    let published = own.into_iter().flat_map(|own| &own.published);
    let published = { published }.find(|port| port.target == kind.port());
    let (host, port) = match (published, own) {
        (Some(published), _) => (Access::LOCAL.to_owned(), published.port),
        (None, Some(_)) => (name.to_owned(), kind.port()),
        (None, None) => (Access::LOCAL.to_owned(), kind.port()),
    };
    let value = |names: &[&str]| {
        let mut names = names.iter();
        names.find_map(|name| from_file.environment.get(*name)?.clone())
    };
    let (user, password, database) = match kind {
        Kind::Postgres => {
            let user = value(&["POSTGRES_USER"]).unwrap_or_else(|| "postgres".to_owned());
            let database = value(&["POSTGRES_DB"]).unwrap_or_else(|| user.clone());
            (Some(user), value(&["POSTGRES_PASSWORD"]), Some(database))
        }
        Kind::Mysql => {
            let user = value(&["MYSQL_USER", "MARIADB_USER"]);
            let password = match user {
                Some(_) => value(&["MYSQL_PASSWORD", "MARIADB_PASSWORD"]),
                None => value(&["MYSQL_ROOT_PASSWORD", "MARIADB_ROOT_PASSWORD"]),
            };
            let database = value(&["MYSQL_DATABASE", "MARIADB_DATABASE"]);
            (user.or_else(|| Some("root".to_owned())), password, database)
        }
        Kind::Redis => (None, after(from_file, "--requirepass"), None),
        Kind::Mongo => (
            value(&["MONGO_INITDB_ROOT_USERNAME"]),
            value(&["MONGO_INITDB_ROOT_PASSWORD"]),
            value(&["MONGO_INITDB_DATABASE"]),
        ),
    };
    let access = Access {
        kind,
        host,
        port,
        user,
        password,
        database,
    };
    Some((name.to_owned(), access))
}

/// The volume with the data of a database.
fn data_volume(service: &config::Service, stack: &Stack) -> Option<String> {
    let container = service.image.as_ref()?.container.as_ref()?;
    // A new Redis has no data.
    kind(stack.services.get(&container.name)?).filter(|kind| *kind != Kind::Redis)?;
    container
        .mounts
        .iter()
        .find_map(|mount| match &mount.source {
            Source::Volume { name, .. } if !mount.read_only => Some(name.clone()),
            _ => None,
        })
}

/// The word after an option of the command.
fn after(service: &FromFile, option: &str) -> Option<String> {
    let mut words = service.command.iter().flatten();
    words.find(|word| *word == option)?;
    words.next().cloned()
}
