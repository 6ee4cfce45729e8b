//! Start, stop, restart, rename, remove: the effects, the answers, and what failures leave.

use crate::world::{Island, When, Wrong, eventually, made, project};
use holm_core::plan::{Action, Files, Keeper, State};
use holm_core::trash::Removal;
use holm_core::{Code, Label, WorkspaceId};

#[tokio::test]
async fn processes_come_and_go_and_files_stay() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    island.world.with(|state| state.applied.clear());
    assert_eq!(engine.stop(&id).await.unwrap().state, State::Stopped);
    assert_eq!(engine.stop(&id).await.unwrap().state, State::Stopped);
    assert!(engine.show(&id).await.unwrap().isolation.is_none());
    assert_eq!(engine.start(&id).await.unwrap().state, State::Running);
    assert_eq!(engine.start(&id).await.unwrap().state, State::Running);
    assert_eq!(engine.restart(&id).await.unwrap().state, State::Running);
    engine.stop(&id).await.unwrap();
    assert_eq!(engine.restart(&id).await.unwrap().state, State::Running);
    let removed = engine.remove(&id, Removal::Force).await.unwrap();
    assert_eq!(removed.state, State::Removed);
    assert!(removed.record.removed_at.is_some());
    island.world.with(|state| {
        use Action::{Halt, Launch, SetAside};
        let expect = [Halt, Launch, Halt, Launch, Halt, Launch, Halt, SetAside];
        assert_eq!(state.applied, expect);
        assert!(state.trash.contains_key(id.as_str()));
    });
    island.world.assert_empty();
}

#[tokio::test]
async fn a_workspace_that_is_being_restarted_is_not_called_failed() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    let world = &island.world;
    world.set_trouble(Action::Launch, When::Before, Wrong::Wait);
    let restarting = tokio::spawn({
        let (engine, id) = (engine.clone(), id.clone());
        async move { engine.restart(&id).await }
    });
    world.trouble_met().await;
    let before = world.with(|state| state.looks);
    let both_looked = || async { world.with(|state| state.looks) >= before + 2 };
    let (listed, shown, ()) = tokio::join!(engine.list(), engine.show(&id), async {
        eventually(both_looked).await;
        world.end_trouble();
    });
    assert_eq!(listed.unwrap()[0].state, State::Running);
    assert_eq!(shown.unwrap().state, State::Running);
    restarting.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_dead_are_not_called_running() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    let key = id.to_string();
    island.world.with(|state| state.keepers.remove(&key));
    let view = engine.show(&id).await.unwrap();
    assert_eq!(view.state, State::Failed);
    assert_eq!(view.reason.as_deref(), Some("its processes are gone"));
    island
        .world
        .with(|state| state.keepers.insert(key.clone(), Keeper::Broken));
    assert_eq!(engine.show(&id).await.unwrap().state, State::Failed);
    assert_eq!(engine.start(&id).await.unwrap().state, State::Running);

    island.world.with(|state| {
        state.keepers.remove(&key);
        state.has_rebooted = true;
    });
    let view = engine.show(&id).await.unwrap();
    assert_eq!(
        (view.state, view.reason.as_deref()),
        (State::Stopped, Some("reboot"))
    );
}

#[tokio::test]
async fn a_failed_start_says_so_and_can_be_tried_again() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    engine.stop(&id).await.unwrap();
    island
        .world
        .set_trouble(Action::Launch, When::Before, Wrong::Fail);
    assert_eq!(engine.start(&id).await.unwrap_err().code, Code::StartFailed);
    assert_eq!(engine.show(&id).await.unwrap().state, State::Failed);
    island.world.with(|state| state.trouble = None);
    assert_eq!(engine.start(&id).await.unwrap().state, State::Running);
}

#[tokio::test]
async fn a_failed_removal_leaves_the_workspace_as_it_was() {
    for action in [Action::Halt, Action::SetAside] {
        let island = Island::new();
        let engine = island.engine();
        let shop = project(&engine).await;
        let id = made(&engine, &shop, "fix").await.record.id;
        island.world.set_trouble(action, When::Before, Wrong::Fail);
        engine.remove(&id, Removal::Force).await.unwrap_err();
        let view = engine.show(&id).await.unwrap();
        assert_ne!(view.state, State::Removed);
        assert_eq!(view.record.removed_at, None);
        island.world.with(|state| {
            assert_eq!(state.files.get(id.as_str()), Some(&Files::Complete));
            state.trouble = None;
        });
        engine.remove(&id, Removal::Force).await.unwrap();
        island.world.assert_empty();
    }
}

#[tokio::test]
async fn files_that_are_gone_are_not_made_anew() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    engine.stop(&id).await.unwrap();
    let key = id.to_string();
    for files in [None, Some(Files::Partial)] {
        island.world.with(|state| {
            state.files.remove(&key);
            state.files.extend(files.map(|files| (key.clone(), files)));
        });
        let error = engine.start(&id).await.unwrap_err();
        assert_eq!(error.code, Code::CorruptState);
        assert_eq!(engine.show(&id).await.unwrap().state, State::Failed);
        let error = engine
            .remove(&id, Removal::RefuseUnsaved)
            .await
            .unwrap_err();
        assert_eq!(error.code, Code::UnsavedWork);
    }
    engine.stop(&id).await.unwrap();
    engine.remove(&id, Removal::Force).await.unwrap();
}

#[tokio::test]
async fn a_new_label_changes_nothing_else() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let first = made(&engine, &shop, "first").await.record;
    made(&engine, &shop, "second").await;
    let label = |text: &str| Label::parse(text).unwrap();
    let error = engine.rename(&first.id, label("second")).await.unwrap_err();
    assert_eq!(error.code, Code::LabelTaken);
    let renamed = engine.rename(&first.id, label("third")).await.unwrap();
    let mut expect = first.clone();
    expect.label = label("third");
    assert!(renamed.record.labelled_at >= first.labelled_at);
    expect.labelled_at = renamed.record.labelled_at;
    assert_eq!(renamed.record, expect);
    island
        .world
        .with(|state| assert_eq!(state.labels[first.id.as_str()], "third"));
    made(&engine, &shop, "first").await;
    let nobody = WorkspaceId::random();
    let error = engine.rename(&nobody, label("x")).await.unwrap_err();
    assert_eq!(error.code, Code::WorkspaceNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_one_workspace_queue() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    let all: Vec<_> = (0..30)
        .map(|turn| {
            let (engine, id) = (engine.clone(), id.clone());
            tokio::spawn(async move {
                match turn % 3 {
                    0 => engine.start(&id).await,
                    1 => engine.stop(&id).await,
                    _ => engine.restart(&id).await,
                }
            })
        })
        .collect();
    for one in all {
        one.await.unwrap().unwrap();
    }
    engine.remove(&id, Removal::Force).await.unwrap();
    island.world.assert_empty();
}
