//! The image of the container: as the file names it, built from a Dockerfile, and with features.

use super::features::from;
use super::services::{Form, Work};
use crate::compose::tree::Node;
use crate::shape::short;
use holm_core::config::{Image, Name, OnAssign, Restart, Service};
use holm_core::container::{Attachment, Container};
use holm_core::image_build::{Dockerfile, ImageBuild, WrittenBuild, below};
use holm_core::image_reference::ImageReference;
use std::collections::BTreeMap;

// === impl Work ===

impl Work<'_> {
    pub fn own_service(&mut self, node: &Node, form: Form, name: &Name) -> Option<Service> {
        let from_toml = self.config.services.remove(name);
        let (reference, mut build) = match form {
            Form::Build => (ImageReference::unbuilt()?, Some(self.build(node)?)),
            _ => (self.image(node)?, None),
        };
        if let Some(from_toml) = from_toml {
            let changed = from_toml.image.and_then(|image| image.build);
            match (changed, from_toml.run.is_empty()) {
                (Some(by), true) => match &mut build {
                    Some(build) => build.change(by),
                    // Of an image with features.
                    None => {
                        build = Some(ImageBuild {
                            dockerfile: from(&reference),
                            ..by
                        })
                    }
                },
                _ => {
                    let what = format!(
                        "`services.{name}` of holm.toml is the name of the container; give the service another name"
                    );
                    self.source.error(node.at, what);
                    return None;
                }
            }
        }
        Some(Service {
            run: String::new(),
            image: Some(Image {
                reference,
                build,
                tree: None,
                volumes: Vec::new(),
                container: Some(Container {
                    name: name.to_string(),
                    network: Attachment::Workspace,
                    ..Container::default()
                }),
            }),
            ready: None,
            depends_on: Vec::new(),
            restart: Restart::OnFailure,
            on_assign: OnAssign::None,
            build: None,
            rebuild_when: Vec::new(),
            env: BTreeMap::new(),
        })
    }

    fn image(&mut self, node: &Node) -> Option<ImageReference> {
        let entry = node.entry("image")?;
        let text = entry.node.written().unwrap_or_default();
        match text.parse::<ImageReference>() {
            Ok(reference) if !reference.is_built() => Some(reference),
            Ok(_) => {
                let what = "`image` names an image that holm builds; use `build`";
                self.source.error(entry.node.at, what);
                None
            }
            Err(error) => {
                self.source
                    .error(entry.node.at, format!("`image`: {error}"));
                None
            }
        }
    }

    /// Paths are relative to the file.
    fn build(&mut self, node: &Node) -> Option<ImageBuild> {
        let table = node.get("build");
        let word = |key: &str| table.and_then(|table| table.word(key));
        let at = node.entry("build").or_else(|| node.entry("dockerFile"));
        let at = at.map_or(node.at, |entry| entry.key_at);
        let file = word("dockerfile").or_else(|| node.word("dockerFile"));
        let context = word("context").or_else(|| node.word("context"));
        let args = table
            .map(|table| table.entries_of("args"))
            .unwrap_or_default();
        let written = WrittenBuild {
            context,
            args: args
                .iter()
                .filter_map(|entry| Some((entry.key.clone(), entry.node.written()?)))
                .collect(),
            target: word("target"),
            ..WrittenBuild::default()
        };
        let Some(file) = file else {
            self.source.error(at, "`build` needs `dockerfile`");
            return None;
        };
        let directory = self.source.name.rsplit_once('/').map_or("", |(it, _)| it);
        let built = written.build(directory);
        let path = below(directory, &file);
        match (built, path) {
            (Ok(build), Some(path)) => Some(ImageBuild {
                dockerfile: Dockerfile::File(path),
                ..build
            }),
            (Err(why), _) => {
                self.source.error(at, format!("`build` {why}"));
                None
            }
            (_, None) => {
                let what = format!(
                    "`build` has the dockerfile `{}`, which is not below the project's root",
                    short(&file)
                );
                self.source.error(at, what);
                None
            }
        }
    }
}
