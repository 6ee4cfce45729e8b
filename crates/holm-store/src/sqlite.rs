//! The engine's store in an SQLite file. This module and the trait's documentation say which
//! transactions are durable; the SQL is in the sibling modules.

use crate::database::{Database, Durability::Durable, Durability::Light};
use crate::{access, clock, events, journal, keys, ports, projects, rows, runs, workspaces};
use holm_core::clock::Seen;
use holm_core::plan::{Action, Desired};
use holm_core::spec::WorkspaceSpec;
use holm_core::{Label, ProjectId, RunId, TokenId, WorkspaceId};
use holm_engine::run::{RunFilter, RunRecord};
use holm_engine::store::{
    Approval, AuditEntry, AuditFilter, AuditOutcome, AuditRecord, Canonical, Claim, EntryId, Event,
    EventRecord, Keyed, Outcome, ProjectRecord, ProjectRemoval, RecordHead, RequestKey, Store,
    StoreError, TokenRecord, WorkspaceRecord,
};
use jiff::Timestamp;
use rusqlite::params;
use std::path::Path;
use std::sync::Arc;

/// Clones share the database.
#[derive(Clone)]
pub struct SqliteStore {
    database: Arc<Database>,
}

// === impl SqliteStore ===

impl SqliteStore {
    /// Opens or creates the file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let database = Arc::new(Database::open(path)?);
        Ok(Self { database })
    }
}

impl Store for SqliteStore {
    fn projects(&self) -> Result<Vec<(ProjectRecord, u64)>, StoreError> {
        self.database.read(projects::all)
    }

    fn project(&self, id: &ProjectId) -> Result<Option<ProjectRecord>, StoreError> {
        self.database
            .read(|connection| projects::one(connection, id))
    }

    fn save_project(&self, project: &ProjectRecord) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| projects::save(transaction, project))
    }

    fn remove_project(&self, id: &ProjectId) -> Result<ProjectRemoval, StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| projects::remove(transaction, id))
    }

    fn insert_workspace(&self, workspace: &WorkspaceRecord) -> Result<(), StoreError> {
        // The plan is journaled durably before any action, which writes this to the disk too.
        let database = &self.database;
        database.write(Light, |transaction| {
            workspaces::insert(transaction, workspace)
        })
    }

    fn workspace(&self, id: &WorkspaceId) -> Result<Option<WorkspaceRecord>, StoreError> {
        self.database
            .read(|connection| workspaces::one(connection, id))
    }

    fn live_workspaces(&self) -> Result<Vec<WorkspaceRecord>, StoreError> {
        self.database.read(workspaces::live)
    }

    fn live_workspace(
        &self,
        project: &ProjectId,
        label: &Label,
    ) -> Result<Option<WorkspaceRecord>, StoreError> {
        let database = &self.database;
        database.read(|connection| workspaces::labelled(connection, project, label))
    }

    fn trashed_workspaces(&self) -> Result<Vec<WorkspaceRecord>, StoreError> {
        self.database.read(workspaces::trashed)
    }

    fn latest_workspace(&self, project: &ProjectId) -> Result<Option<WorkspaceRecord>, StoreError> {
        let database = &self.database;
        database.read(|connection| workspaces::latest(connection, project))
    }

    fn set_label(&self, id: &WorkspaceId, label: &Label, at: Timestamp) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| {
            workspaces::set_label(transaction, id, label, at)
        })
    }

    fn set_spec(&self, id: &WorkspaceId, spec: &WorkspaceSpec) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| {
            workspaces::set_spec(transaction, id, spec)
        })
    }

    fn set_desired(&self, id: &WorkspaceId, desired: Desired) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| {
            workspaces::set_desired(transaction, id, desired)
        })
    }

    fn acknowledge(&self, id: &WorkspaceId) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| {
            workspaces::acknowledge(transaction, id)
        })
    }

    fn set_removed(&self, id: &WorkspaceId, at: Timestamp) -> Result<(), StoreError> {
        let change = "UPDATE workspaces SET removed_at = ?2 WHERE id = ?1 AND removed_at IS NULL";
        self.database.write(Durable, |transaction| {
            let values = params![id.as_str(), rows::text(at)];
            workspaces::update(transaction, id, change, values)
        })
    }

    fn take_back(&self, id: &WorkspaceId, label: &Label, at: Timestamp) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| {
            workspaces::take_back(transaction, id, label, at)
        })
    }

    fn return_to_trash(&self, earlier: &WorkspaceRecord) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| {
            workspaces::return_to_trash(transaction, earlier)
        })
    }

    fn forget_trashed(&self, id: &WorkspaceId) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| {
            workspaces::forget_trashed(transaction, id)
        })
    }

    fn abandoned_projects(&self) -> Result<Vec<ProjectId>, StoreError> {
        self.database.read(projects::abandoned)
    }

    fn forget_unborn(&self, id: &WorkspaceId) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| {
            workspaces::forget_unborn(transaction, id)
        })
    }

    fn touch(&self, id: &WorkspaceId, at: Timestamp) -> Result<(), StoreError> {
        let change = "UPDATE workspaces SET last_used_at = max(last_used_at, ?2) WHERE id = ?1";
        self.database.write(Light, |transaction| {
            let values = params![id.as_str(), rows::text(at)];
            workspaces::update(transaction, id, change, values)
        })
    }

    fn set_dirty(&self, id: &WorkspaceId, is_dirty: bool) -> Result<(), StoreError> {
        let change = "UPDATE workspaces SET dirty = ?2 WHERE id = ?1";
        self.database.write(Light, |transaction| {
            workspaces::update(transaction, id, change, params![id.as_str(), is_dirty])
        })
    }

    fn journal(&self, id: &WorkspaceId, actions: &[Action]) -> Result<Vec<EntryId>, StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| {
            workspaces::plan(transaction, id, actions)
        })
    }

    fn end_entry(&self, entry: EntryId, outcome: &Outcome) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| {
            journal::end(transaction, entry, outcome)
        })
    }

    fn drop_open_entries(&self, id: &WorkspaceId) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| journal::drop_open(transaction, id))
    }

    fn unfinished(&self) -> Result<Vec<WorkspaceRecord>, StoreError> {
        self.database.read(workspaces::unfinished)
    }

    fn approve(&self, project: &ProjectId, approval: &Approval) -> Result<(), StoreError> {
        self.database.write(Durable, |transaction| {
            projects::approve(transaction, project, approval)
        })
    }

    fn last_approval(&self, project: &ProjectId) -> Result<Option<Approval>, StoreError> {
        let database = &self.database;
        database.read(|connection| projects::last_approval(connection, project))
    }

    fn is_approved(&self, project: &ProjectId, digest: &str) -> Result<bool, StoreError> {
        let database = &self.database;
        database.read(|connection| projects::is_approved(connection, project, digest))
    }

    fn claims(&self) -> Result<Vec<Claim>, StoreError> {
        self.database.read(ports::claims)
    }

    fn claim_port(&self, claim: &Claim, at: Timestamp) -> Result<(), StoreError> {
        // After a power failure the same rule chooses the same port again.
        let database = &self.database;
        database.write(Light, |transaction| ports::claim(transaction, claim, at))
    }

    fn abandoned_ports(&self) -> Result<Vec<u16>, StoreError> {
        self.database.read(ports::abandoned)
    }

    fn forget_abandoned_port(&self, host_port: u16) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| {
            ports::forget_abandoned(transaction, host_port)
        })
    }

    fn canonical(&self) -> Result<Vec<Canonical>, StoreError> {
        self.database.read(ports::canonical)
    }

    fn set_canonical(&self, wanted: &[Canonical]) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| {
            ports::set_canonical(transaction, wanted)
        })
    }

    fn insert_run(&self, run: &RunRecord) -> Result<Option<RunRecord>, StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| runs::insert(transaction, run))
    }

    fn run(&self, id: &RunId) -> Result<Option<RunRecord>, StoreError> {
        self.database.read(|connection| runs::one(connection, id))
    }

    fn save_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        // The keeper reports the same again to the next daemon.
        let database = &self.database;
        database.write(Light, |transaction| runs::save(transaction, run))
    }

    fn forget_run(&self, id: &RunId) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| runs::forget(transaction, id))
    }

    fn runs(&self, filter: &RunFilter) -> Result<Vec<(i64, RunRecord)>, StoreError> {
        self.database
            .read(|connection| runs::some(connection, filter))
    }

    fn open_runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        self.database.read(runs::open)
    }

    fn surplus_runs(&self, id: &WorkspaceId, kept: usize) -> Result<Vec<RunId>, StoreError> {
        let database = &self.database;
        database.read(|connection| runs::surplus(connection, id, kept))
    }

    fn add_event(&self, event: &Event) -> Result<u64, StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| events::add(transaction, event))
    }

    fn events(&self, after: u64, most: usize) -> Result<Vec<EventRecord>, StoreError> {
        let database = &self.database;
        database.read(|connection| events::after(connection, after, most))
    }

    fn last_event(&self) -> Result<u64, StoreError> {
        self.database.read(events::last)
    }

    fn check(&self) -> Result<(), StoreError> {
        self.database.read(events::last)?;
        let database = &self.database;
        database.write(Light, crate::schema::write_version)
    }

    fn key(&self, key: &RequestKey) -> Result<Option<Keyed>, StoreError> {
        self.database.read(|connection| keys::one(connection, key))
    }

    fn note_key(&self, key: &RequestKey, digest: &str, at: Timestamp) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| {
            keys::note(transaction, key, digest, at)
        })
    }

    fn begin_key(&self, key: &RequestKey, subject: &str) -> Result<(), StoreError> {
        // The workspace is acknowledged durably later, which writes this to the disk too.
        let database = &self.database;
        database.write(Light, |transaction| keys::begin(transaction, key, subject))
    }

    fn answer_key(&self, key: &RequestKey, answer: &str) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| keys::answer(transaction, key, answer))
    }

    fn forget_key(&self, key: &RequestKey) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| keys::forget(transaction, key))
    }

    fn forget_keys(&self, before: Timestamp) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| {
            keys::forget_before(transaction, before)
        })
    }

    fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        self.database.read(access::tokens)
    }

    fn add_token(&self, token: &TokenRecord) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| access::add_token(transaction, token))
    }

    fn expire_token(&self, id: &TokenId, at: Timestamp) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| {
            access::expire_token(transaction, id, at)
        })
    }

    fn remove_token(&self, id: &TokenId) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Durable, |transaction| access::remove_token(transaction, id))
    }

    fn add_audit(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| access::add(transaction, entry))
    }

    fn end_audit(&self, outcome: &AuditOutcome) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| access::end(transaction, outcome))
    }

    fn audit(&self, filter: &AuditFilter, most: usize) -> Result<Vec<AuditRecord>, StoreError> {
        let database = &self.database;
        database.read(|connection| access::newest(connection, filter, most))
    }

    fn clock(&self) -> Result<Option<Seen>, StoreError> {
        self.database.read(clock::seen)
    }

    fn set_clock(&self, seen: &Seen) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| clock::set(transaction, seen))
    }

    fn secrets_head(&self) -> Result<Option<RecordHead>, StoreError> {
        self.database.read(access::secrets_head)
    }

    fn set_secrets_head(&self, head: &RecordHead) -> Result<(), StoreError> {
        let database = &self.database;
        database.write(Light, |transaction| {
            access::set_secrets_head(transaction, head)
        })
    }
}
