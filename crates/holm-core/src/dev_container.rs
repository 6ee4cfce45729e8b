//! A Dev Container: the service in whose root a person's and an agent's programs run, and what `devcontainer.json` says of
//! these programs. What every service of an image has is in the service itself.

use crate::shell::quoted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The name of the service that is the container, unless a Compose file has the service.
pub const SERVICE: &str = "devcontainer";

/// What stands for the id of the workspace in values that are stored before there is one.
pub const ID: &str = "${devcontainerId}";

/// Where a variable of the container begins in a value.
const OF_CONTAINER: &str = "${containerEnv:";

/// The key of `devcontainer.json` with the command that the client runs on the host.
pub const INITIALIZE: &str = "initializeCommand";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevContainer {
    /// The path of `devcontainer.json` below the project's root.
    pub file: String,
    /// The service whose root is the container.
    pub service: String,
    /// Where programs start.
    pub folder: PathBuf,
    /// `None` removes the variable.
    pub remote_env: BTreeMap<String, Option<String>>,
    /// As the file names it.
    pub user: Option<String>,
    /// In the order in which they run.
    pub commands: Vec<LifecycleCommand>,
    /// Programs start when the commands of this stage have ended.
    pub wait_for: Stage,
    /// Run on the host by the client, if a person approved them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initialize: Vec<NamedCommand>,
}

/// The commands of one key, which run at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifecycleCommand {
    pub stage: Stage,
    pub commands: Vec<NamedCommand>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedCommand {
    /// `None`: the key has one command.
    pub name: Option<String>,
    pub words: Vec<String>,
}

/// When a command runs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// On the host: programs need not wait for anything inside.
    Initialize,
    OnCreate,
    #[default]
    UpdateContent,
    PostCreate,
    PostStart,
    /// Each time a person opens a shell.
    PostAttach,
}

// === impl DevContainer ===

impl DevContainer {
    /// The commands of a stage, in the order in which they run.
    pub fn of_stage(&self, stage: Stage) -> impl Iterator<Item = &LifecycleCommand> {
        self.commands.iter().filter(move |it| it.stage == stage)
    }

    /// A shell script with the commands for a person who opens a shell; its arguments are the shell. `None`: there are none.
    pub fn attach_script(&self, fill: impl Fn(&str) -> String) -> Option<String> {
        let mut script = String::new();
        for commands in self.of_stage(Stage::PostAttach) {
            let commands = commands.commands.iter().map(|command| {
                let words = command.words.iter();
                let words: Vec<String> = words.map(|word| quoted(&fill(word))).collect();
                words.join(" ")
            });
            let commands: Vec<String> = commands.collect();
            match commands.as_slice() {
                [only] => script.push_str(&format!("{only}\n")),
                several => script.push_str(&format!("{} & wait\n", several.join(" & "))),
            }
        }
        (!script.is_empty()).then(|| script + "exec \"$@\"\n")
    }

    /// Puts the workspace's id into the values.
    pub fn with_id(mut self, id: &str) -> Self {
        let fill = |text: &mut String| *text = text.replace(ID, id);
        self.remote_env.values_mut().flatten().for_each(fill);
        let commands = self.commands.iter_mut().flat_map(|it| &mut it.commands);
        let words = commands.flat_map(|command| &mut command.words);
        words.for_each(fill);
        self
    }
}

// === impl Stage ===

impl Stage {
    /// Those inside, in their order.
    pub const ALL: [Self; 5] = [
        Self::OnCreate,
        Self::UpdateContent,
        Self::PostCreate,
        Self::PostStart,
        Self::PostAttach,
    ];

    /// Of `devcontainer.json`.
    pub fn key(self) -> &'static str {
        match self {
            Self::Initialize => INITIALIZE,
            Self::OnCreate => "onCreateCommand",
            Self::UpdateContent => "updateContentCommand",
            Self::PostCreate => "postCreateCommand",
            Self::PostStart => "postStartCommand",
            Self::PostAttach => "postAttachCommand",
        }
    }

    /// Whether its commands run once for each container, and not at each start.
    pub fn is_once(self) -> bool {
        self < Self::PostStart
    }
}

// === impl NamedCommand ===

impl NamedCommand {
    /// For logs and questions.
    pub fn shown(&self) -> String {
        match self.words.as_slice() {
            [shell, flag, text] if shell == "/bin/sh" && flag == "-c" => text.clone(),
            words => words.join(" "),
        }
    }
}

/// A value with the variables of the container in place of `${containerEnv:NAME}` and `${containerEnv:NAME:DEFAULT}`.
pub fn with_variables(value: &str, look_up: impl Fn(&str) -> Option<String>) -> String {
    let mut text = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once(OF_CONTAINER) {
        text.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            text.push_str(OF_CONTAINER);
            rest = after;
            continue;
        };
        let (name, default) = name.split_once(':').unwrap_or((name, ""));
        text.push_str(&look_up(name).unwrap_or_else(|| default.to_owned()));
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_container_are_filled_in() {
        let look_up = |name: &str| (name == "PATH").then(|| "/bin".to_owned());
        let check = |value: &str, expected: &str| {
            assert_eq!(with_variables(value, look_up), expected, "{value}");
        };
        check("plain $PATH ${PATH}", "plain $PATH ${PATH}");
        check("${containerEnv:PATH}:/opt", "/bin:/opt");
        check("a${containerEnv:NO}b", "ab");
        check("${containerEnv:NO:x}${containerEnv:PATH:y}", "x/bin");
        check("${containerEnv:PATH", "${containerEnv:PATH");
    }

    #[test]
    fn the_id_replaces_its_name_in_variables_and_commands() {
        let command = NamedCommand {
            name: None,
            words: vec!["echo".to_owned(), format!("x-{ID}")],
        };
        let container = DevContainer {
            remote_env: BTreeMap::from([("A".to_owned(), Some(ID.to_owned()))]),
            commands: vec![LifecycleCommand {
                stage: Stage::PostStart,
                commands: vec![command],
            }],
            ..DevContainer::default()
        };
        let filled = container.with_id("w123");
        assert_eq!(filled.remote_env["A"].as_deref(), Some("w123"));
        assert_eq!(filled.commands[0].commands[0].words[1], "x-w123");
    }

    #[test]
    fn a_person_who_attaches_gets_a_shell_after_the_commands() {
        let command = |words: &[&str]| NamedCommand {
            name: None,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        let all = |commands: Vec<NamedCommand>| LifecycleCommand {
            stage: Stage::PostAttach,
            commands,
        };
        let mut container = DevContainer::default();
        assert_eq!(container.attach_script(str::to_owned), None);
        container.commands = vec![
            all(vec![command(&["echo", "it's"])]),
            all(vec![command(&["a"]), command(&["b"])]),
        ];
        let script = container.attach_script(str::to_owned).unwrap();
        assert_eq!(script, "'echo' 'it'\\''s'\n'a' & 'b' & wait\nexec \"$@\"\n");
    }
}
