//! The encodings in which a value can appear in output: plain, base64 at any offset, hexadecimal,
//! URL-escaped, JSON-escaped, and line by line.

use crate::{LONGEST_VALUE, Value};
use std::collections::BTreeSet;

/// Shorter texts are not masked: they are part of ordinary words.
pub const SHORTEST: usize = 6;

/// The longest encoding: JSON uses six letters for a control character.
pub const LONGEST_FORM: usize = 6 * LONGEST_VALUE;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FOR_URLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const LARGE_DIGITS: &[u8; 16] = b"0123456789ABCDEF";
const SMALL_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The line length of MIME and of the `base64` program.
const WRAPPED: usize = 76;

/// The characters that `encodeURIComponent` and `encodeURI` do not escape, besides letters and
/// digits.
const UNRESERVED: &[u8] = b"-_.~";
const COMPONENT: &[u8] = b"-_.!~*'()";
const WHOLE_URL: &[u8] = b"-_.!~*'();/?:@&=+$,#[]";

/// Characters that some JSON encoders escape although they need not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escaped {
    Slash,
    NotAscii,
    /// For safe use inside HTML.
    Markup,
}

/// The combinations that encoders use: plain, PHP, Python, Go and others.
const ESCAPED: [&[Escaped]; 6] = [
    &[],
    &[Escaped::Slash],
    &[Escaped::NotAscii],
    &[Escaped::Slash, Escaped::NotAscii],
    &[Escaped::Markup],
    &[Escaped::Slash, Escaped::NotAscii, Escaped::Markup],
];

/// Every text that reveals the value. None is shorter than [`SHORTEST`].
pub fn of(value: &Value) -> BTreeSet<Vec<u8>> {
    list(value.reveal()).into_iter().collect()
}

/// The same in a fixed order: two texts of the same shape have encodings of the same lengths.
pub fn list(text: &str) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    if text.len() < SHORTEST {
        return forms;
    }
    let mut plain = vec![text];
    // Programs often print a multi-line text with a prefix before each line.
    plain.extend(text.lines().filter(|line| {
        let is_frame = line.starts_with("-----");
        line.len() >= 16 && !is_frame && line.len() < text.len()
    }));
    for text in plain {
        let bytes = text.as_bytes();
        forms.extend(in_urls(text));
        for alphabet in [STANDARD, FOR_URLS] {
            for before in 0..3 {
                forms.push(base64_after(bytes, before, alphabet));
            }
        }
        for digits in [LARGE_DIGITS, SMALL_DIGITS] {
            forms.push(hexadecimal(bytes, digits));
        }
        for escaped in ESCAPED {
            forms.push(json(text, escaped));
        }
    }
    forms.extend(wrapped(text.as_bytes()));
    forms.retain(|form| form.len() >= SHORTEST);
    forms
}

/// Plain and URL-escaped.
pub fn in_urls(text: &str) -> Vec<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut forms = vec![bytes.to_vec()];
    for kept in [UNRESERVED, COMPONENT, WHOLE_URL] {
        for digits in [LARGE_DIGITS, SMALL_DIGITS] {
            forms.push(percent(bytes, kept, digits, b"%20"));
            forms.push(percent(bytes, kept, digits, b"+"));
        }
    }
    forms
}

/// The base64 letters that depend only on the value, when `before` bytes of a group of three come
/// before it. A last letter shared with the following byte is left out.
fn base64_after(bytes: &[u8], before: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let mut padded = vec![0; before];
    padded.extend(bytes);
    let letters = base64(&padded, alphabet);
    let first = [0, 2, 3][before];
    let whole = padded.len() * 8 / 6;
    letters[first.min(whole)..whole].to_vec()
}

/// Without padding.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> Vec<u8> {
    let mut letters = Vec::with_capacity(bytes.len() * 4 / 3 + 1);
    for group in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..group.len()].copy_from_slice(group);
        let number = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..=group.len() {
            let index = (number >> (18 - 6 * place)) & 63;
            letters.push(alphabet[index as usize]);
        }
    }
    letters
}

/// A value encoded alone by the `base64` program: lines of 76 letters. Each line is matched by
/// itself, whatever is between them.
fn wrapped(bytes: &[u8]) -> Vec<Vec<u8>> {
    let letters = base64(bytes, STANDARD);
    if letters.len() <= WRAPPED {
        return Vec::new();
    }
    let lines = letters.chunks(WRAPPED).filter(|line| line.len() >= 8);
    lines.map(<[u8]>::to_vec).collect()
}

fn hexadecimal(bytes: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    let digit = |number: u8| digits[usize::from(number)];
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

fn percent(bytes: &[u8], kept: &[u8], digits: &[u8; 16], space: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b' ' => escaped.extend(space),
            byte if byte.is_ascii_alphanumeric() || kept.contains(byte) => escaped.push(*byte),
            byte => {
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                escaped.extend([b'%', digits[high], digits[low]]);
            }
        }
    }
    escaped
}

fn json(text: &str, more: &[Escaped]) -> Vec<u8> {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\u{8}' => escaped.push_str("\\b"),
            '\u{c}' => escaped.push_str("\\f"),
            '/' if more.contains(&Escaped::Slash) => escaped.push_str("\\/"),
            '<' | '>' | '&' if more.contains(&Escaped::Markup) => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter if letter < ' ' => escaped.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter if more.contains(&Escaped::NotAscii) && !letter.is_ascii() => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    escaped.push_str(&format!("\\u{unit:04x}"));
                }
            }
            letter => escaped.push(letter),
        }
    }
    escaped.into_bytes()
}
