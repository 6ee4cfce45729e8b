//! From a name to a port of one workspace. Pure.

use crate::table::{Island, Port, Source};

/// Where a preview's name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    Port {
        island: &'a Island,
        port: u16,
    },
    /// The workspace was named without a port, has none declared, and not exactly one listens.
    NoPort {
        island: &'a Island,
    },
    /// The workspace has no port of this name.
    UnknownPort {
        island: &'a Island,
    },
    UnknownSite,
}

/// What the names lead to: an id before a site, a declared name before a number.
pub fn find<'a>(islands: &'a [Island], port: Option<&str>, site: &str) -> Route<'a> {
    let named = |island: &&Island| island.id.as_str() == site || island.site == site;
    let Some(island) = islands.iter().find(named) else {
        return Route::UnknownSite;
    };
    let Some(port) = port else {
        return match default_port(&island.ports) {
            Some(port) => Route::Port { island, port },
            None => Route::NoPort { island },
        };
    };
    let declared = island.ports.iter().find(|known| known.name == port);
    match declared.map(|known| known.port).or_else(|| number(port)) {
        Some(port) => Route::Port { island, port },
        None => Route::UnknownPort { island },
    }
}

/// The declared port `web`, or else the first declared, or else the only one that listens.
pub fn default_port(ports: &[Port]) -> Option<u16> {
    let declared = |port: &&Port| port.source == Source::Declared;
    let web = ports
        .iter()
        .filter(declared)
        .find(|port| port.name == "web");
    if let Some(port) = web.or_else(|| ports.iter().find(declared)) {
        return Some(port.port);
    }
    let mut listening = ports.iter().filter(|port| port.is_listening);
    match (listening.next(), listening.next()) {
        (Some(only), None) => Some(only.port),
        _ => None,
    }
}

/// A port as a number, as it is printed and in no other spelling.
fn number(text: &str) -> Option<u16> {
    let port: u16 = text.parse().ok()?;
    (port != 0 && port.to_string() == text).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_core::{Label, ProjectName, WorkspaceId};

    fn port(name: &str, port: u16, source: Source) -> Port {
        Port {
            name: name.to_owned(),
            port,
            host_port: None,
            source,
            is_listening: source == Source::Discovered,
            is_canonical: false,
        }
    }

    fn island(label: &str, site: &str, ports: Vec<Port>) -> Island {
        Island {
            id: WorkspaceId::random(),
            label: Label::parse(label).unwrap(),
            project: ProjectName::parse("shop").unwrap(),
            site: site.to_owned(),
            is_running: true,
            ports,
        }
    }

    #[test]
    fn names_lead_to_their_workspace_only() {
        let (declared, discovered) = (Source::Declared, Source::Discovered);
        let islands = [
            island(
                "a",
                "a",
                vec![port("web", 3000, declared), port("8080", 9000, declared)],
            ),
            island("a", "a--shop", vec![port("5000", 5000, discovered)]),
            island(
                "b",
                "b",
                vec![port("1", 1, discovered), port("2", 2, discovered)],
            ),
            island("c", "c", vec![]),
        ];
        let check = |name: Option<&str>, site: &str, expect: Option<(usize, u16)>| {
            let found = match find(&islands, name, site) {
                Route::Port { island, port } => Some((island, port)),
                _ => None,
            };
            let expect = expect.map(|(index, port)| (&islands[index], port));
            assert_eq!(found, expect, "{name:?} {site}");
        };
        check(Some("web"), "a", Some((0, 3000)));
        check(Some("3000"), "a", Some((0, 3000)));
        check(Some("4000"), "a", Some((0, 4000)));
        // A name that looks like a number is the name.
        check(Some("8080"), "a", Some((0, 9000)));
        check(None, "a", Some((0, 3000)));
        check(None, "a--shop", Some((1, 5000)));
        check(Some("web"), "a--shop", None);
        check(Some("web"), islands[0].id.as_str(), Some((0, 3000)));
        for wrong in ["0", "65536", "03000", "+80", "api"] {
            check(Some(wrong), "a", None);
        }
        assert_eq!(find(&islands, Some("web"), "d"), Route::UnknownSite);
        assert_eq!(
            find(&islands, None, "b"),
            Route::NoPort {
                island: &islands[2]
            }
        );
        assert_eq!(
            find(&islands, None, "c"),
            Route::NoPort {
                island: &islands[3]
            }
        );
    }
}
