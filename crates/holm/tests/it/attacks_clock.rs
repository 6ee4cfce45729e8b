//! A clock that jumps (attack 192): ahead, it must not delete anything for good; back, it must not
//! revive expired things.

use crate::secrets::{canary, state};
use crate::support::{Door, Island, JSON, eventually};
use serde_json::{Value, json};

const TEN_YEARS: &str = "315360000";

const CONFIG: &str = "
[secrets.KEY]
from = { file = \"~/key\" }
to = [\"runs\"]
ttl = \"8h\"
";

/// What there is before the clock jumps.
struct Before {
    /// In the trash.
    old: String,
    /// Stopped, with a secret.
    holder: String,
    /// Running, and used a moment ago.
    live: String,
    value: String,
    /// With an hour to live.
    token: String,
    /// What a request with a key made.
    made: String,
}

fn prepare(island: &Island) -> Before {
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", "stop_after = \"20h\"\n");
    let repository = island.repository("shop");
    repository.write("holm.toml", CONFIG);
    repository.commit("a secret");
    repository.holm(&["trust", "--yes"]).ok();
    let old = repository.up("old");
    island.holm(&["rm", "--force", "old"]).ok();
    let value = canary("kept");
    let file = island.write("home/key", &value);
    let holder = repository.up("holder");
    // From now on holm alone has the value.
    std::fs::remove_file(file).unwrap();
    island.holm(&["stop", "holder"]).ok();
    let live = repository.up("live");
    let made = island.holm(&["token", "new", "--expires", "1h", "--json"]);
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let made = keyed(island);
    Before {
        old,
        holder,
        live,
        value,
        token,
        made,
    }
}

/// The workspace that a request with one and the same key made.
fn keyed(island: &Island) -> String {
    let wish = json!({ "project": "shop", "wait": false }).to_string();
    let key = ("Idempotency-Key", "once");
    let reply =
        Door::of(island).ask_with("POST", "/api/v1/workspaces", &[JSON, key], wish.as_bytes());
    let answer = reply.json();
    answer["id"].as_str().expect("a workspace").to_owned()
}

/// Starts the daemon again with these clocks: it collects at its start.
fn begin_at(island: &Island, clock: &str) {
    island.holm(&["daemon", "stop"]).ok();
    island.write("clock", clock);
    island.holm(&["daemon", "start"]).ok();
}

/// Through the API, which has no values of the client.
fn restart(island: &Island, id: &str) {
    let path = format!("/api/v1/workspaces/{id}/restart");
    let (status, body) = island.ask("POST", &path, b"");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
}

fn is_taken(island: &Island, token: &str) -> bool {
    let bearer = Door::bearer(token);
    let headers = [("Authorization", bearer.as_str())];
    let reply = Door::of(island).ask_bare("GET", "/api/v1/workspaces", &headers, b"");
    assert!(matches!(reply.status, 200 | 401), "{reply:?}");
    reply.status == 200
}

fn trash(island: &Island) -> Vec<Value> {
    let listed = island.holm(&["ls", "--trash", "--json"]).json();
    let listed = listed["workspaces"].as_array().unwrap().iter();
    listed.map(|one| one["id"].clone()).collect()
}

fn notes(island: &Island) -> String {
    island.holm(&["ls", "--json"]).json()["notes"].to_string()
}

fn shown(island: &Island, workspace: &str) -> Value {
    island.holm(&["show", workspace, "--json"]).json()["state"].clone()
}

fn given(island: &Island, workspace: &str) -> String {
    let read = [
        "run",
        workspace,
        "--",
        "sh",
        "-c",
        "echo \"${KEY:-none}\" | tr a-z A-Z",
    ];
    island.holm(&read).ok().out()
}

fn count_in_log(island: &Island, text: &str) -> usize {
    let log = std::fs::read_to_string(island.data().join("daemon.log")).unwrap();
    log.matches(text).count()
}

#[test]
fn attack_192_a_clock_that_jumps_ahead_deletes_nothing_and_one_that_goes_back_revives_nothing() {
    let island = Island::new();
    let before = prepare(&island);
    begin_at(&island, TEN_YEARS);
    eventually("the collection was due", || {
        count_in_log(&island, "nothing is collected: the clock says") > 0
    });
    assert_eq!(trash(&island), [json!(before.old)]);
    assert!(
        notes(&island).contains("days ahead of the time"),
        "{}",
        notes(&island)
    );
    let doctor = island.holm(&["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let clock = checks
        .iter()
        .find(|check| check["name"] == "clock")
        .unwrap();
    assert_eq!(clock["status"], "warning", "{clock}");
    // Withheld, and kept.
    restart(&island, &before.holder);
    assert_eq!(state(&island, &before.holder, "KEY"), "expired");
    assert_eq!(given(&island, "holder"), "NONE");
    // A key stands for its request.
    assert_eq!(keyed(&island), before.made);
    assert_eq!(shown(&island, "live"), "running");
    assert!(!is_taken(&island, &before.token), "its hour is over");
    // A program cannot know whether the clock is right.
    let refused = Door::of(&island).ask("POST", "/api/v1/gc", "{\"all\":false}");
    assert_eq!((refused.status, refused.code().as_str()), (409, "refused"));

    island.write("clock", "0");
    eventually("the clock is believed again", || {
        !notes(&island).contains("clock")
    });
    assert!(!is_taken(&island, &before.token), "what expired stays so");
    begin_at(&island, "0");
    assert!(
        !is_taken(&island, &before.token),
        "also for the next daemon"
    );
    let tokens = island.holm(&["token", "ls", "--json"]).json();
    assert!(tokens.to_string().contains("\"expired\":true"), "{tokens}");
    restart(&island, &before.holder);
    assert_eq!(state(&island, &before.holder, "KEY"), "given");
    assert_eq!(given(&island, "holder"), before.value.to_uppercase());
    island.holm(&["restore", &before.old]).ok();
    assert_eq!(shown(&island, "live"), "running");

    // Off for a week is nothing, off for longer is not believed.
    let is_doubted = |days: u32, boot: &str| {
        begin_at(&island, &format!("{} 0 {boot}", days * 86_400 - 600));
        notes(&island).contains("clock")
    };
    assert!(!is_doubted(7, "second"));
    assert!(is_doubted(15, "third"));
    // A person says that it is right.
    island.holm(&["rm", "--force", "live"]).ok();
    let collected = island.holm(&["gc", "--json"]).json();
    let told = collected["notes"][0].as_str().unwrap();
    assert!(told.contains("taken as right"), "{told}");
    assert!(!notes(&island).contains("clock"));
    assert_eq!(trash(&island), [json!(before.live)]);
    begin_at(&island, "1296001 0 third");
    assert!(
        !notes(&island).contains("clock"),
        "also for the next daemon"
    );
}

#[test]
fn attack_192_without_the_check_all_of_it_is_lost() {
    let island = Island::without("clock");
    let before = prepare(&island);
    begin_at(&island, TEN_YEARS);
    eventually("the trash is empty", || trash(&island).is_empty());
    eventually("what was just used is stopped", || {
        shown(&island, "live") == "stopped"
    });
    assert_ne!(keyed(&island), before.made, "carried out twice");
    assert!(!is_taken(&island, &before.token));
    eventually("the value is gone", || {
        state(&island, &before.holder, "KEY") == "expired"
    });
    begin_at(&island, "0");
    assert!(is_taken(&island, &before.token), "it lives again");
    island.holm(&["restore", &before.old]).exits(3);
    restart(&island, &before.holder);
    assert_eq!(given(&island, "holder"), "NONE");
}
