//! The engine's store, in an SQLite file or in PostgreSQL. This module and the trait's documentation say which
//! transactions are durable; the SQL is in the sibling modules.

use crate::changes::Durability::{Durable, Fact, Light};
use crate::database::Database;
use crate::postgres::Server;
use crate::{
    access, clock, events, inbox, journal, keys, ports, projects, review, runs, workspaces,
};
use holm_core::clock::ClockRecord;
use holm_core::plan::{Action, Desired};
use holm_core::spec::WorkspaceSpec;
use holm_core::{Label, ProjectId, RunId, TokenId, WorkspaceId};
use holm_engine::inbox::{InboxRecords, InboxStore, NoticeRecord, OpenItem};
use holm_engine::review::{
    CheckRecord, CommentRecord, Look, ReviewStore, TreeApproval, TurnFailure, TurnRecord,
};
use holm_engine::run::{RunFilter, RunRecord};
use holm_engine::store::{
    Approval, AuditEntry, AuditFilter, AuditNote, AuditRecord, Canonical, Claim, EntryId, Event,
    EventRecord, Keyed, Outcome, ProjectRecord, ProjectRemoval, RecordHead, RequestKey, Store,
    StoreError, TokenRecord, WorkspaceRecord,
};
use jiff::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// Clones share the database.
#[derive(Clone)]
pub struct SqliteStore {
    database: Arc<Database>,
}

/// Clones share the database.
#[derive(Clone)]
pub struct PostgresStore {
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

// === impl PostgresStore ===

impl PostgresStore {
    /// Opens the database, of which no other process is a user, or makes its tables. `copy` is a file for the copy that
    /// answers reads; what it has is replaced.
    pub fn open(server: Server, copy: &Path) -> Result<Self, StoreError> {
        let database = Arc::new(Database::copied(server, copy)?);
        Ok(Self { database })
    }
}

/// Implements a trait for both stores by a table. Each row says whether the method reads, whether its transaction
/// is `durable` when it returns, `light`, or a light `fact`, and which function does it.
macro_rules! store {
    (
        $trait:ident { $($more:item)* }
        $($kind:ident $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $function:path;)*
    ) => {
        store! {
            @for SqliteStore $trait { $($more)* }
            $($kind $name($($argument: $type),*) -> $result = $function;)*
        }
        store! {
            @for PostgresStore $trait { $($more)* }
            $($kind $name($($argument: $type),*) -> $result = $function;)*
        }
    };
    (
        @for $store:ident $trait:ident { $($more:item)* }
        $($kind:ident $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $function:path;)*
    ) => {
        impl $trait for $store {
            $(fn $name(&self, $($argument: $type),*) -> Result<$result, StoreError> {
                store!(@$kind self.database, |sql| $function(sql, $($argument),*))
            })*

            $($more)*
        }
    };
    (@read $database:expr, $act:expr) => { $database.read($act) };
    (@durable $database:expr, $act:expr) => { $database.write(Durable, $act) };
    (@light $database:expr, $act:expr) => { $database.write(Light, $act) };
    (@fact $database:expr, $act:expr) => { $database.write(Fact, $act) };
}

store! {
    ReviewStore {}
    durable add_turn(turn: &TurnRecord) -> () = review::add_turn;
    read turns(id: &WorkspaceId) -> Vec<TurnRecord> = review::turns;
    read last_turn(id: &WorkspaceId) -> Option<TurnRecord> = review::last_turn;
    fact save_turn(turn: &TurnRecord) -> () = review::save_turn;
    light forget_surplus_turns(id: &WorkspaceId, kept: u64) -> Vec<u64> = review::forget_surplus;
    durable note_turn_failure(failure: &TurnFailure) -> () = review::note_turn_failure;
    read turn_failure(id: &WorkspaceId) -> Option<TurnFailure> = review::turn_failure;
    fact forget_turn_failure(id: &WorkspaceId) -> () = review::forget_turn_failure;
    durable change_comments(
        id: &WorkspaceId, change: &mut dyn FnMut(&mut Vec<CommentRecord>)
    ) -> () = review::change_comments;
    read comments(id: &WorkspaceId) -> Vec<CommentRecord> = review::comments;
    durable save_check(check: &CheckRecord) -> () = review::save_check;
    read checks_of(id: &WorkspaceId, tree: &str) -> Vec<CheckRecord> = review::checks_of;
    read open_checks() -> Vec<CheckRecord> = review::open_checks;
    read look(id: &WorkspaceId) -> Option<Look> = review::look;
    durable set_look(id: &WorkspaceId, look: &Look, viewed: &[(String, String)]) -> ()
        = review::set_look;
    durable mark_viewed(id: &WorkspaceId, viewed: &[(String, String)]) -> () = review::mark_viewed;
    read viewed(id: &WorkspaceId) -> BTreeMap<String, String> = review::viewed;
    durable approve_tree(id: &WorkspaceId, approval: &TreeApproval) -> () = review::approve;
    read tree_approval(id: &WorkspaceId) -> Option<TreeApproval> = review::approval;
}

store! {
    InboxStore {}
    fact add_notice(notice: &NoticeRecord) -> () = inbox::add_notice;
    read inbox_records() -> HashMap<WorkspaceId, InboxRecords> = inbox::records;
    fact change_open_items(open: &[OpenItem], closed: &[OpenItem]) -> () = inbox::change_open;
    read last_event_of(kind: &str) -> Option<Timestamp> = inbox::last_event_of;
}

store! {
    Store {
        fn check(&self) -> Result<(), StoreError> {
            self.database.check()
        }

        fn outages(&self) -> u64 {
            self.database.outages()
        }

        fn checkpoint(&self) -> Result<(), StoreError> {
            self.database.checkpoint()
        }

        fn flush(&self) -> Result<(), StoreError> {
            self.database.flush()
        }
    }
    read projects() -> Vec<(ProjectRecord, u64)> = projects::all;
    read project(id: &ProjectId) -> Option<ProjectRecord> = projects::one;
    durable save_project(project: &ProjectRecord) -> () = projects::save;
    durable remove_project(id: &ProjectId) -> ProjectRemoval = projects::remove;
    // The store is flushed before the workspace is acknowledged. If power fails earlier, nothing of it is promised.
    light insert_workspace(workspace: &WorkspaceRecord) -> () = workspaces::insert;
    read workspace(id: &WorkspaceId) -> Option<WorkspaceRecord> = workspaces::one;
    read live_workspaces() -> Vec<WorkspaceRecord> = workspaces::live;
    read live_workspace(project: &ProjectId, label: &Label) -> Option<WorkspaceRecord>
        = workspaces::labelled;
    read workspaces_labelled(label: &str) -> Vec<WorkspaceRecord> = workspaces::labelled_anywhere;
    read trashed_workspaces() -> Vec<WorkspaceRecord> = workspaces::trashed;
    read latest_workspace(project: &ProjectId) -> Option<WorkspaceRecord> = workspaces::latest;
    durable set_label(id: &WorkspaceId, label: &Label, at: Timestamp) -> () = workspaces::set_label;
    durable set_spec(id: &WorkspaceId, spec: &WorkspaceSpec) -> () = workspaces::set_spec;
    durable set_desired(id: &WorkspaceId, desired: Desired) -> () = workspaces::set_desired;
    // The record is on the disk already, and recovery after a power failure acknowledges it again.
    fact acknowledge(id: &WorkspaceId) -> () = workspaces::acknowledge;
    durable set_removed(id: &WorkspaceId, at: Timestamp) -> () = workspaces::set_removed;
    durable take_back(id: &WorkspaceId, label: &Label, at: Timestamp) -> () = workspaces::take_back;
    durable return_to_trash(earlier: &WorkspaceRecord) -> () = workspaces::return_to_trash;
    durable forget_trashed(id: &WorkspaceId) -> () = workspaces::forget_trashed;
    read abandoned_projects() -> Vec<ProjectId> = projects::abandoned;
    durable forget_unborn(id: &WorkspaceId) -> () = workspaces::forget_unborn;
    fact touch(id: &WorkspaceId, at: Timestamp) -> () = workspaces::touch;
    fact set_dirty(id: &WorkspaceId, is_dirty: bool) -> () = workspaces::set_dirty;
    durable journal(id: &WorkspaceId, actions: &[Action]) -> Vec<EntryId> = workspaces::plan;
    fact end_entry(entry: EntryId, outcome: &Outcome) -> () = journal::end;
    fact end_entries(entries: &[EntryId]) -> () = journal::end_done;
    light drop_open_entries(id: &WorkspaceId) -> () = journal::drop_open;
    read unfinished() -> Vec<WorkspaceRecord> = workspaces::unfinished;
    durable approve(project: &ProjectId, approval: &Approval) -> () = projects::approve;
    read last_approval(project: &ProjectId) -> Option<Approval> = projects::last_approval;
    durable revoke(project: &ProjectId, digest: &str) -> () = projects::revoke;
    read is_approved(project: &ProjectId, digest: &str) -> bool = projects::is_approved;
    read claims() -> Vec<Claim> = ports::claims;
    // After a power failure the same rule chooses the same port again.
    fact claim_port(claim: &Claim, at: Timestamp) -> () = ports::claim;
    read abandoned_ports() -> Vec<u16> = ports::abandoned;
    light forget_abandoned_port(host_port: u16) -> () = ports::forget_abandoned;
    read canonical() -> Vec<Canonical> = ports::canonical;
    durable set_canonical(wanted: &[Canonical]) -> () = ports::set_canonical;
    // The store is flushed before the run is acknowledged.
    light insert_run(run: &RunRecord) -> Option<RunRecord> = runs::insert;
    read run(id: &RunId) -> Option<RunRecord> = runs::one;
    // The keeper reports the same again to the next daemon.
    fact save_run(run: &RunRecord) -> () = runs::save;
    light renew_run(run: &RunRecord) -> () = runs::renew;
    fact take_back_run(run: &RunRecord) -> () = runs::take_back;
    fact forget_run(id: &RunId) -> () = runs::forget;
    read runs(filter: &RunFilter) -> Vec<(i64, RunRecord)> = runs::some;
    read open_runs() -> Vec<RunRecord> = runs::open;
    read surplus_runs(id: &WorkspaceId, kept: usize) -> Vec<RunId> = runs::surplus;
    fact add_event(event: &Event) -> u64 = events::add;
    read events(after: u64, most: usize) -> Vec<EventRecord> = events::after;
    read last_event() -> u64 = events::last;
    read key(key: &RequestKey) -> Option<Keyed> = keys::one;
    light note_key(key: &RequestKey, digest: &str, at: Timestamp) -> () = keys::note;
    // The store is flushed before the workspace is acknowledged.
    light begin_key(key: &RequestKey, subject: &str) -> () = keys::begin;
    fact answer_key(key: &RequestKey, answer: &str) -> () = keys::answer;
    light forget_key(key: &RequestKey) -> () = keys::forget;
    light forget_keys(before: Timestamp) -> () = keys::forget_before;
    read tokens() -> Vec<TokenRecord> = access::tokens;
    durable add_token(token: &TokenRecord) -> () = access::add_token;
    durable expire_token(id: &TokenId, at: Timestamp) -> () = access::expire_token;
    durable remove_token(id: &TokenId) -> () = access::remove_token;
    fact add_audit(entry: &AuditEntry) -> () = access::add;
    fact note_audit(notes: &[AuditNote]) -> () = access::note;
    read audit(filter: &AuditFilter, most: usize) -> Vec<AuditRecord> = access::newest;
    read clock() -> Option<ClockRecord> = clock::seen;
    fact set_clock(seen: &ClockRecord) -> () = clock::set;
    read secrets_head() -> Option<RecordHead> = access::secrets_head;
    fact set_secrets_head(head: &RecordHead) -> () = access::set_secrets_head;
}
