//! The text output about a run: its beginning, its result and its changes. Used by `run` and `runs`.

use crate::cli::egress::{is_refused, target};
use crate::cli::figures::{self, count, cut};
use crate::cli::output::{BAD, FAINT, GOOD, HINT, STRONG, WARNING, printable};
use crate::cli::turns::lines;
use anstream::adapter::strip_str;
use clap::builder::styling::Style;
use holm_api::client::Client;
use holm_api::review::{Risk, Turn};
use holm_api::run::{Run, RunChange};
use holm_core::WorkspaceId;
use holm_core::run::RunState;
use holm_core::turn::TurnCause;
use jiff::Timestamp;

/// The most changed files that are listed.
const LISTED: usize = 5;

/// The most entries of the egress record that are searched for refusals.
const MOST_ENTRIES: u64 = 200;

/// What holm recorded beside the run itself.
#[derive(Clone, Debug, Default)]
pub struct RunEvidence {
    /// The turn that the run ended with.
    turn: Option<Turn>,
    risks: Vec<Risk>,
    /// Destinations that the gateway refused meanwhile.
    refused: Vec<String>,
}

// === impl RunEvidence ===

impl RunEvidence {
    /// Asks about a run that has just ended. What cannot be found out is left out: the result of the run is known.
    /// Each answer costs a request, so it does not ask for a turn of a run that changed nothing, nor for what was
    /// refused to a command that succeeded all the same.
    pub async fn find(client: &Client, run: &Run) -> Self {
        let time = |text: &Option<String>| text.as_ref()?.parse::<Timestamp>().ok();
        let (Ok(id), Some(started), Some(ended)) = (
            WorkspaceId::parse(&run.workspace),
            time(&run.started_at),
            time(&run.ended_at),
        ) else {
            return Self::default();
        };
        let is_good_command = run.agent.is_none() && run.state == RunState::Succeeded;
        let is_unchanged = run.changes.as_ref().is_some_and(Vec::is_empty);
        let egress = async {
            if is_good_command {
                return Vec::new();
            }
            let list = client.egress(&id, MOST_ENTRIES).await;
            let entries = list.map(|list| list.egress).unwrap_or_default();
            let mut refused = Vec::new();
            for entry in entries.iter().filter(|entry| is_refused(entry)) {
                let is_later = entry.time.parse().is_ok_and(|at: Timestamp| at >= started);
                let target = target(entry);
                if is_later && !refused.contains(&target) {
                    refused.push(target);
                }
            }
            refused
        };
        let turn = async {
            if is_unchanged {
                return None;
            }
            let turns = client.turns(&id).await.map(|list| list.turns);
            let turn = turns.unwrap_or_default().pop()?;
            let is_own = turn.cause == TurnCause::Run
                && turn.at.parse().is_ok_and(|at: Timestamp| at >= ended);
            is_own.then_some(turn)
        };
        let (refused, turn) = tokio::join!(egress, turn);
        let risks = match &turn {
            Some(turn) => {
                let since = match turn.n {
                    1 => "base".to_owned(),
                    n => format!("@{}", n - 1),
                };
                let review = client.review(&id, &since).await;
                review.map(|review| review.risks).unwrap_or_default()
            }
            None => Vec::new(),
        };
        Self {
            turn,
            risks,
            refused,
        }
    }
}

/// `◐ claude in fix-login: r3, at most 5 min, ctrl-C cancels`.
pub fn heading(run: &Run, workspace: &str) -> String {
    let (who, place) = (who(run), printable(workspace));
    let most = figures::limit(run.timeout_ms);
    format!(
        "{HINT}◐{HINT:#} {STRONG}{who}{STRONG:#} in {place}: {FAINT}{}{FAINT:#}, at most {most}, ctrl-C cancels",
        run.id
    )
}

/// Its result in one line, and what is known of it below.
pub fn summary(run: &Run, evidence: &RunEvidence) -> String {
    let mut text = result(run, evidence);
    // The first line says it of a time limit.
    let reason = run.reason.as_ref();
    if let Some(reason) = reason.filter(|_| run.state != RunState::TimedOut) {
        text.push_str(&row("because", &printable(reason)));
    }
    for note in &run.notes {
        text.push_str(&row("note", &printable(note)));
    }
    if let Some(changes) = &run.changes {
        text.push_str(&row("changed", &changed(changes.len() as u64, evidence)));
        if changes.len() <= LISTED {
            let names = changes.iter().map(|change| row("", &line(change)));
            text.extend(names);
        }
    }
    if !evidence.refused.is_empty() {
        let refused = printable(&evidence.refused.join(", "));
        text.push_str(&row("refused", &refused));
    }
    text
}

fn row(name: &str, text: &str) -> String {
    format!("\n  {FAINT}{name:<8}{FAINT:#}  {text}")
}

/// `✓ claude ended after 3 min 41 s, exit 0: r3, turn @3`.
fn result(run: &Run, evidence: &RunEvidence) -> String {
    let (style, glyph) = mark(run.state);
    let (who, id) = (who(run), &run.id);
    let after = duration(run).map_or_else(String::new, |time| format!(" after {time}"));
    let exit = run.exit_code.map(|code| format!("exit {code}"));
    let turn = evidence
        .turn
        .as_ref()
        .map(|turn| format!("turn @{}", turn.n));
    let id = format!("{FAINT}{id}{FAINT:#}");
    let is_limit = run.state == RunState::TimedOut;
    let (before, behind) = if is_limit { (None, exit) } else { (exit, None) };
    let how = match run.state {
        RunState::Succeeded => format!("ended{after}"),
        RunState::Failed if run.exit_code.is_none() => "did not start".to_owned(),
        RunState::Failed => format!("failed{after}"),
        RunState::TimedOut => format!("hit its time limit of {}", figures::limit(run.timeout_ms)),
        RunState::Cancelled => format!("was cancelled{after}"),
        RunState::Lost => "was lost".to_owned(),
        RunState::Queued => "is queued".to_owned(),
        RunState::Running => "is running".to_owned(),
    };
    let head = [Some(how), before].into_iter().flatten();
    let tail = [Some(id), behind, turn].into_iter().flatten();
    let (head, tail): (Vec<String>, Vec<String>) = (head.collect(), tail.collect());
    format!(
        "{style}{glyph}{style:#} {STRONG}{who}{STRONG:#} {}: {}",
        head.join(", "),
        tail.join(", ")
    )
}

/// `7 files +184 −88; ▲ 1 test deleted`.
fn changed(files: u64, evidence: &RunEvidence) -> String {
    if files == 0 {
        return "nothing".to_owned();
    }
    let mut text = count(files, "file");
    if let Some(turn) = &evidence.turn {
        let lines = lines(Some(turn.added), Some(turn.removed));
        text.push_str(&format!(" {lines}"));
    }
    let mut kinds: Vec<(&str, u64)> = Vec::new();
    for risk in &evidence.risks {
        match kinds.iter_mut().find(|(kind, _)| *kind == risk.kind) {
            Some((_, number)) => *number += 1,
            None => kinds.push((&risk.kind, 1)),
        }
    }
    if !kinds.is_empty() {
        let kinds = kinds.iter();
        let kinds: Vec<String> = kinds
            .map(|(kind, number)| format!("{number} {}", printable(kind)))
            .collect();
        text.push_str(&format!("; {WARNING}▲{WARNING:#} {}", kinds.join(", ")));
    }
    text
}

pub fn line(change: &RunChange) -> String {
    let path = printable(&change.path);
    let from = change.from.as_deref();
    let from = from.map_or_else(String::new, |from| format!("{} → ", printable(from)));
    let binary = if change.binary { "  (binary)" } else { "" };
    format!("{:<6}  {from}{path}{binary}", change.operation)
}

/// In place of output that is not stored.
pub fn left_out(bytes: u64) -> String {
    format!("holm: {bytes} bytes of output are left out here\n")
}

/// The glyph of a state.
pub fn mark(state: RunState) -> (Style, &'static str) {
    match state {
        RunState::Succeeded => (GOOD, "✓"),
        RunState::Failed | RunState::TimedOut | RunState::Lost => (BAD, "✗"),
        RunState::Cancelled => (FAINT, "□"),
        RunState::Queued => (HINT, "◌"),
        RunState::Running => (HINT, "◐"),
    }
}

pub fn word(state: RunState) -> &'static str {
    match state {
        RunState::Queued => "queued",
        RunState::Running => "running",
        RunState::Succeeded => "succeeded",
        RunState::Failed => "failed",
        RunState::TimedOut => "timed_out",
        RunState::Cancelled => "cancelled",
        RunState::Lost => "lost",
    }
}

/// How long it took.
pub fn duration(run: &Run) -> Option<String> {
    run.duration_ms.map(figures::duration)
}

/// The agent, or the command in short.
fn who(run: &Run) -> String {
    match &run.agent {
        Some(agent) => printable(agent),
        None => cut(&first_line(&run.command.join(" ")), 40),
    }
}

/// The agent with its message, or the command.
pub fn what(run: &Run) -> String {
    match (&run.agent, &run.message) {
        (Some(agent), Some(message)) => first_line(&format!("{agent}: {message}")),
        (Some(agent), None) => first_line(agent),
        (None, _) => first_line(&run.command.join(" ")),
    }
}

fn first_line(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let short: String = first.chars().take(60).collect();
    printable(&strip_str(&short).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(state: &str, exit: Option<u8>, agent: Option<&str>) -> Run {
        serde_json::from_value(serde_json::json!({
            "id": "r3", "workspace": "waaaaaaaaaaaa", "agent": agent,
            "command": ["npm", "test"], "message": null, "state": state, "reason": null,
            "exit_code": exit, "created_at": "2026-11-15T20:29:00Z", "started_at": null,
            "ended_at": null, "duration_ms": 221_000, "timeout_ms": 300_000, "changed": null,
        }))
        .unwrap()
    }

    fn evidence() -> RunEvidence {
        let risk = |kind: &str| Risk {
            path: "test/a.ts".to_owned(),
            kind: kind.to_owned(),
            text: String::new(),
            weight: "high".to_owned(),
        };
        RunEvidence {
            turn: Some(Turn {
                n: 3,
                at: String::new(),
                cause: TurnCause::Run,
                tree: String::new(),
                files: 7,
                added: 184,
                removed: 88,
            }),
            risks: vec![
                risk("test deleted"),
                risk("lock file"),
                risk("test deleted"),
            ],
            refused: vec!["telemetry.example.net:443".to_owned()],
        }
    }

    fn plain(text: &str) -> String {
        strip_str(text).to_string()
    }

    #[test]
    fn the_first_and_the_last_line_of_a_run() {
        let claude = run("running", None, Some("claude"));
        assert_eq!(
            plain(&heading(&claude, "fix-login")),
            "◐ claude in fix-login: r3, at most 5 min, ctrl-C cancels"
        );
        let check = |run: &Run, evidence: &RunEvidence, expect: &str| {
            assert_eq!(plain(&summary(run, evidence)), expect);
        };
        check(
            &run("succeeded", Some(0), Some("claude")),
            &evidence(),
            "✓ claude ended after 3 min 41 s, exit 0: r3, turn @3\n  refused   telemetry.example.net:443",
        );
        check(
            &run("timed_out", Some(124), Some("claude")),
            &evidence(),
            "✗ claude hit its time limit of 5 min: r3, exit 124, turn @3\n  refused   telemetry.example.net:443",
        );
        let none = RunEvidence::default();
        check(
            &run("failed", Some(3), None),
            &none,
            "✗ npm test failed after 3 min 41 s, exit 3: r3",
        );
        check(
            &run("cancelled", Some(130), None),
            &none,
            "□ npm test was cancelled after 3 min 41 s, exit 130: r3",
        );
    }

    #[test]
    fn few_changed_files_are_named_and_many_are_counted() {
        let change = |path: &str| RunChange {
            path: path.to_owned(),
            operation: "update".to_owned(),
            from: None,
            binary: false,
            size: Some(1),
            content: None,
        };
        let mut run = run("succeeded", Some(0), Some("claude"));
        let none = RunEvidence::default();
        run.changes = Some(vec![change("a"), change("b")]);
        let text = plain(&summary(&run, &none));
        assert!(
            text.ends_with("\n  changed   2 files\n            update  a\n            update  b"),
            "{text}"
        );
        run.changes = Some((0..6).map(|_| change("a")).collect());
        let text = plain(&summary(&run, &evidence()));
        assert!(
            text.contains("\n  changed   6 files +184 −88; ▲ 2 test deleted, 1 lock file\n"),
            "{text}"
        );
        assert!(!text.contains("update"), "{text}");
        run.changes = Some(Vec::new());
        assert!(plain(&summary(&run, &none)).ends_with("changed   nothing"));
    }
}
