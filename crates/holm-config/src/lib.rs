//! Configuration files: `holm.toml` of a project, `config.toml` of the user, `policy.toml` of the machine, and the
//! files of a checkout that `holm init` reads ([`look`]). [`paths`] and [`daemon_user`] say where
//! holm's own files are.
//!
//! Called by the command line and the daemon. The files are described once, as data
//! ([`shape`]); that description checks what was written and is printed as the JSON schema.
//! Every error of a file is reported at once, with its place. Nothing here runs anything.

pub mod daemon_user;
mod errors;
pub mod look;
mod node;
pub mod paths;
pub mod policy;
mod policy_shape;
pub mod project;
mod project_shape;
mod references;
pub mod schema;
mod shape;
pub mod trust;
pub mod user;
mod user_shape;

#[cfg(test)]
mod reference_tests;
