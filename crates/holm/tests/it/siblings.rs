//! `isolation = "project"`: workspaces see each other's trees, whole and read-only; with "workspace" they
//! see nothing.

use crate::support::{Island, Repository, Running, eventually};

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
    // It may be shown as it was between two of the commands first.
    let look = format!("cd {place} && cat README.md d/new; readlink {place}/link; ls -A {place}");
    let whole = "draft\nnew\n/etc/passwd\n.gitignore\nREADME.md\nd\nholm.toml\nlink";
    eventually("the tree is shown", || {
        island.sh("two", &look).out() == whole
    });
    // Neither the included files of one nor its repository is visible, under any name.
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
    // A removed one is not visible any more.
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

/// Sends in place of the program inside that sends the tree: finds it, and writes its own archive
/// to its output. With a second argument it only writes the archives there.
const FORGE: &str = r#"
import io, os, sys, tarfile, time
def entry(archive, name, kind=tarfile.REGTYPE, link="", text=b""):
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.size = kind, link, len(text)
    archive.addfile(found, io.BytesIO(text))
out = sys.argv[1]
archives = []
for entries in (
    [("../escaped", tarfile.REGTYPE, "")],
    [("../../../../escaped", tarfile.REGTYPE, "")],
    [(out + "/escaped", tarfile.REGTYPE, "")],
    [("way", tarfile.SYMTYPE, out), ("way/escaped", tarfile.REGTYPE, "")],
    [("way", tarfile.SYMTYPE, "../.."), ("way/escaped", tarfile.REGTYPE, "")],
    [("hard", tarfile.LNKTYPE, out + "/canary")],
    [("fifo", tarfile.FIFOTYPE, "")],
):
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.GNU_FORMAT) as archive:
        entry(archive, "forged", text=b"forged")
        for name, kind, link in entries:
            entry(archive, name, kind, link, b"" if link or kind != tarfile.REGTYPE else b"escaped")
    archives.append(whole.getvalue())
if len(sys.argv) > 2:
    for number, archive in enumerate(archives):
        with open("%s/%d.tar" % (sys.argv[2], number), "wb") as file:
            file.write(archive)
    sys.exit()
def runs(pid):
    children = open("/proc/%s/task/%s/children" % (pid, pid)).read().split()
    return [open("/proc/%s/comm" % child).read().strip() for child in children]
done, seen, ticked = 0, {str(os.getpid())}, 0
print("lurking", flush=True)
while done < len(archives):
    # Another tree now and then, so that there is something to send.
    if time.monotonic() > ticked + 1:
        ticked = time.monotonic()
        open("tick", "w").write(str(ticked))
    for pid in os.listdir("/proc"):
        try:
            if not pid.isdigit() or pid in seen or b"checkout-index -a" not in open("/proc/%s/cmdline" % pid, "rb").read():
                continue
            # What comes behind its own archive is not read.
            while not (running := runs(pid)):
                pass
            seen.add(pid)
            if running[0] not in ("sh", "mktemp", "mkdir", "git"):
                continue
            with open("/proc/%s/fd/1" % pid, "wb", buffering=0) as pipe:
                pipe.write(archives[done])
            if "tar" not in runs(pid):
                done += 1
                print("forged", done, flush=True)
        except OSError:
            continue
"#;

#[test]
fn what_a_sibling_sends_in_place_of_its_tree_leads_nowhere() {
    let island = Island::new();
    let repository = shop(&island, "project");
    repository.holm(&["trust", "--yes"]).ok();
    let one = repository.up("one");
    repository.up("two");
    let out = island.make_dir("out");
    island.write("out/canary", "canary");
    let out_text = out.to_str().unwrap();
    // The archives work as intended: unpacked naively, each leads out.
    let place = island.make_dir("archives");
    let place = place.to_str().unwrap();
    let ran = island.run(
        &island.home(),
        "/usr/bin/python3",
        &["-c", FORGE, out_text, place],
    );
    ran.ok();
    let plain = "import os, sys, tarfile
for number in range(5):
    into = '%s/a/b/c/d/%d' % (sys.argv[1], number)
    os.makedirs(into)
    with tarfile.open('%s/%d.tar' % (sys.argv[1], number)) as archive:
        # Later ones think unless they are told not to.
        later = hasattr(tarfile, 'fully_trusted_filter')
        archive.extractall(into, **({'filter': 'fully_trusted'} if later else {}))
    found = [os.path.join(place, name) for top in sys.argv[1:] for place, _, names in os.walk(top)
             for name in names if name == 'escaped' and not place.startswith(into)]
    print(len(found) > 0)
    for path in found: os.unlink(path)
";
    let arguments = ["-c", plain, place, out_text];
    let led = island
        .run(&island.home(), "/usr/bin/python3", &arguments)
        .ok();
    assert_eq!(led.out(), ["True"; 5].join("\n"));

    // In place of the real tree they are refused; the earlier tree stays.
    let read = format!("cat /workspaces/{one}/README.md");
    eventually("it is shown", || island.sh("two", &read).out() == "# hello");
    let arguments = [
        "exec",
        "one",
        "--",
        "/usr/bin/python3",
        "-c",
        FORGE,
        out_text,
    ];
    let mut forging = Running::new(&mut island.holm_command(&island.home(), &arguments));
    forging.says("lurking");
    let refusals = || {
        let log = std::fs::read_to_string(island.data().join("daemon.log")).unwrap();
        log.matches("a tree was not shown to siblings").count()
    };
    for round in 1..=7 {
        let before = refusals();
        // The next daemon looks at once, and has shown nothing yet.
        island.kill_daemon();
        assert_eq!(island.sh("two", &read).ok().out(), "# hello");
        forging.says(&format!("forged {round}"));
        eventually("it is refused", || refusals() > before);
    }
    assert_eq!(forging.code(), Some(0));
    // These directories cannot be written inside, and have most of the files.
    let search = "find / \\( -path /usr -o -path /proc -o -path /sys \\) -prune -o \
        \\( -name 'escaped*' -o -name forged \\) -print 2>/dev/null; true";
    for label in ["one", "two"] {
        assert_eq!(island.sh(label, search).ok().out(), "", "{label}");
    }
    let top = island.home();
    let top = top.parent().unwrap();
    let search =
        "find . -path ./archives -prune -o \\( -name 'escaped*' -o -name forged \\) -print";
    let outside = island.run(top, "sh", &["-c", search]).out();
    assert_eq!(outside, "");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1);
    // Left alone it is shown again.
    island.sh("one", "echo at last > round").ok();
    let read = format!("cat /workspaces/{one}/round");
    eventually("it follows again", || {
        island.sh("two", &read).out() == "at last"
    });
}

#[test]
fn without_its_seal_a_sibling_could_be_written() {
    // The mount and, behind it, Landlock.
    for (without, is_changed) in [("landlock", false), ("sealed_siblings,landlock", true)] {
        let island = Island::without(without);
        let repository = shop(&island, "project");
        repository.holm(&["trust", "--yes"]).ok();
        let one = repository.up("one");
        repository.up("two");
        let file = format!("/workspaces/{one}/README.md");
        eventually("it is shown", || {
            island.sh("two", &format!("cat {file}")).out() == "# hello"
        });
        let wrote = island.sh("two", &format!("echo forged > {file}"));
        assert_eq!(wrote.code == Some(0), is_changed, "{without}: {wrote:?}");
        let seen = island.sh("one", &format!("cat {file}")).ok().out();
        assert_eq!(seen == "forged", is_changed, "{without}: {seen}");
        // The sibling's own tree is another one in any case.
        assert_eq!(island.sh("one", "cat README.md").ok().out(), "# hello");
    }
}
