//! The daemon dies before or after each action; the next one ends at the start or at the goal.

use crate::world::{Island, When, Wrong, create, made, new, project};
use holm_core::WorkspaceId;
use holm_core::clock::ClockRecord;
use holm_core::plan::{Action, State};
use holm_core::trash::Removal;
use holm_engine::store::Store;
use holm_engine::{Engine, Recovery};
use holm_store::SqliteStore;
use std::future::Future;
use tokio::runtime::Runtime;

/// Runs `operation` in a daemon that dies at the given moment.
pub fn die_in<F: Future<Output = ()> + Send + 'static>(
    island: &Island,
    moment: (Action, When),
    operation: impl FnOnce(Engine) -> F,
) {
    let runtime = Runtime::new().unwrap();
    island.world.set_trouble(moment.0, moment.1, Wrong::Hang);
    runtime.block_on(async {
        tokio::spawn(operation(island.engine()));
        island.world.trouble_met().await;
    });
    // Ending the runtime would drop the client's future and so cancel in good order. A dead daemon
    // does nothing any more, and neither do tasks that hang in a runtime that is never ended.
    std::mem::forget(runtime);
    island.world.with(|state| state.trouble = None);
    island.world.reached.send_replace(0);
}

pub fn next_daemon<T>(island: &Island, check: impl AsyncFnOnce(&Engine, Recovery) -> T) -> T {
    Runtime::new().unwrap().block_on(async {
        let engine = island.engine();
        let recovery = engine.recover().await.unwrap();
        let second = engine.recover().await.unwrap();
        assert_eq!(second, Recovery::default(), "recovered once is recovered");
        check(&engine, recovery).await
    })
}

pub fn prepared(island: &Island) -> WorkspaceId {
    Runtime::new().unwrap().block_on(async {
        let engine = island.engine();
        let shop = project(&engine).await;
        made(&engine, &shop, "fix").await.record.id
    })
}

pub const MOMENTS: [When; 2] = [When::Before, When::After];

#[test]
fn a_creation_is_undone() {
    for action in [Action::BuildBase, Action::MakeFiles, Action::Launch] {
        for when in MOMENTS {
            let island = Island::new();
            die_in(&island, (action, when), |engine| async move {
                let shop = project(&engine).await;
                create(&engine, new(&shop, Some("fix"))).await.unwrap();
            });
            next_daemon(&island, async |engine, recovery| {
                assert_eq!(
                    (recovery.undone, recovery.failed),
                    (1, 0),
                    "{action:?} {when:?}"
                );
                island.world.assert_empty();
                assert_eq!(engine.list().await.unwrap().len(), 0);
                let shop = engine.projects().await.unwrap().remove(0).0;
                made(engine, &shop, "fix").await;
            });
        }
    }
}

/// The machine loses power; what the store had written reached the disk.
fn lose_power(island: &Island) {
    let store = SqliteStore::open(&island.directory.path().join("holm.db")).unwrap();
    let seen = store.clock().unwrap();
    let seen = seen.expect("the daemon stores its boot before it serves");
    let boot = "an earlier boot".to_owned();
    store.set_clock(&ClockRecord { boot, ..seen }).unwrap();
    island.world.with(|state| state.keepers.clear());
}

/// The user may have been told of the workspace: its acknowledgement is the last thing that reaches the disk.
#[test]
fn after_a_power_failure_a_creation_with_complete_files_is_kept() {
    let moments = [
        ((Action::BuildBase, When::After), false),
        ((Action::MakeFiles, When::Before), false),
        ((Action::MakeFiles, When::After), true),
        ((Action::Launch, When::Before), true),
        ((Action::Launch, When::After), true),
    ];
    for (moment, is_kept) in moments {
        let island = Island::new();
        next_daemon(&island, async |_, _| {});
        die_in(&island, moment, |engine| async move {
            let shop = project(&engine).await;
            create(&engine, new(&shop, Some("fix"))).await.unwrap();
        });
        lose_power(&island);
        next_daemon(&island, async |engine, recovery| {
            let counted = (recovery.left, recovery.undone, recovery.failed);
            let expected = if is_kept { (1, 0, 0) } else { (0, 1, 0) };
            assert_eq!(counted, expected, "{moment:?}");
            let listed = engine.list().await.unwrap();
            let states: Vec<State> = listed.iter().map(|view| view.state).collect();
            let expected = if is_kept {
                vec![State::Stopped]
            } else {
                vec![]
            };
            assert_eq!(states, expected, "{moment:?}");
            if let [view] = listed.as_slice() {
                let started = engine.start(&view.record.id).await.unwrap();
                assert_eq!(started.state, State::Running);
            } else {
                island.world.assert_empty();
            }
        });
    }
}

#[test]
fn a_stop_is_finished() {
    for when in MOMENTS {
        let island = Island::new();
        let id = prepared(&island);
        let key = id.clone();
        die_in(&island, (Action::Halt, when), |engine| async move {
            engine.stop(&key).await.unwrap();
        });
        next_daemon(&island, async |engine, recovery| {
            assert_eq!(recovery.finished, 1);
            assert_eq!(engine.show(&id).await.unwrap().state, State::Stopped);
        });
    }
}

#[test]
fn a_restart_is_finished() {
    for action in [Action::Halt, Action::Launch] {
        for when in MOMENTS {
            let island = Island::new();
            let id = prepared(&island);
            let key = id.clone();
            die_in(&island, (action, when), |engine| async move {
                engine.restart(&key).await.unwrap();
            });
            next_daemon(&island, async |engine, recovery| {
                assert_eq!(recovery.finished, 1);
                assert_eq!(engine.show(&id).await.unwrap().state, State::Running);
            });
        }
    }
}

#[test]
fn a_removal_is_finished() {
    for action in [Action::Halt, Action::SetAside] {
        for when in MOMENTS {
            let island = Island::new();
            let id = prepared(&island);
            let key = id.clone();
            die_in(&island, (action, when), |engine| async move {
                engine.remove(&key, Removal::Force).await.unwrap();
            });
            next_daemon(&island, async |engine, recovery| {
                assert_eq!(recovery.finished, 1);
                assert_eq!(engine.show(&id).await.unwrap().state, State::Removed);
                assert_eq!(engine.list().await.unwrap().len(), 0);
            });
            island.world.assert_empty();
            island
                .world
                .with(|state| assert!(state.trash.contains_key(id.as_str())));
        }
    }
}

#[test]
fn after_a_reboot_nothing_is_started_by_itself() {
    let island = Island::new();
    let id = prepared(&island);
    let key = id.clone();
    die_in(
        &island,
        (Action::Launch, When::Before),
        |engine| async move {
            engine.restart(&key).await.unwrap();
        },
    );
    island.world.with(|state| state.has_rebooted = true);
    next_daemon(&island, async |engine, recovery| {
        assert_eq!((recovery.left, recovery.finished), (1, 0));
        let view = engine.show(&id).await.unwrap();
        assert_eq!(
            (view.state, view.reason.as_deref()),
            (State::Stopped, Some("reboot"))
        );
        assert_eq!(engine.start(&id).await.unwrap().state, State::Running);
    });
}

#[test]
fn what_runs_is_left_alone() {
    let island = Island::new();
    let id = prepared(&island);
    island.world.with(|state| state.applied.clear());
    next_daemon(&island, async |engine, recovery| {
        assert_eq!(recovery, Recovery::default());
        assert_eq!(engine.show(&id).await.unwrap().state, State::Running);
    });
    island.world.with(|state| assert!(state.applied.is_empty()));
}

#[test]
fn one_that_cannot_be_recovered_does_not_stop_the_others() {
    let island = Island::new();
    die_in(
        &island,
        (Action::Launch, When::Before),
        |engine| async move {
            let shop = project(&engine).await;
            create(&engine, new(&shop, Some("fix"))).await.unwrap();
        },
    );
    island.world.with(|state| state.undos_fail = true);
    Runtime::new().unwrap().block_on(async {
        let recovery = island.engine().recover().await.unwrap();
        assert_eq!((recovery.failed, recovery.undone), (1, 0));
    });
    island.world.with(|state| state.undos_fail = false);
    next_daemon(&island, async |engine, recovery| {
        assert_eq!(recovery.undone, 1);
        assert_eq!(engine.list().await.unwrap().len(), 0);
    });
}
