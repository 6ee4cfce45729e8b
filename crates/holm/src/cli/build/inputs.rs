//! The inputs of a build: which files of the tree it sees, its Dockerfile, and the name of the image that they make.

use super::no_room;
use holm_config::trust::digest_of;
use holm_core::dockerignore::DockerIgnore;
use holm_core::image_build::{
    Dockerfile, FeatureFiles, ImageBuild, LONGEST_DOCKERFILE, reaches_out, without_frontend,
};
use holm_core::image_reference::ImageReference;
use holm_core::{Code, Fault};
use holm_git::{Cancel, Export, Tree, TreeFile, TreeFileKind};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Counts up when the same inputs make another image.
const VERSION: &[u8] = b"holm build 1";

const IGNORE: &str = ".dockerignore";

/// The directory of the files that the build sees, and its Dockerfile, in the directory of the build.
pub const CONTEXT: &str = "context";
pub const DOCKERFILE: &str = "Dockerfile";

#[derive(Clone, Debug)]
pub struct Inputs {
    /// The name that stands for them.
    pub image: ImageReference,
    dockerfile: String,
    context: PathBuf,
    files: Vec<TreeFile>,
    features: Vec<Feature>,
}

/// The files of one feature of a Dev Container.
#[derive(Clone, Debug)]
struct Feature {
    directory: PathBuf,
    files: Vec<TreeFile>,
}

/// Finds files of the tree for one service.
struct Finder<'a> {
    service: &'a str,
    tree: &'a Tree,
    all: &'a [TreeFile],
}

// === impl Inputs ===

impl Inputs {
    pub fn find(
        service: &str,
        build: &ImageBuild,
        tree: &Tree,
        all: &[TreeFile],
    ) -> Result<Self, Fault> {
        let finder = Finder { service, tree, all };
        let (dockerfile, own_ignore) = match &build.dockerfile {
            Dockerfile::Inline(text) => (text.clone(), None),
            Dockerfile::File(path) => (
                finder.needed(path)?,
                finder.text(&format!("{path}{IGNORE}"))?,
            ),
        };
        let approved = build.digest.as_ref();
        if approved.is_some_and(|approved| *approved != digest_of(&dockerfile)) {
            let what = format!("{} is not the one that was approved", build.file());
            let hint =
                "read it; `holm reload WS` with that commit in your checkout asks for approval";
            return Err(Fault::new(
                Code::NotTrusted,
                finder.wrong(what).message(),
                hint,
            ));
        }
        let dockerfile = match &build.features {
            Some(features) => features.appended_to(&dockerfile),
            None => dockerfile,
        };
        if dockerfile.len() > LONGEST_DOCKERFILE {
            return Err(finder.wrong(format!("its {} is too long", build.file())));
        }
        let reached = reaches_out(&dockerfile).filter(|_| !build.network);
        if let Some(found) = reached {
            let hint = format!(
                "`build = {{ network = \"default\" }}` in [services.{service}] of holm.toml asks for a network"
            );
            let what = format!("{}, {found}: its network is off", build.file());
            return Err(finder.wrong(what).with_hint(hint));
        }
        let context = PathBuf::from(&build.context);
        let is_own = own_ignore.is_some();
        let ignore = match own_ignore {
            Some(text) => text,
            None => finder
                .text(&context.join(IGNORE).to_string_lossy())?
                .unwrap_or_default(),
        };
        let ignore = DockerIgnore::parse(&ignore);
        let is_seen = |file: &&TreeFile| match file.path.strip_prefix(&context) {
            // Builders read this file again, and another one counts.
            Ok(below) if is_own && below == Path::new(IGNORE) => false,
            Ok(below) => !ignore.ignores(&below.to_string_lossy()),
            Err(_) => false,
        };
        let files: Vec<TreeFile> = all.iter().filter(is_seen).cloned().collect();
        let features = finder.features(build)?;
        let image = name(build, &dockerfile, &files, &features);
        let image = image.ok_or_else(|| finder.wrong("it has no name".to_owned()))?;
        Ok(Self {
            image,
            dockerfile,
            context,
            files,
            features,
        })
    }

    /// Each feature has a directory of its own in the context, whatever the project's `.dockerignore` says.
    fn write_features(&self, tree: &Tree, context: &Path) -> Result<(), Fault> {
        let all = context.join(FeatureFiles::DIRECTORY);
        if !self.features.is_empty() {
            std::fs::create_dir_all(&all).map_err(no_room)?;
        }
        for (number, feature) in self.features.iter().enumerate() {
            let place = all.join(number.to_string());
            let export = Export {
                top: &feature.directory,
                to: &place,
                cancel: &Cancel::default(),
            };
            tree.export(&feature.files, &export)?;
        }
        let ignore = context.join(IGNORE);
        if !self.features.is_empty() && ignore.is_file() {
            let mut text = std::fs::read_to_string(&ignore).map_err(no_room)?;
            let directory = FeatureFiles::DIRECTORY;
            text.push_str(&format!("\n!{directory}\n!{directory}/**\n"));
            std::fs::write(&ignore, text).map_err(no_room)?;
        }
        Ok(())
    }

    /// Writes the context and the Dockerfile into a directory.
    pub fn write(&self, tree: &Tree, to: &Path) -> Result<(), Fault> {
        let export = Export {
            top: &self.context,
            to: &to.join(CONTEXT),
            cancel: &Cancel::default(),
        };
        tree.export(&self.files, &export)?;
        self.write_features(tree, &to.join(CONTEXT))?;
        let text = without_frontend(&self.dockerfile);
        std::fs::write(to.join(DOCKERFILE), text).map_err(no_room)
    }
}

/// The name for exactly these inputs, whatever builder there is.
fn name(
    build: &ImageBuild,
    dockerfile: &str,
    files: &[TreeFile],
    features: &[Feature],
) -> Option<ImageReference> {
    let mut hash = Sha256::new();
    // Each part with its length, so that no two inputs read alike.
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    add(VERSION);
    add(dockerfile.as_bytes());
    add(build.target.as_deref().unwrap_or_default().as_bytes());
    add(&[u8::from(build.network)]);
    for (name, value) in &build.args {
        add(name.as_bytes());
        add(value.as_bytes());
    }
    add(b"files");
    for file in files {
        let below = file.path.strip_prefix(&build.context).unwrap_or(&file.path);
        add(below.as_os_str().as_encoded_bytes());
        add(&[file.kind as u8]);
        add(file.object.as_bytes());
    }
    for feature in features {
        add(b"feature");
        for file in &feature.files {
            let below = file.path.strip_prefix(&feature.directory);
            let below = below.unwrap_or(&file.path);
            add(below.as_os_str().as_encoded_bytes());
            add(&[file.kind as u8]);
            add(file.object.as_bytes());
        }
    }
    let digits = hash.finalize();
    let key: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
    ImageReference::built(&key)
}

// === impl Finder ===

impl Finder<'_> {
    /// The files of the features, by their directories. A link may lead out of the tree, so none is taken.
    fn features(&self, build: &ImageBuild) -> Result<Vec<Feature>, Fault> {
        let directories = build.features.iter().flat_map(|it| &it.directories);
        let features = directories.map(|directory| {
            let directory = PathBuf::from(directory);
            let own = self
                .all
                .iter()
                .filter(|file| file.path.starts_with(&directory));
            let files: Vec<TreeFile> = own.cloned().collect();
            let mut links = files.iter().filter(|file| file.kind == TreeFileKind::Link);
            if let Some(link) = links.next() {
                let path = link.path.display().to_string();
                let what = format!(
                    "its feature has the link {}, and a feature has plain files",
                    path.escape_debug()
                );
                return Err(self.wrong(what));
            }
            Ok(Feature { directory, files })
        });
        features.collect()
    }

    fn needed(&self, path: &str) -> Result<String, Fault> {
        let found = self.text(path)?;
        found.ok_or_else(|| self.wrong(format!("the commit has no file {}", path.escape_debug())))
    }

    /// The text of a file; a link is not followed, because it may leave the tree.
    fn text(&self, path: &str) -> Result<Option<String>, Fault> {
        let wanted = Path::new(path);
        let Some(file) = self.all.iter().find(|file| file.path == wanted) else {
            return Ok(None);
        };
        let shown = path.escape_debug();
        if file.kind == TreeFileKind::Link {
            return Err(self.wrong(format!("{shown} is a link")));
        }
        let text = String::from_utf8(self.tree.content(file)?);
        let text = text.map_err(|_| self.wrong(format!("{shown} is not UTF-8 text")))?;
        Ok(Some(text))
    }

    fn wrong(&self, why: String) -> Fault {
        Fault::new(
            Code::BuildFailed,
            format!("the image of {} cannot be built: {why}", self.service),
            "correct it and commit; `holm up --dirty` takes the checkout as it is",
        )
    }
}
