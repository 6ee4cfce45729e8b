//! holm-git with a real git, in directories and homes of its own. As root and as anybody.

// A test that cannot go on fails.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod sandbox;
#[path = "../../../holm/tests/it/support/skip.rs"]
mod skip;

mod bare;
mod base;
mod clone;
mod dirty;
mod discover;
mod ignored;
mod link;
mod push;
mod refs;
mod seed;
