//! Secrets on the wire. A value only ever goes to the daemon: no answer has one.
//!
//! - `GET /secrets` → [`SecretList`]; `PUT` ([`SetSecret`]) → [`Secret`]; `DELETE` ([`RemoveSecret`])
//!   → [`Secret`]
//! - `GET /workspaces/{id}/secrets` → [`DeclaredList`]; `POST` ([`Give`]) → [`DeclaredList`]
//! - `POST /secrets/handover` ([`Give`]) → [`HandedOver`]: for the next `POST /workspaces`
//! - `POST /secrets/rotate-key` ([`RotateKey`]) and `/secrets/unlock` ([`Unlock`]) → [`KeyState`]
//! - `GET /secrets/audit?verify=true` → [`Audit`]
//! - `POST /secrets/export` ([`Export`]) → [`Exported`]; `/secrets/import` ([`Import`]) → [`Imported`]

use holm_secrets::Value;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whose a stored value is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SecretScope)]
pub enum Scope {
    /// For every project of the user, unless the project has its own.
    User,
    /// A project's id.
    Project(String),
    /// A workspace's id; in place of the project's.
    Workspace(String),
}

/// A stored secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    pub name: String,
    pub scope: Scope,
    /// Grows with every value.
    pub version: u64,
    pub set_at: String,
    /// Workspaces that could not be told of it yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretList {
    pub secrets: Vec<Secret>,
    /// Nothing can be given or stored now: the key is behind a passphrase that nobody gave yet, or in a
    /// keyring that does not give it.
    pub locked: bool,
    /// Why, when it is for the keyring's sake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_why: Option<String>,
    /// Where the key is: keyring, file, passphrase; `null` before there is one.
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

/// What the client read for a workspace.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GiveSecrets)]
pub struct Give {
    pub values: Vec<Named>,
    /// These have none any more: they are withdrawn.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// Names what was handed over, once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HandedOver {
    pub handover: String,
}

/// Where a declared secret is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SecretSource)]
pub enum Source {
    Env(String),
    File(String),
    Command(Vec<String>),
    Stored,
}

/// What a workspace may be given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeclaredSecret)]
pub struct Declared {
    pub name: String,
    pub from: Source,
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
    /// Where the user's own repository is, for files that are named from its root.
    pub project_path: String,
    /// What is kept and not given yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A new key, behind a passphrase or not. Without a word about it, it is where the old one was.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKey {
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub passphrase: Option<Value>,
    /// A key that was behind a passphrase no longer is.
    #[serde(default)]
    pub without_passphrase: bool,
    #[serde(default)]
    pub keep_in: Option<KeepIn>,
}

/// Where a key without a passphrase is kept.
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
    /// Not needed for a key that is in the keyring: the desktop asks for the keyring's own.
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
    /// Where it is: keyring, file, passphrase; `null` before there is one.
    #[schema(required)]
    pub key: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ExportedSecrets)]
pub struct Exported {
    /// Opens with the passphrase only.
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
    /// Of projects that are not known here.
    pub left_out: Vec<String>,
    /// Workspaces that could not be told.
    #[serde(default)]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SecretAudit)]
pub struct Audit {
    #[schema(value_type = Vec<Object>)]
    pub audit: Vec<holm_secrets::audit::Line>,
    /// Only when it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intact: Option<bool>,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}
