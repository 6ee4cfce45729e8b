//! All errors of one file, each with line, column and the line itself.
//!
//! The text comes from an untrusted repository, so control characters are never printed.

use holm_core::{Code, Fault};
use std::fmt;
use std::ops::Range;

/// The errors of a file. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    origin: String,
    errors: Vec<ConfigError>,
    /// The number of further errors.
    more: usize,
}

/// One error. Lines and columns count from 1; a column is a character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub line: usize,
    pub column: usize,
    pub what: String,
    snippet: String,
}

/// Errors while they are being collected.
#[derive(Default)]
pub struct Findings(Vec<(Range<usize>, String)>);

/// A file with more errors has one cause, not many.
const MOST_ERRORS: usize = 100;

/// Longer lines are truncated.
const LONGEST_LINE: usize = 160;

// === impl Findings ===

impl Findings {
    pub fn add(&mut self, span: Range<usize>, what: impl Into<String>) {
        self.0.push((span, what.into()));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The errors in file order, or `value` when there are none.
    pub fn into_result<T>(mut self, value: T, text: &str, origin: &str) -> Result<T, ConfigErrors> {
        if self.0.is_empty() {
            return Ok(value);
        }
        self.0.sort_by_key(|(span, _)| (span.start, span.end));
        self.0.dedup();
        let more = self.0.len().saturating_sub(MOST_ERRORS);
        let listed = self.0.iter().take(MOST_ERRORS);
        let errors = listed
            .map(|(span, what)| locate(text, span, what))
            .collect();
        Err(ConfigErrors {
            origin: clean(origin),
            errors,
            more,
        })
    }
}

// === impl ConfigErrors ===

impl ConfigErrors {
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// Each as `file:line:column: what`.
    pub fn lines(&self) -> Vec<String> {
        let line =
            |it: &ConfigError| format!("{}:{}:{}: {}", self.origin, it.line, it.column, it.what);
        self.errors.iter().map(line).collect()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let ConfigError {
                line,
                column,
                what,
                snippet,
            } = error;
            write!(f, "{}:{line}:{column}: {what}\n{snippet}", self.origin)?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

impl From<ConfigErrors> for Fault {
    fn from(errors: ConfigErrors) -> Fault {
        let hint = if errors.origin.ends_with("config.toml") {
            "correct the file and try again; `holm doctor` reads it too"
        } else {
            "correct the file and try again; `holm schema` prints what may be written"
        };
        Fault::new(Code::InvalidConfig, errors.to_string(), hint)
    }
}

/// Finds the position of a span, and shows its line with a mark below.
pub fn locate(text: &str, span: &Range<usize>, what: &str) -> ConfigError {
    let start = floor_boundary(text, span.start);
    let end = floor_boundary(text, span.end).max(start);
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = text[start..]
        .find('\n')
        .map_or(text.len(), |newline| start + newline);
    let line = text[..line_start].matches('\n').count() + 1;
    let column = text[line_start..start].chars().count() + 1;

    let shown: String = without_passwords(&text[line_start..line_end])
        .chars()
        .take(LONGEST_LINE)
        .collect();
    let shown = clean(shown.trim_end_matches('\r'));
    let before: usize = text[line_start..start]
        .chars()
        .map(|c| clean_char(c).chars().count())
        .sum();
    let marked = text[start..end.min(line_end)].chars().count().max(1);
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let mut snippet = format!("  {margin} |\n  {number} | {shown}");
    if column <= LONGEST_LINE {
        let marks = "^".repeat(marked.min(LONGEST_LINE - column + 1));
        snippet.push_str(&format!("\n  {margin} | {}{marks}", " ".repeat(before)));
    }
    ConfigError {
        line,
        column,
        what: clean(what),
        snippet,
    }
}

/// The line with a star for each character of a password in a URL. A file of settings should have none, and an error is
/// logged.
fn without_passwords(line: &str) -> String {
    let mut shown: Vec<char> = line.chars().collect();
    let ends = |c: &char| c.is_whitespace() || matches!(c, '"' | '\'');
    let find = |from: usize, word: &str, shown: &[char]| {
        let word: Vec<char> = word.chars().collect();
        (from..shown.len()).find(|at| shown[*at..].starts_with(&word))
    };
    let mut from = 0;
    while let Some(at) = find(from, "://", &shown) {
        from = at + 3;
        let rest = &shown[from..];
        let whole = rest.iter().position(ends).unwrap_or(rest.len());
        let user = rest[..whole].iter().rposition(|c| *c == '@');
        let colon = rest[..user.unwrap_or(0)].iter().position(|c| *c == ':');
        if let (Some(end), Some(start)) = (user, colon) {
            shown[from + start + 1..from + end].fill('*');
        }
        if let Some(key) = find(from, "password=", &shown[..from + whole]) {
            let start = key + "password=".len();
            shown[start..from + whole].fill('*');
        }
    }
    shown.into_iter().collect()
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Escapes everything that could control a terminal or hide text.
pub fn clean(text: &str) -> String {
    text.chars().map(clean_char).collect()
}

fn clean_char(character: char) -> String {
    let reorders = matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    match character {
        '\t' => " ".to_owned(),
        _ if character.is_control() || reorders => character.escape_default().to_string(),
        _ => character.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lines_and_characters() {
        let text = "a = 1\nbä = \"x\u{1b}[31m\"\n";
        let mut findings = Findings::default();
        let start = text.find('"').unwrap();
        findings.add(start..start + 3, "wrong");
        findings.add(0..1, "first");
        let errors = findings.into_result((), text, "holm.toml").unwrap_err();
        assert_eq!(
            errors.to_string(),
            "holm.toml:1:1: first\n    |\n  1 | a = 1\n    | ^\n\
             holm.toml:2:6: wrong\n    |\n  2 | bä = \"x\\u{1b}[31m\"\n    |      ^^^"
        );
    }

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        let check = |line: &str, expect: &str| assert_eq!(without_passwords(line), expect);
        check(
            "a = \"x://me:hid:d@n@h/p\" # b",
            "a = \"x://me:*******@h/p\" # b",
        );
        check(
            "a = \"x://h/p?password=hidden&x\"",
            "a = \"x://h/p?password=********\"",
        );
        check(
            "a = 'x://h:5432/p', b = 'y://ü:ß@h",
            "a = 'x://h:5432/p', b = 'y://ü:*@h",
        );
        check("a = \"x://me@h:1/p\"", "a = \"x://me@h:1/p\"");
    }

    #[test]
    fn places_outside_of_the_text_do_not_panic() {
        for text in ["", "ä", "ä\n", "\r\n"] {
            for start in 0..6 {
                for end in 0..6 {
                    locate(text, &(start..end), "x");
                }
            }
        }
    }

    #[test]
    fn a_flood_of_errors_is_cut() {
        let mut findings = Findings::default();
        for number in 0..250 {
            findings.add(0..0, format!("error {number}"));
        }
        let errors = findings.into_result((), "", "holm.toml").unwrap_err();
        assert_eq!(errors.errors().len(), 100);
        assert!(errors.to_string().ends_with("and 150 more"));
    }
}
