//! What PostgreSQL adds: one user at a time, losing the database, its certificate, its password, versions.

use crate::cluster::Cluster;
use crate::conformance::{self, at, claim, project, workspace};
use holm_core::store_place::PostgresUrl;
use holm_core::{Code, Fault, Label};
use holm_engine::inbox::{InboxStore, NoticeRecord};
use holm_engine::review::ReviewStore;
use holm_engine::store::{Event, Store, StoreError};
use holm_store::{Place, PostgresStore, Server, backup};
use std::cell::RefCell;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub fn server(url: &str) -> Server {
    Server {
        url: PostgresUrl::parse(url).unwrap(),
        password_file: None,
        password_list: None,
        authorities: Vec::new,
    }
}

fn open(url: &str, directory: &Path) -> PostgresStore {
    PostgresStore::open(server(url), &directory.join("copy.db")).unwrap()
}

fn refused(server: Server) -> StoreError {
    let directory = tempfile::tempdir().unwrap();
    match PostgresStore::open(server, &directory.path().join("copy.db")) {
        Err(error) => error,
        Ok(_) => panic!("the database was opened"),
    }
}

fn event(detail: &str) -> Event {
    Event {
        at: at(1),
        kind: "test".to_owned(),
        workspace: workspace(&project("shop"), "one").id,
        detail: format!("{{\"detail\":\"{detail}\"}}"),
    }
}

/// The file with the copy and the database have the same rows.
fn are_equal(copy: &Path, url: &str) {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("backup");
    let of_copy = backup(&Place::File(copy.to_owned()), &target).unwrap();
    let of_server = backup(&Place::Server(Box::new(server(url))), &target).unwrap();
    assert_eq!(of_copy, of_server);
}

#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

#[test]
fn a_postgres_database_is_a_store() {
    let cluster = Cluster::start();
    let opened = RefCell::new(Vec::new());
    conformance::check(|| {
        let url = cluster.database(&format!("d{}", opened.borrow().len()));
        let directory = tempfile::tempdir().unwrap();
        let store = open(&url, directory.path());
        opened.borrow_mut().push((url, directory));
        store
    });
    let opened = opened.into_inner();
    assert!(opened.len() > 15);
    for (url, directory) in &opened {
        are_equal(&directory.path().join("copy.db"), url);
    }
}

#[test]
fn what_was_stored_is_there_after_reopening_and_no_number_is_used_twice() {
    let cluster = Cluster::start();
    let url = cluster.database("holm");
    let directory = tempfile::tempdir().unwrap();
    let shop = project("shop");
    let hostile = NoticeRecord {
        workspace: workspace(&shop, "one").id,
        at: at(1),
        source: None,
        text: "a zero \0 and '\"; DROP TABLE \u{f0000}".to_owned(),
        left_out: 0,
    };
    let mut one = workspace(&shop, "one");
    one.id = hostile.workspace.clone();
    let store = open(&url, directory.path());
    store.save_project(&shop).unwrap();
    store.insert_workspace(&one).unwrap();
    store.add_notice(&hostile).unwrap();
    let entries = store
        .journal(&one.id, &[holm_core::plan::Action::Halt])
        .unwrap();
    store.forget_unborn(&one.id).unwrap();
    store.insert_workspace(&one).unwrap();
    store.add_notice(&hostile).unwrap();
    let cursor = store.add_event(&event("x")).unwrap();
    drop(store);

    let store = open(&url, directory.path());
    assert_eq!(store.workspace(&one.id).unwrap().as_ref(), Some(&one));
    let notices = store
        .inbox_records()
        .unwrap()
        .remove(&one.id)
        .unwrap()
        .notices;
    assert_eq!(notices, [hostile]);
    assert_eq!(store.add_event(&event("y")).unwrap(), cursor + 1);
    let next = store
        .journal(&one.id, &[holm_core::plan::Action::Halt])
        .unwrap();
    assert!(
        next[0] > entries[0],
        "the entries of a deleted workspace count"
    );
    store.check().unwrap();
}

#[test]
fn a_database_has_one_user_at_a_time() {
    let cluster = Cluster::start();
    let url = cluster.database("holm");
    let [first, second] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let store = open(&url, first.path());
    let error = refused(server(&url));
    let StoreError::InUse { holder, .. } = &error else {
        panic!("{error}");
    };
    let named = format!("holm daemon, pid {}", std::process::id());
    assert!(holder.contains(&named), "{holder}");
    assert_eq!(Fault::from(error).code, Code::StoreInUse);

    // Many at once: one of them gets it, and the others get it when it is free.
    drop(store);
    let holders = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let directory = tempfile::tempdir().unwrap();
                let store = open(&url, directory.path());
                assert!(!holders.swap(true, Ordering::SeqCst), "two have it");
                store.add_event(&event("mine")).unwrap();
                holders.store(false, Ordering::SeqCst);
            });
        }
    });
    let store = open(&url, second.path());
    assert_eq!(store.events(0, 10).unwrap().len(), 4);

    // Another process had the database meanwhile: this one must not go on with what it knows.
    cluster.sql("holm", "UPDATE holm.state SET opened_by = 'another'");
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'holm%'";
    cluster.sql("holm", cut);
    let stale = || matches!(store.add_event(&event("z")), Err(StoreError::InUse { .. }));
    eventually("the earlier user is refused", stale);
    assert!(matches!(store.events(0, 1), Err(StoreError::InUse { .. })));
    drop(store);
    assert_eq!(cluster.sql("holm", "SELECT count(*) FROM holm.events"), "4");
}

#[test]
fn while_the_database_is_lost_reads_are_answered_facts_wait_and_changes_are_refused() {
    let mut cluster = Cluster::start();
    let url = cluster.database("holm");
    let directory = tempfile::tempdir().unwrap();
    let store = open(&url, directory.path());
    let shop = project("shop");
    let one = workspace(&shop, "one");
    store.save_project(&shop).unwrap();
    store.insert_workspace(&one).unwrap();
    store.acknowledge(&one.id).unwrap();
    cluster.kill();

    let label = Label::parse("other").unwrap();
    let error = store.set_label(&one.id, &label, at(5)).unwrap_err();
    let fault = Fault::from(error);
    assert_eq!(fault.code, Code::StoreUnavailable);
    assert!(fault.message().contains("postgres://me@"), "{fault}");
    // Perhaps that one was on its way when the server died; this one is not begun.
    let refused = store.insert_workspace(&workspace(&shop, "two"));
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })));
    assert!(store.flush().is_err() && store.check().is_err());
    let found = store.live_workspaces().unwrap();
    assert_eq!(found.len(), 1);
    let numbers: Vec<u64> = (0..50)
        .map(|number| store.add_event(&event(&number.to_string())).unwrap())
        .collect();
    store.touch(&one.id, at(9_000)).unwrap();
    store
        .claim_port(&claim(&one.id, 3000, 20_001), at(1))
        .unwrap();
    assert_eq!(store.events(0, 100).unwrap().len(), 50);
    assert_eq!(store.outages(), 0);

    cluster.restart();
    eventually("the store is back", || store.outages() == 1);
    store.check().unwrap();
    store.set_label(&one.id, &label, at(6)).unwrap();
    drop(store);
    let store = open(&url, directory.path());
    let cursors = store
        .events(0, 100)
        .unwrap()
        .into_iter()
        .map(|event| event.cursor);
    assert_eq!(cursors.collect::<Vec<_>>(), numbers);
    assert_eq!(store.claims().unwrap().len(), 1);
    let found = store.workspace(&one.id).unwrap().unwrap();
    assert_eq!((found.label, found.last_used_at), (label, at(9_000)));
}

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed_under_load() {
    let mut cluster = Cluster::start();
    let url = cluster.database("holm");
    let directory = tempfile::tempdir().unwrap();
    let store = open(&url, directory.path());
    let shop = project("shop");
    store.save_project(&shop).unwrap();
    let is_over = AtomicBool::new(false);
    let acknowledged = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (store, shop, is_over, acknowledged) = (&store, &shop, &is_over, &acknowledged);
            scope.spawn(move || {
                let mut number = 0;
                while !is_over.load(Ordering::SeqCst) {
                    number += 1;
                    let one = workspace(shop, &format!("w{thread}-{number}"));
                    if store.insert_workspace(&one).is_ok() {
                        acknowledged.lock().unwrap().push(one.id.clone());
                    }
                    store.add_event(&event("x")).unwrap();
                }
            });
        }
        for round in 1..=3 {
            let before = acknowledged.lock().unwrap().len();
            eventually("work goes on", || {
                acknowledged.lock().unwrap().len() > before + 20
            });
            cluster.kill();
            cluster.restart();
            eventually("the store is back", || store.outages() == round);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let events = store.last_event().unwrap();
    drop(store);
    let store = open(&url, directory.path());
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.len() > 60);
    for id in &acknowledged {
        assert!(store.workspace(id).unwrap().is_some(), "{id} is lost");
    }
    assert_eq!(store.last_event().unwrap(), events);
    are_equal(&directory.path().join("copy.db"), &url);
}

#[test]
fn a_newer_schema_is_refused_unchanged_and_an_older_one_is_migrated() {
    let cluster = Cluster::start();
    let url = cluster.database("holm");
    let directory = tempfile::tempdir().unwrap();
    let shop = project("shop");
    let one = workspace(&shop, "one");
    let turn = crate::review::turn(&one.id, 1);
    let store = open(&url, directory.path());
    store.save_project(&shop).unwrap();
    store.insert_workspace(&one).unwrap();
    store.add_turn(&turn).unwrap();
    drop(store);
    let dump = || {
        cluster.sql(
            "holm",
            "SELECT state, projects, turns FROM holm.state, holm.projects, holm.turns",
        )
    };

    cluster.sql("holm", "UPDATE holm.state SET version = 4711");
    let before = dump();
    let error = refused(server(&url));
    assert!(
        matches!(error, StoreError::Newer { found: 4711, .. }),
        "{error}"
    );
    assert_eq!(dump(), before);

    // As version 13 had it, with digests of volumes.
    cluster.sql(
        "holm",
        "UPDATE holm.turns SET details = jsonb_set(details::jsonb, '{volumes}', '{\"pg\":\"e3\"}')::text;
         DROP TABLE holm.turn_failures; ALTER TABLE holm.audit DROP COLUMN evidence;
         UPDATE holm.state SET version = 13",
    );
    let store = open(&url, directory.path());
    assert_eq!(store.turns(&one.id).unwrap(), [turn]);
    drop(store);
    are_equal(&directory.path().join("copy.db"), &url);
    assert_eq!(
        cluster.sql("holm", "SELECT count(*) FROM holm.turn_failures"),
        "0"
    );

    // What is not understood is an error, as in a file.
    cluster.sql("holm", "ALTER TABLE holm.projects DROP COLUMN name");
    assert!(matches!(refused(server(&url)), StoreError::Failed { .. }));
    cluster.sql("holm", "UPDATE holm.state SET version = 0");
    assert!(matches!(refused(server(&url)), StoreError::Corrupt { .. }));
}

#[test]
fn a_certificate_that_is_not_trusted_is_refused_and_a_password_is_never_shown() {
    let cluster = Cluster::start();
    let directory = tempfile::tempdir().unwrap();
    let private = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    };
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let own = private("own.pem", &made.cert.pem());
    let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let stranger = private("stranger.pem", &stranger.cert.pem());
    let name = "SELECT current_setting('data_directory')";
    let data = cluster.sql("postgres", name);
    let quoted = |text: &str| text.replace('\'', "''");
    for (file, text) in [
        ("server.crt", made.cert.pem()),
        ("server.key", made.signing_key.serialize_pem()),
    ] {
        let path = format!("{data}/{file}");
        cluster.sql("postgres", &format!("COPY (SELECT 1) TO '{path}'"));
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
    let rules = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\nhostnossl all all 127.0.0.1/32 trust\n";
    fs::write(format!("{data}/pg_hba.conf"), rules).unwrap();
    let secret = "p'ss:word\\x";
    cluster.sql(
        "postgres",
        &format!("ALTER ROLE me PASSWORD '{}'", quoted(secret)),
    );
    cluster.sql("postgres", "ALTER SYSTEM SET ssl = on");
    cluster.sql("postgres", "SELECT pg_reload_conf()");
    cluster.database("holm");
    let url = |parameters: &str| {
        format!(
            "postgres://me@localhost:{}/holm?hostaddr=127.0.0.1&{parameters}",
            cluster.port()
        )
    };
    let rooted = |root: &Path| url(&format!("sslrootcert={}", root.display()));
    let with = |url: String, password: &str| Server {
        password_file: Some(private("password", password)),
        ..server(&url)
    };
    eventually("the server encrypts", || {
        cluster.sql("postgres", "SHOW ssl") == "on"
    });

    let unverified = |server: Server| {
        let error = holm_core::fault::with_causes(&refused(server));
        assert!(error.contains("certificate"), "{error}");
        assert!(!error.contains("word"), "{error}");
    };
    unverified(with(rooted(&stranger), secret));
    // The CAs of the machine do not know it either.
    unverified(with(url("sslmode=require"), secret));
    let wrong = with(rooted(&own), "wrong-word");
    let error = holm_core::fault::with_causes(&refused(wrong));
    assert!(error.contains("password authentication failed"), "{error}");
    assert!(!error.contains("wrong-word"), "{error}");

    // The same server with the right certificate and password, and without TLS: the refusals were about those.
    let copy = directory.path().join("copy.db");
    drop(PostgresStore::open(with(rooted(&own), secret), &copy).unwrap());
    drop(PostgresStore::open(server(&url("sslmode=disable")), &copy).unwrap());
    let list = format!(
        "localhost:*:holm:me:{}\n",
        secret.replace('\\', "\\\\").replace(':', "\\:")
    );
    let listed = Server {
        password_list: Some(private("list", &list)),
        ..server(&rooted(&own))
    };
    drop(PostgresStore::open(listed, &copy).unwrap());
}
