//! `/tokens`: what programs show at the front door.

use crate::id::{TokenId, WorkspaceId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /tokens`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// For people. Left out: `token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Left out: it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_seconds: Option<u64>,
    /// The id of the workspace whose rights it has, and no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<WorkspaceId>)]
    pub workspace: Option<String>,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    #[schema(value_type = TokenId)]
    pub id: String,
    pub name: String,
    /// `None`: it has the rights of the user.
    #[schema(value_type = Option<WorkspaceId>, required)]
    pub workspace: Option<String>,
    pub created_at: String,
    #[schema(required)]
    pub expires_at: Option<String>,
    pub expired: bool,
}

/// The answer to `POST /tokens`, and the only place where the token itself is.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct TokenMade {
    #[serde(flatten)]
    pub made: Token,
    pub token: String,
}

/// The answer to `GET /tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    pub tokens: Vec<Token>,
}
