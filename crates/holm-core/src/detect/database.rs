//! Installed database servers, for a need of the project that no Compose file fulfils.
//!
//! Each creates its files if they do not exist, under a temporary name until they are complete, so
//! an interrupted start begins again. Programs in the workspace may connect with any password, and
//! programs outside cannot connect at all, so no password has to be written down.

use super::database_url::{Access, Kind};
use super::needs::Need;
use super::proposal::Service;
use super::sample::is_plain;

struct Server {
    kind: Kind,
    /// Its names, if they are free.
    names: [&'static str; 2],
    /// The program that must be installed.
    program: &'static str,
    /// The user that is always there.
    user: Option<&'static str>,
    ready_log: Option<&'static str>,
    /// Writes its shell command.
    run: fn(&str, &Wish) -> String,
}

/// Plain words.
struct Wish {
    user: String,
    database: String,
}

const SERVERS: [Server; 3] = [
    Server {
        kind: Kind::Postgres,
        names: ["db", "postgres"],
        program: "postgres",
        user: Some("postgres"),
        // It accepts connections before it answers queries.
        ready_log: Some("database system is ready to accept connections"),
        run: postgres,
    },
    Server {
        kind: Kind::Redis,
        names: ["redis", "cache-db"],
        program: "redis-server",
        user: None,
        ready_log: None,
        run: redis,
    },
    Server {
        kind: Kind::Mysql,
        names: ["db", "mariadb"],
        program: "mariadbd",
        user: Some("root"),
        ready_log: None,
        run: mariadb,
    },
];

/// The database for a need of the project, or `None` when holm starts no server of its kind.
pub fn needed(need: &Need, is_taken: impl Fn(&str) -> bool) -> Option<Service> {
    let server = SERVERS.iter().find(|server| server.kind == need.kind)?;
    let mut names = server.names.into_iter();
    let name = names.find(|name| !is_taken(name));
    let name = name.unwrap_or(server.names[0]);
    let plain = |value: &Option<String>| value.clone().filter(|value| is_plain(value));
    let wish = Wish {
        user: plain(&need.user).unwrap_or_else(|| server.user.unwrap_or_default().to_owned()),
        database: plain(&need.database).unwrap_or_else(|| "app".to_owned()),
    };
    let mut remarks = vec![format!("Runs the installed `{}`.", server.program)];
    if server.user.is_some() {
        remarks.push("It takes any password: only this workspace can reach it.".to_owned());
    }
    let port = need.kind.port();
    Some(Service {
        name: name.to_owned(),
        run: (server.run)(name, &wish),
        port: Some((port, format!("{}'s default", need.kind.title()))),
        ready_log: server.ready_log,
        program: Some(server.program),
        access: Some(Access {
            kind: server.kind,
            host: Access::LOCAL.to_owned(),
            port,
            user: server.user.map(|_| wish.user),
            password: None,
            database: server.user.map(|_| wish.database),
        }),
        is_database: true,
        reason: need.reason.clone(),
        remarks,
        ..Service::default()
    })
}

fn postgres(name: &str, wish: &Wish) -> String {
    let Wish { user, database } = wish;
    let create = match database.as_str() {
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

fn redis(name: &str, _: &Wish) -> String {
    format!("mkdir -p ~/{name} && exec redis-server --bind 127.0.0.1 --port 6379 --dir ~/{name}")
}

fn mariadb(name: &str, wish: &Wish) -> String {
    let database = &wish.database;
    format!(
        "set -e
PATH=\"$PATH:/usr/sbin\"
if [ ! -d ~/{name}/data ]; then
    rm -rf ~/{name}/new
    mkdir -p ~/{name}
    mariadb-install-db --no-defaults --datadir=\"$HOME/{name}/new\" --skip-test-db
    mv ~/{name}/new ~/{name}/data
fi
echo 'CREATE DATABASE IF NOT EXISTS `{database}`;' > ~/{name}/begin.sql
exec mariadbd --no-defaults --datadir=\"$HOME/{name}/data\" --socket=/tmp/{name}.sock \\
    --bind-address=127.0.0.1 --port=3306 --skip-grant-tables --init-file=\"$HOME/{name}/begin.sql\"
"
    )
}
