//! Workspaces in the order in which they concern a person: who needs you, who works, who is idle.
//! Used by `ls` and by `holm` without a command.

use super::figures::{age, cut};
use super::ls::start_of;
use super::output::{BAD, FAINT, GOOD, HINT, STRONG, WARNING, printable};
use clap::builder::styling::Style;
use holm_api::Workspace;
use holm_api::client::Client;
use holm_api::numbers::WorkspaceNumbers;
use holm_api::run::Run;
use holm_api::workspace::WorkspaceList;
use holm_core::Fault;
use holm_core::config::rough_size;
use holm_core::service::status::ServiceStatus;
use holm_core::session::protocol::{Session, SessionState};
use jiff::Timestamp;
use std::mem;

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
    /// The agent at work in it.
    agent: String,
    /// How many services are ready.
    services: String,
    memory: String,
    disk: String,
    reference: String,
}

/// What goes on in the workspaces.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    pub sessions: Vec<Session>,
    /// Those that are under way.
    pub runs: Vec<Run>,
    /// Only for wide terminals.
    pub numbers: Vec<WorkspaceNumbers>,
}

/// How a list is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// For a terminal of so many columns.
    Columns(usize),
    /// For a pipe: one line per row, nothing cut, complete times.
    Lines,
}

/// From how many columns on a row has more than the most important cells.
const WIDE: usize = 100;
pub const WIDEST: usize = 140;

const GROUPS: [Group; 4] = [Group::NeedsYou, Group::Working, Group::Idle, Group::Stopped];

// === impl Activity ===

impl Activity {
    /// All workspaces and what goes on in them; with resource use if the terminal has room for it.
    pub async fn find(client: &Client, columns: usize) -> Result<(WorkspaceList, Self), Fault> {
        let numbers = async {
            match columns {
                WIDEST.. => Ok(client.numbers().await?.workspaces),
                _ => Ok(Vec::new()),
            }
        };
        let (mut list, numbers) = tokio::try_join!(client.workspaces(), numbers)?;
        let activity = Self {
            sessions: mem::take(&mut list.sessions),
            runs: mem::take(&mut list.runs),
            numbers,
        };
        Ok((list, activity))
    }
}

/// The rows of all workspaces, the most urgent first, then the longest waiting.
pub fn rows(workspaces: &[Workspace], activity: &Activity) -> Vec<Row> {
    let mut rows: Vec<Row> = workspaces
        .iter()
        .map(|workspace| {
            let own = activity.sessions.iter();
            let own = own.filter(|one| one.workspace == workspace.id);
            let mut run = activity.runs.iter();
            let run = run.find(|one| one.workspace == workspace.id);
            let mut row = row(workspace, &own.collect::<Vec<_>>(), run);
            let numbers = activity.numbers.iter().find(|one| one.id == workspace.id);
            row.measure(workspace, numbers);
            row
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

fn row(workspace: &Workspace, sessions: &[&Session], run: Option<&Run>) -> Row {
    let label = &workspace.label;
    let is_degraded = !workspace.isolation.degraded.is_empty();
    let mut row = Row::of(workspace);
    let running = |session: &&&Session| session.state == SessionState::Running;
    let asking = sessions.iter().filter(running);
    let asking = asking.clone().find(|session| session.attention.is_some());
    let at_work = sessions.iter().find(running);
    let agents = [
        at_work.and_then(|it| it.agent.as_ref()),
        run.and_then(|it| it.agent.as_ref()),
    ];
    if let Some(agent) = agents.into_iter().flatten().next() {
        row.agent.clone_from(agent);
    }
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
        let asked = session.attention.as_ref().and_then(|it| it.text.clone());
        let asked = asked.or_else(|| session.title.clone());
        let fact = asked.unwrap_or_else(|| format!("{name} rang"));
        row.needs("◆", "question", fact);
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
    } else if let Some(run) = run {
        let fact = run.message.clone();
        row.works(
            run.agent.as_deref().unwrap_or("run"),
            fact.unwrap_or_else(|| run.command.join(" ")),
            run.started_at.as_ref().unwrap_or(&run.created_at),
        );
    } else if let Some(session) = at_work {
        let command = session.command.first();
        let word = session.agent.as_ref().or(command);
        row.works(
            word.map_or("–", String::as_str),
            session.title.clone().unwrap_or_else(|| "–".to_owned()),
            session
                .last_output_at
                .as_ref()
                .unwrap_or(&session.created_at),
        );
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

fn is_ready(service: &ServiceStatus) -> bool {
    service.state == "ready" || service.state == "exited"
}

/// How many services are ready. A service that exited with 0 counts as ready.
fn services_in_short(services: &[ServiceStatus]) -> String {
    let ready = services.iter().filter(|one| is_ready(one)).count();
    let all = services.len();
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

/// The widths of the cells of a row; 0: the terminal has no room for it.
struct Widths {
    label: usize,
    project: usize,
    word: usize,
    agent: usize,
    services: usize,
    fact: usize,
    memory: usize,
    disk: usize,
    reference: usize,
}

const AGE: usize = 7;

// === impl Widths ===

impl Widths {
    fn of(rows: &[Row], columns: usize, is_one_project: bool) -> Self {
        let longest = |is_shown: bool, text: fn(&Row) -> &String| {
            let lengths = rows.iter().map(|row| text(row).chars().count());
            if is_shown {
                lengths.max().unwrap_or(0)
            } else {
                0
            }
        };
        let (is_wide, is_widest) = (columns >= WIDE, columns >= WIDEST);
        let mut widths = Self {
            label: longest(true, |row| &row.label),
            project: longest(!is_one_project, |row| &row.project),
            word: longest(true, |row| &row.word),
            agent: longest(is_wide, |row| &row.agent),
            services: longest(is_wide, |row| &row.services),
            fact: 0,
            memory: longest(is_widest, |row| &row.memory),
            disk: longest(is_widest, |row| &row.disk),
            reference: longest(is_widest, |row| &row.reference),
        };
        let taken = [
            widths.label,
            widths.project,
            widths.word,
            widths.agent,
            widths.services,
            widths.memory,
            widths.disk,
            widths.reference,
        ];
        let taken = taken.iter().filter(|width| **width > 0);
        let taken: usize = taken.map(|width| width + 2).sum();
        // The fact is the only part that is cut.
        widths.fact = columns.saturating_sub(2 + taken + 2 + AGE).max(8);
        widths
    }
}

fn line(row: &Row, widths: &Widths, now: Timestamp) -> String {
    let style = row.style();
    let cell = |text: &str, width: usize| match width {
        0 => String::new(),
        width => format!("{text:width$}  "),
    };
    let label = widths.label;
    let mut text = format!(
        "{style}{}{style:#} {STRONG}{:label$}{STRONG:#}  ",
        row.glyph,
        printable(&row.label)
    );
    text.push_str(&cell(&printable(&row.project), widths.project));
    text.push_str(&cell(&row.word, widths.word));
    text.push_str(&cell(&printable(&row.agent), widths.agent));
    text.push_str(&cell(&row.services, widths.services));
    text.push_str(&cell(&cut(&printable(&row.fact), widths.fact), widths.fact));
    text.push_str(&cell(&row.memory, widths.memory));
    text.push_str(&cell(&row.disk, widths.disk));
    text.push_str(&cell(&printable(&row.reference), widths.reference));
    text.push_str(&format!("{FAINT}{:>AGE$}{FAINT:#}\n", age(&row.since, now)));
    text
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
    /// An idle workspace.
    fn of(workspace: &Workspace) -> Self {
        let saved = match workspace.dirty {
            Some(true) => "unsaved",
            Some(false) => "clean",
            None => "–",
        };
        let is_degraded = !workspace.isolation.degraded.is_empty();
        Self {
            group: Group::Idle,
            glyph: if is_degraded { "▲" } else { "●" },
            label: workspace.label.clone(),
            project: workspace.project.clone(),
            word: saved.to_owned(),
            fact: services_in_short(&workspace.services),
            since: workspace.last_used_at.clone(),
            next: None,
            agent: "–".to_owned(),
            services: "–".to_owned(),
            memory: "–".to_owned(),
            disk: "–".to_owned(),
            reference: "–".to_owned(),
        }
    }

    fn works(&mut self, word: &str, fact: String, since: &str) {
        (self.group, self.glyph) = (Group::Working, "◐");
        self.word = word.to_owned();
        self.fact = fact;
        self.since = since.to_owned();
    }

    /// The cells for wide terminals.
    fn measure(&mut self, workspace: &Workspace, numbers: Option<&WorkspaceNumbers>) {
        let services = &workspace.services;
        if !services.is_empty() {
            let ready = services.iter().filter(|one| is_ready(one)).count();
            self.services = format!("{ready} of {}", services.len());
        }
        if let Some(numbers) = numbers {
            self.memory = rough_size(numbers.memory);
            self.disk = numbers.disk.map_or_else(|| "–".to_owned(), rough_size);
        }
        self.reference = start_of(workspace);
    }

    fn needs(&mut self, glyph: &'static str, word: &str, fact: String) {
        self.group = Group::NeedsYou;
        self.glyph = glyph;
        self.word = word.to_owned();
        self.fact = fact;
    }

    pub fn style(&self) -> Style {
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
        let text = render(&rows(workspaces, &Activity::default()), page, now);
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
        activity.sessions = vec![session(serde_json::json!({
            "time": "2026-11-15T20:29:00Z", "text": null,
        }))];
        let asks = rows(&[at("x", "running", 3)], &activity);
        assert_eq!(
            (asks[0].group, asks[0].word.as_str()),
            (Group::NeedsYou, "question")
        );
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
}
