//! The changes of a run: git inside compares the trees before and after, with the new content of
//! small text files. The output of git inside is shown and never acted on.

use crate::engine::Engine;
use crate::inside::{Question, ask, failed};
use crate::progress::Progress;
use crate::run::RunChange;
use crate::work::Capture;
use holm_core::exec::Masking;
use holm_core::head::object_id;
use holm_core::spec::WorkspaceSpec;
use holm_core::tree_change::{Entry, TreeChange};
use holm_core::{Fault, WorkspaceId};
use std::collections::HashMap;

/// The most changes that are reported.
const MOST_CHANGES: usize = 1000;
/// The most content of one file, and in total.
const MOST_CONTENT: u64 = 64 << 10;
const MOST_CONTENTS: u64 = 1 << 20;

const SIZES: &str = r#"printf '%s\n' "$@" |
    git cat-file --batch-check='%(objectname) %(objecttype) %(objectsize)'"#;
const CONTENTS: &str = r#"printf '%s\n' "$@" | git cat-file --batch"#;

pub struct Changed {
    pub changes: Vec<RunChange>,
    pub left_out: u64,
}

// === impl Engine ===

impl Engine {
    /// The current tree.
    pub(super) async fn tree_now(
        &self,
        id: &WorkspaceId,
        spec: &WorkspaceSpec,
    ) -> Result<String, Fault> {
        let captured = self.capture_running(id, spec, Capture::TREE, Progress::default());
        let tree = captured.await?.tree;
        tree.ok_or_else(|| failed("write-tree", "no tree"))
    }

    pub(super) async fn changed_since(
        &self,
        id: &WorkspaceId,
        spec: &WorkspaceSpec,
        before: &str,
    ) -> Result<Changed, Fault> {
        let after = self.tree_now(id, spec).await?;
        if after == before {
            return Ok(Changed {
                changes: Vec::new(),
                left_out: 0,
            });
        }
        let mut found = self.changes_between(id, before, &after).await?;
        let left_out = found.len().saturating_sub(MOST_CHANGES) as u64;
        found.truncate(MOST_CHANGES);
        let sizes = self.sizes(id, &found).await?;
        let contents = self.contents(id, &found, &sizes).await?;
        let changes = found.into_iter().map(|change| {
            let object = change.new.as_ref().map(|entry| &entry.object);
            let bytes = object.and_then(|object| contents.get(object));
            let content = bytes.map(|bytes| String::from_utf8(bytes.clone()));
            let is_text = !matches!(content, Some(Err(_)));
            RunChange {
                operation: change.operation().to_owned(),
                size: object.and_then(|object| sizes.get(object)).copied(),
                binary: change.is_binary() || !is_text,
                content: content.and_then(Result::ok),
                path: change.path,
                from: change.from,
            }
        });
        Ok(Changed {
            changes: changes.collect(),
            left_out,
        })
    }

    async fn sizes(
        &self,
        id: &WorkspaceId,
        changes: &[TreeChange],
    ) -> Result<HashMap<String, u64>, Fault> {
        let objects = changes.iter().filter_map(|change| change.new.as_ref());
        let objects = objects.map(|entry| entry.object.clone());
        let said = self.cat_file(id, SIZES, objects.collect()).await?;
        let text = String::from_utf8_lossy(&said);
        let sizes = text.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let object = object_id(words.next()?.as_bytes())?;
            // A submodule's commit is not a file.
            (words.next()? == "blob").then_some(())?;
            Some((object, words.next()?.parse().ok()?))
        });
        Ok(sizes.collect())
    }

    async fn contents(
        &self,
        id: &WorkspaceId,
        changes: &[TreeChange],
        sizes: &HashMap<String, u64>,
    ) -> Result<HashMap<String, Vec<u8>>, Fault> {
        let mut left = MOST_CONTENTS;
        let mut wanted: Vec<String> = Vec::new();
        for change in changes.iter().filter(|change| !change.is_binary()) {
            let Some(Entry { object, .. }) = &change.new else {
                continue;
            };
            let size = sizes.get(object).copied().unwrap_or(u64::MAX);
            if size <= MOST_CONTENT && size <= left && !wanted.contains(object) {
                left -= size;
                wanted.push(object.clone());
            }
        }
        let said = self.cat_file(id, CONTENTS, wanted).await?;
        contents_of(&said).ok_or_else(|| failed("cat-file", "unknown answer"))
    }

    async fn cat_file(
        &self,
        id: &WorkspaceId,
        script: &str,
        objects: Vec<String>,
    ) -> Result<Vec<u8>, Fault> {
        if objects.is_empty() {
            return Ok(Vec::new());
        }
        let words = ["sh", "-c", script, "cat-file"].map(str::to_owned);
        let argv = words.into_iter().chain(objects).map(String::into_bytes);
        let question = Question {
            what: "cat-file",
            argv: argv.collect(),
            env: Vec::new(),
            input: Vec::new(),
            // The content is stored, and git announces its length, so masking must keep the length.
            masking: Masking::Bytes,
        };
        let keep = |piece: &[u8], kept: &mut Vec<u8>| kept.extend_from_slice(piece);
        let keeper = self.inner.keeper(id).await?;
        let answer = ask(&keeper, question, keep).await?;
        answer.good("cat-file")
    }
}

/// Parses `git cat-file --batch`.
fn contents_of(mut said: &[u8]) -> Option<HashMap<String, Vec<u8>>> {
    let mut contents = HashMap::new();
    while !said.is_empty() {
        let end = said.iter().position(|byte| *byte == b'\n')?;
        let head = std::str::from_utf8(&said[..end]).ok()?;
        said = &said[end + 1..];
        let mut words = head.split(' ');
        let object = object_id(words.next()?.as_bytes())?;
        if words.next()? != "blob" {
            return None;
        }
        let size: usize = words.next()?.parse().ok()?;
        let content = said.get(..size)?;
        contents.insert(object, content.to_vec());
        said = said.get(size..)?.strip_prefix(b"\n")?;
    }
    Some(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cat_file_says() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let said = format!("{one} blob 4\na\nb\n\n{two} blob 0\n\n");
        let found = contents_of(said.as_bytes()).unwrap();
        assert_eq!(found[&one], b"a\nb\n");
        assert_eq!(found[&two], b"");
        for wrong in [
            "x".to_owned(),
            format!("{one} missing\n"),
            format!("{one} blob 99\nshort\n"),
            format!("{one} blob 1\nab\n"),
            format!("{one} tree 0\n\n"),
        ] {
            assert_eq!(contents_of(wrong.as_bytes()), None, "{wrong:?}");
        }
        assert!(contents_of(b"").unwrap().is_empty());
    }
}
