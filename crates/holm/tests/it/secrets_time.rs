//! Secrets that change while workspaces run: replaced atomically, and withdrawn when they are
//! revoked or expire, whichever process is dead (attack 129).

use crate::secrets::{audit, canary, declared, events, piped, set, state};
use crate::support::{Island, eventually};

/// The reader writes down every length that it sees.
const READER: &str = r#"
[services.reader]
run = '''
while :; do
    now=$(cat /run/holm/secrets/LONG /run/holm/secrets/SOON 2>/dev/null | wc -c)
    [ "$now" = "$last" ] || echo "$now" >> ~/seen
    last=$now
    sleep 0.02
done
'''

[services.holder]
run = "exec sleep 1000"

[secrets.LONG]
from = { file = "~/long" }
inject = "file"
to = ["reader"]

[secrets.SOON]
inject = "file"
to = ["reader"]
ttl = "10s"

[secrets.KEY]
to = ["holder", "runs"]
"#;

#[test]
fn attack_129_what_is_rotated_or_revoked_is_replaced_whole_and_at_once() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", READER);
    repository.commit("a reader");
    island.write("home/long", "a".repeat(1000));
    repository.holm(&["trust", "--yes"]).ok();
    let soon = canary("soon");
    piped(&repository, &["secret", "set", "SOON", "--user"], &soon).ok();
    let (first, second) = (canary("first"), canary("second"));
    set(&repository, "KEY", &first);
    let id = repository.up("x");
    let seen = || -> Vec<usize> {
        let seen = island.sh("x", "cat ~/seen").out();
        seen.lines().map(|line| line.parse().unwrap()).collect()
    };
    let both = |length: usize| length + soon.len();
    eventually("both are read", || seen().contains(&both(1000)));
    // It expires: the file disappears, and the record says so, once.
    eventually("one of them vanished", || seen().last() == Some(&1000));
    eventually("the record says so", || {
        events(&audit(&island), "SOON").contains(&"expired")
    });
    let told = audit(&island);
    let told: Vec<_> = events(&told, "SOON")
        .into_iter()
        .filter(|event| *event != "given")
        .collect();
    assert_eq!(told, ["set", "received", "shown", "expired"]);
    island
        .sh("x", "ls -a /run/holm/secrets | grep -x SOON")
        .exits(1);
    assert_eq!(state(&island, &id, "SOON"), "expired");
    // Read again: another length, never a part of it.
    island.write("home/long", "b".repeat(20_000));
    repository.holm(&["secret", "refresh", "x"]).ok();
    eventually("the new ones are read", || seen().contains(&both(20_000)));
    let whole = [0, 1000, 20_000].map(|length| [length, both(length)]);
    let whole = whole.concat();
    assert!(
        seen().iter().all(|length| whole.contains(length)),
        "{:?}",
        seen()
    );
    // Another value of a variable: programs that start from now on get only that one.
    let key = [
        "run",
        "x",
        "--",
        "sh",
        "-c",
        "echo \"${KEY:-none}\" | tr a-z A-Z",
    ];
    assert_eq!(island.holm(&key).ok().out(), first.to_uppercase());
    set(&repository, "KEY", &second);
    assert_eq!(island.holm(&key).ok().out(), second.to_uppercase());
    // A running program keeps its value in memory until it is restarted: the counterpart.
    let holds = |value: &str| {
        let mut entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries.any(|entry| {
            let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let environ = String::from_utf8_lossy(&environ).into_owned();
            environ.contains(value) && environ.contains("HOLM_SERVICE=holder")
        })
    };
    assert!(holds(&first) && !holds(&second));
    island.holm(&["service", "x", "restart", "holder"]).ok();
    eventually("it has the new one only", || {
        holds(&second) && !holds(&first)
    });
    // A value that no longer exists is withdrawn.
    std::fs::remove_file(island.home().join("long")).unwrap();
    let refreshed = repository
        .holm(&["secret", "refresh", "x", "--json"])
        .json();
    let note = refreshed["notes"][0].as_str().unwrap();
    assert!(note.contains("LONG is not given"), "{refreshed}");
    island.sh("x", "test -e /run/holm/secrets/LONG").exits(1);
    repository.holm(&["secret", "rm", "KEY"]).ok();
    assert_eq!(island.holm(&key).ok().out(), "NONE");
    assert_eq!(state(&island, &id, "KEY"), "missing");
    assert_eq!(events(&audit(&island), "KEY").last(), Some(&"withdrawn"));
}

#[test]
fn attack_129_a_value_is_withdrawn_in_time_while_no_daemon_runs() {
    let island = Island::new();
    let repository = island.repository("shop");
    let secret = |name: &str, form: &str| {
        format!("[secrets.{name}]\nto = [\"runs\"]\ninject = \"{form}\"\nttl = \"4s\"\n")
    };
    repository.write(
        "holm.toml",
        secret("A_FILE", "file") + &secret("A_KEY", "env"),
    );
    repository.commit("soon");
    repository.holm(&["trust", "--yes"]).ok();
    set(&repository, "A_FILE", &canary("file"));
    set(&repository, "A_KEY", &canary("key"));
    let ids = [repository.up("x"), repository.up("y")];
    island.holm(&["stop", "y"]).ok();
    island.holm(&["daemon", "stop"]).ok();
    // The keeper of x withdraws them and records that; y has no keeper.
    let record = island.data().join("secrets/audit.jsonl");
    let expired = |id: &str| {
        let text = std::fs::read_to_string(&record).unwrap();
        let is_end = |line: &&str| line.contains("\"expired\"") && line.contains(id);
        text.lines().filter(is_end).count()
    };
    eventually("the keeper says so", || expired(&ids[0]) == 2);
    island.holm(&["ls"]).ok();
    // A daemon that starts later records the missed expiry, and stores no value of it.
    eventually("it is over for both", || {
        let states = ids.iter().flat_map(|id| declared(&island, id));
        states
            .into_iter()
            .all(|secret| secret["state"] == "expired")
    });
    let audit = audit(&island);
    for id in &ids {
        assert_eq!(expired(id), 2, "once for each: {audit:?}");
    }
    let vault = std::fs::read_to_string(island.data().join("secrets/vault.json")).unwrap();
    assert_eq!(
        vault.matches("\"sealed\"").count(),
        2,
        "what the user stored is left"
    );
    island.sh("x", "test -e /run/holm/secrets/A_FILE").exits(1);
    let run = "echo \"${A_KEY:-none}\"; cat /run/holm/secrets/A_FILE";
    let run = island.holm(&["run", "x", "--", "sh", "-c", run]).exits(1);
    assert_eq!(run.out(), "none");
    // A start gives it again.
    let received = || {
        let text = std::fs::read_to_string(&record).unwrap();
        let begins = |line: &&str| line.contains("\"received\"") && line.contains(&ids[1]);
        text.lines().filter(begins).count()
    };
    assert_eq!(received(), 2);
    island.holm(&["start", "y"]).ok();
    assert_eq!(received(), 4);
}
