//! Into the trash, back from it, and out of it for good; also when the daemon dies on the way.

use crate::crash::{MOMENTS, die_in, next_daemon, prepared};
use crate::world::{Island, When, Wrong, create, made, new, project, repository};
use holm_core::plan::{Action, Files, State};
use holm_core::trash::Extent;
use holm_core::trash::Removal;
use holm_core::{Code, WorkspaceId};
use holm_engine::{Collect, Collected, Engine, Progress};
use std::time::Duration;

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
const ALL: Collect = Collect::Unused(Extent::All);

async fn removed(engine: &Engine, label: &str) -> WorkspaceId {
    let shop = project(engine).await;
    let id = made(engine, &shop, label).await.record.id;
    engine.remove(&id, Removal::Force).await.unwrap();
    id
}

async fn collect(engine: &Engine, collect: Collect) -> Collected {
    let collected = engine.collect(WEEK, collect, Progress::default());
    collected.await.unwrap()
}

#[tokio::test]
async fn what_comes_back_is_what_went() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = removed(&engine, "fix").await;
    let newer = made(&engine, &shop, "fix").await.record.id;
    let taken = made(&engine, &shop, "fix-2").await.record.id;
    let restored = engine.restore(&id).await.unwrap();
    assert_eq!(restored.earlier_label.as_str(), "fix");
    let view = restored.view;
    assert_eq!(view.record.id, id);
    assert_eq!(view.record.label.as_str(), "fix-3");
    assert_eq!((view.state, view.record.removed_at), (State::Stopped, None));
    assert!(engine.trash().await.unwrap().is_empty());
    assert_eq!(engine.list().await.unwrap().len(), 3);
    assert_eq!(engine.start(&id).await.unwrap().state, State::Running);
    // Once is enough, and the living are not in the trash.
    for live in [&id, &newer, &taken] {
        let refused = engine.restore(live).await.unwrap_err();
        assert_eq!(refused.code, Code::WorkspaceNotFound);
    }
}

#[tokio::test]
async fn what_cannot_come_back_stays_in_the_trash() {
    let island = Island::new();
    let engine = island.engine();
    let id = removed(&engine, "fix").await;
    island
        .world
        .set_trouble(Action::TakeBack, When::Before, Wrong::Fail);
    engine.restore(&id).await.unwrap_err();
    let trash = engine.trash().await.unwrap();
    assert_eq!(trash.len(), 1);
    assert_eq!(trash[0].state, State::Removed);
    island.world.with(|state| state.trouble = None);
    assert_eq!(
        engine.restore(&id).await.unwrap().view.state,
        State::Stopped
    );

    let id = removed(&engine, "gone").await;
    island.world.with(|state| state.trash.clear());
    let refused = engine.restore(&id).await.unwrap_err();
    assert_eq!(refused.code, Code::CorruptState);
    // A record without files is deleted when it expires.
    assert_eq!(collect(&engine, ALL).await.removed.len(), 1);
    assert!(engine.trash().await.unwrap().is_empty());
}

#[test]
fn a_daemon_that_dies_in_a_restore_has_it_finished_by_the_next() {
    for when in MOMENTS {
        let island = Island::new();
        let id = prepared(&island);
        let key = id.clone();
        die_in(&island, (Action::TakeBack, when), |engine| async move {
            engine.remove(&key, Removal::Force).await.unwrap();
            engine.restore(&key).await.unwrap();
        });
        next_daemon(&island, async |engine, recovery| {
            assert_eq!((recovery.finished, recovery.failed), (1, 0), "{when:?}");
            let view = engine.show(&id).await.unwrap();
            assert_eq!(view.state, State::Stopped, "{when:?}");
            island.world.with(|state| {
                assert_eq!(state.files.get(id.as_str()), Some(&Files::Complete));
                assert!(state.trash.is_empty());
            });
        });
    }
}

#[tokio::test]
async fn two_restores_at_once_are_one() {
    let island = Island::new();
    let engine = island.engine();
    let id = removed(&engine, "fix").await;
    let (one, two) = tokio::join!(engine.restore(&id), engine.restore(&id));
    assert_ne!(one.is_ok(), two.is_ok());
    assert_eq!(engine.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn entries_go_by_age_or_all_at_once() {
    let island = Island::new();
    let engine = island.engine();
    let id = removed(&engine, "fix").await;
    let shop = project(&engine).await;
    let live = made(&engine, &shop, "live").await.record.id;
    for kind in [Collect::ExpiredTrash, Collect::Unused(Extent::Expired)] {
        assert_eq!(collect(&engine, kind).await.removed, []);
    }
    let now = engine.collect(Duration::ZERO, Collect::ExpiredTrash, Progress::default());
    let gone = now.await.unwrap().removed;
    assert_eq!(gone.len(), 1);
    assert_eq!((gone[0].name.as_str(), gone[0].bytes), (id.as_str(), 10));
    assert_eq!(gone[0].label.as_deref(), Some("fix"));
    assert_eq!(
        engine.show(&id).await.unwrap_err().code,
        Code::WorkspaceNotFound
    );
    // Live workspaces, and what they use, stay.
    assert_eq!(collect(&engine, ALL).await.removed, []);
    assert_eq!(engine.show(&live).await.unwrap().state, State::Running);
}

#[tokio::test]
async fn bases_stay_while_anything_needs_them() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let mut other = new(&shop, Some("other"));
    other.spec.code.commit = Some("2".repeat(40));
    create(&engine, other).await.unwrap();
    let live = engine.list().await.unwrap();
    let id = removed(&engine, "fix").await;
    let bases = || island.world.with(|state| state.bases.len());
    collect(&engine, Collect::Unused(Extent::Expired)).await;
    assert_eq!(bases(), 2, "the trash needs one, the living the other");
    engine.restore(&id).await.unwrap();
    engine.start(&id).await.unwrap();
    engine.remove(&id, Removal::Force).await.unwrap();
    collect(&engine, ALL).await;
    assert_eq!(bases(), 1);
    engine
        .remove(&live[0].record.id, Removal::Force)
        .await
        .unwrap();
    let now = engine.collect(
        Duration::ZERO,
        Collect::Unused(Extent::Expired),
        Progress::default(),
    );
    now.await.unwrap();
    assert_eq!(bases(), 1, "the latest stays");
    collect(&engine, ALL).await;
    assert_eq!(bases(), 0);
}

#[tokio::test]
async fn what_was_cut_short_goes_next_time_and_is_not_restored() {
    let island = Island::new();
    let engine = island.engine();
    let id = removed(&engine, "fix").await;
    island.world.with(|state| state.deletions_fail = true);
    let collected = collect(&engine, ALL).await;
    assert!(!collected.faults.is_empty());
    assert_eq!(collected.removed, []);
    engine.restore(&id).await.unwrap_err();
    island.world.with(|state| {
        assert!(!state.discarded.is_empty());
        state.deletions_fail = false;
    });
    collect(&engine, Collect::ExpiredTrash).await;
    island
        .world
        .with(|state| assert!(state.discarded.is_empty()));

    // The daemon died between the rename and the note of it.
    let id = removed(&engine, "fix").await;
    island.world.with(|state| {
        state.trash.remove(id.as_str());
        state.discarded.push(id.to_string());
    });
    let gone = collect(&engine, Collect::ExpiredTrash).await.removed;
    assert_eq!(gone[0].name, id.as_str());
    assert!(engine.trash().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_removed_project_goes_with_the_last_of_its_trash_or_is_shown_again() {
    let island = Island::new();
    let engine = island.engine();
    let id = removed(&engine, "fix").await;
    let shop = project(&engine).await;
    engine.remove_project(&shop.id).await.unwrap();
    assert_eq!(
        collect(&engine, Collect::Unused(Extent::Expired))
            .await
            .removed,
        []
    );
    // Its name was given to another meanwhile.
    let other = engine.sync_project(repository("shop", 2)).await.unwrap().0;
    assert_eq!(other.name.as_str(), "shop");
    let view = engine.restore(&id).await.unwrap().view;
    assert_eq!(view.project.as_str(), "shop-2");
    let projects = engine.projects().await.unwrap();
    assert_eq!(projects.len(), 2);
    engine.remove(&id, Removal::Force).await.unwrap();
    engine.remove_project(&shop.id).await.unwrap();
    let gone = collect(&engine, ALL).await.removed;
    assert!(gone.iter().any(|gone| gone.kind == "project"), "{gone:?}");
    assert_eq!(
        engine.project(&shop.id).await.unwrap_err().code,
        Code::ProjectNotFound
    );
}
