//! `holm review`: risks, evidence and changed files of a workspace's last turn.

use super::check::{Brief, in_one_line};
use super::completions::labels;
use super::diff;
use super::figures::{clock, count, cut, here_and_now};
use super::output::{BAD, FAINT, GOOD, STRONG, WARNING, hanging, printable};
use super::turns::{lines, short};
use super::work::Subject;
use super::{Context, Outcome, comments, connect, terminal};
use crate::wiring::guest;
use clap::Args;
use holm_api::comment::Comment;
use holm_api::review::{
    Approval, ApprovalBasis, Evidence, Looked, Review, ReviewFile, Risk, VolumeEvidence,
};
use holm_core::comment::CommentState;
use holm_core::turn::TurnNumber;
use holm_core::{Code, Fault};
use std::io::IsTerminal;
use std::process::ExitCode;

/// Show risks, evidence and changes of a workspace, since you last looked
///
/// What holm recorded comes first: what is risky about the change, and what happened (commands with their exit
/// codes, hosts, data, processes). Nothing of it is what an agent says. On a terminal the difference follows in
/// a pager. The review is about the last turn; --mark records the tree of now first. --looked records that you
/// looked: the next review begins there, and a file that changes again is unviewed again.
///
/// With --json: {from,to,tree,risks:[{path,kind,text}],evidence:{commands,checks,hosts,volumes,outside,
/// processes},files:[{path,operation,added,removed,viewed}],comments}; from is null for the commit that the
/// workspace started from.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm review fix-login\n  holm review fix-login --since base --stat\n  \
    holm review fix-login --since @2\n  holm review fix-login --looked"
)]
pub struct ReviewArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Begin at the last look, at the base (the starting commit), or at a turn such as @2
    #[arg(long, value_name = "look|base|@N", default_value = "look")]
    since: String,
    /// Only risks, evidence and the list of files, without the difference
    #[arg(long)]
    stat: bool,
    /// Record that you looked
    #[arg(long)]
    looked: bool,
    /// Record the tree of now as a turn first
    #[arg(long)]
    mark: bool,
}

pub fn run(context: &Context, arguments: ReviewArgs) -> Outcome {
    check_since(&arguments.since)?;
    let is_paged = !arguments.stat && !context.output.is_json() && std::io::stdout().is_terminal();
    let (label, review, approval) = connect::block_on(async {
        let subject = Subject::find(&arguments.workspace).await?;
        let (client, id) = (&subject.client, &subject.id);
        if !guest::is_inside() {
            subject.send_branches().await?;
        }
        if arguments.mark {
            client.mark_turn(id).await?;
        }
        let review = client.review(id, &arguments.since).await?;
        if arguments.looked {
            let turn = review.to;
            client.looked(id, &Looked { turn, paths: None }).await?;
        }
        let workspace = client.workspace(id).await?;
        // A program inside sees what it did, not what a person thinks of it.
        let approval = if guest::is_inside() {
            None
        } else {
            Some(client.approval(id).await?)
        };
        let label = format!("{}/{}", workspace.project, workspace.label);
        Ok((label, review, approval))
    })?;
    if context.output.is_quiet() {
        let rows: Vec<String> = review.risks.iter().map(risk_row).collect();
        if !rows.is_empty() {
            context.output.asked_for(&rows.join("\n"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let rendered = || render(&label, &review, approval.as_ref());
    context.output.result(&review, rendered);
    for note in &review.notes {
        let note = printable(note);
        context
            .output
            .remark(&format!("{WARNING}note:{WARNING:#} {note}"));
    }
    if review.changed_since {
        let name = &arguments.workspace;
        context.output.remark(&format!(
            "{WARNING}note:{WARNING:#} it changed since @{}: `holm review {name} --mark` records that",
            review.to.unwrap_or_default()
        ));
    }
    if is_paged && !review.files.is_empty() {
        diff::show_turns(context, &arguments.workspace, review.from, review.to)?;
    }
    suggest(context, &arguments.workspace, &review);
    Ok(ExitCode::SUCCESS)
}

/// Only what the daemon knows is sent.
fn check_since(text: &str) -> Result<(), Fault> {
    if matches!(text, "look" | "base") || TurnNumber::parse(text).is_some() {
        return Ok(());
    }
    Err(Fault::new(
        Code::Usage,
        format!("`{}` is neither look, base nor a turn", text.escape_debug()),
        "for example `--since base`, or `--since @2`",
    ))
}

fn suggest(context: &Context, typed: &str, review: &Review) {
    let Some(tree) = &review.tree else { return };
    let approve = format!("approve {}", short(tree));
    let read = match review.from {
        Some(from) => format!("holm diff {typed} --from @{from}"),
        None => format!("holm diff {typed}"),
    };
    let yes = format!("holm approve {typed}");
    context
        .output
        .next(&[("read the change", &read), (&approve, &yes)]);
}

/// The rows below an approval in the audit record.
pub(super) fn basis_rows(basis: &ApprovalBasis) -> Vec<String> {
    let risks = basis.risks.iter().map(risk_row);
    let evidence = evidence(&basis.evidence);
    risks
        .map(|row| format!("  {row}"))
        .chain(evidence)
        .collect()
}

/// Whether the reviewed tree is approved, or an earlier approval is void.
fn approval_row(approval: &Approval, review: &Review) -> Option<String> {
    let (tree, turn) = (approval.tree.as_ref()?, approval.turn?);
    if Some(tree) != review.tree.as_ref() {
        return Some(format!(
            "{WARNING}◆{WARNING:#} the approval of @{turn} is void: the tree changed since"
        ));
    }
    let (by, at) = (approval.by.as_deref()?, approval.at.as_deref()?);
    let at = clock(at, &here_and_now());
    Some(format!(
        "{GOOD}✓{GOOD:#} approved by {} at {at}",
        printable(by)
    ))
}

fn render(label: &str, review: &Review, approval: Option<&Approval>) -> String {
    let Some(to) = review.to else {
        return format!("{STRONG}{label}{STRONG:#}  nothing has changed");
    };
    let mut text = vec![heading(label, review, to)];
    text.extend(approval.and_then(|approval| approval_row(approval, review)));
    text.push(String::new());
    if review.risks.is_empty() {
        text.push("Risks none".to_owned());
    } else {
        text.push(format!("Risks {}", review.risks.len()));
        text.extend(review.risks.iter().map(risk_row));
    }
    text.extend([String::new(), "Evidence".to_owned()]);
    text.extend(evidence(&review.evidence));
    let comments = review.comments.iter();
    let comments: Vec<_> = comments.filter(|comment| is_unsettled(comment)).collect();
    if !comments.is_empty() {
        text.extend([
            String::new(),
            "Comments, with what changed since".to_owned(),
        ]);
        text.extend(comments.into_iter().flat_map(comments::rows));
    }
    if !review.files.is_empty() {
        text.extend([String::new(), "Files, riskiest first".to_owned()]);
        let width = review
            .files
            .iter()
            .map(|file| printable(&file.path).chars().count());
        let width = width.max().unwrap_or(0).min(50);
        text.extend(review.files.iter().map(|file| file_row(file, width)));
    }
    text.join("\n")
}

/// A resolved comment without a change of its lines is done.
fn is_unsettled(comment: &Comment) -> bool {
    comment.state == CommentState::Open || !comment.changes.is_empty()
}

fn heading(label: &str, review: &Review, to: u64) -> String {
    let from = match review.from {
        Some(from) => format!("@{from}"),
        None => "base".to_owned(),
    };
    let since = match (&review.looked_at, review.from) {
        (Some(at), Some(_)) => format!(", since you looked at {}", clock(at, &here_and_now())),
        _ => String::new(),
    };
    let added: u64 = review.files.iter().filter_map(|file| file.added).sum();
    let removed: u64 = review.files.iter().filter_map(|file| file.removed).sum();
    format!(
        "{STRONG}{label}{STRONG:#}  {from} → @{to}{since}    {} {}  {FAINT}{}{FAINT:#}",
        count(review.files.len() as u64, "file"),
        lines(Some(added), Some(removed)),
        short(review.tree.as_deref().unwrap_or_default())
    )
}

/// The glyph of a weight.
fn glyph(weight: &str) -> String {
    match weight {
        "high" => format!("{BAD}✗{BAD:#}"),
        "middle" => format!("{WARNING}◆{WARNING:#}"),
        _ => format!("{WARNING}▲{WARNING:#}"),
    }
}

fn risk_row(risk: &Risk) -> String {
    let before = format!("{} {:<16} ", glyph(&risk.weight), risk.kind);
    let text = printable(&risk.text);
    // A risk of the whole tree has no path.
    let text = if risk.path.is_empty() {
        text
    } else {
        format!("{}: {text}", printable(&risk.path))
    };
    hanging(&before, &text, terminal::columns_to_fill())
}

/// Of files that are too many, or cannot be read.
const NOT_ALL: &str = "not all files were looked at";

fn evidence(evidence: &Evidence) -> Vec<String> {
    let row = |name: &str, text: String| format!("  {name:<16} {text}");
    let mut rows = Vec::new();
    if !evidence.checks.is_empty() {
        let checks = evidence.checks.iter().map(|check| Brief {
            name: &check.name,
            state: check.state,
            exit_code: check.exit_code,
            ms: check.ms,
        });
        rows.push(row("checks", in_one_line(checks)));
    }
    rows.push(row("commands", commands(evidence)));
    let bad: Vec<String> = evidence
        .commands
        .iter()
        .filter(|command| command.kind == "service" && command.state != "ready")
        .map(|service| match service.exit_code {
            Some(code) => format!("{} {} (exit {code})", service.name, service.state),
            None => format!("{} {}", service.name, service.state),
        })
        .collect();
    if !bad.is_empty() {
        rows.push(row("services", bad.join(", ")));
    }
    rows.push(row("hosts", hosts(evidence)));
    let volumes: Vec<String> = evidence.volumes.iter().map(volume).collect();
    let volumes = volumes.iter().map(String::as_str).collect();
    rows.push(row("data", listed(volumes, "", "no volume changed")));
    let outside: Vec<String> = evidence
        .outside
        .iter()
        .map(|files| match files.partial {
            true => format!("{} ({NOT_ALL})", printable(&files.path)),
            false => printable(&files.path),
        })
        .collect();
    let outside = outside.iter().map(String::as_str).collect();
    rows.push(row(
        "outside",
        listed(outside, "", "nothing written outside the tree"),
    ));
    let left = evidence
        .processes
        .iter()
        .filter(|process| process.service.is_none());
    let left: Vec<String> = left
        .map(|process| cut(&printable(&process.command), 40))
        .collect();
    if !left.is_empty() {
        let shown = left.iter().map(String::as_str).collect();
        let count = format!("{} left running: ", left.len());
        rows.push(row("processes", listed(shown, &count, "")));
    }
    rows
}

/// `pg (12 files written, used by service db)`.
fn volume(volume: &VolumeEvidence) -> String {
    let mut parts = Vec::new();
    if volume.replaced {
        parts.push("replaced".to_owned());
    }
    match volume.files {
        0 if volume.replaced || volume.partial => {}
        0 => parts.push("files deleted".to_owned()),
        files => parts.push(format!("{} written", count(files, "file"))),
    }
    if volume.partial {
        parts.push(NOT_ALL.to_owned());
    }
    if volume.shared {
        parts.push("shared with other workspaces".to_owned());
    }
    if !volume.services.is_empty() {
        parts.push(format!("used by service {}", volume.services.join(", ")));
    }
    format!("{} ({})", volume.name, parts.join(", "))
}

fn commands(evidence: &Evidence) -> String {
    let runs = evidence
        .commands
        .iter()
        .filter(|command| command.kind == "run");
    let runs: Vec<_> = runs.collect();
    let failed: Vec<String> = runs
        .iter()
        .filter(|run| run.exit_code.is_some_and(|code| code != 0))
        .map(|run| {
            let command = printable(&run.command);
            format!("{command} (exit {})", run.exit_code.unwrap_or_default())
        })
        .collect();
    let mut text = count(runs.len() as u64, "run");
    if !failed.is_empty() {
        text.push_str(&format!(
            "; {WARNING}◆{WARNING:#} failed: {}",
            failed.join(", ")
        ));
    }
    text
}

fn hosts(evidence: &Evidence) -> String {
    let (refused, reached): (Vec<_>, Vec<_>) = evidence.hosts.iter().partition(|host| host.refused);
    let names: Vec<String> = refused
        .iter()
        .map(|host| match host.port {
            Some(port) => format!("{}:{port}", printable(&host.host)),
            None => printable(&host.host),
        })
        .collect();
    let mut text = format!("{} reached", reached.len());
    if !names.is_empty() {
        text.push_str(&format!(
            "; {WARNING}◆{WARNING:#} refused {}",
            names.join(", ")
        ));
    }
    text
}

/// The first few names behind a text, or another text if there are none.
fn listed(names: Vec<&str>, before: &str, none: &str) -> String {
    const MOST: usize = 5;
    if names.is_empty() {
        return none.to_owned();
    }
    let more = if names.len() > MOST { ", …" } else { "" };
    let shown = names[..names.len().min(MOST)].join(", ");
    format!("{before}{shown}{more}")
}

fn file_row(file: &ReviewFile, width: usize) -> String {
    let path = printable(&file.path);
    let mark = if file.risks.is_empty() {
        " ".to_owned()
    } else {
        format!("{WARNING}◆{WARNING:#}")
    };
    let mut words: Vec<String> = file.risks.clone();
    words.dedup();
    if file.viewed {
        words.push("viewed".to_owned());
    }
    let operation = match file.operation.as_str() {
        "create" => "A",
        "delete" => "D",
        "rename" => "R",
        _ => "M",
    };
    let lines = lines(file.added, file.removed);
    let line = format!(
        "{mark} {operation} {path:<width$}  {lines}   {}",
        words.join(", ")
    );
    line.trim_end().to_owned()
}
