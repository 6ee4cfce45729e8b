//! Address ranges, and the list of those that are not the public internet.
//!
//! Kernel rules and gateway use the same list. Documentation ranges are not private networks, so
//! they are open.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses that share the first `bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub address: IpAddr,
    pub bits: u8,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Range {
    Range {
        address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        bits,
    }
}

const fn v6(first: [u16; 4], bits: u8) -> Range {
    let [a, b, c, d] = first;
    Range {
        address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)),
        bits,
    }
}

/// Ranges that are closed unless an address entry of `allow` opens them, with their names.
pub const CLOSED: &[(Range, &str)] = &[
    (v4(0, 0, 0, 0, 8), "this network"),
    (v4(10, 0, 0, 0, 8), "a private network"),
    // A cloud's metadata service, inside the range that follows.
    (v4(100, 100, 100, 200, 32), "a metadata service"),
    (v4(100, 64, 0, 0, 10), "a provider's network"),
    (v4(127, 0, 0, 0, 8), "the host's loopback"),
    (v4(168, 63, 129, 16, 32), "a metadata service"),
    (v4(169, 254, 169, 254, 32), "a metadata service"),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(172, 16, 0, 0, 12), "a private network"),
    (v4(192, 0, 0, 0, 24), "reserved"),
    (v4(192, 88, 99, 0, 24), "reserved"),
    (v4(192, 168, 0, 0, 16), "a private network"),
    (v4(198, 18, 0, 0, 15), "reserved"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(240, 0, 0, 0, 4), "reserved"),
    // Unspecified, loopback, and IPv4-compatible addresses.
    (v6([0, 0, 0, 0], 96), "the host's loopback"),
    // Programs that use this spelling are checked by the IPv4 address; on the wire it means
    // nothing.
    (
        Range {
            address: IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0)),
            bits: 96,
        },
        "reserved",
    ),
    (v6([0x64, 0xff9b, 1, 0], 48), "a private network"),
    (v6([0x100, 0, 0, 0], 64), "reserved"),
    // Teredo and other protocols that embed IPv4 addresses.
    (v6([0x2001, 0, 0, 0], 23), "reserved"),
    (v6([0x2002, 0, 0, 0], 16), "reserved"),
    (v6([0x5f00, 0, 0, 0], 16), "reserved"),
    (v6([0xfd00, 0xec2, 0, 0], 32), "a metadata service"),
    (v6([0xfc00, 0, 0, 0], 7), "a private network"),
    (v6([0xfe80, 0, 0, 0], 10), "link-local"),
    (v6([0xfec0, 0, 0, 0], 10), "a private network"),
    (v6([0xff00, 0, 0, 0], 8), "multicast"),
];

/// The NAT64 prefix: the last 32 bits are an IPv4 address.
pub const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// The form of an address that is checked: an IPv4-mapped address becomes IPv4.
pub fn canonical(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(wide) => match wide.to_ipv4_mapped() {
            Some(narrow) => IpAddr::V4(narrow),
            None => address,
        },
    }
}

/// The name of the closed range that contains the address. A NAT64 address counts as its IPv4
/// address.
pub fn closed(address: IpAddr) -> Option<&'static str> {
    let address = canonical(address);
    if let IpAddr::V6(wide) = address
        && Range::new(IpAddr::V6(NAT64), 96).contains(address)
    {
        let [.., a, b, c, d] = wide.octets();
        return closed(IpAddr::V4(Ipv4Addr::new(a, b, c, d)));
    }
    let found = CLOSED.iter().find(|(range, _)| range.contains(address));
    found.map(|(_, what)| *what)
}

// === impl Range ===

impl Range {
    /// Bits after the first `bits` are ignored.
    pub fn new(address: IpAddr, bits: u8) -> Self {
        match (address, canonical(address)) {
            (IpAddr::V6(_), IpAddr::V4(narrow)) if bits >= 96 => Self {
                address: IpAddr::V4(narrow),
                bits: bits - 96,
            },
            _ => Self { address, bits },
        }
    }

    pub fn exactly(address: IpAddr) -> Self {
        let address = canonical(address);
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Self { address, bits }
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.bits))
                    .unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            _ => false,
        }
    }

    /// The same range within the NAT64 prefix.
    pub fn through_nat64(&self) -> Option<Range> {
        match self.address {
            IpAddr::V4(narrow) => {
                let wide = NAT64.to_bits() | u128::from(narrow.to_bits());
                Some(Range {
                    address: IpAddr::V6(Ipv6Addr::from_bits(wide)),
                    bits: 96 + self.bits,
                })
            }
            IpAddr::V6(_) => None,
        }
    }
}
