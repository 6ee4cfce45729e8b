//! Every key of the specification, with its shape and holm's verdict. The table of `docs/compose.md` is
//! generated from the keys of a service.

use super::ask::{
    always, build_network, external, gpu, host_namespace, host_network, in_parts, mount, not_empty,
    of_container, outside, outside_files, set,
};
use super::shape::Verdict::{Done, Ignored, Refused, Trust, Unused};
use super::shape::{Key, Shape};
use super::short;

/// Rows `name: verdict shape "note"`.
macro_rules! keys {
    ($($name:ident: $verdict:expr, $shape:expr, $note:literal;)*) => {
        &[$(Key { name: stringify!($name), verdict: $verdict, shape: $shape, note: $note }),*]
    };
}

/// A file.
pub static FILE: Shape = Shape::Table(keys! {
    version: Ignored, Shape::Text, "obsolete; the newest specification is always read";
    name: Done, Shape::Text, "the name of the stack";
    include: Done, Shape::List { item: &INCLUDE, long: short::include, same: &[] }, "files below the project's root";
    services: Done, Shape::Named(&SERVICE), "";
    networks: Done, Shape::Named(&NETWORK), "";
    volumes: Done, Shape::Named(&VOLUME), "";
    secrets: Done, Shape::Named(&SECRET), "";
    configs: Done, Shape::Named(&CONFIG), "";
    models: Refused, Shape::Any, "holm has no model server";
});

static INCLUDE: Shape = Shape::Table(keys! {
    path: Done, PATHS, "";
    project_directory: Done, Shape::Path, "";
    env_file: Done, PATHS, "";
});

const PATHS: Shape = Shape::Short {
    long: short::lone,
    table: &Shape::List {
        item: &Shape::Path,
        long: short::as_written,
        same: &[],
    },
};

pub static SERVICE: Shape = Shape::Table(SERVICE_KEYS);

pub static SERVICE_KEYS: &[Key] = keys! {
    annotations: Ignored, Shape::Map, "holm does not use them";
    attach: Ignored, Shape::Flag, "`holm logs` shows every service";
    blkio_config: Ignored, Shape::Any, "the workspace's limits hold for all services";
    build: Trust(always), BUILD, "an engine runs the repository's code to build the image";
    cap_add: Trust(not_empty), Shape::Unique, "adds Linux capabilities";
    cap_drop: Done, Shape::Unique, "";
    cgroup: Trust(host_namespace), Shape::Choice(&["host", "private"]), "only `host` needs approval";
    cgroup_parent: Ignored, Shape::Text, "a workspace has a control group of its own";
    command: Done, Shape::Command, "";
    configs: Done, GRANTS, "";
    container_name: Done, Shape::Text, "another name in the service's networks, so workspaces never clash";
    cpu_count: Ignored, Shape::Integer, "Windows only";
    cpu_percent: Ignored, Shape::Number, "Windows only";
    cpu_period: Ignored, Shape::Text, "use `cpus`";
    cpu_quota: Ignored, Shape::Text, "use `cpus`";
    cpu_rt_period: Ignored, Shape::Text, "needs root on the host";
    cpu_rt_runtime: Ignored, Shape::Text, "needs root on the host";
    cpu_shares: Ignored, Shape::Integer, "services of a workspace share its processors equally";
    cpus: Unused, Shape::Number, "the workspace's `[limits]` hold for all services together";
    cpuset: Ignored, Shape::Text, "services of a workspace share its processors equally";
    credential_spec: Ignored, Shape::Any, "Windows only";
    depends_on: Done, Shape::Short { long: short::names, table: &Shape::Named(&DEPENDENCY) }, "with conditions";
    deploy: Done, DEPLOY, "`replicas` as `scale`, and `restart_policy`; the rest is ignored";
    develop: Done, DEVELOP, "always while the service runs; `rebuild` says that the image is outdated";
    device_cgroup_rules: Trust(not_empty), Shape::Unique, "opens devices of the host";
    devices: Trust(not_empty), Shape::List { item: &DEVICE, long: short::device, same: &["target"] }, "opens devices of the host";
    dns: Unused, Shape::Unique, "the workspace resolves names";
    dns_opt: Unused, Shape::Unique, "the workspace resolves names";
    dns_search: Unused, Shape::Unique, "the workspace resolves names";
    domainname: Unused, Shape::Text, "the workspace has no domain";
    entrypoint: Done, Shape::Command, "";
    env_file: Trust(in_parts), Shape::Short { long: short::lone, table: &ENV_FILES }, "a file outside of the project's root needs approval";
    environment: Trust(in_parts), Shape::Map, "a value from your own environment needs approval";
    expose: Done, Shape::Unique, "";
    extends: Done, Shape::Short { long: short::extends, table: &EXTENDS }, "from the same file, or one below the project's root";
    external_links: Refused, Shape::Unique, "there are no containers outside of the workspace; declare the service in a file";
    extra_hosts: Done, Shape::Hosts, "";
    gpus: Trust(gpu), Shape::Short { long: short::gpus, table: &DEVICE_REQUESTS }, "opens devices of the host";
    group_add: Done, Shape::Unique, "where services have several users ([images.md](images.md#users))";
    healthcheck: Done, HEALTHCHECK, "";
    hostname: Done, Shape::Text, "";
    image: Done, Shape::Text, "";
    init: Done, Shape::Flag, "";
    ipc: Trust(host_namespace), Shape::Text, "only `host` and `container:…` need approval";
    isolation: Ignored, Shape::Text, "Windows only";
    label_file: Trust(outside_files), PATHS, "a file outside of the project's root needs approval";
    labels: Unused, Shape::Map, "holm does not use them";
    links: Done, Shape::Unique, "";
    logging: Ignored, Shape::Any, "`holm logs` keeps the output of every service";
    mac_address: Ignored, Shape::Text, "the workspace chooses addresses";
    mem_limit: Unused, Shape::Size, "the workspace's `[limits]` hold for all services together";
    mem_reservation: Ignored, Shape::Size, "a workspace reserves no memory";
    mem_swappiness: Ignored, Shape::Integer, "set by the host";
    memswap_limit: Ignored, Shape::Text, "set by the host";
    models: Refused, Shape::Any, "holm has no model server";
    network_mode: Trust(host_network), Shape::Text, "every value but `none`, `bridge` and `service:…` needs approval";
    networks: Done, Shape::Short { long: short::names, table: &Shape::Named(&ATTACHMENT) }, "";
    oom_kill_disable: Ignored, Shape::Flag, "needs root on the host";
    oom_score_adj: Ignored, Shape::Integer, "needs root on the host";
    pid: Trust(host_namespace), Shape::Text, "only `host` and `container:…` need approval";
    pids_limit: Unused, Shape::Integer, "the workspace's `[limits]` hold for all services together";
    platform: Unused, Shape::Text, "holm takes the image for this machine";
    ports: Done, Shape::List { item: &PORT, long: short::port, same: &["host_ip", "target", "published", "protocol"] }, "routes on loopback, whatever address the file names";
    post_start: Trust(in_parts), HOOKS, "only `privileged` needs approval";
    pre_start: Trust(in_parts), HOOKS, "services of their own, `NAME-pre-start-1`; only `privileged` needs approval";
    pre_stop: Trust(in_parts), HOOKS, "only `privileged` needs approval";
    privileged: Trust(set), Shape::Flag, "gives all Linux capabilities";
    profiles: Done, Shape::Unique, "";
    provider: Trust(always), PROVIDER, "runs a program on the host";
    pull_policy: Unused, Shape::Text, "holm pulls an image that is not here; `holm image pull` fetches it again";
    pull_refresh_after: Ignored, Shape::Text, "`holm image pull` refreshes an image";
    read_only: Done, Shape::Flag, "";
    restart: Done, Shape::Text, "";
    runtime: Ignored, Shape::Text, "holm starts the program itself";
    scale: Done, Shape::Integer, "0: the service does not run; more than 1: one instance runs";
    secrets: Done, GRANTS, "";
    security_opt: Trust(not_empty), Shape::Unique, "weakens the isolation";
    shm_size: Unused, Shape::Size, "programs have the workspace's /dev/shm";
    stdin_open: Unused, Shape::Flag, "services have no input";
    stop_grace_period: Done, Shape::Duration, "";
    stop_signal: Done, Shape::Text, "";
    storage_opt: Ignored, Shape::Any, "the workspace's disk limit holds for all services";
    sysctls: Trust(not_empty), Shape::Map, "changes settings of the kernel";
    tmpfs: Done, Shape::Unique, "";
    tty: Unused, Shape::Flag, "services have no terminal";
    ulimits: Unused, Shape::Named(&ULIMIT), "programs have the workspace's limits";
    use_api_socket: Trust(set), Shape::Flag, "the engine's socket controls the host";
    user: Done, Shape::Text, "";
    userns_mode: Trust(host_namespace), Shape::Text, "only `host` needs approval";
    uts: Trust(host_namespace), Shape::Text, "only `host` needs approval";
    volumes: Trust(in_parts), Shape::List { item: &MOUNT, long: short::volume, same: &["target"] }, "only a path outside of the project's root needs approval";
    volumes_from: Trust(of_container), Shape::Unique, "only `container:…` needs approval";
    working_dir: Done, Shape::Text, "";
};

const GRANTS: Shape = Shape::List {
    item: &Shape::Table(keys! {
        source: Done, Shape::Text, "";
        target: Done, Shape::Text, "";
        uid: Done, Shape::Text, "";
        gid: Done, Shape::Text, "";
        mode: Done, Shape::Text, "";
    }),
    long: short::grant,
    same: &["target"],
};

const BUILD: Shape = Shape::Short {
    long: short::build,
    table: &Shape::Table(keys! {
        context: Trust(outside), Shape::Path, "outside of the project's root";
        dockerfile: Done, Shape::Text, "";
        dockerfile_inline: Done, Shape::Text, "";
        entitlements: Trust(not_empty), Shape::Unique, "the build gets rights on the host";
        args: Done, Shape::Map, "";
        ssh: Trust(not_empty), Shape::Texts, "the build uses your ssh agent";
        labels: Done, Shape::Map, "";
        cache_from: Ignored, Shape::Texts, "builds are keyed by their inputs";
        cache_to: Ignored, Shape::Texts, "builds are keyed by their inputs";
        no_cache: Done, Shape::Flag, "";
        additional_contexts: Trust(not_empty), Shape::Map, "further inputs of the build";
        network: Trust(build_network), Shape::Text, "the build uses a network";
        provenance: Ignored, Shape::Text, "not supported";
        sbom: Ignored, Shape::Text, "not supported";
        pull: Done, Shape::Flag, "";
        target: Done, Shape::Text, "";
        shm_size: Done, Shape::Size, "";
        extra_hosts: Done, Shape::Hosts, "";
        isolation: Ignored, Shape::Text, "Windows only";
        privileged: Trust(set), Shape::Flag, "the build gets all Linux capabilities";
        secrets: Done, GRANTS, "";
        tags: Done, Shape::Unique, "";
        ulimits: Done, Shape::Named(&ULIMIT), "";
        platforms: Done, Shape::Unique, "";
    }),
};

static DEPENDENCY: Shape = Shape::Table(keys! {
    condition: Done, Shape::Choice(&["service_started", "service_healthy", "service_completed_successfully"]), "";
    restart: Done, Shape::Flag, "";
    required: Done, Shape::Flag, "";
});

const DEPLOY: Shape = Shape::Table(keys! {
    mode: Ignored, Shape::Text, "for clusters";
    endpoint_mode: Ignored, Shape::Text, "for clusters";
    replicas: Done, Shape::Integer, "";
    labels: Ignored, Shape::Map, "for clusters";
    rollback_config: Ignored, Shape::Any, "for clusters";
    update_config: Ignored, Shape::Any, "for clusters";
    placement: Ignored, Shape::Any, "for clusters";
    resources: Done, Shape::Table(keys! {
        limits: Done, AMOUNTS, "";
        reservations: Done, AMOUNTS, "";
    }), "";
    restart_policy: Done, Shape::Table(keys! {
        condition: Done, Shape::Choice(&["none", "on-failure", "any"]), "";
        delay: Done, Shape::Duration, "";
        max_attempts: Done, Shape::Integer, "";
        window: Done, Shape::Duration, "";
    }), "";
});

const AMOUNTS: Shape = Shape::Table(keys! {
    cpus: Done, Shape::Number, "";
    memory: Done, Shape::Size, "";
    pids: Done, Shape::Integer, "";
    generic_resources: Ignored, Shape::Any, "for clusters";
    devices: Trust(gpu), DEVICE_REQUESTS, "opens devices of the host";
});

const DEVICE_REQUESTS: Shape = Shape::List {
    item: &Shape::Table(keys! {
        capabilities: Done, Shape::Unique, "";
        driver: Done, Shape::Text, "";
        count: Done, Shape::Text, "";
        device_ids: Done, Shape::Unique, "";
        options: Done, Shape::Map, "";
    }),
    long: short::as_written,
    same: &[],
};

const PROVIDER: Shape = Shape::Table(keys! {
    type: Done, Shape::Text, "";
    options: Done, Shape::Named(&Shape::Texts), "";
});

const DEVELOP: Shape = Shape::Table(keys! {
    watch: Done, Shape::List { item: &WATCH, long: short::as_written, same: &[] }, "";
});

static WATCH: Shape = Shape::Table(keys! {
    path: Done, Shape::Path, "";
    action: Done, Shape::Choice(&["rebuild", "sync", "restart", "sync+restart", "sync+exec"]), "";
    target: Done, Shape::Text, "";
    ignore: Done, Shape::Texts, "";
    include: Done, Shape::Texts, "";
    exec: Done, HOOK, "";
    initial_sync: Done, Shape::Flag, "";
});

const HOOKS: Shape = Shape::List {
    item: &HOOK,
    long: short::as_written,
    same: &[],
};

const HOOK: Shape = Shape::Table(keys! {
    command: Done, Shape::Command, "";
    user: Done, Shape::Text, "";
    privileged: Trust(set), Shape::Flag, "runs the command with all capabilities";
    working_dir: Done, Shape::Text, "";
    environment: Done, Shape::Map, "";
    image: Done, Shape::Text, "";
});

static DEVICE: Shape = Shape::Table(keys! {
    source: Done, Shape::Text, "";
    target: Done, Shape::Text, "";
    permissions: Done, Shape::Text, "";
});

static ENV_FILES: Shape = Shape::List {
    item: &Shape::Table(keys! {
        path: Trust(outside), Shape::Path, "outside of the project's root";
        required: Done, Shape::Flag, "";
        format: Done, Shape::Choice(&["raw"]), "";
    }),
    long: short::env_file,
    same: &["path"],
};

static EXTENDS: Shape = Shape::Table(keys! {
    service: Done, Shape::Text, "";
    file: Done, Shape::Path, "";
});

const HEALTHCHECK: Shape = Shape::Table(keys! {
    disable: Done, Shape::Flag, "";
    interval: Done, Shape::Duration, "";
    retries: Done, Shape::Integer, "";
    test: Done, Shape::Test, "";
    timeout: Done, Shape::Duration, "";
    start_period: Done, Shape::Duration, "";
    start_interval: Done, Shape::Duration, "";
});

static ATTACHMENT: Shape = Shape::Table(keys! {
    aliases: Done, Shape::Unique, "";
    ipv4_address: Unused, Shape::Text, "the workspace chooses addresses";
    ipv6_address: Unused, Shape::Text, "the workspace chooses addresses";
    link_local_ips: Ignored, Shape::Unique, "the workspace chooses addresses";
    mac_address: Ignored, Shape::Text, "the workspace chooses addresses";
    interface_name: Ignored, Shape::Text, "the workspace names interfaces";
    driver_opts: Ignored, Shape::Map, "holm does not use them";
    priority: Ignored, Shape::Number, "all networks use the same gateway";
    gw_priority: Ignored, Shape::Number, "all networks use the same gateway";
});

static PORT: Shape = Shape::Table(keys! {
    target: Done, Shape::Integer, "";
    published: Done, Shape::Text, "";
    host_ip: Done, Shape::Text, "";
    protocol: Done, Shape::Choice(&["tcp", "udp", "sctp"]), "";
    name: Ignored, Shape::Text, "`[ports]` of holm.toml names ports";
    mode: Ignored, Shape::Text, "for clusters";
    app_protocol: Ignored, Shape::Text, "not used";
});

static MOUNT: Shape = Shape::Table(keys! {
    type: Done, Shape::Choice(&["bind", "volume", "tmpfs", "image"]), "";
    source: Trust(mount), Shape::Source, "outside of the project's root";
    target: Done, Shape::Text, "";
    read_only: Done, Shape::Flag, "";
    nocopy: Done, Shape::Flag, "";
    subpath: Done, Shape::Text, "";
    size: Done, Shape::Size, "";
    mode: Done, Shape::Text, "";
    create_host_path: Done, Shape::Flag, "";
    consistency: Ignored, Shape::Text, "mounts are always consistent";
    propagation: Ignored, Shape::Text, "mounts are always private";
    recursive: Ignored, Shape::Text, "holm does not mount submounts";
    selinux: Ignored, Shape::Text, "the files keep their labels";
    labels: Ignored, Shape::Map, "holm does not use them";
});

static ULIMIT: Shape = Shape::Short {
    long: short::ulimit,
    table: &Shape::Table(keys! {
        soft: Done, Shape::Integer, "";
        hard: Done, Shape::Integer, "";
    }),
};

static NETWORK: Shape = Shape::Table(keys! {
    name: Done, Shape::Text, "";
    driver: Done, Shape::Text, "";
    driver_opts: Ignored, Shape::Map, "holm does not use them";
    ipam: Ignored, Shape::Any, "the workspace chooses addresses";
    external: Trust(external), Shape::External, "a network outside of the workspace";
    internal: Done, Shape::Flag, "";
    enable_ipv4: Ignored, Shape::Flag, "every network has IPv4";
    enable_ipv6: Ignored, Shape::Flag, "set by the workspace";
    attachable: Ignored, Shape::Flag, "for clusters";
    labels: Done, Shape::Map, "";
});

static VOLUME: Shape = Shape::Table(keys! {
    name: Done, Shape::Text, "";
    driver: Done, Shape::Text, "";
    driver_opts: Trust(not_empty), Shape::Map, "can mount a directory or a server of the host";
    external: Trust(external), Shape::External, "a volume outside of the workspace";
    labels: Done, Shape::Map, "";
});

static SECRET: Shape = Shape::Table(keys! {
    name: Done, Shape::Text, "";
    environment: Trust(set), Shape::Text, "reads a variable of your environment";
    file: Trust(outside), Shape::Path, "outside of the project's root";
    external: Refused, Shape::External, "holm has no external secret store; declare it in `[secrets]` of holm.toml";
    labels: Done, Shape::Map, "";
    driver: Refused, Shape::Text, "holm has no external secret store";
    driver_opts: Refused, Shape::Map, "holm has no external secret store";
    template_driver: Refused, Shape::Text, "for clusters";
});

static CONFIG: Shape = Shape::Table(keys! {
    name: Done, Shape::Text, "";
    content: Done, Shape::Text, "";
    environment: Trust(set), Shape::Text, "reads a variable of your environment";
    file: Trust(outside), Shape::Path, "outside of the project's root";
    external: Refused, Shape::External, "holm has no external config store; use `file` or `content`";
    labels: Done, Shape::Map, "";
    template_driver: Refused, Shape::Text, "for clusters";
});
