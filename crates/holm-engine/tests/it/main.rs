//! The engine with a real SQLite file and a driver in memory whose every action can be made to
//! fail, or to hang until the daemon "dies".

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails by panicking"
)]

mod command;
mod conformance;
mod crash;
mod create;
mod data;
mod fake_keeper;
mod idle;
mod layers;
mod lifecycle;
mod projects;
mod reports;
mod service;
mod trash;
mod unsaved;
mod world;
