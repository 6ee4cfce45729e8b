//! The store's tests: what every store must do ([`conformance`]), and what a file of SQLite and what PostgreSQL adds.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails by panicking"
)]

mod access;
mod cluster;
mod conformance;
mod inbox;
mod postgres;
mod records;
mod review;
mod runs;
mod schema_1;
mod sqlite;
mod transfer;
