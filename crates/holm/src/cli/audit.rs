//! `holm audit`: the record of changes.

use super::completions::labels;
use super::output::{BAD, FAINT, GOOD, printable};
use super::{Context, Outcome, connect, resolve, review};
use crate::since::since;
use clap::Args;
use holm_api::audit::{AuditEntry, AuditList, AuditQuery};
use holm_api::client::Client;
use holm_core::Fault;
use std::process::ExitCode;

/// Show who changed what
///
/// One line for each request that changed something, or tried to: by the user, by a program with a
/// token, by a program inside a workspace (with its session or run, where it has one), or by holm
/// itself. Repeated refusals are one line with their number. The newest 20000 are kept.
///
/// With --json: {"audit":[{cursor,time,actor,request_id,method,route,workspace,subject,status,code,
/// outcome,count}],"next"}, the newest first; an approval has its `basis` too: {risks,evidence}. `next` is there when there are more; --before takes
/// it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm audit\n  holm audit --workspace fix-login --since 1h\n  \
    holm audit --actor token --bad\n  holm audit --workspace fix-login --evidence\n  holm audit --limit 1000 --json"
)]
pub struct AuditArgs {
    /// How many of the newest entries to show
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Only entries before this one: a `cursor`, or the `next` of an earlier answer
    #[arg(long, value_name = "CURSOR")]
    before: Option<u64>,
    /// Only requests by this actor (`user`, `token`, `workspace`, or an id)
    #[arg(long, value_name = "TEXT")]
    actor: Option<String>,
    /// Only requests about this workspace; for a deleted one, its id
    #[arg(long, value_name = "WS", add = labels())]
    workspace: Option<String>,
    /// Only entries since a time, or since a time ago (10m)
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// Only requests that failed or were refused
    #[arg(long)]
    bad: bool,
    /// Below each approval of a tree: the risks and the evidence that holm had recorded
    #[arg(long)]
    evidence: bool,
}

/// The largest page of the daemon.
const PAGE: u64 = 10_000;

pub fn run(context: &Context, arguments: AuditArgs) -> Outcome {
    let since = arguments.since.as_deref().map(since).transpose()?;
    let list = connect::block_on(async {
        let client = connect::started().await?;
        let workspace = match &arguments.workspace {
            Some(typed) => Some(resolve::one(&client, typed).await?.to_string()),
            None => None,
        };
        let query = AuditQuery {
            limit: None,
            before: arguments.before,
            actor: arguments.actor.clone(),
            workspace,
            since,
            bad: arguments.bad,
        };
        pages(&client, query, arguments.limit).await
    })?;
    if list.audit.is_empty() && !context.output.is_json() {
        context
            .output
            .remark("There is nothing like that in the record.");
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || {
        // The newest entry is printed last, next to the prompt.
        let mut lines = Vec::new();
        for entry in list.audit.iter().rev() {
            lines.push(line(entry));
            if let Some(basis) = entry.basis.as_ref().filter(|_| arguments.evidence) {
                lines.extend(review::basis_rows(basis));
            }
        }
        lines.join("\n")
    });
    Ok(ExitCode::SUCCESS)
}

/// Fetches as many pages as needed.
async fn pages(client: &Client, mut query: AuditQuery, limit: u64) -> Result<AuditList, Fault> {
    let mut all = AuditList {
        audit: Vec::new(),
        next: None,
    };
    loop {
        let missing = limit - all.audit.len() as u64;
        query.limit = usize::try_from(missing.min(PAGE)).ok();
        let page = client.audit(&query).await?;
        all.audit.extend(page.audit);
        all.next = page.next;
        if page.next.is_none() || all.audit.len() as u64 >= limit {
            return Ok(all);
        }
        query.before = page.next;
    }
}

fn line(entry: &AuditEntry) -> String {
    let is_good = entry.status < 400 && entry.code.is_none();
    let style = if is_good { GOOD } else { BAD };
    let time = entry
        .time
        .get(..19)
        .unwrap_or(&entry.time)
        .replace('T', " ");
    let (actor, route) = (printable(&entry.actor), printable(&entry.route));
    let method = printable(&entry.method);
    let mut text = format!(
        "{time} {style}{}{style:#} {actor}  {method} {route}",
        entry.status
    );
    let more = [
        &entry.workspace,
        &entry.subject,
        &entry.outcome,
        &entry.code,
    ];
    for part in more.into_iter().flatten() {
        text.push_str(&format!("  {}", printable(part)));
    }
    if entry.count > 1 {
        text.push_str(&format!("  × {}", entry.count));
    }
    let request = printable(&entry.request_id);
    text.push_str(&format!("  {FAINT}{request}{FAINT:#}"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        let entry = AuditEntry {
            cursor: 1,
            time: "2026-11-15T10:20:30.5Z".to_owned(),
            actor: "token t (a\n\u{1b}[2Jb)".to_owned(),
            request_id: "q0".to_owned(),
            method: "POST".to_owned(),
            route: "/workspaces/{id}/stop".to_owned(),
            workspace: Some("w0".to_owned()),
            subject: Some("run r0".to_owned()),
            status: 401,
            code: Some("unauthorized".to_owned()),
            outcome: Some("exit 1".to_owned()),
            basis: None,
            count: 3,
        };
        let text = anstream::adapter::strip_str(&line(&entry)).to_string();
        assert!(
            text.starts_with("2026-11-15 10:20:30 401 token t "),
            "{text}"
        );
        assert!(!text.contains(['\n', '\u{1b}']), "{text}");
        assert!(
            text.contains("w0  run r0  exit 1  unauthorized  × 3"),
            "{text}"
        );
    }
}
