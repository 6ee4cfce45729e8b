//! What `setup` gets of the user's own (secrets, files of `[home] copy` and of `include`), for private
//! registries. It decides the layer's key, and no byte of it is in a layer.

use crate::layers::layers;
use crate::secrets::{canary, has_canary, set, with_env};
use crate::support::{Island, Repository};
use std::path::Path;

const CONFIG: &str = r#"
[project]
setup = ["sh install.sh"]
setup_inputs = ["install.sh"]
setup_files = ["~/.npmrc", "conf/.env.local"]
include = ["conf/.env.local", "other.key"]

[secrets.NPM_TOKEN]
from = { env = "HOST_ENV" }
to = ["setup"]

[secrets.PIP_TOKEN]
inject = "file"
to = ["setup"]

[secrets.OTHER]
from = { env = "HOST_ENV" }
to = ["runs"]
"#;

/// Fails unless it has everything, and nothing else.
const INSTALL: &str = r#"set -e
test -n "$NPM_TOKEN"
grep -q canary /run/holm/secrets/PIP_TOKEN
grep -q canary ~/.npmrc
grep -q canary conf/.env.local
test -z "$OTHER" && test ! -e ~/.other && test ! -e other.key
echo "with $NPM_TOKEN"; cat ~/.npmrc
echo changed >> ~/.npmrc; echo changed >> conf/.env.local
mkdir -p node_modules && echo made > node_modules/made
"#;

fn shop(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", CONFIG);
    repository.write("install.sh", INSTALL);
    repository.write(".gitignore", "node_modules\nconf\n*.key\n");
    repository.commit("a private registry");
    repository.write("conf/.env.local", format!("API_TOKEN={}\n", canary("env")));
    repository.write("other.key", canary("other"));
    npmrc(island, "npm");
    island.write("home/.other", canary("home"));
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write(
        "holm/config/config.toml",
        "[home]\ncopy = [\"~/.npmrc\", \"~/.other\"]\n",
    );
    with_env(&repository, &["trust", "--yes"]).ok();
    set(&repository, "PIP_TOKEN", &canary("pip"));
    repository
}

fn npmrc(island: &Island, word: &str) {
    let line = format!("//npm.example.org/:_authToken={}\n", canary(word));
    island.write("home/.npmrc", line);
}

/// The files below a directory that contain a value.
fn revealing(place: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(revealing(&path));
        } else if std::fs::read(&path).is_ok_and(|bytes| has_canary(&bytes)) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn setup_gets_what_it_is_given_and_the_layer_does_not_have_it() {
    let island = Island::new();
    let repository = shop(&island);
    let made = with_env(&repository, &["up", "a", "--json"]).json();
    assert!(
        !made["notes"].to_string().contains("does not get"),
        "{made}"
    );
    assert_eq!(revealing(&island.data().join("projects")), [""; 0]);
    let log = island.run(&island.data(), "sh", &["-c", "cat projects/*/layers/*/log"]);
    let log = log.ok().out();
    assert!(log.contains("with [secret]"), "{log}");
    assert!(log.contains("_authToken=[secret]"), "{log}");
    // The workspace has its files as the user's, and no secret of the set-up.
    let look = "cat node_modules/made; grep -c changed ~/.npmrc conf/.env.local; env | grep TOKEN";
    assert_eq!(
        island.sh("a", look).out(),
        format!(
            "made\n{}/.npmrc:0\nconf/.env.local:0",
            island.home().display()
        )
    );
    assert_eq!(island.sh("a", "git status --porcelain").ok().out(), "");
    // The same values: the same layer.
    let same = with_env(&repository, &["up", "b", "--json"]).json();
    assert!(!same["notes"].to_string().contains("ran again"), "{same}");
    assert_eq!(layers(&island).len(), 1);
    // Another value or file: another layer.
    npmrc(&island, "another");
    let other = with_env(&repository, &["up", "c", "--json"]).json();
    let notes = other["notes"].to_string();
    assert!(
        notes.contains("`setup` ran again: ~/.npmrc changed"),
        "{notes}"
    );
    set(&repository, "PIP_TOKEN", &canary("later"));
    let other = with_env(&repository, &["up", "d", "--json"]).json();
    let notes = other["notes"].to_string();
    let why = "`setup` ran again: the secret PIP_TOKEN changed";
    assert!(notes.contains(why), "{notes}");
    assert_eq!(layers(&island).len(), 3);
    // Neither the records nor the specs have a value.
    assert_eq!(revealing(&island.data().join("projects")), [""; 0]);
    let database = std::fs::read(island.data().join("holm.db")).unwrap();
    assert!(!has_canary(&database));
    // A file that workspaces do not get is not given to the set-up either.
    island.write("holm/config/config.toml", "[home]\ncopy = []\n");
    let error = with_env(&repository, &["up", "e", "--json"]).error(1);
    assert_eq!(error["code"], "setup_failed");
}

#[test]
fn a_value_that_setup_writes_elsewhere_is_refused() {
    let island = Island::new();
    let repository = shop(&island);
    for (write, place) in [
        (
            "printf %s \"$NPM_TOKEN\" | base64 > node_modules/.token",
            "node_modules/.token",
        ),
        ("cp ~/.npmrc ~/copy", "~/copy"),
    ] {
        repository.write("install.sh", format!("mkdir -p node_modules; {write}\n"));
        repository.commit("writes it");
        let error = with_env(&repository, &["up", "a", "--json"]).error(1);
        assert_eq!(error["code"], "setup_failed");
        let message = error["message"].as_str().unwrap();
        assert!(message.ends_with(place), "{message}");
        assert!(!has_canary(message.as_bytes()), "{message}");
        assert_eq!(layers(&island).len(), 0);
    }
}
