//! Workspaces in the order in which they concern a person: who needs you, who works, who is idle.
//! Used by `ls` and by `holm` without a command.

use super::figures::{age, cut};
use super::output::{BAD, FAINT, GOOD, HINT, STRONG, WARNING, printable};
use clap::builder::styling::Style;
use holm_api::Workspace;
use holm_api::client::Client;
use holm_api::inbox::InboxItem;
use holm_api::numbers::WorkspaceNumbers;
use holm_api::run::Run;
use holm_api::workspace::WorkspaceList;
use holm_core::Fault;
use holm_core::config::rough_size;
use holm_core::inbox::{self, Reason};
use holm_core::service::status::ServiceStatus;
use holm_core::session::protocol::{Session, SessionState};
use jiff::Timestamp;
use std::mem;

/// The length of an abbreviated commit id.
const SHORT_COMMIT: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    NeedsYou,
    Ready,
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
    /// Why a person is needed.
    reason: Option<Reason>,
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
    /// What needs a person, the most urgent first.
    pub items: Vec<InboxItem>,
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

const GROUPS: [Group; 5] = [
    Group::NeedsYou,
    Group::Ready,
    Group::Working,
    Group::Idle,
    Group::Stopped,
];

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
            items: mem::take(&mut list.items),
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
            // The first one of a workspace is its most urgent one.
            let mut item = activity.items.iter();
            let item = item.find(|one| one.workspace == workspace.id);
            let mut row = row(workspace, &own.collect::<Vec<_>>(), run, item);
            let same = workspaces.iter().filter(|one| one.label == workspace.label);
            if same.count() == 1 {
                row.shorten_next();
            }
            let numbers = activity.numbers.iter().find(|one| one.id == workspace.id);
            row.measure(workspace, numbers);
            row
        })
        .collect();
    rows.sort_by(|one, other| {
        // Those that need a person by urgency, then the longest waiting; the others by their last use.
        let times = match one.reason.is_some() {
            true => one.since.cmp(&other.since),
            false => other.since.cmp(&one.since),
        };
        let key = |row: &Row| (row.group, row.reason);
        key(one).cmp(&key(other)).then(times)
    });
    rows
}

fn row(
    workspace: &Workspace,
    sessions: &[&Session],
    run: Option<&Run>,
    item: Option<&InboxItem>,
) -> Row {
    let is_degraded = !workspace.isolation.degraded.is_empty();
    let mut row = Row::of(workspace);
    let running = |session: &&&Session| session.state == SessionState::Running;
    let at_work = sessions.iter().find(running);
    let agents = [
        at_work.and_then(|it| it.agent.as_ref()),
        run.and_then(|it| it.agent.as_ref()),
    ];
    if let Some(agent) = agents.into_iter().flatten().next() {
        row.agent.clone_from(agent);
    }
    if let Some(item) = item {
        row.needs(item);
    } else if workspace.state == "creating" {
        (row.group, row.glyph) = (Group::Working, "◌");
        row.word = "starting".to_owned();
    } else if workspace.state == "stopped" {
        row.group = Group::Stopped;
        row.fact = match (is_degraded, &workspace.reason) {
            (_, Some(reason)) => reason.replace('_', " "),
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
            Group::Ready => inbox::Group::Ready.name(),
            Group::Working => "Working",
            Group::Idle => "Idle",
            Group::Stopped => "Stopped",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Group::NeedsYou => "needs-you",
            Group::Ready => "ready-to-read",
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
            reason: None,
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

    fn needs(&mut self, item: &InboxItem) {
        let part = item.reason.group();
        self.group = match part {
            inbox::Group::Waiting | inbox::Group::Broken => Group::NeedsYou,
            inbox::Group::Ready => Group::Ready,
        };
        self.glyph = part.glyph();
        self.reason = Some(item.reason);
        self.word = item.reason.as_str().to_owned();
        self.fact.clone_from(&item.text);
        self.since.clone_from(&item.since);
        self.next = Some((item.reason.purpose().to_owned(), item.next.clone()));
    }

    /// Names the workspace by its label alone, where no other has it.
    fn shorten_next(&mut self) {
        if let Some((_, command)) = &mut self.next {
            let whole = format!(" {}/{}", self.project, self.label);
            *command = command.replacen(&whole, &format!(" {}", self.label), 1);
        }
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

/// The commit or ref that the workspace started from, abbreviated.
pub fn start_of(workspace: &Workspace) -> String {
    match (&workspace.reference, &workspace.commit) {
        (Some(reference), _) => reference.clone(),
        (None, Some(commit)) => commit.chars().take(SHORT_COMMIT).collect(),
        (None, None) => "-".to_owned(),
    }
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
