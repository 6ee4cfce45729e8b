//! Images that are built from a Dockerfile of the project: what a build is made from, which parts of a Dockerfile reach
//! the network although the network of its commands is off, and which commands will miss it.
//!
//! A client runs the user's builder, which runs the repository's code as that user, so every build is a request that a
//! person approves ([`crate::trust`]).

use crate::image_reference::ImageReference;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The inputs of a build, besides the files. All paths are below the project's root and have no `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageBuild {
    /// The directory whose files the build sees; empty: the root.
    pub context: String,
    pub dockerfile: Dockerfile,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, String>,
    /// The stage; `None`: the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Its commands may use the builder's network.
    #[serde(default)]
    pub network: bool,
    /// Of the text of the Dockerfile that is approved. `None`: the text is here, or an earlier release did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The features of a Dev Container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<FeatureFiles>,
}

/// Directories of the tree that the build sees besides its context, and the end of the Dockerfile that uses them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FeatureFiles {
    /// In the order of installation, below the project's root.
    pub directories: Vec<String>,
    pub instructions: String,
    /// The user that the image starts as; `None`: that of the Dockerfile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dockerfile {
    /// A path below the project's root.
    File(String),
    /// The text itself.
    Inline(String),
}

/// A build as a file describes it. Paths are relative to `base`, and the Dockerfile's to the context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenBuild {
    pub context: Option<String>,
    pub dockerfile: Option<String>,
    pub inline: Option<String>,
    pub args: BTreeMap<String, String>,
    pub target: Option<String>,
    /// `none`, or a network.
    pub network: Option<String>,
}

/// The registry and repository of all images that were built; the tag is the key of the inputs.
const BUILT: &str = "localhost/holm-build";

/// The tag of an image whose key the client has not computed yet.
const UNKNOWN: &str = "unbuilt";

const DEFAULT_DOCKERFILE: &str = "Dockerfile";

/// Builders give arguments with this prefix a meaning of their own: one of them names a program that reads the Dockerfile.
const OF_BUILDER: &str = "BUILDKIT_";

/// A longer instruction than this counts as one that uses the network.
const LONGEST_INSTRUCTION: usize = 4096;

/// Programs whose usual work in a Dockerfile is to load something.
const DOWNLOADERS: [&str; 28] = [
    "apk", "apt", "apt-get", "bun", "bundle", "cargo", "composer", "curl", "dnf", "dotnet", "gem",
    "git", "go", "gradle", "gradlew", "microdnf", "mvn", "mvnw", "npm", "npx", "pip", "pip3",
    "pipenv", "pnpm", "poetry", "uv", "wget", "yarn",
];

/// The longest Dockerfile.
pub const LONGEST_DOCKERFILE: usize = 256 * 1024;

// === impl WrittenBuild ===

impl WrittenBuild {
    /// Checks everything that reaches a builder's command line, and resolves the paths. `base` is a directory below the
    /// root (empty: the root).
    pub fn build(self, base: &str) -> Result<ImageBuild, String> {
        let context = self.context.as_deref().unwrap_or(".");
        let context = below(base, context).ok_or_else(|| outside("context", context))?;
        let dockerfile = match (self.inline, self.dockerfile) {
            (Some(_), Some(_)) => {
                return Err("has both `dockerfile` and `dockerfile_inline`".to_owned());
            }
            (Some(text), None) => Dockerfile::Inline(text),
            (None, path) => {
                let path = path.as_deref().unwrap_or(DEFAULT_DOCKERFILE);
                let found = below(&context, path).ok_or_else(|| outside("dockerfile", path))?;
                Dockerfile::File(found)
            }
        };
        for (name, value) in &self.args {
            let mut letters = name.chars();
            let is_first = letters
                .next()
                .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
            if !is_first || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
                let shown = name.escape_debug();
                return Err(format!(
                    "has the argument `{shown}`, which is not the name of one"
                ));
            }
            if name.starts_with(OF_BUILDER) {
                return Err(format!(
                    "has the argument `{name}`, which is for the builder itself"
                ));
            }
            if value.contains('\0') {
                return Err(format!("has a NUL character in the argument `{name}`"));
            }
        }
        if let Some(target) = &self.target {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
            if !target.starts_with(|c: char| c.is_ascii_alphanumeric())
                || !target.chars().all(is_plain)
            {
                let shown = target.escape_debug();
                return Err(format!(
                    "has the target `{shown}`, which is not the name of a stage"
                ));
            }
        }
        let network = match self.network.as_deref() {
            None | Some("" | "none") => false,
            Some("default" | "host" | "bridge") => true,
            Some(other) => {
                let shown = other.escape_debug();
                return Err(format!(
                    "names the network `{shown}`; a build has `none` or `default`"
                ));
            }
        };
        Ok(ImageBuild {
            context,
            dockerfile,
            args: self.args,
            target: self.target,
            network,
            digest: None,
            features: None,
        })
    }
}

fn outside(key: &str, path: &str) -> String {
    let path = path.escape_debug();
    format!(
        "has the {key} `{path}`, which is not below the project's root; a build sees only files of the commit"
    )
}

/// `path` from `base`, without `.` and `..`; `None` if it leaves the root.
pub fn below(base: &str, path: &str) -> Option<String> {
    if path.starts_with(['/', '~']) || path.contains(char::is_control) || path.contains("://") {
        return None;
    }
    let mut parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

// === impl FeatureFiles ===

impl FeatureFiles {
    /// Where the context has the directories, each by its number.
    pub const DIRECTORY: &str = ".holm-features";

    /// Where the image has them while they are installed.
    pub const INSIDE: &str = "/tmp/holm-features";

    /// The whole Dockerfile.
    pub fn appended_to(&self, dockerfile: &str) -> String {
        let user = self.user.clone().or_else(|| last_user(dockerfile));
        let user = user.map_or_else(String::new, |user| format!("USER {user}\n"));
        format!("{}\n{}{user}", dockerfile.trim_end(), self.instructions)
    }
}

/// The user that the last stage of a Dockerfile sets.
fn last_user(dockerfile: &str) -> Option<String> {
    let lines = dockerfile.lines().rev().map(split_word);
    let mut stage = lines.take_while(|(word, _)| !word.eq_ignore_ascii_case("FROM"));
    let (_, user) = stage.find(|(word, _)| word.eq_ignore_ascii_case("USER"))?;
    Some(user.trim().to_owned())
}

// === impl ImageBuild ===

impl ImageBuild {
    /// Takes over what another file says, except for the places that every build has without one.
    pub fn change(&mut self, by: Self) {
        let default = Dockerfile::File(DEFAULT_DOCKERFILE.to_owned());
        if !by.context.is_empty() || by.dockerfile != default {
            self.context = by.context;
            self.dockerfile = by.dockerfile;
        }
        self.args.extend(by.args);
        self.target = by.target.or(self.target.take());
        self.network |= by.network;
    }

    /// For people: `web/Dockerfile`.
    pub fn file(&self) -> &str {
        match &self.dockerfile {
            Dockerfile::File(path) => path,
            Dockerfile::Inline(_) => "the Dockerfile in the file",
        }
    }
}

// === impl ImageReference ===

impl ImageReference {
    /// The name of the image with this key.
    pub fn built(key: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_key = key.len() == 64 && key.bytes().all(is_digit);
        let name = is_key.then(|| format!("{BUILT}:{key}"))?;
        name.parse().ok()
    }

    /// The name until the key is known.
    pub fn unbuilt() -> Option<Self> {
        format!("{BUILT}:{UNKNOWN}").parse().ok()
    }

    /// Whether holm built the image. Such a name is neither pulled nor taken from an archive.
    pub fn is_built(&self) -> bool {
        let name = self.to_string();
        name.strip_prefix(BUILT)
            .is_some_and(|rest| rest.starts_with([':', '@']))
    }
}

/// What of a Dockerfile uses the network although its commands have none: a program from a registry that reads the file,
/// `ADD` of a URL, and a `RUN` that asks for a network or for rights itself. More than a builder would do may be found, never less.
pub fn reaches_out(dockerfile: &str) -> Option<String> {
    let lines: Vec<&str> = dockerfile.lines().map(str::trim).collect();
    ['\\', '`'].into_iter().find_map(|escape| {
        (0..lines.len()).find_map(|first| {
            let found = of_instruction(&lines[first..], escape)?;
            Some(format!("line {}: {found}", first + 1))
        })
    })
}

/// The first program of its commands that probably loads something. For advice only: a script may load more.
pub fn downloader(dockerfile: &str) -> Option<&'static str> {
    let mut is_run = false;
    for line in dockerfile.lines().map(str::trim) {
        let (word, rest) = split_word(line);
        let text = if is_run { line } else { rest };
        let is_begun = is_run || word.eq_ignore_ascii_case("RUN");
        let is_comment = line.starts_with('#');
        if is_begun && !is_comment {
            let mut words = text.split(|c: char| c.is_whitespace() || "&|;()[],\"'".contains(c));
            let program = words.find_map(|word| {
                let name = word.rsplit('/').next().unwrap_or(word);
                DOWNLOADERS.into_iter().find(|known| *known == name)
            });
            if program.is_some() {
                return program;
            }
        }
        let goes_on = line.ends_with('\\') || (is_run && (is_comment || line.is_empty()));
        is_run = is_begun && goes_on;
    }
    None
}

/// The Dockerfile without the line that names a program to read it with: the builder reads it itself.
pub fn without_frontend(dockerfile: &str) -> String {
    let mut text = String::with_capacity(dockerfile.len());
    for line in dockerfile.split_inclusive('\n') {
        let bare = line.trim().trim_start_matches(['#', '/']).trim_start();
        let is_comment = line.trim_start().starts_with(['#', '/']);
        let is_frontend = is_comment && bare.to_ascii_lowercase().starts_with("syntax");
        text.push_str(if is_frontend { "#\n" } else { line });
    }
    text
}

/// What the instruction that begins with these lines uses.
fn of_instruction(lines: &[&str], escape: char) -> Option<&'static str> {
    const ADD: &str = "`ADD` of a URL";
    let mut text = String::new();
    for line in lines {
        // Comments and empty lines between the lines of an instruction are not part of it.
        if !text.is_empty() && (line.is_empty() || line.starts_with('#')) {
            continue;
        }
        let whole = line.strip_suffix(escape);
        text.push_str(whole.unwrap_or(line));
        if whole.is_none() || text.len() > LONGEST_INSTRUCTION {
            break;
        }
    }
    let (mut word, mut rest) = split_word(&text);
    // What a later build does when it uses this image.
    while word.eq_ignore_ascii_case("ONBUILD") {
        (word, rest) = split_word(rest);
    }
    match word.to_ascii_uppercase().as_str() {
        "ADD" if text.len() > LONGEST_INSTRUCTION || rest.contains([':', '$', '@']) => Some(ADD),
        "RUN" => {
            let (mut word, mut rest) = split_word(rest);
            while let Some(flag) = word.strip_prefix("--") {
                let flag = flag.split('=').next().unwrap_or_default();
                if !["mount", "device"].contains(&flag.to_ascii_lowercase().as_str()) {
                    return Some("`RUN` with a flag for its network or its rights");
                }
                if rest.is_empty() && text.len() > LONGEST_INSTRUCTION {
                    return Some("`RUN` with very long flags");
                }
                (word, rest) = split_word(rest);
            }
            None
        }
        _ => None,
    }
}

fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).unwrap_or((text, ""))
}

#[cfg(test)]
#[path = "image_build_tests.rs"]
mod tests;
