//! The data plane: everything that carries bytes between the host, the network and a workspace.
//!
//! The daemon uses it for inward traffic (previews, host ports, canonical ports, browsers), the
//! keeper for the gateway. It learns the workspaces and their ports from a [`Table`] that the
//! daemon fills, and reaches a workspace through [`Inside`]. It stores nothing.

mod byte_count;
mod dns;
pub mod forward;
pub mod front;
pub mod gateway;
pub mod outgoing;
pub mod post;
pub mod sever;
pub mod socks;
pub mod stream;
pub mod table;
pub mod tls;
pub mod traffic;
pub mod visit;
mod watched;

pub use forward::{Forward, Target};
pub use stream::Stream;
pub use table::{Inside, LiveWorkspace, Port, Source, Table};
pub use traffic::Traffic;
pub use visit::{Tallies, Visit};
