//! What every store must do with turns, looks, comments and approvals.

use crate::conformance::{project, workspace};
use holm_core::WorkspaceId;
use holm_core::check::CheckState;
use holm_core::turn::TurnCause;
use holm_engine::review::{
    CheckDetails, CheckRecord, CommentDetails, CommentRecord, Look, TreeApproval, TurnDetails,
    TurnRecord,
};
use holm_engine::store::{Store, StoreError};
use jiff::Timestamp;

pub fn at(millisecond: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + millisecond).unwrap()
}

pub fn turn(workspace: &WorkspaceId, number: u64) -> TurnRecord {
    TurnRecord {
        workspace: workspace.clone(),
        number,
        at: at(number.cast_signed()),
        cause: TurnCause::Run,
        tree: number.to_string().repeat(40),
        details: TurnDetails {
            files: number,
            ..TurnDetails::default()
        },
    }
}

pub fn check<S: Store>(store: &S) {
    let project = project("reviewed");
    let workspace = workspace(&project, "x");
    let id = &workspace.id;
    store.save_project(&project).unwrap();
    store.insert_workspace(&workspace).unwrap();
    let unknown = store.add_turn(&turn(&WorkspaceId::random(), 1));
    assert!(matches!(unknown, Err(StoreError::NoSuchWorkspace(_))));
    let turns: Vec<_> = (1..=9).map(|number| turn(id, number)).collect();
    for turn in &turns {
        store.add_turn(turn).unwrap();
    }
    assert!(store.add_turn(&turns[0]).is_err(), "a number is used once");
    assert_eq!(store.turns(id).unwrap(), turns);
    assert_eq!(store.last_turn(id).unwrap().as_ref(), turns.last());
    let changed = TurnRecord {
        details: TurnDetails::default(),
        ..turns[8].clone()
    };
    store.save_turn(&changed).unwrap();
    assert_eq!(store.last_turn(id).unwrap(), Some(changed));

    let look = |turn: u64| Look {
        turn,
        tree: turn.to_string().repeat(40),
        at: at(100),
    };
    let viewed = |blob: &str| [("a".to_owned(), blob.to_owned())];
    store.set_look(id, &look(1), &viewed("one")).unwrap();
    store.set_look(id, &look(2), &viewed("two")).unwrap();
    assert_eq!(store.look(id).unwrap(), Some(look(2)));
    assert_eq!(store.viewed(id).unwrap(), viewed("two").into());
    // A viewed mark is no look.
    store.mark_viewed(id, &viewed("three")).unwrap();
    assert_eq!(store.look(id).unwrap(), Some(look(2)));
    assert_eq!(store.viewed(id).unwrap(), viewed("three").into());
    let yes = TreeApproval {
        tree: turns[2].tree.clone(),
        turn: 3,
        at: at(101),
        actor: "user me".to_owned(),
        evidence: "{}".to_owned(),
    };
    assert_eq!(store.tree_approval(id).unwrap(), None);
    store.approve_tree(id, &yes).unwrap();
    assert_eq!(store.tree_approval(id).unwrap(), Some(yes));
    checks(store, id);
    let comment = CommentRecord {
        workspace: id.clone(),
        number: 1,
        details: CommentDetails {
            turn: 5,
            ..CommentDetails::default()
        },
    };
    store
        .change_comments(id, &mut |all| all.push(comment.clone()))
        .unwrap();
    // Neither the newest nor what something refers to is forgotten.
    let mut forgotten = store.forget_surplus_turns(id, 2).unwrap();
    forgotten.sort_unstable();
    assert_eq!(forgotten, [1, 6, 7]);
    let left: Vec<_> = store
        .turns(id)
        .unwrap()
        .iter()
        .map(|turn| turn.number)
        .collect();
    assert_eq!(left, [2, 3, 4, 5, 8, 9]);
    assert!(
        store.forget_surplus_turns(id, 0).unwrap().len() == 1,
        "the last stays"
    );
    // They go with the workspace.
    store.forget_unborn(id).unwrap();
    assert!(store.turns(id).unwrap().is_empty());
    assert_eq!(store.look(id).unwrap(), None);
    assert!(store.checks_of(id, "tree").unwrap().is_empty());
    crate::inbox::check(store);
}

/// Results are found by tree, replaced by name, and open ones are found without a tree.
fn checks<S: Store>(store: &S, id: &WorkspaceId) {
    let check = |tree: &str, name: &str, state| CheckRecord {
        workspace: id.clone(),
        tree: tree.to_owned(),
        name: name.to_owned(),
        key: "key".to_owned(),
        state,
        turn: (tree == "tree").then_some(4),
        details: CheckDetails {
            exit_code: Some(3),
            ms: Some(5),
            ..CheckDetails::default()
        },
    };
    let stranger = CheckRecord {
        workspace: WorkspaceId::random(),
        ..check("tree", "test", CheckState::Queued)
    };
    let unknown = store.save_check(&stranger);
    assert!(matches!(unknown, Err(StoreError::NoSuchWorkspace(_))));
    for state in CheckState::ALL {
        store.save_check(&check("tree", "types", state)).unwrap();
    }
    let test = check("tree", "test", CheckState::Running);
    store.save_check(&test).unwrap();
    let other = check("other", "test", CheckState::Failed);
    store.save_check(&other).unwrap();
    let types = check("tree", "types", CheckState::Cancelled);
    assert_eq!(store.checks_of(id, "tree").unwrap(), [test.clone(), types]);
    assert_eq!(store.checks_of(id, "other").unwrap(), [other]);
    assert_eq!(store.open_checks().unwrap(), std::slice::from_ref(&test));
    let ended = CheckRecord {
        state: CheckState::Passed,
        ..test
    };
    store.save_check(&ended).unwrap();
    assert!(store.open_checks().unwrap().is_empty());
}
