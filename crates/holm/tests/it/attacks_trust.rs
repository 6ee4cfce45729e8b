//! What a user's shell and git know, and what a repository brings with it (attacks 133, 135, 185): none
//! of it reaches a guest, and none of it makes the host do anything.

use crate::support::{Island, Ran, Repository, Running, eventually};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Sockets that answer every client, as a user's agents and helpers do.
struct Helpers {
    paths: Vec<PathBuf>,
}

// === impl Helpers ===

impl Helpers {
    fn begin(island: &Island, names: &[&str]) -> Self {
        let directory = island.make_dir("home/.helpers");
        let paths: Vec<_> = names.iter().map(|name| directory.join(name)).collect();
        for path in &paths {
            let listener = UnixListener::bind(path).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
            // Ends with the test's process.
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let Ok(mut stream) = stream else { return };
                    let _ = std::io::Write::write_all(&mut stream, b"canary");
                }
            });
        }
        Self { paths }
    }

    /// A program that connects to all of them, and prints the answers.
    fn ask(&self) -> String {
        let paths: Vec<_> = self
            .paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        format!(
            "import socket
for path in {paths:?}:
    try:
        asked = socket.socket(socket.AF_UNIX)
        asked.settimeout(20)
        asked.connect(path)
        print(asked.recv(99).decode())
    except OSError as error:
        print('refused', error.errno)
"
        )
    }
}

fn variables(helpers: &Helpers) -> Vec<(&'static str, String)> {
    let socket = |place: usize| helpers.paths[place].display().to_string();
    let mut variables = vec![
        ("SSH_AUTH_SOCK", socket(0)),
        (
            "DBUS_SESSION_BUS_ADDRESS",
            format!("unix:path={}", socket(1)),
        ),
    ];
    let plain = [
        "GITHUB_TOKEN",
        "NPM_TOKEN",
        "ANTHROPIC_API_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "GIT_ASKPASS",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_PARAMETERS",
        "GIT_AUTHOR_NAME",
        "DBUS_SYSTEM_BUS_ADDRESS",
        "KUBECONFIG",
        "DOCKER_HOST",
    ];
    variables.extend(plain.map(|name| (name, "canary".to_owned())));
    variables
}

#[test]
fn attack_133_the_environment_of_daemon_and_client_stays_outside() {
    let island = Island::new();
    let helpers = Helpers::begin(&island, &["agent", "bus"]);
    let repository = island.repository("shop");
    // A service records what it got; so do a command, a run and a session.
    repository.write(
        "holm.toml",
        "[services.seen]\nrun = \"env > .seen; sleep 1000\"\n",
    );
    repository.commit("configured");
    let given = variables(&helpers);
    let given_to = |arguments: &[&str]| {
        let mut command = island.holm_command(&repository.path, arguments);
        command.envs(given.iter().map(|(name, value)| (*name, value.as_str())));
        // It is what git itself would read, and this is no value of it.
        command.env_remove("GIT_CONFIG_PARAMETERS");
        command
    };
    let with = |arguments: &[&str]| Ran::new(&mut given_to(arguments));
    // A daemon that a command starts has little of its environment; one in the foreground has all.
    let mut foreground = Running::new(&mut given_to(&["daemon", "run"]));
    foreground.says("ready");
    with(&["up", "x"]).ok();
    // They are available: the daemon has them, and a program of the user gets them.
    let daemon = std::fs::read(format!("/proc/{}/environ", island.daemon_pid())).unwrap();
    assert!(String::from_utf8_lossy(&daemon).contains("canary"));
    let mut outside = island.command("env", &island.home());
    outside.envs(given.iter().map(|(name, value)| (*name, value.as_str())));
    assert!(Ran::new(&mut outside).ok().out().contains("canary"));
    let asked = island.run(&island.home(), "python3", &["-c", &helpers.ask()]);
    assert_eq!(asked.ok().out(), "canary\ncanary");
    eventually("the service has written what it was given", || {
        island.sh("x", "test -s .seen").code == Some(0)
    });
    let names: Vec<_> = given.iter().map(|(name, _)| *name).collect();
    let session = with(&[
        "session",
        "new",
        "x",
        "--json",
        "--",
        "sh",
        "-c",
        "env > .session",
    ]);
    session.ok();
    eventually("the session has written what it was given", || {
        island.sh("x", "test -s .session").code == Some(0)
    });
    let seen = [
        with(&["exec", "x", "--", "env"]).ok().out(),
        with(&["run", "x", "--", "env"]).ok().out(),
        island.sh("x", "cat .seen").ok().out(),
        island.sh("x", "cat .session").ok().out(),
        island
            .sh("x", "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'")
            .ok()
            .out(),
    ];
    for (place, seen) in seen.iter().enumerate() {
        assert!(seen.contains("HOLM_WORKSPACE_ID="), "{place}: {seen}");
        assert!(
            !seen.contains("canary") && !seen.contains(".helpers"),
            "{place}: {seen}"
        );
        for name in &names {
            assert!(
                !seen.contains(&format!("{name}=")),
                "{place}: {name} in {seen}"
            );
        }
    }
    // Knowing the names of the sockets does not help to reach them.
    let asked = island.python("x", &helpers.ask()).ok().out();
    assert_eq!(asked, "refused 2\nrefused 2");
    // An explicit request is different: it is the user's own decision.
    let told = with(&[
        "exec",
        "x",
        "--env",
        "NPM_TOKEN=mine",
        "--",
        "sh",
        "-c",
        "echo $NPM_TOKEN",
    ]);
    assert_eq!(told.ok().out(), "mine");
    island.holm(&["daemon", "stop", "--all"]).ok();
    assert_eq!(foreground.code(), Some(0));
}

#[test]
fn attack_135_credentials_of_git_are_not_usable_from_inside() {
    let island = Island::new();
    let helpers = Helpers::begin(&island, &["askpass", "cache"]);
    let repository = island.repository("shop");
    let git = |arguments: &[&str]| repository.git(arguments);
    git(&[
        "remote",
        "add",
        "origin",
        "https://me:hunter2@git.example.org/x.git",
    ]);
    git(&[
        "config",
        "remote.origin.pushurl",
        "https://me:hunter2@git.example.org/y.git",
    ]);
    git(&[
        "config",
        "http.https://git.example.org/.extraHeader",
        "Authorization: hunter2",
    ]);
    let store = island.write(
        "home/.git-credentials",
        "https://me:hunter2@git.example.org\n",
    );
    let helper = format!("store --file={}", store.display());
    git(&["config", "credential.helper", &helper]);
    let script = island.write("home/askpass", "#!/bin/sh\necho hunter2\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    git(&["config", "core.askPass", script.to_str().unwrap()]);
    let global = format!(
        "[credential]\n\thelper = {helper}\n[core]\n\taskPass = {}\n",
        script.display()
    );
    island.write("home/.gitconfig", &global);
    let fill = "printf 'protocol=https\\nhost=git.example.org\\nusername=me\\n\\n' | \
                GIT_TERMINAL_PROMPT=0 git credential fill";
    // The user's own git has them.
    let outside = island.run(&repository.path, "sh", &["-c", fill]).ok().out();
    assert!(outside.contains("password=hunter2"), "{outside}");
    let mut up = island.holm_command(&repository.path, &["up", "x"]);
    up.env("GIT_ASKPASS", &script).env("SSH_ASKPASS", &script);
    up.env("VSCODE_GIT_IPC_HANDLE", &helpers.paths[0]);
    Ran::new(&mut up).ok();
    let inside = island.sh("x", fill);
    assert_ne!(inside.code, Some(0), "{inside:?}");
    assert!(!inside.out().contains("hunter2"), "{inside:?}");
    // Also for a program that knows their paths, and restores the user's settings.
    let known = format!(
        "git config credential.helper '{helper}'; git config core.askPass {}; {fill}",
        script.display()
    );
    let inside = island.sh("x", &known);
    assert!(!inside.out().contains("hunter2"), "{inside:?}");
    let asked = island.python("x", &helpers.ask()).ok().out();
    assert_eq!(asked, "refused 2\nrefused 2");
    let inside = |script: &str| island.sh("x", script).ok().out();
    assert!(!inside("git config --list --show-origin").contains("hunter2"));
    let search = "grep -rIl hunter2 .git ~ /run/holm 2>/dev/null; true";
    assert_eq!(inside(search), "");
    let url = island
        .sh(
            "x",
            "git remote get-url origin; git remote get-url --push origin",
        )
        .ok()
        .out();
    assert!(
        !url.contains("me:") && url.contains("git.example.org"),
        "{url}"
    );
}

/// A checkout in which everything that any tool executes or expands is a command of the repository's.
fn hostile<'a>(island: &'a Island, name: &str, marks: &Path) -> Repository<'a> {
    let repository = island.repository(name);
    let mark = |by: &str| format!("touch {}/{by}", marks.display());
    let write = |path: &str, text: String| repository.write(path, text);
    write(
        ".devcontainer/devcontainer.json",
        format!(
            "{{\"initializeCommand\": \"{}\", \"postCreateCommand\": \"{}\", \"image\": \"${{localEnv:HOME}}\"}}",
            mark("initialize"),
            mark("post-create")
        ),
    );
    let bomb: String = (1..=9).fold("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, level| {
        let below = level - 1;
        let parts = vec![format!("*a{below}"); 9].join(",");
        format!("{text}a{level}: &a{level} [{parts}]\n")
    });
    let compose = format!(
        "{bomb}services:\n  web:\n    image: \"$({})\"\n    ports: [\"${{PORT:-3000}}:3000\"]\n    command: {}\n",
        mark("compose"),
        mark("compose-command")
    );
    write("docker-compose.yml", compose.clone());
    write("compose.yaml", compose);
    write(".env", format!("PORT=$({0})\nA=`{0}`\n", mark("dotenv")));
    write(".envrc", mark("envrc"));
    write(
        "Makefile",
        format!(
            "X := $(shell {})\nall:\n\t{}\n",
            mark("make"),
            mark("make-all")
        ),
    );
    write("Procfile", format!("web: {}\n", mark("procfile")));
    write(
        "package.json",
        format!(
            "{{\"name\":\"x\",\"scripts\":{{\"dev\":\"{0}\",\"preinstall\":\"{0}\"}}}}",
            mark("npm")
        ),
    );
    write(
        ".claude/settings.json",
        format!(
            "{{\"hooks\":{{\"SessionStart\":[{{\"hooks\":[{{\"type\":\"command\",\"command\":\"{}\"}}]}}]}}}}",
            mark("claude")
        ),
    );
    write(
        ".mcp.json",
        format!(
            "{{\"mcpServers\":{{\"x\":{{\"command\":\"sh\",\"args\":[\"-c\",\"{}\"]}}}}}}",
            mark("mcp")
        ),
    );
    write(".gitattributes", "* filter=evil diff=evil\n".to_owned());
    write(".worktreeinclude", format!("$({})\n", mark("include")));
    repository
}

#[test]
fn attack_185_nothing_of_a_repository_runs_on_the_host_before_a_person_agreed() {
    let island = Island::new();
    let marks = island.make_dir("home/marks");
    let count = || std::fs::read_dir(&marks).unwrap().count();
    let plain = hostile(&island, "plain", &marks);
    plain.commit("hostile");
    let repository = hostile(&island, "shop", &marks);
    // Inside there is no such directory.
    let touch = |by: &str| format!("touch {}/{by} || true", marks.display());
    let config = format!(
        "[project]\nsetup = [\"{}\"]\n[services.web]\nrun = \"{}\"\nready = {{ command = \"{}\" }}\n\
         [secrets.K]\nfrom = {{ command = [\"touch\", \"{}/secret\"] }}\nto = [\"runs\"]\n\
         [agents.mine]\ncommand = [\"sh\", \"-c\", \"{}\"]\n",
        touch("setup"),
        touch("service"),
        touch("ready"),
        marks.display(),
        touch("agent"),
    );
    repository.write("holm.toml", config);
    repository.commit("hostile");
    // Whatever is read, shown or refused: the host executes nothing.
    let looks: [(&Repository, &[&str]); 7] = [
        (&plain, &["init", "--json"]),
        (&plain, &["up", "p", "--no-wait", "--json"]),
        (&repository, &["init", "--json"]),
        (&repository, &["trust", "--json"]),
        (&repository, &["up", "x", "--json"]),
        (&repository, &["project", "ls", "--json"]),
        (
            &repository,
            &["up", "u", "--untrusted", "--no-wait", "--json"],
        ),
    ];
    let mut codes = Vec::new();
    for (place, arguments) in looks {
        codes.push(place.holm(arguments).code);
        assert_eq!(count(), 0, "after {arguments:?}");
    }
    assert_eq!((codes[3], codes[4]), (Some(4), Some(4)), "{codes:?}");
    let error = repository.holm(&["up", "x", "--json"]).error(4);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("run on this machine") && message.contains("secrets.K"),
        "{message}"
    );
    for arguments in [
        &["run", "u", "--agent", "mine", "hello"][..],
        &["diff", "u"],
        &["reload", "u", "--json"],
        &["exec", "u", "--", "true"],
    ] {
        // How they end is another matter.
        repository.holm(arguments);
        assert_eq!(count(), 0, "after {arguments:?}");
    }
    // A value is literal: nothing was expanded on its way in.
    let include = plain.holm(&["trust", "--json"]).error(4);
    assert!(
        include["message"].as_str().unwrap().contains("$(touch"),
        "{include}"
    );
    // The same text takes effect where the host executes it.
    for file in [".envrc", ".env"] {
        island
            .run(
                &repository.path,
                "sh",
                &["-c", &format!(". ./{file}; true")],
            )
            .ok();
    }
    assert!(count() >= 2, "{}", count());
}
