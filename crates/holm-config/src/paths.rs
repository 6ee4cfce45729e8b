//! The paths of holm's files (settings, state, sockets), and the port override.
//!
//! Called once at the start of every command and of the daemon, so that both agree. A pure function
//! of the environment and one check of the disk, which are passed in. No path is ever below `/tmp`,
//! where another user could be first.

use holm_core::{Code, Fault};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The user's settings; need not exist.
    pub config_file: PathBuf,
    pub data_dir: PathBuf,
    /// Sockets. Created with mode 0700.
    pub run_dir: PathBuf,
    /// The front door's port from `HOLM_PORT`, which overrides the settings.
    pub port: Option<NonZeroU16>,
}

/// What determines the paths.
pub struct Surroundings<'a> {
    pub variables: &'a BTreeMap<String, String>,
    pub uid: u32,
    /// Whether a path is a directory that belongs to `uid`.
    pub is_own_directory: &'a dyn Fn(&Path) -> bool,
}

// === impl Paths ===

impl Paths {
    /// The paths of this process.
    pub fn of_process() -> Result<Self, Fault> {
        let uid = rustix::process::geteuid().as_raw();
        Self::decide(&Surroundings {
            variables: &process_variables(),
            uid,
            is_own_directory: &|path| is_directory_of(path, uid),
        })
    }

    pub fn decide(surroundings: &Surroundings<'_>) -> Result<Self, Fault> {
        let port = port_override(surroundings.variables)?;
        let moved = surroundings.variables.get("HOLM_HOME");
        if let Some(home) = moved.filter(|home| !home.is_empty()) {
            let home = PathBuf::from(home);
            if !home.is_absolute() {
                let message = format!("HOLM_HOME is `{}`, which is not absolute", home.display());
                let hint = "set it to a whole path: `export HOLM_HOME=\"$PWD/…\"`";
                return Err(Fault::new(Code::Usage, message, hint));
            }
            return Ok(Self {
                config_file: home.join("config/config.toml"),
                data_dir: home.join("data"),
                run_dir: home.join("run"),
                port,
            });
        }
        let config = surroundings.directory("XDG_CONFIG_HOME", ".config")?;
        let data_dir = surroundings
            .directory("XDG_DATA_HOME", ".local/share")?
            .join("holm");
        let run_dir = match surroundings.runtime_directory() {
            Some(runtime) => runtime.join("holm"),
            None => data_dir.join("run"),
        };
        Ok(Self {
            config_file: config.join("holm/config.toml"),
            data_dir,
            run_dir,
            port,
        })
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.run_dir.join("daemon.sock")
    }

    /// A daemon that was told to stop creates this file, and the next daemon removes it. A killed
    /// daemon does not create it.
    pub fn stopped(&self) -> PathBuf {
        self.run_dir.join("daemon.stopped")
    }
}

/// The environment. A variable that is not UTF-8 is ignored, like one that is not set.
pub fn process_variables() -> BTreeMap<String, String> {
    let texts = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.collect()
}

/// A wrong port is an error at once, not when the front door opens.
fn port_override(variables: &BTreeMap<String, String>) -> Result<Option<NonZeroU16>, Fault> {
    let Some(text) = variables.get("HOLM_PORT").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if plain => Ok(Some(port)),
        _ => {
            let message = format!(
                "HOLM_PORT is `{}`, which is not a port",
                text.escape_debug()
            );
            let hint = "set it to 1 to 65535, or remove it: `unset HOLM_PORT`";
            Err(Fault::new(Code::Usage, message, hint))
        }
    }
}

/// Whether `path` is a directory, not a symlink to one, that belongs to `uid`.
pub fn is_directory_of(path: &Path, uid: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    // The owner of a symlink could choose the target.
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == uid)
}

// === impl Surroundings ===

impl Surroundings<'_> {
    /// The absolute path in a variable. Others are ignored, as the XDG specification says.
    fn absolute(&self, variable: &str) -> Option<PathBuf> {
        let path = PathBuf::from(self.variables.get(variable)?);
        path.is_absolute().then_some(path)
    }

    fn directory(&self, variable: &str, below_home: &str) -> Result<PathBuf, Fault> {
        if let Some(path) = self.absolute(variable) {
            return Ok(path);
        }
        match self.absolute("HOME") {
            Some(home) => Ok(home.join(below_home)),
            None => Err(Fault::new(
                Code::Usage,
                "HOME is not set to an absolute path, so holm has no place for its files",
                "set HOME, or give holm a directory: `export HOLM_HOME=/path/to/directory`",
            )),
        }
    }

    fn runtime_directory(&self) -> Option<PathBuf> {
        let standard = PathBuf::from(format!("/run/user/{}", self.uid));
        self.absolute("XDG_RUNTIME_DIR")
            .or_else(|| (self.is_own_directory)(&standard).then_some(standard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: (&str, &str) = ("HOME", "/home/me");

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = pairs.iter();
        owned
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    fn decide(pairs: &[(&str, &str)], own: &[&str]) -> Result<[String; 3], Code> {
        let paths = Paths::decide(&Surroundings {
            variables: &variables(pairs),
            uid: 1000,
            is_own_directory: &|path| own.iter().any(|own| Path::new(own) == path),
        });
        let paths = paths.map_err(|fault| fault.code)?;
        Ok([paths.config_file, paths.data_dir, paths.run_dir]
            .map(|path| path.display().to_string()))
    }

    #[track_caller]
    fn check(pairs: &[(&str, &str)], own: &[&str], expect: [&str; 3]) {
        assert_eq!(decide(pairs, own), Ok(expect.map(str::to_owned)));
    }

    #[test]
    fn places_follow_the_environment() {
        let config = "/home/me/.config/holm/config.toml";
        let data = "/home/me/.local/share/holm";
        let run = "/home/me/.local/share/holm/run";
        check(&[ME], &[], [config, data, run]);
        check(
            &[ME],
            &["/run/user/1000"],
            [config, data, "/run/user/1000/holm"],
        );
        check(&[ME], &["/run/user/1001"], [config, data, run]);
        check(
            &[ME, ("XDG_RUNTIME_DIR", "/r")],
            &[],
            [config, data, "/r/holm"],
        );
        check(
            &[("XDG_CONFIG_HOME", "/c"), ("XDG_DATA_HOME", "/d")],
            &[],
            ["/c/holm/config.toml", "/d/holm", "/d/holm/run"],
        );
        // Relative and empty ones are ignored.
        let relative = [
            ME,
            ("XDG_CONFIG_HOME", "c"),
            ("XDG_DATA_HOME", ""),
            ("XDG_RUNTIME_DIR", "r"),
        ];
        check(&relative, &[], [config, data, run]);
        check(
            &[
                ME,
                ("HOLM_HOME", "/h"),
                ("XDG_RUNTIME_DIR", "/r"),
                ("XDG_DATA_HOME", "/d"),
            ],
            &["/run/user/1000"],
            ["/h/config/config.toml", "/h/data", "/h/run"],
        );
        check(&[ME, ("HOLM_HOME", "")], &[], [config, data, run]);
    }

    #[test]
    fn no_place_is_an_error_and_never_a_guess() {
        assert_eq!(decide(&[], &[]), Err(Code::Usage));
        assert_eq!(decide(&[("HOME", "")], &[]), Err(Code::Usage));
        assert_eq!(decide(&[("HOME", "me")], &[]), Err(Code::Usage));
        assert_eq!(decide(&[ME, ("HOLM_HOME", "here")], &[]), Err(Code::Usage));
        assert_eq!(decide(&[ME, ("HOLM_PORT", "x")], &[]), Err(Code::Usage));
    }

    #[test]
    fn ports() {
        let port = |text: &str| {
            let found = port_override(&variables(&[("HOLM_PORT", text)]));
            found
                .map(|port| port.map(NonZeroU16::get))
                .map_err(|fault| fault.code)
        };
        assert_eq!(port("7071"), Ok(Some(7071)));
        assert_eq!(port(""), Ok(None));
        for wrong in ["0", "65536", "-1", "+80", " 80", "http"] {
            assert_eq!(port(wrong), Err(Code::Usage), "{wrong}");
        }
        assert_eq!(port_override(&variables(&[])), Ok(None));
    }

    #[test]
    fn a_link_is_not_an_own_directory() {
        let directory = tempfile::tempdir().unwrap();
        let uid = rustix::process::getuid().as_raw();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        assert!(is_directory_of(directory.path(), uid));
        assert!(!is_directory_of(directory.path(), uid.wrapping_add(1)));
        assert!(!is_directory_of(&link, uid));
        assert!(!is_directory_of(&directory.path().join("absent"), uid));
    }
}
