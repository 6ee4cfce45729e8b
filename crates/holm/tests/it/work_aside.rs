//! Work that neither HEAD nor the tree has: `fetch`, `apply` and `merge` name it.

use crate::support::Island;
use serde_json::json;

#[test]
fn what_is_in_a_stash_or_on_another_branch_is_named_and_not_called_brought() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let none = repository.holm(&["apply", "x"]).ok();
    assert!(none.stderr.contains("has everything already"), "{none:?}");
    island.sh("x", "echo mine > new; git stash -q -u").ok();
    let applied = repository.holm(&["apply", "x"]).ok();
    assert!(!applied.stderr.contains("has everything"), "{applied:?}");
    for words in ["1 stash", "holm exec x -- git stash pop"] {
        assert!(applied.stderr.contains(words), "{words}: {applied:?}");
    }
    let applied = repository.holm(&["apply", "x", "--json"]).json();
    assert_eq!(
        (&applied["changed"], &applied["stashes"]),
        (&json!(0), &json!(1))
    );
    // A branch whose commits HEAD has is brought with it; another one is not.
    let script = "git branch behind; git switch -qc side; git commit -q --allow-empty -m side; \
        git switch -q holm/x; git commit -q --allow-empty -m one; git branch within";
    island.sh("x", script).ok();
    for verb in ["fetch", "merge", "apply"] {
        let ran = repository.holm(&[verb, "x"]).ok();
        for words in ["1 stash", "only side has", "git switch side"] {
            assert!(ran.stderr.contains(words), "{verb} {words}: {ran:?}");
        }
        let ran = repository.holm(&[verb, "x", "--json"]).json();
        assert_eq!(
            (&ran["stashes"], &ran["aside"]),
            (&json!(1), &json!(["side"])),
            "{verb}"
        );
    }
    island.sh("x", "git stash pop -q; git switch -q side").ok();
    let ran = repository.holm(&["fetch", "x"]).ok();
    assert!(!ran.stderr.contains("not brought"), "{ran:?}");
    let error = repository.holm(&["rm", "x", "--json"]).error(4);
    assert!(
        error["message"].as_str().unwrap().contains("new"),
        "{error}"
    );
}
