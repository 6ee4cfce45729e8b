//! The tables as the first version made them, for the test that such a file is brought up to date.

pub const TABLES: &str = "
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
