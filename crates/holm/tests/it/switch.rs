//! `holm switch`: ports, browser and terminal of one workspace, with one command.

use crate::support::{Act, Island, Repository, eventually};

const HOLM_TOML: &str = r#"
[ports]
web = 3917

[services.web]
run = "exec python3 -m http.server 3917 --bind 127.0.0.1"
ready = { tcp = 3917 }
"#;

const AGENT: &str = r#"
[agents.helper]
command = ["sh", "-c", "echo here is the helper; exec sh"]
"#;

fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", HOLM_TOML);
    repository.commit("a port");
    repository
}

/// The id of the workspace that holds the canonical port.
fn holder(island: &Island) -> String {
    let list = island.holm(&["checkout", "--json"]).ok().json();
    list["checkout"][0]["workspace"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_switch_takes_the_ports_and_opens_a_shell_or_the_one_live_agent() {
    let island = Island::new();
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", AGENT);
    let repository = shop(&island);
    let [one, two] = ["one", "two"].map(|label| repository.up(label));
    // Without a terminal only the ports move.
    repository.holm(&["switch", "one"]).ok();
    assert_eq!(holder(&island), one);
    repository
        .holm(&["switch", "two", "--no-browser", "--no-terminal"])
        .ok();
    assert_eq!(holder(&island), two);
    // On a terminal, without an agent: a shell inside.
    let shell = island.play(
        &repository.path,
        &["switch", "one"],
        &[
            Act::Type("echo in-$HOLM_WORKSPACE_LABEL; exit\n"),
            Act::See("in-one"),
        ],
    );
    assert_eq!(shell.code, 0, "{shell:?}");
    assert_eq!(holder(&island), one);
    let none = island.play(&repository.path, &["switch", "two", "--no-terminal"], &[]);
    assert_eq!(none.code, 0, "{none:?}");
    assert!(!none.screen.contains("in-two"), "{none:?}");
    // The one live session of an agent is attached; `Ctrl-\` leaves it running.
    let new = [
        "session", "new", "one", "--agent", "helper", "--detach", "--quiet",
    ];
    repository.holm(&new).ok();
    eventually("the session is live", || {
        island
            .holm(&["session", "ls", "--json"])
            .ok()
            .out()
            .contains("helper")
    });
    let attached = island.play(
        &repository.path,
        &["switch", "one"],
        &[Act::See("here is the helper"), Act::Type("\u{1c}")],
    );
    assert_eq!(attached.code, 0, "{attached:?}");
    // A second agent leaves no single one to attach, so a shell opens.
    repository.holm(&new).ok();
    let shell = island.play(
        &repository.path,
        &["switch", "one"],
        &[
            Act::Type("echo again-$HOLM_WORKSPACE_LABEL; exit\n"),
            Act::See("again-one"),
        ],
    );
    assert_eq!(shell.code, 0, "{shell:?}");
    // Inside a workspace there is nothing to switch.
    let inside = island.holm(&["exec", "one", "--", "holm", "switch", "two"]);
    assert_ne!(inside.code, Some(0), "{inside:?}");
    assert_eq!(holder(&island), one);
    assert_eq!(repository.holm(&["switch", "three"]).code, Some(3));
}
