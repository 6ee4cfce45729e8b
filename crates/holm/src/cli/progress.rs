//! Progress of a long operation. On a terminal: one line per step, redrawn in place, with the last
//! output of the active step. Elsewhere: a line when a step begins and ends, and in between at most
//! every 30 seconds, if there is something new. Nothing in the first 200 ms and with `--json`.

use super::Context;
use super::figures::{count, cut, duration, grouped};
use super::output::{FAINT, GOOD, HINT, for_bar, printable};
use super::terminal;
use holm_core::config::rough_size;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shorter operations need no progress.
pub const PATIENCE: Duration = Duration::from_millis(200);

/// The interval of lines without a terminal.
pub const LINE_EVERY: Duration = Duration::from_secs(30);

/// The column of the names of steps.
const NAMES: usize = 9;

pub struct Progress<'a> {
    context: &'a Context,
    begun: Instant,
    steps: Vec<Step>,
    /// Steps that are expected to follow.
    coming: Vec<Coming>,
    shown: Shown,
}

/// A step that may follow, and what it does.
pub struct Coming {
    pub name: &'static str,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    name: String,
    /// What the step does.
    text: String,
    /// The last output.
    last: String,
    /// Files, and how many there will be; 0 when unknown.
    files: (u64, u64),
    begun: Instant,
    took: Option<Duration>,
}

enum Shown {
    /// For machines.
    Nothing,
    Bar(Option<ProgressBar>),
    Lines {
        last: Instant,
        said: String,
    },
}

// === impl Progress ===

impl<'a> Progress<'a> {
    pub fn new(context: &'a Context) -> Self {
        let begun = Instant::now();
        let shown = if context.output.is_json() || context.output.is_quiet() {
            Shown::Nothing
        } else if std::io::stderr().is_terminal() {
            Shown::Bar(None)
        } else {
            Shown::Lines {
                last: begun,
                said: String::new(),
            }
        };
        Self {
            context,
            begun,
            steps: Vec::new(),
            coming: Vec::new(),
            shown,
        }
    }

    /// With steps that will follow.
    pub fn expecting(mut self, coming: Vec<Coming>) -> Self {
        self.coming = coming;
        self
    }

    /// Reports `done` of `total` files, which is 0 when unknown.
    pub fn report(&mut self, step: &str, done: u64, total: u64) {
        let mut step = Step::parse(step);
        match step.name.as_str() {
            "pull" if total > 0 => {
                step.last = format!("{} of {}", rough_size(done), rough_size(total.max(done)));
            }
            "unpack" if total > 0 => step.last = format!("layer {done} of {total}"),
            _ => step.files = (done, total.max(done)),
        }
        if let Some(at) = self.coming.iter().position(|one| one.name == step.name) {
            let before = self.coming.drain(..=at).next_back();
            if let (Some(coming), true) = (before, step.text.is_empty()) {
                step.text = coming.text;
            }
        }
        match self.steps.last_mut() {
            Some(last) if last.name == step.name => {
                if step.text.is_empty() {
                    step.text = std::mem::take(&mut last.text);
                }
                step.begun = last.begun;
                *last = step;
            }
            _ => {
                self.end_step();
                self.steps.push(step);
                // Each step begins with a line of its own.
                if let Shown::Lines { said, .. } = &mut self.shown {
                    said.clear();
                }
            }
        }
        if self.begun.elapsed() >= PATIENCE {
            self.show();
        }
    }

    /// How long the step of this name took so far.
    pub fn time_of(&self, name: &str) -> Option<Duration> {
        let mut steps = self.steps.iter().filter(|step| step.name == name);
        let step = steps.next()?;
        Some(step.took.unwrap_or_else(|| step.begun.elapsed()))
    }

    /// The active step failed, which the command explains.
    pub fn fail(&mut self) {
        self.end_step_as(|step, took| format!("{}: failed, {took}", step.name));
    }

    /// The user cancelled the active step: it has neither ended nor failed.
    pub fn cancel(&mut self) {
        self.steps.pop();
    }

    fn end_step(&mut self) {
        self.end_step_as(Step::end_line);
    }

    /// Ends the active step, with a line where there is no terminal.
    fn end_step_as(&mut self, line: fn(&Step, &str) -> String) {
        let Some(step) = self.steps.last_mut().filter(|step| step.took.is_none()) else {
            return;
        };
        let took = step.begun.elapsed();
        step.took = Some(took);
        if matches!(self.shown, Shown::Lines { .. }) && took >= PATIENCE {
            let took = duration(took.as_millis() as u64);
            self.context.output.remark(&line(step, &took));
        }
    }

    fn show(&mut self) {
        let Some(step) = self.steps.last() else {
            return;
        };
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                let columns = terminal::size_of_stderr();
                let done = self.steps.iter().map(|step| step.row(columns));
                let coming = self.coming.iter().map(|one| {
                    let text = cut(&printable(&one.text), columns.saturating_sub(NAMES + 5));
                    format!(
                        "{HINT}◌{HINT:#} {:NAMES$}  {FAINT}{text}{FAINT:#}",
                        one.name
                    )
                });
                let rows: Vec<String> = done.chain(coming).collect();
                let bar = bar.get_or_insert_with(new_bar);
                bar.set_message(for_bar(&rows.join("\n")));
                bar.tick();
            }
            Shown::Lines { last, said } => {
                let news = step.news();
                let is_first = said.is_empty() && !step.text.is_empty();
                if (is_first || last.elapsed() >= LINE_EVERY) && news != *said {
                    let elapsed = duration(step.begun.elapsed().as_secs() * 1000);
                    self.context.output.remark(&if is_first {
                        format!("{}: {}", step.name, step.text)
                    } else {
                        format!("{news} ({elapsed})")
                    });
                    *last = Instant::now();
                    *said = news;
                }
            }
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.end_step();
        if let Shown::Bar(Some(bar)) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

// === impl Step ===

impl Step {
    /// Reads what a driver reports: `checking out`, `setup 1/2: npm ci  added 3 packages`,
    /// `seed of pg 1/1: ./seed`; anything else is a step without a text.
    fn parse(step: &str) -> Self {
        let step = printable(step);
        let (place, rest) = step.split_once(": ").unwrap_or((&step, ""));
        let (text, last) = rest.split_once("  ").unwrap_or((rest, ""));
        let first = place.split(' ').next().unwrap_or_default();
        let (name, text) = match (first, place.strip_prefix("seed of ")) {
            ("checking", _) => ("code", String::new()),
            ("setup", _) => ("setup", text.to_owned()),
            ("pull" | "unpack" | "read" | "build", _) => (first, text.to_owned()),
            (_, Some(volume)) => {
                let volume = volume.split(' ').next().unwrap_or_default();
                ("data", format!("{volume}: {text}"))
            }
            _ => (step.as_str(), String::new()),
        };
        Self {
            name: name.to_owned(),
            text,
            last: last.trim().to_owned(),
            files: (0, 0),
            begun: Instant::now(),
            took: None,
        }
    }

    /// What it does, with the files so far.
    fn described(&self) -> String {
        let files = match (self.took, self.files) {
            (_, (0, 0)) => String::new(),
            (None, (done, total)) if done < total => {
                format!("{} of {}", grouped(done), count(total, "file"))
            }
            (_, (_, total)) => count(total, "file"),
        };
        let parts = [self.text.as_str(), &files];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(", ")
    }

    fn row(&self, columns: usize) -> String {
        let (style, glyph) = match self.took {
            Some(_) => (GOOD, "✓"),
            None => (HINT, "◐"),
        };
        let time = match self.took {
            Some(took) => duration(took.as_millis() as u64),
            None => match self.begun.elapsed().as_secs() {
                seconds @ 0..60 => format!("{seconds} s"),
                seconds => duration(seconds * 1000),
            },
        };
        let room = columns.saturating_sub(NAMES + 5 + time.chars().count() + 1);
        let text = cut(&self.described(), room);
        let name = &self.name;
        let mut row =
            format!("{style}{glyph}{style:#} {name:NAMES$}  {text:room$} {FAINT}{time}{FAINT:#}");
        if self.took.is_none() && !self.last.is_empty() {
            let last = cut(&self.last, columns.saturating_sub(NAMES + 6));
            row.push_str(&format!(
                "\n{:width$}{FAINT}│{FAINT:#} {last}",
                "",
                width = NAMES + 4
            ));
        }
        row
    }

    /// What is new in a line without a terminal.
    fn news(&self) -> String {
        let what = if self.last.is_empty() {
            self.described()
        } else {
            self.last.clone()
        };
        match what.as_str() {
            "" => self.name.clone(),
            what => format!("{}: {what}", self.name),
        }
    }

    fn end_line(&self, took: &str) -> String {
        match (self.name.as_str(), self.described()) {
            ("setup" | "data", _) => format!("{}: done, {took}", self.name),
            (name, what) if what.is_empty() => format!("{name}: done, {took}"),
            (name, what) => format!("{name}: {what}, {took}"),
        }
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // The template is a constant; if it is wrong, the plain bar is good enough.
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn steps_are_read_from_what_drivers_report() {
        let check = |step: &str, expect: [&str; 3]| {
            let step = Step::parse(step);
            assert_eq!([step.name, step.text, step.last], expect);
        };
        check("checking out", ["code", "", ""]);
        check("setup 1/2: npm ci", ["setup", "npm ci", ""]);
        check("setup 1/2: npm ci  7 of 9", ["setup", "npm ci", "7 of 9"]);
        check("seed of pg 1/1: ./seed  x", ["data", "pg: ./seed", "x"]);
        check("pull: a/b:1", ["pull", "a/b:1", ""]);
        check("reading changed files", ["reading changed files", "", ""]);
    }

    #[test]
    fn rows_hold_80_columns_and_lines_end_with_their_time() {
        let mut step = Step::parse("setup 1/1: npm ci  added 412 packages, 388 to go");
        assert_eq!(
            plain(&step.row(80)),
            format!(
                "◐ setup      npm ci{}0 s\n             │ added 412 packages, 388 to go",
                " ".repeat(57)
            )
        );
        assert_eq!(step.news(), "setup: added 412 packages, 388 to go");
        step.took = Some(Duration::from_secs(31));
        assert!(plain(&step.row(80)).starts_with("✓ setup"));
        assert_eq!(step.end_line("31 s"), "setup: done, 31 s");
        let mut code = Step::parse("checking out");
        (code.text, code.files) = ("main 4e1f0c2".to_owned(), (5, 2140));
        assert_eq!(code.news(), "code: main 4e1f0c2, 5 of 2 140 files");
        code.took = Some(Duration::from_millis(200));
        assert_eq!(
            code.end_line("200 ms"),
            "code: main 4e1f0c2, 2 140 files, 200 ms"
        );
    }
}
