//! Every key of `holm.toml`: its name, its type, and its meaning.
//!
//! Used by the parser ([`super::project`]) and by the schema. A key that is not here does not
//! exist.

use super::shape::{Form, Shape, table};

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

pub const TEXTS: Shape = Shape::list(&TEXT);
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

pub const HOLM_TOML: Shape = table! {
    /// The project, and the initial state of its workspaces.
    project: optional PROJECT,
    /// Ports that programs inside listen on, by name. Each gets a URL and a port on the host.
    ports: optional map(Form::Name, &DECLARED_PORT),
    /// Variables of every program inside. A value may contain `${ports.NAME}` and
    /// `${services.NAME.url}`.
    env: optional map(Form::SharedVariable, &VALUE),
    /// Long-running programs of every workspace.
    services: optional map(Form::Name, &SERVICE),
    /// Persistent data, by name.
    volumes: optional map(Form::Name, &VOLUME),
    /// Services on the host that this project may reach. Needs trust.
    shared: optional map(Form::Name, &SHARED),
    /// Download caches for workspaces. Outside of the project: needs trust.
    caches: optional map(Form::Name, &CACHE),
    /// Secrets, by the name of their variable or file.
    secrets: optional map(Form::Variable, &SECRET),
    /// Where connections may go. Wider than the user's settings: needs trust.
    egress: optional EGRESS,
    /// What one workspace may use. Higher than the user's settings: needs trust.
    limits: optional LIMITS,
    /// The commands of coding agents.
    agents: optional map(Form::Name, &AGENT),
    /// Commands that `holm check` runs on a turn, each in a fresh workspace, by name.
    checks: optional map(Form::Name, &CHECK),
    /// What has to happen before work is taken over. It can only add a demand to the user's and the machine's.
    review: optional PROJECT_REVIEW,
};

const CHECK: Shape = table! {
    /// The shell command. Exit code 0 passes.
    run: required TEXT,
    /// The time limit; a check that hits it has failed with exit code 124. Default: `10m`.
    timeout: optional DURATION,
    /// If none of these files changed since the starting commit, the check is skipped. Default: every change concerns
    /// it.
    when: optional PATTERNS,
    /// `fresh`: volumes as a new workspace gets them. `current`: a copy of the workspace's volumes as they are now.
    /// Default: `fresh`.
    volumes: optional Shape::Choice(&["fresh", "current"]),
};

const PROJECT_REVIEW: Shape = table! {
    /// `fetch`, `apply` and `merge` take only a tree that a person approved. Default: false.
    required: optional Shape::Flag,
    /// Run the checks in the background after each run that changed files. Default: false.
    check: optional Shape::Flag,
};

pub const REVIEW: Shape = table! {
    /// `fetch`, `apply` and `merge` take only a tree that a person approved. Default: false.
    required: optional Shape::Flag,
};

const DECLARED_PORT: Shape = Shape::Either(&PORT, &PORT_WITH_HOST);

const PORT_WITH_HOST: Shape = table! {
    /// The port that a program inside listens on.
    port: required PORT,
    /// The `Host` that previews show to the server, such as `localhost:3000`. Default: the preview's own;
    /// for servers that refuse it (Django, Rails, webpack) `localhost` with the port.
    host: optional Shape::Text(Form::HostHeader),
};

const PROJECT: Shape = table! {
    /// The project's display name: 1 to 20 of a-z, 0-9 and -. Default: the directory's name.
    name: optional Shape::Text(Form::ProjectName),
    /// The absolute path of the code inside every workspace. Default: the repository's own path.
    root: optional Shape::Text(Form::Root),
    /// Shell commands that run inside once per set of inputs; their output is a shared layer.
    setup: optional TEXTS,
    /// Files whose change runs `setup` again. Default: known manifests and lock files.
    setup_inputs: optional PATTERNS,
    /// Files of `include`, and of the user's `[home] copy` (`~/.npmrc`), that `setup` gets too. No layer
    /// contains them.
    setup_files: optional Shape::list(&Shape::Text(Form::GivenPath)),
    /// Ignored files to copy, relative to the root. Needs trust.
    include: optional PATTERNS,
    /// Files and directories that are read-only inside, present or not. Fewer than before: needs
    /// trust.
    protected_paths: optional Shape::list(&PROTECTED),
    /// `workspace`: sees only itself. `project`: siblings' trees are visible, read-only; needs
    /// trust.
    isolation: optional Shape::Choice(&["workspace", "project"]),
    /// How workspaces are made real. Default: `linux`. Others need trust.
    driver: optional Shape::Choice(&["linux", "docker", "kubernetes"]),
    /// Programs inside may create user namespaces. Weaker isolation; needs trust; not together with
    /// `protected_paths`. Default: false.
    nested: optional Shape::Flag,
    /// Compose files, relative to the root. Each of their services is a service of the workspace; later files
    /// override earlier ones. `[services.NAME]` and `[volumes.NAME]` of the same name add to what they say.
    compose: optional Shape::Either(&RELATIVE, &Shape::list(&RELATIVE)),
    /// The `devcontainer.json`, relative to the root, in whose container commands, sessions, runs and services without an
    /// image run.
    devcontainer: optional RELATIVE,
};

const RELATIVE: Shape = Shape::Text(Form::ProjectFile);

const SERVICE: Shape = table! {
    /// The shell command of the service. Needed unless there is an `image` or `build`, or a Compose file has the service. With `image` it is optional and replaces the image's command; words without
    /// shell syntax go to the image's entrypoint as they are.
    run: optional TEXT,
    /// The image whose root the service runs in, such as `postgres:16`. Default: the workspace's own root.
    image: optional Shape::Text(Form::Image),
    /// For `image`: where its programs see the code, such as `/app`, and start. Default: they do not see it.
    tree: optional Shape::Text(Form::ImagePath),
    /// For `image`: volumes that its programs see, each at its path. Default: none.
    volumes: optional NAMES,
    /// When it counts as ready. Default: as soon as it runs.
    ready: optional READY,
    /// Services that must be ready before this one starts.
    depends_on: optional NAMES,
    /// When it is restarted after it exited, with back-off. Default: `on-failure`.
    restart: optional Shape::Choice(&["no", "on-failure", "always"]),
    /// Its reaction when the workspace moves to another commit. Default: `restart`.
    on_assign: optional Shape::Choice(&["none", "hot", "restart", "rebuild"]),
    /// A text: the shell command that `rebuild` runs first; without `run` and `image`, the directory whose `Dockerfile` the
    /// image is built from. A table: what the image is built from. A build by docker, podman or buildah needs trust.
    build: optional Shape::Either(&TEXT, &BUILD),
    /// If none of these files changed, `rebuild` only restarts. Default: every change rebuilds.
    rebuild_when: optional PATTERNS,
    /// Variables of this service.
    env: optional map(Form::Variable, &VALUE),
};

const BUILD: Shape = table! {
    /// The directory, relative to the root, whose files the build sees: those of the commit that `.dockerignore` does not
    /// exclude. Default: `.`.
    context: optional TEXT,
    /// The file, relative to `context`. Default: `Dockerfile`.
    dockerfile: optional TEXT,
    /// Values of `ARG`.
    args: optional map(Form::Variable, &VALUE),
    /// The stage. Default: the last one.
    target: optional TEXT,
    /// `none`: its commands have no network. `default`: they have the builder's. Default: `none`.
    network: optional Shape::Choice(&["none", "default"]),
};

const READY: Shape = table! {
    one_of ["http", "tcp", "log", "command"];
    /// A path for which a GET must succeed.
    http: optional Shape::Text(Form::HttpPath),
    /// A port, or a name of `[ports]`, that must accept connections.
    tcp: optional PORT_OR_NAME,
    /// A text that must appear in the service's log.
    log: optional TEXT,
    /// A shell command that must exit with 0.
    command: optional TEXT,
    /// For `http`: a port, or a name of `[ports]`. Default: the port with the service's name, or
    /// the only one.
    port: optional PORT_OR_NAME,
    /// The time limit. Default: `60s`.
    timeout: optional DURATION,
};

const VOLUME: Shape = table! {
    /// The path inside: absolute, or from `~/`. Needed unless a Compose file has the volume.
    path: optional Shape::Text(Form::Mount),
    /// `isolated`: starts empty. `fork`: copy-on-write of the seed. `shared`: one for all. Default:
    /// `isolated`.
    policy: optional POLICY,
    /// Shell commands that fill it once, in a temporary workspace.
    seed: optional TEXTS,
    /// Files whose change runs `seed` again.
    seed_inputs: optional PATTERNS,
    /// For a `shared` one: only one workspace at a time runs with it. Default: false.
    single: optional Shape::Flag,
};

const SHARED: Shape = table! {
    /// The service on the host, as `host:port`.
    address: required Shape::Text(Form::Address),
    /// Its port inside. Default: the port of `address`.
    port: optional PORT,
};

const CACHE: Shape = table! {
    /// The directory: from `~/`, absolute, or relative to the project's root.
    path: required Shape::Text(Form::Place),
    /// `fork`: warm reads, private writes. `isolated`: starts empty. `shared`: one for all
    /// workspaces. Default: `fork`.
    policy: optional POLICY,
};

const SECRET: Shape = table! {
    /// Where the value comes from. Needs trust. Default: `{ stored = true }`.
    from: optional SECRET_FROM,
    /// `env`: a variable. `file`: a file in memory, `/run/holm/secrets/NAME`. `placeholder`: a
    /// variable with a token of the same shape; the real value only at the gateway. Default: `env`.
    inject: optional Shape::Choice(&["env", "file", "placeholder"]),
    /// Its receivers: names of services (or of the ports they serve), `runs`, `sessions`.
    to: required Shape::List { item: &NAME, least: 1 },
    /// For `placeholder`: the hosts where it may be used, as exact names; `[egress]` must allow
    /// them too.
    hosts: optional DESTINATIONS,
    /// How long a value is valid before it is withdrawn; `holm secret refresh` restarts the time.
    ttl: optional DURATION,
};

const SECRET_FROM: Shape = table! {
    one_of ["env", "file", "command", "stored"];
    /// A variable of the user's environment.
    env: optional VARIABLE,
    /// A file of the user: from `~/`, absolute, or relative to the project's root.
    file: optional Shape::Text(Form::Place),
    /// A program of the host that prints it, with arguments.
    command: optional Shape::Command,
    /// Stored by holm: `holm secret set`.
    stored: optional Shape::True,
};

pub const EGRESS: Shape = table! {
    /// `open`: public internet. `allow`: only the list. `none`: nothing. Default: the user's
    /// settings.
    mode: optional Shape::Choice(&["open", "allow", "none"]),
    /// Names (`example.org`, `*.example.net:443`), addresses and networks. Only addresses open
    /// private networks.
    allow: optional DESTINATIONS,
};

pub const LIMITS: Shape = table! {
    /// Memory, such as `4GiB`.
    memory: optional Shape::Text(Form::Size),
    /// Processors, such as `2.0`.
    cpus: optional Shape::Number { most: 4096.0 },
    /// Processes and threads.
    processes: optional Shape::Integer { least: 1, most: 4_194_304 },
    /// Disk of the workspace's own files, such as `20GiB`.
    disk: optional Shape::Text(Form::Size),
};

const AGENT: Shape = table! {
    /// The program and its arguments. The message arrives on its stdin.
    command: required Shape::Command,
    /// The time limit of a run.
    timeout: optional DURATION,
};
