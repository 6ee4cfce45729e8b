//! Decides what a workspace takes over of a changed `holm.toml`, and when: values in, values out.
//! Called by [`super::reload`].
//!
//! Every key takes effect at once, or is listed for the next start or for a new workspace. Existing
//! data is never given up: a volume keeps its origin and its policy, and one that is no longer
//! declared is only not mounted.

use super::declared;
use holm_api::reload::Reloaded;
use holm_core::config::{Policy, ProjectConfig};
use holm_core::spec::{
    Cache, Declared, Secret, SecretSource, Service, Siblings, Volume, WorkspaceSpec,
};
use std::collections::{BTreeMap, BTreeSet};

/// A key that this workspace does not take over, and how it differs.
pub type Untaken = (String, String);

/// A workspace's own data besides the code.
pub struct Data {
    pub volumes: Vec<Volume>,
    pub retired_volumes: Vec<Volume>,
    pub caches: Vec<Cache>,
    pub untaken: Vec<Untaken>,
}

/// The volumes and caches after these declarations.
pub fn data(before: &WorkspaceSpec, volumes: &[Volume], caches: &[Cache]) -> Data {
    let mut data = Data {
        volumes: Vec::new(),
        retired_volumes: Vec::new(),
        caches: Vec::new(),
        untaken: Vec::new(),
    };
    let known = || before.volumes.iter().chain(&before.retired_volumes);
    for declared in volumes {
        match known().find(|known| known.name == declared.name) {
            Some(known) => data.keep_volume(known, declared),
            None => data.begin_volume(before, declared),
        }
    }
    let is_gone = |known: &&Volume| !volumes.iter().any(|declared| declared.name == known.name);
    data.retired_volumes = known().filter(is_gone).cloned().collect();
    for declared in caches {
        let mut known = before.caches.iter();
        match known.find(|known| known.name == declared.name) {
            Some(known) => data.keep_cache(known, declared),
            None => data.caches.push(declared.clone()),
        }
    }
    data
}

// === impl Data ===

impl Data {
    fn keep_volume(&mut self, known: &Volume, declared: &Volume) {
        let name = &known.name;
        let is_same = known.policy == declared.policy;
        if !is_same {
            let (old, new) = (known.policy.as_str(), declared.policy.as_str());
            let key = format!("volumes.{name}.policy");
            self.untaken.push((key, format!("{old} → {new}")));
        }
        let commands = |volume: &Volume| volume.seed.as_ref().map(|seed| seed.commands.clone());
        if is_same && commands(known) != commands(declared) {
            let words = "what it began with stays".to_owned();
            self.untaken.push((format!("volumes.{name}.seed"), words));
        }
        self.volumes.push(Volume {
            path: declared.path.clone(),
            single: if is_same {
                declared.single
            } else {
                known.single
            },
            ..known.clone()
        });
    }

    /// A seed runs on the starting commit. If the tree started otherwise, the seed would be shared
    /// under the key of a state that it was not built from.
    fn begin_volume(&mut self, before: &WorkspaceSpec, declared: &Volume) {
        let began_otherwise = before.code.base.is_some() || before.brought.dirty.is_some();
        if declared.seed.is_some() && began_otherwise {
            let key = format!("volumes.{}", declared.name);
            let words = "its seed runs on a commit, and this tree did not begin with this one";
            self.untaken.push((key, words.to_owned()));
        } else {
            self.volumes.push(declared.clone());
        }
    }

    fn keep_cache(&mut self, known: &Cache, declared: &Cache) {
        if known.policy != declared.policy {
            let key = format!("caches.{}.policy", known.name);
            let (old, new) = (known.policy.as_str(), declared.policy.as_str());
            self.untaken.push((key, format!("{old} → {new}")));
        }
        self.caches.push(Cache {
            path: declared.path.clone(),
            ..known.clone()
        });
    }
}

/// Settings of `[project]` that only a new workspace takes over.
pub fn untaken(before: &WorkspaceSpec, config: &ProjectConfig) -> Vec<Untaken> {
    let mut untaken = Vec::new();
    let mut compare = |key: &str, old: &str, new: &str| {
        if old != new {
            untaken.push((format!("project.{key}"), format!("{old} → {new}")));
        }
    };
    let asked = &config.project;
    let now = declared::declared(config);
    // For a workspace created before this was stored, only some of it is known.
    let then = before.declared.clone().unwrap_or_else(|| Declared {
        root: now.root.as_ref().map(|_| before.root.display().to_string()),
        ..now.clone()
    });
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "not set".to_owned());
    compare("name", &word(&then.name), &word(&now.name));
    compare("root", &word(&then.root), &word(&now.root));
    compare("driver", &then.driver, &now.driver);
    let list = |words: &[String]| format!("{words:?}");
    compare("include", &list(&then.include), &list(&now.include));
    let setup = before.layers.setup.as_ref();
    let commands = setup.map(|setup| setup.commands.as_slice());
    compare(
        "setup",
        &list(commands.unwrap_or_default()),
        &list(&asked.setup),
    );
    if let Some(setup) = setup {
        let inputs = asked.setup_inputs.as_ref();
        let inputs = inputs.map(|inputs| inputs.iter().map(ToString::to_string).collect());
        let list =
            |inputs: &Option<Vec<String>>| inputs.as_deref().map_or("default".to_owned(), list);
        compare("setup_inputs", &list(&setup.inputs), &list(&inputs));
        let files = asked.setup_files.iter().map(ToString::to_string).collect();
        compare(
            "setup_files",
            &list(&Some(setup.files.clone())),
            &list(&Some(files)),
        );
    }
    for (name, inputs) in &now.seed_inputs {
        let old = then.seed_inputs.get(name).unwrap_or(inputs);
        if old != inputs {
            let key = format!("volumes.{name}.seed_inputs");
            untaken.push((key, format!("{} → {}", list(old), list(inputs))));
        }
    }
    untaken
}

/// The differences, and which keys take effect later.
pub fn differences(
    before: &WorkspaceSpec,
    after: &WorkspaceSpec,
    untaken: Vec<Untaken>,
) -> Reloaded {
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
    at_start("ports", ports(before), ports(after));
    at_start("shared", shared(before), shared(after));
    let protected = |spec: &WorkspaceSpec| spec.protected_paths.clone();
    at_start(
        "project.protected_paths",
        protected(before),
        protected(after),
    );
    at_start("project.devcontainer", container(before), container(after));
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
    at_start("volumes", volumes(before), volumes(after));
    at_start("caches", caches(before), caches(after));
    // Values may be passwords of databases, so only names are shown.
    changes.extend(changed_variables(&before.env, &after.env));
    changes.extend(changed_services(&before.services, &after.services));
    compare("agents", &agents(before), &agents(after), &mut changes);
    compare("checks", &checks(before), &checks(after), &mut changes);
    let of_review = review(before).into_iter().zip(review(after));
    for ((key, old), (_, new)) in of_review {
        compare(key, &[old], &[new], &mut changes);
    }
    if new.names.iter().any(|name| !old.names.contains(name)) {
        later.push("the names of new services".to_owned());
    }
    let (needs_new_workspace, words): (Vec<_>, Vec<_>) = untaken.into_iter().unzip();
    let untaken = needs_new_workspace.iter().zip(words);
    changes.extend(untaken.map(|(key, words)| format!("{key}: {words} (only a new workspace)")));
    Reloaded {
        changes,
        at_next_start: later,
        needs_new_workspace,
        asks: Vec::new(),
        content: String::new(),
        applied: false,
        notes: Vec::new(),
    }
}

fn agents(spec: &WorkspaceSpec) -> Vec<String> {
    let agents = spec.agents.iter();
    agents
        .map(|agent| format!("{} = {:?}", agent.name, agent.command))
        .collect()
}

fn checks(spec: &WorkspaceSpec) -> Vec<String> {
    let checks = spec.checks.iter().map(|check| {
        let (name, run, volumes) = (&check.name, &check.run, check.volumes.as_str());
        let when = match check.when.as_slice() {
            [] => String::new(),
            when => format!(" when {}", when.join(", ")),
        };
        format!(
            "{name} = {run:?}{when}, {volumes} volumes, {} ms",
            check.timeout_ms
        )
    });
    checks.collect()
}

fn review(spec: &WorkspaceSpec) -> [(&'static str, String); 2] {
    [
        ("review.required", spec.review_required.to_string()),
        ("review.check", spec.check_runs.to_string()),
    ]
}

fn ports(spec: &WorkspaceSpec) -> Vec<String> {
    let ports = spec.network.ports.iter();
    ports
        .map(|port| match &port.host {
            Some(host) => format!("{} = {} as {host}", port.name, port.port),
            None => format!("{} = {}", port.name, port.port),
        })
        .collect()
}

fn shared(spec: &WorkspaceSpec) -> Vec<String> {
    let shared = spec.network.shared.iter();
    shared
        .map(|shared| format!("{} = {} at {}", shared.name, shared.address, shared.port))
        .collect()
}

fn volumes(spec: &WorkspaceSpec) -> Vec<String> {
    let volumes = spec.volumes.iter();
    let words = volumes.map(|volume| {
        let (name, path, policy) = (&volume.name, volume.path.display(), volume.policy.as_str());
        let single = if volume.single { ", single" } else { "" };
        format!("{name} = {policy}{single} at {path}")
    });
    words.collect()
}

fn caches(spec: &WorkspaceSpec) -> Vec<String> {
    let caches = spec.caches.iter();
    let words = caches.map(|cache| {
        let begins = match (cache.policy == Policy::Fork, &cache.snapshot) {
            (true, None) => ", empty",
            _ => "",
        };
        let (name, path, policy) = (&cache.name, cache.path.display(), cache.policy.as_str());
        format!("{name} = {policy} at {path}{begins}")
    });
    words.collect()
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

fn changed_variables(before: &[(String, String)], after: &[(String, String)]) -> Vec<String> {
    let (old, new): (BTreeMap<_, _>, BTreeMap<_, _>) = (
        before.iter().cloned().collect(),
        after.iter().cloned().collect(),
    );
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changes = names
        .into_iter()
        .filter_map(|name| match (old.get(name), new.get(name)) {
            (Some(_), None) => Some(format!("env: − {name}")),
            (None, Some(_)) => Some(format!("env: + {name}")),
            (old, new) if old != new => Some(format!("env.{name}: another value")),
            _ => None,
        });
    changes.collect()
}

/// What happens to each changed service.
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
        let parts = |service: &Service| {
            service
                .image
                .clone()
                .map(|mut it| (it.container.take(), it))
        };
        let (was, is) = (parts(old).unzip(), parts(&new).unzip());
        let image = [
            ("definition in the Compose file", was.0 != is.0),
            ("image", was.1 != is.1),
        ];
        let differing = live
            .iter()
            .chain(&quiet)
            .chain(&image)
            .filter(|(_, differs)| *differs);
        let keys: Vec<&str> = differing.map(|(key, _)| *key).collect();
        if keys.is_empty() {
            continue;
        }
        let what = if old.image != new.image {
            " (after `holm restart`)"
        } else if live.iter().any(|(_, differs)| *differs) {
            " (it is restarted)"
        } else {
            ""
        };
        changes.push(format!("services.{name}: {}{what}", keys.join(", ")));
    }
    let is_new = |service: &&Service| named(before, &service.name).is_none();
    let added = after.iter().filter(is_new);
    changes.extend(added.map(|service| {
        let when = match service.image {
            Some(_) => "after `holm restart`",
            None => "it is started",
        };
        format!("services.{}: + ({when})", service.name)
    }));
    changes
}

/// What a Dev Container is, without values of variables, which may be the user's.
fn container(spec: &WorkspaceSpec) -> Vec<String> {
    let Some(container) = &spec.dev_container else {
        return Vec::new();
    };
    let place = format!("{} in {}", container.file, container.folder.display());
    let user = container.user.iter().map(|user| format!("as {user}"));
    let names = container.remote_env.keys();
    let names = names.map(|name| format!("variable {name}"));
    let commands = container.commands.iter().flat_map(|all| {
        let commands = all.commands.iter();
        commands.map(|command| format!("{}: {}", all.stage.key(), command.shown()))
    });
    let parts = std::iter::once(place).chain(user).chain(names);
    parts.chain(commands).collect()
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

#[cfg(test)]
#[path = "takeover_tests.rs"]
mod tests;
