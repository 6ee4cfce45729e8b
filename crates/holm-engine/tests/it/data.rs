//! Snapshots, forks and resets: what is stored, what is done, and what failures leave.

use crate::world::{Island, When, Wrong, made, project};
use holm_core::plan::{Action, Keeper, State};
use holm_core::trash::Removal;
use holm_core::{Code, Label};
use holm_engine::{Admission, Reset};

fn name(text: &str) -> Label {
    Label::parse(text).unwrap()
}

fn to(at: Option<&str>) -> Reset {
    Reset {
        volume: None,
        at: at.map(str::to_owned),
    }
}

#[tokio::test]
async fn a_reset_is_one_plan_and_keeps_what_it_replaces() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    engine.snapshot(&id, &name("good")).await.unwrap();
    let same = engine.snapshot(&id, &name("good")).await.unwrap_err();
    assert_eq!(same.code, Code::AlreadyExists);
    island.world.with(|state| state.applied.clear());
    let done = engine.reset(&id, to(None), Removal::Force).await.unwrap();
    assert_eq!(done.view.state, State::Running);
    assert_eq!(done.kept.as_deref(), Some("before-reset"));
    let again = engine
        .reset(&id, to(Some("good")), Removal::Force)
        .await
        .unwrap();
    assert_eq!(again.kept.as_deref(), Some("before-reset-2"));
    assert_eq!(again.view.record.spec.generation, 2);
    let origin = again.view.record.spec.origin.clone().unwrap();
    let good = &again.view.record.spec.snapshots[0];
    assert_eq!(origin.snapshot.as_deref(), Some(good.key.as_str()));
    island.world.with(|state| {
        use Action::{Halt, Launch, RemakeFiles, TakeSnapshot};
        let once = [TakeSnapshot, Halt, RemakeFiles, Launch];
        assert_eq!(state.applied, [once, once].concat());
    });
    let absent = engine.reset(&id, to(Some("none")), Removal::Force).await;
    assert_eq!(absent.unwrap_err().code, Code::SnapshotNotFound);
    let volume = Reset {
        volume: Some("pg".to_owned()),
        at: None,
    };
    let absent = engine.reset(&id, volume, Removal::Force).await;
    assert_eq!(absent.unwrap_err().code, Code::VolumeNotFound);
}

#[tokio::test]
async fn one_that_is_stopped_stays_stopped() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    engine.stop(&id).await.unwrap();
    let done = engine.reset(&id, to(None), Removal::Force).await.unwrap();
    assert_eq!(done.view.state, State::Stopped);
    assert_eq!(engine.start(&id).await.unwrap().state, State::Running);
}

#[tokio::test]
async fn what_was_wanted_of_a_reset_is_reached_by_the_next_start() {
    for when in [When::Before, When::After] {
        let island = Island::new();
        let engine = island.engine();
        let shop = project(&engine).await;
        let id = made(&engine, &shop, "fix").await.record.id;
        let trouble = (Action::RemakeFiles, when, Wrong::Fail);
        island.world.with(|state| state.trouble = Some(trouble));
        let failed = engine.reset(&id, to(None), Removal::Force).await;
        failed.unwrap_err();
        island.world.with(|state| state.trouble = None);
        let view = engine.start(&id).await.unwrap();
        assert_eq!(view.state, State::Running);
        assert_eq!(view.record.spec.snapshots.len(), 1, "what was kept stays");
        island.world.with(|state| {
            assert_eq!(state.generations.get(id.as_str()), Some(&1));
            assert_eq!(state.keepers.get(id.as_str()), Some(&Keeper::Running));
        });
    }
}

#[tokio::test]
async fn a_snapshot_that_fails_is_none_and_a_fork_that_fails_is_undone() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    let fail = |action| Some((action, When::Before, Wrong::Fail));
    island
        .world
        .with(|state| state.trouble = fail(Action::TakeSnapshot));
    engine.snapshot(&id, &name("one")).await.unwrap_err();
    assert!(engine.spec(&id).await.unwrap().snapshots.is_empty());
    island
        .world
        .with(|state| state.trouble = fail(Action::MakeFiles));
    let fork = |label: &str| engine.fork(&id, Some(name(label)), None, Admission::Force);
    fork("other").await.unwrap_err();
    island.world.with(|state| state.trouble = None);
    assert_eq!(engine.names().await.unwrap().len(), 1);
    engine.snapshot(&id, &name("one")).await.unwrap();
    let forked = fork("other").await.unwrap();
    let spec = &forked.record.spec;
    assert_eq!(spec.origin.as_ref().unwrap().workspace, id.as_str());
    assert!(spec.snapshots.is_empty());
    let taken = fork("other").await.unwrap_err();
    assert_eq!(taken.code, Code::AlreadyExists);
}
