//! Tests of replacements: at every split of a stream, in every encoding, with equal lengths.

use super::*;
use proptest::prelude::*;

const VALUE: &str = "sk_live_51H+xCANARY/canary=0123";
const TOKEN: &str = "sk_live_80T+qZZQWEX/zqwert=9876";

fn value(text: &str) -> Value {
    Value::parse(text.as_bytes().to_vec()).unwrap()
}

fn answers() -> Exchange {
    Exchange::into_tokens([(TOKEN, &value(VALUE))].into_iter())
}

/// An independent encoder.
fn base64(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new("base64")
        .arg("-w0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    child.wait_with_output().unwrap().stdout
}

#[test]
fn a_token_becomes_its_value_and_nothing_else_changes() {
    let exchange = Exchange::into_value(TOKEN, &value(VALUE));
    let swap = |text: String| {
        exchange
            .swap(text.as_bytes())
            .map(|bytes| String::from_utf8(bytes).unwrap())
    };
    assert_eq!(
        swap(format!("Bearer {TOKEN}")),
        Some(format!("Bearer {VALUE}"))
    );
    assert_eq!(
        swap(format!("{TOKEN}{TOKEN}")),
        Some(format!("{VALUE}{VALUE}"))
    );
    let (escaped, meant) = (
        "a=1&key=sk_live_80T%2BqZZQWEX%2Fzqwert%3D9876&b=2",
        "a=1&key=sk_live_51H%2BxCANARY%2Fcanary%3D0123&b=2",
    );
    assert_eq!(swap(escaped.to_owned()), Some(meant.to_owned()));
    assert_eq!(
        swap(
            escaped
                .replace("%2B", "%2b")
                .replace("%2F", "%2f")
                .replace("%3D", "%3d")
        )
        .map(|text| text.to_uppercase()),
        Some(meant.to_uppercase())
    );
    assert_eq!(swap(TOKEN[1..].to_owned()), None);
    assert_eq!(swap(VALUE.to_owned()), None);
    assert_eq!(swap(String::new()), None);
}

#[test]
fn a_value_in_an_answer_becomes_the_token_in_the_same_form() {
    let exchange = answers();
    for before in ["", "x", "xy", "user:"] {
        let (from, to) = (
            format!("{before}{VALUE}:end"),
            format!("{before}{TOKEN}:end"),
        );
        assert_eq!(
            exchange.swap(from.as_bytes()).as_deref(),
            Some(to.as_bytes())
        );
        let swapped = exchange
            .swap(&base64(from.as_bytes()))
            .expect("base64 is seen");
        assert_eq!(swapped.len(), base64(from.as_bytes()).len());
        // Only letters that the value shares with its neighbours are unchanged.
        let (expect, is) = (base64(to.as_bytes()), swapped);
        let different = expect
            .iter()
            .zip(&is)
            .filter(|(left, right)| left != right)
            .count();
        assert!(different <= 2, "{different}");
    }
    let json = format!("{{\"key\":\"{}\"}}", VALUE.replace('/', "\\/"));
    let swapped = String::from_utf8(exchange.swap(json.as_bytes()).unwrap()).unwrap();
    assert!(swapped.contains(&TOKEN.replace('/', "\\/")), "{swapped}");
}

#[test]
fn attack_189_a_reader_that_cannot_wait_gets_a_few_letters() {
    for cut in 1..VALUE.len() {
        let (begin, end) = VALUE.split_at(cut);
        let mut exchanger = Exchanger::new(answers());
        let mut output = exchanger.take(format!("a {begin}").as_bytes());
        output.extend(exchanger.rest());
        // A server paused in the middle of a value, then continued.
        output.extend(exchanger.take(format!("{end} b").as_bytes()));
        output.extend(exchanger.rest());
        let output = String::from_utf8(output).unwrap();
        let (output, is_framed) = match output
            .strip_prefix("a ")
            .and_then(|output| output.strip_suffix(" b"))
        {
            Some(output) => (output, true),
            None => (output.as_str(), false),
        };
        assert!(is_framed && output.len() == VALUE.len(), "{output}");
        let places = output.bytes().zip(VALUE.bytes()).zip(TOKEN.bytes());
        let given_away =
            places.filter(|((output, value), token)| output == value && value != token);
        assert!(given_away.count() <= 5, "{cut}: {output}");
    }
    // A whole text contains complete values or none, so a prefix is not replaced.
    let begun = &VALUE.as_bytes()[..VALUE.len() - 1];
    assert_eq!(answers().swap(begun), None);
}

#[test]
fn attack_189_names_of_headers_are_in_small_letters() {
    let names = Exchange::into_tokens_in_names([(TOKEN, &value(VALUE))].into_iter());
    let name = format!("x-{}", VALUE.to_lowercase());
    let swapped = names.swap(name.as_bytes()).unwrap();
    let expect = format!("x-{}", TOKEN.to_lowercase());
    assert_eq!(String::from_utf8(swapped).unwrap(), expect);
    assert_eq!(answers().swap(name.as_bytes()), None);
}

#[test]
fn what_does_not_fit_is_left_alone() {
    let exchange = Exchange::into_tokens([("short", &value("much-longer-value"))].into_iter());
    assert_eq!(exchange.swap(b"a much-longer-value b"), None);
    assert_eq!(format!("{:?}", answers()), "[exchange]");
}

proptest! {
    #[test]
    fn a_stream_can_be_cut_anywhere(
        before in "[a-z_0-9 ]{0,12}",
        after in "[a-z_0-9 ]{0,12}",
        cuts in proptest::collection::vec(1..9usize, 1..40),
    ) {
        let text = format!("{before}{VALUE}{after}sk_live_{VALUE}sk_");
        let expect = format!("{before}{TOKEN}{after}sk_live_{TOKEN}sk_");
        let mut exchanger = Exchanger::new(answers());
        let (mut output, mut rest) = (Vec::new(), text.as_bytes());
        for cut in cuts.iter().cycle() {
            let (piece, later) = rest.split_at((*cut).min(rest.len()));
            output.extend(exchanger.take(piece));
            prop_assert!(output.len() <= text.len());
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert!(exchanger.holds_something());
        output.extend(exchanger.rest());
        prop_assert_eq!(String::from_utf8(output).unwrap(), expect);
    }

    #[test]
    fn other_bytes_pass(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(answers().swap(&bytes), None);
    }
}
