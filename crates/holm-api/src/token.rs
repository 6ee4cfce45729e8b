//! `/tokens`: access tokens for programs that use the front door.

use holm_core::{TokenId, WorkspaceId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /tokens`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// A name for people. Default: `token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Default: it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_seconds: Option<u64>,
    /// The id of a workspace: the token has that workspace's rights and no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<WorkspaceId>)]
    pub workspace: Option<String>,
    /// What it may do besides: `approve`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may: Vec<String>,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    #[schema(value_type = TokenId)]
    pub id: String,
    pub name: String,
    /// `None`: the token has the rights of the user.
    #[schema(value_type = Option<WorkspaceId>, required)]
    pub workspace: Option<String>,
    pub created_at: String,
    #[schema(required)]
    pub expires_at: Option<String>,
    pub expired: bool,
    /// What it may do besides.
    #[serde(default)]
    pub may: Vec<String>,
}

/// The response to `POST /tokens`, which is the only one with the token itself.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct TokenMade {
    #[serde(flatten)]
    pub made: Token,
    pub token: String,
}

/// The response to `GET /tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    pub tokens: Vec<Token>,
}
