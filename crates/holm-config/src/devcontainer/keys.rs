//! Every key of the Dev Container specification, with its kind and holm's verdict. The table of `docs/devcontainers.md` is
//! generated from it.

use super::kind::{Key, Kind};
use crate::compose::shape::Verdict::{self, Done, Ignored, Trust};
use crate::compose::tree::{Node, Value};
use crate::shape::short;

/// Rows `name: verdict kind "note"`.
macro_rules! keys {
    ($($name:literal: $verdict:expr, $kind:expr, $note:literal;)*) => {
        &[$(Key { name: $name, verdict: $verdict, kind: $kind, note: $note }),*]
    };
}

/// Waits for [`super::Reading`] to see more than one key.
const ELSEWHERE: Verdict = Trust(never);

pub static KEYS: &[Key] = keys! {
    "$schema": Done, Kind::Text, "for editors";
    "appPort": Done, Kind::Ports, "as `forwardPorts`; routes on loopback, whatever address and port of the host the file names";
    "build": ELSEWHERE, Kind::Table(BUILD), "your docker, podman or buildah runs the repository's code to build the image; `cacheFrom` has no effect";
    "capAdd": Trust(not_empty), Kind::Texts, "adds Linux capabilities";
    "containerEnv": Done, Kind::Variables, "";
    "containerUser": Done, Kind::Text, "unless `remoteUser` names another user";
    "context": ELSEWHERE, Kind::Text, "the older spelling of `build.context`";
    "customizations": Ignored, Kind::Any, "it is for editors and other tools";
    "devPort": Ignored, Kind::Any, "it is for an editor";
    "dockerComposeFile": Done, Kind::TextOrTexts, "as [compose.md](compose.md) says; what those files ask of the host needs approval as well";
    "dockerFile": ELSEWHERE, Kind::Text, "the older spelling of `build.dockerfile`";
    "extensions": Ignored, Kind::Any, "it is for an editor";
    "features": ELSEWHERE, Kind::Features, "a build runs their install scripts; features of the repository (`./NAME`), others are refused";
    "forwardPorts": Done, Kind::Ports, "ports of the workspace; `SERVICE:PORT` with a Compose file";
    "hostRequirements": Trust(gpu), Kind::Any, "only `gpu` needs approval, and no device is given; set `[limits]` in holm.toml for the rest";
    "image": Done, Kind::Text, "pulled by the project's egress rules";
    "init": Done, Kind::Flag, "holm's own init reaps processes in every container";
    "initializeCommand": ELSEWHERE, Kind::Command, "runs on your machine, with your rights, at each `holm up` that creates a workspace";
    "mounts": ELSEWHERE, Kind::Mounts, "volumes are volumes of the workspace; a path outside of the project needs approval";
    "name": Done, Kind::Text, "";
    "onCreateCommand": Done, Kind::Command, "inside, once for each container";
    "otherPortsAttributes": Ignored, Kind::Any, "`holm ports` shows every port that a program opens";
    "overrideCommand": Done, Kind::Flag, "";
    "overrideFeatureInstallOrder": Done, Kind::Texts, "";
    "portsAttributes": Done, Kind::Attributes, "`label` names the port; the rest is for editors";
    "postAttachCommand": Done, Kind::Command, "inside, at each `holm enter`, before the shell";
    "postCreateCommand": Done, Kind::Command, "inside, once for each container";
    "postStartCommand": Done, Kind::Command, "inside, at each start of the container";
    "privileged": Trust(set), Kind::Flag, "gives all Linux capabilities";
    "remoteEnv": Done, Kind::RemoteVariables, "";
    "remoteUser": Done, Kind::Text, "programs start as this user, and what they write in the tree is yours";
    "runArgs": Trust(not_empty), Kind::Texts, "options for an engine's command line, which may reach the host";
    "runServices": Done, Kind::Texts, "";
    "secrets": Ignored, Kind::Any, "declare them in `[secrets]` of holm.toml";
    "securityOpt": Trust(not_empty), Kind::Texts, "weakens the isolation";
    "service": Done, Kind::Text, "";
    "settings": Ignored, Kind::Any, "it is for an editor";
    "shutdownAction": Ignored, Kind::Choice(&["none", "stopContainer", "stopCompose"]), "a workspace runs until `holm stop`";
    "updateContentCommand": Done, Kind::Command, "inside, once for each container";
    "updateRemoteUserUID": Done, Kind::Flag, "always so: what the user writes in the tree is yours";
    "userEnvProbe": Ignored, Kind::Choice(&["none", "interactiveShell", "loginShell", "loginInteractiveShell"]), "programs get the image's variables and `remoteEnv`, and no shell is asked";
    "waitFor": Done, Kind::Choice(&["initializeCommand", "onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand"]), "commands and sessions begin then; default: `updateContentCommand`";
    "workspaceFolder": Done, Kind::Text, "";
    "workspaceMount": ELSEWHERE, Kind::Mount, "the tree, or a directory of it; another source is a path of your machine and needs approval";
};

static BUILD: &[Key] = keys! {
    "args": Done, Kind::Variables, "";
    "cacheFrom": Ignored, Kind::TextOrTexts, "builds are keyed by their inputs";
    "context": Done, Kind::Text, "";
    "dockerfile": Done, Kind::Text, "";
    "options": Trust(not_empty), Kind::Texts, "options for an engine's command line, which may reach the host";
    "target": Done, Kind::Text, "";
};

fn never(_: &Node) -> Option<String> {
    None
}

fn set(node: &Node) -> Option<String> {
    (node.value == Value::Flag(true)).then(|| "is set".to_owned())
}

fn not_empty(node: &Node) -> Option<String> {
    let items: Vec<String> = node.items().iter().filter_map(Node::written).collect();
    (!items.is_empty()).then(|| format!("is {}", short(&items.join(", "))))
}

fn gpu(node: &Node) -> Option<String> {
    let gpu = &node.get("gpu")?.value;
    let is_asked = !matches!(gpu, Value::Flag(false) | Value::Null);
    is_asked.then(|| "asks for a GPU of the host".to_owned())
}

/// The table of `docs/devcontainers.md`.
pub fn table() -> String {
    let mut table = "| key | verdict | note |\n| --- | --- | --- |\n".to_owned();
    for key in KEYS {
        let (name, verdict, note) = (key.name, key.verdict.word(), key.note);
        table.push_str(&format!("| `{name}` | {verdict} | {note} |\n"));
    }
    table
}
