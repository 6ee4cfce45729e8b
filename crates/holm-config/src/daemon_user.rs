//! As which user the daemon runs, and where that user's files are.
//!
//! Called before anything touches the daemon. holm never runs as root: started by root, the daemon
//! runs as the user `holm`, and root's commands talk to that one.

use crate::paths::{Paths, Surroundings, is_directory_of, process_variables};
use crate::user::{self, UserConfig};
use holm_core::{Code, Fault};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Gid, Uid};
use std::collections::BTreeMap;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The user that root's daemon runs as.
const SERVICE_USER: &str = "holm";

/// The user that the daemon runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonUser {
    /// The user who typed the command.
    Caller,
    /// Root typed it, and the user `holm` runs it.
    Service(Account),
}

/// A line of `/etc/passwd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub uid: u32,
    pub gid: u32,
    pub home: PathBuf,
}

/// Variables of the environment, by name.
pub type Environment = BTreeMap<String, String>;

// === impl DaemonUser ===

impl DaemonUser {
    /// Decides by the effective user of this process.
    pub fn current() -> Result<Self, Fault> {
        if !rustix::process::geteuid().is_root() {
            return Ok(DaemonUser::Caller);
        }
        static SERVICE: OnceLock<Account> = OnceLock::new();
        if let Some(account) = SERVICE.get() {
            return Ok(DaemonUser::Service(account.clone()));
        }
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let account = service_account(&passwd)?;
        Ok(DaemonUser::Service(SERVICE.get_or_init(|| account).clone()))
    }

    /// The environment of the daemon, which determines its paths.
    pub fn environment(&self) -> Environment {
        match self {
            DaemonUser::Caller => process_variables(),
            DaemonUser::Service(account) => service_environment(&process_variables(), account),
        }
    }

    /// The socket of this user's daemon.
    pub fn socket(&self) -> Result<PathBuf, Fault> {
        Ok(self.paths()?.socket())
    }

    /// The paths of this user's daemon.
    pub fn paths(&self) -> Result<Paths, Fault> {
        match self {
            DaemonUser::Caller => Paths::of_process(),
            DaemonUser::Service(account) => Paths::decide(&Surroundings {
                variables: &self.environment(),
                uid: account.uid,
                is_own_directory: &|path| is_directory_of(path, account.uid),
            }),
        }
    }

    /// The home directory of the daemon's user.
    pub fn home(&self) -> Result<PathBuf, Fault> {
        match self {
            DaemonUser::Service(account) => Ok(account.home.clone()),
            DaemonUser::Caller => match std::env::var_os("HOME") {
                Some(home) if Path::new(&home).is_absolute() => Ok(PathBuf::from(home)),
                _ => Err(Fault::new(
                    Code::PathNotFound,
                    "cannot tell where your home directory is: HOME is not set",
                    "set HOME to an absolute path",
                )),
            },
        }
    }

    /// The settings of that user.
    pub fn settings(&self) -> Result<UserConfig, Fault> {
        user::load(&self.paths()?.config_file, &self.home()?)
    }

    /// Gives a new `HOLM_HOME` to the service user, so that its daemon can use it.
    pub fn prepare_home(&self) -> Result<(), Fault> {
        let DaemonUser::Service(account) = self else {
            return Ok(());
        };
        match std::env::var_os("HOLM_HOME") {
            Some(home) if !home.is_empty() => hand_over(Path::new(&home), account),
            _ => Ok(()),
        }
    }
}

fn service_account(passwd: &str) -> Result<Account, Fault> {
    let account = passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        match fields.as_slice() {
            [SERVICE_USER, _, uid, gid, _, home, ..] => Some(Account {
                uid: uid.parse().ok()?,
                gid: gid.parse().ok()?,
                home: PathBuf::from(home),
            }),
            _ => None,
        }
    });
    match account {
        Some(account) if account.uid == 0 => Err(Fault::new(
            Code::RootUser,
            "holm does not run as root, and the user `holm` is root",
            "give the user `holm` a uid of its own",
        )),
        Some(account) => Ok(account),
        None => Err(Fault::new(
            Code::RootUser,
            "holm does not run as root, and there is no user `holm` to run as",
            "make it with `useradd --create-home holm`, or run holm as an ordinary user",
        )),
    }
}

/// Root's environment, reduced for the service user: without root's own directories.
fn service_environment(own: &Environment, account: &Account) -> Environment {
    let kept = ["HOLM_HOME", "HOLM_PORT", "HOLM_LOG", "PATH", "LANG", "TZ"];
    let mut environment: Environment = kept
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), own.get(*name)?.clone())))
        .collect();
    let home = account.home.to_string_lossy().into_owned();
    environment.insert("HOME".to_owned(), home);
    environment.insert("USER".to_owned(), SERVICE_USER.to_owned());
    environment.insert("LOGNAME".to_owned(), SERVICE_USER.to_owned());
    environment
}

/// Creates `directory` for `account`, or takes it over when it belongs to root and is empty.
fn hand_over(directory: &Path, account: &Account) -> Result<(), Fault> {
    let failed = |error: std::io::Error| {
        Fault::new(
            Code::ReadOnly,
            format!(
                "cannot make {} a directory of the user `holm`",
                directory.display()
            ),
            "set HOLM_HOME to a directory that the user `holm` can write",
        )
        .because(error)
    };
    if !directory.exists() {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o755);
        builder.create(directory).map_err(failed)?;
    }
    // Opened without following a symlink and changed through its descriptor: exactly the checked
    // directory is handed over.
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
    let status = rustix::fs::fstat(&opened).map_err(|e| failed(e.into()))?;
    let is_empty = std::fs::read_dir(directory)
        .map_err(failed)?
        .next()
        .is_none();
    if status.st_uid == 0 && is_empty {
        let uid = Uid::from_raw(account.uid);
        let gid = Gid::from_raw(account.gid);
        rustix::fs::fchown(&opened, Some(uid), Some(gid)).map_err(|e| failed(e.into()))?;
        rustix::fs::fchmod(&opened, Mode::from_raw_mode(0o700)).map_err(|e| failed(e.into()))?;
    }
    Ok(())
}

/// Whether users other than root can run the program at `path`.
pub fn is_for_everybody(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o005 == 0o005)
        && path.ancestors().skip(1).all(|directory| {
            std::fs::metadata(directory)
                .is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_the_daemon_of_root() {
        let passwd = "root:x:0:0::/root:/bin/sh\nholm:x:990:991:holm:/var/lib/holm:/bin/sh\n";
        let account = Account {
            uid: 990,
            gid: 991,
            home: PathBuf::from("/var/lib/holm"),
        };
        assert_eq!(service_account(passwd), Ok(account));
        let missing = service_account("root:x:0:0::/root:/bin/sh\n").unwrap_err();
        assert_eq!(missing.code, Code::RootUser);
        assert!(missing.hint.contains("useradd --create-home holm"));
        let root = service_account("holm:x:0:0::/root:/bin/sh\n").unwrap_err();
        assert_eq!(root.code, Code::RootUser);
    }

    #[test]
    fn nothing_of_roots_own_directories_reaches_the_service() {
        let own: Environment = [
            ("HOME", "/root"),
            ("XDG_DATA_HOME", "/root/.data"),
            ("XDG_RUNTIME_DIR", "/run/user/0"),
            ("HOLM_HOME", "/srv/holm"),
            ("SECRET", "x"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let account = Account {
            uid: 4_000_000,
            gid: 4_000_000,
            home: PathBuf::from("/home/holm"),
        };
        let environment = service_environment(&own, &account);
        let get = |name: &str| environment.get(name).map(String::as_str);
        assert_eq!(get("HOME"), Some("/home/holm"));
        assert_eq!(get("HOLM_HOME"), Some("/srv/holm"));
        for absent in ["XDG_DATA_HOME", "XDG_RUNTIME_DIR", "SECRET"] {
            assert_eq!(get(absent), None);
        }
    }
}
