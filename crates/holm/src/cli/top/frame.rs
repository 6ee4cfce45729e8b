//! Renders `top`: lines of a given width, from numbers. It knows no terminal.
//!
//! Columns without room are left out, the least important first; no line is wider than the
//! terminal.

use crate::cli::output::printable;
use holm_api::numbers::{NumbersList, Past, WorkspaceNumbers};
use holm_core::config::rough_size;
use holm_core::numbers::sparkline;

/// The user's choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub order: Order,
    pub has_services: bool,
    /// Rows above the screen.
    pub skip: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Cpu,
    Memory,
    Label,
}

/// The available room, and whether more than ASCII may be used.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub width: usize,
    pub height: usize,
    pub is_styled: bool,
}

/// A column after the name: its heading and its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    State,
    Cpu,
    Memory,
    Processes,
    Disk,
    Volumes,
    Network,
    CpuPast,
    MemoryPast,
}

/// One row, before it is cut to the width.
struct Row {
    name: String,
    is_service: bool,
    cells: Vec<(Column, String)>,
}

/// In display order.
const COLUMNS: [Column; 9] = [
    Column::State,
    Column::Cpu,
    Column::CpuPast,
    Column::Memory,
    Column::MemoryPast,
    Column::Processes,
    Column::Disk,
    Column::Volumes,
    Column::Network,
];

/// In order of importance.
const IMPORTANCE: [Column; 9] = [
    Column::Cpu,
    Column::Memory,
    Column::State,
    Column::CpuPast,
    Column::Processes,
    Column::Disk,
    Column::Network,
    Column::MemoryPast,
    Column::Volumes,
];

const LEAST_NAME: usize = 8;
const MOST_NAME: usize = 44;

const STRONG: &str = "\x1b[1m";
const FAINT: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// The keys, as the last line of a terminal.
pub fn keys(width: usize, is_styled: bool) -> String {
    let look = Look {
        width,
        height: 1,
        is_styled,
    };
    let words = "q quit   s sort   v services   ↑ ↓ move";
    styled(&cut(words, width), FAINT, look)
}

/// All lines that fit.
pub fn lines(numbers: &NumbersList, view: &View, look: Look) -> Vec<String> {
    if look.width == 0 || look.height == 0 {
        return Vec::new();
    }
    let rows = rows(numbers, view);
    let longest = rows.iter().map(|row| row.name.chars().count()).max();
    let name = longest.unwrap_or(0).clamp(LEAST_NAME, MOST_NAME);
    let columns = fitting(look.width.saturating_sub(name));
    let mut lines = vec![
        styled(&cut(&summary(numbers), look.width), STRONG, look),
        styled(
            &cut(&heading(view.order, name, &columns), look.width),
            FAINT,
            look,
        ),
    ];
    if rows.is_empty() {
        let words = "no workspace; `holm up` makes one";
        lines.push(cut(words, look.width));
    }
    for row in rows.iter().skip(view.skip) {
        let text = cut(&row.text(name, &columns), look.width);
        lines.push(if row.is_service {
            styled(&text, FAINT, look)
        } else {
            text
        });
    }
    lines.truncate(look.height);
    lines
}

/// The number of rows, whether they fit or not.
pub fn height(numbers: &NumbersList, view: &View) -> usize {
    rows(numbers, view).len()
}

/// Processors in percent: 100 % is one.
pub fn percent(cpu: f64) -> String {
    let percent = cpu * 100.0;
    if percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

fn rows(numbers: &NumbersList, view: &View) -> Vec<Row> {
    let mut workspaces: Vec<&WorkspaceNumbers> = numbers.workspaces.iter().collect();
    workspaces.sort_by(|one, other| {
        let by_label = || (&one.label, &one.id).cmp(&(&other.label, &other.id));
        match view.order {
            Order::Cpu => other.cpu.total_cmp(&one.cpu).then_with(by_label),
            Order::Memory => other.memory.cmp(&one.memory).then_with(by_label),
            Order::Label => by_label(),
        }
    });
    let mut rows = Vec::new();
    for workspace in workspaces {
        rows.push(of_workspace(workspace));
        if !view.has_services || workspace.state != "running" {
            continue;
        }
        for service in &workspace.services {
            let mut cells = vec![(Column::State, service.state.clone())];
            if service.processes > 0 {
                cells.extend([
                    (Column::Cpu, percent(service.cpu)),
                    (Column::Memory, rough_size(service.memory)),
                    (Column::Processes, service.processes.to_string()),
                ]);
                if service.network_in + service.network_out > 0 {
                    let network = network(service.network_in, service.network_out);
                    cells.push((Column::Network, network));
                }
                cells.extend(past(&service.history));
            }
            rows.push(Row {
                name: format!("  {}", printable(&service.name)),
                is_service: true,
                cells,
            });
        }
    }
    rows
}

fn of_workspace(workspace: &WorkspaceNumbers) -> Row {
    let mut cells = vec![(Column::State, workspace.state.clone())];
    if let Some(disk) = workspace.disk {
        cells.push((Column::Disk, rough_size(disk)));
    }
    let volumes = workspace.volumes.iter().filter_map(|volume| volume.bytes);
    if !workspace.volumes.is_empty() && workspace.disk.is_some() {
        cells.push((Column::Volumes, rough_size(volumes.sum())));
    }
    if workspace.state == "running" {
        let network = network(workspace.network_in, workspace.network_out);
        cells.extend([
            (Column::Cpu, percent(workspace.cpu)),
            (Column::Memory, rough_size(workspace.memory)),
            (Column::Processes, workspace.processes.to_string()),
            (Column::Network, network),
        ]);
        cells.extend(past(&workspace.history));
    }
    Row {
        name: format!(
            "{}/{}",
            printable(&workspace.project),
            printable(&workspace.label)
        ),
        is_service: false,
        cells,
    }
}

fn network(bytes_in: u64, bytes_out: u64) -> String {
    format!("{} / {}", rough_size(bytes_in), rough_size(bytes_out))
}

fn past(past: &Past) -> [(Column, String); 2] {
    let drawn = |column: Column, values: &[f64]| (column, sparkline(values, column.width(), 1.0));
    [
        drawn(Column::CpuPast, &past.cpu),
        drawn(Column::MemoryPast, &past.memory),
    ]
}

fn summary(numbers: &NumbersList) -> String {
    let running = numbers.workspaces.iter();
    let running: Vec<_> = running.filter(|one| one.state == "running").collect();
    let cpu: f64 = running.iter().map(|one| one.cpu).sum();
    let memory: u64 = running.iter().map(|one| one.memory).sum();
    format!(
        "holm: {} of {} running, {} cpu, {} memory",
        running.len(),
        numbers.workspaces.len(),
        percent(cpu),
        rough_size(memory)
    )
}

fn heading(order: Order, name: usize, columns: &[Column]) -> String {
    let mut text = format!("{:name$}", "WORKSPACE");
    for column in columns {
        let is_sorted = matches!(
            (order, column),
            (Order::Cpu, Column::Cpu) | (Order::Memory, Column::Memory)
        );
        let mark = if is_sorted { "▾" } else { "" };
        let heading = format!("{}{mark}", column.heading());
        text.push_str(&column.padded(&heading));
    }
    text
}

/// The columns that fit, each with two leading blanks.
fn fitting(room: usize) -> Vec<Column> {
    let mut left = room;
    let mut chosen = Vec::new();
    for column in IMPORTANCE {
        let needed = column.width() + 2;
        if needed > left {
            break;
        }
        left -= needed;
        chosen.push(column);
    }
    let mut columns = COLUMNS.to_vec();
    columns.retain(|column| chosen.contains(column));
    columns
}

fn cut(text: &str, width: usize) -> String {
    let short: String = text.trim_end().chars().take(width).collect();
    short
}

fn styled(text: &str, style: &str, look: Look) -> String {
    if look.is_styled {
        format!("{style}{text}{PLAIN}")
    } else {
        text.to_owned()
    }
}

// === impl View ===

impl Default for View {
    fn default() -> Self {
        Self {
            order: Order::default(),
            has_services: true,
            skip: 0,
        }
    }
}

// === impl Order ===

impl Order {
    pub fn next(self) -> Self {
        match self {
            Order::Cpu => Order::Memory,
            Order::Memory => Order::Label,
            Order::Label => Order::Cpu,
        }
    }
}

// === impl Row ===

impl Row {
    fn text(&self, name: usize, columns: &[Column]) -> String {
        let short: String = self.name.chars().take(name).collect();
        let mut text = format!("{short:name$}");
        for column in columns {
            let cell = self.cells.iter().find(|(which, _)| which == column);
            text.push_str(&column.padded(cell.map_or("", |(_, cell)| cell)));
        }
        text
    }
}

// === impl Column ===

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Column::State => "STATE",
            Column::Cpu => "CPU",
            Column::Memory => "MEMORY",
            Column::Processes => "PROCS",
            Column::Disk => "DISK",
            Column::Volumes => "VOLUMES",
            Column::Network => "NET IN / OUT",
            Column::CpuPast | Column::MemoryPast => "",
        }
    }

    fn width(self) -> usize {
        match self {
            Column::State => 8,
            Column::Cpu => 7,
            Column::Memory | Column::Disk | Column::Volumes => 10,
            Column::Processes => 5,
            Column::Network => 23,
            Column::CpuPast | Column::MemoryPast => 12,
        }
    }

    fn padded(self, cell: &str) -> String {
        let width = self.width();
        let short: String = cell.chars().take(width).collect();
        match self {
            // The newest value is at the right, next to no other column.
            Column::State => format!("  {short:width$}"),
            _ => format!("  {short:>width$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_api::numbers::{ServiceNumbers, VolumeNumbers};

    fn numbers() -> NumbersList {
        let workspace = |label: &str, cpu: f64, memory: u64| WorkspaceNumbers {
            label: label.to_owned(),
            project: "shop".to_owned(),
            state: "running".to_owned(),
            cpu,
            memory,
            processes: 3,
            disk: Some(5 << 20),
            volumes: vec![VolumeNumbers {
                name: "pg".to_owned(),
                policy: "fork".to_owned(),
                bytes: Some(3 << 20),
            }],
            network_in: 2048,
            network_out: 10,
            history: Past {
                cpu: vec![0.0, 0.5, 1.0],
                memory: vec![1.0, 2.0, 2.0],
            },
            services: vec![ServiceNumbers {
                name: "web".to_owned(),
                state: "ready".to_owned(),
                cpu,
                memory,
                processes: 1,
                network_in: 2048,
                network_out: 10,
                history: Past::default(),
            }],
            ..WorkspaceNumbers::default()
        };
        let mut stopped = workspace("old", 0.0, 0);
        stopped.state = "stopped".to_owned();
        stopped.disk = None;
        NumbersList {
            history_seconds: 5,
            workspaces: vec![
                workspace("a", 0.125, 3 << 20),
                workspace("b", 1.5, 1 << 20),
                stopped,
            ],
        }
    }

    fn plain(width: usize, height: usize) -> Look {
        Look {
            width,
            height,
            is_styled: false,
        }
    }

    #[test]
    fn everything_where_there_is_room() {
        let lines = lines(&numbers(), &View::default(), plain(130, 50));
        let expect = [
            "holm: 2 of 3 running, 162 % cpu, 4.0 MiB memory",
            "WORKSPACE  STATE        CPU▾                    MEMORY                PROCS        DISK   VOLUMES          NET IN / OUT",
            "shop/b     running     150 %           ▁▅█     1.0 MiB           ▅██      3     5.0 MiB   3.0 MiB       2.0 KiB / 10 B",
            "  web      ready       150 %                   1.0 MiB                    1        2.0 KiB / 10 B",
        ];
        for (found, expect) in lines.iter().zip(expect) {
            let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(squeezed(found), squeezed(expect));
        }
        assert_eq!(lines.len(), 2 + 2 + 2 + 1);
        assert!(lines[6].starts_with("shop/old") && lines[6].ends_with("stopped"));
    }

    #[test]
    fn sorted_and_without_services() {
        let order = |order| {
            let view = View {
                order,
                has_services: false,
                skip: 0,
            };
            let lines = lines(&numbers(), &view, plain(80, 50));
            let names = lines[2..].iter().map(|line| line[..8].trim().to_owned());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(order(Order::Cpu), "shop/b shop/a shop/old");
        assert_eq!(order(Order::Memory), "shop/a shop/b shop/old");
        assert_eq!(order(Order::Label), "shop/a shop/b shop/old");
    }

    #[test]
    fn no_terminal_is_too_small_and_nothing_is_something() {
        for list in [numbers(), NumbersList::default()] {
            for width in 0..130 {
                for height in [0, 1, 2, 3, 24] {
                    let lines = lines(&list, &View::default(), plain(width, height));
                    assert!(lines.len() <= height);
                    assert!(lines.iter().all(|line| line.chars().count() <= width));
                }
            }
        }
        let empty = lines(&NumbersList::default(), &View::default(), plain(80, 24));
        assert!(empty[2].contains("holm up"), "{empty:?}");
        let narrow = lines(&numbers(), &View::default(), plain(30, 24));
        assert!(
            narrow[2].contains("150 %"),
            "the load comes first: {narrow:?}"
        );
    }
}
