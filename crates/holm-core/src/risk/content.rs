//! Looks for risks in the lines that a change added.

use std::collections::HashMap;

/// The lines of `new` that `old` does not have, with their numbers. A line that moved counts as there.
pub fn lines_added<'a>(old: &'a [u8], new: &'a [u8]) -> Vec<(usize, String)> {
    let mut known: HashMap<&[u8], usize> = HashMap::new();
    for line in old.split(|byte| *byte == b'\n') {
        *known.entry(line).or_default() += 1;
    }
    let mut added = Vec::new();
    for (number, line) in new.split(|byte| *byte == b'\n').enumerate() {
        match known.get_mut(line) {
            Some(count) if *count > 0 => *count -= 1,
            _ if line.is_empty() => {}
            _ => added.push((number + 1, String::from_utf8_lossy(line).into_owned())),
        }
    }
    added
}

/// Characters that change the reading order, have no width, or carry hidden text.
pub fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Well-known beginnings of keys, and how many characters follow at least.
const KEYS: [(&str, usize, &str); 13] = [
    ("AKIA", 16, "an AWS access key"),
    ("ASIA", 16, "an AWS access key"),
    ("ghp_", 36, "a GitHub token"),
    ("gho_", 36, "a GitHub token"),
    ("ghs_", 36, "a GitHub token"),
    ("github_pat_", 50, "a GitHub token"),
    ("glpat-", 20, "a GitLab token"),
    ("xoxb-", 20, "a Slack token"),
    ("xoxp-", 20, "a Slack token"),
    ("sk_live_", 16, "a Stripe key"),
    ("sk-ant-", 20, "an API key"),
    ("sk-proj-", 20, "an API key"),
    ("AIza", 35, "a Google API key"),
];

/// Names before a `=` or `:` whose long values are secrets.
const NAMES: [&str; 6] = [
    "password",
    "passwd",
    "secret",
    "api_key",
    "apikey",
    "access_token",
];

/// Shorter values are examples more often than secrets.
const SHORTEST_VALUE: usize = 16;

/// What a line seems to contain.
pub fn secret_in(line: &str) -> Option<&'static str> {
    if line.contains("-----BEGIN ") && line.contains("PRIVATE KEY-----") {
        return Some("a private key");
    }
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    for (start, least, what) in KEYS {
        let mut places = line.match_indices(start);
        let is_found = places.any(|(place, _)| {
            let is_whole = !line[..place].ends_with(|c: char| c.is_ascii_alphanumeric());
            let rest = line[place + start.len()..].chars();
            is_whole && rest.take_while(|c| is_key(*c)).count() >= least
        });
        if is_found {
            return Some(what);
        }
    }
    let lower = line.to_ascii_lowercase();
    let place = NAMES
        .iter()
        .find_map(|name| Some(lower.find(name)? + name.len()))?;
    let value = lower.get(place..)?.trim_start_matches(['"', '\'', ' ']);
    let value = value.strip_prefix(['=', ':'])?.trim_start();
    let value = value.strip_prefix(['"', '\''])?;
    let value: String = value
        .chars()
        .take_while(|c| !matches!(c, '"' | '\''))
        .collect();
    let has_digit = value.contains(|c: char| c.is_ascii_digit());
    let is_plain = value.chars().all(|c| c.is_ascii_graphic()) && !value.contains(['$', '{', '<']);
    (value.len() >= SHORTEST_VALUE && has_digit && is_plain).then_some("a secret")
}

/// Scripts that package managers run when something is installed.
pub fn install_scripts(name: &[u8], added: &[(usize, String)]) -> Vec<String> {
    let words: &[&str] = match name {
        b"package.json" => &["preinstall", "install", "postinstall", "prepare"],
        b"package-lock.json" | b"npm-shrinkwrap.json" => &["hasInstallScript"],
        b"pnpm-lock.yaml" => &["requiresBuild"],
        b"build.rs" | b"setup.py" | b"binding.gyp" | b"extconf.rb" => {
            let is_changed = !added.is_empty();
            let text = "runs when the package is built or installed".to_owned();
            return is_changed.then_some(text).into_iter().collect();
        }
        _ => return Vec::new(),
    };
    let found = added.iter().filter_map(|(number, line)| {
        let key = line.trim_start().trim_start_matches('"');
        let word = words.iter().find(|word| {
            let rest = key.strip_prefix(**word);
            rest.is_some_and(|rest| rest.starts_with(['"', ':', ' ']))
        })?;
        Some(format!("install script: {word}, line {number}"))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_by_their_shape() {
        for (line, expected) in [
            ("aws = AKIAIOSFODNN7EXAMPLE", Some("an AWS access key")),
            ("xAKIAIOSFODNN7EXAMPLE", None),
            ("AKIA", None),
            ("-----BEGIN PRIVATE KEY-----", Some("a private key")),
            ("-----BEGIN PUBLIC KEY-----", None),
            ("password = \"hunter2hunter2hunter2\"", Some("a secret")),
            ("password = \"hunter2\"", None),
            ("password: '${DB_PASSWORD_OF_PRODUCTION_1}'", None),
            ("\"api_key\": \"abcdef0123456789abcdef\"", Some("a secret")),
            ("let password = read_password_from_terminal1();", None),
        ] {
            assert_eq!(secret_in(line), expected, "{line}");
        }
    }

    #[test]
    fn only_added_lines_count() {
        let numbers = |old: &str, new: &str| -> Vec<usize> {
            let added = lines_added(old.as_bytes(), new.as_bytes());
            added.into_iter().map(|(number, _)| number).collect()
        };
        assert_eq!(numbers("a\nb\n", "b\na\nc\n"), [3]);
        assert_eq!(numbers("a\n", "a\na\n"), [2]);
        assert_eq!(numbers("", "x\n\ny"), [1, 3]);
    }

    #[test]
    fn install_scripts_are_named() {
        let added = |line: &str| vec![(4, line.to_owned())];
        for (name, line, expected) in [
            ("package.json", "  \"postinstall\": \"x\"", true),
            ("package.json", "  \"installer\": \"x\"", false),
            ("package.json", "  \"test\": \"x\"", false),
            (
                "package-lock.json",
                "      \"hasInstallScript\": true,",
                true,
            ),
            ("build.rs", "fn main() {}", true),
            ("main.rs", "fn main() {}", false),
        ] {
            let found = install_scripts(name.as_bytes(), &added(line));
            assert_eq!(!found.is_empty(), expected, "{name} {line}");
        }
    }
}
