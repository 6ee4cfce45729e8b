//! The data plane: everything that carries bytes between the host, the network and a workspace.
//!
//! The daemon uses it for what leads inward (previews, host ports, canonical ports, browsers), the
//! keeper for the gateway. It knows what leads where from a [`Table`] that others fill, and reaches
//! a workspace through [`Inside`]; it stores nothing.

mod counted;
mod dns;
pub mod forward;
pub mod front;
pub mod gateway;
pub mod sever;
pub mod socks;
pub mod table;
pub mod traffic;
pub mod visit;

pub use forward::{Forward, Target};
pub use table::{Inside, Island, Port, Source, Table};
pub use traffic::Traffic;
pub use visit::{Tallies, Visit};
