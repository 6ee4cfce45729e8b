//! Every key of the user's `config.toml`: its name, what it may hold, and what it means.

use super::project_shape::{DURATION, EGRESS, LIMITS, NAME, PORT, VARIABLE};
use super::shape::{Form, Key, Shape};

const HOST_PATH: Shape = Shape::Text(Form::HostPath);
const HOST_PATHS: Shape = Shape::list(&HOST_PATH);
const TRASH_DAYS: Shape = Shape::Integer {
    least: 0,
    most: 36_500,
};
const IDLE: Shape = Shape::Text(Form::DurationOrOff);

const TRASH_DAYS_DOC: &str = "Days after which the daemon deletes what is in the trash.";
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
        "What one workspace may use unless its project says less.",
        LIMITS,
    ),
    Key::optional(
        "egress",
        "Where connections may go unless the project says narrower.",
        EGRESS,
    ),
    Key::optional("home", "What a workspace's home begins with.", HOME),
    Key::optional("toolchains", "Programs that workspaces see.", TOOLCHAINS),
    Key::optional("default_agent", DEFAULT_AGENT_DOC, NAME),
    Key::optional(
        "agents",
        "Coding agents and what is given to them.",
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
    "Directories that `holm project find` looks through.",
    HOST_PATHS,
)]);

const HOME: Shape = Shape::table(&[Key::optional(
    "copy",
    "Files of your home that are copied into every workspace's home.",
    HOST_PATHS,
)]);

const TOOLCHAINS: Shape = Shape::table(&[Key::optional(
    "paths",
    "Directories that are visible read-only, besides those on PATH.",
    HOST_PATHS,
)]);

const AGENT: Shape = Shape::table(&[
    Key::optional("command", "The program and its arguments.", Shape::Command),
    Key::optional("timeout", "After this a run is ended.", DURATION),
    Key::optional(
        "env",
        "Variables of your environment that only this agent's runs and sessions get.",
        Shape::list(&VARIABLE),
    ),
    Key::optional(
        "files",
        "Files of yours that only this agent's runs and sessions get.",
        HOST_PATHS,
    ),
]);
