//! What every store must do with tokens and with the record of who did what.

use crate::conformance::at;
use holm_core::{RequestId, TokenId, WorkspaceId};
use holm_engine::store::{AUDIT_KEPT, AuditEntry, RecordHead, Store, TokenRecord};

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
    assert_eq!(store.audit(None, 10).unwrap(), []);
    let entry = |status: u16| AuditEntry {
        at: at(3),
        actor: "user me".to_owned(),
        request: RequestId::random(),
        method: "POST".to_owned(),
        route: "/workspaces/{id}/start".to_owned(),
        workspace: (status == 200).then(WorkspaceId::random),
        status,
        code: (status != 200).then(|| "refused".to_owned()),
        count: 3,
    };
    let [first, second] = [entry(200), entry(409)];
    store.add_audit(&first).unwrap();
    store.add_audit(&second).unwrap();
    let found = store.audit(None, 10).unwrap();
    let entries: Vec<_> = found.iter().map(|record| &record.entry).collect();
    assert_eq!(entries, [&second, &first]);
    assert_eq!(store.audit(None, 1).unwrap(), found[..1]);
    let before = Some(found[0].cursor);
    assert_eq!(store.audit(before, 10).unwrap(), found[1..]);
    assert_eq!(store.audit(Some(u64::MAX), 10).unwrap(), found);
    for _ in 0..AUDIT_KEPT {
        store.add_audit(&first).unwrap();
    }
    let kept = store.audit(None, usize::MAX).unwrap();
    assert_eq!(kept.len() as u64, AUDIT_KEPT);
}
