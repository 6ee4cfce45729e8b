//! Where a workspace may go, in every spelling.

use holm_core::config::{EgressMode, Word};
use holm_core::egress::{Policy, Ports, Reason, closed, line_that_allows, parse_query};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn policy(mode: &str, allow: &[&str]) -> Policy {
    let allow: Vec<String> = allow.iter().map(|entry| (*entry).to_owned()).collect();
    Policy::parse(EgressMode::parse_word(mode).unwrap(), &allow).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn names_match_whole_and_nothing_else() {
    let policy = policy("allow", &["ok.test", "*.wild.test", "port.test:443"]);
    let allowed = |name: &str| policy.ports_of(&parse_query(name)?);
    for name in [
        "ok.test",
        "OK.Test",
        "ok.test.",
        "a.wild.test",
        "a.b.WILD.test.",
    ] {
        assert_eq!(allowed(name), Ok(Ports::All), "{name}");
    }
    for name in [
        "ok.test.evil.test",
        "evilok.test",
        "a.ok.test",
        "ok.tes",
        "k.test",
        "wild.test",
        "evilwild.test",
        "a.wild.test.evil.test",
        "xn--ok-test",
    ] {
        assert_eq!(allowed(name), Err(Reason::NotListed), "{name}");
    }
    for name in [
        "",
        ".",
        "ok.test..",
        ".ok.test",
        "ok.test@evil",
        "ok.test/",
        "ok.test:443",
        "ok test",
        "ok.test\0",
        "ok.test\r\n",
        "ok\\.test",
        "ök.test",
        "127.1",
        "0177.1",
        "2130706433",
        "0x7f000001",
        "127.0.0.1",
        "[::1]",
        "*.wild.test",
    ] {
        assert_eq!(allowed(name), Err(Reason::NotAName), "{name:?}");
    }
    let label = "a".repeat(300);
    assert_eq!(allowed(&label), Err(Reason::NotAName));
    assert_eq!(policy.name("port.test", 443), Ok(()));
    assert_eq!(policy.name("port.test", 80), Err(Reason::OtherPort));
    assert_eq!(
        policy.ports_of("port.test"),
        Ok(Ports::These(BTreeSet::from([443])))
    );
}

#[test]
fn what_is_not_public_is_closed_in_every_spelling() {
    let policy = policy("open", &["name.test"]);
    for text in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.0.9",
        "168.63.129.16",
        "169.254.169.254",
        "169.254.1.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.168.1.1",
        "198.18.0.7",
        "198.19.255.1",
        "224.0.0.251",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::8.8.8.8",
        "2002:7f00:1::",
        "2002:c0a8:101::1",
        "2001:0:1::1",
        "fd00:ec2::254",
        "fc00::1",
        "fe80::1",
        "fec0::1",
        "ff02::fb",
    ] {
        let found = policy.address(address(text), 80);
        assert!(matches!(found, Err(Reason::Closed(_))), "{text}: {found:?}");
        assert_eq!(policy.led_to(address(text), 80), found, "{text}");
    }
    for text in [
        "1.1.1.1",
        "172.32.0.1",
        "192.0.2.1",
        "203.0.113.9",
        "100.63.0.1",
        "100.128.0.1",
        "2001:db8::1",
        "2600::1",
        "64:ff9b::1.1.1.1",
        "::ffff:1.1.1.1",
    ] {
        assert_eq!(policy.address(address(text), 80), Ok(()), "{text}");
    }
}

#[test]
fn only_an_address_opens_what_is_closed() {
    let named = policy("allow", &["*.test", "internal.test"]);
    assert_eq!(named.name("internal.test", 80), Ok(()));
    let private = Err(Reason::Closed("a private network"));
    assert_eq!(named.led_to(address("10.1.2.3"), 80), private);
    let opened = policy(
        "allow",
        &["*.test", "10.0.0.0/8", "[fd00::1]:80", "192.168.0.9:22"],
    );
    assert_eq!(opened.led_to(address("10.1.2.3"), 80), Ok(()));
    assert_eq!(opened.led_to(address("::ffff:10.1.2.3"), 80), Ok(()));
    assert_eq!(opened.address(address("10.1.2.3"), 80), Ok(()));
    assert_eq!(opened.address(address("fd00::1"), 80), Ok(()));
    assert_eq!(opened.address(address("fd00::1"), 81), private);
    assert_eq!(opened.address(address("192.168.0.9"), 22), Ok(()));
    assert_eq!(opened.address(address("192.168.0.9"), 23), private);
    assert_eq!(
        opened.address(address("1.1.1.1"), 80),
        Err(Reason::NotListed)
    );
}

#[test]
fn the_machine_itself_is_closed_whatever_its_address() {
    let own = address("203.0.113.9");
    let open = policy("open", &[]).with_machine([own]);
    assert_eq!(open.address(own, 22), Err(Reason::Closed("this machine")));
    assert_eq!(open.led_to(own, 22), Err(Reason::Closed("this machine")));
    assert_eq!(open.address(address("203.0.113.8"), 22), Ok(()));
    let opened = policy("open", &["203.0.113.9:22"]).with_machine([own]);
    assert_eq!(opened.address(own, 22), Ok(()));
}

#[test]
fn a_list_that_is_empty_or_wrong_allows_nothing() {
    let empty = policy("allow", &[]);
    assert_eq!(empty.name("ok.test", 443), Err(Reason::NotListed));
    assert_eq!(
        empty.address(address("1.1.1.1"), 443),
        Err(Reason::NotListed)
    );
    let none = policy("none", &["ok.test", "10.0.0.0/8"]);
    assert_eq!(none.name("ok.test", 443), Err(Reason::Nothing));
    assert_eq!(none.address(address("10.0.0.1"), 443), Err(Reason::Nothing));
    assert_eq!(none.led_to(address("1.1.1.1"), 443), Err(Reason::Nothing));
    assert_eq!(none.opened().count(), 0);
    for mode in ["", "Open", "none "] {
        assert_eq!(EgressMode::parse_word(mode), None, "{mode}");
    }
    for entry in ["", "*"] {
        let parsed = Policy::parse(EgressMode::Allow, &[entry.to_owned()]);
        assert!(parsed.is_err(), "{entry}");
    }
    assert_eq!(Policy::nothing().name("a.test", 1), Err(Reason::Nothing));
}

#[test]
fn a_refusal_says_the_line_that_would_allow_it() {
    let line = |reason: &Reason, target: &str, port| line_that_allows(reason, target, port);
    assert_eq!(
        line(&Reason::NotListed, "api.test", Some(443)).as_deref(),
        Some("[egress] allow = [\"api.test:443\"]")
    );
    assert_eq!(
        line(&Reason::Closed("x"), "fd00::1", Some(80)).as_deref(),
        Some("[egress] allow = [\"[fd00::1]:80\"]")
    );
    assert_eq!(line(&Reason::NotTcp, "1.1.1.1", Some(53)), None);
}

proptest! {
    /// For every query: a name is allowed exactly if it is an entry or ends in one after a dot.
    #[test]
    fn the_matcher_agrees_with_its_definition(
        before in "[a-cA-C.*@: \\\\\\-]{0,3}",
        after in "(\\.|[a-cA-C.@\\-]{0,2})",
        entry in "(\\*\\.)?[a-c]{1,2}(\\.[a-c]{1,2})?",
    ) {
        // Names that are nearly the entry, which is where a matcher goes wrong.
        let text = format!("{before}{}{after}", entry.trim_start_matches("*."));
        let policy = policy("allow", &[&entry]);
        let allowed = parse_query(&text).and_then(|name| policy.name(&name, 80)).is_ok();
        let plain = text.to_ascii_lowercase();
        let plain = plain.strip_suffix('.').unwrap_or(&plain);
        let is_name = !plain.is_empty() && plain.split('.').all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
                && !part.starts_with('-') && !part.ends_with('-')
        });
        let expected = is_name && match entry.strip_prefix("*.") {
            Some(parent) => plain.len() > parent.len() + 1 && plain.ends_with(&format!(".{parent}")),
            None => plain == entry,
        };
        prop_assert_eq!(allowed, expected);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = parse_query(&text);
        let _ = Policy::parse(EgressMode::Allow, &[text.into_owned()]);
    }

    /// An IPv4 address is judged alike in all its clothes.
    #[test]
    fn clothes_do_not_matter(bits: u32) {
        let plain = Ipv4Addr::from_bits(bits);
        let mapped = IpAddr::V6(plain.to_ipv6_mapped());
        let nat64 = Ipv6Addr::from_bits(0x64_ff9b_u128 << 96 | u128::from(bits));
        prop_assert_eq!(closed(IpAddr::V4(plain)), closed(mapped));
        prop_assert_eq!(closed(IpAddr::V4(plain)), closed(IpAddr::V6(nat64)));
    }
}
