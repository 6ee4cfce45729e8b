//! Copies, backups, and what a restored backup has.

use crate::cluster::Cluster;
use crate::conformance::{at, project, workspace};
use crate::postgres::server;
use holm_engine::store::{Store, StoreError};
use holm_store::{Place, PostgresStore, SqliteStore, backup, copy, restore};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Fills a store, with rows that were deleted between others.
fn fill(store: &impl Store) {
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    for number in 0..30 {
        let one = workspace(&shop, &format!("w{number}"));
        store.insert_workspace(&one).unwrap();
        store
            .journal(&one.id, &[holm_core::plan::Action::Halt])
            .unwrap();
        if number % 3 == 0 {
            store.forget_unborn(&one.id).unwrap();
        }
    }
}

fn labels(store: &impl Store) -> Vec<String> {
    let found = store.live_workspaces().unwrap().into_iter();
    found.map(|workspace| workspace.label.to_string()).collect()
}

#[test]
fn a_copy_to_postgres_and_back_is_equal() {
    let cluster = Cluster::start();
    let database = Place::Server(Box::new(server(&cluster.database("holm"))));
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let store = SqliteStore::open(&file("one.db")).unwrap();
    fill(&store);
    let expect = labels(&store);
    drop(store);
    let there = copy(&Place::File(file("one.db")), &database).unwrap();
    let back = copy(&database, &Place::File(file("two.db"))).unwrap();
    assert_eq!(there, back);
    let rows = |table: &str| {
        there
            .iter()
            .find(|content| content.table == table)
            .unwrap()
            .rows
    };
    assert_eq!((rows("workspaces"), rows("projects")), (20, 1));
    let store = SqliteStore::open(&file("two.db")).unwrap();
    assert_eq!(labels(&store), expect);
    drop(store);

    // A store with content is never written over, and one that is not there is no empty one.
    let error = copy(&Place::File(file("one.db")), &database).unwrap_err();
    assert!(matches!(error, StoreError::NotEmpty { .. }), "{error}");
    let error = copy(&database, &Place::File(file("one.db"))).unwrap_err();
    assert!(matches!(error, StoreError::NotEmpty { .. }), "{error}");
    let error = copy(&Place::File(file("none.db")), &database).unwrap_err();
    assert!(matches!(error, StoreError::Empty { .. }), "{error}");

    // A copy works on while the source is not looked at, and a store in use is refused.
    let used = PostgresStore::open(server(&cluster.url("holm")), &file("copy.db")).unwrap();
    assert_eq!(labels(&used), expect);
    let error = copy(&database, &Place::File(file("three.db"))).unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
}

/// Opens the store that a place is.
type Opens<'a> = dyn Fn() -> Box<dyn Store> + 'a;

#[test]
fn a_backup_is_made_while_the_store_is_used_and_can_be_restored() {
    let cluster = Cluster::start();
    let url = cluster.database("holm");
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let stores: [(Box<Opens<'_>>, Place); 2] = [
        (
            Box::new(|| Box::new(SqliteStore::open(&file("holm.db")).unwrap())),
            Place::File(file("holm.db")),
        ),
        (
            Box::new(|| Box::new(PostgresStore::open(server(&url), &file("copy.db")).unwrap())),
            Place::Server(Box::new(server(&url))),
        ),
    ];
    for (open, place) in &stores {
        let store = open();
        fill_dyn(&*store);
        backup(place, &file("backup")).unwrap();
        assert_eq!(fs::metadata(file("backup")).unwrap().mode() & 0o777, 0o600);
        let shop = project("later");
        store.save_project(&shop).unwrap();
        drop(store);

        let error = restore(&file("backup"), place, None).unwrap_err();
        assert!(matches!(error, StoreError::NotEmpty { .. }), "{error}");
        let restored = restore(&file("backup"), place, Some(&file("aside"))).unwrap();
        assert_eq!(restored.kept.as_deref(), Some(&*file("aside")));
        let projects = |store: &dyn Store| store.projects().unwrap().len();
        let store = open();
        assert_eq!(
            (projects(&*store), store.live_workspaces().unwrap().len()),
            (1, 20)
        );
        drop(store);
        // What was there before is a store, too.
        let earlier = SqliteStore::open(&file("aside")).unwrap();
        assert_eq!(projects(&earlier), 2);
        drop(earlier);
        remove_aside(&file("aside"));
    }
    fs::write(file("damaged"), "not a backup").unwrap();
    for (_, place) in &stores {
        let error = restore(&file("damaged"), place, Some(&file("aside"))).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    }
    assert!(!file("aside").exists());
}

fn fill_dyn(store: &dyn Store) {
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    for number in 0..20 {
        store
            .insert_workspace(&workspace(&shop, &format!("w{number}")))
            .unwrap();
    }
    store
        .touch(&store.live_workspaces().unwrap()[0].id, at(70))
        .unwrap();
}

fn remove_aside(path: &Path) {
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{end}", path.display()));
    }
}
