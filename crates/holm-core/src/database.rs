//! Guesses which services of a workspace are databases, from their programs and ports. Called by
//! the keeper for `holm here`.
//!
//! The result is marked as a guess: the command is the project's text, and the server is not asked.
//! Users, passwords and database names are not included.

/// A kind of database server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    MySql,
    Redis,
    MongoDb,
}

/// Why a service is taken for a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// Its command runs this program.
    Program(&'static str),
    /// It has the usual port of this kind.
    Port,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recognised {
    pub kind: Kind,
    pub port: u16,
    pub because: Because,
}

/// Server programs (not clients).
const PROGRAMS: [(&str, Kind); 11] = [
    ("postgres", Kind::Postgres),
    ("postmaster", Kind::Postgres),
    ("pg_ctl", Kind::Postgres),
    ("pg_ctlcluster", Kind::Postgres),
    ("mysqld", Kind::MySql),
    ("mysqld_safe", Kind::MySql),
    ("mariadbd", Kind::MySql),
    ("mariadbd-safe", Kind::MySql),
    ("redis-server", Kind::Redis),
    ("valkey-server", Kind::Redis),
    ("mongod", Kind::MongoDb),
];

const KINDS: [Kind; 4] = [Kind::Postgres, Kind::MySql, Kind::Redis, Kind::MongoDb];

/// Recognises a service by its shell command and its configured port.
pub fn of_service(run: &str, port: Option<u16>) -> Option<Recognised> {
    let program = words(run).find_map(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        PROGRAMS.iter().find(|(program, _)| *program == name)
    });
    match program {
        Some((program, kind)) => Some(Recognised {
            kind: *kind,
            port: port.unwrap_or(kind.usual_port()),
            because: Because::Program(program),
        }),
        None => of_port(port?),
    }
}

/// Recognises a port number.
pub fn of_port(port: u16) -> Option<Recognised> {
    let kind = KINDS.into_iter().find(|kind| kind.usual_port() == port)?;
    Some(Recognised {
        kind,
        port,
        because: Because::Port,
    })
}

/// The words of a shell command, ignoring quotes.
fn words(run: &str) -> impl Iterator<Item = &str> {
    let splits = |letter: char| letter.is_whitespace() || "\"'`;|&()<>$={}".contains(letter);
    run.split(splits).filter(|word| !word.is_empty())
}

// === impl Kind ===

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Postgres => "postgres",
            Kind::MySql => "mysql",
            Kind::Redis => "redis",
            Kind::MongoDb => "mongodb",
        }
    }

    pub fn usual_port(self) -> u16 {
        match self {
            Kind::Postgres => 5432,
            Kind::MySql => 3306,
            Kind::Redis => 6379,
            Kind::MongoDb => 27017,
        }
    }

    fn scheme(self) -> &'static str {
        match self {
            Kind::Postgres => "postgresql",
            other => other.as_str(),
        }
    }
}

// === impl Recognised ===

impl Recognised {
    /// The URL for programs inside.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.kind.scheme(), self.port)
    }

    pub fn reason(&self) -> String {
        match self.because {
            Because::Program(program) => format!("its command runs {program}"),
            Because::Port => format!("port {} is usual for {}", self.port, self.kind.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_by_their_programs() {
        let check = |run: &str, port: Option<u16>, expect: Option<&str>| {
            let found = of_service(run, port);
            let found = found.map(|found| format!("{} {}", found.url(), found.reason()));
            assert_eq!(found.as_deref(), expect, "{run}");
        };
        check(
            "exec /usr/lib/postgresql/15/bin/postgres -D /data/pg",
            Some(5433),
            Some("postgresql://127.0.0.1:5433 its command runs postgres"),
        );
        check(
            "test -d x || mkdir x; redis-server --dir x",
            None,
            Some("redis://127.0.0.1:6379 its command runs redis-server"),
        );
        check(
            "./scripts/db.sh",
            Some(3306),
            Some("mysql://127.0.0.1:3306 port 3306 is usual for mysql"),
        );
        // Not databases: a client, a word in a name, a web server.
        check("psql -c 'select 1'", None, None);
        check("npm run postgres-docs", Some(3000), None);
        check("", None, None);
    }
}
