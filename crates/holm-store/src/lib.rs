//! holm's state in SQLite: [`SqliteStore`], the engine's [`Store`](holm_engine::Store) in a file.
//!
//! What must stay true: every write is one `BEGIN IMMEDIATE` transaction; a stored value that is
//! not understood is an error, never a default; a file of a newer holm is not changed.

mod access;
mod clock;
mod database;
mod error;
mod events;
mod journal;
mod keys;
mod ports;
mod projects;
mod rows;
mod runs;
mod schema;
mod sqlite;
mod workspaces;

pub use sqlite::SqliteStore;
