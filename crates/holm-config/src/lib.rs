//! Configuration files: `holm.toml` of a project, `config.toml` of the user, `policy.toml` of the
//! machine.
//!
//! Called by the command line and the daemon. The files are described once, as data ([`shape`]);
//! that description validates documents and is printed as the JSON schema. All errors of a file are
//! reported at once, with their positions. Nothing is executed.

pub mod compose;
pub mod daemon_user;
pub mod devcontainer;
mod digest;
mod errors;
pub mod known_agents;
pub mod look;
mod node;
pub mod paths;
pub mod policy;
mod policy_shape;
pub mod project;
mod project_shape;
mod references;
pub mod schema;
mod service_build;
mod shape;
pub mod trust;
pub mod user;
mod user_shape;
mod variables;

#[cfg(test)]
mod reference_tests;
