//! Reads the Compose file of a checkout as `holm up` would read that of its commit.
//!
//! A proposal is written into the repository, so no value of the user's environment and of ignored files becomes a part
//! of it.

use super::{open, read};
use crate::compose::{Unread, services};
use holm_core::compose::{ComposeFiles, Reading};
use holm_core::compose_services::Translated;
use holm_core::detect::{Composition, Found, compose_file};
use holm_core::image_build::{Dockerfile, downloader};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// Where the checkout is read.
pub struct Place<'a> {
    pub toplevel: &'a Path,
    pub root: &'a File,
    /// The user's variables.
    pub environment: &'a BTreeMap<String, String>,
}

/// What a reading may use besides the files of a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum With {
    Nothing,
    IgnoredFiles,
    Variables,
    Both,
}

struct Attempt {
    read: Result<(Reading, Translated), Vec<String>>,
    /// The ignored files that it asked for.
    ignored: Vec<String>,
}

/// The file that the checkout has, if any.
pub fn read_composition(place: &Place<'_>, found: &Found) -> Option<Composition> {
    let file = compose_file(found)?;
    let first = attempt(place, found, &file, With::Nothing);
    let (reading, translated) = match first.read {
        Ok(read) => read,
        Err(errors) => {
            let others = [With::IgnoredFiles, With::Variables, With::Both].into_iter();
            let mut others = others.map(|with| attempt(place, found, &file, with));
            let settled = others.find(|attempt| attempt.read.is_ok());
            let Some(Attempt {
                read: Ok((mut reading, translated)),
                ignored,
            }) = settled
            else {
                return Some(Composition {
                    file,
                    errors,
                    ..Composition::default()
                });
            };
            for service in reading.stack.services.values_mut() {
                service.environment.clear();
                service.command = None;
            }
            let requests = reading.requests.iter();
            let requests =
                requests.map(|it| format!("{}:{}: `{}`", it.at.file, it.at.line, it.key));
            return Some(Composition {
                requests: requests.collect(),
                downloads: downloads(place, &translated),
                file,
                stack: reading.stack,
                translated,
                included: ignored,
                errors: Vec::new(),
            });
        }
    };
    // Which variables it reads is no secret.
    let all = attempt(place, found, &file, With::Variables).read;
    let variables = all.map_or(Vec::new(), |(reading, _)| reading.requests);
    let variables = variables
        .into_iter()
        .filter(|it| it.key.starts_with(services::ENVIRONMENT));
    let requests = reading.requests.into_iter().chain(variables);
    let requests = requests.map(|it| format!("{}:{}: {}", it.at.file, it.at.line, it.at.words));
    Some(Composition {
        requests: requests.collect(),
        downloads: downloads(place, &translated),
        file,
        stack: reading.stack,
        translated,
        included: Vec::new(),
        errors: Vec::new(),
    })
}

/// The services whose image is built without a network by commands that want one.
fn downloads(place: &Place<'_>, translated: &Translated) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, service) in &translated.services {
        let build = service
            .image
            .as_ref()
            .and_then(|image| image.build.as_ref());
        let Some(build) = build.filter(|build| !build.network) else {
            continue;
        };
        let text = match &build.dockerfile {
            Dockerfile::File(path) => read(place.root, path).ok(),
            Dockerfile::Inline(text) => Some(text.clone()),
        };
        if let Some(program) = text.as_deref().and_then(downloader) {
            let reason = format!(
                "{} runs {program}, and a build has no network without your approval",
                build.file()
            );
            found.push((name.to_string(), reason));
        }
    }
    found
}

fn attempt(place: &Place<'_>, found: &Found, file: &str, with: With) -> Attempt {
    let has_variables = matches!(with, With::Variables | With::Both);
    let environment = if has_variables {
        place.environment.clone()
    } else {
        BTreeMap::new()
    };
    let caller = ComposeFiles {
        root: place.toplevel.display().to_string(),
        environment,
        ..ComposeFiles::default()
    };
    let mut ignored = Vec::new();
    let read = services::preview(file, &caller, &mut |path| {
        let is_listed =
            |it: &String| it == path || (it.ends_with('/') && path.starts_with(it.as_str()));
        let is_ignored = found.ignored.iter().any(is_listed);
        if is_ignored && !matches!(with, With::IgnoredFiles | With::Both) {
            return Err(Unread::Missing);
        }
        if let Err(Errno::NOENT) = open(place.root, path, OFlags::empty()) {
            return Err(Unread::Missing);
        }
        let text = read(place.root, path).map_err(|why| {
            // The reader says what: `the file is not UTF-8 text`.
            Unread::Because(why.trim_start_matches("it ").to_owned())
        })?;
        if is_ignored && !ignored.iter().any(|it| it == path) {
            ignored.push(path.to_owned());
        }
        Ok(text)
    });
    Attempt { read, ignored }
}
