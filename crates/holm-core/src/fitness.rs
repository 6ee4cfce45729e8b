//! What `holm doctor` finds out about a machine: one check per thing that was tried.

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// How to get it, when it is not there.
    pub fix: Option<String>,
    /// Without it no workspace starts.
    pub required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    Warning,
    Missing,
}

// === impl Check ===

impl Check {
    /// Something that every workspace needs; `fix` says how to get it when it is not there.
    pub fn required(name: &'static str, detail: String, fix: Option<String>) -> Self {
        Self {
            name,
            status: fix.as_ref().map_or(Status::Ok, |_| Status::Missing),
            detail,
            fix,
            required: true,
        }
    }

    /// As [`Self::required`], for something that workspaces can do without.
    pub fn optional(name: &'static str, detail: String, fix: Option<String>) -> Self {
        Self {
            name,
            status: fix.as_ref().map_or(Status::Ok, |_| Status::Warning),
            detail,
            fix,
            required: false,
        }
    }
}

// === impl Status ===

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Missing => "missing",
        }
    }
}
