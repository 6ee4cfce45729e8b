//! Environment variables: those of a compose file with Compose's `${…}`, which of them look like
//! secrets, and the names of the checkout's `.env` files.

use super::Found;
use super::command::words;
use super::proposal::Proposal;

/// Settings files that programs read, without the examples beside them.
const SETTINGS: [&str; 4] = [
    ".env",
    ".env.local",
    ".env.development",
    ".env.development.local",
];
pub const SAMPLES: [&str; 5] = [
    ".env.example",
    ".env.sample",
    ".env.template",
    ".env.dist",
    "env.example",
];

/// Words in the names of variables that contain secrets.
const SECRET_WORDS: [&str; 12] = [
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "TOKEN",
    "APIKEY",
    "CREDENTIAL",
    "PRIVATE",
    "SALT",
    "DSN",
    "AUTH",
    "COOKIE",
];

/// A longer mixed text without spaces is likely a random value.
const LONGEST_WORD: usize = 24;

/// Whether a value must not be repeated in a committed file.
pub fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_key = name == "KEY" || name.ends_with("_KEY") || name.ends_with("_KEYS");
    let has_word = SECRET_WORDS.iter().any(|word| name.contains(word));
    is_key || has_word || looks_secret(value)
}

/// Whether a command line contains a secret: `--password x`, `TOKEN=x`.
pub fn command_looks_secret(line: &str) -> bool {
    let names = words(line).into_iter().filter_map(|word| {
        let option = word.starts_with('-').then(|| word.trim_start_matches('-'));
        let name = word.split_once('=').map(|(name, _)| name);
        let name = name.map(|name| name.trim_start_matches('-')).or(option)?;
        Some(name.replace('-', "_"))
    });
    let mut names = names;
    looks_secret(line) || names.any(|name| is_secret(&name, "") || name.contains("pass"))
}

/// A password in a URL, a private key, or a long random text.
fn looks_secret(text: &str) -> bool {
    let has_password = text.match_indices("://").any(|(at, found)| {
        let rest = &text[at + found.len()..];
        let authority = rest.split(['/', '?', '#', ' ']).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.and_then(|user| user.split_once(':'))
            .is_some_and(|(_, password)| !password.is_empty())
    });
    let is_random = |word: &str| {
        let is_one = word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+_-=".contains(c));
        let has = |kind: fn(&char) -> bool| word.chars().any(|c| kind(&c));
        word.len() >= LONGEST_WORD
            && is_one
            && has(char::is_ascii_digit)
            && has(char::is_ascii_alphabetic)
    };
    let words = || text.split(|c: char| c.is_whitespace() || "=,;:/\"'".contains(c));
    has_password || text.contains("-----BEGIN") || words().any(is_random)
}

/// Expands Compose's `${NAME:-default}`; `None` when a value comes from the environment.
pub fn interpolate(text: &str) -> Option<String> {
    let mut is_known = true;
    let filled = crate::compose::interpolate(text, &mut |_| None, &mut |_| is_known = false);
    filled.ok().filter(|_| is_known)
}

/// Adds the settings files that git ignores.
pub fn settings(found: &Found, proposal: &mut Proposal) {
    let ignored = SETTINGS
        .iter()
        .filter(|name| found.ignored.iter().any(|it| it == *name));
    proposal
        .include
        .extend(ignored.map(|name| (*name).to_owned()));
    let sample = SAMPLES.iter().find(|name| found.listing.contains(**name));
    if let (Some(sample), true) = (sample, proposal.include.is_empty()) {
        proposal.remarks.push(format!(
            "{sample} shows settings; the checkout has no ignored .env made from it"
        ));
    }
    if found.listing.contains(".worktreeinclude") {
        proposal
            .remarks
            .push(".worktreeinclude is read as it is: what it names needs no `include`".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name_and_by_look() {
        let check = |name, value, expect| assert_eq!(is_secret(name, value), expect, "{name}");
        check("NODE_ENV", "development", false);
        check("LOG_LEVEL", "debug", false);
        check("PUBLIC_URL", "http://localhost:3000/a", false);
        check("KEYBOARD", "us", false);
        check("STRIPE_KEY", "x", true);
        check("db_password", "x", true);
        check("GITHUB_TOKEN", "", true);
        check("DATABASE_URL", "postgres://shop:hunter2@db:5432/shop", true);
        check("DATABASE_URL", "postgres://shop@db:5432/shop", false);
        check("A", "sk_live_51HabcdefGHIJ0123456789", true);
        check("A", "-----BEGIN RSA-----", true);
        check("A", "a-long-name-without-any-number-in-it", false);
    }

    #[test]
    fn secrets_in_command_lines() {
        let check = |line, expect| assert_eq!(command_looks_secret(line), expect, "{line}");
        check("redis-server --appendonly yes", false);
        check("postgres -c max_connections=200", false);
        check("redis-server --requirepass x", true);
        check("app --api-key x", true);
        check("app --api-key=x", true);
        check("env API_TOKEN=x app", true);
        check("app postgres://a:b@db/x", true);
    }

    #[test]
    fn compose_values_with_defaults() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(interpolate(text).as_deref(), expect, "{text}");
        };
        check("plain", Some("plain"));
        check("${A:-shop}", Some("shop"));
        check("${A-shop}/${B:-x}", Some("shop/x"));
        check("${A:-${B:-x}}", Some("x"));
        check("$$A", Some("$A"));
        check("${A}", None);
        check("$A", None);
        check("${A:?it is needed}", None);
        check("${A:-x", None);
        check("$", Some("$"));
        check(&"${A:-".repeat(5000), None);
        check(&format!("{}x{}", "${A:-".repeat(50), "}".repeat(50)), None);
    }
}
