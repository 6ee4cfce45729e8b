//! Writes the query of a route.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde::Serialize;
use serde_json::Value;

/// The characters that a value may not contain.
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b':')
    .remove(b',');

/// The fields that are set.
pub(super) fn query_string(query: &impl Serialize) -> String {
    // A query has only plain fields, so it always has a form in JSON.
    let fields = serde_json::to_value(query).unwrap_or_default();
    let fields = fields.as_object().into_iter().flatten();
    let given = fields.filter_map(|(name, value)| match value {
        Value::Null => None,
        Value::String(text) => Some(format!("{name}={}", escaped(text))),
        other => Some(format!("{name}={}", escaped(other.to_string()))),
    });
    given.collect::<Vec<_>>().join("&")
}

/// Percent-encodes a value.
pub(super) fn escaped(value: impl AsRef<[u8]>) -> String {
    percent_encode(value.as_ref(), UNSAFE).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::LogQuery;

    #[test]
    fn nothing_leaves_its_parameter() {
        let query = LogQuery {
            services: "web,db_2&follow=true ü".to_owned(),
            last: Some(5),
            ..LogQuery::default()
        };
        assert_eq!(
            query_string(&query),
            "follow=false&last=5&services=web,db_2%26follow%3Dtrue%20%C3%BC"
        );
    }
}
