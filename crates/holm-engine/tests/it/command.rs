//! Commands inside: what is started for them, and what is refused.

use crate::world::{Island, eventually, made, project};
use holm_core::exec::{ExecOutput, ExecRequest};
use holm_core::plan::State;
use holm_core::{Code, WorkspaceId};
use holm_engine::Stopped;

fn request() -> ExecRequest {
    ExecRequest {
        argv: vec![b"true".to_vec()],
        ..ExecRequest::default()
    }
}

#[tokio::test]
async fn a_stopped_workspace_is_started_unless_that_is_refused() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let record = made(&engine, &shop, "fix").await.record;
    let id = record.id;
    engine.stop(&id).await.unwrap();
    let refused = engine.exec(&id, request(), Stopped::Refuse).await;
    assert_eq!(refused.unwrap_err().code, Code::NotRunning);
    assert_eq!(engine.show(&id).await.unwrap().state, State::Stopped);

    let mut stream = engine.exec(&id, request(), Stopped::Start).await.unwrap();
    assert!(matches!(
        stream.output.recv().await,
        Some(ExecOutput::Started)
    ));
    assert_eq!(engine.show(&id).await.unwrap().state, State::Running);
    engine.exec(&id, request(), Stopped::Refuse).await.unwrap();
    eventually(|| async {
        engine.show(&id).await.unwrap().record.last_used_at > record.last_used_at
    })
    .await;
    let nobody = WorkspaceId::random();
    let missing = engine.exec(&nobody, request(), Stopped::Start).await;
    assert_eq!(missing.unwrap_err().code, Code::WorkspaceNotFound);
}

#[tokio::test]
async fn a_workspace_that_was_seen_running_is_not_looked_at_for_each_command() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    let observations = || island.world.with(|state| state.looks);
    let exec = || engine.exec(&id, request(), Stopped::Start);
    let before = observations();
    for _ in 0..3 {
        exec().await.unwrap();
    }
    assert_eq!(observations(), before);
    // Its keeper is gone without a word of the engine: the next command starts it again.
    island.world.with(|state| state.keepers.clear());
    exec().await.unwrap();
    assert!(observations() > before);
    assert_eq!(engine.show(&id).await.unwrap().state, State::Running);
    // What the engine stops itself is not started by a command that must not.
    engine.stop(&id).await.unwrap();
    let refused = engine.exec(&id, request(), Stopped::Refuse).await;
    assert_eq!(refused.unwrap_err().code, Code::NotRunning);
}

#[tokio::test]
async fn what_a_person_typed_is_resolved_among_all_projects() {
    let island = Island::new();
    let engine = island.engine();
    let shop = project(&engine).await;
    let fix = made(&engine, &shop, "fix").await.record.id;
    let other = made(&engine, &shop, "other").await.record.id;
    assert_eq!(engine.resolve("fix").await.unwrap(), fix);
    assert_eq!(engine.resolve(other.as_str()).await.unwrap(), other);
    assert_eq!(engine.resolve(&fix.as_str()[..8]).await.unwrap(), fix);
    let missing = engine.resolve("fux").await.unwrap_err();
    assert_eq!(missing.code, Code::WorkspaceNotFound);
    assert!(missing.hint.contains("`fix`"), "{missing:?}");
}
