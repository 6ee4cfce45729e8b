//! The container as a service of the workspace.

use super::source::{Source, Where};
use super::{beside, commands, features, kind, mounts};
use crate::compose::tree::{Location, Node, Value};
use crate::shape::short;
use holm_core::compose_services::{name_of, place_of_volume};
use holm_core::config::{
    Name, OnAssign, Policy, Probe, ProjectConfig, Ready, Restart, Root, Service, Volume,
};
use holm_core::container::{self, Attachment, Mount};
use holm_core::dev_container::{DevContainer, INITIALIZE, SERVICE, Stage};
use holm_core::{Code, Fault};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Keeps a container running whose image has a program of its own.
const WAIT: &str = "trap 'exit 0' TERM; while :; do sleep 86400 & wait $!; done";

/// Commands of a container may install much.
const LIFECYCLE_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Where the tree is if the file does not say.
const WORKSPACES: &str = "/workspaces";

/// What the root of the container is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Image,
    Build,
    Compose,
}

pub struct Work<'a> {
    pub config: &'a mut ProjectConfig,
    pub source: Source<'a>,
}

/// The Compose files that a file names, below the project's root.
pub fn compose_files(file: &str, node: &Node) -> Vec<String> {
    texts(node.get("dockerComposeFile"))
        .iter()
        .filter_map(|path| beside(file, path))
        .collect()
}

/// One text, or a list of them.
fn texts(node: Option<&Node>) -> Vec<String> {
    match node.map(|node| &node.value) {
        Some(Value::Text(text)) => vec![text.clone()],
        Some(Value::List(items)) => items.iter().filter_map(Node::written).collect(),
        _ => Vec::new(),
    }
}

// === impl Work ===

impl<'a> Work<'a> {
    pub fn new(config: &'a mut ProjectConfig, source: Source<'a>) -> Self {
        Self { config, source }
    }

    pub fn add(mut self, mut node: Node) -> Result<(), Fault> {
        if !matches!(node.value, Value::Table(_)) {
            self.source.error(node.at, "the file must be a table");
            return Ok(self.source.finish().map(drop)?);
        }
        kind::check(&mut self.source, &node, super::keys::KEYS, "");
        let form = self.form(&node);
        self.find_folder(&mut node, form);
        self.fill(&mut node);
        let Some(form) = form.filter(|_| !self.source.has_errors()) else {
            return Ok(self.source.finish().map(drop)?);
        };
        if form == Form::Compose {
            self.add_compose(&node)?;
        }
        let own: Vec<Name> = self.config.volumes.keys().cloned().collect();
        let Some(name) = self.service_name(&node, form) else {
            return Ok(self.source.finish().map(drop)?);
        };
        let Some(mut service) = self.service(&node, form, &name) else {
            return Ok(self.source.finish().map(drop)?);
        };
        let container = self.dev_container(&node, &name);
        let with_features = self.features(&node, &mut service, container);
        let mut container = with_features;
        self.mounts(&node, &mut service, own);
        self.settle_ready(&mut service, &container);
        self.initialize(&node, &mut container);
        self.config.services.insert(name.clone(), service);
        self.wait_for_container(&name);
        self.refuse_incomplete()?;
        self.forward(&node, form, &name);
        self.publish_declared(&name);
        self.config.dev_container = Some(container);
        self.config.compose.files = self.source.files.files.keys().cloned().collect();
        let (warnings, requests) = self.source.finish()?;
        self.config.compose.warnings.extend(warnings);
        self.config.compose.requests.extend(requests);
        Ok(())
    }

    /// What the file builds on. `None`: an error says what is wrong.
    fn form(&mut self, node: &Node) -> Option<Form> {
        let has = |key: &str| node.get(key).is_some();
        let is_built = has("build") || has("dockerFile");
        match (has("image"), is_built, has("dockerComposeFile")) {
            (true, false, false) => Some(Form::Image),
            (false, true, false) => Some(Form::Build),
            (false, false, true) => Some(Form::Compose),
            (false, false, false) => {
                let what = "the file needs `image`, `build` or `dockerComposeFile`";
                self.source.error(
                    Location {
                        end: node.at.start + 1,
                        ..node.at
                    },
                    what,
                );
                None
            }
            _ => {
                let keys = ["image", "build", "dockerFile", "dockerComposeFile"];
                let second = keys.iter().filter_map(|key| node.entry(key)).nth(1);
                let at = second.map_or(node.at, |entry| entry.key_at);
                let what =
                    "only one of `image`, `build` and `dockerComposeFile` can be the container";
                self.source.error(at, what);
                None
            }
        }
    }

    /// Where programs start, which other values may name.
    fn find_folder(&mut self, node: &mut Node, form: Option<Form>) {
        let root = self.source.files.root.clone();
        let name = root.rsplit('/').next().unwrap_or_default();
        let default = match form {
            Some(Form::Compose) => "/".to_owned(),
            _ => format!("{WORKSPACES}/{name}"),
        };
        let Some(written) = node.get_mut("workspaceFolder") else {
            if let Some(mount) = node.entry("workspaceMount")
                && mount.node.word("").is_none()
            {
                let at = mount.key_at;
                let what = "`workspaceMount` needs `workspaceFolder` beside it";
                self.source.error(at, what);
            }
            self.source.folder = default;
            return;
        };
        self.source.fill_all(written, Where::Outside);
        let at = written.at;
        let folder = written.written().unwrap_or(default);
        let path = Path::new(&folder);
        let is_plain =
            |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !path.is_absolute() || !path.components().all(is_plain) {
            let what = "`workspaceFolder` must be an absolute path without `..`";
            self.source.error(at, what);
        }
        self.source.folder = folder;
    }

    fn fill(&mut self, node: &mut Node) {
        let Value::Table(entries) = &mut node.value else {
            return;
        };
        for entry in entries {
            let is_inside =
                entry.key == "remoteEnv" || Stage::ALL.iter().any(|stage| stage.key() == entry.key);
            let place = if is_inside {
                Where::Inside
            } else {
                Where::Outside
            };
            self.source.fill_all(&mut entry.node, place);
        }
    }

    /// The services of the Compose files, without those that the file leaves out.
    fn add_compose(&mut self, node: &Node) -> Result<(), Fault> {
        let files = texts(node.get("dockerComposeFile"));
        let mut paths = Vec::new();
        for path in &files {
            match beside(self.source.name, path) {
                Some(path) => paths.push(path),
                None => {
                    let at = node.get("dockerComposeFile").map_or(node.at, |it| it.at);
                    let what = format!("`{}` is outside of the project's root", short(path));
                    self.source.error(at, what);
                    return Ok(());
                }
            }
        }
        self.config.project.compose = paths;
        crate::compose::services::add(self.config, self.source.files)?;
        let Some(own) = node.word("service") else {
            return Ok(());
        };
        let Some(run) = node.get("runServices") else {
            return Ok(());
        };
        let mut wanted: Vec<Name> = Vec::new();
        for name in texts(Some(run)).iter().chain([&own]) {
            match name_of(name) {
                Ok(name) if self.config.services.contains_key(&name) => wanted.push(name),
                _ => {
                    let what = format!("`runServices`: there is no service `{}`", short(name));
                    self.source.error(run.at, what);
                }
            }
        }
        let kept = needed(self.config, wanted);
        let services = &mut self.config.services;
        services.retain(|name, service| service.image.is_none() || kept.contains(name));
        Ok(())
    }

    fn service_name(&mut self, node: &Node, form: Form) -> Option<Name> {
        if form != Form::Compose {
            return Name::parse(SERVICE).ok();
        }
        let Some(entry) = node.entry("service") else {
            let at = node
                .entry("dockerComposeFile")
                .map_or(node.at, |it| it.key_at);
            self.source
                .error(at, "`dockerComposeFile` needs `service` beside it");
            return None;
        };
        let written = entry.node.written().unwrap_or_default();
        match name_of(&written) {
            Ok(name) if self.config.services.contains_key(&name) => Some(name),
            _ => {
                let what = format!(
                    "`service`: the Compose files have no service `{}`",
                    short(&written)
                );
                self.source.error(entry.node.at, what);
                None
            }
        }
    }

    /// The service that is the container, without its mounts.
    fn service(&mut self, node: &Node, form: Form, name: &Name) -> Option<Service> {
        let mut service = match form {
            Form::Compose => self.config.services.remove(name)?,
            Form::Image | Form::Build => self.own_service(node, form, name)?,
        };
        let is_overridden = node
            .flag("overrideCommand")
            .unwrap_or(form != Form::Compose);
        let container = service.image.as_mut()?.container.as_mut()?;
        if is_overridden {
            let words = ["/bin/sh", "-c", WAIT].map(str::to_owned);
            container.entrypoint = Some(words.to_vec());
            container.command = Some(Vec::new());
            service.restart = Restart::Always;
        }
        for entry in node.entries_of("containerEnv") {
            let value = entry.node.written().unwrap_or_default();
            container.environment.push((entry.key.clone(), value));
        }
        let user = node
            .word("remoteUser")
            .or_else(|| node.word("containerUser"));
        container.user = user.or(container.user.take());
        service.on_assign = OnAssign::None;
        Some(service)
    }

    fn dev_container(&mut self, node: &Node, name: &Name) -> DevContainer {
        let variables = node.entries_of("remoteEnv").iter();
        let wait_for = node.word("waitFor");
        let stages = [Stage::Initialize].into_iter().chain(Stage::ALL);
        let wait_for = { stages }.find(|stage| wait_for.as_deref() == Some(stage.key()));
        DevContainer {
            file: self.source.name.to_owned(),
            service: name.to_string(),
            folder: PathBuf::from(&self.source.folder),
            remote_env: variables
                .map(|entry| (entry.key.clone(), entry.node.written()))
                .collect(),
            user: node
                .word("remoteUser")
                .or_else(|| node.word("containerUser")),
            commands: Vec::new(),
            wait_for: wait_for.unwrap_or_default(),
            initialize: Vec::new(),
        }
    }

    /// Adds what features bring, and the commands of the file after theirs.
    fn features(
        &mut self,
        node: &Node,
        service: &mut Service,
        mut container: DevContainer,
    ) -> DevContainer {
        let (own, remote) = (node.word("containerUser"), node.word("remoteUser"));
        let users = features::Users {
            container: own.as_deref(),
            remote: remote.as_deref(),
        };
        let added = features::resolve(&mut self.source, node, &users);
        if let Some(image) = &mut service.image {
            if let Some(files) = added.files {
                features::install(image, files, own.as_deref());
            }
            if let Some(own) = &mut image.container {
                own.mounts.extend(added.mounts);
            }
        }
        container.commands = added.commands;
        container.commands.extend(commands::of_stages(node));
        // Stages follow each other, whatever file a command comes from.
        container.commands.sort_by_key(|command| command.stage);
        container
    }

    /// The tree, the mounts of the file, and the volumes of holm.toml.
    fn mounts(&mut self, node: &Node, service: &mut Service, own: Vec<Name>) {
        let mut found: Vec<Mount> = Vec::new();
        let mut tree = None;
        let is_composed = !self.config.project.compose.is_empty();
        match node.entry("workspaceMount") {
            _ if is_composed => {}
            None => tree = Some(self.source.folder.clone()),
            Some(entry) if entry.node.written().is_some_and(|text| text.is_empty()) => {}
            Some(entry) => match mounts::mount(&mut self.source, "workspaceMount", &entry.node) {
                Some(mount) => match &mount.source {
                    container::Source::Tree { path, .. } if path.as_os_str().is_empty() => {
                        tree = mount.target.to_str().map(str::to_owned);
                    }
                    _ => found.push(mount),
                },
                None => return,
            },
        }
        for entry in node.items_of("mounts") {
            found.extend(mounts::mount(&mut self.source, "mounts", entry));
        }
        let Some(image) = &mut service.image else {
            return;
        };
        image.volumes = own;
        if let Some(place) = tree {
            match Root::parse_in_image(&place) {
                Ok(root) => image.tree = Some(root),
                Err(error) => {
                    let at = node.get("workspaceFolder").map_or(node.at, |node| node.at);
                    self.source.error(
                        at,
                        format!("the code cannot be at `{}`: {error}", short(&place)),
                    );
                }
            }
        }
        let Some(container) = &mut image.container else {
            return;
        };
        container.mounts.extend(found);
        container
            .mounts
            .sort_by_key(|mount| mount.target.components().count());
        for mount in &mut container.mounts {
            let container::Source::Volume { name, .. } = &mut mount.source else {
                continue;
            };
            match name_of(name) {
                Ok(short) => {
                    *name = short.to_string();
                    self.config.volumes.entry(short.clone()).or_insert(Volume {
                        path: place_of_volume(short.as_str()),
                        policy: Policy::Isolated,
                        seed: Vec::new(),
                        first_start: None,
                        seed_inputs: Vec::new(),
                        single: false,
                    });
                }
                Err(what) => self.source.error(node.at, what),
            }
        }
    }

    fn settle_ready(&mut self, service: &mut Service, container: &DevContainer) {
        let mut stages = container.commands.iter().map(|command| command.stage);
        if service.ready.is_none() && stages.any(|stage| stage <= container.wait_for) {
            service.ready = Some(Ready {
                probe: Probe::Lifecycle,
                timeout: LIFECYCLE_LIMIT,
            });
        }
    }

    fn initialize(&mut self, node: &Node, container: &mut DevContainer) {
        let Some(entry) = node.entry(INITIALIZE) else {
            return;
        };
        container.initialize = commands::commands(&entry.node);
        let all = container.initialize.iter();
        let all: Vec<String> = all
            .map(|command| format!("`{}`", short(&command.shown())))
            .collect();
        if all.is_empty() {
            return;
        }
        let words = format!(
            "runs {} on this machine, outside of any workspace, when `holm up` makes one",
            all.join(" and ")
        );
        // Words with their bounds: another split is another command.
        let value = container
            .initialize
            .iter()
            .map(|it| format!("{:?}", it.words));
        let value: Vec<String> = value.collect();
        self.source
            .ask_for(entry.key_at, INITIALIZE, &words, value.join(" "));
    }

    /// What no Compose file completes.
    fn refuse_incomplete(&self) -> Result<(), Fault> {
        let services = &self.config.services;
        let wrong = services.iter().find_map(|(name, service)| {
            let mut others = service.depends_on.iter();
            let other = others.find(|other| !services.contains_key(*other));
            let is_empty = service.image.is_none() && service.run.is_empty();
            match (is_empty, other) {
                (true, _) => Some(format!("`services.{name}` needs `run`, `image` or `build`")),
                (false, Some(other)) => Some(format!(
                    "`services.{name}.depends_on`: there is no service `{other}`"
                )),
                (false, None) => None,
            }
        });
        let Some(message) = wrong else {
            return Ok(());
        };
        let hint = format!(
            "correct holm.toml; {} has no such service",
            self.source.name
        );
        Err(Fault::new(
            Code::InvalidConfig,
            format!("holm.toml: {message}"),
            hint,
        ))
    }

    /// Programs of holm.toml run in the container.
    fn wait_for_container(&mut self, container: &Name) {
        for (name, service) in &mut self.config.services {
            if service.image.is_none() && name != container {
                service.depends_on.push(container.clone());
            }
        }
    }
}

/// The services, and those that they wait for or are in the network of.
fn needed(config: &ProjectConfig, wanted: Vec<Name>) -> BTreeSet<Name> {
    let (mut kept, mut waiting) = (BTreeSet::new(), wanted);
    while let Some(name) = waiting.pop() {
        let Some(service) = config.services.get(&name) else {
            continue;
        };
        if !kept.insert(name) {
            continue;
        }
        waiting.extend(service.depends_on.iter().cloned());
        let container = service.image.as_ref().and_then(|it| it.container.as_ref());
        if let Some(container) = container {
            let others = container
                .begins_after
                .iter()
                .chain(match &container.network {
                    Attachment::Of(other) => Some(other),
                    _ => None,
                });
            waiting.extend(others.filter_map(|other| Name::parse(other).ok()));
        }
    }
    kept
}
