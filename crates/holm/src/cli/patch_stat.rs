//! Counts the lines of a patch per file, for `diff --stat`. Pure.

use super::figures::count;
use super::output::{BAD, GOOD, WARNING, printable};
use holm_core::turn::numbers;

/// What a patch does to one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileStat {
    pub path: String,
    /// `A`, `D`, `M` or `R`.
    pub letter: char,
    pub added: u64,
    pub removed: u64,
    pub is_binary: bool,
}

/// Reads a patch as `git diff` prints it.
pub fn files(patch: &[u8]) -> Vec<FileStat> {
    let mut files: Vec<FileStat> = Vec::new();
    // Lines of a hunk may look like headers; the hunk's head says how many there are.
    let (mut old_left, mut new_left) = (0_u64, 0_u64);
    for line in patch.split(|byte| *byte == b'\n') {
        if old_left + new_left > 0 {
            let Some(file) = files.last_mut() else {
                continue;
            };
            match line.first() {
                Some(b'+') => {
                    file.added += 1;
                    new_left = new_left.saturating_sub(1);
                }
                Some(b'-') => {
                    file.removed += 1;
                    old_left = old_left.saturating_sub(1);
                }
                Some(b'\\') => {}
                _ => {
                    old_left = old_left.saturating_sub(1);
                    new_left = new_left.saturating_sub(1);
                }
            }
            continue;
        }
        let text = String::from_utf8_lossy(line);
        if let Some(names) = text.strip_prefix("diff --git ") {
            let path = names.rsplit(" b/").next().unwrap_or(names);
            files.push(FileStat {
                path: path.trim_end_matches('"').to_owned(),
                letter: 'M',
                ..FileStat::default()
            });
            continue;
        }
        let Some(file) = files.last_mut() else {
            continue;
        };
        if text.starts_with("new file mode") {
            file.letter = 'A';
        } else if text.starts_with("deleted file mode") {
            file.letter = 'D';
        } else if text.starts_with("rename to ") {
            file.letter = 'R';
        } else if text.starts_with("GIT binary patch") || text.starts_with("Binary files") {
            file.is_binary = true;
        } else if let Some((old, new)) = hunk(&text) {
            (old_left, new_left) = (old, new);
        }
    }
    files
}

/// The numbers of old and new lines in `@@ -1,2 +3,4 @@`.
fn hunk(text: &str) -> Option<(u64, u64)> {
    let rest = text.strip_prefix("@@ -")?;
    let (old, rest) = rest.split_once(" +")?;
    let new = rest.split(' ').next()?;
    let lines = |range: &str| match range.split_once(',') {
        Some((_, lines)) => lines.parse().ok(),
        None => Some(1),
    };
    Some((lines(old)?, lines(new)?))
}

/// One line per file, then the sum.
pub fn render(files: &[FileStat]) -> String {
    let width = files
        .iter()
        .map(|file| printable(&file.path).chars().count());
    let width = width.max().unwrap_or(0);
    let mut text = String::new();
    for file in files {
        let style = match file.letter {
            'A' => GOOD,
            'D' => BAD,
            _ => WARNING,
        };
        let numbers = if file.is_binary {
            "binary".to_owned()
        } else {
            numbers(file.added, file.removed)
        };
        let (letter, path) = (file.letter, printable(&file.path));
        let row = format!("{style}{letter}{style:#} {path:width$}  {numbers:>12}");
        text.push_str(row.trim_end());
        text.push('\n');
    }
    let sum = |of: fn(&FileStat) -> u64| files.iter().map(of).sum();
    let (added, removed) = (sum(|file| file.added), sum(|file| file.removed));
    let files = count(files.len() as u64, "file");
    text.push_str(format!("{files} {}", numbers(added, removed)).trim_end());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_counted_per_file() {
        let patch = "diff --git a/src/a.ts b/src/a.ts\nindex 1..2 100644\n--- a/src/a.ts\n+++ b/src/a.ts\n\
            @@ -1,3 +1,3 @@\n same\n-old\n+--- a/not-a-header\n same\n\
            diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n\
            \\ No newline at end of file\n\
            diff --git a/x.bin b/y.bin\nrename from x.bin\nrename to y.bin\nGIT binary patch\nliteral 1\n\
            diff --git a/gone b/gone\ndeleted file mode 100644\n@@ -1,2 +0,0 @@\n-1\n-2\n";
        let text = anstream::adapter::strip_str(&render(&files(patch.as_bytes()))).to_string();
        assert_eq!(
            text,
            "M src/a.ts         +1 −1\n\
             A new                 +1\n\
             R y.bin           binary\n\
             D gone                −2\n\
             4 files +2 −3"
        );
    }
}
