//! Parses the `Host` header of a preview request. Pure.
//!
//! This is the only parser of `Host`. A value that does not match a documented form exactly is
//! refused, so that no spelling can reach another workspace.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The parsed value of `Host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// The daemon's own names for programs: `localhost`, `127.0.0.1`, `[::1]`.
    Own,
    /// `holm.localhost`, which has the API and the dashboard.
    Dashboard,
    /// `<port>.<site>.localhost`, or `<site>.localhost` without a port, in lower case.
    Preview { port: Option<String>, site: String },
}

/// Why a `Host` was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("the Host is malformed: {0}")]
    Malformed(&'static str),
    /// Not a name of this server.
    #[error("the Host is not one of this machine's own names")]
    Foreign,
    /// Below `localhost`, but not a possible preview name.
    #[error("there is no such preview")]
    Unknown,
}

/// The longest name that DNS allows.
const LONGEST_NAME: usize = 253;

const LONGEST_LABEL: usize = 63;

/// Parses the `Host` of a request that arrived on port `door`. A host without a port
/// is accepted; a host with another port is refused as foreign.
pub fn parse(text: &str, door: u16) -> Result<Host, Wrong> {
    if text.starts_with('[') {
        return bracketed(text, door);
    }
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(number(port)?)),
        None => (text, None),
    };
    well_formed(name)?;
    let is_here = port.is_none_or(|port| port == door);
    let name = name.to_ascii_lowercase();
    if let Ok(address) = name.parse::<Ipv4Addr>() {
        return own(is_here && address == Ipv4Addr::LOCALHOST);
    }
    if name == "localhost" {
        return own(is_here);
    }
    if name == "holm.localhost" {
        return own(is_here).map(|_| Host::Dashboard);
    }
    let Some(below) = name.strip_suffix(".localhost") else {
        return Err(Wrong::Foreign);
    };
    let (port, site) = match below.split_once('.') {
        Some((port, site)) => (Some(port.to_owned()), site),
        None => (None, below),
    };
    if !is_here || site.contains('.') {
        return Err(Wrong::Unknown);
    }
    let site = site.to_owned();
    Ok(Host::Preview { port, site })
}

/// Whether a valid `Host` contains a port.
pub fn says_port(text: &str) -> bool {
    let behind_brackets = text.rsplit(']').next();
    behind_brackets.is_some_and(|rest| rest.contains(':'))
}

fn own(is_own: bool) -> Result<Host, Wrong> {
    if is_own {
        Ok(Host::Own)
    } else {
        Err(Wrong::Foreign)
    }
}

fn bracketed(text: &str, door: u16) -> Result<Host, Wrong> {
    let inner = text.strip_prefix('[').unwrap_or(text);
    let Some((address, rest)) = inner.split_once(']') else {
        return Err(Wrong::Malformed("`[` is not closed"));
    };
    let Ok(address) = address.parse::<Ipv6Addr>() else {
        return Err(Wrong::Malformed("no address is between the brackets"));
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => Some(number(port)?),
        None if rest.is_empty() => None,
        None => return Err(Wrong::Malformed("something follows the brackets")),
    };
    own(address == Ipv6Addr::LOCALHOST && port.is_none_or(|port| port == door))
}

fn number(text: &str) -> Result<u16, Wrong> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(port) if plain => Ok(port),
        _ => Err(Wrong::Malformed("the port is not a number")),
    }
}

fn well_formed(name: &str) -> Result<(), Wrong> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() {
        return Err(Wrong::Malformed("it is empty"));
    }
    if name.len() > LONGEST_NAME {
        return Err(Wrong::Malformed("it is too long"));
    }
    if !name.bytes().all(is_plain) {
        return Err(Wrong::Malformed("it has a character that no name has"));
    }
    if name.ends_with('.') {
        return Err(Wrong::Malformed("it ends with a dot"));
    }
    if name
        .split('.')
        .all(|part| !part.is_empty() && part.len() <= LONGEST_LABEL)
    {
        Ok(())
    } else {
        Err(Wrong::Malformed("a part is empty or too long"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DOOR: u16 = 7070;

    fn named(port: Option<&str>, site: &str) -> Result<Host, Wrong> {
        Ok(Host::Preview {
            port: port.map(str::to_owned),
            site: site.to_owned(),
        })
    }

    #[track_caller]
    fn check(text: &str, expect: Result<Host, Wrong>) {
        assert_eq!(parse(text, DOOR), expect, "{text}");
    }

    #[test]
    fn previews_have_a_port_and_a_site() {
        check(
            "web.fix-login.localhost:7070",
            named(Some("web"), "fix-login"),
        );
        check("web.fix-login.localhost", named(Some("web"), "fix-login"));
        check(
            "3000.fix-login.localhost:7070",
            named(Some("3000"), "fix-login"),
        );
        check(
            "WEB.Fix-Login.LOCALHOST:7070",
            named(Some("web"), "fix-login"),
        );
        check("web.a--shop.localhost:7070", named(Some("web"), "a--shop"));
        check("fix-login.localhost:7070", named(None, "fix-login"));
    }

    #[test]
    fn the_daemon_has_four_names() {
        for (name, host) in [
            ("holm.localhost", Host::Dashboard),
            ("localhost", Host::Own),
            ("127.0.0.1", Host::Own),
            ("[::1]", Host::Own),
            ("Holm.localhost", Host::Dashboard),
        ] {
            check(name, Ok(host.clone()));
            check(&format!("{name}:7070"), Ok(host));
            check(&format!("{name}:7071"), Err(Wrong::Foreign));
        }
    }

    #[test]
    fn others_are_foreign() {
        for foreign in [
            "example.org",
            "localhost.example.org",
            "web.fix-login.localhost.example.org:7070",
            "127.0.0.2",
            "127.1",
            "2130706433",
            "0.0.0.0",
            "[::]",
            "[::ffff:127.0.0.1]",
            "xlocalhost",
            "web_1.test",
        ] {
            check(foreign, Err(Wrong::Foreign));
        }
    }

    #[test]
    fn what_cannot_exist_is_unknown() {
        check("a.b.c.localhost", Err(Wrong::Unknown));
        check("web.fix-login.localhost:80", Err(Wrong::Unknown));
        check("web.fix-login.localhost:9999", Err(Wrong::Unknown));
    }

    #[test]
    fn malformed_is_said() {
        let long = format!("{}.localhost", "a".repeat(64));
        let longer = format!("{}localhost", "abc.".repeat(2048));
        for wrong in [
            "",
            ":7070",
            ".",
            ".localhost",
            "..localhost",
            "web..localhost",
            "localhost.",
            "web.fix-login.localhost.",
            "web.fix-login.localhost.:7070",
            "web.fix-login.localhost:",
            "web.fix-login.localhost:+80",
            "web.fix-login.localhost:70700",
            "web.fix-login.localhost:7070:7070",
            "web.fix-login.localhost/",
            "me@web.fix-login.localhost",
            "web fix-login.localhost",
            "web\0.localhost",
            "web\\.localhost",
            "web%2efix.localhost",
            "wéb.localhost",
            "[",
            "[]",
            "[::1",
            "[::1]x",
            "[::1]:",
            "[::1%lo]",
            &long,
            &longer,
        ] {
            let parsed = parse(wrong, DOOR);
            assert!(
                matches!(parsed, Err(Wrong::Malformed(_))),
                "{wrong}: {parsed:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "\\PC{0,40}") {
            let _ = parse(&text, DOOR);
        }

        /// A parsed host renders back to exactly the input: nothing is cut off, decoded or
        /// repaired.
        #[test]
        fn what_is_accepted_is_what_was_sent(text in "[a-cA-C0-9.:\\[\\]_@%-]{0,12}(\\.localhost)?(:7070)?") {
            if let Ok(Host::Preview { port, site }) = parse(&text, DOOR) {
                let port = port.map(|port| format!("{port}.")).unwrap_or_default();
                let name = format!("{port}{site}.localhost");
                let sent = text.to_ascii_lowercase();
                let with_port = format!("{name}:{DOOR}");
                prop_assert!(sent == name || sent == with_port);
            }
        }
    }
}
