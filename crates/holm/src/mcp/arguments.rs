//! The arguments of a tool call, parsed strictly: unknown or wrong ones are reported in words that
//! a model can act on. Nothing is guessed.

use super::catalogue::{Argument, Form, Tool};
use holm_core::config::parse_duration;
use holm_core::{Code, Fault};
use serde_json::{Map, Value};
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Arguments(Map<String, Value>);

// === impl Arguments ===

impl Arguments {
    pub fn new(mut arguments: Map<String, Value>) -> Self {
        // Some clients send null for omitted arguments.
        arguments.retain(|_, value| !value.is_null());
        Self(arguments)
    }

    /// Checks them against the tool's definition.
    pub fn check(&self, tool: &Tool, is_scoped: bool) -> Result<(), Fault> {
        for (name, value) in &self.0 {
            let Some(argument) = tool.argument(name) else {
                return Err(unknown(tool, name));
            };
            if !argument.form.takes(value) {
                let form = argument.form.in_words();
                return Err(wrong(format!("`{name}` has to be {form}")));
            }
        }
        let needed = tool.arguments.iter().filter(|one| one.is_needed(is_scoped));
        match needed
            .map(|one| one.name)
            .find(|name| !self.0.contains_key(*name))
        {
            Some(name) => Err(missing(name)),
            None => Ok(()),
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    pub fn owned(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    pub fn needed(&self, name: &'static str) -> Result<&str, Fault> {
        self.text(name).ok_or_else(|| missing(name))
    }

    pub fn words(&self, name: &str) -> Vec<String> {
        let words = self.0.get(name).and_then(Value::as_array);
        let words = words.into_iter().flatten();
        words.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    pub fn is_set(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool) == Some(true)
    }

    /// Whether it is explicitly false.
    pub fn is_unset(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool) == Some(false)
    }

    pub fn map(&self, name: &str) -> Vec<(String, String)> {
        let map = self.0.get(name).and_then(Value::as_object);
        let pairs = map.into_iter().flatten();
        let pairs =
            pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        pairs.collect()
    }

    /// `30s`, `5m`, or a number of seconds.
    pub fn time(&self, name: &str) -> Result<Option<Duration>, Fault> {
        let Some(value) = self.0.get(name) else {
            return Ok(None);
        };
        let time = match (value.as_str(), value.as_f64()) {
            (Some(text), _) => {
                let parsed = parse_duration(text);
                parsed.map_err(|error| wrong(format!("`{name}` is no time")).because(error))?
            }
            (None, Some(seconds)) => Duration::try_from_secs_f64(seconds)
                .ok()
                .filter(|time| !time.is_zero())
                .ok_or_else(|| wrong(format!("`{name}` is no time")))?,
            (None, None) => return Ok(None),
        };
        Ok(Some(time))
    }
}

// === impl Form ===

impl Form {
    fn takes(self, value: &Value) -> bool {
        match self {
            Form::Text => value.is_string(),
            Form::Words => is_words(value),
            Form::Number => value.as_u64().is_some(),
            Form::Flag => value.is_boolean(),
            Form::Map => {
                let map = value.as_object();
                map.is_some_and(|map| map.values().all(Value::is_string))
            }
            Form::Time => value.is_string() || value.is_number(),
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Form::Text => "text",
            Form::Words => "an array of texts",
            Form::Number => "a whole number that is not negative",
            Form::Flag => "true or false",
            Form::Map => "an object whose values are texts",
            Form::Time => "a time such as \"30s\" or \"5m\", or a number of seconds",
        }
    }
}

fn is_words(value: &Value) -> bool {
    let words = value.as_array();
    words.is_some_and(|words| words.iter().all(Value::is_string))
}

pub fn missing(name: &str) -> Fault {
    wrong(format!("`{name}` is missing"))
}

pub fn wrong(message: String) -> Fault {
    let hint = "the tool's input schema says what it takes";
    Fault::new(Code::BadRequest, message, hint)
}

fn unknown(tool: &Tool, name: &str) -> Fault {
    let known: Vec<_> = tool
        .arguments
        .iter()
        .map(|one: &Argument| one.name)
        .collect();
    let hint = if known.is_empty() {
        "it takes none".to_owned()
    } else {
        format!("it takes: {}", known.join(", "))
    };
    let message = format!(
        "`{}` takes no argument `{}`",
        tool.name,
        name.escape_debug()
    );
    Fault::new(Code::BadRequest, message, hint)
}
