//! A secret's value in memory: never shown by `Debug`, wiped when dropped.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use zeroize::Zeroizing;

/// Longer texts are not passwords, keys or certificates, and would not fit into an environment.
pub const LONGEST_VALUE: usize = 32 * 1024;

/// Text that fits into an environment variable and a file. It has no `Display`; callers must call
/// [`Value::reveal`].
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Zeroizing<String>);

/// Why a text is not a valid value. The error never contains the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {} KiB", LONGEST_VALUE / 1024)]
    TooLong,
    #[error("it has a NUL byte")]
    Nul,
    #[error("it is not UTF-8 text")]
    NotText,
}

// === impl Value ===

impl Value {
    /// Takes ownership of the bytes and wipes them if they are not valid.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, InvalidValue> {
        let text = String::from_utf8(bytes).map_err(|error| {
            drop(Zeroizing::new(error.into_bytes()));
            InvalidValue::NotText
        })?;
        let text = Zeroizing::new(text);
        match &text {
            text if text.is_empty() => Err(InvalidValue::Empty),
            text if text.len() > LONGEST_VALUE => Err(InvalidValue::TooLong),
            text if text.contains('\0') => Err(InvalidValue::Nul),
            _ => Ok(Self(text)),
        }
    }

    /// As [`Self::parse`], without one trailing line end.
    pub fn parse_line(mut bytes: Vec<u8>) -> Result<Self, InvalidValue> {
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        Self::parse(bytes)
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[secret]")
    }
}

/// Only for sockets and pipes between our own processes, whose buffers are wiped afterwards.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(text.into_bytes())
            .map_err(|error| D::Error::custom(format!("a value cannot be used: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_values_are_refused_without_being_shown() {
        let check = |bytes: &[u8], expect: InvalidValue| {
            let error = Value::parse(bytes.to_vec()).unwrap_err();
            assert_eq!(error, expect);
            assert!(!error.to_string().contains("canary"), "{error}");
        };
        check(b"", InvalidValue::Empty);
        check(b"canary\0canary", InvalidValue::Nul);
        check(b"canary\xff", InvalidValue::NotText);
        check(&vec![b'c'; 1 << 20], InvalidValue::TooLong);
        let error = serde_json::from_str::<Value>("\"canary\\u0000\"").unwrap_err();
        assert!(!error.to_string().contains("canary"), "{error}");
    }

    #[test]
    fn lines_and_equal_signs_are_part_of_a_value() {
        let value = Value::parse_line(b"a=b\nc\r\n".to_vec()).unwrap();
        assert_eq!(value.reveal(), "a=b\nc");
        assert_eq!(format!("{value:?}"), "[secret]");
    }
}
