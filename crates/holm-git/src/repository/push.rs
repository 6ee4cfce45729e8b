//! Sends objects to a daemon of another user or on another machine, where hard links are not
//! possible.
//!
//! `git send-pack` runs a command of ours in place of `git receive-pack`. It is plumbing: no
//! `pre-push` hook, no `push.*` settings. Each object is pushed to `refs/holm/sent/<object>`, a
//! name that cannot collide and that shows by itself whether it is up to date;
//! [`Bare::set_refs`](crate::Bare::set_refs) then sets the real names.

use super::Repository;
use crate::GitError;
use crate::bare::SENT;
use crate::command::Cancel;
use std::collections::BTreeSet;

impl Repository {
    /// Sends all objects of `refs` and `commit` through `receive_pack`, a shell command that speaks
    /// git's receive-pack on stdin and stdout. Git appends one argument to it, which can be
    /// ignored.
    pub fn push(
        &self,
        receive_pack: &str,
        refs: &[(String, String)],
        commit: Option<&str>,
        cancel: &Cancel,
    ) -> Result<(), GitError> {
        let objects: BTreeSet<&str> = refs
            .iter()
            .map(|(_, object)| object.as_str())
            .chain(commit)
            .collect();
        if objects.is_empty() {
            return Ok(());
        }
        let mut wishes = String::new();
        for object in objects {
            wishes.push_str(&format!("{object}:{SENT}{object}\n"));
        }
        self.git("send-pack")?
            .config("protocol.file.allow=always")
            .config("push.gpgSign=false")
            .config("push.negotiate=false")
            .args([format!("--receive-pack={receive_pack}")])
            .more(["--force", "--quiet", "--stdin", "/holm/project"])
            .stdin(wishes.into_bytes())
            .cancel(cancel)
            .output()?;
        Ok(())
    }
}
