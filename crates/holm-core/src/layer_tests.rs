//! Tests of the decisions about layers: keys, inputs, sharing, and what may be deleted.

use super::*;

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    let parse = |text: &&str| Pattern::parse(text).unwrap();
    texts.iter().map(parse).collect()
}

#[test]
fn known_names_are_sorted_for_the_search() {
    assert!(INPUT_NAMES.is_sorted() && BUILD_OUTPUT.is_sorted());
    assert!(is_build_output("apps/web/node_modules") && !is_build_output("secrets"));
}

#[test]
fn what_is_an_input() {
    let check = |path: &str, written: Option<&[&str]>, expect: bool| {
        let written = written.map(patterns);
        assert_eq!(is_input(path, written.as_deref()), expect, "{path}");
    };
    check("package-lock.json", None, true);
    check("apps/web/package.json", None, true);
    check("src/package.json.ts", None, false);
    check(".gitignore", None, true);
    check("package.json", Some(&["deps/**"]), false);
    check("deps/a/b", Some(&["deps/**"]), true);
    check("apps/.gitignore", Some(&["deps/**"]), true);
}

#[test]
fn an_uncommitted_state_changes_inputs() {
    let pair = |path: &str, object: &str| (path.to_owned(), object.to_owned());
    let committed = [pair("go.mod", "1"), pair("go.sum", "2"), pair("a.go", "3")];
    let changed = [
        ("go.mod".to_owned(), Some("9".to_owned())),
        ("go.sum".to_owned(), None),
        ("b.go".to_owned(), Some("8".to_owned())),
        ("x/go.mod".to_owned(), Some("7".to_owned())),
    ];
    assert_eq!(
        inputs(committed, &changed, None),
        [pair("go.mod", "9"), pair("x/go.mod", "7")]
    );
}

#[test]
fn every_part_changes_the_text() {
    let plain = Ingredients {
        commands: vec!["npm ci".to_owned()],
        root: "/r".to_owned(),
        home: "/h".to_owned(),
        toolchains: vec!["/t".to_owned()],
        warm: None,
        inputs: vec![("a".to_owned(), "1".to_owned())],
        only: None,
    };
    let mut others = vec![plain.clone(); 8];
    others[1].commands = vec!["npm".to_owned(), " ci".to_owned()];
    others[2].root = "/q".to_owned();
    others[3].home = "/q".to_owned();
    others[4].toolchains.clear();
    others[5].warm = Some("w".to_owned());
    others[6].inputs[0].1 = "2".to_owned();
    others[7].only = Some("c".to_owned());
    let texts: HashSet<_> = others.iter().map(canonical).collect();
    assert_eq!(texts.len(), others.len());
    let mut turned = plain.clone();
    turned.toolchains = vec!["/b".to_owned(), "/a".to_owned()];
    let mut sorted = plain;
    sorted.toolchains = vec!["/a".to_owned(), "/b".to_owned()];
    assert_eq!(canonical(&turned), canonical(&sorted));
}

#[test]
fn what_the_checkout_installed_is_not_installed_again() {
    let lock = |path: &str, object: &str| InstalledLock {
        path: path.to_owned(),
        object: object.to_owned(),
    };
    let check = |commands: &[&str], installed: &[InstalledLock], expect: bool| {
        let ingredients = Ingredients {
            commands: commands.iter().map(|it| (*it).to_owned()).collect(),
            inputs: vec![("package-lock.json".to_owned(), "1".to_owned())],
            ..Ingredients::default()
        };
        assert_eq!(is_set_up(&ingredients, installed), expect, "{commands:?}");
    };
    let npm = [lock("package-lock.json", "1")];
    check(&["npm ci"], &npm, true);
    check(&["npm ci", "npm run build"], &npm, false);
    check(&["pnpm install"], &npm, false);
    check(&["npm ci"], &[lock("package-lock.json", "2")], false);
    check(&["npm ci"], &[lock("pnpm-lock.yaml", "1")], false);
    check(&["npm ci"], &[], false);
    check(&[], &npm, false);
}

#[test]
fn why_a_set_up_runs_again() {
    let inputs = |pairs: &[(&str, &str)]| Ingredients {
        inputs: pairs
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect(),
        ..Ingredients::default()
    };
    let check = |before: &Ingredients, now: &Ingredients, expect: Option<&str>| {
        assert_eq!(why_again(before, now).as_deref(), expect);
    };
    let before = inputs(&[("package-lock.json", "1"), ("package.json", "1")]);
    check(&before, &before, None);
    let now = inputs(&[("package-lock.json", "2"), ("package.json", "1")]);
    check(&before, &now, Some("package-lock.json changed"));
    let now = inputs(&[("package-lock.json", "2"), ("package.json", "2")]);
    check(&before, &now, Some("package-lock.json and 1 more changed"));
    check(
        &now,
        &inputs(&[("package-lock.json", "2")]),
        Some("package.json changed"),
    );
    let now = Ingredients {
        commands: vec!["npm ci".to_owned()],
        ..before.clone()
    };
    check(&before, &now, Some("`setup` of holm.toml changed"));
    let now = Ingredients {
        only: Some("c".to_owned()),
        ..before.clone()
    };
    check(&before, &now, None);
}

#[test]
fn who_may_use_what_a_commit_makes() {
    let check = |commit: Option<&str>, tree: Option<&str>, is_contained, expect: Option<&str>| {
        let maker = Maker {
            commit,
            tree,
            is_contained,
        };
        assert_eq!(only(maker).as_deref(), expect, "{maker:?}");
    };
    check(Some("c"), None, true, None);
    check(Some("c"), None, false, Some("c"));
    check(None, None, false, None);
    // An uncommitted state is never shared, whatever its commit is.
    check(Some("c"), Some("t"), true, Some("c t"));
    check(Some("c"), Some("t"), false, Some("c t"));
    check(None, Some("t"), true, Some("none t"));
    assert_eq!(choose(None, false), Choice::Shared);
    assert_eq!(choose(None, true), Choice::Shared);
    assert_eq!(choose(Some("c"), true), Choice::Borrowed);
    assert_eq!(choose(Some("c"), false), Choice::Own);
}

#[test]
fn the_newest_and_the_warm_one_stay() {
    let key = |project: &str, key: &str| LayerKey {
        project: project.to_owned(),
        key: key.to_owned(),
    };
    let at = Duration::from_secs;
    let built = [
        (LayerKey::warm("a"), at(1)),
        (key("a", "1"), at(2)),
        (key("a", "2"), at(3)),
        (key("a", "3"), at(4)),
        (key("b", "1"), at(1)),
        (key("a", "cache-npm-1"), at(1)),
        (key("a", "cache-npm-2"), at(2)),
        (key("a", "cache-pip-1"), at(1)),
    ];
    let used = HashSet::from([key("a", "1")]);
    assert_eq!(
        unused_layers(&built, &used, Extent::Expired),
        [key("a", "2"), key("a", "cache-npm-1")]
    );
    assert_eq!(unused_layers(&built, &used, Extent::All).len(), 7);
}

#[test]
fn a_seed_is_known_by_its_commands_its_place_and_its_inputs_alone() {
    let seed = SeedIngredients {
        commands: vec!["initdb".into(), "./seed.sh".into()],
        path: "/data/pg".into(),
        root: "/src".into(),
        inputs: vec![("migrations/1".into(), "a".into())],
        only: None,
    };
    let same = canonical_seed(&seed);
    let mut others = vec![seed.clone(); 5];
    others[4].only = Some("c".into());
    others[0].commands = vec!["initdb./seed.sh".into()];
    others[1].path = "/data/p".into();
    others[2].inputs[0].1 = "b".into();
    others[3].inputs.clear();
    assert!(others.iter().all(|other| canonical_seed(other) != same));
    assert_eq!(canonical_seed(&seed.clone()), same);
    let committed = ["migrations/1", "other", ".gitignore"];
    let committed = committed.map(|path| (path.to_owned(), "a".to_owned()));
    let found = seed_inputs(committed, &[], &patterns(&["migrations/**"]));
    assert_eq!(found, seed.inputs);
}

#[test]
fn the_newest_of_each_volume_stays() {
    let name = |text: &str| Name::parse(text).unwrap();
    let key = |volume: &str, digest: &str| LayerKey::volume("p", &name(volume), digest);
    let built = [
        (key("pg", "a1"), Duration::from_secs(1)),
        (key("pg", "b2"), Duration::from_secs(2)),
        (key("redis", "c3"), Duration::from_secs(1)),
    ];
    let unused = unused_layers(&built, &HashSet::new(), Extent::Expired);
    assert_eq!(unused, [key("pg", "a1")]);
    let used = HashSet::from([key("pg", "a1")]);
    assert_eq!(unused_layers(&built, &used, Extent::All).len(), 2);
}
