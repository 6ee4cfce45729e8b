//! The CLI reference (`docs/cli.md`), generated from the definitions of the verbs. A test fails
//! when the committed file is outdated.
//!
//! `UPDATE_DOCS=1 cargo nextest run -p holm cli_reference` rewrites it.

use super::Cli;
use super::help::COMMON;
use clap::{Arg, Command, CommandFactory};
use holm_core::Code;
use std::fmt::Write;

/// The whole reference as Markdown.
fn markdown() -> String {
    let mut text = String::from(
        "<!-- Generated from crates/holm/src/cli; see reference.rs there. Do not edit. -->\n\n\
         # Command line reference\n\n\
         Which commands are there, and what does each option do?\n\n\
         `WS` is a label, `project/label`, an id, or a unique beginning of an id. In a project's \
         directory its labels come first; an ambiguous `WS` is refused with the candidates.\n\n\
         Every command takes `--json`: one JSON document on stdout (streams: JSON Lines), and \
         errors as `{\"error\":{\"code\",\"message\",\"hint\"}}` on stderr; `--quiet` (`-q`): only \
         ids of actions, names of lists, and errors; and `--color auto|always|never`. `holm help` lists \
         commands by task.\n",
    );
    let mut root = Cli::command();
    root.build();
    for verb in root.get_subcommands().filter(|verb| is_public(verb)) {
        section(&mut text, verb, "holm", 2);
    }
    codes(&mut text);
    text
}

fn section(text: &mut String, command: &Command, parent: &str, depth: usize) {
    let name = format!("{parent} {}", command.get_name());
    let _ = write!(text, "\n{} `{name}`\n\n", "#".repeat(depth));
    let about = command.get_long_about().or_else(|| command.get_about());
    if let Some(about) = about {
        let _ = writeln!(text, "{about}");
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let _ = write!(text, "\n```text\n{usage}\n```\n");
    let rows: Vec<String> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && !is_common(argument))
        .map(row)
        .collect();
    if !rows.is_empty() {
        let _ = write!(
            text,
            "\n| argument | meaning |\n| --- | --- |\n{}",
            rows.concat()
        );
    }
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string();
        let examples = examples.trim_start_matches("Examples:\n");
        let lines: Vec<&str> = examples.lines().map(|line| line.trim_start()).collect();
        let _ = write!(text, "\n```console\n{}\n```\n", lines.join("\n"));
    }
    for inner in command.get_subcommands().filter(|inner| is_public(inner)) {
        section(text, inner, &name, depth + 1);
    }
}

fn is_public(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// Options of every command are described once, at the top.
fn is_common(argument: &Arg) -> bool {
    let id = argument.get_id().as_str();
    id == "version" || COMMON.contains(&id)
}

fn row(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let help = help.map(|help| help.to_string()).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|_| argument.get_action().takes_values())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let help = match (help.is_empty(), values.is_empty()) {
        (true, false) => values.join(", "),
        (false, false) => format!("{help} ({})", values.join(", ")),
        _ => help,
    };
    let help = help.replace('|', "\\|");
    format!(
        "| `{}` | {help} |\n",
        argument.to_string().replace('|', "\\|")
    )
}

fn codes(text: &mut String) {
    text.push_str(
        "\n## Exit codes and error codes\n\n\
         0 done, 1 failed, 2 wrong usage, 3 not found, 4 refused by policy or safety, 5 the daemon \
         is unreachable, 130 cancelled. `exec` and `enter` end with the command's own code.\n\n\
         | code | exit | meaning |\n| --- | --- | --- |\n",
    );
    for code in Code::ALL {
        let exit = match code {
            Code::Cancelled => 130,
            code => code.kind().exit_code(),
        };
        let _ = writeln!(text, "| `{code}` | {exit} | {} |", code.doc());
    }
}

#[test]
fn cli_reference_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let generated = markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == generated,
        "docs/cli.md is not fresh: UPDATE_DOCS=1 cargo nextest run -p holm cli_reference"
    );
}

#[test]
fn every_command_says_what_it_does() {
    fn check(command: &Command, parent: &str) {
        let name = format!("{parent} {}", command.get_name());
        assert!(command.get_about().is_some(), "{name} has no help");
        for argument in command.get_arguments() {
            let is_described =
                argument.get_help().is_some() || !argument.get_possible_values().is_empty();
            assert!(is_described, "{name} {argument} has no help");
        }
        for inner in command.get_subcommands() {
            check(inner, &name);
        }
    }
    check(&Cli::command(), "");
}
