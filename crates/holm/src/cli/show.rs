//! `holm show`: everything about one workspace.

use super::completions::labels;
use super::figures::{age, clock, here_and_now};
use super::ls::{start_of, state};
use super::output::{STRONG, WARNING, printable};
use super::top::percent;
use super::{Context, Outcome, connect, ports, resolve};
use clap::Args;
use holm_api::Workspace;
use holm_api::numbers::WorkspaceNumbers;
use holm_core::config::{Policy, rough_size};
use holm_core::isolation::Isolation;
use holm_core::numbers::sparkline;
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
const SPARKLINE: usize = 30;

pub fn run(context: &Context, arguments: ShowArgs) -> Outcome {
    let shown = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        let mut shown = client.workspace(&id).await?;
        if shown.state == "running" {
            // A workspace that just stopped has no numbers.
            shown.numbers = client.numbers_of(&id).await.ok().map(Box::new);
        }
        Ok(shown)
    })?;
    let now = here_and_now();
    context.output.result(&shown, || {
        let mut text = render(&shown, &now);
        if let Some(numbers) = &shown.numbers {
            takes(&mut text, numbers);
        }
        text
    });
    Ok(ExitCode::SUCCESS)
}

/// Its resource use, with the last minutes.
fn takes(text: &mut String, numbers: &WorkspaceNumbers) {
    heading(text, "Takes");
    let past = |past: &[f64], least| sparkline(past, SPARKLINE, least);
    let cpu = past(&numbers.history.cpu, 1.0);
    line(text, "cpu", &format!("{}  {cpu}", percent(numbers.cpu)));
    let memory = past(&numbers.history.memory, 1.0);
    line(
        text,
        "memory",
        &format!("{}  {memory}", rough_size(numbers.memory)),
    );
    line(text, "disk", &disk(numbers));
    line(text, "processes", &numbers.processes.to_string());
    let (bytes_in, bytes_out) = (numbers.network_in, numbers.network_out);
    let network = format!("{} in, {} out", rough_size(bytes_in), rough_size(bytes_out));
    line(text, "network", &network);
    for service in numbers.services.iter().filter(|one| one.processes > 0) {
        let (cpu, memory) = (percent(service.cpu), rough_size(service.memory));
        let course = past(&service.history.cpu, 1.0);
        let (bytes_in, bytes_out) = (service.network_in, service.network_out);
        let network = match bytes_in + bytes_out {
            0 => String::new(),
            _ => format!(
                ", {} in, {} out",
                rough_size(bytes_in),
                rough_size(bytes_out)
            ),
        };
        let takes = format!("{cpu}, {memory}{network}  {course}");
        line(text, &service.name, &takes);
    }
}

fn disk(numbers: &WorkspaceNumbers) -> String {
    let (Some(total), Some(tree)) = (numbers.disk, numbers.disk_tree) else {
        return "not measured yet".to_owned();
    };
    let mut parts = vec![format!("tree {}", rough_size(tree))];
    for volume in &numbers.volumes {
        let bytes = volume.bytes.unwrap_or_default();
        let is_shared = volume.policy == Policy::Shared.as_str();
        let shared = if is_shared { ", shared" } else { "" };
        let name = printable(&volume.name);
        parts.push(format!("{name} {}{shared}", rough_size(bytes)));
    }
    format!("{}  ({})", rough_size(total), parts.join("; "))
}

fn render(workspace: &Workspace, zoned: &jiff::Zoned) -> String {
    let now = zoned.timestamp();
    let mut text = String::new();
    let label = printable(&workspace.label);
    let project = printable(&workspace.project);
    text.push_str(&format!(
        "{STRONG}{label}{STRONG:#}  {}  ({project})\n\n",
        workspace.id
    ));
    let dirty = match workspace.dirty {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => format!("not known; `holm changes {label}` looks"),
    };
    let now_at = match (&workspace.branch, &workspace.head) {
        (Some(branch), Some(head)) => format!("{branch} ({head})"),
        (Some(branch), None) => branch.clone(),
        (None, Some(head)) => format!("no branch ({head})"),
        (None, None) => "not known".to_owned(),
    };
    let from = match &workspace.commit {
        Some(commit) => format!("{} ({commit})", start_of(workspace)),
        None => "an empty repository".to_owned(),
    };
    let ago = |time: &str| match age(time, now).as_str() {
        "now" => format!("{}, now", clock(time, zoned)),
        age => format!("{}, {age} ago", clock(time, zoned)),
    };
    for (name, value) in [
        ("state", state(workspace)),
        ("root", workspace.root.clone()),
        ("started from", from),
        ("now on", now_at),
        ("changed", dirty),
        ("created", ago(&workspace.created_at)),
        ("last used", ago(&workspace.last_used_at)),
        ("owner", workspace.owner.clone()),
        ("driver", workspace.driver.clone()),
    ] {
        line(&mut text, name, &value);
    }
    if !workspace.protected_paths.is_empty() {
        line(
            &mut text,
            "read-only",
            &workspace.protected_paths.join(", "),
        );
    }
    if let Some(removed_at) = &workspace.removed_at {
        line(&mut text, "removed", &ago(removed_at));
    }
    if let Some(policy) = &workspace.policy {
        line(&mut text, "policy", &format!("{policy} is in force"));
    }
    for note in &workspace.notes {
        line(&mut text, "note", note);
    }
    services(&mut text, workspace);
    snapshots(&mut text, workspace);
    limits(&mut text, workspace);
    isolation(&mut text, workspace);
    text
}

fn services(text: &mut String, workspace: &Workspace) {
    if !workspace.ports.is_empty() {
        heading(text, "Ports");
    }
    for row in ports::lines(&workspace.ports) {
        text.push_str(&format!("  {}\n", printable(&row)));
    }
    if !workspace.services.is_empty() {
        heading(text, "Services");
    }
    for service in &workspace.services {
        let reason = service.reason.as_deref();
        let reason = reason.map_or_else(String::new, |reason| format!("  {reason}"));
        line(text, &service.name, &format!("{}{reason}", service.state));
    }
    if !workspace.volumes.is_empty() {
        heading(text, "Volumes");
    }
    for volume in &workspace.volumes {
        let size = volume.bytes.map(rough_size);
        let size = size.map_or_else(String::new, |size| format!("  {size}"));
        line(text, &volume.name, &format!("{}{size}", volume.policy));
    }
}

fn snapshots(text: &mut String, workspace: &Workspace) {
    if !workspace.snapshots.is_empty() {
        heading(text, "Snapshots");
    }
    for snapshot in &workspace.snapshots {
        line(text, &snapshot.name, &snapshot.created_at);
    }
}

/// The limits, each with the truth about whether it is enforced.
fn limits(text: &mut String, workspace: &Workspace) {
    heading(text, "Limits");
    let (limits, in_force) = (&workspace.limits, &workspace.isolation.limits);
    let is_running = workspace.state == "running";
    for (name, value, by) in [
        ("memory", limits.memory.map(rough_size), &in_force.memory),
        (
            "cpus",
            limits.cpus.map(|cpus| cpus.to_string()),
            &in_force.cpus,
        ),
        (
            "processes",
            limits.processes.map(|count| count.to_string()),
            &in_force.processes,
        ),
        ("disk", limits.disk.map(rough_size), &in_force.disk),
    ] {
        let value = match (value, by) {
            (None, _) => "none".to_owned(),
            (Some(value), None) if is_running => format!("{value} (not enforced here)"),
            (Some(value), Some(by)) if by == "measured" => {
                format!("{value} (measured every few seconds)")
            }
            (Some(value), _) => value,
        };
        line(text, name, &value);
    }
}

fn isolation(text: &mut String, workspace: &Workspace) {
    let isolation = &workspace.isolation;
    heading(text, "Isolation in force");
    let held = namespaces(isolation);
    if workspace.state != "running" && held.is_empty() {
        // A list of `no` for a stopped workspace would look like missing isolation.
        let state = printable(&workspace.state);
        text.push_str(&format!("  nothing to observe: it is {state}\n"));
        return;
    }
    let held = if held.is_empty() {
        "none".to_owned()
    } else {
        held.join(", ")
    };
    line(text, "namespaces", &held);
    for (name, held) in [
        ("seccomp", isolation.seccomp),
        ("no_new_privs", isolation.no_new_privs),
        ("landlock", isolation.landlock),
    ] {
        line(text, name, if held { "yes" } else { "no" });
    }
    let cgroup = isolation.cgroup.clone().unwrap_or_else(|| "no".to_owned());
    line(text, "cgroup", &cgroup);
    let in_force = &isolation.limits;
    let kept: Vec<String> = [
        ("memory", &in_force.memory),
        ("cpus", &in_force.cpus),
        ("processes", &in_force.processes),
        ("disk", &in_force.disk),
    ]
    .iter()
    .map(|(name, by)| format!("{name} by {}", by.as_deref().unwrap_or("nothing")))
    .collect();
    line(text, "limits", &kept.join(", "));
    if isolation.oom_kills > 0 {
        let kills = isolation.oom_kills;
        text.push_str(&format!(
            "  {WARNING}memory{WARNING:#}        the limit was reached: {kills} killed since the start\n"
        ));
    }
    if !isolation.limits_reached.is_empty() {
        let reached = printable(&isolation.limits_reached.join(", ").replace('_', " "));
        text.push_str(&format!(
            "  {WARNING}limit{WARNING:#}         used up: {reached}; see docs/limits.md\n"
        ));
    }
    if !isolation.degraded.is_empty() {
        let degraded = printable(&isolation.degraded.join(", "));
        text.push_str(&format!("  {WARNING}degraded{WARNING:#}      {degraded}\n"));
    }
}

fn namespaces(isolation: &Isolation) -> Vec<&'static str> {
    let namespaces = [
        ("user", isolation.user),
        ("mount", isolation.mount),
        ("pid", isolation.pid),
        ("net", isolation.net),
        ("ipc", isolation.ipc),
    ];
    let held = namespaces.into_iter().filter(|(_, held)| *held);
    held.map(|(name, _)| name).collect()
}

fn heading(text: &mut String, heading: &str) {
    text.push_str(&format!("\n{STRONG}{heading}{STRONG:#}\n"));
}

fn line(text: &mut String, name: &str, value: &str) {
    let (name, value) = (printable(name), printable(value));
    text.push_str(format!("  {name:12}  {value}").trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ls::tests::workspace;

    #[test]
    fn sections_with_fixed_data() {
        let now: jiff::Timestamp = "2026-11-15T20:03:00Z".parse().unwrap();
        let now = now.to_zoned(jiff::tz::TimeZone::UTC);
        let mut workspace = workspace("fix-login");
        workspace.protected_paths = ["AGENTS.md", "infra/prod"].map(str::to_owned).to_vec();
        let text = render(&workspace, &now);
        let text = anstream::adapter::strip_str(&text).to_string();
        let expect = "\
fix-login  waaaaaaaaaaaa  (shop)

  state         running
  root          /home/me/src/shop
  started from  main (0123456789abcdef0123456789abcdef01234567)
  now on        not known
  changed       not known; `holm changes fix-login` looks
  created       20:00, 3 min ago
  last used     20:01, 2 min ago
  owner         me
  driver        linux
  read-only     AGENTS.md, infra/prod

Limits
  memory        4.0 GiB
  cpus          2 (not enforced here)
  processes     1024
  disk          none

Isolation in force
  namespaces    user, mount, pid, net, ipc
  seccomp       yes
  no_new_privs  yes
  landlock      no
  cgroup        v2
  limits        memory by cgroup, cpus by nothing, processes by rlimit, disk by measured
  degraded      landlock
";
        assert_eq!(text, expect);
    }

    #[test]
    fn what_does_not_run_is_not_said_to_be_bare() {
        let now: jiff::Timestamp = "2026-11-15T20:03:00Z".parse().unwrap();
        let now = now.to_zoned(jiff::tz::TimeZone::UTC);
        let mut stopped = workspace("fix-login");
        stopped.isolation = Isolation::default();
        let render = |workspace: &Workspace| {
            anstream::adapter::strip_str(&render(workspace, &now)).to_string()
        };
        // `show` marks a running workspace that has no isolation.
        let bare = render(&stopped);
        assert!(bare.contains("seccomp       no\n"), "{bare}");
        stopped.state = "stopped".to_owned();
        let text = render(&stopped);
        let end = "Isolation in force\n  nothing to observe: it is stopped\n";
        assert!(text.ends_with(end), "{text}");
    }
}
