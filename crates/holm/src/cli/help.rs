//! `holm help`: commands by task, the most used first. `help --all` lists every command, and
//! `help COMMAND` begins with what it does and examples.

use super::output::{FAINT, STRONG, hanging};
use clap::builder::Resettable;
use clap::{Arg, ArgAction, Command};

/// A task, with the commands that belong to it. Those of `first` are in the short help.
struct Task {
    name: &'static str,
    first: &'static [(&'static str, &'static str)],
    more: &'static [&'static str],
}

const TASKS: [Task; 7] = [
    Task {
        name: "Start",
        first: &[
            (
                "up",
                "Create workspaces from this repository and start them",
            ),
            (
                "run",
                "Run an agent or a command once, and record the result",
            ),
            (
                "session",
                "Agents in terminals that keep running: new, attach, send",
            ),
            ("exec", "Run a command in a workspace (enter: open a shell)"),
            (
                "init",
                "Detect services; write holm.toml (reload: apply your edits)",
            ),
        ],
        more: &["enter", "fork"],
    },
    Task {
        name: "See",
        first: &[
            ("inbox", "What needs you, most urgent first (ui: dashboard)"),
            (
                "ls, show",
                "All workspaces; everything about one (top: live)",
            ),
            (
                "logs",
                "Output of services (ports: addresses, egress: connections)",
            ),
            (
                "open",
                "Browse its ports as localhost (checkout: on your localhost)",
            ),
        ],
        more: &[
            "ui", "ls", "show", "diff", "changes", "ports", "egress", "top", "runs", "events",
            "df", "audit",
        ],
    },
    Task {
        name: "Review",
        first: &[
            (
                "review",
                "Risks, evidence and changes since you last looked",
            ),
            (
                "comment",
                "Remark on a line; comments send gives them to the agent",
            ),
            (
                "check",
                "Run the project's checks (compare: siblings side by side)",
            ),
        ],
        more: &["turns", "comments", "approve", "compare"],
    },
    Task {
        name: "Take",
        first: &[
            ("apply", "Copy all changes to your checkout, uncommitted"),
            (
                "fetch",
                "Bring the commits as a branch (merge: and merge it)",
            ),
        ],
        more: &["merge"],
    },
    Task {
        name: "Change",
        first: &[],
        more: &[
            "reload", "assign", "sync", "checkout", "switch", "service", "rename",
        ],
    },
    Task {
        name: "Tidy",
        first: &[
            (
                "stop",
                "Stop processes; code and data stay (start, restart)",
            ),
            (
                "rm",
                "Move to the trash (restore: bring back, gc: delete for good)",
            ),
            (
                "snapshot",
                "Freeze code and data (fork: copy, reset: go back)",
            ),
        ],
        more: &["start", "restart", "restore", "gc", "reset"],
    },
    Task {
        name: "Set up",
        first: &[(
            "doctor",
            "Can this machine isolate workspaces, and how well?",
        )],
        more: &[
            "secret",
            "image",
            "trust",
            "project",
            "mcp",
            "token",
            "daemon",
            "store",
            "completions",
            "schema",
            "here",
            "notify",
        ],
    },
];

const WIDTH: usize = 9;
const COLUMNS: usize = 80;
const EXAMPLES: usize = 3;

/// Options that every command has. Their help comes last.
pub const COMMON: [&str; 4] = ["json", "quiet", "color", "help"];

/// The short help.
pub fn short() -> String {
    let mut text =
        "holm: an island for every agent. Usage: holm COMMAND [WS] [OPTIONS]\n\n".to_owned();
    for task in &TASKS {
        for (row, (command, purpose)) in task.first.iter().enumerate() {
            text.push_str(&line(task.name, row, command, purpose));
        }
    }
    text.push_str(&format!(
        "\n{FAINT}WS is a label, project/label, an id, a unique prefix of one, or . inside.{FAINT:#}\n\
         Every command: --json, --quiet, --color.   holm help --all   holm help COMMAND\n"
    ));
    text
}

/// Every command with the first line of its own help, by task.
pub fn all(verbs: &[(String, String)]) -> String {
    let mut text = String::new();
    let purpose = |name: &str| verbs.iter().find(|(verb, _)| verb == name);
    for task in &TASKS {
        let first = task.first.iter().map(|(name, _)| *name);
        let first = first.filter(|name| !name.contains(','));
        let commands = first.chain(task.more.iter().copied());
        for (row, (command, purpose)) in commands.filter_map(purpose).enumerate() {
            text.push_str(&line(task.name, row, command, purpose));
        }
    }
    text.push_str("\nholm help COMMAND says more about one.\n");
    text
}

fn line(task: &str, row: usize, command: &str, purpose: &str) -> String {
    let task = if row == 0 { task } else { "" };
    // The longest names are as wide as their column.
    let command = format!("{command} ");
    let before = format!("{STRONG}{task:WIDTH$}{STRONG:#}{command:<11}");
    format!("{}\n", hanging(&before, purpose, COLUMNS))
}

/// A command whose `--help` says in this order what the command does, examples, options by heading,
/// options of every command, and details.
pub fn arranged(command: Command) -> Command {
    let examples = command.get_after_help().map(ToString::to_string);
    let examples = examples.map(|all| {
        let first: Vec<&str> = all.lines().take(1 + EXAMPLES).collect();
        first.join("\n")
    });
    let long = command.get_long_about().map(ToString::to_string);
    let details = long.and_then(|long| Some(long.split_once("\n\n")?.1.to_owned()));
    let help = Arg::new("help").short('h').long("help");
    let help = help.action(ArgAction::Help).help("This help");
    // The last of the options.
    let help = help.display_order(usize::MAX);
    command
        .max_term_width(COLUMNS)
        .help_template("{about}\n\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}")
        .before_help(examples.map_or(Resettable::Reset, |text| Resettable::Value(text.into())))
        .after_help(details.map_or(Resettable::Reset, |text| Resettable::Value(text.into())))
        .long_about(None)
        .disable_help_flag(true)
        .arg(help)
        .mut_args(arranged_option)
        .mut_subcommands(arranged)
}

/// An option with one text for `-h` and `--help`: two would make clap spread each over three lines.
fn arranged_option(option: Arg) -> Arg {
    let long = option.get_long_help().cloned();
    let is_common = COMMON.contains(&option.get_id().as_str());
    let option = match long {
        Some(long) => option.help(long).long_help(None),
        None => option,
    };
    if is_common {
        option.help_heading("Every command")
    } else {
        option
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_a_task_and_the_short_help_fits_a_screen() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let names: Vec<&str> = shown.map(|verb| verb.get_name()).collect();
        for name in &names {
            let is_listed = TASKS.iter().any(|task| {
                task.more.contains(name) || task.first.iter().any(|(first, _)| first == name)
            });
            assert!(is_listed, "{name} belongs to no task");
        }
        for task in &TASKS {
            let first = task.first.iter().flat_map(|(name, _)| name.split(", "));
            for name in first.chain(task.more.iter().copied()) {
                assert!(names.contains(&name), "{name} does not exist");
            }
        }
        let short = anstream::adapter::strip_str(&short()).to_string();
        let longest = line("", 0, "completions", "Print");
        assert!(longest.contains("completions Print"), "{longest}");
        // With the command and the next prompt, a terminal of 25 rows holds it.
        assert!(short.lines().count() <= 23, "{short}");
        assert!(
            short.lines().all(|line| line.chars().count() <= 80),
            "{short}"
        );
    }

    #[test]
    fn every_line_of_every_help_fits() {
        fn check(command: &mut Command) {
            let help = command.render_long_help().to_string();
            // An example is one line, so that it can be copied; the shape of a JSON document is one word.
            let lines = help.lines().filter(|line| !line.starts_with("  holm "));
            let lines = lines.filter(|line| line.trim().contains(' '));
            for line in lines {
                let width = line.chars().count();
                assert!(width <= COLUMNS, "{}: {line}", command.get_name());
            }
            command.get_subcommands_mut().for_each(check);
        }
        let mut holm = arranged(Cli::command());
        holm.build();
        check(&mut holm);
        let all = all(&crate::cli::verbs());
        let all = anstream::adapter::strip_str(&all).to_string();
        for line in all.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
    }

    #[test]
    fn help_of_a_command_goes_from_examples_to_details() {
        let mut holm = arranged(Cli::command());
        holm.build();
        let up = holm.find_subcommand_mut("up").unwrap();
        let help = up.render_long_help().to_string();
        let parts = [
            "Create workspaces from this repository",
            "\n\nExamples:\n  holm up fix-login\n",
            "\n\nUsage: holm up [OPTIONS] [LABEL]...",
            "\n\nWhat to create:\n      --from <REF>",
            "\n\nWaiting:\n",
            "\n\nSafety:\n",
            "\n\nEvery command:\n",
            "\n\nIt starts from the current commit",
        ];
        let mut rest = help.as_str();
        for part in parts {
            let place = rest.find(part).unwrap_or_else(|| panic!("{part}: {help}"));
            rest = &rest[place + part.len()..];
        }
        assert_eq!(help.matches("\n  holm up").count(), EXAMPLES, "{help}");
    }
}
