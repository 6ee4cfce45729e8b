//! Resolves an agent in a workspace, and which of the user's variables and files it gets. Called
//! for runs and sessions.

use super::App;
use holm_core::agents::{Agents, Called};
use holm_core::config::{Agent, Name};
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault};
use holm_engine::{Credential, MOST_CREDENTIAL, try_blocking};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// What an agent gets, and notes for the caller.
pub struct Given {
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub credentials: Vec<Credential>,
    pub notes: Vec<String>,
}

// === impl Given ===

impl Given {
    /// For a caller inside, who could read it.
    pub fn nothing(called: &Called) -> Self {
        let is_some = !called.env.is_empty() || !called.files.is_empty();
        let note = "a run that a workspace asks for itself is given no credentials".to_owned();
        Self {
            env: Vec::new(),
            credentials: Vec::new(),
            notes: is_some.then_some(note).into_iter().collect(),
        }
    }
}

// === impl App ===

impl App {
    /// The agent of this name in a workspace, or the default one.
    pub async fn agent(&self, spec: &WorkspaceSpec, asked: Option<&str>) -> Result<Called, Fault> {
        let (file, home) = (self.paths.config_file.clone(), self.home());
        let user = try_blocking(move || holm_config::user::load(&file, &home)).await?;
        let (mut project, mut approved) = (BTreeMap::new(), Vec::new());
        for agent in &spec.agents {
            let name = Name::parse(&agent.name).map_err(|error| {
                let message = "a stored workspace is damaged";
                Fault::new(Code::CorruptState, message, "holm doctor").because(error)
            })?;
            if agent.approved {
                approved.push(name.clone());
            }
            let written = Agent {
                command: agent.command.clone(),
                timeout: agent.timeout_ms.map(Duration::from_millis),
            };
            project.insert(name, written);
        }
        let agents = Agents {
            project,
            approved: approved.into_iter().collect(),
            user: user.agents,
            default: user.default_agent,
        };
        agents.call(asked)
    }

    /// The values and files that the user's settings give to an agent. Values come from the client,
    /// else from this daemon's environment.
    pub async fn given(
        &self,
        called: &Called,
        sent: &BTreeMap<String, String>,
        spec: &WorkspaceSpec,
    ) -> Result<Given, Fault> {
        let mut given = Given {
            env: Vec::new(),
            credentials: Vec::new(),
            notes: called.without_credentials().into_iter().collect(),
        };
        for name in &called.env {
            let name = name.as_str();
            let own = || std::env::var(name).ok();
            match sent.get(name).cloned().or_else(own) {
                Some(value) => given.env.push((name.into(), value.into())),
                None => given.notes.push(format!(
                    "`{name}` of [agents.{}] env has no value",
                    called.name
                )),
            }
        }
        let (files, home) = (called.files.clone(), spec.home.clone());
        let (credentials, notes) = try_blocking(move || {
            let (mut credentials, mut notes) = (Vec::new(), Vec::new());
            for path in files {
                match credential(&path, &home) {
                    Ok(credential) => credentials.push(credential),
                    Err(why) => notes.push(format!("{} is not given: {why}", path.display())),
                }
            }
            Ok((credentials, notes))
        })
        .await?;
        given.credentials = credentials;
        given.notes.extend(notes);
        Ok(given)
    }
}

/// A file of the user, for the same path inside.
fn credential(path: &Path, home: &Path) -> Result<Credential, String> {
    if !path.starts_with(home) {
        return Err(format!("it is not below {}", home.display()));
    }
    let mut options = std::fs::OpenOptions::new();
    // A pipe in its place must not block.
    let options = options
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.len() > MOST_CREDENTIAL {
        return Err(format!(
            "it is not a file of at most {MOST_CREDENTIAL} bytes"
        ));
    }
    let mut content = Vec::new();
    file.take(MOST_CREDENTIAL)
        .read_to_end(&mut content)
        .map_err(|error| error.to_string())?;
    Ok(Credential {
        place: path.to_owned(),
        content,
    })
}
