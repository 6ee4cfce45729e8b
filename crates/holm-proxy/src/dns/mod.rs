//! The resolver of a workspace: only addresses are asked for, only allowed names are looked up, and
//! what is answered stands for the name ([`crate::gateway`] knows which).

pub mod message;
mod server;

pub use server::{serve_datagrams, serve_streams};
