//! Maps names to substitute addresses: the resolver answers with them and the gateway maps them
//! back.
//!
//! A freed address is reused only after all others. So a program that cached an old answer fails to
//! connect rather than reaching another name.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Capacity; the least recently requested name is evicted first.
const MOST: usize = 8192;

/// 198.18.1.0 and up; 198.18.0.x is the workspace's own network.
const FIRST: u32 = Ipv4Addr::new(198, 18, 1, 0).to_bits();
/// Up to 198.18.254.x; 198.19.x.x is for services ([`holm_core::container`]).
const COUNT: u32 = 65_000;
const FIRST_V6: u128 = Ipv6Addr::new(0xfd68, 0x6f6c, 0x6d01, 0, 0, 0, 0, 0).to_bits();

#[derive(Debug, Default)]
pub struct Names {
    by_name: HashMap<String, u32>,
    by_number: HashMap<u32, Known>,
    next: u32,
    clock: u64,
}

#[derive(Debug)]
struct Known {
    name: String,
    asked: u64,
}

/// A name's substitute addresses, and those of the name evicted for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Substitutes {
    pub addresses: [IpAddr; 2],
    pub is_new: bool,
    pub evicted: Option<(String, [IpAddr; 2])>,
}

fn addresses(number: u32) -> [IpAddr; 2] {
    [
        Ipv4Addr::from_bits(FIRST + number).into(),
        Ipv6Addr::from_bits(FIRST_V6 + u128::from(number)).into(),
    ]
}

/// Whether the address is in the range of substitute addresses.
pub fn is_ours(address: IpAddr) -> bool {
    number(address).is_some()
}

/// The index of an address in the range of substitute addresses.
fn number(address: IpAddr) -> Option<u32> {
    let number = match address {
        IpAddr::V4(address) => address.to_bits().checked_sub(FIRST)?,
        IpAddr::V6(address) => address.to_bits().checked_sub(FIRST_V6)?.try_into().ok()?,
    };
    (number < COUNT).then_some(number)
}

// === impl Names ===

impl Names {
    pub fn assign(&mut self, name: &str) -> Substitutes {
        self.clock += 1;
        if let Some(&number) = self.by_name.get(name) {
            if let Some(known) = self.by_number.get_mut(&number) {
                known.asked = self.clock;
            }
            return Substitutes {
                addresses: addresses(number),
                is_new: false,
                evicted: None,
            };
        }
        let evicted = (self.by_name.len() >= MOST)
            .then(|| self.forget())
            .flatten();
        while self.by_number.contains_key(&self.next) {
            self.next = (self.next + 1) % COUNT;
        }
        let number = self.next;
        self.next = (self.next + 1) % COUNT;
        self.by_name.insert(name.to_owned(), number);
        let known = Known {
            name: name.to_owned(),
            asked: self.clock,
        };
        self.by_number.insert(number, known);
        Substitutes {
            addresses: addresses(number),
            is_new: true,
            evicted,
        }
    }

    pub fn name_of(&self, address: IpAddr) -> Option<&str> {
        let known = self.by_number.get(&number(address)?)?;
        Some(&known.name)
    }

    pub fn all(&self) -> impl Iterator<Item = (&str, [IpAddr; 2])> {
        let known = self.by_number.iter();
        known.map(|(number, known)| (known.name.as_str(), addresses(*number)))
    }

    fn forget(&mut self) -> Option<(String, [IpAddr; 2])> {
        let oldest = self.by_number.iter().min_by_key(|(_, known)| known.asked);
        let number = *oldest?.0;
        let known = self.by_number.remove(&number)?;
        self.by_name.remove(&known.name);
        Some((known.name, addresses(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_addresses_and_they_lead_back() {
        let mut names = Names::default();
        let first = names.assign("a.test");
        assert!(first.is_new);
        assert_eq!(first.addresses[0], "198.18.1.0".parse::<IpAddr>().unwrap());
        let second = names.assign("b.test");
        assert_ne!(first.addresses, second.addresses);
        let again = names.assign("a.test");
        assert_eq!((again.addresses, again.is_new), (first.addresses, false));
        for address in first.addresses {
            assert_eq!(names.name_of(address), Some("a.test"));
        }
        for text in [
            "198.18.0.1",
            "198.18.9.9",
            "10.0.0.1",
            "fd68:6f6c:6d00::1",
            "::1",
        ] {
            assert_eq!(names.name_of(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn what_was_not_asked_for_longest_is_forgotten() {
        let mut names = Names::default();
        let kept = names.assign("kept.test").addresses;
        let lost = names.assign("lost.test").addresses;
        for number in 0..MOST - 2 {
            assert_eq!(names.assign(&format!("n{number}.test")).evicted, None);
        }
        names.assign("kept.test");
        let assigned = names.assign("one-more.test");
        assert_eq!(assigned.evicted, Some(("lost.test".to_owned(), lost)));
        assert_eq!(names.name_of(lost[0]), None);
        assert_eq!(names.name_of(kept[1]), Some("kept.test"));
        for number in 0..1000 {
            let addresses = names.assign(&format!("m{number}.test")).addresses;
            assert_ne!(addresses, lost);
        }
        assert_eq!(names.all().count(), MOST);
    }
}
