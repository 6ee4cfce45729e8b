//! What every store must do with approvals, tokens and the audit record.

use crate::conformance::{at, project};
use holm_core::clock::{Ahead, ClockRecord};
use holm_core::token::Holder;
use holm_core::trust::Ask;
use holm_core::{RequestId, TokenId, WorkspaceId};
use holm_engine::store::{
    AUDIT_KEPT, Approval, AuditEntry, AuditFilter, AuditNote, AuditOutcome, AuditResults,
    RecordHead, Store, TokenRecord,
};
use std::time::Duration;

pub fn check<S: Store>(fresh: impl Fn() -> S) {
    approvals_are_exact(&fresh());
    tokens_come_and_go(&fresh());
    the_audit_is_kept_in_order_and_not_for_ever(&fresh());
    the_head_of_a_record_goes_forward_only(&fresh());
    what_was_seen_of_the_clock_is_kept(&fresh());
}

fn the_head_of_a_record_goes_forward_only(store: &impl Store) {
    assert_eq!(store.secrets_head().unwrap(), None);
    let head = |number: u64, hash: &str| RecordHead {
        number,
        hash: hash.to_owned(),
    };
    for (given, expected) in [
        (head(3, "c"), head(3, "c")),
        (head(2, "b"), head(3, "c")),
        (head(3, "x"), head(3, "c")),
        (head(4, "d"), head(4, "d")),
    ] {
        store.set_secrets_head(&given).unwrap();
        assert_eq!(store.secrets_head().unwrap(), Some(expected));
    }
}

fn what_was_seen_of_the_clock_is_kept(store: &impl Store) {
    assert_eq!(store.clock().unwrap(), None);
    let seconds = Duration::from_secs;
    for ahead in [None, Some((1, 2)), None] {
        let seen = ClockRecord {
            boot: "boot".to_owned(),
            boottime: Duration::from_millis(5001),
            wall: seconds(1_800_000_000),
            latest: seconds(1_900_000_000),
            ahead: ahead.map(|(by, since)| Ahead {
                by: seconds(by),
                since: seconds(since),
            }),
        };
        store.set_clock(&seen).unwrap();
        assert_eq!(store.clock().unwrap(), Some(seen));
    }
}

fn tokens_come_and_go(store: &impl Store) {
    assert_eq!(store.tokens().unwrap(), []);
    let token = |second: i64, workspace: Option<WorkspaceId>| TokenRecord {
        id: TokenId::random(),
        name: "my läptop".to_owned(),
        digest: [second as u8; 32],
        created_at: at(second),
        expires_at: workspace.as_ref().map(|_| at(second + 1)),
        expired_at: None,
        holder: if workspace.is_some() {
            Holder::Approver
        } else {
            Holder::Browser
        },
        workspace,
    };
    let [later, earlier] = [token(2, None), token(1, Some(WorkspaceId::random()))];
    store.add_token(&later).unwrap();
    store.add_token(&earlier).unwrap();
    assert!(store.add_token(&later).is_err());
    assert_eq!(store.tokens().unwrap(), [earlier.clone(), later.clone()]);
    // The first time that it was seen to be over counts.
    store.expire_token(&earlier.id, at(5)).unwrap();
    store.expire_token(&earlier.id, at(9)).unwrap();
    let expired = TokenRecord {
        expired_at: Some(at(5)),
        ..earlier.clone()
    };
    assert_eq!(store.tokens().unwrap(), [expired, later.clone()]);
    store.remove_token(&earlier.id).unwrap();
    store.remove_token(&earlier.id).unwrap();
    assert_eq!(store.tokens().unwrap(), [later]);
}

fn the_audit_is_kept_in_order_and_not_for_ever(store: &impl Store) {
    let all = AuditFilter::default();
    assert_eq!(store.audit(&all, 10).unwrap(), []);
    let entry = |status: u16| AuditEntry {
        at: at(3),
        actor: "user me".to_owned(),
        request: RequestId::random(),
        method: "POST".to_owned(),
        route: "/workspaces/{id}/start".to_owned(),
        workspace: (status == 200).then(WorkspaceId::random),
        status,
        code: (status != 200).then(|| "refused".to_owned()),
        subject: Some("run r".to_owned()),
        outcome: None,
        evidence: None,
        count: 3,
    };
    let [first, second] = [entry(200), entry(409)];
    store.add_audit(&first).unwrap();
    store.add_audit(&second).unwrap();
    let found = store.audit(&all, 10).unwrap();
    let entries: Vec<_> = found.iter().map(|record| &record.entry).collect();
    assert_eq!(entries, [&second, &first]);
    assert_eq!(store.audit(&all, 1).unwrap(), found[..1]);
    let wanted = |filter: AuditFilter| store.audit(&filter, 10).unwrap();
    let before = |cursor: u64| AuditFilter {
        before: Some(cursor),
        ..AuditFilter::default()
    };
    assert_eq!(wanted(before(found[0].cursor)), found[1..]);
    assert_eq!(wanted(before(u64::MAX)), found);
    let bad = AuditFilter {
        results: AuditResults::Bad,
        ..AuditFilter::default()
    };
    assert_eq!(wanted(bad.clone()), found[..1]);
    for (actor, count) in [("me", 2), ("user", 2), ("you", 0), ("%", 0)] {
        let actor = Some(actor.to_owned());
        let of_actor = AuditFilter {
            actor,
            ..AuditFilter::default()
        };
        assert_eq!(wanted(of_actor).len(), count);
    }
    for (second, count) in [(3, 2), (4, 0)] {
        let since = AuditFilter {
            since: Some(at(second)),
            ..AuditFilter::default()
        };
        assert_eq!(wanted(since).len(), count);
    }
    let of_workspace = AuditFilter {
        workspace: first.workspace.clone(),
        ..AuditFilter::default()
    };
    assert_eq!(wanted(of_workspace), found[1..]);
    // The later result of a request that seemed successful.
    let made = WorkspaceId::random();
    let ended = AuditOutcome {
        request: first.request.clone(),
        workspace: Some(made.clone()),
        outcome: "failed".to_owned(),
        code: Some("start_failed".to_owned()),
    };
    store
        .note_audit(&[AuditNote::Outcome(ended.clone())])
        .unwrap();
    let failed = &wanted(bad)[1].entry;
    assert_eq!(failed.outcome.as_deref(), Some("failed"));
    assert_eq!(
        (&failed.workspace, &failed.code),
        (&Some(made), &ended.code)
    );
    for _ in 0..AUDIT_KEPT {
        store.add_audit(&first).unwrap();
    }
    let kept = store.audit(&all, usize::MAX).unwrap();
    assert_eq!(kept.len() as u64, AUDIT_KEPT);
}

fn approvals_are_exact(store: &impl Store) {
    let (shop, blog) = (project("shop"), project("blog"));
    store.save_project(&shop).unwrap();
    store.save_project(&blog).unwrap();
    assert_eq!(store.last_approval(&shop.id).unwrap(), None);
    let [first, second] = [approval("abc", 0), approval("def", 1)];
    for approval in [&first, &second] {
        store.approve(&shop.id, approval).unwrap();
        let last = store.last_approval(&shop.id).unwrap();
        assert_eq!(last.as_ref(), Some(approval));
    }
    let again = approval("abc", 2);
    store.approve(&shop.id, &again).unwrap();
    assert_eq!(store.last_approval(&shop.id).unwrap(), Some(again));
    assert_eq!(store.last_approval(&blog.id).unwrap(), None);
    assert!(store.is_approved(&shop.id, "abc").unwrap());
    assert!(!store.is_approved(&shop.id, "abcd").unwrap());
    assert!(!store.is_approved(&blog.id, "abc").unwrap());
    store.remove_project(&shop.id).unwrap();
    assert!(!store.is_approved(&shop.id, "abc").unwrap());
    assert_eq!(store.last_approval(&shop.id).unwrap(), None);
}

pub fn approval(digest: &str, second: i64) -> Approval {
    let ask = |word: &str| Ask {
        key: format!("project.{word}"),
        words: format!("words \"{word}\" of {digest}"),
        canonical: format!("{word} = {digest}"),
    };
    Approval {
        digest: digest.to_owned(),
        asks: vec![ask("nested"), ask("include")],
        at: at(second),
    }
}
