//! Reads HEAD of a workspace from its files on the host. Called by [`observe`](super::observe) for
//! each `show`, so it starts no process and reads only a few bytes.
//!
//! Programs inside can write these files at any moment. Each is opened below the upper layer
//! without following symlinks, leaving the file system or blocking, must be a regular file, and is
//! read up to a limit; anything unexpected counts as unknown. No git of the host is involved.

use holm_core::head::Tip;
use holm_core::head::{self, Head, LONGEST};
use holm_keeper::files::READ;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

const PLAIN: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A larger `packed-refs` file is not searched.
const MOST_PACKED: usize = 1 << 20;

/// All refs are in the upper layer: they are written there when the workspace is created.
pub fn tip(upper: &Path) -> Tip {
    found(upper).unwrap_or_default()
}

fn found(upper: &Path) -> Option<Tip> {
    let upper = openat2(CWD, upper, DIRECTORY, Mode::empty(), ResolveFlags::empty()).ok()?;
    let head = Head::parse(&text(&upper, ".git/HEAD", LONGEST)?)?;
    Some(Tip {
        branch: head.branch().map(str::to_owned),
        head: match head {
            Head::Detached(commit) => Some(commit),
            Head::Ref(name) => match text(&upper, &format!(".git/{name}"), LONGEST) {
                Some(text) => head::loose(&text),
                None => text(&upper, ".git/packed-refs", MOST_PACKED)
                    .and_then(|packed| head::packed(&packed, &name)),
            },
        },
    })
}

/// The content of a regular file up to a size limit.
fn text(upper: &OwnedFd, path: &str, most: usize) -> Option<Vec<u8>> {
    let file = openat2(upper, path, READ, Mode::empty(), PLAIN).ok()?;
    let found = fstat(&file).ok()?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return None;
    }
    // Enough for what the file has now and for its end, in two reads.
    let length = usize::try_from(found.st_size).unwrap_or(most).min(most);
    let mut text = Vec::with_capacity(length + 1);
    let mut file = File::from(file).take(most as u64 + 1);
    file.read_to_end(&mut text).ok()?;
    (text.len() <= most).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn check(upper: &Path, head: Option<&str>, branch: Option<&str>) {
        let found = tip(upper);
        assert_eq!(
            (found.head.as_deref(), found.branch.as_deref()),
            (head, branch)
        );
    }

    #[test]
    fn head_is_read_and_nothing_else_is() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let place = tempfile::tempdir().unwrap();
        let (upper, git) = (place.path().join("upper"), place.path().join("upper/.git"));
        check(&upper, None, None);
        fs::create_dir_all(git.join("refs/heads/holm")).unwrap();
        check(&upper, None, None);
        let say = |file: &str, text: &str| fs::write(git.join(file), text).unwrap();
        say("HEAD", "ref: refs/heads/holm/fix\n");
        say("packed-refs", &format!("{two} refs/heads/holm/fix\n"));
        check(&upper, Some(&two), Some("holm/fix"));
        say("refs/heads/holm/fix", &format!("{one}\n"));
        check(&upper, Some(&one), Some("holm/fix"));
        fs::write(git.join("packed-refs"), vec![b'x'; MOST_PACKED + 1]).unwrap();
        fs::remove_file(git.join("refs/heads/holm/fix")).unwrap();
        check(&upper, None, Some("holm/fix"));
        say("HEAD", &format!("{two}\n"));
        check(&upper, Some(&two), None);
        // What a hostile program could put there: symlinks, a pipe, an endless file, a directory.
        let outside = place.path().join("outside");
        fs::write(&outside, format!("{one}\n")).unwrap();
        let head = git.join("HEAD");
        let replace = |make: &dyn Fn()| {
            fs::remove_file(&head).unwrap();
            make();
            check(&upper, None, None);
        };
        replace(&|| symlink(&outside, &head).unwrap());
        replace(&|| symlink("/dev/zero", &head).unwrap());
        replace(&|| {
            rustix::fs::mknodat(CWD, &head, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        });
        replace(&|| File::create(&head).unwrap().set_len(1 << 40).unwrap());
        replace(&|| fs::create_dir(&head).unwrap());
        fs::rename(&git, upper.join("moved")).unwrap();
        symlink(upper.join("moved"), &git).unwrap();
        check(&upper, None, None);
    }
}
