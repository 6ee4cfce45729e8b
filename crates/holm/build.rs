//! Embeds two things that are built before: the small program of keepers and inits (`holm-roles`) that `HOLM_ROLES_PROGRAM`
//! names, and the files of the dashboard in the directory that `HOLM_PAGE` names. Without the first variable `holm` plays
//! these roles itself; without the second it has no dashboard. `make build` and `make unit` set both.
//!
//! Links a debug build at a fixed address. It has more than 200,000 pointers that the dynamic linker would otherwise adjust
//! at each start, and tests start it thousands of times.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const PROGRAM: &str = "HOLM_ROLES_PROGRAM";

const PAGE: &str = "HOLM_PAGE";

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
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let program = given(PROGRAM).map(|program| {
        let read = fs::read(&program);
        read.unwrap_or_else(|error| panic!("{PROGRAM}={}: {error}", program.display()))
    });
    let program = program.unwrap_or_default();
    let program = if is("PROFILE", "release") {
        compressed(&program)
    } else {
        program
    };
    fs::write(out.join("holm-roles"), program).expect("cargo's OUT_DIR can be written");
    let page = given(PAGE).map_or_else(Vec::new, |page| {
        let mut files = Vec::new();
        list(&page, Path::new(""), &mut files);
        files
    });
    fs::write(out.join("page.rs"), table(&page)).expect("cargo's OUT_DIR can be written");
}

/// The program is unpacked when a daemon starts for the first time, so a smaller file costs nothing later.
fn compressed(program: &[u8]) -> Vec<u8> {
    if program.is_empty() {
        return Vec::new();
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let packed = encoder.write_all(program).and_then(|()| encoder.finish());
    packed.expect("memory can be written")
}

/// What a variable names. Cargo runs this again when the variable or the file changes.
fn given(name: &str) -> Option<PathBuf> {
    println!("cargo:rerun-if-env-changed={name}");
    let path = PathBuf::from(env::var_os(name).filter(|value| !value.is_empty())?);
    println!("cargo:rerun-if-changed={}", path.display());
    Some(path)
}

/// The files below a directory, with their names below it.
fn list(root: &Path, below: &Path, files: &mut Vec<(String, PathBuf)>) {
    let directory = root.join(below);
    let entries = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{PAGE}: {}: {error}", directory.display()));
    for entry in entries.flatten() {
        let name = below.join(entry.file_name());
        if entry.path().is_dir() {
            list(root, &name, files);
        } else {
            files.push((name.display().to_string(), entry.path()));
        }
    }
    files.sort();
}

/// The source of the list of files. `x.br` is the compressed form of `x`.
fn table(files: &[(String, PathBuf)]) -> String {
    let find = |name: &str| files.iter().find(|(path, _)| path == name);
    let mut source = "pub static ASSETS: &[Asset] = &[\n".to_owned();
    let served = |name: &str| {
        [".html", ".js", ".css", ".svg", ".woff2"]
            .iter()
            .any(|end| name.ends_with(end))
    };
    for (name, path) in files.iter().filter(|(name, _)| served(name)) {
        let brotli = match find(&format!("{name}.br")) {
            Some((_, path)) => format!("Some(include_bytes!({path:?}))"),
            None => "None".to_owned(),
        };
        let _ = writeln!(
            source,
            "    Asset {{ path: {name:?}, plain: include_bytes!({path:?}), brotli: {brotli} }},"
        );
    }
    source + "];\n"
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
