//! All output of the CLI goes through [`Output`].
//!
//! Results go to stdout, everything else to stderr; with `--json` stdout has one document and
//! stderr at most one error body. Text from outside (names, messages of the daemon) is made
//! [`printable`], so that no control character reaches a terminal; if a caller forgets that,
//! control sequences are removed here. A closed reader ends the program quietly.

use super::{resolve, terminal};
use clap::builder::styling::{AnsiColor, Style};
use holm_api::ErrorBody;
use holm_config::daemon_user::DaemonUser;
use holm_core::session::drawing;
use holm_core::{Code, Fault};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write};

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Human,
    Json,
}

#[derive(Clone, Copy, Debug)]
pub struct Output {
    format: Format,
    is_quiet: bool,
}

const MOST_HINTS: usize = 3;

/// Between a purpose and its command.
const GAP: &str = "   ";

/// 128 + SIGPIPE: what a shell reports for a program whose reader is gone.
pub const BROKEN_PIPE_EXIT: u8 = 141;

pub const GOOD: Style = AnsiColor::Green.on_default().bold();
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub const BAD: Style = AnsiColor::Red.on_default().bold();
pub const HINT: Style = AnsiColor::Cyan.on_default().bold();
pub const STRONG: Style = Style::new().bold();
pub const FAINT: Style = Style::new().dimmed();

// === impl Output ===

impl Output {
    pub fn new(format: Format) -> Self {
        Self {
            format,
            is_quiet: false,
        }
    }

    /// Without remarks: only what was asked for, and errors.
    pub fn quiet(self) -> Self {
        Self {
            is_quiet: true,
            ..self
        }
    }

    pub fn is_quiet(&self) -> bool {
        self.is_quiet && self.format == Format::Human
    }

    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Prints a result: the document for machines, or the text for people.
    pub fn result<T: Serialize>(&self, document: &T, text: impl FnOnce() -> String) {
        match self.format {
            Format::Json => self.document(document),
            Format::Human => self.asked_for(&text()),
        }
    }

    /// As [`Output::result`] for facts: `--quiet` keeps only the lines about trouble.
    pub fn facts<T: Serialize>(&self, document: &T, text: impl FnOnce() -> String) {
        if !self.is_quiet() {
            return self.result(document, text);
        }
        let text = text();
        let trouble = text.lines().filter(|line| line.contains(['◆', '✗', '▲']));
        let trouble: Vec<&str> = trouble.collect();
        if !trouble.is_empty() {
            self.asked_for(&trouble.join("\n"));
        }
    }

    /// Prints the document for machines on stdout, or a remark for people on stderr.
    pub fn done<T: Serialize>(&self, document: &T, text: impl FnOnce() -> String) {
        match self.format {
            Format::Json => self.document(document),
            Format::Human => self.remark(&text()),
        }
    }

    /// Prints one JSON document and a line end on stdout.
    pub fn document<T: Serialize>(&self, document: &T) {
        finish(write_line(
            &mut std::io::stdout().lock(),
            &json_line(document),
        ));
    }

    /// Prints a requested text on stdout, in any format.
    pub fn asked_for(&self, text: &str) {
        let text = for_terminal(text, std::io::stdout().is_terminal());
        finish(write_line(&mut anstream::stdout().lock(), &text));
    }

    /// The same without filtering control sequences.
    pub fn verbatim(&self, text: &str) {
        finish(write_line(&mut std::io::stdout().lock(), text));
    }

    /// Prints a remark for people on stderr; nothing with `--json`.
    pub fn remark(&self, text: &str) {
        if self.format == Format::Human && !self.is_quiet {
            say(text);
        }
    }

    /// Prints up to three commands to type next, for people at a terminal who want hints.
    pub fn next(&self, hints: &[(&str, &str)]) {
        let is_wanted = self.format == Format::Human && !self.is_quiet;
        if is_wanted && std::io::stderr().is_terminal() && wants_hints() {
            say(&next_text(hints));
        }
    }

    /// Prints an error, in either format.
    pub fn fault(&self, fault: &Fault) {
        match self.format {
            Format::Json => {
                say_plain(&json_line(&ErrorBody::from(fault)));
            }
            Format::Human => {
                let hint = resolve::as_typed(&fault.hint);
                say(&fault_text(&fault.clone().with_hint(hint)));
            }
        }
    }
}

/// `next:` and commands on lines of their own, each behind its purpose.
fn next_text(hints: &[(&str, &str)]) -> String {
    commands(FAINT, "next:", hints)
}

/// At most three commands, each behind its purpose and at the end of its line.
fn commands(style: Style, head: &str, hints: &[(&str, &str)]) -> String {
    let hints = &hints[..hints.len().min(MOST_HINTS)];
    let width = hints.iter().map(|(purpose, _)| purpose.chars().count());
    let width = width.max().unwrap_or(0);
    let lines = hints.iter().enumerate().map(|(row, (purpose, command))| {
        let head = if row == 0 { head } else { "     " };
        let (purpose, command) = (printable(purpose), printable(command));
        format!("{style}{head}{style:#} {purpose:width$}{GAP}{HINT}{command}{HINT:#}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A hint whose lines are `purpose: \`command\`` or `purpose   command` becomes rows; other text is
/// prose.
fn hint_text(hint: &str) -> String {
    let rows: Option<Vec<(&str, &str)>> = hint.lines().map(hint_row).collect();
    match rows {
        Some(rows) => commands(HINT, "hint:", &rows),
        None => format!("{HINT}hint:{HINT:#} {}", printable_lines(hint)),
    }
}

fn hint_row(line: &str) -> Option<(&str, &str)> {
    if let Some((purpose, command)) = line.split_once(GAP) {
        return Some((purpose.trim(), command.trim()));
    }
    let (purpose, rest) = line.split_once(": `")?;
    let command = rest.strip_suffix('`')?;
    (!command.contains('`') && !purpose.contains('`')).then_some((purpose, command))
}

/// `[cli] hints` of the user's settings. Settings that cannot be read are reported by other commands.
fn wants_hints() -> bool {
    let settings = DaemonUser::current().and_then(|user| user.settings());
    settings.map_or(true, |settings| settings.hints)
}

/// An error for people: `error: …`, further lines, and `hint: …`. A cancellation by the user is no
/// error.
pub fn fault_text(fault: &Fault) -> String {
    if fault.code == Code::Cancelled {
        return format!(
            "{WARNING}cancelled:{WARNING:#} {}",
            printable_lines(&fault.message())
        );
    }
    let mut text = format!("{BAD}error:{BAD:#} {}", printable_lines(&fault.message()));
    if !fault.hint.is_empty() {
        text.push('\n');
        text.push_str(&hint_text(&fault.hint));
    }
    text
}

/// A document of JSON Lines. Control characters that JSON allows but terminals obey are escaped.
pub fn json_line<T: Serialize>(document: &T) -> String {
    // The documents of holm are plain structs with text keys, which always serialise.
    let text = serde_json::to_string(document).unwrap_or_else(|_| "null".to_owned());
    let mut line = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        match character {
            control if control.is_control() => {
                line.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => line.push(other),
        }
    }
    line.push('\n');
    line
}

/// Text on one line, without control characters and characters that change the reading order.
pub fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if steers(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    safe
}

/// Like [`printable`], keeping line ends.
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text.trim_end().split('\n').map(printable).collect();
    lines.join("\n")
}

/// Whether the user can see a question and answer it.
pub fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on the terminal. Anything but a clear yes is a no.
pub fn ask(question: &str) -> bool {
    is_one_of(ask_for(question, "[y/N]"), &["y", "yes"])
}

/// Asks whether to do what the user has just typed. Enter is a yes; without an answer it is a no.
pub fn ask_wanted(question: &str) -> bool {
    is_one_of(ask_for(question, "[Y/n]"), &["", "y", "yes"])
}

fn is_one_of(answer: Option<String>, words: &[&str]) -> bool {
    answer.is_some_and(|typed| words.contains(&typed.trim().to_ascii_lowercase().as_str()))
}

/// Asks on the terminal for one of the listed answers; `None`: nothing was typed.
pub fn ask_for(question: &str, answers: &str) -> Option<String> {
    // The lock is released before waiting for an answer, so that other threads can print.
    let asked = {
        let question = for_terminal(question, std::io::stderr().is_terminal());
        let mut stderr = anstream::stderr().lock();
        write!(stderr, "{question} {answers} ").and_then(|()| stderr.flush())
    };
    asked.ok()?;
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer).ok()?;
    (read > 0).then_some(answer)
}

/// Whether a character is a control or an invisible direction change.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Colours stay; only terminals need filtering, and some have no glyphs.
fn for_terminal(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if !is_terminal {
        return Cow::Borrowed(text);
    }
    let text = drawing::lines(text);
    Cow::Owned(if has_glyphs() { text } else { ascii(&text) })
}

/// Breaks a text between words; what follows stands below its beginning.
pub fn hanging(before: &str, text: &str, columns: usize) -> String {
    let width = |text: &str| {
        let plain = anstream::adapter::strip_str(text).to_string();
        plain.chars().count()
    };
    let indent = width(before);
    let room = columns.saturating_sub(indent).max(20);
    let (mut lines, mut used): (Vec<String>, usize) = (Vec::new(), 0);
    for word in text.split(' ') {
        let taken = width(word);
        match lines.last_mut() {
            Some(line) if used == 0 || used + 1 + taken <= room => {
                line.push(' ');
                line.push_str(word);
                used += 1 + taken;
            }
            _ => {
                lines.push(word.to_owned());
                used = taken;
            }
        }
    }
    let blanks = " ".repeat(indent);
    format!("{before}{}", lines.join(&format!("\n{blanks}")))
}

/// Breaks lines that are longer than the terminal between words. What follows is indented. A command
/// behind its purpose moves to a line of its own and is never broken.
fn wrapped(text: &str, columns: usize) -> String {
    let width = |text: &str| {
        anstream::adapter::strip_str(text)
            .to_string()
            .chars()
            .count()
    };
    let mut lines = Vec::new();
    for line in text.lines() {
        if width(line) <= columns {
            lines.push(line.to_owned());
            continue;
        }
        if let Some((before, command)) = line.rsplit_once(GAP) {
            lines.push(before.trim_end().to_owned());
            lines.push(format!("  {command}"));
            continue;
        }
        let (mut part, mut used) = (String::new(), 0);
        for word in line.split(' ') {
            let taken = width(word);
            if used > 0 && used + 1 + taken > columns {
                lines.push(std::mem::take(&mut part));
                part.push_str("  ");
                used = 1;
            } else if used > 0 || !part.is_empty() {
                part.push(' ');
            }
            part.push_str(word);
            used += 1 + taken;
        }
        lines.push(part);
    }
    lines.join("\n")
}

/// The lines of a progress, which are drawn on the terminal of stderr by other means than [`Output`].
pub fn for_bar(text: &str) -> String {
    for_stderr(for_glyphs(text))
}

/// Without colours, where the user wants none on stderr.
fn for_stderr(text: String) -> String {
    match anstream::AutoStream::choice(&std::io::stderr()) {
        anstream::ColorChoice::Never => anstream::adapter::strip_str(&text).to_string(),
        _ => text,
    }
}

/// A text that is drawn on a terminal by other means than [`Output`].
pub fn for_glyphs(text: &str) -> String {
    if has_glyphs() {
        text.to_owned()
    } else {
        ascii(text)
    }
}

/// Whether the terminal draws more than ASCII: its locale is UTF-8, and it is neither `dumb` nor the
/// console of Linux.
pub fn has_glyphs() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL")
        .or_else(|| set("LC_CTYPE"))
        .or_else(|| set("LANG"));
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    let is_utf8 = locale.contains("utf-8") || locale.contains("utf8");
    is_utf8 && !matches!(set("TERM").as_deref(), Some("dumb" | "linux"))
}

/// Our glyphs in ASCII.
fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '✓' => plain.push_str("ok"),
            '✗' | '×' => plain.push('x'),
            '●' => plain.push('*'),
            '◆' => plain.push('!'),
            '▲' => plain.push('^'),
            '◐' => plain.push('>'),
            '◌' | '·' => plain.push('.'),
            '□' | '−' | '–' => plain.push('-'),
            '│' => plain.push('|'),
            '→' => plain.push_str("->"),
            '…' => plain.push_str("..."),
            other => plain.push(other),
        }
    }
    plain
}

fn say(text: &str) {
    let is_terminal = std::io::stderr().is_terminal();
    let mut text = for_terminal(text, is_terminal);
    if is_terminal {
        text = Cow::Owned(wrapped(&text, terminal::size_of_stderr()));
    }
    say_plain(&for_stderr(text.into_owned()));
}

/// One call writes the whole text: stderr has no buffer.
fn say_plain(text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    // If stderr is closed, there is no one left to inform.
    let _ = std::io::stderr().write_all(format!("{text}{end}").as_bytes());
}

fn write_line(to: &mut dyn Write, text: &str) -> std::io::Result<()> {
    to.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        to.write_all(b"\n")?;
    }
    to.flush()
}

/// Ends the program when stdout cannot be written any more.
fn finish(written: std::io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            std::process::exit(BROKEN_PIPE_EXIT.into())
        }
        Err(error) => {
            say(&format!(
                "{BAD}error:{BAD:#} cannot write to stdout: {error}"
            ));
            std::process::exit(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        let check = |text: &str, expect: &str| assert_eq!(printable(text), expect);
        check("fix-login", "fix-login");
        check("größe 日本", "größe 日本");
        check("a\u{1b}[2Jb", "a\\u{1b}[2Jb");
        check("a\r\nb\tc", "a\\r\\nb\\tc");
        check("a\u{202e}b\u{9b}", "a\\u{202e}b\\u{9b}");
        assert_eq!(printable_lines("one\ntw\u{7}o\n"), "one\ntw\\u{7}o");
    }

    #[test]
    fn hints_are_commands_at_the_end_of_a_line() {
        let text = next_text(&[("answer it", "holm session attach x"), ("all", "holm ls")]);
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "next: answer it   holm session attach x\n      all         holm ls"
        );
    }

    #[test]
    fn prose_is_broken_between_words() {
        assert_eq!(
            wrapped("hint: one two three four\nshort", 14),
            "hint: one two\n  three four\nshort"
        );
        assert_eq!(wrapped("a-word-that-is-longer", 5), "a-word-that-is-longer");
        assert_eq!(wrapped("  x  y", 80), "  x  y");
        assert_eq!(
            wrapped("hint: a b   holm up x y", 14),
            "hint: a b\n  holm up x y"
        );
    }

    #[test]
    fn long_lines_continue_below_their_beginning() {
        assert_eq!(hanging("12:00 api  ", "short", 40), "12:00 api  short");
        assert_eq!(hanging("12:00 api  ", "   at x", 40), "12:00 api     at x");
        assert_eq!(
            hanging("12:00 api  ", "TypeError: Cannot read properties", 36),
            "12:00 api  TypeError: Cannot read\n           properties"
        );
    }

    #[test]
    fn glyphs_have_an_ascii_form() {
        assert_eq!(
            ascii("✓ a → :3000 … +1 −2 größe"),
            "ok a -> :3000 ... +1 -2 größe"
        );
    }

    #[test]
    fn json_steers_no_terminal_and_means_the_same() {
        let text = "a\u{1b}[2J\u{7f}\u{9b}6n größe";
        let line = json_line(&text);
        assert_eq!(line, "\"a\\u001b[2J\\u007f\\u009b6n größe\"\n");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }

    #[test]
    fn errors_have_an_error_line_and_a_hint_line() {
        let fault = Fault::new(
            Code::InvalidConfig,
            "holm.toml:1:1: no\n  |\n1 | x",
            "edit it",
        );
        let text = anstream::adapter::strip_str(&fault_text(&fault)).to_string();
        assert_eq!(text, "error: holm.toml:1:1: no\n  |\n1 | x\nhint: edit it");
        let several = Fault::new(
            Code::UnsavedWork,
            "x has work",
            "keep it: `holm fetch x`\nto the trash: `holm rm x --force`",
        );
        let text = anstream::adapter::strip_str(&fault_text(&several)).to_string();
        assert_eq!(
            text,
            "error: x has work\nhint: keep it        holm fetch x\n      to the trash   holm rm x --force"
        );
        let bare = Fault::new(Code::Internal, "broken", "");
        let text = anstream::adapter::strip_str(&fault_text(&bare)).to_string();
        assert_eq!(text, "error: broken");
        let cancelled = Fault::new(Code::Cancelled, "nothing was left behind", "again");
        let text = anstream::adapter::strip_str(&fault_text(&cancelled)).to_string();
        assert_eq!(text, "cancelled: nothing was left behind");
    }
}
