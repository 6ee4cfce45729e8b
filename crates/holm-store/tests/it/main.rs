//! The store's tests: what every store must do ([`conformance`]), and what an SQLite file adds.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails by panicking"
)]

mod access;
mod conformance;
mod inbox;
mod records;
mod review;
mod runs;
mod schema_1;
mod sqlite;
