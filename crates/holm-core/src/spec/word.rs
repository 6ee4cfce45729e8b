//! Serialises enums of `holm-core` by their words. An unknown word is an error that names it, never
//! a default: a newer holm may mean something stricter by it.

use crate::config::Word;
use crate::moves::Reaction;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub fn serialize<T: Word, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.word())
}

pub fn deserialize<'de, T: Word, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    known(&String::deserialize(deserializer)?)
}

/// `sha1` or `sha256`, as git calls them.
pub fn object_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.as_str() {
        "sha1" | "sha256" => Ok(text),
        _ => Err(unknown(&text, &["sha1", "sha256"])),
    }
}

/// Names with their reactions.
pub mod reactions {
    use super::{Deserialize, Deserializer, Reaction, Serialize, Serializer, Word, known};

    pub fn serialize<S: Serializer>(
        all: &[(String, Reaction)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let all: Vec<_> = all.iter().map(|(name, it)| (name, it.word())).collect();
        all.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, Reaction)>, D::Error> {
        let all = Vec::<(String, String)>::deserialize(deserializer)?.into_iter();
        all.map(|(name, word)| Ok((name, known(&word)?))).collect()
    }
}

fn known<T: Word, E: Error>(text: &str) -> Result<T, E> {
    T::parse_word(text).ok_or_else(|| {
        let words: Vec<_> = T::ALL.iter().map(|(word, _)| *word).collect();
        unknown(text, &words)
    })
}

fn unknown<E: Error>(text: &str, words: &[&str]) -> E {
    let text = text.escape_debug();
    E::custom(format!("`{text}` is not one of {}", words.join(", ")))
}
