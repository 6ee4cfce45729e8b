//! Attack 194: URLs that go around the rule about paths, and repositories whose own git settings run
//! programs on the host.

use crate::support::{Act, Door, Island, Repository};
use serde_json::json;
use std::path::Path;

const ROUTES: [&str; 2] = ["/api/v1/projects", "/api/v1/workspaces"];

#[test]
fn attack_194_urls_do_not_go_around_the_rule_about_paths() {
    let island = Island::new();
    let remote = island.remote("x");
    island.make_dir("home/elsewhere");
    let secret = Repository::new(&island, island.home().join("elsewhere/secret"));
    let (door, path) = (Door::of(&island), secret.path.display());
    let ask = |route: &str, url: &str| door.ask("POST", route, &json!({ "url": url }).to_string());
    let mark = island.home().join("mark");
    let mark = mark.display();
    for url in [
        format!("file://{path}"),
        format!("FILE://{path}"),
        path.to_string(),
        "../elsewhere/secret".to_owned(),
        format!("ext::touch {mark}"),
        format!("ext::touch%20{mark}"),
        format!("--upload-pack=touch {mark}"),
        format!("-oProxyCommand=touch${{IFS}}{mark}@x:y"),
        format!("ssh://-oProxyCommand=touch${{IFS}}{mark}/y"),
        format!("http://127.0.0.1{path}"),
        format!("git://127.0.0.1{path}"),
        format!("ssh://git:hunter2@192.0.2.1{path}"),
        "https://me:hunter2@example.org/x".to_owned(),
    ] {
        for route in ROUTES {
            let reply = ask(route, &url);
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (400, "bad_request"),
                "{url}: {reply:?}"
            );
        }
        let refused = island
            .holm(&["up", "--json", &format!("--url={url}")])
            .error(2);
        assert!(
            !refused["message"].as_str().unwrap().contains("hunter2"),
            "{refused}"
        );
        island
            .holm(&["project", "add", "--json", &format!("--url={url}")])
            .error(2);
    }
    assert!(!Path::new(&mark.to_string()).exists());
    // This machine, over ssh with the user's own key, for a program that only has a token.
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "0.0.0.0",
        "169.254.169.254",
    ] {
        for route in ROUTES {
            let reply = ask(route, &format!("ssh://git@{host}{path}"));
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (409, "refused"),
                "{host}: {reply:?}"
            );
        }
    }
    assert_eq!(island.connections(), 0);
    assert_eq!(
        std::fs::read_dir(island.home().join("src"))
            .unwrap()
            .count(),
        0
    );

    // Counterparts: git itself clones it, a person may, and a program may name another machine.
    let copy = island.home().join("copy");
    let url = format!("file://{path}");
    island
        .run(
            &island.home(),
            "git",
            &["clone", "-q", &url, copy.to_str().unwrap()],
        )
        .ok();
    let typed = format!("ssh://git@127.0.0.1{path}");
    let made = island
        .holm(&["project", "add", &typed, "--json"])
        .ok()
        .json();
    assert_eq!(made["name"], "secret");
    assert_eq!(ask(ROUTES[0], &remote.url).status, 201);
    // What the person cloned is a project, which a program may name.
    assert_eq!(ask(ROUTES[1], &typed).status, 201);
    // A rewrite rule of the user can only lead to https and ssh.
    let rewrite = format!("url.file://{path}.insteadOf");
    island
        .run(
            &island.home(),
            "git",
            &["config", "--global", &rewrite, "https://example.org/x"],
        )
        .ok();
    let reply = ask(ROUTES[0], "https://192.0.2.1/x");
    assert_ne!(reply.status, 201);
    let error = island
        .holm(&["project", "add", "https://example.org/x", "--json"])
        .error(1);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("transport 'file' not allowed"),
        "{error}"
    );
}

/// A repository whose own settings run a program when git reads a file.
fn with_filter<'a>(island: &'a Island, name: &str, mark: &Path) -> Repository<'a> {
    let repository = island.repository(name);
    repository.write(".gitattributes", "*.txt filter=evil\n");
    repository.write("a.txt", "a\n");
    repository.commit("attributes");
    let command = format!("touch {}; cat", mark.display());
    repository.git(&["config", "filter.evil.clean", &command]);
    repository.write("a.txt", "changed\n");
    repository
}

#[test]
fn attack_194_settings_of_a_repository_run_only_after_a_yes() {
    let island = Island::new();
    let mark = island.home().join("ran");
    let repository = with_filter(&island, "shop", &mark);
    let has_run = || std::fs::remove_file(&mark).is_ok();
    // What does not read files needs no yes.
    repository.up("x");
    island
        .sh("x", "echo 1 > new.md; git add -A; git commit -qm new")
        .ok();
    let refused = |arguments: &[&str], shown: &str| {
        let error = repository.holm(&[arguments, &["--json"]].concat()).error(4);
        assert_eq!(error["code"], "not_trusted", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(shown), "{message}");
        assert!(
            error["hint"].as_str().unwrap().contains("holm trust"),
            "{error}"
        );
        assert!(!has_run(), "{arguments:?}");
    };
    let command = format!("touch {}; cat", mark.display());
    for arguments in [
        &["up", "d", "--dirty"][..],
        &["up", "w", "--warm"],
        &["apply", "x"],
        &["merge", "x"],
        &["trust"],
    ] {
        refused(arguments, &command);
    }
    let answered = |answer: &str| {
        let acts = [
            Act::See("+ run `touch"),
            Act::See("Approve this for"),
            Act::Type(answer),
        ];
        island.play(&repository.path, &["up", "d", "--dirty"], &acts)
    };
    assert_eq!(answered("n\n").code, 4);
    assert!(!has_run());
    // A yes is for exactly this.
    assert_eq!(answered("y\n").code, 0);
    assert!(has_run());
    island.holm(&["rm", "d", "--force"]).ok();
    repository.holm(&["up", "d", "--dirty"]).ok();
    assert!(has_run());
    repository.holm(&["apply", "x"]).ok();
    has_run();
    let other = format!("touch {} ; cat", mark.display());
    repository.git(&["config", "filter.evil.clean", &other]);
    refused(&["up", "e", "--dirty"], &other);
    repository.git(&["config", "filter.evil.clean", &command]);
    repository.holm(&["up", "e", "--dirty"]).ok();
    has_run();
    // The approval of holm.toml is separate, and is not reported as changed.
    repository.git(&["config", "merge.evil.driver", &command]);
    refused(&["merge", "x"], "merge.evil.driver");
    repository.git(&["config", "--remove-section", "merge.evil"]);
    // The user's own settings, what tools install, and what holm never runs, are not asked about.
    repository.git(&["config", "--remove-section", "filter.evil"]);
    repository.git(&["config", "--global", "filter.evil.clean", &command]);
    for (key, value) in [
        ("filter.lfs.process", "git-lfs filter-process"),
        ("core.sshCommand", "ssh -i ~/.ssh/work"),
        ("core.fsmonitor", &command),
        ("core.pager", &command),
        ("diff.external", &command),
        ("diff.evil.textconv", &command),
    ] {
        repository.git(&["config", key, value]);
    }
    let hook = island.home().join("src/shop/.git/hooks/post-checkout");
    std::fs::write(&hook, format!("#!/bin/sh\n{command}\n")).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    repository.git(&["config", "--global", "filter.evil.clean", "cat"]);
    has_run();
    repository.holm(&["up", "f", "--dirty"]).ok();
    assert!(!has_run());
    // A work tree that is somewhere else.
    repository.git(&["config", "core.worktree", island.home().to_str().unwrap()]);
    refused(&["up", "g", "--dirty"], "for its checkout");
}

#[test]
fn attack_194_a_submodule_and_a_partial_clone_ask_too() {
    let island = Island::new();
    let mark = island.home().join("ran");
    let sub = island.repository("sub");
    sub.write(".gitattributes", "* filter=evil\n");
    sub.commit("attributes");
    let repository = island.repository("shop");
    let add = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
    ];
    repository.git(&[&add[..], &[sub.path.to_str().unwrap(), "lib"]].concat());
    repository.commit("a submodule");
    let command = format!("touch {}; cat", mark.display());
    let inner = repository.path.join("lib");
    island
        .run(&inner, "git", &["config", "filter.evil.clean", &command])
        .ok();
    island.write(inner.join("README.md"), "changed\n");
    let error = repository.holm(&["up", "x", "--dirty", "--json"]).error(4);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("in the submodule `lib`"),
        "{error}"
    );
    assert!(!mark.exists());

    // git fetches missing objects of a partial clone by itself, with a program that the repository
    // names.
    let partial = island.repository("partial");
    partial.git(&["remote", "add", "origin", sub.path.to_str().unwrap()]);
    partial.git(&["config", "remote.origin.promisor", "true"]);
    partial.git(&["config", "remote.origin.uploadpack", &command]);
    let lost = partial.git(&["rev-parse", "HEAD:README.md"]);
    let object = format!(".git/objects/{}/{}", &lost[..2], &lost[2..]);
    std::fs::remove_file(partial.path.join(object)).unwrap();
    let error = partial.holm(&["up", "p", "--json"]).error(4);
    assert_eq!(error["code"], "not_trusted", "{error}");
    assert!(!mark.exists());
}

/// The counterparts of the two above.
#[test]
fn attack_194_works_where_nobody_asks() {
    let island = Island::without("git_settings");
    let mark = island.home().join("ran");
    let repository = with_filter(&island, "shop", &mark);
    repository.holm(&["up", "d", "--dirty"]).ok();
    assert!(std::fs::remove_file(&mark).is_ok());
    repository.up("x");
    island.sh("x", "echo 1 > new.md").ok();
    repository.holm(&["apply", "x"]).ok();
    assert!(mark.exists());
}
