//! Tests of the groups of workspaces: their order, and what fits a terminal.

use super::*;
use crate::cli::ls::tests::workspace;

fn at(label: &str, state: &str, minutes: u32) -> Workspace {
    let mut made = workspace(label);
    made.state = state.to_owned();
    made.isolation.degraded.clear();
    made.last_used_at = format!("2026-11-15T20:{:02}:00Z", 30 - minutes);
    made
}

fn all() -> Vec<Workspace> {
    let mut stopped = at("img-lazyload", "stopped", 20);
    stopped.dirty = Some(true);
    let mut other = at("pg16", "stopped", 25);
    (other.project, other.isolation.degraded) = ("atlas-api".into(), vec!["landlock".into()]);
    vec![
        stopped,
        at("fix-readme", "running", 3),
        at("cart-race", "running", 8),
        other,
    ]
}

fn item(workspace: &mut Workspace, reason: &str, text: &str, minutes: u32) -> InboxItem {
    workspace.id = format!("w{:0>12}", workspace.label.len());
    let label = &workspace.label;
    serde_json::from_value(serde_json::json!({
        "id": format!("{}-x", workspace.id), "workspace": workspace.id, "label": label,
        "project": workspace.project, "reason": reason, "text": text, "origin": "holm",
        "since": format!("2026-11-15T20:{:02}:00Z", 30 - minutes),
        "next": format!("holm review shop/{label}"),
    }))
    .unwrap()
}

fn shown(workspaces: &[Workspace], page: Page) -> String {
    let now = "2026-11-15T20:30:00Z".parse().unwrap();
    let mut broken = workspaces.to_vec();
    let text = "Service web: exited with 1, 5 times in 15 seconds, which is far too often for it";
    let activity = Activity {
        items: vec![item(&mut broken[2], "failed", text, 8)],
        ..Activity::default()
    };
    let text = render(&rows(&broken, &activity), page, now);
    anstream::adapter::strip_str(&text).to_string()
}

#[test]
fn the_most_urgent_come_first_and_80_columns_hold_all() {
    let text = shown(&all(), Page::Columns(80));
    assert_eq!(
        text,
        "Needs you 1\n\
         ✗ cart-race     shop       failed   Service web: exited with 1, 5 time…    8 min\n\
         \n\
         Idle 1\n\
         ● fix-readme    shop       –        –                                      3 min\n\
         \n\
         Stopped 2\n\
         □ img-lazyload  shop       unsaved  –                                     20 min\n\
         ▲ pg16          atlas-api  –        ran without landlock                  25 min\n"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    // One project is not named in each row.
    let one = shown(&all()[..3], Page::Columns(80));
    assert!(!one.contains("shop"), "{one}");
}

#[test]
fn a_pipe_gets_one_line_per_workspace_and_nothing_is_cut() {
    let text = shown(&all(), Page::Lines);
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        "needs-you  shop/cart-race  failed  Service web: exited with 1, 5 times in 15 seconds, \
         which is far too often for it  2026-11-15T20:22:00Z"
    );
    assert_eq!(
        lines.next().unwrap(),
        "idle  shop/fix-readme  –  –  2026-11-15T20:27:00Z"
    );
}

#[test]
fn sessions_say_who_works_and_who_asks() {
    let session = |attention: serde_json::Value| -> Session {
        serde_json::from_value(serde_json::json!({
            "id": "s00000000001", "workspace": "waaaaaaaaaaaa", "name": null, "parent": null,
            "agent": "claude", "command": ["claude"], "state": "running", "exit_code": null,
            "reason": null, "pid": 1, "created_at": "2026-11-15T20:00:00Z", "ended_at": null,
            "last_output_at": "2026-11-15T20:29:50Z", "rows": 24, "cols": 80,
            "title": "Edits src/cart.ts", "cursor": 0, "viewers": 0, "attention": attention,
        }))
        .unwrap()
    };
    let mut activity = Activity {
        sessions: vec![session(serde_json::Value::Null)],
        ..Activity::default()
    };
    let works = rows(&[at("x", "running", 3)], &activity);
    let row = &works[0];
    assert_eq!((row.group, row.word.as_str()), (Group::Working, "claude"));
    assert_eq!(row.fact, "Edits src/cart.ts");
    // A workspace that needs a person is not listed as working, and its most urgent reason is shown.
    let mut workspaces = [
        at("x", "running", 3),
        at("yy", "running", 3),
        at("zzz", "running", 3),
    ];
    activity.sessions = vec![session(serde_json::Value::Null)];
    activity.items = vec![
        item(&mut workspaces[0], "question", "Which one?", 1),
        item(&mut workspaces[1], "limit", "Memory", 5),
        item(&mut workspaces[2], "ready", "7 files", 2),
        item(&mut workspaces[0], "ready", "1 file", 9),
    ];
    let asks = rows(&workspaces, &activity);
    let named: Vec<_> = asks
        .iter()
        .map(|row| (row.group, row.word.as_str()))
        .collect();
    assert_eq!(
        named,
        [
            (Group::NeedsYou, "question"),
            (Group::NeedsYou, "limit"),
            (Group::Ready, "ready")
        ]
    );
    assert_eq!(asks[0].fact, "Which one?");
    let next = asks[0].next.as_ref().unwrap();
    assert_eq!(next.1, "holm review x");
}

fn run(agent: Option<&str>) -> Run {
    serde_json::from_value(serde_json::json!({
        "id": "r00000000001", "workspace": "waaaaaaaaaaaa", "agent": agent,
        "command": ["npm", "test"], "message": agent.map(|_| "fix the login"),
        "state": "running", "reason": null, "exit_code": null,
        "created_at": "2026-11-15T20:29:00Z", "started_at": "2026-11-15T20:29:30Z",
        "ended_at": null, "duration_ms": null, "timeout_ms": 300_000, "changed": null,
    }))
    .unwrap()
}

#[test]
fn a_run_works_and_its_agent_is_the_third_column() {
    let check = |agent: Option<&str>, word: &str, fact: &str| {
        let activity = Activity {
            runs: vec![run(agent)],
            ..Activity::default()
        };
        let rows = rows(&[at("x", "running", 3)], &activity);
        let found = (rows[0].group, rows[0].word.as_str(), rows[0].fact.as_str());
        assert_eq!(found, (Group::Working, word, fact));
    };
    check(Some("claude"), "claude", "fix the login");
    check(None, "run", "npm test");
}

#[test]
fn wider_terminals_have_more_columns() {
    let activity = Activity {
        runs: vec![run(Some("claude"))],
        numbers: vec![WorkspaceNumbers {
            id: "waaaaaaaaaaaa".to_owned(),
            memory: 612 << 20,
            disk: Some(112 << 20),
            ..WorkspaceNumbers::default()
        }],
        ..Activity::default()
    };
    let rows = rows(&[at("x", "running", 3)], &activity);
    let now = "2026-11-15T20:30:00Z".parse().unwrap();
    let shown = |columns: usize| {
        let text = render(&rows, Page::Columns(columns), now);
        let text = anstream::adapter::strip_str(&text).to_string();
        text.lines().nth(1).unwrap().to_owned()
    };
    let blanks = |count: usize| " ".repeat(count);
    assert_eq!(
        shown(80),
        format!("◐ x  claude  fix the login{}now", blanks(51))
    );
    assert_eq!(
        shown(100),
        format!("◐ x  claude  claude  –  fix the login{}now", blanks(60))
    );
    assert_eq!(
        shown(140),
        format!(
            "◐ x  claude  claude  –  fix the login{}612 MiB  112 MiB  main      now",
            blanks(72)
        )
    );
}

#[test]
fn the_reason_of_a_stopped_workspace_is_in_words() {
    let mut workspaces = all();
    workspaces[0].reason = Some("setup_failed".to_owned());
    let text = shown(&workspaces, Page::Columns(80));
    assert!(text.contains(" setup failed "), "{text}");
}
