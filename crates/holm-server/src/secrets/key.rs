//! The master key, the secrets record, and export and import.

use super::super::App;
use super::super::caller::Caller;
use super::super::failure::{Answer, Parameters, bad_request};
use super::keeping::{about, happening};
use super::{Change, Quiet, to_api};
use axum::Json;
use axum::extract::State;
use holm_api::secret::{
    Audit, Export, Exported, Import, Imported, KeepIn, KeyState, RotateKey, Unlock,
};
use holm_core::fitness::Check;
use holm_core::secret_name;
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use holm_secrets::parcel::{self, Packed};
use holm_secrets::vault::{Entry, Scope, Vault};
use holm_secrets::{KeyError, KeyStorage, Protection};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::IntoParams;

operations! {
    /// Seals everything with a new key.
    post "/secrets/rotate-key" "secret_rotate_key" rotate sends RotateKey -> KeyState;
    /// Takes the passphrase of the key, or lets the desktop ask for the keyring's.
    post "/secrets/unlock" "secret_unlock" unlock sends Unlock -> KeyState;
    /// The secrets record.
    get "/secrets/audit" "secret_audit" audit of (Which) -> Audit;
    /// Exports stored values, encrypted with a passphrase.
    post "/secrets/export" "secret_export" export sends Export -> Exported;
    /// Imports values that were exported elsewhere.
    post "/secrets/import" "secret_import" import sends Import -> Imported;
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    #[serde(default)]
    verify: bool,
}

async fn rotate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Quiet(rotate): Quiet<RotateKey>,
) -> Answer<KeyState> {
    let secrets = Arc::clone(&app.secrets);
    let state = try_blocking(move || {
        let storage = secrets.with(|vault| Ok(vault.storage()))?;
        let protection = match (rotate.passphrase, rotate.keep_in, storage) {
            (Some(passphrase), None, _) => Some(Protection::Passphrase(passphrase)),
            (Some(_), Some(_), _) => {
                return Err(bad_request("`passphrase` and `keep_in` exclude each other").0);
            }
            (None, Some(KeepIn::Keyring), _) => Some(Protection::Keyring),
            (None, Some(KeepIn::File), _) => Some(Protection::File),
            // A passphrase is never removed implicitly.
            (None, None, Some(KeyStorage::Passphrase)) if !rotate.without_passphrase => {
                return Err(Fault::new(
                    Code::Refused,
                    "the key is behind a passphrase, and the new one would not be",
                    "`holm secret rotate-key --passphrase` asks for one; \
                     `--without-passphrase` goes without",
                ));
            }
            (None, None, Some(KeyStorage::Keyring)) => Some(Protection::Keyring),
            (None, None, Some(KeyStorage::File)) => Some(Protection::File),
            (None, None, Some(KeyStorage::Passphrase) | None) => None,
        };
        secrets.rotate(protection.as_ref(), &caller.actor())?;
        secrets.with(|vault| Ok(key_state(vault)))
    });
    Ok(Json(state.await?))
}

fn key_state(vault: &Vault) -> KeyState {
    KeyState {
        sealed: vault.entries().count(),
        passphrase: vault.storage() == Some(KeyStorage::Passphrase),
        key: vault.storage().map(|storage| storage.as_str().to_owned()),
    }
}

async fn unlock(
    State(app): State<Arc<App>>,
    caller: Caller,
    Quiet(unlock): Quiet<Unlock>,
) -> Answer<KeyState> {
    let secrets = Arc::clone(&app.secrets);
    let state = try_blocking(move || {
        secrets.unlock(unlock.passphrase.as_ref(), &caller.actor())?;
        secrets.with(|vault| Ok(key_state(vault)))
    });
    Ok(Json(state.await?))
}

async fn audit(State(app): State<Arc<App>>, Parameters(which): Parameters<Which>) -> Answer<Audit> {
    let secrets = Arc::clone(&app.secrets);
    let audit = try_blocking(move || {
        let verified = if which.verify {
            Some(secrets.verify()?)
        } else {
            None
        };
        Ok(Audit {
            audit: secrets.audit()?,
            intact: verified.as_ref().map(Result::is_ok),
            broken: verified.and_then(Result::err).map(|why| why.to_string()),
        })
    });
    Ok(Json(audit.await?))
}

async fn export(
    State(app): State<Arc<App>>,
    caller: Caller,
    Quiet(export): Quiet<Export>,
) -> Answer<Exported> {
    let projects = app.project_names().await?;
    let secrets = Arc::clone(&app.secrets);
    let exported = try_blocking(move || {
        let packed = secrets.with(|vault| {
            let mut packed = Vec::new();
            let entries: Vec<Entry> = vault.entries().cloned().collect();
            for entry in entries {
                let project = match &entry.scope {
                    Scope::User => None,
                    Scope::Project(id) => projects.get(id).cloned(),
                    // They have no meaning on another machine.
                    Scope::Workspace(_) | Scope::Given(_) | Scope::Installation => continue,
                };
                if let Some((_, value)) = vault.get(&entry.scope, &entry.name)? {
                    let name = entry.name;
                    packed.push(Packed {
                        name,
                        project,
                        value,
                    });
                }
            }
            Ok(packed)
        })?;
        let parcel = parcel::pack(&export.passphrase, &packed).map_err(fault)?;
        secrets.note(vec![happening("exported", &caller.actor())]);
        Ok(Exported {
            parcel,
            secrets: packed.len(),
        })
    });
    Ok(Json(exported.await?))
}

async fn import(
    State(app): State<Arc<App>>,
    caller: Caller,
    Quiet(import): Quiet<Import>,
) -> Answer<Imported> {
    let projects = app.project_names().await?;
    let (secrets, who) = (Arc::clone(&app.secrets), caller.actor());
    let imported = try_blocking(move || {
        let packed = parcel::unpack(&import.passphrase, &import.parcel);
        let packed = packed.map_err(fault)?;
        let (mut entries, mut left_out) = (Vec::new(), Vec::new());
        for Packed {
            name,
            project,
            value,
        } in packed
        {
            let mut known = projects.iter();
            let scope = match &project {
                None => Some(Scope::User),
                Some(project) => known
                    .find(|(_, name)| *name == project)
                    .map(|(id, _)| Scope::Project(id.clone())),
            };
            match scope {
                Some(scope) => {
                    let entry = secrets.set(scope, &secret_name::parse(&name)?, value, &who)?;
                    secrets.note(vec![about(&entry, "imported", &who)]);
                    entries.push(entry);
                }
                None => left_out.push(format!("{}/{name}", project.unwrap_or_default())),
            }
        }
        Ok((entries, left_out))
    });
    let (entries, left_out) = imported.await?;
    let mut notes = Vec::new();
    for entry in &entries {
        let renewed = app.renew_stored(&entry.scope, &entry.name, Change::Set, &caller);
        notes.extend(renewed.await?);
    }
    Ok(Json(Imported {
        secrets: entries.iter().filter_map(to_api).collect(),
        left_out,
        notes,
    }))
}

fn fault(error: KeyError) -> Fault {
    match error {
        KeyError::WrongPassphrase => Fault::of(
            Code::WrongPassphrase,
            error,
            "type the passphrase that it was exported with",
        ),
        _ => Fault::new(
            Code::InvalidSecret,
            "this is no file of exported secrets",
            "`holm secret export FILE` makes one",
        ),
    }
}

// === impl App ===

impl App {
    /// Where the key of the secrets is, and whether it is available.
    pub async fn check_of_key(&self) -> Check {
        let secrets = Arc::clone(&self.secrets);
        let found = try_blocking(move || {
            let place = secrets.with(|vault| {
                vault.check()?;
                Ok(vault.storage())
            })?;
            Ok(match place {
                Some(KeyStorage::Keyring) => "the key is in the keyring of your desktop".to_owned(),
                Some(KeyStorage::Passphrase) => "the key is behind a passphrase".to_owned(),
                Some(KeyStorage::File) => "the key is in a file that only you may read".to_owned(),
                None => format!("the first one makes a key, {}", secrets.first_place()),
            })
        });
        let (detail, fix) = match found.await {
            Ok(detail) => (detail, None),
            Err(fault) => (fault.message(), Some(fault.hint)),
        };
        Check::optional("stored secrets", detail, fix)
    }

    /// By id.
    async fn project_names(&self) -> Result<BTreeMap<String, String>, Fault> {
        let projects = self.engine.projects().await?.into_iter();
        let names = projects.map(|(project, _)| (project.id.to_string(), project.name.to_string()));
        Ok(names.collect())
    }
}
