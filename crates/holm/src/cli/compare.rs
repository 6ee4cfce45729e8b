//! `holm compare`: workspaces of one project side by side.

use super::completions::labels;
use super::figures::{count, duration};
use super::output::{BAD, FAINT, GOOD, STRONG, WARNING, printable};
use super::work::Subject;
use super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_api::review::{Compared, Comparison, ConflictWith};
use holm_core::{Code, Fault};
use std::process::ExitCode;

/// Compare workspaces of one project: what each changed, how it went, and what conflicts
///
/// Every workspace is shown with its last turn, since the commit that it started from: checks, hosts, data,
/// risks, changed files, and the live workspaces and the branch that changed the same lines. Conflicts are found
/// by merging trees outside, never in a checkout. Rows that are the same everywhere are dim. No winner is named.
///
/// With --json: {"workspaces":[{id,label,turn,tree,files,added,removed,checks,ms,hosts,conflicts}]}; ms is the
/// time of its runs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm compare cart-race-1 cart-race-2\n  \
    holm compare cart-race-1 cart-race-2 cart-race-3 --quiet\n  \
    holm up -n 3 cart-race && holm compare cart-race-1 cart-race-2 cart-race-3")]
pub struct CompareArgs {
    /// Labels, project/label, ids or beginnings of ids: two or more
    #[arg(value_name = "WS", required = true, num_args = 2.., add = labels())]
    workspaces: Vec<String>,
}

/// One fact of every workspace, as plain text.
struct Row {
    name: String,
    /// A list of items for each workspace.
    cells: Vec<Vec<String>>,
}

/// More workspaces become one block each.
const MOST_COLUMNS: usize = 3;
const COLUMNS: usize = 80;
const NAME: usize = 18;

pub fn run(context: &Context, arguments: CompareArgs) -> Outcome {
    let comparison = connect::block_on(async {
        let client = connect::started().await?;
        let mut ids = Vec::new();
        for typed in &arguments.workspaces {
            let id = resolve::one(&client, typed).await?;
            if ids.contains(&id) {
                return Err(Fault::new(
                    Code::Usage,
                    format!("`{}` is named twice", typed.escape_debug()),
                    "name two or more different workspaces: `holm compare WS WS`",
                ));
            }
            ids.push(id);
        }
        let first = Subject {
            id: ids[0].clone(),
            client,
        };
        first.send_branches().await?;
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        first.client.compare(&ids.join(",")).await
    })?;
    context.output.facts(&comparison, || render(&comparison));
    for note in &comparison.notes {
        let note = printable(note);
        context
            .output
            .remark(&format!("{WARNING}note:{WARNING:#} {note}"));
    }
    for one in comparison.workspaces.iter().filter(|one| one.changed_since) {
        let (label, turn) = (&one.label, one.turn.unwrap_or_default());
        context.output.remark(&format!(
            "{WARNING}note:{WARNING:#} {label} changed since @{turn}: `holm review {label} --mark` records that"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn render(comparison: &Comparison) -> String {
    let all = &comparison.workspaces;
    let rows = rows(all);
    if all.len() > MOST_COLUMNS {
        return blocks(all, &rows);
    }
    let width = (COLUMNS - NAME) / all.len() - 2;
    let heads = all.iter().map(|one| vec![head(one)]).collect();
    let heads = laid_out("", heads, width).join("\n");
    let mut text = vec![format!("{STRONG}{heads}{STRONG:#}")];
    for row in rows {
        let is_same = row.is_same();
        let lines = laid_out(&row.name, row.cells, width);
        text.extend(lines.iter().map(|line| coloured(line, is_same)));
    }
    text.join("\n")
}

fn blocks(all: &[Compared], rows: &[Row]) -> String {
    let mut text = Vec::new();
    for (place, one) in all.iter().enumerate() {
        if place > 0 {
            text.push(String::new());
        }
        text.push(format!("{STRONG}{}{STRONG:#}", head(one)));
        for row in rows {
            let cells = vec![row.cells[place].clone()];
            let lines = laid_out(&format!("  {}", row.name), cells, COLUMNS - NAME);
            text.extend(lines.iter().map(|line| coloured(line, row.is_same())));
        }
    }
    text.join("\n")
}

fn head(one: &Compared) -> String {
    let turn = one.turn.map(|turn| format!("@{turn}"));
    format!("{} {}", one.label, turn.as_deref().unwrap_or("–"))
}

/// The lines of a row: every cell in a column of its own, broken to its width.
fn laid_out(name: &str, cells: Vec<Vec<String>>, width: usize) -> Vec<String> {
    let broken: Vec<Vec<String>> = cells
        .iter()
        .map(|items| items.iter().flat_map(|item| broken(item, width)).collect())
        .collect();
    let height = broken.iter().map(Vec::len).max().unwrap_or(0);
    let line = |number: usize| {
        let name = if number == 0 { name } else { "" };
        let mut line = format!("{name:<NAME$}");
        for cell in &broken {
            let part = cell.get(number).map_or("", String::as_str);
            line.push_str(&format!("{part:<width$}  "));
        }
        line.trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

/// Breaks a text between words, and a word that is too long anywhere.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let letters: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + letters.len() > width {
            lines.push(String::new());
            used = 0;
        }
        for (number, part) in letters.chunks(width).enumerate() {
            if number > 0 {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                if used > 0 {
                    line.push(' ');
                    used += 1;
                }
                line.extend(part);
                used += part.len();
            }
        }
    }
    lines
}

fn coloured(line: &str, is_same: bool) -> String {
    if is_same {
        return format!("{FAINT}{line}{FAINT:#}");
    }
    [('✗', BAD), ('◆', WARNING), ('▲', WARNING), ('●', GOOD)]
        .iter()
        .fold(line.to_owned(), |line, (glyph, style)| {
            line.replace(*glyph, &format!("{style}{glyph}{style:#}"))
        })
}

// === impl Row ===

impl Row {
    fn of(
        name: impl Into<String>,
        all: &[Compared],
        cell: impl Fn(&Compared) -> Vec<String>,
    ) -> Self {
        Self {
            name: name.into(),
            cells: all.iter().map(cell).collect(),
        }
    }

    fn is_same(&self) -> bool {
        self.cells.windows(2).all(|pair| pair[0] == pair[1])
    }
}

fn rows(all: &[Compared]) -> Vec<Row> {
    let mut rows = Vec::new();
    for name in names(all, |one| {
        one.checks.iter().map(|check| &check.name).collect()
    }) {
        rows.push(Row::of(format!("check {}", printable(&name)), all, |one| {
            let check = one.checks.iter().find(|check| check.name == name);
            vec![match check {
                None => "not run".to_owned(),
                Some(check) if check.exit_code == Some(0) => format!("● {}", check.state.as_str()),
                Some(check) if check.exit_code.is_some() => format!("✗ {}", check.state.as_str()),
                Some(check) => check.state.as_str().to_owned(),
            }]
        }));
    }
    rows.push(Row::of("hosts", all, hosts));
    for name in names(all, |one| {
        one.volumes.iter().map(|volume| &volume.name).collect()
    }) {
        rows.push(Row::of(
            format!("volume {}", printable(&name)),
            all,
            |one| {
                let is_changed = one.volumes.iter().any(|volume| volume.name == name);
                let word = if is_changed { "changed" } else { "no change" };
                vec![word.to_owned()]
            },
        ));
    }
    rows.push(Row::of("risks", all, risks));
    let none = "no conflict";
    rows.push(Row::of("siblings", all, |one| {
        let found = one.conflicts.iter().filter(|one| one.workspace.is_some());
        items(found.map(conflict), none)
    }));
    for name in names(all, |one| one.branch.iter().collect()) {
        rows.push(Row::of(
            format!("branch {}", printable(&name)),
            all,
            |one| {
                let found = one.conflicts.iter().filter(|one| one.workspace.is_none());
                let found = found.filter(|found| found.with == name);
                let other = if one.branch.as_ref() == Some(&name) {
                    none
                } else {
                    "another branch"
                };
                items(found.map(|found| format!("✗ {}", paths(found))), other)
            },
        ));
    }
    rows.push(Row::of("runs", all, |one| {
        vec![if one.ms == 0 {
            "none".to_owned()
        } else {
            duration(one.ms)
        }]
    }));
    rows.push(Row::of("changed", all, |one| {
        let files = count(one.files, "file");
        vec![format!("{files} +{} −{}", one.added, one.removed)]
    }));
    rows
}

/// The names that any workspace has, in the order in which they come.
fn names<'a>(all: &'a [Compared], of: impl Fn(&'a Compared) -> Vec<&'a String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in all.iter().flat_map(of) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn items(found: impl Iterator<Item = String>, none: &str) -> Vec<String> {
    let found: Vec<String> = found.collect();
    if found.is_empty() {
        vec![none.to_owned()]
    } else {
        found
    }
}

fn hosts(one: &Compared) -> Vec<String> {
    let (refused, reached): (Vec<_>, Vec<_>) = one.hosts.iter().partition(|host| host.refused);
    let mut items = vec![format!("{} reached", reached.len())];
    items.extend(refused.iter().map(|host| {
        let port = host.port.map(|port| format!(":{port}"));
        let port = port.unwrap_or_default();
        format!("◆ refused {}{port}", printable(&host.host))
    }));
    items
}

/// Every kind once, with the number of its files.
fn risks(one: &Compared) -> Vec<String> {
    let mut kinds: Vec<(&str, &str, u64)> = Vec::new();
    for risk in &one.risks {
        match kinds.iter_mut().find(|(kind, ..)| *kind == risk.kind) {
            Some((.., number)) => *number += 1,
            None => kinds.push((&risk.kind, &risk.weight, 1)),
        }
    }
    let kinds = kinds.iter().map(|(kind, weight, number)| {
        let glyph = match *weight {
            "high" => '✗',
            "middle" => '◆',
            _ => '▲',
        };
        format!("{glyph} {kind}: {}", count(*number, "file"))
    });
    items(kinds, "none")
}

fn conflict(one: &ConflictWith) -> String {
    format!("✗ {}: {}", printable(&one.with), paths(one))
}

/// The first names of a conflict.
fn paths(one: &ConflictWith) -> String {
    const MOST: usize = 3;
    let shown: Vec<String> = one
        .paths
        .iter()
        .take(MOST)
        .map(|path| printable(path))
        .collect();
    let more = one.paths.len().saturating_sub(MOST) as u64 + one.more;
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_api::review::{CheckEvidence, HostEvidence, Risk};
    use holm_core::check::CheckState;

    fn compared(label: &str, files: u64) -> Compared {
        Compared {
            id: "w4k9c2v7m1xqp".to_owned(),
            label: label.to_owned(),
            turn: Some(2),
            tree: None,
            files,
            added: 3,
            removed: 1,
            checks: Vec::new(),
            ms: 0,
            hosts: Vec::new(),
            volumes: Vec::new(),
            risks: Vec::new(),
            conflicts: Vec::new(),
            branch: Some("main".to_owned()),
            changed_since: false,
        }
    }

    fn shown(workspaces: Vec<Compared>) -> (String, String) {
        let notes = Vec::new();
        let text = render(&Comparison { workspaces, notes });
        (anstream::adapter::strip_str(&text).to_string(), text)
    }

    #[test]
    fn two_are_columns_in_full_and_equal_rows_are_dim() {
        let (mut one, other) = (compared("cart-race-1", 5), compared("cart-race-2", 6));
        let check = |name: &str, exit_code| CheckEvidence {
            name: name.to_owned(),
            state: if exit_code == 0 {
                CheckState::Passed
            } else {
                CheckState::Failed
            },
            exit_code: Some(exit_code),
            ms: None,
        };
        one.checks = vec![check("e2e", 1)];
        one.hosts = vec![HostEvidence {
            host: "telemetry.of.a.very.long.name.example.org".to_owned(),
            port: Some(443),
            refused: true,
            count: 1,
        }];
        one.risks = vec![Risk {
            path: "a.lock".to_owned(),
            kind: "lock".to_owned(),
            text: String::new(),
            weight: "middle".to_owned(),
        }];
        one.conflicts = vec![ConflictWith {
            with: "main".to_owned(),
            workspace: None,
            paths: vec!["src/a\u{1b}[31m".to_owned()],
            more: 0,
        }];
        let (plain, text) = shown(vec![one, other]);
        assert_eq!(
            plain,
            "                  cart-race-1 @2                 cart-race-2 @2\n\
             check e2e         ✗ failed                       not run\n\
             hosts             0 reached                      0 reached\n\
             \x20                 ◆ refused\n\
             \x20                 telemetry.of.a.very.long.name\n\
             \x20                 .example.org:443\n\
             risks             ◆ lock: 1 file                 none\n\
             siblings          no conflict                    no conflict\n\
             branch main       ✗ src/a\\u{1b}[31m              no conflict\n\
             runs              none                           none\n\
             changed           5 files +3 −1                  6 files +3 −1"
        );
        assert!(plain.lines().all(|line| line.chars().count() <= 80));
        let dim = |name: &str| {
            let line = text.lines().find(|line| line.contains(name)).unwrap();
            line.starts_with(&FAINT.render().to_string())
        };
        assert!(dim("siblings") && !dim("changed") && !dim("hosts"));
    }

    #[test]
    fn four_are_one_block_each() {
        let all = (1..=4).map(|number| compared(&format!("x-{number}"), number));
        let (plain, _) = shown(all.collect());
        let heads: Vec<_> = plain
            .lines()
            .filter(|line| line.starts_with("x-"))
            .collect();
        assert_eq!(heads, ["x-1 @2", "x-2 @2", "x-3 @2", "x-4 @2"]);
        assert_eq!(plain.matches("  changed         ").count(), 4, "{plain}");
    }
}
