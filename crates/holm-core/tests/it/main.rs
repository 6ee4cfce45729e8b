//! Property tests of the decisions in holm-core, as users of the crate see them.

mod names;
mod plan;
mod toolchain;
