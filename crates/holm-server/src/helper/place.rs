//! Which directories of this machine a caller of the API may name: known projects, and directories
//! below the source folders. Also where new projects go.
//!
//! Symlinks are resolved first, and the result is checked and used.

use holm_api::project::Project;
use holm_core::{Code, Fault};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// The allowed directories.
pub struct Places {
    known: Vec<PathBuf>,
    source_dirs: Vec<PathBuf>,
}

// === impl Places ===

impl Places {
    pub fn new(projects: &[Project], source_dirs: &[PathBuf]) -> Self {
        let real = |path: &Path| path.canonicalize().ok();
        let known = projects.iter();
        Self {
            known: known
                .filter_map(|project| real(Path::new(&project.path)))
                .collect(),
            source_dirs: source_dirs.iter().filter_map(|path| real(path)).collect(),
        }
    }

    /// The named directory, with symlinks resolved.
    pub fn permit(&self, path: &str) -> Result<PathBuf, Fault> {
        let shown = path.escape_debug();
        if !Path::new(path).is_absolute() {
            return Err(Fault::new(
                Code::InvalidPath,
                format!("`{shown}` is not an absolute path"),
                "say the whole path of the repository",
            ));
        }
        // A forbidden path and a missing one give the same error, so that callers cannot probe.
        let refused = || {
            Fault::new(
                Code::Refused,
                format!("`{shown}` is neither a known project nor below a source folder"),
                "`holm project add` makes it known; `source_dirs` under [projects] in config.toml lists folders",
            )
        };
        let absent = || {
            Fault::new(
                Code::PathNotFound,
                format!("there is no directory `{shown}`"),
                "say the path of a git repository that is there",
            )
        };
        let real = match Path::new(path).canonicalize() {
            Ok(real) => real,
            Err(_) if self.may_be_known(Path::new(path)) => return Err(absent()),
            Err(_) => return Err(refused()),
        };
        if !self.has(&real) {
            Err(refused())
        } else if real.is_dir() {
            Ok(real)
        } else {
            Err(absent())
        }
    }

    /// Whether the path may be named.
    fn has(&self, real: &Path) -> bool {
        let is_known = self.known.iter().any(|known| real.starts_with(known));
        let mut below = self.source_dirs.iter();
        is_known || below.any(|place| real.starts_with(place) && real != place)
    }

    /// Whether the path is missing in a directory whose content a caller may know.
    fn may_be_known(&self, path: &Path) -> bool {
        let is_plain = path
            .components()
            .all(|part| !matches!(part, Component::ParentDir));
        let is_nothing = path.symlink_metadata().is_err_and(|error| {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        });
        let above = path.ancestors().find(|above| above.exists());
        let above = above.and_then(|above| above.canonicalize().ok());
        let is_above =
            above.is_some_and(|above| self.has(&above) || self.source_dirs.contains(&above));
        is_plain && is_nothing && is_above
    }

    /// The path of a new project.
    pub fn new_place(source_dirs: &[PathBuf], name: &str) -> Result<PathBuf, Fault> {
        let is_plain = name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
        if name.is_empty() || name.len() > 100 || !is_plain || name.starts_with(['.', '-']) {
            return Err(Fault::new(
                Code::BadRequest,
                format!(
                    "`{}` cannot be the name of a project's directory",
                    name.escape_debug()
                ),
                "use letters, digits, `-`, `_` and `.`",
            ));
        }
        let Some(first) = source_dirs.first() else {
            return Err(Fault::new(
                Code::PathNotFound,
                "there is no source folder to put it in",
                "set `source_dirs` under [projects] in config.toml",
            ));
        };
        Ok(first.join(name))
    }
}

pub fn not_made(place: &Path, error: io::Error) -> Fault {
    let message = format!("cannot make a directory in {}", place.display());
    Fault::new(Code::ReadOnly, message, "is the source folder writable?").because(error)
}

pub fn taken(place: &Path) -> Fault {
    Fault::new(
        Code::AlreadyExists,
        format!("{} is there already, and something else", place.display()),
        "say another `name`, or its `path` if that is what you mean",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_projects_and_source_folders_can_be_named() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().canonicalize().unwrap().join(name);
        for directory in [
            "src/shop",
            "elsewhere/known/below",
            "elsewhere/secret",
            "src-not",
        ] {
            std::fs::create_dir_all(at(directory)).unwrap();
        }
        std::fs::write(at("src/file"), "").unwrap();
        symlink(at("elsewhere/secret"), at("src/link")).unwrap();
        symlink(at("src/shop"), at("src/good")).unwrap();
        let known = Project {
            id: "p000000000001".to_owned(),
            name: "known".to_owned(),
            path: at("elsewhere/known").to_str().unwrap().to_owned(),
            created_at: String::new(),
            workspaces: 0,
            protected_paths: Vec::new(),
            isolation: None,
        };
        let places = Places::new(&[known], &[at("src"), at("missing")]);
        let permit = |path: &str| places.permit(at(path).to_str().unwrap());
        assert_eq!(permit("src/shop").unwrap(), at("src/shop"));
        assert_eq!(permit("src/good").unwrap(), at("src/shop"));
        assert_eq!(
            permit("elsewhere/known/below").unwrap(),
            at("elsewhere/known/below")
        );
        for refused in [
            "src",
            "src/link",
            "src/link/nothing",
            "src/nothing/../../elsewhere/secret",
            "src/../elsewhere/secret",
            "elsewhere/secret",
            "src-not",
            "missing/x",
            "elsewhere",
        ] {
            assert_eq!(
                permit(refused).unwrap_err().code,
                Code::Refused,
                "{refused}"
            );
        }
        // A missing path is reported only where every path may be named.
        for absent in ["src/file", "src/nothing", "src/shop/a/b", "src/file/x"] {
            let code = permit(absent).unwrap_err().code;
            assert_eq!(code, Code::PathNotFound, "{absent}");
        }
        assert_eq!(
            places.permit("src/shop").unwrap_err().code,
            Code::InvalidPath
        );
        for name in ["", "..", ".git", "a/b", "-x", "a\0", "ü"] {
            assert!(Places::new_place(&[at("src")], name).is_err(), "{name:?}");
        }
        assert_eq!(
            Places::new_place(&[at("src")], "shop-2").unwrap(),
            at("src/shop-2")
        );
    }
}
