//! Writes the query of a route.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// The characters that a value may not contain.
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b':')
    .remove(b',');

/// The parameters that have a value.
pub(super) fn parameters(given: &[(&str, Option<String>)]) -> String {
    let written = given
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", escaped(value.as_deref()?))));
    written.collect::<Vec<_>>().join("&")
}

/// Percent-encodes a value.
pub(super) fn escaped(value: impl AsRef<[u8]>) -> String {
    percent_encode(value.as_ref(), UNSAFE).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_parameter() {
        assert_eq!(escaped("web,db_2"), "web,db_2");
        assert_eq!(escaped("a&follow=true ü"), "a%26follow%3Dtrue%20%C3%BC");
    }
}
