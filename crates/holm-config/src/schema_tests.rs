//! Tests that schema and parser agree about every key, and about documents.

use super::*;
use crate::project;

const EXAMPLE: &str = include_str!("../assets/example.toml");

/// A small validator of what the schema uses, without patterns, which are only hints for editors.
fn accepts(schema: &Value, value: &Value) -> bool {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    let holds = |schemas: &Vec<Value>| schemas.iter().filter(|it| accepts(it, value)).count();
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    let of_type = match schema.get("type").and_then(Value::as_str) {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some(other) => panic!("type {other}"),
        None => true,
    };
    of_type
        && schema.get("const").is_none_or(|wanted| wanted == value)
        && list("enum").is_none_or(|words| words.contains(value))
        && list("anyOf").is_none_or(|schemas| holds(schemas) >= 1)
        && (schema
            .get("if")
            .is_none_or(|condition| accepts(condition, value))
            || schema.get("else").is_none_or(|other| accepts(other, value)))
        && list("oneOf").is_none_or(|schemas| holds(schemas) == 1)
        && list("required").is_none_or(|keys| {
            keys.iter()
                .all(|key| key.as_str().is_some_and(|key| value.get(key).is_some()))
        })
        && value.as_f64().is_none_or(|it| {
            number("minimum").is_none_or(|least| it >= least)
                && number("maximum").is_none_or(|most| it <= most)
                && number("exclusiveMinimum").is_none_or(|least| it > least)
        })
        && value.as_array().is_none_or(|items| {
            number("minItems").is_none_or(|least| items.len() as f64 >= least)
                && schema
                    .get("items")
                    .is_none_or(|item| items.iter().all(|it| accepts(item, it)))
        })
        && value.as_object().is_none_or(|object| {
            object.iter().all(|(key, value)| {
                match (
                    schema.pointer(&format!("/properties/{key}")),
                    schema.get("additionalProperties"),
                ) {
                    (Some(property), _) => accepts(property, value),
                    (None, Some(Value::Bool(allowed))) => *allowed,
                    (None, Some(rest)) => accepts(rest, value),
                    (None, None) => true,
                }
            })
        })
}

fn as_json(text: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap()
}

#[test]
fn the_example_is_accepted_by_both() {
    assert!(project::parse(EXAMPLE, "holm.toml").is_ok());
    assert!(accepts(&holm_toml(), &as_json(EXAMPLE)));
}

#[test]
fn what_one_refuses_the_other_refuses() {
    for text in [
        "x = 1",
        "project = 1",
        "[project]\nnam = \"a\"",
        "[project]\nnested = \"a\"",
        "[project]\nisolation = \"a\"",
        "[project]\nsetup = [1]",
        "[ports]\nweb = 0",
        "[ports]\nweb = 65536",
        "[ports]\nweb = \"80\"",
        "[services.a]",
        "[services.a]\nimage = 1",
        "[services.a]\nrun = \"x\"\nready = {}",
        "[services.a]\nrun = \"x\"\nready = { tcp = 1, log = \"x\" }",
        "[services.a]\nrun = \"x\"\nready = { tcp = true }",
        "[services.a]\nrun = \"x\"\nenv = { A = 1 }",
        "[volumes.v]\npolicy = \"fork\"",
        "[secrets.A]\nto = []",
        "[secrets.A]",
        "[secrets.A]\nto = [\"runs\"]\nfrom = { stored = false }",
        "[secrets.A]\nto = [\"runs\"]\nfrom = { command = [] }",
        "[limits]\ncpus = 0",
        "[limits]\ncpus = 5000.0",
        "[limits]\nmemory = 1",
        "[egress]\nmode = \"closed\"",
        "[agents.a]",
    ] {
        assert!(
            project::parse(text, "holm.toml").is_err(),
            "parser takes {text}"
        );
        assert!(
            !accepts(&holm_toml(), &as_json(text)),
            "schema takes {text}"
        );
    }
    for text in [
        "",
        "[services.a]\nrun = \"x\"\nready = { tcp = 1 }",
        "[services.a]\nimage = \"postgres:16\"\ntree = \"/usr/src/app\"",
        "[secrets.A]\nto = [\"runs\"]\nfrom = { command = [\"a\", \"\"] }",
        "[project]\ncompose = \"compose.yaml\"\n[services.a]\non_assign = \"none\"\n[volumes.b]\npolicy = \"fork\"",
        "[limits]\ncpus = 1",
        "[shared.a]\naddress = \"127.0.0.1:1\"",
    ] {
        assert!(
            project::parse(text, "holm.toml").is_ok(),
            "parser refuses {text}"
        );
        assert!(
            accepts(&holm_toml(), &as_json(text)),
            "schema refuses {text}"
        );
    }
}

/// Every key in the schema, with user-chosen names as `*`.
fn keys_of_schema(schema: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            let place = format!("{at}.{name}");
            assert!(property["title"].is_string(), "{place} has no title");
            assert!(
                property["description"]
                    .as_str()
                    .is_some_and(|it| it.len() > 5),
                "{place}"
            );
            found.push(place.clone());
            keys_of_schema(property, &place, found);
        }
    }
    if let Some(rest) = schema
        .get("additionalProperties")
        .filter(|rest| rest.is_object())
    {
        keys_of_schema(rest, &format!("{at}.*"), found);
    }
    for choice in schema["anyOf"].as_array().into_iter().flatten() {
        keys_of_schema(choice, at, found);
    }
}

/// The parser knows a key if a wrong value there is not reported as unknown.
fn parser_knows(place: &str) -> bool {
    let keys: Vec<_> = place
        .split('.')
        .skip(1)
        .map(|key| if key == "*" { "A" } else { key })
        .collect();
    let text = format!("{} = 1979-05-27\n", keys.join("."));
    let errors = project::parse(&text, "holm.toml")
        .expect_err(&text)
        .to_string();
    !errors.contains("unknown key")
}

#[test]
fn every_key_of_the_schema_is_known_by_the_parser_and_the_other_way_round() {
    let schema = holm_toml();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    let mut keys = Vec::new();
    keys_of_schema(&schema, "", &mut keys);
    assert!(keys.len() > 50, "{}", keys.len());
    for key in &keys {
        assert!(parser_knows(key), "{key}");
    }
    assert!(!parser_knows(".project.nope"));

    // The example has every key; what the parser reads of it is in the schema.
    fn places(value: &Value, at: &str, keys: &[String], missing: &mut Vec<String>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let (exact, any) = (format!("{at}.{name}"), format!("{at}.*"));
            let below_any = keys.iter().any(|key| key.starts_with(&format!("{any}.")));
            if keys.contains(&exact) {
                places(value, &exact, keys, missing)
            } else if below_any {
                places(value, &any, keys, missing)
            } else if !value.is_object() {
                // Plain values with free names (`ports.web`) have no keys of their own.
            } else {
                missing.push(exact)
            }
        }
    }
    let mut missing = Vec::new();
    places(&as_json(EXAMPLE), "", &keys, &mut missing);
    assert_eq!(missing, [""; 0]);
}
