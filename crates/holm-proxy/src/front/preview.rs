//! Finds the workspace and port for a preview name. Pure.

use crate::table::{LiveWorkspace, Port, Source};
use holm_core::address::HTTP;

/// The target of a preview name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreviewTarget<'a> {
    Port {
        workspace: &'a LiveWorkspace,
        port: u16,
    },
    /// The name has no port, no port is declared, and the number of listening ports is not one.
    NoPort {
        workspace: &'a LiveWorkspace,
    },
    /// The workspace exists but has no such port.
    UnknownPort {
        workspace: &'a LiveWorkspace,
    },
    UnknownSite,
}

/// Resolves a name: an id wins over a site, a declared port name over a number.
pub fn find<'a>(
    workspaces: &'a [LiveWorkspace],
    port: Option<&str>,
    site: &str,
) -> PreviewTarget<'a> {
    let named =
        |workspace: &&LiveWorkspace| workspace.id.as_str() == site || workspace.site == site;
    let Some(workspace) = workspaces.iter().find(named) else {
        return PreviewTarget::UnknownSite;
    };
    let Some(port) = port else {
        return match default_port(&workspace.ports) {
            Some(port) => PreviewTarget::Port { workspace, port },
            None => PreviewTarget::NoPort { workspace },
        };
    };
    let declared = workspace.ports.iter().find(|known| known.name == port);
    match declared.map(|known| known.port).or_else(|| number(port)) {
        Some(port) => PreviewTarget::Port { workspace, port },
        None => PreviewTarget::UnknownPort { workspace },
    }
}

/// The declared port `web`, else the first declared port that speaks HTTP, else the first declared port, else the only one that listens.
pub fn default_port(ports: &[Port]) -> Option<u16> {
    let declared = |port: &&Port| port.source == Source::Declared;
    let web = ports
        .iter()
        .filter(declared)
        .find(|port| port.name == "web");
    let http = || {
        let mut declared = ports.iter().filter(declared);
        declared.find(|port| port.scheme == HTTP)
    };
    let first = || ports.iter().find(declared);
    if let Some(port) = web.or_else(http).or_else(first) {
        return Some(port.port);
    }
    let mut listening = ports.iter().filter(|port| port.is_listening);
    match (listening.next(), listening.next()) {
        (Some(only), None) => Some(only.port),
        _ => None,
    }
}

/// The `Host` that the server on this port is shown, if not that of the request.
pub fn shown_host(workspace: &LiveWorkspace, port: u16) -> Option<&str> {
    let ports = workspace.ports.iter();
    let mut hosts = ports.filter(|known| known.port == port);
    hosts.find_map(|known| known.host.as_deref())
}

/// Parses a port number in canonical spelling only (no sign, no leading zero).
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
            scheme: "http".to_owned(),
            host: None,
            is_listening: source == Source::Discovered,
            is_canonical: false,
        }
    }

    fn workspace(label: &str, site: &str, ports: Vec<Port>) -> LiveWorkspace {
        LiveWorkspace {
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
        let workspaces = [
            workspace(
                "a",
                "a",
                vec![port("web", 3000, declared), port("8080", 9000, declared)],
            ),
            workspace("a", "a--shop", vec![port("5000", 5000, discovered)]),
            workspace(
                "b",
                "b",
                vec![port("1", 1, discovered), port("2", 2, discovered)],
            ),
            workspace("c", "c", vec![]),
        ];
        let check = |name: Option<&str>, site: &str, expect: Option<(usize, u16)>| {
            let found = match find(&workspaces, name, site) {
                PreviewTarget::Port { workspace, port } => Some((workspace, port)),
                _ => None,
            };
            let expect = expect.map(|(index, port)| (&workspaces[index], port));
            assert_eq!(found, expect, "{name:?} {site}");
        };
        check(Some("web"), "a", Some((0, 3000)));
        check(Some("3000"), "a", Some((0, 3000)));
        check(Some("4000"), "a", Some((0, 4000)));
        // A port that is named like a number wins over the number.
        check(Some("8080"), "a", Some((0, 9000)));
        check(None, "a", Some((0, 3000)));
        check(None, "a--shop", Some((1, 5000)));
        check(Some("web"), "a--shop", None);
        check(Some("web"), workspaces[0].id.as_str(), Some((0, 3000)));
        for wrong in ["0", "65536", "03000", "+80", "api"] {
            check(Some(wrong), "a", None);
        }
        assert_eq!(
            find(&workspaces, Some("web"), "d"),
            PreviewTarget::UnknownSite
        );
        assert_eq!(
            find(&workspaces, None, "b"),
            PreviewTarget::NoPort {
                workspace: &workspaces[2]
            }
        );
        assert_eq!(
            find(&workspaces, None, "c"),
            PreviewTarget::NoPort {
                workspace: &workspaces[3]
            }
        );
    }
}
