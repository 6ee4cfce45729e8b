//! `POST /workspaces/{id}/reload`: takes a `holm.toml` (of the user's checkout, of a commit or of the tree inside),
//! compares it, checks trust, stores it and puts it in force.
//!
//! Requests beyond those in force need a person, who approves exactly the content that was shown. The
//! daemon reads no checkout: the client sends the text, or the client's own program reads it.

use super::caller::Caller;
use super::declared::Manifests;
use super::failure::{Answer, Body, WorkspaceKey};
use super::layers::Start;
use super::service_images::Found;
use super::trust::{Files, Judged};
use super::{App, compose, declared, takeover};
use crate::helper::program;
use axum::Json;
use axum::extract::State;
use holm_api::project::Ask;
use holm_api::reload::{ConfigText, Reload, ReloadFrom, Reloaded};
use holm_config::compose::Unread;
use holm_config::devcontainer::collect;
use holm_config::project::dockerfiles;
use holm_config::trust::digest_of;
use holm_core::compose::ComposeFiles;
use holm_core::config::{EgressMode, ProjectConfig, Scope, Word, display_size};
use holm_core::exec::{ExecOutput, ExecRequest};
use holm_core::image_reference::ImageReference;
use holm_core::layer::Maker;
use holm_core::policy::Typed;
use holm_core::spec::{Cache, Siblings, Volume, WorkspaceSpec};
use holm_core::{Code, Fault, ProjectId, WorkspaceId, trust};
use holm_engine::Stopped;
use holm_engine::inside;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The size limit of a `holm.toml`.
const LONGEST: usize = 1 << 20;

/// The exit code for a missing file.
const ABSENT: u8 = 44;
const READ: &str = "[ -e \"./$1\" ] || exit 44; exec head -c 1048577 \"./$1\"";
const HOLM_TOML: &str = "holm.toml";

operations! {
    /// Takes over a changed `holm.toml`, by default that of the user's checkout.
    post "/workspaces/{id}/reload" "workspace_reload" reload
        of (WorkspaceKey) sends Reload -> Reloaded;
}

async fn reload(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
    Body(reload): Body<Reload>,
) -> Answer<Reloaded> {
    let spec = app.engine.spec(&id).await?;
    let texts = app.config_text(&id, &spec, &caller, &reload).await?;
    let config = config_of(&texts, &spec)?;
    let content = digest(&texts);
    let project = project_of(&spec)?;
    let judged = app.judge_after(&project, config, Some(&spec)).await?;
    let mut images = app.find_images(&judged.config, &spec.services).await?;
    if reload.dry_run {
        images.suppose_built();
    }
    let (volumes, caches) = app.declared_data(&project, &spec, &judged, &images).await?;
    let mut next = asked(&spec, &judged, images.complete()?);
    let data = takeover::data(&spec, &volumes, &caches);
    (next.volumes, next.retired_volumes) = (data.volumes, data.retired_volumes);
    next.caches = data.caches;
    app.refuse_beyond_policy(&judged.config, Typed::default())?;
    let (next, _) = app.within_policy(next)?;
    refuse_unstartable(&next, judged.config.project.isolation)?;
    app.engine.driver(&next)?.check(&next)?;
    let untaken = [takeover::untaken(&spec, &judged.config), data.untaken].concat();
    let asks: Vec<_> = if judged.is_approved {
        Vec::new()
    } else {
        judged
            .asks
            .iter()
            .filter(|ask| is_wider(ask, &spec, &next))
            .collect()
    };
    let mut reloaded = Reloaded {
        notes: compose::secrets_in_env(&judged.config),
        asks: asks.iter().map(|ask| to_api(ask)).collect(),
        content,
        ..takeover::differences(&spec, &next, untaken)
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
        spec.env = next.env;
        spec.services = next.services;
        spec.secrets = next.secrets;
        spec.agents = next.agents;
        spec.protected_paths = next.protected_paths;
        spec.checks = next.checks;
        spec.review_required = next.review_required;
        spec.check_runs = next.check_runs;
        // From the current spec: a volume may have been reset meanwhile.
        let data = takeover::data(spec, &volumes, &caches);
        (spec.volumes, spec.retired_volumes) = (data.volumes, data.retired_volumes);
        spec.caches = data.caches;
    };
    app.engine.reload(&id, change).await?;
    reloaded.asks.clear();
    reloaded.applied = true;
    Ok(Json(reloaded))
}

// === impl App ===

impl App {
    /// Volumes and caches as a new workspace would have them.
    async fn declared_data(
        &self,
        project: &ProjectId,
        spec: &WorkspaceSpec,
        judged: &Judged,
        images: &Found,
    ) -> Result<(Vec<Volume>, Vec<Cache>), Fault> {
        let project = self.engine.project(project).await?;
        let (root, home) = (spec.root.as_path(), spec.home.as_path());
        let start = Start {
            // Whether a branch of the user contains the commit is known only at creation.
            maker: Maker {
                commit: spec.code.commit.as_deref(),
                tree: None,
                is_contained: false,
            },
            changed: Vec::new(),
            root,
            home,
        };
        let volumes = self
            .volumes(&start, &project, &judged.config, images)
            .await?;
        let caches = self.caches(&start, &project, &judged.config).await?;
        Ok((volumes, caches))
    }

    /// The texts that were sent or asked for.
    async fn config_text(
        &self,
        id: &WorkspaceId,
        spec: &WorkspaceSpec,
        caller: &Caller,
        reload: &Reload,
    ) -> Result<ConfigText, Fault> {
        match (&reload.config, reload.from) {
            (Some(text), _) => Ok(ConfigText {
                config: Some(text.clone()),
                compose: reload.compose.clone(),
                built: reload.built.clone(),
            }),
            (None, ReloadFrom::Inside) => self.config_inside(id, spec).await,
            (None, from) => {
                caller.local().allow()?;
                self.config_outside(id, spec, from).await
            }
        }
    }

    /// The file's content outside, which the client's own program reads.
    async fn config_outside(
        &self,
        id: &WorkspaceId,
        spec: &WorkspaceSpec,
        from: ReloadFrom,
    ) -> Result<ConfigText, Fault> {
        let project = self.engine.project(&project_of(spec)?).await?;
        let mut words = vec!["reload", id.as_str(), "--show-config"];
        if from == ReloadFrom::Commit {
            words.push("--committed");
        }
        program::holm(Path::new(&project.path), &words, None).await
    }

    /// The files inside. Which Compose files there are is known only when those are read that name them.
    async fn config_inside(
        &self,
        id: &WorkspaceId,
        spec: &WorkspaceSpec,
    ) -> Result<ConfigText, Fault> {
        let mut texts = ConfigText {
            config: self.read_inside(id, HOLM_TOML).await?,
            compose: ComposeFiles::default(),
            built: BTreeMap::new(),
        };
        let Some(text) = &texts.config else {
            return Ok(texts);
        };
        let config = holm_config::project::parse(text, HOLM_TOML)?;
        let everything = ComposeFiles {
            root: spec.root.display().to_string(),
            home: spec.home.display().to_string(),
            ..ComposeFiles::default()
        };
        let mut read: BTreeMap<String, Option<String>> = BTreeMap::new();
        loop {
            let mut missing = Vec::new();
            texts.compose = collect(&config, &everything, &mut |path| match read.get(path) {
                Some(text) => text.clone().ok_or(Unread::Missing),
                None => {
                    missing.push(path.to_owned());
                    Err(Unread::Missing)
                }
            });
            // The reader limits how many files name each other.
            if missing.is_empty() {
                break;
            }
            for path in missing {
                let text = self.read_inside(id, &path).await?;
                read.insert(path, text);
            }
        }
        // What is wrong is told when the configuration is read for its own sake.
        let whole = holm_config::project::parse_with(text, HOLM_TOML, &texts.compose);
        for path in dockerfiles(&whole.unwrap_or_default()) {
            if let Some(text) = self.read_inside(id, &path).await? {
                texts.compose.dockerfiles.insert(path, digest_of(&text));
            }
        }
        Ok(texts)
    }

    /// A file's current content inside; starts a stopped workspace.
    async fn read_inside(&self, id: &WorkspaceId, path: &str) -> Result<Option<String>, Fault> {
        let argv = ["sh", "-c", READ, "read", path].map(|word| word.as_bytes().to_vec());
        let unreadable = |why: &str| unreadable(path, why);
        let request = ExecRequest {
            argv: argv.to_vec(),
            // It may be a pipe without a writer.
            quiet_ms: Some(inside::quiet().as_millis() as u64),
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

/// The spec with everything of the file except volumes and caches, which hold data.
fn asked(spec: &WorkspaceSpec, judged: &Judged, manifests: &Manifests) -> WorkspaceSpec {
    let config = &judged.config;
    let protected = config.project.protected_paths.iter();
    WorkspaceSpec {
        network: compose::network(config, &judged.user.egress),
        limits: compose::limits(&config.limits, &judged.user.limits),
        nested: config.project.nested,
        siblings: compose::siblings(config.project.isolation),
        env: declared::variables(&config.env),
        services: declared::services(config, manifests),
        secrets: declared::secrets(config),
        agents: declared::agents(judged),
        checks: declared::checks(config),
        review_required: config.review_required,
        check_runs: config.check_runs,
        compose_files: config.compose.files.clone(),
        dev_container: config.dev_container.clone(),
        protected_paths: protected.map(ToString::to_string).collect(),
        ..spec.clone()
    }
}

/// Refuses now what would make the next start fail.
fn refuse_unstartable(next: &WorkspaceSpec, isolation: Scope) -> Result<(), Fault> {
    compose::refuse_in_place_of_siblings(isolation, &next.root)?;
    compose::refuse_covering(&next.volumes, &next.root, &next.home)
}

fn project_of(spec: &WorkspaceSpec) -> Result<ProjectId, Fault> {
    ProjectId::parse(&spec.project_id).map_err(|error| {
        let message = "a stored workspace is damaged";
        Fault::new(Code::CorruptState, message, "holm doctor").because(error)
    })
}

fn to_api(ask: &trust::Ask) -> Ask {
    Ask {
        key: ask.key.clone(),
        words: ask.words.clone(),
    }
}

/// The images of services that are built from what they were built from before.
fn built_before(spec: &WorkspaceSpec, config: &ProjectConfig) -> BTreeMap<String, ImageReference> {
    let mut built = BTreeMap::new();
    for (name, build) in config.image_builds() {
        let service = spec.services.iter().find(|one| one.name == name.as_str());
        let image = service.and_then(|service| service.image.as_ref());
        if let Some(image) = image.filter(|image| image.build.as_ref() == Some(build)) {
            built.insert(name.to_string(), image.reference.clone());
        }
    }
    built
}

fn config_of(texts: &ConfigText, spec: &WorkspaceSpec) -> Result<ProjectConfig, Fault> {
    let files = Files {
        holm_toml: texts.config.as_deref(),
        compose: &texts.compose,
        built: &BTreeMap::new(),
    };
    let mut config = files.config()?;
    // An image stays until it is built from something else.
    config.name_built(&built_before(spec, &config));
    config.name_built(&texts.built);
    Ok(config)
}

fn digest(texts: &ConfigText) -> String {
    let mut content = texts.config.clone().unwrap_or_default();
    let files = texts.compose.files.iter().chain(&texts.compose.environment);
    for (name, text) in files {
        content.push_str(&format!("\0{name}\0{text}"));
    }
    let hash = Sha256::digest(content);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a request exceeds what this workspace has already. Requests without effect on a reload
/// (copied files) are checked when they take effect.
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
        ("caches", name) => {
            let named = |spec: &WorkspaceSpec| {
                let mut caches = spec.caches.iter();
                caches.find(|cache| cache.name == name).cloned()
            };
            named(spec) != named(next)
        }
        ("agents", name) => !spec.agents.iter().any(|agent| {
            let has = format!("agents.{name} = {:?}", agent.command);
            agent.name == name && agent.approved && ask.canonical == has
        }),
        ("services", key) => {
            let named = |spec: &WorkspaceSpec| {
                let name = key.strip_suffix(".build")?;
                let service = spec.services.iter().find(|one| one.name == name)?;
                service.image.as_ref()?.build.clone()
            };
            named(spec).is_none() || named(spec) != named(next)
        }
        ("project", "nested") => !spec.nested,
        ("project", "isolation") => spec.siblings == Siblings::Hidden,
        ("project", "protected_paths") => true,
        ("limits", key) => {
            !limit_of(spec, key).is_some_and(|has| ask.canonical.ends_with(&format!("= {has}")))
        }
        ("project", "include" | "driver") => false,
        _ => true,
    }
}

/// A limit in force, in the form of a request.
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

fn unreadable(path: &str, why: &str) -> Fault {
    Fault::new(
        Code::InvalidConfig,
        format!("{path} of the workspace cannot be read: {why}"),
        format!("look at it with `holm exec WS -- cat {path}`"),
    )
}

fn changed() -> Fault {
    Fault::new(
        Code::Refused,
        "holm.toml was changed after it was shown; nothing was taken over",
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
