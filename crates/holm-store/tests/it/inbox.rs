//! What every store must do for the inbox: notices, open items, and one read of what concerns a person.

use crate::conformance::{project, workspace};
use crate::review::at;
use holm_core::run::RunState;
use holm_core::turn::TurnCause;
use holm_core::{RequestId, RunId, WorkspaceId};
use holm_engine::inbox::{NOTICES_KEPT, NoticeRecord, OpenItem};
use holm_engine::review::{
    CommentDetails, CommentRecord, Look, TurnDetails, TurnFailure, TurnRecord,
};
use holm_engine::run::{RunDetails, RunRecord};
use holm_engine::store::{AuditEntry, Event, Store, StoreError};

pub fn check<S: Store>(store: &S) {
    let project = project("inbox");
    let own = workspace(&project, "asks");
    let id = &own.id;
    store.save_project(&project).unwrap();
    store.insert_workspace(&own).unwrap();
    let notice = |number: u64| NoticeRecord {
        workspace: id.clone(),
        at: at(number.cast_signed()),
        source: (number == 25).then(|| "s1".to_owned()),
        text: format!("question {number}"),
        left_out: number,
    };
    let unknown = NoticeRecord {
        workspace: WorkspaceId::random(),
        ..notice(1)
    };
    assert!(matches!(
        store.add_notice(&unknown),
        Err(StoreError::NoSuchWorkspace(_))
    ));
    for number in 1..=25 {
        store.add_notice(&notice(number)).unwrap();
    }
    let records = || {
        store
            .inbox_records()
            .unwrap()
            .remove(id)
            .unwrap_or_default()
    };
    let kept: Vec<_> = (26 - NOTICES_KEPT..=25).map(notice).collect();
    assert_eq!(records().notices, kept);

    // Turns of runs are unread until a look; others are not counted.
    for (number, cause) in [
        (1, TurnCause::Run),
        (2, TurnCause::Session),
        (3, TurnCause::Run),
    ] {
        let turn = TurnRecord {
            workspace: id.clone(),
            number,
            at: at(number.cast_signed()),
            cause,
            tree: "a".repeat(40),
            details: TurnDetails {
                files: number,
                ..TurnDetails::default()
            },
        };
        store.add_turn(&turn).unwrap();
    }
    let unread = records().unread.unwrap();
    assert_eq!(
        (unread.count, unread.number, unread.details.files),
        (2, 3, 3)
    );
    let look = |turn: u64| Look {
        turn,
        tree: String::new(),
        at: at(50),
    };
    store.set_look(id, &look(0), &[]).unwrap();
    assert_eq!(records().unread.map(|unread| unread.count), Some(2));
    store.set_look(id, &look(3), &[]).unwrap();
    assert_eq!((records().unread, records().look), (None, Some(look(3))));

    // A turn that could not be recorded, until one is.
    let failure = TurnFailure {
        workspace: id.clone(),
        at: at(55),
        cause: TurnCause::Stop,
        text: "git inside".to_owned(),
    };
    store.note_turn_failure(&failure).unwrap();
    let stray = TurnFailure {
        workspace: WorkspaceId::random(),
        ..failure.clone()
    };
    store.note_turn_failure(&stray).unwrap();
    assert_eq!(store.turn_failure(&stray.workspace).unwrap(), None);
    assert_eq!(records().turn_failure, Some(failure.clone()));
    store.forget_turn_failure(id).unwrap();
    assert_eq!(records().turn_failure, None);
    store.note_turn_failure(&failure).unwrap();
    let next = TurnRecord {
        number: 4,
        ..store.last_turn(id).unwrap().unwrap()
    };
    store.add_turn(&next).unwrap();
    assert_eq!(records().turn_failure, None);
    store.set_look(id, &look(4), &[]).unwrap();

    // The newest run, with its details only where it went wrong.
    let run = |state: RunState| RunRecord {
        id: RunId::random(),
        workspace: id.clone(),
        key: None,
        digest: String::new(),
        created_at: at(60),
        state,
        details: RunDetails {
            exit_code: Some(3),
            ..RunDetails::default()
        },
    };
    let [failed, done] = [run(RunState::Failed), run(RunState::Succeeded)];
    store.insert_run(&failed).unwrap();
    let found = records().run.unwrap();
    assert_eq!(
        (found.id, found.details.unwrap().exit_code),
        (failed.id, Some(3))
    );
    store.insert_run(&done).unwrap();
    let found = records().run.unwrap();
    assert_eq!((found.id, found.details), (done.id, None));

    // Comments that were sent, and requests that were forbidden.
    for round in [None, Some(1)] {
        let comment = CommentRecord {
            workspace: id.clone(),
            number: round.unwrap_or(2),
            details: CommentDetails {
                round,
                answered_at: Some("2026-11-15T20:00:00Z".to_owned()),
                ..CommentDetails::default()
            },
        };
        store
            .change_comments(id, &mut |all| all.push(comment.clone()))
            .unwrap();
    }
    assert_eq!(records().comments.len(), 1);
    for (status, count) in [(403, 2_u64), (403, 3), (404, 7)] {
        let entry = AuditEntry {
            at: at(count.cast_signed()),
            actor: format!("workspace {id} session s1"),
            request: RequestId::random(),
            method: "POST".to_owned(),
            route: "/trust".to_owned(),
            workspace: None,
            subject: None,
            status,
            code: None,
            outcome: None,
            evidence: None,
            count,
        };
        store.add_audit(&entry).unwrap();
    }
    assert_eq!(records().forbidden, [("POST /trust".to_owned(), 5, at(3))]);

    // Open items are replaced by their cause, and go with a close.
    let open = |since: i64| OpenItem {
        workspace: id.clone(),
        cause: "question".to_owned(),
        reason: "question".to_owned(),
        opened_at: at(1),
        since: at(since),
    };
    let gone = OpenItem {
        workspace: WorkspaceId::random(),
        ..open(1)
    };
    store.change_open_items(&[open(1), gone], &[]).unwrap();
    store.change_open_items(&[open(2)], &[]).unwrap();
    assert_eq!(records().opened, [open(2)]);
    store.change_open_items(&[], &[open(2)]).unwrap();
    assert_eq!(records().opened, []);
    assert_eq!(store.last_event_of("inbox.closed").unwrap(), None);
    let event = Event {
        at: at(9),
        kind: "inbox.closed".to_owned(),
        workspace: id.clone(),
        detail: "{}".to_owned(),
    };
    store.add_event(&event).unwrap();
    assert_eq!(store.last_event_of("inbox.closed").unwrap(), Some(at(9)));

    // A workspace in the trash has no items.
    store.set_removed(id, at(70)).unwrap();
    assert_eq!(records().notices, []);
}
