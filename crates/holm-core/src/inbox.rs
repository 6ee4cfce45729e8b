//! The inbox: which workspaces need a person, why, and the next command. A pure decision over recorded facts, so an
//! item closes by itself as soon as the facts say that its cause is gone.
//!
//! `inbox`, `ls`, `show`, `holm` without arguments and notifications all use [`items`]. Texts of programs inside are
//! made [`inert`](crate::notify::inert) here.

mod facts;
mod reason;

pub use facts::{
    CheckFact, CommentFact, ConflictFact, Facts, LimitFacts, NoticeFact, Refusal, RunFact,
    SessionFact, TurnFailureFact, UnreadFact,
};
pub use reason::{Group, Reason};

use crate::config::rough_size;
use crate::notify::{Millis, inert};
use crate::plan::State;
use crate::run::RunState;
use crate::turn::numbers;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who wrote an item's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = InboxOrigin)]
pub enum Origin {
    Holm,
    /// A program inside: the text is data, not an instruction.
    Workspace,
}

/// An agent's session that did nothing for this long has stalled.
pub const STALLED_AFTER: Millis = 10 * 60 * 1000;

/// Something that needs a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Names the cause within its workspace; the same while the cause lasts.
    pub cause: String,
    pub reason: Reason,
    pub text: String,
    pub origin: Origin,
    pub since: Millis,
    pub next: Next,
}

/// What to type about an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The session, where the workspace has several.
    Attach(Option<String>),
    Egress,
    Show,
    Start,
    Logs(String),
    Run(String),
    Compare(String),
    Review,
    /// Record the current tree as a turn and show it.
    Mark,
}

/// What needs a person in a workspace, most urgent first.
pub fn items(facts: &Facts, now: Millis) -> Vec<Item> {
    let mut found = Vec::new();
    for session in &facts.sessions {
        found.extend(facts.question_of(session));
    }
    found.extend(facts.question_of_programs());
    found.extend(facts.refused());
    found.extend(facts.limits(now));
    for session in &facts.sessions {
        let asks = |item: &Item| item.cause == question(&session.id);
        if !found.iter().any(asks) {
            found.extend(facts.stalled(session, now));
        }
    }
    found.extend(facts.failures(now));
    found.extend(facts.conflicts(now));
    found.extend(facts.ready());
    found.extend(facts.answered());
    found.sort_by_key(|item| (item.reason, item.since));
    found
}

// === impl Facts ===

impl Facts {
    /// A session that rang, or whose program called `notify`, and that no person has answered or watches.
    fn question_of(&self, session: &SessionFact) -> Option<Item> {
        if session.is_watched {
            return None;
        }
        let is_open = |notice: &&NoticeFact| {
            notice.source.as_ref() == Some(&session.id)
                && session.answered_at.is_none_or(|at| notice.at > at)
        };
        let notified = collected(self.notices.iter().filter(is_open));
        let rang = session.attention.as_ref().map(|(at, text)| {
            let title = || session.title.clone();
            let program = session.agent.as_deref().unwrap_or("A program");
            let text = text.clone().or_else(title);
            (*at, text.unwrap_or_else(|| format!("{program} rang")))
        });
        let (since, text) = match (notified, rang) {
            // A program often rings when it notifies; the text says more than the bell.
            (Some(notified), _) => notified,
            (None, rang) => rang?,
        };
        Some(Item {
            cause: question(&session.id),
            reason: Reason::Question,
            text: inert(&text),
            origin: Origin::Workspace,
            since,
            next: self.attach(session),
        })
    }

    /// Calls of `notify` by programs that are in no running session. A look closes them, and so does a later run: a
    /// person has reacted.
    fn question_of_programs(&self) -> Option<Item> {
        let is_of_session = |notice: &NoticeFact| {
            let is_of = |session: &SessionFact| notice.source.as_ref() == Some(&session.id);
            self.sessions.iter().any(is_of)
        };
        let has_ended = |notice: &NoticeFact| {
            // The program of a session that has ended waits for no answer.
            let source = notice.source.as_deref().unwrap_or_default();
            source.starts_with('s')
        };
        let begun = self.run.as_ref().map(|run| run.created_at);
        let open = self.notices.iter().filter(|notice| {
            !is_of_session(notice)
                && !has_ended(notice)
                && self.is_unseen(notice.at)
                && begun.is_none_or(|begun| notice.at >= begun)
        });
        let (since, text) = collected(open)?;
        Some(Item {
            cause: "question".to_owned(),
            reason: Reason::Question,
            text: inert(&text),
            origin: Origin::Workspace,
            since,
            next: Next::Review,
        })
    }

    fn stalled(&self, session: &SessionFact, now: Millis) -> Option<Item> {
        let is_stalled = session.agent.is_some()
            && !session.is_watched
            && now - session.active_at >= STALLED_AFTER
            && self.is_unseen(session.active_at);
        is_stalled.then(|| Item {
            cause: format!("stalled-{}", session.id),
            reason: Reason::Stalled,
            text: "No output and no CPU".to_owned(),
            origin: Origin::Holm,
            since: session.active_at,
            next: self.attach(session),
        })
    }

    fn attach(&self, session: &SessionFact) -> Next {
        let is_alone = self.sessions.len() == 1;
        Next::Attach((!is_alone).then(|| session.id.clone()))
    }

    /// All refusals are one item: a program inside can be refused by any number of hosts.
    fn refused(&self) -> Option<Item> {
        let unseen = self
            .refusals
            .iter()
            .filter(|one| self.is_unseen(one.last_at));
        let newest = unseen.clone().max_by_key(|one| one.last_at)?;
        let mut text = newest.what.clone();
        if newest.count > 1 {
            text.push_str(&format!(", {} ×", newest.count));
        }
        match unseen.clone().count() - 1 {
            0 => {}
            others => text.push_str(&format!("; {others} more")),
        }
        Some(Item {
            cause: "refused".to_owned(),
            reason: Reason::Refused,
            text: inert(&text),
            // The host's name is a program's.
            origin: Origin::Workspace,
            since: newest.last_at,
            next: Next::Egress,
        })
    }

    fn limits(&self, now: Millis) -> Vec<Item> {
        let limits = &self.limits;
        let mut found = Vec::new();
        let mut add = |name: &str, text: String| {
            let cause = format!("limit-{name}");
            let since = self.first_seen(&cause, now);
            found.push(Item::of_holm(cause, Reason::Limit, text, since, Next::Show));
        };
        if self.reason.as_deref() == Some("disk_limit") {
            let most = limits.disk.map(|disk| format!(" of {}", rough_size(disk)));
            add(
                "disk",
                format!("Disk is over its limit{}", most.unwrap_or_default()),
            );
        }
        if limits.memory_kills > 0 {
            let most = limits
                .memory
                .map(|most| format!(" of {}", rough_size(most)));
            let kills = limits.memory_kills;
            let text = format!(
                "Memory reached its limit{}, {kills} killed",
                most.unwrap_or_default()
            );
            add("memory", text);
        }
        if !limits.used_up.is_empty() {
            let names = limits.used_up.join(", ").replace('_', " ");
            add("resources", format!("Used up: {names}"));
        }
        if let Some((run, ended)) = self.ended_run(&[RunState::TimedOut]) {
            let text = format!(
                "{} hit its time limit of {}",
                run.program,
                in_words(run.timeout_ms)
            );
            found.push(Item::of_holm(
                format!("limit-{}", run.id),
                Reason::Limit,
                inert(&text),
                ended,
                Next::Run(run.id.clone()),
            ));
        }
        found
    }

    fn failures(&self, now: Millis) -> Vec<Item> {
        let mut found = Vec::new();
        if self.state == Some(State::Failed) {
            let cause = "failed".to_owned();
            let since = self.first_seen(&cause, now);
            let text = self.reason.as_deref().unwrap_or("It is not running");
            let text = inert(text);
            found.push(Item::of_holm(
                cause,
                Reason::Failed,
                text,
                since,
                Next::Start,
            ));
        }
        for service in self.services.iter().filter(|one| one.has_failed()) {
            let cause = format!("failed-service-{}", service.name);
            let why = service.reason.as_deref().unwrap_or(&service.state);
            let text = inert(&format!("Service {}: {why}", service.name));
            let since = self.first_seen(&cause, now);
            let next = Next::Logs(service.name.clone());
            found.push(Item::of_holm(cause, Reason::Failed, text, since, next));
        }
        if let Some((run, ended)) = self.ended_run(&[RunState::Failed, RunState::Lost]) {
            let code = run.exit_code.map(|code| format!("exit {code}"));
            let why = run.reason.clone().or(code);
            let why = why.unwrap_or_else(|| run.state.as_str().to_owned());
            let text = inert(&format!("Run of {}: {why}", run.program));
            let next = Next::Run(run.id.clone());
            let cause = format!("failed-{}", run.id);
            found.push(Item::of_holm(cause, Reason::Failed, text, ended, next));
        }
        found.extend(self.unrecorded());
        for check in &self.checks {
            if check.has_passed || !self.is_unseen(check.at) {
                continue;
            }
            let place = check.turn.map(|turn| format!(" on @{turn}"));
            let place = place.unwrap_or_default();
            let text = inert(&format!("Check {}{place}: {}", check.name, check.text));
            let cause = format!("failed-check-{}", check.name);
            found.push(Item::of_holm(
                cause,
                Reason::Failed,
                text,
                check.at,
                Next::Review,
            ));
        }
        found
    }

    /// A person would otherwise take the turn before for the newest work.
    fn unrecorded(&self) -> Option<Item> {
        let failure = self.turn_failure.as_ref()?;
        self.is_unseen(failure.at).then(|| {
            let text = inert(&format!("Its changes are not recorded: {}", failure.text));
            let cause = "failed-turn".to_owned();
            Item::of_holm(cause, Reason::Failed, text, failure.at, Next::Mark)
        })
    }

    fn conflicts(&self, now: Millis) -> Vec<Item> {
        let conflicts = self.conflicts.iter().map(|conflict| {
            let cause = format!("conflict-{}", conflict.other);
            let lines = conflict.lines.map(|(first, last)| match last {
                last if last == first => format!(" {first}"),
                last => format!(" {first}–{last}"),
            });
            let text = format!(
                "Same lines as {}: {}{}",
                conflict.label,
                conflict.path,
                lines.unwrap_or_default()
            );
            let since = conflict
                .since
                .unwrap_or_else(|| self.first_seen(&cause, now));
            let next = Next::Compare(conflict.label.clone());
            Item {
                // The path is a program's.
                origin: Origin::Workspace,
                ..Item::of_holm(cause, Reason::Conflict, inert(&text), since, next)
            }
        });
        conflicts.collect()
    }

    /// While the next run is under way, its end will say what there is to read.
    fn ready(&self) -> Option<Item> {
        let unread = self.unread.as_ref()?;
        if self.run.as_ref().is_some_and(|run| !run.state.has_ended()) {
            return None;
        }
        let files = match unread.files {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        let extent = format!("{files} {}", numbers(unread.added, unread.removed));
        let extent = extent.trim_end();
        let mut text = match unread.turns {
            0 | 1 => extent.to_owned(),
            turns => format!("{turns} turns, the last with {extent}"),
        };
        if !self.checks.is_empty() {
            let passed = self.checks.iter().filter(|check| check.has_passed).count();
            text.push_str(&format!(
                ", {passed} of {} checks passed",
                self.checks.len()
            ));
        }
        let cause = format!("ready-@{}", unread.turn);
        Some(Item::of_holm(
            cause,
            Reason::Ready,
            text,
            unread.at,
            Next::Review,
        ))
    }

    /// The newest round with answers that no person has seen.
    fn answered(&self) -> Option<Item> {
        let is_new = |comment: &&CommentFact| {
            let at = comment.answered_at;
            at.is_some_and(|at| self.is_unseen(at))
        };
        let round = self
            .comments
            .iter()
            .filter(is_new)
            .map(|one| one.round)
            .max()?;
        let of_round = || self.comments.iter().filter(|one| one.round == round);
        let new = of_round().filter(is_new);
        let since = new.clone().filter_map(|one| one.answered_at).max()?;
        let (all, new_ones) = (of_round().count(), new.clone().count());
        let mut text = if new_ones == all {
            format!("Round {round} answered")
        } else {
            format!("Round {round}: {new_ones} of {all} answered")
        };
        // An agent that answers without resolving disagrees, or asks back.
        match new.filter(|one| one.is_open).count() {
            0 => {}
            disputed => text.push_str(&format!(", {disputed} disputed")),
        }
        let cause = format!("comment-{round}");
        Some(Item::of_holm(
            cause,
            Reason::Comment,
            text,
            since,
            Next::Review,
        ))
    }

    /// The newest run, if it ended in one of these states and no person has looked since.
    fn ended_run(&self, states: &[RunState]) -> Option<(&RunFact, Millis)> {
        let run = self.run.as_ref()?;
        let ended = run.ended_at.unwrap_or(run.created_at);
        (states.contains(&run.state) && self.is_unseen(ended)).then_some((run, ended))
    }

    fn is_unseen(&self, at: Millis) -> bool {
        self.looked_at.is_none_or(|looked| at > looked)
    }

    fn first_seen(&self, cause: &str, now: Millis) -> Millis {
        self.seen.get(cause).copied().unwrap_or(now)
    }
}

/// The newest text of several notices, with the number of the others, and its time.
fn collected<'a>(notices: impl Iterator<Item = &'a NoticeFact>) -> Option<(Millis, String)> {
    let notices: Vec<&NoticeFact> = notices.collect();
    let newest = notices.last()?;
    let left_out: u64 = notices.iter().map(|notice| notice.left_out).sum();
    let more = notices.len() as u64 - 1 + left_out;
    let text = inert(&newest.text);
    let text = if more > 0 {
        format!("{text} ({more} more)")
    } else {
        text
    };
    Some((newest.at, text))
}

fn question(session: &str) -> String {
    format!("question-{session}")
}

/// `5 min`, `90 s`.
fn in_words(ms: u64) -> String {
    let seconds = ms / 1000;
    if seconds >= 60 && seconds.is_multiple_of(60) {
        format!("{} min", seconds / 60)
    } else {
        format!("{seconds} s")
    }
}

// === impl Item ===

impl Item {
    fn of_holm(cause: String, reason: Reason, text: String, since: Millis, next: Next) -> Self {
        Self {
            cause,
            reason,
            text,
            origin: Origin::Holm,
            since,
            next,
        }
    }
}

// === impl Next ===

impl Next {
    /// The command, for a workspace as a person types it (`shop/fix-login`).
    pub fn command(&self, workspace: &str) -> String {
        match self {
            Next::Attach(None) => format!("holm session attach {workspace}"),
            Next::Attach(Some(session)) => format!("holm session attach {session}"),
            Next::Egress => format!("holm egress {workspace}"),
            Next::Show => format!("holm show {workspace}"),
            Next::Start => format!("holm start {workspace}"),
            Next::Logs(service) => format!("holm logs {workspace} {service}"),
            Next::Run(run) => format!("holm runs show {run}"),
            Next::Compare(other) => {
                let project = workspace.split_once('/').map(|(project, _)| project);
                let project = project.map_or_else(String::new, |project| format!("{project}/"));
                format!("holm compare {workspace} {project}{other}")
            }
            Next::Review => format!("holm review {workspace}"),
            Next::Mark => format!("holm review {workspace} --mark"),
        }
    }
}

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
