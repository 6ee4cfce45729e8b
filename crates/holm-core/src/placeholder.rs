//! The token that stands inside a workspace for a secret's value (`inject = "placeholder"`): of the
//! same length, with the same kind of character at every place, and nothing of the value in it but
//! what everybody knows of its kind (`sk_live_`) and its punctuation.
//!
//! Because punctuation stays where it is, putting the value in place of the token (or the other way
//! round) changes neither the length nor the structure of what it stands in, in any encoding that
//! goes by kinds of characters: a value cannot end a header, a parameter or a string.

/// So many characters at least are chosen by chance; with fewer it could be met by accident.
pub const FEWEST: usize = 8;

/// What a kind of key begins with, by which programs and people know it.
const PREFIXES: [&str; 33] = [
    "AIza",
    "AKIA",
    "ASIA",
    "EAAC",
    "GOCSPX-",
    "SG.",
    "dckr_pat_",
    "dop_v1_",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "gsk_",
    "hf_",
    "lin_api_",
    "npm_",
    "pk_live_",
    "pk_test_",
    "pypi-",
    "rk_live_",
    "rk_test_",
    "sk-",
    "sk-ant-",
    "sk-ant-api03-",
    "sk-or-v1-",
    "sk-proj-",
    "sk_live_",
    "sk_test_",
    "whsec_",
    "xoxb-",
];

/// Why a value cannot have a placeholder. The value is never part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it has too few letters and digits: at least {FEWEST} have to differ from the value")]
    TooShort,
    #[error("it has characters other than printable ASCII, which a header cannot carry")]
    NotPrintable,
    #[error("it begins or ends with a space, which a header does not keep")]
    Spaces,
}

/// The token for a value. `noise` gives bytes that nobody can guess; the same ones give the same
/// token for every value of this shape, so that a new value needs no new token.
pub fn token(value: &str, mut noise: impl FnMut() -> u8) -> Result<String, Unfit> {
    if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(Unfit::NotPrintable);
    }
    if value.trim_matches(' ').len() != value.len() {
        return Err(Unfit::Spaces);
    }
    let kept = prefix(value);
    let rest = &value[kept.len()..];
    if rest.bytes().filter(u8::is_ascii_alphanumeric).count() < FEWEST {
        return Err(Unfit::TooShort);
    }
    let letters = letters(rest);
    loop {
        let chosen = rest.chars().map(|letter| match letter {
            '0'..='9' => choose(b'0', 10, &mut noise),
            'a'..='z' => choose(b'a', letters, &mut noise),
            'A'..='Z' => choose(b'A', letters, &mut noise),
            other => other,
        });
        let token: String = kept.chars().chain(chosen).collect();
        if token != value {
            return Ok(token);
        }
    }
}

fn prefix(value: &str) -> &'static str {
    let known = PREFIXES.iter().filter(|prefix| value.starts_with(**prefix));
    known
        .max_by_key(|prefix| prefix.len())
        .copied()
        .unwrap_or("")
}

/// How many letters of the alphabet are used: hexadecimal numbers stay some.
fn letters(rest: &str) -> u8 {
    let is_hexadecimal = |byte: u8| !byte.is_ascii_alphabetic() || byte.is_ascii_hexdigit();
    match rest.bytes().all(is_hexadecimal) {
        true => 6,
        false => 26,
    }
}

/// One of so many characters, all equally likely.
fn choose(first: u8, count: u8, noise: &mut impl FnMut() -> u8) -> char {
    let fair = 256 / u16::from(count) * u16::from(count);
    loop {
        let byte = noise();
        if u16::from(byte) < fair {
            return char::from(first + byte % count);
        }
    }
}
