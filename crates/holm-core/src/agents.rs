//! Resolves agents by name: the user's settings override the project's `[agents]`, which override
//! the built-in ones. Called for runs and sessions.
//!
//! An agent gets the user's variables and files only if the user's own settings name them.

use crate::config::{Agent, Name, Variable};
use crate::{Code, Fault};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// The default time limit of a run.
pub const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// An agent in the user's settings, and which of the user's variables and files its runs and
/// sessions get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserAgent {
    /// `None`: the project's command.
    pub command: Option<Vec<String>>,
    pub timeout: Option<Duration>,
    pub env: Vec<Variable>,
    pub files: Vec<PathBuf>,
}

/// All agents that a workspace can call.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    /// From the `holm.toml` in force.
    pub project: BTreeMap<Name, Agent>,
    /// Project agents whose command the user has approved to receive the credentials for that name.
    pub approved: BTreeSet<Name>,
    pub user: BTreeMap<Name, UserAgent>,
    pub default: Option<Name>,
}

/// A resolved agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    pub name: String,
    /// For a run: the message comes on stdin.
    pub command: Vec<String>,
    /// For a session: it has a terminal.
    pub in_terminal: Vec<String>,
    pub timeout: Duration,
    /// Names of the variables that it gets.
    pub env: Vec<Variable>,
    /// The user's files that it gets.
    pub files: Vec<PathBuf>,
    /// It would get credentials, if the user had approved the project's command.
    is_withheld: bool,
    known: Option<&'static ReadyMade>,
}

/// A built-in agent.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadyMade {
    pub name: &'static str,
    pub command: &'static [&'static str],
    pub in_terminal: &'static [&'static str],
    /// The command that installs it; empty if it is always there.
    pub install: &'static str,
    /// Variables and files that the agent's own documentation names for credentials.
    pub credentials: &'static [&'static str],
}

/// holm is the boundary, so each agent is told not to ask for permission and not to build its own
/// sandbox.
pub const READY_MADE: &[ReadyMade] = &[
    ReadyMade {
        name: "claude",
        command: &["claude", "-p", "--dangerously-skip-permissions"],
        in_terminal: &["claude", "--dangerously-skip-permissions"],
        install: "npm install -g @anthropic-ai/claude-code",
        credentials: &["ANTHROPIC_API_KEY", "~/.claude/.credentials.json"],
    },
    ReadyMade {
        name: "codex",
        command: &[
            "codex",
            "exec",
            "--dangerously-bypass-approvals-and-sandbox",
            "-",
        ],
        in_terminal: &["codex", "--dangerously-bypass-approvals-and-sandbox"],
        install: "npm install -g @openai/codex",
        credentials: &["OPENAI_API_KEY", "~/.codex/auth.json"],
    },
    ReadyMade {
        name: "gemini",
        command: &["gemini", "--yolo", "--skip-trust"],
        in_terminal: &["gemini", "--yolo", "--skip-trust"],
        install: "npm install -g @google/gemini-cli",
        credentials: &["GEMINI_API_KEY", "~/.gemini/oauth_creds.json"],
    },
    ReadyMade {
        name: "opencode",
        command: &["opencode", "run"],
        in_terminal: &["opencode"],
        install: "npm install -g opencode-ai",
        credentials: &["ANTHROPIC_API_KEY", "~/.local/share/opencode/auth.json"],
    },
    ReadyMade {
        name: "aider",
        command: &["aider", "--yes-always", "--message-file", "/dev/stdin"],
        in_terminal: &["aider", "--yes-always"],
        install: "pip install aider-chat",
        credentials: &["OPENAI_API_KEY", "ANTHROPIC_API_KEY"],
    },
    ReadyMade {
        name: "shell",
        command: &["sh"],
        in_terminal: &["bash"],
        install: "",
        credentials: &[],
    },
];

// === impl Agents ===

impl Agents {
    /// The agent of this name, or the default one.
    pub fn call(&self, asked: Option<&str>) -> Result<Called, Fault> {
        let name = match asked {
            Some(name) => name,
            None => self.default_name().ok_or_else(|| self.no_default())?,
        };
        let known = READY_MADE.iter().find(|agent| agent.name == name);
        let project = find(&self.project, name);
        let user = find(&self.user, name);
        let own = user.and_then(|agent| agent.command.as_ref());
        let written = own.or(project.map(|agent| &agent.command));
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let (command, in_terminal) = match (written, known) {
            // A built-in agent has its own command for terminals. For others, the configured
            // command serves both.
            (Some(command), Some(known))
                if command.first().is_some_and(|it| it == known.command[0]) =>
            {
                (command.clone(), words(known.in_terminal))
            }
            (Some(command), _) => (command.clone(), command.clone()),
            (None, Some(known)) => (words(known.command), words(known.in_terminal)),
            (None, None) => return Err(self.not_found(name)),
        };
        let is_theirs = own.is_none() && project.is_some();
        let is_approved = self.approved.iter().any(|key| key.as_str() == name);
        let gives = user.filter(|agent| !agent.env.is_empty() || !agent.files.is_empty());
        let given = gives.filter(|_| !is_theirs || is_approved);
        let timeout = user.and_then(|agent| agent.timeout);
        let timeout = timeout.or(project.and_then(|agent| agent.timeout));
        Ok(Called {
            name: name.to_owned(),
            command,
            in_terminal,
            timeout: timeout.unwrap_or(TIMEOUT),
            env: given.map(|agent| agent.env.clone()).unwrap_or_default(),
            files: given.map(|agent| agent.files.clone()).unwrap_or_default(),
            is_withheld: gives.is_some() && given.is_none(),
            known,
        })
    }

    /// The user's default, or the only agent of the project.
    fn default_name(&self) -> Option<&str> {
        let only = match self.project.len() {
            1 => self.project.keys().next(),
            _ => None,
        };
        self.default.as_ref().or(only).map(Name::as_str)
    }

    /// All agents that have a command, sorted.
    fn names(&self) -> BTreeSet<&str> {
        let user = self.user.iter();
        let user = user.filter(|(_, agent)| agent.command.is_some());
        let written = self.project.keys().chain(user.map(|(name, _)| name));
        let known = READY_MADE.iter().map(|agent| agent.name);
        written.map(Name::as_str).chain(known).collect()
    }

    fn no_default(&self) -> Fault {
        Fault::new(
            Code::AgentNotFound,
            "no agent is named, and none is the default",
            "say `--agent claude`, or write `default_agent = \"claude\"` into config.toml; \
             `-- CMD` runs a command",
        )
    }

    fn not_found(&self, name: &str) -> Fault {
        let names = self.names().into_iter().collect::<Vec<_>>().join(", ");
        let name = name.escape_debug();
        Fault::new(
            Code::AgentNotFound,
            format!("there is no agent `{name}`; there are {names}"),
            format!(
                "add it: `[agents.{name}]` with `command = [\"…\"]` in holm.toml or config.toml"
            ),
        )
    }
}

fn find<'a, T>(agents: &'a BTreeMap<Name, T>, name: &str) -> Option<&'a T> {
    let mut agents = agents.iter();
    agents
        .find(|(key, _)| key.as_str() == name)
        .map(|(_, agent)| agent)
}

// === impl Called ===

impl Called {
    /// The hint when its program is not found inside.
    pub fn how_to_add(&self) -> String {
        let (name, program) = (&self.name, self.command.first());
        let program = program.map_or("", String::as_str).escape_debug();
        let is_known = |known: &&ReadyMade| {
            known.command.first().copied() == self.command.first().map(String::as_str)
        };
        let install = match self.known.filter(is_known).map(|known| known.install) {
            None | Some("") => "install it on this machine, or by `setup` in holm.toml".to_owned(),
            Some(install) => format!("`{install}`, on this machine or by `setup` in holm.toml"),
        };
        format!(
            "the program `{program}` of the agent `{name}` is not found inside: {install}; \
             `command` of [agents.{name}] names another one"
        )
    }

    /// The note for an agent that usually needs credentials and gets none.
    pub fn without_credentials(&self) -> Option<String> {
        if self.is_withheld {
            let name = &self.name;
            return Some(format!(
                "`{name}` is given no credentials: its command is the repository's, and nobody \
                 approved that; `holm trust`, then `holm reload`"
            ));
        }
        let known = self.known.filter(|known| !known.credentials.is_empty())?;
        let is_given = !self.env.is_empty() || !self.files.is_empty();
        let (files, env): (Vec<&&str>, Vec<&&str>) = known
            .credentials
            .iter()
            .partition(|word| word.starts_with('~'));
        let keys = [("env", env), ("files", files)];
        let keys = keys.iter().filter(|(_, words)| !words.is_empty());
        let keys: Vec<String> = keys
            .map(|(key, words)| format!("{key} = {words:?}"))
            .collect();
        let (name, keys) = (&self.name, keys.join("` or `"));
        (!is_given).then(|| {
            format!("`{name}` is given no credentials; in config.toml, below `[agents.{name}]`: `{keys}`")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn project(agents: &[(&str, &[&str])]) -> BTreeMap<Name, Agent> {
        let agents = agents.iter().map(|(key, command)| {
            let command = command.iter().map(|word| (*word).to_owned()).collect();
            let timeout = Some(Duration::from_secs(7));
            (name(key), Agent { command, timeout })
        });
        agents.collect()
    }

    #[test]
    fn the_users_words_come_before_the_projects_and_these_before_ours() {
        let mut agents = Agents::default();
        let ours = agents.call(Some("claude")).unwrap();
        assert_eq!(ours.command, READY_MADE[0].command);
        assert_ne!(ours.in_terminal, ours.command);
        assert_eq!((ours.timeout, ours.env.len()), (TIMEOUT, 0));
        agents.project = project(&[("claude", &["theirs"])]);
        let theirs = agents.call(Some("claude")).unwrap();
        assert_eq!(
            (theirs.command, theirs.timeout.as_secs()),
            (vec!["theirs".to_owned()], 7)
        );
        let given = UserAgent {
            env: vec![Variable::parse("A_KEY").unwrap()],
            ..UserAgent::default()
        };
        agents.user.insert(name("claude"), given.clone());
        let both = agents.call(Some("claude")).unwrap();
        assert_eq!(both.env.len(), 0, "nobody approved their command");
        assert!(both.without_credentials().unwrap().contains("holm trust"));
        agents.approved.insert(name("claude"));
        let both = agents.call(Some("claude")).unwrap();
        assert_eq!(
            (both.command, both.env.len()),
            (vec!["theirs".to_owned()], 1)
        );
        // A command for runs does not fit a terminal, so the built-in one is used there.
        let command = ["claude", "-p", "--model", "x"].map(str::to_owned).to_vec();
        let mine = UserAgent {
            command: Some(command),
            ..given.clone()
        };
        agents.user.insert(name("claude"), mine);
        let called = agents.call(Some("claude")).unwrap();
        assert_eq!(called.in_terminal, READY_MADE[0].in_terminal);
        let command = Some(vec!["mine".to_owned()]);
        let mine = UserAgent { command, ..given };
        agents.user.insert(name("claude"), mine);
        let called = agents.call(Some("claude")).unwrap();
        assert_eq!(
            (called.command, called.in_terminal.len()),
            (vec!["mine".to_owned()], 1)
        );
    }

    #[test]
    fn what_is_called_without_a_name() {
        let mut agents = Agents::default();
        assert_eq!(agents.call(None).unwrap_err().code, Code::AgentNotFound);
        agents.project = project(&[("own", &["x"])]);
        assert_eq!(agents.call(None).unwrap().name, "own");
        agents.default = Some(name("shell"));
        assert_eq!(agents.call(None).unwrap().name, "shell");
        agents.default = None;
        agents.project = project(&[("a", &["x"]), ("b", &["y"])]);
        assert!(agents.call(None).is_err(), "nobody says which");
    }

    #[test]
    fn what_is_not_there_is_said_with_what_adds_it() {
        let agents = Agents {
            project: project(&[("own", &["x"])]),
            // Credentials without a command are no agent.
            user: [(name("bare"), UserAgent::default())].into(),
            ..Agents::default()
        };
        let fault = agents.call(Some("bare")).unwrap_err();
        assert!(fault.message().contains("claude, codex, gemini"), "{fault}");
        assert!(fault.message().contains("own"), "{fault}");
        assert!(fault.hint.contains("[agents.bare]"), "{}", fault.hint);
        let claude = agents.call(Some("claude")).unwrap();
        let how = claude.how_to_add();
        assert!(
            how.contains("npm install -g @anthropic-ai/claude-code"),
            "{how}"
        );
        let own = agents.call(Some("own")).unwrap().how_to_add();
        assert!(!own.contains("npm"), "{own}");
    }

    #[test]
    fn who_is_given_nothing_is_told_how() {
        let agents = Agents::default();
        let note = agents.call(Some("codex")).unwrap().without_credentials();
        let note = note.unwrap();
        assert!(note.contains("env = [\"OPENAI_API_KEY\"]"), "{note}");
        let shell = agents.call(Some("shell")).unwrap();
        assert_eq!(shell.without_credentials(), None);
    }
}
