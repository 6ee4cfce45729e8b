//! What keepers tell is used, and is not used once it may be wrong.

use crate::world::{Island, LIMIT, Watches, World, create, new, project};
use holm_core::WorkspaceId;
use holm_core::plan::State;
use holm_engine::{Created, Engine};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Two running workspaces.
async fn two(island: &Island) -> (Engine, Vec<WorkspaceId>) {
    let engine = island.engine();
    let shop = project(&engine).await;
    let mut ids = Vec::new();
    for label in ["one", "two"] {
        let Created::New(view) = create(&engine, new(&shop, Some(label))).await.unwrap() else {
            panic!("it is new");
        };
        ids.push(view.record.id);
    }
    (engine, ids)
}

/// Watches a workspace, and returns when its keeper has reported.
async fn watch(engine: &Engine, id: &WorkspaceId) -> JoinHandle<()> {
    let (ports, mut reports) = mpsc::unbounded_channel();
    let (watching, key) = (engine.clone(), id.clone());
    let task = tokio::spawn(async move {
        let report = |listening| drop(ports.send(listening));
        watching.watch(&key, report).await.unwrap();
    });
    let first = tokio::time::timeout(LIMIT, reports.recv()).await.unwrap();
    assert_eq!(first, Some(vec![3000]));
    task
}

/// How often the driver looked, and how often keepers were asked, since the last call.
fn counts(world: &World) -> (usize, usize) {
    world.with(|state| {
        let counts = (state.looks, state.questions);
        (state.looks, state.questions, state.requests) = (0, 0, 0);
        counts
    })
}

/// The sessions in a list of all workspaces, and how many requests to keepers it took.
async fn sessions(engine: &Engine, world: &World) -> (Vec<String>, usize) {
    let mut found = Vec::new();
    for view in engine.list().await.unwrap() {
        let running = engine.running_sessions(&view).await.unwrap();
        found.extend(running.into_iter().map(|session| session.id));
    }
    let all = engine.all_sessions().await.unwrap();
    let all = all.into_iter().flat_map(|(_, sessions)| sessions);
    assert_eq!(all.map(|session| session.id).collect::<Vec<_>>(), found);
    (found, world.with(|state| state.requests))
}

async fn states(engine: &Engine) -> Vec<State> {
    let views = engine.list().await.unwrap();
    views.iter().map(|view| view.state).collect()
}

#[tokio::test]
async fn a_list_of_watched_workspaces_looks_at_none_and_asks_none() {
    let island = Island::new();
    island.world.with(|state| state.watches = Watches::Answer);
    let (engine, ids) = two(&island).await;
    for id in &ids {
        watch(&engine, id).await;
    }
    counts(&island.world);
    let running = [State::Running, State::Running];
    for _ in 0..3 {
        assert_eq!(states(&engine).await, running);
    }
    let two = vec!["s00000000001".to_owned(); 2];
    assert_eq!(sessions(&engine, &island.world).await, (two, 0));
    assert_eq!(counts(&island.world), (0, 0));

    // The daemon did something with one: that keeper is asked once.
    engine.mark(&ids[0]);
    assert_eq!(states(&engine).await, running);
    assert_eq!(states(&engine).await, running);
    assert_eq!(counts(&island.world), (0, 1));
    engine.mark(&ids[1]);
    assert_eq!(engine.show(&ids[1]).await.unwrap().state, State::Running);
    assert_eq!(counts(&island.world), (0, 1));
}

#[tokio::test]
async fn a_keeper_that_cannot_be_watched_is_looked_at_each_time() {
    let island = Island::new();
    let (engine, ids) = two(&island).await;
    for id in &ids {
        let fault = engine.watch(id, |_| {}).await;
        assert!(fault.is_ok(), "{fault:?}");
    }
    counts(&island.world);
    for _ in 0..3 {
        assert_eq!(states(&engine).await, [State::Running, State::Running]);
    }
    assert_eq!(counts(&island.world), (6, 0));
    // Its stored sessions are read, and it is asked for those that run, by each of two lists.
    let two = vec!["s00000000001".to_owned(); 2];
    assert_eq!(sessions(&engine, &island.world).await, (two, 8));
}

#[tokio::test]
async fn what_was_told_before_a_stop_is_not_shown_after_it() {
    let island = Island::new();
    island.world.with(|state| state.watches = Watches::Answer);
    let (engine, ids) = two(&island).await;
    let watching = watch(&engine, &ids[0]).await;
    engine.stop(&ids[0]).await.unwrap();
    // The watch goes on, as it does for a moment with a real keeper.
    assert!(!watching.is_finished());
    assert_eq!(states(&engine).await, [State::Stopped, State::Running]);
    assert_eq!(engine.show(&ids[0]).await.unwrap().state, State::Stopped);
    engine.start(&ids[0]).await.unwrap();
    assert_eq!(states(&engine).await, [State::Running, State::Running]);
    // A watch that ends leaves nothing behind.
    let watching = watch(&engine, &ids[0]).await;
    counts(&island.world);
    watching.abort();
    assert!(watching.await.unwrap_err().is_cancelled());
    island
        .world
        .with(|state| state.keepers.remove(ids[0].as_str()));
    assert_eq!(states(&engine).await, [State::Failed, State::Running]);
    assert_eq!(counts(&island.world), (2, 0));
}

#[tokio::test]
async fn a_keeper_that_does_not_answer_is_looked_at() {
    let island = Island::new();
    island.world.with(|state| state.watches = Watches::Mute);
    let (engine, ids) = two(&island).await;
    for id in &ids {
        watch(&engine, id).await;
    }
    counts(&island.world);
    // Nothing was done, so what they reported counts.
    assert_eq!(states(&engine).await, [State::Running, State::Running]);
    assert_eq!(counts(&island.world), (0, 0));
    engine.mark(&ids[0]);
    island
        .world
        .with(|state| state.keepers.remove(ids[0].as_str()));
    assert_eq!(states(&engine).await, [State::Failed, State::Running]);
    assert_eq!(counts(&island.world), (1, 0));
    // Its word counts again once it answers.
    island.world.with(|state| state.watches = Watches::Answer);
    let answers = async {
        while states(&engine).await != [State::Running, State::Running] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, answers).await.unwrap();
}

#[tokio::test]
async fn head_is_read_again_only_after_something_of_the_workspace_ran() {
    let island = Island::new();
    island.world.with(|state| state.watches = Watches::Answer);
    let (engine, ids) = two(&island).await;
    for id in &ids {
        watch(&engine, id).await;
    }
    let heads = async |commit: &str, reads: usize| {
        island.world.with(|state| {
            state.head = Some(commit.to_owned());
            state.tips_read = 0;
        });
        let views = engine.list().await.unwrap();
        assert_eq!(island.world.with(|state| state.tips_read), reads);
        let heads = views.into_iter().map(|view| view.tip.head.unwrap());
        heads.collect::<Vec<_>>()
    };
    // While the driver cannot tell, HEAD is read for each list.
    assert_eq!(heads("a", 2).await, ["a", "a"]);
    assert_eq!(heads("b", 2).await, ["b", "b"]);
    let at = |time| island.world.with(|state| state.processor_time = time);
    at(Some(Duration::from_nanos(1)));
    assert_eq!(heads("c", 2).await, ["c", "c"]);
    assert_eq!(heads("c", 0).await, ["c", "c"]);
    at(Some(Duration::from_nanos(2)));
    assert_eq!(heads("d", 2).await, ["d", "d"]);
    // The daemon did something with one of them.
    engine.mark(&ids[0]);
    assert_eq!(heads("e", 1).await, ["e", "d"]);
    at(None);
    assert_eq!(heads("f", 2).await, ["f", "f"]);
}
