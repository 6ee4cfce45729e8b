//! A PostgreSQL database that has the same rows as an SQLite file.
//!
//! One process at a time uses a database ([`session`] holds an advisory lock), so the file of that process is never out
//! of date: all SQL runs there, and PostgreSQL gets the rows that a transaction changed before the transaction ends in
//! the file ([`link`]). The schema and its migrations are those of SQLite.

mod link;
mod password;
mod server;
mod session;
mod tls;
mod value;

pub(crate) use link::{Link, Sent};
pub use server::Server;
pub(crate) use session::{Purpose, Session};

use tokio::runtime::{Builder, Runtime};

/// A runtime for the thread that calls it.
pub(crate) fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
