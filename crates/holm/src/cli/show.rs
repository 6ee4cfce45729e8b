//! `holm show`: everything about one workspace.

use super::completions::labels;
use super::figures::{age, clock, count, here_and_now, place};
use super::groups::{self, Activity, Group, Row};
use super::ls::state;
use super::output::{FAINT, STRONG, WARNING, hanging, printable};
use super::{Context, Outcome, connect, resolve, terminal};
use crate::wiring::guest;
use clap::Args;
use holm_api::Workspace;
use holm_api::egress::EgressEntry;
use holm_api::numbers::WorkspaceNumbers;
use holm_api::workspace::{Container, Port};
use holm_core::config::{Policy, rough_size};
use holm_core::numbers::sparkline;
use jiff::Zoned;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Show everything about one workspace
///
/// Shows the isolation in force, as observed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm show fix-login\n  holm show shop/fix-login --json")]
pub struct ShowArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
}

/// How many of the last values are drawn.
const SPARKLINE: usize = 20;

/// The column of the names.
const LEAST_NAME: usize = 10;
const LONGEST_NAME: usize = 24;

/// Names and values.
type Rows = Vec<(String, String)>;

/// How many of the last connections are counted.
const CONNECTIONS: u64 = 1000;

pub fn run(context: &Context, arguments: ShowArgs) -> Outcome {
    let is_json = context.output.is_json();
    let (shown, activity, egress) = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        let mut shown = client.workspace(&id).await?;
        if shown.state == "running" {
            // A workspace that just stopped has no numbers.
            shown.numbers = client.numbers_of(&id).await.ok().map(Box::new);
        }
        if is_json || guest::is_inside() {
            return Ok((shown, Activity::default(), None));
        }
        let (_, activity) = Activity::find(&client, 0).await?;
        // A stopped workspace may have no record.
        let egress = client.egress(&id, CONNECTIONS).await.ok();
        Ok((shown, activity, egress.map(|list| list.egress)))
    })?;
    context.output.facts(&shown, || {
        let page = Page {
            now: here_and_now(),
            columns: usize::from(terminal::size().cols),
            typed: &arguments.workspace,
        };
        let row = groups::rows(std::slice::from_ref(&shown), &activity).pop();
        let mut rows = page.facts(&shown, row.as_ref());
        if let Some(egress) = egress.filter(|list| !list.is_empty()) {
            line(&mut rows, "egress", &reached(&egress));
        }
        page.resources(&mut rows, &shown);
        isolation(&mut rows, &shown);
        page.heading(&shown, row.as_ref()) + &aligned(&rows, terminal::columns_to_fill())
    });
    Ok(ExitCode::SUCCESS)
}

/// How it is printed.
struct Page<'a> {
    now: Zoned,
    columns: usize,
    /// What the person calls the workspace.
    typed: &'a str,
}

// === impl Page ===

impl Page<'_> {
    /// Everything but resources and isolation.
    fn facts(&self, workspace: &Workspace, row: Option<&Row>) -> Rows {
        let mut text = Rows::new();
        let now = self.now.timestamp();
        match row {
            Some(row) if row.group != Group::Stopped && row.group != Group::Idle => {
                line(&mut text, &row.word, &row.fact);
            }
            _ => line(&mut text, "state", &state(workspace)),
        }
        if let Some((_, command)) = row.and_then(|row| row.next.as_ref()) {
            line(&mut text, "next", command);
        }
        line(&mut text, "branch", &branch(workspace));
        let unsaved = match workspace.dirty {
            Some(true) => format!("yes; holm changes {}", self.typed),
            Some(false) => "no".to_owned(),
            None => format!("not known; holm changes {}", self.typed),
        };
        line(&mut text, "unsaved", &unsaved);
        line(
            &mut text,
            "code",
            &format!("{} inside", place(&workspace.root)),
        );
        if let Some(it) = &workspace.container {
            line(&mut text, "container", &container(it));
        }
        if !workspace.protected_paths.is_empty() {
            line(
                &mut text,
                "read-only",
                &workspace.protected_paths.join(", "),
            );
        }
        let used = match age(&workspace.last_used_at, now).as_str() {
            "now" => "now".to_owned(),
            age => format!("{age} ago"),
        };
        let created = clock(&workspace.created_at, &self.now);
        let created = format!("{created} by {}; last used {used}", workspace.owner);
        line(&mut text, "created", &created);
        if workspace.driver != "linux" {
            line(&mut text, "driver", &workspace.driver);
        }
        if let Some(removed_at) = &workspace.removed_at {
            line(&mut text, "removed", &clock(removed_at, &self.now));
        }
        if let Some(policy) = &workspace.policy {
            line(&mut text, "policy", &format!("{policy} is in force"));
        }
        services(&mut text, workspace);
        for snapshot in &workspace.snapshots {
            let name = format!("snapshot {}", snapshot.name);
            line(&mut text, &name, &clock(&snapshot.created_at, &self.now));
        }
        for note in &workspace.notes {
            line(&mut text, "note", note);
        }
        text
    }

    /// `● fix-login  shop` and the id at the end of the line.
    fn heading(&self, workspace: &Workspace, row: Option<&Row>) -> String {
        let (style, glyph) = row.map_or((FAINT, "–"), |row| (row.style(), row.glyph));
        let (label, project) = (printable(&workspace.label), printable(&workspace.project));
        let taken = 2 + label.chars().count() + 2 + project.chars().count();
        let room = self.columns.saturating_sub(taken + workspace.id.len());
        let blanks = " ".repeat(room.clamp(2, 60));
        format!(
            "{style}{glyph}{style:#} {STRONG}{label}{STRONG:#}  {project}{blanks}{FAINT}{}{FAINT:#}\n",
            workspace.id
        )
    }

    /// What it takes, of what it may take, and whether that is enforced.
    fn resources(&self, rows: &mut Rows, workspace: &Workspace) {
        let (limits, numbers) = (&workspace.limits, workspace.numbers.as_deref());
        let in_force = &workspace.isolation.limits;
        let of = |taken: Option<String>, most: Option<String>| match (taken, most) {
            (Some(taken), Some(most)) => format!("{taken} of {most}"),
            (Some(taken), None) => format!("{taken}, no limit"),
            (None, Some(most)) => format!("at most {most}"),
            (None, None) => "no limit".to_owned(),
        };
        let past = |past: &[f64]| sparkline(past, SPARKLINE, 1.0);
        let is_running = workspace.state == "running";
        let resources = [
            (
                "memory",
                of(
                    numbers.map(|it| rough_size(it.memory)),
                    limits.memory.map(rough_size),
                ),
                limits.memory.is_some() && in_force.memory.is_none(),
                numbers.map_or_else(String::new, |it| past(&it.history.memory)),
            ),
            (
                "cpus",
                of(
                    numbers.map(|it| format!("{:.1}", it.cpu)),
                    limits.cpus.map(|cpus| cpus.to_string()),
                ),
                limits.cpus.is_some() && in_force.cpus.is_none(),
                numbers.map_or_else(String::new, |it| past(&it.history.cpu)),
            ),
            (
                "processes",
                of(
                    numbers.map(|it| it.processes.to_string()),
                    limits.processes.map(|count| count.to_string()),
                ),
                limits.processes.is_some() && in_force.processes.is_none(),
                String::new(),
            ),
        ];
        for (name, value, is_loose, past) in resources {
            let more = if is_loose && is_running {
                "▲ not enforced here (holm doctor)".to_owned()
            } else {
                past
            };
            line(rows, name, format!("{value:20}{more}").trim_end());
        }
        let disk = of(
            numbers.and_then(|it| it.disk).map(rough_size),
            limits.disk.map(rough_size),
        );
        let measured = in_force.disk.as_deref() == Some("measured");
        let measured = if measured {
            ", measured every few seconds"
        } else {
            ""
        };
        let parts = numbers.map_or_else(String::new, parts);
        line(rows, "disk", &format!("{disk}{parts}{measured}"));
        let Some(numbers) = numbers else {
            return;
        };
        let (bytes_in, bytes_out) = (
            rough_size(numbers.network_in),
            rough_size(numbers.network_out),
        );
        line(rows, "network", &format!("{bytes_in} in, {bytes_out} out"));
    }
}

/// Where programs of people and agents run.
fn container(it: &Container) -> String {
    let image = it.image.as_deref().unwrap_or("built");
    let user = it.user.as_ref();
    let user = user.map_or_else(String::new, |user| format!(" as {user}"));
    format!("{image}, {}{user} ({})", it.folder, it.file)
}

fn branch(workspace: &Workspace) -> String {
    let short = |commit: &String| commit.chars().take(7).collect::<String>();
    let now_at = match (&workspace.branch, &workspace.head) {
        (Some(branch), Some(head)) => format!("{branch} at {}", short(head)),
        (Some(branch), None) => branch.clone(),
        (None, Some(head)) => format!("no branch, at {}", short(head)),
        (None, None) => "not known".to_owned(),
    };
    match (&workspace.reference, &workspace.commit) {
        (Some(reference), Some(commit)) => format!("{now_at}, from {reference} {}", short(commit)),
        (_, Some(commit)) => format!("{now_at}, from {}", short(commit)),
        (_, None) => format!("{now_at}, from an empty repository"),
    }
}

/// Ports with their addresses, services that are not well, volumes.
fn services(rows: &mut Rows, workspace: &Workspace) {
    let ports = &workspace.ports;
    let address = |port: &Port| {
        let host = port.host_port.map(|host| format!("127.0.0.1:{host}"));
        let url = port.url.clone().or(host);
        url.unwrap_or_else(|| format!(":{} inside", port.port))
    };
    for port in ports {
        let mut value = address(port);
        if port.canonical {
            value = format!("{value}   holds localhost:{}", port.port);
        }
        line(rows, &port.name, &value);
    }
    for service in &workspace.services {
        let has_address = ports.iter().any(|port| port.name == service.name);
        let reason = service.reason.as_deref();
        if service.state == "ready" && has_address && reason.is_none() {
            continue;
        }
        let reason = reason.map_or_else(String::new, |reason| format!(", {reason}"));
        let name = format!("service {}", service.name);
        line(rows, &name, &format!("{}{reason}", service.state));
    }
    for volume in &workspace.volumes {
        let size = volume.bytes.map(rough_size);
        let size = size.map_or_else(String::new, |size| format!(", {size} of its own"));
        let name = format!("volume {}", volume.name);
        line(rows, &name, &format!("{}{size}", volume.policy));
    }
}

/// What the disk is used for, where there are volumes.
fn parts(numbers: &WorkspaceNumbers) -> String {
    let Some(tree) = numbers.disk_tree.filter(|_| !numbers.volumes.is_empty()) else {
        return String::new();
    };
    let mut parts = vec![format!("tree {}", rough_size(tree))];
    for volume in &numbers.volumes {
        let is_shared = volume.policy == Policy::Shared.as_str();
        let shared = if is_shared { ", shared" } else { "" };
        let bytes = rough_size(volume.bytes.unwrap_or_default());
        parts.push(format!("{} {bytes}{shared}", volume.name));
    }
    format!(" ({})", parts.join("; "))
}

/// How many hosts were reached and refused.
fn reached(entries: &[EgressEntry]) -> String {
    let hosts = |is_refused: bool| {
        let wanted = entries
            .iter()
            .filter(|entry| matches!(entry.kind.as_str(), "refuse" | "resolve") == is_refused);
        let names = wanted.filter_map(|entry| entry.name.as_ref().or(entry.address.as_ref()));
        names.collect::<BTreeSet<_>>().len() as u64
    };
    format!(
        "{} reached, {} refused",
        count(hosts(false), "host"),
        hosts(true)
    )
}

/// Which parts of the isolation are in force, and what is missing.
fn isolation(rows: &mut Rows, workspace: &Workspace) {
    let isolation = &workspace.isolation;
    let parts = [
        ("user namespace", isolation.user),
        ("mount namespace", isolation.mount),
        ("pid namespace", isolation.pid),
        ("net namespace", isolation.net),
        ("ipc namespace", isolation.ipc),
        ("seccomp", isolation.seccomp),
        ("no_new_privs", isolation.no_new_privs),
        ("Landlock", isolation.landlock),
        ("control group", isolation.cgroup.is_some()),
    ];
    let missing: Vec<&str> = parts
        .iter()
        .filter(|(_, held)| !held)
        .map(|(name, _)| *name)
        .collect();
    let held = parts.len() - missing.len();
    if workspace.state != "running" && held == 0 {
        // A list of what is missing would look like a fault.
        line(
            rows,
            "isolation",
            &format!("nothing to observe: it is {}", workspace.state),
        );
        return;
    }
    let value = if missing.is_empty() {
        format!("full: {held} of {held} parts")
    } else {
        format!(
            "▲ {held} of {} parts: no {}",
            parts.len(),
            missing.join(", no ")
        )
    };
    line(rows, "isolation", &value);
    let degraded = isolation.degraded.iter().map(String::as_str);
    let degraded: Vec<&str> = degraded.collect();
    if !degraded.is_empty() {
        line(rows, "degraded", &format!("▲ {}", degraded.join(", ")));
    }
    if isolation.oom_kills > 0 {
        let kills = isolation.oom_kills;
        line(
            rows,
            "limit",
            &format!("◆ memory was reached: {kills} killed since the start"),
        );
    }
    if !isolation.limits_reached.is_empty() {
        let reached = isolation.limits_reached.join(", ").replace('_', " ");
        line(
            rows,
            "limit",
            &format!("◆ used up: {reached}; see docs/limits.md"),
        );
    }
}

fn line(rows: &mut Rows, name: &str, value: &str) {
    rows.push((printable(name), printable(value)));
}

fn aligned(rows: &Rows, columns: usize) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count());
    let width = width.max().unwrap_or(0).clamp(LEAST_NAME, LONGEST_NAME);
    let lines = rows.iter().map(|(name, value)| {
        let value = match value.chars().next() {
            Some('▲' | '◆') => format!("{WARNING}{value}{WARNING:#}"),
            _ => value.clone(),
        };
        let before = format!("  {FAINT}{name:width$}{FAINT:#}  ");
        hanging(&before, &value, columns) + "\n"
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ls::tests::workspace;
    use holm_core::isolation::Isolation;

    fn shown(workspace: &Workspace) -> String {
        let now: jiff::Timestamp = "2026-11-15T20:03:00Z".parse().unwrap();
        let page = Page {
            now: now.to_zoned(jiff::tz::TimeZone::UTC),
            columns: 80,
            typed: "fix-login",
        };
        let row = groups::rows(std::slice::from_ref(workspace), &Activity::default()).pop();
        let mut rows = page.facts(workspace, row.as_ref());
        page.resources(&mut rows, workspace);
        isolation(&mut rows, workspace);
        let text = page.heading(workspace, row.as_ref()) + &aligned(&rows, 80);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn rows_with_fixed_data() {
        let mut workspace = workspace("fix-login");
        workspace.protected_paths = ["AGENTS.md", "infra/prod"].map(str::to_owned).to_vec();
        let expect = "\
▲ fix-login  shop                                                  waaaaaaaaaaaa
  state       running
  branch      not known, from main 0123456
  unsaved     not known; holm changes fix-login
  code        /home/me/src/shop inside
  read-only   AGENTS.md, infra/prod
  created     20:00 by me; last used 2 min ago
  memory      at most 4.0 GiB
  cpus        at most 2           ▲ not enforced here (holm doctor)
  processes   at most 1024
  disk        no limit, measured every few seconds
  isolation   ▲ 8 of 9 parts: no Landlock
  degraded    ▲ landlock
";
        assert_eq!(shown(&workspace), expect);
    }

    #[test]
    fn what_does_not_run_is_not_said_to_be_bare() {
        let mut stopped = workspace("fix-login");
        stopped.isolation = Isolation::default();
        // `show` marks a running workspace that has no isolation.
        let bare = shown(&stopped);
        assert!(bare.contains("▲ 0 of 9 parts: no user namespace"), "{bare}");
        stopped.state = "stopped".to_owned();
        let text = shown(&stopped);
        let end = "  isolation   nothing to observe: it is stopped\n";
        assert!(text.ends_with(end), "{text}");
    }
}
