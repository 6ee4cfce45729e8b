//! What an agent gets: files of the user (`[agents.X] files`), which are present while its runs and
//! sessions are and removed with the last of them; files for the home inside, which stay; and a
//! sign-in that the gateway uses.
//!
//! The user's files: their content is in memory inside (a file system that ends with the workspace), mode 0400, with
//! a symlink from where the agent looks. All programs inside are one user, so others in the
//! workspace could read it at that time: the workspace is the boundary, not a process in it. An
//! existing file at that place stays.

use crate::engine::Engine;
use crate::inside::{Question, ask_at_home, failed};
use holm_core::exec::Masking;
use holm_core::{Code, Fault, WorkspaceId};
use holm_keeper::client::KeeperClient;
use holm_keeper::wire::SignIn;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The size limit of a file; it is sent at once.
pub const MOST_CREDENTIAL: u64 = 128 << 10;

/// A file of the user, for a path inside.
#[derive(Clone, Debug)]
pub struct Credential {
    pub place: PathBuf,
    pub content: Vec<u8>,
    pub existing: Existing,
}

/// A file for the home inside. It contains no secret, and stays.
#[derive(Clone, Debug)]
pub struct HomeFile {
    /// Relative to the home.
    pub path: PathBuf,
    pub content: Vec<u8>,
    pub mode: u32,
    pub existing: Existing,
}

/// What happens to a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Keep,
    Replace,
}

/// The user's own instructions for an agent, to which holm's are added.
#[derive(Clone, Debug)]
pub struct Instructions {
    /// Relative to the home.
    pub path: PathBuf,
    pub own: Vec<u8>,
    /// A line that makes the agent read `/run/holm/AGENTS.md`; `None`: its text is added.
    pub line: Option<String>,
}

/// What an agent gets in a workspace.
#[derive(Clone, Debug, Default)]
pub struct Provision {
    pub credentials: Vec<Credential>,
    pub files: Vec<HomeFile>,
    pub instructions: Option<Instructions>,
    /// The agent's name and what the gateway may use.
    pub sign_ins: Option<(String, Vec<SignIn>)>,
}

/// The files of one provision have to fit into a message to the keeper.
pub const MOST_HOME_FILES: usize = 900 << 10;

/// `$1` says how existing files are handled. The archive comes on stdin.
const UNPACK: &str = r#"
umask 077
exec tar -x -f - -C "$HOME" --no-same-owner "$1"
"#;

/// `$1` is the file below the home, `$2` the line. The user's own text comes on stdin. A file that
/// is there stays, because the agent may have added to it; the line is added if it is missing.
const INSTRUCT_BY_LINE: &str = r#"
set -eu
file="$HOME/$1"
mkdir -p "$(dirname "$file")"
[ -e "$file" ] || cat > "$file"
grep -qxF -e "$2" "$file" || printf '\n%s\n' "$2" >> "$file"
"#;

/// The same without a line: the text as of now.
const INSTRUCT: &str = r#"
set -eu
file="$HOME/$1"
mkdir -p "$(dirname "$file")"
{ cat; echo; cat /run/holm/AGENTS.md; } > "$file.holm-new"
mv -f "$file.holm-new" "$file"
"#;

/// The script's exit code when another file is at the path.
const TAKEN: u8 = 45;

/// `$1` is the holder, `$2` the path below the home, `$3` a name for the path, `$4` says whether a file that is there is
/// replaced. The content comes on stdin.
const BRING: &str = r#"
set -eu
umask 077
cd "$HOME"
store=/dev/shm/.holm-agents
mkdir -p "$store/$3.held"
if [ -L "$2" ]; then
    [ "$(readlink "$2")" = "$store/$3" ] || exit 45
elif [ -e "$2" ]; then
    [ "$4" = replace ] || exit 45
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
cd "$HOME" || exit
store=/dev/shm/.holm-agents
[ -e "$store/$3.held/$1" ] || exit 0
rm -f "$store/$3.held/$1"
rmdir "$store/$3.held" 2> /dev/null || exit 0
rm -f "$store/$3" "$2"
"#;

// === impl Provision ===

impl Provision {
    pub fn is_empty(&self) -> bool {
        self.credentials.is_empty()
            && self.files.is_empty()
            && self.instructions.is_none()
            && self.sign_ins.is_none()
    }
}

// === impl Engine ===

impl Engine {
    /// Copies files for `holder` (the id of a run or session) into a running workspace. Returns the
    /// paths, and notes about files that were left alone.
    pub async fn bring_credentials(
        &self,
        id: &WorkspaceId,
        holder: &str,
        provision: Provision,
    ) -> Result<(Vec<PathBuf>, Vec<String>), Fault> {
        let has_sign_in = provision.sign_ins.is_some();
        let brought = self.bring(id, holder, provision).await;
        if brought.is_err() && has_sign_in {
            self.end_sign_ins(id, holder).await;
        }
        brought
    }

    /// For a holder that did not start: the keeper itself ends the sign-ins of one that did.
    pub(crate) async fn end_sign_ins(&self, id: &WorkspaceId, holder: &str) {
        let ended = async {
            let keeper = self.inner.keeper(id).await?;
            keeper.end_sign_ins(holder.to_owned()).await
        };
        if let Err(fault) = ended.await {
            tracing::warn!(%id, %fault, "a sign-in ends with the workspace");
        }
    }

    async fn bring(
        &self,
        id: &WorkspaceId,
        holder: &str,
        provision: Provision,
    ) -> Result<(Vec<PathBuf>, Vec<String>), Fault> {
        let Provision {
            credentials,
            files,
            instructions,
            sign_ins,
        } = provision;
        let _turn = self.inner.credentials.lock(id).await;
        let home = self.inner.record(id).await?.spec.home.clone();
        let keeper = self.inner.keeper(id).await?;
        if let Some((agent, sign_ins)) = sign_ins {
            let holder = Some(holder.to_owned());
            keeper.set_sign_ins(agent, sign_ins, holder).await?;
        }
        for (existing, option) in [
            (Existing::Keep, "--skip-old-files"),
            (Existing::Replace, "--unlink-first"),
        ] {
            let some: Vec<&HomeFile> = files.iter().filter(|it| it.existing == existing).collect();
            if !some.is_empty() {
                unpack(&keeper, &some, option).await?;
            }
        }
        if let Some(instructions) = instructions {
            instruct(&keeper, instructions).await?;
        }
        let (mut places, mut notes) = (Vec::new(), Vec::new());
        for Credential {
            place,
            content,
            existing,
        } in credentials
        {
            let mut question = question(BRING, holder, below(&home, &place));
            question.input = content;
            question.argv.push(match existing {
                Existing::Keep => b"keep".to_vec(),
                Existing::Replace => b"replace".to_vec(),
            });
            let answer = ask_at_home(&keeper, question).await?;
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
        let Ok(record) = self.inner.record(id).await else {
            return;
        };
        for place in places {
            let question = question(TAKE_AWAY, holder, below(&record.spec.home, place));
            let asked = async {
                let keeper = self.inner.keeper(id).await?;
                ask_at_home(&keeper, question).await
            };
            if let Err(fault) = asked.await {
                tracing::info!(%id, %fault, "files of an agent end with the workspace");
            }
        }
    }
}

async fn unpack(keeper: &KeeperClient, files: &[&HomeFile], option: &str) -> Result<(), Fault> {
    let input = archive(files).map_err(|error| {
        let message = "the files of an agent cannot be packed";
        Fault::new(Code::Internal, message, "see the daemon's log").because(error)
    })?;
    let words = ["sh", "-c", UNPACK, "agent", option];
    let question = Question {
        what: "tar",
        argv: words.map(|word| word.as_bytes().to_vec()).to_vec(),
        env: Vec::new(),
        input,
        masking: Masking::Never,
    };
    let answer = ask_at_home(keeper, question).await?;
    match answer.code {
        0 => Ok(()),
        _ => Err(failed("tar", &String::from_utf8_lossy(&answer.stderr))),
    }
}

async fn instruct(keeper: &KeeperClient, instructions: Instructions) -> Result<(), Fault> {
    let Instructions { path, own, line } = instructions;
    let script = match line {
        Some(_) => INSTRUCT_BY_LINE,
        None => INSTRUCT,
    };
    let words = ["sh", "-c", script, "agent"].map(|word| word.as_bytes().to_vec());
    let mut argv = words.to_vec();
    argv.push(path.as_os_str().as_bytes().to_vec());
    argv.push(line.unwrap_or_default().into_bytes());
    let question = Question {
        what: "instructions",
        argv,
        env: Vec::new(),
        input: own,
        masking: Masking::Never,
    };
    let answer = ask_at_home(keeper, question).await?;
    match answer.code {
        0 => Ok(()),
        _ => Err(failed("sh", &String::from_utf8_lossy(&answer.stderr))),
    }
}

fn archive(files: &[&HomeFile]) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for file in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(file.content.len() as u64);
        header.set_mode(file.mode);
        archive.append_data(&mut header, &file.path, file.content.as_slice())?;
    }
    archive.into_inner()
}

/// A path of the user's home, for the home of programs inside, which is elsewhere in a Dev Container.
fn below<'a>(home: &Path, place: &'a Path) -> &'a Path {
    place.strip_prefix(home).unwrap_or(place)
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
