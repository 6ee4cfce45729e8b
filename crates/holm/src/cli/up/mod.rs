//! `holm up`: creates workspaces of the current repository, and starts them.
//!
//! The client reads the checkout, sends the objects that the daemon lacks, and requests the
//! workspaces; the daemon never reads the checkout. Ctrl-C undoes what was begun.

mod bring;
mod create;
mod include;
mod initialize;
mod installed;
mod notes;
mod prepare;
mod start;
mod turn;

use super::figures::duration;
use super::left::rows;
use super::origin::StartArgs;
use super::output::{FAINT, GOOD, STRONG, WARNING, printable};
use super::ready::{self, Readied, Trouble};
use super::rename::parse_label;
use super::{Context, Outcome, connect, ports};
use clap::{Args, ValueHint};
use create::Wish;
use holm_api::workspace::{Workspace, WorkspaceList};
use holm_core::service::status::ServiceStatus;
use holm_core::{Code, Fault, Kind, Label};
use std::path::PathBuf;
use std::process::ExitCode;

pub use prepare::not_brought;

/// How a driver's error begins a line about a refused connection.
const REFUSED: &str = "the gateway refused ";

/// Create workspaces from this repository, or from one by its URL, and start them
///
/// It starts from the current commit, or from --from. With --url the repository is cloned below the
/// first source folder (`source_dirs` of config.toml, default ~/src), unless a clone exists; then
/// it is fetched, and the workspace starts from the newest commit of the remote's default branch.
/// Without LABEL, holm picks one, such as `pale-heron`. A live workspace with this label is started if it was stopped,
/// and nothing else changes (with --from, --dirty or -n that is refused). Ignored files are not
/// copied, unless holm.toml, .worktreeinclude or --include name them. Ctrl-C undoes everything.
#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:\n  \
    holm up fix-login\n  \
    holm up fix-login --from origin/main --include .env\n  \
    holm up --dirty\n  \
    holm up second-try --at fix-login@2\n  \
    holm up --warm\n  \
    holm up fix-login --driver docker\n  \
    holm up -n 3 try\n  \
    holm up fix-login --url https://example.org/team/shop.git")]
pub struct UpArgs {
    /// Label: 1 to 40 characters of a-z, 0-9 and -. Default: a random one
    #[arg(value_name = "LABEL")]
    labels: Vec<String>,
    #[command(flatten, next_help_heading = "What to create")]
    start: StartArgs,
    /// Start from a turn of another workspace (fix-login@2): its commit, and its files uncommitted
    #[arg(long, value_name = "WS@N", conflicts_with_all = ["from", "dirty", "url"], help_heading = "What to create")]
    at: Option<String>,
    /// A repository by its URL (https or ssh), instead of the one here
    #[arg(long, value_name = "URL", conflicts_with = "dirty", value_hint = ValueHint::Url, help_heading = "What to create")]
    url: Option<String>,
    /// A program with a token named the URL: refuse hosts on this machine
    #[arg(long, hide = true, requires = "url")]
    elsewhere: bool,
    /// A program named the project: if that came from a URL, use the remote's newest commit
    #[arg(long, hide = true)]
    of_project: bool,
    /// Copy an ignored file or directory of the checkout; may be given several times
    #[arg(long, value_name = "PATH", help_heading = "What to create")]
    include: Vec<PathBuf>,
    /// Reuse this checkout's ignored build output (node_modules, target) in new workspaces
    #[arg(long, help_heading = "What to create")]
    warm: bool,
    /// Make several at once: LABEL-1, LABEL-2, …
    #[arg(short = 'n', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000), help_heading = "What to create")]
    count: Option<u16>,
    /// Run in containers of Docker or Podman (docker) or in holm's own namespaces (linux); default: as holm.toml says
    #[arg(long, value_name = "DRIVER", value_parser = ["linux", "docker", "kubernetes"], help_heading = "What to create")]
    driver: Option<String>,
    /// Do not run `setup`, and start without what it makes
    #[arg(long, help_heading = "Waiting")]
    no_setup: bool,
    /// If `setup` fails, keep the workspace as it left it, to look into
    #[arg(long, conflicts_with = "no_setup", help_heading = "Waiting")]
    keep: bool,
    /// Do not wait for services to become ready
    #[arg(long, help_heading = "Waiting")]
    no_wait: bool,
    /// Go on without what holm.toml asks of the host, instead of asking for approval
    #[arg(long, help_heading = "Safety")]
    untrusted: bool,
    /// Go on although this part of the isolation is missing; `holm doctor` names the parts
    #[arg(
        long,
        value_name = "PART",
        value_delimiter = ',',
        help_heading = "Safety"
    )]
    allow_degraded: Vec<String>,
    /// Start even if the limits of all running workspaces exceed this machine's memory or CPUs
    #[arg(long, help_heading = "Safety")]
    force: bool,
}

// === impl UpArgs ===

impl UpArgs {
    /// A live workspace with the label is returned as it is.
    fn is_plain(&self) -> bool {
        self.start.is_default() && self.at.is_none() && self.count.is_none()
    }
}

pub fn run(context: &Context, arguments: UpArgs) -> Outcome {
    let wishes = wishes(&arguments)?;
    let results = connect::block_on(create::all(context, &arguments, &wishes))?;
    if arguments.count.is_some() || wishes.len() > 1 {
        return several(context, &arguments, results);
    }
    match results.into_iter().next() {
        Some(Ok(readied)) => {
            if context.output.is_quiet() {
                context.output.asked_for(&readied.workspace.id);
            }
            if context.output.is_json() {
                context.output.document(&readied.document());
            }
            context.output.remark(&render(&readied));
            suggest(context, &readied);
            ready::outcome(context, readied.trouble.as_ref())
        }
        Some(Err(fault)) => ready::outcome(context, Some(&trouble_of(&arguments, fault))),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// A new workspace of the repository here, for a command that starts with one.
pub async fn new(context: &Context, label: Option<&str>) -> Result<Workspace, Fault> {
    let label = label.map(parse_label).transpose()?;
    let arguments = UpArgs::default();
    let mut made = create::all(context, &arguments, &[Wish::new(label)]).await?;
    let readied = made.pop().ok_or_else(|| {
        let message = "the daemon did not make the workspace";
        Fault::new(Code::Internal, message, "try again")
    })??;
    context.output.remark(&render(&readied));
    Ok(readied.workspace)
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
    let is_plain = arguments.is_plain();
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

fn several(context: &Context, arguments: &UpArgs, results: Vec<Result<Readied, Fault>>) -> Outcome {
    let (mut readied, mut troubles) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(one) => readied.push(one),
            Err(fault) => troubles.push(trouble_of(arguments, fault)),
        }
    }
    let list = WorkspaceList {
        workspaces: readied.iter().map(Readied::document).collect(),
        ..WorkspaceList::default()
    };
    if context.output.is_quiet() && !readied.is_empty() {
        let ids: Vec<&str> = list.workspaces.iter().map(|one| one.id.as_str()).collect();
        context.output.asked_for(&ids.join("\n"));
    }
    let nothing_was_made = readied.is_empty();
    if !nothing_was_made || troubles.is_empty() {
        context.output.done(&list, || {
            let heads: Vec<String> = readied.iter().map(head).collect();
            // The notes are the same for all, so they are printed once.
            let notes = readied.first().map(notes).unwrap_or_default();
            heads.join("\n") + &notes
        });
    }
    let found: Vec<Trouble> = readied.into_iter().filter_map(|one| one.trouble).collect();
    let troubles: Vec<Trouble> = found.into_iter().chain(troubles).collect();
    troubles.iter().for_each(|trouble| trouble.print(context));
    Ok(match troubles.first() {
        None => ExitCode::SUCCESS,
        // When all failed for the same reason, that reason is the result.
        Some(first)
            if nothing_was_made && troubles.iter().all(|one| one.code() == first.code()) =>
        {
            first.exit_code()
        }
        Some(_) => ExitCode::from(Kind::Failed.exit_code()),
    })
}

/// A failure as people read it: a label that is taken names the option that does not fit, and the
/// output of a set-up that failed stands in a gutter before the error.
fn trouble_of(arguments: &UpArgs, fault: Fault) -> Trouble {
    if fault.code == Code::AlreadyExists {
        return exists(arguments, fault);
    }
    let message = fault.message();
    let mut lines = message.lines();
    let (Code::SetupFailed, Some(first)) = (fault.code, lines.next()) else {
        return Trouble::from(fault);
    };
    let rows = lines.map(|line| match line.trim_start().strip_prefix(REFUSED) {
        Some(target) => format!("  {WARNING}◆{WARNING:#} refused: {}", printable(target)),
        None => format!("  {FAINT}│{FAINT:#} {}", printable(line.trim_start())),
    });
    let rows = rows.collect();
    let mut headline = format!(
        "setup failed: {}",
        first.replace(" of `setup`", "").replace('`', "")
    );
    if !arguments.keep {
        headline.push_str("; nothing was created");
    }
    Trouble::new(fault, headline, rows)
}

/// The label is taken, and options ask for a new workspace.
fn exists(arguments: &UpArgs, fault: Fault) -> Trouble {
    let (option, hint) = match (&arguments.start.from, arguments.labels.as_slice()) {
        (Some(from), [label]) => (
            format!("--from {from}"),
            format!(
                "move it: `holm assign {label} {from}`\nanother label: `holm up LABEL --from {from}`"
            ),
        ),
        (None, [_]) if arguments.start.dirty => (
            "--dirty".to_owned(),
            "another label: `holm up LABEL --dirty`".to_owned(),
        ),
        _ => return Trouble::from(fault),
    };
    let label = &arguments.labels[0];
    let headline = format!("{label} exists; {option} works for new workspaces only");
    Trouble::new(fault, headline, Vec::new()).with_hint(hint)
}

// === impl Readied ===

impl Readied {
    /// The JSON output, whose notes also say what was not copied or started.
    fn document(&self) -> Workspace {
        let mut workspace = self.workspace.clone();
        workspace.notes.extend(self.left.notes.iter().cloned());
        workspace
    }
}

fn render(readied: &Readied) -> String {
    head(readied) + &notes(readied)
}

/// The workspace and its addresses. A ready service needs no line: its address is the proof.
fn head(readied: &Readied) -> String {
    let workspace = &readied.workspace;
    let label = printable(&workspace.label);
    let mark = match readied.trouble {
        None => format!("{GOOD}✓{GOOD:#}"),
        Some(_) => format!("{WARNING}▲{WARNING:#}"),
    };
    let mut text = format!(
        "{mark} {STRONG}{label}{STRONG:#}  {FAINT}{}{FAINT:#}  {}",
        workspace.id,
        how_it_is(readied),
    );
    for line in ports::lines(&workspace.ports) {
        text.push_str(&format!("\n  {}", printable(&line)));
    }
    if !workspace.isolation.degraded.is_empty() {
        let degraded = printable(&workspace.isolation.degraded.join(", "));
        text.push_str(&format!(
            "\n  {WARNING}▲{WARNING:#} without {degraded} (holm doctor)"
        ));
    }
    text
}

/// `ready in 38 s`, `was running`, `running after 16 s; web failed, 3 ready`.
fn how_it_is(
    Readied {
        workspace, trouble, ..
    }: &Readied,
) -> String {
    let time = duration(workspace.ms.unwrap_or_default());
    let named = |is: &dyn Fn(&ServiceStatus) -> bool| -> Vec<String> {
        let services = workspace.services.iter().filter(|one| is(one));
        services.map(|one| printable(&one.name)).collect()
    };
    let starting = named(&|one| one.state == "starting");
    let is_old = workspace.created == Some(false) && workspace.started != Some(true);
    if trouble.is_none() && starting.is_empty() {
        return match (workspace.created, workspace.started) {
            (Some(false), Some(true)) => format!("started in {time}"),
            (Some(false), _) => "was running".to_owned(),
            _ => format!("ready in {time}"),
        };
    }
    let failed = named(&ready::is_culprit);
    let ready = named(&|one| one.state == "ready").len();
    let mut parts = Vec::new();
    for (names, word) in [(failed, "failed"), (starting, "starting")] {
        if !names.is_empty() {
            parts.push(format!("{} {word}", names.join(", ")));
        }
    }
    if ready > 0 {
        parts.push(format!("{ready} ready"));
    }
    let head = if is_old {
        "was running".to_owned()
    } else {
        format!("running after {time}")
    };
    if parts.is_empty() {
        return head;
    }
    format!("{head}; {}", parts.join(", "))
}

fn notes(readied: &Readied) -> String {
    let mut lines = Vec::new();
    if let Some(setup) = readied
        .setup
        .filter(|_| readied.workspace.created != Some(false))
    {
        let took = duration(setup.as_millis() as u64);
        lines.push(format!(
            "  {FAINT}setup took {took}; workspaces with the same inputs reuse it{FAINT:#}"
        ));
    }
    lines.extend(rows(&readied.left.rows));
    for note in &readied.workspace.notes {
        lines.push(format!("  {FAINT}note{FAINT:#}  {}", printable(note)));
    }
    lines.into_iter().map(|line| format!("\n{line}")).collect()
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
        made.notes = vec!["the disk is nearly full".to_owned()];
        let mut made = Readied::from(made);
        made.setup = Some(std::time::Duration::from_secs(31));
        let shown = |made: &Readied| anstream::adapter::strip_str(&render(made)).to_string();
        assert_eq!(
            shown(&made),
            "✓ fix-login  waaaaaaaaaaaa  ready in 31 ms\n  \
             ▲ without landlock (holm doctor)\n  \
             setup took 31 s; workspaces with the same inputs reuse it\n  \
             note  the disk is nearly full"
        );
        made.workspace.isolation.degraded.clear();
        made.workspace.notes.clear();
        (made.workspace.created, made.workspace.started) = (Some(false), Some(false));
        assert_eq!(shown(&made), "✓ fix-login  waaaaaaaaaaaa  was running");
        made.workspace.started = Some(true);
        assert_eq!(shown(&made), "✓ fix-login  waaaaaaaaaaaa  started in 31 ms");
        let service = |name: &str, state: &str| {
            let service = serde_json::json!({
                "name": name, "state": state, "pid": null, "restarts": 0, "port": null,
                "reason": null,
            });
            serde_json::from_value(service).unwrap()
        };
        made.workspace.services = vec![service("web", "failed"), service("db", "ready")];
        made.trouble = Some(Trouble::from(Fault::new(Code::ServiceNotReady, "x", "")));
        assert_eq!(
            shown(&made),
            "▲ fix-login  waaaaaaaaaaaa  running after 31 ms; web failed, 1 ready"
        );
    }
}
