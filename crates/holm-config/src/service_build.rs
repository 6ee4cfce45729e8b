//! `build` of a service in `holm.toml`: the command that `rebuild` runs, or what the service's image is built from.

use super::node::Node;
use holm_core::image_build::{ImageBuild, WrittenBuild};

/// Whether a Compose file may add services, by itself or through a `devcontainer.json`.
pub fn has_compose(root: &Node<'_>) -> bool {
    let project = root.get("project");
    let keys = ["compose", "devcontainer"];
    project.is_some_and(|project| keys.iter().any(|key| project.get(key).is_some()))
}

/// The command of `build`, where it does not say what an image is built from.
pub fn build_command(root: &Node<'_>, node: &Node<'_>) -> Option<String> {
    let program = ["run", "image"].iter().any(|key| node.get(key).is_some());
    // A Compose file may have the program.
    node.string("build")
        .filter(|_| program || has_compose(root))
}

/// What the image of a service is built from: a table, or a directory where nothing else says what the service is.
pub fn image_build(root: &Node<'_>, node: &Node<'_>) -> Option<Result<ImageBuild, String>> {
    let build = node.get("build")?;
    if build_command(root, node).is_some() {
        return None;
    }
    let args = build.get("args").map(|args| args.entries());
    let args = args.into_iter().flatten();
    let written = WrittenBuild {
        context: build
            .text()
            .map(str::to_owned)
            .or_else(|| build.string("context")),
        dockerfile: build.string("dockerfile"),
        inline: None,
        args: args
            .filter_map(|(name, value)| Some((name.to_owned(), value.text()?.to_owned())))
            .collect(),
        target: build.string("target"),
        network: build.string("network"),
    };
    Some(written.build(""))
}
