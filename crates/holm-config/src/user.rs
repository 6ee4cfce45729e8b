//! The user's own settings: `config.toml` over the defaults of `assets/defaults.toml`.
//!
//! Called once at the start of the daemon and of commands that need a setting. A missing file means
//! the defaults; an unreadable one is an error, never the defaults.

use super::errors::{ConfigErrors, Findings};
use super::node::{Node, read};
use super::project::{egress, entries, limits};
use super::shape;
use super::user_shape::CONFIG_TOML;
use holm_core::agents::{Consent, UserAgent};
use holm_core::config::{
    Address, Destination, Egress, Limits, Name, Place, ProxyUrl, Variable, WebhookUrl,
    parse_duration,
};
use holm_core::inbox::Reason;
use holm_core::store_place::PostgresUrl;
use holm_core::{Code, Fault};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DEFAULTS: &str = include_str!("../assets/defaults.toml");

/// The beginning of a certificate in PEM form.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// All settings, with `~` replaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserConfig {
    /// `None`: 7070, or the next free one.
    pub port: Option<NonZeroU16>,
    pub trash_days: u32,
    /// `None`: never.
    pub stop_after: Option<Duration>,
    /// `None`: never.
    pub remove_after: Option<Duration>,
    pub source_dirs: Vec<PathBuf>,
    pub limits: Limits,
    pub egress: Egress,
    pub network: Network,
    /// Registries on this machine that images may be pulled from.
    pub loopback_registries: Vec<Address>,
    /// The program that builds images; `None`: the first that is there.
    pub builder: Option<String>,
    pub home_copies: Vec<PathBuf>,
    pub toolchain_paths: Vec<PathBuf>,
    pub agents: BTreeMap<Name, UserAgent>,
    pub default_agent: Option<Name>,
    /// Commands print what to type next.
    pub hints: bool,
    /// `fetch`, `apply` and `merge` take only approved trees.
    pub review_required: bool,
    /// `None`: by the number of cores.
    pub checks_at_once: Option<u64>,
    /// A daemon that starts after a reboot starts what was running.
    pub resume: bool,
    /// The database of the state; `None`: a file in the data directory.
    pub store: Option<PostgresUrl>,
    /// A file with its password.
    pub store_password_file: Option<PathBuf>,
    pub notify: Notify,
}

/// Where notifications go: `[notify]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notify {
    /// A program and its arguments.
    pub command: Option<Vec<String>>,
    pub webhook: Option<WebhookUrl>,
    pub desktop: bool,
    pub mute: Vec<Reason>,
}

/// What this machine's network needs of every program: `[network]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    pub proxy: Option<ProxyUrl>,
    /// Dialled directly.
    pub no_proxy: Vec<Destination>,
    /// Files with CA certificates (PEM).
    pub ca: Vec<PathBuf>,
}

/// Reads the settings from the file at `path`.
pub fn load(path: &Path, home: &Path) -> Result<UserConfig, Fault> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(defaults(home)),
        Err(error) => {
            let message = format!("cannot read the settings in {}", path.display());
            let hint = format!(
                "make the file readable, or move it away: `ls -ld {}`",
                path.display()
            );
            return Err(Fault::new(Code::InvalidConfig, message, hint).because(error));
        }
    };
    let text = String::from_utf8(bytes).map_err(|_| {
        let message = format!("the settings in {} are not UTF-8 text", path.display());
        Fault::new(
            Code::InvalidConfig,
            message,
            "save the file as UTF-8 and try again",
        )
    })?;
    parse(&text, &path.display().to_string(), home).map_err(Fault::from)
}

/// Parses `text`; errors name `origin`.
pub fn parse(text: &str, origin: &str, home: &Path) -> Result<UserConfig, ConfigErrors> {
    let mut config = defaults(home);
    read(text, origin, |root, findings: &mut Findings| {
        shape::check(&CONFIG_TOML, root, "", findings);
        check_twice(root, findings);
        config.take(root, home);
    })?;
    Ok(config)
}

/// The settings without a file.
pub fn defaults(home: &Path) -> UserConfig {
    let built = read(DEFAULTS, "assets/defaults.toml", |root, findings| {
        shape::check(&CONFIG_TOML, root, "", findings);
        let mut config = UserConfig::default();
        config.take(root, home);
        config
    });
    built.expect("a test reads assets/defaults.toml")
}

/// Some keys may be in two places; having both would be ambiguous.
fn check_twice(root: &Node<'_>, findings: &mut Findings) {
    let pairs = [
        ("trash_days", "daemon"),
        ("stop_after", "daemon"),
        ("remove_after", "daemon"),
        ("default_agent", "agents"),
    ];
    for (key, table) in pairs {
        let inner = root.get(table).and_then(|table| table.get(key));
        if let (Some(_), Some(inner)) = (root.get(key), inner) {
            let what = format!("`{key}` is there twice: at the top, and in `{table}`");
            findings.add(inner.key_span, what);
        }
    }
}

// === impl Notify ===

impl Notify {
    /// Notifications go nowhere.
    pub fn is_silent(&self) -> bool {
        self.command.is_none() && self.webhook.is_none() && !self.desktop
    }
}

// === impl Network ===

impl Network {
    /// The certificates of all files. A file without one is an error: programs inside would fail for a reason
    /// that is hard to find.
    pub fn authorities(&self) -> Result<String, Fault> {
        let mut all = String::new();
        for file in &self.ca {
            let shown = file.display();
            let invalid = |message: String| {
                let hint =
                    "`[network] ca` of config.toml names files with certificates in PEM form";
                Fault::new(Code::InvalidConfig, message, hint)
            };
            let text = std::fs::read_to_string(file).map_err(|error| {
                invalid(format!("cannot read the CA certificates in {shown}")).because(error)
            })?;
            if !text.contains(CERTIFICATE) {
                return Err(invalid(format!("{shown} has no certificate")));
            }
            all.push_str(&text);
            all.push('\n');
        }
        Ok(all)
    }
}

// === impl UserConfig ===

impl UserConfig {
    /// Applies `root` over the current values.
    fn take(&mut self, root: &Node<'_>, home: &Path) {
        let daemon = root.get("daemon");
        for node in [Some(root), daemon.as_ref()].into_iter().flatten() {
            self.take_times(node);
        }
        let flag = |table: &str, key: &str| root.get(table)?.get(key)?.flag();
        self.hints = flag("cli", "hints").unwrap_or(self.hints);
        self.review_required = flag("review", "required").unwrap_or(self.review_required);
        self.resume = flag("daemon", "resume").unwrap_or(self.resume);
        let at_once = daemon
            .as_ref()
            .and_then(|daemon| daemon.get("checks_at_once")?.integer());
        self.checks_at_once = at_once
            .and_then(|most| u64::try_from(most).ok())
            .or(self.checks_at_once);
        if let Some(daemon) = &daemon {
            self.store = daemon.parsed("store", PostgresUrl::parse);
            let file = daemon.parsed("store_password_file", Place::parse);
            self.store_password_file = file.map(|file| file.resolve(home, home));
        }
        let port = daemon
            .and_then(|daemon| daemon.get("port"))
            .and_then(|port| port.integer());
        if let Some(port) = port {
            self.port = u16::try_from(port).ok().and_then(NonZeroU16::new);
        }
        let lists = [
            ("projects", "source_dirs", &mut self.source_dirs),
            ("home", "copy", &mut self.home_copies),
            ("network", "ca", &mut self.network.ca),
            ("toolchains", "paths", &mut self.toolchain_paths),
        ];
        for (table, key, target) in lists {
            if let Some(paths) = root
                .get(table)
                .and_then(|node| host_paths(&node, key, home))
            {
                *target = paths;
            }
        }
        if let Some(node) = root.get("network") {
            let proxy = node.parsed("proxy", ProxyUrl::parse);
            self.network.proxy = proxy.or(self.network.proxy.take());
            let direct = node.list("no_proxy", Destination::parse);
            self.network.no_proxy = direct.unwrap_or_default();
        }
        if let Some(node) = root.get("images") {
            let listed = node.list("loopback", Address::parse);
            self.loopback_registries = listed.unwrap_or_default();
            self.builder = node.string("builder");
        }
        if let Some(node) = root.get("notify") {
            self.notify = notify(&node);
        }
        if let Some(node) = root.get("limits") {
            self.take_limits(limits(&node));
        }
        if let Some(node) = root.get("egress") {
            let written = egress(&node);
            self.egress.mode = written.mode.or(self.egress.mode);
            self.egress.allow = written.allow;
        }
        let agents = entries(root, "agents", Name::parse, |name, node| {
            (name != "default_agent").then(|| agent(node, home))
        });
        self.agents.extend(agents);
        for node in [Some(root.clone()), root.get("agents")]
            .into_iter()
            .flatten()
        {
            if let Some(name) = node.parsed("default_agent", Name::parse) {
                self.default_agent = Some(name);
            }
        }
    }

    fn take_times(&mut self, node: &Node<'_>) {
        if let Some(days) = node.get("trash_days").and_then(|node| node.integer()) {
            self.trash_days = u32::try_from(days).unwrap_or(self.trash_days);
        }
        let times = [
            ("stop_after", &mut self.stop_after),
            ("remove_after", &mut self.remove_after),
        ];
        for (key, target) in times {
            if let Some(text) = node.get(key).and_then(|node| node.text()) {
                // `off` is not a duration, and means none.
                *target = parse_duration(text).ok();
            }
        }
    }

    fn take_limits(&mut self, written: Limits) {
        self.limits = Limits {
            memory: written.memory.or(self.limits.memory),
            cpus: written.cpus.or(self.limits.cpus),
            processes: written.processes.or(self.limits.processes),
            disk: written.disk.or(self.limits.disk),
        };
    }
}

fn notify(node: &Node<'_>) -> Notify {
    let mute = node.texts("mute").unwrap_or_default();
    Notify {
        command: node.texts("command"),
        webhook: node.parsed("webhook", WebhookUrl::parse),
        desktop: node.is_set("desktop"),
        // The shape allows no other word.
        mute: mute.iter().filter_map(|word| Reason::parse(word)).collect(),
    }
}

fn agent(node: &Node<'_>, home: &Path) -> UserAgent {
    UserAgent {
        command: node.texts("command"),
        run_args: node.texts("run_args").unwrap_or_default(),
        session_args: node.texts("session_args").unwrap_or_default(),
        sign_in: node.get("sign_in").and_then(|node| match node.text() {
            Some("always") => Some(Consent::Always),
            Some("never") => Some(Consent::Never),
            // The shape allows no other word.
            _ => None,
        }),
        timeout: node.parsed("timeout", parse_duration),
        env: node.list("env", Variable::parse).unwrap_or_default(),
        files: host_paths(node, "files", home).unwrap_or_default(),
        direct: node.is_set("direct"),
        refresh: node.texts("refresh"),
    }
}

fn host_paths(node: &Node<'_>, key: &str, home: &Path) -> Option<Vec<PathBuf>> {
    let places = node.list(key, Place::parse)?;
    Some(
        places
            .iter()
            .map(|place| place.resolve(home, home))
            .collect(),
    )
}

#[cfg(test)]
#[path = "user_tests.rs"]
mod tests;
