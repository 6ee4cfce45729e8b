//! `/workspaces/{id}/comments`: the conversation of a review. A person comments on lines of a turn and sends a
//! round; it reaches the agent's only live session, or is put before the message of the next run. The agent
//! answers and resolves by the comments' ids.

use super::App;
use super::caller::Caller;
use super::failure::{Answer, Body, Parameters, WorkspaceKey, bad_request};
use super::turns::Effort;
use super::view;
use axum::Json;
use axum::extract::State;
use holm_api::comment::{Act, Action, Comment, CommentList, NewComment, Reply, Round, Send};
use holm_core::comment::{Anchor, CommentSide, CommentState, LONGEST, Told, lines_of, message};
use holm_core::hunk::{self, Hunk};
use holm_core::session::protocol::{SessionRequest, SessionState};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::review::{CommentDetails, CommentRecord, ReplyRecord, TurnRecord};
use holm_engine::{clock, try_blocking};
use holm_git::TurnObjects;
use holm_secrets::mask::{Known, Masker};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use utoipa::IntoParams;

/// The most comments of a workspace.
const MOST: usize = 1000;

/// A larger file is not read for its lines.
const LARGEST_FILE: u64 = 4 << 20;

/// More pairs of contents are not compared for their changed lines, nor more lines listed of one.
const MOST_COMPARED: usize = 100;
const MOST_LINES: usize = 2000;

/// A round waits for the next run.
const NEXT_RUN: &str = "the next run";

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// Only open ones.
    #[serde(default)]
    open: bool,
}

operations! {
    /// The comments on a workspace's work, the oldest first.
    get "/workspaces/{id}/comments" "comment_list" list of (WorkspaceKey, Which) -> CommentList;
    /// Comments on lines of the last turn, or of the commit that the workspace started from.
    post "/workspaces/{id}/comments" "comment_new" add
        of (WorkspaceKey) sends NewComment -> Comment;
    /// Sends the comments that were not sent yet to the agent, as one round.
    post "/workspaces/{id}/comments/send" "comment_send" send
        of (WorkspaceKey) sends Send -> Round;
    /// Answers, resolves or reopens comments.
    post "/workspaces/{id}/comments/act" "comment_act" act
        of (WorkspaceKey) sends Act -> CommentList;
}

async fn list(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(which): Parameters<Which>,
) -> Answer<CommentList> {
    let mut comments = app.comments(&id).await?;
    comments.retain(|comment| !which.open || comment.state == CommentState::Open);
    Ok(Json(CommentList { comments }))
}

async fn add(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
    Body(new): Body<NewComment>,
) -> Answer<Comment> {
    check_text(&new.text)?;
    let turn = app.mark_turn(&id, Effort::Look).await?.turn;
    let turn = turn.ok_or_else(|| no_lines(&new.path))?;
    let anchor = app.anchor(&id, &turn, &new).await?;
    let _lock = app.turns.lock(&id).await;
    let known = app.engine.comments(&id).await?;
    if known.len() >= MOST {
        let message = format!("workspace {id} has {MOST} comments");
        return Err(Fault::new(Code::Refused, message, "resolve them first").into());
    }
    let record = CommentRecord {
        workspace: id.clone(),
        number: known.last().map_or(0, |last| last.number) + 1,
        details: CommentDetails {
            anchor,
            turn: turn.number,
            text: new.text,
            origin: new.origin,
            author: caller.actor(),
            at: view::time(clock::wall()),
            ..CommentDetails::default()
        },
    };
    app.engine.save_comment(record.clone()).await?;
    Ok(Json(comment(&record, false, Vec::new())))
}

async fn send(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Body(send): Body<Send>,
) -> Answer<Round> {
    Ok(Json(app.send_round(&id, send.session).await?))
}

async fn act(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
    Body(act): Body<Act>,
) -> Answer<CommentList> {
    if act.action == Action::Reopen && caller.is_guest() {
        let hint = "the person who reads it does it; `comment_reply` answers";
        return Err(Fault::new(
            Code::Forbidden,
            "a workspace does not reopen comments",
            hint,
        )
        .into());
    }
    if act.action == Action::Reply || act.text.is_some() {
        check_text(act.text.as_deref().unwrap_or_default())?;
    }
    // Each of two answers at once is kept.
    let _lock = app.turns.lock(&id).await;
    let known = app.engine.comments(&id).await?;
    let mut found = Vec::new();
    for name in &act.ids {
        let record = known.iter().find(|record| record.id() == *name);
        found.push(record.ok_or_else(|| not_found(&id, name))?.clone());
    }
    for mut record in found {
        if let Some(text) = &act.text {
            record.details.replies.push(ReplyRecord {
                author: caller.actor(),
                text: text.clone(),
                at: view::time(clock::wall()),
            });
        }
        match act.action {
            Action::Reply => {}
            Action::Resolve => record.details.state = CommentState::Resolved,
            Action::Reopen => record.details.state = CommentState::Open,
        }
        record.details.answered_at = caller.is_guest().then(|| view::time(clock::wall()));
        let detail = json!({ "comment": record.id(), "by": caller.actor(), "action": act.action });
        app.engine.save_comment(record).await?;
        app.events.emit(&id, "comment.answered", detail).await;
    }
    let mut comments = app.comments(&id).await?;
    comments.retain(|comment| act.ids.contains(&comment.id));
    Ok(Json(CommentList { comments }))
}

// === impl App ===

impl App {
    /// Every comment, with whether its anchor still fits, and what changed there.
    pub async fn comments(&self, id: &WorkspaceId) -> Result<Vec<Comment>, Fault> {
        self.engine.project_of(id).await?;
        let records = self.engine.comments(id).await?;
        let Some(last) = self.engine.last_turn(id).await? else {
            let stale = records
                .iter()
                .map(|record| comment(record, true, Vec::new()));
            return Ok(stale.collect());
        };
        let objects = self.turn_objects(id).await?;
        let secrets = self.secrets_of(id).await?;
        try_blocking(move || {
            let paths: Vec<Vec<u8>> = records
                .iter()
                .map(|record| record.details.anchor.path.clone().into_bytes())
                .collect();
            let entries = objects.entries(&last.tree, &paths)?;
            let is_old = |record: &CommentRecord| record.details.anchor.side == CommentSide::Old;
            let before = match &last.details.start {
                Some(start) if records.iter().any(is_old) => objects.entries(start, &paths)?,
                _ => HashMap::new(),
            };
            let known = entries.values().chain(before.values());
            let blobs: Vec<String> = known.map(|entry| entry.object.clone()).collect();
            let contents = objects.contents(&blobs, LARGEST_FILE)?;
            let texts: HashMap<&String, String> = contents
                .iter()
                .map(|(blob, content)| (blob, String::from_utf8_lossy(content).into_owned()))
                .collect();
            let mut changes = Changes::new(&objects, secrets);
            let mut told = Vec::new();
            for record in &records {
                let anchor = &record.details.anchor;
                let entries = if is_old(record) { &before } else { &entries };
                let entry = entries.get(anchor.path.as_bytes());
                let now = entry.map(|entry| {
                    let content = texts.get(&entry.object).map(String::as_str);
                    (entry.object.as_str(), content)
                });
                let changed = match now {
                    Some((blob, Some(_))) => changes.of(anchor, blob)?,
                    _ => Vec::new(),
                };
                told.push(comment(record, anchor.is_stale(now), changed));
            }
            Ok(told)
        })
        .await
    }

    async fn anchor(
        &self,
        id: &WorkspaceId,
        turn: &TurnRecord,
        new: &NewComment,
    ) -> Result<Anchor, Fault> {
        let objects = self.turn_objects(id).await?;
        let tree = match new.side {
            CommentSide::New => Some(turn.tree.clone()),
            CommentSide::Old => turn.details.start.clone(),
        };
        let (tree, path) = (tree.ok_or_else(|| no_lines(&new.path))?, new.path.clone());
        let found = try_blocking(move || {
            let name = path.into_bytes();
            let mut entries = objects.entries(&tree, std::slice::from_ref(&name))?;
            let Some(entry) = entries.remove(&name) else {
                return Ok(None);
            };
            let mut contents =
                objects.contents(std::slice::from_ref(&entry.object), LARGEST_FILE)?;
            Ok(contents
                .remove(&entry.object)
                .map(|content| (entry.object, content)))
        });
        let (blob, content) = found.await?.ok_or_else(|| no_lines(&new.path))?;
        let content = String::from_utf8_lossy(&content).into_owned();
        let snippet = lines_of(&content, new.first, new.last);
        Ok(Anchor {
            path: new.path.clone(),
            first: new.first,
            last: new.last,
            snippet: snippet.ok_or_else(|| no_lines(&new.path))?,
            blob,
            side: new.side,
        })
    }

    /// Makes a round of the comments that were not sent. It is delivered to a session, or waits for the next run.
    async fn send_round(&self, id: &WorkspaceId, session: Option<String>) -> Result<Round, Fault> {
        let _lock = self.turns.lock(id).await;
        let known = self.engine.comments(id).await?;
        let round = known
            .iter()
            .filter_map(|record| record.details.round)
            .max()
            .unwrap_or(0)
            + 1;
        let mut drafts: Vec<CommentRecord> = known
            .into_iter()
            .filter(|record| {
                record.details.round.is_none() && record.details.state == CommentState::Open
            })
            .collect();
        if drafts.is_empty() {
            let hint = format!("`holm comment {id} PATH:LINE TEXT` makes one");
            return Err(Fault::new(
                Code::Refused,
                "there is no comment to send",
                hint,
            ));
        }
        let to = match session {
            Some(session) => Some(session),
            None => self.only_agent(id).await?,
        };
        if let Some(session) = &to {
            let request = SessionRequest::Send {
                session: session.clone(),
                text: told(round, &drafts).into_bytes(),
                keys: vec!["Enter".to_owned()],
            };
            self.engine.session_request(id, request).await?;
        }
        let delivered = to.map(|session| format!("session {session}"));
        for record in &mut drafts {
            record.details.round = Some(round);
            record.details.delivered.clone_from(&delivered);
            self.engine.save_comment(record.clone()).await?;
        }
        let to = delivered.unwrap_or_else(|| NEXT_RUN.to_owned());
        let detail = json!({ "round": round, "comments": drafts.len(), "to": to });
        self.events.emit(id, "comment.sent", detail).await;
        Ok(Round {
            round,
            ids: drafts.iter().map(CommentRecord::id).collect(),
            to,
        })
    }

    /// The only live session of an agent.
    async fn only_agent(&self, id: &WorkspaceId) -> Result<Option<String>, Fault> {
        let sessions = self.engine.sessions(id).await?.into_iter();
        let mut live = sessions
            .filter(|session| session.agent.is_some())
            .filter(|session| SessionState::of(session.exit_code) == SessionState::Running);
        let first = live.next().map(|session| session.id);
        Ok(first.filter(|_| live.next().is_none()))
    }

    /// Puts rounds that were not delivered before the message of a run of an agent.
    pub async fn with_rounds(
        &self,
        id: &WorkspaceId,
        message: Option<String>,
    ) -> Result<(Option<String>, Vec<CommentRecord>), Fault> {
        let waiting: Vec<CommentRecord> = self
            .engine
            .comments(id)
            .await?
            .into_iter()
            .filter(|record| record.details.round.is_some() && record.details.delivered.is_none())
            .filter(|record| record.details.state == CommentState::Open)
            .collect();
        let Some(round) = waiting
            .iter()
            .filter_map(|record| record.details.round)
            .max()
        else {
            return Ok((message, waiting));
        };
        let comments = told(round, &waiting);
        let message = message.unwrap_or_default();
        Ok((Some(format!("{comments}\n{message}")), waiting))
    }

    /// Records that a run got the comments. Answers that arrived meanwhile stay.
    pub async fn note_delivered(
        &self,
        id: &WorkspaceId,
        waiting: &[CommentRecord],
        run: &str,
    ) -> Result<(), Fault> {
        if waiting.is_empty() {
            return Ok(());
        }
        let _lock = self.turns.lock(id).await;
        let is_told =
            |record: &CommentRecord| waiting.iter().any(|one| one.number == record.number);
        for mut record in self.engine.comments(id).await?.into_iter().filter(is_told) {
            record.details.delivered = Some(format!("run {run}"));
            self.engine.save_comment(record).await?;
        }
        Ok(())
    }
}

fn told(round: u64, records: &[CommentRecord]) -> String {
    let comments: Vec<Told<'_>> = records
        .iter()
        .map(|record| Told {
            id: record.id(),
            anchor: &record.details.anchor,
            text: &record.details.text,
            origin: record.details.origin,
        })
        .collect();
    message(round, &comments)
}

/// The changed lines of files since comments were made, each pair of contents compared once.
struct Changes<'a> {
    objects: &'a TurnObjects,
    /// Secrets are masked in them.
    known: Known,
    found: HashMap<(String, String), Vec<Hunk>>,
}

// === impl Changes ===

impl<'a> Changes<'a> {
    fn new(objects: &'a TurnObjects, known: Known) -> Self {
        Self {
            objects,
            known,
            found: HashMap::new(),
        }
    }

    /// What changed in the lines of an anchor.
    fn of(&mut self, anchor: &Anchor, now: &str) -> Result<Vec<Hunk>, Fault> {
        let pair = (anchor.blob.clone(), now.to_owned());
        if anchor.blob != now && !self.found.contains_key(&pair) && self.found.len() < MOST_COMPARED
        {
            let patch = self.objects.changed_lines(&anchor.blob, now)?;
            let mut masker = Masker::new(self.known.clone());
            let patch = [masker.take(&patch), masker.finish()].concat();
            let parsed = hunk::parse(&String::from_utf8_lossy(&patch), MOST_LINES);
            self.found.insert(pair.clone(), parsed.hunks);
        }
        let hunks = self.found.get(&pair).into_iter().flatten();
        let hunks = hunks.filter(|hunk| anchor.is_touched_by(hunk));
        Ok(hunks.cloned().collect())
    }
}

fn comment(record: &CommentRecord, is_stale: bool, changes: Vec<Hunk>) -> Comment {
    let details = &record.details;
    let replies = details.replies.iter().map(|reply| Reply {
        author: reply.author.clone(),
        text: reply.text.clone(),
        at: reply.at.clone(),
    });
    Comment {
        id: record.id(),
        path: details.anchor.path.clone(),
        lines: details.anchor.lines(),
        text: details.text.clone(),
        state: details.state,
        stale: is_stale,
        round: details.round,
        replies: replies.collect(),
        turn: details.turn,
        blob: details.anchor.blob.clone(),
        snippet: details.anchor.snippet.clone(),
        side: details.anchor.side,
        origin: details.origin,
        author: details.author.clone(),
        at: details.at.clone(),
        delivered: details.delivered.clone(),
        changes,
    }
}

fn check_text(text: &str) -> Result<(), super::failure::Failure> {
    if text.trim().is_empty() || text.len() > LONGEST || text.contains('\0') {
        return Err(bad_request(format!(
            "`text` is empty, or more than {} KiB",
            LONGEST >> 10
        )));
    }
    Ok(())
}

fn no_lines(path: &str) -> Fault {
    Fault::new(
        Code::PathNotFound,
        format!(
            "the last turn has no such lines of `{}`",
            path.escape_debug()
        ),
        "`holm review WS` lists the files; `holm comment --old` is about lines before the change",
    )
}

fn not_found(id: &WorkspaceId, name: &str) -> Fault {
    Fault::new(
        Code::CommentNotFound,
        format!("workspace {id} has no comment `{}`", name.escape_debug()),
        format!("`holm comments {id}` lists them"),
    )
}
