//! Every key of the user's `config.toml`: its name, its type, and its meaning.

use super::project_shape::{DURATION, EGRESS, LIMITS, NAME, PORT, VARIABLE};
use super::shape::{Form, Key, Shape};

const HOST_PATH: Shape = Shape::Text(Form::HostPath);
const HOST_PATHS: Shape = Shape::list(&HOST_PATH);
const TRASH_DAYS: Shape = Shape::Integer {
    least: 0,
    most: 36_500,
};
const IDLE: Shape = Shape::Text(Form::DurationOrOff);

const TRASH_DAYS_DOC: &str = "Days after which the daemon deletes entries of the trash.";
const STOP_AFTER_DOC: &str = "Idle workspaces are stopped after this, or `off`.";
const REMOVE_AFTER_DOC: &str =
    "Idle workspaces without unsaved work go to the trash after this, or `off`.";
const DEFAULT_AGENT_DOC: &str = "The agent of `holm run` without `--agent`.";

pub const CONFIG_TOML: Shape = Shape::table(&[
    Key::optional("daemon", "The server.", DAEMON),
    Key::optional("trash_days", TRASH_DAYS_DOC, TRASH_DAYS),
    Key::optional("stop_after", STOP_AFTER_DOC, IDLE),
    Key::optional("remove_after", REMOVE_AFTER_DOC, IDLE),
    Key::optional("projects", "Where projects are.", PROJECTS),
    Key::optional(
        "limits",
        "The limits of one workspace, unless its project sets lower ones.",
        LIMITS,
    ),
    Key::optional(
        "egress",
        "Where connections may go, unless the project is narrower.",
        EGRESS,
    ),
    Key::optional("home", "The initial content of a workspace's home.", HOME),
    Key::optional("toolchains", "Programs that workspaces see.", TOOLCHAINS),
    Key::optional("default_agent", DEFAULT_AGENT_DOC, NAME),
    Key::optional(
        "agents",
        "Coding agents and their credentials.",
        Shape::Map {
            names: Form::Name,
            value: &AGENT,
            fixed: &[Key::optional("default_agent", DEFAULT_AGENT_DOC, NAME)],
        },
    ),
]);

const DAEMON: Shape = Shape::table(&[
    Key::optional(
        "port",
        "The front door's port. An explicit port that is taken is an error.",
        PORT,
    ),
    Key::optional("trash_days", TRASH_DAYS_DOC, TRASH_DAYS),
    Key::optional("stop_after", STOP_AFTER_DOC, IDLE),
    Key::optional("remove_after", REMOVE_AFTER_DOC, IDLE),
]);

const PROJECTS: Shape = Shape::table(&[Key::optional(
    "source_dirs",
    "Directories that `holm project find` searches.",
    HOST_PATHS,
)]);

const HOME: Shape = Shape::table(&[Key::optional(
    "copy",
    "Files of your home to copy into every workspace's home.",
    HOST_PATHS,
)]);

const TOOLCHAINS: Shape = Shape::table(&[Key::optional(
    "paths",
    "Directories that are visible read-only, besides those on PATH.",
    HOST_PATHS,
)]);

const AGENT: Shape = Shape::table(&[
    Key::optional("command", "The program and its arguments.", Shape::Command),
    Key::optional("timeout", "The time limit of a run.", DURATION),
    Key::optional(
        "env",
        "Variables of your environment that only this agent's runs and sessions get.",
        Shape::list(&VARIABLE),
    ),
    Key::optional(
        "files",
        "Your files that only this agent's runs and sessions get.",
        HOST_PATHS,
    ),
]);
