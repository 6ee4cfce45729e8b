//! Turns a client's request into a [`WorkspaceSpec`]: configuration, trust, limits, environment and
//! uploads, resolved once. Errors are reported before anything is created.

use super::failure::{Failure, bad_request};
use super::layers::{Start, Surroundings};
use super::service_images::NeededImages;
use super::trust::{Files, Judged, Untrusted};
use super::uploads::Received;
use super::{App, declared};
use holm_api::workspace::CreateWorkspace;
use holm_core::address;
use holm_core::config::{
    DriverName, Egress as ConfigEgress, EgressMode, Limits, Name, Policy, Port, Project,
    ProjectConfig, Root, SIBLINGS, Scope, Variable, Word,
};
use holm_core::environment::looks_secret;
use holm_core::policy::Typed;
use holm_core::spec::WorkspaceSpec;
use holm_core::spec::{
    Brought, Cache, Code as CodeSpec, Declared, DeclaredPort, Dirty, Egress, Environment, Network,
    Purpose, Shared, Siblings, SpecLimits, Version, Volume,
};
use holm_core::toolchain::{Client, Look, Visible, visible};
use holm_core::{Code, Fault};
use holm_engine::store::ProjectRecord;
use holm_engine::try_blocking;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A spec, with the files it needs until the workspace exists.
pub struct Composed {
    /// Without id and label, which the engine sets.
    pub spec: WorkspaceSpec,
    pub images: NeededImages,
    /// Deleted when dropped; keep it until the workspace exists.
    pub received: Vec<Received>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

// === impl App ===

impl App {
    pub async fn compose(
        &self,
        create: &CreateWorkspace,
        project: &ProjectRecord,
    ) -> Result<Composed, Failure> {
        let judged = self.judge_new(create, project).await?;
        let (mut judged, mut notes) = judged.settle(untrusted(create))?;
        self.take_driver(create, &mut judged)?;
        let asked = &judged.config.project;
        self.engine.drivers().require(asked.driver)?;
        let root = root(create, &judged)?;
        refuse_in_place_of_siblings(asked.isolation, &root)?;
        let home = absolute("home", &create.home)?;
        if let Some(commit) = &create.commit {
            self.require_commit(commit, project, "holm up").await?;
        }
        let found = look_for_programs(create, &judged, &root, &home).await?;
        let (brought, received) = self.brought(create)?;
        let surroundings = Surroundings {
            root: &root,
            home: &home,
            toolchains: &found.shown,
            brought: &brought,
        };
        let (layers, said) = self.layers(create, project, &judged, surroundings).await?;
        notes.extend(not_shown(&found, &judged).into_iter().chain(said));
        let (config, start) = (&judged.config, Start::of(create, &root, &home));
        let caches = self.caches(&start, project, config).await?;
        let images = self.find_images(config, &[]).await?;
        let volumes = self.volumes(&start, project, config, &images).await?;
        refuse_covering(&volumes, &root, &home)?;
        notes.extend(shared_caches(&caches).chain(said_of_config(&volumes, config)));
        notes.extend(said_of_files(config).chain(create.notes.iter().cloned()));
        let spec = WorkspaceSpec {
            version: Version,
            id: String::new(),
            project_id: project.id.to_string(),
            driver: asked.driver,
            label: String::new(),
            root,
            home,
            code: code(create, project),
            protected_paths: protected_paths(asked),
            nested: asked.nested,
            environment: environment(create, found.path),
            env: declared::variables(&judged.config.env),
            toolchains: found.shown,
            home_copies: judged.user.home_copies.clone(),
            limits: limits(&judged.config.limits, &judged.user.limits),
            network: network(&judged.config, &judged.user.egress),
            services: declared::services(&judged.config, &images.manifests),
            allow_degraded: create.allow_degraded.clone(),
            brought,
            layers,
            purpose: Purpose::Work,
            caches,
            volumes,
            retired_volumes: Vec::new(),
            generation: 0,
            origin: None,
            snapshots: Vec::new(),
            siblings: siblings(asked.isolation),
            agents: declared::agents(&judged),
            moving: None,
            secrets: declared::secrets(&judged.config),
            checks: declared::checks(&judged.config),
            review_required: judged.config.review_required,
            check_runs: judged.config.check_runs,
            compose_files: judged.config.compose.files.clone(),
            dev_container: judged.config.dev_container.clone(),
            declared: Some(declared_at_start(create, &judged.config)),
        };
        let (spec, narrowed) = self.within_policy(spec)?;
        notes.extend(narrowed);
        Ok(Composed {
            images: images.needed(config),
            spec,
            received,
            notes,
        })
    }

    /// The driver that the user typed counts instead of that of `holm.toml`. Refuses what the machine's policy forbids.
    fn take_driver(&self, create: &CreateWorkspace, judged: &mut Judged) -> Result<(), Failure> {
        if let Some(typed) = &create.driver {
            judged.config.project.driver = DriverName::parse_word(typed).ok_or_else(|| {
                let message = format!("there is no driver `{}`", typed.escape_debug());
                let hint = "the drivers are `linux` and `docker`";
                Fault::new(Code::DriverUnavailable, message, hint)
            })?;
        }
        self.refuse_beyond_policy(&judged.config, typed(create))?;
        Ok(())
    }

    /// Variables of the user's environment need trust.
    async fn judge_new(
        &self,
        create: &CreateWorkspace,
        project: &ProjectRecord,
    ) -> Result<Judged, Fault> {
        let mut compose = create.compose.clone();
        if create.untrusted {
            compose.environment.clear();
        }
        let files = Files {
            holm_toml: create.config.as_deref(),
            compose: &compose,
            built: &create.built,
        };
        let include = &create.worktree_include;
        self.judge(&project.id, files, include).await
    }

    /// The commit must have been sent for this project.
    pub async fn require_commit(
        &self,
        commit: &str,
        project: &ProjectRecord,
        verb: &'static str,
    ) -> Result<(), Fault> {
        let commit = commit.to_owned();
        let (repositories, project) = (self.repositories.clone(), project.clone());
        try_blocking(move || {
            if repositories.open(&project)?.has_commit(&commit)? {
                Ok(())
            } else {
                Err(Fault::new(
                    Code::RefNotFound,
                    format!(
                        "commit `{}` was not sent to the daemon",
                        commit.escape_debug()
                    ),
                    format!("type the `{verb}` again: it sends what is missing"),
                ))
            }
        })
        .await
    }

    fn brought(&self, create: &CreateWorkspace) -> Result<(Brought, Vec<Received>), Failure> {
        let mut received = Vec::new();
        let mut take = |name: &str| -> Result<PathBuf, Failure> {
            let upload = self.uploads.take(name)?;
            let path = upload.path().to_owned();
            received.push(upload);
            Ok(path)
        };
        let include_tar = create.include.as_deref().map(&mut take).transpose()?;
        let dirty = match &create.dirty {
            Some(dirty) => Some(Dirty {
                pack: take(&dirty.pack)?,
                worktree_tree: object_id(&dirty.worktree_tree)?,
                index_tree: object_id(&dirty.index_tree)?,
                intended: dirty.intended.clone(),
            }),
            None => None,
        };
        Ok((Brought { include_tar, dirty }, received))
    }
}

/// What the Compose files and `devcontainer.json` have that has no effect, and where programs run.
fn said_of_files(config: &ProjectConfig) -> impl Iterator<Item = String> {
    let warnings = config.compose.warnings.iter();
    let warnings = warnings.map(|at| format!("{}:{}: {}", at.file, at.line, at.words));
    warnings.chain(said_of_container(config))
}

/// Where programs run, if not in the workspace's own root.
fn said_of_container(config: &ProjectConfig) -> Option<String> {
    let container = config.dev_container.as_ref()?;
    let (file, folder) = (&container.file, container.folder.display());
    Some(format!(
        "commands and sessions run in the container of {file}, in {folder}"
    ))
}

/// Whether a request goes on without the parts of `holm.toml` that the user did not approve.
fn untrusted(create: &CreateWorkspace) -> Untrusted {
    if create.untrusted {
        Untrusted::Drop
    } else {
        Untrusted::Refuse
    }
}

/// From `holm.toml` alone, without the patterns of `.worktreeinclude`.
fn declared_at_start(create: &CreateWorkspace, config: &ProjectConfig) -> Declared {
    let mut declared = declared::declared(config);
    let listed = &create.worktree_include;
    declared.include.retain(|pattern| !listed.contains(pattern));
    declared
}

fn typed(create: &CreateWorkspace) -> Typed<'_> {
    Typed {
        included: &create.excluded,
        degraded: &create.allow_degraded,
    }
}

/// Directories of the user's settings that workspaces do not see.
fn not_shown(found: &Visible, judged: &Judged) -> Vec<String> {
    let asked = &judged.user.toolchain_paths;
    let left_out = found.left_out.iter().map(|left_out| &left_out.path);
    let note = |path: &PathBuf| {
        let path = path.display();
        format!("[toolchains] path {path} is not shown inside")
    };
    left_out
        .filter(|path| asked.contains(path))
        .map(note)
        .collect()
}

fn root(create: &CreateWorkspace, judged: &Judged) -> Result<PathBuf, Failure> {
    if let Some(root) = &judged.config.project.root {
        return Ok(root.as_path().to_owned());
    }
    let root = Root::parse(&create.default_root).map_err(|error| {
        let shown = create.default_root.escape_debug();
        Fault::new(
            Code::InvalidConfig,
            format!("the code cannot be at `{shown}` inside"),
            "say where it should be: `root = \"/home/me/src/shop\"` in [project] of holm.toml",
        )
        .because(error)
    })?;
    Ok(root.as_path().to_owned())
}

pub fn siblings(isolation: Scope) -> Siblings {
    match isolation {
        Scope::Workspace => Siblings::Hidden,
        Scope::Project => Siblings::Shown,
    }
}

/// The siblings' mount would cover the code.
pub fn refuse_in_place_of_siblings(isolation: Scope, root: &Path) -> Result<(), Fault> {
    if isolation == Scope::Workspace || !root.starts_with(SIBLINGS) {
        return Ok(());
    }
    Err(Fault::new(
        Code::InvalidConfig,
        format!("the code cannot be below {SIBLINGS} where siblings' trees are"),
        "give `root` another place in [project] of holm.toml, or leave `isolation` out",
    ))
}

/// A volume over the code, home or a parent of them would hide them.
pub fn refuse_covering(volumes: &[Volume], root: &Path, home: &Path) -> Result<(), Fault> {
    let mut covering = volumes.iter().filter_map(|volume| {
        let covered = [root, home, Path::new("/tmp")].into_iter();
        let mut covered = covered.filter(|place| place.starts_with(&volume.path));
        Some((volume, covered.next()?))
    });
    let Some((volume, covered)) = covering.next() else {
        return Ok(());
    };
    let (name, path, covered) = (&volume.name, volume.path.display(), covered.display());
    Err(Fault::new(
        Code::InvalidConfig,
        format!("the volume {name} at {path} would hide {covered}"),
        format!("give it a directory of its own: `path = \"/data/{name}\"` in [volumes.{name}]"),
    ))
}

fn said_of_config(volumes: &[Volume], config: &ProjectConfig) -> Vec<String> {
    let secrets = secrets_in_env(config);
    [shared_volumes(volumes), unused_seeds(config), secrets].concat()
}

/// Seeds of volumes that start empty.
fn unused_seeds(config: &ProjectConfig) -> Vec<String> {
    let unused = config
        .volumes
        .iter()
        .filter(|(_, volume)| volume.policy != Policy::Fork && !volume.seed.is_empty());
    let note = |(name, volume): (&Name, &holm_core::config::Volume)| {
        let policy = volume.policy.as_str();
        format!(
            "the seed of the volume {name} is not run: it is {policy}, and `policy = \"fork\"` has one"
        )
    };
    unused.map(note).collect()
}

/// Notes about volumes that several workspaces write at the same time.
fn shared_volumes(volumes: &[Volume]) -> Vec<String> {
    let shared = volumes
        .iter()
        .filter(|volume| volume.policy == Policy::Shared && !volume.single);
    let note = |volume: &Volume| {
        let name = &volume.name;
        format!(
            "the volume {name} is shared: every workspace of the project writes the same files; \
             `single = true` keeps it to one at a time"
        )
    };
    shared.map(note).collect()
}

/// Values of `[env]` that should be secrets: every program inside can read them, and so can everybody
/// who reads the repository.
pub fn secrets_in_env(config: &ProjectConfig) -> Vec<String> {
    let env = config.env.iter();
    let secret = env.filter(|(name, value)| looks_secret(name.as_str(), value));
    let note = |(name, _): (&Variable, &String)| {
        format!(
            "`{name}` in [env] of holm.toml looks like a secret; [secrets.{name}] keeps its value out of the file"
        )
    };
    secret.map(note).collect()
}

fn environment(create: &CreateWorkspace, path: String) -> Environment {
    Environment {
        path,
        lang: create.lang.clone(),
        tz: create.tz.clone(),
    }
}

fn protected_paths(asked: &Project) -> Vec<String> {
    let paths = asked.protected_paths.iter();
    paths.map(ToString::to_string).collect()
}

fn absolute(what: &str, text: &str) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(text);
    if path.is_absolute() && !text.contains('\0') {
        Ok(path)
    } else {
        Err(bad_request(format!("`{what}` is not an absolute path")))
    }
}

fn object_id(text: &str) -> Result<String, Failure> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex && matches!(text.len(), 40 | 64) {
        Ok(text.to_owned())
    } else {
        Err(bad_request("a tree is not an object id"))
    }
}

fn code(create: &CreateWorkspace, project: &ProjectRecord) -> CodeSpec {
    CodeSpec {
        commit: create.commit.clone(),
        ref_name: create.reference.clone(),
        object_format: project.object_format.clone(),
        user_name: create.user_name.clone(),
        user_email: create.user_email.clone(),
        remotes: create.remotes.clone(),
        shallow: create.shallow.clone(),
        excluded: create.excluded.clone(),
        base: None,
    }
}

/// The project's limits override the user's. Explicit limits of the project are enforced or
/// refused.
pub fn limits(project: &Limits, user: &Limits) -> SpecLimits {
    let written = [
        ("memory", project.memory.is_some()),
        ("cpus", project.cpus.is_some()),
        ("processes", project.processes.is_some()),
        ("disk", project.disk.is_some()),
    ];
    let required = written.iter().filter(|(_, is_written)| *is_written);
    SpecLimits {
        memory_bytes: project.memory.or(user.memory),
        cpus: project.cpus.or(user.cpus),
        processes: project.processes.or(user.processes),
        disk_bytes: project.disk.or(user.disk),
        required: required.map(|(name, _)| (*name).to_owned()).collect(),
    }
}

/// The project's egress overrides the user's; the lists of both are allowed.
pub fn network(config: &ProjectConfig, user: &ConfigEgress) -> Network {
    let mode = config.egress.mode.or(user.mode).unwrap_or(EgressMode::Open);
    let mut allow: Vec<String> = Vec::new();
    for destination in config.egress.allow.iter().chain(&user.allow) {
        let text = destination.to_string();
        if !allow.contains(&text) {
            allow.push(text);
        }
    }
    let ports = config
        .ports
        .iter()
        .map(|(name, port)| declared_port(config, name, port));
    let shared = config.shared.iter().map(|(name, shared)| Shared {
        name: name.to_string(),
        address: shared.address.to_string(),
        port: shared.port.get(),
    });
    Network {
        ports: ports.collect(),
        egress: Egress { mode, allow },
        shared: shared.collect(),
        names: config.services.keys().map(Name::to_string).collect(),
    }
}

fn declared_port(config: &ProjectConfig, name: &Name, declared: &Port) -> DeclaredPort {
    let (run, port) = (config.command_on(declared.port), declared.port.get());
    let host = declared.host.as_ref().map(ToString::to_string);
    DeclaredPort {
        name: name.to_string(),
        port,
        scheme: address::scheme(run, name.as_str(), port).to_owned(),
        host: host.or_else(|| address::default_host(run?, port)),
    }
}

async fn look_for_programs(
    create: &CreateWorkspace,
    judged: &Judged,
    root: &Path,
    home: &Path,
) -> Result<Visible, Fault> {
    let (path, extra) = (create.path.clone(), judged.user.toolchain_paths.clone());
    let (root, home) = (root.to_owned(), home.to_owned());
    try_blocking(move || {
        let client = Client {
            path: &path,
            home: &home,
            variables: &BTreeMap::new(),
            root: &root,
            extra: &extra,
        };
        let look = Look {
            read_link: &|path| std::fs::read_link(path).ok(),
            exists: &|path| path.exists(),
            list: &|path| {
                let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
                entries.map(|entry| entry.path()).collect()
            },
        };
        Ok(visible(&client, &look))
    })
    .await
}

/// The danger of a shared cache is noted each time.
fn shared_caches(caches: &[Cache]) -> impl Iterator<Item = String> {
    let shared = |cache: &&Cache| cache.policy == Policy::Shared;
    caches.iter().filter(shared).map(|cache| {
        format!(
            "the cache {} is shared: what one workspace puts there, all others of this project use; \
             `policy = \"fork\"` keeps them apart",
            cache.name
        )
    })
}
