//! `holm egress`: outgoing connections of a workspace, and refusals with their reasons.

use super::completions::labels;
use super::output::{BAD, FAINT, GOOD, WARNING, printable};
use super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_api::egress::EgressEntry;
use holm_core::config::rough_size;
use std::process::ExitCode;

/// Show what left a workspace and what was refused
///
/// One line for each connection that ended and for each refusal: when, where to, how much, which
/// program. A refusal says why and which line of holm.toml would allow it; after that line was
/// added, `holm trust` approves it and `holm reload` puts it in force.
///
/// With --json: {"egress":[{time,kind,name,address,port,bytes_in,bytes_out,duration_ms,process,
/// reason,allow,count}]}; with --follow, one such object per line. kind is connect, cut (no longer
/// allowed), fail (no answer), refuse, or resolve (a name was refused).
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm egress fix-login\n  holm egress fix-login --follow\n  holm egress fix-login --json"
)]
pub struct EgressArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Follow new entries, until ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// How many of the last entries to show
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: u64,
}

pub fn run(context: &Context, arguments: EgressArgs) -> Outcome {
    connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        if !arguments.follow {
            let list = client.egress(&id, arguments.limit).await?;
            if list.egress.is_empty() {
                context.output.done(&list, || {
                    "Nothing has left, nothing was refused.".to_owned()
                });
            } else {
                context.output.result(&list, || {
                    let lines: Vec<String> = list.egress.iter().map(line).collect();
                    lines.join("\n")
                });
            }
            return Ok(());
        }
        let mut stream = client.follow_egress(&id, arguments.limit).await?;
        loop {
            let entry = stream.next_of_endless().await?;
            context.output.result(&entry, || line(&entry));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn line(entry: &EgressEntry) -> String {
    let style = match entry.kind.as_str() {
        "connect" => GOOD,
        "refuse" | "resolve" => BAD,
        _ => WARNING,
    };
    let time = entry.time.get(11..19).unwrap_or(&entry.time);
    let kind = printable(&entry.kind);
    let mut text = format!("{time} {style}{kind:<7}{style:#} {}", target(entry));
    if let (Some(bytes_in), Some(bytes_out)) = (entry.bytes_in, entry.bytes_out) {
        let (received, sent) = (rough_size(bytes_in), rough_size(bytes_out));
        let milliseconds = entry.duration_ms.unwrap_or_default();
        text.push_str(&format!("  in {received}, out {sent}, {milliseconds} ms"));
    }
    if !entry.secrets.is_empty() {
        let secrets = printable(&entry.secrets.join(", "));
        text.push_str(&format!("  with {secrets}"));
    }
    if let Some(reason) = &entry.reason {
        text.push_str(&format!("  {}", printable(reason)));
    }
    if entry.count > 1 {
        text.push_str(&format!("  × {}", entry.count));
    }
    if let Some(process) = &entry.process {
        let name = printable(&process.name);
        text.push_str(&format!("  {FAINT}{name}[{}]{FAINT:#}", process.pid));
    }
    if let Some(allow) = &entry.allow {
        let allow = printable(allow);
        text.push_str(&format!(
            "\n         {FAINT}holm.toml: {allow}, then `holm trust` and `holm reload`{FAINT:#}"
        ));
    }
    text
}

/// `name (address):port`, as far as known.
fn target(entry: &EgressEntry) -> String {
    let bracketed = |address: &String| {
        if address.contains(':') {
            format!("[{address}]")
        } else {
            address.clone()
        }
    };
    let port = entry
        .port
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    let target = match (&entry.name, &entry.address) {
        (Some(name), Some(address)) => format!("{name}{port} ({address})"),
        (Some(name), None) => format!("{name}{port}"),
        (None, Some(address)) => format!("{}{port}", bracketed(address)),
        (None, None) => String::new(),
    };
    printable(&target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> String {
        let entry: EgressEntry = serde_json::from_str(json).unwrap();
        anstream::adapter::strip_str(&line(&entry)).to_string()
    }

    #[test]
    fn entries_are_readable_and_cannot_steer_the_terminal() {
        let text = shown(
            r#"{"time":"2026-11-15T10:20:30.5Z","kind":"connect","name":"api.test",
                "address":"2001:db8::1","port":443,"bytes_in":2048,"bytes_out":10,
                "duration_ms":12,"process":{"pid":7,"name":"curl"}}"#,
        );
        assert!(
            text.starts_with("10:20:30 connect api.test:443 (2001:db8::1)  in "),
            "{text}"
        );
        assert!(text.ends_with("12 ms  curl[7]"), "{text}");
        let text = shown(
            r#"{"time":"2026-11-15T10:20:30Z","kind":"resolve","name":"evil\u001b[2J.test",
                "reason":"not in egress.allow","allow":"[egress] allow = [\"x\"]","count":3}"#,
        );
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.contains("× 3"), "{text}");
        assert!(
            text.contains("then `holm trust` and `holm reload`"),
            "{text}"
        );
    }
}
