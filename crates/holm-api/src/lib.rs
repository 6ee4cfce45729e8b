//! The HTTP API of holm under `/api/v1`.
//!
//! Domain types live in `holm-core`; this crate has their JSON shapes. The typed [`Client`] is the
//! only way by which the CLI and MCP reach the engine.

pub mod apply;
pub mod audit;
pub mod browser;
pub mod check;
pub mod client;
pub mod comment;
pub mod daemon;
pub mod dashboard;
pub mod disk;
pub mod egress;
pub mod error;
pub mod event;
pub mod exec;
pub mod files;
mod fitness;
pub mod health;
pub mod image;
pub mod inbox;
pub mod moves;
pub mod numbers;
pub mod port;
pub mod project;
pub mod reload;
pub mod review;
pub mod route;
pub mod run;
pub mod secret;
pub mod service;
pub mod session;
pub mod token;
pub mod work;
pub mod workspace;

pub use client::Client;
pub use error::{ErrorBody, ErrorDetail};
pub use workspace::Workspace;

/// The header with which the daemon names the actor when it calls its own socket.
pub const ON_BEHALF_OF: &str = "x-holm-on-behalf-of";

/// The header with what a person typed for a workspace, where a route has [`TYPED`] in place of an
/// id. Only for the user at the socket. The answer has the workspace's id in the same header.
pub const WORKSPACE: &str = "x-holm-workspace";

/// Stands for an id in a route of a request with [`WORKSPACE`].
pub const TYPED: &str = "-";

/// The variable that tells a client of the daemon's own for which request of the daemon it works.
pub const ERRAND: &str = "HOLM_ERRAND";

/// The prefix of every route.
pub const PREFIX: &str = "/api/v1";
