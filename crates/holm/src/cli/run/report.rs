//! The text output about a run: its result and its changes. Used by `run` and `runs`.

use crate::cli::output::{BAD, FAINT, GOOD, WARNING, printable};
use anstream::adapter::strip_str;
use clap::builder::styling::Style;
use holm_api::run::{Run, RunChange};
use holm_core::run::RunState;

/// The most changed files that are listed.
const LISTED: usize = 20;

/// A line with its result, and its changes.
pub fn summary(run: &Run) -> String {
    let style = style(run.state);
    let time = duration(run).map_or_else(String::new, |time| format!(" in {time}"));
    let code = match run.exit_code {
        Some(code) if run.state == RunState::Failed => format!(" with exit code {code}"),
        _ => String::new(),
    };
    let state = word(run.state).replace('_', " ");
    let mut text = format!(
        "{style}{state}{style:#}{code}{time}  {FAINT}{}{FAINT:#}",
        run.id
    );
    if let Some(reason) = &run.reason {
        text.push_str(&format!("\n  {}", printable(reason)));
    }
    for note in &run.notes {
        text.push_str(&format!(
            "\n  {WARNING}note:{WARNING:#} {}",
            printable(note)
        ));
    }
    let changes = run.changes.as_deref().unwrap_or_default();
    for change in changes.iter().take(LISTED) {
        text.push_str(&format!("\n  {}", line(change)));
    }
    if changes.len() > LISTED {
        let (more, id) = (changes.len() - LISTED, &run.id);
        text.push_str(&format!("\n  … and {more} more: `holm runs show {id}`"));
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

pub fn style(state: RunState) -> Style {
    match state {
        RunState::Succeeded => GOOD,
        RunState::Failed | RunState::TimedOut | RunState::Lost => BAD,
        RunState::Queued | RunState::Running | RunState::Cancelled => WARNING,
    }
}

/// Its rough duration.
pub fn duration(run: &Run) -> Option<String> {
    let milliseconds = run.duration_ms?;
    Some(match milliseconds {
        0..1000 => format!("{milliseconds} ms"),
        1000..60_000 => format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100),
        _ => format!(
            "{} min {} s",
            milliseconds / 60_000,
            milliseconds % 60_000 / 1000
        ),
    })
}

/// The agent with its message, or the command.
pub fn what(run: &Run) -> String {
    let text = match (&run.agent, &run.message) {
        (Some(agent), Some(message)) => format!("{agent}: {message}"),
        (Some(agent), None) => agent.clone(),
        (None, _) => run.command.join(" "),
    };
    let first = text.lines().next().unwrap_or_default();
    strip_str(&first.chars().take(60).collect::<String>()).to_string()
}
