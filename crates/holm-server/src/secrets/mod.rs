//! `/secrets` and `/workspaces/{id}/secrets`. Values come in; no response, error or log line
//! contains one.

mod given;
mod keeping;
pub mod key;
mod standin;

pub use given::Sources;
pub use keeping::{Keeping, Values, happening};

use super::App;
use super::caller::Caller;
use super::failure::{Answer, Failure, WorkspaceKey, project_id, workspace_id};
use super::objects;
use axum::extract::{FromRequest, Request, State};
use axum::{Json, body::Bytes};
use holm_api::secret::{
    Declared, DeclaredList, Give, HandedOver, RemoveSecret, Scope, Secret, SecretList, SetSecret,
};
use holm_core::fault::with_causes;
use holm_core::plan::State as WorkspaceState;
use holm_core::secret_name;
use holm_core::spec::SecretSource;
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::try_blocking;
use holm_secrets::audit::Happening;
use holm_secrets::vault::{Entry, Scope as Kept, VaultError};
use jiff::Timestamp;
use keeping::Unread;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use zeroize::Zeroize;

operations! {
    /// What is stored, without values.
    get "/secrets" "secret_list" list -> SecretList;
    /// Stores a value.
    put "/secrets" "secret_set" set sends SetSecret -> Secret;
    /// Deletes a value, and withdraws it from workspaces.
    delete "/secrets" "secret_remove" remove sends RemoveSecret -> Secret;
    /// Takes values for a workspace that is about to be requested.
    post "/secrets/handover" "secret_hand_over" hand_over sends Give -> HandedOver;
    /// The secrets that a workspace declares, with their states.
    get "/workspaces/{id}/secrets" "workspace_secrets" declared of (WorkspaceKey) -> DeclaredList;
    /// Gives a workspace values that the client read.
    post "/workspaces/{id}/secrets" "workspace_give_secrets" give
        of (WorkspaceKey) sends Give -> DeclaredList;
}

/// The change of a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Set,
    Removed,
}

/// A JSON body with values: parse errors never quote it.
pub struct Quiet<T>(pub T);

// === impl Quiet ===

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Quiet<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|_| unreadable("it cannot be read"))?;
        let read = objects::from_slice(&bytes);
        if let Ok(mut bytes) = bytes.try_into_mut() {
            bytes.as_mut().zeroize();
        }
        read.map(Self).map_err(|error| unreadable(&why(&error)))
    }
}

/// Our own messages about a value are safe; those of the parser may quote it.
fn why(error: &serde_json::Error) -> String {
    let (text, line, column) = (error.to_string(), error.line(), error.column());
    if text.starts_with("a value cannot be used: ") {
        text
    } else {
        format!("see line {line}, column {column}")
    }
}

fn unreadable(why: &str) -> Failure {
    Failure(Fault::new(
        Code::InvalidSecret,
        format!("the request is not of the documented form: {why}"),
        "a value is UTF-8 text of 1 byte to 32 KiB without NUL",
    ))
}

async fn list(State(app): State<Arc<App>>) -> Answer<SecretList> {
    let secrets = Arc::clone(&app.secrets);
    let list = try_blocking(move || {
        secrets.with(|vault| {
            Ok(SecretList {
                secrets: vault.entries().filter_map(to_api).collect(),
                locked: vault.is_locked(),
                locked_why: match vault.check() {
                    Err(error @ VaultError::Keyring(_)) => Some(with_causes(&error)),
                    _ => None,
                },
                key: vault.storage().map(|storage| storage.as_str().to_owned()),
            })
        })
    });
    Ok(Json(list.await?))
}

async fn set(
    State(app): State<Arc<App>>,
    caller: Caller,
    Quiet(set): Quiet<SetSecret>,
) -> Answer<Secret> {
    let name = secret_name::parse(&set.name)?;
    let scope = app.scope(&set.scope).await?;
    let (secrets, kept) = (Arc::clone(&app.secrets), scope.clone());
    let (who, key) = (caller.actor(), name.clone());
    let entry = try_blocking(move || secrets.set(kept, &key, set.value, &who)).await?;
    let changed = app.renew_stored(&scope, &name, Change::Set, &caller);
    let notes = changed.await?;
    Ok(Json(Secret {
        notes,
        ..shown(&entry, set.scope)
    }))
}

async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Quiet(remove): Quiet<RemoveSecret>,
) -> Answer<Secret> {
    let name = secret_name::parse(&remove.name)?;
    let scope = kept(&remove.scope)?;
    let (secrets, place) = (Arc::clone(&app.secrets), scope.clone());
    let (who, key) = (caller.actor(), name.clone());
    let entry = try_blocking(move || secrets.remove(&place, &key, &who)).await?;
    let changed = app.renew_stored(&scope, &name, Change::Removed, &caller);
    let notes = changed.await?;
    Ok(Json(Secret {
        notes,
        ..shown(&entry, remove.scope)
    }))
}

async fn hand_over(State(app): State<Arc<App>>, Quiet(give): Quiet<Give>) -> Answer<HandedOver> {
    let handover = app.secrets.hand_over(values(give))?;
    Ok(Json(HandedOver { handover }))
}

async fn declared(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
) -> Answer<DeclaredList> {
    let spec = app.engine.spec(&id).await?;
    Ok(Json(app.declared_secrets(spec).await?))
}

async fn give(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    caller: Caller,
    Quiet(mut give): Quiet<Give>,
) -> Answer<DeclaredList> {
    let spec = app.engine.spec(&id).await?;
    let forbidden = app.forbidden_secrets(&spec)?;
    give.values.retain(|named| !forbidden.contains(&named.name));
    give.missing.extend(forbidden);
    let missing = give.missing.clone();
    app.note_refreshed(&id, caller.actor()).await?;
    app.give(
        &spec,
        values(give),
        Unread::Withdraw(missing),
        caller.actor(),
    )
    .await?;
    let notes = app.push_secrets(&id).await.err().map(in_one_line);
    Ok(Json(DeclaredList {
        notes: notes.into_iter().collect(),
        ..app.declared_secrets(spec).await?
    }))
}

pub fn values(give: Give) -> Values {
    let values = give.values.into_iter();
    values.map(|named| (named.name, named.value)).collect()
}

fn kept(scope: &Scope) -> Result<Kept, Failure> {
    Ok(match scope {
        Scope::User => Kept::User,
        Scope::Project(id) => Kept::Project(project_id(id)?.to_string()),
        Scope::Workspace(id) => Kept::Workspace(workspace_id(id)?.to_string()),
    })
}

/// `None`: not a secret that people set.
fn to_api(entry: &Entry) -> Option<Secret> {
    let scope = match &entry.scope {
        Kept::User => Scope::User,
        Kept::Project(id) => Scope::Project(id.clone()),
        Kept::Workspace(id) => Scope::Workspace(id.clone()),
        Kept::Given(_) | Kept::Installation => return None,
    };
    Some(shown(entry, scope))
}

fn shown(entry: &Entry, scope: Scope) -> Secret {
    Secret {
        name: entry.name.clone(),
        scope,
        version: entry.version,
        set_at: time(entry.set_at),
        notes: Vec::new(),
    }
}

fn in_one_line(fault: Fault) -> String {
    format!("{}; {}", fault.message(), fault.hint)
}

fn time(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).map_or_else(|_| "-".to_owned(), |time| time.to_string())
}

// === impl App ===

impl App {
    /// A scope whose project or workspace exists.
    async fn scope(&self, scope: &Scope) -> Result<Kept, Failure> {
        match scope {
            Scope::User => {}
            Scope::Project(id) => drop(self.engine.project(&project_id(id)?).await?),
            Scope::Workspace(id) => drop(self.engine.spec(&workspace_id(id)?).await?),
        }
        kept(scope)
    }

    async fn give(
        &self,
        spec: &Arc<WorkspaceSpec>,
        values: Values,
        unread: Unread,
        who: String,
    ) -> Result<(), Fault> {
        let (secrets, spec) = (Arc::clone(&self.secrets), Arc::clone(spec));
        try_blocking(move || secrets.give(&spec, &values, &unread, &who)).await
    }

    async fn note_refreshed(&self, id: &WorkspaceId, who: String) -> Result<(), Fault> {
        let (secrets, workspace) = (Arc::clone(&self.secrets), Some(id.to_string()));
        try_blocking(move || {
            secrets.note(vec![Happening {
                workspace,
                ..happening("refreshed", &who)
            }]);
            Ok(())
        })
        .await
    }

    /// Gives an existing workspace the values of a client that requested it.
    pub async fn give_again(&self, id: &WorkspaceId, values: Values, who: String) -> Option<Fault> {
        let given = async {
            let spec = self.engine.spec(id).await?;
            self.give(&spec, values, Unread::Keep, who).await?;
            self.push_secrets(id).await
        };
        given.await.err()
    }

    /// Sends the current secrets to the keeper of a running workspace.
    async fn push_secrets(&self, id: &WorkspaceId) -> Result<(), Fault> {
        let view = self.engine.show(id).await?;
        if view.state != WorkspaceState::Running {
            return Ok(());
        }
        let (secrets, spec) = (Arc::clone(&self.secrets), Arc::clone(&view.record.spec));
        let grants = try_blocking(move || secrets.grants(&spec)).await?;
        let sent = self.engine.keeper(id).await?.set_secrets(grants).await;
        sent.map_err(|fault| {
            Fault::new(
                Code::StartFailed,
                "the secrets are kept but not given yet",
                format!("`holm restart {id}` gives them"),
            )
            .because(fault)
        })
    }

    /// Updates workspaces after a stored value changed or was removed. Returns those that could not
    /// be notified.
    async fn renew_stored(
        &self,
        scope: &Kept,
        name: &str,
        change: Change,
        caller: &Caller,
    ) -> Result<Vec<String>, Fault> {
        let mut notes = Vec::new();
        for (record, _) in self.engine.names().await? {
            let is_meant = match scope {
                Kept::User => true,
                Kept::Project(id) => record.project_id.as_str() == id,
                Kept::Workspace(id) | Kept::Given(id) => record.id.as_str() == id,
                Kept::Installation => false,
            };
            // A value stored for one workspace counts there, whatever the declared source.
            let uses = |secret: &&holm_core::spec::Secret| {
                let is_stored = secret.source == SecretSource::Stored;
                secret.name == name && (is_stored || matches!(scope, Kept::Workspace(_)))
            };
            let Some(secret) = record.spec.secrets.iter().find(uses).filter(|_| is_meant) else {
                continue;
            };
            let (secrets, spec) = (Arc::clone(&self.secrets), Arc::clone(&record.spec));
            let (name, who) = (name.to_owned(), caller.actor());
            try_blocking(move || secrets.renew(&spec, &name, &who)).await?;
            notes.extend(self.push_secrets(&record.id).await.err().map(in_one_line));
            if change == Change::Removed && secret.source != SecretSource::Stored {
                let (name, label) = (&secret.name, &record.label);
                notes.push(format!(
                    "{name} is withdrawn from {label}; `holm secret refresh {label}` reads it again"
                ));
            }
        }
        Ok(notes)
    }

    async fn declared_secrets(&self, spec: Arc<WorkspaceSpec>) -> Result<DeclaredList, Failure> {
        let project = self.engine.project(&project_id(&spec.project_id)?).await?;
        let (secrets, asked) = (Arc::clone(&self.secrets), Arc::clone(&spec));
        let states = try_blocking(move || secrets.states(&asked)).await?;
        let declared = spec.secrets.iter().zip(states);
        let declared = declared.map(|(secret, (state, until))| Declared {
            name: secret.name.clone(),
            from: secret.source.clone(),
            inject: secret.inject.as_str().to_owned(),
            to: secret.to.clone(),
            state: state.to_owned(),
            expires_at: until.map(time),
        });
        Ok(DeclaredList {
            secrets: declared.collect(),
            project_path: project.path,
            notes: Vec::new(),
        })
    }

    /// Notes about secrets that are declared as stored but have no value, and about those without a
    /// receiver.
    pub async fn missing_secrets(&self, spec: &Arc<WorkspaceSpec>) -> Vec<String> {
        let (secrets, asked) = (Arc::clone(&self.secrets), Arc::clone(spec));
        if spec.secrets.is_empty() {
            return Vec::new();
        }
        // The workspace runs, even if the states are unknown.
        let states = try_blocking(move || secrets.states(&asked)).await;
        let states = states.unwrap_or_default().into_iter();
        let notes = spec.secrets.iter().zip(states);
        let notes = notes.filter_map(|(secret, (state, _))| {
            let name = &secret.name;
            if secret.to.is_empty() {
                return Some(format!(
                    "the secret {name} is given to nobody: no service serves the port that `to` names"
                ));
            }
            let is_missing = secret.source == SecretSource::Stored && state == "missing";
            is_missing.then(|| {
                format!("the secret {name} is not given: nobody stored it; `holm secret set {name}` does")
            })
        });
        notes.collect()
    }

    /// Catches up: deletes expired values, and stores lines that keepers wrote into the record.
    pub async fn settle_secrets(&self) {
        let secrets = Arc::clone(&self.secrets);
        let settled = try_blocking(move || {
            secrets.follow_record();
            secrets.expire()
        });
        if let Err(fault) = settled.await {
            tracing::warn!(%fault, "secrets whose time is up were not looked for");
        }
    }

    /// Deletes values of deleted workspaces and projects.
    pub async fn sweep_secrets(&self) {
        let swept = async {
            let projects = self.engine.projects().await?;
            let live = self.engine.names().await?;
            let trashed = self.trash().await?;
            let projects: Vec<String> = projects.iter().map(|(p, _)| p.id.to_string()).collect();
            let mut workspaces: Vec<String> = live
                .iter()
                .map(|(record, _)| record.id.to_string())
                .collect();
            workspaces.extend(trashed.into_iter().map(|workspace| workspace.id));
            let secrets = Arc::clone(&self.secrets);
            try_blocking(move || {
                secrets.sweep(|scope| match scope {
                    Kept::User | Kept::Installation => true,
                    Kept::Project(id) => projects.contains(id),
                    Kept::Workspace(id) | Kept::Given(id) => workspaces.contains(id),
                })
            })
            .await
        };
        if let Err(fault) = swept.await {
            tracing::warn!(%fault, "secrets of what is gone stay");
        }
    }
}
