//! Reads the `devcontainer.json` of a checkout as `holm up` would read that of its commit. No value of the user's environment
//! becomes a part of the proposal.

use super::compose::Place;
use super::{open, read};
use crate::compose::Unread;
use crate::devcontainer::{PLACES, collect};
use crate::project::{parse, parse_with};
use holm_core::compose::ComposeFiles;
use holm_core::detect::{Contained, Found};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// The file that the checkout has, if any. Of several below `.devcontainer`, a person chooses.
pub fn read_container(place: &Place<'_>, found: &Found) -> Option<Contained> {
    let has = |path: &str| found.listing.contains(path);
    let file = match PLACES.into_iter().find(|path| has(path)) {
        Some(path) => path.to_owned(),
        None => {
            let mut below = found.listing.iter().filter(|path| is_below(path));
            let only = below.next()?.clone();
            if below.next().is_some() {
                return None;
            }
            only
        }
    };
    let holm_toml = format!("[project]\ndevcontainer = {file:?}\n");
    let named = parse(&holm_toml, "holm.toml").ok()?;
    let everything = ComposeFiles {
        root: place.toplevel.display().to_string(),
        environment: place.environment.clone(),
        ..ComposeFiles::default()
    };
    let files = collect(&named, &everything, &mut |path| {
        if let Err(Errno::NOENT) = open(place.root, path, OFlags::empty()) {
            return Err(Unread::Missing);
        }
        read(place.root, path).map_err(Unread::Because)
    });
    let mut contained = Contained {
        file,
        ..Contained::default()
    };
    match parse_with(&holm_toml, "holm.toml", &files) {
        Ok(config) => {
            let builds = config.image_builds().map(|(name, build)| {
                let file = build.file();
                format!("`services.{name}.build`: your docker, podman or buildah builds an image from {file}")
            });
            contained.requests = builds.collect();
            let requests = config.compose.requests.into_iter();
            let requests = requests.map(|it| {
                let at = it.at;
                format!("{}:{}: {}", at.file, at.line, at.words)
            });
            contained.requests.extend(requests);
            contained.compose = config.project.compose;
        }
        Err(fault) => {
            let text = fault.message().to_owned();
            // Without the lines that show the place.
            let lines = text.lines().filter(|line| !line.starts_with(' '));
            contained.errors = lines.map(str::to_owned).collect();
        }
    }
    Some(contained)
}

/// `.devcontainer/NAME/devcontainer.json`.
fn is_below(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts.as_slice(), [".devcontainer", _, "devcontainer.json"])
}
