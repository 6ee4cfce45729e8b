//! Sessions: valid names, resolving what a user typed, named keys, and the filter for a user's
//! terminal. Called by the CLI, the server and the keeper.

pub mod drawing;
pub mod keys;
pub mod protocol;

use crate::label::{InvalidLabel, Label};
use crate::{Code, Fault, SessionId};
use std::fmt;

/// A session's name within its workspace: the rules of a label, and not the shape of an id. Unique
/// among live sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionName(String);

/// The most live sessions of a workspace, and the most ended ones that are still listed.
pub const MOST_LIVE: usize = 256;
pub const MOST_ENDED: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub rows: u16,
    pub cols: u16,
}

/// A session that could be meant.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub id: &'a str,
    pub name: Option<&'a str>,
    /// The workspace's label.
    pub workspace: &'a str,
    pub is_live: bool,
}

// === impl SessionName ===

impl SessionName {
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let label = Label::parse(text).and_then(|label| match SessionId::parse(text) {
            Ok(_) => Err(InvalidLabel::LooksLikeId),
            Err(_) => Ok(label),
        });
        match label {
            Ok(label) => Ok(Self(label.as_str().to_owned())),
            Err(error) => Err(Fault::new(
                Code::InvalidLabel,
                format!("`{}` cannot be a session's name", text.escape_debug()),
                "a name is 1 to 40 of a-z, 0-9 and -, for example `review`",
            )
            .because(error)),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Size ===

impl Size {
    pub const DEFAULT: Size = Size { rows: 24, cols: 80 };
    /// A screen is held in memory, so its size has bounds.
    const LEAST: Size = Size { rows: 2, cols: 4 };
    const MOST: Size = Size {
        rows: 300,
        cols: 500,
    };

    /// The nearest allowed size.
    pub fn bounded(self) -> Self {
        Self {
            rows: self.rows.clamp(Self::LEAST.rows, Self::MOST.rows),
            cols: self.cols.clamp(Self::LEAST.cols, Self::MOST.cols),
        }
    }

    /// Parses `80x24`: columns and rows.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read = text.split_once(['x', 'X']).and_then(|(cols, rows)| {
            let (rows, cols) = (rows.parse().ok()?, cols.parse().ok()?);
            Some(Size { rows, cols })
        });
        match read {
            Some(size) if size == size.bounded() => Ok(size),
            Some(_) => Err("a terminal has 4 to 500 columns and 2 to 300 rows".to_owned()),
            None => Err("a size is columns and rows, for example 120x40".to_owned()),
        }
    }
}

/// Resolves an id, a name, or the beginning of an id. Live sessions win; among ended ones with the
/// same name, the newest, which comes last.
pub fn resolve<'a>(
    typed: &str,
    candidates: &'a [Candidate<'a>],
) -> Result<&'a Candidate<'a>, Fault> {
    let among = candidates.iter();
    let by_id = among.clone().find(|candidate| candidate.id == typed);
    if let Some(found) = by_id {
        return Ok(found);
    }
    let named: Vec<_> = among
        .clone()
        .filter(|candidate| candidate.name == Some(typed))
        .collect();
    let live: Vec<_> = named.iter().copied().filter(|one| one.is_live).collect();
    match (live.as_slice(), named.as_slice()) {
        ([one], _) => return Ok(one),
        ([], [.., last]) if named.iter().all(|one| one.workspace == last.workspace) => {
            return Ok(last);
        }
        ([], []) => {}
        _ => {
            return Err(ambiguous(
                typed,
                if live.is_empty() { &named } else { &live },
            ));
        }
    }
    let is_beginning = typed.len() >= 2 && typed.starts_with('s');
    let begun: Vec<_> = among
        .filter(|candidate| is_beginning && candidate.id.starts_with(typed))
        .collect();
    match begun.as_slice() {
        [one] => Ok(one),
        [] => Err(not_found(typed)),
        _ => Err(ambiguous(typed, &begun)),
    }
}

pub fn not_found(typed: &str) -> Fault {
    Fault::new(
        Code::SessionNotFound,
        format!("there is no session `{}`", typed.escape_debug()),
        "`holm session ls` lists the sessions",
    )
}

fn ambiguous(typed: &str, found: &[&Candidate<'_>]) -> Fault {
    let list = found.iter().map(|one| {
        let name = one.name.map(|name| format!(" ({name})"));
        format!(
            "{} in {}{}",
            one.id,
            one.workspace,
            name.unwrap_or_default()
        )
    });
    let list: Vec<_> = list.collect();
    Fault::new(
        Code::Ambiguous,
        format!(
            "`{}` stands for more than one session: {}",
            typed.escape_debug(),
            list.join(", ")
        ),
        "use an id, or WS/NAME",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<'a>(id: &'a str, name: &'a str, workspace: &'a str, is_live: bool) -> Candidate<'a> {
        Candidate {
            id,
            name: Some(name).filter(|name| !name.is_empty()),
            workspace,
            is_live,
        }
    }

    #[test]
    fn a_session_is_found_by_id_name_or_the_beginning_of_its_id() {
        let all = [
            one("s000000000001", "review", "x", false),
            one("s000000000002", "review", "x", true),
            one("s111111111111", "review", "y", false),
            one("s222222222222", "", "y", true),
            one("s333333333333", "old", "y", false),
            one("s444444444444", "old", "y", false),
            one("s555555555555", "twice", "x", true),
            one("s666666666666", "twice", "y", true),
        ];
        let check = |typed: &str, expect: Result<&str, Code>| {
            let found = resolve(typed, &all);
            let found = found.map(|one| one.id).map_err(|fault| fault.code);
            assert_eq!(found, expect, "{typed}");
        };
        check("s000000000001", Ok("s000000000001"));
        check("review", Ok("s000000000002"));
        check("s2", Ok("s222222222222"));
        check("s0", Err(Code::Ambiguous));
        check("s", Err(Code::SessionNotFound));
        check("", Err(Code::SessionNotFound));
        check("old", Ok("s444444444444"));
        check("twice", Err(Code::Ambiguous));
        check("x/twice", Err(Code::SessionNotFound));
    }

    #[test]
    fn names_and_sizes_have_bounds() {
        assert!(SessionName::parse("review-2").is_ok());
        for wrong in ["", "Review", "a b", "s000000000001", "a/b", "-a"] {
            assert!(SessionName::parse(wrong).is_err(), "{wrong}");
        }
        let size = |rows, cols| Size { rows, cols };
        assert_eq!(Size::parse("120x40"), Ok(size(40, 120)));
        for wrong in ["", "80", "80x", "x24", "0x0", "80x24x2", "100000x2", "-1x9"] {
            assert!(Size::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(size(0, u16::MAX).bounded(), size(2, 500));
    }
}
