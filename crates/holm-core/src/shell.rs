//! Shells inside: the default one, for `enter` and for sessions without a command, and commands that need none.

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

/// The words of a command that means the same without a shell; `None` if a shell has to read it.
pub fn plain_words(command: &str) -> Option<Vec<String>> {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || " _-./:=,@%+".contains(character);
    let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    let first = words.first()?;
    let is_assignment = first.contains('=');
    let has_words = words.iter().all(|word| !word.is_empty());
    (has_words && !is_assignment && command.chars().all(is_plain)).then_some(words)
}

/// A text as one word of a shell command.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::{plain_words, quoted};

    #[test]
    fn a_quoted_text_is_one_word() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's $x"), "'it'\\''s $x'");
    }

    #[test]
    fn only_a_command_without_shell_syntax_has_words() {
        let check = |command: &str, expected: &[&str]| {
            let words = plain_words(command).unwrap_or_default();
            assert_eq!(words, expected, "{command}");
        };
        check("postgres", &["postgres"]);
        check(
            "postgres -c fsync=off -p 5433",
            &["postgres", "-c", "fsync=off", "-p", "5433"],
        );
        for shell in [
            "", " a", "a  b", "A=1 env", "a; b", "a $HOME", "a 'b c'", "a | b", "~/a", "a*",
            "a\tb", "a #b", "a\nb",
        ] {
            check(shell, &[]);
        }
    }
}
