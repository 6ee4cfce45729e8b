//! Load, look, decide, journal, apply, tell. Owns the traits [`Driver`] and [`Store`].

mod admission;
mod bridge;
mod command;
mod converge;
mod create;
pub mod driver;
mod engine;
pub mod exec;
pub mod isolation;
mod locks;
mod projects;
mod recover;
mod remove;
pub mod spec;
pub mod store;
mod unsaved;

pub use admission::Admission;
pub use command::Stopped;
pub use create::{Created, NewWorkspace, Reuse};
pub use driver::{Driver, Journaled, Progress};
pub use engine::{Engine, MissingObjects, View};
pub use isolation::Isolation;
pub use projects::{EarlierPlace, Repository};
pub use recover::Recovery;
pub use remove::Removal;
pub use spec::WorkspaceSpec;
pub use store::Store;
