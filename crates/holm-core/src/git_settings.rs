//! Finds settings in a repository's own git configuration that make git on the host run a program.
//!
//! A directory from elsewhere (an archive, a shared disk) brings its `.git/config` along. Before
//! holm lets git read or write files there (`up --dirty`, `apply`, `merge`) or talk to its remote,
//! the user approves what these settings would run. The user's own configuration needs no approval.
//!
//! [`RUNS`] lists what the commands that holm uses can run. Not listed, because holm switches it
//! off or never runs what reads it: hooks, fsmonitor, pagers, editors, aliases, external diffs and
//! text conversions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A setting of a repository's own git configuration, as in `git config --list`: section and
/// variable in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitSetting {
    pub key: String,
    pub value: String,
    /// The submodule's path relative to the root, if it is a submodule's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submodule: Option<String>,
}

/// Patterns of keys, and when git runs the value. `*` matches a subsection.
const RUNS: &[(&str, &str)] = &[
    ("filter.*.clean", "when git reads files"),
    ("filter.*.smudge", "when git writes files"),
    ("filter.*.process", "when git reads or writes files"),
    ("lfs.extension.*.clean", "when git-lfs reads files"),
    ("lfs.extension.*.smudge", "when git-lfs writes files"),
    ("lfs.customtransfer.*.path", "when git-lfs fetches files"),
    ("merge.*.driver", "when git merges files"),
    ("gpg.program", "when git signs or checks a commit"),
    ("gpg.*.program", "when git signs or checks a commit"),
    ("gpg.*.defaultkeycommand", "when git signs a commit"),
    ("core.sshcommand", "when git reaches a server"),
    ("core.gitproxy", "when git reaches a server"),
    ("core.askpass", "when git needs a password"),
    ("credential.helper", "when git needs a password"),
    ("credential.*.helper", "when git needs a password"),
    ("remote.*.uploadpack", "when git fetches"),
    ("remote.*.receivepack", "when git pushes"),
    ("remote.*.vcs", "when git fetches"),
];

/// Values that installers of well-known tools write. Each runs a program on the user's own PATH.
const HARMLESS: &[(&str, &[&str])] = &[
    (
        "filter.lfs.clean",
        &[
            "git-lfs clean -- %f",
            "git-lfs clean %f",
            "git lfs clean %f",
        ],
    ),
    (
        "filter.lfs.smudge",
        &[
            "git-lfs smudge -- %f",
            "git-lfs smudge --skip -- %f",
            "git-lfs smudge %f",
            "git lfs smudge %f",
        ],
    ),
    (
        "filter.lfs.process",
        &["git-lfs filter-process", "git-lfs filter-process --skip"],
    ),
    (
        "filter.git-crypt.clean",
        &["\"git-crypt\" clean", "git-crypt clean"],
    ),
    (
        "filter.git-crypt.smudge",
        &["\"git-crypt\" smudge", "git-crypt smudge"],
    ),
    (
        "credential.*.helper",
        &[
            "!gh auth git-credential",
            "!/usr/bin/gh auth git-credential",
        ],
    ),
    (
        "gpg.program",
        &["gpg", "gpg2", "/usr/bin/gpg", "/usr/bin/gpg2"],
    ),
    ("gpg.*.program", &["ssh-keygen", "gpgsm"]),
    (
        "remote.*.uploadpack",
        &["git-upload-pack", "git upload-pack"],
    ),
    (
        "remote.*.receivepack",
        &["git-receive-pack", "git receive-pack"],
    ),
    ("core.askpass", &["true", "false", "echo"]),
];

// === impl GitSetting ===

impl GitSetting {
    /// What it makes git do, in words; `None` for a setting that needs no approval.
    pub fn words(&self) -> Option<String> {
        let value = self.value.escape_debug();
        // holm-git reports it only if it points outside the repository.
        if self.key == "core.worktree" {
            return Some(format!(
                "take `{value}`, where the repository is not, for its checkout"
            ));
        }
        let when = self.runs()?;
        Some(format!("run `{value}` on this machine {when}"))
    }

    /// When git runs it; `None` for a setting that runs nothing, or something harmless.
    fn runs(&self) -> Option<&'static str> {
        let value = self.value.trim();
        if value.is_empty() {
            return None;
        }
        if let Some(what) = self.opens_helpers() {
            return Some(what);
        }
        let (_, when) = RUNS
            .iter()
            .find(|(pattern, _)| is_like(&self.key, pattern))?;
        let mut harmless = HARMLESS.iter();
        let is_known = harmless
            .any(|(pattern, values)| is_like(&self.key, pattern) && values.contains(&value));
        let is_plain = match self.key.as_str() {
            "core.sshcommand" => is_plain_ssh(value),
            key if key.starts_with("credential.") => is_word(value),
            _ => false,
        };
        (!is_known && !is_plain).then_some(*when)
    }

    /// Remotes whose URL is a command (`ext::sh -c …`), and the settings that let git use one.
    fn opens_helpers(&self) -> Option<&'static str> {
        let is_helper = |url: &str| {
            url.split_once("::")
                .is_some_and(|(helper, _)| is_word(helper))
        };
        let is_open = match self.key.as_str() {
            "protocol.allow" | "protocol.ext.allow" | "protocol.fd.allow" => self.value != "never",
            key if is_like(key, "remote.*.url") || is_like(key, "remote.*.pushurl") => {
                is_helper(&self.value)
            }
            key if is_like(key, "url.*.insteadof") || is_like(key, "url.*.pushinsteadof") => {
                let (_, url, _) = parts(key);
                url.is_some_and(is_helper)
            }
            _ => false,
        };
        is_open.then_some("when git fetches: a URL can be a command")
    }
}

/// Section, subsection and variable. A subsection may have dots.
fn parts(key: &str) -> (&str, Option<&str>, &str) {
    let (section, rest) = key.split_once('.').unwrap_or((key, ""));
    match rest.rsplit_once('.') {
        Some((subsection, variable)) => (section, Some(subsection), variable),
        None => (section, None, rest),
    }
}

fn is_like(key: &str, pattern: &str) -> bool {
    let (section, subsection, variable) = parts(key);
    let (own_section, own_subsection, own_variable) = parts(pattern);
    let is_subsection = match own_subsection {
        // `lfs.extension.*.clean`: the subsection starts with a fixed word.
        Some(own) => subsection.is_some_and(|it| match own.strip_suffix('*') {
            Some(beginning) => it.starts_with(beginning),
            None => it == own,
        }),
        None => subsection.is_none(),
    };
    section == own_section && variable == own_variable && is_subsection
}

/// `cache`, `manager-core`: git runs `git-credential-<word>`, which only the user's PATH can
/// provide.
fn is_word(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_letter)
}

/// `ssh -i ~/.ssh/work -o IdentitiesOnly=yes`: another key, but no other program.
fn is_plain_ssh(command: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "~/._-+@=:, ".contains(c);
    let mut words = command.split_ascii_whitespace();
    if !command.chars().all(is_letter) || words.next() != Some("ssh") {
        return false;
    }
    while let Some(word) = words.next() {
        let is_good = match word {
            "-4" | "-6" | "-q" | "-v" | "-oIdentitiesOnly=yes" | "-oBatchMode=yes" => true,
            "-i" | "-p" | "-l" => words.next().is_some_and(|value| !value.starts_with('-')),
            "-o" => matches!(words.next(), Some("IdentitiesOnly=yes" | "BatchMode=yes")),
            "-F" => words.next() == Some("/dev/null"),
            _ => false,
        };
        if !is_good {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(key: &str, value: &str) -> bool {
        let setting = GitSetting {
            key: key.to_owned(),
            value: value.to_owned(),
            submodule: None,
        };
        setting.runs().is_some()
    }

    #[test]
    fn settings_that_run_programs() {
        for (key, value) in [
            ("filter.indent.clean", "indent"),
            ("filter.a.b.smudge", "x"),
            ("filter.lfs.clean", "git-lfs clean -- %f; touch x"),
            ("filter.lfs.process", "/tmp/git-lfs filter-process"),
            ("filter.LFS.process", "git-lfs filter-process"),
            ("lfs.customtransfer.x.path", "/tmp/x"),
            ("lfs.extension.x.clean", "x"),
            ("merge.ours.driver", "true"),
            ("gpg.program", "/tmp/gpg"),
            ("gpg.ssh.program", "/tmp/x"),
            ("core.sshcommand", "ssh -o ProxyCommand=x"),
            ("core.sshcommand", "ssh -F x"),
            ("core.sshcommand", "/tmp/ssh"),
            ("core.sshcommand", "ssh -i a; x"),
            ("core.sshcommand", "ssh -i $(x)"),
            ("core.askpass", "/tmp/x"),
            ("credential.helper", "!x"),
            ("credential.helper", "/tmp/x"),
            (
                "credential.https://example.org.helper",
                "store --file=/tmp/x",
            ),
            ("remote.origin.uploadpack", "x"),
            ("remote.a.b.vcs", "x"),
            ("remote.origin.url", "ext::sh -c x"),
            ("url.ext::sh -c x .insteadof", "https://"),
            ("protocol.allow", "always"),
            ("protocol.ext.allow", "user"),
        ] {
            assert!(runs(key, value), "{key} = {value}");
        }
    }

    #[test]
    fn settings_that_need_no_question() {
        for (key, value) in [
            ("filter.lfs.clean", "git-lfs clean -- %f"),
            ("filter.lfs.smudge", "git-lfs smudge --skip -- %f"),
            ("filter.lfs.process", "git-lfs filter-process"),
            ("filter.lfs.required", "true"),
            ("filter.git-crypt.smudge", "\"git-crypt\" smudge"),
            ("filter.x.clean", ""),
            (
                "core.sshcommand",
                "ssh -i ~/.ssh/work -o IdentitiesOnly=yes -F /dev/null",
            ),
            ("credential.helper", "cache"),
            ("credential.helper", ""),
            (
                "credential.https://example.org.helper",
                "!gh auth git-credential",
            ),
            ("credential.https://example.org.username", "me"),
            ("remote.origin.url", "https://example.org/x"),
            ("remote.origin.url", "git@[::1]:x"),
            ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
            ("protocol.file.allow", "always"),
            ("protocol.allow", "never"),
            ("core.pager", "x"),
            ("core.editor", "x"),
            ("core.fsmonitor", "x"),
            ("core.hookspath", ".hooks"),
            ("alias.x", "!x"),
            ("diff.external", "x"),
            ("diff.x.textconv", "x"),
            ("user.name", "x"),
        ] {
            assert!(!runs(key, value), "{key} = {value}");
        }
    }
}
