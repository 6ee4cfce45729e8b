//! The tree of a workspace for a turn: git *inside* writes it with a repository of its own, and sends the
//! objects that the host lacks as a pack. Called by the server, which checks and keeps them.
//!
//! Neither the index nor the configuration of the workspace's own repository is used, so no bit, filter or
//! setting there can hide a file. The paths come from outside, from the layer that programs inside write. The
//! answer still comes from a hostile place: the server compares it with that layer.

use crate::command::Stopped;
use crate::driver::LayerChanges;
use crate::engine::Engine;
use crate::failpoint::{self, Moment};
use crate::inside::{Question, ask, complaints, failed};
use holm_core::exec::Masking;
use holm_core::head::object_id;
use holm_core::spec::WorkspaceSpec;
use holm_core::tree_change::Entry;
use holm_core::{Code, Fault, WorkspaceId};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;

/// What git inside is asked to write.
#[derive(Clone, Debug)]
pub struct TurnRequest<'a> {
    /// The changed paths; `None`: git reads every file.
    pub listed: Option<&'a LayerChanges>,
    /// Listed paths that did not change since the turn before, with their entries in its tree: git does not
    /// read them.
    pub kept: &'a HashMap<Vec<u8>, Entry>,
    /// The tree of the turn before: the same tree is not sent again.
    pub last: Option<&'a str>,
    /// Objects that the host has besides those of the project.
    pub known: &'a [String],
    /// Where the project's objects are inside.
    pub objects: &'a str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenTree {
    pub tree: String,
    /// Listed paths that the rules inside ignore.
    pub ignored: Vec<Vec<u8>>,
    /// Whether the pack was written: the tree is another one than the last.
    pub is_sent: bool,
    /// What git could not read, in its words.
    pub unread: Vec<String>,
}

/// A tree that git inside writes into the files of a workspace.
#[derive(Clone, Debug, Default)]
pub struct RestoreTree {
    pub tree: String,
    /// Paths whose content is written.
    pub written: Vec<Vec<u8>>,
    /// The paths of `written` that the current tree does not have. If a file is there, git ignores it and no turn has a copy,
    /// so the restore is refused. Empty: such files are replaced.
    pub must_be_free: Vec<Vec<u8>>,
    /// Paths that are deleted first.
    pub deleted: Vec<Vec<u8>>,
    /// Every object of the tree that the project's commit does not have.
    pub pack: Vec<u8>,
    /// Where the project's objects are inside.
    pub objects: String,
}

/// A larger pack is not taken.
const MOST_PACK: u64 = 4 << 30;

/// Programs of the system: the workspace cannot replace these.
const SYSTEM_PATH: &[u8] = b"/usr/bin:/bin:/usr/local/bin";

/// `$1` is the base's commit or empty, `$2` the last tree or empty, `$3` the object format, `$4` the
/// directory of the project's objects. Reads records that end with a zero byte: `f` + a path that exists, `u` +
/// an entry of the index that did not change, `g` + a path that is gone, `h` + an object that the host has, and
/// `a` for all files. Prints `t` + the tree, `i` + ignored paths, `p` and then the pack, if there is one. The
/// contents of unchanged entries are not here, and the host has them.
///
/// Files that the workspace's own index tracks although they are ignored are recorded too: `fetch` would
/// bring them.
const WRITE: &str = r#"
set -eu
umask 077
# git sorts names by their bytes.
export LC_ALL=C
root=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/git/objects/info" "$scratch/git/objects/pack" "$scratch/git/refs" "$scratch/git/info"
echo 'ref: refs/heads/none' > "$scratch/git/HEAD"
{
    echo '[core]'
    if [ "$3" = sha256 ]; then
        printf 'repositoryformatversion = 1\n[extensions]\nobjectFormat = sha256\n'
    else
        echo 'repositoryformatversion = 0'
    fi
    printf '[core]\nlooseCompression = 0\nfsync = none\n'
} > "$scratch/git/config"
printf '%s\n' "$4" > "$scratch/git/objects/info/alternates"
if [ -f "$root/.git/info/exclude" ]; then
    head -c 1048576 "$root/.git/info/exclude" > "$scratch/git/info/exclude"
fi
export HOME="$scratch" XDG_CONFIG_HOME="$scratch" GIT_CONFIG_NOSYSTEM=1 GIT_NO_REPLACE_OBJECTS=1
export GIT_DIR="$scratch/git" GIT_WORK_TREE="$root" GIT_INDEX_FILE="$scratch/index" GIT_LITERAL_PATHSPECS=1
cat > "$scratch/asked"
sed -zn 's/^f//p' "$scratch/asked" | sort -z > "$scratch/files"
sed -zn 's/^u//p' "$scratch/asked" > "$scratch/kept"
sed -z 's/^[^\t]*\t//' "$scratch/kept" | sort -z > "$scratch/same"
sed -zn 's/^g//p' "$scratch/asked" > "$scratch/gone"
sed -zn 's/^h//p' "$scratch/asked" | tr '\0' '\n' | sort > "$scratch/known"
base=
if [ -n "$1" ]; then
    base=$(git rev-parse --verify -q "$1^{tree}")
    git read-tree "$base"
fi
: > "$scratch/ignored"
if [ "$(head -c 1 "$scratch/asked")" = a ]; then
    git add -A --ignore-errors . || [ $? -eq 1 ]
else
    if [ -s "$scratch/gone" ]; then
        git rm -r -f -q --cached --ignore-unmatch \
            --pathspec-from-file="$scratch/gone" --pathspec-file-nul
    fi
    # Without the index: with it, git compares each name with every entry. Nothing that the base tracks is ignored.
    # This command takes patterns: a name that begins with a colon would be one.
    sed -z 's|^|./|' "$scratch/files" "$scratch/same" > "$scratch/dotted"
    GIT_LITERAL_PATHSPECS=0 git check-ignore --no-index -z --stdin < "$scratch/dotted" > "$scratch/unsorted" || [ $? -eq 1 ]
    sed -z 's|^\./||' "$scratch/unsorted" | sort -z > "$scratch/matched"
    git ls-files -z > "$scratch/tracked"
    comm -z -23 "$scratch/matched" "$scratch/tracked" > "$scratch/covered"
    : > "$scratch/forced"
    if [ -f "$root/.git/index" ]; then
        # Only names that the base does not have are compared with the rules; with all entries git takes as long as the rest
        # of this. It refuses some names that an index can have, such as one below a symlink.
        { GIT_INDEX_FILE="$root/.git/index" git ls-files -z || :; } |
            comm -z --nocheck-order -13 "$scratch/tracked" - | sed -z 's|^|./|' > "$scratch/staged"
        code=0
        GIT_LITERAL_PATHSPECS=0 git check-ignore --no-index -z --stdin < "$scratch/staged" > "$scratch/unsorted" || code=$?
        if [ $code -gt 1 ]; then
            GIT_INDEX_FILE="$root/.git/index" git ls-files -z -i -c --exclude-standard > "$scratch/unsorted" || :
        fi
        sed -z 's|^\./||' "$scratch/unsorted" | sort -zu > "$scratch/forced"
    fi
    comm -z -23 "$scratch/covered" "$scratch/forced" > "$scratch/ignored"
    if [ -s "$scratch/kept" ]; then
        git update-index -z --add --replace --index-info < "$scratch/kept"
    fi
    comm -z -12 "$scratch/same" "$scratch/ignored" > "$scratch/hidden"
    if [ -s "$scratch/hidden" ]; then
        # A rule that is new covers them. The base has none of these: git ignores nothing that it tracks.
        git update-index --force-remove -z --stdin < "$scratch/hidden"
    fi
    { comm -z -23 "$scratch/files" "$scratch/ignored"; cat "$scratch/forced"; } > "$scratch/paths"
    git update-index --add --remove --replace -z --stdin < "$scratch/paths" || {
        git add -A -f --ignore-errors --pathspec-from-file="$scratch/paths" --pathspec-file-nul || [ $? -eq 1 ]
    }
fi
tree=$(git write-tree --missing-ok)
printf 't%s\0' "$tree"
sed -z 's/^/i/' "$scratch/ignored"
printf 'p\0'
if [ "$tree" != "$2" ]; then
    git rev-list --objects --no-object-names --missing=allow-any "$tree" ${base:+"^$base"} | sort -u > "$scratch/all"
    comm -23 "$scratch/all" "$scratch/known" | git -c pack.threads=1 -c pack.compression=1 pack-objects -q --stdout --window=0
fi
"#;

/// `$1` is a tree, `$2` the object format, `$3` the directory of the project's objects, `$4` the length of a
/// pack. Reads the pack, and then records that end with a zero byte: `w` + a path to write, `d` + one to delete, `n` +
/// one that must not exist. Prints those that exist, or a file in the place of a directory above them, and then changes
/// nothing.
const RESTORE: &str = r#"
set -eu
umask 022
root=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/git/objects/info" "$scratch/git/objects/pack" "$scratch/git/refs"
echo 'ref: refs/heads/none' > "$scratch/git/HEAD"
{
    echo '[core]'
    if [ "$2" = sha256 ]; then
        printf 'repositoryformatversion = 1\n[extensions]\nobjectFormat = sha256\n'
    else
        echo 'repositoryformatversion = 0'
    fi
} > "$scratch/git/config"
printf '%s\n' "$3" > "$scratch/git/objects/info/alternates"
export HOME="$scratch" XDG_CONFIG_HOME="$scratch" GIT_CONFIG_NOSYSTEM=1 GIT_NO_REPLACE_OBJECTS=1
export GIT_DIR="$scratch/git" GIT_WORK_TREE="$root" GIT_INDEX_FILE="$scratch/index"
head -c "$4" > "$scratch/pack"
cat > "$scratch/asked"
sed -zn 's/^d//p' "$scratch/asked" > "$scratch/deleted"
sed -zn 's/^n//p' "$scratch/asked" | DELETED="$scratch/deleted" xargs -0 -r sh -c '
    for path; do
        if [ -e "$path" ] || [ -L "$path" ]; then printf "%s\0" "$path"; continue; fi
        while [ "${path%/*}" != "$path" ]; do
            path=${path%/*}
            if { [ -e "$path" ] || [ -L "$path" ]; } && ! { [ -d "$path" ] && [ ! -L "$path" ]; }; then
                grep -zqxF -e "$path" "$DELETED" || printf "%s\0" "$path"
                break
            fi
        done
    done' sh > "$scratch/there"
if [ -s "$scratch/there" ]; then
    head -c 65536 "$scratch/there"
    exit 0
fi
git index-pack --stdin < "$scratch/pack" > /dev/null
git read-tree "$1"
xargs -0 -r rm -f -- < "$scratch/deleted"
xargs -0 -r dirname -z -- < "$scratch/deleted" | sort -zu | { xargs -0 -r rmdir -p --ignore-fail-on-non-empty -- 2> /dev/null || :; }
sed -zn 's/^w//p' "$scratch/asked" | git checkout-index -f -z --stdin
"#;

// === impl Engine ===

impl Engine {
    /// Lets git inside write the files of a tree. The workspace has to run. Returns the ignored files in its way; if
    /// there are any, nothing was changed.
    pub async fn restore_tree(
        &self,
        id: &WorkspaceId,
        restore: RestoreTree,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let spec = self.spec(id).await?;
        let length = restore.pack.len().to_string();
        let words = [
            "/bin/sh",
            "-c",
            RESTORE,
            "restore",
            &restore.tree,
            &spec.code.object_format,
            &restore.objects,
            &length,
        ];
        let mut input = restore.pack;
        let written = restore.written.iter().map(|path| (b'w', path));
        let deleted = restore.deleted.iter().map(|path| (b'd', path));
        let free = restore.must_be_free.iter().map(|path| (b'n', path));
        for (kind, path) in written.chain(deleted).chain(free) {
            input.push(kind);
            input.extend_from_slice(path);
            input.push(0);
        }
        let question = Question {
            what: "checkout-index",
            argv: words.map(|word| word.as_bytes().to_vec()).to_vec(),
            env: vec![(b"PATH".to_vec(), SYSTEM_PATH.to_vec())],
            input,
            masking: Masking::Never,
        };
        let keeper = self.inner.keeper(id).await?;
        let keep = |piece: &[u8], kept: &mut Vec<u8>| kept.extend_from_slice(piece);
        let answer = ask(&keeper, question, keep).await?;
        self.inner.trees.forget(id);
        let in_the_way = answer.good("checkout-index")?;
        // The last path of many may be cut.
        let whole = in_the_way.split_inclusive(|byte| *byte == 0);
        let whole = whole.filter_map(|path| path.strip_suffix(b"\0"));
        Ok(whole.map(<[u8]>::to_vec).collect())
    }

    /// Lets git inside write the tree of a running workspace; its pack goes to `pack`.
    pub async fn write_tree(
        &self,
        id: &WorkspaceId,
        spec: &WorkspaceSpec,
        request: TurnRequest<'_>,
        pack: File,
    ) -> Result<WrittenTree, Fault> {
        let words = [
            "/bin/sh",
            "-c",
            WRITE,
            "turn",
            spec.code.base_commit().unwrap_or_default(),
            request.last.unwrap_or_default(),
            &spec.code.object_format,
            request.objects,
        ];
        let question = Question {
            what: "write-tree",
            argv: words.map(|word| word.as_bytes().to_vec()).to_vec(),
            env: vec![(b"PATH".to_vec(), SYSTEM_PATH.to_vec())],
            input: input(&request),
            masking: Masking::Never,
        };
        failpoint::pass("turn", Moment::Before)?;
        let keeper = self.inner.driver(spec)?.keeper(id);
        let mut reader = Reader::new(pack);
        let answer = ask(&keeper, question, |piece, _| reader.take(piece)).await?;
        let unread = complaints(&answer.stderr);
        answer.good("write-tree")?;
        let mut written = reader.finish()?;
        written.unread = unread
            .into_iter()
            .filter(|line| line.starts_with("error:"))
            .collect();
        Ok(written)
    }

    /// Starts a stopped workspace, or refuses it. It does not count as use.
    pub async fn wake(&self, id: &WorkspaceId, stopped: Stopped) -> Result<(), Fault> {
        self.inner.awaken(id, stopped).await
    }
}

fn input(request: &TurnRequest<'_>) -> Vec<u8> {
    let mut input = Vec::new();
    let mut add = |kind: u8, text: &[u8]| {
        input.push(kind);
        input.extend_from_slice(text);
        input.push(0);
    };
    match request.listed {
        None => add(b'a', b""),
        Some(listed) => {
            for path in &listed.files {
                match request.kept.get(path) {
                    None => add(b'f', path),
                    Some(Entry { mode, object }) => {
                        let mut entry = format!("{mode:06o} {object}\t").into_bytes();
                        entry.extend_from_slice(path);
                        add(b'u', &entry);
                    }
                }
            }
            listed.gone.iter().for_each(|path| add(b'g', path));
        }
    }
    for object in request.known {
        add(b'h', object.as_bytes());
    }
    input
}

/// Reads the answer: fields in memory, then the pack into its file.
struct Reader {
    fields: Vec<u8>,
    pack: File,
    length: u64,
    state: Reading,
}

enum Reading {
    Fields,
    Pack,
    /// Why the answer is not used.
    Failed(Fault),
}

/// The most bytes of fields.
const MOST_FIELDS: usize = 64 << 20;

// === impl Reader ===

impl Reader {
    fn new(pack: File) -> Self {
        Self {
            fields: Vec::new(),
            pack,
            length: 0,
            state: Reading::Fields,
        }
    }

    fn take(&mut self, piece: &[u8]) {
        match &self.state {
            Reading::Failed(_) => {}
            Reading::Pack => self.keep(piece),
            Reading::Fields => {
                let searched = self.fields.len().saturating_sub(2);
                self.fields.extend_from_slice(piece);
                let mark = self.fields[searched..]
                    .windows(3)
                    .position(|bytes| bytes == b"\0p\0");
                if let Some(place) = mark {
                    let rest = self.fields.split_off(searched + place + 3);
                    self.state = Reading::Pack;
                    self.keep(&rest);
                } else if self.fields.len() > MOST_FIELDS {
                    self.state = Reading::Failed(failed("write-tree", "its answer is too long"));
                }
            }
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        self.length += piece.len() as u64;
        if self.length > MOST_PACK {
            let why = format!("the changes take more than {} GiB", MOST_PACK >> 30);
            self.state = Reading::Failed(failed("pack-objects", &why));
        } else if let Err(error) = self.pack.write_all(piece) {
            let message = "cannot store the objects of a turn";
            let fault = Fault::new(
                Code::DiskFull,
                message,
                "make room on the disk, then try again",
            );
            self.state = Reading::Failed(fault.because(error));
        }
    }

    fn finish(self) -> Result<WrittenTree, Fault> {
        match self.state {
            Reading::Failed(fault) => return Err(fault),
            Reading::Fields => return Err(failed("write-tree", "unknown answer")),
            Reading::Pack => {}
        }
        let written = written(&self.fields, self.length > 0);
        written.ok_or_else(|| failed("write-tree", "unknown answer"))
    }
}

/// Parses the fields up to the mark of the pack.
fn written(fields: &[u8], is_sent: bool) -> Option<WrittenTree> {
    let fields = fields.strip_suffix(b"\0p\0")?;
    let mut fields = fields.split(|byte| *byte == 0);
    let tree = object_id(fields.next()?.strip_prefix(b"t")?)?;
    let ignored = fields.map(|field| field.strip_prefix(b"i").map(<[u8]>::to_vec));
    Some(WrittenTree {
        tree,
        ignored: ignored.collect::<Option<_>>()?,
        is_sent,
        unread: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_in_pieces_and_strictly() {
        let tree = "1".repeat(40);
        let said = format!("t{tree}\0ia\nb\0ic\0p\0PACK\0p\0");
        for size in [1, 2, 3, 7, said.len()] {
            let mut reader = Reader::new(tempfile::tempfile().unwrap());
            said.as_bytes()
                .chunks(size)
                .for_each(|piece| reader.take(piece));
            assert_eq!(reader.length, 7, "{size}");
            let read = reader.finish().unwrap();
            assert_eq!(read.tree, tree);
            assert_eq!(read.ignored, [b"a\nb".to_vec(), b"c".to_vec()]);
            assert!(read.is_sent);
        }
        for wrong in [
            String::new(),
            "p\0".to_owned(),
            format!("t{tree}\0"),
            format!("t{tree}\0x\0p\0"),
            "t--exec\0p\0".to_owned(),
        ] {
            let mut reader = Reader::new(tempfile::tempfile().unwrap());
            reader.take(wrong.as_bytes());
            assert!(reader.finish().is_err(), "{wrong:?}");
        }
    }
}
