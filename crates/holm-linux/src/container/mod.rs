//! Our own programs in the containers of an engine, which `holm-container` starts: the first process of a workspace
//! ([`init`]), its keeper ([`keeper`]), and the store, which works on the files of all workspaces ([`store`]).
//!
//! A workspace's container has no capability and sees only its own parts of the engine's volume. The keeper shares the
//! network namespace with it, and nothing else. It has the right to change that network and to look at the workspace's
//! processes.

mod connect;
mod guests;
pub mod init;
pub mod keeper;
mod relay;
pub mod store;
mod user;

pub use relay::main as relay;
