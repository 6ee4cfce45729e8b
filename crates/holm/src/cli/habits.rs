//! Words that people type by habit, and errors about a command line that is not understood.
//!
//! Called before and after clap: before, to turn a word of another program into ours; after, to
//! say in one line what is wrong and what was probably meant.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use holm_core::reference::distance;
use holm_core::{Code, Fault};
use std::ffi::{OsStr, OsString};

/// A word of other programs, and the verb that does it here.
const HABITS: [(&str, &str); 17] = [
    ("list", "ls"),
    ("ps", "ls"),
    ("delete", "rm"),
    ("remove", "rm"),
    ("destroy", "rm"),
    ("shell", "enter"),
    ("ssh", "enter"),
    ("down", "stop"),
    ("create", "up"),
    ("new", "up"),
    ("attach", "session attach"),
    ("info", "show"),
    ("inspect", "show"),
    ("kill", "stop"),
    ("trash", "ls --trash"),
    ("log", "logs"),
    ("resume", "start"),
];

/// Options that stand before a verb and have no value.
const FLAGS: [&str; 3] = ["--json", "--quiet", "-q"];

/// The place of the verb on a command line: the first word that is no option of every verb.
pub fn verb_place(line: &[OsString]) -> Option<usize> {
    let mut place = 1;
    loop {
        let word = line.get(place)?.to_str()?;
        match word {
            "--color" => place += 2,
            word if FLAGS.contains(&word) || word.starts_with("--color=") => place += 1,
            _ => return Some(place),
        }
    }
}

/// The line with our verb in place of a habit.
pub fn translated(mut line: Vec<OsString>) -> Vec<OsString> {
    let Some(place) = verb_place(&line) else {
        return line;
    };
    let typed = line[place].to_str();
    let habit = HABITS.iter().find(|(word, _)| Some(*word) == typed);
    let verb = match habit {
        Some((_, verb)) => Some(*verb),
        None if typed == Some("status") => status(&line, place),
        None => None,
    };
    if let Some(verb) = verb {
        line.splice(place..=place, verb.split(' ').map(OsString::from));
    }
    line
}

/// `status` of one workspace is `show`; with options it is `ls`. Alone it is the overview.
fn status(line: &[OsString], place: usize) -> Option<&'static str> {
    let rest = &line[place..];
    let next = verb_place(rest).map(|next| rest[next].as_encoded_bytes());
    if next.is_some_and(|word| !word.starts_with(b"-")) {
        Some("show")
    } else if rest.len() > 1 || is_json(line) {
        Some("ls")
    } else {
        None
    }
}

/// What is wrong with a command line. `holm` has all verbs with their options.
pub fn fault(error: &clap::Error, line: &[OsString], holm: &clap::Command) -> Fault {
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        // The last is the most similar.
        Some(ContextValue::Strings(texts)) => texts.last().cloned(),
        _ => None,
    };
    let verb = verb_of(line);
    let shown = holm.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs: Vec<&str> = shown.map(clap::Command::get_name).collect();
    let (message, hint) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            let outer = verb.filter(|outer| *outer != typed);
            unknown_verb(
                &typed,
                outer,
                text(ContextKind::SuggestedSubcommand),
                &verbs,
            )
        }
        ErrorKind::UnknownArgument => {
            let typed = text(ContextKind::InvalidArg).unwrap_or_default();
            unknown_argument(&typed, line, holm)
        }
        ErrorKind::MissingRequiredArgument => missing(error, line, holm),
        ErrorKind::TooFewValues if verb == Some("compare") => (
            "compare needs two or more workspaces of one project".to_owned(),
            "list them     holm ls\ncompare two   holm compare WS WS".to_owned(),
        ),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let name = verb.unwrap_or("holm");
            (format!("{name} needs a command"), see(verb))
        }
        _ => (first_paragraph(error), see(verb)),
    };
    Fault::new(Code::Usage, message, hint)
}

fn verb_of(line: &[OsString]) -> Option<&str> {
    line.get(verb_place(line)?).and_then(|verb| verb.to_str())
}

fn see(verb: Option<&str>) -> String {
    match verb {
        Some(verb) if !verb.starts_with('-') => format!("see `holm help {verb}`"),
        _ => "see `holm help`".to_owned(),
    }
}

fn unknown_verb(
    typed: &str,
    outer: Option<&str>,
    near: Option<String>,
    verbs: &[&str],
) -> (String, String) {
    let shown = typed.escape_debug();
    let before = outer.map_or_else(String::new, |outer| format!("{outer} "));
    let message = match outer {
        Some(outer) => format!("{outer} has no command {shown}"),
        None => format!("no command {shown}"),
    };
    let nearest = || {
        let own = verbs.iter().map(|verb| (*verb, *verb));
        let known = own.chain(HABITS).chain([("status", "status")]);
        let near = known.map(|(word, verb)| (distance(typed, word), word, verb));
        let near = near.filter(|(distance, word, _)| *distance <= 1 + word.len() / 4);
        near.min().map(|(_, _, verb)| verb.to_owned())
    };
    let near = if outer.is_none() {
        nearest().or(near)
    } else {
        near
    };
    let hint = match near {
        Some(near) => format!("did you mean   holm {before}{near}"),
        None => see(outer),
    };
    (message, hint)
}

fn unknown_argument(typed: &str, line: &[OsString], holm: &clap::Command) -> (String, String) {
    let (verb, command) = command_of(line, holm);
    let shown = typed.escape_debug();
    if !typed.starts_with('-') {
        let hint = match verb.as_str() {
            "run" => "quote the message   holm run WS \"…\"".to_owned(),
            verb => match verb.strip_prefix("service ") {
                Some(inner) => format!("the workspace comes first   holm service WS {inner} NAME"),
                None => see(Some(verb)),
            },
        };
        let message = format!("{verb} does not take another argument: {shown}");
        return (message, hint);
    }
    let name = typed.split('=').next().unwrap_or(typed);
    let options = options_of(command);
    let hint = match nearest_option(name, &options) {
        Some(near) => {
            let mended = |word: &OsString| match word.to_str() {
                Some(word) if word.split('=').next() == Some(name) => near.to_owned(),
                _ => word.to_string_lossy().escape_debug().to_string(),
            };
            let words: Vec<String> = line.iter().skip(1).map(mended).collect();
            format!("did you mean   holm {}", words.join(" "))
        }
        None if options.is_empty() => see(Some(&verb)),
        None => format!("it has {}; see `holm help {verb}`", options.join(", ")),
    };
    (
        format!("{verb} has no option {}", name.escape_debug()),
        hint,
    )
}

/// The command that a line names, with its words: `session new`.
fn command_of<'a>(line: &[OsString], holm: &'a clap::Command) -> (String, &'a clap::Command) {
    let (mut words, mut command) = (Vec::new(), holm);
    let place = verb_place(line).unwrap_or(line.len());
    for word in line[place..].iter().filter_map(|word| word.to_str()) {
        match command.find_subcommand(word) {
            Some(found) => {
                words.push(word);
                command = found;
            }
            None => break,
        }
    }
    if words.is_empty() {
        words.push("holm");
    }
    (words.join(" "), command)
}

/// The options that people may type, without those of every command.
fn options_of(command: &clap::Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|it| !it.is_hide_set());
    let names = shown.filter_map(|it| it.get_long());
    let common = ["json", "quiet", "color", "help", "version"];
    let own = names.filter(|name| !common.contains(name));
    own.map(|name| format!("--{name}")).collect()
}

/// An option that begins as what was typed, or differs from it in few letters.
fn nearest_option<'a>(typed: &str, options: &'a [String]) -> Option<&'a str> {
    let is_long = typed.starts_with("--") && typed.len() > 3;
    let near = options.iter().filter(|_| is_long).filter_map(|option| {
        let begins = option.starts_with(typed) || typed.starts_with(option.as_str());
        let far = distance(typed, option);
        (begins || far <= 1 + option.len() / 5).then_some((far, option.as_str()))
    });
    near.min().map(|(_, option)| option)
}

fn missing(error: &clap::Error, line: &[OsString], holm: &clap::Command) -> (String, String) {
    let (verb, command) = command_of(line, holm);
    let names: Vec<String> = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) => names.clone(),
        Some(ContextValue::String(name)) => vec![name.clone()],
        _ => Vec::new(),
    };
    let word = |name: &String| match name.trim_matches(['<', '>', '.']) {
        "WS" => "a workspace".to_owned(),
        "CMD" => "a command after --".to_owned(),
        "IMAGE" => "the name of an image".to_owned(),
        "SOURCE" => "a file, a directory or an engine's image".to_owned(),
        other => other.to_owned(),
    };
    let words: Vec<String> = names.iter().map(word).collect();
    let hint = match verb.as_str() {
        "start" | "stop" | "rm" | "show" | "enter" | "logs" | "diff" => {
            "list them   holm ls".to_owned()
        }
        verb => match first_example(command) {
            Some(example) => format!("for example   {example}"),
            None => see(Some(verb)),
        },
    };
    (format!("{verb} needs {}", words.join(" and ")), hint)
}

/// The first line of a command's examples.
fn first_example(command: &clap::Command) -> Option<String> {
    let examples = command.get_after_help()?.to_string();
    let first = examples.lines().nth(1)?.trim();
    first.starts_with("holm ").then(|| first.to_owned())
}

fn first_paragraph(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.trim_start_matches("error: ").trim().to_owned()
}

/// Whether the line only asks for help or for the overview, and what of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `holm`, `holm status`.
    Overview,
    /// `holm help`, `holm --help`.
    Help,
    /// `holm help --all`.
    AllHelp,
    /// Anything else, with `help COMMAND` as `COMMAND --help`.
    Line(Vec<OsString>),
}

/// Finds out what a translated line asks for. `--json` alone is not understood, so clap refuses it.
pub fn asked(line: Vec<OsString>) -> Asked {
    let is = |word: &OsString, texts: &[&str]| texts.iter().any(|text| word == OsStr::new(text));
    let Some(place) = verb_place(&line) else {
        return if is_json(&line) {
            Asked::Line(line)
        } else {
            Asked::Overview
        };
    };
    let rest = &line[place + 1..];
    if is(&line[place], &["status"]) {
        return Asked::Overview;
    }
    if is(&line[place], &["-h", "--help"]) {
        return Asked::Help;
    }
    if !is(&line[place], &["help"]) {
        return Asked::Line(line);
    }
    match rest {
        [] => Asked::Help,
        [word] if is(word, &["help", "-h", "--help"]) => Asked::Help,
        [all] if is(all, &["--all", "-a"]) => Asked::AllHelp,
        rest => {
            let mut of: Vec<OsString> = vec![line[0].clone()];
            of.extend(rest.iter().cloned());
            of.push("--help".into());
            Asked::Line(translated(of))
        }
    }
}

fn is_json(line: &[OsString]) -> bool {
    line.iter().any(|word| word == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &str) -> Vec<OsString> {
        let words = words.split_whitespace();
        std::iter::once("holm")
            .chain(words)
            .map(OsString::from)
            .collect()
    }

    #[test]
    fn words_of_other_programs_are_understood() {
        let check = |typed: &str, expect: &str| assert_eq!(translated(line(typed)), line(expect));
        check("list", "ls");
        check("ps --json", "ls --json");
        check("--json ps", "--json ls");
        check("delete -f x", "rm -f x");
        check("shell x", "enter x");
        check("down x", "stop x");
        check("attach x --read-only", "session attach x --read-only");
        check("--color never list", "--color never ls");
        check("show list", "show list");
        check("status", "status");
        check("status x", "show x");
        check("status --json", "ls --json");
        check("status --color never", "ls --color never");
        check("status --color never x", "show --color never x");
        check("status --long --color never", "ls --long --color never");
        check("--json status", "--json ls");
        check("status --help", "ls --help");
        check("exec x -- ps", "exec x -- ps");
        check("", "");
    }

    #[test]
    fn what_a_line_asks_for() {
        let check = |typed: &str, expect: Asked| assert_eq!(asked(line(typed)), expect, "{typed}");
        check("", Asked::Overview);
        check("status", Asked::Overview);
        check("-q", Asked::Overview);
        check("help", Asked::Help);
        check("--help", Asked::Help);
        check("-h", Asked::Help);
        check("help --all", Asked::AllHelp);
        check("help --help", Asked::Help);
        check("help -h", Asked::Help);
        check("help help", Asked::Help);
        check("help status", Asked::Line(line("ls --help")));
        check("help rm", Asked::Line(line("rm --help")));
        check("help delete", Asked::Line(line("rm --help")));
        check("help session new", Asked::Line(line("session new --help")));
        check("ls --json", Asked::Line(line("ls --json")));
        check("--json", Asked::Line(line("--json")));
    }
}
