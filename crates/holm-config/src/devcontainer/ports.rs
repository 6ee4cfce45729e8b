//! `forwardPorts`, `appPort` and `portsAttributes`.

use super::source::Source;
use crate::compose::tree::{Location, Node};
use crate::shape::short;
use holm_core::config::Name;

/// A port that a program of the container, or of another service, listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// `None`: the container itself.
    pub service: Option<String>,
    pub port: u16,
    /// From `portsAttributes`.
    pub name: Option<Name>,
    pub at: Location,
}

pub fn forwarded(source: &mut Source<'_>, node: &Node) -> Vec<Forwarded> {
    let mut all: Vec<Forwarded> = Vec::new();
    for key in ["forwardPorts", "appPort"] {
        let Some(value) = node.get(key) else {
            continue;
        };
        let one = std::slice::from_ref(value);
        let items = if value.written().is_some() {
            one
        } else {
            value.items()
        };
        for item in items {
            let text = item.written().unwrap_or_default();
            match parsed(key, &text) {
                Some((service, port)) => {
                    let is_known = |it: &Forwarded| it.port == port && it.service == service;
                    if !all.iter().any(is_known) {
                        let name = label(node, &text);
                        let at = item.at;
                        all.push(Forwarded {
                            service,
                            port,
                            name,
                            at,
                        });
                    }
                }
                None => {
                    let what = format!("`{key}` has `{}`, which is no port", short(&text));
                    source.error(item.at, what);
                }
            }
        }
    }
    all
}

/// `3000`, `db:5432` of `forwardPorts`, and `127.0.0.1:8080:3000` of `appPort`, whose last number is that of the container.
fn parsed(key: &str, text: &str) -> Option<(Option<String>, u16)> {
    let number = |text: &str| text.parse().ok().filter(|port| *port > 0);
    match text.rsplit_once(':') {
        None => Some((None, number(text)?)),
        Some((before, port)) if key == "forwardPorts" => {
            let is_own = ["localhost", "127.0.0.1", "0.0.0.0"].contains(&before);
            let service = (!is_own).then(|| before.to_owned());
            Some((service, number(port)?))
        }
        Some((_, port)) => Some((None, number(port.split('/').next()?)?)),
    }
}

/// The label of `portsAttributes` as a name.
fn label(node: &Node, port: &str) -> Option<Name> {
    let attributes = node.get("portsAttributes")?.get(port)?;
    let label = attributes.word("label")?.to_ascii_lowercase();
    let plain: String = label
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    Name::parse(&parts.join("-")).ok()
}
