//! The state of a workspace's tree as git inside recorded it, and how much of it is requested.

use holm_core::capture::Depth;
use holm_core::head::object_id;

/// The state of a workspace's tree, as objects inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    pub start: Option<String>,
    pub dirty_start: Option<String>,
    pub head: Option<String>,
    /// From [`Depth::Tree`] on.
    pub tree: Option<String>,
    /// A commit of `tree` on top of `start`, with [`Depth::State`].
    pub state: Option<String>,
    /// Paths that differ from `head`.
    pub uncommitted: Vec<Vec<u8>>,
    /// Nested repositories that are not submodules; `tree` does not contain them.
    pub nested: Vec<Vec<u8>>,
    /// Files that could not be read.
    pub unread: Vec<String>,
    /// Files and directories that are ignored, as many as git listed.
    pub ignored: Vec<Vec<u8>>,
    /// `objectname *objectname refname` of every ref. Not determined for [`Depth::Tree`].
    pub refs: Vec<Vec<u8>>,
    /// Not determined for [`Depth::Tree`].
    pub stashes: usize,
    /// Settings of git name files outside of the tree that say what is ignored or how it is read.
    pub is_set_elsewhere: bool,
    /// Work in neither `head` nor the tree. Not determined for [`Depth::Tree`].
    pub aside: Aside,
}

/// Work that is neither in the tree nor in HEAD's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aside {
    pub stashes: usize,
    /// Refs whose commits neither HEAD nor the user's repository has.
    pub refs: Vec<String>,
}

/// How a workspace's work is recorded.
#[derive(Clone, Debug)]
pub struct Capture {
    /// With a message, uncommitted changes are committed first.
    pub message: Option<String>,
    pub depth: Depth,
}

/// A workspace with more uncommitted files is not kept in memory.
const MOST_UNCOMMITTED: usize = 10_000;

// === impl Captured ===

impl Captured {
    /// Whether git says the same as long as the writable layer stays as it is, at a bearable size.
    pub(crate) fn can_be_kept(&self) -> bool {
        !self.is_set_elsewhere
            && self.unread.is_empty()
            && self.uncommitted.len() <= MOST_UNCOMMITTED
    }
}

// === impl Capture ===

impl Capture {
    pub const TREE: Self = Self {
        message: None,
        depth: Depth::Tree,
    };
}

/// Parses the fields that git inside prints after the names. What was requested must be there.
pub(crate) fn captured(said: &[u8], depth: Depth) -> Option<Captured> {
    let said = said.strip_prefix(b"\0")?.strip_suffix(b"\0")?;
    let mut fields = said.split(|byte| *byte == 0);
    let mut object = || match fields.next()? {
        b"" => Some(None),
        word => Some(Some(object_id(word)?)),
    };
    let mut captured = Captured {
        head: object()?,
        tree: object()?,
        state: object()?,
        ..Captured::default()
    };
    if captured.tree.is_some() != (depth != Depth::Head)
        || captured.state.is_some() != (depth == Depth::State)
    {
        return None;
    }
    for field in fields {
        match field.split_first()? {
            (b'n', name) => captured.nested.push(name.to_vec()),
            (b'u', name) => captured.uncommitted.push(name.to_vec()),
            (b'i', name) => captured.ignored.push(name.to_vec()),
            (b'r', line) => captured.refs.push(line.to_vec()),
            (b's', b"") => captured.stashes += 1,
            (b'e', b"") => captured.is_set_elsewhere = true,
            _ => return None,
        }
    }
    Some(captured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_capture_says() {
        let (one, two, three) = ("1".repeat(40), "2".repeat(40), "3".repeat(40));
        let said = format!("\0{one}\0{two}\0{three}\0nsub/\0ua\nb\0uc\0");
        let found = captured(said.as_bytes(), Depth::State).unwrap();
        assert_eq!(
            (found.head, found.tree),
            (Some(one.clone()), Some(two.clone()))
        );
        assert_eq!(found.nested, [b"sub/".to_vec()]);
        assert_eq!(found.uncommitted, [b"a\nb".to_vec(), b"c".to_vec()]);
        let unborn = captured(format!("\0\0{two}\0\0").as_bytes(), Depth::Tree).unwrap();
        assert_eq!(unborn.head, None);
        let only_head = format!("\0{one}\0\0\0");
        assert!(captured(only_head.as_bytes(), Depth::Head).is_some());
        for wrong in [
            "",
            "\0",
            "\0x\0y\0z\0",
            &only_head,
            &format!("\0--exec=sh\0{two}\0{three}\0"),
            &format!("\0{one}\0{two}\0{three}\0x\0"),
            &format!("\0{one}\0{two}\0\0"),
            &format!("\0{one}\0{two}\0{three}"),
        ] {
            assert_eq!(captured(wrong.as_bytes(), Depth::State), None, "{wrong:?}");
        }
    }
}
