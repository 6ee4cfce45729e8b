//! Attacks by names: names that are options or paths (attack 44), names that are alike (168), names
//! used again (170), one repository under many names (173).

use crate::support::{Island, Ran, Repository};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Names that do harm where they are taken for an option, a path, a command or two lines.
fn hostile_names(marker: &Path) -> Vec<String> {
    let marker = marker.display();
    vec![
        format!("--upload-pack=touch {marker}"),
        format!("-oProxyCommand=touch {marker}"),
        format!("--output={marker}"),
        format!("--exec=touch {marker}"),
        format!("ext::sh -c 'touch {marker}'"),
        format!("$(touch {marker})"),
        format!("`touch {marker}`"),
        format!("main; touch {marker}"),
        format!("main\n--output={marker}"),
        "../../../../etc/passwd".to_owned(),
        "/etc/passwd".to_owned(),
        "..".to_owned(),
        "refs/heads/../../HEAD".to_owned(),
        "main..main".to_owned(),
        "@{-1}".to_owned(),
        ":/first".to_owned(),
        "-".to_owned(),
        "--".to_owned(),
        "--all".to_owned(),
        "a".repeat(4096),
    ]
}

#[track_caller]
fn assert_refused(ran: &Ran, what: &str) {
    assert!(matches!(ran.code, Some(2..=4)), "{what:?}: {ran:#?}");
    assert!(!ran.stderr.contains("panicked"), "{what:?}: {ran:#?}");
}

#[test]
fn attack_44_names_are_never_options_paths_or_commands() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("live");
    let marker = island.home().join("marker");
    for name in hostile_names(&marker) {
        let from = format!("--from={name}");
        let include = format!("--include={name}");
        let asked: [&[&str]; 9] = [
            &["up", "--", &name],
            &["up", "fresh", &from],
            &["up", "fresh", &include],
            &["show", "--", &name],
            &["rm", "--force", "--", &name],
            &["stop", "--", &name],
            &["rename", "live", "--", &name],
            &["exec", &name, "--", "true"],
            &["project", "rm", "--", &name],
        ];
        for arguments in asked {
            // Words that git knows are valid as a ref.
            let is_ref = arguments.contains(&from.as_str());
            if is_ref && [":/first", "main..main", "@{-1}"].contains(&name.as_str()) {
                continue;
            }
            assert_refused(&repository.holm(arguments), &format!("{arguments:?}"));
        }
        assert!(!marker.exists(), "{name:?} was taken for a command");
    }
    let left: Vec<Value> = island.holm(&["ls", "--json"]).json()["workspaces"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["label"], "live");

    // git itself, without care, would have done it: such an option does write the file.
    let careless = format!("--output={}", marker.display());
    repository.git(&["diff", &careless, "HEAD"]);
    assert!(marker.exists());
}

#[test]
fn attack_44_a_branch_with_the_name_of_an_option_is_a_branch() {
    let island = Island::new();
    let repository = island.repository("shop");
    let marker = island.home().join("marker");
    let option = format!("--output={}", marker.display());
    let commit = repository.git(&["rev-parse", "HEAD"]);
    for (number, name) in ["--upload-pack=x", "-q", "--help", "--all"]
        .iter()
        .enumerate()
    {
        let branch = format!("refs/heads/{name}");
        repository.git(&["update-ref", &branch, &commit]);
        repository.git(&["symbolic-ref", "HEAD", &branch]);
        let label = format!("x-{number}");
        let made = repository.holm(&["up", &label, "--json"]).json();
        assert_eq!(made["commit"], commit, "{name}");
        let inside = island.sh(&label, "git rev-parse HEAD && git branch --show-current");
        assert_eq!(inside.ok().out(), format!("{commit}\nholm/{label}"));
    }
    // The name of the project comes from the repository, which may call itself anything.
    repository.write("holm.toml", format!("[project]\nname = {option:?}\n"));
    repository.commit("a name");
    assert_refused(&repository.holm(&["up", "y"]), &option);
    assert!(!marker.exists());
}

#[test]
fn attack_44_a_directory_with_a_hostile_name_is_a_directory() {
    let island = Island::new();
    let marker = island.home().join("marker");
    for name in ["--upload-pack=x", "-C", "$(touch marker)", "a:b", "a,b=c"] {
        let repository = island.repository(name);
        let ran = repository.holm(&["up", "x", "--json"]);
        let made = ran.json();
        let project = made["project"].as_str().unwrap();
        assert!(
            project
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
            "{project}"
        );
        let root = island.inside(made["id"].as_str().unwrap(), &["pwd"]).ok();
        assert_eq!(
            root.stdout.trim_ascii_end(),
            repository.path.as_os_str().as_bytes()
        );
    }
    // What would be two lines, or would steer a terminal, is refused by name.
    for name in ["a\nb", "\u{1b}[2J"] {
        let refused = island.repository(name).holm(&["up", "x"]).exits(2);
        assert!(refused.stderr.contains("control character"), "{refused:?}");
        assert!(!refused.stderr.contains('\u{1b}'), "{refused:?}");
    }
    assert!(!marker.exists());
}

fn up(repository: &Repository<'_>, label: &str) -> Value {
    repository.holm(&["up", label, "--json"]).json()
}

/// Everything that is named after a workspace, on the host.
fn resources(island: &Island) -> BTreeSet<String> {
    let names = |directory: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries
            .map(|entry| entry.unwrap().path().display().to_string())
            .collect()
    };
    let mut all = names(&island.data().join("workspaces"));
    all.extend(names(&island.holm_home().join("run/w")));
    all.into_iter().collect()
}

#[test]
fn attack_168_names_that_are_alike_stay_apart() {
    let island = Island::new();
    let long = "n".repeat(63);
    let longest = "n".repeat(255);
    let directories = [
        "shop",
        "a/shop",
        "Shop",
        "SHOP",
        "sh-op",
        "sh_op",
        "sh op",
        "caf\u{e9}",
        "cafe\u{301}",
        &long,
        &longest,
        "shop-2",
    ];
    let mut seen = BTreeSet::new();
    for directory in directories {
        let repository = island.repository(directory);
        // The same label everywhere, all of them live at once.
        let made = up(&repository, "same");
        let id = made["id"].as_str().unwrap();
        island
            .inside(
                id,
                &[
                    "sh",
                    "-c",
                    "pwd > whose; cp whose ~/whose; cp whose /tmp/whose",
                ],
            )
            .ok();
        for key in ["id", "project_id", "project", "root"] {
            let name = made[key].as_str().unwrap().to_owned();
            assert!(
                seen.insert((key, name)),
                "{directory}: {key} is not its own: {made}"
            );
        }
        assert!(made["project"].as_str().unwrap().len() <= 20, "{made}");
    }
    assert_eq!(resources(&island).len(), 2 * directories.len());
    // Each has its own work, and each reaches its own by the label, from its own directory.
    for directory in directories {
        let repository = Repository {
            island: &island,
            path: island.home().join("src").join(directory),
        };
        let whose = repository
            .holm(&["exec", "same", "--", "cat", "whose"])
            .ok()
            .out();
        assert_eq!(whose, repository.path.to_str().unwrap());
        let elsewhere = "cat ~/whose /tmp/whose | sort -u";
        let ran = repository.holm(&["exec", "same", "--", "sh", "-c", elsewhere]);
        assert_eq!(ran.ok().out(), whose);
    }
    // From elsewhere the label is ambiguous.
    assert_eq!(
        island.holm(&["stop", "same", "--json"]).error(4)["code"],
        "ambiguous"
    );
}

#[test]
fn attack_170_a_label_used_again_is_a_new_workspace() {
    let island = Island::new();
    let repository = island.repository("shop");
    let leave = r#"
echo secret-of-old > kept; echo secret-of-old > ~/kept; echo secret-of-old > /tmp/kept; echo secret-of-old > /dev/shm/kept
echo secret-of-old > ignored; git checkout -q -b work; git add kept; git commit -qm secret-of-old; git config holm.test secret-of-old
echo change >> README.md; git stash -q
"#;
    let old = repository.up("x");
    let old_branch = island.sh("x", "git branch --show-current").ok().out();
    island.sh("x", leave).ok();
    // What the probe looks for can be found.
    let look = r#"
grep -rs secret-of-old . ~ /tmp /dev/shm /run /var 2>/dev/null | head -3
git log --all --format=%s | grep secret-of-old; git stash list; git config holm.test; git branch --format='%(refname)' | grep work
"#;
    assert!(island.sh("x", look).out().lines().count() > 4);
    let before = resources(&island);
    island.holm(&["rm", "x", "--force"]).ok();
    assert!(resources(&island).is_empty());

    let new = repository.up("x");
    assert_ne!(new, old);
    assert_eq!(island.sh("x", look).out(), "");
    assert_eq!(
        island.sh("x", "git branch --show-current").ok().out(),
        old_branch
    );
    let after = resources(&island);
    assert_eq!((before.len(), after.len()), (2, 2));
    assert!(before.is_disjoint(&after));
    // The old id is not another word for the new one.
    for arguments in [
        &["exec", &old, "--", "true"][..],
        &["stop", &old],
        &["rename", &old, "y"],
    ] {
        island.holm(arguments).exits(3);
    }
}

#[test]
fn attack_173_one_repository_under_many_names_is_one_project() {
    let island = Island::new();
    let repository = island.repository("shop");
    let source = island.home().join("src");
    let project = up(&repository, "a")["project_id"].clone();
    let at = |path: &str| Repository {
        island: &island,
        path: source.join(path),
    };
    island.run(&source, "ln", &["-s", "shop", "link"]).ok();
    island
        .run(&source, "ln", &["-s", "link", "link-to-link"])
        .ok();
    repository.git(&["worktree", "add", "-q", "../tree", "-b", "other"]);
    repository.write("deep/er/file", "x");
    for (path, label) in [
        ("link", "b"),
        ("link-to-link", "c"),
        ("tree", "d"),
        ("shop/deep/er", "e"),
    ] {
        assert_eq!(up(&at(path), label)["project_id"], project, "{path}");
    }
    // A mount of the same directory elsewhere, as far as the client can see it.
    island.make_dir("home/src/alias");
    let mut bound = island.command("unshare", &source);
    let holm = island.holm_command(&source, &[]);
    bound
        .args(["-cm", "--keep-caps", "sh", "-c"])
        .arg("mount --bind shop alias && cd alias && exec \"$0\" up f --json")
        .arg(holm.get_program());
    assert_eq!(Ran::new(&mut bound).json()["project_id"], project);
    // Every alias finds the same live workspace of a label, instead of making another.
    for path in ["link", "link-to-link", "tree"] {
        assert_eq!(up(&at(path), "a")["created"], false, "{path}");
    }
    let projects = island.holm(&["project", "ls", "--json"]).json();
    assert_eq!(
        projects["projects"].as_array().unwrap().len(),
        1,
        "{projects}"
    );

    // What only looks the same is another: its own repository below a link's name.
    let other = Repository::new(&island, source.join("shop-link"));
    assert_ne!(up(&other, "a")["project_id"], project);
}

#[test]
fn attack_173_protection_approved_under_one_name_holds_under_all() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        "[project]\nprotected_paths = [\"README.md\"]\n",
    );
    repository.commit("protected");
    repository.up("a");
    // Less protection is asked for by way of an alias: still something to approve.
    repository.write("holm.toml", "[project]\n");
    repository.commit("unprotected");
    let source = island.home().join("src");
    island.run(&source, "ln", &["-s", "shop", "link"]).ok();
    repository.git(&["worktree", "add", "-q", "--detach", "../tree"]);
    for path in ["shop", "link", "tree"] {
        let alias = Repository {
            island: &island,
            path: source.join(path),
        };
        assert_eq!(
            alias.holm(&["up", "b", "--json"]).error(4)["code"],
            "not_trusted",
            "{path}"
        );
    }
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("b");
}

#[test]
fn attack_173_the_same_branch_in_two_workspaces_is_two_branches() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.git(&["branch", "feature"]);
    let commit = repository.git(&["rev-parse", "feature"]);
    for label in ["a", "b"] {
        repository.holm(&["up", label, "--from", "feature"]).ok();
        let work = format!(
            "git checkout -q -B feature && echo {label} > own && git add own && git commit -qm {label} && git rev-parse feature"
        );
        assert_ne!(island.sh(label, &work).ok().out(), commit);
    }
    for (label, other) in [("a", "b"), ("b", "a")] {
        let log = island.sh(label, "git log --all --format=%s").ok().out();
        let subjects: Vec<&str> = log.lines().collect();
        assert!(
            subjects.contains(&label) && !subjects.contains(&other),
            "{label}: {log}"
        );
    }
    // Neither moved the user's branch.
    assert_eq!(repository.git(&["rev-parse", "feature"]), commit);
    repository.git(&["fsck", "--strict"]);
}
