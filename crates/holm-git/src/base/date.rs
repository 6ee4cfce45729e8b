//! Gives files of a new base the modification time of the user's checkout if their content is
//! equal, so that build output copied from the checkout stays valid. Called after a full checkout.

use crate::GitError;
use crate::bare::Bare;
use holm_core::layer::FileDate;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, openat, utimensat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::path::{Component, Path};

pub(super) fn date(
    tree: &Path,
    bare: &Bare,
    commit: &str,
    dates: &[FileDate],
) -> Result<(), GitError> {
    let files: HashMap<String, String> = bare.files(commit)?.into_iter().collect();
    let failed = |errno: Errno| GitError::file("date", tree)(errno.into());
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = openat(CWD, tree, flags, Mode::empty()).map_err(failed)?;
    for dated in dates {
        let is_same = files.get(&dated.path) == Some(&dated.object);
        let mut parts = Path::new(&dated.path).components();
        if !is_same || !parts.all(|part| matches!(part, Component::Normal(_))) {
            continue;
        }
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: dated.seconds,
                tv_nsec: i64::from(dated.nanoseconds),
            },
        };
        utimensat(&top, &dated.path, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
    }
    Ok(())
}
