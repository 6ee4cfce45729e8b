//! What every test needs: an [`Island`] of its own, git repositories in it, and holm run in it.

mod api;
mod browser;
mod census;
mod door;
mod elsewhere;
mod island;
mod place;
mod port;
mod probe;
mod ran;
mod remote;
mod repository;
mod running;
mod skip;
mod terminal;
mod toolchain;
mod user;
mod world;

pub use browser::{Chromium, FirefoxTab, Tab};
pub use census::{Census, Process, is_gone, keeper_below, state_of};
pub use door::{Door, JSON, Reply, UPGRADE, read_head};
pub use island::Island;
pub use place::Place;
pub use port::{background, fetch, free_port, host_port, port_of, take};
pub use probe::Attempts;
pub use ran::Ran;
pub use repository::Repository;
pub use running::{Running, send};
pub use skip::skipped;
pub use terminal::{Act, play};
pub use toolchain::Toolchain;
pub use user::{is_root, program};
pub use world::World;

use std::time::{Duration, Instant};

/// Waits for a condition, with a limit; `what` names it when it does not come true.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "it did not come true: {what}");
        std::thread::yield_now();
        // Not a guess about time: the condition decides, this only keeps the wait from being hot.
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Every byte value, in no order that compresses or aligns.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.resize_with(length, || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    });
    bytes
}
