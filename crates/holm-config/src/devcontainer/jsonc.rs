//! A JSON document with comments and trailing commas, as the same tree with positions as a Compose file.

use crate::compose::tree::{Entry, Location, Node, Problem, Value};
use crate::shape::short;
use jsonc_parser::ast::Value as Json;
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

/// Larger files are no configuration.
const LARGEST_FILE: usize = 512 << 10;
const MOST_VALUES: usize = 20_000;

/// Parses a file. All positions are in this one file.
pub fn parse(text: &str) -> Result<Node, Problem> {
    if text.len() > LARGEST_FILE {
        let what = format!("the file is larger than {LARGEST_FILE} bytes");
        return Err((0..0, what));
    }
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    // Editors on other systems begin a file with this mark.
    let (mark, text) = match text.strip_prefix('\u{feff}') {
        Some(rest) => ('\u{feff}'.len_utf8(), rest),
        None => (0, text),
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options);
    let parsed = parsed.map_err(|error| {
        let Range { start, end } = error.range();
        let what = error.kind().to_string();
        (start + mark..end + mark, what.to_lowercase())
    })?;
    let Some(value) = parsed.value else {
        return Err((0..0, "the file is empty".to_owned()));
    };
    let mut reader = Reader { mark, values: 0 };
    reader.node(value)
}

struct Reader {
    /// How many bytes stand before the text.
    mark: usize,
    values: usize,
}

// === impl Reader ===

impl Reader {
    fn at(&self, range: Range) -> Location {
        Location {
            file: 0,
            start: range.start + self.mark,
            end: range.end + self.mark,
        }
    }

    fn node(&mut self, value: Json<'_>) -> Result<Node, Problem> {
        let at = self.at(value.range());
        self.values += 1;
        if self.values > MOST_VALUES {
            return Err((at.start..at.end, format!("more than {MOST_VALUES} values")));
        }
        let value = match value {
            Json::StringLit(text) => Value::Text(text.value.into_owned()),
            Json::NumberLit(number) => Value::Number(number.value.to_owned()),
            Json::BooleanLit(flag) => Value::Flag(flag.value),
            Json::NullKeyword(_) => Value::Null,
            Json::Array(array) => {
                let items = array.elements.into_iter().map(|item| self.node(item));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            Json::Object(object) => {
                let mut entries: Vec<Entry> = Vec::new();
                for property in object.properties {
                    let key_at = self.at(property.name.range());
                    let key = property.name.as_str().to_owned();
                    if entries.iter().any(|entry| entry.key == key) {
                        let what = format!("the key `{}` is there twice", short(&key));
                        return Err((key_at.start..key_at.end, what));
                    }
                    let node = self.node(property.value)?;
                    entries.push(Entry { key, key_at, node });
                }
                Value::Table(entries)
            }
        };
        Ok(Node::new(value, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_read_with_positions() {
        let text = "\u{feff}// first\n{\n  /* x */ \"a\": [1, true, null,],\n  \"b\": {\"c\": \"d\\n\"},\n}";
        let node = parse(text).unwrap();
        assert_eq!(node.items_of("a").len(), 3);
        let inner = node.get("b").unwrap();
        assert_eq!(inner.word("c").as_deref(), Some("d\n"));
        let entry = node.entry("b").unwrap();
        assert_eq!(&text[entry.key_at.start..entry.key_at.end], "\"b\"");
    }

    #[test]
    fn what_is_no_json_is_an_error_with_its_place() {
        let check = |text: &str, start: usize| {
            let (range, what) = parse(text).unwrap_err();
            assert_eq!(range.start, start, "{text}: {what}");
        };
        check("", 0);
        check("{\"a\": 1, \"a\": 2}", 9);
        check("{a: 1}", 1);
        check("{\"a\": 0x1}", 6);
        check("{\"a\": 'x'}", 6);
        for text in [
            "{",
            "[",
            "{\"a\"",
            "{\"a\":}",
            "{} {}",
            "\"",
            "nul",
            "{\"a\":\"\\ud800\"}",
        ] {
            assert!(parse(text).is_err() || text.contains("ud800"), "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse(&format!("[{}]", "1,".repeat(30_000))).is_err());
    }
}
