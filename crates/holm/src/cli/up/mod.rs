//! `holm up`: creates workspaces of the current repository, and starts them.
//!
//! The client reads the checkout, sends the objects that the daemon lacks, and requests the
//! workspaces; the daemon never reads the checkout. Ctrl-C undoes what was begun.

mod bring;
mod create;
mod include;
mod installed;
mod notes;
mod prepare;
mod start;
mod turn;

use super::figures::duration;
use super::origin::StartArgs;
use super::output::{FAINT, GOOD, WARNING, printable};
use super::ready::{self, Readied};
use super::rename::parse_label;
use super::{Context, Outcome, connect, exit_code, ports};
use clap::{Args, ValueHint};
use create::Wish;
use holm_api::workspace::{Workspace, WorkspaceList};
use holm_core::service::status::ServiceStatus;
use holm_core::{Code, Fault, Kind, Label};
use std::path::PathBuf;
use std::process::ExitCode;

/// Make a workspace of this repository, or of one by its URL, and start it
///
/// It starts from the current commit, or from --from. With --url the repository is cloned below the
/// first source folder (`source_dirs` of config.toml, default ~/src), unless a clone exists; then
/// it is fetched, and the workspace starts from the newest commit of the remote's default branch.
/// Without a label one is generated. A live workspace with this label is started if it was stopped,
/// and nothing else changes (with --from, --dirty or -n that is refused). Ignored files are not
/// copied, unless holm.toml, .worktreeinclude or --include name them. Ctrl-C undoes everything.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm up fix-login\n  \
    holm up fix-login --from origin/main --include .env\n  \
    holm up --dirty\n  \
    holm up second-try --at fix-login@2\n  \
    holm up --warm\n  \
    holm up -n 3 try\n  \
    holm up fix-login --url https://example.org/team/shop.git")]
pub struct UpArgs {
    /// Labels: 1 to 40 characters of a-z, 0-9 and -; default: a generated one
    #[arg(value_name = "LABEL")]
    labels: Vec<String>,
    #[command(flatten)]
    start: StartArgs,
    /// Start from a turn of another workspace (fix-login@2): its commit, and its files uncommitted
    #[arg(long, value_name = "WS@N", conflicts_with_all = ["from", "dirty", "url"])]
    at: Option<String>,
    /// A repository by its URL (https or ssh), instead of the one here
    #[arg(long, value_name = "URL", conflicts_with = "dirty", value_hint = ValueHint::Url)]
    url: Option<String>,
    /// A program with a token named the URL: refuse hosts on this machine
    #[arg(long, hide = true, requires = "url")]
    elsewhere: bool,
    /// A program named the project: if that came from a URL, use the remote's newest commit
    #[arg(long, hide = true)]
    of_project: bool,
    /// Copy an ignored file or directory of the checkout; may be given several times
    #[arg(long, value_name = "PATH")]
    include: Vec<PathBuf>,
    /// Use the ignored build output of this checkout as the project's first layer, once
    #[arg(long)]
    warm: bool,
    /// Make several at once: LABEL-1, LABEL-2, …
    #[arg(short = 'n', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: Option<u16>,
    /// Do not run `setup`, and start without what it makes
    #[arg(long)]
    no_setup: bool,
    /// If `setup` fails, keep a workspace without its output to look into
    #[arg(long, conflicts_with = "no_setup")]
    keep: bool,
    /// Do not wait for services to become ready
    #[arg(long)]
    no_wait: bool,
    /// Go on without what holm.toml asks of the host, instead of asking for approval
    #[arg(long)]
    untrusted: bool,
    /// Go on although this part of the isolation is missing; `holm doctor` names the parts
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    allow_degraded: Vec<String>,
    /// Go on although the declared limits of all running workspaces are more than the machine has
    #[arg(long)]
    force: bool,
}

pub fn run(context: &Context, arguments: UpArgs) -> Outcome {
    let wishes = wishes(&arguments)?;
    let results = connect::block_on(create::all(context, &arguments, &wishes))?;
    if arguments.count.is_some() || wishes.len() > 1 {
        return several(context, results);
    }
    match results.into_iter().next() {
        Some(Ok(readied)) => {
            if context.output.is_quiet() {
                context.output.asked_for(&readied.workspace.id);
            }
            context.output.done(&readied.workspace, || render(&readied));
            suggest(context, &readied);
            ready::outcome(context, readied.trouble.as_ref())
        }
        Some(Err(fault)) => Err(fault),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// What to type next with a new workspace.
fn suggest(context: &Context, readied: &Readied) {
    if readied.trouble.is_some() {
        return;
    }
    let label = &readied.workspace.label;
    let run = format!("holm run {label} --agent claude \"…\"");
    let open = format!("holm open {label}");
    let mut next = vec![("run an agent", run.as_str())];
    let is_page = |port: &holm_api::workspace::Port| {
        let url = port.url.as_deref();
        url.is_some_and(|url| url.starts_with("http://"))
    };
    if readied.workspace.ports.iter().any(is_page) {
        next.push(("look at it", &open));
    }
    context.output.next(&next);
}

/// One request per workspace.
fn wishes(arguments: &UpArgs) -> Result<Vec<Wish>, Fault> {
    let mut labels: Vec<Label> = Vec::new();
    for label in &arguments.labels {
        let label = parse_label(label)?;
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let is_plain =
        arguments.start.is_default() && arguments.at.is_none() && arguments.count.is_none();
    if labels.len() > 1 {
        if arguments.count.is_some() {
            let message = "-n takes one label and numbers it";
            return Err(Fault::new(
                Code::Usage,
                message,
                "leave out -n, or all labels but one",
            ));
        }
        let wish = |label| Wish {
            label: Some(label),
            is_reused: is_plain,
        };
        return Ok(labels.into_iter().map(wish).collect());
    }
    Ok(match (labels.pop(), arguments.count) {
        (label, None) if is_plain => vec![Wish {
            is_reused: label.is_some(),
            label,
        }],
        (label, None) => vec![Wish::new(label)],
        (None, Some(count)) => (0..count).map(|_| Wish::new(None)).collect(),
        (Some(label), Some(count)) => numbered(&label, count)?
            .into_iter()
            .map(|label| Wish::new(Some(label)))
            .collect(),
    })
}

/// `x-1`, `x-2`, …; a label without room for the number is refused rather than shortened.
fn numbered(label: &Label, count: u16) -> Result<Vec<Label>, Fault> {
    (1..=count)
        .map(|number| parse_label(&format!("{label}-{number}")))
        .collect()
}

fn several(context: &Context, results: Vec<Result<Readied, Fault>>) -> Outcome {
    let (mut workspaces, mut heads, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(readied) => {
                heads.push(head(&readied));
                workspaces.push(readied.workspace);
                faults.extend(readied.trouble);
            }
            Err(fault) => faults.push(fault),
        }
    }
    let list = WorkspaceList {
        next: None,
        workspaces,
        notes: Vec::new(),
    };
    if context.output.is_quiet() && !list.workspaces.is_empty() {
        let ids: Vec<&str> = list.workspaces.iter().map(|one| one.id.as_str()).collect();
        context.output.asked_for(&ids.join("\n"));
    }
    if !list.workspaces.is_empty() || faults.is_empty() {
        context.output.done(&list, || {
            // The notes are the same for all, so they are printed once.
            let notes = list.workspaces.first().map(notes).unwrap_or_default();
            heads.join("\n") + &notes
        });
    }
    for fault in &faults {
        context.output.fault(fault);
    }
    Ok(match faults.first() {
        None => ExitCode::SUCCESS,
        // When all failed for the same reason, that reason is the result.
        Some(first)
            if list.workspaces.is_empty() && faults.iter().all(|f| f.code == first.code) =>
        {
            exit_code(first)
        }
        Some(_) => ExitCode::from(Kind::Failed.exit_code()),
    })
}

fn render(readied: &Readied) -> String {
    head(readied) + &notes(&readied.workspace)
}

/// The new workspace, its services, and the path of its code.
fn head(Readied { workspace, trouble }: &Readied) -> String {
    let label = printable(&workspace.label);
    let is_ready = |service: &ServiceStatus| service.state != "starting";
    let is_well = trouble.is_none() && workspace.services.iter().all(is_ready);
    let how = match (workspace.created, is_well) {
        (Some(false), true) => "was there; ready in",
        (_, true) => "ready in",
        (Some(false), false) => "was there; runs, but not all of it is ready, after",
        (_, false) => "runs, but not all of it is ready, after",
    };
    let mark = match trouble {
        None => format!("{GOOD}✓{GOOD:#}"),
        Some(_) => format!("{WARNING}!{WARNING:#}"),
    };
    let mut text = format!(
        "{mark} {label}  {}  {how} {}",
        workspace.id,
        duration(workspace.ms.unwrap_or_default())
    );
    for line in ports::lines(&workspace.ports) {
        text.push_str(&format!("\n  {}", printable(&line)));
    }
    for service in &workspace.services {
        text.push_str(&format!("\n{}", ready::line(service)));
    }
    if !workspace.isolation.degraded.is_empty() {
        let degraded = printable(&workspace.isolation.degraded.join(", "));
        text.push_str(&format!("\n  {WARNING}degraded{WARNING:#}  {degraded}"));
    }
    text
}

fn notes(workspace: &Workspace) -> String {
    let notes = workspace.notes.iter().map(|note| {
        let note = printable(note);
        format!("\n  {FAINT}note{FAINT:#}  {note}")
    });
    notes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ls::tests::workspace;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        up: UpArgs,
    }

    fn parse(line: &[&str]) -> Result<UpArgs, clap::Error> {
        let line = std::iter::once("up").chain(line.iter().copied());
        Only::try_parse_from(line).map(|only| only.up)
    }

    fn wished(line: &[&str]) -> Result<Vec<(Option<String>, bool)>, Code> {
        let wishes = wishes(&parse(line).unwrap()).map_err(|fault| fault.code)?;
        let wishes = wishes.into_iter();
        Ok(wishes
            .map(|wish| (wish.label.map(|label| label.to_string()), wish.is_reused))
            .collect())
    }

    #[test]
    fn labels_and_whether_they_are_reused() {
        let some = |label: &str, is_reused| (Some(label.to_owned()), is_reused);
        assert_eq!(wished(&["x"]), Ok(vec![some("x", true)]));
        assert_eq!(wished(&[]), Ok(vec![(None, false)]));
        assert_eq!(wished(&["x", "--dirty"]), Ok(vec![some("x", false)]));
        assert_eq!(wished(&["x", "--from", "main"]), Ok(vec![some("x", false)]));
        assert_eq!(
            wished(&["-n", "2", "x"]),
            Ok(vec![some("x-1", false), some("x-2", false)])
        );
        assert_eq!(wished(&["-n", "2"]), Ok(vec![(None, false), (None, false)]));
        assert_eq!(
            wished(&["x", "y", "x"]),
            Ok(vec![some("x", true), some("y", true)])
        );
        assert_eq!(wished(&["-n", "2", "x", "y"]), Err(Code::Usage));
        assert_eq!(wished(&["Fix"]), Err(Code::InvalidLabel));
        let long = "a".repeat(40);
        assert_eq!(wished(&["-n", "2", &long]), Err(Code::InvalidLabel));
    }

    #[test]
    fn what_cannot_be_together() {
        assert!(parse(&["--dirty", "--from", "main"]).is_err());
        assert!(parse(&["--dirty", "--url", "https://example.org/x"]).is_err());
        assert!(parse(&["-n", "0"]).is_err());
        assert!(parse(&["--warm"]).unwrap().warm);
        let parts = parse(&["--allow-degraded=a,b", "--allow-degraded", "c"]).unwrap();
        assert_eq!(parts.allow_degraded, ["a", "b", "c"]);
    }

    #[test]
    fn what_people_read() {
        let mut made = workspace("fix-login");
        made.created = Some(true);
        made.ms = Some(31);
        made.notes = vec!["not brought: .env".to_owned()];
        let made = Readied {
            workspace: made,
            trouble: None,
        };
        let text = anstream::adapter::strip_str(&render(&made)).to_string();
        assert_eq!(
            text,
            "✓ fix-login  waaaaaaaaaaaa  ready in 31 ms\n  \
             degraded  landlock\n  note  not brought: .env"
        );
    }
}
