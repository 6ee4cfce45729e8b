//! Resolves agents by name: the user's settings override the project's `[agents]`, which override
//! the built-in ones. Called for runs and sessions.
//!
//! An agent gets the user's variables and files only if the user's own settings name them.

pub mod known;

use crate::config::{Agent, Name, Variable};
use crate::{Code, Fault};
use known::{KnownAgent, KnownAgents};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default time limit of a run.
pub const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// An agent in the user's settings, and which of the user's variables and files its runs and
/// sessions get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserAgent {
    /// `None`: the project's command.
    pub command: Option<Vec<String>>,
    /// Arguments that runs, or sessions, get besides.
    pub run_args: Vec<String>,
    pub session_args: Vec<String>,
    pub sign_in: Option<Consent>,
    pub timeout: Option<Duration>,
    pub env: Vec<Variable>,
    pub files: Vec<PathBuf>,
    /// As [`KnownAgent::direct`].
    pub direct: bool,
    /// `None`: that of the table.
    pub refresh: Option<Vec<String>>,
}

/// The user's answer for all projects, in the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    Always,
    Never,
}

/// All agents that a workspace can call.
#[derive(Clone, Debug)]
pub struct Agents {
    /// From the `holm.toml` in force.
    pub project: BTreeMap<Name, Agent>,
    /// Project agents whose command the user has approved to receive the credentials for that name.
    pub approved: BTreeSet<Name>,
    pub user: BTreeMap<Name, UserAgent>,
    pub default: Option<Name>,
    pub known: &'static KnownAgents,
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
    /// What holm knows about it, if the command is this agent's own program.
    pub known: Option<&'static KnownAgent>,
    /// The command is the repository's, and the user did not approve that it gets credentials.
    pub is_theirs: bool,
    /// The user's answer for all projects.
    pub sign_in: Option<Consent>,
    /// It gets the sign-in as it is, because the gateway cannot inspect its connections.
    pub is_direct: bool,
}

// === impl Agents ===

impl Agents {
    /// The agent of this name, or the default one.
    pub fn call(&self, asked: Option<&str>) -> Result<Called, Fault> {
        let name = match asked {
            Some(name) => name,
            None => self.default_name().ok_or_else(|| self.no_default())?,
        };
        let known = self.known.agents.get(name);
        let project = find(&self.project, name);
        let user = find(&self.user, name);
        let own = user.and_then(|agent| agent.command.as_ref());
        let written = own.or(project.map(|agent| &agent.command));
        let (mut command, mut in_terminal) = match (written, known) {
            (Some(command), known) => {
                // The arguments are those of a run. A program alone gets the agent's own ones, as
                // it does in a terminal.
                let own = known.filter(|known| known.is_program(command));
                let with = |arguments: &[String]| {
                    let program = command.iter().take(1);
                    program.chain(arguments.iter().skip(1)).cloned().collect()
                };
                let in_run = own.filter(|_| command.len() == 1);
                (
                    in_run.map_or(command.clone(), |known| with(&known.run)),
                    own.map_or(command.clone(), |known| with(&known.session)),
                )
            }
            (None, Some(known)) => (known.run.clone(), known.session.clone()),
            (None, None) => return Err(self.not_found(name)),
        };
        if let Some(user) = user {
            command.extend(user.run_args.iter().cloned());
            in_terminal.extend(user.session_args.iter().cloned());
        }
        let known = known.filter(|known| known.is_program(&command));
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
            is_theirs: is_theirs && !is_approved,
            sign_in: user.and_then(|agent| agent.sign_in),
            is_direct: known.is_some_and(|known| known.direct) || user.is_some_and(|it| it.direct),
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
        let known = self.known.agents.keys().map(String::as_str);
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
            format!("no agent {name}; there are {names}"),
            format!("add it to holm.toml   [agents.{name}] command = [\"{name}\", \"…\"]"),
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
    /// The hint for exit code 127: the agent's program is missing inside. `None` for a shell, which also exits with
    /// 127 when a command of its script is missing.
    pub fn how_to_add(&self) -> Option<String> {
        let (name, program) = (&self.name, self.command.first());
        let program = program.map_or("", String::as_str);
        if matches!(
            program.rsplit('/').next(),
            Some("sh" | "bash" | "dash" | "zsh")
        ) {
            return None;
        }
        let program = program.escape_debug();
        let install = match self.known.map(|known| known.install.as_str()) {
            None | Some("") => "install it on this machine, or by `setup` in holm.toml".to_owned(),
            Some(install) => format!("`{install}`, on this machine or by `setup` in holm.toml"),
        };
        Some(format!(
            "the program `{program}` of the agent `{name}` is not found inside: {install}; \
             `command` of [agents.{name}] names another one"
        ))
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
        None
    }

    /// The files of the user's that are inside while it runs, and must go with it.
    pub fn borrowed_files(&self, home: &Path) -> Vec<PathBuf> {
        let known = self.known.filter(|_| self.is_direct);
        let sign_ins = known.map_or(&[][..], |known| &known.sign_ins);
        let direct = sign_ins.iter().map(|listed| home.join(&listed.file));
        self.files.iter().cloned().chain(direct).collect()
    }

    /// Whether the user's own settings name what it gets.
    pub fn is_configured(&self) -> bool {
        self.is_withheld || !self.env.is_empty() || !self.files.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    /// Two agents of the table.
    fn known() -> &'static KnownAgents {
        static KNOWN: LazyLock<KnownAgents> = LazyLock::new(|| {
            let words = |text: &str| text.split(' ').map(str::to_owned).collect();
            let agent = |run: &str, session: &str, install: &str| KnownAgent {
                run: words(run),
                session: words(session),
                install: install.to_owned(),
                ..KnownAgent::default()
            };
            let claude = agent("claude -p", "claude --go", "npm install -g claude-code");
            KnownAgents {
                services: BTreeMap::new(),
                agents: [
                    ("claude".to_owned(), claude),
                    ("shell".to_owned(), agent("sh", "bash", "")),
                ]
                .into(),
            }
        });
        &KNOWN
    }

    fn none() -> Agents {
        Agents {
            project: BTreeMap::new(),
            approved: BTreeSet::new(),
            user: BTreeMap::new(),
            default: None,
            known: known(),
        }
    }

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
        let mut agents = none();
        let ours = agents.call(Some("claude")).unwrap();
        assert_eq!(ours.command, ["claude", "-p"]);
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
        assert_eq!(called.in_terminal, ["claude", "--go"]);
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
        let mut agents = none();
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
            ..none()
        };
        let fault = agents.call(Some("bare")).unwrap_err();
        assert!(fault.message().contains("claude, own, shell"), "{fault}");
        assert!(fault.message().contains("own"), "{fault}");
        assert!(fault.hint.contains("[agents.bare]"), "{}", fault.hint);
        let claude = agents.call(Some("claude")).unwrap();
        let how = claude.how_to_add().unwrap();
        assert!(how.contains("npm install -g claude-code"), "{how}");
        let own = agents.call(Some("own")).unwrap().how_to_add().unwrap();
        assert!(!own.contains("npm"), "{own}");
    }

    #[test]
    fn runs_and_sessions_have_arguments_of_their_own() {
        let mut agents = none();
        let mine = UserAgent {
            command: Some(vec!["/opt/bin/claude".to_owned()]),
            run_args: vec!["--max".to_owned()],
            session_args: vec!["--model".to_owned(), "x".to_owned()],
            ..UserAgent::default()
        };
        agents.user.insert(name("claude"), mine.clone());
        let called = agents.call(Some("claude")).unwrap();
        assert_eq!(called.command, ["/opt/bin/claude", "-p", "--max"]);
        assert_eq!(
            called.in_terminal,
            ["/opt/bin/claude", "--go", "--model", "x"]
        );
        assert!(called.known.is_some());
        // Another program under a known name gets nothing of that agent.
        let other = UserAgent {
            command: Some(vec!["other".to_owned()]),
            ..mine
        };
        agents.user.insert(name("claude"), other);
        let called = agents.call(Some("claude")).unwrap();
        assert_eq!(called.in_terminal, ["other", "--model", "x"]);
        assert!(called.known.is_none());
    }

    #[test]
    fn a_command_of_the_repository_is_marked() {
        let mut agents = none();
        agents.project = project(&[("claude", &["claude", "-p", "--theirs"])]);
        assert!(agents.call(Some("claude")).unwrap().is_theirs);
        agents.approved.insert(name("claude"));
        assert!(!agents.call(Some("claude")).unwrap().is_theirs);
    }
}
