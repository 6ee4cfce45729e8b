//! The user's files for an agent (`[agents.X] files`): present while its runs and sessions are, and
//! removed with the last of them.
//!
//! Their content is in memory inside (a file system that ends with the workspace), mode 0400, with
//! a symlink from where the agent looks. All programs inside are one user, so others in the
//! workspace could read it at that time: the workspace is the boundary, not a process in it. An
//! existing file at that place stays.

use crate::engine::Engine;
use crate::inside::{Question, ask, failed};
use holm_core::exec::Masking;
use holm_core::{Fault, WorkspaceId};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The size limit of a file; it is sent at once.
pub const MOST_CREDENTIAL: u64 = 128 << 10;

/// A file of the user, for a path inside.
#[derive(Clone, Debug)]
pub struct Credential {
    pub place: PathBuf,
    pub content: Vec<u8>,
}

/// The script's exit code when another file is at the path.
const TAKEN: u8 = 45;

/// `$1` is the holder, `$2` the path, `$3` a name for the path. The content comes on stdin.
const BRING: &str = r#"
set -eu
umask 077
store=/dev/shm/.holm-agents
mkdir -p "$store/$3.held"
if [ -L "$2" ]; then
    [ "$(readlink "$2")" = "$store/$3" ] || exit 45
elif [ -e "$2" ]; then
    exit 45
fi
cat > "$store/$3.$1"
chmod 0400 "$store/$3.$1"
mv -f "$store/$3.$1" "$store/$3"
: > "$store/$3.held/$1"
mkdir -p "$(dirname "$2")"
ln -sfn "$store/$3" "$2"
"#;

/// The same arguments. A file that the agent put in place of the symlink is a credential too, and
/// is removed.
const TAKE_AWAY: &str = r#"
store=/dev/shm/.holm-agents
[ -e "$store/$3.held/$1" ] || exit 0
rm -f "$store/$3.held/$1"
rmdir "$store/$3.held" 2> /dev/null || exit 0
rm -f "$store/$3" "$2"
"#;

// === impl Engine ===

impl Engine {
    /// Copies files for `holder` (the id of a run or session) into a running workspace. Returns the
    /// paths, and notes about files that were left alone.
    pub async fn bring_credentials(
        &self,
        id: &WorkspaceId,
        holder: &str,
        credentials: Vec<Credential>,
    ) -> Result<(Vec<PathBuf>, Vec<String>), Fault> {
        let _turn = self.inner.credentials.lock(id).await;
        let keeper = self.inner.keeper(id).await?;
        let (mut places, mut notes) = (Vec::new(), Vec::new());
        for Credential { place, content } in credentials {
            let question = Question {
                input: content,
                ..question(BRING, holder, &place)
            };
            let answer = ask(&keeper, question, |_, _| {}).await?;
            match answer.code {
                0 => places.push(place),
                TAKEN => notes.push(format!(
                    "{} is there already and was left as it is",
                    place.display()
                )),
                code => {
                    let why = format!("{} could not be brought: {code}", place.display());
                    return Err(failed("sh", &why));
                }
            }
        }
        Ok((places, notes))
    }

    /// Removes them, unless another holder needs them. In a stopped workspace they are gone
    /// already.
    pub async fn take_credentials_away(&self, id: &WorkspaceId, holder: &str, places: &[PathBuf]) {
        let _turn = self.inner.credentials.lock(id).await;
        for place in places {
            let question = question(TAKE_AWAY, holder, place);
            let asked = async {
                let keeper = self.inner.keeper(id).await?;
                ask(&keeper, question, |_, _| {}).await
            };
            if let Err(fault) = asked.await {
                tracing::info!(%id, %fault, "files of an agent end with the workspace");
            }
        }
    }
}

fn question(script: &str, holder: &str, place: &Path) -> Question {
    let place = place.as_os_str().as_bytes();
    // A unique name for every path: the same bytes in hexadecimal, without `/`.
    let name: String = place.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = name[name.len().saturating_sub(200)..].to_owned();
    let words = [script, "credentials", holder].map(|word| word.as_bytes().to_vec());
    let mut argv = vec![b"sh".to_vec(), b"-c".to_vec()];
    argv.extend(words);
    argv.extend([place.to_vec(), name.into_bytes()]);
    Question {
        what: "credentials",
        argv,
        env: Vec::new(),
        input: Vec::new(),
        masking: Masking::Never,
    }
}
