//! Tests of the vault: reading values back, damaged files, and key changes interrupted at every
//! point.

use super::*;
use std::os::unix::fs::PermissionsExt;

const CANARY: &str = "canary-value-9b1f";

fn value(text: &str) -> Value {
    Value::parse(text.into()).unwrap()
}

fn entry(scope: Scope, name: &str) -> Entry {
    Entry {
        scope,
        name: name.to_owned(),
        version: 0,
        set_at: 1000,
        expires_at: None,
    }
}

fn filled(directory: &Path) -> Vault {
    let mut vault = Vault::open(directory, Keyring::default()).unwrap();
    let scopes = [
        Scope::User,
        Scope::Project("p1".to_owned()),
        Scope::Workspace("w1".to_owned()),
        Scope::Given("w1".to_owned()),
    ];
    for scope in scopes {
        let text = format!("{CANARY} {scope:?}");
        vault
            .put(vec![(entry(scope, "KEY"), value(&text))])
            .unwrap();
    }
    vault
}

fn check_filled(vault: &Vault) {
    let entries: Vec<Entry> = vault.entries().cloned().collect();
    assert_eq!(entries.len(), 4);
    for entry in entries {
        let (_, found) = vault.get(&entry.scope, &entry.name).unwrap().unwrap();
        assert_eq!(found.reveal(), format!("{CANARY} {:?}", entry.scope));
    }
}

fn files(directory: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(directory).unwrap();
    let read = entries.map(|entry| {
        let path = entry.unwrap().path();
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    });
    read.collect()
}

#[test]
fn values_come_back_and_no_file_has_them_in_the_clear() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path()));
    check_filled(&Vault::open(directory.path(), Keyring::default()).unwrap());
    for (name, text) in files(directory.path()) {
        assert!(!text.contains("canary"), "{name}");
    }
    let mut vault = Vault::open(directory.path(), Keyring::default()).unwrap();
    vault
        .put(vec![(entry(Scope::User, "KEY"), value("another value"))])
        .unwrap();
    let (entry, found) = vault.get(&Scope::User, "KEY").unwrap().unwrap();
    assert_eq!((found.reveal(), entry.version), ("another value", 5));
    let gone = vault.retain(|entry| entry.scope != Scope::User).unwrap();
    assert_eq!(gone.len(), 1);
    assert!(vault.get(&Scope::User, "KEY").unwrap().is_none());
    let vault = Vault::open(directory.path(), Keyring::default()).unwrap();
    assert!(vault.get(&Scope::User, "KEY").unwrap().is_none());
}

#[test]
fn records_that_were_exchanged_or_changed_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path()));
    let path = directory.path().join(RECORDS);
    let whole = std::fs::read_to_string(&path).unwrap();
    let change = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut json: serde_json::Value = serde_json::from_str(&whole).unwrap();
        change(&mut json);
        std::fs::write(&path, json.to_string()).unwrap();
        Vault::open(directory.path(), Keyring::default())
            .and_then(|vault| vault.get(&Scope::User, "KEY"))
    };
    let exchanged = change(&|json| {
        let records = json["records"].as_array_mut().unwrap();
        let first = records[0]["sealed"].clone();
        records[0]["sealed"] = records[1]["sealed"].clone();
        records[1]["sealed"] = first;
    });
    assert!(matches!(exchanged, Err(VaultError::Record { .. })));
    for (field, other) in [("version", 9), ("set_at", 1), ("expires_at", 99)] {
        let changed = change(&|json| json["records"][0]["entry"][field] = other.into());
        assert!(matches!(changed, Err(VaultError::Record { .. })), "{field}");
    }
    let renamed = change(&|json| {
        json["records"][0]["entry"]["scope"] = "user".into();
        json["records"][1]["entry"]["scope"] = "user".into();
        let records = json["records"].as_array_mut().unwrap();
        records.remove(0);
    });
    assert!(matches!(renamed, Err(VaultError::Record { .. })));
    let other_key = change(&|json| json["key"] = "00".into());
    assert!(matches!(other_key, Err(VaultError::KeyMissing)));
    for cut in [1, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let opened = Vault::open(directory.path(), Keyring::default());
        assert!(matches!(opened, Err(VaultError::Damaged)), "{cut}");
    }
}

#[test]
fn a_file_that_was_changed_or_cut_anywhere_says_the_same_or_nothing() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path()));
    let path = directory.path().join(RECORDS);
    let whole = std::fs::read(&path).unwrap();
    let check = |bytes: &[u8], at: usize| {
        std::fs::write(&path, bytes).unwrap();
        let Ok(vault) = Vault::open(directory.path(), Keyring::default()) else {
            return;
        };
        for entry in vault.entries() {
            if let Ok(Some((_, found))) = vault.get(&entry.scope, &entry.name) {
                let expected = format!("{CANARY} {:?}", entry.scope);
                assert_eq!(found.reveal(), expected, "byte {at}");
            }
        }
    };
    for at in 0..whole.len() {
        check(&whole[..at], at);
        for byte in [b'0', b'f', b'"', b' '] {
            let mut changed = whole.clone();
            changed[at] = byte;
            check(&changed, at);
        }
    }
}

#[test]
fn a_change_of_the_key_that_stops_anywhere_loses_nothing() {
    for stop in [Step::KeyWritten, Step::RecordsWritten, Step::KeyMoved] {
        let directory = tempfile::tempdir().unwrap();
        let mut vault = filled(directory.path());
        let before = Vault::open(directory.path(), Keyring::default())
            .unwrap()
            .key()
            .unwrap()
            .id();
        let stopped = vault.rotate_until(&Protection::File, |step| {
            if step == stop {
                Err(io::Error::other("stopped"))
            } else {
                Ok(())
            }
        });
        assert!(stopped.is_err());
        drop(vault);
        let vault = Vault::open(directory.path(), Keyring::default()).unwrap();
        check_filled(&vault);
        let is_new = vault.key().unwrap().id() != before;
        assert_eq!(is_new, stop != Step::KeyWritten, "{stop:?}");
        let mut names: Vec<_> = files(directory.path())
            .into_iter()
            .map(|file| file.0)
            .collect();
        names.sort();
        assert_eq!(names, [KEY, RECORDS], "{stop:?}");
        check_filled(&Vault::open(directory.path(), Keyring::default()).unwrap());
    }
}

#[test]
fn an_old_key_opens_nothing_after_a_change() {
    let directory = tempfile::tempdir().unwrap();
    let mut vault = filled(directory.path());
    let old = std::fs::read(directory.path().join(KEY)).unwrap();
    assert_eq!(vault.rotate(&Protection::File).unwrap(), 4);
    check_filled(&vault);
    check_filled(&Vault::open(directory.path(), Keyring::default()).unwrap());
    std::fs::write(directory.path().join(KEY), old).unwrap();
    let opened = Vault::open(directory.path(), Keyring::default());
    assert!(matches!(opened, Err(VaultError::KeyMissing)));
}

#[test]
fn behind_a_passphrase_nothing_opens_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let passphrase = value("open sesame");
    let protection = Protection::Passphrase(passphrase.clone());
    filled(directory.path()).rotate(&protection).unwrap();
    let mut vault = Vault::open(directory.path(), Keyring::default()).unwrap();
    assert!(vault.is_locked());
    assert_eq!(vault.storage(), Some(KeyStorage::Passphrase));
    let given = vault.get(&Scope::User, "KEY");
    assert!(matches!(given, Err(VaultError::Locked)));
    let put = vault.put(vec![(entry(Scope::User, "B"), value("something"))]);
    assert!(matches!(put, Err(VaultError::Locked)));
    let wrong = vault.unlock(&value("open barley"));
    assert!(matches!(
        wrong,
        Err(VaultError::Key(KeyError::WrongPassphrase))
    ));
    assert!(vault.is_locked());
    vault.unlock(&passphrase).unwrap();
    check_filled(&vault);
    assert_eq!(vault.storage(), Some(KeyStorage::Passphrase));
    // Operations that need no value work while the vault is locked.
    let mut locked = Vault::open(directory.path(), Keyring::default()).unwrap();
    let gone = locked.retain(|entry| entry.scope != Scope::User).unwrap();
    assert_eq!(gone.len(), 1);
    let mut vault = Vault::open(directory.path(), Keyring::default()).unwrap();
    vault.unlock(&passphrase).unwrap();
    assert_eq!(vault.entries().count(), 3);
}

#[test]
fn a_value_whose_time_is_up_is_dropped_and_stays_known() {
    let directory = tempfile::tempdir().unwrap();
    let mut vault = filled(directory.path());
    let until = |name: &str, expires_at| Entry {
        expires_at,
        ..entry(Scope::Given("w2".to_owned()), name)
    };
    vault
        .put(vec![
            (until("SOON", Some(2000)), value("canary-soon")),
            (until("LATER", Some(3000)), value("canary-later")),
        ])
        .unwrap();
    assert_eq!(vault.expire(1999).unwrap(), []);
    let gone = vault.expire(2000).unwrap();
    assert_eq!(gone.len(), 1);
    assert_eq!(vault.expire(2500).unwrap(), [], "told once");
    vault
        .rotate(&Protection::Passphrase(value("sesame")))
        .unwrap();
    // Also without the passphrase.
    let mut vault = Vault::open(directory.path(), Keyring::default()).unwrap();
    assert_eq!(vault.expire(3000).unwrap()[0].name, "LATER");
    vault.unlock(&value("sesame")).unwrap();
    for name in ["SOON", "LATER"] {
        let scope = Scope::Given("w2".to_owned());
        assert!(vault.get(&scope, name).unwrap().is_none());
        assert!(vault.find(&scope, name).unwrap().has_expired(3000));
    }
    vault
        .retain(|entry| entry.scope != Scope::Given("w2".to_owned()))
        .unwrap();
    check_filled(&vault);
}
