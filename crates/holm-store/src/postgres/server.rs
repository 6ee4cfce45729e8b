//! Which database, and how it is reached: the URL, the password and the CAs.

use super::password::{self, Wanted};
use super::tls::Verified;
use holm_core::store_place::{Encryption, PostgresUrl};
use holm_engine::store::StoreError;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// A database. It has no password in memory: each connection reads it.
#[derive(Clone)]
pub struct Server {
    pub url: PostgresUrl,
    /// A file with nothing but the password; `None`: the list of passwords.
    pub password_file: Option<PathBuf>,
    /// PostgreSQL's list of passwords, `~/.pgpass`.
    pub password_list: Option<PathBuf>,
    /// The machine's CAs (DER).
    pub authorities: fn() -> Vec<Vec<u8>>,
}

/// How long one attempt to connect may take.
pub(crate) const CONNECT: Duration = Duration::from_secs(2);

const PORT: u16 = 5432;

// === impl Server ===

impl Server {
    /// The settings of one connection, whose purpose shows in `pg_stat_activity`.
    pub(crate) fn config(&self, application: &str) -> Result<Config, StoreError> {
        let parsed = self.url.text.parse::<Config>();
        let mut config = parsed.map_err(|error| StoreError::Misconfigured {
            what: format!("`{self}` is not the URL of a database"),
            source: Some(error.into()),
        })?;
        config
            .application_name(application)
            .connect_timeout(CONNECT)
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(10))
            .ssl_mode(match self.url.encryption {
                Encryption::None => SslMode::Disable,
                Encryption::Verified { .. } => SslMode::Require,
            });
        if let Some(password) = self.password(&config)? {
            config.password(password);
        }
        Ok(config)
    }

    /// What encrypts the connection; `None`: nothing does.
    pub(crate) fn encryption(&self) -> Result<Option<Verified>, StoreError> {
        let failed = |what: String, source: Option<holm_core::Cause>| StoreError::Misconfigured {
            what,
            source,
        };
        let verified = match &self.url.encryption {
            Encryption::None => return Ok(None),
            Encryption::Verified { root: None } => Verified::by((self.authorities)()),
            Encryption::Verified { root: Some(root) } => {
                let pem = std::fs::read(root).map_err(|error| {
                    failed(
                        format!("cannot read `sslrootcert` {root}"),
                        Some(error.into()),
                    )
                })?;
                Verified::by_file(&pem)
            }
        };
        let verified = verified.map_err(|error| {
            failed(
                "TLS cannot be used for the database".to_owned(),
                Some(error.into()),
            )
        })?;
        Ok(Some(verified))
    }

    fn password(&self, config: &Config) -> Result<Option<String>, StoreError> {
        if let Some(file) = &self.password_file {
            return password::of_file(file).map(Some);
        }
        let Some(list) = &self.password_list else {
            return Ok(None);
        };
        let user = config.get_user().unwrap_or_default();
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.as_str(),
            // As PostgreSQL's own clients do for a socket.
            _ => "localhost",
        };
        let wanted = Wanted {
            host,
            port: config.get_ports().first().copied().unwrap_or(PORT),
            database: config.get_dbname().unwrap_or(user),
            user,
        };
        password::of_list(list, &wanted)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}
