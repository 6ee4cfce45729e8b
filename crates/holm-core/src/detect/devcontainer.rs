//! A Dev Container: the ports that it forwards. Its image and its commands are mentioned and not used.

use super::directory::Directory;
use super::document::Document;
use super::proposal::Part;

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

pub fn read(root: Directory<'_>) -> Option<DevContainer> {
    let (file, document) = FILES
        .iter()
        .find_map(|name| Some((*name, root.document(name)?)))?;
    let mut part = Part::new("Dev Container", file);
    let texts = |key: &str| document.get(key).map(Document::texts).unwrap_or_default();
    for key in COMMANDS {
        let command = texts(key).join(" ");
        if !command.is_empty() {
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
