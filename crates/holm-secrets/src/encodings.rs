//! The forms in which a value shows up in output: as it is, in base64 wherever it stands in what was
//! encoded, in hexadecimal, escaped for a URL, escaped for JSON, and line by line.

use crate::{LONGEST_VALUE, Value};
use std::collections::BTreeSet;

/// Shorter than this, nothing is masked: such a text is part of ordinary words.
pub const SHORTEST: usize = 6;

/// No form is longer: one of JSON has six letters for a control character.
pub const LONGEST_FORM: usize = 6 * LONGEST_VALUE;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FOR_URLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const LARGE_DIGITS: &[u8; 16] = b"0123456789ABCDEF";
const SMALL_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Letters of base64 in a line of mail and of the `base64` program.
const WRAPPED: usize = 76;

/// What `encodeURIComponent` and what `encodeURI` leave as it is, beside letters and digits.
const UNRESERVED: &[u8] = b"-_.~";
const COMPONENT: &[u8] = b"-_.!~*'()";
const WHOLE_URL: &[u8] = b"-_.!~*'();/?:@&=+$,#[]";

/// What some writers of JSON escape besides what has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escaped {
    Slash,
    NotAscii,
    /// So that it can stand in a page.
    Markup,
}

/// As writers do it: the plain one, PHP's, Python's, Go's and others'.
const ESCAPED: [&[Escaped]; 6] = [
    &[],
    &[Escaped::Slash],
    &[Escaped::NotAscii],
    &[Escaped::Slash, Escaped::NotAscii],
    &[Escaped::Markup],
    &[Escaped::Slash, Escaped::NotAscii, Escaped::Markup],
];

/// Every text that gives the value away. None of them is shorter than [`SHORTEST`].
pub fn of(value: &Value) -> BTreeSet<Vec<u8>> {
    list(value.reveal()).into_iter().collect()
}

/// The same, always in one order: two texts of the same shape have forms of the same lengths.
pub fn list(text: &str) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    if text.len() < SHORTEST {
        return forms;
    }
    let mut plain = vec![text];
    // What has several lines is often printed with something before each of them.
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

/// As it is, and escaped for a URL.
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

/// The letters of base64 that depend on the value only, when so many bytes (of a group of three)
/// stand before it. What follows does not matter either: a last letter that it shares is left out.
fn base64_after(bytes: &[u8], before: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let mut padded = vec![0; before];
    padded.extend(bytes);
    let letters = base64(&padded, alphabet);
    let first = [0, 2, 3][before];
    let whole = padded.len() * 8 / 6;
    letters[first.min(whole)..whole].to_vec()
}

/// Without the signs that fill up the end.
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

/// As the `base64` program writes a value that is encoded alone: lines of 76 letters. Each is known
/// by itself, whatever stands between them.
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
