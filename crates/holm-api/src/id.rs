//! How ids look on the wire. The values come from `holm-core`; these types exist so that the schema
//! of a generated client has their form and name.

use utoipa::ToSchema;

/// The id of a workspace: `w` and 12 of 0-9a-z without i, l, o and u.
#[derive(ToSchema)]
#[schema(pattern = "^w[0-9a-hjkmnp-tv-z]{12}$", example = "w4k9m2x7c0qa1")]
pub struct WorkspaceId(pub String);

/// The id of a project: `p` and 12 of 0-9a-z without i, l, o and u.
#[derive(ToSchema)]
#[schema(pattern = "^p[0-9a-hjkmnp-tv-z]{12}$", example = "p7d3k9v2n5te8")]
pub struct ProjectId(pub String);

/// The id of a session: `s` and 12 of 0-9a-z without i, l, o and u.
#[derive(ToSchema)]
#[schema(pattern = "^s[0-9a-hjkmnp-tv-z]{12}$", example = "s5w2j8r4y6fb3")]
pub struct SessionId(pub String);

/// The id of a token: `t` and 12 of 0-9a-z without i, l, o and u.
#[derive(ToSchema)]
#[schema(pattern = "^t[0-9a-hjkmnp-tv-z]{12}$", example = "t7d3k9v2n5te8")]
pub struct TokenId(pub String);

/// The id of a run: `r` and 12 of 0-9a-z without i, l, o and u.
#[derive(ToSchema)]
#[schema(pattern = "^r[0-9a-hjkmnp-tv-z]{12}$", example = "r4k9m2x7c0qa1")]
pub struct RunId(pub String);
