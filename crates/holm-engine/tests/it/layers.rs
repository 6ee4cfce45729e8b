//! A layer is built once for all that need it, by a temporary workspace that is never shown and
//! leaves nothing behind.

use crate::crash::{MOMENTS, die_in, next_daemon};
use crate::world::{Island, When, Wrong, create, new, project};
use holm_core::check::{Secrets, ingredients};
use holm_core::config::CheckVolumes;
use holm_core::plan::Action;
use holm_core::spec::{BaseCommit, Check, Layers, Setup, WorkspaceSpec};
use holm_core::{Code, ProjectId, WorkspaceId};
use holm_engine::store::ProjectRecord;
use holm_engine::{Collect, NewWorkspace, Progress, conformance};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

fn with_setup(project: &ProjectRecord, label: Option<&str>, key: &str) -> NewWorkspace {
    let mut wish = new(project, label);
    wish.spec.layers = Layers {
        setup: Some(Setup {
            files: Vec::new(),
            given: Vec::new(),
            workspace: None,
            because: None,
            key: key.to_owned(),
            commands: vec!["make".to_owned()],
            inputs: None,
            borrowed: false,
        }),
        warm: None,
        failed: None,
    };
    wish
}

fn builds(island: &Island) -> usize {
    island.world.with(|state| {
        let applied = state.applied.iter();
        applied
            .filter(|action| **action == Action::BuildLayer)
            .count()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_make_one_layer() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let all: Vec<_> = (0..10)
        .map(|_| {
            let (engine, wish) = (engine.clone(), with_setup(&shop, None, "one"));
            tokio::spawn(async move { create(&engine, wish).await.unwrap() })
        })
        .collect();
    for one in all {
        one.await.unwrap();
    }
    assert_eq!(builds(&island), 1);
    assert_eq!(engine.list().await.unwrap().len(), 10);
    assert_eq!(engine.names().await.unwrap().len(), 10);
    create(&engine, with_setup(&shop, None, "two"))
        .await
        .unwrap();
    assert_eq!(builds(&island), 2);
    let keep = Duration::from_secs(1);
    let all = Collect::Unused(holm_core::trash::Extent::All);
    let collected = engine
        .collect(keep, all, Progress::default())
        .await
        .unwrap();
    assert!(collected.removed.iter().all(|gone| gone.kind != "layer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_leaves_nothing_and_is_tried_again_by_the_next() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    island
        .world
        .set_trouble(Action::BuildLayer, When::Before, Wrong::Fail);
    create(&engine, with_setup(&shop, Some("fix"), "one"))
        .await
        .unwrap_err();
    island.world.with(|state| {
        assert!(state.files.is_empty() && state.keepers.is_empty() && state.layers.is_empty());
        state.trouble = None;
    });
    assert!(engine.list().await.unwrap().is_empty());
    create(&engine, with_setup(&shop, Some("fix"), "one"))
        .await
        .unwrap();
    assert_eq!(builds(&island), 1);
}

#[test]
fn a_daemon_that_dies_leaves_no_workspace_of_a_set_up() {
    for when in MOMENTS {
        let island = Island::new();
        die_in(&island, (Action::BuildLayer, when), |engine| async move {
            let shop = project(&engine).await;
            let wish = with_setup(&shop, Some("fix"), "one");
            create(&engine, wish).await.unwrap();
        });
        next_daemon(&island, async |engine, recovery| {
            assert_eq!((recovery.undone, recovery.failed), (2, 0), "{when:?}");
            assert!(engine.list().await.unwrap().is_empty());
            island.world.with(|state| {
                assert!(
                    state.files.is_empty() && state.keepers.is_empty(),
                    "{when:?}"
                );
            });
        });
    }
}

/// A layer that others built is used while it exists, and never built by code that only borrows it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_borrowed_is_not_made() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let borrowed = |label: &str| {
        let mut wish = with_setup(&shop, Some(label), "one");
        if let Some(setup) = &mut wish.spec.layers.setup {
            setup.borrowed = true;
        }
        wish
    };
    let fault = create(&engine, borrowed("early")).await.unwrap_err();
    assert_eq!(fault.code, Code::Refused, "{fault}");
    assert!(
        fault.message().contains("another commit made it"),
        "{fault}"
    );
    assert_eq!(builds(&island), 0);
    assert!(engine.list().await.unwrap().is_empty());
    create(&engine, with_setup(&shop, Some("maker"), "one"))
        .await
        .unwrap();
    create(&engine, borrowed("late")).await.unwrap();
    assert_eq!(builds(&island), 1);
}

/// A workspace that was moved has the key of the commit that it began with.
#[tokio::test(flavor = "multi_thread")]
async fn a_layer_is_made_by_the_commit_that_the_workspace_began_with() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let mut wish = with_setup(&shop, Some("moved"), "one");
    let first = wish.spec.code.commit.clone();
    wish.spec.code.base = Some(BaseCommit {
        commit: first.clone(),
    });
    wish.spec.code.commit = Some("f".repeat(40));
    create(&engine, wish).await.unwrap();
    let made_of = island.world.with(|state| state.made_of.clone());
    assert_eq!(made_of, [first]);
}

/// A result counts again only where everything is the same that it depends on.
#[test]
fn a_check_is_keyed_by_its_tree_its_definition_its_layers_and_its_data() {
    let spec = conformance::spec(&WorkspaceId::random(), &ProjectId::random(), "1");
    let warm = |key: &str| WorkspaceSpec {
        layers: Layers {
            warm: Some(key.to_owned()),
            ..Layers::default()
        },
        ..spec.clone()
    };
    let check = |run: &str, timeout_ms| Check {
        name: "tests".to_owned(),
        run: run.to_owned(),
        timeout_ms,
        when: Vec::new(),
        volumes: CheckVolumes::Fresh,
    };
    let data = BTreeMap::from([("pg".to_owned(), "digest".to_owned())]);
    let none = BTreeMap::new();
    let key = |check: &Check, tree: &str, spec: &WorkspaceSpec, data| {
        serde_json::to_string(&ingredients(check, tree, spec, data, Secrets::None)).unwrap()
    };
    let keys = [
        key(&check("make", 1), "tree", &spec, &none),
        key(&check("make test", 1), "tree", &spec, &none),
        key(&check("make", 2), "tree", &spec, &none),
        key(&check("make", 1), "other", &spec, &none),
        key(&check("make", 1), "tree", &warm("one"), &none),
        key(&check("make", 1), "tree", &warm("two"), &none),
        key(&check("make", 1), "tree", &spec, &data),
    ];
    let different: HashSet<_> = keys.iter().collect();
    assert_eq!(different.len(), keys.len(), "{keys:#?}");
    let renamed = Check {
        name: "other".to_owned(),
        ..check("make", 1)
    };
    assert_eq!(key(&renamed, "tree", &spec, &none), keys[0]);
}
