//! The default shell inside: for `enter`, and for sessions without a command.

/// bash where it exists. Not a login shell: system profiles would replace the workspace's PATH.
pub const COMMAND: [&str; 3] = [
    "sh",
    "-c",
    "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi",
];

/// Variables that put the label before the shell's own prompt.
pub fn prompt(label: &str) -> [(&'static str, String); 2] {
    let bash = format!("PS1=\"({label}) ${{PS1#\"({label}) \"}}\"");
    [("PROMPT_COMMAND", bash), ("PS1", format!("({label}) $ "))]
}
