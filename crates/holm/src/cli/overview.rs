//! `holm` without a command: what is here, and what to type next.

use super::figures::{count, place};
use super::groups::{self, Activity, Group, Row};
use super::output::{STRONG, printable};
use super::user_checkout::Checkout;
use super::{Context, Outcome, connect, here, terminal};
use crate::wiring::guest;
use holm_api::Workspace;
use std::process::ExitCode;

/// The checkout of the current directory.
struct Here {
    place: String,
    project: Option<String>,
    at: String,
    has_config: bool,
}

pub fn run(context: &Context) -> Outcome {
    if guest::is_inside() {
        return here::run(context, here::HereArgs::default());
    }
    let columns = usize::from(terminal::size().cols);
    let (workspaces, activity, checkout) = connect::block_on(async {
        let client = connect::started().await?;
        let (found, checkout) = tokio::join!(Activity::find(&client, columns), Checkout::find());
        let here = checkout.ok().map(|checkout| Here::of(&checkout));
        let (listed, activity) = found?;
        Ok((listed.workspaces, activity, here))
    })?;
    let rows = groups::rows(&workspaces, &activity);
    match checkout {
        None => outside(context, &rows),
        Some(here) => {
            let own = |workspace: &&Workspace| Some(&workspace.project_id) == here.project.as_ref();
            let own: Vec<Workspace> = workspaces.iter().filter(own).cloned().collect();
            if own.is_empty() {
                first_time(context, &here);
            } else {
                let name = own[0].project.clone();
                let elsewhere = rows
                    .iter()
                    .filter(|row| row.group == Group::NeedsYou && row.project != name);
                let own_rows = groups::rows(&own, &activity);
                let head = here.headline(&own);
                in_project(context, &head, &own_rows, elsewhere.count());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn outside(context: &Context, rows: &[Row]) {
    let needing = rows
        .iter()
        .filter(|row| row.group == Group::NeedsYou)
        .count();
    let working = rows
        .iter()
        .filter(|row| row.group == Group::Working)
        .count();
    let summary = match rows.len() {
        0 => "You have no workspaces yet.".to_owned(),
        all => format!(
            "{}: {needing} need you, {working} working.",
            count(all as u64, "workspace")
        ),
    };
    context
        .output
        .asked_for(&format!("Not in a git repository. {summary}"));
    let next = if rows.is_empty() {
        ("start", "cd ~/src/PROJECT && holm up LABEL")
    } else {
        ("all workspaces", "holm ls")
    };
    context.output.next(&[next, ("all commands", "holm help")]);
}

fn first_time(context: &Context, here: &Here) {
    context.output.asked_for(&format!(
        "holm gives every coding agent a workspace: its own copy of the code, with its\n\
         own ports, databases and processes. This repository has none yet.\n  \
         {}  {}",
        printable(&here.place),
        here.at
    ));
    let mut next = vec![("create one", "holm up fix-login")];
    if !here.has_config {
        next.push(("with its services", "holm init"));
    }
    next.push(("all commands", "holm help"));
    context.output.next(&next);
}

fn in_project(context: &Context, head: &str, own_rows: &[Row], elsewhere: usize) {
    let mut text = format!("{head}\n");
    let shown: Vec<&Row> = own_rows
        .iter()
        .filter(|row| matches!(row.group, Group::NeedsYou | Group::Idle))
        .collect();
    let columns = usize::from(terminal::size().cols);
    text.push_str(&groups::plain(
        &shown,
        own_rows,
        columns,
        jiff::Timestamp::now(),
    ));
    let counted = |group: Group| own_rows.iter().filter(|row| row.group == group).count();
    let (working, stopped) = (counted(Group::Working), counted(Group::Stopped));
    let mut rest = Vec::new();
    let mut add = |number: usize, words: &str| {
        if number > 0 {
            rest.push(format!("{number} {words}"));
        }
    };
    add(working, "working");
    add(stopped, "stopped");
    add(elsewhere, "need you in other projects");
    if !rest.is_empty() {
        text.push_str(&format!("  {}\n", rest.join(", ")));
    }
    context.output.asked_for(text.trim_end());
    let first = own_rows.iter().find_map(|row| row.next.as_ref());
    let mut next: Vec<(&str, &str)> = Vec::new();
    if let Some((purpose, command)) = first {
        next.push((purpose, command));
    }
    next.push(("new workspace", "holm up LABEL"));
    next.push(("all workspaces", "holm ls"));
    context.output.next(&next);
}

// === impl Here ===

impl Here {
    /// The project, where its checkout is, and the workspaces that hold its usual ports.
    fn headline(&self, own: &[Workspace]) -> String {
        let name = own.first().map_or("", |workspace| &workspace.project);
        let mut text = format!("{STRONG}{}{STRONG:#}  {}", printable(name), self.at);
        for workspace in own {
            if let Some(port) = workspace.ports.iter().find(|port| port.canonical) {
                let label = printable(&workspace.label);
                text.push_str(&format!("; localhost:{} → {label}", port.port));
            }
        }
        text
    }

    fn of(checkout: &Checkout) -> Self {
        let repository = &checkout.repository;
        let head = repository.head.as_deref();
        let short = head.map_or("no commit yet", |head| &head[..head.len().min(7)]);
        let branch = repository.branch.as_deref().unwrap_or("detached");
        let at = format!("{} {short}", printable(branch));
        Self {
            place: place(&repository.toplevel.to_string_lossy()),
            project: repository.project_id.as_ref().map(ToString::to_string),
            at,
            has_config: checkout.has("holm.toml"),
        }
    }
}
