//! The question about what a repository requests from the host: its text, a person's answer, and the
//! approval of exactly that. Asked by `trust`, by `up`, and before git runs programs on the host.

use super::Context;
use super::output::{self, FAINT, STRONG, printable};
use holm_api::client::Client;
use holm_api::project::{Ask, AskChange, ChangeKind, TrustApprove, TrustCheck, TrustReport};
use holm_core::{Code, Fault};
use holm_engine::try_blocking;

/// Longer words of a request push its key to the right.
const LONGEST_WORDS: usize = 52;

/// How the repository's requests may be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    Everything,
    /// The user chose to continue without them.
    Nothing,
}

/// What to do about unapproved requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unapproved {
    /// Ask on a terminal, fail with this hint otherwise.
    Ask { hint: String },
    /// Continue without them.
    LeaveOut,
}

/// Decides how `up` handles the repository's requests, and asks the user if necessary.
pub async fn settle(
    context: &Context,
    client: &Client,
    check: &TrustCheck,
    unapproved: Unapproved,
) -> Result<Granted, Fault> {
    if check.config.is_none() && check.worktree_include.is_empty() {
        return Ok(Granted::Everything);
    }
    let report = client.check_trust(check).await?;
    if report.asks.is_empty() || report.approved {
        return Ok(Granted::Everything);
    }
    let Unapproved::Ask { hint } = unapproved else {
        return Ok(Granted::Nothing);
    };
    if !may_ask(context) {
        return Err(not_trusted(&report, &hint));
    }
    approved_by_person(context, client, (check, &report), &hint).await?;
    Ok(Granted::Everything)
}

/// Shows the requests and stores the user's approval; a refusal is an error.
pub async fn approved_by_person(
    context: &Context,
    client: &Client,
    (check, report): (&TrustCheck, &TrustReport),
    hint: &str,
) -> Result<(), Fault> {
    let name = project_name(client, check).await;
    context.output.remark(&asks_text(&name, check, report));
    if !ask(context, &name, check).await {
        return Err(Fault::new(Code::NotTrusted, "nothing was approved", hint));
    }
    give(client, check, report).await
}

/// The project's name, for people; without an answer of the daemon its id.
pub async fn project_name(client: &Client, check: &TrustCheck) -> String {
    let projects = client.projects().await.map(|list| list.projects);
    let mut projects = projects.unwrap_or_default().into_iter();
    let found = projects.find(|project| project.id == check.project_id);
    found.map_or_else(|| check.project_id.clone(), |project| project.name)
}

pub fn may_ask(context: &Context) -> bool {
    !context.output.is_json() && output::can_ask()
}

/// Asks in a separate thread, so that ctrl-C works meanwhile. `d` shows the file, and asks again.
pub async fn ask(context: &Context, name: &str, check: &TrustCheck) -> bool {
    let question = format!(
        "Approve this for {}? yes, No, or show the file",
        printable(name)
    );
    loop {
        let question = question.clone();
        let answer = try_blocking(move || Ok(output::ask_for(&question, "[y/N/d]"))).await;
        let Ok(Some(answer)) = answer else {
            return false;
        };
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return true,
            "d" => context.output.remark(&file_text(check)),
            _ => return false,
        }
    }
}

/// What is to be approved, in full, behind a gutter.
fn file_text(check: &TrustCheck) -> String {
    let config = check.config.iter().flat_map(|text| text.lines());
    let config = config.map(str::to_owned);
    let include = check.worktree_include.iter();
    let include = include.map(|pattern| format!(".worktreeinclude: {pattern}"));
    let settings = check.settings.iter().map(|setting| {
        let text = serde_json::to_string(setting);
        text.unwrap_or_default()
    });
    let lines = config.chain(include).chain(settings);
    let lines = lines.map(|line| format!("{FAINT}│{FAINT:#} {}", printable(&line)));
    lines.collect::<Vec<_>>().join("\n")
}

pub async fn give(client: &Client, check: &TrustCheck, report: &TrustReport) -> Result<(), Fault> {
    let approval = TrustApprove {
        project_id: check.project_id.clone(),
        digest: report.digest.clone(),
        config: check.config.clone(),
        compose: check.compose.clone(),
        worktree_include: check.worktree_include.clone(),
        settings: check.settings.clone(),
        sign_in: None,
    };
    client.approve_trust(&approval).await.map(|_| ())
}

pub fn not_trusted(report: &TrustReport, hint: &str) -> Fault {
    let mut message =
        "what this repository asks of the host is not approved, and there is no terminal to ask on:"
            .to_owned();
    for Ask { key, words } in &report.asks {
        message.push_str(&format!("\n  {words} ({key})"));
    }
    for line in changes_text(report) {
        message.push_str(&format!("\n{line}"));
    }
    Fault::new(Code::NotTrusted, message, hint)
}

/// One row per request: `+` is new, `~` has changed since the last approval, `-` is gone.
pub fn asks_text(name: &str, check: &TrustCheck, report: &TrustReport) -> String {
    let (file, reach) = if check.settings.is_empty() {
        ("holm.toml", "wants to reach outside its workspaces")
    } else {
        (".git/config", "makes git run programs on this machine")
    };
    let name = printable(name);
    let mut text = format!("{STRONG}{file} of {name} {reach}:{STRONG:#}");
    let rows = rows(report).into_iter();
    let rows = rows.map(|(mark, words, key)| (mark, printable(&words), printable(key)));
    let rows: Vec<(char, String, String)> = rows.collect();
    let width = rows.iter().map(|(_, words, _)| words.chars().count());
    let width = width.max().unwrap_or(0).min(LONGEST_WORDS);
    for (mark, words, key) in rows {
        text.push_str(&format!("\n  {mark} {words:width$}  {FAINT}{key}{FAINT:#}"));
    }
    text
}

fn rows(report: &TrustReport) -> Vec<(char, String, &str)> {
    let is_first = report.approved_at.is_none();
    let mut rows = Vec::new();
    for Ask { key, words } in &report.asks {
        let change = report.changes.iter();
        let change = change.filter(|one| one.change != ChangeKind::Removed);
        let change = change
            .into_iter()
            .find(|one| one.key == *key && one.words == *words);
        rows.push(match change {
            Some(AskChange {
                change: ChangeKind::Changed,
                before: Some(before),
                ..
            }) => ('~', format!("{words}; it was: {before}"), key.as_str()),
            Some(AskChange {
                change: ChangeKind::Changed,
                ..
            }) => ('~', words.clone(), key.as_str()),
            Some(_) => ('+', words.clone(), key.as_str()),
            None if is_first => ('+', words.clone(), key.as_str()),
            None => (' ', words.clone(), key.as_str()),
        });
    }
    let removed = report.changes.iter();
    let removed = removed.filter(|one| one.change == ChangeKind::Removed);
    rows.extend(removed.map(|one| ('-', one.words.clone(), one.key.as_str())));
    rows
}

/// The differences since the last approval, line by line; empty without an earlier approval or a
/// difference.
fn changes_text(report: &TrustReport) -> Vec<String> {
    let Some(time) = report.approved_at.as_deref() else {
        return Vec::new();
    };
    if report.changes.is_empty() {
        return Vec::new();
    }
    let time = time.get(..19).unwrap_or(time).replace('T', " ");
    let mut lines = vec![format!("since the last approval ({time} UTC):")];
    lines.extend(report.changes.iter().map(|change| {
        let AskChange { words, key, .. } = change;
        match (change.change, &change.before) {
            (ChangeKind::Added, _) => format!("  + added: {words} ({key})"),
            (ChangeKind::Removed, _) => format!("  - removed: {words} ({key})"),
            (ChangeKind::Changed, Some(before)) => {
                format!("  ~ changed: {words} ({key}); it was: {before}")
            }
            (ChangeKind::Changed, None) => format!("  ~ changed: {words} ({key})"),
        }
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(change: ChangeKind, words: &str, before: Option<&str>) -> AskChange {
        AskChange {
            change,
            key: "k".to_owned(),
            words: words.to_owned(),
            before: before.map(str::to_owned),
        }
    }

    #[test]
    fn what_is_asked_is_shown_and_cannot_steer_the_terminal() {
        let report = TrustReport {
            asks: vec![Ask {
                key: "project.include".to_owned(),
                words: "take along `.env\u{1b}[2K`".to_owned(),
            }],
            digest: "d".to_owned(),
            approved: false,
            approved_at: Some("2026-11-16T08:09:10.123Z".to_owned()),
            changes: vec![
                change(ChangeKind::Added, "a\u{9b}", None),
                change(ChangeKind::Removed, "b", None),
                change(ChangeKind::Changed, "c", Some("d")),
            ],
        };
        let mut report = report;
        for words in ["a\u{9b}", "c"] {
            report.asks.push(Ask {
                key: "k".to_owned(),
                words: words.to_owned(),
            });
        }
        let check = TrustCheck {
            project_id: "p000000000001".to_owned(),
            config: None,
            compose: holm_core::compose::ComposeFiles::default(),
            worktree_include: Vec::new(),
            settings: Vec::new(),
        };
        let text = asks_text("shop", &check, &report);
        let text = anstream::adapter::strip_str(&text).to_string();
        let row = |mark: char, words: &str| format!("\n  {mark} {words:26}  k");
        let first = "\n    take along `.env\\u{1b}[2K`  project.include";
        assert_eq!(
            text,
            "holm.toml of shop wants to reach outside its workspaces:".to_owned()
                + first
                + &row('+', "a\\u{9b}")
                + &row('~', "c; it was: d")
                + &row('-', "b")
        );
        let fault = not_trusted(&report, "hint");
        assert_eq!(fault.code.kind().exit_code(), 4);
        assert!(fault.message().contains("project.include"));
    }
}
