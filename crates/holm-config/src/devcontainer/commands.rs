//! The commands of a container's life.

use crate::compose::tree::{Node, Value};
use holm_core::dev_container::{LifecycleCommand, NamedCommand, Stage};

/// The commands of all stages, in the order in which they run.
pub fn of_stages(node: &Node) -> Vec<LifecycleCommand> {
    let stages = Stage::ALL.into_iter().filter_map(|stage| {
        let commands = commands(node.get(stage.key())?);
        (!commands.is_empty()).then_some(LifecycleCommand { stage, commands })
    });
    stages.collect()
}

/// One command, or several that run at the same time. An empty one is none.
pub fn commands(node: &Node) -> Vec<NamedCommand> {
    let named = |name: Option<&str>, node: &Node| {
        let words = words(node)?;
        let name = name.map(str::to_owned);
        Some(NamedCommand { name, words })
    };
    match &node.value {
        Value::Table(entries) => entries
            .iter()
            .filter_map(|entry| named(Some(&entry.key), &entry.node))
            .collect(),
        _ => named(None, node).into_iter().collect(),
    }
}

fn words(node: &Node) -> Option<Vec<String>> {
    let words = match &node.value {
        Value::Text(text) if !text.trim().is_empty() => {
            vec!["/bin/sh".to_owned(), "-c".to_owned(), text.clone()]
        }
        Value::List(items) => items.iter().filter_map(Node::written).collect(),
        _ => Vec::new(),
    };
    (!words.is_empty()).then_some(words)
}
