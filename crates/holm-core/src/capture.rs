//! How much of a workspace's state is captured.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How much to capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// Only the commit of HEAD and the list of uncommitted files.
    Head,
    /// The tree.
    #[default]
    Tree,
    /// The tree, and a commit of it that can be fetched.
    State,
}

// === impl Depth ===

impl Depth {
    pub fn as_str(self) -> &'static str {
        match self {
            Depth::Head => "head",
            Depth::Tree => "tree",
            Depth::State => "state",
        }
    }
}
