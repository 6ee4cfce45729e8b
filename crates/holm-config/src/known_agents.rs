//! The table of known agents (`assets/agents.toml`), and what of a settings file is brought into a
//! workspace: the listed keys, and answers to the agent's first questions.
//!
//! Tests of debug builds name another table (`HOLM_TEST_AGENTS`), so that no test needs a public
//! host.

use holm_core::agents::known::{Answer, KnownAgents};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("../assets/agents.toml");

/// All known agents.
pub fn table() -> &'static KnownAgents {
    static KNOWN: LazyLock<KnownAgents> = LazyLock::new(|| {
        let other = if cfg!(debug_assertions) {
            let path = std::env::var_os("HOLM_TEST_AGENTS");
            path.and_then(|path| std::fs::read_to_string(path).ok())
        } else {
            None
        };
        let text = other.as_deref().unwrap_or(TABLE);
        toml::from_str(text).unwrap_or_else(|error| {
            // A test reads the embedded table; only a test's own one can be wrong.
            let empty = format!("{error}");
            debug_assert!(empty.is_empty(), "{error}");
            KnownAgents {
                services: BTreeMap::new(),
                agents: BTreeMap::new(),
            }
        })
    });
    &KNOWN
}

/// Why a settings file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotReadable(String);

/// Parses a settings file by its extension.
pub fn parse(file: &str, text: &str) -> Result<Value, NotReadable> {
    let parsed = match file.rsplit('.').next() {
        Some("toml") => toml::from_str(text).map_err(|error| error.message().to_owned()),
        Some("yml" | "yaml") => serde_saphyr::from_str(text).map_err(|error| error.to_string()),
        _ => serde_json::from_str(text).map_err(|error| error.to_string()),
    };
    match parsed {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(NotReadable("it is not a table".to_owned())),
        Err(why) => Err(NotReadable(why)),
    }
}

/// The text of a settings file.
pub fn print(file: &str, document: &Value) -> Result<String, NotReadable> {
    match file.rsplit('.').next() {
        Some("toml") => toml::to_string(document).map_err(|error| NotReadable(error.to_string())),
        // JSON is YAML.
        _ => serde_json::to_string_pretty(document).map_err(|error| NotReadable(error.to_string())),
    }
}

/// A document with only the listed keys.
pub fn kept(document: &Value, pointers: &[String]) -> Value {
    let mut kept = Value::Object(Map::new());
    for pointer in pointers {
        if let Some(value) = document.pointer(pointer) {
            put(&mut kept, &segments(pointer, ""), value.clone());
        }
    }
    kept
}

/// Sets the answers; `{root}` and `{key}` in them are replaced.
pub fn set(document: &mut Value, answers: &BTreeMap<String, Answer>, root: &str, key: &str) {
    let text = |text: &str| Value::from(text.replace("{root}", root).replace("{key}", key));
    for (pointer, answer) in answers {
        let value = match answer {
            Answer::Flag(flag) => Value::from(*flag),
            Answer::Number(number) => Value::from(*number),
            Answer::Text(words) => text(words),
            Answer::Texts(texts) => texts.iter().map(|words| text(words)).collect(),
        };
        put(document, &segments(pointer, root), value);
    }
}

/// Puts a value at a pointer, and creates the tables above it.
pub fn put_at(document: &mut Value, pointer: &str, value: Value) {
    put(document, &segments(pointer, ""), value);
}

/// The parts of a pointer. `{root}` is one part, although the path has slashes.
fn segments(pointer: &str, root: &str) -> Vec<String> {
    let parts = pointer.split('/').skip(1);
    let plain = |part: &str| part.replace("~1", "/").replace("~0", "~");
    parts
        .map(|part| plain(part).replace("{root}", root))
        .collect()
}

fn put(document: &mut Value, segments: &[String], value: Value) {
    let Some((first, rest)) = segments.split_first() else {
        *document = value;
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    if let Value::Object(map) = document {
        put(map.entry(first.clone()).or_insert(Value::Null), rest, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_core::agents::known::KnownAgent;
    use serde_json::json;

    fn embedded() -> KnownAgents {
        toml::from_str(TABLE).unwrap()
    }

    #[test]
    fn the_table_is_consistent() {
        let table = embedded();
        for (name, agent) in &table.agents {
            assert!(!agent.run.is_empty() && !agent.session.is_empty(), "{name}");
            let services = agent
                .keys
                .values()
                .chain(agent.sign_ins.iter().map(|it| &it.service));
            for service in services {
                assert!(table.services.contains_key(service), "{name}: {service}");
            }
            for sign_in in agent.sign_ins.iter().filter(|it| it.refresh.is_some()) {
                assert!(table.services[&sign_in.service].token.is_some(), "{name}");
            }
            assert!(agent.title.len() > 3, "{name}");
        }
    }

    /// Every pointer of a value that must not enter a workspace.
    fn secrets(agent: &KnownAgent) -> Vec<(&str, &str)> {
        let secrets = agent.sign_ins.iter().flat_map(|it| {
            let pointers = [Some(&it.access), it.refresh.as_ref(), it.identity.as_ref()];
            let pointers = pointers.into_iter().flatten();
            pointers.map(|pointer| (it.file.as_str(), pointer.as_str()))
        });
        secrets.collect()
    }

    #[test]
    fn attack_195_no_list_brings_a_sign_in_or_what_runs_programs() {
        let never = [
            "env",
            "mcp",
            "hook",
            "helper",
            "history",
            "statusline",
            "refresh",
            "notify",
        ];
        for (name, agent) in &embedded().agents {
            let kept = agent.settings.iter().map(|it| (&it.file, &it.keep));
            let kept = kept.chain(agent.sign_ins.iter().map(|it| (&it.file, &it.keep)));
            for (file, pointers) in kept {
                for pointer in pointers {
                    for (other, secret) in secrets(agent) {
                        let is_above =
                            secret == pointer || secret.starts_with(&format!("{pointer}/"));
                        assert!(file != other || !is_above, "{name}: {file} {pointer}");
                    }
                    let lower = pointer.to_lowercase();
                    if lower == "/last_refresh" {
                        continue;
                    }
                    assert!(
                        !never.iter().any(|word| lower.contains(word)),
                        "{name}: {pointer}"
                    );
                }
            }
            for file in secrets(agent).iter().map(|(file, _)| file) {
                assert!(
                    !agent.copies.iter().any(|copy| copy == file),
                    "{name}: {file}"
                );
            }
        }
    }

    #[test]
    fn only_listed_keys_are_kept() {
        let text = r#"{"model":"m","env":{"A":"b"},"hooks":{},"mcpServers":{"x":{}},
            "apiKeyHelper":"run","projects":{"/other":{"history":["secret"]}}}"#;
        let document = parse("settings.json", text).unwrap();
        let list = ["/model".to_owned(), "/absent/key".to_owned()];
        let mut brought = kept(&document, &list);
        assert_eq!(brought, json!({ "model": "m" }));
        let answers = [
            ("/projects/{root}/ok".to_owned(), Answer::Flag(true)),
            ("/who".to_owned(), Answer::Texts(vec!["{key}".to_owned()])),
        ];
        set(&mut brought, &answers.into(), "/work/shop", "k");
        assert_eq!(
            brought,
            json!({ "model": "m", "projects": { "/work/shop": { "ok": true } }, "who": ["k"] })
        );
        // Without the list, everything would be there.
        assert!(document.pointer("/projects/~1other/history").is_some());
    }

    #[test]
    fn every_format_is_read_and_written() {
        let document = parse(
            "config.toml",
            "model = \"m\"\n[mcp_servers.x]\ncommand = \"c\"\n",
        );
        let mut brought = kept(&document.unwrap(), &["/model".to_owned()]);
        let trusted = [(
            "/projects/{root}/trust_level".to_owned(),
            Answer::Text("trusted".to_owned()),
        )];
        set(&mut brought, &trusted.into(), "/a b", "");
        let text = print("config.toml", &brought).unwrap();
        assert_eq!(parse("config.toml", &text).unwrap(), brought);
        assert!(text.contains("[projects.\"/a b\"]"), "{text}");
        let yaml = parse("x.yml", "model: m\napi-key:\n- secret\n").unwrap();
        assert_eq!(kept(&yaml, &["/model".to_owned()]), json!({ "model": "m" }));
        assert!(parse("x.json", "[]").is_err() && parse("x.json", "{").is_err());
    }
}
