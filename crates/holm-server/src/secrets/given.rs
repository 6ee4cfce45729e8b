//! What `setup` gets of the user's own: secrets with the receiver `setup`, and `setup_files`. Called when a
//! workspace is composed, because a layer that was made with other values is another layer.
//!
//! The layer's key and the stored spec have digests only, with a key of this installation: without it they
//! reveal nothing about short or guessable values.

use super::keeping::{Keeping, Owner, Values, counting, entry, is_for_setup};
use crate::App;
use crate::trust::Judged;
use holm_api::workspace::CreateWorkspace;
use holm_core::config::{Inject, Place};
use holm_core::spec::{Brought, Secret};
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use holm_keeper::files::unpack;
use holm_secrets::Value;
use holm_secrets::seal::{keyed_digest, random};
use holm_secrets::vault::{Scope, VaultError};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the key in the vault.
const NAME: &str = "layer inputs";

/// Larger files are no settings.
const LARGEST_FILE: u64 = 16 << 20;

/// Names with digests, and notes for the user.
#[derive(Default)]
pub struct InputDigests {
    pub digests: Vec<(String, String)>,
    pub notes: Vec<String>,
}

/// Where the files come from.
pub struct Sources<'a> {
    pub brought: &'a Brought,
    pub home: &'a Path,
}

// === impl App ===

impl App {
    /// What the project's setup gets.
    pub async fn given_to_setup(
        &self,
        create: &CreateWorkspace,
        project: &str,
        judged: &Judged,
        sources: Sources<'_>,
    ) -> Result<InputDigests, Fault> {
        let config = &judged.config;
        let mut secrets = crate::declared::secrets(config);
        secrets.retain(is_for_setup);
        let files = config.project.setup_files.clone();
        if config.project.setup.is_empty() || (secrets.is_empty() && files.is_empty()) {
            return Ok(InputDigests::default());
        }
        let token = create.handover.as_deref();
        let values = token.and_then(|token| self.secrets.handed_over(token));
        let (keeping, project) = (Arc::clone(&self.secrets), project.to_owned());
        let upload = sources.brought.include_tar.clone();
        let (home, copies) = (sources.home.to_owned(), judged.user.home_copies.clone());
        try_blocking(move || {
            let key = keeping.digest_key()?;
            let mut given = InputDigests::default();
            for secret in &secrets {
                let values = values.as_ref();
                given
                    .digests
                    .push(keeping.given_secret(&key, &project, secret, values)?);
            }
            for file in files {
                let content = match &file {
                    Place::Home(path) => home_file(&home.join(path), &copies)?,
                    _ => included(upload.as_deref(), &file.to_string())?,
                };
                match content {
                    Some(content) => {
                        let digest = keyed_digest(&key, &content);
                        given.digests.push((file.to_string(), digest));
                    }
                    None => given.notes.push(not_given(&file)),
                }
            }
            Ok(given)
        })
        .await
    }
}

// === impl Keeping ===

impl Keeping {
    /// The value of a placeholder never enters the setup, so it decides nothing.
    fn given_secret(
        &self,
        key: &Value,
        project: &str,
        secret: &Secret,
        values: Option<&Values>,
    ) -> Result<(String, String), Fault> {
        let name = format!("the secret {}", secret.name);
        if secret.inject == Inject::Placeholder {
            return Ok((name, secret.hosts.join(" ")));
        }
        let none = Values::new();
        let values = values.unwrap_or(&none);
        let owner = Owner {
            workspace: None,
            project,
        };
        let value = self.with(|vault| counting(vault, owner, secret, values))?;
        let digest = value.map(|value| keyed_digest(key, value.reveal().as_bytes()));
        Ok((name, digest.unwrap_or_default()))
    }

    /// Created when the first setup needs it.
    fn digest_key(&self) -> Result<Value, Fault> {
        self.with(|vault| {
            if let Some((_, key)) = vault.get(&Scope::Installation, NAME)? {
                return Ok(key);
            }
            let bytes = random::<32>().map_err(|_| VaultError::Damaged)?;
            let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let key = Value::parse(text.into_bytes()).map_err(|_| VaultError::Damaged)?;
            vault.put(vec![(entry(Scope::Installation, NAME, None), key.clone())])?;
            Ok(key)
        })
    }
}

fn not_given(file: &Place) -> String {
    let place = match file {
        Place::Home(_) => "`[home] copy` of your config.toml brings no such file",
        Place::Project(_) | Place::Absolute(_) => "`include` brings no such file",
    };
    format!("`setup` does not get {file}: {place}")
}

/// `None`: workspaces do not get it.
fn home_file(path: &PathBuf, copies: &[PathBuf]) -> Result<Option<Vec<u8>>, Fault> {
    if !copies.contains(path) || !path.is_file() {
        return Ok(None);
    }
    let read = fs::metadata(path).and_then(|metadata| match metadata.len() {
        0..=LARGEST_FILE => fs::read(path),
        _ => Err(io::Error::from(io::ErrorKind::FileTooLarge)),
    });
    read.map(Some)
        .map_err(|error| unreadable(&path.display().to_string(), error))
}

/// The content of an included file, or of every file of a directory.
fn included(upload: Option<&Path>, wanted: &str) -> Result<Option<Vec<u8>>, Fault> {
    let Some(upload) = upload else {
        return Ok(None);
    };
    let content = unpack::contents(upload, Path::new(wanted), LARGEST_FILE);
    content.map_err(|error| unreadable(wanted, error))
}

fn unreadable(what: &str, error: io::Error) -> Fault {
    let message = format!("cannot read {what}, which `setup` gets");
    let hint = "`setup_files` of holm.toml names it";
    Fault::new(Code::InvalidConfig, message, hint).because(error)
}
