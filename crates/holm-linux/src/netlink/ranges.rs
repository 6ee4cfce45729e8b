//! Ranges of addresses as the kernel's sets take them.

use holm_core::egress::Range;
use std::net::IpAddr;

/// The ranges whose addresses have this length, in order, joined where they touch: the first address of each and the
/// one after its last, unless that is the last of all.
pub fn merged(ranges: &[Range], length: usize) -> Vec<(u128, Option<u128>)> {
    let bits = length as u32 * 8;
    let is_of_length = |range: &&Range| range.address.is_ipv4() == (length == 4);
    let mut all: Vec<_> = ranges
        .iter()
        .filter(is_of_length)
        .map(|range| {
            let number = match range.address {
                IpAddr::V4(address) => u128::from(address.to_bits()),
                IpAddr::V6(address) => address.to_bits(),
            };
            let size = 1u128.checked_shl(bits - u32::from(range.bits));
            let first = size.map_or(0, |size| number & !(size - 1));
            let after = size.and_then(|size| first.checked_add(size));
            (
                first,
                after.filter(|after| bits == 128 || *after < 1 << bits),
            )
        })
        .collect();
    all.sort_unstable();
    let mut merged: Vec<(u128, Option<u128>)> = Vec::new();
    for (first, after) in all {
        match merged.last_mut() {
            Some((_, None)) => break,
            Some((_, Some(end))) if first <= *end => match after {
                Some(after) => *end = after.max(*end),
                None => merged.last_mut().into_iter().for_each(|last| last.1 = None),
            },
            _ => merged.push((first, after)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Range {
        let (address, bits) = text.split_once('/').unwrap();
        Range {
            address: address.parse().unwrap(),
            bits: bits.parse().unwrap(),
        }
    }

    fn check(ranges: &[&str], length: usize, expected: &[(&str, Option<&str>)]) {
        let ranges: Vec<_> = ranges.iter().map(|text| range(text)).collect();
        let number = |text: &str| match text.parse().unwrap() {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let expected = expected.iter();
        let expected: Vec<_> = expected
            .map(|(first, after)| (number(first), after.map(number)))
            .collect();
        assert_eq!(merged(&ranges, length), expected, "{ranges:?}");
    }

    #[test]
    fn closed_ranges_are_ordered_and_do_not_overlap() {
        check(&[], 4, &[]);
        check(
            &["10.1.2.3/8", "fd00::/8", "0.0.0.0/8", "10.9.9.9/32"],
            4,
            &[("0.0.0.0", Some("1.0.0.0")), ("10.0.0.0", Some("11.0.0.0"))],
        );
        // Ranges that touch are one, and the last address has none after it.
        check(
            &["240.0.0.0/4", "224.0.0.0/4", "255.255.255.255/32"],
            4,
            &[("224.0.0.0", None)],
        );
        check(&["1.2.3.4/32"], 4, &[("1.2.3.4", Some("1.2.3.5"))]);
        check(&["0.0.0.0/0"], 4, &[("0.0.0.0", None)]);
        check(&["::/0"], 16, &[("::", None)]);
        check(
            &["ff00::/8", "fe80::/10", "::1/128", "10.0.0.0/8"],
            16,
            &[
                ("::1", Some("::2")),
                ("fe80::", Some("fec0::")),
                ("ff00::", None),
            ],
        );
    }
}
