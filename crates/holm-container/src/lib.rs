//! The driver of containers: a workspace is a container of a Docker or Podman engine, on this machine or another.
//!
//! The engine's API is all that this crate uses of the engine ([`engine`]). All files are in one volume there, and the *store*, a container
//! of holm's own program, works on them with the code of the Linux driver ([`store`]). When a workspace is to start, the
//! store answers with an order, and [`start`] has the engine make two containers: that of the keeper, and that of the
//! workspace.

mod ask;
mod driver;
mod engine;
mod guests;
mod image;
mod labels;
mod live;
mod mounts;
mod settings;
mod start;
mod storage;
mod store;
mod stream;
mod upload;
mod usage;

pub use driver::ContainerDriver;
pub use settings::{Parts, Settings};
