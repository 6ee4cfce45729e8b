//! Images on the wire.
//!
//! - `GET /images` → [`ImageList`]; `DELETE` ([`RemoveImage`]) → [`Image`]
//! - `POST /images` ([`PullImage`]) and `POST /images/import` ([`ImportImages`]) → JSON Lines of [`ImageEvent`], the
//!   last of which is `done` or `error`
//! - `POST /workspaces/{id}/images` ([`TakeImages`]) → the workspace

use crate::error::ErrorDetail;
use holm_core::WorkspaceId;
use holm_core::image_reference::{ImageDigest, ImageReference};
use holm_secrets::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An image that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Image {
    /// The complete name: registry, repository, and tag or digest.
    #[schema(value_type = String)]
    pub reference: ImageReference,
    /// Of the image's manifest.
    #[schema(value_type = String)]
    pub digest: ImageDigest,
    /// All blobs of the image, compressed. Images share blobs and layers.
    pub bytes: u64,
    /// When it was pulled or imported.
    pub stored_at: String,
    /// Workspaces that use it, live and in the trash.
    pub used_by: Vec<ImageUser>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageUser {
    #[schema(value_type = WorkspaceId)]
    pub id: String,
    pub label: String,
    pub project: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageList {
    pub images: Vec<Image>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PullImage {
    pub reference: String,
    /// What the client has for the registry of the reference. The daemon uses them for this pull only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<RegistryCredentials>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegistryCredentials {
    /// The registry that the credentials are stored for; another one than that of the reference is refused.
    pub registry: String,
    pub user: String,
    #[schema(value_type = String)]
    pub password: Value,
}

/// An archive that was uploaded: an OCI layout, or the output of `docker save`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportImages {
    pub upload: String,
    /// The name of the image; the archive must have exactly one. Default: the names in the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveImage {
    pub reference: String,
}

/// Images that the client has built for services of a workspace. They are in force from its next start on.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeImages {
    /// By their services.
    #[schema(value_type = BTreeMap<String, String>)]
    pub built: BTreeMap<String, ImageReference>,
}

/// One line of the answer to a pull or an import.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageEvent {
    /// `done` of `total` bytes, or layers when it unpacks.
    Progress {
        step: String,
        done: u64,
        total: u64,
    },
    Done(ImageList),
    Error(ErrorDetail),
}
