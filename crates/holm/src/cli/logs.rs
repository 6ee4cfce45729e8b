//! `holm logs`: the services' output, as the keeper logged it.

use super::completions::labels;
use super::figures::here_and_now;
use super::output::{BAD, FAINT, HINT, hanging, printable};
use super::{Context, Outcome, connect, resolve, terminal};
use crate::since::since;
use clap::Args;
use clap::builder::styling::{AnsiColor, Style};
use holm_api::client::{Client, Following};
use holm_api::service::LogLine;
use holm_api::service::LogQuery;
use holm_core::{Code, Fault, WorkspaceId};
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Show what the services of a workspace printed, or a check
///
/// All services when none is named, merged by time. Times are local; in a pipe they are UTC and
/// complete. Lines of holm itself begin with `✗`, `□` or `◌`. Logs are kept outside of the workspace, 5
/// files of 10 MiB for each service, and are available when it is stopped.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm logs fix-login\n  \
    holm logs fix-login web -f\n  \
    holm logs fix-login check/test\n  \
    holm logs fix-login --since 10m -n 100 --json")]
pub struct LogsArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Only of these services, or check/NAME for the last run of a check
    #[arg(value_name = "SERVICE")]
    services: Vec<String>,
    /// Follow new output, until the workspace stops
    #[arg(short, long)]
    follow: bool,
    /// Only lines after a time (2026-11-15T20:00:00Z) or from the last 90s, 10m, 2h
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only the last N lines, of all services together
    #[arg(short = 'n', long, visible_alias = "tail", value_name = "N")]
    last: Option<usize>,
}

/// How lines of holm about something that begins or goes well begin.
const STEPS: [&str; 4] = ["[build: ", "[post_start: ", "[pre_stop: ", "[watch: "];

/// Assigned to the services in turn.
const COLOURS: [AnsiColor; 4] = [
    AnsiColor::Cyan,
    AnsiColor::Magenta,
    AnsiColor::Blue,
    AnsiColor::Green,
];

/// Aligns and colours names as they appear.
struct Names {
    seen: Vec<String>,
    width: usize,
    clock: Clock,
}

/// Times on the clock of this machine.
struct Clock {
    zone: jiff::tz::TimeZone,
    today: jiff::civil::Date,
    /// Of the line before.
    day: Option<jiff::civil::Date>,
}

pub fn run(context: &Context, arguments: LogsArgs) -> Outcome {
    let since = arguments.since.as_deref().map(since).transpose()?;
    let query = LogQuery {
        services: arguments.services.join(","),
        since,
        last: arguments.last,
        follow: arguments.follow,
    };
    connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        let services = client.services(&id).await?.services;
        let names = Names {
            width: services
                .iter()
                .map(|service| service.name.len())
                .max()
                .unwrap_or(0),
            clock: {
                let now = here_and_now();
                Clock {
                    zone: now.time_zone().clone(),
                    today: now.date(),
                    day: None,
                }
            },
            seen: services.into_iter().map(|service| service.name).collect(),
        };
        if names.seen.is_empty() && query.services.is_empty() {
            context.output.remark("No services, so there are no logs.");
        }
        let mut reader = Reader {
            context,
            names,
            position: LogPosition::default(),
        };
        let mut query = query;
        // The last lines of one service need no counting here.
        let is_one = arguments.services.len() == 1 || reader.names.seen.len() == 1;
        if query.last.is_some() && !is_one {
            reader.last(&client, &id, &query).await?;
            if !query.follow {
                return Ok(());
            }
            // What follows begins behind them.
            query.last = None;
            reader.position.skip = reader.position.count;
            query.since = reader.position.time.clone().or(query.since);
        }
        let lines = client.logs(&id, &query).await;
        let mut result = reader.read(lines).await;
        // Logs outlive daemons: continue with another one.
        while query.follow
            && let Err(fault) = &result
            && fault.code == Code::DaemonUnreachable
        {
            let client = connect::started().await?;
            let position = &mut reader.position;
            let rest = LogQuery {
                since: position.time.clone().or(query.since.clone()),
                last: query.last.filter(|_| position.time.is_none()),
                ..query.clone()
            };
            position.skip = position.count;
            let lines = client.logs(&id, &rest).await;
            result = reader.read(lines).await;
        }
        result
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints lines as they come.
struct Reader<'a> {
    context: &'a Context,
    names: Names,
    position: LogPosition,
}

/// How far the reader is: the time of the last line, and how many lines had it.
#[derive(Default)]
struct LogPosition {
    time: Option<String>,
    count: usize,
    /// Lines of that time which were printed before.
    skip: usize,
}

// === impl Reader ===

impl Reader<'_> {
    /// Prints the last lines of all services together. The daemon knows the last ones of each.
    async fn last(
        &mut self,
        client: &Client,
        id: &WorkspaceId,
        query: &LogQuery,
    ) -> Result<(), Fault> {
        let query = LogQuery {
            follow: false,
            ..query.clone()
        };
        let most = query.last.unwrap_or(usize::MAX);
        let mut lines = client.logs(id, &query).await?;
        let mut kept: VecDeque<LogLine> = VecDeque::new();
        while let Some(line) = lines.next().await? {
            kept.push_back(line);
            if kept.len() > most {
                kept.pop_front();
            }
        }
        for line in kept {
            self.take(line);
        }
        Ok(())
    }

    async fn read(&mut self, lines: Result<Following<LogLine>, Fault>) -> Result<(), Fault> {
        let mut lines = lines?;
        while let Some(line) = lines.next().await? {
            let position = &mut self.position;
            if position.skip > 0 && position.time.as_ref() == Some(&line.time) {
                position.skip -= 1;
                continue;
            }
            self.take(line);
        }
        Ok(())
    }

    fn take(&mut self, line: LogLine) {
        print(self.context, &line, &mut self.names);
        self.position.pass(line);
    }
}

// === impl LogPosition ===

impl LogPosition {
    fn pass(&mut self, line: LogLine) {
        if self.time.as_ref() != Some(&line.time) {
            self.time = Some(line.time);
            self.count = 0;
        }
        self.count += 1;
    }
}

fn print(context: &Context, line: &LogLine, names: &mut Names) {
    if context.output.is_json() {
        return context.output.document(line);
    }
    let text = line.text.trim_end_matches('\r');
    if std::io::stdout().is_terminal() {
        let (time, day) = names.clock.shown(&line.time);
        if let Some(day) = day {
            context.output.asked_for(&format!("{FAINT}{day}{FAINT:#}"));
        }
        let before = names.before(line, &time);
        let text = if is_of_holm(line) {
            text.trim_matches(['[', ']'])
        } else {
            text
        };
        let columns = usize::from(terminal::size().cols);
        context
            .output
            .asked_for(&hanging(&before, &safe(text), columns));
    } else {
        let time = format!("{}Z", line.time.get(..23).unwrap_or(&line.time));
        let before = names.before(line, &time);
        let before = anstream::adapter::strip_str(&before);
        context.output.verbatim(&format!("{before}{text}"));
    }
}

fn is_of_holm(line: &LogLine) -> bool {
    !matches!(line.stream.as_str(), "stdout" | "stderr")
}

/// Log text must not control a terminal; tabs only align.
fn safe(text: &str) -> String {
    let parts: Vec<String> = text.split('\t').map(printable).collect();
    parts.join("\t")
}

// === impl Names ===

impl Names {
    /// The time, the service, and a glyph for lines of holm itself. stderr has no mark: many programs
    /// write all of their log there.
    fn before(&mut self, line: &LogLine, time: &str) -> String {
        let place = match self.seen.iter().position(|name| *name == line.service) {
            Some(place) => place,
            None => {
                self.seen.push(line.service.clone());
                self.seen.len() - 1
            }
        };
        let colour: Style = COLOURS[place % COLOURS.len()].on_default();
        let (style, mark) = if !is_of_holm(line) {
            (FAINT, "")
        } else if STEPS.iter().any(|step| line.text.starts_with(step)) {
            (HINT, "◌ ")
        } else if line.text == "[exited with 0]" {
            (FAINT, "□ ")
        } else {
            (BAD, "✗ ")
        };
        let (name, width) = (printable(&line.service), self.width);
        format!("{FAINT}{time}{FAINT:#} {colour}{name:width$}{colour:#}  {style}{mark}{style:#}")
    }
}

// === impl Clock ===

impl Clock {
    /// The local time of a line, and its day if the line before was of another one.
    fn shown(&mut self, time: &str) -> (String, Option<String>) {
        let Ok(then) = time.parse::<jiff::Timestamp>() else {
            return (time.to_owned(), None);
        };
        let then = then.to_zoned(self.zone.clone());
        let before = self.day.replace(then.date());
        let is_new = before.unwrap_or(self.today) != then.date();
        let day = is_new.then(|| then.strftime("%A, %Y-%m-%d").to_string());
        (then.strftime("%H:%M:%S%.3f").to_string(), day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_time_name_and_stream() {
        let mut names = Names {
            seen: vec!["api".to_owned(), "web".to_owned()],
            width: 5,
            clock: Clock {
                zone: jiff::tz::TimeZone::UTC,
                today: jiff::civil::date(2026, 11, 15),
                day: None,
            },
        };
        let mut check = |stream: &str, expect: &str| {
            let line = LogLine {
                time: "2026-11-15T20:00:00.123456Z".to_owned(),
                service: "web".to_owned(),
                stream: stream.to_owned(),
                text: String::new(),
            };
            let (time, day) = names.clock.shown(&line.time);
            assert_eq!(day, None);
            let text = anstream::adapter::strip_str(&names.before(&line, &time)).to_string();
            assert_eq!(text, expect);
        };
        check("stdout", "20:00:00.123 web    ");
        check("stderr", "20:00:00.123 web    ");
        check("holm", "20:00:00.123 web    ✗ ");
        let (_, day) = names.clock.shown("2026-11-16T00:10:00Z");
        assert_eq!(day.as_deref(), Some("Monday, 2026-11-16"));
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(safe("a\tb\u{1b}[2J"), "a\tb\\u{1b}[2J");
    }
}
