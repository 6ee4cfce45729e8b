//! Progress of a long operation: a bar on a terminal, a line every few seconds elsewhere if there is
//! something new, nothing with `--json`. Used by `up` while a base is built.

use super::Context;
use super::output::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shorter operations need no progress.
const PATIENCE: Duration = Duration::from_millis(200);

/// The interval of lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(3);

/// With a known total, and without.
const FILES: &str = "  {msg} [{bar:30}] {human_pos}/{human_len} files  {elapsed}";
const WORDS: &str = "  {wide_msg}  {elapsed}";

pub struct Progress<'a> {
    context: &'a Context,
    begun: Instant,
    shown: Shown,
}

enum Shown {
    /// For machines.
    Nothing,
    Bar(Option<ProgressBar>),
    Lines {
        last: Instant,
        /// Without the seconds.
        said: String,
    },
}

// === impl Progress ===

impl<'a> Progress<'a> {
    pub fn new(context: &'a Context) -> Self {
        let begun = Instant::now();
        let shown = if context.output.is_json() {
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
            shown,
        }
    }

    /// Reports `done` of `total`, which is 0 when unknown.
    pub fn report(&mut self, step: &str, done: u64, total: u64) {
        if self.begun.elapsed() < PATIENCE {
            return;
        }
        let step = printable(step);
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                let bar = bar.get_or_insert_with(|| new_bar(self.begun));
                bar.set_message(step);
                let kind = if (done, total) == (0, 0) {
                    WORDS
                } else {
                    FILES
                };
                restyle(bar, kind);
                // An unknown total grows with the work done.
                bar.set_length(total.max(done));
                bar.set_position(done);
            }
            Shown::Lines { last, said } => {
                let news = line(&step, done, total);
                if last.elapsed() >= LINE_EVERY && news != *said {
                    *last = Instant::now();
                    let seconds = self.begun.elapsed().as_secs();
                    self.context.output.remark(&format!("{news}, {seconds} s"));
                    *said = news;
                }
            }
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Shown::Bar(Some(bar)) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(begun: Instant) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr())
        .with_elapsed(begun.elapsed());
    restyle(&bar, FILES);
    bar
}

fn restyle(bar: &ProgressBar, template: &str) {
    // The templates are constants; if one is wrong, the plain bar is good enough.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
}

/// What is new in a line; without a terminal, a line that repeats the one before is not printed.
fn line(step: &str, done: u64, total: u64) -> String {
    match total {
        0 if done == 0 => format!("  {step}"),
        0 => format!("  {step}: {done} files"),
        total => format!("  {step}: {done} of {total} files"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_files() {
        assert_eq!(line("checking out", 5, 9), "  checking out: 5 of 9 files");
        assert_eq!(line("linking", 5, 0), "  linking: 5 files");
        assert_eq!(line("setup: npm ci", 0, 0), "  setup: npm ci");
    }
}
