//! Known toolchains: where their programs are on PATH, and which directories those need.
//!
//! For an unknown entry only that directory is shown, with the libraries beside it when it is the
//! `bin` of a prefix.

use super::{Client, Look};
use std::path::{Path, PathBuf};

/// A place of programs. All paths are relative to home (or to where a variable moved them).
struct Row {
    /// The beginning of the PATH entry. `*` matches one part, which `show` may use.
    at: &'static str,
    show: Show,
}

/// What is shown. `*` stands for what it matched in `at`.
enum Show {
    Paths(&'static [&'static str]),
    /// The first, unless the second exists: then only the libraries beside `bin`.
    Unless(&'static str, &'static str),
    /// These subdirectories of `at`.
    Parts(&'static [&'static str]),
}

const fn row(at: &'static str, paths: &'static [&'static str]) -> Row {
    Row {
        at,
        show: Show::Paths(paths),
    }
}

const fn conda(at: &'static str) -> Row {
    Row {
        at,
        show: Show::Parts(CONDA),
    }
}

/// The first row that matches decides.
const ROWS: &[Row] = &[
    // rustup: the proxies need the toolchains. The rest of .cargo contains the registry token.
    row(".cargo/bin", &[".cargo/bin", ".rustup"]),
    row(".rustup/toolchains/*", &[".rustup/toolchains/*"]),
    // Node. A prefix may have an `etc/npmrc` with tokens.
    Row {
        at: ".nvm/versions/node/*",
        show: Show::Unless(".nvm/versions/node/*", ".nvm/versions/node/*/etc/npmrc"),
    },
    Row {
        at: ".local/share/fnm/node-versions/*",
        show: Show::Unless(
            ".local/share/fnm/node-versions/*",
            ".local/share/fnm/node-versions/*/installation/etc/npmrc",
        ),
    },
    Row {
        at: ".fnm/node-versions/*",
        show: Show::Unless(
            ".fnm/node-versions/*",
            ".fnm/node-versions/*/installation/etc/npmrc",
        ),
    },
    row(".volta/bin", &[".volta"]),
    row(".local/share/pnpm", &[".local/share/pnpm"]),
    row(".yarn/bin", &[".yarn/bin"]),
    row(".config/yarn/global", &[".config/yarn/global"]),
    row(".bun/bin", &[".bun/bin", ".bun/install/global"]),
    row(".deno/bin", &[".deno/bin"]),
    // Python.
    row(".pyenv", &[".pyenv"]),
    row(
        ".local/share/uv/tools/*",
        &[".local/share/uv/tools/*", ".local/share/uv/python"],
    ),
    row(".local/share/uv/python", &[".local/share/uv/python"]),
    row(
        ".local/share/pipx/venvs/*",
        &[
            ".local/share/pipx/venvs/*",
            ".local/share/pipx/shared",
            ".local/share/pipx/py",
        ],
    ),
    row(
        ".local/pipx/venvs/*",
        &[".local/pipx/venvs/*", ".local/pipx/shared"],
    ),
    // Programs of uv use the Pythons that uv installed.
    row(".local/bin", &[".local/bin", ".local/share/uv/python"]),
    row(
        ".rye",
        &[".rye/shims", ".rye/self", ".rye/py", ".rye/tools"],
    ),
    row(".pixi/bin", &[".pixi/bin", ".pixi/envs"]),
    conda("miniconda3"),
    conda("anaconda3"),
    conda("miniforge3"),
    conda("mambaforge"),
    conda(".conda"),
    conda("micromamba"),
    // Ruby and similar version managers.
    row(".rbenv", &[".rbenv"]),
    row(".rvm", &[".rvm"]),
    row(".gem/ruby/*", &[".gem/ruby/*"]),
    row(".local/share/gem/ruby/*", &[".local/share/gem/ruby/*"]),
    row(".nodenv", &[".nodenv"]),
    row(".goenv", &[".goenv"]),
    row(".jenv", &[".jenv"]),
    row(".phpenv", &[".phpenv"]),
    row(".tfenv", &[".tfenv"]),
    // Version managers for many languages.
    row(".asdf", &[".asdf", ".tool-versions"]),
    row(
        ".local/share/mise",
        &[
            ".local/share/mise/shims",
            ".local/share/mise/installs",
            ".local/bin",
            ".tool-versions",
        ],
    ),
    row(
        ".proto",
        &[
            ".proto/bin",
            ".proto/shims",
            ".proto/tools",
            ".proto/plugins",
        ],
    ),
    // Java.
    row(".sdkman/candidates/*/*", &[".sdkman/candidates/*/*"]),
    // Go.
    row("sdk/*/bin", &["sdk/*"]),
    row("go/bin", &["go/bin"]),
    // Others.
    row(".juliaup/bin", &[".juliaup/bin", ".julia/juliaup"]),
    row(".ghcup", &[".ghcup"]),
    row(".cabal/bin", &[".cabal/bin", ".local/state/cabal"]),
    row(".opam/*/bin", &[".opam/*"]),
    row(".config/composer/vendor", &[".config/composer/vendor"]),
    row(".composer/vendor", &[".composer/vendor"]),
    row(".dotnet/tools", &[".dotnet/tools"]),
    row("bin", &["bin"]),
];

/// The shown parts of a conda installation: all but its settings, which may contain tokens.
const CONDA: &[&str] = &[
    "bin",
    "condabin",
    "conda-meta",
    "envs",
    "etc",
    "include",
    "lib",
    "libexec",
    "pkgs",
    "sbin",
    "share",
    "shell",
    "ssl",
    "x86_64-conda-linux-gnu",
    "aarch64-conda-linux-gnu",
];

/// The shown parts of an unknown prefix.
const BESIDE_BIN: &[&str] = &["bin", "lib", "lib64", "share", "libexec", "include"];

/// Variables that move a place of the table to another directory.
const MOVED: &[(&str, &str)] = &[
    ("RUSTUP_HOME", ".rustup"),
    ("CARGO_HOME", ".cargo"),
    ("NVM_DIR", ".nvm"),
    ("VOLTA_HOME", ".volta"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
    ("ASDF_DATA_DIR", ".asdf"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("SDKMAN_DIR", ".sdkman"),
    ("BUN_INSTALL", ".bun"),
    ("DENO_INSTALL", ".deno"),
    ("GOPATH", "go"),
    ("PNPM_HOME", ".local/share/pnpm"),
    ("FNM_DIR", ".local/share/fnm"),
];

/// What the PATH entry `entry` below home needs.
pub fn needs(entry: &Path, client: &Client<'_>, look: &Look<'_>) -> Vec<PathBuf> {
    known(entry, client, look).unwrap_or_else(|| unknown(entry, look))
}

/// What a program in `directory` needs that a symlink on PATH points to. Only known toolchains and
/// installation directories count: a symlink into a project shows nothing of it.
pub fn needs_of_link(
    directory: &Path,
    client: &Client<'_>,
    look: &Look<'_>,
) -> Option<Vec<PathBuf>> {
    if let Some(needs) = known(directory, client, look) {
        return Some(needs);
    }
    let places = [".local/share", ".local/lib", ".local/opt"];
    let installed = places.iter().any(|place| {
        let place = client.home.join(place);
        directory.starts_with(&place) && directory != place
    });
    installed.then(|| unknown(directory, look))
}

fn known(entry: &Path, client: &Client<'_>, look: &Look<'_>) -> Option<Vec<PathBuf>> {
    for row in ROWS {
        let at = place(row.at, client);
        let Some(matched) = fit(&at, entry) else {
            continue;
        };
        let fill = |pattern: &str| fill_in(&place(pattern, client), &matched);
        return Some(match row.show {
            Show::Parts(parts) => parts.iter().map(|part| at.join(part)).collect(),
            Show::Paths(paths) => paths.iter().map(|path| fill(path)).collect(),
            Show::Unless(_, guard) if (look.exists)(&fill(guard)) => unknown(entry, look),
            Show::Unless(path, _) => vec![fill(path)],
        });
    }
    None
}

/// Only the directory, or the libraries beside it when it is the `bin` of a prefix. A Go
/// distribution is recognised by its contents, because it can be unpacked anywhere.
fn unknown(entry: &Path, look: &Look<'_>) -> Vec<PathBuf> {
    let is_bin = entry.file_name().is_some_and(|name| name == "bin");
    let Some(prefix) = entry.parent().filter(|_| is_bin) else {
        return vec![entry.to_owned()];
    };
    if (look.exists)(&prefix.join("pkg/tool")) && (look.exists)(&prefix.join("src/runtime")) {
        return vec![prefix.to_owned()];
    }
    if !(look.exists)(&prefix.join("lib")) {
        return vec![entry.to_owned()];
    }
    BESIDE_BIN.iter().map(|part| prefix.join(part)).collect()
}

/// The full path of a place. A variable that points outside home is ignored.
fn place(relative: &str, client: &Client<'_>) -> PathBuf {
    for (variable, standard) in MOVED {
        let Ok(below) = Path::new(relative).strip_prefix(standard) else {
            continue;
        };
        let moved = client
            .variables
            .get(*variable)
            .map(|value| super::lexical(Path::new(value)));
        if let Some(moved) = moved
            && moved.starts_with(client.home)
            && moved != client.home
        {
            return if below.as_os_str().is_empty() {
                moved
            } else {
                moved.join(below)
            };
        }
    }
    client.home.join(relative)
}

/// Whether `entry` is at or below `at`, and what `*` matched.
fn fit(at: &Path, entry: &Path) -> Option<Vec<PathBuf>> {
    let mut parts = entry.components();
    let mut matched = Vec::new();
    for wanted in at.components() {
        let part = parts.next()?;
        if wanted.as_os_str() == "*" {
            matched.push(PathBuf::from(part.as_os_str()));
        } else if wanted != part {
            return None;
        }
    }
    Some(matched)
}

fn fill_in(pattern: &Path, matched: &[PathBuf]) -> PathBuf {
    let mut matched = matched.iter();
    let mut path = PathBuf::new();
    for part in pattern.components() {
        if part.as_os_str() == "*" {
            path.extend(matched.next())
        } else {
            path.push(part)
        }
    }
    path
}
