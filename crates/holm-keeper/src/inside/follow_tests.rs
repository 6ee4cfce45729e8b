//! Which paths a rule means.

use super::*;

fn rule(watch: Watch) -> Rule {
    let place = Watch::place(0);
    let listed = |patterns: &[String]| DockerIgnore::parse(&patterns.join("\n"));
    Rule {
        root: place.join(&watch.path),
        of_context: DockerIgnore::parse("*.log"),
        ignore: listed(&watch.ignore),
        include: (!watch.include.is_empty()).then(|| listed(&watch.include)),
        place,
        watch,
    }
}

fn watch(path: &str, ignore: &[&str], include: &[&str]) -> Watch {
    Watch {
        base: "web".into(),
        path: path.into(),
        is_context: true,
        target: Some("/app".into()),
        is_initial: false,
        ignore: ignore.iter().map(|&it| it.to_owned()).collect(),
        include: include.iter().map(|&it| it.to_owned()).collect(),
        then: AfterChange::Nothing,
    }
}

#[test]
fn rules_mean_paths() {
    let check = |rule: &Rule, path: &str, expected: bool| {
        assert_eq!(rule.means(&rule.place.join(path)), expected, "{path}");
    };
    let all = rule(watch("", &["node_modules/", "**/*.tmp"], &[]));
    check(&all, "app.js", true);
    check(&all, "node_modules/x/index.js", false);
    check(&all, "src/a.tmp", false);
    check(&all, "x.log", false);
    check(&all, ".git/index", false);
    let below = rule(watch("src", &[], &["*.go"]));
    check(&below, "src/main.go", true);
    check(&below, "src/main.c", false);
    check(&below, "main.go", false);
    check(&below, "srcs/main.go", false);
    let file = rule(watch("package.json", &[], &["*.json"]));
    check(&file, "package.json", true);
    check(&file, "package.jsonx", false);
}

#[test]
fn directories_on_the_way_and_below_are_watched() {
    let check = |rule: &Rule, path: &str, expected: bool| {
        assert_eq!(rule.may_mean(&rule.place.join(path)), expected, "{path}");
    };
    let rule = rule(watch("src/app", &["cache"], &[]));
    for (path, expected) in [
        ("", true),
        ("src", true),
        ("src/app", true),
        ("src/app/deep", true),
        ("src/app/cache", false),
        ("src/other", false),
        ("docs", false),
    ] {
        check(&rule, path, expected);
    }
}

#[test]
fn places_of_copies() {
    let one = rule(watch("src", &[], &[]));
    let file = rule(watch("conf", &[], &[]));
    let place = |rule: &Rule, target: &str, path: &str| {
        let path = rule.place_in(Path::new(target), &rule.place.join(path));
        path.display().to_string()
    };
    assert_eq!(place(&one, "/app", "src/a/b.js"), "/app/a/b.js");
    assert_eq!(place(&file, "/absent/conf", "conf"), "/absent/conf");
    assert_eq!(place(&file, "/absent/", "conf"), "/absent/conf");
    assert_eq!(place(&file, "/tmp", "conf"), "/tmp/conf");
    assert_eq!(one.shown(&one.place.join("src/a\nb")), "web/src/a\\nb");
}
