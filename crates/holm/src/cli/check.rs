//! `holm check`: runs the project's checks on the tree of a workspace, each in a fresh workspace, and waits for them.

use super::completions::labels;
use super::figures::{clock, duration, here_and_now};
use super::output::{BAD, FAINT, GOOD, HINT, WARNING, printable};
use super::progress::Progress;
use super::signals::{INTERRUPTED, Signals};
use super::terminal::Attachment;
use super::turns::short;
use super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_api::check::{CheckList, CheckResult, RunChecks};
use holm_api::client::{Client, EventLine, EventStream, Until};
use holm_core::check::{CheckState, TIMED_OUT};
use holm_core::{Code, Fault, WorkspaceId};
use std::process::ExitCode;

/// Run the project's checks on a workspace's work
///
/// holm records the tree of now as a turn and runs each of [checks] in holm.toml in a fresh workspace of that turn:
/// with dependencies, services and data as a new workspace gets them, and nothing else of the agent's workspace. A
/// result belongs to the tree: an unchanged one is not checked again, unless --again is given. A check whose `when`
/// names no changed file is skipped. Checks of an older turn are cancelled. Ctrl-C cancels them all.
///
/// The exit code is 1 if a check failed. A check that hits its time limit has failed with 124. `holm logs WS
/// check/NAME` shows its output.
///
/// With --json: {"checks":[{name,state,exit_code,tree,ms}]}; state is queued, running, passed, failed, skipped or
/// cancelled. With --watch one such line for each turn.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm check fix-login\n  holm check fix-login test types\n  \
    holm check fix-login --again\n  holm check fix-login --watch"
)]
pub struct CheckArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Only these checks
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Repeat checks that have a result for this tree
    #[arg(long)]
    again: bool,
    /// Check each new turn, until ctrl-C
    #[arg(long)]
    watch: bool,
}

/// How waiting for checks ended.
pub enum Waited {
    Ended(CheckList),
    /// The user cancelled them.
    Cancelled(CheckList),
}

/// A check in one cell.
pub struct Brief<'a> {
    pub name: &'a str,
    pub state: CheckState,
    pub exit_code: Option<u8>,
    pub ms: Option<u64>,
}

pub fn run(context: &Context, arguments: CheckArgs) -> Outcome {
    connect::block_on(async {
        let mut checking = Checking::new(context, &arguments).await?;
        if arguments.watch {
            return checking.watch(&arguments).await;
        }
        let asked = request(&arguments);
        let begun = checking.client.run_checks(&checking.id, &asked).await?;
        match checking.wait(begun).await? {
            Waited::Ended(list) => {
                print(context, &arguments.workspace, &list);
                verdict(&arguments.workspace, &list).map(|()| ExitCode::SUCCESS)
            }
            Waited::Cancelled(list) => {
                print(context, &arguments.workspace, &list);
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    })
}

fn request(arguments: &CheckArgs) -> RunChecks {
    RunChecks {
        names: arguments.names.clone(),
        again: arguments.again,
    }
}

/// A client that waits for checks of one workspace.
pub struct Checking<'a> {
    context: &'a Context,
    client: Client,
    id: WorkspaceId,
    signals: Signals,
}

// === impl Checking ===

impl<'a> Checking<'a> {
    async fn new(context: &'a Context, arguments: &CheckArgs) -> Result<Self, Fault> {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        Self::of(context, client, id)
    }

    pub fn of(context: &'a Context, client: Client, id: WorkspaceId) -> Result<Self, Fault> {
        Ok(Self {
            context,
            client,
            id,
            signals: Signals::listen(Attachment::Pipes)?,
        })
    }

    /// Runs every check and waits. `None`: the project has none.
    pub async fn all(&mut self) -> Result<Option<Waited>, Fault> {
        match self
            .client
            .run_checks(&self.id, &RunChecks::default())
            .await
        {
            Ok(begun) => self.wait(begun).await.map(Some),
            Err(fault) if fault.code == Code::CheckNotFound => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Waits for the end of checks that were begun. A signal cancels them.
    async fn wait(&mut self, begun: CheckList) -> Result<Waited, Fault> {
        let tree = begun.tree.clone().unwrap_or_default();
        let mut progress = Progress::new(self.context);
        let mut list = begun.clone();
        let mut is_cancelled = false;
        while !list.has_ended() {
            progress.report(&step(&list), 0, 0);
            let next = tokio::select! {
                next = self.client.checks_after(&self.id, &tree, list.revision) => next,
                _ = self.signals.ending() => {
                    // A second signal does not wait for the cancellation.
                    if is_cancelled {
                        break;
                    }
                    is_cancelled = true;
                    self.client.cancel_checks(&self.id).await
                }
            };
            match next {
                Ok(next) => list = next.asked_by(&begun),
                // The next daemon has recorded how they ended.
                Err(fault) if fault.code == Code::DaemonUnreachable => {
                    self.client = connect::started().await?;
                    list.revision = u64::MAX;
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(if is_cancelled {
            Waited::Cancelled(list)
        } else {
            Waited::Ended(list)
        })
    }

    /// Checks the tree of now, and then each new turn.
    async fn watch(&mut self, arguments: &CheckArgs) -> Result<ExitCode, Fault> {
        let mut asked = request(arguments);
        let mut events = self.client.events(None, Until::Ever).await?;
        loop {
            let begun = self.client.run_checks(&self.id, &asked).await?;
            asked.again = false;
            let (id, turn) = (self.id.clone(), begun.turn);
            let waited = tokio::select! {
                waited = self.wait(begun) => Some(waited?),
                // The daemon cancels checks of the older turn.
                newer = newer_turn(&mut events, &id, turn) => {
                    newer?;
                    None
                }
            };
            match waited {
                Some(Waited::Cancelled(list)) => {
                    print(self.context, &arguments.workspace, &list);
                    return Ok(ExitCode::from(INTERRUPTED));
                }
                Some(Waited::Ended(list)) => print(self.context, &arguments.workspace, &list),
                None => continue,
            }
            tokio::select! {
                newer = newer_turn(&mut events, &id, turn) => newer?,
                _ = self.signals.ending() => return Ok(ExitCode::from(INTERRUPTED)),
            }
        }
    }
}

/// Waits for a turn after this one.
async fn newer_turn(
    events: &mut EventStream,
    id: &WorkspaceId,
    turn: Option<u64>,
) -> Result<(), Fault> {
    loop {
        match events.next().await? {
            Some(EventLine::Event(event)) => {
                let number = event.detail.get("turn").and_then(|turn| turn.as_u64());
                let is_turn = event.kind == "turn.recorded" && event.workspace == id.as_str();
                if is_turn && number > turn {
                    return Ok(());
                }
            }
            // Checking once more finds a turn that was missed.
            Some(EventLine::Missed(_)) => return Ok(()),
            None => {
                return Err(Fault::new(
                    Code::DaemonUnreachable,
                    "the daemon ended",
                    "start it, then watch again: `holm check WS --watch`",
                ));
            }
        }
    }
}

/// What runs now, for the progress.
fn step(list: &CheckList) -> String {
    let running = list.checks.iter();
    let running = running.filter(|check| check.state == CheckState::Running);
    let names: Vec<&str> = running.map(|check| check.name.as_str()).collect();
    match names.as_slice() {
        [] => "check".to_owned(),
        names => format!("check {}", names.join(", ")),
    }
}

fn print(context: &Context, typed: &str, list: &CheckList) {
    if context.output.is_quiet() {
        let rows: Vec<String> = list.bad().map(|check| row(typed, list, check)).collect();
        if !rows.is_empty() {
            context.output.asked_for(&rows.join("\n"));
        }
        return;
    }
    context.output.result(list, || {
        let rows = list.checks.iter().map(|check| row(typed, list, check));
        rows.collect::<Vec<_>>().join("\n")
    });
}

fn row(typed: &str, list: &CheckList, check: &CheckResult) -> String {
    let width = list.checks.iter().map(|check| check.name.len());
    let (width, state) = (width.max().unwrap_or(0), check.state);
    let time = check.ms.map(duration).unwrap_or_default();
    let reason = check.reason.as_deref().unwrap_or_default();
    let reason = printable(reason.lines().next().unwrap_or_default());
    let fact = match (state, check.exit_code) {
        (CheckState::Failed, Some(TIMED_OUT)) if !reason.is_empty() => {
            format!("time limit, exit 124, {time}")
        }
        (CheckState::Failed, Some(code)) => format!("exit {code}, {time}"),
        (CheckState::Passed, _) => time,
        _ => reason,
    };
    let end = match (check.reused, state) {
        (_, CheckState::Failed) => format!("   holm logs {typed} check/{}", check.name),
        (true, _) => {
            let at = clock(&check.at, &here_and_now());
            format!("   {FAINT}same tree as {at}, not run again{FAINT:#}")
        }
        (false, _) => String::new(),
    };
    let (name, state) = (&check.name, state.as_str());
    let line = format!(
        "{} {name:width$}  {state:<9}  {fact}{end}",
        glyph(check.state)
    );
    line.trim_end().to_owned()
}

fn glyph(state: CheckState) -> String {
    match state {
        CheckState::Passed => format!("{GOOD}●{GOOD:#}"),
        CheckState::Failed => format!("{BAD}✗{BAD:#}"),
        CheckState::Running => format!("{HINT}◐{HINT:#}"),
        CheckState::Queued => format!("{HINT}◌{HINT:#}"),
        CheckState::Skipped => format!("{FAINT}–{FAINT:#}"),
        CheckState::Cancelled => format!("{WARNING}□{WARNING:#}"),
    }
}

/// All in one line: `● types 6.2 s   ✗ e2e exit 1`.
pub fn in_one_line<'a>(checks: impl Iterator<Item = Brief<'a>>) -> String {
    let cells = checks.map(|check| {
        let fact = match (check.state, check.exit_code, check.ms) {
            (CheckState::Passed, _, Some(ms)) => format!(" {}", duration(ms)),
            (CheckState::Failed, Some(code), _) => format!(" exit {code}"),
            (CheckState::Passed | CheckState::Running | CheckState::Queued, _, _) => String::new(),
            (state, _, _) => format!(" {}", state.as_str()),
        };
        format!("{} {}{fact}", glyph(check.state), printable(check.name))
    });
    cells.collect::<Vec<_>>().join("   ")
}

/// The error of a list in which something did not pass.
fn verdict(typed: &str, list: &CheckList) -> Result<(), Fault> {
    let bad: Vec<&CheckResult> = list.bad().collect();
    let Some(first) = bad.first() else {
        return Ok(());
    };
    let turn = list
        .turn
        .map_or_else(|| "the start".to_owned(), |turn| format!("@{turn}"));
    let word = match first.state {
        CheckState::Cancelled => "was cancelled",
        _ => "failed",
    };
    let message = format!(
        "{} of {} checks {word} on {turn} (tree {})",
        bad.len(),
        list.checks.len(),
        short(list.tree.as_deref().unwrap_or_default())
    );
    let hint = format!("what it printed: `holm logs {typed} check/{}`", first.name);
    Err(Fault::new(Code::CheckFailed, message, hint))
}

// === impl Brief ===

impl<'a> From<&'a CheckResult> for Brief<'a> {
    fn from(check: &'a CheckResult) -> Self {
        Self {
            name: &check.name,
            state: check.state,
            exit_code: check.exit_code,
            ms: check.ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, state: CheckState) -> CheckResult {
        CheckResult {
            name: name.to_owned(),
            state,
            exit_code: None,
            tree: "41be07c0".to_owned(),
            ms: Some(6200),
            reason: None,
            at: "2026-11-15T20:00:00Z".to_owned(),
            reused: false,
        }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn what_people_read() {
        let list = CheckList {
            checks: vec![
                check("types", CheckState::Passed),
                CheckResult {
                    exit_code: Some(2),
                    ..check("e2e", CheckState::Failed)
                },
                CheckResult {
                    exit_code: Some(124),
                    reason: Some("it hit its time limit".to_owned()),
                    ..check("slow", CheckState::Failed)
                },
                CheckResult {
                    reason: Some("nothing of [\"docs\"] changed".to_owned()),
                    ..check("docs", CheckState::Skipped)
                },
            ],
            tree: Some("41be07c0".to_owned()),
            turn: Some(4),
            revision: 0,
        };
        let rows: Vec<String> = list
            .checks
            .iter()
            .map(|check| plain(&row("x", &list, check)))
            .collect();
        assert_eq!(
            rows,
            [
                "● types  passed     6.2 s",
                "✗ e2e    failed     exit 2, 6.2 s   holm logs x check/e2e",
                "✗ slow   failed     time limit, exit 124, 6.2 s   holm logs x check/slow",
                "– docs   skipped    nothing of [\"docs\"] changed",
            ]
        );
        let fault = verdict("x", &list).unwrap_err();
        let message = "2 of 4 checks failed on @4 (tree 41be07c)";
        assert_eq!(
            (fault.code, fault.message()),
            (Code::CheckFailed, message.to_owned())
        );
        let line = in_one_line(list.checks.iter().map(Brief::from));
        let expected = "● types 6.2 s   ✗ e2e exit 2   ✗ slow exit 124   – docs skipped";
        assert_eq!(plain(&line), expected);
    }
}
