//! Reads the user's git configuration from its files, without git.
//!
//! Only what needs no interpretation is read here: plain sections, plain keys and plain values in the files that git
//! itself would read. Everything else (quotes, escapes, comments behind values, includes, a git that may read other
//! files) gives `None`; then the caller asks git, which also explains mistakes. This function never fails.

use super::Config;
use crate::command;
use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The git of a distribution, which is built to read [`SYSTEM`]. Another one may read another file.
const PROGRAM: &str = "/usr/bin/git";
const SYSTEM: &str = "/etc/gitconfig";

/// A git that the administrator built. It reads the second file, or the first one if it was configured so.
const LOCAL_PROGRAM: &str = "/usr/local/bin/git";
const LOCAL_SYSTEM: [&str; 2] = [SYSTEM, "/usr/local/etc/gitconfig"];

/// A longer file is left to git.
const LONGEST: u64 = 256 * 1024;

/// The configuration of an ordinary repository.
pub(super) fn read(git_dir: &Path) -> Option<Config> {
    let places = Places::find()?;
    let mut config = places.system.read()?;
    for path in &places.global {
        add(&mut config, b"global", path)?;
    }
    add(&mut config, b"local", &git_dir.join("config"))?;
    config.remotes.retain(|remote| !remote.url.is_empty());
    Some(config)
}

/// The files beside the repository's own, in the order in which git reads them.
struct Places {
    system: System,
    global: Vec<PathBuf>,
}

/// The configuration for all users.
enum System {
    None,
    File(PathBuf),
    /// git reads one of these files. Which one does not matter if no file has a value that holm uses.
    OneOf([PathBuf; 2]),
}

// === impl Places ===

impl Places {
    fn find() -> Option<Self> {
        let program = command::program().ok()?;
        let is_of_distribution = program == Path::new(PROGRAM);
        let is_local = || program == Path::new(LOCAL_PROGRAM) && is_program(program);
        (is_of_distribution || is_local()).then_some(())?;
        let variable = |name: &str| std::env::var_os(name);
        let absolute = |text: OsString| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
        let system = match (
            variable("GIT_CONFIG_NOSYSTEM"),
            variable("GIT_CONFIG_SYSTEM"),
        ) {
            (Some(is_off), _) if is_off == "1" => System::None,
            (Some(_), _) => return None,
            (None, Some(path)) => System::File(absolute(path)?),
            (None, None) if is_of_distribution => System::File(SYSTEM.into()),
            (None, None) => System::OneOf(LOCAL_SYSTEM.map(PathBuf::from)),
        };
        let global = match variable("GIT_CONFIG_GLOBAL") {
            Some(path) => vec![absolute(path)?],
            None => {
                let home = absolute(variable("HOME")?)?;
                let own = match variable("XDG_CONFIG_HOME").filter(|path| !path.is_empty()) {
                    Some(path) => absolute(path)?,
                    None => home.join(".config"),
                };
                vec![own.join("git/config"), home.join(".gitconfig")]
            }
        };
        Some(Self { system, global })
    }
}

// === impl System ===

impl System {
    fn read(&self) -> Option<Config> {
        let mut config = Config::default();
        match self {
            System::None => {}
            System::File(path) => add(&mut config, b"system", path)?,
            System::OneOf(paths) => {
                for path in paths {
                    add(&mut config, b"system", path)?;
                }
                (config == Config::default()).then_some(())?;
            }
        }
        Some(config)
    }
}

/// A script in the place of git may set anything, so only a program counts.
fn is_program(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

/// Adds the values of one file, which may be missing.
fn add(config: &mut Config, scope: &[u8], path: &Path) -> Option<()> {
    let text = match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() <= LONGEST => fs::read_to_string(path).ok()?,
        // `GIT_CONFIG_GLOBAL=/dev/null` means that there is none.
        Ok(_) if path == Path::new("/dev/null") => return Some(()),
        Ok(_) => return None,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(()),
        Err(_) => return None,
    };
    let mut section = None;
    for line in text.lines() {
        let line = line.trim_matches([' ', '\t']);
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('[') {
            section = Some(header(line)?);
            continue;
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim_end_matches([' ', '\t']), plain(value)?),
            None => (line, "true"),
        };
        is_key(key).then_some(())?;
        let name = format!("{}.{}", section.as_ref()?, key.to_ascii_lowercase());
        config.take(scope, &name, value);
    }
    Some(())
}

/// `[name]` or `[name "part"]`, as the beginning of a full key.
fn header(line: &str) -> Option<String> {
    let inner = line.strip_prefix('[')?.strip_suffix(']')?;
    let (name, part) = match inner.split_once(' ') {
        None => (inner, None),
        Some((name, part)) => {
            let part = part.strip_prefix('"')?.strip_suffix('"')?;
            (name, Some(part))
        }
    };
    is_key(name).then_some(())?;
    let name = name.to_ascii_lowercase();
    let is_include = name == "include" || name == "includeif";
    (!is_include).then_some(())?;
    match part {
        None => Some(name),
        Some(part) => {
            let is_plain = !part.contains(['"', '\\']) && !part.contains(char::is_control);
            is_plain.then(|| format!("{name}.{part}"))
        }
    }
}

fn is_key(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A value that git takes as it is. git versions differ in what they make of a tab.
fn plain(value: &str) -> Option<&str> {
    let value = value.trim_matches([' ', '\t']);
    let is_plain = !value.contains(['"', '\\', '#', ';']) && !value.contains(char::is_control);
    is_plain.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Git;

    /// What one file says, here and by git itself.
    fn both(text: &str) -> (Option<String>, Option<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        fs::write(&path, text).unwrap();
        let mut config = Config::default();
        let ours = add(&mut config, b"local", &path).map(|()| format!("{config:?}"));
        let listed = Git::sealed("config")
            .unwrap()
            .args(["--null", "--show-scope", "--list", "--file"])
            .more([&path])
            .output();
        let theirs = listed.ok().map(|listed| {
            let listed = String::from_utf8(listed).unwrap();
            // git says `command` of a file that is named.
            let listed = listed.replace("command\0", "local\0");
            let mut config = Config::default();
            config.add(listed.as_bytes());
            format!("{config:?}")
        });
        (ours, theirs)
    }

    #[test]
    fn a_git_of_the_administrator_is_known_if_files_for_all_users_do_not_matter() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let missing = || directory.path().join("missing");
        let plain = file("plain", "[filter \"lfs\"]\n\trequired = true\n");
        let named = file("named", "[user]\n\tname = Ada\n");
        let odd = file("odd", "[include]\n\tpath = other\n");
        let knows = |paths| System::OneOf(paths).read().is_some();
        assert!(knows([missing(), missing()]));
        assert!(knows([plain.clone(), missing()]));
        assert!(!knows([plain.clone(), named.clone()]));
        assert!(!knows([named.clone(), missing()]));
        assert!(!knows([missing(), odd]));
        let read = System::File(named).read().unwrap();
        assert_eq!(read.user_name.as_deref(), Some("Ada"));
        assert!(is_program(&std::env::current_exe().unwrap()));
        let script = "#!/bin/sh\nexec /usr/bin/git -c user.name=Ada \"$@\"\n";
        assert!(!is_program(&file("git", script)));
    }

    #[test]
    fn plain_files_say_the_same_as_git_says() {
        for text in [
            "",
            "# nothing\n; nothing\n",
            "[user]\r\n\tname = Ada\r\n",
            "[user]\n\tname = Ada  Lovelace \n  EMail=ada@example.org\n",
            "[remote \"origin\"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            "[Remote \"Two Words.x\"]\n\turl = https://example.org/b.git\n[user]\nname =\n",
            "[remote \"a\"]\npromisor\nurl=https://example.org/c.git\n",
            "[core]\n\tsshCommand = ssh -v\n[filter \"x\"]\n\tclean = run it\n[holm]\nurl = one\nurl = two\n",
        ] {
            let (ours, theirs) = both(text);
            assert!(ours.is_some(), "{text:?} is plain");
            assert_eq!(ours, theirs, "{text:?}");
        }
    }

    #[test]
    fn everything_else_is_left_to_git() {
        for text in [
            "[user]\n\tname = \"Ada\"\n",
            "[user]\n\tname = Ada # of London\n",
            "[user]\n\tname = Ada; of London\n",
            "[user]\n\tname = A\\\n da\n",
            "[user]\n\tname = A\tda\n",
            "[user] name = Ada\n",
            "[include]\n\tpath = other\n",
            "[includeIf \"gitdir:/\"]\n\tpath = other\n",
            "[remote.origin]\n\turl = https://example.org/a.git\n",
            "[remote \"a\\\"b\"]\n\turl = https://example.org/a.git\n",
            "[user\n",
            "name = Ada\n",
            "[user]\n1name = Ada\n",
            "\u{feff}[user]\n\tname = Ada\n",
        ] {
            let (ours, _) = both(text);
            assert_eq!(ours, None, "{text:?}");
        }
    }
}
