//! Toolchains below home: programs on PATH at `up` work inside, read-only, and nothing else of home
//! is visible, least of all credentials.

use crate::support::{Island, Ran, Repository};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// A home as developers have it.
struct Home {
    island: Island,
}

// === impl Home ===

impl Home {
    fn new() -> Self {
        Self {
            island: Island::new(),
        }
    }

    /// A file below home, with the directories above it.
    fn write(&self, path: &str, text: &str) {
        let mut directory = self.island.home();
        for part in Path::new(path).parent().unwrap() {
            directory.push(part);
            self.island.make_dir(&directory);
        }
        self.island.write(self.island.home().join(path), text);
    }

    fn program(&self, path: &str, text: &str) {
        self.write(path, text);
        let path = self.island.home().join(path);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn link(&self, path: &str, target: impl AsRef<Path>) {
        self.write(path, "");
        let path = self.island.home().join(path);
        std::fs::remove_file(&path).unwrap();
        symlink(target, path).unwrap();
    }

    /// Makes a workspace with these directories of home first on PATH.
    #[track_caller]
    fn up(&self, repository: &Repository<'_>, entries: &[&str]) {
        let home = self.island.home();
        let mut path: Vec<_> = entries
            .iter()
            .map(|entry| home.join(entry).display().to_string())
            .collect();
        path.push("/usr/local/bin:/usr/bin:/bin".to_owned());
        let mut command = self.island.holm_command(&repository.path, &["up", "x"]);
        Ran::new(command.env("PATH", path.join(":"))).ok();
    }

    #[track_caller]
    fn inside(&self, script: &str) -> String {
        self.island.sh("x", script).ok().out()
    }
}

const CREDENTIALS: [&str; 12] = [
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".npmrc",
    ".ssh/id_ed25519",
    ".netrc",
    ".git-credentials",
    ".aws/credentials",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".pypirc",
    ".gnupg/private-keys-v1.d/key",
    ".local/share/keyrings/login.keyring",
];

#[test]
fn rustup_shims_find_their_toolchain_and_no_credentials() {
    let home = Home::new();
    let repository = home.island.repository("shop");
    // Like rustup: one proxy under many names, which reads the settings and runs the default
    // toolchain's program of its own name.
    let proxy = "#!/bin/sh
name=$(basename \"$0\")
toolchain=$(sed -n 's/^default_toolchain = \"\\(.*\\)\"/\\1/p' \"${RUSTUP_HOME:-$HOME/.rustup}/settings.toml\")
exec \"$HOME/.rustup/toolchains/$toolchain/bin/$name\" \"$@\"\n";
    home.program(".cargo/bin/rustup", proxy);
    home.link(".cargo/bin/cargo", "rustup");
    home.link(".cargo/bin/rustc", "rustup");
    home.write(
        ".rustup/settings.toml",
        "version = \"12\"\ndefault_toolchain = \"stable-x\"\n",
    );
    let program =
        "#!/bin/sh\necho \"$(basename \"$0\") 1.99 $(cat \"$(dirname \"$0\")/../lib/std\")\"\n";
    home.program(".rustup/toolchains/stable-x/bin/cargo", program);
    home.program(".rustup/toolchains/stable-x/bin/rustc", program);
    home.write(".rustup/toolchains/stable-x/lib/std", "std");
    home.write(".cargo/registry/index", "hunter2");
    for path in CREDENTIALS {
        home.write(path, "hunter2");
    }
    home.up(&repository, &[".cargo/bin"]);
    assert_eq!(
        home.inside("cargo --version; rustc -V"),
        "cargo 1.99 std\nrustc 1.99 std"
    );
    for path in CREDENTIALS.iter().chain(&[".cargo/registry/index"]) {
        assert_eq!(
            home.inside(&format!("test -e ~/{path}; echo $?")),
            "1",
            "{path}"
        );
        assert!(home.island.home().join(path).exists());
    }
    let place = home.island.home().display().to_string();
    assert_eq!(
        home.inside("grep -rl hunter2 ~ 2>/dev/null; true"),
        "",
        "nothing below {place}"
    );
    // Read-only: neither changed nor replaced. The cache that cargo writes is the workspace's own.
    let attempts = [
        "echo x >> ~/.cargo/bin/cargo",
        "rm -f ~/.rustup/settings.toml",
        "touch ~/.rustup/toolchains/new",
        "mv ~/.rustup ~/.rustup-2",
        "chmod 777 ~/.rustup/settings.toml",
        "ln -sf /bin/true ~/.cargo/bin/cargo",
    ];
    for attempt in attempts {
        assert_ne!(home.island.sh("x", attempt).code, Some(0), "{attempt}");
    }
    home.inside("mkdir -p ~/.cargo/registry && echo own > ~/.cargo/registry/index && cargo -V");
    let outside = home.island.home().join(".cargo/registry/index");
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "hunter2");
    // A toolchain that is updated outside is the new one inside after a restart at the latest.
    home.write(".rustup/toolchains/stable-x/lib/std", "newer");
    home.island.holm(&["restart", "x"]).ok();
    assert_eq!(home.inside("cargo --version"), "cargo 1.99 newer");
}

#[test]
fn an_nvm_node_runs_with_its_modules() {
    let home = Home::new();
    let repository = home.island.repository("shop");
    let version = ".nvm/versions/node/v20.1.0";
    home.write(&format!("{version}/bin/node"), "");
    let node = home.island.home().join(version).join("bin/node");
    std::fs::copy("/usr/bin/node", &node).unwrap();
    std::fs::set_permissions(&node, PermissionsExt::from_mode(0o755)).unwrap();
    home.write(
        &format!("{version}/lib/node_modules/tool/cli.js"),
        "#!/usr/bin/env node\nconsole.log('tool', process.execPath)\n",
    );
    let cli = home
        .island
        .home()
        .join(version)
        .join("lib/node_modules/tool/cli.js");
    std::fs::set_permissions(cli, PermissionsExt::from_mode(0o755)).unwrap();
    home.link(
        &format!("{version}/bin/tool"),
        "../lib/node_modules/tool/cli.js",
    );
    home.write(".nvm/versions/node/v18.0.0/bin/node", "another version");
    home.write(".npmrc", "//registry.example.org/:_authToken=hunter2");
    home.up(&repository, &[&format!("{version}/bin")]);
    assert_eq!(
        home.inside("node -p 6*7; tool; command -v node"),
        format!("42\ntool {0}\n{0}", node.display())
    );
    assert_eq!(
        home.inside("test -e ~/.npmrc || test -e ~/.nvm/versions/node/v18.0.0; echo $?"),
        "1"
    );
    // npm's own files go to the workspace's home.
    home.inside("echo fund=false > ~/.npmrc && mkdir ~/.npm");
    assert!(!home.island.home().join(".npm").exists());
}

#[test]
fn a_python_of_uv_is_found_through_its_link() {
    let home = Home::new();
    let repository = home.island.repository("shop");
    let python = ".local/share/uv/python/cpython-3.11.9-linux-x86_64-gnu";
    home.write(&format!("{python}/bin/python3.11"), "");
    let program = home.island.home().join(python).join("bin/python3.11");
    std::fs::copy(std::fs::canonicalize("/usr/bin/python3").unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    home.write(&format!("{python}/lib/marker"), "library");
    home.link(".local/bin/python3.11", &program);
    home.write(".local/share/uv/credentials/x.toml", "hunter2");
    home.write(".local/share/other/notes", "hunter2");
    home.write(".local/share/keyrings/login.keyring", "hunter2");
    home.up(&repository, &[".local/bin"]);
    let script = "command -v python3.11; python3.11 -c 'import os, sys; \
        print(os.path.realpath(sys.executable)); \
        print(open(os.path.dirname(os.path.realpath(sys.executable)) + \"/../lib/marker\").read())'";
    let link = home.island.home().join(".local/bin/python3.11");
    assert_eq!(
        home.inside(script),
        format!("{}\n{}\nlibrary", link.display(), program.display())
    );
    assert_eq!(home.inside("grep -rl hunter2 ~ 2>/dev/null; true"), "");
    // Virtual environments of it are made and used inside.
    home.inside("python3.11 -m venv --without-pip ~/env 2>&1; ~/env/bin/python -c 'print(1)'");
}

#[test]
fn pyenv_shims_and_versions() {
    let home = Home::new();
    let repository = home.island.repository("shop");
    home.program(
        ".pyenv/shims/python",
        "#!/bin/sh\nexec \"$HOME/.pyenv/libexec/pyenv\" exec python \"$@\"\n",
    );
    home.program(
        ".pyenv/libexec/pyenv",
        "#!/bin/sh\nshift\nname=$1; shift\nversion=$(cat .python-version 2>/dev/null || cat ~/.pyenv/version)\n\
         exec ~/.pyenv/versions/$version/bin/$name \"$@\"\n",
    );
    home.write(".pyenv/version", "3.12.1\n");
    for version in ["3.11.2", "3.12.1"] {
        let program = format!("#!/bin/sh\necho Python {version}\n");
        home.program(&format!(".pyenv/versions/{version}/bin/python"), &program);
    }
    home.up(&repository, &[".pyenv/shims", ".pyenv/bin"]);
    assert_eq!(home.inside("python -V"), "Python 3.12.1");
    assert_eq!(
        home.inside("echo 3.11.2 > .python-version; python -V"),
        "Python 3.11.2"
    );
    assert_ne!(
        home.island.sh("x", "echo 3.11.2 > ~/.pyenv/version").code,
        Some(0)
    );
}

#[test]
fn path_entries_that_are_not_toolchains_bring_nothing_of_home() {
    let home = Home::new();
    let repository = home.island.repository("shop");
    home.write("diary", "hunter2");
    home.write(".ssh/id_ed25519", "hunter2");
    home.write("src/other/bin/tool", "hunter2 of another project");
    home.program("tools/hello", "#!/bin/sh\necho hello\n");
    home.link("tools/diary", "../diary");
    home.link(".sneaky", ".ssh");
    // Home itself, a way up, a directory of keys, a link to it, an empty and a relative entry.
    home.up(
        &repository,
        &["tools", "", "tools/..", ".ssh", ".sneaky", "nowhere"],
    );
    assert_eq!(home.inside("hello"), "hello");
    let found = home.inside("grep -rls hunter2 ~ /home 2>/dev/null; ls -A ~ | tr '\\n' ' '");
    assert_eq!(found, "src tools ");
    let path = home.inside("echo $PATH");
    assert!(path.starts_with("/run/holm/bin:"), "{path}");
    for entry in path.split(':') {
        assert!(!entry.is_empty() && entry.starts_with('/'), "{path}");
    }
}
