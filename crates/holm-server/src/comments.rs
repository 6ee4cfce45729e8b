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
use holm_core::comment::{
    Anchor, CommentSide, CommentState, LONGEST, SentComment, lines_in_words, lines_of, message,
};
use holm_core::hunk::{self, Hunk};
use holm_core::session::protocol::SessionState;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::review::{CommentDetails, CommentRecord, Delivered, ReplyRecord, TurnRecord};
use holm_engine::{NewRun, clock, try_blocking};
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

/// At most this many pairs of contents are compared, and at most this many changed lines of a pair are listed.
const MOST_COMPARED: usize = 100;
const MOST_LINES: usize = 2000;
/// A longer patch is not kept, because each comment that it touches gets a copy of its lines.
const LONGEST_PATCH: usize = 1 << 20;

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
    let lines = (new.first, new.last);
    let details = CommentDetails {
        anchor,
        turn: turn.number,
        text: new.text,
        origin: new.origin,
        author: caller.actor(),
        at: view::time(clock::wall()),
        ..CommentDetails::default()
    };
    let workspace = id.clone();
    let added = app.engine.change_comments(&id, move |comments| {
        if comments.len() >= MOST {
            let message = format!("workspace {workspace} has {MOST} comments");
            return Err(Fault::new(Code::Refused, message, "resolve them first"));
        }
        let record = CommentRecord {
            workspace,
            number: comments.last().map_or(0, |last| last.number) + 1,
            details,
        };
        comments.push(record.clone());
        Ok(record)
    });
    let record = added.await?;
    let place = Position {
        lines: Some(lines),
        changes: Vec::new(),
    };
    Ok(Json(comment(&record, place)))
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
    let (ids, action, workspace) = (act.ids.clone(), act.action, id.clone());
    let (actor, is_guest) = (caller.actor(), caller.is_guest());
    let acted = app.engine.change_comments(&id, move |comments| {
        for name in &act.ids {
            let record = comments.iter_mut().find(|record| record.id() == *name);
            let record = record.ok_or_else(|| not_found(&workspace, name))?;
            act_on(&mut record.details, &act, &actor);
            record.details.answered_at = is_guest.then(|| view::time(clock::wall()));
        }
        Ok(())
    });
    acted.await?;
    for name in &ids {
        let detail = json!({ "comment": name, "by": caller.actor(), "action": action });
        app.events.emit(&id, "comment.answered", detail).await;
    }
    let mut comments = app.comments(&id).await?;
    comments.retain(|comment| ids.contains(&comment.id));
    Ok(Json(CommentList { comments }))
}

fn act_on(details: &mut CommentDetails, act: &Act, author: &str) {
    if let Some(text) = &act.text {
        details.replies.push(ReplyRecord {
            author: author.to_owned(),
            text: text.clone(),
            at: view::time(clock::wall()),
        });
    }
    match act.action {
        Action::Reply => {}
        Action::Resolve => details.state = CommentState::Resolved,
        // The next round brings it to the agent again.
        Action::Reopen => {
            details.state = CommentState::Open;
            (details.round, details.delivered) = (None, None);
        }
    }
}

// === impl App ===

impl App {
    /// Every comment, with whether its anchor still fits, and what changed there.
    pub async fn comments(&self, id: &WorkspaceId) -> Result<Vec<Comment>, Fault> {
        self.engine.project_of(id).await?;
        let records = self.engine.comments(id).await?;
        let Some(last) = self.engine.last_turn(id).await? else {
            let stale = records.iter();
            let stale = stale.map(|record| comment(record, Position::default()));
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
            let mut changes = Changes::new(&objects, secrets);
            let mut listed = Vec::new();
            for record in &records {
                let anchor = &record.details.anchor;
                let entries = if is_old(record) { &before } else { &entries };
                let place = match entries.get(anchor.path.as_bytes()) {
                    Some(entry) => changes.of(anchor, &entry.object)?,
                    None => Position::default(),
                };
                listed.push(comment(record, place));
            }
            Ok(listed)
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
        let to = match session {
            Some(session) => Some(session),
            None => self.only_agent(id).await?,
        };
        let (workspace, delivered) = (id.clone(), to.clone().map(Delivered::Unconfirmed));
        let sent = self.engine.change_comments(id, move |comments| {
            let rounds = comments.iter().filter_map(|record| record.details.round);
            let round = rounds.max().unwrap_or(0) + 1;
            let drafts = comments.iter_mut().filter(|record| {
                record.details.round.is_none() && record.details.state == CommentState::Open
            });
            let sent = drafts.map(|record| {
                record.details.round = Some(round);
                record.details.delivered.clone_from(&delivered);
                record.clone()
            });
            let sent: Vec<CommentRecord> = sent.collect();
            if sent.is_empty() {
                let message = "there is no comment to send";
                let hint = format!("`holm comment {workspace} PATH:LINE TEXT` makes one");
                return Err(Fault::new(Code::Refused, message, hint));
            }
            Ok((round, sent))
        });
        let (round, sent) = sent.await?;
        if let Some(session) = &to {
            let text = round_message(round, &sent);
            self.engine.deliver_round(id, session, round, text).await?;
        }
        let delivered = to.map(|session| Delivered::Session(session).to_string());
        let to = delivered.unwrap_or_else(|| NEXT_RUN.to_owned());
        let detail = json!({ "round": round, "comments": sent.len(), "to": to });
        self.events.emit(id, "comment.sent", detail).await;
        Ok(Round {
            round,
            ids: sent.iter().map(CommentRecord::id).collect(),
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

    /// Puts rounds that were not delivered before the message of a run of an agent. The store records the delivery together with
    /// the run.
    pub async fn add_rounds(&self, id: &WorkspaceId, new: &mut NewRun) -> Result<(), Fault> {
        let waiting: Vec<CommentRecord> = self
            .engine
            .comments(id)
            .await?
            .into_iter()
            .filter(|record| record.details.round.is_some() && record.details.delivered.is_none())
            .filter(|record| record.details.state == CommentState::Open)
            .collect();
        let rounds = waiting.iter().filter_map(|record| record.details.round);
        if let Some(round) = rounds.max() {
            let comments = round_message(round, &waiting);
            let message = new.message.take().unwrap_or_default();
            new.message = Some(format!("{comments}\n{message}"));
        }
        new.comments = waiting.iter().map(|record| record.number).collect();
        Ok(())
    }
}

fn round_message(round: u64, records: &[CommentRecord]) -> String {
    let comments: Vec<SentComment<'_>> = records
        .iter()
        .map(|record| SentComment {
            id: record.id(),
            anchor: &record.details.anchor,
            text: &record.details.text,
            origin: record.details.origin,
        })
        .collect();
    message(round, &comments)
}

/// Where the lines of a comment are now, and what changed there.
#[derive(Default)]
struct Position {
    /// `None`: the comment is stale.
    lines: Option<(u64, u64)>,
    changes: Vec<Hunk>,
}

/// The changes of files since comments were made, each pair of contents compared once.
struct Changes<'a> {
    objects: &'a TurnObjects,
    /// Secrets are masked in the lines that are shown.
    known: Known,
    found: HashMap<(String, String), Change>,
}

struct Change {
    /// Every changed range, without its lines. `None`: git treats a content as binary, or the patch is too long.
    moves: Option<Vec<Hunk>>,
    shown: Vec<Hunk>,
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

    /// A comment is stale if its file became binary or changed too much, or if `MOST_COMPARED` is reached.
    fn of(&mut self, anchor: &Anchor, now: &str) -> Result<Position, Fault> {
        if anchor.blob == now {
            return Ok(Position {
                lines: Some((anchor.first, anchor.last)),
                changes: Vec::new(),
            });
        }
        let pair = (anchor.blob.clone(), now.to_owned());
        if !self.found.contains_key(&pair) {
            if self.found.len() == MOST_COMPARED {
                return Ok(Position::default());
            }
            let change = self.compare(anchor, now)?;
            self.found.insert(pair.clone(), change);
        }
        let change = self.found.get(&pair);
        let shown = change.into_iter().flat_map(|change| &change.shown);
        let shown = shown.filter(|hunk| anchor.is_touched_by(hunk));
        Ok(Position {
            lines: change.and_then(|change| anchor.follow(change.moves.as_deref()?)),
            changes: shown.cloned().collect(),
        })
    }

    fn compare(&self, anchor: &Anchor, now: &str) -> Result<Change, Fault> {
        let patch = self.objects.changed_lines(&anchor.blob, now)?;
        if patch.len() > LONGEST_PATCH {
            return Ok(Change {
                moves: None,
                shown: Vec::new(),
            });
        }
        // A masked secret may have had several lines, so the numbers are from the patch as it is.
        let whole = hunk::parse(&String::from_utf8_lossy(&patch), usize::MAX);
        let moves = whole.hunks.into_iter().map(|hunk| Hunk {
            lines: Vec::new(),
            ..hunk
        });
        let mut masker = Masker::new(self.known.clone());
        let patch = [masker.take(&patch), masker.finish()].concat();
        let shown = hunk::parse(&String::from_utf8_lossy(&patch), MOST_LINES);
        Ok(Change {
            moves: (!whole.binary).then(|| moves.collect()),
            shown: shown.hunks,
        })
    }
}

fn comment(record: &CommentRecord, place: Position) -> Comment {
    let details = &record.details;
    let replies = details.replies.iter().map(|reply| Reply {
        author: reply.author.clone(),
        text: reply.text.clone(),
        at: reply.at.clone(),
    });
    Comment {
        id: record.id(),
        path: details.anchor.path.clone(),
        lines: place.lines.map_or_else(
            || details.anchor.lines(),
            |(first, last)| lines_in_words(first, last),
        ),
        text: details.text.clone(),
        state: details.state,
        stale: place.lines.is_none(),
        round: details.round,
        replies: replies.collect(),
        turn: details.turn,
        blob: details.anchor.blob.clone(),
        snippet: details.anchor.snippet.clone(),
        side: details.anchor.side,
        origin: details.origin,
        author: details.author.clone(),
        at: details.at.clone(),
        delivered: details.delivered.as_ref().map(ToString::to_string),
        changes: place.changes,
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
