//! Addresses that stand for names: what the resolver answers, and what the gateway reads back.
//!
//! An address that was forgotten is given to another name only after all others were: a program
//! that kept an old answer reaches nobody rather than somebody else.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Names that are remembered; the one that was not asked for longest goes first.
const MOST: usize = 8192;

/// 198.18.1.0 and what follows; 198.18.0.x is the workspace's own.
const FIRST: u32 = Ipv4Addr::new(198, 18, 1, 0).to_bits();
const COUNT: u32 = 130_000;
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

/// What stands for a name, and what was forgotten for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Standing {
    pub addresses: [IpAddr; 2],
    pub is_new: bool,
    pub forgotten: Option<(String, [IpAddr; 2])>,
}

fn addresses(number: u32) -> [IpAddr; 2] {
    [
        Ipv4Addr::from_bits(FIRST + number).into(),
        Ipv6Addr::from_bits(FIRST_V6 + u128::from(number)).into(),
    ]
}

/// Whether an address stands for names and nothing else.
pub fn is_ours(address: IpAddr) -> bool {
    number(address).is_some()
}

/// The number of an address that stands, or once stood, or could stand for a name.
fn number(address: IpAddr) -> Option<u32> {
    let number = match address {
        IpAddr::V4(address) => address.to_bits().checked_sub(FIRST)?,
        IpAddr::V6(address) => address.to_bits().checked_sub(FIRST_V6)?.try_into().ok()?,
    };
    (number < COUNT).then_some(number)
}

// === impl Names ===

impl Names {
    pub fn stand_for(&mut self, name: &str) -> Standing {
        self.clock += 1;
        if let Some(&number) = self.by_name.get(name) {
            if let Some(known) = self.by_number.get_mut(&number) {
                known.asked = self.clock;
            }
            return Standing {
                addresses: addresses(number),
                is_new: false,
                forgotten: None,
            };
        }
        let forgotten = (self.by_name.len() >= MOST)
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
        Standing {
            addresses: addresses(number),
            is_new: true,
            forgotten,
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
        let first = names.stand_for("a.test");
        assert!(first.is_new);
        assert_eq!(first.addresses[0], "198.18.1.0".parse::<IpAddr>().unwrap());
        let second = names.stand_for("b.test");
        assert_ne!(first.addresses, second.addresses);
        let again = names.stand_for("a.test");
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
        let kept = names.stand_for("kept.test").addresses;
        let lost = names.stand_for("lost.test").addresses;
        for number in 0..MOST - 2 {
            assert_eq!(names.stand_for(&format!("n{number}.test")).forgotten, None);
        }
        names.stand_for("kept.test");
        let standing = names.stand_for("one-more.test");
        assert_eq!(standing.forgotten, Some(("lost.test".to_owned(), lost)));
        assert_eq!(names.name_of(lost[0]), None);
        assert_eq!(names.name_of(kept[1]), Some("kept.test"));
        for number in 0..1000 {
            let addresses = names.stand_for(&format!("m{number}.test")).addresses;
            assert_ne!(addresses, lost);
        }
        assert_eq!(names.all().count(), MOST);
    }
}
