//! Links a debug build at a fixed address, for the reason that `crates/holm/build.rs` gives.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, part: &str| env::var(name).is_ok_and(|value| value.contains(part));
    if is("PROFILE", "debug")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && !is("CARGO_CFG_TARGET_FEATURE", "crt-static")
    {
        println!("cargo:rustc-link-arg=-no-pie");
    }
    if is("CARGO_CFG_TARGET_FEATURE", "crt-static") && knows_packed_relocations() {
        println!("cargo:rustc-link-arg=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the C library adjusts addresses that are stored in their short form, which it does since 2.36. The list of
/// addresses is then a tenth as long, and each start of the program reads it.
fn knows_packed_relocations() -> bool {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let told = told.map_or_else(|_| Vec::new(), |output| output.stdout);
    let told = String::from_utf8_lossy(&told);
    let version = told
        .trim()
        .strip_prefix("glibc 2.")
        .and_then(|minor| minor.parse().ok());
    version.is_some_and(|minor: u32| minor >= 36)
}
