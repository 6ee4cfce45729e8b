//! Computes what a `holm.toml` requests from the host, and what remains of it without approval.
//!
//! Called by `up` and `trust` to show and to ask, and by the daemon to refuse. Everything that
//! reaches the host or weakens the isolation is an [`Ask`]; a person approves exactly these,
//! identified by the digest of [`canonical`]. Commands of the repository run inside and need no
//! approval.

use crate::config::{
    Destination, DriverName, Egress, EgressMode, Limits, Name, Policy, ProjectConfig,
    ProtectedPath, Scope, Secret, SecretSource, display_size,
};
use crate::container::{Attachment, Source};
use crate::dev_container::DevContainer;
use crate::git_settings::GitSetting;
use crate::image_build::{Dockerfile, ImageBuild};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::{self, Display};

/// One request that needs a person's approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// The key in holm.toml (`project.include`).
    pub key: String,
    /// In plain words.
    pub words: String,
    /// Everything about it that matters, unambiguously: a changed byte makes another request.
    pub canonical: String,
}

/// What a project gets without approval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baseline {
    /// The user's own settings. An unset mode counts as open.
    pub egress: Egress,
    /// The user's own settings. An unset limit is no limit.
    pub limits: Limits,
    /// Agents to which the user's settings give variables or files.
    pub agents_with_credentials: BTreeSet<Name>,
    /// Protected paths that were in force for this project before; `None` for a new project.
    pub protected_before: Option<Vec<ProtectedPath>>,
    /// The isolation that the project's own settings request.
    pub isolation: Option<Scope>,
}

/// Everything that `config` requests beyond `baseline`, in the order of the documentation.
pub fn asks(config: &ProjectConfig, baseline: &Baseline) -> Vec<Ask> {
    let mut asks = Vec::new();
    ask_project(config, baseline, &mut asks);
    ask_shared(config, &mut asks);
    ask_caches(config, &mut asks);
    for (name, secret) in &config.secrets {
        asks.push(ask_secret(name.as_str(), secret));
    }
    ask_egress(config, baseline, &mut asks);
    ask_limits(config, baseline, &mut asks);
    ask_agents(config, baseline, &mut asks);
    let mut builds: Vec<&ImageBuild> = Vec::new();
    for (name, build) in config.image_builds() {
        // Steps before a service have its image.
        if !builds.contains(&build) {
            asks.push(ask_build(name.as_str(), build));
            builds.push(build);
        }
    }
    for request in &config.compose.requests {
        // The key is told before the words.
        let key = format!("`{}` ", request.key);
        let words = &request.at.words;
        let words = words.strip_prefix(&key).unwrap_or(words);
        asks.push(Ask::new(
            &request.key,
            format!("{words} ({})", request.at.file),
            [quoted(&request.value)],
        ));
    }
    asks
}

/// What settings of the repository's own git configuration make git do on the host.
pub fn settings_asks(settings: &[GitSetting]) -> Vec<Ask> {
    let asked = settings.iter().filter_map(|setting| {
        let mut words = setting.words()?;
        if let Some(path) = &setting.submodule {
            words.push_str(&format!(", in the submodule `{}`", shown(path)));
        }
        let submodule = setting.submodule.as_deref().unwrap_or_default();
        let canonical = [quoted(&setting.value), quoted(submodule)];
        Some(Ask::new(&format!("git {}", setting.key), words, canonical))
    });
    asked.collect()
}

/// The prefix of digests of [`settings_asks`], which no digest of [`asks`] has.
pub const SETTINGS_DIGEST: &str = "git:";

/// A stable text of all requests, to be hashed. The order in the file does not matter.
pub fn canonical(asks: &[Ask]) -> String {
    let lines: BTreeSet<&str> = asks.iter().map(|ask| ask.canonical.as_str()).collect();
    let mut text = String::from("holm trust 1\n");
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// How a request differs from the last approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Added(Ask),
    /// It was approved and is no longer requested.
    Removed(Ask),
    /// The same key with another content.
    Changed {
        before: Ask,
        now: Ask,
    },
}

/// The differences, in the order of `now`; removed ones come last.
pub fn changes(before: &[Ask], now: &[Ask]) -> Vec<Change> {
    let is_in = |asks: &[Ask], ask: &Ask| asks.iter().any(|it| it.canonical == ask.canonical);
    let mut gone: Vec<&Ask> = before.iter().filter(|ask| !is_in(now, ask)).collect();
    let mut changes = Vec::new();
    for ask in now.iter().filter(|ask| !is_in(before, ask)) {
        let earlier = gone.iter().position(|gone| gone.key == ask.key);
        // Entries of a list share one key and are not versions of each other.
        changes.push(
            match earlier.filter(|_| !LISTS.contains(&ask.key.as_str())) {
                Some(place) => Change::Changed {
                    before: gone.remove(place).clone(),
                    now: ask.clone(),
                },
                None => Change::Added(ask.clone()),
            },
        );
    }
    changes.extend(gone.into_iter().cloned().map(Change::Removed));
    changes
}

/// Keys with one request per entry.
const LISTS: [&str; 3] = ["project.include", "project.protected_paths", "egress.allow"];

/// The configuration without everything that [`asks`] lists.
pub fn without_untrusted(config: &ProjectConfig, baseline: &Baseline) -> ProjectConfig {
    let mut config = config.clone();
    let project = &mut config.project;
    project.include.clear();
    project.isolation = Scope::Workspace;
    project.driver = DriverName::Linux;
    project.nested = false;
    for lost in lost_protection(&project.protected_paths, baseline) {
        project.protected_paths.push(lost);
    }
    config.shared.clear();
    config.caches.retain(|_, cache| !cache.is_outside());
    config.secrets.clear();
    if is_wider(&config.egress, &baseline.egress) {
        config.egress.mode = None;
    }
    let kept = |entry: &Destination| !is_wider_entry(entry, &config.egress, &baseline.egress);
    config.egress.allow = config
        .egress
        .allow
        .iter()
        .filter(|entry| kept(entry))
        .cloned()
        .collect();
    let (asked, most) = (&mut config.limits, &baseline.limits);
    asked.memory = asked.memory.filter(|it| !exceeds(Some(*it), most.memory));
    asked.cpus = asked.cpus.filter(|it| !exceeds(Some(*it), most.cpus));
    asked.processes = asked
        .processes
        .filter(|it| !exceeds(Some(*it), most.processes));
    asked.disk = asked.disk.filter(|it| !exceeds(Some(*it), most.disk));
    config
        .agents
        .retain(|name, _| !baseline.agents_with_credentials.contains(name));
    config.compose.requests.clear();
    leave_out_builds(&mut config);
    leave_out_container(&mut config);
    for service in config.services.values_mut() {
        let image = service.image.as_mut();
        if let Some(container) = image.and_then(|image| image.container.as_mut()) {
            let is_host = |source: &Source| matches!(source, Source::Host(_));
            container.mounts.retain(|mount| !is_host(&mount.source));
        }
    }
    config
}

// The parts of `asks`.

fn ask_project(config: &ProjectConfig, baseline: &Baseline, asks: &mut Vec<Ask>) {
    let project = &config.project;
    for pattern in &project.include {
        asks.push(Ask::new(
            "project.include",
            format!(
                "copy `{}` from your checkout into workspaces",
                shown(pattern)
            ),
            [quoted(pattern)],
        ));
    }
    for lost in lost_protection(&project.protected_paths, baseline) {
        asks.push(Ask::new(
            "project.protected_paths",
            format!(
                "let agents write to `{}`, which was protected before",
                shown(&lost)
            ),
            [quoted(&lost)],
        ));
    }
    if project.isolation == Scope::Project {
        let words = "let each workspace read the files of the project's other workspaces";
        let asked = quoted(project.isolation.as_str());
        // An approval from before the project was closed does not open it again.
        let (words, asked) = match baseline.isolation {
            Some(Scope::Workspace) => (
                format!("{words}, which `holm project` says it must not"),
                format!("{asked} not \"workspace\""),
            ),
            Some(Scope::Project) | None => (words.to_owned(), asked),
        };
        asks.push(Ask::new("project.isolation", words, [asked]));
    }
    if project.driver != DriverName::Linux {
        let driver = project.driver.as_str();
        let words = format!("run workspaces with the driver `{driver}` instead of `linux`");
        asks.push(Ask::new("project.driver", words, [quoted(driver)]));
    }
    if project.nested {
        let words = "let programs inside make user namespaces, which weakens the isolation";
        asks.push(Ask::new(
            "project.nested",
            words.to_owned(),
            ["true".to_owned()],
        ));
    }
}

fn ask_shared(config: &ProjectConfig, asks: &mut Vec<Ask>) {
    for (name, shared) in &config.shared {
        let (address, port) = (&shared.address, shared.port);
        asks.push(Ask::new(
            &format!("shared.{name}"),
            format!("reach `{address}` of this machine's network, as port {port} inside"),
            [quoted(address), port.to_string()],
        ));
    }
}

fn ask_caches(config: &ProjectConfig, asks: &mut Vec<Ask>) {
    for (name, cache) in config.caches.iter().filter(|(_, cache)| cache.is_outside()) {
        let policy = cache.policy.as_str();
        let path = shown(&cache.path);
        let what = match cache.policy {
            Policy::Fork => format!("read a copy of `{path}` of yours"),
            Policy::Isolated => format!("have an empty directory at `{path}`"),
            Policy::Shared => format!("have all workspaces write one directory, at `{path}`"),
        };
        asks.push(Ask::new(
            &format!("caches.{name}"),
            format!("{what} (policy `{policy}`)"),
            [quoted(&cache.path), quoted(policy)],
        ));
    }
}

fn ask_secret(name: &str, secret: &Secret) -> Ask {
    let (source, words) = match &secret.from {
        SecretSource::Env(variable) => (
            format!("env {}", quoted(variable)),
            format!("your variable `{variable}`"),
        ),
        SecretSource::File(file) => (
            format!("file {}", quoted(file)),
            format!("your file `{}`", shown(file)),
        ),
        SecretSource::Command(command) => {
            let parts: Vec<_> = command.iter().map(quoted).collect();
            let line = parts.join(" ");
            (
                format!("command {line}"),
                format!("what `{line}` prints when run on this machine"),
            )
        }
        SecretSource::Stored => ("stored".to_owned(), format!("the stored secret `{name}`")),
    };
    let receivers: Vec<_> = secret.to.iter().map(|to| to.as_str()).collect();
    let hosts: Vec<_> = secret.hosts.iter().map(Destination::to_string).collect();
    let inject = secret.inject.as_str();
    let mut words = format!("give {words} to {}, as `{inject}`", receivers.join(", "));
    if !hosts.is_empty() {
        words.push_str(&format!(", for {}", hosts.join(", ")));
    }
    let ttl = secret.ttl.map(|ttl| ttl.as_millis().to_string());
    Ask::new(
        &format!("secrets.{name}"),
        words,
        [
            source,
            quoted(inject),
            list(&receivers),
            list(&hosts),
            ttl.unwrap_or_default(),
        ],
    )
}

fn ask_egress(config: &ProjectConfig, baseline: &Baseline, asks: &mut Vec<Ask>) {
    let (asked, given) = (&config.egress, &baseline.egress);
    if is_wider(asked, given)
        && let Some(mode) = asked.mode
    {
        let words = match mode {
            EgressMode::Open => "connect to the whole public internet".to_owned(),
            _ => "connect to the hosts it lists".to_owned(),
        };
        asks.push(Ask::new("egress.mode", words, [quoted(mode.as_str())]));
    }
    for entry in asked
        .allow
        .iter()
        .filter(|entry| is_wider_entry(entry, asked, given))
    {
        let words = format!("connect to `{entry}`");
        asks.push(Ask::new("egress.allow", words, [quoted(entry)]));
    }
}

fn ask_limits(config: &ProjectConfig, baseline: &Baseline, asks: &mut Vec<Ask>) {
    let (asked, most) = (&config.limits, &baseline.limits);
    let mut ask = |key: &str, asked: String, most: String, noun: &str| {
        let words = format!("use {asked}{noun}; your setting is {most}");
        asks.push(Ask::new(&format!("limits.{key}"), words, [asked]));
    };
    let sizes = [
        ("memory", asked.memory, most.memory, " of memory"),
        ("disk", asked.disk, most.disk, " of disk"),
    ];
    for (key, asked, most, noun) in sizes {
        if let (Some(asked), Some(most)) = (asked, most)
            && asked > most
        {
            ask(key, display_size(asked), display_size(most), noun);
        }
    }
    if let (Some(asked), Some(most)) = (asked.cpus, most.cpus)
        && asked > most
    {
        ask("cpus", asked.to_string(), most.to_string(), " processors");
    }
    if let (Some(asked), Some(most)) = (asked.processes, most.processes)
        && asked > most
    {
        ask(
            "processes",
            asked.to_string(),
            most.to_string(),
            " processes",
        );
    }
}

/// The user's settings give credentials to an agent by its name. A repository that defines the
/// command of that name would receive them.
fn ask_agents(config: &ProjectConfig, baseline: &Baseline, asks: &mut Vec<Ask>) {
    for (name, agent) in &config.agents {
        if baseline.agents_with_credentials.contains(name) {
            let command = list(&agent.command);
            asks.push(Ask::new(
                &format!("agents.{name}"),
                format!("run {command} as `{name}`, with the credentials you give to `{name}`"),
                [command],
            ));
        }
    }
}

/// A build runs code of the repository with the rights of the user's builder.
fn ask_build(name: &str, build: &ImageBuild) -> Ask {
    let network = if build.network {
        "with a network"
    } else {
        "without a network"
    };
    let (kind, file) = match &build.dockerfile {
        Dockerfile::File(path) => ("file", path),
        Dockerfile::Inline(text) => ("inline", text),
    };
    let mut words = format!(
        "build an image from `{}` with your docker, podman or buildah, {network}",
        shown(&build.file())
    );
    if !build.context.is_empty() {
        words.push_str(&format!(", of the files in `{}`", shown(&build.context)));
    }
    let digest = build.digest.as_deref().unwrap_or_default();
    if let Some(short) = digest.get(..12) {
        words.push_str(&format!(" (the content is {short})"));
    }
    let args = build.args.iter();
    let args: Vec<_> = args
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let target = build.target.as_ref().map(quoted);
    let features = build.features.as_ref();
    if let Some(features) = features {
        let directories = features.directories.iter();
        let directories: Vec<_> = directories.map(|it| format!("`{}`", shown(it))).collect();
        let scripts = directories.join(", ");
        words.push_str(&format!(", with the install scripts of {scripts}"));
    }
    // Requests without features read as they did before there were any.
    let features =
        features.map(|it| format!("{} {}", list(&it.directories), quoted(&it.instructions)));
    Ask::new(
        &format!("services.{name}.build"),
        words,
        [
            quoted(&build.context),
            kind.to_owned(),
            quoted(file),
            list(&args),
            target.unwrap_or_default(),
            quoted(network),
            format!(
                "{digest}{}",
                features.map_or_else(String::new, |it| format!(" {it}"))
            ),
        ],
    )
}

/// Removes the services whose images are built, and those that are in the network of one. Others do not wait for them.
fn leave_out_builds(config: &mut ProjectConfig) {
    let mut gone: BTreeSet<Name> = config
        .image_builds()
        .map(|(name, _)| name.clone())
        .collect();
    loop {
        let known = gone.len();
        for (name, service) in &config.services {
            let image = service.image.as_ref();
            let container = image.and_then(|image| image.container.as_ref());
            if let Some(Attachment::Of(other)) = container.map(|it| &it.network)
                && gone.iter().any(|name| name.as_str() == other)
            {
                gone.insert(name.clone());
            }
        }
        if gone.len() == known {
            break;
        }
    }
    config.services.retain(|name, _| !gone.contains(name));
    for service in config.services.values_mut() {
        service.depends_on.retain(|name| !gone.contains(name));
        let image = service.image.as_mut();
        if let Some(container) = image.and_then(|image| image.container.as_mut()) {
            let is_gone = |other: &String| gone.iter().any(|name| name.as_str() == other);
            container.begins_after.retain(|other| !is_gone(other));
        }
    }
}

/// Without its image, a Dev Container is left out as a whole. Its host command is never run.
fn leave_out_container(config: &mut ProjectConfig) {
    let services = &config.services;
    let has = |container: &DevContainer| services.keys().any(|it| it.as_str() == container.service);
    config.dev_container = config.dev_container.take().filter(has);
    if let Some(container) = &mut config.dev_container {
        container.initialize.clear();
    }
}

// What exceeds the baseline.

fn lost_protection(now: &[ProtectedPath], baseline: &Baseline) -> Vec<ProtectedPath> {
    let before = baseline.protected_before.iter().flatten();
    let lost = before.filter(|before| !now.iter().any(|now| now.covers(before)));
    let lost: BTreeSet<_> = lost.cloned().collect();
    lost.into_iter().collect()
}

fn given_mode(given: &Egress) -> EgressMode {
    given.mode.unwrap_or(EgressMode::Open)
}

fn is_wider(asked: &Egress, given: &Egress) -> bool {
    asked.mode.is_some_and(|mode| mode > given_mode(given))
}

/// Whether an entry of `allow` opens what the user's settings keep closed: a name if those use a
/// list (or nothing), an address always, because it may be in a private network.
fn is_wider_entry(entry: &Destination, asked: &Egress, given: &Egress) -> bool {
    if given.allow.contains(entry) && given_mode(given) != EgressMode::None {
        return false;
    }
    let mode = asked.mode.unwrap_or(given_mode(given));
    mode != EgressMode::None && (entry.is_address() || given_mode(given) != EgressMode::Open)
}

fn exceeds<T: PartialOrd>(asked: Option<T>, most: Option<T>) -> bool {
    matches!((asked, most), (Some(asked), Some(most)) if asked > most)
}

// How a request is written.

/// Quoted and escaped, so that no content can end the quotation.
fn quoted(value: impl Display) -> String {
    format!("{:?}", value.to_string())
}

/// For people: it cannot control a terminal.
fn shown(value: &impl Display) -> String {
    value.to_string().escape_debug().to_string()
}

fn list<T: Display>(values: &[T]) -> String {
    let quoted: Vec<_> = values.iter().map(quoted).collect();
    format!("[{}]", quoted.join(", "))
}

// === impl Change ===

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Added(Ask { key, words, .. }) => write!(f, "added {key}: {words}"),
            Change::Removed(Ask { key, words, .. }) => write!(f, "removed {key}: {words}"),
            Change::Changed { before, now } => {
                let Ask { key, words, .. } = now;
                write!(f, "changed {key}: {words} (it was: {})", before.words)
            }
        }
    }
}

// === impl Ask ===

impl Ask {
    fn new<const N: usize>(key: &str, words: String, parts: [String; N]) -> Self {
        Self {
            key: key.to_owned(),
            words,
            canonical: format!("{key} = {}", parts.join(" ")),
        }
    }
}
