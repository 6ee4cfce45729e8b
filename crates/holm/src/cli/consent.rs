//! The question about a known agent's sign-in, asked once for each project: at the first `run` or
//! `session new` with that agent, or by `holm trust --agent`.

use super::Context;
use super::output::{self, GOOD};
use super::trust_question::may_ask;
use holm_api::client::Client;
use holm_api::project::{SignInDecision, TrustApprove};
use holm_config::daemon_user::DaemonUser;
use holm_config::known_agents::table;
use holm_core::compose::ComposeFiles;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::try_blocking;
use std::path::Path;
use toml_edit::{DocumentMut, Item, Table, value};

/// The user's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Yes,
    No,
    /// For all projects.
    Always,
}

/// The start that the daemon refused.
pub struct Refused<'a> {
    pub workspace: &'a WorkspaceId,
    /// `None`: the default agent.
    pub agent: Option<&'a str>,
    pub fault: Fault,
}

/// A sign-in in a project.
pub struct Use<'a> {
    pub project: &'a str,
    pub agent: &'a str,
}

/// After the daemon refused to start an agent: asks, and stores the answer. Without a terminal the
/// daemon's fault stays.
pub async fn ask(context: &Context, client: &Client, refused: Refused<'_>) -> Result<(), Fault> {
    let fault = refused.fault;
    if !may_ask(context) {
        return Err(fault);
    }
    let agent = match refused.agent {
        Some(agent) => agent.to_owned(),
        None => {
            let default = DaemonUser::current()?.settings()?.default_agent;
            default.ok_or(fault)?.to_string()
        }
    };
    let project = &client.workspace(refused.workspace).await?.project_id;
    let agent = &agent;
    decide(context, client, Use { project, agent }, None).await
}

/// Stores a decision; `None`: asks for it.
pub async fn decide(
    context: &Context,
    client: &Client,
    Use { project, agent }: Use<'_>,
    wish: Option<Decision>,
) -> Result<(), Fault> {
    let known = table().agents.get(agent);
    let title = known.map_or(agent, |known| known.title.as_str()).to_owned();
    let decision = match wish {
        Some(decision) => decision,
        None if may_ask(context) => {
            let question = format!("Let {title}'s sign-in be used in workspaces of this project?");
            try_blocking(move || Ok(answer(&output::ask_for(&question, "[Y/n/always]")))).await?
        }
        None => {
            return Err(Fault::new(
                Code::SignInNotApproved,
                format!("{title}'s sign-in may not be used in workspaces of this project yet"),
                format!("`holm trust --agent {agent} --yes` allows it"),
            ));
        }
    };
    if decision == Decision::Always {
        let path = DaemonUser::current()?.paths()?.config_file;
        return remember(&path, agent);
    }
    let approval = TrustApprove {
        compose: ComposeFiles::default(),
        project_id: project.to_owned(),
        digest: String::new(),
        config: None,
        worktree_include: Vec::new(),
        settings: Vec::new(),
        sign_in: Some(SignInDecision {
            agent: agent.to_owned(),
            allowed: decision == Decision::Yes,
        }),
    };
    client.approve_trust(&approval).await?;
    context.output.remark(&match decision {
        Decision::No => format!("{title} gets no sign-in in workspaces of this project"),
        _ => format!("{GOOD}✓{GOOD:#} {title}'s sign-in may be used in workspaces of this project"),
    });
    Ok(())
}

/// An empty line is a yes; anything that is not clear is a no.
fn answer(typed: &Option<String>) -> Decision {
    match typed
        .as_deref()
        .map(str::trim)
        .map(str::to_lowercase)
        .as_deref()
    {
        Some("" | "y" | "yes") => Decision::Yes,
        Some("a" | "always") => Decision::Always,
        _ => Decision::No,
    }
}

/// Writes `sign_in = "always"` into the settings, and leaves everything else as it is.
fn remember(path: &Path, agent: &str) -> Result<(), Fault> {
    let failed = |what: &str| {
        let message = format!("cannot write {}: {what}", path.display());
        let hint = format!("write `sign_in = \"always\"` below `[agents.{agent}]` there");
        Fault::new(Code::InvalidConfig, message, hint)
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(&error.to_string())),
    };
    let text = with_always(&text, agent).ok_or_else(|| failed("it is not valid"))?;
    let write = || {
        let fresh = path.with_extension("toml.new");
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&fresh, text)?;
        std::fs::rename(&fresh, path)
    };
    write().map_err(|error| failed(&error.to_string()))
}

fn with_always(text: &str, agent: &str) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let agents = document.entry("agents").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let agents = agents.as_table_like_mut()?;
    let one = agents
        .entry(agent)
        .or_insert_with(|| Item::Table(Table::new()));
    one.as_table_like_mut()?.insert("sign_in", value("always"));
    Some(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_clear_or_a_no() {
        let check = |typed: Option<&str>, expected| {
            assert_eq!(answer(&typed.map(str::to_owned)), expected, "{typed:?}");
        };
        check(Some("\n"), Decision::Yes);
        check(Some("Y\n"), Decision::Yes);
        check(Some("always\n"), Decision::Always);
        check(Some("n\n"), Decision::No);
        check(Some("what?\n"), Decision::No);
        check(None, Decision::No);
    }

    #[test]
    fn always_is_written_beside_what_is_there() {
        let plain = with_always("", "claude").unwrap();
        assert_eq!(plain, "[agents.claude]\nsign_in = \"always\"\n");
        let mine = "# mine\ntrash_days = 3\n\n[agents.claude]\ntimeout = \"7m\" # long\n";
        let text = with_always(mine, "claude").unwrap();
        assert_eq!(text, format!("{mine}sign_in = \"always\"\n"));
        assert_eq!(with_always("[agents", "claude"), None);
    }
}
