//! What a workspace knows about itself: `holm here`, `/run/holm/AGENTS.md`, and the commands that
//! work inside through the workspace's own socket.

use crate::support::{Island, eventually};
use serde_json::json;

const CONFIG: &str = "[ports]\nweb = 3000\n\
    [services.web]\nrun = \"python3 -m http.server 3000 --bind 127.0.0.1\"\nready = { tcp = 3000 }\n\
    [services.db]\nrun = \"echo stands in for redis-server; exec sleep 1000\"\n\
    [volumes.cache]\npath = \"/data/cache\"\npolicy = \"isolated\"\n\
    [egress]\nmode = \"allow\"\nallow = [\"example.org\"]\n[limits]\nprocesses = 500\n";

#[test]
fn agents_read_what_is_true_now() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", CONFIG);
    repository.write("AGENTS.md", "the project's own\n");
    repository.commit("configure");
    repository.holm(&["trust", "--yes"]).ok();
    let made = repository.holm(&["up", "fix", "--json"]).json();
    let here = island.inside("fix", &["holm", "here", "--json"]).json();
    assert_eq!(
        here["egress"],
        json!({ "mode": "allow", "allow": ["example.org"] })
    );
    assert_eq!(here["limits"]["processes"], 500);
    assert_eq!(here["volumes"][0]["path"], "/data/cache");
    assert_eq!(here["siblings"], json!(null));
    let database = &here["databases"][0];
    assert_eq!(database["url"], "redis://127.0.0.1:6379", "{here}");
    assert_eq!(
        (&database["service"], &database["guessed"]),
        (&json!("db"), &json!(true))
    );
    eventually("the ports are told", || {
        let here = island.inside("fix", &["holm", "here", "--json"]).json();
        here["ports"][0]["url"] == made["ports"][0]["url"] && !made["ports"][0]["url"].is_null()
    });

    let read = || island.sh("fix", "cat /run/holm/AGENTS.md").ok().out();
    let url = made["ports"][0]["url"].as_str().unwrap().to_owned();
    let id = made["id"].as_str().unwrap();
    for part in [
        "# Workspace `fix`",
        id,
        url.as_str(),
        "- `web`: ready",
        "redis://127.0.0.1:6379",
        "Outward: only `example.org`",
        "- processes: 500",
        "holm logs .",
    ] {
        eventually(part, || read().contains(part));
    }
    // Both have the same content, and the project's own file is another one.
    eventually("both say the same", || {
        let asked = ["holm", "here", "--markdown"];
        let told = island.inside("fix", &asked).ok().out();
        told.trim_end() == read().trim_end()
    });
    assert_eq!(
        island
            .sh("fix", "cat AGENTS.md; git status --porcelain")
            .ok()
            .out(),
        "the project's own"
    );
    // It follows: a label, a service, a policy.
    island.holm(&["rename", "fix", "mended"]).ok();
    eventually("the label", || {
        island
            .sh("mended", "cat /run/holm/AGENTS.md")
            .ok()
            .out()
            .contains("# Workspace `mended`")
    });
    island.holm(&["service", "mended", "stop", "web"]).ok();
    eventually("the service", || {
        island
            .sh("mended", "cat /run/holm/AGENTS.md")
            .ok()
            .out()
            .contains("- `web`: stopped")
    });
    let calm = CONFIG.replace(
        "mode = \"allow\"\nallow = [\"example.org\"]",
        "mode = \"none\"",
    );
    let script = format!("cat > holm.toml <<'X'\n{calm}\nX");
    island.sh("mended", &script).ok();
    island.holm(&["reload", "mended", "--inside", "--yes"]).ok();
    eventually("the policy", || {
        let text = island.sh("mended", "cat /run/holm/AGENTS.md").ok().out();
        text.contains("Outward: nothing.")
    });
    // No program inside can write it.
    for attempt in [
        "echo x > /run/holm/AGENTS.md",
        "rm -f /run/holm/AGENTS.md",
        "mv /run/holm/AGENTS.md /tmp/x",
        "touch /run/holm/x",
    ] {
        let refused = island.sh("mended", attempt);
        assert_ne!(refused.code, Some(0), "{attempt}");
        assert!(
            refused.stderr.contains("Read-only"),
            "{attempt}: {refused:?}"
        );
    }
    // It needs no daemon, and neither does the file.
    let inside = island.holm_command(&island.home(), &["exec", "mended", "--", "sh", "-c"]);
    without_a_daemon(&island, inside);
}

/// Asked from a process inside that outlives the daemon.
fn without_a_daemon(island: &Island, mut inside: std::process::Command) {
    let script = "(while [ -e /tmp/wait ]; do sleep 0.05; done; holm here --json > /tmp/said 2>&1; \
        holm show . --json > /tmp/shown 2>&1; echo $? > /tmp/code) > /dev/null 2>&1 &";
    inside.arg(format!("touch /tmp/wait; {script}"));
    assert!(inside.status().unwrap().success());
    island.holm(&["daemon", "stop"]).ok();
    let list = std::fs::read_dir(island.data().join("workspaces")).unwrap();
    let tmp = list.flatten().next().unwrap().path().join("tmp");
    std::fs::remove_file(tmp.join("wait")).unwrap();
    // Complete only with its line: the file exists before it.
    eventually("it is said", || {
        std::fs::read_to_string(tmp.join("code")).is_ok_and(|code| code.ends_with('\n'))
    });
    let said = std::fs::read_to_string(tmp.join("said")).unwrap();
    assert!(said.contains("\"label\":\"mended\""), "{said}");
    let shown = std::fs::read_to_string(tmp.join("shown")).unwrap();
    assert!(shown.contains("daemon_unreachable"), "{shown}");
    assert_eq!(
        std::fs::read_to_string(tmp.join("code")).unwrap().trim(),
        "5"
    );
    // So that running programs are ended with the test.
    island.holm(&["daemon", "start"]).ok();
}

#[test]
fn commands_about_this_workspace_work_inside() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        "[services.web]\nrun = \"echo listening; exec sleep 1000\"\n",
    );
    repository.commit("a service");
    let made = repository.holm(&["up", "fix", "--json"]).json();
    let other = repository.holm(&["up", "other", "--json"]).json();
    let inside =
        |arguments: &[&str]| island.inside("fix", &[&["holm", "--json"], arguments].concat());
    assert_eq!(inside(&["show", "."]).json()["id"], made["id"]);
    assert_eq!(inside(&["show", "fix"]).json()["id"], made["id"]);
    assert_eq!(
        inside(&["service", ".", "ls"]).json()["services"][0]["name"],
        "web"
    );
    inside(&["service", ".", "restart", "web"]).ok();
    eventually("what it says is there", || {
        inside(&["logs", "."]).ok().out().contains("listening")
    });
    inside(&["ports", "."]).ok();
    island.sh("fix", "echo x > new").ok();
    assert_eq!(
        inside(&["changes", "."]).json()["changes"][0]["path"],
        "new"
    );
    assert!(inside(&["diff", "."]).ok().out().contains("+x"));
    inside(&["egress", "."]).ok();
    inside(&["snapshot", ".", "kept"]).ok();
    // No other workspace, by any name; and commands about others say where they work.
    for name in [
        other["id"].as_str().unwrap(),
        "other",
        "shop/other",
        "w",
        "",
    ] {
        let refused = inside(&["show", name]).error(3);
        assert_eq!(refused["code"], "workspace_not_found", "{name}");
    }
    for verb in [
        &["ls"][..],
        &["stop", "."],
        &["reload", "."],
        &["mcp", "install", "claude"],
    ] {
        let refused = inside(verb).error(4);
        assert_eq!(refused["code"], "inside_workspace", "{verb:?}");
    }
}
