//! Property tests of the decisions in holm-core, as users of the crate see them.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like tests")]

mod clone_url;
mod concern;
mod egress;
mod image_reference;
mod moves;
mod names;
mod placeholder;
mod plan;
mod policy;
mod service;
mod toolchain;
