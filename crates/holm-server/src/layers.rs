//! Which layers a workspace gets: the key of its setup, and the checkout's build output.

use super::secrets::Sources;
use super::service_images::Found;
use super::trust::Judged;
use super::{App, declared};
use holm_api::workspace::CreateWorkspace;
use holm_core::config::{Name, Pattern, Policy, ProjectConfig};
use holm_core::first_start;
use holm_core::image_reference::ImageDigest;
use holm_core::layer::{self, Choice, Ingredients, Layer, LayerKey, Maker, SeedIngredients};
use holm_core::spec::WorkspaceSpec;
use holm_core::spec::{Brought, Cache, Layers, Seed, Setup, Volume};
use holm_core::{Cause, Code, Fault};
use holm_engine::store::ProjectRecord;
use holm_engine::{Driver, is_without, try_blocking};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A cache of inputs at commits, which never change.
#[derive(Default)]
pub struct KnownInputs(Mutex<HashMap<Asked, Listed>>);

/// Project, commit and patterns.
type Asked = (String, String, Option<Vec<String>>);

/// Paths with the ids of their content.
type Listed = Arc<Vec<(String, String)>>;

/// The paths of code and home inside, and the visible host paths.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub root: &'a Path,
    pub home: &'a Path,
    pub toolchains: &'a [PathBuf],
    /// What the client sent with the request.
    pub brought: &'a Brought,
}

/// What a workspace starts with, and its paths inside.
pub struct Start<'a> {
    pub maker: Maker<'a>,
    /// Changes by an uncommitted state.
    pub changed: Changed,
    pub root: &'a Path,
    pub home: &'a Path,
}

/// A volume that begins with a seed.
struct SeedWish<'a> {
    name: &'a Name,
    path: &'a Path,
    commands: &'a [String],
    /// The service whose first start makes it, with its image if that is here.
    service: Option<(&'a str, Option<&'a ImageDigest>)>,
    patterns: &'a [Pattern],
    env: &'a [(String, String)],
}

/// Paths with the ids of their content; `None`: deleted.
pub type Changed = Vec<(String, Option<String>)>;

/// The capacity of the cache.
const MOST_KNOWN: usize = 64;

/// How much of the digest is used as the key: enough to be unique.
const KEY_LENGTH: usize = 32;
const CACHE_KEY_LENGTH: usize = 8;

// === impl App ===

impl App {
    /// The layers of a new workspace, and notes: what its set-up does not get, and why it runs again.
    pub async fn layers(
        &self,
        create: &CreateWorkspace,
        project: &ProjectRecord,
        judged: &Judged,
        surroundings: Surroundings<'_>,
    ) -> Result<(Layers, Vec<String>), Fault> {
        let (config, asked) = (&judged.config, &judged.config.project);
        let warm = LayerKey::warm(project.id.as_str());
        let driver = self.engine.drivers().require(asked.driver)?;
        let brought = driver.layer(&warm).await?;
        let installed = brought.as_ref().map(|layer| layer.installed.clone());
        let warm = brought.map(|_| warm.key);
        if asked.setup.is_empty() || create.no_setup {
            let layers = Layers {
                warm,
                ..Layers::default()
            };
            return Ok((layers, Vec::new()));
        }
        let sources = Sources {
            brought: surroundings.brought,
            home: surroundings.home,
        };
        let given = self
            .given_to_setup(create, project.id.as_str(), judged, sources)
            .await?;
        let patterns = asked.setup_inputs.as_deref();
        let mut ingredients = self
            .ingredients(create, project, config, surroundings)
            .await?;
        ingredients.inputs = layer::with_given(ingredients.inputs, &given.digests);
        ingredients.warm.clone_from(&warm);
        let setup = |key: String, borrowed: bool| Setup {
            key,
            commands: asked.setup.clone(),
            inputs: patterns.map(|patterns| patterns.iter().map(ToString::to_string).collect()),
            borrowed,
            files: asked.setup_files.iter().map(ToString::to_string).collect(),
            given: given.digests.clone(),
            workspace: None,
            because: None,
        };
        if let (Some(key), true) = (
            &warm,
            layer::is_set_up(&ingredients, &installed.unwrap_or_default()),
        ) {
            // No set-up may build the layer of the checkout.
            let setup = setup(key.clone(), true);
            let note = "`setup` did not run: the checkout has installed exactly this lock file";
            let layers = Layers {
                setup: Some(setup),
                warm,
                failed: None,
            };
            return Ok((layers, vec![note.to_owned()]));
        }
        let key = |only: Option<String>| {
            ingredients.only = only;
            LayerKey {
                project: project.id.to_string(),
                key: digest(&layer::canonical(&ingredients), KEY_LENGTH),
            }
        };
        let (key, borrowed) = chosen(driver, maker(create), key).await?;
        let mut setup = setup(key, borrowed);
        let why = self
            .why_setup_again(project, config, &setup.key, &ingredients)
            .await?;
        setup.because.clone_from(&why);
        let why = why.map(|why| format!("`setup` ran again: {why}"));
        let layers = Layers {
            setup: Some(setup),
            warm,
            failed: None,
        };
        Ok((layers, given.notes.into_iter().chain(why).collect()))
    }

    async fn ingredients(
        &self,
        create: &CreateWorkspace,
        project: &ProjectRecord,
        config: &ProjectConfig,
        surroundings: Surroundings<'_>,
    ) -> Result<Ingredients, Fault> {
        let asked = &config.project;
        let patterns = asked.setup_inputs.as_deref();
        let commit = create.commit.as_deref();
        let committed = self.inputs(commit, project, patterns).await?;
        Ok(Ingredients {
            commands: asked.setup.clone(),
            root: surroundings.root.to_string_lossy().into_owned(),
            home: surroundings.home.to_string_lossy().into_owned(),
            toolchains: toolchains(surroundings.toolchains),
            warm: None,
            inputs: layer::with_env(
                layer::inputs(committed.iter().cloned(), &changed(create), patterns),
                &declared::surroundings(config),
            ),
            only: None,
        })
    }

    /// Why a set-up will run although the workspace before had its output: one line. `None`: it will not
    /// run, or nothing is known of one before.
    async fn why_setup_again(
        &self,
        project: &ProjectRecord,
        config: &ProjectConfig,
        key: &str,
        now: &Ingredients,
    ) -> Result<Option<String>, Fault> {
        let asked = &config.project;
        let driver = self.engine.drivers().require(asked.driver)?;
        let key = LayerKey {
            project: project.id.to_string(),
            key: key.to_owned(),
        };
        if driver.layer(&key).await?.is_some() {
            return Ok(None);
        }
        let latest = self.engine.latest_workspace(&project.id).await?;
        let Some(spec) = latest.map(|it| it.spec) else {
            return Ok(None);
        };
        let (Some(setup), None) = (&spec.layers.setup, &spec.brought.dirty) else {
            return Ok(None);
        };
        let patterns = asked.setup_inputs.as_deref();
        let commit = spec.code.base_commit();
        let committed = self.inputs(commit, project, patterns).await?;
        let inputs = layer::inputs(committed.iter().cloned(), &[], patterns);
        let before = stored(&spec, setup, inputs);
        Ok(layer::why_again(&before, now))
    }

    /// The layers of a fresh workspace with the settings that are stored with another one, and other code.
    pub async fn layers_again(
        &self,
        spec: &WorkspaceSpec,
        project: &ProjectRecord,
        start: &Start<'_>,
    ) -> Result<Layers, Fault> {
        let warm = spec.layers.warm.clone();
        let Some(setup) = &spec.layers.setup else {
            return Ok(Layers {
                warm,
                ..Layers::default()
            });
        };
        let patterns = setup.inputs.as_deref().map(patterns).transpose()?;
        let patterns = patterns.as_deref();
        let is_input = |path: &str| layer::is_input(path, patterns);
        let (key, borrowed) = if start.has_changed(spec, is_input) {
            let driver = self.engine.driver(spec)?;
            let committed = self.inputs(start.maker.commit, project, patterns).await?;
            let inputs = layer::inputs(committed.iter().cloned(), &start.changed, patterns);
            let mut ingredients = stored(spec, setup, inputs);
            let key = |only| {
                ingredients.only = only;
                spec.layer(&digest(&layer::canonical(&ingredients), KEY_LENGTH))
            };
            chosen(driver, start.maker, key).await?
        } else {
            (setup.key.clone(), true)
        };
        let setup = Setup {
            key,
            borrowed,
            ..setup.clone()
        };
        Ok(Layers {
            setup: Some(setup),
            warm,
            failed: None,
        })
    }

    /// The project's caches, with their initial content.
    pub async fn caches(
        &self,
        start: &Start<'_>,
        project: &ProjectRecord,
        config: &ProjectConfig,
    ) -> Result<Vec<Cache>, Fault> {
        let driver = self.engine.drivers().require(config.project.driver)?;
        let mut caches = Vec::new();
        for (name, cache) in &config.caches {
            let path = cache.path.resolve(start.root, start.home);
            let snapshot = cache_key(project.id.as_str(), name, &path);
            let is_used = cache.policy == Policy::Fork && driver.layer(&snapshot).await?.is_some();
            caches.push(Cache {
                name: name.to_string(),
                path,
                policy: cache.policy,
                snapshot: is_used.then_some(snapshot.key),
            });
        }
        Ok(caches)
    }

    /// What the user should know of the workspace's layers. A driver that does not answer now has
    /// answered when the workspace was made.
    pub async fn layer_notes(&self, spec: &WorkspaceSpec) -> Vec<String> {
        let mut notes = Vec::new();
        let Ok(driver) = self.engine.driver(spec) else {
            return notes;
        };
        for key in spec.tree_layers() {
            let Ok(Some(Layer { left_out, .. })) = driver.layer(&key).await else {
                continue;
            };
            let what = match left_out.as_slice() {
                [] => continue,
                [one] => one.clone(),
                [first, more @ ..] => format!("{first} and {} more", more.len()),
            };
            notes.push(format!(
                "`setup` made {what}, which git does not ignore, so it is not in the layer; \
                 name it in .gitignore"
            ));
        }
        notes
    }

    /// The project's volumes, with their initial content.
    pub async fn volumes(
        &self,
        start: &Start<'_>,
        project: &ProjectRecord,
        config: &ProjectConfig,
        images: &Found,
    ) -> Result<Vec<Volume>, Fault> {
        let Start { root, home, .. } = start;
        let driver = self.engine.drivers().require(config.project.driver)?;
        let mut volumes = Vec::new();
        for (name, volume) in &config.volumes {
            let path = volume.path.resolve(root, home);
            let mut seed = None;
            let first_start = volume.first_start.as_ref();
            let first_start = first_start.and_then(|name| config.services.get_key_value(name));
            let has_seed = !volume.seed.is_empty() || first_start.is_some();
            if volume.policy == Policy::Fork && has_seed {
                let commands = match first_start {
                    Some((_, service)) => {
                        vec![digest(
                            first_start::described(service).as_bytes(),
                            KEY_LENGTH,
                        )]
                    }
                    None => volume.seed.clone(),
                };
                let service = first_start.map(|(name, service)| {
                    let image = service.image.as_ref();
                    (
                        name.as_str(),
                        image.and_then(|image| images.manifests.get(&image.reference)),
                    )
                });
                let wish = SeedWish {
                    name,
                    path: &path,
                    commands: &commands,
                    service,
                    patterns: &volume.seed_inputs,
                    env: &declared::variables(&config.env),
                };
                seed = Some(self.seed(start, project, driver, wish).await?);
            }
            volumes.push(Volume {
                name: name.to_string(),
                path,
                policy: volume.policy,
                single: volume.single,
                seed,
                generation: 0,
                snapshot: None,
            });
        }
        // A volume below another is mounted after it.
        volumes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(volumes)
    }

    /// The volumes of a fresh workspace with the settings that are stored with another one, and other code.
    pub async fn volumes_again(
        &self,
        spec: &WorkspaceSpec,
        project: &ProjectRecord,
        start: &Start<'_>,
    ) -> Result<Vec<Volume>, Fault> {
        let driver = self.engine.driver(spec)?;
        let mut volumes = spec.volumes.clone();
        for volume in &mut volumes {
            let Some(seed) = &mut volume.seed else {
                continue;
            };
            let declared = spec.declared.as_ref();
            let inputs = declared.and_then(|declared| declared.seed_inputs.get(&volume.name));
            let inputs = patterns(inputs.map(Vec::as_slice).unwrap_or_default())?;
            let is_input = |path: &str| inputs.iter().any(|pattern| pattern.matches(path));
            if !start.has_changed(spec, is_input) {
                seed.borrowed = true;
                continue;
            }
            let name = Name::parse(&volume.name).map_err(damaged)?;
            let service = seed.service.clone();
            let service = service.as_deref().map(|name| {
                let mut services = spec.services.iter();
                let service = services.find(|service| service.name == name);
                let image = service.and_then(|service| service.image.as_ref());
                (name, image.map(|image| &image.manifest))
            });
            let wish = SeedWish {
                name: &name,
                path: &volume.path,
                commands: &seed.commands,
                service,
                patterns: &inputs,
                env: &spec.env,
            };
            *seed = self.seed(start, project, driver, wish).await?;
        }
        Ok(volumes)
    }

    async fn seed(
        &self,
        start: &Start<'_>,
        project: &ProjectRecord,
        driver: &Arc<dyn Driver>,
        wish: SeedWish<'_>,
    ) -> Result<Seed, Fault> {
        let committed = self
            .inputs(start.maker.commit, project, Some(wish.patterns))
            .await?;
        let committed = committed.iter().cloned();
        let mut ingredients = SeedIngredients {
            commands: wish.commands.to_vec(),
            path: wish.path.to_string_lossy().into_owned(),
            root: start.root.to_string_lossy().into_owned(),
            inputs: layer::with_env(
                layer::seed_inputs(committed, &start.changed, wish.patterns),
                wish.env,
            ),
            only: None,
        };
        let image = wish.service.and_then(|(_, image)| image);
        let suffix = image.map(first_start::suffix).unwrap_or_default();
        let key = |only| {
            ingredients.only = only;
            let inputs = digest(&layer::canonical_seed(&ingredients), KEY_LENGTH) + suffix;
            LayerKey::volume(project.id.as_str(), wish.name, &inputs)
        };
        let (key, borrowed) = chosen(driver, start.maker, key).await?;
        Ok(Seed {
            key,
            commands: wish.commands.to_vec(),
            service: wish.service.map(|(name, _)| name.to_owned()),
            borrowed,
        })
    }

    async fn inputs(
        &self,
        commit: Option<&str>,
        project: &ProjectRecord,
        patterns: Option<&[Pattern]>,
    ) -> Result<Listed, Fault> {
        let Some(commit) = commit.map(str::to_owned) else {
            return Ok(Listed::default());
        };
        let texts = patterns.map(|patterns| patterns.iter().map(ToString::to_string).collect());
        let asked: Asked = (project.id.to_string(), commit.clone(), texts);
        if let Some(known) = self.known_inputs.get(&asked) {
            return Ok(known);
        }
        let (repositories, project) = (self.repositories.clone(), project.clone());
        let patterns = patterns.map(<[Pattern]>::to_vec);
        let listed = try_blocking(move || {
            let files = repositories.open(&project)?.files(&commit)?;
            let wanted = files
                .into_iter()
                .filter(|(path, _)| layer::is_input(path, patterns.as_deref()));
            Ok(Arc::new(wanted.collect()))
        })
        .await?;
        self.known_inputs.keep(asked, &listed);
        Ok(listed)
    }
}

// === impl Start ===

impl<'a> Start<'a> {
    pub fn of(create: &'a CreateWorkspace, root: &'a Path, home: &'a Path) -> Self {
        Self {
            maker: maker(create),
            changed: changed(create),
            root,
            home,
        }
    }

    /// Whether the code differs in an input from the code that a workspace began with.
    fn has_changed(&self, spec: &WorkspaceSpec, is_input: impl Fn(&str) -> bool) -> bool {
        let began_otherwise = spec.code.base.is_some() || spec.brought.dirty.is_some();
        began_otherwise || self.changed.iter().any(|(path, _)| is_input(path))
    }
}

// === impl KnownInputs ===

impl KnownInputs {
    fn get(&self, asked: &Asked) -> Option<Listed> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(asked).cloned()
    }

    fn keep(&self, asked: Asked, listed: &Listed) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(asked, Arc::clone(listed));
    }
}

/// The key of the layer that is used, and whether others made it. `key` says that of a layer for the
/// only code that may use it, or for all.
async fn chosen(
    driver: &Arc<dyn Driver>,
    maker: Maker<'_>,
    mut key: impl FnMut(Option<String>) -> LayerKey,
) -> Result<(String, bool), Fault> {
    let only = layer::only(maker);
    let only = only.filter(|_| !is_without("layer_origin"));
    let shared = key(None);
    let is_there = driver.layer(&shared).await?.is_some();
    Ok(match layer::choose(only.as_deref(), is_there) {
        Choice::Shared => (shared.key, false),
        Choice::Borrowed => (shared.key, true),
        Choice::Own => (key(only).key, false),
    })
}

/// The toolchains that decide what a set-up makes. A directory of programs that PATH names is none: another
/// tool in `~/.local/bin` changes nothing that was installed.
fn toolchains(shown: &[PathBuf]) -> Vec<String> {
    let is_toolchain = |path: &&PathBuf| path.file_name().is_none_or(|name| name != "bin");
    let shown = shown.iter().filter(is_toolchain);
    shown
        .map(|path| path.to_string_lossy().into_owned())
        .collect()
}

/// The ingredients of a set-up by what is stored with a workspace.
fn stored(spec: &WorkspaceSpec, setup: &Setup, inputs: Vec<(String, String)>) -> Ingredients {
    Ingredients {
        commands: setup.commands.clone(),
        root: spec.root.to_string_lossy().into_owned(),
        home: spec.home.to_string_lossy().into_owned(),
        toolchains: toolchains(&spec.toolchains),
        warm: spec.layers.warm.clone(),
        inputs: layer::with_given(
            layer::with_env(inputs, &declared::stored_surroundings(spec)),
            &setup.given,
        ),
        only: None,
    }
}

/// Patterns as they are stored with a workspace.
pub fn patterns(texts: &[String]) -> Result<Vec<Pattern>, Fault> {
    let patterns = texts.iter().map(|text| Pattern::parse(text));
    patterns.collect::<Result<_, _>>().map_err(damaged)
}

fn damaged(error: impl Into<Cause>) -> Fault {
    let message = "a stored workspace is damaged";
    Fault::new(Code::CorruptState, message, "holm doctor").because(error)
}

/// The code that a new workspace starts with.
fn maker(create: &CreateWorkspace) -> Maker<'_> {
    Maker {
        commit: create.commit.as_deref(),
        tree: create.dirty.as_ref().map(|dirty| &*dirty.worktree_tree),
        is_contained: create.contained,
    }
}

/// Changes by an uncommitted state: paths with the ids of their content.
fn changed(create: &CreateWorkspace) -> Changed {
    let changed = create.dirty.iter().flat_map(|dirty| &dirty.changed);
    changed
        .map(|changed| (changed.path.clone(), changed.object.clone()))
        .collect()
}

/// The layer of a cache at `path` inside.
pub fn cache_key(project: &str, name: &Name, path: &Path) -> LayerKey {
    let digest = digest(path.as_os_str().as_bytes(), CACHE_KEY_LENGTH);
    LayerKey::cache(project, name, &digest)
}

pub fn digest(content: &[u8], length: usize) -> String {
    let digest = Sha256::digest(content);
    let mut text = String::new();
    for byte in digest.iter().take(length / 2) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
