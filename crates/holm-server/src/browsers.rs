//! `/workspaces/{id}/browser`: the SOCKS endpoint of a workspace's browser.
//!
//! Created on request, on a port of 127.0.0.1 that stays the same over restarts of the daemon, so
//! that an open browser goes on. The profiles are in the data directory and are deleted with their
//! workspace.

use super::App;
use super::door::replace;
use super::failure::{Answer, WorkspaceKey};
use super::routes::Inward;
use crate::headless;
use axum::Json;
use axum::extract::State;
use holm_api::browser::Browser;
use holm_core::{Code, Fault, WorkspaceId};
use holm_proxy::{Traffic, socks};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

/// All endpoints of this daemon.
pub struct Browsers {
    /// The ports by workspace, for the next daemon.
    file: PathBuf,
    profiles: PathBuf,
    open: Mutex<BTreeMap<String, Endpoint>>,
}

struct Endpoint {
    port: u16,
    serving: AbortHandle,
}

const PAUSE: Duration = Duration::from_millis(50);

operations! {
    /// Where a browser finds the workspace's world.
    post "/workspaces/{id}/browser" "workspace_browser" open of (WorkspaceKey) -> Browser;
}

async fn open(State(app): State<Arc<App>>, WorkspaceKey(id): WorkspaceKey) -> Answer<Browser> {
    // Fails if the workspace does not exist.
    app.engine.show(&id).await?;
    let port = app.browsers.open(&id, app.routes.inward())?;
    Ok(Json(Browser { port }))
}

// === impl App ===

impl App {
    pub async fn resume_browsers(&self) -> Result<(), Fault> {
        let names = self.engine.names().await?;
        let live: Vec<WorkspaceId> = names.into_iter().map(|(record, _)| record.id).collect();
        self.browsers.resume(&live, self.routes.inward());
        Ok(())
    }

    /// Ends headless browsers of workspaces that are not live, and deletes data of those that are
    /// not in the trash either.
    pub async fn sweep_browsers(&self) {
        let known = async {
            let live = self.engine.names().await?.into_iter();
            let trash = self.engine.trash().await?.into_iter();
            let live: HashSet<WorkspaceId> = live.map(|(record, _)| record.id).collect();
            let trash: HashSet<WorkspaceId> = trash.map(|view| view.record.id).collect();
            Ok::<_, Fault>((live, trash))
        };
        match known.await {
            Ok((live, trash)) => {
                let is_live = live.clone();
                self.end_browsers(move |id| !is_live.iter().any(|live| live.as_str() == id))
                    .await;
                self.browsers.sweep(&live.union(&trash).cloned().collect());
            }
            Err(fault) => tracing::warn!(%fault, "profiles of browsers were not looked through"),
        }
    }

    /// Ends the headless browsers of these workspaces that belong to the daemon's user.
    pub async fn end_browsers(&self, is_meant: impl Fn(&str) -> bool + Send + 'static) {
        let profiles = self.browsers.profiles.clone();
        let ended = tokio::task::spawn_blocking(move || headless::end(&profiles, &is_meant));
        if let Err(error) = ended.await {
            tracing::warn!(%error, "browsers were not ended");
        }
    }
}

// === impl Browsers ===

impl Browsers {
    pub fn new(data_dir: &Path) -> Self {
        Self {
            file: data_dir.join("browsers.json"),
            profiles: data_dir.join("browsers"),
            open: Mutex::default(),
        }
    }

    /// Reopens the endpoints of an earlier daemon, for existing workspaces.
    pub fn resume(&self, live: &[WorkspaceId], inward: &Inward) {
        let remembered = self.remembered();
        for id in live
            .iter()
            .filter(|id| remembered.contains_key(id.as_str()))
        {
            if let Err(fault) = self.open(id, inward) {
                tracing::warn!(%id, %fault, "a browser has no way into its workspace");
            }
        }
    }

    /// Removes endpoints and profiles of deleted workspaces.
    pub fn sweep(&self, known: &HashSet<WorkspaceId>) {
        let is_known = |id: &str| known.iter().any(|known| known.as_str() == id);
        self.locked().retain(|id, endpoint| {
            let stays = is_known(id);
            if !stays {
                endpoint.serving.abort();
            }
            stays
        });
        self.remember();
        sweep_profiles(&self.profiles, &is_known);
    }

    /// The port of a workspace's endpoint, which is open when this returns.
    fn open(&self, id: &WorkspaceId, inward: &Inward) -> Result<u16, Fault> {
        let remembered = self.remembered().get(id.as_str()).copied();
        let mut open = self.locked();
        if let Some(endpoint) = open.get(id.as_str()) {
            return Ok(endpoint.port);
        }
        let listener = listen(remembered).map_err(|error| {
            let message = format!("cannot listen for the browser of {id}");
            Fault::new(Code::Internal, message, "try again in a moment").because(error)
        })?;
        let (listener, port) = listener;
        let traffic = inward.traffic().clone();
        let serving = tokio::spawn(accept(listener, id.clone(), inward.clone(), traffic));
        let serving = serving.abort_handle();
        open.insert(id.to_string(), Endpoint { port, serving });
        drop(open);
        self.remember();
        Ok(port)
    }

    fn remembered(&self) -> BTreeMap<String, u16> {
        let text = std::fs::read(&self.file).unwrap_or_default();
        // The ports are remembered only for convenience: without the file there are new ones.
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn remember(&self) {
        let ports: BTreeMap<String, u16> = self
            .locked()
            .iter()
            .map(|(id, endpoint)| (id.clone(), endpoint.port))
            .collect();
        if ports == self.remembered() {
            return;
        }
        let text = serde_json::to_vec(&ports).unwrap_or_default();
        if let Err(error) = replace(&self.file, &text) {
            tracing::warn!(%error, "the ports of browsers are not remembered");
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Endpoint>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deletes the profiles of unknown workspaces.
pub fn sweep_profiles(directory: &Path, is_known: &dyn Fn(&str) -> bool) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let is_workspace = |name: &str| WorkspaceId::parse(name).is_ok() && !is_known(name);
        if name.to_str().is_some_and(is_workspace)
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::warn!(%error, profile = %entry.path().display(), "not deleted");
        }
    }
}

/// On the earlier port, or on any free one.
fn listen(remembered: Option<u16>) -> io::Result<(TcpListener, u16)> {
    let bind = |port: u16| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = match remembered.map(bind) {
        Some(Ok(listener)) => listener,
        _ => bind(0)?,
    };
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok((TcpListener::from_std(listener)?, port))
}

async fn accept(listener: TcpListener, id: WorkspaceId, inward: Inward, traffic: Traffic) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (inward, id, traffic) = (inward.clone(), id.clone(), traffic.clone());
                connections.spawn(socks::serve(stream, inward, id, traffic));
            }
            Err(error) => {
                tracing::warn!(%error, %id, "a browser cannot connect");
                tokio::time::sleep(PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}
