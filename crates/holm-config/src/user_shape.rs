//! Every key of the user's `config.toml`: its name, its type, and its meaning.

use super::project_shape::{
    DESTINATIONS, DURATION, EGRESS, LIMITS, NAME, PORT, REVIEW, TEXTS, VARIABLE,
};
use super::shape::{Form, Key, Shape, table};
use holm_core::inbox::Reason;

const HOST_PATH: Shape = Shape::Text(Form::HostPath);
const HOST_PATHS: Shape = Shape::list(&HOST_PATH);
const TRASH_DAYS: Shape = Shape::Integer {
    least: 0,
    most: 36_500,
};
const IDLE: Shape = Shape::Text(Form::DurationOrOff);
const DEFAULT_AGENT: Key = Key::optional(
    "default_agent",
    "The agent of `holm run` without `--agent`.",
    NAME,
);

pub const CONFIG_TOML: Shape = table! {
    /// The server.
    daemon: optional DAEMON,
    /// What commands print.
    cli: optional CLI,
    /// Days after which the daemon deletes entries of the trash.
    trash_days: optional TRASH_DAYS,
    /// Idle workspaces are stopped after this, or `off`.
    stop_after: optional IDLE,
    /// Idle workspaces without unsaved work go to the trash after this, or `off`.
    remove_after: optional IDLE,
    /// Where projects are.
    projects: optional PROJECTS,
    /// The limits of one workspace, unless its project sets lower ones.
    limits: optional LIMITS,
    /// Where connections may go, unless the project is narrower.
    egress: optional EGRESS,
    /// What has to happen before work is taken over.
    review: optional REVIEW,
    /// Where notifications of the inbox go.
    notify: optional NOTIFY,
    /// What this machine's network needs: a proxy, CA certificates.
    network: optional NETWORK,
    /// Where images come from.
    images: optional IMAGES,
    /// The initial content of a workspace's home.
    home: optional HOME,
    /// Programs that workspaces see.
    toolchains: optional TOOLCHAINS,
    /// The agent of `holm run` without `--agent`.
    default_agent: optional NAME,
    /// Coding agents and their credentials.
    agents: optional Shape::Map { names: Form::Name, value: &AGENT, fixed: &[DEFAULT_AGENT] },
};

const DAEMON: Shape = table! {
    /// The front door's port. An explicit port that is taken is an error.
    port: optional PORT,
    /// Days after which the daemon deletes entries of the trash.
    trash_days: optional TRASH_DAYS,
    /// Idle workspaces are stopped after this, or `off`.
    stop_after: optional IDLE,
    /// Idle workspaces without unsaved work go to the trash after this, or `off`.
    remove_after: optional IDLE,
    /// How many checks run at the same time; read when the daemon starts. Default: half of the cores, 1 to 4.
    checks_at_once: optional Shape::Integer { least: 1, most: 64 },
    /// After a reboot, start the workspaces that were running. Default: true.
    resume: optional Shape::Flag,
    /// The PostgreSQL database of the state, without a password: `postgres://holm@db.example.org:5432/holm`. Default: a
    /// file in the data directory.
    store: optional Shape::Text(Form::StoreUrl),
    /// A file (mode 0600) with the password of that database. Default: the password file of PostgreSQL's own clients.
    store_password_file: optional HOST_PATH,
};

const CLI: Shape = table! {
    /// Print what to type next, after `next:`. Default: true.
    hints: optional Shape::Flag,
};

const PROJECTS: Shape = table! {
    /// Directories that `holm project find` searches.
    source_dirs: optional HOST_PATHS,
};

const NOTIFY: Shape = table! {
    /// A program and its arguments. It gets the item as JSON on stdin, and nothing else of a workspace.
    command: optional Shape::Command,
    /// An address that gets the item as JSON by POST: `https://hooks.example.org/holm`. Redirects are not followed.
    webhook: optional Shape::Text(Form::WebhookUrl),
    /// Show notifications on the desktop with `notify-send`. Default: false.
    desktop: optional Shape::Flag,
    /// Reasons that notify nobody: question, refused, limit, stalled, failed, conflict, ready, comment.
    mute: optional Shape::list(&Shape::Choice(&Reason::WORDS)),
};

const NETWORK: Shape = table! {
    /// The proxy through which workspaces reach the outside: `http://proxy.example.org:3128`.
    proxy: optional Shape::Text(Form::ProxyUrl),
    /// Destinations that are reached without the proxy, written as in `egress.allow`.
    no_proxy: optional DESTINATIONS,
    /// Files with CA certificates (PEM) that programs inside trust.
    ca: optional HOST_PATHS,
};

const IMAGES: Shape = table! {
    /// Registries on this machine that images may be pulled from, over plain HTTP: `127.0.0.1:5000`. Without an
    /// entry, holm connects to no address of this machine.
    loopback: optional Shape::list(&Shape::Text(Form::Address)),
    /// The program that builds images. Default: the first of `docker`, `podman` and `buildah` that is there.
    builder: optional Shape::Choice(&["docker", "podman", "buildah"]),
};

const HOME: Shape = table! {
    /// Files of your home to copy into every workspace's home.
    copy: optional HOST_PATHS,
};

const TOOLCHAINS: Shape = table! {
    /// Directories that are visible read-only, besides those on PATH.
    paths: optional HOST_PATHS,
};

const AGENT: Shape = table! {
    /// The program and its arguments.
    command: optional Shape::Command,
    /// Further arguments of its runs.
    run_args: optional TEXTS,
    /// Further arguments of its sessions.
    session_args: optional TEXTS,
    /// Whether a known agent's sign-in may be used in workspaces of every project. Default: you are
    /// asked once for each project.
    sign_in: optional Shape::Choice(&["always", "never"]),
    /// The time limit of a run.
    timeout: optional DURATION,
    /// Variables of your environment that only this agent's runs and sessions get.
    env: optional Shape::list(&VARIABLE),
    /// Your files that only this agent's runs and sessions get.
    files: optional HOST_PATHS,
    /// The gateway cannot inspect this agent's connections (it pins certificates, or speaks HTTP/2 only): it gets
    /// its sign-in as it is, without what refreshes it. Default: false.
    direct: optional Shape::Flag,
    /// For a direct agent: the command that refreshes the sign-in on this machine, before the agent starts.
    refresh: optional Shape::Command,
};
