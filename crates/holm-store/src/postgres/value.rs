//! Converts values between the two databases.
//!
//! PostgreSQL's text cannot contain a zero byte and SQLite's can, so it is written as two characters of a private plane.

use crate::tables::{Kind, Row, Table};
use bytes::BytesMut;
use rusqlite::types::Value;
use std::borrow::Cow;
use std::error::Error;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// A value as a parameter.
#[derive(Debug)]
pub(crate) struct Parameter<'a>(pub(crate) &'a Value);

/// Begins an escape.
const ESCAPE: char = '\u{f0000}';
/// After [`ESCAPE`]: the character itself, and a zero byte.
const ITSELF: char = '\u{f0001}';
const ZERO: char = '\u{f0002}';

/// The type of a column in PostgreSQL.
pub(crate) fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer => "bigint",
        Kind::Text => "text",
        Kind::Bytes => "bytea",
    }
}

/// A row of the table, whose columns were selected in order.
pub(crate) fn row(
    table: &Table,
    found: &tokio_postgres::Row,
) -> Result<Row, tokio_postgres::Error> {
    let columns = table.columns.iter().enumerate();
    let values = columns.map(|(index, column)| {
        Ok(match column.kind {
            Kind::Integer => found.try_get::<_, Option<i64>>(index)?.map(Value::Integer),
            Kind::Text => {
                let text: Option<String> = found.try_get(index)?;
                text.map(|text| Value::Text(unescaped(text)))
            }
            Kind::Bytes => found.try_get::<_, Option<Vec<u8>>>(index)?.map(Value::Blob),
        }
        .unwrap_or(Value::Null))
    });
    values.collect()
}

// === impl Parameter ===

impl ToSql for Parameter<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(number) => number.to_sql(kind, out),
            Value::Real(number) => number.to_sql(kind, out),
            Value::Text(text) => escaped(text).to_sql(kind, out),
            Value::Blob(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains([ESCAPE, '\0']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            ESCAPE => escaped.extend([ESCAPE, ITSELF]),
            '\0' => escaped.extend([ESCAPE, ZERO]),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

fn unescaped(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ESCAPE if characters.next() == Some(ZERO) => plain.push('\0'),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back() {
        for text in [
            "",
            "plain",
            "a\0b",
            "\0",
            "\u{f0000}\0\u{f0001}",
            "\u{f0000}\u{f0002}",
        ] {
            let written = escaped(text).into_owned();
            assert!(!written.contains('\0'), "{text:?}");
            assert_eq!(unescaped(written), text);
        }
    }
}
