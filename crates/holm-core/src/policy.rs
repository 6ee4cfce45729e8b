//! The machine's policy: bounds that the administrator sets, and that no project, user setting or
//! command line can exceed.
//!
//! The daemon calls [`MachinePolicy::breaches`] to refuse requests beyond the policy, and
//! [`MachinePolicy::narrow`] before every start, so that a newer policy also applies to existing
//! workspaces. Narrowing removes rights or adds protection; it never grants anything.

use crate::config::{
    Destination, DriverName, EgressMode, Limits, Name, ProjectConfig, ProtectedPath, Scope,
    SecretSource, display_size,
};
use crate::spec;
use std::fmt::{self, Display, Formatter};

/// `/etc/holm/policy.toml`. The default sets no bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachinePolicy {
    /// The widest allowed mode.
    pub egress_mode: Option<EgressMode>,
    /// The entries that an `allow` list may contain.
    pub egress_allow: Option<Vec<Destination>>,
    /// The maximum of each.
    pub limits: Limits,
    pub nested: Permission,
    /// `isolation = "project"`.
    pub siblings: Permission,
    pub drivers: Option<Vec<DriverName>>,
    /// What `--allow-degraded` may name.
    pub degraded: Option<Vec<String>>,
    /// Protected in every workspace, besides the project's own paths.
    pub protected_paths: Vec<ProtectedPath>,
    pub include: Permission,
    pub shared: Permission,
    pub caches: Permission,
    pub canonical_ports: Permission,
    /// Images from the project's own Dockerfiles.
    pub builds: Permission,
    pub secret_sources: Option<Vec<SourceKind>>,
    /// Agents that runs and sessions may name.
    pub agents: Option<Vec<Name>>,
    pub trust_by_token: Permission,
    /// `fetch`, `apply` and `merge` take only approved trees.
    pub review_required: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permission {
    #[default]
    Allowed,
    Forbidden,
}

/// The kind of a secret's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    Env,
    File,
    Command,
    Stored,
}

/// What a command line requests besides `holm.toml`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Typed<'a> {
    /// Paths of `--include`, and other files copied from a checkout.
    pub included: &'a [String],
    /// From `--allow-degraded`.
    pub degraded: &'a [String],
}

/// One request beyond the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The policy's key that forbids it (`limits.memory`).
    pub key: &'static str,
    /// In plain words.
    pub words: String,
}

/// The rights of a workspace, as far as a policy bounds them.
#[derive(Clone, Debug, PartialEq)]
pub struct Rights {
    pub mode: EgressMode,
    pub allow: Vec<Destination>,
    pub limits: Limits,
    pub is_nested: bool,
    pub shows_siblings: bool,
    /// Services of the host.
    pub shared: Vec<String>,
    pub degraded: Vec<String>,
    pub protected_paths: Vec<ProtectedPath>,
    /// By name.
    pub secrets: Vec<(String, SourceKind)>,
}

const BUILDS: &str = "host.builds";

// === impl MachinePolicy ===

impl MachinePolicy {
    /// Everything in a project and a command line that exceeds this policy.
    pub fn breaches(&self, config: &ProjectConfig, typed: Typed<'_>) -> Vec<Breach> {
        let mut found = Vec::new();
        self.judge_egress(config, &mut found);
        self.judge_limits(&config.limits, &mut found);
        let project = &config.project;
        let mut forbid = |permission: Permission, key: &'static str, names: Vec<String>| {
            if permission == Permission::Forbidden && !names.is_empty() {
                found.push(Breach::new(
                    key,
                    format!("{} is asked for", names.join(", ")),
                ));
            }
        };
        let when = |is_asked: bool, text: &str| {
            if is_asked {
                vec![text.to_owned()]
            } else {
                Vec::new()
            }
        };
        forbid(
            self.nested,
            "island.nested",
            when(project.nested, "`nested`"),
        );
        if self.nested == Permission::Allowed && !self.protected_paths.is_empty() {
            let forbidden = Permission::Forbidden;
            forbid(
                forbidden,
                "island.protected_paths",
                when(project.nested, "`nested`"),
            );
        }
        let is_wide = project.isolation == Scope::Project;
        let isolation = when(is_wide, "`isolation = \"project\"`");
        forbid(self.siblings, "island.isolation", isolation);
        let mut included: Vec<_> = project
            .include
            .iter()
            .map(|it| shown("include", it))
            .collect();
        included.extend(typed.included.iter().map(|path| shown("include", path)));
        forbid(self.include, "host.include", included);
        let shared = config.shared.keys().map(|name| shown("shared", name));
        forbid(self.shared, "host.shared", shared.collect());
        let caches = config.caches.iter().filter(|(_, cache)| cache.is_outside());
        let caches = caches.map(|(name, _)| shown("caches", name));
        forbid(self.caches, "host.caches", caches.collect());
        let builds = config.image_builds();
        let builds = builds.map(|(name, _)| shown("build of the service", name));
        forbid(self.builds, BUILDS, builds.collect());
        if let Some(drivers) = &self.drivers
            && !drivers.contains(&project.driver)
        {
            let words = format!("the driver is `{}`", project.driver.as_str());
            found.push(Breach::new("island.drivers", words));
        }
        for part in self.forbidden_degraded(typed.degraded) {
            let words = format!("`--allow-degraded={}`", part.escape_debug());
            found.push(Breach::new("island.allow_degraded", words));
        }
        self.judge_secrets(config, &mut found);
        found
    }

    /// The workspace's rights within this policy, and what was removed.
    pub fn narrow(&self, rights: &Rights) -> (Rights, Vec<Breach>) {
        let mut narrow = rights.clone();
        let mut lost = Vec::new();
        self.narrow_egress(&mut narrow, &mut lost);
        self.narrow_limits(&mut narrow.limits, &mut lost);
        if self.nested == Permission::Forbidden && narrow.is_nested {
            narrow.is_nested = false;
            lost.push(Breach::new("island.nested", "`nested` is off".to_owned()));
        }
        if !self.protected_paths.is_empty() && narrow.is_nested {
            narrow.is_nested = false;
            lost.push(Breach::new("island.protected_paths", NOT_NESTED.to_owned()));
        }
        if self.siblings == Permission::Forbidden && narrow.shows_siblings {
            narrow.shows_siblings = false;
            let words = "siblings' trees are hidden".to_owned();
            lost.push(Breach::new("island.isolation", words));
        }
        if self.shared == Permission::Forbidden && !narrow.shared.is_empty() {
            let words = format!("not reachable: {}", narrow.shared.join(", "));
            lost.push(Breach::new("host.shared", words));
            narrow.shared.clear();
        }
        for part in self.forbidden_degraded(&rights.degraded) {
            let words = format!("`{}` may not be missing", part.escape_debug());
            lost.push(Breach::new("island.allow_degraded", words));
            narrow.degraded.retain(|kept| kept != part);
        }
        for path in &self.protected_paths {
            if !narrow.protected_paths.iter().any(|has| has.covers(path)) {
                let words = format!("`{path}` is protected");
                lost.push(Breach::new("island.protected_paths", words));
                narrow.protected_paths.push(path.clone());
            }
        }
        narrow.secrets.retain(|(name, kind)| {
            let may_have = self.may_read(*kind);
            if !may_have {
                let words = format!("the secret {name} is not given, it comes from `{kind}`");
                lost.push(Breach::new("secrets.sources", words));
            }
            may_have
        });
        (narrow, lost)
    }

    /// Whether secrets may come from this kind of source.
    pub fn may_read(&self, kind: SourceKind) -> bool {
        let allowed = self.secret_sources.as_ref();
        allowed.is_none_or(|allowed| allowed.contains(&kind))
    }

    /// Whether runs and sessions may name this agent.
    pub fn may_run(&self, agent: &Name) -> Result<(), Breach> {
        match &self.agents {
            Some(allowed) if !allowed.contains(agent) => {
                let words = format!("the agent `{agent}` is asked for");
                Err(Breach::new("agents.allow", words))
            }
            _ => Ok(()),
        }
    }

    pub fn may_take_canonical_ports(&self) -> Result<(), Breach> {
        let words = "canonical ports of this machine are asked for";
        self.canonical_ports.require("host.canonical_ports", words)
    }

    /// Whether a builder of this machine may build images.
    pub fn may_build(&self) -> Result<(), Breach> {
        let words = "a build of an image by a builder of this machine is asked for";
        self.builds.require(BUILDS, words)
    }

    pub fn may_trust_by_token(&self) -> Result<(), Breach> {
        let words = "a token approves what a repository asks for, and no person does";
        self.trust_by_token.require("trust.by_token", words)
    }

    fn judge_egress(&self, config: &ProjectConfig, found: &mut Vec<Breach>) {
        if let (Some(asked), Some(most)) = (config.egress.mode, self.egress_mode)
            && asked > most
        {
            let (asked, most) = (asked.as_str(), most.as_str());
            let words = format!("`mode = \"{asked}\"` is asked for, and the widest is `{most}`");
            found.push(Breach::new("egress.mode", words));
        }
        for entry in config
            .egress
            .allow
            .iter()
            .filter(|entry| !self.covers(entry))
        {
            found.push(Breach::new(
                "egress.allow",
                format!("`{entry}` is asked for"),
            ));
        }
    }

    fn judge_limits(&self, asked: &Limits, found: &mut Vec<Breach>) {
        let mut exceeds = |key: &'static str, asked: Option<String>, most: Option<String>| {
            if let (Some(asked), Some(most)) = (asked, most) {
                let words = format!("{asked} is asked for, and the most is {most}");
                found.push(Breach::new(key, words));
            }
        };
        let sizes = [
            ("limits.memory", asked.memory, self.limits.memory),
            ("limits.disk", asked.disk, self.limits.disk),
        ];
        for (key, asked, most) in sizes.into_iter().filter(|(_, asked, most)| asked > most) {
            exceeds(key, asked.map(display_size), most.map(display_size));
        }
        if asked.cpus > self.limits.cpus {
            let [asked, most] =
                [asked.cpus, self.limits.cpus].map(|it| it.map(|it| it.to_string()));
            exceeds("limits.cpus", asked, most);
        }
        if asked.processes > self.limits.processes {
            let counts = [asked.processes, self.limits.processes];
            let [asked, most] = counts.map(|it| it.map(|it| it.to_string()));
            exceeds("limits.processes", asked, most);
        }
    }

    fn judge_secrets(&self, config: &ProjectConfig, found: &mut Vec<Breach>) {
        for (name, secret) in &config.secrets {
            let kind = SourceKind::of(&secret.from);
            if !self.may_read(kind) {
                let words = format!("secrets.{name} comes from `{kind}`");
                found.push(Breach::new("secrets.sources", words));
            }
        }
    }

    fn forbidden_degraded<'a>(&'a self, parts: &'a [String]) -> impl Iterator<Item = &'a String> {
        let allowed = self.degraded.as_ref();
        let is_forbidden = move |part: &&String| allowed.is_some_and(|it| !it.contains(part));
        parts.iter().filter(is_forbidden)
    }

    fn covers(&self, entry: &Destination) -> bool {
        let Some(allowed) = &self.egress_allow else {
            return true;
        };
        allowed.iter().any(|allowed| allowed.covers(entry))
    }

    fn narrow_egress(&self, narrow: &mut Rights, lost: &mut Vec<Breach>) {
        let before = narrow.allow.clone();
        narrow.allow.retain(|entry| self.covers(entry));
        for entry in before.iter().filter(|entry| !narrow.allow.contains(entry)) {
            let words = format!("`{entry}` is not allowed");
            lost.push(Breach::new("egress.allow", words));
        }
        let Some(most) = self.egress_mode.filter(|most| narrow.mode > *most) else {
            return;
        };
        if narrow.mode == EgressMode::Open && most == EgressMode::Allow {
            // Destinations that were reachable and are still allowed. Addresses would open private
            // networks, so they are left out.
            let listed = self.egress_allow.iter().flatten();
            for entry in listed.filter(|entry| !entry.is_address()) {
                if !narrow.allow.contains(entry) {
                    narrow.allow.push(entry.clone());
                }
            }
        }
        let (had, has) = (narrow.mode.as_str(), most.as_str());
        lost.push(Breach::new(
            "egress.mode",
            format!("`{has}` and not `{had}`"),
        ));
        narrow.mode = most;
    }

    fn narrow_limits(&self, limits: &mut Limits, lost: &mut Vec<Breach>) {
        let mut bound =
            |key: &'static str, has: &mut Option<u64>, most: Option<u64>, text: String| {
                if most.is_some_and(|most| has.is_none_or(|has| has > most)) {
                    *has = most;
                    lost.push(Breach::new(key, format!("at most {text}")));
                }
            };
        let most = &self.limits;
        let size = |it: Option<u64>| it.map(display_size).unwrap_or_default();
        bound(
            "limits.memory",
            &mut limits.memory,
            most.memory,
            size(most.memory),
        );
        bound("limits.disk", &mut limits.disk, most.disk, size(most.disk));
        let count = most.processes.unwrap_or_default().to_string();
        bound(
            "limits.processes",
            &mut limits.processes,
            most.processes,
            count,
        );
        if let Some(most) = most.cpus
            && limits.cpus.is_none_or(|has| has > most)
        {
            limits.cpus = Some(most);
            lost.push(Breach::new("limits.cpus", format!("at most {most}")));
        }
    }
}

/// A program that can create user namespaces can bypass a read-only mount.
const NOT_NESTED: &str = "`nested` is off, because it would undo the protection of paths";

fn shown(section: &str, name: impl Display) -> String {
    format!("{section} `{}`", name.to_string().escape_debug())
}

// === impl Permission ===

impl Permission {
    fn require(self, key: &'static str, words: &str) -> Result<(), Breach> {
        match self {
            Permission::Allowed => Ok(()),
            Permission::Forbidden => Err(Breach::new(key, words.to_owned())),
        }
    }
}

// === impl SourceKind ===

impl SourceKind {
    pub const ALL: [Self; 4] = [Self::Env, Self::File, Self::Command, Self::Stored];

    pub fn of(source: &SecretSource) -> Self {
        match source {
            SecretSource::Env(_) => Self::Env,
            SecretSource::File(_) => Self::File,
            SecretSource::Command(_) => Self::Command,
            SecretSource::Stored => Self::Stored,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::File => "file",
            Self::Command => "command",
            Self::Stored => "stored",
        }
    }
}

impl From<&spec::SecretSource> for SourceKind {
    fn from(source: &spec::SecretSource) -> Self {
        match source {
            spec::SecretSource::Env(_) => Self::Env,
            spec::SecretSource::File(_) => Self::File,
            spec::SecretSource::Command(_) => Self::Command,
            spec::SecretSource::Stored => Self::Stored,
        }
    }
}

impl Display for SourceKind {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

// === impl Breach ===

impl Breach {
    fn new(key: &'static str, words: String) -> Self {
        Self { key, words }
    }
}
