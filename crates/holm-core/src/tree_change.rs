//! What differs between two trees, as `git diff-tree -z --raw --numstat` tells it. git writes it outside for
//! turns, and inside a workspace for `changes`: every field is checked.

use crate::head::object_id;

/// One path that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeChange {
    pub path: Vec<u8>,
    /// The earlier path of a renamed file.
    pub from: Option<Vec<u8>>,
    /// `A`, `M`, `T`, `D` or `R`.
    pub status: u8,
    pub old: Option<Entry>,
    /// `None`: deleted.
    pub new: Option<Entry>,
    /// Added and removed lines; `None`: binary.
    pub lines: Option<(u64, u64)>,
}

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// As git writes it, such as `0o100644`.
    pub mode: u32,
    pub object: String,
}

// === impl TreeChange ===

impl TreeChange {
    /// The word of the API.
    pub fn operation(&self) -> &'static str {
        match self.status {
            b'A' => "create",
            b'D' => "delete",
            b'R' => "rename",
            _ => "update",
        }
    }

    pub fn is_binary(&self) -> bool {
        self.lines.is_none()
    }

    /// Both names of a renamed file, otherwise the one.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.path)
            .chain(&self.from)
            .map(Vec::as_slice)
    }
}

/// Added and removed lines of all changes; those of binary files are not counted.
pub fn sum_of_lines(changes: &[TreeChange]) -> (u64, u64) {
    let lines = changes.iter().filter_map(|change| change.lines);
    lines.fold((0, 0), |sum, lines| (sum.0 + lines.0, sum.1 + lines.1))
}

/// Parses the output: all raw entries first, then all counts. `None`: git never writes this.
pub fn tree_changes(said: &[u8]) -> Option<Vec<TreeChange>> {
    let Some(said) = said.strip_suffix(b"\0") else {
        return said.is_empty().then(Vec::new);
    };
    let mut fields = said.split(|byte| *byte == 0).peekable();
    let mut changes = Vec::new();
    while let Some(entry) = fields.next_if(|field| field.starts_with(b":")) {
        let words: Vec<&[u8]> = entry[1..].split(|byte| *byte == b' ').collect();
        let [old_mode, new_mode, old, new, status] = words[..] else {
            return None;
        };
        let status = *status.first()?;
        let first = fields.next()?.to_vec();
        let (path, from) = match status {
            b'A' | b'M' | b'T' | b'D' => (first, None),
            b'R' => (fields.next()?.to_vec(), Some(first)),
            _ => return None,
        };
        changes.push(TreeChange {
            path,
            from,
            status,
            old: side(old_mode, old)?,
            new: side(new_mode, new)?,
            lines: None,
        });
    }
    for change in &mut changes {
        let counts = fields.next()?;
        let mut columns = counts.splitn(3, |byte| *byte == b'\t');
        let mut number = || std::str::from_utf8(columns.next()?).ok()?.parse().ok();
        change.lines = number().zip(number());
        // For a rename the counts have no name; both names follow.
        if counts.ends_with(b"\t") {
            fields.next()?;
            fields.next()?;
        }
    }
    fields.next().is_none().then_some(changes)
}

/// One side of a change; an absent one has mode 0.
fn side(mode: &[u8], object: &[u8]) -> Option<Option<Entry>> {
    let mode = std::str::from_utf8(mode).ok()?;
    let mode = u32::from_str_radix(mode, 8).ok()?;
    let object = object_id(object)?;
    Some((mode != 0).then_some(Entry { mode, object }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_parsed_strictly() {
        let (zero, one, two) = ("0".repeat(40), "1".repeat(40), "2".repeat(40));
        let mut said = format!(
            ":000000 100644 {zero} {one} A\0new\0:100644 100755 {one} {two} R090\0old\0moved\0\
             :100644 000000 {one} {zero} D\0gone\0:100644 120000 {one} {two} T\0"
        )
        .into_bytes();
        said.extend(b"caf\xe9\x003\t0\tnew\0-\t-\t\0old\0moved\x000\t2\tgone\x001\t1\tcaf\xe9\0");
        let changes = tree_changes(&said).unwrap();
        let short: Vec<_> = changes
            .iter()
            .map(|change| {
                let sides = (change.old.is_some(), change.new.is_some());
                (change.operation(), change.lines, sides)
            })
            .collect();
        assert_eq!(
            short,
            [
                ("create", Some((3, 0)), (false, true)),
                ("rename", None, (true, true)),
                ("delete", Some((0, 2)), (true, false)),
                ("update", Some((1, 1)), (true, true)),
            ]
        );
        assert_eq!(changes[1].new.as_ref().unwrap().mode, 0o100_755);
        assert!(changes[1].is_binary() && !changes[0].is_binary());
        let names: Vec<_> = changes[1].paths().collect();
        assert_eq!(names, [b"moved".as_slice(), b"old"]);
        assert_eq!(changes[3].path, b"caf\xe9");
        assert_eq!(tree_changes(b""), Some(Vec::new()));
        let entry = |status: &str| format!(":100644 100644 {one} {two} {status}\0a\0");
        for wrong in [
            "x".to_owned(),
            "x\0".to_owned(),
            entry("A"),
            format!("{}1\t1\ta\0", entry("X")),
            format!("{}1\t1\ta\0more\0", entry("A")),
            format!(":100644 100644 {one} {two}\0a\x001\t1\ta\0"),
            format!(":900000 100644 {one} {two} A\0a\x001\t1\ta\0"),
            format!(":100644 100644 {one} --exec A\0a\x001\t1\ta\0"),
        ] {
            assert_eq!(tree_changes(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
