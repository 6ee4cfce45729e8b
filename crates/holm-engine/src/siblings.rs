//! The tree of a workspace for its siblings: what git inside records, as an archive. Called by the
//! server for workspaces with `isolation = "project"`.
//!
//! Ignored files are not included, so neither are copied files (`.env`), dependencies and other
//! private files; nor is `.git`.

use crate::command::Stopped;
use crate::engine::Engine;
use crate::inside::Question;
use crate::progress::Progress;
use crate::work::Capture;
use holm_core::exec::{ExecInput, Masking};
use holm_core::head::object_id;
use holm_core::{Fault, WorkspaceId};
use holm_keeper::client::ExecStream;

/// `$1` is a tree; prints it as an archive. Attributes that exclude files from archives are
/// ignored.
const EXPORT: &str = r#"
set -eu
umask 022
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/tree"
export GIT_INDEX_FILE="$scratch/index"
git -c core.fsmonitor=false -c core.splitIndex=false read-tree "$1"
git -c core.fsmonitor=false -c core.hooksPath=/dev/null checkout-index -a -q -f --prefix="$scratch/tree/"
tar -C "$scratch/tree" -cf - .
"#;

// === impl Engine ===

impl Engine {
    /// The tree of all files that are not ignored, in a running workspace. It starts no workspace
    /// and does not count as use.
    pub async fn tree_of_running(&self, id: &WorkspaceId) -> Result<Option<String>, Fault> {
        self.inner.awaken(id, Stopped::Refuse).await?;
        let spec = self.inner.live(id).await?.spec;
        let captured = self.capture_running(id, &spec, Capture::TREE, Progress::default());
        Ok(captured.await?.tree)
    }

    /// A recorded tree as an archive.
    pub async fn export(&self, id: &WorkspaceId, tree: &str) -> Result<ExecStream, Fault> {
        // The id was validated when it was received; nothing else reaches a command line.
        let tree = object_id(tree.as_bytes()).unwrap_or_default();
        let argv = ["sh", "-c", EXPORT, "export", &tree];
        let request = Question {
            what: "checkout-index",
            argv: argv.map(|word| word.as_bytes().to_vec()).to_vec(),
            env: Vec::new(),
            input: Vec::new(),
            masking: Masking::Never,
        }
        .request();
        let archive = self.inner.keeper(id).await?.exec(request).await?;
        // A program that has ended does not need the end of its input.
        let _ = archive.input.send(ExecInput::StdinEof).await;
        Ok(archive)
    }
}
