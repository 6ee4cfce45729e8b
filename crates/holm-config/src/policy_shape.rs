//! Every key of the machine's `policy.toml`: its name, its type, and its meaning.

use super::project_shape::{DESTINATIONS, LIMITS, NAME, PROTECTED, TEXT};
use super::shape::{Key, Shape};

pub const POLICY_TOML: Shape = Shape::table(&[
    Key::optional("egress", "The widest allowed egress.", EGRESS),
    Key::optional("limits", "The maximum limits of one workspace.", LIMITS),
    Key::optional(
        "island",
        "Exceptions from the isolation of workspaces.",
        ISLAND,
    ),
    Key::optional("host", "Access to this machine.", HOST),
    Key::optional("secrets", "The allowed sources of secrets.", SECRETS),
    Key::optional("agents", "The allowed agents.", AGENTS),
    Key::optional("trust", "Who may approve a repository's requests.", TRUST),
]);

const EGRESS: Shape = Shape::table(&[
    Key::optional(
        "mode",
        "The widest mode: `open`, `allow` or `none`.",
        Shape::Choice(&["open", "allow", "none"]),
    ),
    Key::optional(
        "allow",
        "The entries that `allow` of a project or a user may contain; default: any.",
        DESTINATIONS,
    ),
]);

const ISLAND: Shape = Shape::table(&[
    Key::optional(
        "nested",
        "`false`: no workspace may use `nested`.",
        Shape::Flag,
    ),
    Key::optional(
        "isolation",
        "`workspace`: no workspace may see siblings' trees.",
        Shape::Choice(&["workspace", "project"]),
    ),
    Key::optional(
        "drivers",
        "The allowed drivers.",
        Shape::list(&Shape::Choice(&["linux", "docker", "kubernetes"])),
    ),
    Key::optional(
        "allow_degraded",
        "The parts that `--allow-degraded` may name; `[]`: none.",
        Shape::list(&TEXT),
    ),
    Key::optional(
        "protected_paths",
        "Read-only in every workspace, besides the project's own paths.",
        Shape::list(&PROTECTED),
    ),
]);

const HOST: Shape = Shape::table(&[
    Key::optional(
        "include",
        "`false`: no ignored files are copied, not even by `--include`.",
        Shape::Flag,
    ),
    Key::optional(
        "shared",
        "`false`: no `[shared]` services of this machine.",
        Shape::Flag,
    ),
    Key::optional(
        "caches",
        "`false`: no caches outside of the project.",
        Shape::Flag,
    ),
    Key::optional(
        "canonical_ports",
        "`false`: no `holm checkout`.",
        Shape::Flag,
    ),
]);

const SECRETS: Shape = Shape::table(&[Key::optional(
    "sources",
    "The allowed sources; `[]`: none.",
    Shape::list(&Shape::Choice(&["env", "file", "command", "stored"])),
)]);

const AGENTS: Shape = Shape::table(&[Key::optional(
    "allow",
    "The agents that runs and sessions may name.",
    Shape::list(&NAME),
)]);

const TRUST: Shape = Shape::table(&[Key::optional(
    "by_token",
    "`false`: only a person at the command line may approve, no program with a token.",
    Shape::Flag,
)]);
