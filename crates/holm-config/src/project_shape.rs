//! Every key of `holm.toml`: its name, its type, and its meaning.
//!
//! Used by the parser ([`super::project`]) and by the schema. A key that is not here does not
//! exist.

use super::shape::{Form, Key, Shape, Table};

pub const TEXT: Shape = Shape::Text(Form::Filled);
pub const NAME: Shape = Shape::Text(Form::Name);
pub const VARIABLE: Shape = Shape::Text(Form::Variable);
const PATTERN: Shape = Shape::Text(Form::Pattern);
pub const PROTECTED: Shape = Shape::Text(Form::ProtectedPath);
const DESTINATION: Shape = Shape::Text(Form::Destination);
const VALUE: Shape = Shape::Text(Form::Any);
pub const PORT: Shape = Shape::Integer {
    least: 1,
    most: 65535,
};
pub const DURATION: Shape = Shape::Text(Form::Duration);
const PORT_OR_NAME: Shape = Shape::Either(&NAME, &PORT);
const POLICY: Shape = Shape::Choice(&["isolated", "fork", "shared"]);

const TEXTS: Shape = Shape::list(&TEXT);
const NAMES: Shape = Shape::list(&NAME);
const PATTERNS: Shape = Shape::list(&PATTERN);
pub const DESTINATIONS: Shape = Shape::list(&DESTINATION);

const fn map(names: Form, value: &'static Shape) -> Shape {
    Shape::Map {
        names,
        value,
        fixed: &[],
    }
}

pub const HOLM_TOML: Shape = Shape::table(&[
    Key::optional(
        "project",
        "The project, and the initial state of its workspaces.",
        PROJECT,
    ),
    Key::optional(
        "ports",
        "Ports that programs inside listen on, by name. Each gets a URL and a port on the host.",
        map(Form::Name, &PORT),
    ),
    Key::optional(
        "services",
        "Long-running programs of every workspace.",
        map(Form::Name, &SERVICE),
    ),
    Key::optional(
        "volumes",
        "Persistent data, by name.",
        map(Form::Name, &VOLUME),
    ),
    Key::optional(
        "shared",
        "Services on the host that this project may reach. Needs trust.",
        map(Form::Name, &SHARED),
    ),
    Key::optional(
        "caches",
        "Download caches for workspaces. Outside of the project: needs trust.",
        map(Form::Name, &CACHE),
    ),
    Key::optional(
        "secrets",
        "Secrets, by the name of their variable or file.",
        map(Form::Variable, &SECRET),
    ),
    Key::optional(
        "egress",
        "Where connections may go. Wider than the user's settings: needs trust.",
        EGRESS,
    ),
    Key::optional(
        "limits",
        "What one workspace may use. Higher than the user's settings: needs trust.",
        LIMITS,
    ),
    Key::optional(
        "agents",
        "The commands of coding agents.",
        map(Form::Name, &AGENT),
    ),
]);

const PROJECT: Shape = Shape::table(&[
    Key::optional(
        "name",
        "The project's display name: 1 to 20 of a-z, 0-9 and -. Default: the directory's name.",
        Shape::Text(Form::ProjectName),
    ),
    Key::optional(
        "root",
        "The absolute path of the code inside every workspace. Default: the repository's own path.",
        Shape::Text(Form::Root),
    ),
    Key::optional(
        "setup",
        "Shell commands that run inside once per set of inputs; their output is a shared layer.",
        TEXTS,
    ),
    Key::optional(
        "setup_inputs",
        "Files whose change runs `setup` again. Default: known manifests and lock files.",
        PATTERNS,
    ),
    Key::optional(
        "include",
        "Ignored files to copy, relative to the root. Needs trust.",
        PATTERNS,
    ),
    Key::optional(
        "protected_paths",
        "Files and directories that are read-only inside, present or not. Fewer than before: needs trust.",
        Shape::list(&PROTECTED),
    ),
    Key::optional(
        "isolation",
        "`workspace`: sees only itself. `project`: siblings' trees are visible, read-only; needs trust.",
        Shape::Choice(&["workspace", "project"]),
    ),
    Key::optional(
        "driver",
        "How workspaces are made real. Default: `linux`. Others need trust.",
        Shape::Choice(&["linux", "docker", "kubernetes"]),
    ),
    Key::optional(
        "nested",
        "Programs inside may create user namespaces. Weaker isolation; needs trust; not together with `protected_paths`. Default: false.",
        Shape::Flag,
    ),
]);

const SERVICE: Shape = Shape::table(&[
    Key::required("run", "The shell command of the service.", TEXT),
    Key::optional(
        "ready",
        "When it counts as ready. Default: as soon as it runs.",
        READY,
    ),
    Key::optional(
        "depends_on",
        "Services that must be ready before this one starts.",
        NAMES,
    ),
    Key::optional(
        "restart",
        "When it is restarted after it exited, with back-off. Default: `on-failure`.",
        Shape::Choice(&["no", "on-failure", "always"]),
    ),
    Key::optional(
        "on_assign",
        "Its reaction when the workspace moves to another commit. Default: `restart`.",
        Shape::Choice(&["none", "hot", "restart", "rebuild"]),
    ),
    Key::optional(
        "build",
        "The shell command that `rebuild` runs first.",
        TEXT,
    ),
    Key::optional(
        "rebuild_when",
        "If none of these files changed, `rebuild` only restarts. Default: every change rebuilds.",
        PATTERNS,
    ),
    Key::optional(
        "env",
        "Variables of this service.",
        map(Form::Variable, &VALUE),
    ),
]);

const READY: Shape = Shape::Table(Table {
    keys: &[
        Key::optional(
            "http",
            "A path for which a GET must succeed.",
            Shape::Text(Form::HttpPath),
        ),
        Key::optional(
            "tcp",
            "A port, or a name of `[ports]`, that must accept connections.",
            PORT_OR_NAME,
        ),
        Key::optional("log", "A text that must appear in the service's log.", TEXT),
        Key::optional("command", "A shell command that must exit with 0.", TEXT),
        Key::optional(
            "port",
            "For `http`: a port, or a name of `[ports]`. Default: the port with the service's name, or the only one.",
            PORT_OR_NAME,
        ),
        Key::optional("timeout", "The time limit. Default: `60s`.", DURATION),
    ],
    one_of: &["http", "tcp", "log", "command"],
});

const VOLUME: Shape = Shape::table(&[
    Key::required(
        "path",
        "The path inside: absolute, or from `~/`.",
        Shape::Text(Form::Mount),
    ),
    Key::optional(
        "policy",
        "`isolated`: starts empty. `fork`: copy-on-write of the seed. `shared`: one for all. Default: `isolated`.",
        POLICY,
    ),
    Key::optional(
        "seed",
        "Shell commands that fill it once, in a temporary workspace.",
        TEXTS,
    ),
    Key::optional(
        "seed_inputs",
        "Files whose change runs `seed` again.",
        PATTERNS,
    ),
    Key::optional(
        "single",
        "For a `shared` one: only one workspace at a time runs with it. Default: false.",
        Shape::Flag,
    ),
]);

const SHARED: Shape = Shape::table(&[
    Key::required(
        "address",
        "The service on the host, as `host:port`.",
        Shape::Text(Form::Address),
    ),
    Key::optional(
        "port",
        "Its port inside. Default: the port of `address`.",
        PORT,
    ),
]);

const CACHE: Shape = Shape::table(&[
    Key::required(
        "path",
        "The directory: from `~/`, absolute, or relative to the project's root.",
        Shape::Text(Form::Place),
    ),
    Key::optional(
        "policy",
        "`fork`: warm reads, private writes. `isolated`: starts empty. `shared`: one for all workspaces. Default: `fork`.",
        POLICY,
    ),
]);

const SECRET: Shape = Shape::table(&[
    Key::optional(
        "from",
        "Where the value comes from. Needs trust. Default: `{ stored = true }`.",
        SECRET_FROM,
    ),
    Key::optional(
        "inject",
        "`env`: a variable. `file`: a file in memory, `/run/holm/secrets/NAME`. `placeholder`: a variable with a token of the same shape; the real value only at the gateway. Default: `env`.",
        Shape::Choice(&["env", "file", "placeholder"]),
    ),
    Key::required(
        "to",
        "Its receivers: names of services (or of the ports they serve), `runs`, `sessions`.",
        Shape::List {
            item: &NAME,
            least: 1,
        },
    ),
    Key::optional(
        "hosts",
        "For `placeholder`: the hosts where it may be used, as exact names; `[egress]` must allow them too.",
        DESTINATIONS,
    ),
    Key::optional(
        "ttl",
        "How long a value is valid before it is withdrawn; `holm secret refresh` restarts the time.",
        DURATION,
    ),
]);

const SECRET_FROM: Shape = Shape::Table(Table {
    keys: &[
        Key::optional("env", "A variable of the user's environment.", VARIABLE),
        Key::optional(
            "file",
            "A file of the user: from `~/`, absolute, or relative to the project's root.",
            Shape::Text(Form::Place),
        ),
        Key::optional(
            "command",
            "A program of the host that prints it, with arguments.",
            Shape::Command,
        ),
        Key::optional("stored", "Stored by holm: `holm secret set`.", Shape::True),
    ],
    one_of: &["env", "file", "command", "stored"],
});

pub const EGRESS: Shape = Shape::table(&[
    Key::optional(
        "mode",
        "`open`: public internet. `allow`: only the list. `none`: nothing. Default: the user's settings.",
        Shape::Choice(&["open", "allow", "none"]),
    ),
    Key::optional(
        "allow",
        "Names (`example.org`, `*.example.net:443`), addresses and networks. Only addresses open private networks.",
        DESTINATIONS,
    ),
]);

pub const LIMITS: Shape = Shape::table(&[
    Key::optional("memory", "Memory, such as `4GiB`.", Shape::Text(Form::Size)),
    Key::optional(
        "cpus",
        "Processors, such as `2.0`.",
        Shape::Number { most: 4096.0 },
    ),
    Key::optional(
        "processes",
        "Processes and threads.",
        Shape::Integer {
            least: 1,
            most: 4_194_304,
        },
    ),
    Key::optional(
        "disk",
        "Disk of the workspace's own files, such as `20GiB`.",
        Shape::Text(Form::Size),
    ),
]);

const AGENT: Shape = Shape::table(&[
    Key::required(
        "command",
        "The program and its arguments. The message arrives on its stdin.",
        Shape::Command,
    ),
    Key::optional("timeout", "The time limit of a run.", DURATION),
]);
