//! A later file changes an earlier one, value by value, as their shape says. Both are in normal form.

use super::shape::{Shape, find};
use super::tree::{Change, Entry, Node, Value};

/// `over` on top of `base`.
pub fn merge(base: Node, over: Node, shape: &'static Shape) -> Node {
    if over.change == Change::Override {
        return over;
    }
    match (shape, base.value, over.value) {
        // An empty value of a later file changes nothing, except in a map, where it is a value.
        (_, value, Value::Null) => Node { value, ..base },
        (Shape::Short { table, .. }, value, new) => {
            let (at, over_at) = (base.at, over.at);
            merge(Node::new(value, at), Node::new(new, over_at), table)
        }
        (_, Value::Table(entries), Value::Table(more)) => {
            let entries = match shape {
                Shape::Table(keys) => joined(entries, more, &|base, over| {
                    let key = find(keys, &over.key);
                    merged(base, over, key.map_or(&Shape::Any, |key| &key.shape))
                }),
                Shape::Named(inner) => {
                    joined(entries, more, &|base, over| merged(base, over, inner))
                }
                Shape::Any => joined(entries, more, &|base, over| merged(base, over, &Shape::Any)),
                Shape::Map | Shape::Hosts => joined(entries, more, &|_, over| over),
                _ => more,
            };
            Node::new(Value::Table(entries), base.at)
        }
        (
            Shape::Texts | Shape::Unique | Shape::List { .. },
            Value::List(items),
            Value::List(more),
        ) => Node::new(Value::List(lists(items, more, shape)), base.at),
        (_, _, value) => Node::new(value, over.at),
    }
}

/// Removes the tags of a tree that no other tree is under.
pub fn settle(node: &mut Node) {
    node.change = Change::Merge;
    match &mut node.value {
        Value::Table(entries) => {
            entries.retain(|entry| entry.node.change != Change::Reset);
            entries.iter_mut().for_each(|entry| settle(&mut entry.node));
        }
        Value::List(items) => {
            items.retain(|item| item.change != Change::Reset);
            items.iter_mut().for_each(settle);
        }
        _ => {}
    }
}

/// Adds `more` to `entries`; `join` decides what an entry that both have becomes.
fn joined(
    mut entries: Vec<Entry>,
    more: Vec<Entry>,
    join: &dyn Fn(Node, Entry) -> Entry,
) -> Vec<Entry> {
    for over in more {
        let place = entries.iter().position(|entry| entry.key == over.key);
        match (place, over.node.change) {
            (Some(place), Change::Reset) => {
                entries.remove(place);
            }
            (None, Change::Reset) => {}
            (Some(place), _) => {
                let base = entries.remove(place);
                entries.insert(place, join(base.node, over));
            }
            (None, _) => entries.push(over),
        }
    }
    entries
}

fn merged(base: Node, over: Entry, shape: &'static Shape) -> Entry {
    let node = merge(base, over.node, shape);
    Entry { node, ..over }
}

fn lists(mut items: Vec<Node>, more: Vec<Node>, shape: &Shape) -> Vec<Node> {
    for over in more {
        let is_same = |item: &Node| match shape {
            Shape::Unique => *item == over,
            Shape::List { same, .. } if !same.is_empty() => {
                same.iter().all(|key| item.get(key) == over.get(key))
            }
            _ => false,
        };
        match items.iter().position(is_same) {
            Some(place) => items[place] = over,
            None => items.push(over),
        }
    }
    items
}
