//! The data plane against real servers on loopback.

mod door;
mod front_hostile;
mod front_hosts;
mod front_passes;
mod front_protocols;
mod socks;
