//! holm-git with a real git, in its own directories and homes. As root and as an ordinary user.

// A test that cannot continue fails.
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
mod merge;
mod push;
mod refs;
mod seed;
