//! What every store must do. [`check`] runs all of it against a store that begins empty each time;
//! a second implementation calls the same function.

use holm_core::config::EgressMode;
use holm_core::plan::{Action, Desired};
use holm_core::state::Birth;
use holm_core::{Label, WorkspaceId};
use holm_engine::store::{
    Canonical, Claim, EVENTS_KEPT, Event, Keyed, Outcome, ProjectRemoval, RequestKey, Store,
    StoreError, WorkspaceRecord,
};
use jiff::ToSpan;
use std::sync::Barrier;

/// Runs the whole suite; `fresh` makes an empty store.
pub fn check<S: Store>(fresh: impl Fn() -> S) {
    what_is_stored_comes_back(&fresh());
    names_of_projects_are_unique(&fresh());
    labels_are_unique_among_the_living(&fresh());
    one_of_many_gets_the_label(&fresh());
    what_changes_is_one_field(&fresh());
    a_project_in_use_stays(&fresh());
    only_the_unborn_are_forgotten(&fresh());
    the_trash_gives_back_and_forgets(&fresh());
    the_journal_says_what_is_unfinished(&fresh());
    host_ports_have_one_owner(&fresh());
    one_of_many_gets_the_host_port(&fresh());
    canonical_ports_change_together(&fresh());
    events_are_kept_in_order_and_not_for_ever(&fresh());
    crate::runs::check(&fresh());
    keys_stand_for_one_request_until_they_are_forgotten(&fresh());
    what_is_not_there_is_said(&fresh());
    crate::review::check(&fresh());
    crate::access::check(fresh);
}

pub use crate::records::{project, workspace};
pub use crate::review::at;

fn what_is_stored_comes_back(store: &impl Store) {
    let mut shop = project("shop");
    store.save_project(&shop).unwrap();
    assert_eq!(store.project(&shop.id).unwrap(), Some(shop.clone()));
    shop.path = "/elsewhere".to_owned();
    shop.refs_digest = Some("d".to_owned());
    store.save_project(&shop).unwrap();
    assert_eq!(store.projects().unwrap(), vec![(shop.clone(), 0)]);

    let first = workspace(&shop, "first");
    let mut second = workspace(&shop, "second");
    second.created_at = first.created_at - 1.millisecond();
    store.insert_workspace(&first).unwrap();
    store.insert_workspace(&second).unwrap();
    assert_eq!(store.workspace(&first.id).unwrap(), Some(first.clone()));
    let found = store.live_workspace(&shop.id, &first.label).unwrap();
    assert_eq!(found.as_ref(), Some(&first));
    assert_eq!(store.live_workspaces().unwrap(), vec![second, first]);
    assert_eq!(store.projects().unwrap(), vec![(shop, 2)]);
}

fn names_of_projects_are_unique(store: &impl Store) {
    let (one, other) = (project("shop"), project("shop"));
    store.save_project(&one).unwrap();
    let error = store.save_project(&other).unwrap_err();
    assert!(matches!(error, StoreError::NameTaken(_)), "{error}");
    assert_eq!(store.project(&other.id).unwrap(), None);
    store.remove_project(&one.id).unwrap();
    store.save_project(&other).unwrap();
}

fn labels_are_unique_among_the_living(store: &impl Store) {
    let (shop, blog) = (project("shop"), project("blog"));
    store.save_project(&shop).unwrap();
    store.save_project(&blog).unwrap();
    let first = workspace(&shop, "fix");
    store.insert_workspace(&first).unwrap();
    let error = store
        .insert_workspace(&workspace(&shop, "fix"))
        .unwrap_err();
    assert!(
        matches!(&error, StoreError::LabelTaken { holder, .. } if *holder == first.id),
        "{error}"
    );
    store.insert_workspace(&workspace(&blog, "fix")).unwrap();

    let other = workspace(&shop, "other");
    store.insert_workspace(&other).unwrap();
    let error = store.set_label(&other.id, &first.label, at(7)).unwrap_err();
    assert!(matches!(error, StoreError::LabelTaken { .. }), "{error}");
    store.set_label(&first.id, &first.label, at(7)).unwrap();
    let same = store.workspace(&first.id).unwrap();
    assert_eq!(
        same.map(|same| same.labelled_at),
        Some(at(1)),
        "it had it before"
    );

    store.set_removed(&first.id, at(9)).unwrap();
    store.set_label(&other.id, &first.label, at(7)).unwrap();
    let held = store.live_workspace(&shop.id, &first.label).unwrap();
    assert_eq!(held.map(|workspace| workspace.id), Some(other.id));
}

fn one_of_many_gets_the_label(store: &impl Store) {
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    let begin = Barrier::new(16);
    let won: usize = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    let candidate = workspace(&shop, "same");
                    begin.wait();
                    usize::from(store.insert_workspace(&candidate).is_ok())
                })
            })
            .collect();
        tries.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(won, 1);
    assert_eq!(store.live_workspaces().unwrap().len(), 1);
}

fn what_changes_is_one_field(store: &impl Store) {
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    let mut expect = workspace(&shop, "one");
    let id = expect.id.clone();
    store.insert_workspace(&expect).unwrap();
    let is = |expect: &WorkspaceRecord| {
        assert_eq!(store.workspace(&id).unwrap().as_ref(), Some(expect));
    };
    store.acknowledge(&id).unwrap();
    expect.birth = Birth::Acknowledged;
    is(&expect);
    for desired in [Desired::Stopped, Desired::Removed, Desired::Running] {
        store.set_desired(&id, desired).unwrap();
        expect.desired = desired;
        is(&expect);
    }
    let mut spec = (*expect.spec).clone();
    spec.network.egress.mode = EgressMode::Allow;
    store.set_spec(&id, &spec).unwrap();
    expect.spec = spec.into();
    is(&expect);
    expect.label = Label::parse("two").unwrap();
    expect.labelled_at = at(500);
    store.set_label(&id, &expect.label, at(500)).unwrap();
    is(&expect);
    for is_dirty in [true, false] {
        store.set_dirty(&id, is_dirty).unwrap();
        expect.dirty = Some(is_dirty);
        is(&expect);
    }
    store.touch(&id, at(1_000)).unwrap();
    store.touch(&id, at(999)).unwrap();
    expect.last_used_at = at(1_000);
    is(&expect);
    assert_eq!(
        store.latest_workspace(&shop.id).unwrap(),
        Some(expect.clone())
    );
    store.set_removed(&id, at(2_000)).unwrap();
    expect.removed_at = Some(at(2_000));
    is(&expect);
    assert_eq!(store.live_workspaces().unwrap(), Vec::new());
    assert_eq!(store.latest_workspace(&shop.id).unwrap(), Some(expect));
}

fn a_project_in_use_stays(store: &impl Store) {
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    let one = workspace(&shop, "one");
    store.insert_workspace(&one).unwrap();
    store.acknowledge(&one.id).unwrap();
    let error = store.remove_project(&shop.id).unwrap_err();
    assert!(
        matches!(error, StoreError::ProjectInUse { live: 1, .. }),
        "{error}"
    );
    store.set_removed(&one.id, at(5)).unwrap();
    // The trash still needs it.
    assert_eq!(
        store.remove_project(&shop.id).unwrap(),
        ProjectRemoval::Hidden
    );
    assert_eq!(store.projects().unwrap(), Vec::new());
    assert_eq!(store.project(&shop.id).unwrap(), Some(shop.clone()));
    store.save_project(&shop).unwrap();
    assert_eq!(store.projects().unwrap(), vec![(shop, 0)]);

    let empty = project("empty");
    store.save_project(&empty).unwrap();
    assert_eq!(
        store.remove_project(&empty.id).unwrap(),
        ProjectRemoval::Deleted
    );
    assert_eq!(store.project(&empty.id).unwrap(), None);
}

fn only_the_unborn_are_forgotten(store: &impl Store) {
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    let (unborn, born) = (workspace(&shop, "unborn"), workspace(&shop, "born"));
    for one in [&unborn, &born] {
        store.insert_workspace(one).unwrap();
        store.journal(&one.id, &[Action::MakeFiles]).unwrap();
    }
    store.acknowledge(&born.id).unwrap();
    store.forget_unborn(&unborn.id).unwrap();
    assert_eq!(store.workspace(&unborn.id).unwrap(), None);
    let error = store.forget_unborn(&born.id).unwrap_err();
    assert!(matches!(error, StoreError::Acknowledged(_)), "{error}");
    assert!(store.workspace(&born.id).unwrap().is_some());
}

fn the_trash_gives_back_and_forgets(store: &impl Store) {
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    let (mut old, new) = (workspace(&shop, "fix"), workspace(&shop, "fix"));
    store.insert_workspace(&old).unwrap();
    store.acknowledge(&old.id).unwrap();
    let label = |text: &str| Label::parse(text).unwrap();
    let refused = |result: Result<(), StoreError>| {
        let error = result.unwrap_err();
        assert!(matches!(error, StoreError::NoSuchWorkspace(_)), "{error}");
    };
    refused(store.take_back(&old.id, &label("fix"), at(1)));
    refused(store.forget_trashed(&old.id));
    assert_eq!(store.trashed_workspaces().unwrap(), []);
    store.set_desired(&old.id, Desired::Removed).unwrap();
    store.set_removed(&old.id, at(5)).unwrap();
    old = store.workspace(&old.id).unwrap().unwrap();
    assert_eq!(store.trashed_workspaces().unwrap(), [old.clone()]);

    store.insert_workspace(&new).unwrap();
    store.acknowledge(&new.id).unwrap();
    let error = store.take_back(&old.id, &label("fix"), at(9)).unwrap_err();
    assert!(matches!(error, StoreError::LabelTaken { .. }), "{error}");
    store.take_back(&old.id, &label("fix-2"), at(9)).unwrap();
    let back = store.workspace(&old.id).unwrap().unwrap();
    assert_eq!((back.removed_at, back.desired), (None, Desired::Stopped));
    assert_eq!((back.label, back.last_used_at), (label("fix-2"), at(9)));
    // Until its files are back a daemon that starts has to look after it.
    let unfinished = store.unfinished().unwrap();
    assert_eq!(unfinished.len(), 1);
    refused(store.take_back(&old.id, &label("fix-3"), at(9)));

    store.return_to_trash(&old).unwrap();
    old.last_used_at = at(9);
    assert_eq!(store.workspace(&old.id).unwrap(), Some(old.clone()));
    assert_eq!(store.unfinished().unwrap(), []);

    store.remove_project(&shop.id).unwrap_err();
    store.set_removed(&new.id, at(6)).unwrap();
    store.remove_project(&shop.id).unwrap();
    assert_eq!(store.abandoned_projects().unwrap(), []);
    store.forget_trashed(&old.id).unwrap();
    store.forget_trashed(&new.id).unwrap();
    assert_eq!(store.workspace(&old.id).unwrap(), None);
    assert_eq!(store.abandoned_projects().unwrap(), vec![shop.id.clone()]);
    store.remove_project(&shop.id).unwrap();
    assert_eq!(store.project(&shop.id).unwrap(), None);
}

fn the_journal_says_what_is_unfinished(store: &impl Store) {
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    let unfinished = || -> Vec<WorkspaceId> {
        let found = store.unfinished().unwrap().into_iter();
        found.map(|workspace| workspace.id).collect()
    };
    let one = workspace(&shop, "one");
    store.insert_workspace(&one).unwrap();
    assert_eq!(unfinished(), vec![one.id.clone()]);
    let actions = [Action::BuildBase, Action::MakeFiles, Action::Launch];
    assert_eq!(store.journal(&one.id, &actions).unwrap().len(), 3);
    // What was planned for a creation is done when the workspace is acknowledged.
    store.acknowledge(&one.id).unwrap();
    assert_eq!(unfinished(), Vec::new());
    let entries = store.journal(&one.id, &actions).unwrap();
    assert_eq!(unfinished(), vec![one.id.clone()]);
    store.end_entries(&entries).unwrap();
    assert_eq!(unfinished(), Vec::new());
    let entries = store.journal(&one.id, &actions).unwrap();
    store.end_entries(&entries[..1]).unwrap();
    let failed = Outcome::Failed("why".to_owned());
    store.end_entry(entries[1], &failed).unwrap();
    assert_eq!(unfinished(), vec![one.id.clone()]);
    store.drop_open_entries(&one.id).unwrap();
    assert_eq!(unfinished(), Vec::new());

    store.set_desired(&one.id, Desired::Removed).unwrap();
    assert_eq!(unfinished(), vec![one.id.clone()]);
    store.set_removed(&one.id, at(7)).unwrap();
    assert_eq!(unfinished(), Vec::new());
    for _ in 0..200 {
        let entries = store.journal(&one.id, &[Action::Halt]).unwrap();
        store.end_entry(entries[0], &Outcome::Done).unwrap();
    }
    assert_eq!(unfinished(), Vec::new());
}

pub fn claim(workspace: &WorkspaceId, port: u16, host_port: u16) -> Claim {
    Claim {
        workspace: workspace.clone(),
        port,
        host_port,
    }
}

fn host_ports_have_one_owner(store: &impl Store) {
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    let (one, two) = (workspace(&shop, "one"), workspace(&shop, "two"));
    for workspace in [&one, &two] {
        store.insert_workspace(workspace).unwrap();
        store.acknowledge(&workspace.id).unwrap();
    }
    let taken = |claim: Claim| {
        let error = store.claim_port(&claim, at(9)).unwrap_err();
        assert!(matches!(error, StoreError::PortTaken(_)), "{error}");
    };
    store
        .claim_port(&claim(&one.id, 3000, 20_001), at(1))
        .unwrap();
    store
        .claim_port(&claim(&one.id, 3000, 20_001), at(2))
        .unwrap();
    store
        .claim_port(&claim(&two.id, 3000, 20_002), at(2))
        .unwrap();
    taken(claim(&two.id, 8080, 20_001));
    assert_eq!(
        store.claims().unwrap(),
        [claim(&one.id, 3000, 20_001), claim(&two.id, 3000, 20_002)]
    );

    // Another host port for the same port: the first has no owner any more, and stays so.
    store
        .claim_port(&claim(&one.id, 3000, 20_003), at(3))
        .unwrap();
    assert_eq!(store.abandoned_ports().unwrap(), [20_001]);
    taken(claim(&two.id, 8080, 20_001));
    // A host port of a workspace may be moved to another port of it.
    store
        .claim_port(&claim(&one.id, 4000, 20_003), at(4))
        .unwrap();
    assert_eq!(
        store.claims().unwrap(),
        [claim(&two.id, 3000, 20_002), claim(&one.id, 4000, 20_003)]
    );

    // In the trash it keeps its ports; after it is deleted no other workspace gets them at once.
    store.set_removed(&one.id, at(5)).unwrap();
    taken(claim(&two.id, 8080, 20_003));
    store.forget_trashed(&one.id).unwrap();
    assert_eq!(store.claims().unwrap(), [claim(&two.id, 3000, 20_002)]);
    taken(claim(&two.id, 8080, 20_003));
    assert_eq!(store.abandoned_ports().unwrap(), [20_001, 20_003]);
    store.forget_abandoned_port(20_002).unwrap();
    store.forget_abandoned_port(20_003).unwrap();
    store
        .claim_port(&claim(&two.id, 8080, 20_003), at(6))
        .unwrap();
    assert_eq!(
        store.claims().unwrap().len(),
        2,
        "what is somebody's is not forgotten"
    );
    let error = store
        .claim_port(&claim(&one.id, 1, 20_009), at(9))
        .unwrap_err();
    assert!(matches!(error, StoreError::NoSuchWorkspace(_)), "{error}");
}

fn one_of_many_gets_the_host_port(store: &impl Store) {
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    let workspaces: Vec<_> = (0..16)
        .map(|number| workspace(&shop, &format!("w-{number}")))
        .collect();
    for workspace in &workspaces {
        store.insert_workspace(workspace).unwrap();
    }
    let begin = Barrier::new(16);
    let won: usize = std::thread::scope(|scope| {
        let begin = &begin;
        let tries: Vec<_> = workspaces
            .iter()
            .map(|workspace| {
                scope.spawn(move || {
                    begin.wait();
                    let claimed = store.claim_port(&claim(&workspace.id, 3000, 20_000), at(1));
                    usize::from(claimed.is_ok())
                })
            })
            .collect();
        tries.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(won, 1);
    assert_eq!(store.claims().unwrap().len(), 1);
}

fn canonical_ports_change_together(store: &impl Store) {
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    let (one, two) = (workspace(&shop, "one"), workspace(&shop, "two"));
    store.insert_workspace(&one).unwrap();
    store.insert_workspace(&two).unwrap();
    let lead = |port: u16, to: &WorkspaceRecord| Canonical {
        port,
        workspace: to.id.clone(),
    };
    let both = [lead(3000, &one), lead(8080, &two)];
    store.set_canonical(&both).unwrap();
    assert_eq!(store.canonical().unwrap(), both);
    store.set_removed(&two.id, at(1)).unwrap();
    let error = store.set_canonical(&[lead(3000, &one), lead(1, &two)]);
    let error = error.unwrap_err();
    assert!(matches!(error, StoreError::NoSuchWorkspace(_)), "{error}");
    assert_eq!(store.canonical().unwrap(), both, "nothing is half changed");
    store.set_canonical(&[]).unwrap();
    assert_eq!(store.canonical().unwrap(), []);
}

fn events_are_kept_in_order_and_not_for_ever(store: &impl Store) {
    assert_eq!(store.last_event().unwrap(), 0);
    let id = WorkspaceId::random();
    let event = |kind: &str| Event {
        at: at(3),
        kind: kind.to_owned(),
        workspace: id.clone(),
        detail: "{\"port\":3000}".to_owned(),
    };
    let first = store.add_event(&event("port.opened")).unwrap();
    let second = store.add_event(&event("port.closed")).unwrap();
    assert!(second > first);
    let found = store.events(0, 10).unwrap();
    assert_eq!(found[0].event, event("port.opened"));
    let cursors: Vec<u64> = found.iter().map(|record| record.cursor).collect();
    assert_eq!(cursors, [first, second]);
    assert_eq!(store.events(first, 10).unwrap()[0].cursor, second);
    assert_eq!(store.events(0, 1).unwrap().len(), 1);
    assert_eq!(store.events(u64::MAX, 1).unwrap(), []);
    for _ in 0..EVENTS_KEPT {
        store.add_event(&event("port.opened")).unwrap();
    }
    let kept = store.events(0, usize::MAX).unwrap();
    assert_eq!(kept.len() as u64, EVENTS_KEPT);
    assert_eq!(kept.last().map(|last| last.cursor), store.last_event().ok());
}

fn keys_stand_for_one_request_until_they_are_forgotten(store: &impl Store) {
    store.check().unwrap();
    let key = |scope: &str| RequestKey {
        scope: scope.to_owned(),
        key: "k".to_owned(),
    };
    let (mine, yours) = (key("uid:1 workspaces"), key("uid:2 workspaces"));
    assert_eq!(store.key(&mine).unwrap(), None);
    store.note_key(&mine, "digest", at(1)).unwrap();
    store.begin_key(&mine, "w1").unwrap();
    store.answer_key(&mine, "{}").unwrap();
    let known = Keyed {
        digest: "digest".to_owned(),
        subject: Some("w1".to_owned()),
        answer: Some("{}".to_owned()),
        at: at(1),
    };
    assert_eq!(store.key(&mine).unwrap(), Some(known));
    assert_eq!(store.key(&yours).unwrap(), None, "it is another's");
    store.note_key(&mine, "other", at(2)).unwrap();
    let renewed = store.key(&mine).unwrap().unwrap();
    assert_eq!((renewed.subject, renewed.answer), (None, None));
    store.note_key(&yours, "digest", at(3)).unwrap();
    store.forget_keys(at(2)).unwrap();
    assert_eq!(store.key(&mine).unwrap(), None);
    assert!(store.key(&yours).unwrap().is_some());
    store.forget_key(&yours).unwrap();
    assert_eq!(store.key(&yours).unwrap(), None);
}

fn what_is_not_there_is_said(store: &impl Store) {
    let nobody = WorkspaceId::random();
    let nowhere = project("nowhere");
    let missing = |result: Result<(), StoreError>| {
        let error = result.unwrap_err();
        assert!(matches!(error, StoreError::NoSuchWorkspace(_)), "{error}");
    };
    missing(store.set_desired(&nobody, Desired::Running));
    missing(store.set_spec(&nobody, &workspace(&nowhere, "nobody").spec));
    missing(store.set_label(&nobody, &Label::parse("x").unwrap(), at(0)));
    missing(store.acknowledge(&nobody));
    missing(store.set_removed(&nobody, at(0)));
    missing(store.forget_unborn(&nobody));
    missing(store.touch(&nobody, at(0)));
    missing(store.set_dirty(&nobody, true));
    missing(store.journal(&nobody, &[Action::Halt]).map(|_| ()));
    let error = store
        .insert_workspace(&workspace(&nowhere, "x"))
        .unwrap_err();
    assert!(matches!(error, StoreError::NoSuchProject(_)), "{error}");
    let error = store.remove_project(&nowhere.id).unwrap_err();
    assert!(matches!(error, StoreError::NoSuchProject(_)), "{error}");
    let error = store
        .approve(&nowhere.id, &crate::access::approval("x", 0))
        .unwrap_err();
    assert!(matches!(error, StoreError::NoSuchProject(_)), "{error}");
    assert_eq!(store.workspace(&nobody).unwrap(), None);
    assert_eq!(store.latest_workspace(&nowhere.id).unwrap(), None);
}
