//! `holm ls`: the workspaces of all projects.

use super::table::Table;
use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::Workspace;
use std::process::ExitCode;

/// List the workspaces of all projects
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm ls\n  holm ls --json")]
pub struct LsArgs {}

/// How much of a commit stands for all of it.
const SHORT_COMMIT: usize = 10;

pub fn run(context: &Context, _: LsArgs) -> Outcome {
    let list = connect::block_on(async { connect::started().await?.workspaces().await })?;
    if list.workspaces.is_empty() && !context.output.is_json() {
        let remark = "No workspaces yet. `holm up` in a git repository makes one.";
        context.output.remark(remark);
        return Ok(ExitCode::SUCCESS);
    }
    let now = jiff::Timestamp::now();
    context
        .output
        .result(&list, || render(&list.workspaces, now));
    Ok(ExitCode::SUCCESS)
}

fn render(workspaces: &[Workspace], now: jiff::Timestamp) -> String {
    let mut table = Table::new(["LABEL", "PROJECT", "ID", "STATE", "REF", "AGE"]);
    for workspace in workspaces {
        table.row([
            workspace.label.clone(),
            workspace.project.clone(),
            workspace.id.clone(),
            state(workspace),
            start_of(workspace),
            age(&workspace.created_at, now),
        ]);
    }
    table.render()
}

/// The state, with the reason where there is one.
pub fn state(workspace: &Workspace) -> String {
    match &workspace.reason {
        Some(reason) => format!("{} ({reason})", workspace.state),
        None => workspace.state.clone(),
    }
}

/// What the workspace started from, as short as people write it.
pub fn start_of(workspace: &Workspace) -> String {
    match (&workspace.reference, &workspace.commit) {
        (Some(reference), _) => reference.clone(),
        (None, Some(commit)) => commit.chars().take(SHORT_COMMIT).collect(),
        (None, None) => "-".to_owned(),
    }
}

/// How long ago a time of the API was; a time that cannot be read has no age.
pub fn age(time: &str, now: jiff::Timestamp) -> String {
    match time.parse::<jiff::Timestamp>() {
        Ok(then) => in_words(now.as_second() - then.as_second()),
        Err(_) => "-".to_owned(),
    }
}

/// How long, in the largest whole unit: `3m`, `2h`, `5d`.
fn in_words(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
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
            "LABEL      PROJECT  ID             STATE            REF         AGE\n\
             fix-login  shop     waaaaaaaaaaaa  running          main        3m\n\
             x          shop     waaaaaaaaaaaa  failed (reboot)  0123456789  3m\n"
        );
    }

    #[test]
    fn ages_are_short() {
        let check = |seconds, expect: &str| assert_eq!(in_words(seconds), expect);
        check(-5, "0s");
        check(59, "59s");
        check(3599, "59m");
        check(7200, "2h");
        check(200_000, "2d");
    }
}
