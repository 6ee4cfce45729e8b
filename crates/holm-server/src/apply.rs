//! `/workspaces/{id}/apply` and `/merge`, refs and trust of a project: work in the user's checkout. The client's own program does
//! it there ([`program`]), so that the same checks and refusals hold as in a terminal; the daemon reads no checkout.

use super::App;
use super::caller::Caller;
use super::failure::{
    Answer, Body, Failure, Parameters, ProjectKey, WorkspaceKey, bad_request, project_id,
};
use crate::helper::program;
use axum::Json;
use axum::extract::State;
use holm_api::apply::{Applied, Apply, Effect, Merge, Merged, TakenBack};
use holm_api::project::{Starts, TrustAnswer, TrustQuestions, TrustReport};
use holm_core::turn::TurnNumber;
use holm_core::{ProjectId, WorkspaceId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::Arc;
use utoipa::IntoParams;

/// The parameters of `GET /projects/{id}/refs`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Find {
    /// Only refs whose name contains this text.
    find: Option<String>,
}

/// The parameters of `GET /projects/{id}/trust`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Begin {
    /// The ref whose `holm.toml` counts; default: the checkout's commit.
    from: Option<String>,
    /// The turn of a workspace (`ID@2`) whose start counts, instead of `from`.
    at: Option<String>,
    /// Whether the uncommitted `holm.toml` counts.
    #[serde(default)]
    dirty: bool,
}

operations! {
    /// What an apply would change in the user's checkout, or why it would be refused.
    get "/workspaces/{id}/apply" "apply_effect" effect of (WorkspaceKey) -> Effect;
    /// Puts the files of a workspace into the user's checkout, uncommitted.
    post "/workspaces/{id}/apply" "apply" apply of (WorkspaceKey) sends Apply -> Applied;
    /// Takes the last apply of a workspace back out of the user's checkout.
    delete "/workspaces/{id}/apply" "apply_undo" undo of (WorkspaceKey) -> TakenBack;
    /// Fetches the commits of a workspace and merges them into the branch of the user's checkout.
    post "/workspaces/{id}/merge" "merge" merge of (WorkspaceKey) sends Merge -> Merged;
    /// The newest branches and tags of the user's repository, and the state of its checkout.
    get "/projects/{id}/refs" "project_starts" starts of (ProjectKey, Find) -> Starts;
    /// What a project's checkout requests of the host, approved or not.
    get "/projects/{id}/trust" "project_trust" questions of (ProjectKey, Begin) -> TrustQuestions;
    /// Approves exactly the requests that were shown.
    post "/projects/{id}/trust" "project_trust_answer" answer of (ProjectKey) sends TrustAnswer -> TrustReport;
}

async fn effect(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<Effect> {
    let words = vec!["apply".to_owned(), "--dry-run".to_owned()];
    Ok(Json(app.in_checkout(&caller, &id, words).await?))
}

async fn apply(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
    Body(apply): Body<Apply>,
) -> Answer<Applied> {
    let words = words("apply", apply.yes, apply.approved, None);
    Ok(Json(app.in_checkout(&caller, &id, words).await?))
}

async fn undo(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<TakenBack> {
    let words = vec!["apply".to_owned(), "--undo".to_owned()];
    Ok(Json(app.in_checkout(&caller, &id, words).await?))
}

async fn merge(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
    Body(merge): Body<Merge>,
) -> Answer<Merged> {
    let words = words("merge", merge.yes, merge.approved, merge.commit.as_deref());
    Ok(Json(app.in_checkout(&caller, &id, words).await?))
}

async fn starts(
    State(app): State<Arc<App>>,
    caller: Caller,
    ProjectKey(id): ProjectKey,
    Parameters(Find { find }): Parameters<Find>,
) -> Answer<Starts> {
    let find = format!("--find={}", find.unwrap_or_default());
    let words = vec!["project".to_owned(), "refs".to_owned(), find];
    Ok(Json(app.in_project(&caller, &id, words).await?))
}

async fn questions(
    State(app): State<Arc<App>>,
    caller: Caller,
    ProjectKey(id): ProjectKey,
    Parameters(begin): Parameters<Begin>,
) -> Answer<TrustQuestions> {
    let words = vec!["trust".to_owned(), "--show".to_owned()];
    let from = app.start_of(&id, begin.at.as_deref(), begin.from).await?;
    let words = with_start(words, from.as_deref(), begin.dirty);
    Ok(Json(app.in_project(&caller, &id, words).await?))
}

async fn answer(
    State(app): State<Arc<App>>,
    caller: Caller,
    ProjectKey(id): ProjectKey,
    Body(answer): Body<TrustAnswer>,
) -> Answer<TrustReport> {
    if answer.digests.is_empty() {
        return Err(bad_request("`digests` names the requests that were shown"));
    }
    let digests = answer.digests.iter();
    let mut words = vec!["trust".to_owned()];
    words.extend(digests.map(|digest| format!("--digest={digest}")));
    let from = app.start_of(&id, answer.at.as_deref(), answer.from).await?;
    let words = with_start(words, from.as_deref(), answer.dirty);
    Ok(Json(app.in_project(&caller, &id, words).await?))
}

fn with_start(mut words: Vec<String>, from: Option<&str>, dirty: bool) -> Vec<String> {
    words.extend(from.map(|from| format!("--from={from}")));
    words.extend(dirty.then(|| "--dirty".to_owned()));
    words
}

fn words(verb: &str, yes: bool, approved: bool, commit: Option<&str>) -> Vec<String> {
    let flags = [(yes, "--yes"), (approved, "--approved")];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
    let commit = commit.map(|message| format!("--commit={message}"));
    let verb = std::iter::once(verb.to_owned());
    verb.chain(flags.map(|(_, flag)| flag.to_owned()))
        .chain(commit)
        .collect()
}

// === impl App ===

impl App {
    /// Runs the client's program for a workspace in the checkout of its project.
    async fn in_checkout<T: DeserializeOwned>(
        &self,
        caller: &Caller,
        id: &WorkspaceId,
        words: Vec<String>,
    ) -> Result<T, Failure> {
        let spec = self.engine.spec(id).await?;
        let project = project_id(&spec.project_id)?;
        let end = ["--".to_owned(), id.to_string()];
        let words = words.into_iter().chain(end).collect();
        self.in_project(caller, &project, words).await
    }

    /// The commit that a turn of the project started from, as `holm up --at` uses it; without a turn, `from`.
    async fn start_of(
        &self,
        project: &ProjectId,
        at: Option<&str>,
        from: Option<String>,
    ) -> Result<Option<String>, Failure> {
        let Some(at) = at else {
            return Ok(from);
        };
        let (workspace, number) =
            TurnNumber::split(at).ok_or_else(|| bad_request("`at` is a turn, such as `ID@2`"))?;
        let id = WorkspaceId::parse(workspace).map_err(|_| bad_request("`at` names an id"))?;
        if self.engine.spec(&id).await?.project_id != project.as_str() {
            return Err(bad_request("`at` is a turn of another project"));
        }
        Ok(self.turn(&id, number).await?.details.start)
    }

    /// Runs the client's program in the checkout of a project. If the caller disconnects, the program is interrupted, and
    /// completes its work or undoes it.
    async fn in_project<T: DeserializeOwned>(
        &self,
        caller: &Caller,
        id: &ProjectId,
        words: Vec<String>,
    ) -> Result<T, Failure> {
        caller.local().allow()?;
        let project = self.engine.project(id).await?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(program::holm(Path::new(&project.path), &words, None).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_a_caller_is_an_option() {
        let made = words("merge", true, true, Some("--undo"));
        assert_eq!(made, ["merge", "--yes", "--approved", "--commit=--undo"]);
        assert_eq!(words("apply", false, false, None), ["apply"]);
    }
}
