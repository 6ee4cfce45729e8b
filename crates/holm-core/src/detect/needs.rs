//! Databases that a project needs, found in its dependencies and in the URLs of its example settings,
//! and the command that migrates them.
//!
//! A need becomes a database of the workspace, unless a compose file has one of the same kind. The
//! programs of the part get its URL, without a password.

use super::database_url::Kind;

/// Dependencies that need a database server, by the name in the manifest of their language.
const CLIENTS: [(&str, Kind); 34] = [
    // Node
    ("pg", Kind::Postgres),
    ("postgres", Kind::Postgres),
    ("@neondatabase/serverless", Kind::Postgres),
    ("mysql", Kind::Mysql),
    ("mysql2", Kind::Mysql),
    ("redis", Kind::Redis),
    ("ioredis", Kind::Redis),
    ("bullmq", Kind::Redis),
    ("bull", Kind::Redis),
    ("connect-redis", Kind::Redis),
    ("mongoose", Kind::Mongo),
    ("mongodb", Kind::Mongo),
    // Python
    ("psycopg", Kind::Postgres),
    ("psycopg2", Kind::Postgres),
    ("psycopg2-binary", Kind::Postgres),
    ("asyncpg", Kind::Postgres),
    ("pg8000", Kind::Postgres),
    ("mysqlclient", Kind::Mysql),
    ("pymysql", Kind::Mysql),
    ("aiomysql", Kind::Mysql),
    ("django-redis", Kind::Redis),
    ("pymongo", Kind::Mongo),
    ("motor", Kind::Mongo),
    // Ruby
    ("sidekiq", Kind::Redis),
    ("mongoid", Kind::Mongo),
    // Go, by the path of the module
    ("github.com/lib/pq", Kind::Postgres),
    ("github.com/jackc/pgx", Kind::Postgres),
    ("gorm.io/driver/postgres", Kind::Postgres),
    ("github.com/go-sql-driver/mysql", Kind::Mysql),
    ("gorm.io/driver/mysql", Kind::Mysql),
    ("github.com/redis/go-redis", Kind::Redis),
    ("github.com/gomodule/redigo", Kind::Redis),
    // Rust
    ("deadpool-postgres", Kind::Postgres),
    ("deadpool-redis", Kind::Redis),
];

/// A database that a part of the project uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub kind: Kind,
    /// The file that shows it.
    pub reason: String,
    /// Variables that programs read its URL from, with the URL that the example settings show.
    pub variables: Vec<(String, Option<String>)>,
    pub user: Option<String>,
    pub database: Option<String>,
    /// The packages that use it; empty: all of the part.
    pub users: Vec<String>,
}

/// A command that brings the database up to date before a program starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// As it is run in `at`.
    pub command: String,
    /// The directory, empty for the root.
    pub at: String,
    pub reason: String,
}

// === impl Need ===

impl Need {
    pub fn new(kind: Kind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            variables: Vec::new(),
            user: None,
            database: None,
            users: Vec::new(),
        }
    }

    /// Whether the program in the directory `at` uses it: a package without a program of its own is used by all.
    pub fn is_of(&self, at: &String, programs: &[String]) -> bool {
        let is_shared = |user: &String| !programs.contains(user);
        self.users.is_empty() || self.users.contains(at) || self.users.iter().any(is_shared)
    }
}

/// The needs that dependencies show.
pub fn of_dependencies<'a>(names: impl Iterator<Item = &'a str>, file: &str) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    for name in names {
        let fits = |client: &str| {
            // `github.com/jackc/pgx/v5` is a version of `github.com/jackc/pgx`.
            let rest = name.strip_prefix(client);
            rest.is_some_and(|rest| {
                rest.is_empty() || (client.contains('/') && rest.starts_with("/v"))
            })
        };
        let known = CLIENTS.iter().find(|(client, _)| fits(client));
        if let Some((client, kind)) = known {
            add(&mut needs, Need::new(*kind, format!("{file}: {client}")));
        }
    }
    needs
}

/// Adds a need, or what it knows to the need of the same kind.
pub fn add(needs: &mut Vec<Need>, need: Need) {
    let Some(known) = needs.iter_mut().find(|it| it.kind == need.kind) else {
        needs.push(need);
        return;
    };
    for (name, shown) in need.variables {
        match known.variables.iter_mut().find(|(it, _)| *it == name) {
            Some((_, known)) => *known = known.take().or(shown),
            None => known.variables.push((name, shown)),
        }
    }
    known.users.extend(need.users);
    known.user = known.user.take().or(need.user);
    known.database = known.database.take().or(need.database);
}
