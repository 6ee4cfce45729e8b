//! `[env]` of `holm.toml`: which names are allowed, what references in values stand for, and which
//! values look like secrets.

use crate::config::Name;

/// Why a variable cannot be set for all programs of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reserved {
    #[error("holm sets it for every program inside")]
    Own,
    #[error("names that begin with `{0}` change how programs are loaded or run")]
    Prefix(&'static str),
}

/// A reference in a value that stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    #[error(
        "`${{{0}}}` is no reference; there are `${{ports.NAME}}` and `${{services.NAME.url}}`, and `$${{` is a plain `${{`"
    )]
    Form(String),
    #[error("a `${{` has no `}}`")]
    Open,
    #[error("there is no port `{0}`")]
    Port(String),
    #[error("there is no service `{0}`")]
    Service(String),
    #[error("the service `{0}` has no port: name one in [ports] as the service, or in its `ready`")]
    NoPort(String),
}

/// What references are looked up in.
pub trait Declarations {
    fn port(&self, name: &str) -> Option<u16>;
    /// `Some(None)`: the service exists and has no known port.
    fn service_url(&self, name: &str) -> Option<Option<String>>;
}

/// Values of variables whose name says that they are secret, but that are no secrets.
const HARMLESS: [&str; 14] = [
    "secret",
    "password",
    "postgres",
    "root",
    "admin",
    "test",
    "dev",
    "development",
    "changeme",
    "change-me",
    "true",
    "false",
    "insecure",
    "localhost",
];

const SECRET_WORDS: [&str; 7] = [
    "SECRET",
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "APIKEY",
    "PRIVATE",
    "CREDENTIAL",
];

const SECRET_STARTS: [&str; 13] = [
    "sk-",
    "sk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "-----BEGIN",
];

/// Shorter values of unknown form are not taken for secrets.
const SHORTEST_SECRET: usize = 12;
/// A random text of this length is a key.
const RANDOM_LENGTH: usize = 32;

/// Whether `[env]` may set this variable.
pub fn check_name(name: &str) -> Result<(), Reserved> {
    if matches!(name, "HOME" | "PATH") {
        return Err(Reserved::Own);
    }
    let reserved = ["HOLM_", "LD_", "GIT_"];
    match reserved.into_iter().find(|prefix| name.starts_with(prefix)) {
        Some("HOLM_") => Err(Reserved::Own),
        Some(prefix) => Err(Reserved::Prefix(prefix)),
        None => Ok(()),
    }
}

/// The value with its references replaced.
pub fn resolve(value: &str, declared: &dyn Declarations) -> Result<String, Unresolved> {
    let mut resolved = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        if let Some(plain) = before.strip_suffix('$') {
            resolved.push_str(plain);
            resolved.push_str("${");
            rest = after;
            continue;
        }
        resolved.push_str(before);
        let (reference, after) = after.split_once('}').ok_or(Unresolved::Open)?;
        resolved.push_str(&referred(reference, declared)?);
        rest = after;
    }
    resolved.push_str(rest);
    Ok(resolved)
}

fn referred(reference: &str, declared: &dyn Declarations) -> Result<String, Unresolved> {
    let parts: Vec<&str> = reference.split('.').collect();
    let named = |name: &&str| Name::parse(name).is_ok();
    match parts.as_slice() {
        ["ports", name] if named(name) => {
            let port = declared.port(name);
            let port = port.ok_or_else(|| Unresolved::Port((*name).to_owned()))?;
            Ok(port.to_string())
        }
        ["services", name, "url"] if named(name) => {
            let url = declared.service_url(name);
            let url = url.ok_or_else(|| Unresolved::Service((*name).to_owned()))?;
            url.ok_or_else(|| Unresolved::NoPort((*name).to_owned()))
        }
        _ => Err(Unresolved::Form(reference.chars().take(60).collect())),
    }
}

/// Whether a value that a repository's file contains is probably meant to be secret.
pub fn looks_secret(name: &str, value: &str) -> bool {
    if SECRET_STARTS.iter().any(|start| value.starts_with(start)) {
        return value.len() >= SHORTEST_SECRET;
    }
    if let Some((_, rest)) = value.split_once("://") {
        return has_remote_password(rest);
    }
    let upper = name.to_ascii_uppercase();
    let says_so = SECRET_WORDS.iter().any(|word| upper.contains(word)) || upper.ends_with("_KEY");
    let lower = value.to_ascii_lowercase();
    let is_harmless = HARMLESS.iter().any(|word| lower.contains(word));
    (says_so && value.len() >= SHORTEST_SECRET && !is_harmless) || is_random(value)
}

/// The values in the text of a settings file (`.npmrc`, `.netrc`, `.env`) that look like secrets: after a word
/// that says so, or as the password of a URL.
pub fn secrets_in(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let ends = |character: char| character.is_whitespace() || "=:,;\"'".contains(character);
    for line in text.lines() {
        let words: Vec<&str> = line.split(ends).filter(|word| !word.is_empty()).collect();
        let pairs = words.windows(2);
        let secret = pairs.filter(|pair| looks_secret(pair[0], pair[1]));
        found.extend(secret.map(|pair| pair[1]));
        let urls = line.split(char::is_whitespace);
        found.extend(urls.filter_map(password));
    }
    found
}

fn password(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

/// Whether the rest of a URL has a password for another machine.
fn has_remote_password(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user, host)) = authority.rsplit_once('@') else {
        return false;
    };
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let is_local = matches!(host, "127.0.0.1" | "localhost" | "[::1]") || !host.contains('.');
    user.contains(':') && !is_local
}

/// Long, without a separator, of letters of both cases and digits.
fn is_random(value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(&kind);
    let is_text = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'=' | b'_');
    value.len() >= RANDOM_LENGTH
        && value.bytes().all(is_text)
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shop;

    impl Declarations for Shop {
        fn port(&self, name: &str) -> Option<u16> {
            (name == "web").then_some(3000)
        }

        fn service_url(&self, name: &str) -> Option<Option<String>> {
            match name {
                "db" => Some(Some("postgres://127.0.0.1:5432".to_owned())),
                "worker" => Some(None),
                _ => None,
            }
        }
    }

    #[test]
    fn secrets_of_settings_files_are_found() {
        let check = |text: &str, expect: &[&str]| assert_eq!(secrets_in(text), expect, "{text}");
        check(
            "registry=https://npm.example.org/\n//npm.example.org/:_authToken=npm_1234567890ab\n",
            &["npm_1234567890ab"],
        );
        check(
            "machine example.org login me password tr0ub4dor-and-3",
            &["tr0ub4dor-and-3"],
        );
        check(
            "index-url = https://me:s3cr3t@pypi.example.org/simple",
            &["s3cr3t"],
        );
        check("API_TOKEN=\"abcdef123456\"\nPORT=3000\n", &["abcdef123456"]);
        check("color=always\nloglevel=warn\n", &[]);
    }

    #[test]
    fn references_are_replaced_and_everything_else_stays() {
        let check = |value: &str, expect: &str| assert_eq!(resolve(value, &Shop).unwrap(), expect);
        check("", "");
        check("plain $HOME $x }", "plain $HOME $x }");
        check("${services.db.url}/app", "postgres://127.0.0.1:5432/app");
        check("a${ports.web}b${ports.web}", "a3000b3000");
        check("$${ports.web}", "${ports.web}");
        check("$$${ports.web}", "$${ports.web}");
    }

    #[test]
    fn a_wrong_reference_says_what_is_wrong() {
        let check = |value: &str, expect: Unresolved| {
            assert_eq!(resolve(value, &Shop).unwrap_err(), expect);
        };
        check("${HOME}", Unresolved::Form("HOME".to_owned()));
        check("${services.db}", Unresolved::Form("services.db".to_owned()));
        check("${ports.a b}", Unresolved::Form("ports.a b".to_owned()));
        check("x ${ports.web", Unresolved::Open);
        check("${ports.db}", Unresolved::Port("db".to_owned()));
        check("${services.x.url}", Unresolved::Service("x".to_owned()));
        check(
            "${services.worker.url}",
            Unresolved::NoPort("worker".to_owned()),
        );
        let said = Unresolved::Form("HOME".to_owned()).to_string();
        assert!(
            said.starts_with("`${HOME}` is no reference; there are `${ports.NAME}`"),
            "{said}"
        );
    }

    #[test]
    fn names_that_steer_programs_are_reserved() {
        for name in ["HOME", "PATH", "HOLM_ROOT", "LD_PRELOAD", "GIT_DIR"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        for name in [
            "DATABASE_URL",
            "GITHUB_ENV",
            "LDFLAGS",
            "HOMEPAGE",
            "PATHS",
            "path",
        ] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn values_that_look_secret() {
        let check = |name: &str, value: &str, expect: bool| {
            assert_eq!(looks_secret(name, value), expect, "{name}={value}");
        };
        check("DATABASE_URL", "postgres://app:app@127.0.0.1/app", false);
        check("DATABASE_URL", "postgres://app:hunter2@db/app", false);
        check(
            "DATABASE_URL",
            "postgres://app:hunter2@db.example.org:5432/app",
            true,
        );
        check("STRIPE_KEY", "sk_live_0123456789", true);
        check("API_TOKEN", "c2hvcnQgYnV0IHJlYWw", true);
        check("SECRET_KEY_BASE", "insecure-development-key-only", false);
        check("JWT_SECRET", "dev", false);
        check("NODE_ENV", "development", false);
        check("X", "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW", true);
        check(
            "CI_COMMIT",
            "0123456789abcdef0123456789abcdef01234567",
            false,
        );
        check("KEYBOARD", "a keyboard layout name", false);
    }
}
