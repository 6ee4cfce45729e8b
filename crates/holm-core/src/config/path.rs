//! Paths of `holm.toml`, checked as text without touching the disk.
//!
//! A path of these types has no `.` or `..` part, no empty part and no control character, so
//! joining it to a directory stays below that directory as far as text can tell. The code that
//! opens it must handle symlinks.

use std::fmt;
use std::path::{Path, PathBuf};

/// The code's path inside: absolute, and not a directory that the system needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Root(String);

/// A path below the root that is read-only inside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtectedPath(String);

/// A path or glob below the root (`.env.local`, `src/**`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern(String);

crate::checked_text!(Root, ProtectedPath, Pattern);

/// A path relative to the root (`build/cache`), to home (`~/.npm`) or absolute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    Project(String),
    Home(String),
    Absolute(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    #[error("it is empty")]
    Empty,
    #[error("it has the control character `{}`", .0.escape_default())]
    Control(char),
    #[error("it must be relative to the root, or begin with `~/`")]
    NotGiven,
    #[error("it must be absolute")]
    NotAbsolute,
    #[error("it must be relative to the project's root")]
    NotRelative,
    #[error("it has a `{0}` part; write the path without it")]
    Dots(&'static str),
    #[error("it has an empty part (`//`, or a `/` at its end)")]
    EmptyPart,
    #[error("it is longer than {0} bytes")]
    TooLong(usize),
    #[error("`{0}` belongs to the system")]
    System(&'static str),
    #[error("it is the home directory itself")]
    WholeHome,
    #[error("it is the project's root itself")]
    WholeProject,
    #[error("`{0}` has no special meaning here; name the file or directory itself")]
    Glob(char),
    #[error("a pattern that excludes (`!`) is not understood here")]
    Negated,
}

/// The longest path and part that Linux accepts, minus room for prefixes.
const LONGEST_PATH: usize = 3072;
const LONGEST_PART: usize = 255;

/// Directories that a workspace needs unchanged, with everything below them.
const SYSTEM_TREES: [&str; 14] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run",
    "/sbin", "/sys", "/usr", "/var/run",
];

/// Directories that holm itself mounts into a room.
const OF_EVERY_ROOM: [&str; 5] = ["/dev", "/etc", "/proc", "/run/holm", "/sys"];

/// Directories that a mount may not cover as a whole; a mount below them is allowed.
const SYSTEM_DIRECTORIES: [&str; 11] = [
    "/", "/home", "/media", "/mnt", "/nix", "/opt", "/root", "/snap", "/srv", "/tmp", "/var",
];

fn check_characters(text: &str) -> Result<(), InvalidPath> {
    if text.is_empty() {
        return Err(InvalidPath::Empty);
    }
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return Err(InvalidPath::Control(control));
    }
    if text.len() > LONGEST_PATH {
        return Err(InvalidPath::TooLong(LONGEST_PATH));
    }
    Ok(())
}

/// Checks the parts of a path without its leading `/`.
fn check_parts(relative: &str) -> Result<(), InvalidPath> {
    for part in relative.split('/') {
        match part {
            "" => return Err(InvalidPath::EmptyPart),
            "." => return Err(InvalidPath::Dots(".")),
            ".." => return Err(InvalidPath::Dots("..")),
            _ if part.len() > LONGEST_PART => return Err(InvalidPath::TooLong(LONGEST_PART)),
            _ => {}
        }
    }
    Ok(())
}

fn check_absolute(text: &str) -> Result<(), InvalidPath> {
    check_characters(text)?;
    let relative = text.strip_prefix('/').ok_or(InvalidPath::NotAbsolute)?;
    if relative.is_empty() {
        return Ok(());
    }
    check_parts(relative)
}

fn check_not_system(text: &str) -> Result<(), InvalidPath> {
    let path = Path::new(text);
    let tree = SYSTEM_TREES.iter().find(|tree| path.starts_with(tree));
    let directory = SYSTEM_DIRECTORIES
        .iter()
        .find(|directory| **directory == text);
    match tree.or(directory) {
        Some(system) => Err(InvalidPath::System(system)),
        None => Ok(()),
    }
}

fn check_relative(text: &str) -> Result<(), InvalidPath> {
    check_characters(text)?;
    if text.starts_with('/') || text == "~" || text.starts_with("~/") {
        return Err(InvalidPath::NotRelative);
    }
    if text == "." {
        return Err(InvalidPath::WholeProject);
    }
    check_parts(text)
}

/// Removes one trailing `/`, which means "a directory".
fn without_slash(text: &str) -> &str {
    match text.strip_suffix('/') {
        Some(directory) if !directory.is_empty() => directory,
        _ => text,
    }
}

// === impl Root ===

impl Root {
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        check_absolute(text)?;
        check_not_system(text)?;
        Ok(Self(text.to_owned()))
    }

    /// Where a room shows the tree. The image owns all other directories.
    pub fn parse_in_image(text: &str) -> Result<Self, InvalidPath> {
        check_absolute(text)?;
        let path = Path::new(text);
        let mut taken = OF_EVERY_ROOM.iter().filter(|taken| path.starts_with(taken));
        match taken.next() {
            Some(taken) => Err(InvalidPath::System(taken)),
            None if text == "/" => Err(InvalidPath::System("/")),
            None => Ok(Self(text.to_owned())),
        }
    }

    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

// === impl ProtectedPath ===

impl ProtectedPath {
    /// Refuses globs: as a literal name they would silently protect nothing.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        let text = without_slash(text);
        check_relative(text)?;
        match text.chars().find(|c| matches!(c, '*' | '?')) {
            Some(glob) => Err(InvalidPath::Glob(glob)),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// Whether protecting `self` also protects `other`.
    pub fn covers(&self, other: &ProtectedPath) -> bool {
        Path::new(&other.0).starts_with(&self.0)
    }
}

// === impl Pattern ===

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        let text = without_slash(text);
        if text.starts_with('!') {
            return Err(InvalidPath::Negated);
        }
        check_relative(text)?;
        Ok(Self(text.to_owned()))
    }
}

// === impl Place ===

impl Place {
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        check_characters(text)?;
        if text == "~" || text == "~/" {
            return Err(InvalidPath::WholeHome);
        }
        let text = without_slash(text);
        if let Some(rest) = text.strip_prefix("~/") {
            check_parts(rest)?;
            return Ok(Place::Home(rest.to_owned()));
        }
        if text.starts_with('/') {
            check_absolute(text)?;
            return Ok(Place::Absolute(text.to_owned()));
        }
        check_relative(text)?;
        Ok(Place::Project(text.to_owned()))
    }

    /// A file that a workspace gets from the user: of home or of the project.
    pub fn parse_given(text: &str) -> Result<Self, InvalidPath> {
        match Self::parse(text)? {
            Place::Absolute(_) => Err(InvalidPath::NotGiven),
            place => Ok(place),
        }
    }

    /// A mount point inside: below home or absolute, and not one that the system needs.
    pub fn parse_mount(text: &str) -> Result<Self, InvalidPath> {
        let place = Self::parse(text)?;
        match &place {
            Place::Project(_) => Err(InvalidPath::NotAbsolute),
            Place::Home(_) => Ok(place),
            Place::Absolute(path) => check_not_system(path).map(|()| place),
        }
    }

    /// The absolute path for this root and home.
    pub fn resolve(&self, root: &Path, home: &Path) -> PathBuf {
        match self {
            Place::Project(relative) => root.join(relative),
            Place::Home(relative) => home.join(relative),
            Place::Absolute(path) => PathBuf::from(path),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Project(path) | Place::Absolute(path) => f.write_str(path),
            Place::Home(path) => write!(f, "~/{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots() {
        let check = |text: &str, expect: Result<(), InvalidPath>| {
            assert_eq!(Root::parse(text).map(|_| ()), expect, "{text}");
        };
        check("/home/me/src/shop", Ok(()));
        check("/home/me/a b/größe", Ok(()));
        check("/tmp/x", Ok(()));
        check("/var/www/shop", Ok(()));
        check("/usrx", Ok(()));
        check("", Err(InvalidPath::Empty));
        check("src/shop", Err(InvalidPath::NotAbsolute));
        check("~/shop", Err(InvalidPath::NotAbsolute));
        check("/home/../etc", Err(InvalidPath::Dots("..")));
        check("/home/./me", Err(InvalidPath::Dots(".")));
        check("/home//me", Err(InvalidPath::EmptyPart));
        check("/home/me/", Err(InvalidPath::EmptyPart));
        check("//", Err(InvalidPath::EmptyPart));
        check("/a\0b", Err(InvalidPath::Control('\0')));
        check("/a\nb", Err(InvalidPath::Control('\n')));
        check("/", Err(InvalidPath::System("/")));
        check("/home", Err(InvalidPath::System("/home")));
        check("/tmp", Err(InvalidPath::System("/tmp")));
        check("/var", Err(InvalidPath::System("/var")));
        check("/usr", Err(InvalidPath::System("/usr")));
        check("/usr/src/app", Err(InvalidPath::System("/usr")));
        check("/etc/holm", Err(InvalidPath::System("/etc")));
        check("/lib64", Err(InvalidPath::System("/lib64")));
        check("/proc/1", Err(InvalidPath::System("/proc")));
        check("/run/holm", Err(InvalidPath::System("/run")));
        check("/var/run/x", Err(InvalidPath::System("/var/run")));
        let long = format!("/{}", "a".repeat(256));
        check(&long, Err(InvalidPath::TooLong(LONGEST_PART)));
        let long = "/a".repeat(2000);
        check(&long, Err(InvalidPath::TooLong(LONGEST_PATH)));
    }

    #[test]
    fn protected_paths() {
        let check = |text: &str, expect: Result<&str, InvalidPath>| {
            let found = ProtectedPath::parse(text);
            let found = found.as_ref().map(ProtectedPath::as_str);
            assert_eq!(found, expect.as_ref().copied(), "{text}");
        };
        check("AGENTS.md", Ok("AGENTS.md"));
        check(".github", Ok(".github"));
        check("infra/prod/", Ok("infra/prod"));
        check("app/[id]", Ok("app/[id]"));
        check("", Err(InvalidPath::Empty));
        check("/", Err(InvalidPath::NotRelative));
        check("/etc", Err(InvalidPath::NotRelative));
        check("~/x", Err(InvalidPath::NotRelative));
        check("..", Err(InvalidPath::Dots("..")));
        check("a/../b", Err(InvalidPath::Dots("..")));
        check("./a", Err(InvalidPath::Dots(".")));
        check(".", Err(InvalidPath::WholeProject));
        check("a//b", Err(InvalidPath::EmptyPart));
        check("a//", Err(InvalidPath::EmptyPart));
        check("a\0", Err(InvalidPath::Control('\0')));
        check("infra/**", Err(InvalidPath::Glob('*')));
    }

    #[test]
    fn patterns() {
        assert!(Pattern::parse("src/**").is_ok());
        assert_eq!(Pattern::parse("!a"), Err(InvalidPath::Negated));
        assert_eq!(Pattern::parse("../x"), Err(InvalidPath::Dots("..")));
        assert_eq!(Pattern::parse("~/.ssh/id"), Err(InvalidPath::NotRelative));
        assert_eq!(Pattern::parse("/etc/passwd"), Err(InvalidPath::NotRelative));
    }

    #[test]
    fn places() {
        let home = |text: &str| Ok(Place::Home(text.to_owned()));
        assert_eq!(Place::parse("~/.npm"), home(".npm"));
        assert_eq!(Place::parse("a/b"), Ok(Place::Project("a/b".to_owned())));
        assert_eq!(Place::parse("~/src/"), home("src"));
        assert_eq!(Place::parse("~/src//"), Err(InvalidPath::EmptyPart));
        assert_eq!(Place::parse("~"), Err(InvalidPath::WholeHome));
        assert_eq!(Place::parse("~/"), Err(InvalidPath::WholeHome));
        assert_eq!(Place::parse("~/../x"), Err(InvalidPath::Dots("..")));
        assert_eq!(Place::parse_mount("a"), Err(InvalidPath::NotAbsolute));
        assert_eq!(Place::parse_mount("/etc"), Err(InvalidPath::System("/etc")));
        assert!(Place::parse_mount("/data/pg").is_ok());
        let resolved = Place::parse("~/.npm").map(|p| p.resolve(Path::new("/r"), Path::new("/h")));
        assert_eq!(resolved, Ok(PathBuf::from("/h/.npm")));
    }
}
