//! holm's state in SQLite: [`SqliteStore`] implements the engine's [`Store`](holm_engine::Store).
//!
//! Invariants: every write is one `BEGIN IMMEDIATE` transaction; an unknown stored value is an
//! error, never a default; a file of a newer holm is not changed.

mod access;
mod clock;
mod database;
mod error;
mod events;
mod inbox;
mod journal;
mod keys;
mod ports;
mod projects;
mod review;
mod rows;
mod runs;
mod schema;
mod specs;
mod sqlite;
mod workspaces;

pub use sqlite::SqliteStore;
