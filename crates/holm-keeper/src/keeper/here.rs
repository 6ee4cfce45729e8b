//! What a workspace may know about itself: the answer to `holm here`, and `/run/holm/AGENTS.md`. It
//! is only about this workspace, and correct without a daemon.
//!
//! The file is rewritten when something in it changes. Inside it is on a read-only mount.

use super::Registry;
use crate::here::markdown;
use holm_core::database::{self, Recognised};
use holm_core::isolation::Isolation;
use holm_core::spec::Service;
use serde_json::{Value, json};
use std::io;
use std::sync::{Mutex, PoisonError};

/// The file's name in `/run/holm`.
const FILE: &str = "AGENTS.md";

/// One writer at a time, so that the last state wins.
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
        let services = services.snapshot().services.into_iter().map(|status| {
            let exit_code = json!(status.exit_code);
            let mut shown = json!(status);
            // Shown inside also while there is none.
            shown["exit_code"] = exit_code;
            shown
        });
        here["services"] = services.collect();
    }
    here["databases"] = Value::Array(databases(registry));
    let egress = registry.egress();
    here["egress"] = json!({ "mode": egress.mode.as_str(), "allow": egress.allow });
    // The paths are listed separately.
    let isolation = Isolation {
        protected: None,
        ..registry.isolation().clone()
    };
    here["isolation"] = serde_json::to_value(isolation).unwrap_or_default();
    here
}

/// Updates the file. A failure is not fatal, because guests can still ask.
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
        let mut shown = as_json(&found);
        shown["service"] = json!(service.name);
        shown["volume"] = json!(volume_of(registry, service));
        Some(shown)
    });
    let shared = registry.plan.network.shared.iter().filter_map(|shared| {
        let mut shown = as_json(&database::of_port(shared.port)?);
        shown["shared"] = json!(shared.name);
        Some(shown)
    });
    own.chain(shared).collect()
}

fn as_json(found: &Recognised) -> Value {
    json!({
        "kind": found.kind.as_str(),
        "port": found.port,
        "url": found.url(),
        "guessed": true,
        "because": found.reason(),
    })
}

/// The volume whose path the service's command contains.
fn volume_of<'a>(registry: &'a Registry, service: &Service) -> Option<&'a str> {
    let mut volumes = registry.plan.volumes.iter();
    let is_named = |place: &str| service.run.contains(place);
    let volume = volumes.find(|volume| volume.mount.inside.to_str().is_some_and(is_named))?;
    Some(&volume.name)
}
