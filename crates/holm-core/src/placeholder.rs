//! The token that stands inside a workspace for a secret's value (`inject = "placeholder"`). It has
//! the same length and the same class of character at every position, and nothing of the value
//! except the well-known prefix of its kind (`sk_live_`) and its punctuation.
//!
//! Punctuation stays in place, so replacing the token by the value (or the reverse) changes neither
//! the length nor the structure of the surrounding text, in any encoding that works by character
//! class: a value cannot end a header, a parameter or a string.

/// The least number of random characters; with fewer, a token could occur by accident.
pub const FEWEST: usize = 8;

/// Well-known prefixes of keys, which programs and people recognise.
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

/// Why a value cannot have a placeholder. The error never contains the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it has too few letters and digits: at least {FEWEST} have to differ from the value")]
    TooShort,
    #[error("it has characters other than printable ASCII, which a header cannot carry")]
    NotPrintable,
    #[error("it begins or ends with a space, which a header does not keep")]
    Spaces,
}

/// The token for a value. `noise` provides unguessable bytes; the same bytes give the same token
/// for every value of this shape, so a new value needs no new token.
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

/// Where the signature of a JSON web token begins; `None`: the text is none.
pub fn signature(text: &str) -> Option<usize> {
    let parts: Vec<&str> = text.split('.').collect();
    let is_part = |part: &&str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !part.is_empty() && part.bytes().all(is_letter)
    };
    let is_one = parts.len() == 3 && text.starts_with("eyJ") && parts.iter().all(is_part);
    is_one.then(|| text.len() - parts[2].len())
}

fn prefix(value: &str) -> &'static str {
    let known = PREFIXES.iter().filter(|prefix| value.starts_with(**prefix));
    known
        .max_by_key(|prefix| prefix.len())
        .copied()
        .unwrap_or("")
}

/// The number of letters to choose from; hexadecimal text stays hexadecimal.
fn letters(rest: &str) -> u8 {
    let is_hexadecimal = |byte: u8| !byte.is_ascii_alphabetic() || byte.is_ascii_hexdigit();
    if rest.bytes().all(is_hexadecimal) {
        6
    } else {
        26
    }
}

/// One of `count` characters, all equally likely.
fn choose(first: u8, count: u8, noise: &mut impl FnMut() -> u8) -> char {
    let fair = 256 / u16::from(count) * u16::from(count);
    loop {
        let byte = noise();
        if u16::from(byte) < fair {
            return char::from(first + byte % count);
        }
    }
}
