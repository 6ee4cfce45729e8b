//! The short syntaxes of Compose that are one text: `ports` and `volumes` of a service.

use super::{Mount, MountKind, Port};

/// A range of more ports is a mistake.
const MOST_PORTS: u16 = 1000;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShortError {
    #[error("`{0}` is not a port; write `[[ADDRESS:]HOST:]CONTAINER[/PROTOCOL]`")]
    Port(String),
    #[error("`{0}` has ranges of different lengths")]
    Ranges(String),
    #[error("`{0}` has more than {MOST_PORTS} ports")]
    Many(String),
    #[error("`{0}` is not a volume; write `[SOURCE:]TARGET[:OPTIONS]`")]
    Volume(String),
    #[error("unknown option `{0}` of a volume")]
    Option(String),
}

/// The ports of `3000`, `8080:80`, `127.0.0.1:8000-8001:80-81/udp`: one for each container port.
pub fn ports(text: &str) -> Result<Vec<Port>, ShortError> {
    let wrong = || ShortError::Port(text.to_owned());
    let (address, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let (rest, target) = match address.rsplit_once(':') {
        Some((rest, target)) => (Some(rest), target),
        None => (None, address),
    };
    let (host_ip, published) = match rest.map(|rest| rest.rsplit_once(':').unwrap_or(("", rest))) {
        Some((ip, published)) => (ip.trim_matches(['[', ']']), published),
        None => ("", ""),
    };
    let (first, last) = port_range(target).ok_or_else(wrong)?;
    let outside = match published {
        "" => None,
        published => Some(port_range(published).ok_or_else(wrong)?),
    };
    let is_address = host_ip.is_empty() || host_ip.parse::<std::net::IpAddr>().is_ok();
    if !is_address || !["tcp", "udp", "sctp"].contains(&protocol) {
        return Err(wrong());
    }
    if last - first >= MOST_PORTS {
        return Err(ShortError::Many(text.to_owned()));
    }
    let number = |target: u16| match outside {
        None => Ok(None),
        Some((from, to)) if to - from == last - first => {
            Ok(Some((from + (target - first)).to_string()))
        }
        // One port of the container at any free one of a range.
        Some(_) if first == last => Ok(Some(published.to_owned())),
        Some(_) => Err(ShortError::Ranges(text.to_owned())),
    };
    let port = |target| {
        Ok(Port {
            target,
            published: number(target)?,
            host_ip: Some(host_ip).filter(|ip| !ip.is_empty()).map(str::to_owned),
            protocol: protocol.to_owned(),
        })
    };
    (first..=last).map(port).collect()
}

/// `80` or `80-89`.
pub fn port_range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse().ok().filter(|port: &u16| *port != 0);
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

/// `/target`, `name:/target` or `./source:/target:ro`.
pub fn mount(text: &str) -> Result<Mount, ShortError> {
    let wrong = || ShortError::Volume(text.to_owned());
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, options) = match parts[..] {
        [target] => (None, target, ""),
        [source, target] => (Some(source), target, ""),
        [source, target, options] => (Some(source), target, options),
        _ => return Err(wrong()),
    };
    if target.is_empty() || source == Some("") {
        return Err(wrong());
    }
    let is_path = |source: &str| source.starts_with(['.', '/', '~']);
    let mut mount = Mount {
        kind: match source {
            Some(source) if is_path(source) => MountKind::Bind,
            _ => MountKind::Volume,
        },
        source: source.map(str::to_owned),
        target: target.to_owned(),
        ..Mount::default()
    };
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option {
            "ro" => mount.read_only = true,
            "nocopy" => mount.nocopy = true,
            // How the engine of Docker shares a mount with the host, which holm never does.
            "rw" | "z" | "Z" | "cached" | "delegated" | "consistent" | "private" | "rprivate"
            | "slave" | "rslave" | "shared" | "rshared" => {}
            other => return Err(ShortError::Option(other.to_owned())),
        }
    }
    Ok(mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_ports() {
        let check = |text: &str, expect: &str| {
            let written = match ports(text) {
                Ok(ports) => ports.iter().map(shown).collect::<Vec<_>>().join(" "),
                Err(error) => error.to_string(),
            };
            assert_eq!(written, expect, "{text}");
        };
        fn shown(port: &Port) -> String {
            let ip = port.host_ip.as_deref().unwrap_or("*");
            let published = port.published.as_deref().unwrap_or("any");
            format!("{ip}/{published}>{}/{}", port.target, port.protocol)
        }
        check("3000", "*/any>3000/tcp");
        check("3000-3001", "*/any>3000/tcp */any>3001/tcp");
        check("8000:80", "*/8000>80/tcp");
        check("9090-9091:8080-8081", "*/9090>8080/tcp */9091>8081/tcp");
        check("127.0.0.1:8001:8001/udp", "127.0.0.1/8001>8001/udp");
        check("127.0.0.1::5000", "127.0.0.1/any>5000/tcp");
        check("[::1]:6000:6000", "::1/6000>6000/tcp");
        check("8000-9000:80", "*/8000-9000>80/tcp");
        check("1-2:1-3", "`1-2:1-3` has ranges of different lengths");
        check("1-2000", "`1-2000` has more than 1000 ports");
        for text in ["", "0", "x", "80/icmp", "70000", "host:80:80", "2-1"] {
            assert!(matches!(ports(text), Err(ShortError::Port(_))), "{text}");
        }
    }

    #[test]
    fn texts_of_volumes() {
        let check = |text: &str, expect: Option<(MountKind, Option<&str>, &str, bool)>| {
            let mount = mount(text).ok();
            let parts = mount.as_ref().map(|it| {
                (
                    it.kind,
                    it.source.as_deref(),
                    it.target.as_str(),
                    it.read_only,
                )
            });
            assert_eq!(parts, expect, "{text}");
        };
        check("/data", Some((MountKind::Volume, None, "/data", false)));
        check(
            "db:/data:rw",
            Some((MountKind::Volume, Some("db"), "/data", false)),
        );
        check(
            "./a:/data:ro,z",
            Some((MountKind::Bind, Some("./a"), "/data", true)),
        );
        check(
            "~/a:/data",
            Some((MountKind::Bind, Some("~/a"), "/data", false)),
        );
        check("a:b:c:d", None);
        check(":/x", None);
        check("a:/x:what", None);
    }
}
