//! The changed lines of one file, parsed from a patch of git, with the changed words of lines that replace each
//! other. The dashboard draws them; nothing is parsed in the browser.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The difference of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FilePatch {
    pub hunks: Vec<Hunk>,
    /// Its content is not shown as lines.
    pub binary: bool,
    /// It has more lines than are listed here.
    pub truncated: bool,
}

/// Changed lines that stand together, with the unchanged ones around them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hunk {
    pub old_start: u64,
    pub old_lines: u64,
    pub new_start: u64,
    pub new_lines: u64,
    /// The function or section that git found above it.
    pub header: String,
    pub lines: Vec<HunkLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HunkLine {
    pub kind: LineKind,
    /// Its number in the old file; null for an added line.
    #[schema(required)]
    pub old: Option<u64>,
    /// Its number in the new file; null for a deleted line.
    #[schema(required)]
    pub new: Option<u64>,
    /// Without the line end.
    pub text: String,
    /// The changed part of a line that replaces another one, as offsets in UTF-16 code units, which browsers count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<[usize; 2]>,
    /// The file ends here without a line end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LineKind {
    Context,
    Add,
    Delete,
}

/// Where the next line of a hunk belongs, and how many are still to come on each side.
struct LineNumbers {
    old: u64,
    new: u64,
    old_left: u64,
    new_left: u64,
}

/// Lines longer than this have no marks.
const LONGEST_MARKED: usize = 2000;

/// Parses the patch of one file and keeps at most this many lines.
pub fn parse(patch: &str, most_lines: usize) -> FilePatch {
    let mut parsed = FilePatch::default();
    let mut numbers: Option<LineNumbers> = None;
    let mut count = 0;
    for line in patch.split_inclusive('\n') {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let is_inside = numbers
            .as_ref()
            .is_some_and(|numbers| numbers.old_left + numbers.new_left > 0);
        if !is_inside {
            if line.starts_with('\\') {
                end_without_newline(&mut parsed);
            } else if let Some((hunk, first)) = header(line) {
                parsed.hunks.push(hunk);
                numbers = Some(first);
            } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
                parsed.binary = true;
            }
            continue;
        }
        let (Some(numbers), Some(hunk)) = (numbers.as_mut(), parsed.hunks.last_mut()) else {
            continue;
        };
        if line.starts_with('\\') {
            end_without_newline(&mut parsed);
            continue;
        }
        if count == most_lines {
            parsed.truncated = true;
            break;
        }
        count += 1;
        hunk.lines.push(numbers.take(line));
    }
    for hunk in &mut parsed.hunks {
        mark(&mut hunk.lines);
    }
    parsed
}

fn end_without_newline(parsed: &mut FilePatch) {
    let lines = parsed.hunks.last_mut().map(|hunk| &mut hunk.lines);
    if let Some(last) = lines.and_then(|lines| lines.last_mut()) {
        last.unended = true;
    }
}

/// Parses `@@ -1,2 +3,4 @@ section`.
fn header(line: &str) -> Option<(Hunk, LineNumbers)> {
    let (ranges, section) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| {
        let (start, lines) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse::<u64>().ok()?, lines.parse::<u64>().ok()?))
    };
    let ((old_start, old_lines), (new_start, new_lines)) = (range(old)?, range(new)?);
    let hunk = Hunk {
        old_start,
        old_lines,
        new_start,
        new_lines,
        header: section.trim().to_owned(),
        lines: Vec::new(),
    };
    let numbers = LineNumbers {
        old: old_start,
        new: new_start,
        old_left: old_lines,
        new_left: new_lines,
    };
    Some((hunk, numbers))
}

/// Marks the changed words where a run of deleted lines is replaced by a run of as many added ones.
fn mark(lines: &mut [HunkLine]) {
    let mut at = 0;
    while at < lines.len() {
        let run = |kind: LineKind, from: usize| {
            let of_kind = lines[from..].iter().take_while(|line| line.kind == kind);
            of_kind.count()
        };
        let deleted = run(LineKind::Delete, at);
        let added = run(LineKind::Add, at + deleted);
        if deleted > 0 && deleted == added {
            for number in at..at + deleted {
                let (before, after) = lines.split_at_mut(number + deleted);
                mark_pair(&mut before[number], &mut after[0]);
            }
        }
        at += (deleted + added).max(1);
    }
}

fn mark_pair(old: &mut HunkLine, new: &mut HunkLine) {
    if old.text.len().max(new.text.len()) > LONGEST_MARKED {
        return;
    }
    let (left, right) = (words(&old.text), words(&new.text));
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let front = left.iter().zip(&right).take_while(same).count();
    let rests = left[front..].iter().rev().zip(right[front..].iter().rev());
    let back = rests.take_while(same).count();
    // Lines with nothing in common were not edited, they were replaced.
    if front + back == 0 {
        return;
    }
    let changed = |words: &[&str]| {
        let length = |words: &[&str]| words.iter().flat_map(|word| word.encode_utf16()).count();
        let start = length(&words[..front]);
        let end = start + length(&words[front..words.len() - back]);
        (end > start).then_some([start, end])
    };
    (old.mark, new.mark) = (changed(&left), changed(&right));
}

/// Splits a text into words and the characters between them.
fn words(text: &str) -> Vec<&str> {
    let is_letter = |character: char| character.is_alphanumeric() || character == '_';
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if is_letter(first) {
            rest.find(|character| !is_letter(character))
                .unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        words.push(word);
        rest = after;
    }
    words
}

// === impl LineNumbers ===

impl LineNumbers {
    fn take(&mut self, line: &str) -> HunkLine {
        let kind = match line.as_bytes().first() {
            Some(b'+') => LineKind::Add,
            Some(b'-') => LineKind::Delete,
            // Some programs drop the blank of an empty context line.
            _ => LineKind::Context,
        };
        let number = |is_there: bool, next: &mut u64, left: &mut u64| {
            is_there.then(|| {
                let number = *next;
                *next += 1;
                *left = left.saturating_sub(1);
                number
            })
        };
        let old = number(kind != LineKind::Add, &mut self.old, &mut self.old_left);
        let new = number(kind != LineKind::Delete, &mut self.new, &mut self.new_left);
        HunkLine {
            kind,
            old,
            new,
            text: line.get(1..).unwrap_or_default().to_owned(),
            mark: None,
            unended: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@ fn main\n same\n-let total = sum(a);\n--- not a header\n+let total = summe(a);\n++++ nor this\n last\n@@ -9 +9,2 @@\n-end\n\\ No newline at end of file\n+end\n+more\n";

    #[test]
    fn lines_have_their_numbers_on_both_sides() {
        let parsed = parse(PATCH, 100);
        assert!(!parsed.binary && !parsed.truncated);
        let [first, second] = &parsed.hunks[..] else {
            panic!("{parsed:?}")
        };
        assert_eq!(first.header, "fn main");
        let found: Vec<_> = first
            .lines
            .iter()
            .map(|line| (line.kind, line.old, line.new, line.text.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (LineKind::Context, Some(1), Some(1), "same"),
                (LineKind::Delete, Some(2), None, "let total = sum(a);"),
                (LineKind::Delete, Some(3), None, "-- not a header"),
                (LineKind::Add, None, Some(2), "let total = summe(a);"),
                (LineKind::Add, None, Some(3), "+++ nor this"),
                (LineKind::Context, Some(4), Some(4), "last"),
            ]
        );
        assert!(second.lines[0].unended);
        assert_eq!(second.lines[2].new, Some(10));
    }

    #[test]
    fn changed_words_are_marked() {
        let check = |old: &str, new: &str, expect: [Option<[usize; 2]>; 2]| {
            let patch = format!("@@ -1 +1 @@\n-{old}\n+{new}\n");
            let lines = &parse(&patch, 10).hunks[0].lines;
            assert_eq!([lines[0].mark, lines[1].mark], expect, "{old} {new}");
        };
        check("let a = 1;", "let b = 1;", [Some([4, 5]), Some([4, 5])]);
        check("f(x)", "f(x, y)", [None, Some([3, 6])]);
        // Counted as browsers count.
        check("𝄞 = old", "𝄞 = new", [Some([5, 8]), Some([5, 8])]);
        check("one", "two", [None, None]);
        check("aa", "aa aa", [None, Some([2, 5])]);
    }

    #[test]
    fn long_and_binary_files_say_so() {
        assert!(parse("Binary files a/x and b/x differ\n", 10).binary);
        let many = parse(PATCH, 3);
        assert!(many.truncated);
        assert_eq!(many.hunks[0].lines.len(), 3);
        assert_eq!(parse("@@ nonsense", 3), FilePatch::default());
    }
}
