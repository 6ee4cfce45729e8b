//! What a workspace is told about itself: the answer to `holm here`, and the same as
//! `/run/holm/AGENTS.md`. Everything in it is of this workspace, and true without a daemon.
//!
//! The file is written anew whenever something of it changes. Inside it lies on a read-only mount.

use super::registry::Registry;
use crate::here::markdown;
use holm_core::database::{self, Recognised};
use holm_engine::Isolation;
use holm_engine::spec::Service;
use serde_json::{Value, json};
use std::io;
use std::sync::{Mutex, PoisonError};

/// What the file is called at `/run/holm`.
const FILE: &str = "AGENTS.md";

/// One writer at a time, so that the last one has the last word.
static WRITING: Mutex<()> = Mutex::new(());

pub fn here(registry: &Registry) -> Value {
    let mut here = registry.plan.here.clone();
    here["label"] = json!(registry.label());
    if let Some(code) = registry.code() {
        here["ref"] = json!(code.reference);
        here["commit"] = json!(code.commit);
    }
    here["state"] = json!("running");
    here["ports"] = serde_json::to_value(registry.ports()).unwrap_or_default();
    if let Some(services) = registry.services() {
        here["services"] = serde_json::to_value(services.told().services).unwrap_or_default();
    }
    here["databases"] = Value::Array(databases(registry));
    let egress = registry.egress();
    here["egress"] = json!({ "mode": egress.mode.as_str(), "allow": egress.allow });
    // The paths are told by themselves.
    let isolation = Isolation {
        protected: None,
        ..registry.isolation().clone()
    };
    here["isolation"] = serde_json::to_value(isolation).unwrap_or_default();
    here
}

/// Brings the file up to date. Who cannot read it can still ask.
pub fn write(registry: &Registry) {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let guest = registry.plan.dir.join("guest");
    let fresh = guest.join(".AGENTS.md.new");
    let write = || -> io::Result<()> {
        std::fs::write(&fresh, markdown(&here(registry)))?;
        std::fs::rename(&fresh, guest.join(FILE))
    };
    if let Err(error) = write() {
        complain!("cannot write {FILE}: {error}");
    }
}

fn databases(registry: &Registry) -> Vec<Value> {
    let services = registry.declared();
    let own = services.iter().filter_map(|service| {
        let found = database::of_service(&service.run, service.port)?;
        let mut told = told(&found);
        told["service"] = json!(service.name);
        told["volume"] = json!(volume_of(registry, service));
        Some(told)
    });
    let shared = registry.plan.network.shared.iter().filter_map(|shared| {
        let mut told = told(&database::of_port(shared.port)?);
        told["shared"] = json!(shared.name);
        Some(told)
    });
    own.chain(shared).collect()
}

fn told(found: &Recognised) -> Value {
    json!({
        "kind": found.kind.as_str(),
        "port": found.port,
        "url": found.url(),
        "guessed": true,
        "because": found.reason(),
    })
}

/// The volume whose place the service's command names.
fn volume_of<'a>(registry: &'a Registry, service: &Service) -> Option<&'a str> {
    let mut volumes = registry.plan.volumes.iter();
    let is_named = |place: &str| service.run.contains(place);
    let volume = volumes.find(|volume| volume.mount.inside.to_str().is_some_and(is_named))?;
    Some(&volume.name)
}
