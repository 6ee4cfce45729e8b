//! The user's files for one agent (`[agents.X] files`): there while its runs and sessions are, and gone
//! with the last of them.
//!
//! Their content lies in memory inside (a file system that ends with the workspace), mode 0400, and a
//! link leads to it from where the agent looks. Everything inside is of one user, so what else runs in
//! the workspace at that time could read it: a workspace is the boundary, not a process in it. What is
//! at the place already and is not ours stays as it is.

use crate::engine::Engine;
use crate::exec::Masking;
use crate::inside::{Question, ask, failed};
use holm_core::{Fault, WorkspaceId};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// No file is longer; it goes in at once.
pub const MOST_CREDENTIAL: u64 = 128 << 10;

/// A file of the user's, for a place inside.
#[derive(Clone, Debug)]
pub struct Credential {
    pub place: PathBuf,
    pub content: Vec<u8>,
}

/// Said by the script when something else is at the place.
const TAKEN: u8 = 45;

/// `$1` is whose it is, `$2` the place, `$3` a name of the place. The content comes on stdin.
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

/// The same names. What the agent put at the place of the link is of the same kind, and goes too.
const TAKE_AWAY: &str = r#"
store=/dev/shm/.holm-agents
[ -e "$store/$3.held/$1" ] || exit 0
rm -f "$store/$3.held/$1"
rmdir "$store/$3.held" 2> /dev/null || exit 0
rm -f "$store/$3" "$2"
"#;

// === impl Engine ===

impl Engine {
    /// Brings files for `holder` (the id of a run or session) into a workspace that runs. Returns the
    /// places, and notes of what was left alone.
    pub async fn bring_credentials(
        &self,
        id: &WorkspaceId,
        holder: &str,
        credentials: Vec<Credential>,
    ) -> Result<(Vec<PathBuf>, Vec<String>), Fault> {
        let _turn = self.inner.credentials.lock(id).await;
        let driver = self.inner.driver_of(id).await?;
        let (mut places, mut notes) = (Vec::new(), Vec::new());
        for Credential { place, content } in credentials {
            let question = Question {
                input: content,
                ..question(BRING, holder, &place)
            };
            let answer = ask(&*driver, id, question, |_, _| {}).await?;
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

    /// Takes them away, where nobody else has them. In a workspace that was stopped they are gone.
    pub async fn take_credentials_away(&self, id: &WorkspaceId, holder: &str, places: &[PathBuf]) {
        let _turn = self.inner.credentials.lock(id).await;
        for place in places {
            let question = question(TAKE_AWAY, holder, place);
            let asked = async {
                let driver = self.inner.driver_of(id).await?;
                ask(&*driver, id, question, |_, _| {}).await
            };
            if let Err(fault) = asked.await {
                tracing::info!(%id, %fault, "files of an agent end with the workspace");
            }
        }
    }
}

fn question(script: &str, holder: &str, place: &Path) -> Question {
    let place = place.as_os_str().as_bytes();
    // A name of its own for every place: the same bytes, without `/`.
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
