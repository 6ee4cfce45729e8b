//! Resolves an agent in a workspace, and what of the user's it gets: the variables and files that
//! the user's settings name, or what holm knows that the agent needs ([`sign_in`], [`home`]). Called
//! for runs and sessions.

mod documents;
mod home;
pub mod renewal;
mod sign_in;

use super::App;
use documents::read;
use holm_config::known_agents::table;
use holm_core::agents::known::KnownAgent;
use holm_core::agents::{Agents, Called, Consent};
use holm_core::config::{Agent, Name};
use holm_core::plan::State;
use holm_core::spec::WorkspaceSpec;
use holm_core::trust::Ask;
use holm_core::{Code, Fault, ProjectId};
use holm_engine::{Credential, Existing, HomeFile, Provision, try_blocking};
use holm_keeper::roots;
use home::{Share, bring};
use sign_in::Agent as Meant;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What an agent gets, and notes for the caller.
pub struct AgentGrant {
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub provision: Provision,
    pub notes: Vec<String>,
}

/// An agent that is started: the values that the client sent, and where.
struct Starting<'a> {
    called: &'a Called,
    known: &'static KnownAgent,
    sent: &'a BTreeMap<String, String>,
    spec: &'a WorkspaceSpec,
}

// === impl AgentGrant ===

impl AgentGrant {
    /// For a caller inside, who could read it.
    pub fn nothing(called: &Called) -> Self {
        let has_sign_in = called.known.is_some_and(KnownAgent::has_sign_in);
        let is_some = called.is_configured() || has_sign_in;
        let note = "a run that a workspace asks for itself is given no credentials".to_owned();
        Self {
            env: Vec::new(),
            provision: Provision::default(),
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
            known: table(),
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
    ) -> Result<AgentGrant, Fault> {
        let mut given = AgentGrant {
            env: Vec::new(),
            provision: Provision::default(),
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
        given.provision.credentials = credentials;
        given.notes.extend(notes);
        if let Some(known) = called.known {
            let starting = Starting {
                called,
                known,
                sent,
                spec,
            };
            self.add_known(&starting, &mut given).await?;
        }
        Ok(given)
    }

    /// Adds what holm knows that the agent needs.
    async fn add_known(
        &self,
        starting: &Starting<'_>,
        given: &mut AgentGrant,
    ) -> Result<(), Fault> {
        let share = self.share(starting, given).await?;
        let Starting {
            called,
            known,
            sent,
            spec,
        } = *starting;
        let (keeping, spec) = (Arc::clone(&self.secrets), spec.clone());
        let (sent, name) = (sent.clone(), called.name.clone());
        let (configured, is_direct) = (called.files.clone(), called.is_direct);
        let (settings, own_home) = (self.paths.config_file.clone(), self.home());
        let (found, mut brought, as_is) = try_blocking(move || {
            let network = holm_config::user::load(&settings, &own_home)?.network;
            let authorities = network.authorities()?;
            let agent = Meant {
                name: &name,
                known,
                spec: &spec,
                keeping: &keeping,
            };
            let mut found = match share {
                Share::Users if is_direct => agent.find_as_is(&sent),
                Share::Users => agent.find(&sent)?,
                Share::Answers => sign_in::Found::default(),
            };
            let secret: Vec<_> = found.documents.keys().map(PathBuf::from).collect();
            let mut brought = bring(known, &spec, &mut found, share);
            if !found.sign_ins.is_empty() {
                let certificates = keeping.ca_certificate()? + &authorities;
                brought.files.extend(ca_files(&certificates));
                found.env.extend(ca_variables(&spec.home));
            }
            // A file that the user's settings name comes as it is.
            let is_named = |file: &HomeFile| configured.contains(&spec.home.join(&file.path));
            brought.files.retain(|file| !is_named(file));
            // Values as they are go when the agent ends; tokens may stay.
            let is_as_is = |file: &mut HomeFile| is_direct && secret.contains(&file.path);
            let as_is = brought.files.extract_if(.., is_as_is);
            let as_is = as_is.map(|file| Credential {
                place: spec.home.join(file.path),
                content: file.content,
                existing: Existing::Replace,
            });
            let as_is: Vec<Credential> = as_is.collect();
            Ok((found, brought, as_is))
        })
        .await?;
        let fixed = known.variables.iter();
        let fixed = fixed.map(|(name, value)| (name.clone().into(), value.clone().into()));
        // Values that the settings name come later and win.
        given.env = fixed.chain(found.env).chain(given.env.drain(..)).collect();
        given.provision.files.append(&mut brought.files);
        given.provision.credentials.extend(as_is);
        given.provision.instructions = brought.instructions;
        if known.has_sign_in() {
            // None at all withdraws what an earlier run had.
            given.provision.sign_ins = Some((called.name.clone(), found.sign_ins));
        }
        given.notes.extend(found.notes);
        given.notes.extend(brought.notes);
        Ok(())
    }

    /// Whether the agent gets the user's sign-in and instructions. A fault if the user has not decided yet.
    async fn share(&self, starting: &Starting<'_>, given: &mut AgentGrant) -> Result<Share, Fault> {
        let Starting {
            called,
            known,
            sent,
            spec,
        } = *starting;
        if called.is_configured() || !known.has_sign_in() {
            return Ok(Share::Answers);
        }
        let (name, title) = (&called.name, &known.title);
        let (home, keys) = (spec.home.clone(), sent.clone());
        let is_there = try_blocking(move || Ok(sign_in::exists(known, &home, &keys))).await?;
        if !is_there {
            given.notes.push(format!(
                "{title} is not signed in on this machine: sign in by `{}` here, then start it again",
                known.session[0]
            ));
            return Ok(Share::Answers);
        }
        if called.is_theirs {
            given.notes.push(format!(
                "`{name}` is given no sign-in: its command is the repository's; `command` of \
                 [agents.{name}] in config.toml makes it yours"
            ));
            return Ok(Share::Answers);
        }
        match called.sign_in {
            Some(Consent::Always) => return Ok(Share::Users),
            Some(Consent::Never) => return Ok(Share::Answers),
            None => {}
        }
        let project = ProjectId::parse(&spec.project_id).map_err(|error| {
            let message = "a stored workspace is damaged";
            Fault::new(Code::CorruptState, message, "holm doctor").because(error)
        })?;
        if self.engine.is_approved(&project, allowed(name)).await? {
            return Ok(Share::Users);
        }
        if self.engine.is_approved(&project, refused(name)).await? {
            given.notes.push(format!(
                "`{name}` is given no sign-in, as you decided; `holm trust --agent {name} --yes` changes that"
            ));
            return Ok(Share::Answers);
        }
        Err(Fault::new(
            Code::SignInNotApproved,
            format!("{title}'s sign-in may not be used in workspaces of this project yet"),
            format!(
                "`holm trust --agent {name} --yes` allows it; `sign_in = \"never\"` below \
                 [agents.{name}] in config.toml goes on without it"
            ),
        ))
    }

    /// Stores the user's decision about a known agent's sign-in in a project.
    pub async fn decide_sign_in(
        &self,
        project: &ProjectId,
        name: &str,
        is_allowed: bool,
    ) -> Result<(), Fault> {
        let known = table().agents.get(name).filter(|known| known.has_sign_in());
        let Some(known) = known else {
            let message = format!(
                "holm knows no sign-in of an agent `{}`",
                name.escape_debug()
            );
            let hint = "`[agents.X] env` and `files` of config.toml name what another agent gets";
            return Err(Fault::new(Code::AgentNotFound, message, hint));
        };
        let (now, before) = if is_allowed {
            (allowed(name), refused(name))
        } else {
            (refused(name), allowed(name))
        };
        let ask = Ask {
            key: format!("agents.{name}"),
            words: format!(
                "use {}'s sign-in in workspaces of this project",
                known.title
            ),
            canonical: now.clone(),
        };
        self.engine.revoke(project, before).await?;
        self.engine.approve(project, now, vec![ask]).await?;
        if is_allowed {
            return Ok(());
        }
        self.withdraw_sign_in(project, name).await
    }

    /// The gateways of the project's running workspaces no longer use the sign-in, also for runs and sessions that have its tokens.
    async fn withdraw_sign_in(&self, project: &ProjectId, name: &str) -> Result<(), Fault> {
        let mut untold = Vec::new();
        for view in self.engine.list().await? {
            if view.record.project_id != *project || view.state != State::Running {
                continue;
            }
            let sent = async {
                let keeper = self.engine.keeper(&view.record.id).await?;
                keeper.set_sign_ins(name.to_owned(), Vec::new(), None).await
            };
            if let Err(fault) = sent.await {
                tracing::warn!(id = %view.record.id, %fault, "a sign-in was not withdrawn");
                untold.push(view.record.label.to_string());
            }
        }
        if untold.is_empty() {
            return Ok(());
        }
        let untold = untold.join(" ");
        Err(Fault::new(
            Code::StartFailed,
            format!("the decision is stored, but the sign-in can still be used in {untold}"),
            format!("`holm stop {untold}` ends that"),
        ))
    }
}

/// The digests of the two decisions. An approval of `holm.toml` has hexadecimal digits.
fn allowed(agent: &str) -> String {
    format!("agent:{agent}")
}

fn refused(agent: &str) -> String {
    format!("no-agent:{agent}")
}

/// Where the CA of the gateway is, below the home inside.
const CA: &str = ".cache/holm/ca.pem";
const CA_BUNDLE: &str = ".cache/holm/ca-bundle.pem";

/// Only the agent's own processes trust the gateway's CA, by variables. These replace the workspace's, so the
/// files have the CA of the user's settings, too.
fn ca_variables(home: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let place = |name: &str| home.join(name).into_os_string().into_encoded_bytes();
    let bundle = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
    let bundle = bundle.map(|name| (name.into(), place(CA_BUNDLE)));
    let extra = ["NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE"];
    let extra = extra.map(|name| (name.into(), place(CA)));
    bundle.into_iter().chain(extra).collect()
}

fn ca_files(certificate: &str) -> [HomeFile; 2] {
    let mut bundle = roots::bundle();
    bundle.push(b'\n');
    bundle.extend(certificate.as_bytes());
    [(CA, certificate.as_bytes().to_vec()), (CA_BUNDLE, bundle)].map(|(path, content)| HomeFile {
        path: PathBuf::from(path),
        content,
        mode: 0o600,
        existing: Existing::Replace,
    })
}

/// A file of the user, for the same path inside.
fn credential(path: &Path, home: &Path) -> Result<Credential, String> {
    if !path.starts_with(home) {
        return Err(format!("it is not below {}", home.display()));
    }
    Ok(Credential {
        place: path.to_owned(),
        content: read(path)?,
        existing: Existing::Keep,
    })
}
