//! `POST /projects` and `POST /workspaces` for programs: the caller names a repository of the
//! daemon's user by project, path or URL, and gets one document.
//!
//! The daemon reads no checkout: the client's own program does ([`Helper`]), on an
//! [errand](super::errands). If the caller disconnects, the work goes on, and the same key finds
//! it. Only when the daemon stops it is cancelled and undone.

use super::App;
use super::caller::Caller;
use super::create::created_workspace;
use super::errands::UnderWay;
use super::failure::{Body, Failure, workspace_id};
use super::keyed::IdempotencyKey;
use super::{stopped, view};
use crate::helper::{Earlier, Helper};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holm_api::ErrorBody;
use holm_api::project::{MadeProject, NewProject};
use holm_api::workspace::{MadeWorkspace, NewWorkspace};
use holm_core::clone_url::CloneFrom;
use holm_core::{Code, Fault};
use holm_engine::{Created, Once, Turn, View};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// A document, whose status says whether it was newly created.
struct Made<T>(T);

pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(project))
        .routes(routes!(workspace))
}

/// Makes a repository of the user a project.
///
/// A known one is returned. `not_found` (404) is returned only for places whose content the caller
/// may know; others are refused (409), whether they exist or not.
#[utoipa::path(
    post,
    path = "/projects",
    operation_id = "project_create",
    params(IdempotencyKey),
    request_body = NewProject,
    responses(
        (status = 200, description = "it was known", body = MadeProject),
        (status = 201, description = "it was made known", body = MadeProject),
    )
)]
async fn project(
    State(app): State<Arc<App>>,
    caller: Caller,
    key: IdempotencyKey,
    Body(wish): Body<NewProject>,
) -> Result<Made<MadeProject>, Failure> {
    let from = caller.local().allow()?;
    undisturbed(async move {
        let (turn, earlier) = match app.once(key, &caller, "projects", &wish).await? {
            None => (None, Earlier::None),
            Some(Once::New(turn)) => (Some(turn), Earlier::None),
            Some(Once::Begun { turn, .. }) => (Some(turn), Earlier::Begun),
            Some(Once::Answered(answer)) => return answered(&answer),
        };
        let helper = app.helper(from).await?;
        let work = async {
            note_place(&app, &helper, &wish, turn.as_ref()).await?;
            helper.project(&wish, earlier).await
        };
        to_its_end(&app, turn.clone(), work).await
    })
    .await
}

/// Makes a workspace of a project and starts it, as `holm up` does; answers when its services are
/// ready.
///
/// A caller that disconnects does not cancel it. `trouble` describes a problem of a workspace that
/// was created anyway.
#[utoipa::path(
    post,
    path = "/workspaces",
    operation_id = "workspace_create",
    params(IdempotencyKey),
    request_body = NewWorkspace,
    responses(
        (status = 200, description = "it was there, and runs", body = MadeWorkspace),
        (status = 201, description = "it was made", body = MadeWorkspace),
    )
)]
async fn workspace(
    State(app): State<Arc<App>>,
    caller: Caller,
    key: IdempotencyKey,
    Body(wish): Body<NewWorkspace>,
) -> Result<Made<MadeWorkspace>, Failure> {
    let asked = Instant::now();
    let from = caller.local().allow()?;
    undisturbed(async move {
        let turn = match app.once(key, &caller, "workspaces", &wish).await? {
            None => None,
            Some(Once::New(turn)) => Some(turn),
            Some(Once::Answered(answer)) => return answered(&answer),
            Some(Once::Begun { subject, turn }) => {
                let id = workspace_id(&subject)?;
                if let Some(found) = app.engine.born(&id).await? {
                    let made = app.made(found, None, asked).await;
                    keep(&app, turn, &made).await;
                    return Ok(Made(made));
                }
                Some(turn)
            }
        };
        let errand = app.errands.begin(turn.clone(), caller.owner());
        let helper = app.helper(from).await?;
        let work = async {
            let made = helper.workspace(&wish, Some(errand.id.as_str())).await;
            or_found(&app, made, &errand, asked).await
        };
        to_its_end(&app, turn, work).await
    })
    .await
}

/// Carries a request out even when the caller disconnects.
async fn undisturbed<T: Send + 'static>(
    answering: impl Future<Output = Result<Made<T>, Failure>> + Send + 'static,
) -> Result<Made<T>, Failure> {
    tokio::spawn(answering).await.unwrap_or_else(|error| {
        let message = "what was asked for came to no end";
        let fault = Fault::new(Code::Internal, message, "see the daemon's log").because(error);
        Err(Failure(fault))
    })
}

/// Carries it out, and stores the response for the key. A daemon that stops cancels it; the next
/// one finds out what became of it.
async fn to_its_end<T: Serialize>(
    app: &Arc<App>,
    turn: Option<Turn>,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<Made<T>, Failure> {
    let done = tokio::select! {
        done = work => done,
        () = stopped(Arc::clone(app)) => return Err(Failure(stopping())),
    };
    match (&done, turn) {
        (Ok(made), Some(turn)) => keep(app, turn, made).await,
        (Err(_), Some(turn)) => app.engine.unanswered(turn).await?,
        (_, None) => {}
    }
    Ok(Made(done?))
}

fn stopping() -> Fault {
    Fault::new(
        Code::Cancelled,
        "the daemon was stopped meanwhile",
        "send the request again, with the same key if it had one",
    )
}

/// Stores the response for the key.
async fn keep<T: Serialize>(app: &App, turn: Turn, made: &T) {
    let answer = serde_json::to_string(made).unwrap_or_default();
    // It exists; even without a stored response the key finds it.
    if let Err(fault) = app.engine.answered(turn, answer).await {
        tracing::warn!(%fault, "the answer to a request with a key was not kept");
    }
}

/// Stores with the key where a new repository will be.
async fn note_place(
    app: &App,
    helper: &Helper<'_>,
    wish: &NewProject,
    turn: Option<&Turn>,
) -> Result<(), Fault> {
    if let (Some(turn), Some(place)) = (turn, helper.new_place(wish)?)
        && !Path::new(&place).exists()
    {
        app.engine.begun(turn, &place.display().to_string()).await?;
    }
    Ok(())
}

/// The workspace, even when the program that made it failed afterwards.
async fn or_found(
    app: &App,
    made: Result<MadeWorkspace, Fault>,
    under_way: &UnderWay,
    asked: Instant,
) -> Result<MadeWorkspace, Fault> {
    let fault = match made {
        Ok(made) => return Ok(made),
        Err(fault) => fault,
    };
    // The program was lost after it created the workspace, which exists.
    let Some(id) = under_way.errand.made() else {
        return Err(fault);
    };
    match app.engine.born(&id).await? {
        Some(found) => Ok(app.made(found, Some(&fault), asked).await),
        None => Err(fault),
    }
}

/// A stored response.
fn answered<T: DeserializeOwned>(answer: &str) -> Result<Made<T>, Failure> {
    let read = serde_json::from_str(answer).map_err(|error| {
        let message = "the answer that was kept for the key cannot be read";
        Failure(Fault::new(Code::CorruptState, message, "use a new key").because(error))
    });
    read.map(Made)
}

// === impl Made ===

impl IntoResponse for Made<MadeProject> {
    fn into_response(self) -> Response {
        let status = if self.0.created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        (status, Json(self.0)).into_response()
    }
}

impl IntoResponse for Made<MadeWorkspace> {
    fn into_response(self) -> Response {
        let status = match self.0.workspace.created {
            Some(true) => StatusCode::CREATED,
            _ => StatusCode::OK,
        };
        (status, Json(self.0)).into_response()
    }
}

// === impl App ===

impl App {
    async fn helper(&self, from: CloneFrom) -> Result<Helper<'static>, Fault> {
        let projects = self.engine.projects().await?.into_iter();
        let projects = projects.map(|(project, live)| view::project(project, live));
        // Events report the progress.
        Helper::new(projects.collect(), from, &|_| {}).await
    }

    async fn made(&self, found: View, fault: Option<&Fault>, asked: Instant) -> MadeWorkspace {
        MadeWorkspace {
            workspace: created_workspace(self, Created::New(found), Vec::new(), asked).await,
            trouble: fault.map(|fault| ErrorBody::from(fault).error),
        }
    }
}
