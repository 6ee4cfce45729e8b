//! The data plane against real servers on loopback.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails by panicking"
)]

mod door;
mod front_hostile;
mod front_hosts;
mod front_passes;
mod front_protocols;
mod outgoing;
mod socks;
