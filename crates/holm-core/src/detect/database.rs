//! Installed database servers, in place of the images of a compose file or for a need of the project.
//!
//! Each creates its files if they do not exist, under a temporary name until they are complete, so
//! an interrupted start begins again. Programs in the workspace may connect with any password, and
//! programs outside cannot connect at all, so no password has to be written down.

use super::compose::Entry;
use super::environment::command_looks_secret;
use super::needs::Need;
use super::proposal::Service;
use super::sample::is_plain;

/// A kind of database, by the protocol that clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Mysql,
    Redis,
    /// holm starts no server for it.
    Mongo,
}

/// The parts of a database's URL. It has no password, because the servers take any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url<'a> {
    pub kind: Kind,
    /// With the driver: `postgresql+asyncpg`.
    scheme: &'a str,
    pub user: Option<&'a str>,
    pub database: Option<&'a str>,
    /// With its `?`.
    query: &'a str,
}

/// How clients inside reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub kind: Kind,
    user: Option<String>,
    port: u16,
    database: Option<String>,
}

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

// === impl Kind ===

impl Kind {
    pub fn title(self) -> &'static str {
        match self {
            Kind::Postgres => "PostgreSQL",
            Kind::Mysql => "MySQL",
            Kind::Redis => "Redis",
            Kind::Mongo => "MongoDB",
        }
    }

    /// The variable that programs usually read its URL from.
    pub fn variable(self) -> &'static str {
        match self {
            Kind::Redis => "REDIS_URL",
            Kind::Mongo => "MONGODB_URI",
            Kind::Postgres | Kind::Mysql => "DATABASE_URL",
        }
    }

    /// Variables of example settings with the name of the user.
    pub fn user_variables(self) -> &'static [&'static str] {
        match self {
            Kind::Postgres => &["POSTGRES_USER", "PGUSER", "DB_USER", "DATABASE_USER"],
            Kind::Mysql => &["MYSQL_USER", "DB_USER", "DATABASE_USER"],
            Kind::Redis | Kind::Mongo => &[],
        }
    }

    pub fn database_variables(self) -> &'static [&'static str] {
        match self {
            Kind::Postgres => &["POSTGRES_DB", "PGDATABASE", "DB_NAME", "DATABASE_NAME"],
            Kind::Mysql => &["MYSQL_DATABASE", "DB_NAME", "DATABASE_NAME"],
            Kind::Redis | Kind::Mongo => &[],
        }
    }

    /// The kind that a URL's scheme, a dialect or a provider names.
    pub fn named(word: &str) -> Option<Self> {
        let word = word.split('+').next().unwrap_or(word);
        Some(match word {
            "postgres" | "postgresql" | "postgis" | "pg" | "cockroachdb" => Kind::Postgres,
            "mysql" | "mysql2" | "mariadb" | "trilogy" => Kind::Mysql,
            "redis" | "rediss" => Kind::Redis,
            "mongodb" => Kind::Mongo,
            _ => return None,
        })
    }

    fn server(self) -> Option<&'static Server> {
        SERVERS.iter().find(|server| server.kind == self)
    }
}

// === impl Url ===

impl<'a> Url<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let kind = Kind::named(scheme)?;
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        let user = user.and_then(|user| user.split(':').next());
        Some(Self {
            kind,
            scheme,
            user: user.filter(|user| !user.is_empty()),
            database: Some(path).filter(|path| !path.is_empty()),
            query,
        })
    }
}

// === impl Access ===

impl Access {
    /// A URL with the scheme, the number of a Redis database and the query of another one.
    pub fn like(&self, shown: &str) -> String {
        let shown = Url::parse(shown).filter(|url| url.kind == self.kind);
        let scheme = shown.as_ref().map(|url| url.scheme);
        let scheme = scheme.filter(|scheme| {
            scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '+')
        });
        let scheme = scheme.unwrap_or(match self.kind {
            Kind::Postgres => "postgres",
            Kind::Mysql => "mysql",
            Kind::Redis => "redis",
            Kind::Mongo => "mongodb",
        });
        // A host that takes only TLS is not the one inside.
        let scheme = if scheme == "rediss" { "redis" } else { scheme };
        let number = shown.as_ref().and_then(|url| url.database);
        let number = number.filter(|it| self.kind == Kind::Redis && it.parse::<u8>().is_ok());
        let path = self.database.as_deref().or(number);
        let path = path.map_or(String::new(), |path| format!("/{path}"));
        let user = self
            .user
            .as_ref()
            .map_or(String::new(), |user| format!("{user}@"));
        // Such as Prisma's `?schema=public`. Options of TLS belong to another host.
        let query = shown.as_ref().map_or("", |url| url.query);
        let is_kept = !query.contains("ssl") && query.chars().all(|c| c.is_ascii_graphic());
        let query = if is_kept { query } else { "" };
        format!("{scheme}://{user}127.0.0.1:{}{path}{query}", self.port)
    }
}

// === impl Server ===

impl Server {
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
    let server = need.kind.server()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_keep_their_form_and_lose_their_password() {
        let access = |kind, user: Option<&str>, port, database: Option<&str>| Access {
            kind,
            user: user.map(str::to_owned),
            port,
            database: database.map(str::to_owned),
        };
        let postgres = access(Kind::Postgres, Some("shop"), 5432, Some("shop_dev"));
        let check = |access: &Access, shown: &str, expect: &str| {
            assert_eq!(access.like(shown), expect, "{shown}");
        };
        check(&postgres, "", "postgres://shop@127.0.0.1:5432/shop_dev");
        check(
            &postgres,
            "postgresql+asyncpg://a:b@db/x",
            "postgresql+asyncpg://shop@127.0.0.1:5432/shop_dev",
        );
        check(
            &postgres,
            "postgresql://a:b@localhost:5433/x?schema=public",
            "postgresql://shop@127.0.0.1:5432/shop_dev?schema=public",
        );
        check(
            &postgres,
            "postgres://a:b@db.example.org/x?sslmode=require",
            "postgres://shop@127.0.0.1:5432/shop_dev",
        );
        let redis = access(Kind::Redis, None, 6379, None);
        check(
            &redis,
            "rediss://:x@host:6380/2",
            "redis://127.0.0.1:6379/2",
        );
        check(&redis, "redis://host", "redis://127.0.0.1:6379");
        check(&redis, "postgres://host/2", "redis://127.0.0.1:6379");
    }

    #[test]
    fn parts_of_urls() {
        let url = Url::parse("postgres://user:p%40ss@db:5432/name?x=1").unwrap();
        assert_eq!(
            (url.user, url.database, url.query),
            (Some("user"), Some("name"), "?x=1")
        );
        let url = Url::parse("redis://cache").unwrap();
        assert_eq!((url.user, url.database, url.query), (None, None, ""));
        for other in ["http://x", "file:./dev.db", "", "://", "postgres:x"] {
            assert_eq!(Url::parse(other), None, "{other}");
        }
    }
}
