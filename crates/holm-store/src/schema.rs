//! The tables and the schema version.

use crate::error::Trouble;
use rusqlite::Transaction;

/// `PRAGMA user_version` of files that this program writes.
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64 + 1;

/// The migration from each version to the next, starting with 1 to 2.
const MIGRATIONS: &[&str] = &[
    ROUTES,
    REQUEST_KEYS,
    ACCESS,
    RUNS,
    SECRETS_HEAD,
    APPROVED,
    PROJECT_RULES,
    CLOCK,
    LOOKUPS,
    REVIEW,
    CHECKS,
    INBOX,
    RECORDS,
];

/// Writes the current version again: no change, but a real write, to test the disk.
pub(crate) fn write_version(transaction: &Transaction<'_>) -> Result<(), Trouble> {
    Ok(transaction.pragma_update(None, "user_version", VERSION)?)
}

/// Makes the tables of a version in an empty file.
pub(crate) fn create(transaction: &Transaction<'_>, version: i64) -> Result<(), rusqlite::Error> {
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "user_version", 1)?;
    apply(transaction, 1, version)
}

/// Brings tables of this version up to date.
pub(crate) fn migrate(transaction: &Transaction<'_>, from: i64) -> Result<(), rusqlite::Error> {
    apply(transaction, from, VERSION)
}

fn apply(transaction: &Transaction<'_>, from: i64, to: i64) -> Result<(), rusqlite::Error> {
    for (migration, leads_to) in MIGRATIONS.iter().zip(2..=to) {
        if from < leads_to {
            transaction.execute_batch(migration)?;
            transaction.pragma_update(None, "user_version", leads_to)?;
        }
    }
    Ok(())
}

/// The tables of version 1, before any migration.
const TABLES: &str = "
CREATE TABLE projects (
    id            TEXT    NOT NULL PRIMARY KEY,
    name          TEXT    NOT NULL,
    path          TEXT    NOT NULL,
    git_dir       TEXT    NOT NULL,
    device        INTEGER NOT NULL,
    inode         INTEGER NOT NULL,
    object_format TEXT    NOT NULL,
    refs_digest   TEXT,
    created_at    TEXT    NOT NULL,
    removed_at    TEXT
) STRICT;

CREATE UNIQUE INDEX project_names ON projects (name) WHERE removed_at IS NULL;

CREATE TABLE workspaces (
    id           TEXT    NOT NULL PRIMARY KEY,
    project_id   TEXT    NOT NULL REFERENCES projects (id),
    label        TEXT    NOT NULL,
    owner        TEXT    NOT NULL,
    desired      TEXT    NOT NULL,
    acknowledged INTEGER NOT NULL,
    spec         TEXT    NOT NULL,
    created_at   TEXT    NOT NULL,
    last_used_at TEXT    NOT NULL,
    dirty        INTEGER,
    removed_at   TEXT
) STRICT;

CREATE UNIQUE INDEX live_labels ON workspaces (project_id, label) WHERE removed_at IS NULL;

CREATE TABLE journal (
    entry        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    workspace_id TEXT    NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    action       TEXT    NOT NULL,
    planned_at   TEXT    NOT NULL,
    outcome      TEXT,
    detail       TEXT,
    ended_at     TEXT
) STRICT;

CREATE INDEX journal_of_workspace ON journal (workspace_id);
CREATE INDEX open_entries ON journal (workspace_id) WHERE outcome IS NULL;

CREATE TABLE approvals (
    project_id  TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    digest      TEXT NOT NULL,
    approved_at TEXT NOT NULL,
    PRIMARY KEY (project_id, digest)
) STRICT;
";

/// Version 2: when a workspace got its label, host ports, canonical ports and events.
///
/// The row of a host port stays without an owner when its workspace is deleted, so that an old
/// address does not reach another workspace.
const ROUTES: &str = "
ALTER TABLE workspaces ADD COLUMN labelled_at TEXT NOT NULL DEFAULT '';
UPDATE workspaces SET labelled_at = created_at;

CREATE TABLE ports (
    host_port    INTEGER NOT NULL PRIMARY KEY,
    workspace_id TEXT    REFERENCES workspaces (id) ON DELETE SET NULL,
    port         INTEGER NOT NULL,
    claimed_at   TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX claims ON ports (workspace_id, port) WHERE workspace_id IS NOT NULL;

CREATE TABLE canonical (
    port         INTEGER NOT NULL PRIMARY KEY,
    workspace_id TEXT    NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE
) STRICT;

CREATE TABLE events (
    cursor       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at           TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    workspace_id TEXT    NOT NULL,
    detail       TEXT    NOT NULL
) STRICT;
";

/// Version 3: idempotency keys.
const REQUEST_KEYS: &str = "
CREATE TABLE request_keys (
    scope    TEXT NOT NULL,
    key      TEXT NOT NULL,
    digest   TEXT NOT NULL,
    subject  TEXT,
    answer   TEXT,
    noted_at TEXT NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT;
";

/// Version 4: tokens (digests only) and the audit record.
const ACCESS: &str = "
CREATE TABLE tokens (
    id           TEXT NOT NULL PRIMARY KEY,
    name         TEXT NOT NULL,
    workspace_id TEXT,
    digest       BLOB NOT NULL,
    created_at   TEXT NOT NULL,
    expires_at   TEXT
) STRICT;

CREATE TABLE audit (
    cursor       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    at           TEXT    NOT NULL,
    actor        TEXT    NOT NULL,
    request      TEXT    NOT NULL,
    method       TEXT    NOT NULL,
    route        TEXT    NOT NULL,
    workspace_id TEXT,
    status       INTEGER NOT NULL,
    code         TEXT,
    count        INTEGER NOT NULL
) STRICT;
";

/// Version 5: runs. Searchable fields have columns, the rest is one JSON object.
const RUNS: &str = "
CREATE TABLE runs (
    place        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id           TEXT    NOT NULL UNIQUE,
    workspace_id TEXT    NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    key          TEXT,
    digest       TEXT    NOT NULL,
    created_at   TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    details      TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX run_keys ON runs (workspace_id, key) WHERE key IS NOT NULL;
CREATE INDEX runs_of_workspace ON runs (workspace_id, place);
CREATE INDEX open_runs ON runs (place) WHERE state IN ('queued', 'running');
";

/// Version 6: the newest line of the secrets record.
const SECRETS_HEAD: &str = "
CREATE TABLE secrets_head (
    id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL,
    hash   TEXT    NOT NULL
) STRICT;
";

/// Version 7: the requests of each approval, so that the next question can show what is new; the
/// subject and the later outcome of a request. Earlier rows do not have them.
const APPROVED: &str = "
ALTER TABLE approvals ADD COLUMN asks TEXT;
ALTER TABLE audit ADD COLUMN subject TEXT;
ALTER TABLE audit ADD COLUMN outcome TEXT;
CREATE INDEX audit_requests ON audit (request);
";

/// Version 8: settings of the project itself, as JSON. Earlier projects have none.
const PROJECT_RULES: &str = "
ALTER TABLE projects ADD COLUMN rules TEXT NOT NULL DEFAULT '{}';
";

/// Version 9: the last clock reading, and tokens that have expired for good.
const CLOCK: &str = "
CREATE TABLE clock (
    id             INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    boot           TEXT    NOT NULL,
    boottime_ms    INTEGER NOT NULL,
    wall_ms        INTEGER NOT NULL,
    latest_ms      INTEGER NOT NULL,
    ahead_by_ms    INTEGER,
    ahead_since_ms INTEGER
) STRICT;

ALTER TABLE tokens ADD COLUMN expired_at TEXT;
";

/// Version 10: indexes for a workspace by its label, and for the latest of a project.
const LOOKUPS: &str = "
CREATE INDEX labels ON workspaces (label) WHERE removed_at IS NULL;
CREATE INDEX latest_workspaces ON workspaces (project_id, created_at) WHERE acknowledged = 1;
";

/// Version 11: turns, the last look at a workspace, viewed files, comments, approvals of trees, and what a token may do
/// besides.
const REVIEW: &str = "
CREATE TABLE turns (
    workspace_id TEXT    NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    number       INTEGER NOT NULL,
    at           TEXT    NOT NULL,
    cause        TEXT    NOT NULL,
    tree         TEXT    NOT NULL,
    details      TEXT    NOT NULL,
    PRIMARY KEY (workspace_id, number)
) STRICT;

CREATE TABLE looks (
    workspace_id TEXT    NOT NULL PRIMARY KEY REFERENCES workspaces (id) ON DELETE CASCADE,
    turn         INTEGER NOT NULL,
    tree         TEXT    NOT NULL,
    at           TEXT    NOT NULL
) STRICT;

CREATE TABLE viewed (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    path         TEXT NOT NULL,
    blob         TEXT NOT NULL,
    PRIMARY KEY (workspace_id, path)
) STRICT;

CREATE TABLE tree_approvals (
    place        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    workspace_id TEXT    NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    tree         TEXT    NOT NULL,
    turn         INTEGER NOT NULL,
    at           TEXT    NOT NULL,
    actor        TEXT    NOT NULL,
    evidence     TEXT    NOT NULL
) STRICT;

CREATE TABLE comments (
    workspace_id TEXT    NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    number       INTEGER NOT NULL,
    turn         INTEGER NOT NULL,
    details      TEXT    NOT NULL,
    PRIMARY KEY (workspace_id, number)
) STRICT;

CREATE INDEX approvals_of_workspace ON tree_approvals (workspace_id, place);

ALTER TABLE tokens ADD COLUMN may TEXT NOT NULL DEFAULT '';
";

/// Version 12: the results of checks, the newest of each tree.
const CHECKS: &str = "
CREATE TABLE checks (
    workspace_id TEXT    NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    tree         TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    turn         INTEGER,
    details      TEXT    NOT NULL,
    PRIMARY KEY (workspace_id, tree, name)
) STRICT;

CREATE INDEX open_checks ON checks (workspace_id) WHERE state IN ('queued', 'running');
";

/// Version 13: the inbox. Notices of programs inside, and the open items: nothing else records when an item opened,
/// and an item that is open is told once.
const INBOX: &str = "
CREATE TABLE notices (
    place        INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    workspace_id TEXT    NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    at           TEXT    NOT NULL,
    source       TEXT,
    text         TEXT    NOT NULL,
    left_out     INTEGER NOT NULL
) STRICT;

CREATE INDEX notices_of_workspace ON notices (workspace_id, place);

CREATE TABLE open_items (
    workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    cause        TEXT NOT NULL,
    reason       TEXT NOT NULL,
    opened_at    TEXT NOT NULL,
    since        TEXT NOT NULL,
    PRIMARY KEY (workspace_id, cause)
) STRICT;

CREATE INDEX forbidden_requests ON audit (actor) WHERE status = 403;
";

/// Version 14: the evidence of an approval in the audit record, and the last turn of a workspace that could not be
/// recorded. Turns have no digests of volumes any more.
const RECORDS: &str = "
ALTER TABLE audit ADD COLUMN evidence TEXT;

CREATE TABLE turn_failures (
    workspace_id TEXT NOT NULL PRIMARY KEY REFERENCES workspaces (id) ON DELETE CASCADE,
    at           TEXT NOT NULL,
    cause        TEXT NOT NULL,
    text         TEXT NOT NULL
) STRICT;

UPDATE turns SET details = json_remove(details, '$.volumes');
";
