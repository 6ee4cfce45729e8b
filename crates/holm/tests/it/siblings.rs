//! `isolation = "project"`: workspaces see each other's trees, whole and read-only; with "workspace" they
//! see nothing.

use crate::support::{Island, Repository, eventually};

fn shop<'a>(island: &'a Island, isolation: &str) -> Repository<'a> {
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        format!("[project]\nisolation = \"{isolation}\"\n"),
    );
    repository.write(".gitignore", ".env\n");
    repository.write(".env", "SECRET=canary\n");
    repository.commit("configure");
    repository
}

#[test]
fn siblings_see_trees_and_can_change_nothing() {
    let island = Island::new();
    let repository = shop(&island, "project");
    // It needs a person's word.
    repository.holm(&["up", "one"]).exits(4);
    repository.holm(&["trust", "--yes"]).ok();
    let one = repository
        .holm(&["up", "one", "--include", ".env", "--json"])
        .json();
    let two = repository.holm(&["up", "two", "--json"]).json();
    let (one, two) = (one["id"].as_str().unwrap(), two["id"].as_str().unwrap());
    let place = format!("/workspaces/{one}");
    island.sh("one", "echo draft > README.md; mkdir -p d; echo new > d/new; ln -s /etc/passwd link; git add d").ok();
    eventually("the tree is shown", || {
        island.sh("two", &format!("cat {place}/d/new")).stdout == b"new\n"
    });
    let seen = island.sh(
        "two",
        &format!("cat {place}/README.md; readlink {place}/link; ls -A {place}"),
    );
    assert_eq!(
        seen.ok().out(),
        "draft\n/etc/passwd\n.gitignore\nREADME.md\nd\nholm.toml\nlink"
    );
    // Neither what was taken along for one nor its repository is there, whatever it is called.
    island.sh("one", "cat .env").ok();
    let search = format!("grep -rs canary /workspaces; ls {place}/.git {place}/.env");
    let found = island.sh("two", &search);
    assert!(!found.out().contains("canary"), "{found:?}");
    // Both ways, and `holm here` says where.
    eventually("the other way", || {
        island
            .sh("one", &format!("ls /workspaces/{two}/README.md"))
            .code
            == Some(0)
    });
    let here = island.inside("two", &["holm", "here", "--json"]).json();
    assert_eq!(here["siblings"], "/workspaces");

    // Nothing of it can be changed.
    for attempt in [
        format!("echo x > {place}/README.md"),
        format!("rm {place}/README.md"),
        format!("chmod 777 {place}/README.md"),
        format!("mv {place} /workspaces/other"),
        format!("mkdir {place}/mine"),
        "touch /workspaces/x".to_owned(),
        format!("ln {place}/README.md /workspaces/linked"),
        format!("mount -o remount,rw {place}"),
    ] {
        let refused = island.sh("two", &attempt);
        assert_ne!(refused.code, Some(0), "{attempt}: {refused:?}");
    }
    let outside = island.data().join("projects");
    let kept = island
        .run(
            &island.home(),
            "grep",
            &["-rl", "draft", outside.to_str().unwrap()],
        )
        .ok();
    assert_eq!(kept.out().lines().count(), 1, "{kept:?}");
    assert_eq!(island.sh("one", "cat README.md").ok().out(), "draft");

    // A whole tree or the one before: every file says the same number.
    let many = "for n in 1 2 3; do for f in a b c d e f; do echo $n > $f; done; git add .; git commit -qm $n; sleep 1; done";
    island.sh("one", many).ok();
    let same = format!("cd {place} && cat a b c d e f 2>/dev/null | sort -u | wc -l");
    eventually("it follows", || {
        let lines = island.sh("two", &same).ok().out();
        assert!(["0", "1"].contains(&lines.trim()), "{lines}");
        island.sh("two", &format!("cat {place}/f")).out() == "3"
    });
    // One that is gone is not seen any more.
    island.holm(&["rm", "one", "--force"]).ok();
    eventually("it is gone", || {
        island.sh("two", &format!("ls {place}")).code != Some(0)
    });
}

#[test]
fn whoever_does_not_show_sees_nothing() {
    let island = Island::new();
    let repository = shop(&island, "project");
    repository.holm(&["trust", "--yes"]).ok();
    let open = repository.up("open");
    repository.write("holm.toml", "[project]\nisolation = \"workspace\"\n");
    repository.commit("closed");
    let closed = repository.up("closed");
    let other = island.repository("other");
    other.write("holm.toml", "[project]\nisolation = \"project\"\n");
    other.commit("open");
    other.holm(&["trust", "--yes"]).ok();
    other.up("stranger");
    let list = island.holm(&["ls", "--json"]).json();
    let rows = list["workspaces"].as_array().unwrap();
    let id = |label: &str| {
        rows.iter().find(|row| row["label"] == label).unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let shown = format!("ls /workspaces/{}", id("open"));
    eventually("its own is there", || {
        island.sh("open", &shown).code == Some(0)
    });
    for (who, what) in [
        ("closed", id("open")),
        ("open", id("closed")),
        ("open", id("stranger")),
        ("stranger", id("open")),
    ] {
        let seen = island.sh(who, &format!("ls /workspaces/{what}"));
        assert_ne!(seen.code, Some(0), "{who} sees {what}");
    }
    island.sh("closed", "ls /workspaces").exits(2);
    let _ = (open, closed);
    // Without trust it is as if it had not been asked for.
    repository.git(&["checkout", "-q", "HEAD~1"]);
    repository.write(
        "holm.toml",
        "[project]\nisolation = \"project\"\nnested = true\n",
    );
    repository.commit("asks for more");
    repository.holm(&["up", "wary", "--untrusted"]).ok();
    island.sh("wary", "ls /workspaces").exits(2);
}
