//! What commands print: for programs (`-q`, no terminal), and for people who want more (`--all`) or less
//! (`[cli] hints`).

use crate::support::{Act, Island};
use holm_core::WorkspaceId;

/// Slow enough that its progress is worth a line.
const HOLM_TOML: &str = "[project]\nsetup = [\"echo begun; sleep 0.6\"]\n\
    [egress]\nmode = \"none\"\n";

#[test]
fn commands_print_what_programs_and_people_ask_for() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", HOLM_TOML);
    repository.commit("a setup");
    // Without a terminal each line says something new, and none is drawn over.
    let first = repository.holm(&["up", "x"]).ok();
    assert_eq!(first.out(), "", "results of actions are on stderr");
    let lines: Vec<&str> = first.stderr.lines().collect();
    let mut distinct = lines.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), lines.len(), "{}", first.stderr);
    assert!(!first.stderr.contains(['\r', '\u{1b}']), "{first:?}");
    for expected in ["setup: echo begun", "setup: done, ", "ready in "] {
        let found = lines.iter().any(|line| line.contains(expected));
        assert!(found, "{expected}: {}", first.stderr);
    }
    assert!(!first.stderr.contains("next:"), "{}", first.stderr);
    // Quiet: the id and nothing else.
    let quiet = repository.holm(&["up", "-q", "y"]).ok();
    assert!(WorkspaceId::parse(&quiet.out()).is_ok(), "{quiet:?}");
    assert_eq!(quiet.stderr, "");
    let shown = island.holm(&["show", "y", "--json"]).json();
    assert_eq!(shown["id"], quiet.out());
    hints_are_for_who_wants_them(&island);
    all_lists_more(&island);
}

fn hints_are_for_who_wants_them(island: &Island) {
    let removed = |to: &str| {
        let arguments = ["stop", to];
        let played = island.play(&island.home(), &arguments, &[Act::See("is stopped")]);
        assert_eq!(played.code, 0, "{}", played.screen);
        let arguments = ["rm", to, "--force"];
        let played = island.play(&island.home(), &arguments, &[Act::See("is in the trash")]);
        assert_eq!(played.code, 0, "{}", played.screen);
        island.holm(&["restore", to]).ok();
        played.screen
    };
    let hint = "holm restore y";
    assert!(removed("y").contains(hint), "by default there are hints");
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", "[cli]\nhints = false\n");
    let screen = removed("y");
    assert!(
        !screen.contains(hint) && !screen.contains("next:"),
        "{screen}"
    );
}

fn all_lists_more(island: &Island) {
    let doctor = island.holm(&["doctor"]).ok().out();
    let all = island.holm(&["doctor", "--all"]).ok().out();
    let row = |text: &str| text.lines().any(|line| line.starts_with("✓ seccomp "));
    assert!(row(&all) && !row(&doctor), "{doctor}\n{all}");
    // One line for a destination, or one for each connection.
    for _ in 0..2 {
        let refused = island.sh("x", "curl -s -m 5 http://192.0.2.1/");
        assert_ne!(refused.code, Some(0));
    }
    let rows = |arguments: &[&str]| {
        let text = island.holm(arguments).ok().out();
        let rows = text.lines().filter(|line| line.contains("192.0.2.1:80  "));
        rows.map(str::to_owned).collect::<Vec<_>>()
    };
    let (short, long) = (rows(&["egress", "x"]), rows(&["egress", "x", "--all"]));
    assert_eq!(short.len(), 1, "{short:?}");
    assert!(short[0].starts_with('◆'), "{short:?}");
    assert!(long.iter().all(|row| row.contains(" refuse ")), "{long:?}");
    assert!(!long.is_empty());
}
