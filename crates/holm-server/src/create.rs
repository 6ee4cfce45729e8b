//! `POST /projects/{id}/workspaces`: creates a workspace that a client has prepared, and streams
//! progress line by line.
//!
//! The response body owns the creation. When the client disconnects the body is dropped, which
//! cancels and undoes the creation.

use super::caller::Caller;
use super::compose::Composed;
use super::errands::Errand;
use super::failure::{Body, Failure, ProjectKey, bad_request, workspace_id};
use super::jsonl::{Pace, line, response};
use super::keyed::IdempotencyKey;
use super::metrics::CreationEnd;
use super::secrets::Values;
use super::service_images::NeededImages;
use super::uploads::Received;
use super::workspaces::label;
use super::{App, failure};
use axum::Extension;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use holm_api::workspace::{CreateEvent, CreateWorkspace, Workspace};
use holm_core::{Fault, ProjectId, RequestId, WorkspaceId};
use holm_engine::progress::ProgressEvent;
use holm_engine::{
    Admission, Created, FailedSetup, NewWorkspace, Once, Progress, Reuse, Turn, View,
};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};

/// Resolves to the last line of the response.
type Creation = Pin<Box<dyn Future<Output = Result<Bytes, Fault>> + Send>>;

/// The context of a creation.
#[derive(Clone)]
enum Right {
    /// A request without a key.
    Plain,
    /// A request with a key, which stores the response.
    Key(Turn),
    /// Part of another request, which sends the response itself.
    Errand(Arc<Errand>),
}

/// The workspace that a client wants.
struct Wish {
    project: ProjectId,
    create: CreateWorkspace,
    owner: String,
}

/// The request for a workspace.
struct CreationRequest {
    right: Right,
    asked: Instant,
    request: RequestId,
}

/// What is inputs until the workspace exists.
struct Inputs {
    images: NeededImages,
    received: Vec<Received>,
    notes: Vec<String>,
    values: Option<Values>,
}

/// The state of the response stream.
struct CreationStream {
    creation: Option<Creation>,
    begun: Option<oneshot::Receiver<WorkspaceId>>,
    progress: mpsc::UnboundedReceiver<ProgressEvent>,
    pace: Pace,
}

operations! {
    /// Makes a workspace of what the client has sent and starts it. A client that disconnects before
    /// the end cancels it.
    post "/projects/{id}/workspaces" "project_workspace" create
        of (ProjectKey, IdempotencyKey) sends CreateWorkspace streams CreateEvent until "workspace";
}

async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    ProjectKey(project): ProjectKey,
    Extension(request): Extension<RequestId>,
    key: IdempotencyKey,
    Body(create): Body<CreateWorkspace>,
) -> Result<Response, Failure> {
    let asked = Instant::now();
    let route = format!("projects {project} workspaces");
    let right = match app.once(key, &caller, &route, &create).await? {
        None => match &create.errand {
            Some(errand) => Right::Errand(app.errands.find(errand)?),
            None => Right::Plain,
        },
        Some(Once::New(turn)) => Right::Key(turn),
        Some(Once::Answered(answer)) => return Ok(response(HttpBody::from(answer))),
        Some(Once::Begun { subject, turn }) => {
            let (id, right) = (workspace_id(&subject)?, Right::Key(turn));
            if let Some(found) = app.engine.born(&id).await? {
                let workspace =
                    created_workspace(&app, Created::New(found), Vec::new(), asked).await;
                let last = right.finished(&app, workspace).await;
                return Ok(response(HttpBody::from(last)));
            }
            right
        }
    };
    let owner = match &right {
        Right::Errand(errand) => errand.owner.clone(),
        Right::Plain | Right::Key(_) => caller.owner(),
    };
    let wish = Wish {
        project,
        create,
        owner,
    };
    let creation = CreationRequest {
        right: right.clone(),
        asked,
        request,
    };
    let begun = begin(Arc::clone(&app), wish, creation).await;
    if begun.is_err() {
        right.failed(&app).await?;
    }
    begun
}

/// Prepares the creation that the response body continues.
async fn begin(app: Arc<App>, wish: Wish, creation: CreationRequest) -> Result<Response, Failure> {
    let Wish {
        project: id,
        create,
        owner,
    } = wish;
    let project = app.engine.project(&id).await?;
    let label = create.label.as_deref().map(label).transpose()?;
    let reuse = if create.reuse {
        Reuse::Return
    } else {
        Reuse::Refuse
    };
    if let (Some(label), Reuse::Return) = (&label, reuse)
        && let typed = create.driver.as_deref()
        && let Some(found) = app.engine.adopt(&id, label, typed).await?
    {
        let given = handed_over(&app, &create)?.map(|values| (values, owner));
        app.audit_creation(&creation.request, &Ok(Created::Existing(found.clone())));
        let workspace = existing(&app, found, given, creation.asked).await?;
        let last = creation.right.finished(&app, workspace).await;
        return Ok(response(HttpBody::from(last)));
    }
    let Composed {
        spec,
        images,
        received,
        notes,
    } = app.compose(&create, &project).await?;
    let values = handed_over(&app, &create)?;
    let admission = match create.force {
        true => Admission::Force,
        false => Admission::Check,
    };
    let failed_setup = if create.keep {
        FailedSetup::Keep
    } else {
        FailedSetup::Undo
    };
    let new = NewWorkspace {
        project_id: id,
        label,
        reuse,
        owner,
        admission,
        failed_setup,
        spec,
        turn: creation.right.turn(),
    };
    let inputs = Inputs {
        images,
        received,
        notes,
        values,
    };
    Ok(create_streaming(app, new, inputs, creation))
}

/// Runs the creation while the response is read.
fn create_streaming(
    app: Arc<App>,
    mut new: NewWorkspace,
    inputs: Inputs,
    creation: CreationRequest,
) -> Response {
    let Inputs {
        images: NeededImages { held, unpulled },
        received,
        mut notes,
        values,
    } = inputs;
    let CreationRequest {
        right,
        asked,
        request,
    } = creation;
    let (progress, reports) = mpsc::unbounded_channel();
    let (begin, begun) = oneshot::channel();
    let creation = async move {
        let (noted, secrets) = (right.clone(), Arc::clone(&app.secrets));
        let begin = move |id: &WorkspaceId| {
            if let Some(values) = values {
                secrets.begin(id, values);
            }
            noted.begun(id);
            // The workspace is on record, and with it the images that it uses.
            drop(held);
            // The receiver is gone when the client disconnected.
            let _ = begin.send(id.clone());
        };
        let progress = Progress::to(progress);
        let pulled = match unpulled {
            Some(unpulled) => app.pull_missing(unpulled, &mut new.spec, &progress).await,
            None => Ok(()),
        };
        let made = match pulled {
            Ok(()) => app.engine.create(new, progress, begin).await,
            Err(fault) => Err(fault),
        };
        drop(received);
        app.audit_creation(&request, &made);
        match &made {
            Ok(Created::New(_)) => app
                .metrics
                .count_creation(CreationEnd::Made(asked.elapsed())),
            Ok(Created::Existing(_)) => {}
            Err(_) => app.metrics.count_creation(CreationEnd::Failed),
        }
        if made.is_err() {
            right.failed(&app).await?;
        }
        let made = made?;
        if let Created::New(made) = &made {
            notes.extend(app.layer_notes(&made.record.spec).await);
            if let Ok(driver) = app.engine.driver(&made.record.spec) {
                notes.extend(driver.shortcomings(&made.record.spec).await);
            }
            notes.extend(app.missing_secrets(&made.record.spec).await);
        }
        let mut workspace = created_workspace(&app, made, notes, asked).await;
        // The workspace exists, even if the disk cannot be checked.
        workspace.notes.extend(app.shortage().await.ok().flatten());
        Ok(right.finished(&app, workspace).await)
    };
    let stream_state = CreationStream {
        creation: Some(Box::pin(creation)),
        begun: Some(begun),
        progress: reports,
        pace: Pace::default(),
    };
    let events = stream::unfold(stream_state, |mut stream_state| async move {
        let line = stream_state.next().await?;
        Some((Ok::<_, Infallible>(line), stream_state))
    });
    response(HttpBody::from_stream(events))
}

// === impl App ===

impl App {
    /// The response began before the result was known, so it is recorded here.
    fn audit_creation(&self, request: &RequestId, made: &Result<Created, Fault>) {
        match made {
            Ok(Created::New(view)) => {
                let id = Some(&view.record.id);
                self.audit.ended(request, id, Ok("made".to_owned()));
            }
            Ok(Created::Existing(view)) => {
                let id = Some(&view.record.id);
                self.audit.ended(request, id, Ok("was there".to_owned()));
            }
            Err(fault) => self.audit.ended(request, None, Err(fault.code)),
        }
    }
}

/// Returns an existing workspace, and gives it the secrets that the client just read.
async fn existing(
    app: &App,
    found: View,
    given: Option<(Values, String)>,
    asked: Instant,
) -> Result<Workspace, Failure> {
    let id = found.record.id.clone();
    let mut workspace = created_workspace(app, Created::Existing(found), Vec::new(), asked).await;
    workspace.notes.extend(app.shortage().await?);
    if let Some((values, who)) = given {
        let fault = app.give_again(&id, values, who).await;
        workspace.notes.extend(fault.map(|fault| fault.message()));
    }
    Ok(workspace)
}

/// The secrets that the client handed over before.
fn handed_over(app: &App, create: &CreateWorkspace) -> Result<Option<Values>, Failure> {
    let Some(token) = &create.handover else {
        return Ok(None);
    };
    let unknown = || bad_request("nothing was handed over by this name");
    let values = app.secrets.take_over(token);
    values.ok_or_else(unknown).map(Some)
}

// === impl Right ===

impl Right {
    fn turn(&self) -> Option<Turn> {
        match self {
            Right::Plain => None,
            Right::Key(turn) => Some(turn.clone()),
            Right::Errand(errand) => errand.turn.clone(),
        }
    }

    fn begun(&self, id: &WorkspaceId) {
        if let Right::Errand(errand) = self {
            errand.note(id);
        }
    }

    /// The last line of the response, which a key stores.
    async fn finished(self, app: &App, workspace: Workspace) -> Bytes {
        let line = line(&CreateEvent::Workspace(Box::new(workspace)));
        if let Right::Key(turn) = self {
            let answer = String::from_utf8_lossy(&line).into_owned();
            // The workspace exists; even without a stored response the key finds it.
            if let Err(fault) = app.engine.answered(turn, answer).await {
                tracing::warn!(%fault, "the answer to a request with a key was not inputs");
            }
        }
        line
    }

    /// Nothing was created.
    async fn failed(&self, app: &App) -> Result<(), Fault> {
        match self {
            Right::Key(turn) => app.engine.unanswered(turn.clone()).await,
            Right::Plain | Right::Errand(_) => Ok(()),
        }
    }
}

// === impl CreationStream ===

impl CreationStream {
    async fn next(&mut self) -> Option<Bytes> {
        let creation = self.creation.as_mut()?;
        loop {
            tokio::select! {
                biased;
                Some(Ok(id)) = arrival(&mut self.begun) => {
                    return Some(line(&CreateEvent::Begun { id: id.to_string() }));
                }
                made = &mut *creation => {
                    self.creation = None;
                    return Some(match made {
                        Ok(last) => last,
                        Err(fault) => line(&CreateEvent::Error(failure::error_body(&fault).error)),
                    });
                }
                Some(ProgressEvent { step, done, total }) = self.progress.recv() => {
                    if self.pace.passes(&step, Instant::now()) {
                        return Some(line(&CreateEvent::Progress { step, done, total }));
                    }
                }
            }
        }
    }
}

/// The id, once; then pending forever.
async fn arrival(
    begun: &mut Option<oneshot::Receiver<WorkspaceId>>,
) -> Option<Result<WorkspaceId, oneshot::error::RecvError>> {
    let receiver = begun.as_mut()?;
    let id = receiver.await;
    *begun = None;
    Some(id)
}

pub async fn created_workspace(
    app: &App,
    created: Created,
    notes: Vec<String>,
    asked: Instant,
) -> Workspace {
    let (found, is_new) = match created {
        Created::New(found) => (found, true),
        Created::Existing(found) => (found, false),
    };
    let started = (!is_new).then_some(found.was_stopped);
    let workspace = app.workspace(found).await;
    let elapsed = asked.elapsed().as_millis();
    Workspace {
        created: Some(is_new),
        started,
        ms: Some(u64::try_from(elapsed).unwrap_or(u64::MAX)),
        notes: if is_new { notes } else { Vec::new() },
        ..workspace
    }
}
