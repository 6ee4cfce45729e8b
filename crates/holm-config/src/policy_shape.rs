//! Every key of the machine's `policy.toml`: its name, its type, and its meaning.

use super::project_shape::{DESTINATIONS, LIMITS, NAME, PROTECTED, REVIEW, TEXT};
use super::shape::{Shape, table};

pub const POLICY_TOML: Shape = table! {
    /// The widest allowed egress.
    egress: optional EGRESS,
    /// The maximum limits of one workspace.
    limits: optional LIMITS,
    /// Exceptions from the isolation of workspaces.
    island: optional ISLAND,
    /// Access to this machine.
    host: optional HOST,
    /// The allowed sources of secrets.
    secrets: optional SECRETS,
    /// The allowed agents.
    agents: optional AGENTS,
    /// What has to happen before work is taken over.
    review: optional REVIEW,
    /// Who may approve a repository's requests.
    trust: optional TRUST,
};

const EGRESS: Shape = table! {
    /// The widest mode: `open`, `allow` or `none`.
    mode: optional Shape::Choice(&["open", "allow", "none"]),
    /// The entries that `allow` of a project or a user may contain; default: any.
    allow: optional DESTINATIONS,
};

const ISLAND: Shape = table! {
    /// `false`: no workspace may use `nested`.
    nested: optional Shape::Flag,
    /// `workspace`: no workspace may see siblings' trees.
    isolation: optional Shape::Choice(&["workspace", "project"]),
    /// The allowed drivers.
    drivers: optional Shape::list(&Shape::Choice(&["linux", "docker", "kubernetes"])),
    /// The parts that `--allow-degraded` may name; `[]`: none.
    allow_degraded: optional Shape::list(&TEXT),
    /// Read-only in every workspace, besides the project's own paths.
    protected_paths: optional Shape::list(&PROTECTED),
};

const HOST: Shape = table! {
    /// `false`: no ignored files are copied, not even by `--include`.
    include: optional Shape::Flag,
    /// `false`: no `[shared]` services of this machine.
    shared: optional Shape::Flag,
    /// `false`: no caches outside of the project.
    caches: optional Shape::Flag,
    /// `false`: no `holm checkout`.
    canonical_ports: optional Shape::Flag,
    /// `false`: no images from Dockerfiles of projects.
    builds: optional Shape::Flag,
};

const SECRETS: Shape = table! {
    /// The allowed sources; `[]`: none.
    sources: optional Shape::list(&Shape::Choice(&["env", "file", "command", "stored"])),
};

const AGENTS: Shape = table! {
    /// The agents that runs and sessions may name.
    allow: optional Shape::list(&NAME),
};

const TRUST: Shape = table! {
    /// `false`: only a person at the command line may approve, no program with a token.
    by_token: optional Shape::Flag,
};
