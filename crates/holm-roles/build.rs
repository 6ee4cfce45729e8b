//! Links a debug build at a fixed address, for the reason that `crates/holm/build.rs` gives.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, part: &str| env::var(name).is_ok_and(|value| value.contains(part));
    if is("PROFILE", "debug")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && !is("CARGO_CFG_TARGET_FEATURE", "crt-static")
    {
        println!("cargo:rustc-link-arg=-no-pie");
    }
}
