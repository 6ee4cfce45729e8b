//! Sessions of agents: a scripted stand-in records its arguments, its variables and every burst of keys, and
//! draws lines as the real agents do.

use crate::support::{Act, Island, eventually};

/// Records each read of the terminal in a file of its own. It draws typed text at once, as agents do.
const AGENT: &str = r#"
import json, os, sys, termios, time, tty
home = os.environ["HOME"]
json.dump({"arguments": sys.argv[1:], "greeting": os.environ.get("GREETING")}, open(home + "/given", "w"))
tty.setraw(0)
# "Hello from there", with moves of the cursor to columns 7 and 12 in place of blanks.
os.write(1, b"Hello\x1b[7Gfrom\x1b[12Gthere\r\n")
reads = []
while True:
    read = os.read(0, 4096)
    reads.append(read.decode())
    with open(home + "/reads.new", "w") as file:
        json.dump(reads, file)
    os.rename(home + "/reads.new", home + "/reads")
    os.write(1, read.replace(b"\r", b"\r\nanswered\x1b[10Gat\x1b[13Gonce\r\n"))
"#;

const HOLM_TOML: &str = "[env]\nGREETING = \"of the workspace\"\n";

const SETTINGS: &str = "[agents.robot]\ncommand = [\"python3\", \"agent.py\", \"both\"]\n\
    run_args = [\"in-run\"]\nsession_args = [\"in-session\"]\n";

fn json_in(island: &Island, file: &str) -> serde_json::Value {
    let text = island.sh("x", &format!("cat ~/{file}")).ok().out();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}: {text}"))
}

#[test]
fn a_session_of_an_agent_has_its_arguments_variables_and_enter_as_a_key_of_its_own() {
    let island = Island::new();
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", SETTINGS);
    let repository = island.repository("shop");
    repository.write("holm.toml", HOLM_TOML);
    repository.write("agent.py", AGENT);
    repository.commit("an agent");
    repository.up("x");
    let new = [
        "session",
        "new",
        "x",
        "--agent",
        "robot",
        "--name",
        "robot",
        "--detach",
        "--",
        "--continue",
        "now",
    ];
    island.holm(&new).ok();
    // Words with moves of the cursor between them are one line with blanks.
    let waited = ["session", "wait", "robot", "--for", "^Hello from there$"];
    island.holm(&waited).ok();
    let given = json_in(&island, "given");
    let arguments = ["both", "in-session", "--continue", "now"];
    assert_eq!(given["arguments"], serde_json::json!(arguments));
    assert_eq!(given["greeting"], "of the workspace");
    // Enter comes after the text was drawn: a program that takes a burst for a paste sees a key.
    let send = [
        "session",
        "send",
        "robot",
        "--enter",
        "--json",
        "fix the login",
    ];
    let cursor = island.holm(&send).json()["cursor"].to_string();
    let waited = ["session", "wait", "robot", "--for", "^answered at once$"];
    island.holm(&waited).ok();
    let reads = json_in(&island, "reads");
    let reads: Vec<&str> = reads
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap())
        .collect();
    assert_eq!(reads.last(), Some(&"\r"), "{reads:?}");
    assert_eq!(reads.concat(), "fix the login\r");
    let since = ["session", "read", "robot", "--since", &cursor];
    let text = island.holm(&since).ok().out();
    assert!(text.contains("answered at once"), "{text:?}");
    // The arguments of a run are those of runs.
    let run = ["run", "x", "--agent", "robot", "--timeout", "2s", "m"];
    island.holm(&run);
    let given = json_in(&island, "given");
    assert_eq!(given["arguments"], serde_json::json!(["both", "in-run"]));
    a_session_that_dies_at_once_shows_why(&island);
}

fn a_session_that_dies_at_once_shows_why(island: &Island) {
    let script = "echo no licence for this program >&2; exit 9";
    let new = ["session", "new", "x", "--", "sh", "-c", script];
    let played = island.play(
        &island.home(),
        &new,
        &[Act::See("no licence for this program")],
    );
    assert_eq!(played.code, 9, "{}", played.screen);
    // The same without a terminal, as soon as it has ended.
    let new = [
        "session", "new", "x", "--name", "gone", "--detach", "--", "sh", "-c", script,
    ];
    island.holm(&new);
    eventually("it has ended", || {
        let list = island.holm(&["session", "ls", "--json"]).json();
        let mut all = list["sessions"].as_array().unwrap().iter();
        all.any(|one| one["name"] == "gone" && one["exit_code"] == 9)
    });
    let read = island.holm(&["session", "read", "gone"]).ok().out();
    assert!(read.contains("no licence for this program"), "{read}");
}
