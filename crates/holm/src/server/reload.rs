//! `POST /workspaces/{id}/reload`: the `holm.toml` of the tree, read inside, compared, judged by the
//! rules of trust, stored and put in force.
//!
//! Whoever works inside writes that file. So what it asks of the host beyond what is in force needs
//! a person, who approves the content that was shown and no other.

use super::caller::Caller;
use super::failure::{Answer, Body, WorkspaceKey};
use super::{App, compose, declared};
use crate::config;
use axum::Json;
use axum::extract::State;
use holm_api::project::Ask;
use holm_api::reload::{Reload, Reloaded};
use holm_core::config::{EgressMode, ProjectConfig, Word, display_size};
use holm_core::policy::Typed;
use holm_core::{Code, Fault, ProjectId, WorkspaceId, trust};
use holm_engine::Stopped;
use holm_engine::exec::{ExecOutput, ExecRequest};
use holm_engine::inside;
use holm_engine::spec::{Secret, SecretSource, Service, Siblings, WorkspaceSpec};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// No `holm.toml` is longer.
const LONGEST: usize = 1 << 20;

/// Nothing there is told by its own code.
const ABSENT: u8 = 44;
const READ: &str = "[ -e holm.toml ] || exit 44; exec head -c 1048577 holm.toml";

pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(reload))
}

/// Takes over the `holm.toml` of the workspace's tree.
#[utoipa::path(
    post,
    path = "/workspaces/{id}/reload",
    operation_id = "workspace_reload",
    params(WorkspaceKey),
    request_body = Reload,
    responses((status = 200, body = Reloaded))
)]
async fn reload(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
    Body(reload): Body<Reload>,
) -> Answer<Reloaded> {
    let text = app.read_config(&id).await?;
    let spec = app.engine.spec(&id).await?;
    let content = digest(text.as_deref());
    let config = match &text {
        Some(text) => config::project::parse(text, "holm.toml").map_err(Fault::from)?,
        None => ProjectConfig::default(),
    };
    let project = ProjectId::parse(&spec.project_id).map_err(|error| {
        let message = format!("a stored workspace is damaged: {error}");
        Fault::new(Code::CorruptState, message, "holm doctor")
    })?;
    let judged = app.judge_after(&project, config, Some(&spec)).await?;
    let mut next = WorkspaceSpec::clone(&spec);
    next.network = compose::network(&judged.config, &judged.user.egress);
    next.limits = compose::limits(&judged.config.limits, &judged.user.limits);
    next.nested = judged.config.project.nested;
    next.siblings = compose::siblings(judged.config.project.isolation);
    next.services = declared::services(&judged.config);
    next.secrets = declared::secrets(&judged.config);
    next.agents = declared::agents(&judged);
    let protected = judged.config.project.protected_paths.iter();
    next.protected_paths = protected.map(ToString::to_string).collect();
    app.refuse_beyond_policy(&judged.config, Typed::default())?;
    let (next, _) = app.within_policy(next)?;
    let (changes, at_next_start) = differences(&spec, &next);
    let asks: Vec<_> = match judged.is_approved {
        true => Vec::new(),
        false => judged
            .asks
            .iter()
            .filter(|ask| is_wider(ask, &spec, &next))
            .collect(),
    };
    let mut reloaded = Reloaded {
        changes,
        at_next_start,
        asks: asks.iter().map(|ask| on_wire(ask)).collect(),
        content,
        applied: false,
    };
    if reload.dry_run {
        return Ok(Json(reloaded));
    }
    if reload
        .content
        .is_some_and(|shown| shown != reloaded.content)
    {
        return Err(changed().into());
    }
    if !asks.is_empty() {
        app.require_approver(&caller)?;
        if !reload.approve {
            return Err(not_trusted(&id, &reloaded.asks).into());
        }
        let (digest, asks) = (judged.digest.clone(), judged.asks.clone());
        app.engine.approve(&project, digest, asks).await?;
    }
    let change = move |spec: &mut WorkspaceSpec| {
        spec.network = next.network;
        spec.limits = next.limits;
        spec.nested = next.nested;
        spec.siblings = next.siblings;
        spec.services = next.services;
        spec.secrets = next.secrets;
        spec.agents = next.agents;
        spec.protected_paths = next.protected_paths;
    };
    app.engine.reload(&id, change).await?;
    reloaded.asks.clear();
    reloaded.applied = true;
    Ok(Json(reloaded))
}

// === impl App ===

impl App {
    /// The file as it is inside now; starts a stopped workspace.
    async fn read_config(&self, id: &WorkspaceId) -> Result<Option<String>, Fault> {
        let argv = ["sh", "-c", READ].map(|word| word.as_bytes().to_vec());
        let request = ExecRequest {
            argv: argv.to_vec(),
            // It may be a pipe that nothing ever writes to.
            quiet: Some(inside::quiet()),
            ..ExecRequest::default()
        };
        let mut stream = self.engine.exec(id, request, Stopped::Start).await?;
        let mut text = Vec::new();
        while let Some(output) = stream.output.recv().await {
            match output {
                ExecOutput::Stdout(bytes) if text.len() <= LONGEST => text.extend(bytes),
                ExecOutput::Exit(ABSENT) => return Ok(None),
                ExecOutput::Exit(0) if text.len() > LONGEST => {
                    return Err(unreadable("it is longer than 1 MiB"));
                }
                ExecOutput::Exit(0) => {
                    let text = String::from_utf8(text);
                    return text.map(Some).map_err(|_| unreadable("it is not UTF-8"));
                }
                ExecOutput::Exit(inside::TIMED_OUT) => {
                    let seconds = inside::quiet().as_secs();
                    let why = format!("reading it inside took longer than {seconds} seconds");
                    return Err(unreadable(&why));
                }
                ExecOutput::Exit(code) => {
                    return Err(unreadable(&format!("reading it inside ended with {code}")));
                }
                ExecOutput::Failed(fault) => return Err(fault),
                _ => {}
            }
        }
        Err(unreadable("the keeper went away"))
    }
}

fn on_wire(ask: &trust::Ask) -> Ask {
    Ask {
        key: ask.key.clone(),
        words: ask.words.clone(),
    }
}

fn digest(text: Option<&str>) -> String {
    let hash = Sha256::digest(text.unwrap_or_default());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether an ask is for more than what this workspace has already. What takes no effect by a
/// reload (files that are taken along) is asked for when it does.
fn is_wider(ask: &trust::Ask, spec: &WorkspaceSpec, next: &WorkspaceSpec) -> bool {
    let (section, key) = ask.key.split_once('.').unwrap_or((&ask.key, ""));
    let network = &spec.network;
    let mode = network.egress.mode;
    match (section, key) {
        ("egress", "mode") => {
            let is_asked =
                |(word, _): &&(&str, EgressMode)| ask.canonical.ends_with(&format!("{word:?}"));
            let asked = EgressMode::ALL.iter().find(is_asked);
            asked.is_none_or(|(_, asked)| *asked > mode)
        }
        ("egress", _) => {
            let has = |entry: &String| ask.canonical.ends_with(&format!("= {entry:?}"));
            mode == EgressMode::None || !network.egress.allow.iter().any(has)
        }
        ("shared", name) => !network.shared.iter().any(|shared| {
            let same = format!("shared.{name} = {:?} {}", shared.address, shared.port);
            shared.name == name && ask.canonical == same
        }),
        ("secrets", name) => {
            let named = |spec: &WorkspaceSpec| {
                let mut secrets = spec.secrets.iter();
                secrets.find(|secret| secret.name == name).cloned()
            };
            named(spec) != named(next)
        }
        ("agents", name) => !spec.agents.iter().any(|agent| {
            let has = format!("agents.{name} = {:?}", agent.command);
            agent.name == name && agent.approved && ask.canonical == has
        }),
        ("project", "nested") => !spec.nested,
        ("project", "isolation") => spec.siblings == Siblings::Hidden,
        ("project", "protected_paths") => true,
        ("limits", key) => {
            !limit_of(spec, key).is_some_and(|has| ask.canonical.ends_with(&format!("= {has}")))
        }
        ("project", "include" | "driver") | ("caches", _) => false,
        _ => true,
    }
}

/// A limit that is in force, as an ask writes it.
fn limit_of(spec: &WorkspaceSpec, key: &str) -> Option<String> {
    let limits = &spec.limits;
    match key {
        "memory" => limits.memory_bytes.map(display_size),
        "disk" => limits.disk_bytes.map(display_size),
        "cpus" => limits.cpus.map(|cpus| cpus.to_string()),
        "processes" => limits.processes.map(|processes| processes.to_string()),
        _ => None,
    }
}

/// What is different, and which keys of it take effect at the next start.
fn differences(before: &WorkspaceSpec, after: &WorkspaceSpec) -> (Vec<String>, Vec<String>) {
    let (mut changes, mut later) = (Vec::new(), Vec::new());
    let (old, new) = (&before.network, &after.network);
    if old.egress.mode != new.egress.mode {
        changes.push(format!(
            "egress.mode: {} → {}",
            old.egress.mode.as_str(),
            new.egress.mode.as_str()
        ));
    }
    compare(
        "egress.allow",
        &old.egress.allow,
        &new.egress.allow,
        &mut changes,
    );
    let mut at_start = |key: &str, old: Vec<String>, new: Vec<String>| {
        let known = changes.len();
        compare(key, &old, &new, &mut changes);
        if changes.len() > known {
            later.push(key.to_owned());
        }
    };
    let ports = |spec: &WorkspaceSpec| {
        let ports = spec.network.ports.iter();
        ports
            .map(|port| format!("{} = {}", port.name, port.port))
            .collect()
    };
    at_start("ports", ports(before), ports(after));
    let shared = |spec: &WorkspaceSpec| {
        let shared = spec.network.shared.iter();
        shared
            .map(|shared| format!("{} = {} at {}", shared.name, shared.address, shared.port))
            .collect()
    };
    at_start("shared", shared(before), shared(after));
    let protected = |spec: &WorkspaceSpec| spec.protected_paths.clone();
    at_start(
        "project.protected_paths",
        protected(before),
        protected(after),
    );
    let secrets = |spec: &WorkspaceSpec| spec.secrets.iter().map(in_words).collect();
    at_start("secrets", secrets(before), secrets(after));
    let nested = |spec: &WorkspaceSpec| vec![spec.nested.to_string()];
    at_start("project.nested", nested(before), nested(after));
    let isolation = |spec: &WorkspaceSpec| {
        let word = match spec.siblings {
            Siblings::Hidden => "workspace",
            Siblings::Shown => "project",
        };
        vec![word.to_owned()]
    };
    at_start("project.isolation", isolation(before), isolation(after));
    at_start("limits", limits(before), limits(after));
    changes.extend(changed_services(&before.services, &after.services));
    let agents = |spec: &WorkspaceSpec| -> Vec<String> {
        let agents = spec.agents.iter();
        agents
            .map(|agent| format!("{} = {:?}", agent.name, agent.command))
            .collect()
    };
    compare("agents", &agents(before), &agents(after), &mut changes);
    if new.names.iter().any(|name| !old.names.contains(name)) {
        later.push("the names of new services".to_owned());
    }
    (changes, later)
}

fn limits(spec: &WorkspaceSpec) -> Vec<String> {
    let limits = &spec.limits;
    let whole = [
        ("memory", limits.memory_bytes),
        ("processes", limits.processes),
        ("disk", limits.disk_bytes),
    ];
    let mut written: Vec<String> = whole
        .iter()
        .filter_map(|(name, value)| Some(format!("{name} = {}", (*value)?)))
        .collect();
    written.extend(limits.cpus.map(|cpus| format!("cpus = {cpus}")));
    written
}

fn in_words(secret: &Secret) -> String {
    let source = match &secret.source {
        SecretSource::Env(name) => format!("the variable {name}"),
        SecretSource::File(path) => format!("the file {path}"),
        SecretSource::Command(argv) => format!("the command {}", argv.join(" ")),
        SecretSource::Stored => "stored".to_owned(),
    };
    let (name, inject, to) = (&secret.name, secret.inject.as_str(), secret.to.join(", "));
    let ttl = secret
        .ttl_ms
        .map_or(String::new(), |ttl| format!(" for {ttl} ms"));
    let at = match secret.hosts.as_slice() {
        [] => String::new(),
        hosts => format!(" at {}", hosts.join(", ")),
    };
    format!("{name} ({source}) as {inject} to {to}{at}{ttl}")
}

/// What becomes of each service that is another one now.
fn changed_services(before: &[Service], after: &[Service]) -> Vec<String> {
    let named = |services: &[Service], name: &str| {
        let found = services.iter().find(|service| service.name == name);
        found.cloned()
    };
    let mut changes = Vec::new();
    for old in before {
        let name = &old.name;
        let Some(new) = named(after, name) else {
            changes.push(format!("services.{name}: − (it is stopped)"));
            continue;
        };
        let live = [
            ("run", old.run != new.run),
            ("env", old.env != new.env),
            ("ready", old.ready != new.ready),
        ];
        let quiet = [
            ("depends_on", old.depends_on != new.depends_on),
            ("restart", old.restart != new.restart),
            ("on_assign", old.on_assign != new.on_assign),
            ("build", old.build != new.build),
            ("rebuild_when", old.rebuild_when != new.rebuild_when),
        ];
        let differing = live.iter().chain(&quiet).filter(|(_, differs)| *differs);
        let keys: Vec<&str> = differing.map(|(key, _)| *key).collect();
        if keys.is_empty() {
            continue;
        }
        let what = match live.iter().any(|(_, differs)| *differs) {
            true => " (it is restarted)",
            false => "",
        };
        changes.push(format!("services.{name}: {}{what}", keys.join(", ")));
    }
    let is_new = |service: &&Service| named(before, &service.name).is_none();
    let added = after.iter().filter(is_new);
    changes.extend(added.map(|service| format!("services.{}: + (it is started)", service.name)));
    changes
}

fn compare(key: &str, old: &[String], new: &[String], changes: &mut Vec<String>) {
    let (before, after): (BTreeSet<_>, BTreeSet<_>) = (old.iter().collect(), new.iter().collect());
    changes.extend(
        before
            .difference(&after)
            .map(|entry| format!("{key}: − {entry}")),
    );
    changes.extend(
        after
            .difference(&before)
            .map(|entry| format!("{key}: + {entry}")),
    );
}

fn unreadable(why: &str) -> Fault {
    Fault::new(
        Code::InvalidConfig,
        format!("holm.toml of the workspace cannot be read: {why}"),
        "look at it with `holm exec WS -- cat holm.toml`",
    )
}

fn changed() -> Fault {
    Fault::new(
        Code::Refused,
        "holm.toml was changed inside after it was shown; nothing was taken over",
        "type the command again",
    )
}

fn not_trusted(id: &WorkspaceId, asks: &[Ask]) -> Fault {
    let asks: Vec<_> = asks
        .iter()
        .map(|ask| format!("{} ({})", ask.words, ask.key))
        .collect();
    Fault::new(
        Code::NotTrusted,
        format!(
            "holm.toml asks for what nobody approved: {}",
            asks.join("; ")
        ),
        format!("`holm reload {id} --yes` approves exactly this"),
    )
}
