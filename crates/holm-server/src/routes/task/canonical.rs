//! Canonical ports: `localhost:3000` of the host is port 3000 of one workspace at a time.
//!
//! A port is bound for as long as a workspace has it; handing it over changes only the target of
//! new connections. Several ports are taken together or not at all.

use super::super::holder;
use super::RouteTask;
use holm_api::port::{CanonicalPort, Holder};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::store::Canonical;
use holm_proxy::forward::{Bound, bind};
use holm_proxy::{Forward, Target};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::io;

pub type CheckedOut = CanonicalPort;

/// The canonical ports that are checked out.
#[derive(Default)]
pub struct Canonicals(BTreeMap<u16, Held>);

struct Held {
    workspace: WorkspaceId,
    /// `Err`: another program holds the port, which the text says.
    forward: Result<Forward, String>,
}

// === impl Canonicals ===

impl Canonicals {
    /// Notes for the user, by workspace.
    pub fn notes(&self) -> HashMap<WorkspaceId, Vec<String>> {
        let mut notes: HashMap<WorkspaceId, Vec<String>> = HashMap::new();
        for held in self.0.values() {
            if let Err(problem) = &held.forward {
                let note = format!("checked out, but {problem}");
                notes.entry(held.workspace.clone()).or_default().push(note);
            }
        }
        notes
    }

    /// The workspace that each port is really forwarded to.
    pub fn holders(&self) -> HashMap<u16, WorkspaceId> {
        let leading = self.0.iter().filter(|(_, held)| held.forward.is_ok());
        leading
            .map(|(port, held)| (*port, held.workspace.clone()))
            .collect()
    }
}

// === impl RouteTask ===

impl RouteTask {
    pub(super) async fn load_canonical(&mut self) -> Result<(), Fault> {
        for Canonical { port, workspace } in self.engine.canonical().await? {
            // A removed workspace has released its ports, which may not be stored yet.
            if !self.followed.contains_key(&workspace) {
                continue;
            }
            let forward = self.hold(port, &workspace);
            let lost = forward.as_ref().err().cloned();
            self.canonical.0.insert(
                port,
                Held {
                    workspace: workspace.clone(),
                    forward,
                },
            );
            if let Some(problem) = lost {
                tracing::warn!(%workspace, port, problem, "a canonical port is lost");
                let mut detail = self.described(&workspace, port);
                detail["reason"] = json!(problem);
                self.emit(&workspace, "checkout.lost", detail).await;
            }
        }
        Ok(())
    }

    fn hold(&self, port: u16, workspace: &WorkspaceId) -> Result<Forward, String> {
        let bound = bind(port).map_err(|error| taken(port, error).message())?;
        Ok(self.forward(bound, port, workspace))
    }

    fn forward(&self, bound: Bound, port: u16, workspace: &WorkspaceId) -> Forward {
        let target = Target {
            workspace: workspace.clone(),
            port,
        };
        Forward::begin(bound, target, &self.inward, &self.traffic)
    }

    /// Binds ports that another program has released. Returns whether one was.
    pub(super) async fn retry_canonical(&mut self) -> bool {
        let lost = self.canonical.0.iter();
        let lost = lost.filter(|(_, held)| held.forward.is_err());
        let lost: Vec<(u16, WorkspaceId)> = lost
            .map(|(port, held)| (*port, held.workspace.clone()))
            .collect();
        let mut is_changed = false;
        for (port, workspace) in lost {
            if let Ok(bound) = bind(port) {
                let forward = Ok(self.forward(bound, port, &workspace));
                self.canonical.0.insert(
                    port,
                    Held {
                        workspace: workspace.clone(),
                        forward,
                    },
                );
                is_changed = true;
                let detail = self.described(&workspace, port);
                self.emit(&workspace, "checkout.changed", detail).await;
            }
        }
        is_changed
    }

    pub(super) async fn check_out(
        &mut self,
        id: &WorkspaceId,
        names: Option<Vec<String>>,
    ) -> Result<Vec<CheckedOut>, Fault> {
        if !self.followed.contains_key(id) {
            // The engine knows whether the workspace is in the trash.
            self.engine.spec(id).await?;
        }
        let ports = self.meant(id, names)?;
        let mut bound = HashMap::new();
        for port in &ports {
            let is_held = self
                .canonical
                .0
                .get(port)
                .is_some_and(|held| held.forward.is_ok());
            if !is_held {
                let held = bind(*port).map_err(|error| taken(*port, error))?;
                bound.insert(*port, held);
            }
        }
        let mut wanted: BTreeMap<u16, WorkspaceId> = self.stored();
        wanted.extend(ports.iter().map(|port| (*port, id.clone())));
        self.store(&wanted).await?;
        let mut answer = Vec::new();
        for port in ports {
            let before = self
                .canonical
                .0
                .get(&port)
                .map(|held| held.workspace.clone());
            let before = before.filter(|before| before != id);
            let is_new = before.is_some() || bound.contains_key(&port);
            match (self.canonical.0.get_mut(&port), bound.remove(&port)) {
                (Some(held), None) => {
                    held.workspace = id.clone();
                    if let Ok(forward) = &held.forward {
                        forward.set_target(Target {
                            workspace: id.clone(),
                            port,
                        });
                    }
                }
                (_, Some(bound)) => {
                    let forward = Ok(self.forward(bound, port, id));
                    let workspace = id.clone();
                    self.canonical.0.insert(port, Held { workspace, forward });
                }
                (None, None) => {}
            }
            let before = before.map(|before| self.holder(&before));
            if is_new {
                let mut detail = self.described(id, port);
                detail["before"] = json!(before);
                self.emit(id, "checkout.changed", detail).await;
            }
            answer.extend(self.shown(port, before));
        }
        Ok(answer)
    }

    pub(super) async fn release(&mut self) -> Result<Vec<CheckedOut>, Fault> {
        let released = self.checked_out();
        self.store(&BTreeMap::new()).await?;
        let held = std::mem::take(&mut self.canonical.0);
        for (port, held) in held {
            if let Ok(forward) = held.forward {
                forward.close().await;
            }
            let mut detail = self.described(&held.workspace, port);
            detail["released"] = json!(true);
            self.emit(&held.workspace, "checkout.changed", detail).await;
        }
        Ok(released)
    }

    /// Releases the canonical ports of a workspace that is being removed.
    pub(super) async fn give_up_canonical(&mut self, id: &WorkspaceId) {
        let held = self.canonical.0.iter();
        let held = held.filter(|(_, held)| held.workspace == *id);
        let ports: Vec<u16> = held.map(|(port, _)| *port).collect();
        if ports.is_empty() {
            return;
        }
        for port in &ports {
            if let Some(Held {
                forward: Ok(forward),
                ..
            }) = self.canonical.0.remove(port)
            {
                forward.close().await;
            }
            let mut detail = self.described(id, *port);
            detail["released"] = json!(true);
            self.emit(id, "checkout.changed", detail).await;
        }
        if let Err(fault) = self.store(&self.stored()).await {
            tracing::warn!(%id, %fault, "canonical ports of a removed workspace stay written down");
        }
    }

    pub(super) fn checked_out(&self) -> Vec<CheckedOut> {
        let ports = self.canonical.0.keys();
        ports.filter_map(|port| self.shown(*port, None)).collect()
    }

    fn stored(&self) -> BTreeMap<u16, WorkspaceId> {
        let held = self.canonical.0.iter();
        held.map(|(port, held)| (*port, held.workspace.clone()))
            .collect()
    }

    async fn store(&self, wanted: &BTreeMap<u16, WorkspaceId>) -> Result<(), Fault> {
        let wanted = wanted.iter().map(|(port, workspace)| Canonical {
            port: *port,
            workspace: workspace.clone(),
        });
        self.engine.set_canonical(wanted.collect()).await
    }

    fn shown(&self, port: u16, before: Option<Holder>) -> Option<CheckedOut> {
        let held = self.canonical.0.get(&port)?;
        let kept = self.followed.get(&held.workspace);
        Some(CanonicalPort {
            port,
            name: kept.map_or_else(|| port.to_string(), |kept| kept.name(port)),
            holder: self.holder(&held.workspace),
            before,
            problem: held.forward.as_ref().err().cloned(),
        })
    }

    fn holder(&self, id: &WorkspaceId) -> Holder {
        let kept = self.followed.get(id);
        Holder {
            workspace: id.to_string(),
            label: kept.map_or_else(String::new, |kept| kept.record.label.to_string()),
            project: kept.map_or_else(String::new, |kept| kept.project.to_string()),
        }
    }

    /// Resolves port names, without repetition.
    fn meant(&self, id: &WorkspaceId, names: Option<Vec<String>>) -> Result<Vec<u16>, Fault> {
        let kept = self.followed.get(id).ok_or_else(|| {
            let message = format!("no workspace `{id}`");
            Fault::new(
                Code::WorkspaceNotFound,
                message,
                "`holm ls` lists the workspaces",
            )
        })?;
        let label = &kept.record.label;
        let mut known: Vec<(String, u16)> = kept
            .declared()
            .iter()
            .map(|declared| (declared.name.clone(), declared.port))
            .collect();
        let Some(names) = names else {
            if known.is_empty() {
                return Err(Fault::new(
                    Code::PortNotFound,
                    format!("workspace `{label}` declares no ports"),
                    "declare them in [ports] of holm.toml, or name one that is listened on: \
                     `holm checkout WS --ports 3000`",
                ));
            }
            let mut ports: Vec<u16> = known.into_iter().map(|(_, port)| port).collect();
            ports.sort_unstable();
            ports.dedup();
            return Ok(ports);
        };
        known.sort();
        let discovered = kept
            .listening
            .iter()
            .filter(|port| !kept.is_declared(**port));
        known.extend(discovered.map(|port| (port.to_string(), *port)));
        let mut ports = Vec::new();
        if names.is_empty() || names.iter().any(String::is_empty) {
            let message = format!("the name of a port of workspace `{label}` is empty");
            let hint = format!(
                "{}; without `--ports` it takes all that it declares",
                listed(&known)
            );
            return Err(Fault::new(Code::Usage, message, hint));
        }
        for name in names {
            let found = known
                .iter()
                .find(|(known, port)| *known == name || port.to_string() == name);
            let Some((_, port)) = found else {
                let name = name.escape_debug();
                let message = format!("workspace `{label}` has no port `{name}`");
                return Err(Fault::new(Code::PortNotFound, message, listed(&known)));
            };
            if !ports.contains(port) {
                ports.push(*port);
            }
        }
        Ok(ports)
    }
}

/// The known ports, in words.
fn listed(known: &[(String, u16)]) -> String {
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        "it has no ports; declare them in [ports] of holm.toml".to_owned()
    } else {
        format!("its ports are: {}", names.join(", "))
    }
}

fn taken(port: u16, error: io::Error) -> Fault {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 belong to root; declare a higher one in [ports] of holm.toml"
        }
        _ => "end that program, or take other ports with `--ports`; nothing was changed",
    };
    if error.kind() == io::ErrorKind::AddrInUse {
        let holder = holder::of(port);
        let message = format!("port {port} of this machine is held by {holder}");
        return Fault::new(Code::PortTaken, message, hint);
    }
    let message = format!("port {port} of this machine cannot be taken");
    Fault::new(Code::PortTaken, message, hint).because(error)
}
