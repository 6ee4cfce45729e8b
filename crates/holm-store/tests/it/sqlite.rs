//! The SQLite file: reopening, damage, newer files, directories that cannot be written.

use crate::conformance::{self, project, workspace};
use crate::schema_1;
use holm_core::config::Inject;
use holm_core::spec::{Secret, SecretSource};
use holm_core::{Code, Fault};
use holm_engine::review::ReviewStore;
use holm_engine::store::{ProjectRecord, ProjectRules, Store, StoreError, WorkspaceRecord};
use holm_store::SqliteStore;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn file(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("holm.db")
}

fn refused(path: &Path) -> StoreError {
    match SqliteStore::open(path) {
        Err(error) => error,
        Ok(_) => panic!("{} was opened", path.display()),
    }
}

fn change(path: &Path, statement: &str) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch(statement).unwrap();
}

#[test]
fn an_sqlite_file_is_a_store() {
    let directories = std::cell::RefCell::new(Vec::new());
    conformance::check(|| {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&file(&directory)).unwrap();
        directories.borrow_mut().push(directory);
        store
    });
}

#[test]
fn what_was_stored_is_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let shop = project("shop");
    let one = workspace(&shop, "one");
    {
        let store = SqliteStore::open(&file(&directory)).unwrap();
        store.save_project(&shop).unwrap();
        store.insert_workspace(&one).unwrap();
    }
    let log = directory.path().join("holm.db-wal");
    assert!(!log.exists(), "a store that is closed is one file");
    let store = SqliteStore::open(&file(&directory)).unwrap();
    assert_eq!(store.workspace(&one.id).unwrap(), Some(one));
}

#[test]
fn a_turn_of_an_earlier_version_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let shop = project("shop");
    let one = workspace(&shop, "one");
    let turn = crate::review::turn(&one.id, 1);
    {
        let store = SqliteStore::open(&file(&directory)).unwrap();
        store.save_project(&shop).unwrap();
        store.insert_workspace(&one).unwrap();
        store.add_turn(&turn).unwrap();
    }
    // As version 13 stored it, with digests of volumes.
    let earlier = "UPDATE turns SET details = json_set(details, '$.volumes', json('{\"pg\":\"e3\"}'));
        DROP TABLE turn_failures; ALTER TABLE audit DROP COLUMN evidence; PRAGMA user_version = 13;";
    change(&file(&directory), earlier);
    let store = SqliteStore::open(&file(&directory)).unwrap();
    assert_eq!(store.turns(&one.id).unwrap(), [turn]);
}

#[test]
fn a_copy_taken_while_it_is_open_has_what_was_acknowledged() {
    // The files on disk at this moment are what a killed daemon leaves.
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&file(&directory)).unwrap();
    let shop = project("shop");
    let one = workspace(&shop, "one");
    store.save_project(&shop).unwrap();
    store.insert_workspace(&one).unwrap();
    store.acknowledge(&one.id).unwrap();
    let copy = tempfile::tempdir().unwrap();
    for name in ["holm.db", "holm.db-wal"] {
        std::fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
    }
    let found = SqliteStore::open(&file(&copy)).unwrap();
    let birth = found.workspace(&one.id).unwrap().map(|one| one.birth);
    assert_eq!(birth, Some(holm_core::state::Birth::Acknowledged));
}

#[test]
fn a_newer_file_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    drop(SqliteStore::open(&path).unwrap());
    change(&path, "PRAGMA user_version = 4711; DROP TABLE approvals;");
    let before = std::fs::read(&path).unwrap();
    let error = refused(&path);
    assert!(
        matches!(error, StoreError::Newer { found: 4711, .. }),
        "{error}"
    );
    assert_eq!(Fault::from(error).code, Code::NewerState);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// A newer holm may mean something stricter by a version or a word that this one does not know.
#[test]
fn a_stored_spec_with_an_unknown_version_or_word_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    let shop = project("shop");
    let mut one = workspace(&shop, "one");
    Arc::make_mut(&mut one.spec).secrets = vec![Secret {
        name: "TOKEN".to_owned(),
        source: SecretSource::Stored,
        inject: Inject::Placeholder,
        to: Vec::new(),
        ttl_ms: None,
        hosts: vec!["example.org".to_owned()],
    }];
    let store = SqliteStore::open(&path).unwrap();
    store.save_project(&shop).unwrap();
    store.insert_workspace(&one).unwrap();
    drop(store);
    let set = |place: &str, value: &str| {
        let statement =
            format!("UPDATE workspaces SET spec = json_set(spec, '$.{place}', {value})");
        change(&path, &statement);
        SqliteStore::open(&path).unwrap().workspace(&one.id)
    };
    let check = |place: &str, value: &str, known: &str, expect: &str| {
        let error = set(place, value).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        let said = holm_core::fault::with_causes(&error);
        assert!(said.contains(expect), "{place}: {said}");
        assert_eq!(set(place, known).unwrap().as_ref(), Some(&one), "{place}");
    };
    check(
        "version",
        "2",
        "1",
        "version 2 of a workspace's specification",
    );
    check(
        "driver",
        "'hyper'",
        "'linux'",
        "`hyper` is not one of linux",
    );
    check(
        "network.egress.mode",
        "'closed'",
        "'none'",
        "`closed` is not one of open, allow, none",
    );
    check(
        "code.object_format",
        "'md5'",
        "'sha1'",
        "`md5` is not one of sha1",
    );
    // As `env`, the program inside would get the value itself.
    check(
        "secrets[0].inject",
        "'sealed'",
        "'placeholder'",
        "`sealed` is not one of env, file, placeholder",
    );
    check("siblings", "'seen'", "'hidden'", "unknown variant `seen`");
}

/// A file of the first version, with a workspace and what belongs to it.
fn file_of_version_1(path: &Path, workspace: &WorkspaceRecord, project: &ProjectRecord) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch(schema_1::TABLES).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    let time = "2026-11-15T20:00:00.000Z";
    let (id, owner) = (workspace.id.as_str(), project.id.as_str());
    let insert = "INSERT INTO projects VALUES (?1, 'shop', '/src', '/src/.git', 1, 2, 'sha1', NULL, ?2, NULL)";
    connection.execute(insert, [owner, time]).unwrap();
    let spec = serde_json::to_string(&*workspace.spec).unwrap();
    let insert =
        "INSERT INTO workspaces VALUES (?1, ?2, 'one', 'me', 'running', 1, ?3, ?4, ?4, 1, NULL)";
    connection
        .execute(insert, [id, owner, &spec, time])
        .unwrap();
    let insert = "INSERT INTO journal (workspace_id, action, planned_at) VALUES (?1, 'launch', ?2)";
    connection.execute(insert, [id, time]).unwrap();
    let insert = "INSERT INTO approvals VALUES (?1, 'digest', ?2)";
    connection.execute(insert, [owner, time]).unwrap();
}

#[test]
fn a_file_of_the_first_version_is_brought_up_to_date_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    let shop = project("shop");
    let one = workspace(&shop, "one");
    file_of_version_1(&path, &one, &shop);
    for time in ["first", "second"] {
        let store = SqliteStore::open(&path).unwrap();
        let found = store.workspace(&one.id).unwrap().unwrap();
        assert_eq!(found.spec, one.spec, "{time}");
        assert_eq!(found.dirty, Some(true));
        assert_eq!(found.labelled_at, found.created_at);
        let projects = store.projects().unwrap();
        assert_eq!(projects.len(), 1);
        assert_eq!(projects[0].0.rules, ProjectRules::default());
        assert_eq!(store.unfinished().unwrap(), [found]);
        assert!(store.is_approved(&shop.id, "digest").unwrap());
        // Older approvals were stored without their requests.
        assert_eq!(store.last_approval(&shop.id).unwrap(), None);
        assert_eq!(store.claims().unwrap().is_empty(), time == "first");
        let claim = conformance::claim(&one.id, 3000, 20_000);
        store.claim_port(&claim, conformance::at(1)).unwrap();
    }
}

#[test]
fn a_migration_that_fails_leaves_the_file_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    let shop = project("shop");
    file_of_version_1(&path, &workspace(&shop, "one"), &shop);
    change(&path, "CREATE TABLE events (x)");
    refused(&path);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, 1);
    let columns = "SELECT count(*) FROM pragma_table_info('workspaces') WHERE name = 'labelled_at'";
    let found: i64 = connection.query_row(columns, [], |row| row.get(0)).unwrap();
    assert_eq!(found, 0);
}

#[test]
fn a_damaged_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    let is_corrupt = |error: StoreError| {
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        let fault = Fault::from(error);
        assert_eq!(fault.code, Code::CorruptState);
        assert!(fault.hint.contains("holm.db"), "{}", fault.hint);
    };
    std::fs::write(
        &path,
        "this is not a database, and long enough to be one".repeat(40),
    )
    .unwrap();
    is_corrupt(refused(&path));

    std::fs::remove_file(&path).unwrap();
    drop(SqliteStore::open(&path).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    let page = 4096;
    bytes[page..page + 200].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    is_corrupt(refused(&path));

    std::fs::remove_file(&path).unwrap();
    change(&path, "CREATE TABLE strangers (x)");
    is_corrupt(refused(&path));
}

#[test]
fn values_that_are_not_understood_are_errors() {
    let shop = project("shop");
    let one = workspace(&shop, "one");
    for change_one in [
        "UPDATE workspaces SET desired = 'paused'",
        "UPDATE workspaces SET acknowledged = 7",
        "UPDATE workspaces SET dirty = 2",
        "UPDATE workspaces SET label = 'Not A Label'",
        "UPDATE workspaces SET created_at = 'yesterday'",
        "UPDATE workspaces SET removed_at = ''",
        "UPDATE workspaces SET spec = '{}'",
        "UPDATE workspaces SET spec = replace(spec, '\"nested\"', '\"more\":1,\"nested\"')",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = file(&directory);
        let store = SqliteStore::open(&path).unwrap();
        store.save_project(&shop).unwrap();
        store.insert_workspace(&one).unwrap();
        change(&path, change_one);
        let error = store.workspace(&one.id).unwrap_err();
        assert!(
            matches!(error, StoreError::Corrupt { .. }),
            "{change_one}: {error}"
        );
    }
}

/// Every enum word in a spec.
#[test]
fn words_of_a_spec_that_are_not_known_are_errors_that_name_them() {
    let shop = project("shop");
    let mut one = workspace(&shop, "one");
    let words: &[(&str, &[&str])] = &[
        ("secrets", &["inject"]),
        ("volumes", &["policy"]),
        ("caches", &["policy"]),
        ("services", &["restart", "on_assign"]),
    ];
    let mut spec = serde_json::to_value(&*one.spec).unwrap();
    spec["secrets"] = serde_json::json!([
        { "name": "KEY", "source": "stored", "inject": "placeholder", "to": ["runs"], "ttl_ms": null }
    ]);
    spec["volumes"] = serde_json::json!([{
        "name": "pg", "path": "/data", "policy": "fork", "single": false, "seed": null, "generation": 0,
    }]);
    spec["caches"] = serde_json::json!([
        { "name": "npm", "path": "/c", "policy": "isolated", "snapshot": null }
    ]);
    spec["services"] = serde_json::json!([{
        "name": "web", "run": "x", "ready": null, "depends_on": [], "restart": "always",
        "on_assign": "hot", "build": null, "rebuild_when": [], "env": [], "port": null,
    }]);
    spec["moving"] = serde_json::json!({
        "commit": "c", "ref_name": null, "at": "t", "manner": "stash", "shallow": [],
        "is_there": false, "owed": { "set_up": false, "reactions": [["web", "rebuild"]] },
    });
    one.spec = std::sync::Arc::new(serde_json::from_value(spec.clone()).unwrap());
    let again = serde_json::to_value(&*one.spec).unwrap();
    for key in ["secrets", "caches", "services", "moving"] {
        let (stored, written) = (&again[key], &spec[key]);
        assert!(
            stored.to_string().len() >= written.to_string().len(),
            "{stored}"
        );
    }
    let in_lists = words.iter().flat_map(|(list, fields)| {
        let fields = fields.iter();
        fields.map(move |field| format!("$.{list}[0].{field}"))
    });
    let places: Vec<_> = in_lists
        .chain(["$.network.egress.mode", "$.code.object_format"].map(str::to_owned))
        .chain(["$.moving.manner", "$.moving.owed.reactions[0][1]"].map(str::to_owned))
        .collect();
    assert_eq!(places.len(), 9);
    for place in places {
        let directory = tempfile::tempdir().unwrap();
        let path = file(&directory);
        let store = SqliteStore::open(&path).unwrap();
        store.save_project(&shop).unwrap();
        store.insert_workspace(&one).unwrap();
        assert_eq!(store.workspace(&one.id).unwrap().unwrap().spec, one.spec);
        let change_one = format!("UPDATE workspaces SET spec = json_set(spec, '{place}', 'vault')");
        change(&path, &change_one);
        let error = store.workspace(&one.id).unwrap_err();
        assert!(
            matches!(error, StoreError::Corrupt { .. }),
            "{place}: {error}"
        );
        let told = Fault::from(error).message();
        assert!(told.contains("`vault`"), "{place}: {told}");
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("not/there/holm.db");
    let error = refused(&missing);
    assert_eq!(Fault::from(error).code, Code::ReadOnly);
}

#[test]
fn a_checkpoint_moves_the_log_into_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory);
    let store = SqliteStore::open(&path).unwrap();
    let shop = project("shop");
    // The file alone, as it is on disk, has nothing of what is only in the log.
    let moved = || {
        let copy = directory.path().join("copy.db");
        std::fs::copy(&path, &copy).unwrap();
        let connection = rusqlite::Connection::open(&copy).unwrap();
        let count = "SELECT count(*) FROM projects";
        connection
            .query_row(count, [], |row| row.get::<_, i64>(0))
            .unwrap_or(0)
    };
    for _ in 0..40 {
        store.save_project(&shop).unwrap();
    }
    assert_eq!(moved(), 0);
    store.checkpoint().unwrap();
    assert_eq!(moved(), 1);
    assert_eq!(store.project(&shop.id).unwrap(), Some(shop));
}
