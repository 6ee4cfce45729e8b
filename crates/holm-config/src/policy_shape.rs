//! Every key of the machine's `policy.toml`: its name, what it may hold, and what it means.

use super::project_shape::{DESTINATIONS, LIMITS, NAME, PROTECTED, TEXT};
use super::shape::{Key, Shape};

pub const POLICY_TOML: Shape = Shape::table(&[
    Key::optional("egress", "How far connections may go at most.", EGRESS),
    Key::optional("limits", "The most that one workspace may use.", LIMITS),
    Key::optional("island", "What may weaken a workspace's isolation.", ISLAND),
    Key::optional(
        "host",
        "What of this machine may be reached or taken.",
        HOST,
    ),
    Key::optional("secrets", "Where secrets may come from.", SECRETS),
    Key::optional("agents", "Agents that may be run.", AGENTS),
    Key::optional(
        "trust",
        "Who may approve what a repository asks for.",
        TRUST,
    ),
]);

const EGRESS: Shape = Shape::table(&[
    Key::optional(
        "mode",
        "The widest mode: `open`, `allow` or `none`.",
        Shape::Choice(&["open", "allow", "none"]),
    ),
    Key::optional(
        "allow",
        "Everything that `allow` of a project or a user may list; left out: anything.",
        DESTINATIONS,
    ),
]);

const ISLAND: Shape = Shape::table(&[
    Key::optional("nested", "`false`: nobody gets `nested`.", Shape::Flag),
    Key::optional(
        "isolation",
        "`workspace`: nobody sees siblings' trees.",
        Shape::Choice(&["workspace", "project"]),
    ),
    Key::optional(
        "drivers",
        "The drivers that may be used.",
        Shape::list(&Shape::Choice(&["linux", "docker", "kubernetes"])),
    ),
    Key::optional(
        "allow_degraded",
        "The parts that `--allow-degraded` may name; `[]`: none.",
        Shape::list(&TEXT),
    ),
    Key::optional(
        "protected_paths",
        "Read-only in every workspace, besides what its project says.",
        Shape::list(&PROTECTED),
    ),
]);

const HOST: Shape = Shape::table(&[
    Key::optional(
        "include",
        "`false`: no ignored files are taken along, also not by `--include`.",
        Shape::Flag,
    ),
    Key::optional(
        "shared",
        "`false`: no service of this machine is reached by `[shared]`.",
        Shape::Flag,
    ),
    Key::optional(
        "caches",
        "`false`: no caches outside of the project.",
        Shape::Flag,
    ),
    Key::optional(
        "canonical_ports",
        "`false`: `holm checkout` takes no ports of this machine.",
        Shape::Flag,
    ),
]);

const SECRETS: Shape = Shape::table(&[Key::optional(
    "sources",
    "The sources that may be used; `[]`: none.",
    Shape::list(&Shape::Choice(&["env", "file", "command", "stored"])),
)]);

const AGENTS: Shape = Shape::table(&[Key::optional(
    "allow",
    "The agents that runs and sessions may name.",
    Shape::list(&NAME),
)]);

const TRUST: Shape = Shape::table(&[Key::optional(
    "by_token",
    "`false`: only a person at the command line approves, no program with a token.",
    Shape::Flag,
)]);
