//! PATH entries and the directories they need, as data: a disk in memory, one row per toolchain.

use holm_core::toolchain::denied::{DENIED, touches};
use holm_core::toolchain::{Client, Look, Visible, Why, visible};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const HOME: &str = "/home/me";

/// A disk: paths that exist (with everything above them), and links.
#[derive(Default)]
struct Disk {
    paths: BTreeSet<PathBuf>,
    links: BTreeMap<PathBuf, PathBuf>,
}

// === impl Disk ===

impl Disk {
    /// `~/a/b` exists; `~/a -> target` is a link.
    fn new(lines: &[&str]) -> Self {
        let mut disk = Disk::default();
        for line in lines {
            let (path, target) = match line.split_once(" -> ") {
                Some((path, target)) => (path, Some(target)),
                None => (*line, None),
            };
            let path = at_home(path);
            // The root of a disk is not a link.
            if let Some(target) = target
                && path.parent().is_some()
            {
                disk.links.insert(path.clone(), at_home(target));
            }
            disk.paths.extend(path.ancestors().map(Path::to_owned));
        }
        disk
    }

    /// Follows links by replacing the first linked ancestor until there is none.
    fn follow(&self, path: &Path) -> PathBuf {
        let mut path = path.to_owned();
        for _ in 0..10 {
            let linked = path
                .ancestors()
                .find(|above| self.links.contains_key(*above));
            let Some(linked) = linked.map(Path::to_owned) else {
                break;
            };
            let rest = path.strip_prefix(&linked).unwrap().to_owned();
            let target = &self.links[&linked];
            let target = linked.parent().unwrap().join(target);
            path = if rest.as_os_str().is_empty() {
                target
            } else {
                target.join(rest)
            };
        }
        path
    }

    fn see(&self, path: &str, variables: &[(&str, &str)], extra: &[&str]) -> Visible {
        let expanded: Vec<_> = path.split(':').map(at_home_text).collect();
        let variables = variables
            .iter()
            .map(|(name, value)| (name.to_string(), at_home_text(value)))
            .collect();
        let extra: Vec<_> = extra.iter().map(|path| at_home(path)).collect();
        let client = Client {
            path: &expanded.join(":"),
            home: Path::new(HOME),
            variables: &variables,
            root: Path::new("/home/me/src/shop"),
            extra: &extra,
        };
        let look = Look {
            read_link: &|path| self.links.get(path).cloned(),
            exists: &|path| self.paths.contains(&self.follow(path)),
            list: &|directory| {
                let inside = |path: &&PathBuf| path.parent() == Some(directory);
                self.paths.iter().filter(inside).cloned().collect()
            },
        };
        visible(&client, &look)
    }
}

fn at_home_text(text: &str) -> String {
    match text.strip_prefix("~") {
        Some(rest) => format!("{HOME}{rest}"),
        None => text.to_owned(),
    }
}

fn at_home(text: &str) -> PathBuf {
    PathBuf::from(at_home_text(text))
}

fn shown(seen: &Visible) -> Vec<String> {
    let shown = seen
        .shown
        .iter()
        .map(|path| path.to_str().unwrap().replace(HOME, "~"));
    shown.collect()
}

fn path_inside(seen: &Visible) -> String {
    let inside = seen
        .path
        .strip_prefix("/run/holm/bin")
        .expect("holm is first");
    inside.trim_start_matches(':').replace(HOME, "~")
}

/// One row: the disk, the PATH, the visible directories, the PATH inside.
#[track_caller]
fn check(disk: &[&str], path: &str, expect: &[&str], inside: &str) {
    let seen = Disk::new(disk).see(path, &[], &[]);
    assert_eq!(shown(&seen), expect, "shown for {path}");
    assert_eq!(path_inside(&seen), inside, "PATH of {path}");
}

#[test]
fn known_toolchains_of_rust_and_node() {
    check(
        &[
            "~/.cargo/bin/cargo",
            "~/.cargo/credentials.toml",
            "~/.cargo/registry",
            "~/.rustup",
        ],
        "~/.cargo/bin:/usr/bin",
        &["~/.cargo/bin", "~/.rustup"],
        "~/.cargo/bin:/usr/bin",
    );
    check(
        &[
            "~/.nvm/versions/node/v22.1.0/bin/node",
            "~/.nvm/versions/node/v20.0.0/bin/node",
        ],
        "~/.nvm/versions/node/v22.1.0/bin",
        &["~/.nvm/versions/node/v22.1.0"],
        "~/.nvm/versions/node/v22.1.0/bin",
    );
    let npmrc = [
        "~/.nvm/versions/node/v22/bin/node",
        "~/.nvm/versions/node/v22/lib",
        "~/.nvm/versions/node/v22/etc/npmrc",
    ];
    check(
        &npmrc,
        "~/.nvm/versions/node/v22/bin",
        &[
            "~/.nvm/versions/node/v22/bin",
            "~/.nvm/versions/node/v22/lib",
        ],
        "~/.nvm/versions/node/v22/bin",
    );
    check(
        &["~/.volta/bin/node"],
        "~/.volta/bin",
        &["~/.volta"],
        "~/.volta/bin",
    );
    check(
        &[
            "~/.local/share/fnm/node-versions/v22/installation/bin/node",
            "/run/user/1/fnm/7 -> ~/.local/share/fnm/node-versions/v22/installation",
        ],
        "/run/user/1/fnm/7/bin",
        &["~/.local/share/fnm/node-versions/v22"],
        "~/.local/share/fnm/node-versions/v22/installation/bin",
    );
    check(
        &[
            "~/.bun/bin/bun",
            "~/.bun/install/global",
            "~/.bun/install/cache",
        ],
        "~/.bun/bin",
        &["~/.bun/bin", "~/.bun/install/global"],
        "~/.bun/bin",
    );
    check(
        &["~/.deno/bin/deno"],
        "~/.deno/bin",
        &["~/.deno/bin"],
        "~/.deno/bin",
    );
    check(
        &["~/.npm-global/bin/tsc", "~/.npm-global/lib", "~/.npmrc"],
        "~/.npm-global/bin",
        &["~/.npm-global/bin", "~/.npm-global/lib"],
        "~/.npm-global/bin",
    );
    check(
        &["~/.local/share/pnpm/pnpm"],
        "~/.local/share/pnpm",
        &["~/.local/share/pnpm"],
        "~/.local/share/pnpm",
    );
}

#[test]
fn known_toolchains_of_python() {
    check(
        &["~/.pyenv/shims/python", "~/.pyenv/bin/pyenv"],
        "~/.pyenv/shims:~/.pyenv/bin",
        &["~/.pyenv"],
        "~/.pyenv/shims:~/.pyenv/bin",
    );
    check(
        &[
            "~/.local/bin/uv",
            "~/.local/bin/ruff -> ~/.local/share/uv/tools/ruff/bin/ruff",
            "~/.local/share/uv/tools/ruff/bin/ruff",
            "~/.local/share/uv/tools/other/bin/other",
            "~/.local/share/uv/python/cpython-3.13",
            "~/.local/share/uv/credentials/credentials.toml",
        ],
        "~/.local/bin",
        &[
            "~/.local/bin",
            "~/.local/share/uv/python",
            "~/.local/share/uv/tools/ruff",
        ],
        "~/.local/bin",
    );
    check(
        &[
            "~/.local/bin/black -> ../share/pipx/venvs/black/bin/black",
            "~/.local/share/pipx/venvs/black/bin/black",
            "~/.local/share/pipx/shared",
        ],
        "~/.local/bin",
        &[
            "~/.local/bin",
            "~/.local/share/pipx/shared",
            "~/.local/share/pipx/venvs/black",
        ],
        "~/.local/bin",
    );
    check(
        &[
            "~/miniconda3/bin/python",
            "~/miniconda3/lib",
            "~/miniconda3/.condarc",
        ],
        "~/miniconda3/bin",
        &["~/miniconda3/bin", "~/miniconda3/lib"],
        "~/miniconda3/bin",
    );
}

#[test]
fn known_toolchains_of_others() {
    check(
        &["~/.rbenv/shims/ruby"],
        "~/.rbenv/shims",
        &["~/.rbenv"],
        "~/.rbenv/shims",
    );
    check(
        &["~/.asdf/shims/node", "~/.tool-versions"],
        "~/.asdf/shims",
        &["~/.asdf", "~/.tool-versions"],
        "~/.asdf/shims",
    );
    check(
        &[
            "~/.local/share/mise/installs/node/22/bin/node",
            "~/.local/share/mise/shims/node",
            "~/.config/mise/config.toml",
        ],
        "~/.local/share/mise/installs/node/22/bin",
        &["~/.local/share/mise/installs", "~/.local/share/mise/shims"],
        "~/.local/share/mise/installs/node/22/bin",
    );
    check(
        &[
            "~/.sdkman/candidates/java/21-tem/bin/java",
            "~/.sdkman/candidates/java/current -> 21-tem",
        ],
        "~/.sdkman/candidates/java/current/bin",
        &["~/.sdkman/candidates/java/21-tem"],
        "~/.sdkman/candidates/java/21-tem/bin",
    );
    check(
        &[
            "~/go/bin/gopls",
            "~/go/pkg/mod",
            "~/sdk/go1.24/bin/go",
            "~/sdk/go1.24/src",
        ],
        "~/go/bin:~/sdk/go1.24/bin",
        &["~/go/bin", "~/sdk/go1.24"],
        "~/go/bin:~/sdk/go1.24/bin",
    );
    check(
        &[
            "~/.local/go/bin/go",
            "~/.local/go/pkg/tool",
            "~/.local/go/src/runtime",
        ],
        "~/.local/go/bin",
        &["~/.local/go"],
        "~/.local/go/bin",
    );
    check(
        &[
            "~/.juliaup/bin/julia",
            "~/.julia/juliaup/julia-1.11",
            "~/.julia/packages",
        ],
        "~/.juliaup/bin",
        &["~/.julia/juliaup", "~/.juliaup/bin"],
        "~/.juliaup/bin",
    );
    check(
        &["~/.ghcup/bin/ghc"],
        "~/.ghcup/bin",
        &["~/.ghcup"],
        "~/.ghcup/bin",
    );
    check(&["~/bin/x", "~/lib/y"], "~/bin", &["~/bin"], "~/bin");
    check(
        &[
            "~/.local/bin/agent -> ~/.local/share/agent/versions/2.0",
            "~/.local/share/agent/versions/2.0",
        ],
        "~/.local/bin",
        &["~/.local/bin", "~/.local/share/agent/versions"],
        "~/.local/bin",
    );
}

#[test]
fn unknown_entries_are_shown_as_themselves() {
    check(
        &["~/tools/foo/x"],
        "~/tools/foo",
        &["~/tools/foo"],
        "~/tools/foo",
    );
    check(
        &["~/tools/foo/bin/x"],
        "~/tools/foo/bin",
        &["~/tools/foo/bin"],
        "~/tools/foo/bin",
    );
    check(
        &["~/t/bin/x", "~/t/lib", "~/t/share", "~/t/private"],
        "~/t/bin",
        &["~/t/bin", "~/t/lib", "~/t/share"],
        "~/t/bin",
    );
    check(
        &["/data/tools/bin/x"],
        "/data/tools/bin",
        &["/data/tools/bin"],
        "/data/tools/bin",
    );
    check(
        &["/opt/idea/bin/x", "/opt/idea/lib"],
        "/opt/idea/bin",
        &["/opt/idea"],
        "/opt/idea/bin",
    );
    check(
        &[
            "/nix/store/abc-profile/bin",
            "~/.nix-profile -> /nix/store/abc-profile",
        ],
        "~/.nix-profile/bin",
        &["/nix"],
        "/nix/store/abc-profile/bin",
    );
}

#[test]
fn the_order_of_path_is_kept_and_nothing_is_there_twice() {
    check(
        &["~/bin/x", "~/.cargo/bin/cargo", "~/.rustup"],
        "/usr/local/bin:~/bin:/usr/bin:~/.cargo/bin:/bin:~/bin/:/usr/bin:/usr//bin/.",
        &["~/.cargo/bin", "~/.rustup", "~/bin"],
        "/usr/local/bin:~/bin:/usr/bin:~/.cargo/bin:/bin",
    );
    check(&[], "", &[], "");
    check(&["/run/holm/bin/holm"], "/run/holm/bin:/bin", &[], "/bin");
    // Programs in the project belong to the workspace.
    check(
        &[],
        "~/src/shop/node_modules/.bin",
        &[],
        "~/src/shop/node_modules/.bin",
    );
}

#[test]
fn what_is_left_out_and_why() {
    let left_out = |disk: &[&str], path: &str, why: Why| {
        let seen = Disk::new(disk).see(path, &[], &[]);
        assert_eq!(shown(&seen), [""; 0], "{path}");
        assert_eq!(path_inside(&seen), "", "{path}");
        assert_eq!(
            seen.left_out.first().map(|left| left.why),
            Some(why),
            "{path}"
        );
    };
    left_out(&[], "", Why::Relative);
    left_out(&[], ".", Why::Relative);
    left_out(&["~/bin/x"], "bin", Why::Relative);
    left_out(&[], "~/gone/bin", Why::Absent);
    left_out(&["~/x"], "~", Why::TooWide);
    left_out(&["~/x"], "/home", Why::TooWide);
    left_out(&["~/src/shop"], "~/src", Why::TooWide);
    left_out(&["~/.docker/bin/docker"], "~/.docker/bin", Why::Credentials);
    left_out(&["~/.ssh/id"], "~/.ssh", Why::Credentials);
    left_out(&["~/.cargo/credentials.toml"], "~/.cargo", Why::Credentials);
    left_out(&["~/.local/bin/x"], "~/.local", Why::Credentials);
    left_out(&["~/.config/x"], "~/.config", Why::Credentials);
    left_out(&["~/.ssh/id", "~/t -> ~/.ssh"], "~/t", Why::Credentials);
    left_out(&["~/x", "~/t -> /home/me"], "~/t", Why::TooWide);
    left_out(&["/home/other/bin/x"], "/home/other/bin", Why::Denied);
    left_out(&["/root/bin/x"], "/root/bin", Why::Denied);
    left_out(&["/tmp/bin/x"], "/tmp/bin", Why::Denied);
    left_out(&["/proc/1/cwd"], "/proc/1/cwd", Why::Denied);
    left_out(&["/run/x/bin"], "/run/x/bin", Why::Denied);
    left_out(&["/mnt/c/Windows/x"], "/mnt/c/Windows", Why::Denied);
}

#[test]
fn links_into_projects_and_credentials_show_nothing_of_them() {
    let disk = [
        "~/bin/deploy -> ~/src/other/deploy.sh",
        "~/src/other/deploy.sh",
        "~/bin/key -> ~/.ssh/id",
        "~/.ssh/id",
        "~/bin/loop -> ~/bin/loop",
        "~/bin/dead -> ~/.local/share/dead/x",
    ];
    check(&disk, "~/bin", &["~/bin"], "~/bin");
    // A toolchain directory that is a link to something denied is not shown either.
    let disk = ["~/.cargo/bin/cargo", "~/.rustup -> ~/.ssh", "~/.ssh/id"];
    check(&disk, "~/.cargo/bin", &["~/.cargo/bin"], "~/.cargo/bin");
}

#[test]
fn variables_move_toolchains_within_home_only() {
    let disk = Disk::new(&[
        "~/.cargo/bin/cargo",
        "~/rust/up/toolchains",
        "/data/up",
        "~/.rustup",
    ]);
    let seen = disk.see("~/.cargo/bin", &[("RUSTUP_HOME", "~/rust/up")], &[]);
    assert_eq!(shown(&seen), ["~/.cargo/bin", "~/rust/up"]);
    for elsewhere in ["/data/up", "~", "~/../other", "relative", ""] {
        let seen = disk.see("~/.cargo/bin", &[("RUSTUP_HOME", elsewhere)], &[]);
        assert_eq!(shown(&seen), ["~/.cargo/bin", "~/.rustup"], "{elsewhere}");
    }
}

#[test]
fn wishes_are_shown_unless_they_hold_credentials() {
    let disk = Disk::new(&["~/sdk/x", "/mnt/tools/bin", "~/.ssh/id", "/proc/1"]);
    let wishes = ["~/sdk", "/mnt/tools", "~/.ssh", "~", "/", "/proc", "~/gone"];
    let seen = disk.see("", &[], &wishes);
    assert_eq!(shown(&seen), ["~/sdk", "/mnt/tools"]);
    let why: Vec<_> = seen.left_out.iter().map(|left| left.why).collect();
    let expect = [
        Why::Relative,
        Why::Credentials,
        Why::TooWide,
        Why::TooWide,
        Why::Denied,
        Why::Absent,
    ];
    assert_eq!(why, expect);
}

#[test]
fn a_home_that_is_a_link_is_home() {
    let disk = Disk::new(&[
        "/home/me -> /data/me",
        "/data/me/.cargo/bin/cargo",
        "/data/me/.rustup",
        "/data/me/.ssh/id",
    ]);
    let seen = disk.see("/data/me/.cargo/bin:~/.ssh", &[], &[]);
    assert_eq!(shown(&seen), ["~/.cargo/bin", "~/.rustup"]);
    assert_eq!(path_inside(&seen), "~/.cargo/bin");
}

/// PATH entries from parts that matter to the rules.
fn any_entry() -> impl Strategy<Value = String> {
    let part = prop_oneof![prop::sample::select(vec![
        "bin",
        "lib",
        "shims",
        ".cargo",
        ".rustup",
        ".nvm",
        "versions",
        "node",
        "v22",
        ".local",
        "share",
        "uv",
        "tools",
        "mise",
        ".ssh",
        ".config",
        "gh",
        ".docker",
        ".pyenv",
        ".dotnet",
        "src",
        "shop",
        "..",
        ".",
        "sdk",
        "miniconda3",
        ".m2",
        ".gem",
        "ruby",
        ".fnm",
        "go",
    ]),];
    let start = prop::sample::select(vec!["~", "~", "~", "", "/home", "/opt", "/data", "."]);
    (start, prop::collection::vec(part, 0..5))
        .prop_map(|(start, parts)| format!("{start}/{}", parts.join("/")))
}

proptest! {
    // A failing case is printed; it is kept by writing a test for it.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_credential_is_ever_shown(
        entries in prop::collection::vec(any_entry(), 0..5),
        links in prop::collection::vec((any_entry(), any_entry()), 0..4),
        variable in any_entry(),
        wish in any_entry(),
    ) {
        let mut lines: Vec<String> = entries.iter().map(|entry| format!("{entry}/program")).collect();
        lines.extend(DENIED.iter().map(|denied| format!("~/{denied}")));
        lines.extend(links.iter().map(|(from, to)| format!("{from} -> {to}")));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let disk = Disk::new(&lines);
        let variables = [("RUSTUP_HOME", variable.as_str()), ("CARGO_HOME", &variable)];
        let seen = disk.see(&entries.join(":"), &variables, &[&wish]);
        for path in &seen.shown {
            prop_assert!(path.is_absolute());
            prop_assert!(!Path::new(HOME).starts_with(path), "home by {}", path.display());
            prop_assert!(!Path::new("/home/me/src/shop").starts_with(path), "{}", path.display());
            if let Ok(below) = path.strip_prefix(HOME) {
                prop_assert!(!touches(below), "{}", path.display());
            }
            if let Ok(below) = disk.follow(path).strip_prefix(HOME) {
                prop_assert!(!touches(below), "{} by a link", path.display());
            }
        }
        for entry in seen.path.split(':') {
            prop_assert!(entry.starts_with('/'));
        }
    }
}
