//! The machine's policy, `/etc/holm/policy.toml`: found, checked and parsed.
//!
//! Called by the daemon for every request and every start, and by `holm doctor`. Invariants: no
//! file means no policy; anything but a complete file that only root can write is an error, and
//! then nothing starts. No user, repository or workspace can name another file.

use super::errors::ConfigErrors;
use super::node::{Node, read};
use super::policy_shape::POLICY_TOML;
use super::project::limits;
use super::shape;
use holm_core::config::{Destination, DriverName, Name, ProtectedPath, Scope, Word};
use holm_core::fitness::Check;
use holm_core::policy::{Breach, MachinePolicy, Permission, SourceKind};
use holm_core::{Code, Fault};
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The path of the policy, and its required owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFile {
    pub path: PathBuf,
    owner: u32,
}

const PATH: &str = "/etc/holm/policy.toml";
const ROOT: u32 = 0;

/// Longer files are not read.
const LONGEST: u64 = 1 << 20;

/// Mode bits that let others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

// === impl PolicyFile ===

impl PolicyFile {
    /// The machine's policy. Tests, which are not root, have their own in builds with debug
    /// assertions; other builds ignore the variable.
    pub fn of_machine() -> Self {
        if cfg!(debug_assertions)
            && let Some(path) = std::env::var_os("HOLM_TEST_POLICY")
        {
            return Self {
                path: path.into(),
                owner: rustix::process::geteuid().as_raw(),
            };
        }
        Self {
            path: PathBuf::from(PATH),
            owner: ROOT,
        }
    }

    /// Reads it; `None`: there is none.
    pub fn load(&self) -> Result<Option<MachinePolicy>, Fault> {
        let Some(file) = self.open()? else {
            return Ok(None);
        };
        let mut text = String::new();
        let limited = file.take(LONGEST + 1).read_to_string(&mut text);
        limited.map_err(|error| self.unusable("it cannot be read").because(error))?;
        let policy = parse(&text, &self.path.display().to_string());
        policy.map(Some).map_err(|errors| self.invalid(&errors))
    }

    /// The refusal of requests beyond the policy, with the file and its keys.
    pub fn refusal(&self, breaches: &[Breach]) -> Fault {
        let listed: Vec<_> = breaches
            .iter()
            .map(|Breach { key, words }| format!("{words} (`{key}`)"))
            .collect();
        let path = self.path.display();
        Fault::new(
            Code::Policy,
            format!(
                "{path} of this machine does not allow it: {}",
                listed.join("; ")
            ),
            "ask for less; only whoever administers this machine can change its policy",
        )
    }

    /// The check of `holm doctor`.
    pub fn check(&self) -> Check {
        let path = self.path.display();
        let (detail, fix) = match self.load() {
            Ok(None) => (format!("there is none ({path})"), None),
            Ok(Some(_)) => (format!("{path} is in force"), None),
            Err(fault) => (fault.message(), Some(fault.hint)),
        };
        Check::required("policy", detail, fix)
    }

    fn open(&self) -> Result<Option<File>, Fault> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match openat(CWD, &self.path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(self.unusable("it is a link")),
            Err(error) => return Err(self.unusable("it cannot be opened").because(error)),
        };
        let unknown = |error: Errno| self.unusable("it cannot be looked at").because(error);
        let found = fstat(&file).map_err(unknown)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(self.unusable("it is not an ordinary file"));
        }
        self.only_of_owner(&self.path, &found)?;
        // A user who can write the directory could replace the file.
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        self.only_of_owner(directory, &stat(directory).map_err(unknown)?)?;
        Ok(Some(File::from(file)))
    }

    fn only_of_owner(&self, path: &Path, found: &Stat) -> Result<(), Fault> {
        let shown = path.display();
        if found.st_uid != self.owner && found.st_uid != ROOT {
            let uid = found.st_uid;
            return Err(self.unusable(&format!("{shown} belongs to the user {uid}, not to root")));
        }
        if found.st_mode & WRITABLE_BY_OTHERS != 0 {
            let mode = found.st_mode & 0o7777;
            return Err(self.unusable(&format!(
                "{shown} can be written by others than root (mode {mode:04o})"
            )));
        }
        Ok(())
    }

    fn unusable(&self, why: &str) -> Fault {
        let path = self.path.display();
        Fault::new(
            Code::InvalidPolicy,
            format!(
                "the policy of this machine in {path} cannot be used, so nothing is started: {why}"
            ),
            format!("root makes it right: `chown root: {path}; chmod 644 {path}`; or removes it"),
        )
    }

    fn invalid(&self, errors: &ConfigErrors) -> Fault {
        Fault::new(
            Code::InvalidPolicy,
            format!("the policy of this machine has errors, so nothing is started:\n{errors}"),
            format!(
                "root corrects {}; `holm doctor` reads it too",
                self.path.display()
            ),
        )
    }
}

/// Parses `text`; errors name `origin`.
pub fn parse(text: &str, origin: &str) -> Result<MachinePolicy, ConfigErrors> {
    read(text, origin, |root, findings| {
        shape::check(&POLICY_TOML, root, "", findings);
        policy(root)
    })
}

fn policy(root: &Node<'_>) -> MachinePolicy {
    let section = |name: &str| root.get(name);
    let (egress, island, host) = (section("egress"), section("island"), section("host"));
    let flag = |node: &Option<Node<'_>>, key: &str| permission(node.as_ref(), key);
    let listed = section("agents").and_then(|node| node.list("allow", Name::parse));
    let isolation = island
        .as_ref()
        .and_then(|node| node.word::<Scope>("isolation"));
    MachinePolicy {
        egress_mode: egress.as_ref().and_then(|node| node.word("mode")),
        egress_allow: egress
            .as_ref()
            .and_then(|node| node.list("allow", Destination::parse)),
        limits: section("limits")
            .map(|node| limits(&node))
            .unwrap_or_default(),
        nested: flag(&island, "nested"),
        siblings: match isolation {
            Some(Scope::Workspace) => Permission::Forbidden,
            Some(Scope::Project) | None => Permission::Allowed,
        },
        drivers: island
            .as_ref()
            .and_then(|node| node.list("drivers", |word| DriverName::parse_word(word).ok_or(()))),
        degraded: island
            .as_ref()
            .and_then(|node| node.texts("allow_degraded")),
        protected_paths: island
            .as_ref()
            .and_then(|node| node.list("protected_paths", ProtectedPath::parse))
            .unwrap_or_default(),
        include: flag(&host, "include"),
        shared: flag(&host, "shared"),
        caches: flag(&host, "caches"),
        canonical_ports: flag(&host, "canonical_ports"),
        builds: flag(&host, "builds"),
        secret_sources: section("secrets").and_then(|node| node.list("sources", source)),
        agents: listed,
        trust_by_token: flag(&section("trust"), "by_token"),
        review_required: section("review")
            .and_then(|node| node.get("required")?.flag())
            .unwrap_or(false),
    }
}

fn permission(node: Option<&Node<'_>>, key: &str) -> Permission {
    let written = node.and_then(|node| node.get(key)?.flag());
    match written {
        Some(false) => Permission::Forbidden,
        Some(true) | None => Permission::Allowed,
    }
}

fn source(word: &str) -> Result<SourceKind, ()> {
    let mut all = SourceKind::ALL.into_iter();
    all.find(|kind| kind.as_str() == word).ok_or(())
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
