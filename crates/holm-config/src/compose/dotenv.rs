//! Files of variables: `.env` and the files of `env_file`.

use super::tree::Problem;
use crate::shape::short;
use holm_core::compose::interpolate;

/// A variable of a file; `None`: a name without `=`, which has the value of the environment.
pub type Pair = (String, Option<String>);

/// Reads a file. `lookup` returns the values of variables that the file does not set.
pub fn parse(
    text: &str,
    lookup: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<Vec<Pair>, Problem> {
    let mut pairs: Vec<Pair> = Vec::new();
    let whole = text;
    let mut rest = text.trim_start_matches('\u{feff}');
    loop {
        rest = rest.trim_start();
        let start = whole.len() - rest.len();
        let line_end = rest.find('\n').unwrap_or(rest.len());
        let line = &rest[..line_end];
        if rest.is_empty() {
            return Ok(pairs);
        }
        if line.starts_with('#') {
            rest = &rest[line_end..];
            continue;
        }
        let fault = |why: &str| (start..start + line_end, why.to_owned());
        let named = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = match named.split_once(['=', ':']) {
            Some((name, value)) => (name.trim(), Some(value.trim_start_matches([' ', '\t']))),
            None => (named.split(" #").next().unwrap_or_default().trim(), None),
        };
        if !is_name(name) {
            return Err(fault(&format!(
                "`{}` is not the name of a variable",
                short(name)
            )));
        }
        let Some(value) = value else {
            pairs.push((name.to_owned(), lookup(name)));
            rest = &rest[line_end..];
            continue;
        };
        // A quoted value may have several lines.
        let value_start = line_end - value.len();
        let (raw, is_expanded, used) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let (raw, length) = quoted(&rest[value_start..], quote)
                    .ok_or_else(|| fault("a quote is not closed"))?;
                (raw, quote == '"', value_start + length)
            }
            _ => (unquoted(value).to_owned(), true, line_end),
        };
        let value = if is_expanded {
            let mut known = |name: &str| {
                let set = pairs.iter().rev().find(|(other, _)| other == name);
                set.and_then(|(_, value)| value.clone())
                    .or_else(|| lookup(name))
            };
            interpolate(&raw, &mut known, &mut |_| {}).map_err(|error| fault(&error.to_string()))?
        } else {
            raw
        };
        pairs.push((name.to_owned(), Some(value)));
        rest = &rest[used..];
        // Behind a closing quote only a comment may follow.
        let behind = rest.split('\n').next().unwrap_or_default();
        if !behind.trim().is_empty() && !behind.trim_start().starts_with('#') {
            return Err(fault("text behind a closing quote"));
        }
        rest = &rest[behind.len()..];
    }
}

/// `format: raw`: everything behind the first `=` is the value.
pub fn parse_raw(text: &str) -> Vec<Pair> {
    let lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let pair = |line: &str| match line.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (line.to_owned(), None),
    };
    lines.map(pair).collect()
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_.-[]".contains(c);
    !name.is_empty() && name.chars().all(is_part)
}

fn unquoted(value: &str) -> &str {
    let value = if value.starts_with('#') { "" } else { value };
    let end = [" #", "\t#"]
        .iter()
        .filter_map(|mark| value.find(mark))
        .min();
    value[..end.unwrap_or(value.len())].trim_end()
}

/// The text between quotes, and the length with them.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut raw = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            _ if character == quote => return Some((raw, at + 1)),
            '\\' => {
                let (_, escaped) = characters.next()?;
                match (quote, escaped) {
                    _ if escaped == quote => raw.push(escaped),
                    ('"', 'n') => raw.push('\n'),
                    ('"', 'r') => raw.push('\r'),
                    ('"', 't') => raw.push('\t'),
                    ('"', '\\') => raw.push('\\'),
                    ('"', '$') => raw.push_str("$$"),
                    _ => raw.extend(['\\', escaped]),
                }
            }
            _ => raw.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_specification() {
        let check = |text: &str, expect: &[(&str, Option<&str>)]| {
            let mut lookup = |name: &str| (name == "HOST").then(|| "here".to_owned());
            let pairs = parse(text, &mut lookup).unwrap();
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_deref()))
                .collect();
            assert_eq!(pairs, expect, "{text}");
        };
        check("", &[]);
        check(
            "\u{feff}A=VAL\n\n# comment\nB=\nHOST\nNOT",
            &[
                ("A", Some("VAL")),
                ("B", Some("")),
                ("HOST", Some("here")),
                ("NOT", None),
            ],
        );
        check(
            "A=\"VAL\"\r\nB='VAL'\r\nC=x\r\n",
            &[("A", Some("VAL")), ("B", Some("VAL")), ("C", Some("x"))],
        );
        check(
            "A=VAL # comment\nB=VAL# none",
            &[("A", Some("VAL")), ("B", Some("VAL# none"))],
        );
        check(
            "A=\"VAL # none\"\nB=\"VAL\" # comment",
            &[("A", Some("VAL # none")), ("B", Some("VAL"))],
        );
        check(
            "A='$HOST'\nB=\"${HOST}\"\nC=$HOST\nD=\"\\$HOST\"",
            &[
                ("A", Some("$HOST")),
                ("B", Some("here")),
                ("C", Some("here")),
                ("D", Some("$HOST")),
            ],
        );
        check("A='Let\\'s go!'", &[("A", Some("Let's go!"))]);
        check(
            "A=\"{\\\"hello\\\": \\\"json\\\"}\"",
            &[("A", Some("{\"hello\": \"json\"}"))],
        );
        check(
            "A=\"some\\tvalue\"\nB='some\\tvalue'\nC=some\\tvalue",
            &[
                ("A", Some("some\tvalue")),
                ("B", Some("some\\tvalue")),
                ("C", Some("some\\tvalue")),
            ],
        );
        check(
            "export A=1\nB=${A}2\nC: 3",
            &[("A", Some("1")), ("B", Some("12")), ("C", Some("3"))],
        );
        check(
            "A=\"two\nlines\"\nB=1",
            &[("A", Some("two\nlines")), ("B", Some("1"))],
        );
        check("A=b=c", &[("A", Some("b=c"))]);
    }

    #[test]
    fn wrong_files_name_the_line() {
        let check = |text: &str, at: usize, expect: &str| {
            let (range, why) = parse(text, &mut |_| None).unwrap_err();
            assert_eq!((range.start, why.as_str()), (at, expect));
        };
        check("A=1\nB C=2\n", 4, "`B C` is not the name of a variable");
        check("A=\"x", 0, "a quote is not closed");
        check("A=\"x\" y", 0, "text behind a closing quote");
        check("A=${B:?no}", 0, "variable `B` is required: no");
    }
}
