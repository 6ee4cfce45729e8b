//! Load, observe, decide, journal, apply, notify. Owns the traits [`Driver`] and [`Store`].

mod access;
mod admission;
mod bridge;
mod cancel;
mod capture;
mod captured;
pub mod clock;
mod command;
#[cfg(feature = "testing")]
pub mod conformance;
mod converge;
mod create;
mod data;
pub mod driver;
mod engine;
mod failpoint;
pub mod files;
mod gc;
mod idle;
pub mod inside;
mod layers;
mod live_runs;
mod locks;
mod moves;
mod notice;
mod once;
mod ports;
mod projects;
mod recover;
mod reload;
mod remove;
mod reports;
mod restore;
pub mod run;
mod runs;
pub mod service;
pub mod session;
mod settled;
mod setups;
mod siblings;
pub mod store;
pub mod switch;
mod trees;
mod unsaved;
mod uses;
mod view;
mod watching;
pub mod work;

pub use admission::Admission;
pub use bridge::try_blocking;
pub use command::Stopped;
pub use create::{Created, FailedSetup, NewWorkspace, Reuse};
pub use data::{Reset, WasReset};
pub use driver::{Driver, Drivers, Journaled, Progress};
pub use engine::{Bounds, Engine, MissingObjects};
pub use failpoint::is_without;
pub use gc::{Collect, Collected};
pub use idle::Swept;
pub use live_runs::RunProgress;
pub use moves::{Assign, Moved};
pub use notice::Notice;
pub use once::{Once, Turn};
pub use ports::Claiming;
pub use projects::{EarlierPlace, Repository, RuleChange};
pub use recover::Recovery;
pub use remove::Removal;
pub use restore::Restored;
pub use runs::{
    Begun, Credential, Existing, HomeFile, Instructions, MOST_CREDENTIAL, MOST_HOME_FILES, NewFile,
    NewRun, Provision,
};
pub use store::Store;
pub use view::View;
