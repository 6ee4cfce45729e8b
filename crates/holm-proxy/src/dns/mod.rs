//! The DNS resolver of a workspace. It answers address questions for allowed names only, with
//! substitute addresses that [`crate::gateway`] maps back to the name.

pub mod message;
mod server;

pub use server::{serve_datagrams, serve_streams};
