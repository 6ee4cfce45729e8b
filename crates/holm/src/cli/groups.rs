//! Workspaces in the order in which they concern a person: who needs you, who works, who is idle.
//! Pure; used by `ls` and by `holm` without a command.

use super::figures::{age, cut};
use super::output::{BAD, FAINT, GOOD, HINT, STRONG, WARNING, printable};
use clap::builder::styling::Style;
use holm_api::Workspace;
use holm_core::service::status::ServiceStatus;
use holm_core::session::protocol::{Session, SessionState};
use jiff::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    NeedsYou,
    Working,
    Idle,
    Stopped,
}

/// One workspace, with the one fact that matters most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub group: Group,
    pub glyph: &'static str,
    pub label: String,
    pub project: String,
    /// Why it is in its group, or whether it has unsaved work.
    pub word: String,
    pub fact: String,
    /// When that was, as the API says it.
    pub since: String,
    /// What to type next.
    pub next: Option<(String, String)>,
}

/// How a list is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// For a terminal of so many columns.
    Columns(usize),
    /// For a pipe: one line per row, nothing cut, complete times.
    Lines,
}

const GROUPS: [Group; 4] = [Group::NeedsYou, Group::Working, Group::Idle, Group::Stopped];

/// The rows of all workspaces, the most urgent first, then the longest waiting.
pub fn rows(workspaces: &[Workspace], sessions: &[Session]) -> Vec<Row> {
    let mut rows: Vec<Row> = workspaces
        .iter()
        .map(|workspace| {
            let own = sessions.iter().filter(|one| one.workspace == workspace.id);
            row(workspace, &own.collect::<Vec<_>>())
        })
        .collect();
    rows.sort_by(|one, other| {
        let key = |row: &Row| (row.group, row.glyph != "◆");
        let times = match one.group {
            Group::NeedsYou => one.since.cmp(&other.since),
            _ => other.since.cmp(&one.since),
        };
        key(one).cmp(&key(other)).then(times)
    });
    rows
}

fn row(workspace: &Workspace, sessions: &[&Session]) -> Row {
    let label = &workspace.label;
    let saved = match workspace.dirty {
        Some(true) => "unsaved",
        Some(false) => "clean",
        None => "–",
    };
    let is_degraded = !workspace.isolation.degraded.is_empty();
    let mut row = Row {
        group: Group::Idle,
        glyph: if is_degraded { "▲" } else { "●" },
        label: label.clone(),
        project: workspace.project.clone(),
        word: saved.to_owned(),
        fact: services_in_short(&workspace.services),
        since: workspace.last_used_at.clone(),
        next: None,
    };
    let running = |session: &&&Session| session.state == SessionState::Running;
    let asking = sessions.iter().filter(running);
    let asking = asking.clone().find(|session| session.attention.is_some());
    if workspace.state == "failed" {
        row.needs("✗", "failed", workspace.reason.clone().unwrap_or_default());
        row.next = next("start it again", format!("holm start {label}"));
    } else if workspace.reason.as_deref() == Some("disk_limit") {
        row.needs("◆", "limit", "Disk is over its limit".to_owned());
        row.next = next("look at it", format!("holm show {label}"));
    } else if let Some(failed) = workspace.services.iter().find(|one| has_failed(one)) {
        let reason = failed.reason.as_deref().unwrap_or(&failed.state);
        row.needs("✗", "failed", format!("Service {}: {reason}", failed.name));
        row.next = next("see why", format!("holm logs {label} {}", failed.name));
    } else if let Some(session) = asking {
        let name = session.agent.as_deref().unwrap_or("A program");
        let title = session.title.clone();
        row.needs(
            "◆",
            "question",
            title.unwrap_or_else(|| format!("{name} rang")),
        );
        row.next = next("answer it", format!("holm session attach {label}"));
    } else if workspace.state == "creating" {
        (row.group, row.glyph) = (Group::Working, "◌");
        row.word = "starting".to_owned();
    } else if workspace.state == "stopped" {
        row.group = Group::Stopped;
        row.fact = match (is_degraded, &workspace.reason) {
            (_, Some(reason)) => reason.clone(),
            (true, None) => format!("ran without {}", workspace.isolation.degraded.join(", ")),
            (false, None) => "–".to_owned(),
        };
        if !is_degraded {
            row.glyph = "□";
        }
    } else if let Some(session) = sessions.iter().find(running) {
        (row.group, row.glyph) = (Group::Working, "◐");
        let command = session.command.first().map(String::as_str);
        row.word = session
            .agent
            .as_deref()
            .or(command)
            .unwrap_or("–")
            .to_owned();
        row.fact = session.title.clone().unwrap_or_else(|| "–".to_owned());
        let since = session.last_output_at.as_ref();
        row.since = since.unwrap_or(&session.created_at).clone();
    }
    row
}

fn next(purpose: &str, command: String) -> Option<(String, String)> {
    Some((purpose.to_owned(), command))
}

/// Whether a service ended badly.
fn has_failed(service: &ServiceStatus) -> bool {
    let is_done = service.reason.as_deref() == Some("exited with 0");
    service.state == "failed" || (service.state == "exited" && !is_done)
}

/// How many services are ready. A service that exited with 0 counts as ready.
fn services_in_short(services: &[ServiceStatus]) -> String {
    let is_ready = |one: &&ServiceStatus| one.state == "ready" || one.state == "exited";
    let (all, ready) = (services.len(), services.iter().filter(is_ready).count());
    match (all, ready) {
        (0, _) => "–".to_owned(),
        (1, 1) => "1 service ready".to_owned(),
        (all, ready) if all == ready => format!("{all} services ready"),
        (all, ready) => format!("{ready} of {all} services ready"),
    }
}

/// All rows, with a heading for each group on a terminal.
pub fn render(rows: &[Row], page: Page, now: Timestamp) -> String {
    let is_one_project = rows
        .windows(2)
        .all(|pair| pair[0].project == pair[1].project);
    let columns = match page {
        Page::Lines => return lines(rows),
        Page::Columns(columns) => columns,
    };
    let widths = Widths::of(rows, columns, is_one_project);
    let mut parts = Vec::new();
    for group in GROUPS {
        let own: Vec<&Row> = rows.iter().filter(|row| row.group == group).collect();
        if own.is_empty() {
            continue;
        }
        let mut part = format!("{STRONG}{} {}{STRONG:#}\n", group.name(), own.len());
        for row in own {
            part.push_str(&line(row, &widths, now));
        }
        parts.push(part);
    }
    parts.join("\n")
}

/// Rows without headings, as `holm` prints them.
pub fn plain(rows: &[&Row], all: &[Row], columns: usize, now: Timestamp) -> String {
    let widths = Widths::of(all, columns, true);
    rows.iter().map(|row| line(row, &widths, now)).collect()
}

struct Widths {
    label: usize,
    project: Option<usize>,
    word: usize,
    fact: usize,
}

const AGE: usize = 7;

// === impl Widths ===

impl Widths {
    fn of(rows: &[Row], columns: usize, is_one_project: bool) -> Self {
        let longest = |text: fn(&Row) -> &String| {
            let lengths = rows.iter().map(|row| text(row).chars().count());
            lengths.max().unwrap_or(0)
        };
        let (label, word) = (longest(|row| &row.label), longest(|row| &row.word));
        let project = (!is_one_project).then(|| longest(|row| &row.project));
        let taken = 2 + label + 2 + project.map_or(0, |width| width + 2) + word + 2 + 2 + AGE;
        Self {
            label,
            project,
            word,
            // The fact is the only part that is cut.
            fact: columns.saturating_sub(taken).max(8),
        }
    }
}

fn line(row: &Row, widths: &Widths, now: Timestamp) -> String {
    let style = row.style();
    let Widths {
        label, word, fact, ..
    } = *widths;
    let project = match widths.project {
        Some(width) => format!("{:width$}  ", printable(&row.project)),
        None => String::new(),
    };
    format!(
        "{style}{}{style:#} {STRONG}{:label$}{STRONG:#}  {project}{:word$}  {:fact$}  {FAINT}{:>AGE$}{FAINT:#}\n",
        row.glyph,
        printable(&row.label),
        row.word,
        cut(&printable(&row.fact), fact),
        age(&row.since, now)
    )
}

/// For pipes: the group is the first column, and nothing is cut.
fn lines(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| {
        let place = format!("{}/{}", printable(&row.project), printable(&row.label));
        let (group, fact) = (row.group.word(), printable(&row.fact));
        format!("{group}  {place}  {}  {fact}  {}\n", row.word, row.since)
    });
    lines.collect()
}

// === impl Group ===

impl Group {
    fn name(self) -> &'static str {
        match self {
            Group::NeedsYou => "Needs you",
            Group::Working => "Working",
            Group::Idle => "Idle",
            Group::Stopped => "Stopped",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Group::NeedsYou => "needs-you",
            Group::Working => "working",
            Group::Idle => "idle",
            Group::Stopped => "stopped",
        }
    }
}

// === impl Row ===

impl Row {
    fn needs(&mut self, glyph: &'static str, word: &str, fact: String) {
        self.group = Group::NeedsYou;
        self.glyph = glyph;
        self.word = word.to_owned();
        self.fact = fact;
    }

    fn style(&self) -> Style {
        match self.glyph {
            "●" => GOOD,
            "✗" => BAD,
            "◆" | "▲" => WARNING,
            "□" => FAINT,
            _ => HINT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ls::tests::workspace;

    fn at(label: &str, state: &str, minutes: u32) -> Workspace {
        let mut made = workspace(label);
        made.state = state.to_owned();
        made.isolation.degraded.clear();
        made.last_used_at = format!("2026-11-15T20:{:02}:00Z", 30 - minutes);
        made
    }

    fn failing(label: &str) -> Workspace {
        let mut made = at(label, "running", 8);
        let service = serde_json::json!({
            "name": "web", "state": "failed", "pid": null, "restarts": 5, "port": null,
            "reason": "exited with 1, 5 times in 15 seconds, which is far too often for it",
        });
        made.services = vec![serde_json::from_value(service).unwrap()];
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
            failing("cart-race"),
            other,
        ]
    }

    fn shown(workspaces: &[Workspace], page: Page) -> String {
        let now = "2026-11-15T20:30:00Z".parse().unwrap();
        let text = render(&rows(workspaces, &[]), page, now);
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
        let works = rows(
            &[at("x", "running", 3)],
            &[session(serde_json::Value::Null)],
        );
        let row = &works[0];
        assert_eq!((row.group, row.word.as_str()), (Group::Working, "claude"));
        assert_eq!(row.fact, "Edits src/cart.ts");
    }
}
