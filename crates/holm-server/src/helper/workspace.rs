//! Creates workspaces for a caller that names a project: runs `holm up`, with every value behind an
//! option.

use super::{Helper, program, wrong};
use holm_api::workspace::{MadeWorkspace, NewWorkspace};
use holm_core::clone_url::CloneUrl;
use holm_core::{Code, Fault};
use std::path::PathBuf;

// === impl Helper ===

impl Helper<'_> {
    /// Creates it, or finds the one with this label. `errand` names the daemon's request.
    pub async fn workspace(
        &self,
        wish: &NewWorkspace,
        errand: Option<&str>,
    ) -> Result<MadeWorkspace, Fault> {
        let mut words = words(wish);
        let directory = match (&wish.project, &wish.path, &wish.url) {
            (Some(project), None, None) => {
                words.insert(1, "--of-project".to_owned());
                self.known(project)?
            }
            (None, Some(path), None) => self.permitted(path).await?,
            (None, None, Some(url)) => {
                words.insert(1, format!("--url={}", CloneUrl::parse(url)?));
                words.splice(1..1, self.elsewhere());
                PathBuf::from("/")
            }
            _ => {
                return Err(wrong(
                    "one of `project`, `path` and `url` names the project",
                ));
            }
        };
        (self.tell)("making the workspace".to_owned());
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        program::holm(&directory, &words, errand).await
    }

    /// The path of a known project.
    fn known(&self, typed: &str) -> Result<PathBuf, Fault> {
        let mut found = self.projects.iter();
        let found = found.find(|project| project.name == typed || project.id == typed);
        let found = found.ok_or_else(|| {
            let message = format!("no project `{}`", typed.escape_debug());
            let hint = "`holm project ls`, or project_list, lists the projects";
            Fault::new(Code::ProjectNotFound, message, hint)
        })?;
        Ok(PathBuf::from(&found.path))
    }
}

fn words(wish: &NewWorkspace) -> Vec<String> {
    let mut words = vec!["up".to_owned()];
    words.extend(wish.from.iter().map(|from| format!("--from={from}")));
    words.extend(wish.at.iter().map(|at| format!("--at={at}")));
    let include = wish.include.iter();
    words.extend(include.map(|path| format!("--include={path}")));
    words.extend(
        wish.driver
            .iter()
            .map(|driver| format!("--driver={driver}")),
    );
    let parts = wish.allow_degraded.iter();
    words.extend(parts.map(|part| format!("--allow-degraded={part}")));
    let flags = [
        (wish.dirty, "--dirty"),
        (wish.warm, "--warm"),
        (wish.untrusted, "--untrusted"),
        (wish.force, "--force"),
        (wish.wait == Some(false), "--no-wait"),
    ];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
    words.extend(flags.map(|(_, flag)| flag.to_owned()));
    if let Some(label) = &wish.label {
        words.extend(["--".to_owned(), label.clone()]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_of_a_caller_is_an_option() {
        let wish = NewWorkspace {
            label: Some("--force".to_owned()),
            from: Some("--json".to_owned()),
            at: Some("-y".to_owned()),
            include: vec!["-n".to_owned()],
            driver: Some("-x".to_owned()),
            allow_degraded: vec!["--warm".to_owned()],
            dirty: true,
            wait: Some(false),
            ..NewWorkspace::default()
        };
        assert_eq!(
            words(&wish),
            [
                "up",
                "--from=--json",
                "--at=-y",
                "--include=-n",
                "--driver=-x",
                "--allow-degraded=--warm",
                "--dirty",
                "--no-wait",
                "--",
                "--force"
            ]
        );
        assert_eq!(words(&NewWorkspace::default()), ["up"]);
    }
}
