//! What `up` did not copy or start, with the command to do so. Printed once, for a new workspace.

use super::output::{FAINT, HINT, printable};

/// What was not copied or started, in both forms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// For people.
    pub rows: Vec<Missing>,
    /// For machines, in the JSON output.
    pub notes: Vec<String>,
}

/// Something that was not copied or started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// `not copied`, `not started`.
    pub how: &'static str,
    pub what: String,
    pub why: &'static str,
    pub command: String,
}

pub const NOT_COPIED: &str = "not copied";

// === impl Left ===

impl Left {
    /// Adds paths that `--include` would copy.
    pub fn include(&mut self, paths: &[&str], why: &'static str) {
        if paths.is_empty() {
            return;
        }
        self.rows.extend(paths.iter().map(|path| Missing {
            how: NOT_COPIED,
            what: (*path).to_owned(),
            why,
            command: format!("holm up LABEL --include {path}"),
        }));
        let options: Vec<String> = paths
            .iter()
            .map(|path| format!("--include {path}"))
            .collect();
        let (paths, options) = (paths.join(", "), options.join(" "));
        self.notes.push(format!(
            "not copied ({why}): {paths}; `holm up LABEL {options}`"
        ));
    }
}

/// Rows with aligned columns. What is said of the row above is not repeated.
pub fn rows(missing: &[Missing]) -> Vec<String> {
    let width = |of: fn(&Missing) -> usize| missing.iter().map(of).max().unwrap_or(0);
    let how = width(|one| one.how.len());
    let what = width(|one| one.what.chars().count());
    let why = width(|one| one.why.len());
    let mut before = "";
    let rows = missing.iter().map(|one| {
        let head = if one.how == before { "" } else { one.how };
        before = one.how;
        let (name, command) = (printable(&one.what), printable(&one.command));
        let reason = one.why;
        format!(
            "  {FAINT}{head:how$}{FAINT:#}  {name:what$}   {reason:why$}   {HINT}{command}{HINT:#}"
        )
    });
    rows.collect()
}
