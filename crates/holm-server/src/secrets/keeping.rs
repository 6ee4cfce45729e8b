//! The daemon's side of secrets: the vault, what each workspace gets, and the record.
//!
//! Everything here blocks for a moment (files are written to disk); routes call it through
//! [`try_blocking`](holm_engine::try_blocking). A value leaves only towards a workspace's keeper.

use holm_core::config::SETUP_RECEIVER;
use holm_core::spec::WorkspaceSpec;
use holm_core::spec::{Purpose, Secret, SecretSource};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::clock::{self, Clock};
use holm_engine::store::{RecordHead, Store};
use holm_keeper::wire::Grant;
use holm_secrets::audit::{Broken, Chain, EXPIRED, Happening, Head, Line, RECEIVED, WITHDRAWN};
use holm_secrets::authority::Authority;
use holm_secrets::keyring::{Keyring, KeyringError};
use holm_secrets::vault::{Entry, Scope, Vault, VaultError};
use holm_secrets::{KeyError, KeyStorage, Protection, Value};
use jiff::Timestamp;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Values that a client read, by the names of their secrets.
pub type Values = Vec<(String, Value)>;

/// A client that handed values over requests its workspace within this time.
const HANDED_OVER_FOR: Duration = Duration::from_secs(600);
/// More than any client creates at once.
const MOST_HANDED_OVER: usize = 2000;

pub struct Keeping {
    directory: PathBuf,
    keyring: Keyring,
    /// `None`: not needed yet, or it could not be opened.
    vault: Mutex<Option<Vault>>,
    chain: Chain,
    /// `None`: not needed yet.
    pub(super) authority: Mutex<Option<Arc<Authority>>>,
    /// Stores the newest line of the record.
    store: Arc<dyn Store>,
    clock: Clock,
    waiting: Mutex<Waiting>,
}

/// In memory only, until the workspace is launched.
#[derive(Default)]
struct Waiting {
    handed_over: HashMap<String, (Instant, Values)>,
    /// By workspace id.
    begun: HashMap<String, Values>,
}

/// What happens to declared values that the client did not read.
#[derive(Clone, Debug)]
pub enum Unread {
    /// The earlier value stays.
    Keep,
    /// These no longer have a value.
    Withdraw(Vec<String>),
}

/// Whose stored values count.
pub(super) struct Owner<'a> {
    /// `None`: it does not exist yet.
    pub workspace: Option<&'a str>,
    pub project: &'a str,
}

/// What a client read of secrets, and what to do about the others.
struct Read<'a> {
    values: &'a Values,
    unread: &'a Unread,
}

// === impl Keeping ===

impl Keeping {
    pub fn new(directory: PathBuf, keyring: Keyring, store: Arc<dyn Store>, clock: Clock) -> Self {
        Self {
            chain: Chain::in_directory(&directory),
            store,
            clock,
            directory,
            keyring,
            vault: Mutex::new(None),
            authority: Mutex::new(None),
            waiting: Mutex::default(),
        }
    }

    /// Uses the vault under its lock. If the keyring did not return the key before, it is asked
    /// again, which takes some seconds at most.
    pub fn with<T>(
        &self,
        work: impl FnOnce(&mut Vault) -> Result<T, VaultError>,
    ) -> Result<T, Fault> {
        let mut guard = lock(&self.vault);
        let vault = match &mut *guard {
            Some(vault) => vault,
            None => {
                let opened = Vault::open(&self.directory, self.keyring.clone());
                guard.insert(opened.map_err(|error| self.fault(error))?)
            }
        };
        vault.look_again();
        work(vault).map_err(|error| self.fault(error))
    }

    pub fn set(&self, scope: Scope, name: &str, value: Value, who: &str) -> Result<Entry, Fault> {
        let entry = self.with(|vault| {
            vault.put(vec![(entry(scope.clone(), name, None), value)])?;
            vault.find(&scope, name).cloned().ok_or(VaultError::Damaged)
        })?;
        self.note(vec![about(&entry, "set", who)]);
        Ok(entry)
    }

    pub fn remove(&self, scope: &Scope, name: &str, who: &str) -> Result<Entry, Fault> {
        let is_kept = |entry: &Entry| entry.scope != *scope || entry.name != name;
        let gone = self.with(|vault| vault.retain(is_kept))?;
        let Some(entry) = gone.into_iter().next() else {
            return Err(Fault::new(
                Code::SecretNotFound,
                format!("no secret {name} is stored there"),
                "`holm secret ls` lists them with where they are",
            ));
        };
        self.note(vec![about(&entry, "removed", who)]);
        Ok(entry)
    }

    /// Keeps what a client read for a workspace that it is about to request.
    pub fn hand_over(&self, values: Values) -> Result<String, Fault> {
        let token = holm_secrets::seal::random::<16>()
            .map_err(|error| Fault::of(Code::Internal, error, "see the daemon's log"))?;
        let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut waiting = lock(&self.waiting);
        let is_fresh = |(at, _): &(Instant, Values)| at.elapsed() < HANDED_OVER_FOR;
        waiting.handed_over.retain(|_, handed| is_fresh(handed));
        if waiting.handed_over.len() >= MOST_HANDED_OVER {
            let hint = "try again in some minutes";
            return Err(Fault::new(
                Code::Busy,
                "too many values wait for their workspace",
                hint,
            ));
        }
        waiting
            .handed_over
            .insert(token.clone(), (Instant::now(), values));
        Ok(token)
    }

    /// What was handed over and not taken yet.
    pub fn handed_over(&self, token: &str) -> Option<Values> {
        let waiting = lock(&self.waiting);
        waiting
            .handed_over
            .get(token)
            .map(|(_, values)| values.clone())
    }

    pub fn take_over(&self, token: &str) -> Option<Values> {
        let (_, values) = lock(&self.waiting).handed_over.remove(token)?;
        Some(values)
    }

    /// Assigns values that were handed over to a workspace that is about to be launched.
    pub fn begin(&self, id: &WorkspaceId, values: Values) {
        lock(&self.waiting).begun.insert(id.to_string(), values);
    }

    /// Seals what a workspace gets from now on: what the client read, and what is stored.
    pub fn give(
        &self,
        spec: &WorkspaceSpec,
        values: &Values,
        unread: &Unread,
        who: &str,
    ) -> Result<(), Fault> {
        let all: Vec<&Secret> = spec.secrets.iter().collect();
        self.give_some(spec, &all, Read { values, unread }, who)
    }

    /// Updates one stored secret that changed or was removed. The others keep their values and
    /// times.
    pub fn renew(&self, spec: &WorkspaceSpec, name: &str, who: &str) -> Result<(), Fault> {
        let one = spec.secrets.iter().filter(|secret| secret.name == name);
        let read = Read {
            values: &Vec::new(),
            unread: &Unread::Withdraw(vec![name.to_owned()]),
        };
        self.give_some(spec, &one.collect::<Vec<_>>(), read, who)
    }

    fn give_some(
        &self,
        spec: &WorkspaceSpec,
        secrets: &[&Secret],
        read: Read<'_>,
        who: &str,
    ) -> Result<(), Fault> {
        let Read { values, unread } = read;
        let given = Scope::Given(spec.id.clone());
        let now = seconds(self.clock.look().for_expiry());
        let mut noted = Vec::new();
        self.with(|vault| {
            let (mut puts, mut gone) = (Vec::new(), Vec::new());
            for secret in secrets {
                let owner = Owner {
                    workspace: Some(&spec.id),
                    project: &spec.project_id,
                };
                let value = counting(vault, owner, secret, values)?;
                match value {
                    Some(value) => {
                        let until = secret.ttl_ms.map(|ttl| now + ttl.div_ceil(1000));
                        let entry = entry(given.clone(), &secret.name, until);
                        noted.push(about(&entry, RECEIVED, who));
                        puts.push((entry, value));
                    }
                    None if is_withdrawn(secret, unread) => gone.push(secret.name.clone()),
                    None => {}
                }
            }
            let is_declared = |name: &str| spec.secrets.iter().any(|secret| secret.name == name);
            vault.retain(|entry| {
                entry.scope != given || (is_declared(&entry.name) && !gone.contains(&entry.name))
            })?;
            vault.put(puts)
        })?;
        self.note(noted);
        Ok(())
    }

    /// The grants for a workspace's keeper. Called at its launch and after changes.
    pub fn grants(&self, spec: &WorkspaceSpec) -> Result<Vec<Grant>, Fault> {
        if spec.secrets.is_empty() {
            return Ok(Vec::new());
        }
        self.expire()?;
        // A setup runs for a workspace, and gets what that has for it.
        let (workspace, is_setup) = match &spec.purpose {
            Purpose::Setup(setup) => (setup.workspace.as_ref().unwrap_or(&spec.id), true),
            // A check gets what the workspace has that it is about.
            Purpose::Check(check) => (&check.workspace, false),
            Purpose::Work | Purpose::Seed(_) => (&spec.id, false),
        };
        let given = Scope::Given(workspace.clone());
        let begun = lock(&self.waiting).begun.remove(workspace);
        // A workspace without values of a client (a fork, one that the API created) gets what is
        // stored.
        let is_first = self.with(|vault| {
            let mut entries = vault.entries();
            Ok(!entries.any(|entry| entry.scope == given))
        })?;
        if begun.is_some() || is_first {
            let receiving = WorkspaceSpec {
                id: workspace.clone(),
                ..spec.clone()
            };
            self.give(
                &receiving,
                &begun.unwrap_or_default(),
                &Unread::Keep,
                "holm",
            )?;
        }
        let now = seconds(self.clock.look().for_expiry());
        self.with(|vault| {
            let is_its = |secret: &&Secret| !is_setup || is_for_setup(secret);
            let grants = spec.secrets.iter().filter(is_its).map(|secret| {
                let found = vault.get(&given, &secret.name)?;
                // While the clock is not believed, a value that has expired by it is kept and not
                // given out.
                let found = found.filter(|(entry, _)| !entry.has_expired(now));
                let (expires_at, value) = match found {
                    Some((entry, value)) => (entry.expires_at, Some(value)),
                    None => (None, None),
                };
                Ok(Grant {
                    name: secret.name.clone(),
                    form: secret.inject,
                    to: secret.to.clone(),
                    value,
                    expires_at,
                    placeholder: None,
                })
            });
            grants.collect()
        })
        .and_then(|grants| self.with_placeholders(spec, grants))
    }

    /// The states of a workspace's declared secrets: `given`, `missing` or `expired`, and until
    /// when.
    pub fn states(&self, spec: &WorkspaceSpec) -> Result<Vec<(&'static str, Option<u64>)>, Fault> {
        let given = Scope::Given(spec.id.clone());
        let now = seconds(self.clock.look().for_expiry());
        self.with(|vault| {
            let states = spec.secrets.iter().map(|secret| {
                let entry = vault.find(&given, &secret.name);
                let state = match entry {
                    None => "missing",
                    Some(entry) if entry.has_expired(now) => "expired",
                    Some(_) => "given",
                };
                (state, entry.and_then(|entry| entry.expires_at))
            });
            Ok(states.collect())
        })
    }

    /// Withdraws everything from a workspace in the trash.
    pub fn withdraw(&self, id: &WorkspaceId, who: &str) -> Result<(), Fault> {
        let given = Scope::Given(id.to_string());
        lock(&self.waiting).begun.remove(id.as_str());
        if !self.directory.exists() {
            return Ok(());
        }
        let gone = self.with(|vault| vault.retain(|entry| entry.scope != given))?;
        let gone = gone.iter().map(|entry| about(entry, WITHDRAWN, who));
        self.note(gone.collect());
        Ok(())
    }

    /// Deletes expired values, also where no keeper runs that would withdraw them. None while the
    /// clock is not believed: a deleted value does not come back.
    pub fn expire(&self) -> Result<(), Fault> {
        let look = self.clock.look();
        if !look.is_plausible() {
            return Ok(());
        }
        let gone = self.with(|vault| vault.expire(seconds(look.for_expiry())))?;
        let gone: Vec<_> = gone
            .iter()
            .map(|entry| about(entry, EXPIRED, "holm"))
            .collect();
        self.written(self.chain.append_ends(&gone));
        Ok(())
    }

    /// Deletes values of workspaces and projects that no longer exist.
    pub fn sweep(&self, is_known: impl Fn(&Scope) -> bool) -> Result<(), Fault> {
        let gone = self.with(|vault| vault.retain(|entry| is_known(&entry.scope)))?;
        let gone = gone.iter().map(|entry| about(entry, "removed", "holm"));
        self.note(gone.collect());
        Ok(())
    }

    /// `None`: in the keyring if there is one, else in a file.
    pub fn rotate(&self, protection: Option<&Protection>, who: &str) -> Result<usize, Fault> {
        let count = self.with(|vault| match protection {
            Some(protection) => vault.rotate(protection),
            None => match vault.rotate(&Protection::Keyring) {
                Err(VaultError::Keyring(_)) => vault.rotate(&Protection::File),
                other => other,
            },
        })?;
        self.note(vec![happening("rotated", who)]);
        Ok(count)
    }

    /// Where the first key would be stored.
    pub fn first_place(&self) -> String {
        match self.keyring.check() {
            Ok(()) => "in the keyring of your desktop".to_owned(),
            Err(why) => format!("in a file that only you may read ({why})"),
        }
    }

    /// Unlocks the vault. The user may have to type something meanwhile, so no lock is held.
    pub fn unlock(&self, passphrase: Option<&Value>, who: &str) -> Result<(), Fault> {
        let place = self.with(|vault| Ok(vault.is_locked().then(|| vault.storage()).flatten()))?;
        match (place, passphrase) {
            (Some(KeyStorage::Keyring), _) => {
                let unlocked = self.keyring.unlock().map_err(VaultError::Keyring);
                unlocked.map_err(|error| self.fault(error))?;
                self.with(|vault| vault.check())?;
            }
            (_, Some(passphrase)) => self.with(|vault| vault.unlock(passphrase))?,
            (Some(_), None) => return Err(self.fault(VaultError::Locked)),
            (None, None) => return Ok(()),
        }
        self.note(vec![happening("unlocked", who)]);
        Ok(())
    }

    pub fn audit(&self) -> Result<Vec<Line>, Fault> {
        // The record can be read, whatever happened to the values.
        if let Err(fault) = self.expire() {
            tracing::warn!(%fault, "secrets whose time is up were not looked for");
        }
        self.chain.read().map_err(|error| self.unwritable(error))
    }

    /// Checks the record against the store's last head, and returns the newest one.
    pub fn verify(&self) -> Result<Result<Head, Broken>, Fault> {
        let known = self.known_head()?;
        let verified = self.chain.verify(known.as_ref());
        verified.map_err(|error| self.unwritable(error))
    }

    /// The action is done, whether or not this can be written; a failure is logged.
    pub fn note(&self, happenings: Vec<Happening>) {
        self.written(self.chain.append(&happenings));
    }

    fn written(&self, written: std::io::Result<()>) {
        if let Err(error) = written {
            tracing::error!(%error, "what happened to secrets cannot be written down");
        }
        self.follow_record();
    }

    /// Stores the newest line, by the daemon or by a keeper. A record that does not continue the stored head is
    /// not stored: `verify` reports why.
    pub fn follow_record(&self) {
        let followed = self.known_head().map(|known| {
            let newest = self.chain.advance(known.as_ref());
            newest.map_err(|error| self.unwritable(error))
        });
        let newest = match followed.and_then(|newest| newest) {
            Ok(Some(newest)) if newest.number > 0 => newest,
            Ok(Some(_)) => return,
            Ok(None) => {
                tracing::error!("the record of secrets was changed: `holm secret audit --verify`");
                return;
            }
            Err(fault) => {
                tracing::error!(%fault, "the record of secrets cannot be followed");
                return;
            }
        };
        let (number, hash) = (newest.number, newest.hash);
        if let Err(error) = self.store.set_secrets_head(&RecordHead { number, hash }) {
            tracing::error!(%error, "the newest line of the record of secrets is not kept");
        }
    }

    fn known_head(&self) -> Result<Option<Head>, Fault> {
        let known = self.store.secrets_head().map_err(Fault::from)?;
        Ok(known.map(|RecordHead { number, hash }| Head { number, hash }))
    }

    fn unwritable(&self, error: std::io::Error) -> Fault {
        let place = self.directory.display();
        let hint = format!("is {place} yours, and is there room on the disk?");
        let message = "cannot read the record of what happened to secrets";
        Fault::new(Code::ReadOnly, message, hint).because(error)
    }

    fn fault(&self, error: VaultError) -> Fault {
        vault_fault(&self.directory, error)
    }
}

/// The effective value for a workspace: the one stored for it alone, whatever the source; else what
/// the client read, or what is stored for the project, else for the user.
pub(super) fn counting(
    vault: &Vault,
    owner: Owner<'_>,
    secret: &Secret,
    values: &Values,
) -> Result<Option<Value>, VaultError> {
    let workspace = owner.workspace.into_iter();
    let mut scopes: Vec<Scope> = workspace
        .map(|id| Scope::Workspace(id.to_owned()))
        .collect();
    if secret.source == SecretSource::Stored {
        scopes.extend([Scope::Project(owner.project.to_owned()), Scope::User]);
    }
    for scope in scopes {
        if let Some((_, value)) = vault.get(&scope, &secret.name)? {
            return Ok(Some(value));
        }
    }
    let read = values.iter().find(|(name, _)| *name == secret.name);
    Ok(read.map(|(_, value)| value.clone()))
}

pub fn is_for_setup(secret: &Secret) -> bool {
    secret.to.iter().any(|to| to == SETUP_RECEIVER)
}

fn is_withdrawn(secret: &Secret, unread: &Unread) -> bool {
    match (&secret.source, unread) {
        (SecretSource::Stored, _) => true,
        (_, Unread::Keep) => false,
        (_, Unread::Withdraw(names)) => names.contains(&secret.name),
    }
}

pub(super) fn entry(scope: Scope, name: &str, expires_at: Option<u64>) -> Entry {
    Entry {
        scope,
        name: name.to_owned(),
        // The vault sets it.
        version: 0,
        set_at: seconds(clock::wall()),
        expires_at,
    }
}

pub fn happening(event: &str, who: &str) -> Happening {
    Happening {
        time: clock::wall().to_string(),
        event: event.to_owned(),
        who: who.to_owned(),
        ..Happening::default()
    }
}

pub fn about(entry: &Entry, event: &str, who: &str) -> Happening {
    let (scope, workspace) = match &entry.scope {
        Scope::User => (Some("user".to_owned()), None),
        Scope::Project(id) => (Some(id.clone()), None),
        Scope::Workspace(id) => (Some(id.clone()), Some(id.clone())),
        Scope::Given(id) => (None, Some(id.clone())),
        Scope::Installation => (Some("installation".to_owned()), None),
    };
    Happening {
        secret: Some(entry.name.clone()),
        scope,
        workspace,
        ..happening(event, who)
    }
}

fn seconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_second()).unwrap_or_default()
}

fn keyring_advice(directory: &Path, why: &KeyringError) -> (Code, String) {
    match why {
        KeyringError::Locked => (
            Code::SecretsLocked,
            "`holm secret unlock` has your desktop ask for its password; \
             without a desktop, unlock it yourself and try again"
                .to_owned(),
        ),
        KeyringError::Absent(_) | KeyringError::Slow | KeyringError::Refused(_) => (
            Code::SecretsLocked,
            "start the keyring (a login to your desktop does), then `holm secret unlock`; \
             a daemon that was started before your desktop needs `holm daemon stop` first"
                .to_owned(),
        ),
        KeyringError::NoKey => (
            Code::CorruptState,
            format!(
                "bring the keyring's item `holm: key of the stored secrets` back; if it is lost, move \
                 {} away and set the secrets again",
                directory.display()
            ),
        ),
    }
}

fn vault_fault(directory: &Path, error: VaultError) -> Fault {
    let place = directory.display();
    let (code, hint) = match &error {
        VaultError::Locked => (
            Code::SecretsLocked,
            "`holm secret unlock` asks for it".to_owned(),
        ),
        VaultError::Keyring(why) => keyring_advice(directory, why),
        VaultError::Key(KeyError::WrongPassphrase) => (
            Code::WrongPassphrase,
            "type it again; what is lost with a passphrase cannot be brought back".to_owned(),
        ),
        VaultError::File(_) | VaultError::Key(KeyError::File(_)) => (
            Code::ReadOnly,
            format!("is {place} yours, and is there room on the disk?"),
        ),
        _ => (
            Code::CorruptState,
            format!("bring {place} back from a backup, or move it away and set the secrets again"),
        ),
    };
    Fault::of(code, error, hint)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
