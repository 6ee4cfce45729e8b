//! Reads `[env]`, and replaces the references in its values and in those of `services.*.env`.
//!
//! In `services.*.env` only complete references are replaced: releases without references passed every
//! `${` on as it is.

use super::errors::Findings;
use super::node::Node;
use super::shape::short;
use holm_core::address::scheme;
use holm_core::config::{Name, ProjectConfig, Variable};
use holm_core::environment::{Declarations, Unresolved, resolve as resolved};

/// The declarations that references name.
struct Declared<'a>(&'a ProjectConfig);

impl Declarations for Declared<'_> {
    fn port(&self, name: &str) -> Option<u16> {
        let port = self.0.ports.get(&Name::parse(name).ok()?)?;
        Some(port.port.get())
    }

    fn service_url(&self, name: &str) -> Option<Option<String>> {
        let name = Name::parse(name).ok()?;
        let service = self.0.services.get(&name)?;
        let port = self.0.service_port(&name).map(|port| port.get());
        Some(port.map(|port| {
            let scheme = scheme(Some(&service.run), name.as_str(), port);
            format!("{scheme}://127.0.0.1:{port}")
        }))
    }
}

/// Fills in the variables of a configuration that is built otherwise.
pub fn resolve(root: &Node<'_>, config: &mut ProjectConfig, findings: &mut Findings) {
    let env = root.get("env").map(|node| node.entries());
    for (name, node) in env.unwrap_or_default() {
        let (Some(text), Ok(variable)) = (node.text(), Variable::parse(name)) else {
            continue;
        };
        match resolved(text, &Declared(config)) {
            Ok(value) => drop(config.env.insert(variable, value)),
            Err(error) => {
                let what = format!("`env.{}`: {error}", short(name));
                findings.add(node.span.clone(), what);
            }
        }
    }
    let declared = config.clone();
    for (name, service) in &mut config.services {
        let section = root.get("services").and_then(|all| all.get(name.as_str()));
        let section = section.and_then(|service| service.get("env"));
        for (variable, value) in &mut service.env {
            match resolved(value, &Declared(&declared)) {
                Ok(text) => *value = text,
                Err(Unresolved::Form(_) | Unresolved::Open) => {}
                Err(error) => {
                    let node = section.as_ref().and_then(|env| env.get(variable.as_str()));
                    let span = node.map_or(0..0, |node| node.span);
                    let what = format!("`services.{name}.env.{variable}`: {error}");
                    findings.add(span, what);
                }
            }
        }
    }
}
