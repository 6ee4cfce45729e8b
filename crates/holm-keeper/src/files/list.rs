//! Lists one directory, a page at a time. However many entries exist, only one page is in memory.

use super::root::{Root, entry_at, failure};
use holm_core::TreePath;
use holm_core::files::{Failure, Head, Page};
use rustix::fs::Dir;
use std::collections::BinaryHeap;

// === impl Root ===

impl Root {
    pub fn list(&self, path: &TreePath, page: &Page) -> Result<Head, Failure> {
        let directory = self.directory(path)?;
        // The smallest names after `after`, the largest of them on top.
        let mut names: BinaryHeap<Vec<u8>> = BinaryHeap::new();
        let mut more = false;
        for found in Dir::read_from(&directory).map_err(failure)? {
            let found = found.map_err(failure)?;
            let name = found.file_name().to_bytes();
            let is_before = page.after.as_deref().is_some_and(|after| name <= after);
            if is_before || matches!(name, b"." | b"..") {
                continue;
            }
            names.push(name.to_vec());
            if names.len() > page.limit {
                names.pop();
                more = true;
            }
        }
        let mut entries = Vec::with_capacity(names.len());
        for name in names.into_sorted_vec() {
            entries.extend(entry_at(&directory, &name).map_err(failure)?);
        }
        Ok(Head::Listed { entries, more })
    }
}
