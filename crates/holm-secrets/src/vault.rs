//! The vault: one file of sealed records and one key file, each replaced as a whole.
//!
//! A new key takes effect when the records file is renamed into place: that file names the key it
//! needs, and both key files exist until the vault is opened again. After a crash at any point, all
//! records open with one of the two keys.

use crate::file;
use crate::key::{KeyError, KeyFile, KeyStorage, Protection};
use crate::keyring::{Keyring, KeyringError};
use crate::seal::{MasterKey, SealError, Sealed};
use crate::value::Value;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The owner of a value, by id and never by label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The user's default for every project.
    User,
    Project(String),
    /// Overrides the project's value.
    Workspace(String),
    /// The value that a workspace currently gets, from whatever source.
    Given(String),
    /// Of the installation itself: the CA's key.
    Installation,
}

/// Metadata of a value. Times are seconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub scope: Scope,
    pub name: String,
    /// Increases with every value that the vault stores.
    pub version: u64,
    pub set_at: u64,
    /// The value is not given out after this time.
    pub expires_at: Option<u64>,
}

pub struct Vault {
    directory: PathBuf,
    keyring: Keyring,
    key: Key,
    records: Vec<Record>,
    /// The last version that was used.
    version: u64,
}

enum Key {
    /// Created when the first value is stored.
    None,
    Open {
        key: MasterKey,
        storage: KeyStorage,
    },
    Locked(KeyFile),
    /// The keyring has the key but did not return it, and why.
    Elsewhere(KeyFile, KeyringError),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    entry: Entry,
    /// `None`: expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<Sealed>,
}

/// The content of the records file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Records {
    format: u32,
    key: String,
    version: u64,
    records: Vec<Record>,
}

#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("the secrets are locked: their key is behind a passphrase")]
    Locked,
    #[error("the key that the secrets are sealed with is not there")]
    KeyMissing,
    #[error("the key of the secrets is in your keyring")]
    Keyring(#[source] KeyringError),
    #[error("the file of the secrets is damaged")]
    Damaged,
    #[error("the secret {name} does not open")]
    Record {
        name: String,
        #[source]
        source: SealError,
    },
    #[error("cannot read or write the secrets")]
    File(#[source] io::Error),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("a value cannot be sealed")]
    Seal(#[from] SealError),
}

/// Points at which a test can interrupt a key change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    KeyWritten,
    RecordsWritten,
    KeyMoved,
}

const RECORDS: &str = "vault.json";
const KEY: &str = "key.json";
const NEXT_KEY: &str = "next-key.json";

// === impl Entry ===

impl Entry {
    pub fn has_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|time| time <= now)
    }

    /// What a sealed record is bound to. A length precedes each text, so two different entries
    /// never have the same label.
    fn label(&self) -> Vec<u8> {
        let (kind, id) = match &self.scope {
            Scope::User => ("user", ""),
            Scope::Project(id) => ("project", id.as_str()),
            Scope::Workspace(id) => ("workspace", id.as_str()),
            Scope::Given(id) => ("given", id.as_str()),
            Scope::Installation => ("installation", ""),
        };
        let mut label = Vec::new();
        for text in [kind, id, &self.name] {
            label.extend((text.len() as u64).to_le_bytes());
            label.extend(text.as_bytes());
        }
        let expires = self.expires_at.map_or([0; 9], |time| {
            let mut bytes = [1; 9];
            bytes[1..].copy_from_slice(&time.to_le_bytes());
            bytes
        });
        label.extend(self.version.to_le_bytes());
        label.extend(self.set_at.to_le_bytes());
        label.extend(expires);
        label
    }
}

// === impl Vault ===

impl Vault {
    /// `directory` must exist and be readable only by the user. Waits for the keyring if the key is
    /// there.
    pub fn open(directory: &Path, keyring: Keyring) -> Result<Self, VaultError> {
        let mut vault = Self {
            directory: directory.to_owned(),
            keyring,
            key: Key::None,
            records: Vec::new(),
            version: 0,
        };
        let text = file::read(&directory.join(RECORDS)).map_err(VaultError::File)?;
        let records: Option<Records> = match text {
            Some(text) => Some(serde_json::from_slice(&text).map_err(|_| VaultError::Damaged)?),
            None => None,
        };
        if records.as_ref().is_some_and(|records| records.format != 1) {
            return Err(VaultError::Damaged);
        }
        let Some(file) = vault.settle_key(records.as_ref().map(|records| records.key.as_str()))?
        else {
            return Ok(vault);
        };
        vault.key = match file.plain()? {
            Some(key) => Key::Open {
                key,
                storage: KeyStorage::File,
            },
            None if file.storage() == KeyStorage::Keyring => fetched(&vault.keyring, file),
            None => Key::Locked(file),
        };
        if let Some(records) = records {
            vault.records = records.records;
            vault.version = records.version;
        }
        Ok(vault)
    }

    /// The key file that the records need. Completes or undoes an interrupted key change.
    fn settle_key(&self, needed: Option<&str>) -> Result<Option<KeyFile>, VaultError> {
        let (path, next) = (self.directory.join(KEY), self.directory.join(NEXT_KEY));
        let (known, coming) = (KeyFile::read(&path), KeyFile::read(&next));
        let is_needed = |file: &KeyFile| needed.is_none_or(|id| id == file.id);
        match (known, coming, needed) {
            (Ok(Some(known)), coming, _) if is_needed(&known) => {
                if let Ok(Some(coming)) = &coming {
                    self.forget(coming.storage(), &coming.id);
                }
                if !matches!(coming, Ok(None)) {
                    std::fs::remove_file(&next).map_err(VaultError::File)?;
                }
                Ok(Some(known))
            }
            (_, Ok(Some(coming)), Some(id)) if coming.id == id => {
                std::fs::rename(&next, &path).map_err(VaultError::File)?;
                file::sync_directory(&path).map_err(VaultError::File)?;
                Ok(Some(coming))
            }
            (Err(error), _, _) => Err(error.into()),
            (_, _, None) => Ok(None),
            (_, _, Some(_)) => Err(VaultError::KeyMissing),
        }
    }

    /// No value can be read or stored now.
    pub fn is_locked(&self) -> bool {
        matches!(self.key, Key::Locked(_) | Key::Elsewhere(..))
    }

    /// Where the key is; `None`: there is no key yet.
    pub fn storage(&self) -> Option<KeyStorage> {
        match &self.key {
            Key::None => None,
            Key::Open { storage, .. } => Some(*storage),
            Key::Locked(file) | Key::Elsewhere(file, _) => Some(file.storage()),
        }
    }

    pub fn unlock(&mut self, passphrase: &Value) -> Result<(), VaultError> {
        if let Key::Locked(file) = &self.key {
            let (key, storage) = (file.unlock(passphrase)?, file.storage());
            self.key = Key::Open { key, storage };
        }
        Ok(())
    }

    /// Whether values can be read and stored, and if not, why.
    pub fn check(&self) -> Result<(), VaultError> {
        match self.key {
            Key::None => Ok(()),
            _ => self.key().map(drop),
        }
    }

    /// Asks the keyring again if it did not return the key before.
    pub fn look_again(&mut self) {
        if let Key::Elsewhere(file, _) = &self.key {
            self.key = fetched(&self.keyring, file.clone());
        }
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.records.iter().map(|record| &record.entry)
    }

    pub fn find(&self, scope: &Scope, name: &str) -> Option<&Entry> {
        self.entries()
            .find(|entry| entry.scope == *scope && entry.name == name)
    }

    pub fn get(&self, scope: &Scope, name: &str) -> Result<Option<(Entry, Value)>, VaultError> {
        let found = self
            .records
            .iter()
            .find(|record| record.entry.scope == *scope && record.entry.name == name);
        let Some((record, sealed)) =
            found.and_then(|record| Some((record, record.sealed.as_ref()?)))
        else {
            return Ok(None);
        };
        let value = open(self.key()?, &record.entry, sealed)?;
        Ok(Some((record.entry.clone(), value)))
    }

    /// Stores values, replacing earlier ones; all of them or none.
    pub fn put(&mut self, values: Vec<(Entry, Value)>) -> Result<(), VaultError> {
        if values.is_empty() {
            return Ok(());
        }
        self.have_key()?;
        let (mut records, mut version) = (self.records.clone(), self.version);
        for (entry, value) in values {
            version += 1;
            let entry = Entry { version, ..entry };
            let sealed = Some(self.key()?.seal(&entry.label(), &value)?);
            records.retain(|record| {
                record.entry.scope != entry.scope || record.entry.name != entry.name
            });
            records.push(Record { entry, sealed });
        }
        self.write(records, version)
    }

    /// Removes all other entries and returns them. Works while the vault is locked.
    pub fn retain(&mut self, is_kept: impl Fn(&Entry) -> bool) -> Result<Vec<Entry>, VaultError> {
        let records = self.records.clone().into_iter();
        let (kept, gone): (Vec<_>, Vec<_>) = records.partition(|record| is_kept(&record.entry));
        if !gone.is_empty() {
            self.write(kept, self.version)?;
        }
        Ok(gone.into_iter().map(|record| record.entry).collect())
    }

    /// Deletes expired values and returns their entries, which stay listed. Works while the vault
    /// is locked.
    pub fn expire(&mut self, now: u64) -> Result<Vec<Entry>, VaultError> {
        let (mut records, mut gone) = (self.records.clone(), Vec::new());
        for record in &mut records {
            if record.entry.has_expired(now) && record.sealed.take().is_some() {
                gone.push(record.entry.clone());
            }
        }
        if !gone.is_empty() {
            self.write(records, self.version)?;
        }
        Ok(gone)
    }

    /// Seals all records with a new key. Returns their number.
    pub fn rotate(&mut self, protection: &Protection) -> Result<usize, VaultError> {
        self.rotate_until(protection, |_| Ok(()))
    }

    fn rotate_until(
        &mut self,
        protection: &Protection,
        mut after: impl FnMut(Step) -> io::Result<()>,
    ) -> Result<usize, VaultError> {
        self.have_key()?;
        let fresh = MasterKey::generate()?;
        let mut records = Vec::new();
        for record in &self.records {
            let (entry, mut sealed) = (record.entry.clone(), None);
            if let Some(before) = &record.sealed {
                let value = open(self.key()?, &entry, before)?;
                sealed = Some(fresh.seal(&entry.label(), &value)?);
            }
            records.push(Record { entry, sealed });
        }
        let (path, next) = (self.directory.join(KEY), self.directory.join(NEXT_KEY));
        let (old, old_storage) = (self.key()?.id(), self.storage());
        if matches!(protection, Protection::Keyring) {
            self.keyring.keep(&fresh).map_err(VaultError::Keyring)?;
        }
        KeyFile::new(&fresh, protection)?.write(&next)?;
        after(Step::KeyWritten).map_err(VaultError::File)?;
        let count = records.len();
        self.write_with(&fresh.id(), records, self.version)?;
        self.key = Key::Open {
            key: fresh,
            storage: protection.storage(),
        };
        after(Step::RecordsWritten).map_err(VaultError::File)?;
        std::fs::rename(&next, &path).map_err(VaultError::File)?;
        file::sync_directory(&path).map_err(VaultError::File)?;
        after(Step::KeyMoved).map_err(VaultError::File)?;
        if let Some(storage) = old_storage {
            self.forget(storage, &old);
        }
        Ok(count)
    }

    /// Deletes an unused key from the keyring. A key that cannot be deleted opens nothing and does
    /// no harm.
    fn forget(&self, storage: KeyStorage, id: &str) {
        if storage == KeyStorage::Keyring {
            let _ = self.keyring.forget(id);
        }
    }

    fn key(&self) -> Result<&MasterKey, VaultError> {
        match &self.key {
            Key::Open { key, .. } => Ok(key),
            Key::Locked(_) => Err(VaultError::Locked),
            Key::Elsewhere(_, why) => Err(VaultError::Keyring(why.clone())),
            Key::None => Err(VaultError::KeyMissing),
        }
    }

    /// Creates the first key, in the keyring if one is available and unlocked, else in the file.
    fn have_key(&mut self) -> Result<(), VaultError> {
        if !matches!(self.key, Key::None) {
            return self.key().map(drop);
        }
        let key = MasterKey::generate()?;
        let protection = match self.keyring.keep(&key) {
            Ok(()) => Protection::Keyring,
            Err(_) => Protection::File,
        };
        let path = self.directory.join(KEY);
        KeyFile::new(&key, &protection)?.write(&path)?;
        let storage = protection.storage();
        self.key = Key::Open { key, storage };
        Ok(())
    }

    fn write(&mut self, records: Vec<Record>, version: u64) -> Result<(), VaultError> {
        let id = match &self.key {
            Key::Open { key, .. } => key.id(),
            Key::Locked(file) | Key::Elsewhere(file, _) => file.id.clone(),
            Key::None => return Err(VaultError::KeyMissing),
        };
        self.write_with(&id, records, version)
    }

    fn write_with(
        &mut self,
        key: &str,
        records: Vec<Record>,
        version: u64,
    ) -> Result<(), VaultError> {
        let file = Records {
            format: 1,
            key: key.to_owned(),
            version,
            records,
        };
        let text = serde_json::to_vec(&file).map_err(|_| VaultError::Damaged)?;
        file::replace(&self.directory.join(RECORDS), &text).map_err(VaultError::File)?;
        self.records = file.records;
        self.version = version;
        Ok(())
    }
}

fn fetched(keyring: &Keyring, file: KeyFile) -> Key {
    match keyring.get(&file.id) {
        Ok(key) => Key::Open {
            key,
            storage: KeyStorage::Keyring,
        },
        Err(why) => Key::Elsewhere(file, why),
    }
}

fn open(key: &MasterKey, entry: &Entry, sealed: &Sealed) -> Result<Value, VaultError> {
    let opened = key.open(&entry.label(), sealed);
    opened.map_err(|source| VaultError::Record {
        name: entry.name.clone(),
        source,
    })
}

#[cfg(test)]
#[path = "vault_tests.rs"]
mod tests;
