//! How much two trees differ, in files and lines.

/// The number of files and lines that differ between two trees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    pub files: usize,
    /// Lines.
    pub added: u64,
    pub removed: u64,
}

// === impl Extent ===

impl Extent {
    /// Reads the output of `--numstat -z --no-renames`.
    pub(super) fn of_numstat(listed: &[u8]) -> Self {
        let mut extent = Self::default();
        for line in listed
            .split(|byte| *byte == 0)
            .filter(|line| !line.is_empty())
        {
            let text = String::from_utf8_lossy(line);
            let mut fields = text.splitn(3, '\t');
            // Binary files have `-` instead of numbers.
            let mut number = || fields.next().and_then(|it| it.parse().ok()).unwrap_or(0);
            extent.files += 1;
            extent.added += number();
            extent.removed += number();
        }
        extent
    }
}
