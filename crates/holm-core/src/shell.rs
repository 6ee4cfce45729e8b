//! The shell that people get inside: what `enter` runs, and a session for which nobody says anything
//! else.

/// bash where it exists. Not a login shell: system profiles would put their own PATH in the place of
/// the workspace's.
pub const COMMAND: [&str; 3] = [
    "sh",
    "-c",
    "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi",
];

/// Variables that put the label in front of whatever prompt the shell's own files set.
pub fn prompt(label: &str) -> [(&'static str, String); 2] {
    let bash = format!("PS1=\"({label}) ${{PS1#\"({label}) \"}}\"");
    [("PROMPT_COMMAND", bash), ("PS1", format!("({label}) $ "))]
}
