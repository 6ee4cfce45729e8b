//! A Dev Container: the line that the proposal has for it, and the ports that it forwards.

use super::Found;
use super::directory::Directory;
use super::document::Document;
use super::proposal::{Contained, Part, Proposal};

pub const FILES: [&str; 2] = [".devcontainer/devcontainer.json", ".devcontainer.json"];

/// Keys with commands that would run when the container is made or started.
const COMMANDS: [&str; 5] = [
    "onCreateCommand",
    "updateContentCommand",
    "postCreateCommand",
    "postStartCommand",
    "postAttachCommand",
];

pub struct DevContainer {
    pub part: Part,
    /// In the order of the file.
    pub ports: Vec<u16>,
}

/// The container of the checkout. A Compose file that it does not name is more: it has the program's databases.
pub fn chosen(found: &Found) -> Option<Contained> {
    let mut container = found.container.clone()?;
    let composed = found.compose.as_ref();
    let composed = composed.filter(|it| container.compose.is_empty() && it.errors.is_empty());
    container.instead = composed.map(|it| it.file.clone());
    Some(container)
}

/// The container, if the proposal uses it.
pub fn used(proposal: &Proposal) -> Option<&Contained> {
    let container = proposal.container.as_ref();
    container.filter(|it| it.errors.is_empty() && it.instead.is_none())
}

pub fn read(root: Directory<'_>, is_used: bool) -> Option<DevContainer> {
    let (file, document) = FILES
        .iter()
        .find_map(|name| Some((*name, root.document(name)?)))?;
    let mut part = Part::new("Dev Container", file);
    let texts = |key: &str| document.get(key).map(Document::texts).unwrap_or_default();
    for key in COMMANDS {
        let command = texts(key).join(" ");
        if !command.is_empty() && !is_used {
            let remark =
                format!("{file}: {key} `{command}` was not used: is it part of the set-up?");
            part.remarks.push(remark);
        }
    }
    let ports = texts("forwardPorts").into_iter().chain(texts("appPort"));
    // `"db:5432"` is a port of another container.
    let ports = ports.filter_map(|port| port.parse().ok());
    Some(DevContainer {
        ports: ports.collect(),
        part,
    })
}
