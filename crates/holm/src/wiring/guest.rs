//! The view from inside a workspace: whether this process runs in one, and what the keeper says about it.

pub use holm_keeper::guest::{API, here, workspace};
pub use holm_keeper::here::markdown;

/// The file that only workspaces have.
const ID_FILE: &str = "/run/holm/id";

/// Whether this process runs in a workspace.
pub fn is_inside() -> bool {
    std::path::Path::new(ID_FILE).exists()
}
