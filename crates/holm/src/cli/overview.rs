//! `holm` without a command: what is here, and what to type next.

use super::figures::{count, place};
use super::groups::{self, Activity, Group, Row};
use super::output::{STRONG, hanging, printable};
use super::user_checkout::{Checkout, HOLM_TOML};
use super::{Context, Outcome, connect, here, terminal};
use crate::wiring::guest;
use holm_api::Workspace;
use holm_config::look;
use holm_engine::try_blocking;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// The checkout of the current directory.
struct Here {
    place: String,
    project: Option<String>,
    /// Its branch, its commit and the number of uncommitted files.
    at: String,
    has_config: bool,
    /// What `holm init` would find.
    found: Option<String>,
}

pub fn run(context: &Context) -> Outcome {
    if guest::is_inside() {
        return here::run(context, here::HereArgs::default());
    }
    let columns = usize::from(terminal::size().cols);
    let (workspaces, activity, checkout) = connect::block_on(async {
        let client = connect::started().await?;
        let (found, checkout) = tokio::join!(Activity::find(&client, columns), Checkout::find());
        let here = match checkout {
            Ok(checkout) => Some(Here::of(&checkout).await),
            Err(_) => None,
        };
        let (listed, activity) = found?;
        Ok((listed.workspaces, activity, here))
    })?;
    let rows = groups::rows(&workspaces, &activity);
    match checkout {
        None => outside(context, &activity, &rows),
        Some(here) => {
            let own = |workspace: &&Workspace| Some(&workspace.project_id) == here.project.as_ref();
            let own: Vec<Workspace> = workspaces.iter().filter(own).cloned().collect();
            if own.is_empty() {
                first_time(context, &here, workspaces.is_empty());
            } else {
                let name = own[0].project.clone();
                let elsewhere = rows
                    .iter()
                    .filter(|row| needs_a_person(row) && row.project != name);
                let own_rows = groups::rows(&own, &activity);
                let head = here.headline(&own);
                in_project(context, &head, &own_rows, elsewhere.count());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn outside(context: &Context, activity: &Activity, rows: &[Row]) {
    let working = rows
        .iter()
        .filter(|row| row.group == Group::Working)
        .count();
    let items = activity.items.len();
    let projects: BTreeSet<&String> = activity.items.iter().map(|item| &item.project).collect();
    let agents = match working {
        1 => "1 agent is working".to_owned(),
        working => format!("{working} agents are working"),
    };
    let summary = match (rows.len(), items) {
        (0, _) => "You have no workspaces yet.".to_owned(),
        (_, 0) => format!("Nothing needs you; {agents}."),
        (_, items) => {
            let verb = if items == 1 { "needs" } else { "need" };
            let (items, projects) = (
                count(items as u64, "item"),
                count(projects.len() as u64, "project"),
            );
            format!("{items} {verb} you in {projects}; {agents}.")
        }
    };
    context
        .output
        .asked_for(&format!("Not in a git repository. {summary}"));
    let next = match (rows.len(), items) {
        (0, _) => ("start", "cd ~/src/PROJECT && holm up LABEL"),
        (_, 0) => ("all workspaces", "holm ls"),
        _ => ("what needs you", "holm inbox"),
    };
    context.output.next(&[next, ("all commands", "holm help")]);
}

fn first_time(context: &Context, here: &Here, has_no_workspace: bool) {
    let yet = if has_no_workspace {
        "You have none yet."
    } else {
        "This repository has none yet."
    };
    let found = here.found.iter().map(|found| format!("; {found} found"));
    let place = format!("  {}  ", printable(&here.place));
    let facts = format!("{}{}", here.at, found.collect::<String>());
    context.output.asked_for(&format!(
        "holm gives every coding agent a workspace: its own copy of the code, with its\n\
         own ports, databases and processes. {yet}\n{}",
        hanging(&place, &facts, terminal::columns_to_fill())
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
        .filter(|row| needs_a_person(row) || row.group == Group::Idle)
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
    // The most urgent one, and the first that is ready to read.
    let mut next: Vec<(&str, &str)> = Vec::new();
    for group in [Group::NeedsYou, Group::Ready] {
        let row = own_rows.iter().find(|row| row.group == group);
        if let Some((purpose, command)) = row.and_then(|row| row.next.as_ref()) {
            next.push((purpose, command));
        }
    }
    next.push(("new workspace", "holm up LABEL"));
    next.push(("all workspaces", "holm ls"));
    context.output.next(&next);
}

fn needs_a_person(row: &Row) -> bool {
    matches!(row.group, Group::NeedsYou | Group::Ready)
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

    async fn of(checkout: &Checkout) -> Self {
        let repository = &checkout.repository;
        let head = repository.head.as_deref();
        let short = head.map_or("no commit yet", |head| &head[..head.len().min(7)]);
        let branch = repository.branch.as_deref().unwrap_or("detached");
        let mut at = format!("{} {short}", printable(branch));
        let changed = checkout.git(|repository| repository.count_uncommitted());
        let toplevel = repository.toplevel.clone();
        let is_new = repository.project_id.is_none() && !checkout.has(HOLM_TOML);
        let looked = try_blocking(move || {
            let proposal = is_new.then(|| look::propose(&toplevel, &toplevel, Vec::new()));
            Ok(proposal.and_then(Result::ok))
        });
        // What git or the files do not say is left out: this is only an overview.
        let (changed, looked) = tokio::join!(changed, looked);
        match changed {
            Ok(0) | Err(_) => {}
            Ok(files) => at.push_str(&format!(", {} uncommitted", count(files as u64, "file"))),
        }
        Self {
            found: looked.ok().flatten().and_then(|it| it.in_short()),
            place: place(&repository.toplevel.to_string_lossy()),
            project: repository.project_id.as_ref().map(ToString::to_string),
            at,
            has_config: checkout.has(HOLM_TOML),
        }
    }
}
