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
