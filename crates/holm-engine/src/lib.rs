//! Load, look, decide, journal, apply, tell. Owns the traits [`Driver`] and [`Store`].

mod admission;
mod bridge;
mod command;
mod converge;
mod create;
pub mod driver;
mod engine;
pub mod exec;
mod failpoint;
mod gc;
mod idle;
mod inside;
pub mod isolation;
mod locks;
mod projects;
mod recover;
mod remove;
mod restore;
pub mod service;
pub mod spec;
pub mod store;
mod unsaved;
pub mod work;

pub use admission::Admission;
pub use command::Stopped;
pub use create::{Created, NewWorkspace, Reuse};
pub use driver::{Driver, Journaled, Progress};
pub use engine::{Engine, MissingObjects, View};
pub use gc::{Collect, Collected, Gone};
pub use isolation::Isolation;
pub use projects::{EarlierPlace, Repository};
pub use recover::Recovery;
pub use remove::Removal;
pub use restore::Restored;
pub use spec::WorkspaceSpec;
pub use store::Store;
