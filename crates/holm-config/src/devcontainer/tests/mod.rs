//! What a `devcontainer.json` becomes, and what is refused, asked or said of it.

use super::{collect, key_table};
use crate::compose::Unread;
use crate::project::{parse, parse_with};
use holm_core::compose::ComposeFiles;
use holm_core::config::{Name, Probe, ProjectConfig, Service};
use holm_core::container::{Attachment, Container, Source};
use holm_core::dev_container::Stage;
use holm_core::image_build::Dockerfile;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

mod features;

const FILE: &str = ".devcontainer/devcontainer.json";
const HOLM: &str = "[project]\ndevcontainer = \".devcontainer/devcontainer.json\"\n";

fn everything() -> ComposeFiles {
    ComposeFiles {
        root: "/home/me/shop".to_owned(),
        home: "/home/me".to_owned(),
        environment: [("TOKEN", "secret"), ("OTHER", "unused")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..ComposeFiles::default()
    }
}

/// What the client sends.
fn collected(holm_toml: &str, files: &[(&str, &str)]) -> ComposeFiles {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    let config = parse(holm_toml, "holm.toml").unwrap();
    collect(&config, &everything(), &mut |path| {
        let text = files.get(path).ok_or(Unread::Missing)?;
        Ok((*text).to_owned())
    })
}

fn read(holm_toml: &str, files: &[(&str, &str)]) -> Result<ProjectConfig, String> {
    let sent = collected(holm_toml, files);
    parse_with(holm_toml, "holm.toml", &sent).map_err(|fault| fault.to_string())
}

fn good(text: &str) -> ProjectConfig {
    read(HOLM, &[(FILE, text)]).unwrap()
}

fn service<'a>(config: &'a ProjectConfig, name: &str) -> &'a Service {
    &config.services[&Name::parse(name).unwrap()]
}

fn container<'a>(config: &'a ProjectConfig, name: &str) -> &'a Container {
    let image = service(config, name).image.as_ref().unwrap();
    image.container.as_ref().unwrap()
}

/// The places and words of notes.
fn warnings(config: &ProjectConfig) -> Vec<String> {
    let warnings = config.compose.warnings.iter();
    warnings
        .map(|it| format!("{}:{} {}", it.line, it.column, it.words))
        .collect()
}

fn requests(config: &ProjectConfig) -> Vec<String> {
    let requests = config.compose.requests.iter();
    requests
        .map(|it| format!("{}:{} {}", it.at.line, it.at.column, it.at.words))
        .collect()
}

#[test]
fn an_image_is_a_service_with_the_tree() {
    let config = good(
        r#"// Ours
        {
            "name": "shop",
            "image": "registry.test/node:20",
            "remoteUser": "node",
            "containerEnv": {"A": "1", "AT": "${containerWorkspaceFolder}/x"},
            "remoteEnv": {"PATH": "${containerEnv:PATH}:/opt", "NO": null, "ID": "${devcontainerId}"},
            "forwardPorts": [3000, "127.0.0.1:4000"],
            "appPort": "8080:8081",
            "portsAttributes": {"3000": {"label": "Web App"}},
        }"#,
    );
    let dev = config.dev_container.as_ref().unwrap();
    assert_eq!(dev.file, FILE);
    assert_eq!(dev.service, "devcontainer");
    assert_eq!(dev.folder, Path::new("/workspaces/shop"));
    assert_eq!(dev.user.as_deref(), Some("node"));
    let env: Vec<_> = dev.remote_env.iter().collect();
    let (path, id) = (
        "${containerEnv:PATH}:/opt".to_owned(),
        "${devcontainerId}".to_owned(),
    );
    assert_eq!(
        env,
        [
            (&"ID".to_owned(), &Some(id)),
            (&"NO".to_owned(), &None),
            (&"PATH".to_owned(), &Some(path))
        ]
    );
    let image = service(&config, "devcontainer").image.as_ref().unwrap();
    assert_eq!(image.reference.to_string(), "registry.test/node:20");
    assert_eq!(
        image.tree.as_ref().unwrap().as_path(),
        Path::new("/workspaces/shop")
    );
    let container = container(&config, "devcontainer");
    assert_eq!(container.user.as_deref(), Some("node"));
    assert_eq!(container.network, Attachment::Workspace);
    assert!(container.entrypoint.as_ref().unwrap()[2].contains("sleep"));
    let at = ("AT".to_owned(), "/workspaces/shop/x".to_owned());
    assert_eq!(container.environment[1], at);
    let ports: Vec<_> = config
        .ports
        .iter()
        .map(|(name, port)| (name.as_str(), port.port.get()))
        .collect();
    assert_eq!(
        ports,
        [("port-4000", 4000), ("port-8081", 8081), ("web-app", 3000)]
    );
    assert!(warnings(&config).is_empty() && requests(&config).is_empty());
    assert_eq!(config.compose.files, [FILE]);
}

#[test]
fn the_tree_and_programs_are_where_the_file_says() {
    let config = good(
        r#"{"image": "x.test/a", "workspaceFolder": "/src/app", "overrideCommand": false,
            "workspaceMount": "source=${localWorkspaceFolder},target=/src,type=bind,consistency=cached"}"#,
    );
    let image = service(&config, "devcontainer").image.as_ref().unwrap();
    assert_eq!(image.tree.as_ref().unwrap().as_path(), Path::new("/src"));
    assert_eq!(
        config.dev_container.as_ref().unwrap().folder,
        Path::new("/src/app")
    );
    assert_eq!(container(&config, "devcontainer").entrypoint, None);
    assert!(requests(&config).is_empty());
    let config = good(
        r#"{"image": "x.test/a", "workspaceFolder": "/app",
            "workspaceMount": "source=${localWorkspaceFolder}/app,target=/app,type=bind"}"#,
    );
    let mounts = &container(&config, "devcontainer").mounts;
    let tree = Source::Tree {
        path: PathBuf::from("app"),
        create: true,
    };
    assert_eq!(mounts[0].source, tree);
    assert!(
        service(&config, "devcontainer")
            .image
            .as_ref()
            .unwrap()
            .tree
            .is_none()
    );
}

#[test]
fn commands_run_in_the_order_of_their_stages() {
    let config = good(
        r#"{"image": "x.test/a",
            "postStartCommand": ["echo", "a b"],
            "onCreateCommand": "make && true",
            "postCreateCommand": {"db": "db", "npm": ["npm", "ci"]},
            "updateContentCommand": "",
            "waitFor": "postCreateCommand"}"#,
    );
    let dev = config.dev_container.as_ref().unwrap();
    assert_eq!(dev.wait_for, Stage::PostCreate);
    let shown: Vec<_> = dev
        .commands
        .iter()
        .map(|it| {
            let commands = it.commands.iter();
            let commands: Vec<_> = commands
                .map(|it| format!("{}{:?}", it.name.as_deref().unwrap_or(""), it.words))
                .collect();
            format!("{} {}", it.stage.key(), commands.join(" "))
        })
        .collect();
    assert_eq!(
        shown,
        [
            r#"onCreateCommand ["/bin/sh", "-c", "make && true"]"#,
            r#"postCreateCommand db["/bin/sh", "-c", "db"] npm["npm", "ci"]"#,
            r#"postStartCommand ["echo", "a b"]"#,
        ]
    );
    let ready = service(&config, "devcontainer").ready.as_ref().unwrap();
    assert_eq!(ready.probe, Probe::Lifecycle);
    for later in [
        r#"{"image": "x.test/a", "postStartCommand": "x"}"#,
        r#"{"image": "x.test/a", "onCreateCommand": "x", "waitFor": "initializeCommand"}"#,
    ] {
        let config = good(later);
        assert!(service(&config, "devcontainer").ready.is_none(), "{later}");
    }
}

#[test]
fn every_error_has_its_place_and_all_come_at_once() {
    let check = |text: &str, expected: &[&str]| {
        let error = read(HOLM, &[(FILE, text)]).unwrap_err();
        let lines: Vec<&str> = error
            .lines()
            .filter(|line| line.starts_with(FILE))
            .collect();
        let lines: Vec<_> = lines.iter().map(|line| &line[FILE.len() + 1..]).collect();
        assert_eq!(lines, expected, "{text}");
    };
    check(
        "{\n  \"image\": 1,\n  \"forwardPorts\": [true],\n  \"waitFor\": \"x\"\n}",
        &[
            "2:12: `image` must be a text, and is a number",
            "3:19: `forwardPorts` must be a port or a list of ports, and is a list",
            "4:14: `waitFor` must be one of `initializeCommand`, `onCreateCommand`, `updateContentCommand`, `postCreateCommand`, `postStartCommand`, and is a text",
        ],
    );
    check(
        "{}",
        &["1:1: the file needs `image`, `build` or `dockerComposeFile`"],
    );
    check("[]", &["1:1: the file must be a table"]);
    check("{\"image\": \"a\",", &["1:1: unterminated object"]);
    check(
        r#"{"image": "a", "build": {"dockerfile": "x"}}"#,
        &["1:16: only one of `image`, `build` and `dockerComposeFile` can be the container"],
    );
    check(
        r#"{"image": "a b", "workspaceFolder": "x"}"#,
        &["1:37: `workspaceFolder` must be an absolute path without `..`"],
    );
    check(
        r#"{"image": "x.test/a", "workspaceFolder": "/proc/x"}"#,
        &["1:42: the code cannot be at `/proc/x`: `/proc` belongs to the system"],
    );
    check(
        r#"{"image": "x.test/a", "forwardPorts": ["db:1"]}"#,
        &["1:40: there is no service `db` to forward a port of"],
    );
    check(
        r#"{"image": "x.test/a", "forwardPorts": [70000]}"#,
        &["1:40: `forwardPorts` has `70000`, which is no port"],
    );
    check(
        r#"{"image": "localhost/holm-build:x"}"#,
        &["1:11: `image` names an image that holm builds; use `build`"],
    );
    check(
        r#"{"image": "x.test/a", "mounts": ["type=bind,target=/x"]}"#,
        &["1:34: `mounts` binds no `source`"],
    );
    check(
        r#"{"image": "x.test/a", "mounts": ["source=a,target=x"]}"#,
        &["1:34: `mounts` needs a `target` that is an absolute path below `/`"],
    );
    check(
        r#"{"image": "x.test/a", "mounts": [{"type": "npipe", "source": "a", "target": "/x"}]}"#,
        &["1:34: `mounts` has the type `npipe`; known are bind, volume and tmpfs"],
    );
    check(r#"{"build": {}}"#, &["1:2: `build` needs `dockerfile`"]);
    check(
        r#"{"build": {"dockerfile": "../../Dockerfile"}}"#,
        &[
            "1:2: `build` has the dockerfile `../../Dockerfile`, which is not below the project's root",
        ],
    );
    check(
        r#"{"image": "x.test/a", "workspaceMount": "source=/x,target=/y,type=bind"}"#,
        &["1:23: `workspaceMount` needs `workspaceFolder` beside it"],
    );
    let missing = read(HOLM, &[]).unwrap_err();
    assert!(
        missing.contains("which the commit does not have"),
        "{missing}"
    );
    let both = format!("{HOLM}compose = \"compose.yaml\"\n");
    let error = read(&both, &[(FILE, r#"{"image": "x.test/a"}"#)]).unwrap_err();
    assert!(
        error.contains("both `compose` and `devcontainer`"),
        "{error}"
    );
}

#[test]
fn keys_without_effect_and_unknown_keys_are_notes() {
    let config = good(
        "{\n \"image\": \"x.test/a\",\n \"customizations\": {\"vscode\": {}},\n \"forwardPort\": [1],\n \"shutdownAction\": \"none\"\n}",
    );
    assert_eq!(
        warnings(&config),
        [
            "3:2 `customizations` has no effect: it is for editors and other tools",
            "4:2 `forwardPort` is no key of the specification and has no effect; tools keep theirs in `customizations`; did you mean `forwardPorts`?",
            "5:2 `shutdownAction` has no effect: a workspace runs until `holm stop`",
        ]
    );
}

#[test]
fn what_reaches_the_host_is_a_request() {
    let config = good(
        r#"{
"image": "x.test/a",
"initializeCommand": ["touch", "/tmp/x"],
"workspaceFolder": "/src",
"workspaceMount": "source=/etc,target=/src,type=bind",
"mounts": ["source=/var/run/docker.sock,target=/run/d.sock,type=bind", "source=x,target=/x", {"type": "bind", "source": "~/.ssh", "target": "/s", "readonly": true}],
"runArgs": ["--privileged"], "privileged": true, "capAdd": ["SYS_PTRACE"], "securityOpt": ["seccomp=unconfined"],
"hostRequirements": {"gpu": true},
"containerEnv": {"T": "${localEnv:TOKEN}", "N": "${localEnv:NOT_SET:default}"}
}"#,
    );
    assert_eq!(
        requests(&config),
        [
            "7:1 `devcontainer.runArgs` is --privileged: options for an engine's command line, which may reach the host",
            "7:30 `devcontainer.privileged` is set: gives all Linux capabilities",
            "7:50 `devcontainer.capAdd` is SYS_PTRACE: adds Linux capabilities",
            "7:76 `devcontainer.securityOpt` is seccomp=unconfined: weakens the isolation",
            "8:1 `devcontainer.hostRequirements` asks for a GPU of the host: only `gpu` needs approval, and no device is given; set `[limits]` in holm.toml for the rest",
            "9:23 `environment.TOKEN` reads variable `TOKEN` of your environment",
            "5:19 `devcontainer.workspaceMount` mounts `/etc` of the host at /src",
            "6:12 `devcontainer.mounts` mounts `/var/run/docker.sock` of the host at /run/d.sock, a socket that may control the host",
            "6:94 `devcontainer.mounts` mounts `/home/me/.ssh` of the host at /s",
            "3:1 `devcontainer.initializeCommand` runs `touch /tmp/x` on this machine, outside of any workspace, when `holm up` makes one",
        ]
    );
    let container = container(&config, "devcontainer");
    let env: Vec<_> = container
        .environment
        .iter()
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(env, ["secret", "default"]);
    assert!(config.volumes.contains_key(&Name::parse("x").unwrap()));
    let initialize = &config.dev_container.as_ref().unwrap().initialize;
    assert_eq!(initialize[0].words, ["touch", "/tmp/x"]);
}

#[test]
fn only_variables_that_the_file_names_are_sent() {
    let sent = collected(
        HOLM,
        &[(
            FILE,
            r#"{"image": "a", "remoteEnv": {"T": "${localEnv:TOKEN}"}}"#,
        )],
    );
    let names: Vec<_> = sent.environment.keys().collect();
    assert_eq!(names, ["TOKEN"]);
}

#[test]
fn a_dockerfile_is_built_beside_the_file() {
    let config = good(
        r#"{"build": {"dockerfile": "Dockerfile", "context": "..", "args": {"V": "1"}, "target": "dev", "cacheFrom": "x"}}"#,
    );
    let build = service(&config, "devcontainer")
        .image
        .as_ref()
        .unwrap()
        .build
        .as_ref()
        .unwrap();
    assert_eq!(build.context, "");
    assert_eq!(
        build.dockerfile,
        Dockerfile::File(".devcontainer/Dockerfile".to_owned())
    );
    assert_eq!(
        (build.target.as_deref(), build.network),
        (Some("dev"), false)
    );
    assert_eq!(build.args["V"], "1");
    let with_network =
        format!("{HOLM}[services.devcontainer]\nbuild = {{ network = \"default\" }}\n");
    let config = read(
        &with_network,
        &[(FILE, r#"{"dockerFile": "D", "context": "."}"#)],
    )
    .unwrap();
    let build = service(&config, "devcontainer")
        .image
        .as_ref()
        .unwrap()
        .build
        .as_ref()
        .unwrap();
    assert_eq!(
        (build.context.as_str(), build.network),
        (".devcontainer", true)
    );
    assert_eq!(
        build.dockerfile,
        Dockerfile::File(".devcontainer/D".to_owned())
    );
    let taken = format!("{HOLM}[services.devcontainer]\nrun = \"x\"\n");
    let error = read(&taken, &[(FILE, r#"{"image": "x.test/a"}"#)]).unwrap_err();
    assert!(error.contains("is the name of the container"), "{error}");
}

#[test]
fn services_of_holm_toml_wait_for_the_container() {
    let text = format!("{HOLM}[services.web]\nrun = \"serve\"\n[volumes.data]\npath = \"/data\"\n");
    let config = read(&text, &[(FILE, r#"{"image": "x.test/a"}"#)]).unwrap();
    assert_eq!(
        service(&config, "web").depends_on[0].as_str(),
        "devcontainer"
    );
    let volumes = &service(&config, "devcontainer")
        .image
        .as_ref()
        .unwrap()
        .volumes;
    assert_eq!(volumes[0].as_str(), "data");
}

#[test]
fn services_that_no_file_has_are_errors() {
    let check = |more: &str, expected: &str| {
        let text = format!("{HOLM}{more}");
        let error = read(&text, &[(FILE, r#"{"image": "x.test/a"}"#)]).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    check(
        "[services.web]\non_assign = \"none\"\n",
        "`services.web` needs `run`",
    );
    let text = "[services.web]\nrun = \"x\"\ndepends_on = [\"db\"]\n";
    check(text, "there is no service `db`");
}

const COMPOSE: &str = "services:
  app: {image: x.test/app, command: serve, depends_on: [db], volumes: ['..:/code']}
  db: {image: x.test/db, user: postgres}
  other: {image: x.test/other}
";

#[test]
fn a_compose_file_has_the_container() {
    let files = |text: &'static str| [(FILE, text), (".devcontainer/compose.yaml", COMPOSE)];
    let config = read(
        HOLM,
        &files(
            r#"{"dockerComposeFile": "compose.yaml", "service": "app", "runServices": ["app"],
            "workspaceFolder": "/code", "forwardPorts": [3000, "db:5432"], "remoteUser": "me"}"#,
        ),
    )
    .unwrap();
    let names: Vec<_> = config.services.keys().map(Name::as_str).collect();
    assert_eq!(names, ["app", "db"]);
    let app = container(&config, "app");
    assert_eq!(app.command.as_deref(), Some(&["serve".to_owned()][..]));
    assert_eq!(
        (app.entrypoint.as_ref(), app.user.as_deref()),
        (None, Some("me"))
    );
    let published = |name: &str| match &container(&config, name).network {
        Attachment::Own(own) => own.published.iter().map(|it| it.port).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    assert_eq!(
        (published("app"), published("db")),
        (vec![3000], vec![5432])
    );
    let ports: Vec<_> = config.ports.keys().map(Name::as_str).collect();
    assert_eq!(ports, ["port-3000", "port-5432"]);
    let config = read(
        HOLM,
        &files(
            r#"{"dockerComposeFile": ["compose.yaml"], "service": "app", "overrideCommand": true}"#,
        ),
    )
    .unwrap();
    assert_eq!(config.services.len(), 3);
    assert!(container(&config, "app").entrypoint.is_some());
    assert_eq!(
        config.dev_container.as_ref().unwrap().folder,
        Path::new("/")
    );
    let check = |text: &'static str, expected: &str| {
        let error = read(HOLM, &files(text)).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    check(
        r#"{"dockerComposeFile": "compose.yaml"}"#,
        "1:2: `dockerComposeFile` needs `service` beside it",
    );
    check(
        r#"{"dockerComposeFile": "compose.yaml", "service": "x"}"#,
        "1:50: `service`: the Compose files have no service `x`",
    );
    check(
        r#"{"dockerComposeFile": "compose.yaml", "service": "app", "runServices": ["y"]}"#,
        "`runServices`: there is no service `y`",
    );
    check(
        r#"{"dockerComposeFile": "../../x.yaml", "service": "app"}"#,
        "is outside of the project's root",
    );
    check(
        r#"{"dockerComposeFile": "no.yaml", "service": "app"}"#,
        ".devcontainer/no.yaml",
    );
}

#[test]
fn hostile_files_neither_panic_nor_hang() {
    let deep = format!(
        "{{\"image\": \"a\", \"customizations\": {}{}}}",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    assert!(read(HOLM, &[(FILE, &deep)]).is_err());
    for text in [
        r#"{"image": "x.test/a", "containerEnv": {"A": "${localEnv:${localEnv:TOKEN}}"}}"#,
        r#"{"image": "x.test/a", "containerEnv": {"A": "${"}}"#,
        r#"{"image": "x.test/a", "containerEnv": {"A": "${devcontainerId"}}"#,
        r#"{"image": "x.test/a", "workspaceFolder": "${containerWorkspaceFolder}/x"}"#,
        r#"{"image": "x.test/a", "features": {"": {}, ".": {}, "./": {}, "..": {}}}"#,
        r#"{"image": "x.test/a", "mounts": ["", "=", "type=volume,source=//,target=/x"]}"#,
        "{\"image\": \"x.test/a\", \"name\": \"\\u0000\\u001b[31m\"}",
    ] {
        // Good or not, it is decided.
        let _ = read(HOLM, &[(FILE, text)]);
    }
}

/// The table of `docs/devcontainers.md`.
#[test]
fn the_key_table_is_fresh_and_has_every_key_once() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/devcontainers.md");
    let text = std::fs::read_to_string(path).unwrap();
    let table = key_table();
    let (begin, end) = ("<!-- keys -->\n", "<!-- /keys -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let fresh = [before, begin, &table, end, after].concat();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &fresh).unwrap();
        return;
    }
    let command = "UPDATE_DOCS=1 cargo nextest run -p holm-config devcontainer";
    assert!(text == fresh, "docs/devcontainers.md is stale: {command}");
    let rows = table.lines().skip(2);
    let mut names: Vec<&str> = rows.filter_map(|line| line.split('`').nth(1)).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}
