//! Load, look, decide, journal, apply, tell. Owns the traits [`Driver`] and [`Store`].

pub mod driver;
pub mod exec;
pub mod isolation;
pub mod spec;

pub use driver::{Driver, Journaled, Progress};
pub use isolation::Isolation;
pub use spec::WorkspaceSpec;
