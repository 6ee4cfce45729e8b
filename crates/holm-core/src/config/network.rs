//! Destinations of `egress.allow` and addresses of host services, parsed as text. The gateway
//! decides what a name resolves to.

use crate::range::{Range, canonical};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

/// A destination: `api.example.org`, `*.example.net:443`, `10.1.2.3:5432`, `[fd00::1]:80`,
/// `10.0.0.0/8`. Without a port, any port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    pub host: HostPattern,
    pub port: Option<NonZeroU16>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// Exactly this name, in lower case.
    Name(String),
    /// Every name below this one, at any depth, but not the name itself.
    Below(String),
    Address(IpAddr),
    /// Addresses that share the first `bits`.
    Network {
        address: IpAddr,
        bits: u8,
    },
}

/// A service on the host or its network: `127.0.0.1:6379`, `db.example.org:5432`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub host: String,
    pub port: NonZeroU16,
}

/// A proxy that connects to other hosts: `http://proxy.example.org:3128`, with or without `user:password@`.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyUrl {
    pub host: String,
    pub port: NonZeroU16,
    /// `user:password`.
    pub user: Option<String>,
}

/// The `Host` of an HTTP request: `localhost:3000`, `shop.test`, `[::1]:8080`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostHeader(String);

crate::checked_text!(HostHeader);

/// The port of a proxy whose address has none.
const PROXY_PORT: NonZeroU16 = NonZeroU16::new(80).unwrap();

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProxy {
    #[error("it must begin with `http://`; TLS to the proxy itself and SOCKS are not supported")]
    Scheme,
    #[error("after `host:port` there is more")]
    Path,
    #[error("its user has a control character")]
    User,
    #[error(transparent)]
    Address(#[from] InvalidDestination),
}

// === impl ProxyUrl ===

impl ProxyUrl {
    pub fn parse(text: &str) -> Result<Self, InvalidProxy> {
        let rest = text.strip_prefix("http://").ok_or(InvalidProxy::Scheme)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(unescaped(user)), place),
            None => (None, rest),
        };
        if place.contains('/') {
            return Err(InvalidProxy::Path);
        }
        if user
            .as_ref()
            .is_some_and(|user| user.contains(char::is_control))
        {
            return Err(InvalidProxy::User);
        }
        let Address { host, port } = match Address::parse(place) {
            Err(InvalidDestination::NoPort) => Address {
                port: PROXY_PORT,
                ..Address::parse(&format!("{place}:{PROXY_PORT}"))?
            },
            parsed => parsed?,
        };
        Ok(Self { host, port, user })
    }
}

/// Where a notification is posted: `https://hooks.example.org/holm`.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    pub is_tls: bool,
    pub host: String,
    pub port: NonZeroU16,
    /// With the query. It may contain a secret.
    pub path: String,
}

const HTTPS_PORT: NonZeroU16 = NonZeroU16::new(443).unwrap();

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebhook {
    #[error("it must begin with `http://` or `https://`")]
    Scheme,
    #[error("it has a user, a fragment, a blank or a control character")]
    Form,
    #[error(transparent)]
    Address(#[from] InvalidDestination),
}

// === impl WebhookUrl ===

impl WebhookUrl {
    pub fn parse(text: &str) -> Result<Self, InvalidWebhook> {
        let (is_tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(InvalidWebhook::Scheme),
        };
        let is_plain = |c: char| c.is_ascii_graphic() && c != '#';
        let place = rest.find(['/', '?']).unwrap_or(rest.len());
        let (place, path) = rest.split_at(place);
        if !rest.chars().all(is_plain) || place.contains('@') {
            return Err(InvalidWebhook::Form);
        }
        let default = if is_tls { HTTPS_PORT } else { PROXY_PORT };
        let Address { host, port } = match Address::parse(place) {
            Err(InvalidDestination::NoPort) => Address::parse(&format!("{place}:{default}"))?,
            parsed => parsed?,
        };
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/{path}"),
        };
        Ok(Self {
            is_tls,
            host,
            port,
            path,
        })
    }
}

/// Without the path, which is often a secret.
impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// A text with its `%40` replaced.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Without the password.
impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDestination {
    #[error("it is empty")]
    Empty,
    #[error("`{0}` is not a port (1 to 65535)")]
    Port(String),
    #[error("it has no port; write `host:port`")]
    NoPort,
    #[error("it has `{}`; a name has a-z, 0-9, `-`, `_` and `.`", .0.escape_default())]
    Character(char),
    #[error("a part between dots is empty, longer than 63 characters, or has `-` at an end")]
    Part,
    #[error("it is longer than 253 characters")]
    TooLong,
    #[error(
        "`*` stands only in front, as in `*.example.org`; for everything use `mode = \"open\"`"
    )]
    Star,
    #[error("an IPv6 address is written in brackets, as in `[fd00::1]:80`")]
    Brackets,
    #[error("it is not an address")]
    NotAnAddress,
    #[error("the part behind `/` must be a number of bits that the address can have")]
    Bits,
    #[error("write the host only, without `http://` and without a path")]
    Url,
}

fn parse_port(text: &str) -> Result<NonZeroU16, InvalidDestination> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = if plain { text.parse().ok() } else { None };
    port.ok_or_else(|| InvalidDestination::Port(text.escape_default().to_string()))
}

/// Splits off the port after the last `:` and removes brackets.
fn split_port(text: &str) -> Result<(Spelled<'_>, Option<NonZeroU16>), InvalidDestination> {
    if text.is_empty() {
        return Err(InvalidDestination::Empty);
    }
    if text.contains("//") {
        return Err(InvalidDestination::Url);
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']').ok_or(InvalidDestination::Brackets)?;
        let address: Ipv6Addr = inside
            .parse()
            .map_err(|_| InvalidDestination::NotAnAddress)?;
        let port = match after.strip_prefix(':') {
            Some(port) => Some(parse_port(port)?),
            None if after.is_empty() => None,
            None => return Err(InvalidDestination::Brackets),
        };
        return Ok((Spelled::Address(IpAddr::V6(address)), port));
    }
    let (host, port) = match text.split_once(':') {
        Some((_, port)) if port.contains(':') => return Err(InvalidDestination::Brackets),
        Some((host, port)) => (host, Some(parse_port(port)?)),
        None => (text, None),
    };
    match host.parse::<Ipv4Addr>() {
        Ok(address) => Ok((Spelled::Address(IpAddr::V4(address)), port)),
        Err(_) => Ok((Spelled::Text(host), port)),
    }
}

// === impl HostHeader ===

impl HostHeader {
    pub fn parse(text: &str) -> Result<Self, InvalidDestination> {
        if let (Spelled::Text(name), _) = split_port(text)? {
            parse_host_name(name)?;
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

enum Spelled<'a> {
    Text(&'a str),
    Address(IpAddr),
}

/// A host name in lower case. Four numbers are an address, and an invalid one is not a name.
pub fn parse_host_name(text: &str) -> Result<String, InvalidDestination> {
    if text.is_empty() {
        return Err(InvalidDestination::Empty);
    }
    if text.len() > 253 {
        return Err(InvalidDestination::TooLong);
    }
    if text.contains('*') {
        return Err(InvalidDestination::Star);
    }
    if text.contains('/') {
        return Err(InvalidDestination::Url);
    }
    let wrong = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if let Some(character) = text.chars().find(wrong) {
        return Err(InvalidDestination::Character(character));
    }
    let bad = |p: &str| p.is_empty() || p.len() > 63 || p.starts_with('-') || p.ends_with('-');
    if text.split('.').any(bad) {
        return Err(InvalidDestination::Part);
    }
    // Resolvers accept `127.1`, `0x7f.1` and `2130706433` as addresses, so the last part of a name
    // must have a letter.
    let last = text.rsplit('.').next().unwrap_or(text);
    if last.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(InvalidDestination::NotAnAddress);
    }
    Ok(text.to_ascii_lowercase())
}

fn parse_network(address: &str, bits: &str) -> Result<HostPattern, InvalidDestination> {
    let address: IpAddr = address
        .parse()
        .map_err(|_| InvalidDestination::NotAnAddress)?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits: Option<u8> = if plain { bits.parse().ok() } else { None };
    match bits {
        Some(bits) if bits <= most => Ok(HostPattern::Network { address, bits }),
        _ => Err(InvalidDestination::Bits),
    }
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent)
        .is_some_and(|rest| rest.ends_with('.'))
}

// === impl Destination ===

impl Destination {
    pub fn parse(text: &str) -> Result<Self, InvalidDestination> {
        if let Some((address, bits)) = text.split_once('/')
            && !text.contains("//")
        {
            let host = parse_network(address, bits)?;
            return Ok(Self { host, port: None });
        }
        let (host, port) = split_port(text)?;
        let host = match host {
            Spelled::Address(address) => HostPattern::Address(address),
            Spelled::Text(text) => match text.strip_prefix("*.") {
                Some(parent) => HostPattern::Below(parse_host_name(parent)?),
                None => HostPattern::Name(parse_host_name(text)?),
            },
        };
        Ok(Self { host, port })
    }

    /// Whether this destination includes all of `other`.
    pub fn covers(&self, other: &Destination) -> bool {
        let hosts = match (&self.host, &other.host) {
            (HostPattern::Name(own), HostPattern::Name(other)) => own == other,
            (HostPattern::Below(own), HostPattern::Name(other)) => is_below(other, own),
            (HostPattern::Below(own), HostPattern::Below(other)) => {
                own == other || is_below(other, own)
            }
            (HostPattern::Address(own), HostPattern::Address(other)) => {
                canonical(*own) == canonical(*other)
            }
            (HostPattern::Network { address, bits }, HostPattern::Address(other)) => {
                Range::new(*address, *bits).contains(canonical(*other))
            }
            (HostPattern::Network { address, bits }, HostPattern::Network { .. }) => {
                let own = Range::new(*address, *bits);
                other.range().is_some_and(|other| {
                    own.bits <= other.bits && own.contains(canonical(other.address))
                })
            }
            _ => false,
        };
        hosts && (self.port.is_none() || self.port == other.port)
    }

    fn range(&self) -> Option<Range> {
        match &self.host {
            HostPattern::Network { address, bits } => Some(Range::new(*address, *bits)),
            _ => None,
        }
    }

    /// Whether the entry is an address or a network. Only such an entry opens private networks: the
    /// owner of a name decides where the name leads.
    pub fn is_address(&self) -> bool {
        matches!(
            self.host,
            HostPattern::Address(_) | HostPattern::Network { .. }
        )
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostPattern::Name(name) => f.write_str(name)?,
            HostPattern::Below(name) => write!(f, "*.{name}")?,
            HostPattern::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            HostPattern::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            HostPattern::Network { address, bits } => write!(f, "{address}/{bits}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

// === impl Address ===

impl Address {
    pub fn parse(text: &str) -> Result<Self, InvalidDestination> {
        let (host, port) = split_port(text)?;
        let host = match host {
            Spelled::Address(address) => address.to_string(),
            Spelled::Text(text) => parse_host_name(text)?,
        };
        let port = port.ok_or(InvalidDestination::NoPort)?;
        Ok(Self { host, port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies() {
        let check = |text: &str, expect: Result<(&str, u16, Option<&str>), InvalidProxy>| {
            let parsed = ProxyUrl::parse(text);
            let found = parsed
                .as_ref()
                .map_err(Clone::clone)
                .map(|url| (url.host.as_str(), url.port.get(), url.user.as_deref()));
            assert_eq!(found, expect, "{text}");
            assert!(!format!("{parsed:?}").contains("p@ss"), "{text}");
        };
        check(
            "http://proxy.example.org:3128",
            Ok(("proxy.example.org", 3128, None)),
        );
        check(
            "http://proxy.example.org/",
            Ok(("proxy.example.org", 80, None)),
        );
        check(
            "http://me:p%40ss@10.0.0.1:8080",
            Ok(("10.0.0.1", 8080, Some("me:p@ss"))),
        );
        check("https://proxy.example.org:3128", Err(InvalidProxy::Scheme));
        check("socks5://proxy.example.org:1080", Err(InvalidProxy::Scheme));
        check(
            "http://proxy.example.org:3128/path",
            Err(InvalidProxy::Path),
        );
        check(
            "http://",
            Err(InvalidProxy::Address(InvalidDestination::Empty)),
        );
    }

    #[test]
    fn destinations_are_shown_as_they_are_written() {
        for text in [
            "packages.example.org",
            "*.example.net:443",
            "10.1.2.3",
            "10.1.2.3:5432",
            "[fd00::1]:80",
            "[fd00::1]",
            "10.0.0.0/8",
            "fd00::/8",
            "my_host",
        ] {
            assert_eq!(Destination::parse(text).unwrap().to_string(), text);
        }
        let upper = Destination::parse("API.Example.org").unwrap();
        assert_eq!(upper.to_string(), "api.example.org");
    }

    #[test]
    fn what_is_not_a_destination() {
        let check = |text: &str, expect: InvalidDestination| {
            assert_eq!(Destination::parse(text), Err(expect), "{text}");
        };
        check("", InvalidDestination::Empty);
        check("*", InvalidDestination::Star);
        check("a*.example.org", InvalidDestination::Star);
        check("*.*.example.org", InvalidDestination::Star);
        check("example.org:0", InvalidDestination::Port("0".into()));
        check("example.org:", InvalidDestination::Port(String::new()));
        check(
            "example.org:70000",
            InvalidDestination::Port("70000".into()),
        );
        check("example.org:+80", InvalidDestination::Port("+80".into()));
        check("https://example.org", InvalidDestination::Url);
        check("example.org/x", InvalidDestination::NotAnAddress);
        check("exa mple.org", InvalidDestination::Character(' '));
        check("-a.example.org", InvalidDestination::Part);
        check("a..example.org", InvalidDestination::Part);
        check("example.org.", InvalidDestination::Part);
        check("127.1", InvalidDestination::NotAnAddress);
        check("256.1.1.1", InvalidDestination::NotAnAddress);
        check("2130706433", InvalidDestination::NotAnAddress);
        check("0x7f.0x1", InvalidDestination::NotAnAddress);
        check("fd00::1", InvalidDestination::Brackets);
        check("[fd00::1", InvalidDestination::Brackets);
        check("10.0.0.0/33", InvalidDestination::Bits);
        check("10.0.0.0/", InvalidDestination::Bits);
        check(&"a.".repeat(127).repeat(2), InvalidDestination::TooLong);
    }

    #[test]
    fn a_webhook_is_an_http_address_and_its_debug_text_has_no_secret() {
        let url = WebhookUrl::parse("https://hooks.example.org/T0/secret?a=b").unwrap();
        assert_eq!((url.is_tls, url.port.get()), (true, 443));
        assert_eq!(url.path, "/T0/secret?a=b");
        assert_eq!(format!("{url:?}"), "https://hooks.example.org:443");
        let url = WebhookUrl::parse("http://[::1]:8080").unwrap();
        assert_eq!((url.host.as_str(), url.path.as_str()), ("::1", "/"));
        assert_eq!(WebhookUrl::parse("http://a.test?x").unwrap().path, "/?x");
        for wrong in [
            "ftp://a.test/",
            "a.test",
            "http://",
            "http://a b.test/",
            "http://u:p@a.test/",
            "http://a.test/#x",
            "http://a.test/\r\nHost: b.test",
            "http://a.test:0/",
        ] {
            assert!(WebhookUrl::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses() {
        for text in ["127.0.0.1:6379", "[::1]:6379", "db.example.org:5432"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Address::parse("127.0.0.1"), Err(InvalidDestination::NoPort));
        assert_eq!(Address::parse("*.a.test:1"), Err(InvalidDestination::Star));
    }
}
