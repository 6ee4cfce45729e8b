//! `holm ls`: the workspaces of all projects, or the trash.

use super::figures::{age, span};
use super::groups::{self, Activity, Page, start_of};
use super::output::{FAINT, STRONG, WARNING, printable};
use super::table::Table;
use super::{Context, Outcome, connect, terminal};
use clap::Args;
use holm_api::Workspace;
use holm_core::config::rough_size;
use holm_core::service::status::ServiceStatus;
use std::io::IsTerminal;
use std::process::ExitCode;

/// List the workspaces of all projects
///
/// Those that need you come first, for the reasons of `holm inbox`: a question of an agent, a failure, a limit that
/// was hit. Then finished work that you have not read, those that work, those that are idle, and the stopped ones. `unsaved` means that there are
/// uncommitted changes. In a pipe the group is the first column and nothing is cut.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm ls\n  holm ls --long\n  holm ls --trash")]
pub struct LsArgs {
    /// List what is in the trash, and when each will be deleted
    #[arg(long)]
    trash: bool,
    /// Add ids, refs, services and ages
    #[arg(short, long, conflicts_with = "trash")]
    long: bool,
}

pub fn run(context: &Context, arguments: LsArgs) -> Outcome {
    let is_grouped = !arguments.trash && !arguments.long && !context.output.is_json();
    let columns = usize::from(terminal::size().cols);
    let (list, activity) = connect::block_on(async {
        let client = connect::started().await?;
        if arguments.trash {
            return Ok((client.trash().await?, Activity::default()));
        }
        if !is_grouped || context.output.is_quiet() {
            return Ok((client.workspaces().await?, Activity::default()));
        }
        Activity::find(&client, columns).await
    })?;
    for note in &list.notes {
        warn(context, note);
    }
    if list.workspaces.is_empty() && !context.output.is_json() {
        context.output.remark(if arguments.trash {
            "The trash is empty."
        } else {
            "No workspaces yet. `holm up` in a git repository makes one."
        });
        return Ok(ExitCode::SUCCESS);
    }
    let now = jiff::Timestamp::now();
    if context.output.is_quiet() {
        context.output.asked_for(&names(&list.workspaces));
        return Ok(ExitCode::SUCCESS);
    }
    if !is_grouped {
        context.output.result(&list, || {
            if arguments.trash {
                render_trash(&list.workspaces, now)
            } else {
                render(&list.workspaces, now)
            }
        });
        return Ok(ExitCode::SUCCESS);
    }
    let page = if std::io::stdout().is_terminal() {
        Page::Columns(columns)
    } else {
        Page::Lines
    };
    let rows = groups::rows(&list.workspaces, &activity);
    let text = groups::render(&rows, page, now);
    context.output.asked_for(&text);
    if let Some((label, (purpose, command))) = rows
        .iter()
        .find_map(|row| Some((&row.label, row.next.as_ref()?)))
    {
        let purpose = purpose.replace(" it", &format!(" {label}"));
        context.output.next(&[(&purpose, command)]);
    }
    Ok(ExitCode::SUCCESS)
}

/// One label per line, with its project where there are several.
fn names(workspaces: &[Workspace]) -> String {
    let is_one_project = workspaces
        .windows(2)
        .all(|pair| pair[0].project == pair[1].project);
    let names = workspaces.iter().map(|workspace| {
        let (project, label) = (printable(&workspace.project), printable(&workspace.label));
        if is_one_project {
            label
        } else {
            format!("{project}/{label}")
        }
    });
    names.collect::<Vec<_>>().join("\n")
}

/// Prints a warning about the whole machine.
pub fn warn(context: &Context, note: &str) {
    let note = printable(note);
    context
        .output
        .remark(&format!("{WARNING}warning:{WARNING:#} {note}"));
}

/// `□ cart-badge  shop  unsaved  410 MiB   6 d left`.
fn render_trash(workspaces: &[Workspace], now: jiff::Timestamp) -> String {
    let rows: Vec<[String; 5]> = workspaces.iter().map(|one| in_trash(one, now)).collect();
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..5).map(width).collect();
    let lines = rows.iter().map(|[label, project, id, size, left]| {
        format!(
            "{FAINT}□{FAINT:#} {STRONG}{label:0$}{STRONG:#}  {project:1$}  {FAINT}{id:2$}{FAINT:#}  {size:>3$}  {left:>4$}\n",
            widths[0], widths[1], widths[2], widths[3], widths[4]
        )
    });
    lines.collect()
}

fn in_trash(workspace: &Workspace, now: jiff::Timestamp) -> [String; 5] {
    let expires = workspace.expires_at.as_deref().unwrap_or_default();
    [
        printable(&workspace.label),
        printable(&workspace.project),
        workspace.id.clone(),
        rough_size(workspace.bytes.unwrap_or(0)),
        left(expires, now),
    ]
}

/// `6 d left`.
pub fn left(expires: &str, now: jiff::Timestamp) -> String {
    match expires.parse::<jiff::Timestamp>() {
        Ok(then) if then > now => format!("{} left", span(then.as_second() - now.as_second())),
        Ok(_) => "goes with the next gc".to_owned(),
        Err(_) => "–".to_owned(),
    }
}

fn render(workspaces: &[Workspace], now: jiff::Timestamp) -> String {
    let row = |workspace: &Workspace| {
        [
            workspace.label.clone(),
            workspace.project.clone(),
            workspace.id.clone(),
            state(workspace),
            start_of(workspace),
            age(&workspace.created_at, now),
        ]
    };
    let head = ["label", "project", "id", "state", "ref", "age"];
    if workspaces.iter().all(|found| found.services.is_empty()) {
        let mut table = Table::new(head);
        workspaces.iter().for_each(|found| table.row(row(found)));
        return table.render();
    }
    let [label, project, id, state, reference, age] = head;
    let mut table = Table::new([label, project, id, state, "services", reference, age]);
    for workspace in workspaces {
        let [label, project, id, state, reference, age] = row(workspace);
        let services = in_short(&workspace.services);
        table.row([label, project, id, state, services, reference, age]);
    }
    table.render()
}

/// A summary of the services: what failed, or how many are ready. A service that exited with 0
/// counts as ready.
fn in_short(services: &[ServiceStatus]) -> String {
    let is = |service: &ServiceStatus, state: &str| service.state == state;
    let is_ready = |service: &&ServiceStatus| is(service, "ready") || service.is_done();
    let has_failed = |service: &&ServiceStatus| service.has_failed();
    let (all, ready) = (services.len(), services.iter().filter(is_ready).count());
    match services.iter().filter(has_failed).count() {
        0 if all == 0 => "-".to_owned(),
        0 if services.iter().all(|service| is(service, "stopped")) => "stopped".to_owned(),
        0 => format!("{ready}/{all} ready"),
        failed => format!("{failed} failed"),
    }
}

/// The state, with its reason.
pub fn state(workspace: &Workspace) -> String {
    match &workspace.reason {
        Some(reason) => format!("{} ({reason})", workspace.state),
        None => workspace.state.clone(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn workspace(label: &str) -> Workspace {
        let isolation = serde_json::json!({
            "user": true, "mount": true, "pid": true, "net": true, "ipc": true, "seccomp": true,
            "no_new_privs": true, "landlock": false, "cgroup": "v2",
            "limits": {"memory": "cgroup", "cpus": null, "processes": "rlimit", "disk": "measured"},
            "degraded": ["landlock"],
        });
        serde_json::from_value(serde_json::json!({
            "id": "waaaaaaaaaaaa", "label": label, "project": "shop",
            "project_id": "p000000000001", "owner": "me", "state": "running", "reason": null,
            "ref": "main", "commit": "0123456789abcdef0123456789abcdef01234567",
            "created_at": "2026-11-15T20:00:00Z", "last_used_at": "2026-11-15T20:01:00Z",
            "driver": "linux", "root": "/home/me/src/shop", "dirty": null,
            "ports": [], "services": [], "volumes": [],
            "limits": {"memory": 4294967296u64, "cpus": 2.0, "processes": 1024, "disk": null},
            "isolation": isolation,
        }))
        .unwrap()
    }

    #[test]
    fn a_table_with_fixed_data() {
        let now = "2026-11-15T20:03:00Z".parse().unwrap();
        let mut stopped = workspace("x");
        stopped.state = "failed".to_owned();
        stopped.reason = Some("reboot".to_owned());
        stopped.reference = None;
        let text = render(&[workspace("fix-login"), stopped], now);
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "label      project  id             state            ref      age\n\
             fix-login  shop     waaaaaaaaaaaa  running          main     3 min\n\
             x          shop     waaaaaaaaaaaa  failed (reboot)  0123456  3 min\n"
        );
    }

    #[test]
    fn services_are_shown_where_there_are_some() {
        let now = "2026-11-15T20:03:00Z".parse().unwrap();
        let check = |states: &[(&str, Option<&str>)], expect: &str| {
            let mut with = workspace("x");
            let services = states.iter().map(|(state, reason)| {
                let service = serde_json::json!({
                    "name": "web", "state": state, "pid": null, "restarts": 0, "port": null,
                    "reason": reason,
                });
                serde_json::from_value(service).unwrap()
            });
            with.services = services.collect();
            let text = render(&[with, workspace("without")], now);
            let text = anstream::adapter::strip_str(&text).to_string();
            let mut lines = text.lines();
            let column = lines.next().unwrap().find("services").unwrap();
            let (with, without) = (lines.next().unwrap(), lines.next().unwrap());
            assert!(with[column..].starts_with(&format!("{expect}  ")), "{text}");
            assert!(without[column..].starts_with("- "), "{text}");
        };
        let ready = ("ready", None);
        check(&[ready, ready], "2/2 ready");
        check(&[ready, ("starting", Some("waits for db"))], "1/2 ready");
        check(&[ready, ("backoff", Some("exited with 1"))], "1/2 ready");
        check(&[ready, ("exited", Some("exited with 0"))], "2/2 ready");
        check(&[ready, ("exited", Some("exited with 3"))], "1 failed");
        check(&[("failed", None), ("failed", None), ready], "2 failed");
        check(&[("stopped", None), ("stopped", None)], "stopped");
        check(&[ready, ("stopped", None)], "1/2 ready");
    }

    #[test]
    fn the_trash_says_when_it_goes() {
        let now = "2026-11-15T20:03:00Z".parse().unwrap();
        let mut removed = workspace("fix-login");
        removed.removed_at = Some("2026-11-15T20:00:00Z".to_owned());
        removed.expires_at = Some("2026-11-22T20:00:00Z".to_owned());
        removed.bytes = Some(4096);
        let mut late = removed.clone();
        late.expires_at = Some("2026-11-15T20:00:00Z".to_owned());
        assert_eq!(
            anstream::adapter::strip_str(&render_trash(&[removed, late], now)).to_string(),
            "□ fix-login  shop  waaaaaaaaaaaa  4.0 KiB               6 d left\n\
             □ fix-login  shop  waaaaaaaaaaaa  4.0 KiB  goes with the next gc\n"
        );
    }
}
