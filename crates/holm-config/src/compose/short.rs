//! Long forms of the short syntaxes that are more than one text.

use super::tree::{Entry, Node, Value};
use crate::shape::short;
use holm_core::compose::{MountKind, mount, ports};

type Longer = Result<Node, String>;
type Items = Result<Vec<Node>, String>;

/// One value in place of a list of them.
pub fn lone(node: &Node) -> Longer {
    Ok(match &node.value {
        Value::List(_) | Value::Null => node.clone(),
        _ => Node {
            change: node.change,
            ..Node::new(
                Value::List(vec![Node::new(node.value.clone(), node.at)]),
                node.at,
            )
        },
    })
}

/// A list of names in place of a table of them.
pub fn names(node: &Node) -> Longer {
    let mut entries: Vec<Entry> = Vec::new();
    let Value::List(items) = &node.value else {
        return Err(format!(
            "must be a list of names or a table, not {}",
            node.kind()
        ));
    };
    for item in items {
        let Some(key) = item.written() else {
            return Err(format!("must have names, not {}", item.kind()));
        };
        if !entries.iter().any(|entry| entry.key == key) {
            let mut value = Node::new(Value::Table(Vec::new()), item.at);
            value.change = item.change;
            entries.push(Entry {
                key,
                key_at: item.at,
                node: value,
            });
        }
    }
    Ok(Node {
        value: Value::Table(entries),
        ..node.clone()
    })
}

/// `build: ./app`.
pub fn build(node: &Node) -> Longer {
    under("context", node)
}

/// `extends: base`.
pub fn extends(node: &Node) -> Longer {
    under("service", node)
}

/// `gpus: all`.
pub fn gpus(node: &Node) -> Longer {
    match &node.value {
        Value::List(_) => Ok(node.clone()),
        Value::Text(text) if text == "all" => {
            let all = Node::table(vec![("count", Node::text("all", node.at))], node.at);
            Ok(Node {
                change: node.change,
                ..Node::new(Value::List(vec![all]), node.at)
            })
        }
        _ => Err("must be `all` or a list of tables".to_owned()),
    }
}

/// `nofile: 1024`.
pub fn ulimit(node: &Node) -> Longer {
    scalar(node)?;
    let number = || Node::new(node.value.clone(), node.at);
    let table = Node::table(vec![("soft", number()), ("hard", number())], node.at);
    Ok(Node {
        change: node.change,
        ..table
    })
}

fn under(key: &str, node: &Node) -> Longer {
    scalar(node)?;
    let table = Node::table(vec![(key, Node::new(node.value.clone(), node.at))], node.at);
    Ok(Node {
        change: node.change,
        ..table
    })
}

fn scalar(node: &Node) -> Result<String, String> {
    node.written()
        .ok_or_else(|| format!("must be a text or a table, not {}", node.kind()))
}

fn optional<'a>(key: &'a str, value: Option<String>, node: &Node) -> Option<(&'a str, Node)> {
    value.map(|value| (key, Node::text(value, node.at)))
}

/// An item that has one form only.
pub fn as_written(node: &Node) -> Items {
    Ok(vec![node.clone()])
}

/// Items of `ports`; a range is several.
pub fn port(node: &Node) -> Items {
    if let Value::Table(_) = node.value {
        let mut table = node.clone();
        with_default(&mut table, "protocol", "tcp");
        return Ok(vec![table]);
    }
    let ports = ports(&scalar(node)?).map_err(|error| error.to_string())?;
    let tables = ports.into_iter().map(|port| {
        let target = Node::new(Value::Number(port.target.to_string()), node.at);
        let mut entries = vec![
            ("target", target),
            ("protocol", Node::text(port.protocol, node.at)),
        ];
        entries.extend(optional("published", port.published, node));
        entries.extend(optional("host_ip", port.host_ip, node));
        Node::table(entries, node.at)
    });
    Ok(tables.collect())
}

/// Items of `volumes`. The options of each type are moved up, beside `source` and `target`.
pub fn volume(node: &Node) -> Items {
    if let Value::Table(entries) = &node.value {
        let mut flat: Vec<Entry> = Vec::new();
        // Checks read the first entry with a key, and the stack keeps the last, so each key is there once.
        let mut push = |entry: &Entry| {
            if flat.iter().any(|there| there.key == entry.key) {
                return Err(format!("has `{}` twice", short(&entry.key)));
            }
            flat.push(entry.clone());
            Ok(())
        };
        for entry in entries {
            match (entry.key.as_str(), &entry.node.value) {
                ("bind" | "volume" | "tmpfs" | "image", Value::Table(options)) => {
                    options.iter().try_for_each(&mut push)?
                }
                _ => push(entry)?,
            }
        }
        return Ok(vec![Node {
            value: Value::Table(flat),
            ..node.clone()
        }]);
    }
    let mount = mount(&scalar(node)?).map_err(|error| error.to_string())?;
    let kind = if mount.kind == MountKind::Bind {
        "bind"
    } else {
        "volume"
    };
    let mut entries = vec![
        ("type", Node::text(kind, node.at)),
        ("target", Node::text(mount.target, node.at)),
    ];
    entries.extend(optional("source", mount.source, node));
    for (key, flag) in [("read_only", mount.read_only), ("nocopy", mount.nocopy)] {
        if flag {
            entries.push((key, Node::new(Value::Flag(true), node.at)));
        }
    }
    Ok(vec![Node::table(entries, node.at)])
}

/// Items of `secrets` and `configs` of a service.
pub fn grant(node: &Node) -> Items {
    let mut table = match &node.value {
        Value::Table(_) => node.clone(),
        _ => under("source", node)?,
    };
    if let Some(source) = table.word("source") {
        with_default(&mut table, "target", &source);
    }
    Ok(vec![table])
}

/// Items of `env_file`.
pub fn env_file(node: &Node) -> Items {
    Ok(vec![match &node.value {
        Value::Table(_) => node.clone(),
        _ => under("path", node)?,
    }])
}

/// Items of `include`.
pub fn include(node: &Node) -> Items {
    env_file(node)
}

/// Items of `devices`: `SOURCE[:TARGET[:PERMISSIONS]]`.
pub fn device(node: &Node) -> Items {
    if let Value::Table(_) = node.value {
        return Ok(vec![node.clone()]);
    }
    let text = scalar(node)?;
    let mut parts = text.splitn(3, ':').map(str::to_owned);
    let source = parts.next().unwrap_or_default();
    let target = parts.next().unwrap_or_else(|| source.clone());
    let mut entries = vec![
        ("source", Node::text(source, node.at)),
        ("target", Node::text(target, node.at)),
    ];
    entries.extend(optional("permissions", parts.next(), node));
    Ok(vec![Node::table(entries, node.at)])
}

fn with_default(table: &mut Node, key: &str, value: &str) {
    if table.get(key).is_none() {
        table.set(key, Node::text(value, table.at));
    }
}
