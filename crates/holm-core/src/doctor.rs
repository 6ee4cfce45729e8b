//! Whether a machine is fit for a driver, as one check per part. Drivers look, `holm doctor` shows.

/// One part that a driver looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// How to get it, when it is not there.
    pub fix: Option<String>,
    /// Without it nothing starts.
    pub required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    Warning,
    Missing,
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
