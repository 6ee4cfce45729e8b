//! Checked values of `holm.toml` and `config.toml`: names, sizes, durations.

use crate::label::{InvalidLabel, Label};
use std::time::Duration;

/// The name of a port, service, volume, cache or agent. It becomes part of host names and
/// directories, so it follows the rules of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// A variable's name is also used as a file name.
const LONGEST_VARIABLE: usize = 200;

/// The name of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable(String);

crate::checked_text!(Name, Variable);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVariable {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {LONGEST_VARIABLE} letters")]
    TooLong,
    #[error("it begins with a digit")]
    Digit,
    #[error("it has `{}`; only A-Z, a-z, 0-9 and _ may be used", .0.escape_default())]
    Character(char),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDuration {
    #[error("write a number and a unit (ms, s, m, h, d), such as `90s` or `1h30m`")]
    Form,
    #[error("units go from large to small, each once, such as `1h30m`")]
    Order,
    #[error("it is zero")]
    Zero,
    #[error("it is longer than 100 years")]
    TooLong,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSize {
    #[error("write a number and a unit (B, KiB, MiB, GiB, TiB, KB, MB, GB, TB), such as `4GiB`")]
    Form,
    #[error("it is zero")]
    Zero,
    #[error("it is too large")]
    TooLarge,
}

/// Units of time in milliseconds, from large to small.
const TIME_UNITS: [(&str, u128); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

const SIZE_UNITS: [(&str, u128); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// 100 years: more is a mistaken unit, and sums cannot overflow.
const LONGEST_MS: u128 = 100 * 365 * 86_400_000;

/// Parses `250ms`, `90s`, `5m`, `8h`, `7d` or a sequence such as `1h30m`. Never zero.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let mut total: u128 = 0;
    let mut units = TIME_UNITS.iter();
    let mut rest = text;
    while !rest.is_empty() || text.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_lowercase).count();
        let (unit, after) = after.split_at(letters);
        if number.is_empty() || !TIME_UNITS.iter().any(|(name, _)| *name == unit) {
            return Err(InvalidDuration::Form);
        }
        let (_, milliseconds) = units
            .find(|(name, _)| *name == unit)
            .ok_or(InvalidDuration::Order)?;
        let number: u128 = number.parse().map_err(|_| InvalidDuration::TooLong)?;
        total = number
            .checked_mul(*milliseconds)
            .and_then(|part| total.checked_add(part))
            .filter(|total| *total <= LONGEST_MS)
            .ok_or(InvalidDuration::TooLong)?;
        rest = after;
    }
    match u64::try_from(total) {
        Ok(0) => Err(InvalidDuration::Zero),
        Ok(milliseconds) => Ok(Duration::from_millis(milliseconds)),
        Err(_) => Err(InvalidDuration::TooLong),
    }
}

/// Parses `4GiB`, `1.5GB`, `512MiB` as bytes. Never zero.
pub fn parse_size(text: &str) -> Result<u64, InvalidSize> {
    let number_length = text
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
        .count();
    let (number, unit) = text.split_at(number_length);
    let (_, factor) = SIZE_UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or(InvalidSize::Form)?;
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() && !fraction.contains('.') => {
            (whole, fraction)
        }
        Some(_) => return Err(InvalidSize::Form),
        None => (number, ""),
    };
    if whole.is_empty() {
        return Err(InvalidSize::Form);
    }
    // Six digits after the point are enough.
    let fraction = fraction.get(..6).unwrap_or(fraction);
    let scale = 10_u128.pow(fraction.len() as u32);
    let whole: u128 = whole.parse().map_err(|_| InvalidSize::TooLarge)?;
    let fraction: u128 = match fraction {
        "" => 0,
        digits => digits.parse().map_err(|_| InvalidSize::Form)?,
    };
    let bytes = whole
        .checked_mul(*factor)
        .and_then(|bytes| bytes.checked_add(fraction * factor / scale))
        .filter(|bytes| *bytes <= i64::MAX as u128)
        .ok_or(InvalidSize::TooLarge)?;
    match u64::try_from(bytes) {
        Ok(0) => Err(InvalidSize::Zero),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err(InvalidSize::TooLarge),
    }
}

/// Formats a size with the largest binary unit that divides it.
pub fn display_size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in units {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

/// Formats a size for people: `1.5 MiB`. Rounded, so it cannot be parsed back.
pub fn rough_size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in units {
        if bytes >= 1 << shift {
            let tenths = u128::from(bytes) * 10 / (1 << shift);
            return match tenths {
                0..100 => format!("{}.{} {unit}", tenths / 10, tenths % 10),
                _ => format!("{} {unit}", tenths / 10),
            };
        }
    }
    format!("{bytes} B")
}

// === impl Name ===

impl Name {
    pub fn parse(text: &str) -> Result<Self, InvalidLabel> {
        Label::parse(text).map(|label| Self(label.as_str().to_owned()))
    }
}

// === impl Variable ===

impl Variable {
    pub fn parse(text: &str) -> Result<Self, InvalidVariable> {
        let first = text.chars().next().ok_or(InvalidVariable::Empty)?;
        if first.is_ascii_digit() {
            return Err(InvalidVariable::Digit);
        }
        let wrong = |c: &char| !(c.is_ascii_alphanumeric() || *c == '_');
        match text.chars().find(wrong) {
            Some(character) => Err(InvalidVariable::Character(character)),
            None if text.len() > LONGEST_VARIABLE => Err(InvalidVariable::TooLong),
            None => Ok(Self(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        let check = |bytes, expect: &str| assert_eq!(rough_size(bytes), expect);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1536, "1.5 KiB");
        check((20 << 30) - 1, "19 GiB");
        check(u64::MAX, "16777215 TiB");
    }

    #[test]
    fn durations() {
        let check = |text: &str, expect: Result<u64, InvalidDuration>| {
            let found = parse_duration(text).map(|duration| duration.as_millis() as u64);
            assert_eq!(found, expect, "{text}");
        };
        check("60s", Ok(60_000));
        check("250ms", Ok(250));
        check("5m", Ok(300_000));
        check("1h30m", Ok(5_400_000));
        check("7d", Ok(604_800_000));
        check("1s5ms", Ok(1_005));
        check("", Err(InvalidDuration::Form));
        check("60", Err(InvalidDuration::Form));
        check("s", Err(InvalidDuration::Form));
        check("1.5h", Err(InvalidDuration::Form));
        check("-1s", Err(InvalidDuration::Form));
        check(" 1s", Err(InvalidDuration::Form));
        check("1 s", Err(InvalidDuration::Form));
        check("1y", Err(InvalidDuration::Form));
        check("1S", Err(InvalidDuration::Form));
        check("١s", Err(InvalidDuration::Form));
        check("30m1h", Err(InvalidDuration::Order));
        check("1m1m", Err(InvalidDuration::Order));
        check("0s", Err(InvalidDuration::Zero));
        check("99999999999d", Err(InvalidDuration::TooLong));
        check(
            &format!("{}s", "9".repeat(60)),
            Err(InvalidDuration::TooLong),
        );
    }

    #[test]
    fn sizes() {
        let check = |text: &str, expect: Result<u64, InvalidSize>| {
            assert_eq!(parse_size(text), expect, "{text}");
        };
        check("4GiB", Ok(4 << 30));
        check("1.5KiB", Ok(1536));
        check("20GB", Ok(20_000_000_000));
        check("512B", Ok(512));
        check("0.0000001B", Err(InvalidSize::Zero));
        check("0GiB", Err(InvalidSize::Zero));
        check("4", Err(InvalidSize::Form));
        check("GiB", Err(InvalidSize::Form));
        check("4 GiB", Err(InvalidSize::Form));
        check("4gib", Err(InvalidSize::Form));
        check("4G", Err(InvalidSize::Form));
        check("-4GiB", Err(InvalidSize::Form));
        check("1.2.3GiB", Err(InvalidSize::Form));
        check("1.GiB", Err(InvalidSize::Form));
        check(".5GiB", Err(InvalidSize::Form));
        check("", Err(InvalidSize::Form));
        check("99999999999TiB", Err(InvalidSize::TooLarge));
    }

    #[test]
    fn sizes_are_shown_as_they_are_written() {
        for text in ["4GiB", "1536MiB", "513B", "3TiB", "7KiB"] {
            assert_eq!(display_size(parse_size(text).unwrap()), text);
        }
    }

    #[test]
    fn variables() {
        assert!(Variable::parse("_A1").is_ok());
        assert_eq!(Variable::parse(""), Err(InvalidVariable::Empty));
        assert_eq!(Variable::parse("1A"), Err(InvalidVariable::Digit));
        assert_eq!(Variable::parse("A=B"), Err(InvalidVariable::Character('=')));
        assert_eq!(Variable::parse("Ä"), Err(InvalidVariable::Character('Ä')));
    }
}
