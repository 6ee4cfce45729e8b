//! What every store must do with runs. Called by [`crate::conformance`].

use crate::conformance::{at, project, workspace};
use holm_core::RunId;
use holm_core::run::RunState;
use holm_engine::review::{CommentDetails, CommentRecord, Delivered};
use holm_engine::run::{RunDetails, RunFilter, RunRecord};
use holm_engine::store::{Store, StoreError};
use std::sync::Barrier;

fn run(of: &holm_engine::store::WorkspaceRecord, key: Option<&str>) -> RunRecord {
    RunRecord {
        id: RunId::random(),
        workspace: of.id.clone(),
        key: key.map(str::to_owned),
        digest: "d".to_owned(),
        created_at: at(5),
        state: RunState::Queued,
        details: RunDetails {
            command: vec!["sh".to_owned()],
            message: Some("ümlaut\0".to_owned()),
            timeout_ms: 300_000,
            ..RunDetails::default()
        },
    }
}

pub fn check(store: &impl Store) {
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    let (one, other) = (workspace(&shop, "one"), workspace(&shop, "other"));
    store.insert_workspace(&one).unwrap();
    let stray = store.insert_run(&run(&other, None)).unwrap_err();
    assert!(matches!(stray, StoreError::NoSuchWorkspace(_)), "{stray}");
    store.insert_workspace(&other).unwrap();
    a_key_is_used_once(store, &one, &other);
    runs_are_listed_by_the_newest(store, &one);
    comments_are_delivered_to_one_run_that_starts(store, &other);
}

/// Whatever happens to a run, its comments were delivered to exactly it, or they wait.
fn comments_are_delivered_to_one_run_that_starts(
    store: &impl Store,
    of: &holm_engine::store::WorkspaceRecord,
) {
    let comments = [1, 2].map(|number| CommentRecord {
        workspace: of.id.clone(),
        number,
        details: CommentDetails {
            round: Some(1),
            ..CommentDetails::default()
        },
    });
    store
        .change_comments(&of.id, &mut |all| all.extend(comments.clone()))
        .unwrap();
    let with = |comments: &[u64]| {
        let mut run = run(of, None);
        run.details.comments = comments.to_vec();
        run
    };
    let delivered = || {
        let comments = store.comments(&of.id).unwrap().into_iter();
        let delivered: Vec<_> = comments.map(|one| one.details.delivered).collect();
        delivered
    };
    let to = |run: &RunRecord| Some(Delivered::Run(run.id.to_string()));
    let (mut first, second) = (with(&[1, 2]), with(&[2]));
    assert_eq!(store.insert_run(&first).unwrap(), None);
    assert_eq!(delivered(), [to(&first), to(&first)]);
    let taken = store.insert_run(&second).unwrap_err();
    assert!(matches!(taken, StoreError::CommentsTaken(_)), "{taken}");
    assert_eq!(store.run(&second.id).unwrap(), None);

    // It could not be started.
    store.take_back_run(&first).unwrap();
    assert_eq!(delivered(), [None, None]);
    // The daemon died before it started, and the same request comes again.
    store.insert_run(&first).unwrap();
    first.state = RunState::Lost;
    store.save_run(&first).unwrap();
    assert_eq!(delivered(), [None, None]);
    first.state = RunState::Queued;
    store.renew_run(&first).unwrap();
    assert_eq!(delivered(), [to(&first), to(&first)]);
    // It has started: its comments stay delivered, also when its record is deleted for its age.
    (first.state, first.details.started_ms) = (RunState::Lost, Some(1));
    store.save_run(&first).unwrap();
    store.forget_run(&first.id).unwrap();
    assert_eq!(delivered(), [to(&first), to(&first)]);
}

fn a_key_is_used_once(
    store: &impl Store,
    one: &holm_engine::store::WorkspaceRecord,
    other: &holm_engine::store::WorkspaceRecord,
) {
    let barrier = Barrier::new(4);
    let inserted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let earlier = store.insert_run(&run(one, Some("key"))).unwrap();
                    usize::from(earlier.is_none())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(inserted, 1);
    // Another workspace's is another key, and no key is none.
    assert_eq!(store.insert_run(&run(other, Some("key"))).unwrap(), None);
    assert_eq!(store.insert_run(&run(other, None)).unwrap(), None);
    assert_eq!(store.insert_run(&run(other, None)).unwrap(), None);
    let filter = RunFilter {
        workspace: Some(one.id.clone()),
        limit: 10,
        ..RunFilter::default()
    };
    let mut found = store.runs(&filter).unwrap();
    let (_, mut known) = found.pop().unwrap();
    assert_eq!(
        (found.len(), store.run(&known.id).unwrap()),
        (0, Some(known.clone()))
    );
    assert_eq!(store.open_runs().unwrap().len(), 4);
    known.state = RunState::Failed;
    known.details.exit_code = Some(3);
    store.save_run(&known).unwrap();
    assert_eq!(store.run(&known.id).unwrap(), Some(known.clone()));
    assert_eq!(store.open_runs().unwrap().len(), 3);
    let same = store.insert_run(&run(one, Some("key"))).unwrap();
    assert_eq!(same, Some(known));
}

fn runs_are_listed_by_the_newest(store: &impl Store, one: &holm_engine::store::WorkspaceRecord) {
    let mut made = Vec::new();
    for _ in 0..5 {
        let mut next = run(one, None);
        store.insert_run(&next).unwrap();
        next.state = RunState::Succeeded;
        store.save_run(&next).unwrap();
        made.push(next.id);
    }
    made.reverse();
    let page = |before| {
        let filter = RunFilter {
            state: Some(RunState::Succeeded),
            before,
            limit: 3,
            ..RunFilter::default()
        };
        store.runs(&filter).unwrap()
    };
    let ids = |page: &[(i64, RunRecord)]| -> Vec<RunId> {
        page.iter().map(|(_, run)| run.id.clone()).collect()
    };
    let first = page(None);
    assert_eq!(ids(&first), made[..3]);
    assert_eq!(ids(&page(Some(first[2].0))), made[3..]);
    let by_id = RunFilter {
        prefix: Some(made[1].as_str()[..9].to_owned()),
        limit: 10,
        ..RunFilter::default()
    };
    assert_eq!(ids(&store.runs(&by_id).unwrap()), [made[1].clone()]);
    // The one that failed before is even older.
    assert_eq!(store.surplus_runs(&one.id, 3).unwrap()[..2], made[3..]);
    assert_eq!(store.surplus_runs(&one.id, 3).unwrap().len(), 3);
    store.forget_run(&made[0]).unwrap();
    assert_eq!(store.run(&made[0]).unwrap(), None);
}
