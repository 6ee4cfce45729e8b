//! `holm events`: past events, and with `--follow` new ones.

use super::output::{FAINT, WARNING, printable};
use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::client::{Client, EventLine, Until};
use holm_api::event::{Event, Missed};
use holm_core::{Code, Fault};
use serde_json::Value;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A daemon that is restarted is back by then, without a message.
const SAYS_SO: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const WAITS: &str = "the daemon was stopped; this waits for `holm daemon start`";

/// List events of workspaces and ports
///
/// The newest 10000 are kept. Each has a cursor; --after continues after one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm events\n  \
    holm events --follow --json\n  \
    holm events --after 118")]
pub struct EventsArgs {
    /// Wait for new events; without --after only those
    #[arg(long, short)]
    follow: bool,
    /// Start after this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<u64>,
}

pub fn run(context: &Context, arguments: EventsArgs) -> Outcome {
    let until = if arguments.follow {
        Until::Ever
    } else {
        Until::Now
    };
    connect::block_on(async {
        let client = connect::started().await?;
        each(context, client, arguments.after, until, |line| match line {
            EventLine::Event(event) => context.output.result(event, || render(event)),
            EventLine::Missed(missed) => context.output.result(missed, || say_missed(missed)),
        })
        .await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Passes events to `show`, and goes on with the next daemon when one ends.
pub async fn each(
    context: &Context,
    mut client: Client,
    mut after: Option<u64>,
    until: Until,
    mut show: impl FnMut(&EventLine),
) -> Result<(), Fault> {
    loop {
        let ended = of_one_daemon(&client, &mut after, until, &mut show).await;
        match (ended, until) {
            (Ok(Ended::TooSlow), _) | (Ok(Ended::Newest), Until::Now) => return Ok(()),
            (Ok(Ended::Newest), Until::Ever) => {}
            (Err(fault), Until::Ever) if fault.code == Code::DaemonUnreachable => {}
            (Err(fault), _) => return Err(fault),
        }
        // The daemon is gone, but events are stored: continue with another one.
        client = another(context).await?;
    }
}

/// Why the stream from one daemon ended.
enum Ended {
    Newest,
    TooSlow,
}

/// The events of one daemon, and how far it got.
async fn of_one_daemon(
    client: &Client,
    after: &mut Option<u64>,
    until: Until,
    show: &mut impl FnMut(&EventLine),
) -> Result<Ended, Fault> {
    let mut events = client.events(*after, until).await?;
    *after = after.or(events.cursor());
    while let Some(line) = events.next().await? {
        show(&line);
        match &line {
            EventLine::Event(event) => *after = Some(event.cursor),
            EventLine::Missed(_) => return Ok(Ended::TooSlow),
        }
    }
    Ok(Ended::Newest)
}

/// Waits for the next daemon, and starts one unless the user stopped the last.
async fn another(context: &Context) -> Result<Client, Fault> {
    let begun = Instant::now();
    let mut is_said = false;
    loop {
        match connect::started_unless_stopped().await {
            Ok(client) => return Ok(client),
            Err(fault) if fault.code != Code::DaemonUnreachable => return Err(fault),
            Err(_) if !is_said && begun.elapsed() > SAYS_SO => {
                context.output.remark(WAITS);
                is_said = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn render(event: &Event) -> String {
    let text = |key: &str| match event.detail.get(key) {
        Some(Value::String(text)) => Some(printable(text)),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let mut line = format!(
        "{FAINT}{} {}{FAINT:#}  {:18}  {}",
        printable(&event.time),
        event.cursor,
        printable(&event.kind),
        text("label").unwrap_or_else(|| printable(&event.workspace)),
    );
    let port = text("name").zip(text("port"));
    if let Some((name, port)) = port {
        let host =
            text("host_port").map_or_else(String::new, |port| format!(" (127.0.0.1:{port})"));
        line.push_str(&format!("  {name} :{port}{host}"));
    }
    if event.kind == "checkout.changed" {
        let is_released = event.detail.get("released") == Some(&Value::Bool(true));
        let before = event
            .detail
            .get("before")
            .and_then(|before| before.get("label"));
        line.push_str(if is_released { "  released" } else { "  taken" });
        if let Some(Value::String(before)) = before {
            line.push_str(&format!(" from {}", printable(before)));
        }
    }
    for key in ["earlier", "reason"] {
        if let Some(value) = text(key) {
            line.push_str(&format!("  {key}: {value}"));
        }
    }
    line
}

pub fn say_missed(missed: &Missed) -> String {
    let (count, cursor) = (missed.missed, missed.cursor);
    format!(
        "{WARNING}warning:{WARNING:#} {count} events are gone, because they were not read in time; \
         go on with `holm events --after {cursor}`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_for_people() {
        let event: Event = serde_json::from_value(serde_json::json!({
            "cursor": 7, "time": "2026-11-15T20:00:00.000Z", "type": "port.opened",
            "workspace": "waaaaaaaaaaaa", "label": "fix\u{1b}", "project": "shop",
            "port": 3000, "name": "web", "host_port": 23107, "url": null,
        }))
        .unwrap();
        assert_eq!(
            anstream::adapter::strip_str(&render(&event)).to_string(),
            "2026-11-15T20:00:00.000Z 7  port.opened         fix\\u{1b}  web :3000 (127.0.0.1:23107)"
        );
    }

    #[test]
    fn a_canonical_port_is_taken_or_released() {
        let check = |detail: serde_json::Value, expect: &str| {
            let mut event = serde_json::json!({
                "cursor": 7, "time": "2026-11-15T20:00:00.000Z", "type": "checkout.changed",
                "workspace": "waaaaaaaaaaaa", "label": "fix", "port": 3000, "name": "web",
            });
            let fields = detail.as_object().unwrap().clone();
            event.as_object_mut().unwrap().extend(fields);
            let event: Event = serde_json::from_value(event).unwrap();
            let line = anstream::adapter::strip_str(&render(&event)).to_string();
            assert!(
                line.ends_with(&format!("fix  web :3000  {expect}")),
                "{line}"
            );
        };
        check(serde_json::json!({"before": null}), "taken");
        let before = serde_json::json!({"before": {"label": "old\u{1b}"}});
        check(before, "taken from old\\u{1b}");
        check(serde_json::json!({"released": true}), "released");
    }
}
