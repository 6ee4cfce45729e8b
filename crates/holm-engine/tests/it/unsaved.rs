//! Removal and unsaved work: refused with a list, whatever the workspace answers.

use crate::world::{Island, made, project};
use holm_core::plan::State;
use holm_core::trash::Removal;
use holm_core::{Code, WorkspaceId};
use holm_engine::Engine;

const HERE: &str = "1111111111111111111111111111111111111111";
const MISSING: &str = "2222222222222222222222222222222222222222";

async fn prepared(island: &Island) -> (Engine, WorkspaceId) {
    let engine = island.engine();
    let shop = project(&engine).await;
    let id = made(&engine, &shop, "fix").await.record.id;
    (engine, id)
}

pub fn says(island: &Island, command: &str, output: &str, code: u8) {
    let answer = (output.as_bytes().to_vec(), code);
    island
        .world
        .with(|state| state.git.insert(command.to_owned(), answer));
}

pub fn says_clean(island: &Island) {
    says(island, "status", "", 0);
    says(island, "stash", "", 0);
    says(
        island,
        "for-each-ref",
        &format!("{HERE}  refs/heads/holm/fix\n"),
        0,
    );
    says(island, "rev-parse", &format!("{HERE}\n"), 0);
}

#[tokio::test]
async fn what_would_be_lost_is_listed() {
    let hostile = "x".repeat(9 << 20);
    let on_branch = format!("{HERE}  refs/heads/main\n{MISSING}  refs/heads/work\n");
    let behind_tag = format!("{MISSING} {HERE} refs/tags/v1\n");
    let other = format!("{MISSING}\n");
    for (command, output, code, expect) in [
        (
            "status",
            " M a\0?? b\0",
            0,
            Some("\n  1 changed file   a\n  1 new file       b"),
        ),
        (
            "stash",
            "stash@{0}: WIP\nstash@{1}: WIP\n",
            0,
            Some("2 stashes"),
        ),
        (
            "for-each-ref",
            on_branch.as_str(),
            0,
            Some("commits   on work"),
        ),
        ("for-each-ref", behind_tag.as_str(), 0, None),
        ("rev-parse", other.as_str(), 0, Some("commits   on HEAD")),
        ("rev-parse", "", 1, None),
        (
            "status",
            "",
            128,
            Some("cannot be examined   `git status` failed"),
        ),
        ("rev-parse", "", 128, Some("cannot be examined")),
        ("status", "garbage", 0, Some("cannot be examined")),
        (
            "for-each-ref",
            "--upload-pack=x  refs/heads/a\n",
            0,
            Some("cannot be examined"),
        ),
        ("status", hostile.as_str(), 0, Some("cannot be examined")),
    ] {
        let island = Island::new();
        let (engine, id) = prepared(&island).await;
        says_clean(&island);
        says(&island, command, output, code);
        let result = engine.remove(&id, Removal::RefuseUnsaved).await;
        match (result, expect) {
            (Ok(view), None) => assert_eq!(view.state, State::Removed),
            (Err(fault), Some(expect)) => {
                assert_eq!(fault.code, Code::UnsavedWork);
                assert!(fault.message().contains(expect), "{}", fault.message());
                assert_eq!(engine.show(&id).await.unwrap().state, State::Running);
                engine.remove(&id, Removal::Force).await.unwrap();
                island
                    .world
                    .with(|state| assert!(state.trash.contains_key(id.as_str())));
            }
            (result, expect) => panic!("{command}: {result:?}, not {expect:?}"),
        }
    }
}

#[tokio::test]
async fn a_stopped_workspace_is_examined_and_put_back() {
    let island = Island::new();
    let (engine, id) = prepared(&island).await;
    engine.stop(&id).await.unwrap();
    says_clean(&island);
    says(&island, "status", "?? b\0", 0);
    let error = engine
        .remove(&id, Removal::RefuseUnsaved)
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::UnsavedWork);
    let view = engine.show(&id).await.unwrap();
    assert_eq!(
        (view.state, view.record.dirty),
        (State::Stopped, Some(true))
    );
    says_clean(&island);
    let view = engine.remove(&id, Removal::RefuseUnsaved).await.unwrap();
    assert_eq!(view.state, State::Removed);
    let dirty = engine.show(&id).await.unwrap().record.dirty;
    assert_eq!(dirty, Some(false));
    island.world.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_git_that_never_answers_does_not_hold_up_for_ever() {
    let island = Island::new();
    let (engine, id) = prepared(&island).await;
    island.world.with(|state| state.git_hangs = true);
    let error = engine
        .remove(&id, Removal::RefuseUnsaved)
        .await
        .unwrap_err();
    assert_eq!(error.code, Code::UnsavedWork);
    assert!(
        error.message().contains("said nothing for 60 seconds"),
        "{}",
        error.message()
    );
}
