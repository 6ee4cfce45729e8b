//! `/workspaces/{id}/runs` and `/runs`: creates, lists and cancels runs of agents and commands.

pub mod output;

use super::App;
use super::agents::AgentGrant;
use super::caller::Caller;
use super::failure::{Answer, Body, Failure, Parameters, RunKey, WorkspaceKey, bad_request};
use super::keyed::IdempotencyKey;
use super::view::time;
use super::work::escaped;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holm_api::run::{
    CreateRun, MOST_FILE_BYTES, MOST_FILES, MOST_MESSAGE, Run, RunChange, RunList, RunQuery,
};
use holm_core::agents::TIMEOUT;
use holm_core::run::RunState;
use holm_core::{Cause, Code, Fault, TreePath, WorkspaceId};
use holm_engine::run::{RunFilter, RunRecord};
use holm_engine::{Begun, NewFile, NewRun, Provision, Stopped};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// Arguments and variables together must fit into a message to the keeper.
const MOST_WORDS: usize = 256 << 10;
/// A longer run should be a session.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The length of a message in lists.
const SHORT_MESSAGE: usize = 200;
/// The default page size.
const ORDINARY_PAGE: usize = 100;
const LONGEST_PAGE: usize = 1000;
/// How often a run that lost its comments to another one is created again.
const MOST_TRIES: usize = 10;

operations! {
    [create]
    /// The runs of all workspaces, the newest first.
    get "/runs" "run_list_all" all of (RunQuery) -> RunList;
    /// The runs of a workspace, the newest first.
    get "/workspaces/{id}/runs" "run_list" list of (WorkspaceKey, RunQuery) -> RunList;
    /// A run, with its changes.
    get "/workspaces/{id}/runs/{run}" "run_show" show of (RunKey) -> Run;
    /// Ends every process of a run. A run that has ended stays as it is.
    post "/workspaces/{id}/runs/{run}/cancel" "run_cancel" cancel of (RunKey) -> Run;
}

/// Runs an agent or a command, once. The run has started when this is answered.
#[utoipa::path(
    post,
    path = "/workspaces/{id}/runs",
    operation_id = "run_create",
    params(WorkspaceKey, IdempotencyKey),
    request_body = CreateRun,
    responses(
        (status = 201, body = Run),
        (status = 200, description = "It was begun before, with the same key.", body = Run)
    )
)]
async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
    key: IdempotencyKey,
    Body(create): Body<CreateRun>,
) -> Result<Response, Failure> {
    let new = app.new_run(&id, create, key, &caller).await?;
    // A command does not read its message, and a program inside does not take what is for an agent.
    let (record, begun) = if new.agent.is_some() && !caller.is_guest() {
        app.create_run_with_rounds(&id, new).await?
    } else {
        app.engine.create_run(&id, new).await?
    };
    let status = match begun {
        Begun::Now => StatusCode::CREATED,
        Begun::Before => StatusCode::OK,
    };
    Ok((status, Json(to_api(record))).into_response())
}

async fn list(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(query): Parameters<RunQuery>,
) -> Answer<RunList> {
    // Fails if the workspace does not exist.
    app.engine.spec(&id).await?;
    app.page(Some(id), query).await
}

async fn all(
    State(app): State<Arc<App>>,
    caller: Caller,
    Parameters(query): Parameters<RunQuery>,
) -> Answer<RunList> {
    let own = match caller {
        Caller::Workspace(own) => Some(own),
        _ => None,
    };
    app.page(own, query).await
}

async fn show(State(app): State<Arc<App>>, RunKey(id, run): RunKey) -> Answer<Run> {
    Ok(Json(to_api(app.engine.run(&id, &run).await?)))
}

async fn cancel(State(app): State<Arc<App>>, RunKey(id, run): RunKey) -> Answer<Run> {
    Ok(Json(to_api(app.engine.cancel_run(&id, &run).await?)))
}

// === impl App ===

impl App {
    /// The runs under way that the caller may see.
    pub async fn runs_under_way(&self, caller: &Caller) -> Result<Vec<Run>, Fault> {
        if !self.engine.has_live_runs() {
            return Ok(Vec::new());
        }
        let filter = RunFilter {
            state: Some(RunState::Running),
            limit: LONGEST_PAGE,
            ..RunFilter::default()
        };
        let mut found = self.engine.runs(filter).await?;
        found.retain(|(_, run)| caller.sees(&run.workspace));
        Ok(found.into_iter().map(|(_, run)| short(run)).collect())
    }

    /// Another run that starts at the same moment may get the comments first. Then they are read again.
    async fn create_run_with_rounds(
        &self,
        id: &WorkspaceId,
        new: NewRun,
    ) -> Result<(RunRecord, Begun), Fault> {
        let mut tries = 0;
        loop {
            let mut with_rounds = new.clone();
            self.add_rounds(id, &mut with_rounds).await?;
            let comments = with_rounds.comments.clone();
            let created = self.engine.create_run(id, with_rounds).await;
            let is_busy = created
                .as_ref()
                .is_err_and(|fault| fault.code == Code::Busy);
            tries += 1;
            if !is_busy || tries == MOST_TRIES || !self.are_taken(id, &comments).await? {
                return created;
            }
        }
    }

    async fn are_taken(&self, id: &WorkspaceId, numbers: &[u64]) -> Result<bool, Fault> {
        let comments = self.engine.comments(id).await?;
        let mut wanted = comments
            .iter()
            .filter(|comment| numbers.contains(&comment.number));
        Ok(wanted.any(|comment| comment.details.delivered.is_some()))
    }

    async fn page(&self, workspace: Option<WorkspaceId>, query: RunQuery) -> Answer<RunList> {
        let state = query.state.as_deref();
        let state = state.map(|word| {
            let states = RunState::ALL.map(RunState::as_str).join(", ");
            RunState::parse(word).ok_or_else(|| bad_request(format!("`state` is one of {states}")))
        });
        let after = query.after.as_deref().map(|text| {
            let place = text.parse::<i64>();
            place.map_err(|_| bad_request("`after` is not from `next`"))
        });
        let limit = query.limit.unwrap_or(ORDINARY_PAGE);
        if !(1..=LONGEST_PAGE).contains(&limit) {
            return Err(bad_request(format!("`limit` is not 1 to {LONGEST_PAGE}")));
        }
        let filter = RunFilter {
            workspace,
            state: state.transpose()?,
            prefix: query.prefix,
            before: after.transpose()?,
            limit: limit + 1,
        };
        let mut found = self.engine.runs(filter).await?;
        let is_more = found.len() > limit;
        found.truncate(limit);
        let last = found.last().map(|(place, _)| place.to_string());
        Ok(Json(RunList {
            next: last.filter(|_| is_more),
            runs: found.into_iter().map(|(_, run)| short(run)).collect(),
        }))
    }

    /// Validates the request, and resolves the agent.
    async fn new_run(
        &self,
        id: &WorkspaceId,
        create: CreateRun,
        key: IdempotencyKey,
        caller: &Caller,
    ) -> Result<NewRun, Failure> {
        check(&create)?;
        let digest = digest(&create);
        let spec = self.engine.spec(id).await?;
        self.require_within_policy(id).await?;
        let mut new = NewRun {
            agent: None,
            argv: Vec::new(),
            env: variables(&create)?,
            message: create.message,
            comments: Vec::new(),
            files: Vec::new(),
            provision: Provision::default(),
            asker: caller.asker(),
            timeout: TIMEOUT,
            stopped: if create.no_start {
                Stopped::Refuse
            } else {
                Stopped::Start
            },
            key: key.of(caller),
            digest,
            how_to_add: None,
            notes: Vec::new(),
        };
        for file in create.files {
            new.files.push(NewFile {
                path: tree_path(&file.path)?,
                mode: Some(if file.executable { 0o755 } else { 0o644 }),
                content: file.content.into(),
            });
        }
        match create.command {
            Some(command) => new.argv = command.into_iter().map(Vec::from).collect(),
            None => {
                let called = self.agent(&spec, create.agent.as_deref()).await?;
                self.require_agent_named(&called.name)?;
                let given = if caller.is_guest() {
                    // A program inside could read the credentials.
                    AgentGrant::nothing(&called)
                } else {
                    self.given(&called, &create.agent_env, &spec).await?
                };
                new.how_to_add = called.how_to_add();
                new.argv = called.command.into_iter().map(String::into_bytes).collect();
                new.timeout = called.timeout;
                new.agent = Some(called.name);
                // The caller's own variables come last and win.
                new.env = [given.env, new.env].concat();
                new.provision = given.provision;
                new.notes = given.notes;
            }
        }
        if let Some(limit) = create.timeout_ms {
            new.timeout = Duration::from_millis(limit);
        }
        check_words(&new)?;
        Ok(new)
    }
}

fn check(create: &CreateRun) -> Result<(), Failure> {
    if create.agent.is_some() && create.command.is_some() {
        return Err(bad_request("there is an `agent` and a `command`"));
    }
    if create.command.as_ref().is_some_and(Vec::is_empty) {
        return Err(bad_request("`command` is empty"));
    }
    let message = create.message.as_deref().unwrap_or_default();
    if message.len() > MOST_MESSAGE {
        return Err(too_large("the message", MOST_MESSAGE));
    }
    if create.files.len() > MOST_FILES {
        let what = format!("there are more than {MOST_FILES} context files");
        return Err(Failure(Fault::new(Code::TooLarge, what, FEWER)));
    }
    let sizes = create.files.iter().map(|file| file.content.len());
    if sizes.sum::<usize>() > MOST_FILE_BYTES {
        return Err(too_large("the context files", MOST_FILE_BYTES));
    }
    let limit = create.timeout_ms.map(Duration::from_millis);
    if limit.is_some_and(|limit| limit.is_zero() || limit > LONGEST) {
        return Err(bad_request("`timeout_ms` is not 1 ms to 24 h"));
    }
    Ok(())
}

const FEWER: &str = "`holm exec` and the files of the API take more at a time";

fn too_large(what: &str, most: usize) -> Failure {
    let message = format!("{what} is more than {} KiB", most >> 10);
    Failure(Fault::new(Code::TooLarge, message, FEWER))
}

fn check_words(new: &NewRun) -> Result<(), Failure> {
    let variables = new.env.iter().flat_map(|(name, value)| [name, value]);
    let words = new.argv.iter().chain(variables);
    let (mut length, mut has_zero) = (0, false);
    for word in words {
        length += word.len();
        has_zero |= word.contains(&0);
    }
    if has_zero {
        return Err(bad_request("a word has a zero byte"));
    }
    if length > MOST_WORDS {
        Err(too_large("the command with its variables", MOST_WORDS))
    } else {
        Ok(())
    }
}

type Variable = (Vec<u8>, Vec<u8>);

fn variables(create: &CreateRun) -> Result<Vec<Variable>, Failure> {
    let is_name = |name: &str| !name.is_empty() && !name.contains('=');
    if !create.env.keys().all(|name| is_name(name)) {
        return Err(bad_request("a variable has no name, or one with `=`"));
    }
    let pairs = create.env.iter();
    Ok(pairs
        .map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()))
        .collect())
}

fn tree_path(text: &str) -> Result<TreePath, Failure> {
    let wrong = |cause: Cause| {
        let message = format!("`{}` is not a context file's path", text.escape_debug());
        let hint = "name it below the project's root, as in `docs/task.md`";
        Failure(Fault::new(Code::InvalidPath, message, hint).because(cause))
    };
    match TreePath::parse(text.as_bytes()) {
        Ok(path) if path.is_root() => Err(wrong("it is the root itself".into())),
        Ok(path) => Ok(path),
        Err(error) => Err(wrong(error.into())),
    }
}

/// A digest of the request, without values from the caller's environment.
fn digest(create: &CreateRun) -> String {
    let plain = CreateRun {
        agent_env: Default::default(),
        ..create.clone()
    };
    let json = serde_json::to_vec(&plain).unwrap_or_default();
    let hash = Sha256::digest(json);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// In the form of lists.
fn short(record: RunRecord) -> Run {
    let mut run = to_api(record);
    run.changes = None;
    if let Some(message) = &mut run.message
        && message.chars().count() > SHORT_MESSAGE
    {
        *message = message.chars().take(SHORT_MESSAGE).collect();
        message.push('…');
    }
    run
}

/// In API types.
pub fn to_api(record: RunRecord) -> Run {
    let details = record.details;
    let at = |milliseconds: i64| Timestamp::from_millisecond(milliseconds).map(time).ok();
    let duration = details.started_ms.zip(details.ended_ms);
    let changes = details.changes;
    let listed = changes.as_ref().map(|changes| changes.len() as u64);
    let mut notes = details.notes;
    if details.changes_left_out > 0 {
        notes.push(format!(
            "{} further changes are not listed",
            details.changes_left_out
        ));
    }
    Run {
        id: record.id.to_string(),
        workspace: record.workspace.to_string(),
        agent: details.agent,
        command: details.command,
        message: details.message,
        state: record.state,
        reason: details.reason,
        exit_code: details.exit_code,
        created_at: time(record.created_at),
        started_at: details.started_ms.and_then(at),
        ended_at: details.ended_ms.and_then(at),
        duration_ms: duration.map(|(from, to)| to.saturating_sub(from).max(0).cast_unsigned()),
        timeout_ms: details.timeout_ms,
        changed: listed.map(|listed| listed + details.changes_left_out),
        changes: changes.map(|changes| changes.into_iter().map(change).collect()),
        notes,
    }
}

fn change(change: holm_engine::run::RunChange) -> RunChange {
    RunChange {
        path: escaped(&change.path),
        operation: change.operation,
        from: change.from.as_deref().map(escaped),
        binary: change.binary,
        size: change.size,
        content: change.content,
    }
}
