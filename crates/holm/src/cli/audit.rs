//! `holm audit`: who changed what.

use super::output::{BAD, FAINT, GOOD, printable};
use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::audit::AuditEntry;
use std::process::ExitCode;

/// Show who changed what
///
/// One line for each request that changed something, by the user, by a program with a token or by a
/// program inside a workspace. Refusals that repeat are one line with their number. The newest 20000
/// are kept.
///
/// With --json: {"audit":[{cursor,time,actor,request_id,method,route,workspace,status,code,count}]},
/// the newest first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm audit\n  holm audit --limit 1000 --json")]
pub struct AuditArgs {
    /// How many of the newest entries to show
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u64,
}

pub fn run(context: &Context, arguments: AuditArgs) -> Outcome {
    let list = connect::block_on(async {
        let client = connect::started().await?;
        client.audit(arguments.limit).await
    })?;
    if list.audit.is_empty() && !context.output.is_json() {
        context.output.remark("Nothing has been changed yet.");
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || {
        // The newest is the nearest to where the next command is typed.
        let lines: Vec<String> = list.audit.iter().rev().map(line).collect();
        lines.join("\n")
    });
    Ok(ExitCode::SUCCESS)
}

fn line(entry: &AuditEntry) -> String {
    let style = if entry.status < 400 { GOOD } else { BAD };
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
    if let Some(workspace) = &entry.workspace {
        text.push_str(&format!("  {}", printable(workspace)));
    }
    if let Some(code) = &entry.code {
        text.push_str(&format!("  {}", printable(code)));
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
            status: 401,
            code: Some("unauthorized".to_owned()),
            count: 3,
        };
        let text = anstream::adapter::strip_str(&line(&entry)).to_string();
        assert!(
            text.starts_with("2026-11-15 10:20:30 401 token t "),
            "{text}"
        );
        assert!(!text.contains(['\n', '\u{1b}']), "{text}");
        assert!(text.contains("× 3"), "{text}");
    }
}
