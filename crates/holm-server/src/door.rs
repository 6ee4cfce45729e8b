//! The front door of this daemon: its port, and what it remembers.
//!
//! Opened before the daemon reports that it is ready, so that a taken port is an error of the
//! command that started it. Two small files in the data directory store the port, so that addresses
//! stay, and the workspace last seen at each site, so that browsers are cleared for a new one.

use super::App;
use super::caller::Way;
use super::dashboard;
use super::guests;
use super::routes::holder;
use super::startup::unusable;
use axum::Router;
use holm_config::paths::Paths;
use holm_core::{Code, Fault, WorkspaceId};
use holm_proxy::forward::{Bound, bind};
use holm_proxy::front::{BodyError, Daemon, DoorLimits, Front, Generation, Hooks};
use http_body_util::BodyExt;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A bound front door that is not served yet.
pub struct Door {
    bound: Bound,
    port: u16,
}

/// The default port.
const USUAL: u16 = 7070;

/// Tried when the default is taken.
const NEXT: RangeInclusive<u16> = USUAL..=7099;

/// Tried when so many daemons run that all of these are taken too.
const BEYOND: RangeInclusive<u16> = 7100..=7999;

/// The last workspace of each site.
struct Sites {
    file: PathBuf,
    known: Mutex<Known>,
}

#[derive(Default, Serialize, Deserialize)]
struct Known {
    sites: HashMap<String, SiteRecord>,
    /// The file could not be read once, so every site may have had another workspace.
    #[serde(default)]
    is_incomplete: bool,
}

#[derive(Serialize, Deserialize)]
struct SiteRecord {
    workspace: String,
    /// Whether it had another one before.
    again: bool,
}

// === impl Door ===

impl Door {
    /// Binds the requested port, or the one that this daemon had, or the next free one.
    pub fn open(paths: &Paths, home: &Path) -> Result<Self, Fault> {
        if let Some(port) = asked_for(paths, home) {
            let bound = bind(port).map_err(|error| taken(port, error))?;
            return Ok(Self { bound, port });
        }
        let file = paths.data_dir.join("front-door");
        let remembered = std::fs::read_to_string(&file).ok();
        let remembered = remembered.and_then(|text| text.trim().parse::<u16>().ok());
        for port in remembered.into_iter().chain(NEXT).chain(BEYOND) {
            let Ok(bound) = bind(port) else {
                continue;
            };
            if remembered != Some(port) {
                replace(&file, format!("{port}\n").as_bytes())
                    .map_err(|error| unusable("write", &file, error))?;
            }
            return Ok(Self { bound, port });
        }
        let error = io::Error::from(ErrorKind::AddrInUse);
        let message = format!(
            "{}, and all others up to {} are taken too",
            taken(USUAL, error),
            BEYOND.end()
        );
        let hint = "name a port that is free: `export HOLM_PORT=8070`";
        Err(Fault::new(Code::PortTaken, message, hint))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Serves the workspaces of these routes for as long as it is polled.
    pub fn serve(self, app: &Arc<App>, api: &Router) -> impl Future<Output = ()> + use<> {
        let sites = Arc::new(Sites::open(app.paths.data_dir.join("sites.json")));
        let (routes, metrics) = (app.routes.clone(), Arc::clone(&app.metrics));
        let traffic = routes.inward().traffic().clone();
        let hooks = Hooks {
            used: Arc::new(move |id| traffic.note(id)),
            generations: Arc::new(move |site, id| sites.generation(site, id)),
            answered: Arc::new(move |status| metrics.count_at_the_front_door(status)),
            daemon: Some(daemon(Arc::clone(app), api.clone())),
        };
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let (inward, table) = (routes.inward().clone(), routes.table().clone());
        let limits = DoorLimits::for_files(files);
        let front = Front::new(inward, table, hooks, self.port, limits);
        front.serve(self.bound.into_listeners())
    }
}

/// The dashboard and the API, as the front door calls them.
fn daemon(app: Arc<App>, api: Router) -> Daemon {
    Arc::new(move |request, sever| {
        if let Some(page) = dashboard::page::answer(&app, &request) {
            let page = page.map(|body| body.map_err(BodyError::from).boxed_unsync());
            return Box::pin(async move { page });
        }
        let answer = guests::answer(api.clone(), Way::Door(sever), request);
        Box::pin(async move {
            let answer = answer.await.unwrap_or_else(|never| match never {});
            answer.map(|body| body.map_err(BodyError::from).boxed_unsync())
        })
    })
}

/// The port of `HOLM_PORT` or of the settings.
fn asked_for(paths: &Paths, home: &Path) -> Option<u16> {
    if let Some(port) = paths.port {
        return Some(port.get());
    }
    match holm_config::user::load(&paths.config_file, home) {
        Ok(settings) => settings.port.map(|port| port.get()),
        Err(fault) => {
            // Every command that needs a setting reports the error to the user.
            tracing::warn!(%fault, "settings are not understood; the front door is where it was");
            None
        }
    }
}

fn taken(port: u16, error: io::Error) -> Fault {
    if error.kind() != ErrorKind::AddrInUse {
        let message = format!("the front door cannot have port {port}");
        let hint = "name another one: `export HOLM_PORT=8070`, or port in [daemon] of config.toml";
        return Fault::new(Code::PortTaken, message, hint).because(error);
    }
    let message = format!(
        "port {port}, which the front door should have, is held by {}",
        holder::of(port)
    );
    let hint = "end that program, or name another port: `export HOLM_PORT=8070`, or port in [daemon] of config.toml";
    Fault::new(Code::PortTaken, message, hint)
}

/// Replaces a file atomically.
pub fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    let mut written = tempfile::NamedTempFile::new_in(directory)?;
    io::Write::write_all(&mut written, content)?;
    written.persist(file).map_err(|error| error.error)?;
    Ok(())
}

// === impl Sites ===

impl Sites {
    fn open(file: PathBuf) -> Self {
        let known = match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Known::default()),
            Err(error) => Err(error),
        };
        let known = known.unwrap_or_else(|error| {
            tracing::warn!(%error, file = %file.display(), "browsers are told to forget every site");
            Known {
                is_incomplete: true,
                ..Known::default()
            }
        });
        Self {
            file,
            known: Mutex::new(known),
        }
    }

    /// Whether another workspace had the site before; records this one.
    fn generation(&self, site: &str, id: &WorkspaceId) -> Generation {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let again = match known.sites.get(site) {
            Some(seen) if seen.workspace == id.as_str() => return generation(seen.again),
            Some(_) => true,
            None => known.is_incomplete,
        };
        let workspace = id.to_string();
        let seen = SiteRecord { workspace, again };
        known.sites.insert(site.to_owned(), seen);
        // Known structures serialise.
        let text = serde_json::to_vec(&*known).unwrap_or_default();
        if let Err(error) = replace(&self.file, &text) {
            tracing::warn!(%error, file = %self.file.display(), "a site is not remembered");
        }
        generation(again)
    }
}

fn generation(again: bool) -> Generation {
    if again {
        Generation::Later
    } else {
        Generation::First
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_remembers_who_had_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sites.json");
        let [first, second] = [WorkspaceId::random(), WorkspaceId::random()];
        let sites = Sites::open(file.clone());
        assert_eq!(sites.generation("a", &first), Generation::First);
        assert_eq!(sites.generation("a", &first), Generation::First);
        assert_eq!(sites.generation("b", &second), Generation::First);
        assert_eq!(sites.generation("a", &second), Generation::Later);
        // The next daemon knows it too.
        let sites = Sites::open(file.clone());
        assert_eq!(sites.generation("a", &second), Generation::Later);
        assert_eq!(sites.generation("b", &second), Generation::First);
        assert_eq!(sites.generation("a", &first), Generation::Later);
        std::fs::write(&file, "not json").unwrap();
        let sites = Sites::open(file);
        assert_eq!(sites.generation("c", &first), Generation::Later);
    }
}
