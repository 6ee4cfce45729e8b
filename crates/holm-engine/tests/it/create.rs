//! Creating workspaces: completely or not at all, one per label.

use crate::world::{Island, When, Wrong, create, eventually, made, new, project};
use holm_core::config::DriverName;
use holm_core::plan::{Action, State};
use holm_core::trash::Removal;
use holm_core::{Code, Label};
use holm_engine::{Created, Progress, Reuse, Store};
use holm_store::SqliteStore;
use std::collections::HashSet;
use tokio::sync::oneshot;

const STEPS: [Action; 3] = [Action::BuildBase, Action::MakeFiles, Action::Launch];

#[tokio::test]
async fn what_is_made_runs() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let (sender, mut progress) = tokio::sync::mpsc::unbounded_channel();
    let wish = new(&shop, Some("fix-login"));
    let created = engine.create(wish, Progress::to(sender), |_| {}).await;
    let Created::New(view) = created.unwrap() else {
        panic!("it was not there before");
    };
    assert_eq!(view.state, State::Running);
    assert!(view.isolation.unwrap().user);
    assert_eq!(view.record.spec.label, "fix-login");
    assert_eq!(view.record.spec.id, view.record.id.to_string());
    assert_eq!(progress.recv().await.unwrap().step, "build_base");
    let shown = engine.show(&view.record.id).await.unwrap();
    assert_eq!(shown.record, view.record);
    assert_eq!(engine.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_driver_that_is_not_here_is_refused_and_never_replaced_by_another() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let mut wish = new(&shop, Some("fix"));
    wish.spec.driver = DriverName::Docker;
    let fault = create(&engine, wish).await.unwrap_err();
    assert_eq!(fault.code, Code::DriverUnavailable);
    assert_eq!(fault.message(), "the driver `docker` is not available here");
    let hint = "use `driver = \"linux\"` in [project] of holm.toml, or leave it out";
    assert_eq!(fault.hint, hint);
    island.world.assert_empty();
    // A stored workspace of a daemon that had the driver is shown as failed.
    let id = made(&engine, &shop, "other").await.record.id;
    let store = SqliteStore::open(&island.directory.path().join("holm.db")).unwrap();
    let mut spec = (*store.workspace(&id).unwrap().unwrap().spec).clone();
    spec.driver = DriverName::Kubernetes;
    store.set_spec(&id, &spec).unwrap();
    drop(engine);
    let view = island.engine().show(&id).await.unwrap();
    assert_eq!(view.state, State::Failed);
    let why = format!("the driver `kubernetes` of workspace `{id}` is not available here");
    assert_eq!(view.reason, Some(why));
}

#[tokio::test]
async fn a_failure_at_any_step_leaves_nothing() {
    for action in STEPS {
        for when in [When::Before, When::After] {
            let island = Island::new();
            let engine = island.engine();
            let shop = project(&engine).await;
            island.world.set_trouble(action, when, Wrong::Fail);
            let error = create(&engine, new(&shop, Some("fix"))).await.unwrap_err();
            assert_eq!(error.message(), "made to fail", "{action:?} {when:?}");
            island.world.assert_empty();
            assert_eq!(engine.list().await.unwrap().len(), 0);
            island.world.with(|state| state.trouble = None);
            made(&engine, &shop, "fix").await;
        }
    }
}

#[tokio::test]
async fn a_client_that_goes_away_at_any_step_leaves_nothing() {
    for action in STEPS {
        for when in [When::Before, When::After] {
            let island = Island::new();
            let engine = island.engine();
            let shop = project(&engine).await;
            island.world.set_trouble(action, when, Wrong::Hang);
            let (begun, id) = oneshot::channel();
            let wish = new(&shop, Some("fix"));
            let creation = engine.create(wish, Progress::default(), |id| {
                begun.send(id.clone()).unwrap();
            });
            tokio::select! {
                _ = creation => panic!("it hangs"),
                () = island.world.trouble_met() => {}
            }
            island.world.with(|state| state.trouble = None);
            // A request for the label waits for the undo and creates it again.
            let again = made(&engine, &shop, "fix").await;
            assert_ne!(again.record.id, id.await.unwrap(), "{action:?} {when:?}");
            assert_eq!(engine.list().await.unwrap().len(), 1);
            island.world.with(|state| assert_eq!(state.files.len(), 1));
        }
    }
}

#[tokio::test]
async fn a_cancelled_creation_is_undone_when_the_answer_comes() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    island
        .world
        .set_trouble(Action::Launch, When::After, Wrong::Hang);
    let (begun, id) = oneshot::channel();
    let (other, wish) = (engine.clone(), new(&shop, Some("fix")));
    let creation = tokio::spawn(async move {
        let begin = |id: &holm_core::WorkspaceId| begun.send(id.clone()).unwrap();
        other.create(wish, Progress::default(), begin).await
    });
    let id = id.await.unwrap();
    island.world.trouble_met().await;
    assert_eq!(engine.show(&id).await.unwrap().state, State::Creating);
    engine.cancel(&id).await.unwrap();
    island.world.assert_empty();
    assert_eq!(
        engine.show(&id).await.unwrap_err().code,
        Code::WorkspaceNotFound
    );
    assert_eq!(creation.await.unwrap().unwrap_err().code, Code::Cancelled);
    engine.cancel(&id).await.unwrap();

    island.world.with(|state| state.trouble = None);
    let view = made(&engine, &shop, "fix").await;
    let error = engine.cancel(&view.record.id).await.unwrap_err();
    assert_eq!(error.code, Code::AlreadyExists);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_at_once_with_one_label_one_is_new() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let all: Vec<_> = (0..50)
        .map(|_| {
            let (engine, wish) = (engine.clone(), new(&shop, Some("fix")));
            tokio::spawn(async move { create(&engine, wish).await.unwrap() })
        })
        .collect();
    let (mut fresh, mut ids) = (0, HashSet::new());
    for one in all {
        let view = match one.await.unwrap() {
            Created::New(view) => {
                fresh += 1;
                view
            }
            Created::Existing(view) => view,
        };
        assert_eq!(view.state, State::Running);
        ids.insert(view.record.id.to_string());
    }
    assert_eq!((fresh, ids.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_share_one_base_and_get_their_own_labels() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let all: Vec<_> = (0..50)
        .map(|_| {
            let (engine, wish) = (engine.clone(), new(&shop, None));
            tokio::spawn(async move { create(&engine, wish).await.unwrap() })
        })
        .collect();
    for one in all {
        assert!(matches!(one.await.unwrap(), Created::New(_)));
    }
    let views = engine.list().await.unwrap();
    let labels: HashSet<_> = views.iter().map(|view| view.record.label.clone()).collect();
    assert_eq!(labels.len(), 50);
    island.world.with(|state| {
        let builds = state
            .applied
            .iter()
            .filter(|action| **action == Action::BuildBase);
        assert_eq!(builds.count(), 1);
    });
}

#[tokio::test]
async fn a_live_label_is_returned_or_refused() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let first = made(&engine, &shop, "fix").await;
    engine.stop(&first.record.id).await.unwrap();
    let Created::Existing(again) = create(&engine, new(&shop, Some("fix"))).await.unwrap() else {
        panic!("it was there");
    };
    assert_eq!(
        (again.record.id.clone(), again.state),
        (first.record.id, State::Running)
    );
    let mut wish = new(&shop, Some("fix"));
    wish.reuse = Reuse::Refuse;
    assert_eq!(
        create(&engine, wish).await.unwrap_err().code,
        Code::AlreadyExists
    );
    let label = Label::parse("other").unwrap();
    assert!(
        engine
            .adopt(&shop.id, &label, None)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn a_label_that_is_used_again_leads_to_nothing_old() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let old = made(&engine, &shop, "fix").await.record.id;
    engine.remove(&old, Removal::Force).await.unwrap();
    let young = made(&engine, &shop, "fix").await.record.id;
    assert_ne!(old, young);
    island.world.with(|state| {
        assert!(state.trash.contains_key(old.as_str()));
        assert_eq!(state.files.keys().collect::<Vec<_>>(), [young.as_str()]);
    });
    assert_eq!(engine.show(&old).await.unwrap().state, State::Removed);
    assert_eq!(
        engine.start(&old).await.unwrap_err().code,
        Code::WorkspaceNotFound
    );
    let error = engine.remove(&old, Removal::Force).await.unwrap_err();
    assert_eq!(error.code, Code::WorkspaceNotFound);
}

#[tokio::test]
async fn what_could_not_be_undone_is_undone_later() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    island
        .world
        .set_trouble(Action::Launch, When::Before, Wrong::Fail);
    island.world.with(|state| state.undos_fail = true);
    create(&engine, new(&shop, Some("fix"))).await.unwrap_err();
    let left = engine.list().await.unwrap();
    assert_eq!(left[0].state, State::Creating);
    assert_eq!(
        engine.start(&left[0].record.id).await.unwrap_err().code,
        Code::WorkspaceNotFound
    );
    island.world.with(|state| {
        state.undos_fail = false;
        state.trouble = None;
    });
    made(&engine, &shop, "fix").await;
    eventually(|| async { engine.list().await.unwrap().len() == 1 }).await;
}
