//! Embeds the small program of keepers and inits (`holm-roles`) that `HOLM_ROLES_PROGRAM` names. Without that variable
//! the embedded file is empty, and `holm` plays their roles itself. `make build` and `make unit` set it.
//!
//! Links a debug build at a fixed address. It has more than 200,000 pointers that the dynamic linker would otherwise adjust
//! at each start, and tests start it thousands of times.

use std::path::PathBuf;
use std::{env, fs};

const PROGRAM: &str = "HOLM_ROLES_PROGRAM";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={PROGRAM}");
    let is = |name: &str, part: &str| env::var(name).is_ok_and(|value| value.contains(part));
    if is("PROFILE", "debug")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && !is("CARGO_CFG_TARGET_FEATURE", "crt-static")
    {
        println!("cargo:rustc-link-arg=-no-pie");
    }
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let embedded = PathBuf::from(out).join("holm-roles");
    let content = match env::var_os(PROGRAM).map(PathBuf::from) {
        None => Vec::new(),
        Some(program) => {
            println!("cargo:rerun-if-changed={}", program.display());
            let read = fs::read(&program);
            read.unwrap_or_else(|error| panic!("{PROGRAM}={}: {error}", program.display()))
        }
    };
    fs::write(&embedded, content).expect("cargo's OUT_DIR can be written");
}
