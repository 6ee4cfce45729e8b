//! `/workspaces/{id}/sessions` and below: long-lived terminals. The keeper owns them; this module
//! parses requests and converts its answers to API types.

pub mod attach;
mod watch;

pub use watch::Watchers;

use super::App;
use super::agents::AgentGrant;
use super::caller::Caller;
use super::failure::{Answer, Body, Failure, Parameters, SessionKey, WorkspaceKey, bad_request};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holm_api::exec::{raw, raw_pairs};
use holm_api::session::{LONGEST_WAIT_MS, NewSession, SendInput, Sent, SessionList, Wait};
use holm_core::session::protocol::{
    self, ReadText, Session, SessionRequest, SessionResponse, SessionState, Waited,
};
use holm_core::session::{SessionName, Size, not_found};
use holm_core::{Code, Fault, SessionId, WorkspaceId, shell};
use holm_engine::{Provision, Stopped};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// The longest pattern, and the most input of one request.
const LONGEST_PATTERN: usize = 4096;
const MOST_TYPED: usize = 256 * 1024;
const MOST_KEYS: usize = 256;

/// Init's message for a missing program.
const NOT_FOUND: &str = "command not found";

/// A session to start.
struct Wanted {
    session: protocol::NewSession,
    provision: Provision,
    notes: Vec<String>,
    how_to_add: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Read {
    /// A cursor; default: the screen.
    since: Option<u64>,
    /// Add the screen with its colours.
    #[serde(default)]
    colours: bool,
}

operations! {
    [create]
    /// The sessions of all workspaces.
    get "/sessions" "session_list_all" list_all -> SessionList;
    /// The sessions of a workspace, the oldest first; ended ones stay listed for a while.
    get "/workspaces/{id}/sessions" "session_list" list of (WorkspaceKey) -> SessionList;
    /// The state of a session.
    get "/workspaces/{id}/sessions/{session}" "session_show" show of (SessionKey) -> Session;
    /// Ends a session and its descendants; answers when they have ended.
    delete "/workspaces/{id}/sessions/{session}" "session_kill" kill of (SessionKey) -> SessionList;
    /// Types input at once.
    post "/workspaces/{id}/sessions/{session}/send" "session_send" send
        of (SessionKey) sends SendInput -> Sent;
    /// The screen, or the output since a cursor, as text.
    get "/workspaces/{id}/sessions/{session}/read" "session_read" read
        of (SessionKey, Read) -> ReadText;
    /// Waits until a session is quiet, has printed something, or has ended.
    post "/workspaces/{id}/sessions/{session}/wait" "session_wait" wait
        of (SessionKey) sends Wait -> Waited;
}

async fn list_all(State(app): State<Arc<App>>) -> Answer<SessionList> {
    let all = app.engine.all_sessions().await?;
    let sessions = all
        .into_iter()
        .flat_map(|(id, sessions)| listed(&id, sessions).sessions);
    Ok(Json(SessionList {
        sessions: sessions.collect(),
    }))
}

async fn list(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<SessionList> {
    let sessions = app.engine.sessions(&id).await?;
    Ok(Json(listed(&id, sessions)))
}

/// Starts a program in its own terminal.
#[utoipa::path(
    post,
    path = "/workspaces/{id}/sessions",
    operation_id = "session_create",
    params(WorkspaceKey),
    request_body = NewSession,
    responses((status = 201, body = Session))
)]
async fn create(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    caller: Caller,
    Body(new): Body<NewSession>,
) -> Result<(StatusCode, Json<Session>), Failure> {
    let stopped = if new.no_start {
        Stopped::Refuse
    } else {
        Stopped::Start
    };
    let wanted = app.new_session(&id, new, &caller).await?;
    let started = app
        .engine
        .start_session(&id, wanted.session, wanted.provision, stopped);
    let (session, notes) = started.await.map_err(|fault| match wanted.how_to_add {
        // Its program is missing.
        Some(hint) if fault.message().contains(NOT_FOUND) => fault.with_hint(hint),
        _ => fault,
    })?;
    watch::begin(&app, &id);
    let session = Session {
        notes: [wanted.notes, notes].concat(),
        ..of_workspace(&id, session)
    };
    Ok((StatusCode::CREATED, Json(session)))
}

async fn show(State(app): State<Arc<App>>, SessionKey(id, session): SessionKey) -> Answer<Session> {
    let sessions = app.engine.sessions(&id).await?.into_iter();
    let mut found = sessions.filter(|status| status.id == session.as_str());
    let found = found.next().ok_or_else(|| not_found(session.as_str()))?;
    Ok(Json(of_workspace(&id, found)))
}

async fn kill(
    State(app): State<Arc<App>>,
    SessionKey(id, session): SessionKey,
) -> Answer<SessionList> {
    let session = session.to_string();
    match app
        .session_request(&id, SessionRequest::Kill { session })
        .await?
    {
        SessionResponse::Sessions(sessions) => Ok(Json(listed(&id, sessions))),
        _ => Err(nonsense()),
    }
}

async fn send(
    State(app): State<Arc<App>>,
    SessionKey(id, session): SessionKey,
    Body(input): Body<SendInput>,
) -> Answer<Sent> {
    let text = input.text.map(Vec::from).unwrap_or_default();
    let mut keys = input.keys;
    if text.len() > MOST_TYPED || keys.len() > MOST_KEYS {
        return Err(Failure(Fault::new(
            Code::TooLarge,
            format!("at most {MOST_TYPED} bytes and {MOST_KEYS} keys are typed at once"),
            "send it in several pieces, or put it into a file inside",
        )));
    }
    keys.extend(input.enter.then(|| "Enter".to_owned()));
    let request = SessionRequest::Send {
        session: session.to_string(),
        text,
        keys,
    };
    match app.session_request(&id, request).await? {
        SessionResponse::Sent { cursor } => Ok(Json(Sent { cursor })),
        _ => Err(nonsense()),
    }
}

async fn read(
    State(app): State<Arc<App>>,
    SessionKey(id, session): SessionKey,
    Parameters(Read { since, colours }): Parameters<Read>,
) -> Answer<ReadText> {
    let session = session.to_string();
    let request = SessionRequest::Read {
        session,
        since,
        colours,
    };
    match app.session_request(&id, request).await? {
        SessionResponse::Text(text) => Ok(Json(ReadText {
            state: SessionState::of(text.exit_code),
            ..*text
        })),
        _ => Err(nonsense()),
    }
}

async fn wait(
    State(app): State<Arc<App>>,
    SessionKey(id, session): SessionKey,
    Body(wait): Body<Wait>,
) -> Answer<Waited> {
    let is_long = |pattern: &String| pattern.len() > LONGEST_PATTERN;
    if wait.pattern.as_ref().is_some_and(is_long) {
        let why = format!("`for` is longer than {LONGEST_PATTERN} bytes");
        return Err(bad_request(why));
    }
    let limit = wait.timeout_ms.unwrap_or(LONGEST_WAIT_MS);
    let request = SessionRequest::Wait {
        session: session.to_string(),
        idle_ms: wait.idle_ms,
        pattern: wait.pattern,
        since: wait.since,
        timeout_ms: limit.min(LONGEST_WAIT_MS),
    };
    let waiting = app.session_request(&id, request);
    let mut stop = app.stop.subscribe();
    let response = tokio::select! {
        response = waiting => response?,
        _ = stop.wait_for(|is_stopping| *is_stopping) => return Err(Failure(ends())),
    };
    match response {
        SessionResponse::Waited(waited) => Ok(Json(Waited {
            state: SessionState::of(waited.exit_code),
            ..*waited
        })),
        _ => Err(nonsense()),
    }
}

// === impl App ===

impl App {
    /// A stopped workspace has only ended sessions, or none.
    async fn session_request(
        &self,
        id: &WorkspaceId,
        request: SessionRequest,
    ) -> Result<SessionResponse, Fault> {
        let session = match &request {
            SessionRequest::Send { session, .. }
            | SessionRequest::Read { session, .. }
            | SessionRequest::Wait { session, .. }
            | SessionRequest::Kill { session } => session.clone(),
            SessionRequest::Start(_) | SessionRequest::List => String::new(),
        };
        match self.engine.session_request(id, request).await {
            Err(fault) if fault.code == Code::NotRunning => {
                let known = self.engine.sessions(id).await?;
                match known.iter().find(|status| status.id == session) {
                    Some(_) => Err(Fault::of(Code::SessionEnded, fault.clone(), fault.hint)),
                    None => Err(not_found(&session)),
                }
            }
            answered => answered,
        }
    }

    /// Validates the request.
    async fn new_session(
        &self,
        id: &WorkspaceId,
        new: NewSession,
        caller: &Caller,
    ) -> Result<Wanted, Failure> {
        if let Some(name) = &new.name {
            SessionName::parse(name)?;
        }
        if let Some(parent) = &new.parent {
            SessionId::parse(parent).map_err(|_| not_found(parent))?;
        }
        let mut argv = raw(new.command);
        let mut env = raw_pairs(new.env);
        let cwd = new.cwd.map(Vec::from);
        checked(&argv, &env, cwd.as_deref())?;
        self.require_within_policy(id).await?;
        let mut wanted = Wanted {
            session: protocol::NewSession::default(),
            provision: Provision::default(),
            notes: Vec::new(),
            how_to_add: None,
        };
        let mut agent = None;
        if let Some(asked) = &new.agent {
            let spec = self.engine.spec(id).await?;
            let called = self.agent(&spec, Some(asked)).await?;
            self.require_agent_named(&called.name)?;
            let given = if caller.is_guest() {
                // A program inside could read the credentials.
                AgentGrant::nothing(&called)
            } else {
                self.given(&called, &new.agent_env, &spec).await?
            };
            wanted.how_to_add = called.how_to_add();
            wanted.provision = given.provision;
            wanted.notes = given.notes;
            let words = called.in_terminal.into_iter();
            // The caller's own arguments come last.
            argv = words.map(String::into_bytes).chain(argv).collect();
            // The caller's own variables come last and win.
            env = [given.env, env].concat();
            agent = Some(called.name);
        } else if argv.is_empty() {
            let label = match self.engine.named(id).await? {
                Some((record, _)) => record.label.to_string(),
                None => String::new(),
            };
            argv = shell::COMMAND.map(|word| word.as_bytes().to_vec()).to_vec();
            let prompt = shell::prompt(&label).into_iter();
            let prompt = prompt.map(|(name, value)| (name.as_bytes().to_vec(), value.into_bytes()));
            env = prompt.chain(env).collect();
        }
        wanted.session = protocol::NewSession {
            id: SessionId::random().to_string(),
            argv,
            env,
            cwd,
            rows: new.rows.unwrap_or(Size::DEFAULT.rows),
            cols: new.cols.unwrap_or(Size::DEFAULT.cols),
            name: new.name,
            parent: new.parent,
            agent,
            asker: caller.asker(),
        };
        Ok(wanted)
    }
}

fn checked(
    argv: &[Vec<u8>],
    env: &[(Vec<u8>, Vec<u8>)],
    cwd: Option<&[u8]>,
) -> Result<(), Failure> {
    let variables = env.iter().flat_map(|(name, value)| [name, value]);
    let mut words = argv.iter().chain(variables).map(Vec::as_slice).chain(cwd);
    if words.any(|word| word.contains(&0)) {
        return Err(bad_request("a word has a zero byte"));
    }
    if argv.first().is_some_and(Vec::is_empty) {
        return Err(bad_request("the name of the command is empty"));
    }
    let is_name = |name: &[u8]| !name.is_empty() && !name.contains(&b'=');
    if env.iter().all(|(name, _)| is_name(name)) {
        Ok(())
    } else {
        Err(bad_request("a variable has no name, or one with `=`"))
    }
}

pub fn listed(id: &WorkspaceId, sessions: Vec<Session>) -> SessionList {
    let sessions = sessions.into_iter();
    SessionList {
        sessions: sessions.map(|session| of_workspace(id, session)).collect(),
    }
}

/// Adds what the keeper does not know, or did not in an earlier release.
fn of_workspace(id: &WorkspaceId, session: Session) -> Session {
    Session {
        workspace: id.to_string(),
        state: SessionState::of(session.exit_code),
        ..session
    }
}

fn ends() -> Fault {
    Fault::new(
        Code::DaemonUnreachable,
        "the daemon ends",
        "`holm daemon start` starts another one; the session goes on",
    )
}

fn nonsense() -> Failure {
    Failure(Fault::new(
        Code::Internal,
        "the workspace's keeper gave a wrong answer",
        "`holm restart` starts it anew",
    ))
}
