//! Idle workspaces, with a clock of the test's own.

use crate::unsaved::{says, says_clean};
use crate::world::{Island, made, project};
use holm_core::idle::IdleLimits;
use holm_core::plan::{Keeper, State};
use holm_core::{Code, WorkspaceId};
use holm_engine::Engine;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

const LIMITS: IdleLimits = IdleLimits {
    stop_after: Some(HOUR),
    remove_after: Some(Duration::from_secs(10 * 3600)),
};

async fn prepared(island: &Island) -> (Engine, WorkspaceId) {
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    says_clean(island);
    (engine, id)
}

fn after(hours: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(hours)
}

async fn state(engine: &Engine, id: &WorkspaceId) -> (State, Option<String>) {
    let view = engine.show(id).await.unwrap();
    (view.state, view.note)
}

#[tokio::test]
async fn what_is_idle_is_stopped_and_then_removed() {
    let island = Island::new();
    let (engine, id) = prepared(&island).await;
    engine
        .sweep_idle(after(99), IdleLimits::default())
        .await
        .unwrap();
    engine.sweep_idle(after(0), LIMITS).await.unwrap();
    assert_eq!(state(&engine, &id).await, (State::Running, None));
    engine.sweep_idle(after(2), LIMITS).await.unwrap();
    let (word, note) = state(&engine, &id).await;
    assert_eq!(word, State::Stopped);
    assert!(note.unwrap().contains("stop_after"));
    // A start is use.
    engine.start(&id).await.unwrap();
    engine.sweep_idle(after(0), LIMITS).await.unwrap();
    assert_eq!(state(&engine, &id).await, (State::Running, None));
    engine.sweep_idle(after(11), LIMITS).await.unwrap();
    assert_eq!(engine.list().await.unwrap().len(), 0);
    // Not deleted: in the trash, from where it comes back and stays.
    engine.restore(&id).await.unwrap();
    engine.sweep_idle(after(5), LIMITS).await.unwrap();
    assert_eq!(engine.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn commands_under_way_are_use() {
    let island = Island::new();
    let (engine, id) = prepared(&island).await;
    let key = id.to_string();
    island
        .world
        .with(|state| state.commands.insert(key.clone(), 1));
    engine.sweep_idle(after(20), LIMITS).await.unwrap();
    island.world.with(|state| state.commands.remove(&key));
    // It ended a moment ago, whenever it began.
    engine.sweep_idle(after(20), LIMITS).await.unwrap();
    assert_eq!(state(&engine, &id).await.0, State::Running);
    engine.sweep_idle(after(22), LIMITS).await.unwrap();
    assert_eq!(state(&engine, &id).await.0, State::Stopped);
}

#[tokio::test]
async fn unsaved_work_is_never_removed_by_time() {
    let island = Island::new();
    let (engine, id) = prepared(&island).await;
    says(&island, "status", "?? notes\0", 0);
    for was_running in [true, false] {
        if !was_running {
            engine.stop(&id).await.unwrap();
        }
        engine.sweep_idle(after(11), LIMITS).await.unwrap();
        let (word, note) = state(&engine, &id).await;
        let expected = if was_running {
            State::Running
        } else {
            State::Stopped
        };
        assert_eq!(word, expected, "as it was before it was examined");
        let note = note.unwrap();
        assert!(
            note.contains("remove_after") && note.contains("notes"),
            "{note}"
        );
        engine.start(&id).await.unwrap();
    }
    // It is not examined at every look, but stopped like any other.
    engine.sweep_idle(after(11), LIMITS).await.unwrap();
    let before = island.world.with(|state| state.executed.len());
    engine.sweep_idle(after(11), LIMITS).await.unwrap();
    assert_eq!(island.world.with(|state| state.executed.len()), before);
    assert_eq!(state(&engine, &id).await.0, State::Stopped);
    // Later it is, and by then the work may have been fetched.
    says_clean(&island);
    engine.sweep_idle(after(13), LIMITS).await.unwrap();
    assert_eq!(engine.list().await.unwrap().len(), 0);
}

#[tokio::test]
async fn what_cannot_be_examined_stays() {
    let island = Island::new();
    let (engine, id) = prepared(&island).await;
    says(&island, "status", "", 128);
    let key = id.to_string();
    // After a reboot nothing runs; it is started to be examined, and stopped again.
    island.world.with(|state| {
        state.keepers.remove(&key);
        state.has_rebooted = true;
    });
    engine.sweep_idle(after(11), LIMITS).await.unwrap();
    let view = engine.show(&id).await.unwrap();
    assert_ne!(view.state, State::Running);
    assert!(view.note.unwrap().contains("git status"));
    island
        .world
        .with(|state| assert_eq!(state.keepers.get(&key), None::<&Keeper>));
    assert_eq!(
        engine
            .remove(&id, holm_core::trash::Removal::RefuseUnsaved)
            .await
            .unwrap_err()
            .code,
        Code::UnsavedWork
    );
}
