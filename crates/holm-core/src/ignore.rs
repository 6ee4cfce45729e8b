//! Decides which paths git ignores, by the text of `.gitignore` files. A driver asks when it lists the
//! writable layer of a workspace from outside, with the rules of the base, which no program inside can change.

/// Rules of several files. A file that was added later takes precedence.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    /// The directory of its file, with a `/` at the end; empty at the top.
    below: Vec<u8>,
    pattern: Vec<u8>,
    /// The path is tracked again.
    is_exception: bool,
    only_directories: bool,
    /// The pattern has a `/`, so it is about the path below the directory, not about a name.
    is_path: bool,
}

/// A pattern with more of these is not used: matching could take very long. Its paths are not ignored.
const MOST_STARS: usize = 8;

// === impl Rules ===

impl Rules {
    /// Adds the lines of a file in `directory`, which is relative to the top.
    pub fn add(&mut self, directory: &[u8], text: &[u8]) {
        let mut below = directory.to_vec();
        if !below.is_empty() {
            below.push(b'/');
        }
        let lines = text.split(|byte| *byte == b'\n');
        let rules = lines.filter_map(|line| Rule::parse(&below, line));
        self.0.extend(rules);
    }

    /// Whether the path or a directory above it is ignored.
    pub fn cover(&self, path: &[u8], is_directory: bool) -> bool {
        let places = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = places.map(|(place, _)| &path[..place]);
        above.any(|directory| self.ignore(directory, true)) || self.ignore(path, is_directory)
    }

    /// Whether the path itself is ignored.
    fn ignore(&self, path: &[u8], is_directory: bool) -> bool {
        let mut rules = self.0.iter().rev();
        let found = rules.find(|rule| rule.matches(path, is_directory));
        found.is_some_and(|rule| !rule.is_exception)
    }
}

// === impl Rule ===

impl Rule {
    fn parse(below: &[u8], line: &[u8]) -> Option<Self> {
        let mut line = line.strip_suffix(b"\r").unwrap_or(line);
        while line.ends_with(b" ") && !line.ends_with(b"\\ ") {
            line = &line[..line.len() - 1];
        }
        if line.starts_with(b"#") {
            return None;
        }
        let is_exception = line.starts_with(b"!");
        line = line.strip_prefix(b"!").unwrap_or(line);
        let only_directories = line.ends_with(b"/");
        line = line.strip_suffix(b"/").unwrap_or(line);
        let is_path = line.contains(&b'/');
        line = line.strip_prefix(b"/").unwrap_or(line);
        let stars = line.iter().filter(|byte| **byte == b'*').count();
        (!line.is_empty() && stars <= MOST_STARS).then(|| Self {
            below: below.to_vec(),
            pattern: line.to_vec(),
            is_exception,
            only_directories,
            is_path,
        })
    }

    fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        let Some(rest) = path.strip_prefix(&self.below[..]) else {
            return false;
        };
        if self.only_directories && !is_directory {
            return false;
        }
        let text = if self.is_path {
            rest
        } else {
            rest.rsplit(|byte| *byte == b'/').next().unwrap_or(rest)
        };
        is_like(&self.pattern, text)
    }
}

/// Matches a text with `*`, `?`, `[…]` and `**`, none of which but the last matches a `/`.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', b'*', b'/', rest @ ..] => {
            let mut places = text.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            is_like(rest, text) || places.any(|(place, _)| is_like(rest, &text[place + 1..]))
        }
        [b'/', b'*', b'*'] => text.first() == Some(&b'/') && text.len() > 1,
        [b'*', b'*'] => true,
        [b'*', rest @ ..] => {
            let end = text.iter().position(|byte| *byte == b'/');
            let end = end.unwrap_or(text.len());
            (0..=end).any(|skipped| is_like(rest, &text[skipped..]))
        }
        [b'[', rest @ ..] => match (class(rest, text.first().copied()), text) {
            (Some((true, after)), [_, text @ ..]) => is_like(after, text),
            _ => false,
        },
        [b'?', rest @ ..] => match text {
            [byte, text @ ..] => *byte != b'/' && is_like(rest, text),
            [] => false,
        },
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => {
            text.first() == Some(byte) && is_like(rest, &text[1..])
        }
    }
}

/// Whether a class (`a-z]…`) has the byte, and what follows it; `None`: it has no end.
fn class(pattern: &[u8], byte: Option<u8>) -> Option<(bool, &[u8])> {
    let byte = byte.filter(|byte| *byte != b'/')?;
    let is_inverted = matches!(pattern.first(), Some(b'!' | b'^'));
    let mut rest = &pattern[usize::from(is_inverted)..];
    let (mut is_in, mut is_first) = (false, true);
    loop {
        rest = match rest {
            [b']', after @ ..] if !is_first => return Some((is_in != is_inverted, after)),
            [low, b'-', high, after @ ..] if *high != b']' => {
                is_in |= (*low..=*high).contains(&byte);
                after
            }
            [b'\\', one, after @ ..] | [one, after @ ..] => {
                is_in |= *one == byte;
                after
            }
            [] => return None,
        };
        is_first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_git_reads_them() {
        let check = |text: &str, path: &str, expected: bool| {
            let mut rules = Rules::default();
            rules.add(b"", text.as_bytes());
            let (path, is_directory) = match path.strip_suffix('/') {
                Some(path) => (path, true),
                None => (path, false),
            };
            let found = rules.ignore(path.as_bytes(), is_directory);
            assert_eq!(found, expected, "{text:?} {path}");
        };
        for (text, path, expected) in [
            ("node_modules/", "node_modules/", true),
            ("node_modules/", "node_modules", false),
            ("node_modules/", "web/node_modules/", true),
            ("/dist", "dist/", true),
            ("/dist", "web/dist/", false),
            ("web/dist", "web/dist", true),
            ("web/dist", "a/web/dist", false),
            ("*.log", "a/b.log", true),
            ("*.log", "a/b.log.txt", false),
            ("*.log\n!keep.log", "a/keep.log", false),
            ("!keep.log\n*.log", "a/keep.log", true),
            ("a/**/z", "a/z", true),
            ("a/**/z", "a/b/c/z", true),
            ("**/x", "q/x", true),
            ("a/**", "a/b/c", true),
            ("a/**", "a/", false),
            ("a?c", "abc", true),
            ("/a?c", "a/c", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]x", "]x", true),
            ("[ax", "ax", false),
            ("# note", "# note", false),
            ("\\# note", "# note", true),
            ("\\!x", "!x", true),
            ("x  ", "x", true),
            ("x\\ ", "x ", true),
            ("x\r", "x", true),
            ("", "x", false),
            ("/", "x", false),
        ] {
            check(text, path, expected);
        }
    }

    #[test]
    fn a_file_below_takes_precedence_and_is_about_its_directory() {
        let mut rules = Rules::default();
        rules.add(b"", b"*.gen\n");
        rules.add(b"web", b"!*.gen\n/out\n");
        assert!(rules.cover(b"web/out/deep/x", false) && !rules.cover(b"web/in/x", false));
        for (path, expected) in [
            ("a.gen", true),
            ("web/a.gen", false),
            ("web/out", true),
            ("out", false),
            ("website/out", false),
        ] {
            assert_eq!(rules.ignore(path.as_bytes(), false), expected, "{path}");
        }
    }
}
