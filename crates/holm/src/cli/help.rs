//! `holm help`: commands by task, the most used first. `help --all` lists every command.

use super::output::{FAINT, STRONG};

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
            ("init", "Detect services, ports and set-up; write holm.toml"),
        ],
        more: &["enter", "fork"],
    },
    Task {
        name: "See",
        first: &[
            ("inbox", "What needs you, most urgent first"),
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
                "A browser whose localhost is the workspace (ui: dashboard)",
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
        first: &[
            (
                "reload",
                "Take over a changed holm.toml (service: one service)",
            ),
            (
                "assign",
                "Move to another branch or commit (sync: to the newest)",
            ),
            (
                "checkout",
                "Point this machine's usual ports (localhost:3000) at it",
            ),
        ],
        more: &["switch", "sync", "service", "rename"],
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
            "trust",
            "project",
            "mcp",
            "token",
            "daemon",
            "completions",
            "schema",
            "here",
            "notify",
        ],
    },
];

const WIDTH: usize = 9;

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
    format!("{STRONG}{task:WIDTH$}{STRONG:#}{command:<11}{purpose}\n")
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
        assert!(short.lines().count() <= 26, "{short}");
        assert!(
            short.lines().all(|line| line.chars().count() <= 80),
            "{short}"
        );
    }
}
