//! A Rust toolchain of the user, for tests that build something.

use super::Island;
use std::path::PathBuf;
use std::process::Command;

/// The Rust that builds this test, below the home of the island as rustup would put it there.
pub struct Toolchain {
    /// `None`: the system's own.
    place: Option<PathBuf>,
}

// === impl Toolchain ===

impl Toolchain {
    pub fn install(island: &Island) -> Self {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| env!("CARGO").to_owned());
        let cargo = PathBuf::from(cargo).canonicalize().unwrap();
        if cargo.starts_with("/usr") {
            return Self { place: None };
        }
        let toolchain = cargo.ancestors().nth(2).unwrap();
        let place = island.make_dir("home/.rustup/toolchains/test");
        island.make_dir(place.join("bin"));
        for part in ["bin/cargo", "bin/rustc", "lib"] {
            let copy = |how: &str| {
                let mut command = Command::new("cp");
                command
                    .arg(how)
                    .arg(toolchain.join(part))
                    .arg(place.join(part));
                command.output().unwrap().status.success()
            };
            // Links where it is the same disk. Elsewhere the attempt leaves empty directories.
            let copied = copy("-al") || {
                let _ = std::fs::remove_dir_all(place.join(part));
                copy("-a")
            };
            assert!(copied, "{part} of {}", toolchain.display());
        }
        Self { place: Some(place) }
    }

    pub fn path(&self) -> String {
        let system = "/usr/local/bin:/usr/bin:/bin";
        match &self.place {
            Some(place) => format!("{}/bin:{system}", place.display()),
            None => system.to_owned(),
        }
    }
}

impl Drop for Toolchain {
    fn drop(&mut self) {
        // Before the island goes, which opens up all files below it: these are links.
        if let Some(place) = &self.place {
            let _ = std::fs::remove_dir_all(place);
        }
    }
}
