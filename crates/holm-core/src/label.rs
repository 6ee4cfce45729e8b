//! Labels and project names, which people read and type. Never a key.

use crate::id::has_id_shape;

/// A workspace's display name. Unique among a project's live workspaces; it may change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(String);

/// A project's display name: the rules of a label, at most 20 characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProjectName(String);

crate::checked_text!(Label, ProjectName);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLabel {
    #[error("it is empty")]
    Empty,
    #[error("it has {length} characters, {max} is the most")]
    TooLong { length: usize, max: usize },
    #[error("it has `{}`; only a-z, 0-9 and - are allowed", .0.escape_default())]
    Character(char),
    #[error("it begins or ends with -")]
    HyphenAtEnd,
    #[error("it has --")]
    DoubleHyphen,
    #[error("`holm` is reserved")]
    Reserved,
    #[error("it looks like a workspace id")]
    LooksLikeId,
}

const MAX_LABEL: usize = 40;
const MAX_PROJECT_NAME: usize = 20;
/// A long project name is not cut between words to less than this.
const MIN_CUT_NAME: usize = 8;

// === impl Label ===

impl Label {
    pub fn parse(text: &str) -> Result<Self, InvalidLabel> {
        check(text, MAX_LABEL).map(|()| Self(text.to_owned()))
    }

    /// This label with a number appended (`fix-login-2`), shortened if necessary.
    pub fn numbered(&self, number: usize) -> Self {
        Self(numbered(&self.0, number, MAX_LABEL))
    }

    /// A generated label, chosen by `seed`.
    pub fn made_up(seed: u64) -> Self {
        const FIRST: [&str; 32] = [
            "amber", "brisk", "calm", "clear", "coral", "dusky", "early", "fair", "fleet", "fresh",
            "gentle", "golden", "hazel", "ivory", "jolly", "keen", "light", "lucky", "mellow",
            "misty", "noble", "opal", "pale", "quiet", "rapid", "sandy", "silver", "steady",
            "sunny", "tidal", "vivid", "warm",
        ];
        const SECOND: [&str; 32] = [
            "bay", "beach", "brook", "cape", "cliff", "cove", "crane", "dune", "fern", "finch",
            "fjord", "gull", "harbor", "heron", "inlet", "isle", "lagoon", "marsh", "otter",
            "pebble", "pine", "reef", "sail", "seal", "shell", "shoal", "shore", "tern", "tide",
            "wave", "willow", "wren",
        ];
        let first = FIRST[(seed % 32) as usize];
        let second = SECOND[(seed / 32 % 32) as usize];
        Self(format!("{first}-{second}"))
    }
}

// === impl ProjectName ===

impl ProjectName {
    pub fn parse(text: &str) -> Result<Self, InvalidLabel> {
        check(text, MAX_PROJECT_NAME).map(|()| Self(text.to_owned()))
    }

    /// The nearest valid name for a directory or a user's text.
    pub fn from_wish(wish: &str) -> Self {
        let mut name = String::new();
        for character in wish.chars().flat_map(char::to_lowercase) {
            if character.is_ascii_lowercase() || character.is_ascii_digit() {
                name.push(character);
            } else if !name.ends_with('-') && !name.is_empty() {
                name.push('-');
            }
            if name.len() > MAX_PROJECT_NAME {
                break;
            }
        }
        if name.len() > MAX_PROJECT_NAME {
            let is_between_words = name.ends_with('-');
            name.truncate(MAX_PROJECT_NAME);
            // Whole words, if enough of the name remains.
            let end = name.rfind('-').filter(|end| *end >= MIN_CUT_NAME);
            name.truncate(end.filter(|_| !is_between_words).unwrap_or(name.len()));
        }
        let name = name.trim_end_matches('-');
        Self::parse(name).unwrap_or_else(|_| Self("project".to_owned()))
    }

    /// This name with a number appended (`shop-2`), shortened if necessary.
    pub fn numbered(&self, number: usize) -> Self {
        Self(numbered(&self.0, number, MAX_PROJECT_NAME))
    }
}

fn check(text: &str, max: usize) -> Result<(), InvalidLabel> {
    if text.is_empty() {
        return Err(InvalidLabel::Empty);
    }
    let allowed = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-';
    if let Some(character) = text.chars().find(|c| !allowed(c)) {
        return Err(InvalidLabel::Character(character));
    }
    if text.len() > max {
        return Err(InvalidLabel::TooLong {
            length: text.len(),
            max,
        });
    }
    if text.starts_with('-') || text.ends_with('-') {
        return Err(InvalidLabel::HyphenAtEnd);
    }
    if text.contains("--") {
        return Err(InvalidLabel::DoubleHyphen);
    }
    if text == "holm" {
        return Err(InvalidLabel::Reserved);
    }
    if has_id_shape(text, 'w') {
        return Err(InvalidLabel::LooksLikeId);
    }
    Ok(())
}

fn numbered(text: &str, number: usize, max: usize) -> String {
    let suffix = format!("-{number}");
    let kept = text.len().min(max.saturating_sub(suffix.len()));
    format!("{}{suffix}", text[..kept].trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_texts_are_labels() {
        let long = "a".repeat(41);
        let check = |text: &str, expect: Option<InvalidLabel>| {
            assert_eq!(Label::parse(text).err(), expect, "{text}");
        };
        check("fix-login", None);
        check("3", None);
        check(&long[..40], None);
        check("", Some(InvalidLabel::Empty));
        check(
            &long,
            Some(InvalidLabel::TooLong {
                length: 41,
                max: 40,
            }),
        );
        check("Fix", Some(InvalidLabel::Character('F')));
        check("fix_login", Some(InvalidLabel::Character('_')));
        check("a/../b", Some(InvalidLabel::Character('/')));
        check("-oProxyCommand=x", Some(InvalidLabel::Character('P')));
        check("-a", Some(InvalidLabel::HyphenAtEnd));
        check("a-", Some(InvalidLabel::HyphenAtEnd));
        check("a--b", Some(InvalidLabel::DoubleHyphen));
        check("holm", Some(InvalidLabel::Reserved));
        check("w0123456789ab", Some(InvalidLabel::LooksLikeId));
        check("e\u{301}", Some(InvalidLabel::Character('\u{301}')));
    }

    #[test]
    fn made_up_labels_are_labels() {
        for seed in 0..2048 {
            let label = Label::made_up(seed);
            assert_eq!(Label::parse(label.as_str()), Ok(label));
        }
    }

    #[test]
    fn numbers_fit_behind_the_longest_label() {
        let label = Label::parse(&"a".repeat(40)).unwrap().numbered(12);
        assert_eq!(label.as_str().len(), 40);
        assert_eq!(Label::parse(label.as_str()), Ok(label));
    }

    #[test]
    fn any_wish_becomes_a_project_name() {
        let check = |wish: &str, expect: &str| {
            assert_eq!(ProjectName::from_wish(wish).as_str(), expect, "{wish}");
        };
        check("shop", "shop");
        check("My Größe_Shop", "my-gr-e-shop");
        check("--", "project");
        check("holm", "project");
        check("", "project");
        check("日本", "project");
        check("a-very-long-name-of-a-project", "a-very-long-name-of");
        check("full-stack-fastapi-template", "full-stack-fastapi");
        check("node-express-realworld-example-app", "node-express");
        check("exactly-twenty-chars-more", "exactly-twenty-chars");
        check("exactly-twenty-chars", "exactly-twenty-chars");
        check("go-verylongwordwithoutend", "go-verylongwordwitho");
    }
}
