//! Finds objects that the daemon's repository of a project lacks. Used before a workspace is
//! removed. The ids come from inside the workspace, so they are validated before git sees them.

use crate::GitError;
use crate::bare::is_object_id;
use crate::command::Git;
use std::collections::BTreeSet;
use std::path::Path;

/// Those of `objects` that the bare repository at `git_dir` lacks, or all when there is no
/// repository. At most one process.
pub fn missing_objects(git_dir: &Path, objects: &[String]) -> Result<Vec<String>, GitError> {
    let objects: BTreeSet<&str> = objects.iter().map(String::as_str).collect();
    let is_id = |text: &str| is_object_id(text, "sha1") || is_object_id(text, "sha256");
    if let Some(text) = objects.iter().find(|text| !is_id(text)) {
        return Err(GitError::InvalidObjectId {
            text: text.chars().take(80).collect(),
        });
    }
    if objects.is_empty() || !git_dir.join("HEAD").exists() {
        return Ok(objects.into_iter().map(str::to_owned).collect());
    }
    let asked: String = objects.iter().map(|object| format!("{object}\n")).collect();
    let answer = Git::sealed_in(git_dir, "cat-file")?
        .args(["--batch-check"])
        .stdin(asked.into_bytes())
        .output()?;
    let answer = String::from_utf8_lossy(&answer);
    let mut lines = answer.lines();
    let mut missing = Vec::new();
    for object in objects {
        let line = lines.next().unwrap_or_default();
        match line.strip_prefix(object) {
            Some(" missing") => missing.push(object.to_owned()),
            Some(_) => {}
            None => return Err(GitError::unexpected("cat-file", line.as_bytes())),
        }
    }
    Ok(missing)
}
