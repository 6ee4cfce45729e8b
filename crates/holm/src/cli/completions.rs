//! `holm completions`: scripts for bash, zsh and fish, and the candidates that they request while a
//! person types.
//!
//! Completing never starts a daemon, never waits long, and never prints an error into the line.

use super::{Cli, Context, Outcome, connect};
use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use holm_core::{Code, Fault};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::process::ExitCode;
use std::time::Duration;

/// Print a script that completes commands, options and labels in your shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    source <(holm completions bash)                             in ~/.bashrc\n  \
    source <(holm completions zsh)                              in ~/.zshrc, after compinit\n  \
    holm completions fish > ~/.config/fish/completions/holm.fish")]
pub struct CompletionsArgs {
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Set by the scripts when they request candidates.
const VARIABLE: &str = "HOLM_COMPLETE";

/// How long a person who pressed tab should wait at most.
const PATIENCE: Duration = Duration::from_millis(500);

pub fn run(context: &Context, arguments: CompletionsArgs) -> Outcome {
    let name = match arguments.shell {
        Shell::Bash => "bash",
        Shell::Zsh => "zsh",
        Shell::Fish => "fish",
    };
    let script = script(name)?;
    let document = serde_json::json!({ "shell": name, "script": script });
    context.output.result(&document, || script.clone());
    Ok(ExitCode::SUCCESS)
}

/// Answers a script's request and ends the program. Does nothing otherwise.
pub fn answer_shell() {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(Cli::command)
            .var(VARIABLE)
            .complete();
    }
}

/// Completes a workspace by its label, or by `project/label` where the label is ambiguous.
pub fn labels() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let known = connect::block_on(async {
            let list = async { connect::running().await?.names().await };
            match tokio::time::timeout(PATIENCE, list).await {
                Ok(list) => list.map(|list| list.names),
                Err(_) => Ok(Vec::new()),
            }
        });
        let names = known
            .unwrap_or_default()
            .into_iter()
            .map(|name| (name.label, name.project))
            .collect();
        candidates(&typed.to_string_lossy(), names)
            .into_iter()
            .map(CompletionCandidate::new)
            .collect()
    })
}

/// Completes arguments of `restore`: labels in the trash, and ids where a label is ambiguous.
pub fn trashed_labels() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let known = connect::block_on(async {
            let list = async { connect::running().await?.trash().await };
            match tokio::time::timeout(PATIENCE, list).await {
                Ok(list) => list.map(|list| list.workspaces),
                Err(_) => Ok(Vec::new()),
            }
        });
        let known = known.unwrap_or_default();
        let names = known.iter().map(|entry| {
            let same = known.iter().filter(|other| other.label == entry.label);
            match same.count() {
                1 => entry.label.clone(),
                _ => entry.id.clone(),
            }
        });
        let typed = typed.to_string_lossy();
        let mut names: Vec<_> = names.filter(|name| name.starts_with(&*typed)).collect();
        names.sort();
        names.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// Completes the name of an image.
pub fn images() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let known = connect::block_on(async {
            let list = async { connect::running().await?.images().await };
            match tokio::time::timeout(PATIENCE, list).await {
                Ok(list) => list.map(|list| list.images),
                Err(_) => Ok(Vec::new()),
            }
        });
        let names = known.unwrap_or_default().into_iter();
        let names = names.map(|image| image.reference.familiar());
        let typed = typed.to_string_lossy();
        let names = names.filter(|name| name.starts_with(&*typed));
        names.map(CompletionCandidate::new).collect()
    })
}

fn candidates(typed: &str, names: Vec<(String, String)>) -> Vec<String> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for (label, _) in &names {
        *uses.entry(label).or_default() += 1;
    }
    let mut found: Vec<String> = names
        .iter()
        .map(|(label, project)| match uses.get(label.as_str()) {
            Some(1) if !typed.contains('/') => label.clone(),
            _ => format!("{project}/{label}"),
        })
        .filter(|name| name.starts_with(typed))
        .collect();
    found.sort();
    found
}

fn script(shell: &str) -> Result<String, Fault> {
    let failed = || {
        let message = format!("there is no completion script for {shell}");
        Fault::new(Code::Internal, message, "bash, zsh and fish are known")
    };
    let mut script = Vec::new();
    Shells::builtins()
        .completer(shell)
        .ok_or_else(failed)?
        .write_registration(VARIABLE, "holm", "holm", "holm", &mut script)
        .map_err(|_| failed())?;
    String::from_utf8(script).map_err(|_| failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_are_not_enough_carry_their_project() {
        let names = || {
            [("fix", "shop"), ("fix", "blog"), ("login", "shop")]
                .map(|(label, project)| (label.to_owned(), project.to_owned()))
                .to_vec()
        };
        assert_eq!(candidates("", names()), ["blog/fix", "login", "shop/fix"]);
        assert_eq!(candidates("lo", names()), ["login"]);
        assert_eq!(candidates("shop/", names()), ["shop/fix", "shop/login"]);
        assert!(candidates("x", names()).is_empty());
    }

    #[test]
    fn scripts_ask_this_program() {
        for shell in ["bash", "zsh", "fish"] {
            let script = script(shell).unwrap();
            assert!(script.contains("HOLM_COMPLETE"), "{shell}: {script}");
            assert!(script.contains("holm"), "{shell}");
        }
        assert!(script("tcsh").is_err());
    }

    #[test]
    fn shells_understand_their_scripts() {
        for shell in ["bash", "zsh", "fish"] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            std::io::Write::write_all(&mut file, script(shell).unwrap().as_bytes()).unwrap();
            let checked = std::process::Command::new(shell)
                .arg("-n")
                .arg(file.path())
                .output();
            // A shell that is not installed is skipped.
            if let Ok(checked) = checked {
                let complaint = String::from_utf8_lossy(&checked.stderr).into_owned();
                assert!(checked.status.success(), "{shell}: {complaint}");
            }
        }
    }
}
