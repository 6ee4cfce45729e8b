//! The tree of a workspace for others of its project to look at: what git inside records of it, as an
//! archive. Called by the server for workspaces with `isolation = "project"`.
//!
//! Ignored files are not in it, so neither are files that were taken along (`.env`), dependencies and
//! whatever else the repository says is nobody's business; nor is `.git`.

use crate::command::Stopped;
use crate::driver::Progress;
use crate::engine::Engine;
use crate::exec::{ExecInput, ExecStream, Masking};
use crate::inside::Question;
use crate::work::{Capture, object_id};
use holm_core::{Fault, WorkspaceId};

/// `$1` is a tree; prints it as an archive. Attributes that leave files out of archives do not count.
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
    /// The id of the tree of everything that is not ignored, of a workspace that runs. It starts none,
    /// and it is no use of the workspace.
    pub async fn tree_of_running(&self, id: &WorkspaceId) -> Result<Option<String>, Fault> {
        self.inner.awaken(id, Stopped::Refuse).await?;
        let spec = self.inner.live(id).await?.spec;
        let captured = self.capture_running(id, &spec, Capture::TREE, Progress::default());
        Ok(captured.await?.tree)
    }

    /// A tree that was recorded inside, as an archive.
    pub async fn export(&self, id: &WorkspaceId, tree: &str) -> Result<ExecStream, Fault> {
        // It was checked when it was heard; nothing else reaches a command line.
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
        let archive = self.inner.driver_of(id).await?.exec(id, request).await?;
        // One that has ended needs no end of its input.
        let _ = archive.input.send(ExecInput::StdinEof).await;
        Ok(archive)
    }
}
