//! Tests of the masker: every encoding of a value, split at every position, within other text.

use super::*;
use proptest::prelude::*;

fn value(text: &str) -> Value {
    Value::parse(text.into()).unwrap()
}

fn known(texts: &[&str]) -> Known {
    let values: Vec<Value> = texts.iter().map(|text| value(text)).collect();
    Known::new(values.iter())
}

fn in_pieces(known: &Known, text: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut masker = Masker::new(known.clone());
    let (mut masked, mut from) = (Vec::new(), 0);
    for cut in cuts.iter().copied().chain([text.len()]) {
        masked.extend(masker.take(&text[from..cut]));
        from = cut;
    }
    masked.extend(masker.finish());
    masked
}

/// An independent base64 encoder.
fn base64(bytes: &[u8], last_two: &str) -> String {
    let letters: Vec<char> = ('A'..='Z')
        .chain('a'..='z')
        .chain('0'..='9')
        .chain(last_two.chars())
        .collect();
    let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let groups = bits.as_bytes().chunks(6);
    let letter = |group: &[u8]| {
        let text = format!("{:0<6}", std::str::from_utf8(group).unwrap());
        letters[usize::from_str_radix(&text, 2).unwrap()]
    };
    let mut text: String = groups.map(letter).collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

fn uri_component(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte);
    text.bytes()
        .map(|byte| {
            if keep(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

#[test]
fn every_form_at_every_cut() {
    let secret = "sk_live/5+ä \"q\"\\\n\u{1}=end";
    let known = known(&[secret]);
    let json = serde_json::to_string(secret).unwrap();
    let forms = [
        secret.to_owned(),
        json.trim_matches('"').to_owned(),
        json.trim_matches('"').replace('/', "\\/"),
        json.trim_matches('"').replace('ä', "\\u00e4"),
        uri_component(secret),
        uri_component(secret).to_lowercase(),
        uri_component(secret).replace("%20", "+"),
    ];
    for form in forms {
        let text = format!("before {form} after");
        for cut in 0..=text.len() {
            for second in [cut, (cut + 3).min(text.len()), text.len()] {
                let masked = in_pieces(&known, text.as_bytes(), &[cut, second]);
                let masked = String::from_utf8(masked).unwrap();
                assert_eq!(masked, "before [secret] after", "{form:?} {cut}");
            }
        }
    }
}

#[test]
fn base64_wherever_it_stands() {
    let secret = "correct horse battery";
    let known = known(&[secret]);
    for alphabet in ["+/", "-_"] {
        for before in ["", "a", "ab", "abc", "user:", "x?>~"] {
            for after in ["", "z", "zz", "zzz"] {
                let text = base64(format!("{before}{secret}{after}").as_bytes(), alphabet);
                for cut in 0..=text.len() {
                    let masked = in_pieces(&known, text.as_bytes(), &[cut]);
                    let masked = String::from_utf8(masked).unwrap();
                    assert!(masked.contains("[secret]"), "{before} {after} {masked}");
                    // No letter that depends only on the value is left.
                    let left = masked.replace("[secret]", "").replace('=', "");
                    let most = (before.len() * 8).div_ceil(6) + (after.len() * 8).div_ceil(6) + 2;
                    assert!(left.len() <= most, "{before} {after} {masked}");
                }
            }
        }
    }
}

#[test]
fn overlapping_and_nested_values_leave_nothing() {
    let known = known(&["abcdefgh", "efghijkl", "cdefgh"]);
    let check = |text: &str, expect: &str| {
        for cut in 0..=text.len() {
            let masked = in_pieces(&known, text.as_bytes(), &[cut]);
            assert_eq!(String::from_utf8(masked).unwrap(), expect, "{text} {cut}");
        }
    };
    check("-abcdefghijkl-", "-[secret]-");
    check("-abcdefghabcdefgh-", "-[secret]-");
    check("-abcdefg-", "-abcdefg-");
    check("-bcdefgh-", "-b[secret]-");
    check("abcdefgh efghijkl", "[secret] [secret]");
}

#[test]
fn long_values_are_masked_as_the_base64_program_writes_them_and_line_by_line() {
    let secret = format!(
        "-----BEGIN KEY-----\n{}\n{}\n-----END KEY-----",
        "x7Yq".repeat(16),
        "Zk3p".repeat(16)
    );
    let known = known(&[&secret]);
    let letters = base64(secret.as_bytes(), "+/");
    let lines: Vec<&str> = letters
        .as_bytes()
        .chunks(76)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    let text = lines.join("\n");
    let masked = String::from_utf8(known.mask(text.as_bytes())).unwrap();
    let left = masked.replace("[secret]", "").replace(['\n', '='], "");
    assert!(left.is_empty(), "{masked}");
    let text: String = secret
        .lines()
        .map(|line| format!("12:00 {line}\n"))
        .collect();
    let masked = String::from_utf8(known.mask(text.as_bytes())).unwrap();
    assert!(
        !masked.contains("x7Yq") && !masked.contains("Zk3p"),
        "{masked}"
    );
}

#[test]
fn what_is_held_back_is_bounded_and_other_values_can_come() {
    let first = known(&["aaaaaaaaab"]);
    let mut masker = Masker::new(first);
    let mut written = 0;
    for _ in 0..1000 {
        written += masker.take(&[b'a'; 100]).len();
        assert!(masker.held.len() < 10, "{}", masker.held.len());
    }
    assert!(written >= 1000 * 100 - 10);
    // The held bytes are a prefix of a value that is added only now.
    let mut masker = Masker::new(known(&["xyzxyz1"]));
    let mut masked = masker.take(b"..xyzxyz");
    masker.set_known(&known(&["xyzxyz2"]));
    masked.extend(masker.take(b"2.."));
    masked.extend(masker.finish());
    assert_eq!(masked, b"..[secret]..");
}

#[test]
fn json_as_go_writes_it() {
    let known = known(&["p<a>&b-rest"]);
    let text = br#"{"x":"p\u003ca\u003e\u0026b-rest"}"#;
    assert_eq!(known.mask(text), br#"{"x":"[secret]"}"#);
}

#[test]
fn half_a_value_at_the_end_is_masked_and_a_few_letters_are_not() {
    let known = known(&["canary-value"]);
    assert_eq!(known.mask(b"x canary-v"), b"x [secret]");
    assert_eq!(known.mask(b"x canar"), b"x canar");
}

#[test]
fn without_values_and_with_short_ones_nothing_is_changed() {
    assert!(Known::none().is_empty());
    assert!(known(&["short"]).is_empty());
    assert_eq!(known(&["short"]).mask(b"a short text"), b"a short text");
}

/// Encodings made without the code under test.
fn forms(secret: &str) -> Vec<String> {
    let json = serde_json::to_string(secret).unwrap();
    let json = json[1..json.len() - 1].to_owned();
    let ascii: String = json
        .chars()
        .map(|letter| {
            if letter.is_ascii() {
                letter.to_string()
            } else {
                letter
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect()
            }
        })
        .collect();
    let bytes = secret.as_bytes();
    vec![
        secret.to_owned(),
        base64(bytes, "+/").trim_end_matches('=').to_owned(),
        base64(bytes, "-_").trim_end_matches('=').to_owned(),
        uri_component(secret),
        uri_component(secret).replace("%20", "+"),
        json.replace('/', "\\/"),
        ascii.replace('/', "\\/"),
        json,
        ascii,
        bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
    ]
}

proptest! {
    #[test]
    fn every_form_however_it_is_cut(
        secret in "[g-zG-Z/+ =\"\\\\äß日€]{6,40}",
        before in "[0-9\n]{0,20}",
        after in "[0-9\n]{0,20}",
        cuts in proptest::collection::vec(0usize..400, 0..12),
    ) {
        let known = known(&[&secret]);
        for form in forms(&secret) {
            let text = format!("{before}\t{form}\t{after}");
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % text.len()).collect();
            cuts.sort_unstable();
            let masked = in_pieces(&known, text.as_bytes(), &cuts);
            let masked = String::from_utf8(masked).unwrap();
            // The last base64 letter contains bits of the following byte.
            let masked = match masked.strip_suffix(&format!("\t{after}")) {
                Some(head) if head.ends_with(']') => head,
                Some(head) => &head[..head.len() - 1],
                None => "",
            };
            prop_assert_eq!(masked, format!("{before}\t[secret]"), "{:?}", form);
        }
    }

    #[test]
    fn in_the_middle_of_other_base64(
        secret in "[ -~]{8,40}", before in "[ -~]{0,7}", after in "[ -~]{0,7}", cut in 0usize..80,
    ) {
        let text = base64(format!("{before}{secret}{after}").as_bytes(), "+/");
        let masked = in_pieces(&known(&[&secret]), text.as_bytes(), &[cut.min(text.len())]);
        let masked = String::from_utf8(masked).unwrap();
        prop_assert!(masked.contains("[secret]"), "{}", masked);
        let left = masked.replace("[secret]", "").replace('=', "");
        let most = (before.len() * 8).div_ceil(6) + (after.len() * 8).div_ceil(6) + 2;
        prop_assert!(left.len() <= most, "{}", masked);
    }

    #[test]
    fn who_looks_on_sees_no_more_than_a_beginning_and_every_character_stays_in_its_place(
        secret in "[g-zä日]{8,30}", before in "[0-9\r\n]{0,20}", after in "[0-9]{1,20}",
        pauses in proptest::collection::vec(any::<bool>(), 200),
    ) {
        let known = known(&[&secret]);
        let text = format!("{before}{secret}{after}");
        let mut masker = Masker::with_style(known, Style::Stars);
        let mut shown = Vec::new();
        for (byte, is_paused) in text.bytes().zip(pauses) {
            shown.extend(masker.take(&[byte]));
            if is_paused {
                shown.extend(masker.pause());
                let depth = masker.known.0.depth(masker.state);
                prop_assert!(masker.held.len() < 4 || depth >= SHORTEST);
            }
        }
        shown.extend(masker.finish());
        let bytes = secret.as_bytes();
        for begin in 0..bytes.len() - SHORTEST {
            let part = &bytes[begin..begin + SHORTEST];
            prop_assert!(!shown.windows(SHORTEST).any(|window| window == part));
        }
        let shown = String::from_utf8_lossy(&shown).into_owned();
        prop_assert_eq!(shown.chars().count(), text.chars().count());
        prop_assert!(shown.starts_with(&before) && shown.ends_with(&after), "{}", shown);
    }

    #[test]
    fn however_it_is_cut_it_is_the_same_and_no_value_is_left(
        secret in "[ -~]{6,30}",
        other in "[a-c]{6,8}",
        before in "[ -~\\n]{0,40}",
        after in "[ -~\\n]{0,40}",
        mut cuts in proptest::collection::vec(0usize..200, 0..8),
    ) {
        let known = known(&[&secret, &other]);
        let text = format!("{before}{secret}{after}{other}");
        let whole = known.mask(text.as_bytes());
        for cut in &mut cuts {
            *cut = (*cut).min(text.len());
        }
        cuts.sort_unstable();
        prop_assert_eq!(&in_pieces(&known, text.as_bytes(), &cuts), &whole);
        let masked = String::from_utf8(whole).unwrap();
        let left: Vec<&str> = masked.split("[secret]").collect();
        prop_assert!(left.iter().all(|part| !part.contains(&secret) && !part.contains(&other)));
        prop_assert!(left.len() >= 2);
    }
}
