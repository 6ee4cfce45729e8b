//! What every store must do with tokens and with the record of who did what.

use crate::conformance::at;
use holm_core::{RequestId, TokenId, WorkspaceId};
use holm_engine::store::{
    AUDIT_KEPT, AuditEntry, AuditFilter, AuditOutcome, AuditResults, RecordHead, Store, TokenRecord,
};

pub fn check<S: Store>(fresh: impl Fn() -> S) {
    tokens_come_and_go(&fresh());
    the_audit_is_kept_in_order_and_not_for_ever(&fresh());
    the_head_of_a_record_goes_forward_only(&fresh());
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

fn tokens_come_and_go(store: &impl Store) {
    assert_eq!(store.tokens().unwrap(), []);
    let token = |second: i64, workspace: Option<WorkspaceId>| TokenRecord {
        id: TokenId::random(),
        name: "my läptop".to_owned(),
        digest: [second as u8; 32],
        created_at: at(second),
        expires_at: workspace.as_ref().map(|_| at(second + 1)),
        workspace,
    };
    let [later, earlier] = [token(2, None), token(1, Some(WorkspaceId::random()))];
    store.add_token(&later).unwrap();
    store.add_token(&earlier).unwrap();
    assert!(store.add_token(&later).is_err());
    assert_eq!(store.tokens().unwrap(), [earlier.clone(), later.clone()]);
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
    // What came of one that seemed to go well.
    let made = WorkspaceId::random();
    let ended = AuditOutcome {
        request: first.request.clone(),
        workspace: Some(made.clone()),
        outcome: "failed".to_owned(),
        code: Some("start_failed".to_owned()),
    };
    store.end_audit(&ended).unwrap();
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
