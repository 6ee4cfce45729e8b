//! Where the state of a daemon is: an SQLite file, or a PostgreSQL database named by a URL.
//!
//! Used by the settings and by `holm store`. A URL never contains a password: it appears in settings, in errors and in
//! the list of processes.

use std::fmt;
use std::net::IpAddr;

/// A store, as `holm store copy` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorePlace {
    /// The path of an SQLite file.
    File(String),
    Postgres(PostgresUrl),
}

/// `postgres://user@host:port/name`, without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresUrl {
    /// For the driver: without the parameters that this type understands itself.
    pub text: String,
    /// For people: without parameters, except for the path of a socket.
    shown: String,
    pub encryption: Encryption,
}

/// How the connection to a database is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    None,
    /// TLS; the server's certificate and its name are verified.
    Verified {
        /// A file with the CAs (PEM) to verify by; `None`: those of the machine.
        root: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStore {
    #[error("it must begin with `postgres://` or `sqlite:`")]
    Scheme,
    #[error("it must begin with `postgres://`")]
    NotPostgres,
    #[error("it names no file: `sqlite:/srv/holm.db`")]
    NoFile,
    #[error("it has a blank, a control character or a `#`")]
    Form,
    #[error(
        "it has a password; `store_password_file` or a password file (~/.pgpass) keeps it secret"
    )]
    Password,
    #[error(
        "it names no host: `postgres://user@host:5432/name`, or `?host=/run/postgresql` for a socket"
    )]
    NoHost,
    #[error("it names no database: `postgres://user@host:5432/name`")]
    NoName,
    #[error("`sslmode` is one of disable, require, verify-ca, verify-full")]
    Mode,
    #[error("`sslrootcert` is the absolute path of a file, and the connection has to be encrypted")]
    Root,
    #[error("`{0}` is not a known parameter")]
    Unknown(String),
}

/// Parameters that the driver understands.
const PASSED: [&str; 8] = [
    "host",
    "hostaddr",
    "port",
    "user",
    "dbname",
    "connect_timeout",
    "target_session_attrs",
    "options",
];

// === impl StorePlace ===

impl StorePlace {
    pub fn parse(text: &str) -> Result<Self, InvalidStore> {
        match text.strip_prefix("sqlite:") {
            Some("") => Err(InvalidStore::NoFile),
            Some(path) => Ok(StorePlace::File(path.to_owned())),
            None => match PostgresUrl::parse(text) {
                Err(InvalidStore::NotPostgres) => Err(InvalidStore::Scheme),
                parsed => parsed.map(StorePlace::Postgres),
            },
        }
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorePlace::File(path) => f.write_str(path),
            StorePlace::Postgres(url) => url.fmt(f),
        }
    }
}

// === impl PostgresUrl ===

impl PostgresUrl {
    pub fn parse(text: &str) -> Result<Self, InvalidStore> {
        let rest = text
            .strip_prefix("postgres://")
            .or_else(|| text.strip_prefix("postgresql://"))
            .ok_or(InvalidStore::NotPostgres)?;
        let is_plain = |c: char| c.is_ascii_graphic() && c != '#';
        if !rest.chars().all(is_plain) {
            return Err(InvalidStore::Form);
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, name) = place.split_once('/').unwrap_or((place, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => return Err(InvalidStore::Password),
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let parameters = Parameters::parse(query)?;
        let named = parameters.passed("host").or(parameters.passed("hostaddr"));
        let elsewhere = hosts.is_empty();
        let hosts = if elsewhere {
            named.ok_or(InvalidStore::NoHost)?
        } else {
            hosts
        };
        if name.is_empty() && parameters.passed("dbname").is_none() {
            return Err(InvalidStore::NoName);
        }
        let is_local = hosts.split(',').all(is_on_this_machine);
        let encryption = match (parameters.mode, is_local) {
            (Some("disable"), _) => Encryption::None,
            (None, true) if parameters.root.is_none() => Encryption::None,
            (Some("require" | "verify-ca" | "verify-full") | None, _) => Encryption::Verified {
                root: parameters.root.map(str::to_owned),
            },
            (Some(_), _) => return Err(InvalidStore::Mode),
        };
        if encryption == Encryption::None && parameters.root.is_some() {
            return Err(InvalidStore::Root);
        }
        let pairs: Vec<String> = parameters
            .passed
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let user = user.map(|user| format!("{user}@")).unwrap_or_default();
        let query = if pairs.is_empty() { "" } else { "?" };
        Ok(Self {
            text: format!("postgres://{place}{query}{}", pairs.join("&")),
            shown: if elsewhere {
                format!("postgres://{user}/{name}?host={hosts}")
            } else {
                format!("postgres://{user}{hosts}/{name}")
            },
            encryption,
        })
    }
}

/// Without parameters.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The query of a URL.
#[derive(Default)]
struct Parameters<'a> {
    mode: Option<&'a str>,
    root: Option<&'a str>,
    passed: Vec<(&'a str, &'a str)>,
}

// === impl Parameters ===

impl<'a> Parameters<'a> {
    fn parse(query: &'a str) -> Result<Self, InvalidStore> {
        let mut parameters = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("password", _) => return Err(InvalidStore::Password),
                ("sslmode", mode) => parameters.mode = Some(mode),
                ("sslrootcert", root) if root.starts_with('/') && !root.contains('%') => {
                    parameters.root = Some(root);
                }
                ("sslrootcert", _) => return Err(InvalidStore::Root),
                (key, value) if PASSED.contains(&key) => parameters.passed.push((key, value)),
                (key, _) => return Err(InvalidStore::Unknown(key.to_owned())),
            }
        }
        Ok(parameters)
    }

    fn passed(&self, key: &str) -> Option<&'a str> {
        let found = self.passed.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| *value)
    }
}

/// Whether a host of a URL is a Unix socket or a loopback address. Nothing else reads such a connection.
fn is_on_this_machine(host: &str) -> bool {
    if host.starts_with('/')
        || host
            .get(..3)
            .is_some_and(|start| start.eq_ignore_ascii_case("%2f"))
    {
        return true;
    }
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost"
        || name
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERIFIED: Encryption = Encryption::Verified { root: None };

    fn url(text: &str) -> PostgresUrl {
        PostgresUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_remote_server_is_verified_unless_the_url_says_otherwise() {
        let check =
            |text: &str, expect: Encryption| assert_eq!(url(text).encryption, expect, "{text}");
        check("postgres://me@db.example.org/holm", VERIFIED);
        check(
            "postgresql://db.example.org:5433/holm?sslmode=require",
            VERIFIED,
        );
        check(
            "postgres://db.example.org/holm?sslmode=verify-full",
            VERIFIED,
        );
        check(
            "postgres://db.example.org/holm?sslmode=disable",
            Encryption::None,
        );
        check("postgres://127.0.0.1:5432/holm", Encryption::None);
        check("postgres://me@[::1]:5432/holm", Encryption::None);
        check("postgres://localhost/holm", Encryption::None);
        check("postgres://me@%2Frun%2Fpostgresql/holm", Encryption::None);
        check("postgres:///holm?host=/run/postgresql", Encryption::None);
        // One host elsewhere is enough.
        check("postgres://127.0.0.1,db.example.org/holm", VERIFIED);
        check("postgres://127.0.0.1.example.org/holm", VERIFIED);
        check("postgres://localhost/holm?sslmode=require", VERIFIED);
        let root = Some("/etc/db.pem".to_owned());
        let expect = Encryption::Verified { root };
        check("postgres://127.0.0.1/holm?sslrootcert=/etc/db.pem", expect);
    }

    #[test]
    fn the_driver_gets_only_what_it_understands_and_people_see_no_parameters() {
        let text = "postgres://me@db.example.org:5433/holm?sslmode=require&connect_timeout=3&sslrootcert=/a";
        let url = url(text);
        let expect = "postgres://me@db.example.org:5433/holm?connect_timeout=3";
        assert_eq!(url.text, expect);
        assert_eq!(url.to_string(), "postgres://me@db.example.org:5433/holm");
        let socket = PostgresUrl::parse("postgres:///holm?host=/run/postgresql").unwrap();
        assert_eq!(socket.to_string(), "postgres:///holm?host=/run/postgresql");
        let file = StorePlace::parse("sqlite:/srv/holm.db");
        assert_eq!(file, Ok(StorePlace::File("/srv/holm.db".to_owned())));
    }

    #[test]
    fn wrong_urls_are_refused() {
        let check = |text: &str, expect: InvalidStore| {
            assert_eq!(StorePlace::parse(text), Err(expect), "{text}");
        };
        check("mysql://db/holm", InvalidStore::Scheme);
        check("sqlite:", InvalidStore::NoFile);
        check("postgres://me:hidden@db/holm", InvalidStore::Password);
        check(
            "postgres://me@db/holm?password=hidden",
            InvalidStore::Password,
        );
        check("postgres:///holm", InvalidStore::NoHost);
        check("postgres://db", InvalidStore::NoName);
        check("postgres://db/", InvalidStore::NoName);
        check("postgres://db/a b", InvalidStore::Form);
        check("postgres://db/holm?sslmode=prefer", InvalidStore::Mode);
        check("postgres://db/holm?sslrootcert=own.pem", InvalidStore::Root);
        let plain = "postgres://db/holm?sslmode=disable&sslrootcert=/a";
        check(plain, InvalidStore::Root);
        check(
            "postgres://db/holm?x=1",
            InvalidStore::Unknown("x".to_owned()),
        );
    }
}
