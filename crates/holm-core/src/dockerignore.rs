//! `.dockerignore`: which files of a context a build does not see.
//!
//! A pattern counts from the context, `*` and `?` stop at `/`, `**` does not, `!` takes back, and a pattern that matches a
//! directory matches what is below it. Matching takes time in proportion to pattern and path, whatever the repository
//! writes.

/// The patterns of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DockerIgnore {
    patterns: Vec<Pattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    is_exception: bool,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    One(char),
    /// `?`
    Any,
    /// `*`
    Within,
    /// `**`
    Across,
    /// `[a-z]`, or `[^a-z]` with `false`.
    Class(Vec<(char, char)>, bool),
}

// === impl DockerIgnore ===

impl DockerIgnore {
    pub fn parse(text: &str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.map(str::trim).filter(|line| !line.is_empty());
        Self {
            patterns: lines.filter_map(Pattern::parse).collect(),
        }
    }

    /// Whether the build does not see the file at this path, relative to the context.
    pub fn ignores(&self, path: &str) -> bool {
        let mut ignored = false;
        for pattern in &self.patterns {
            if pattern.is_exception == ignored && pattern.covers(path) {
                ignored = !pattern.is_exception;
            }
        }
        ignored
    }
}

// === impl Pattern ===

impl Pattern {
    fn parse(line: &str) -> Option<Self> {
        let (is_exception, text) = match line.strip_prefix('!') {
            Some(rest) => (true, rest.trim()),
            None => (false, line),
        };
        let mut names: Vec<&str> = Vec::new();
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." => drop(names.pop()),
                name => names.push(name),
            }
        }
        if names.is_empty() {
            return None;
        }
        Some(Self {
            is_exception,
            parts: parts(&names.join("/")),
        })
    }

    /// The path, or a directory that it is in.
    fn covers(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(at, _)| at);
        ends.chain([path.len()])
            .any(|end| self.matches(&path[..end]))
    }

    fn matches(&self, path: &str) -> bool {
        // The places in the pattern that the path so far can have reached.
        let mut reached = vec![false; self.parts.len() + 1];
        reached[0] = true;
        self.skip(&mut reached, true);
        for letter in path.chars() {
            let mut next = vec![false; self.parts.len() + 1];
            for at in (0..self.parts.len()).filter(|at| reached[*at]) {
                match &self.parts[at] {
                    Part::Across => next[at] = true,
                    Part::Within => next[at] |= letter != '/',
                    Part::Any => next[at + 1] |= letter != '/',
                    Part::One(one) => next[at + 1] |= *one == letter,
                    Part::Class(ranges, is_in) => {
                        let found = ranges.iter().any(|(a, b)| (*a..=*b).contains(&letter));
                        next[at + 1] |= letter != '/' && found == *is_in;
                    }
                }
            }
            self.skip(&mut next, letter == '/');
            reached = next;
        }
        reached[self.parts.len()]
    }

    /// `*` and `**` match nothing, too; `**/` matches no directory at all where one could begin.
    fn skip(&self, reached: &mut [bool], is_start: bool) {
        for at in 0..self.parts.len() {
            if !reached[at] {
                continue;
            }
            match (&self.parts[at], self.parts.get(at + 1)) {
                (Part::Across, Some(Part::One('/'))) => {
                    reached[at + 1] = true;
                    reached[at + 2] |= is_start;
                }
                (Part::Across | Part::Within, _) => reached[at + 1] = true,
                _ => {}
            }
        }
    }
}

fn parts(text: &str) -> Vec<Part> {
    let letters: Vec<char> = text.chars().collect();
    let mut parts = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let part = match letters[at] {
            '*' if letters.get(at + 1) == Some(&'*') => {
                at += 1;
                Part::Across
            }
            '*' => Part::Within,
            '?' => Part::Any,
            '\\' if at + 1 < letters.len() => {
                at += 1;
                Part::One(letters[at])
            }
            '[' => match class(&letters[at + 1..]) {
                Some((class, length)) => {
                    at += length;
                    class
                }
                None => Part::One('['),
            },
            letter => Part::One(letter),
        };
        parts.push(part);
        at += 1;
    }
    parts
}

/// A class after its `[`, and its length with the `]`.
fn class(letters: &[char]) -> Option<(Part, usize)> {
    let is_in = letters.first() != Some(&'^');
    let first = usize::from(!is_in);
    let end = first
        + letters
            .get(first..)?
            .iter()
            .position(|letter| *letter == ']')?;
    let inner = &letters[first..end];
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < inner.len() {
        match inner.get(at..at + 3) {
            Some([from, '-', to]) => {
                ranges.push((*from, *to));
                at += 3;
            }
            _ => {
                ranges.push((inner[at], inner[at]));
                at += 1;
            }
        }
    }
    (!ranges.is_empty()).then_some((Part::Class(ranges, is_in), end + 1))
}

#[cfg(test)]
mod tests {
    use super::DockerIgnore;

    #[test]
    fn patterns_match_as_builders_match_them() {
        let check = |text: &str, path: &str, expect: bool| {
            let found = DockerIgnore::parse(text).ignores(path);
            assert_eq!(found, expect, "{text:?} {path}");
        };
        check("node_modules", "node_modules/a/b", true);
        check("node_modules", "web/node_modules/a", false);
        check("/node_modules/", "node_modules/a", true);
        check("**/node_modules", "web/node_modules/a", true);
        check("**/node_modules", "node_modules/a", true);
        check("**/node_modules", "my-node_modules", false);
        check("*.log", "a.log", true);
        check("*.log", "logs/a.log", false);
        check("*/temp*", "x/temporary.txt", true);
        check("*/*/temp*", "x/temporary.txt", false);
        check("temp?", "temp1", true);
        check("temp?", "temp12", false);
        check("docs/**", "docs/a/b", true);
        check("a/**/b", "a/b", true);
        check("a/**/b", "a/x/y/b", true);
        check("a/**/b", "a/xb", false);
        check("**", "a/b", true);
        check("*", "a/b", true);
        check("*\n!src", "src/main.rs", false);
        check("*\n!src\nsrc/*.tmp", "src/x.tmp", true);
        check("*.md\n!README*.md\nREADME-secret.md", "README-a.md", false);
        check(
            "*.md\n!README*.md\nREADME-secret.md",
            "README-secret.md",
            true,
        );
        check("# a\n\n  \nb", "a", false);
        check("[a-c].txt", "b.txt", true);
        check("[^a-c].txt", "b.txt", false);
        check("\\*.txt", "*.txt", true);
        check("\\*.txt", "a.txt", false);
        check("./x/../y", "y/z", true);
        check("[", "[", true);
        check("!", "a", false);
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let pattern = "*a".repeat(2000) + &"**".repeat(2000);
        assert!(!DockerIgnore::parse(&pattern).ignores(&"a".repeat(1999)));
    }
}
