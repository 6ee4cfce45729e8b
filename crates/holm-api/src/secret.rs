//! Secrets on the wire. Values are only sent to the daemon: no response contains one.
//!
//! - `GET /secrets` → [`SecretList`]; `PUT` ([`SetSecret`]) → [`Secret`]; `DELETE`
//!   ([`RemoveSecret`])
//!   → [`Secret`]
//! - `GET /workspaces/{id}/secrets` → [`DeclaredList`]; `POST` ([`Give`]) → [`DeclaredList`]
//! - `POST /secrets/handover` ([`Give`]) → [`HandedOver`]: for the next `POST /workspaces`
//! - `POST /secrets/rotate-key` ([`RotateKey`]) and `/secrets/unlock` ([`Unlock`]) → [`KeyState`]
//! - `GET /secrets/audit?verify=true` → [`Audit`]
//! - `POST /secrets/export` ([`Export`]) → [`Exported`]; `/secrets/import` ([`Import`]) →
//!   [`Imported`]

use holm_core::spec::SecretSource;
use holm_secrets::Value;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The owner of a stored value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SecretScope)]
pub enum Scope {
    /// For every project of the user, unless the project has its own value.
    User,
    /// A project's id.
    Project(String),
    /// A workspace's id; overrides the project's value.
    Workspace(String),
}

/// A stored secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    pub name: String,
    pub scope: Scope,
    /// Increases with every value.
    pub version: u64,
    pub set_at: String,
    /// Workspaces that could not be notified yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretList {
    pub secrets: Vec<Secret>,
    /// No value can be read or stored now: the key is encrypted with a passphrase that was not
    /// entered yet, or the keyring does not return it.
    pub locked: bool,
    /// The reason, if the keyring is the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_why: Option<String>,
    /// Where the key is: keyring, file, passphrase; `null` before it exists.
    #[schema(required)]
    pub key: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSecret {
    pub name: String,
    pub scope: Scope,
    #[schema(value_type = String)]
    pub value: Value,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveSecret {
    pub name: String,
    pub scope: Scope,
}

/// One value that the client read.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NamedSecret)]
pub struct Named {
    pub name: String,
    #[schema(value_type = String)]
    pub value: Value,
}

/// Values that the client read for a workspace.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GiveSecrets)]
pub struct Give {
    pub values: Vec<Named>,
    /// Secrets that no longer have a value; they are withdrawn.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// The one-time name of the values that were handed over.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HandedOver {
    pub handover: String,
}

/// A secret that a workspace declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeclaredSecret)]
pub struct Declared {
    pub name: String,
    pub from: SecretSource,
    /// env file
    pub inject: String,
    pub to: Vec<String>,
    /// given missing expired
    pub state: String,
    #[schema(required)]
    pub expires_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeclaredList {
    pub secrets: Vec<Declared>,
    /// The path of the user's own repository, to which file sources are relative.
    pub project_path: String,
    /// Values that are stored but not given to the workspace yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A new key, with a passphrase or not. If nothing is set, it is stored where the old one was.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKey {
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub passphrase: Option<Value>,
    /// Remove the passphrase.
    #[serde(default)]
    pub without_passphrase: bool,
    #[serde(default)]
    pub keep_in: Option<KeepIn>,
}

/// Where a key without a passphrase is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = KeepKeyIn)]
pub enum KeepIn {
    Keyring,
    File,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UnlockSecrets)]
pub struct Unlock {
    /// Not needed for a key in the keyring: the desktop asks for the keyring's own password.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub passphrase: Option<Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ExportSecrets)]
pub struct Export {
    #[schema(value_type = String)]
    pub passphrase: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyState {
    /// How many values are sealed with the key.
    pub sealed: usize,
    pub passphrase: bool,
    /// Where it is: keyring, file, passphrase; `null` before it exists.
    #[schema(required)]
    pub key: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ExportedSecrets)]
pub struct Exported {
    /// Can be opened only with the passphrase.
    pub parcel: String,
    pub secrets: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ImportSecrets)]
pub struct Import {
    #[schema(value_type = String)]
    pub passphrase: Value,
    pub parcel: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ImportedSecrets)]
pub struct Imported {
    pub secrets: Vec<Secret>,
    /// Values of projects that this daemon does not know.
    pub left_out: Vec<String>,
    /// Workspaces that could not be notified.
    #[serde(default)]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SecretAudit)]
pub struct Audit {
    #[schema(value_type = Vec<Object>)]
    pub audit: Vec<holm_secrets::audit::Line>,
    /// Only with `verify`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intact: Option<bool>,
    /// Why the record is not intact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}
