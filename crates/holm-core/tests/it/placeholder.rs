//! Placeholders: the same shape, and nothing of the value.

use holm_core::placeholder::{FEWEST, Unfit, token};
use proptest::prelude::*;

/// A small generator, so that every run sees the same.
fn noise(mut seed: u64) -> impl FnMut() -> u8 {
    move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    }
}

fn kind(letter: char) -> u8 {
    match letter {
        '0'..='9' => 0,
        'a'..='z' => 1,
        'A'..='Z' => 2,
        other => other as u8,
    }
}

#[test]
fn what_everybody_knows_stays() {
    let check = |value: &str, prefix: &str| {
        let made = token(value, noise(7)).unwrap();
        assert!(made.starts_with(prefix), "{made}");
        assert_ne!(made, value);
        assert_ne!(made[prefix.len()..], value[prefix.len()..]);
    };
    check("sk_live_51HxCANARYcanary0123", "sk_live_");
    check("sk-ant-api03-Zm9vYmFyYmF6", "sk-ant-api03-");
    check("github_pat_11ABCDEFG0abcdefgh", "github_pat_");
    check("correct-horse-battery", "");
    let hexadecimal = token("0123456789abcdef0123456789abcdef", noise(1)).unwrap();
    assert!(hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[test]
fn values_that_cannot_have_one_are_named_without_being_shown() {
    let check = |value: &str, expect: Unfit| {
        let error = token(value, noise(1)).unwrap_err();
        assert_eq!(error, expect);
        assert!(!error.to_string().contains("canary"), "{error}");
    };
    check("canary\r\nX: y-canary", Unfit::NotPrintable);
    check("canary-caf\u{e9}-canary", Unfit::NotPrintable);
    check(" canary-canary", Unfit::Spaces);
    check("sk_live_1234567", Unfit::TooShort);
    check("------------------", Unfit::TooShort);
    check("", Unfit::TooShort);
}

proptest! {
    #[test]
    fn the_shape_is_the_same(value in "[ -~]{1,80}", seed: u64) {
        let Ok(made) = token(&value, noise(seed)) else {
            return Ok(());
        };
        prop_assert_ne!(&made, &value);
        prop_assert_eq!(made.len(), value.len());
        for (from, to) in value.chars().zip(made.chars()) {
            prop_assert_eq!(kind(from), kind(to));
        }
    }

    #[test]
    fn a_new_value_of_the_same_shape_keeps_the_token(value in "[g-y]{9}[0-8]{5}[G-Y_]{5}", seed: u64) {
        let next = |letter: char| match letter {
            '_' => '_',
            letter => char::from(letter as u8 + 1),
        };
        let other: String = value.chars().map(next).collect();
        prop_assert_eq!(token(&value, noise(seed)), token(&other, noise(seed)));
    }

    #[test]
    fn different_noise_makes_different_tokens(value in "[a-z0-9]{20,40}", seed: u64) {
        let (one, other) = (token(&value, noise(seed)), token(&value, noise(seed ^ 1 << 40)));
        prop_assert_ne!(one.unwrap(), other.unwrap());
        prop_assert!(value.len() >= FEWEST);
    }
}
