//! Shared by all tests: an [`Island`] of its own, git repositories in it, and running holm in it.

mod api;
mod browser;
mod census;
mod door;
mod elsewhere;
mod follow;
mod image;
mod island;
#[allow(dead_code, reason = "the tests of holm-image use all of it")]
#[path = "../../../../holm-image/tests/it/support.rs"]
mod packed;
mod place;
mod port;
mod probe;
mod ran;
#[allow(dead_code, reason = "the tests of holm-image use all of it")]
#[path = "../../../../holm-image/tests/it/server.rs"]
mod registry;
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
pub use follow::follow;
pub use image::TestImage;
pub use island::Island;
pub use packed::{Image, MANIFEST, Tar, image, index};
pub use place::Place;
pub use port::{background, fetch, free_port, host_port, port_of, take};
pub use probe::Attempts;
pub use ran::Ran;
pub use registry::Registry;
pub use repository::Repository;
pub use running::{Running, send};
pub use skip::skipped;
pub use terminal::{Act, play};
pub use toolchain::Toolchain;
pub use user::{ids, is_root, program};
pub use world::World;

use std::time::{Duration, Instant};

/// Waits for a condition, with a limit; `what` names it when it does not come true.
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    eventually_within(Duration::from_secs(60), || what.to_owned(), condition);
}

/// The same with another limit; `what` is called when the condition did not come true.
#[track_caller]
pub fn eventually_within(
    limit: Duration,
    what: impl Fn() -> String,
    mut condition: impl FnMut() -> bool,
) {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(5);
    while !condition() {
        let is_in_time = Instant::now() < deadline;
        assert!(is_in_time, "it did not come true: {}", what());
        // Not a guess about time: the condition decides. Many conditions start a program, and the longer
        // one takes to come true, the more of the machine these would take from what it waits for.
        std::thread::park_timeout(pause);
        pause = (pause * 2).min(Duration::from_millis(80));
    }
}

/// How often a test does something: `often` in CI, `very_often` in `make soak`, which looks for what is rare.
pub fn times<T>(often: T, very_often: T) -> T {
    match std::env::var_os("HOLM_TEST_SOAK") {
        Some(_) => very_often,
        None => often,
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
