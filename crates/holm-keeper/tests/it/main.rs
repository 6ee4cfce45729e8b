//! Tests of the keeper's protocol.

#![allow(clippy::unwrap_used)]

mod conformance;
mod plain;
mod plain_driver;
