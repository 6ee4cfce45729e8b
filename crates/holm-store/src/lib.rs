//! holm's state: [`SqliteStore`] and [`PostgresStore`] implement the engine's [`Store`](holm_engine::Store).
//!
//! Invariants: every write is one `BEGIN IMMEDIATE` transaction; an unknown stored value is an
//! error, never a default; a store of a newer holm is not changed. All SQL is SQLite's: with PostgreSQL, a daemon has a copy
//! of the database in a file, and the rows that a transaction changes are written to PostgreSQL before it ends.

mod access;
mod changes;
mod clock;
mod database;
mod error;
mod events;
mod inbox;
mod journal;
mod keys;
mod ports;
mod postgres;
mod projects;
mod review;
mod rows;
mod runs;
mod schema;
mod specs;
mod store;
mod tables;
mod transfer;
mod workspaces;

pub use postgres::Server;
pub use store::{PostgresStore, SqliteStore};
pub use tables::Content;
pub use transfer::{Place, backup, copy, restore};
