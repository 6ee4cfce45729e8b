//! `holm egress`: outgoing connections of a workspace, and refusals with their reasons.

use super::completions::labels;
use super::figures::{clock, grouped, here_and_now};
use super::output::{BAD, FAINT, GOOD, WARNING, printable};
use super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_api::egress::EgressEntry;
use holm_core::config::rough_size;
use std::io::IsTerminal;
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
    /// Show every connection instead of one line per destination
    #[arg(long)]
    all: bool,
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
                    "No connections: nothing reached, nothing refused.".to_owned()
                });
            } else {
                context.output.facts(&list, || {
                    if arguments.all {
                        let lines: Vec<String> = list.egress.iter().map(line).collect();
                        return lines.join("\n");
                    }
                    by_destination(&list.egress, &here_and_now())
                });
                suggest(context, &arguments.workspace, &list.egress);
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

/// The connections to one destination, together.
struct Destination<'a> {
    last: &'a EgressEntry,
    is_refused: bool,
    count: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// One line per destination: refused ones first, then the latest.
fn by_destination(entries: &[EgressEntry], now: &jiff::Zoned) -> String {
    let mut all: Vec<(String, Destination<'_>)> = Vec::new();
    for entry in entries {
        let is_refused = is_refused(entry);
        let key = target(entry);
        let place = all
            .iter()
            .position(|(known, one)| *known == key && one.is_refused == is_refused);
        let place = place.unwrap_or_else(|| {
            let new = Destination {
                last: entry,
                is_refused,
                count: 0,
                bytes_in: 0,
                bytes_out: 0,
            };
            all.push((key, new));
            all.len() - 1
        });
        let one = &mut all[place].1;
        one.last = entry;
        // The end of a connection is told in an entry of its own, with the bytes.
        one.count += if entry.bytes_in.is_some() {
            0
        } else {
            entry.count.max(1)
        };
        one.bytes_in += entry.bytes_in.unwrap_or(0);
        one.bytes_out += entry.bytes_out.unwrap_or(0);
    }
    all.sort_by(|(_, one), (_, other)| {
        let refused = other.is_refused.cmp(&one.is_refused);
        refused.then_with(|| other.last.time.cmp(&one.last.time))
    });
    let rows: Vec<[String; 5]> = all.iter().map(|(name, one)| one.cells(name, now)).collect();
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..5).map(width).collect();
    let lines = all.iter().zip(&rows).map(|((_, one), [name, what, count, process, at])| {
        let (style, glyph) = if one.is_refused { (WARNING, "◆") } else { (GOOD, "●") };
        let mut text = format!(
            "{style}{glyph}{style:#} {name:0$}  {what:1$}  {count:>2$}  {FAINT}{process:3$}  {at:>4$}{FAINT:#}",
            widths[0], widths[1], widths[2], widths[3], widths[4]
        );
        if let Some(allow) = one.last.allow.as_ref().filter(|_| !std::io::stderr().is_terminal()) {
            let allow = printable(allow);
            text.push_str(&format!(
                "\n  {FAINT}holm.toml: {allow}, then `holm trust` and `holm reload`{FAINT:#}"
            ));
        }
        text
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// How to allow the latest refused destination.
fn suggest(context: &Context, typed: &str, entries: &[EgressEntry]) {
    let Some(allow) = entries.iter().rev().find_map(|entry| entry.allow.as_ref()) else {
        return;
    };
    let (line, reload) = (
        format!("holm.toml: {allow}"),
        format!("holm reload {typed}"),
    );
    context.output.next(&[
        ("allow it", &line),
        ("approve it", "holm trust"),
        ("apply it", &reload),
    ]);
}

// === impl Destination ===

impl Destination<'_> {
    fn cells(&self, name: &str, now: &jiff::Zoned) -> [String; 5] {
        let what = match (&self.last.reason, self.is_refused) {
            (Some(reason), true) => format!("refused, {}", printable(reason)),
            (None, true) => "refused".to_owned(),
            _ => {
                let (sent, received) = (rough_size(self.bytes_out), rough_size(self.bytes_in));
                format!("{sent} out, {received} in")
            }
        };
        let process = self.last.process.as_ref();
        let process = process.map_or_else(String::new, |process| printable(&process.name));
        let count = format!("{} ×", grouped(self.count.max(1)));
        let at = clock(&self.last.time, now);
        [name.to_owned(), what, count, process, at]
    }
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

/// Whether the gateway refused it.
pub fn is_refused(entry: &EgressEntry) -> bool {
    matches!(entry.kind.as_str(), "refuse" | "resolve")
}

/// `name (address):port`, as far as known.
pub fn target(entry: &EgressEntry) -> String {
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
