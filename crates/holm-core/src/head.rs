//! Where HEAD of a workspace's repository is, from the text of its files. Programs inside write these
//! files, so every text is hostile input: the parser ignores a text that does not have git's exact format.

use serde::{Deserialize, Serialize};
use std::str;

/// The parsed `.git/HEAD`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// The full name of a ref, which is safe to use as a path below `.git`.
    Ref(String),
    Detached(String),
}

/// Where HEAD inside is, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tip {
    /// The commit.
    pub head: Option<String>,
    /// Without `refs/heads/`; there is none while HEAD is detached.
    pub branch: Option<String>,
}

/// The length limit of a ref name and of a loose ref's content.
pub const LONGEST: usize = 1024;

const BRANCHES: &str = "refs/heads/";

// === impl Head ===

impl Head {
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?.trim_end_matches('\n');
        match text.strip_prefix("ref: ") {
            Some(name) => is_ref_name(name).then(|| Head::Ref(name.to_owned())),
            None => object_id(text.as_bytes()).map(Head::Detached),
        }
    }

    /// The branch, without `refs/heads/`.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Head::Ref(name) => name.strip_prefix(BRANCHES),
            Head::Detached(_) => None,
        }
    }
}

/// The object id in a loose ref. A symbolic ref gives `None`.
pub fn loose(text: &[u8]) -> Option<String> {
    object_id(text.strip_suffix(b"\n").unwrap_or(text))
}

/// The object id of a ref in `packed-refs`.
pub fn packed(text: &[u8], name: &str) -> Option<String> {
    let mut lines = text.split(|byte| *byte == b'\n');
    lines.find_map(|line| {
        let object = line.strip_suffix(name.as_bytes())?.strip_suffix(b" ")?;
        object_id(object)
    })
}

/// A complete object id. Nothing else reaches a command line.
pub fn object_id(word: &[u8]) -> Option<String> {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_id = matches!(word.len(), 40 | 64) && word.iter().all(is_hex);
    is_id.then(|| String::from_utf8_lossy(word).into_owned())
}

/// Checks the rules of `git check-ref-format`, and refuses control characters.
fn is_ref_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.ends_with(".lock")
    };
    let is_wrong = |one: char| one.is_control() || " ~^:?*[\\".contains(one);
    name.starts_with("refs/")
        && name.len() <= LONGEST
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(is_wrong)
        && name.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_head_says() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let check = |text: &str, expect: Option<Head>| {
            assert_eq!(Head::parse(text.as_bytes()), expect, "{text:?}");
        };
        let on = |name: &str| Some(Head::Ref(name.to_owned()));
        check("ref: refs/heads/holm/fix\n", on("refs/heads/holm/fix"));
        check("ref: refs/heads/größe", on("refs/heads/größe"));
        check(&format!("{id}\n"), Some(Head::Detached(id.to_owned())));
        for hostile in [
            "",
            "ref: ",
            "ref: HEAD\n",
            "ref: refs/heads/../../../../etc/passwd\n",
            "ref: refs/heads//x\n",
            "ref: refs/heads/.invalid\n",
            "ref: refs/heads/x.lock\n",
            "ref: refs/heads/x/\n",
            "ref: refs/heads/a b\n",
            "ref: refs/heads/\u{1b}[2J\n",
            "ref: refs/heads/a\nref: refs/heads/b\n",
            "ref: /etc/passwd\n",
            &format!("ref: refs/heads/{}", "x".repeat(LONGEST)),
            &id[1..],
            &id.to_uppercase(),
        ] {
            check(hostile, None);
        }
        assert_eq!(Head::parse(b"ref: refs/heads/\xff\n"), None);
        let branch = |text: &str| {
            let head = Head::parse(text.as_bytes()).unwrap();
            head.branch().map(str::to_owned)
        };
        assert_eq!(
            branch("ref: refs/heads/holm/fix").as_deref(),
            Some("holm/fix")
        );
        assert_eq!(branch("ref: refs/other/x"), None);
        assert_eq!(branch(id), None);
    }

    #[test]
    fn what_refs_say() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        assert_eq!(loose(format!("{one}\n").as_bytes()), Some(one.clone()));
        for wrong in ["", "ref: refs/heads/x\n", &one[1..]] {
            assert_eq!(loose(wrong.as_bytes()), None, "{wrong:?}");
        }
        let text = format!(
            "# pack-refs with: peeled fully-peeled sorted\n{one} refs/heads/ax\n\
             {two} refs/heads/x\n^{one}\nx refs/heads/y\n"
        );
        assert_eq!(packed(text.as_bytes(), "refs/heads/x"), Some(two));
        assert_eq!(packed(text.as_bytes(), "refs/heads/y"), None);
        assert_eq!(packed(text.as_bytes(), "heads/x"), None);
        assert_eq!(packed(b"", "refs/heads/x"), None);
    }
}
