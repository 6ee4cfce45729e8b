//! Volumes: data of a workspace that outlives its processes, data that begins with a seed, and data that
//! workspaces share.

use crate::support::{Island, Repository, eventually};
use serde_json::Value;

/// A repository whose `holm.toml` is this.
fn configured<'a>(island: &'a Island, toml: &str) -> Repository<'a> {
    let repository = island.repository("shop");
    repository.write("holm.toml", toml);
    repository.commit("configured");
    repository
}

#[track_caller]
fn volume(island: &Island, workspace: &str, name: &str) -> Value {
    let shown = island.holm(&["show", workspace, "--json"]).json();
    let volumes = shown["volumes"].as_array().expect("volumes").iter();
    let mut found = volumes.filter(|volume| volume["name"] == name);
    found.next().expect("the volume").clone()
}

const ISOLATED: &str = "[volumes.data]\npath = \"/data/own\"\n\
    [volumes.cache]\npath = \"~/.local/share/shop\"\n";

#[test]
fn an_isolated_one_is_empty_its_own_and_outlives_everything_but_the_trash() {
    let island = Island::new();
    let repository = configured(&island, ISOLATED);
    let made = repository.holm(&["up", "a", "--json"]).json();
    let id = made["id"].as_str().unwrap();
    repository.up("b");
    let look = "cat /data/own/x ~/.local/share/shop/y 2>/dev/null; ls -A /data/own | wc -l";
    let write = "echo one > /data/own/x && echo two > ~/.local/share/shop/y";
    assert_eq!(island.sh("a", look).out(), "0");
    island.sh("a", write).ok();
    assert_eq!(island.sh("b", look).out(), "0", "another one's");
    let kept = "one\ntwo\n1";
    let check = |when: &str| assert_eq!(island.sh("a", look).out(), kept, "{when}");
    island.holm(&["stop", "a"]).ok();
    check("stop and start");
    island.holm(&["restart", "a"]).ok();
    check("restart");
    island.kill_daemon();
    check("the daemon's end");
    // As after a power cut: keeper and init are gone without a word.
    let keeper = island.keeper_of(id).expect("a keeper");
    crate::support::send(keeper, rustix::process::Signal::KILL);
    eventually("the keeper's end", || island.keeper_of(id).is_none());
    island.holm(&["start", "a"]).ok();
    check("the keeper's end");
    island.holm(&["rm", "a"]).ok();
    island.holm(&["restore", "a"]).ok();
    check("the trash");
    island.holm(&["rm", "a"]).ok();
    island.holm(&["gc", "--all"]).ok();
    repository.up("a");
    assert_eq!(island.sh("a", look).out(), "0", "a label is no key");
}

#[test]
fn what_it_takes_is_told_and_counted() {
    let island = Island::new();
    let toml = format!("{ISOLATED}[limits]\ndisk = \"32MiB\"\n");
    let repository = configured(&island, &toml);
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("a");
    let fill = "head -c 8000000 /dev/urandom > /data/own/x; sync";
    island.sh("a", fill).ok();
    let data = volume(&island, "a", "data");
    assert_eq!(data["policy"], "isolated");
    let bytes = data["bytes"].as_u64().unwrap();
    assert!((8_000_000..9_000_000).contains(&bytes), "{data}");
    assert!(volume(&island, "a", "cache")["bytes"].as_u64().unwrap() < 100_000);
    let disk = island.holm(&["df", "--json"]).json();
    let counted = disk["workspaces"][0]["volumes"].as_u64().unwrap();
    assert!(counted >= 8_000_000, "{disk}");
    let text = island.holm(&["df"]).ok().out();
    assert!(text.contains("volumes 7.6 MiB"), "{text}");
    let text = island.holm(&["show", "a"]).ok().out();
    assert!(text.contains("isolated, 7.6 MiB"), "{text}");
    // And by the limit.
    let _ = island.sh("a", "head -c 60000000 /dev/zero > /data/own/y; sleep 60");
    eventually("it is stopped", || {
        island.holm(&["show", "a", "--json"]).json()["reason"] == "disk_limit"
    });
}

#[test]
fn no_volume_hides_the_code_or_is_left_out_silently() {
    let island = Island::new();
    let home = island.home();
    let toml = format!("[volumes.v]\npath = \"{}\"\n", home.join("src").display());
    let repository = configured(&island, &toml);
    let error = repository.holm(&["up", "a", "--json"]).error(2);
    assert_eq!(error["code"], "invalid_config");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("would hide"), "{message}");
    repository.write("holm.toml", "[volumes.v]\npath = \"~/data/v\"\n");
    repository.commit("below home");
    repository.up("a");
    // The mount cannot be replaced from inside.
    island
        .sh("a", "rmdir ~/data/v 2>&1 || mv ~/data/v ~/w 2>&1")
        .exits(1);
    island
        .sh("a", "mv ~/data ~/other && ln -s /tmp ~/data")
        .ok();
    let failed = island.holm(&["restart", "a", "--json"]).error(1);
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("the volume v"), "{message}");
}

#[test]
fn what_another_policy_has_is_said() {
    let island = Island::new();
    let toml = "[volumes.v]\npath = \"/data/v\"\nseed = [\"echo x > /data/v/x\"]\n";
    let repository = configured(&island, &format!("{toml}single = true\n"));
    let said = repository.holm(&["up", "a"]).exits(2).stderr;
    let expect = "holm.toml:4:1: `volumes.v.single` belongs to the policy `shared`, and this one is `isolated`";
    assert!(said.contains(expect), "{said}");
    repository.write("holm.toml", toml);
    repository.commit("isolated");
    let made = repository.holm(&["up", "a", "--json"]).json();
    let notes = made["notes"].to_string();
    assert!(
        notes.contains("the seed of the volume v is not run"),
        "{notes}"
    );
    assert_eq!(island.sh("a", "ls /data/v").out(), "");
}

#[test]
fn a_shared_one_is_the_same_for_all_and_a_single_one_for_one_at_a_time() {
    let island = Island::new();
    let shared = "[volumes.v]\npath = \"/data/v\"\npolicy = \"shared\"\n";
    let repository = configured(&island, shared);
    let made = repository.holm(&["up", "a", "--json"]).json();
    assert!(
        made["notes"].to_string().contains("the volume v is shared"),
        "{made}"
    );
    repository.up("b");
    island.sh("a", "echo one > /data/v/x").ok();
    assert_eq!(island.sh("b", "cat /data/v/x").out(), "one");
    let disk = island.holm(&["df", "--json"]).json();
    assert_eq!(disk["volumes"][0]["name"], "v", "{disk}");
    island.holm(&["rm", "a", "b"]).ok();
    island.holm(&["gc", "--all"]).ok();

    repository.write("holm.toml", format!("{shared}single = true\n"));
    repository.commit("one at a time");
    let first = repository.holm(&["up", "c", "--json"]).json();
    assert_eq!(first["notes"], Value::Null, "{first}");
    assert_eq!(
        island.sh("c", "cat /data/v/x").out(),
        "one",
        "it is the project's"
    );
    let error = repository.holm(&["up", "d", "--json"]).error(4);
    assert_eq!(error["code"], "volume_taken");
    let id = first["id"].as_str().unwrap();
    assert!(error["message"].as_str().unwrap().contains(id), "{error}");
    assert!(
        error["hint"]
            .as_str()
            .unwrap()
            .contains(&format!("holm stop {id}")),
        "{error}"
    );
    // Nothing is left of the one that could not be created.
    let all = island.holm(&["ls", "--json"]).json();
    assert_eq!(all["workspaces"].as_array().unwrap().len(), 1, "{all}");
    island.holm(&["stop", "c"]).ok();
    repository.up("d");
    assert_eq!(island.sh("d", "cat /data/v/x").out(), "one");
    island.holm(&["start", "c"]).exits(4);
    // A workspace that dies releases it.
    let keeper = island.holm(&["show", "d", "--json"]).json()["id"].clone();
    let keeper = island
        .keeper_of(keeper.as_str().unwrap())
        .expect("a keeper");
    crate::support::send(keeper, rustix::process::Signal::KILL);
    eventually("it is free", || {
        island.holm(&["start", "c"]).code == Some(0)
    });
}

#[test]
fn nothing_is_mounted_over_a_protected_path() {
    let island = Island::new();
    let protected = "[project]\nprotected_paths = [\"infra/prod\"]\n";
    let repository = configured(&island, protected);
    repository.write("infra/prod/key", "kept\n");
    repository.commit("protected");
    let root = repository.path.display().to_string();
    for path in ["infra", "infra/prod", "infra/prod/below"] {
        for part in [
            format!("[volumes.v]\npath = \"{root}/{path}\"\n"),
            format!("[caches]\nc = {{ path = \"{path}\", policy = \"isolated\" }}\n"),
        ] {
            repository.write("holm.toml", format!("{protected}{part}"));
            repository.commit("covered");
            let error = repository.holm(&["up", "a", "--json"]).error(4);
            assert_eq!(error["code"], "protected_path", "{error}");
        }
    }
    // Without the protection it would be written.
    let part = format!("[volumes.v]\npath = \"{root}/infra\"\n");
    repository.write("holm.toml", part);
    repository.commit("not protected");
    repository.up("a");
    island
        .sh("a", "mkdir infra/prod && echo x > infra/prod/key")
        .ok();
}

/// Writes the file inside, as an agent would, and takes it over.
#[track_caller]
fn reload(island: &Island, toml: &str) -> Value {
    let write = format!("cat > holm.toml <<'END'\n{toml}\nEND");
    island.sh("w", &write).ok();
    island
        .holm(&["reload", "w", "--inside", "--no-wait", "--json"])
        .json()
}

#[test]
fn a_reload_takes_volumes_over_at_the_next_start_and_gives_no_data_up() {
    let island = Island::new();
    let repository = configured(&island, ISOLATED);
    repository.up("w");
    island
        .sh(
            "w",
            "echo one > /data/own/x && echo two > ~/.local/share/shop/y",
        )
        .ok();
    island.holm(&["snapshot", "w", "early"]).ok();
    let new = "[volumes.new]\npath = \"/data/new\"\n[volumes.seeded]\npath = \"/data/seeded\"\n\
        policy = \"fork\"\nseed = [\"echo seed > /data/seeded/x\"]\n\
        [caches]\nc = { path = \"cached\", policy = \"isolated\" }\n";
    let told = reload(&island, &format!("{ISOLATED}{new}"));
    assert_eq!(
        told["at_next_start"],
        serde_json::json!(["volumes", "caches"]),
        "{told}"
    );
    let changes = told["changes"].to_string();
    assert!(
        changes.contains("+ new = isolated at /data/new"),
        "{changes}"
    );
    // Until then an existing volume can be reset, and the new ones wait.
    island.holm(&["reset", "w", "--volume", "data"]).ok();
    island
        .sh("w", "test ! -e /data/new && echo one > /data/own/x")
        .ok();
    island.holm(&["restart", "w"]).ok();
    let look = "cat /data/own/x ~/.local/share/shop/y /data/seeded/x && echo new > /data/new/z && \
        findmnt -n -o TARGET \"$HOLM_ROOT/cached\" | wc -l";
    assert_eq!(island.sh("w", look).ok().out(), "one\ntwo\nseed\n1");

    // A volume that is no longer declared is not mounted; declared again, it has its data.
    let told = reload(&island, "[volumes.data]\npath = \"/data/moved\"\n");
    assert_eq!(
        told["at_next_start"],
        serde_json::json!(["volumes", "caches"]),
        "{told}"
    );
    island.holm(&["restart", "w"]).ok();
    assert_eq!(
        island
            .sh("w", "cat /data/moved/x; ls -A /data ~/.local/share")
            .ok()
            .out()
            .lines()
            .next(),
        Some("one")
    );
    island
        .sh(
            "w",
            "test ! -e /data/new/z && test ! -e ~/.local/share/shop/y",
        )
        .ok();
    let told = reload(
        &island,
        &format!("{ISOLATED}{}", new.replace("fork", "isolated")),
    );
    let kept = serde_json::json!(["volumes.seeded.policy"]);
    assert_eq!(told["needs_new_workspace"], kept, "{told}");
    island.holm(&["restart", "w"]).ok();
    let look = "cat /data/own/x ~/.local/share/shop/y /data/seeded/x /data/new/z";
    assert_eq!(island.sh("w", look).ok().out(), "one\ntwo\nseed\nnew");

    // A snapshot older than a volume has no content for it.
    island
        .holm(&["reset", "w", "--at", "early", "--force"])
        .ok();
    island.sh("w", "test ! -e /data/new").ok();
    reload(&island, &format!("{ISOLATED}{new}"));
    island.holm(&["restart", "w"]).ok();
    assert_eq!(island.sh("w", look).ok().out(), "one\ntwo\nseed\nnew");

    // A configuration that could not start is refused, and everything stays.
    let broken = "[volumes.b]\npath = \"/data/b\"\npolicy = \"fork\"\nseed = [\"exit 3\"]\n";
    let root = repository.path.display();
    let covered =
        format!("[project]\nprotected_paths = [\"infra\"]\n[volumes.c]\npath = \"{root}/infra\"\n");
    for (toml, code) in [
        (broken, "seed_failed"),
        (covered.as_str(), "protected_path"),
    ] {
        let write = format!("cat > holm.toml <<'END'\n{toml}\nEND");
        island.sh("w", &write).ok();
        let ran = island.holm(&["reload", "w", "--inside", "--json"]);
        assert!(ran.stderr.contains(code), "{ran:?}");
        island.holm(&["restart", "w"]).ok();
        assert_eq!(island.sh("w", look).ok().out(), "one\ntwo\nseed\nnew");
    }
    // Keys that only a new workspace takes over are listed.
    let told = reload(
        &island,
        &format!("[project]\nsetup = [\"true\"]\n{ISOLATED}"),
    );
    assert_eq!(
        told["needs_new_workspace"],
        serde_json::json!(["project.setup"])
    );
    let said = island.holm(&["reload", "w", "--inside"]).ok().stderr;
    assert!(
        said.contains("only in new workspaces: project.setup"),
        "{said}"
    );
}
