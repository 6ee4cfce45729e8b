//! Paths of the file API: below a workspace's `project.root`, as bytes, because names inside need
//! not be UTF-8. The server and the program inside both check them as text; the program that opens
//! them refuses symlinks.

use std::fmt;

/// A path below the root without `.`, `..` and empty parts; empty is the root itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Vec<u8>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotATreePath {
    #[error("it is empty; the root is `.`")]
    Empty,
    #[error("it is absolute; paths are relative to the project's root")]
    Absolute,
    #[error("it has a `..` part; write the path without it")]
    Parent,
    #[error("it has a zero byte")]
    Zero,
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
}

/// More than three times the limit of a system call, and it still fits a request.
pub const LONGEST: usize = 16 << 10;

// === impl TreePath ===

impl TreePath {
    pub fn root() -> Self {
        Self::default()
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, NotATreePath> {
        if bytes.is_empty() {
            return Err(NotATreePath::Empty);
        }
        if bytes.len() > LONGEST {
            return Err(NotATreePath::TooLong);
        }
        if bytes.contains(&0) {
            return Err(NotATreePath::Zero);
        }
        if bytes.starts_with(b"/") {
            return Err(NotATreePath::Absolute);
        }
        let mut path = Self::root();
        for part in bytes.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err(NotATreePath::Parent),
                name => path = path.join(name),
            }
        }
        Ok(path)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path of an entry of this directory, whose name comes from the kernel.
    pub fn join(&self, name: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend(&self.0);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend(name);
        Self(bytes)
    }

    /// The directory and the name in it; `None` for the root.
    pub fn split(&self) -> Option<(TreePath, &[u8])> {
        let end = self.0.iter().rposition(|byte| *byte == b'/');
        match end {
            Some(end) => Some((Self(self.0[..end].to_vec()), &self.0[end + 1..])),
            None if self.is_root() => None,
            None => Some((Self::root(), &self.0)),
        }
    }
}

/// Escaped, so that it is harmless on a terminal and in a log.
impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for chunk in self.0.utf8_chunks() {
            write!(f, "{}", chunk.valid().escape_debug())?;
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_the_root_are_paths() {
        let check = |given: &[u8], expect: Result<&[u8], NotATreePath>| {
            let found = TreePath::parse(given);
            let found = found.as_ref().map(TreePath::as_bytes).map_err(|why| *why);
            assert_eq!(found, expect, "{}", given.escape_ascii());
        };
        check(b"a/b", Ok(b"a/b"));
        check(b"./a//b/./", Ok(b"a/b"));
        check(b".", Ok(b""));
        check(b"-rf", Ok(b"-rf"));
        check(b"...", Ok(b"..."));
        check(b"caf\xe9 \n\x1b", Ok(b"caf\xe9 \n\x1b"));
        check(
            "\u{2024}\u{2024}/x".as_bytes(),
            Ok("\u{2024}\u{2024}/x".as_bytes()),
        );
        check(b"", Err(NotATreePath::Empty));
        check(b"/etc/passwd", Err(NotATreePath::Absolute));
        check(b"..", Err(NotATreePath::Parent));
        check(b"a/../../b", Err(NotATreePath::Parent));
        check(b"a\0b", Err(NotATreePath::Zero));
        check(&[b'a'; LONGEST + 1], Err(NotATreePath::TooLong));
        check(&[b'a'; LONGEST], Ok(&[b'a'; LONGEST]));
    }

    #[test]
    fn directories_and_names_come_apart_and_together() {
        let check = |path: &str, expect: Option<(&str, &str)>| {
            let path = TreePath::parse(path.as_bytes()).unwrap();
            let found = path.split();
            let expect = expect.map(|(directory, name)| {
                (TreePath(directory.as_bytes().to_vec()), name.as_bytes())
            });
            assert_eq!(found, expect);
            if let Some((directory, name)) = found {
                assert_eq!(directory.join(name), path);
            }
        };
        check(".", None);
        check("a", Some(("", "a")));
        check("a/b/c", Some(("a/b", "c")));
    }

    #[test]
    fn shown_it_is_harmless() {
        let shown = |bytes: &[u8]| TreePath::parse(bytes).unwrap().to_string();
        assert_eq!(shown(b"."), ".");
        assert_eq!(shown(b"a\x1b[2Jb\xff\n"), "a\\u{1b}[2Jb\\xff\\n");
    }
}
