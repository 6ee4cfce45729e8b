//! Images that are built from Dockerfiles of the project, before a command needs them: `up`, `reload`, `assign`, `sync`.
//!
//! The client runs the user's builder on the files of the commit, and the daemon gets the result under a name that stands
//! for all inputs: what has been built once is not built again. Callers ask for approval first; a build runs code of the
//! repository with the builder's rights.

mod builder;
mod inputs;
mod lock;

use super::progress::Progress;
use super::user_checkout::Checkout;
use super::{Context, settings};
use builder::Builder;
use holm_api::client::Client;
use holm_api::image::ImportImages;
use holm_config::policy::PolicyFile;
use holm_core::image_build::ImageBuild;
use holm_core::image_reference::ImageReference;
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use holm_git::{Cancel, Tree, TreeFile};
use inputs::Inputs;
use lock::Lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tempfile::TempDir;

/// The names of the images, by their services.
pub type Built = BTreeMap<String, ImageReference>;

/// The files that images are built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// `None`: there is no commit yet.
    Commit(Option<String>),
    /// The checkout as it is now, without ignored files.
    Checkout,
}

// === impl State ===

impl State {
    pub fn of(is_dirty: bool, commit: Option<String>) -> Self {
        if is_dirty {
            Self::Checkout
        } else {
            Self::Commit(commit)
        }
    }
}

/// What images are built for.
pub struct Building<'a> {
    pub context: &'a Context,
    pub client: &'a Client,
    pub checkout: &'a Checkout,
    pub state: State,
}

/// Whether an earlier build counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    Use,
    Ignore,
}

/// The files of a state, with the directory for what is temporary.
struct Files {
    tree: Arc<Tree>,
    all: Arc<Vec<TreeFile>>,
    scratch: TempDir,
}

/// One image to build.
struct Job<'a> {
    service: &'a str,
    build: &'a ImageBuild,
    inputs: Inputs,
    cache: Cache,
}

// === impl Building ===

impl Building<'_> {
    /// The images of these services, with those built that are not here.
    pub async fn all(
        &self,
        builds: impl Iterator<Item = (String, ImageBuild)>,
    ) -> Result<Built, Fault> {
        self.make(builds, Cache::Use).await
    }

    /// The images of these services, all built now.
    pub async fn again(
        &self,
        builds: impl Iterator<Item = (String, ImageBuild)>,
    ) -> Result<Built, Fault> {
        self.make(builds, Cache::Ignore).await
    }

    async fn make(
        &self,
        builds: impl Iterator<Item = (String, ImageBuild)>,
        cache: Cache,
    ) -> Result<Built, Fault> {
        let builds: Vec<(String, ImageBuild)> = builds.collect();
        let mut built = Built::new();
        if builds.is_empty() {
            return Ok(built);
        }
        let policy = PolicyFile::of_machine();
        if let Some(Err(breach)) = policy.load()?.map(|it| it.may_build()) {
            return Err(policy.refusal(&[breach]));
        }
        let files = self.files().await?;
        let mut known = match cache {
            Cache::Use => self.known().await?,
            Cache::Ignore => BTreeSet::new(),
        };
        let mut builder = None;
        for (service, build) in builds {
            let (tree, all) = (Arc::clone(&files.tree), Arc::clone(&files.all));
            let (name, wanted) = (service.clone(), build.clone());
            let inputs = try_blocking(move || Inputs::find(&name, &wanted, &tree, &all)).await?;
            let image = inputs.image.clone();
            if known.insert(image.clone()) {
                let _lock = Lock::of(&image).await?;
                // Another command may have built it meanwhile.
                if cache == Cache::Use && self.known().await?.contains(&image) {
                    built.insert(service, image);
                    continue;
                }
                let builder = match &mut builder {
                    Some(builder) => builder,
                    none => none.insert(Builder::find().await?),
                };
                let job = Job {
                    service: &service,
                    build: &build,
                    inputs,
                    cache,
                };
                self.build(&job, &files, builder).await?;
            }
            built.insert(service, image);
        }
        Ok(built)
    }

    /// The paths that differ between a commit and this state.
    pub async fn changed_since(&self, commit: &str) -> Result<Vec<String>, Fault> {
        let now: BTreeSet<TreeFile> = self.files().await?.all.iter().cloned().collect();
        let commit = commit.to_owned();
        let before = self.checkout.git(move |it| it.tree_of(&commit)?.files());
        let before: BTreeSet<TreeFile> = before.await?.into_iter().collect();
        let changed = now.symmetric_difference(&before);
        Ok(changed
            .map(|it| it.path.to_string_lossy().into_owned())
            .collect())
    }

    async fn files(&self) -> Result<Files, Fault> {
        if self.state == State::Commit(None) {
            let message = "there is no commit yet, and images are built from the files of one";
            let hint = "commit; `holm up --dirty` takes the checkout as it is";
            return Err(Fault::new(Code::BuildFailed, message, hint));
        }
        // git may run programs that the repository's own settings name.
        match self.state {
            State::Commit(_) => {
                settings::settle_partial(self.context, self.client, self.checkout).await?
            }
            State::Checkout => settings::settle(self.context, self.client, self.checkout).await?,
        }
        let scratch = TempDir::with_prefix("holm-build-").map_err(no_room)?;
        let (state, place) = (self.state.clone(), scratch.path().to_owned());
        let read = self.checkout.git(move |repository| {
            let tree = match state {
                State::Commit(commit) => repository.tree_of(&commit.unwrap_or_default())?,
                State::Checkout => repository.tree_of_checkout(&place, &Cancel::default())?,
            };
            let files = tree.files()?;
            Ok((tree, files))
        });
        let (tree, all) = read.await?;
        Ok(Files {
            tree: Arc::new(tree),
            all: Arc::new(all),
            scratch,
        })
    }

    /// The images that are here already.
    async fn known(&self) -> Result<BTreeSet<ImageReference>, Fault> {
        let images = self.client.images().await?.images.into_iter();
        Ok(images.map(|image| image.reference).collect())
    }

    async fn build(&self, job: &Job<'_>, files: &Files, builder: &Builder) -> Result<(), Fault> {
        let place = files.scratch.path().join(job.service);
        let work = place.clone();
        try_blocking(move || std::fs::create_dir(&work).map_err(no_room)).await?;
        let (tree, export, to) = (Arc::clone(&files.tree), job.inputs.clone(), place.clone());
        try_blocking(move || export.write(&tree, &to)).await?;
        let mut progress = Progress::new(self.context);
        let archive = builder.run(job, &place, &mut progress).await;
        let archive = archive.inspect_err(|_| progress.fail())?;
        let import = async {
            let file = tokio::fs::File::open(&archive).await.map_err(no_room)?;
            let upload = self.client.upload(file).await?.upload;
            let import = ImportImages {
                upload,
                name: Some(job.inputs.image.to_string()),
            };
            let report = |step: &str, done, total| progress.report(step, done, total);
            self.client.import_images(&import, report).await
        };
        let imported = import.await;
        imported.inspect_err(|_| progress.fail())?;
        // Contexts and archives may be large.
        try_blocking(move || std::fs::remove_dir_all(&place).map_err(no_room)).await
    }
}

fn no_room(error: std::io::Error) -> Fault {
    let code = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Code::DiskFull,
        _ => Code::BuildFailed,
    };
    let message = "cannot put the files of a build together";
    let hint = "is there room in the temporary directory (TMPDIR)?";
    Fault::new(code, message, hint).because(error)
}
