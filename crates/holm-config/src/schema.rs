//! The JSON schema of `holm.toml` (draft 2020-12), for editors and for `holm schema`.
//!
//! Generated from the parser's own tables. What JSON schema cannot express (a name exists,
//! dependencies are acyclic) is only checked by the parser.

use super::project_shape::HOLM_TOML;
use super::shape::{Form, Key, Need, Shape};
use serde_json::{Map, Value, json};

/// The whole schema.
pub fn holm_toml() -> Value {
    let mut schema = of(&HOLM_TOML);
    let head = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "holm.toml",
        "description": "What holm makes of a project. Every file and every key is optional unless it says otherwise.",
        // Compose files may have what a service or a volume lacks.
        "if": {
            "required": ["project"],
            "properties": { "project": { "required": ["compose"] } },
        },
        "else": {
            "properties": {
                "services": {
                    "additionalProperties": {
                        "anyOf": [{ "required": ["run"] }, { "required": ["image"] }, { "required": ["build"] }],
                    },
                },
                "volumes": { "additionalProperties": { "required": ["path"] } },
            },
        },
    });
    if let (Value::Object(schema), Value::Object(head)) = (&mut schema, head) {
        schema.extend(head);
    }
    schema
}

fn of(shape: &Shape) -> Value {
    match shape {
        Shape::Text(form) => text(*form),
        Shape::Integer { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Shape::Number { most } => {
            json!({ "type": "number", "exclusiveMinimum": 0, "maximum": most })
        }
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::True => json!({ "const": true }),
        Shape::Choice(words) => json!({ "type": "string", "enum": words }),
        Shape::List { item, least } => {
            json!({ "type": "array", "items": of(item), "minItems": least })
        }
        Shape::Command => json!({
            "type": "array",
            "prefixItems": [text(Form::Filled)],
            "items": text(Form::Any),
            "minItems": 1,
        }),
        Shape::Table(table) => {
            let mut schema = keys(table.keys);
            if !table.one_of.is_empty() {
                let one_of = table.one_of.iter();
                let choices = one_of.map(|key| json!({ "required": [key] })).collect();
                schema["oneOf"] = Value::Array(choices);
            }
            schema
        }
        Shape::Map {
            names,
            value,
            fixed,
        } => {
            let mut schema = keys(fixed);
            schema["additionalProperties"] = of(value);
            schema["propertyNames"] = text(*names);
            schema
        }
        Shape::Either(first, second) => json!({ "anyOf": [of(first), of(second)] }),
    }
}

fn keys(keys: &[Key]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(property).collect();
    let needed = keys.iter().filter(|key| key.need == Need::Required);
    let required: Vec<_> = needed.map(|key| key.name).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn property(key: &Key) -> (String, Value) {
    let mut schema = of(&key.shape);
    schema["title"] = json!(key.name.replace('_', " "));
    schema["description"] = json!(key.doc);
    (key.name.to_owned(), schema)
}

fn text(form: Form) -> Value {
    let pattern = match form {
        Form::Any => return json!({ "type": "string" }),
        Form::Filled => r"\S",
        Form::ProjectName => {
            return json!({ "type": "string", "pattern": LABEL, "maxLength": 20 });
        }
        Form::Name => return json!({ "type": "string", "pattern": LABEL, "maxLength": 40 }),
        Form::Variable => "^[A-Za-z_][A-Za-z0-9_]{0,199}$",
        Form::SharedVariable => "^(?!(HOME|PATH)$)(?!(HOLM|LD|GIT)_)[A-Za-z_][A-Za-z0-9_]{0,199}$",
        Form::Duration => DURATION,
        Form::DurationOrOff => {
            return json!({ "anyOf": [text(Form::Duration), { "const": "off" }] });
        }
        Form::Size => r"^[0-9]+(\.[0-9]+)?(B|[KMGT]iB|[KMGT]B)$",
        Form::Root => "^/[^/]+(/[^/]+)*$",
        Form::ProtectedPath => r"^[^/*?][^*?]*$",
        Form::Pattern => "^[^/!]",
        Form::Place => "[^/~]",
        Form::ProjectFile => "^[^/~]",
        Form::GivenPath => "^(~/)?[^/~]",
        Form::Image => r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$",
        Form::ImagePath => "^/[^/]",
        Form::HostPath | Form::Mount => "^~?/[^/]",
        Form::HttpPath => r"^/[^\s]*$",
        Form::Address => ":[0-9]{1,5}$",
        Form::ProxyUrl => "^http://",
        Form::WebhookUrl => "^https?://",
        Form::StoreUrl => "^postgres(ql)?://[^:@/]*(@[^@]*)?$|^postgres(ql)?://[^@]*$",
        Form::Destination => r"^(\*\.)?[A-Za-z0-9_\[:]",
        Form::HostHeader => r"^[A-Za-z0-9_.-]+(:[0-9]{1,5})?$|^\[[0-9a-fA-F:.]+\](:[0-9]{1,5})?$",
    };
    json!({ "type": "string", "pattern": pattern })
}

const LABEL: &str = "^[a-z0-9]+(-[a-z0-9]+)*$";

/// Units from large to small, each at most once, at least one.
const DURATION: &str = "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
