//! Installed database servers, in place of the images of a compose file or for a need of the project.
//!
//! Each creates its files if they do not exist, under a temporary name until they are complete, so
//! an interrupted start begins again. Programs in the workspace may connect with any password, and
//! programs outside cannot connect at all, so no password has to be written down.

use super::compose_entry::Entry;
use super::database_url::{Access, Kind};
use super::environment::command_looks_secret;
use super::needs::Need;
use super::proposal::Service;
use super::sample::is_plain;

pub struct Server {
    kind: Kind,
    /// The name of the official image.
    image: &'static str,
    /// The program that must be installed.
    program: &'static str,
    port: u16,
    has_users: bool,
    ready_log: Option<&'static str>,
    /// Writes its shell command, and remarks about it.
    run: fn(&str, &Entry, &mut Vec<String>) -> String,
}

const SERVERS: [Server; 4] = [
    Server {
        kind: Kind::Postgres,
        image: "postgres",
        program: "postgres",
        port: 5432,
        has_users: true,
        // It accepts connections before it answers queries.
        ready_log: Some("database system is ready to accept connections"),
        run: postgres,
    },
    Server {
        kind: Kind::Redis,
        image: "redis",
        program: "redis-server",
        port: 6379,
        has_users: false,
        ready_log: None,
        run: redis,
    },
    Server {
        image: "mariadb",
        ..MYSQL
    },
    MYSQL,
];

const MYSQL: Server = Server {
    kind: Kind::Mysql,
    image: "mysql",
    program: "mariadbd",
    port: 3306,
    has_users: true,
    ready_log: None,
    run: mariadb,
};

// === impl Server ===

impl Server {
    fn of_kind(kind: Kind) -> Option<&'static Self> {
        SERVERS.iter().find(|server| server.kind == kind)
    }

    /// The server of an official image; other images may contain anything.
    pub fn of_image(image: &str) -> Option<&'static Self> {
        let name = image.split(['@', ':']).next()?;
        let name = name.strip_prefix("docker.io/").unwrap_or(name);
        let name = name.strip_prefix("library/").unwrap_or(name);
        SERVERS.iter().find(|server| server.image == name)
    }
}

/// The database for a service of a compose file.
pub fn database(server: &Server, name: &str, entry: &Entry, file: &str) -> Service {
    let mut remarks = vec![format!(
        "Runs the installed `{}` in place of the image `{}`.",
        server.program,
        entry.image.as_deref().unwrap_or_default()
    )];
    if server.has_users {
        remarks.push("It takes any password: only this workspace can reach it.".to_owned());
    }
    if server.image == MYSQL.image {
        remarks.push("MariaDB stands in for MySQL, which Debian does not have.".to_owned());
    }
    let mut service = served(server, name, entry, &mut remarks);
    note_rest(server, name, entry, file, &mut remarks);
    service.port = Some((server.port, port_reason(server, entry, file)));
    service.reason = format!("{file}: {}", entry.name);
    service.remarks = remarks;
    service
}

/// The database for a need of the project that no compose file fulfils, or `None` when holm starts no
/// server of its kind.
pub fn needed(need: &Need, taken: &[String]) -> Option<Service> {
    let server = Server::of_kind(need.kind)?;
    let names = match need.kind {
        Kind::Redis => ["redis", "cache-db"],
        _ => ["db", server.image],
    };
    let is_free = |name: &&str| !taken.iter().any(|it| it == *name);
    let name = names.into_iter().find(is_free).unwrap_or(names[0]);
    let mut entry = Entry::default();
    let (user, database) = match need.kind {
        Kind::Postgres => ("POSTGRES_USER", "POSTGRES_DB"),
        _ => ("MYSQL_USER", "MYSQL_DATABASE"),
    };
    let plain = |value: &Option<String>| value.clone().filter(|value| is_plain(value));
    let database_name = plain(&need.database).unwrap_or_else(|| "app".to_owned());
    if need.kind != Kind::Redis {
        entry.set(database, database_name);
        if let Some(name) = plain(&need.user) {
            entry.set(user, name);
        }
    }
    let mut remarks = vec![format!("Runs the installed `{}`.", server.program)];
    if server.has_users {
        remarks.push("It takes any password: only this workspace can reach it.".to_owned());
    }
    let mut service = served(server, name, &entry, &mut remarks);
    service.port = Some((server.port, format!("{}'s default", need.kind.title())));
    service.reason = need.reason.clone();
    service.remarks = remarks;
    Some(service)
}

fn served(server: &Server, name: &str, entry: &Entry, remarks: &mut Vec<String>) -> Service {
    let run = (server.run)(name, entry, remarks);
    let mut ignored = Vec::new();
    let mut value = |names: &[&str]| word(entry, names, &mut ignored).map(str::to_owned);
    let (user, database) = match server.kind {
        Kind::Postgres => {
            let user = value(&["POSTGRES_USER"]).unwrap_or_else(|| "postgres".to_owned());
            let database = value(&["POSTGRES_DB"]).unwrap_or_else(|| user.clone());
            (Some(user), Some(database))
        }
        Kind::Mysql => (
            Some(value(&["MARIADB_USER", "MYSQL_USER"]).unwrap_or_else(|| "root".to_owned())),
            value(&["MARIADB_DATABASE", "MYSQL_DATABASE"]),
        ),
        Kind::Redis | Kind::Mongo => (None, None),
    };
    Service {
        name: name.to_owned(),
        run,
        ready_log: server.ready_log,
        program: Some(server.program),
        access: Some(Access {
            kind: server.kind,
            user,
            port: server.port,
            database,
        }),
        is_database: true,
        ..Service::default()
    }
}

/// The port inside, and the port that Compose published.
fn port_reason(server: &Server, entry: &Entry, file: &str) -> String {
    let published = entry
        .ports
        .iter()
        .filter(|port| port.inside == server.port)
        .find_map(|port| port.published.as_deref())
        .filter(|published| *published != server.port.to_string());
    match published {
        Some(published) => format!("{file} shows it as {published} outside"),
        None => file.to_owned(),
    }
}

/// Remarks about what the image would have done and this database does not.
fn note_rest(server: &Server, name: &str, entry: &Entry, file: &str, remarks: &mut Vec<String>) {
    if entry.name != name {
        remarks.push(format!("It is called `{}` in {file}.", entry.name));
    }
    if let Some(command) = &entry.command {
        remarks.push(if command_looks_secret(command) {
            format!("{file} gives it arguments, which were not taken over.")
        } else {
            format!("{file} gives it arguments, which were not taken over: {command}")
        });
    }
    for path in &entry.first_start {
        remarks.push(format!(
            "The image would run {path} when the database is new; this does not."
        ));
    }
    if server.has_users && !entry.env_files.is_empty() {
        remarks.push(format!(
            "Settings in {} were not read: user and database may differ.",
            entry.env_files.join(", ")
        ));
    }
}

fn postgres(name: &str, entry: &Entry, remarks: &mut Vec<String>) -> String {
    let user = word(entry, &["POSTGRES_USER"], remarks).unwrap_or("postgres");
    let database = word(entry, &["POSTGRES_DB"], remarks).unwrap_or(user);
    let create = match database {
        "postgres" => String::new(),
        database => format!(
            "    echo 'CREATE DATABASE \"{database}\"' | postgres --single -D ~/{name}/new postgres\n"
        ),
    };
    format!(
        "set -e
for bin in /usr/lib/postgresql/*/bin; do PATH=\"$bin:$PATH\"; done
if [ ! -d ~/{name}/data ]; then
    rm -rf ~/{name}/new
    initdb -D ~/{name}/new -U {user} -E UTF8 --locale=C.UTF-8 --auth=trust
{create}    mv ~/{name}/new ~/{name}/data
fi
exec postgres -D ~/{name}/data -k /tmp -c listen_addresses=127.0.0.1
"
    )
}

fn redis(name: &str, _: &Entry, _: &mut Vec<String>) -> String {
    format!("mkdir -p ~/{name} && exec redis-server --bind 127.0.0.1 --port 6379 --dir ~/{name}")
}

fn mariadb(name: &str, entry: &Entry, remarks: &mut Vec<String>) -> String {
    let wish = word(entry, &["MARIADB_DATABASE", "MYSQL_DATABASE"], remarks);
    let (create, begin) = match wish {
        Some(database) => (
            format!("echo 'CREATE DATABASE IF NOT EXISTS `{database}`;' > ~/{name}/begin.sql\n"),
            format!(" --init-file=\"$HOME/{name}/begin.sql\""),
        ),
        None => (String::new(), String::new()),
    };
    format!(
        "set -e
PATH=\"$PATH:/usr/sbin\"
if [ ! -d ~/{name}/data ]; then
    rm -rf ~/{name}/new
    mkdir -p ~/{name}
    mariadb-install-db --no-defaults --datadir=\"$HOME/{name}/new\" --skip-test-db
    mv ~/{name}/new ~/{name}/data
fi
{create}exec mariadbd --no-defaults --datadir=\"$HOME/{name}/data\" --socket=/tmp/{name}.sock \\
    --bind-address=127.0.0.1 --port=3306 --skip-grant-tables{begin}
"
    )
}

/// The value of one of these variables, if it is a plain word.
fn word<'a>(entry: &'a Entry, names: &[&str], remarks: &mut Vec<String>) -> Option<&'a str> {
    let variable = entry
        .environment
        .iter()
        .find(|it| names.contains(&it.name.as_str()))?;
    let value = variable.value.as_deref().filter(|value| is_plain(value));
    if value.is_none() {
        remarks.push(format!(
            "{} has no plain value there; the image's default was taken.",
            variable.name
        ));
    }
    value
}
