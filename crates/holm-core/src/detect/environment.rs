//! The names of the checkout's `.env` files.

use super::Found;
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

/// Adds the settings files that git ignores.
pub fn settings(found: &Found, proposal: &mut Proposal) {
    let included = proposal.compose.iter().flat_map(|it| &it.included);
    let included: Vec<String> = included.cloned().collect();
    let ignored = SETTINGS
        .iter()
        .filter(|name| found.ignored.iter().any(|it| it == *name))
        .filter(|name| !included.iter().any(|it| it == *name));
    proposal
        .include
        .extend(ignored.map(|name| (*name).to_owned()));
    let sample = SAMPLES.iter().find(|name| found.listing.contains(**name));
    let has_settings = !proposal.include.is_empty() || !included.is_empty();
    if let (Some(sample), false) = (sample, has_settings) {
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
}
