//! The SOCKS 5 endpoint of a workspace's browser. It supports CONNECT only.
//!
//! `localhost` means the workspace's loopback; all other destinations go through the workspace's
//! gateway. The host's own loopback is never dialled. The daemon listens and calls [`serve`] per
//! connection.

use crate::stream::Stream;
use crate::table::Inside;
use crate::traffic::{Traffic, TrafficStream};
use holm_core::WorkspaceId;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Connects out of a workspace through its gateway, with its policy and record.
pub trait Outside: Clone + Send + Sync + 'static {
    /// Fails with `PermissionDenied` when the policy refuses.
    fn dial_out(
        &self,
        workspace: &WorkspaceId,
        host: &str,
        port: u16,
    ) -> impl Future<Output = io::Result<Stream>> + Send;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A port of the workspace's own loopback.
    Workspace { port: u16 },
    /// A name or an address for the gateway.
    Outside { host: String, port: u16 },
}

/// The reply codes of RFC 1928, section 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Succeeded,
    Failure,
    NotAllowed,
    HostUnreachable,
    Refused,
    NoCommand,
    NoAddressType,
}

/// A client whose bytes count as traffic of the workspace.
type Client = TrafficStream<TcpStream>;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// The time limit for the SOCKS handshake.
const PATIENCE: Duration = Duration::from_secs(10);

const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// Serves one client until both sides have ended.
pub async fn serve<D: Inside + Outside>(
    client: TcpStream,
    dial: D,
    workspace: WorkspaceId,
    traffic: Traffic,
) {
    // Latency only: without it the connection still works.
    let _ = client.set_nodelay(true);
    // Over the limit the connection is closed, as on a full host port.
    let Some(connection) = traffic.connect(&workspace) else {
        return;
    };
    let mut client = connection.counting(client);
    let destination = match tokio::time::timeout(PATIENCE, negotiate(&mut client)).await {
        Ok(Ok(Ok(destination))) => destination,
        Ok(Ok(Err(reply))) => return answer(&mut client, reply).await,
        // Not SOCKS, or the client is gone.
        Ok(Err(_)) | Err(_) => return,
    };
    let result = match destination {
        Destination::Workspace { port } => match dial.dial(&workspace, port).await {
            Ok(inside) => join(&mut client, inside).await,
            Err(error) => Err(error),
        },
        Destination::Outside { host, port } => match dial.dial_out(&workspace, &host, port).await {
            Ok(outside) => join(&mut client, outside).await,
            Err(error) => Err(error),
        },
    };
    if let Err(error) = result {
        answer(&mut client, Reply::of(&error)).await;
    }
}

/// Sends success and copies bytes. Both peers see how that ends.
async fn join(
    client: &mut Client,
    mut other: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
) -> io::Result<()> {
    answer(client, Reply::Succeeded).await;
    let _ = tokio::io::copy_bidirectional(client, &mut other).await;
    Ok(())
}

async fn answer(client: &mut Client, reply: Reply) {
    // The bound address means nothing to a client, so it is left zero.
    let bytes = [VERSION, reply.code(), 0, 1, 0, 0, 0, 0, 0, 0];
    // Fails only when the client is gone.
    let _ = client.write_all(&bytes).await;
}

/// Reads the client's request. The outer error is one of the connection.
async fn negotiate(client: &mut Client) -> io::Result<Result<Destination, Reply>> {
    let [version, count] = read(client).await?;
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut methods = [0; 255];
    let methods = &mut methods[..usize::from(count)];
    client.read_exact(methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        client.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(io::ErrorKind::InvalidData.into());
    }
    client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [version, command, reserved, kind] = read(client).await?;
    if version != VERSION || reserved != 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let host = match kind {
        1 => Named::Address(IpAddr::V4(Ipv4Addr::from(read::<4>(client).await?))),
        4 => Named::Address(IpAddr::V6(Ipv6Addr::from(read::<16>(client).await?))),
        3 => {
            let [length] = read(client).await?;
            let mut name = [0; 255];
            let name = &mut name[..usize::from(length)];
            client.read_exact(name).await?;
            Named::Name(name.to_vec())
        }
        _ => return Ok(Err(Reply::NoAddressType)),
    };
    let port = u16::from_be_bytes(read(client).await?);
    if command != CONNECT {
        return Ok(Err(Reply::NoCommand));
    }
    Ok(destination(&host, port))
}

/// A host as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    Address(IpAddr),
    Name(Vec<u8>),
}

/// Decides the destination. A host that is not exactly a name or an address is refused without a
/// lookup.
pub fn destination(host: &Named, port: u16) -> Result<Destination, Reply> {
    if port == 0 {
        return Err(Reply::NotAllowed);
    }
    let address = match host {
        Named::Address(address) => *address,
        Named::Name(name) => match name_or_address(name)? {
            Ok(address) => address,
            Err(name) if is_localhost(&name) => return Ok(Destination::Workspace { port }),
            Err(host) => return Ok(Destination::Outside { host, port }),
        },
    };
    let address = address.to_canonical();
    if address.is_loopback() {
        Ok(Destination::Workspace { port })
    } else if address.is_unspecified() {
        // Dialling `0.0.0.0` would reach the daemon's own loopback.
        Err(Reply::NotAllowed)
    } else {
        Ok(Destination::Outside {
            host: address.to_string(),
            port,
        })
    }
}

/// A name in lower case, or the address that it spells.
fn name_or_address(name: &[u8]) -> Result<Result<IpAddr, String>, Reply> {
    let is_plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.iter().all(is_plain) {
        return Err(Reply::NotAllowed);
    }
    let text = String::from_utf8_lossy(name).to_ascii_lowercase();
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(Ok(address));
    }
    let is_label = |label: &str| {
        let inner = !label.starts_with('-') && !label.ends_with('-');
        !label.is_empty() && label.len() <= LONGEST_LABEL && inner
    };
    // Resolvers accept `2130706433`, `0177.1` and `0x7f.1` as addresses; no real name ends like
    // that.
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_spelled_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last
            .strip_prefix("0x")
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if text.split('.').all(is_label) && !text.contains(':') && !is_spelled_number {
        Ok(Err(text))
    } else {
        Err(Reply::NotAllowed)
    }
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

async fn read<const N: usize>(client: &mut Client) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

// === impl Reply ===

impl Reply {
    pub fn code(self) -> u8 {
        match self {
            Reply::Succeeded => 0,
            Reply::Failure => 1,
            Reply::NotAllowed => 2,
            Reply::HostUnreachable => 4,
            Reply::Refused => 5,
            Reply::NoCommand => 7,
            Reply::NoAddressType => 8,
        }
    }

    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Reply::NotAllowed,
            io::ErrorKind::ConnectionRefused => Reply::Refused,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NotFound
            | io::ErrorKind::TimedOut => Reply::HostUnreachable,
            _ => Reply::Failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(name: &[u8], expect: Result<Destination, Reply>) {
        let named = Named::Name(name.to_vec());
        assert_eq!(destination(&named, 80), expect, "{}", name.escape_ascii());
    }

    #[test]
    fn localhost_is_the_workspace() {
        let inside = Ok(Destination::Workspace { port: 80 });
        for name in [
            &b"localhost"[..],
            b"LocalHost",
            b"web.fix-login.localhost",
            b"127.0.0.1",
            b"127.255.0.3",
            b"::1",
            b"::ffff:127.0.0.1",
        ] {
            check(name, inside.clone());
        }
        for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            let named = Named::Address(address.parse().unwrap());
            assert_eq!(destination(&named, 80), inside, "{address}");
        }
    }

    #[test]
    fn the_rest_goes_out_by_the_gateway() {
        let out = |host: &str| {
            let host = host.to_owned();
            Ok(Destination::Outside { host, port: 80 })
        };
        check(b"example.org", out("example.org"));
        check(b"Example.ORG", out("example.org"));
        check(b"localhost.example.org", out("localhost.example.org"));
        check(b"192.0.2.7", out("192.0.2.7"));
        check(b"::ffff:192.0.2.7", out("192.0.2.7"));
        check(b"2001:db8::1", out("2001:db8::1"));
        check(b"a_b.example.org", out("a_b.example.org"));
    }

    #[test]
    fn what_is_no_name_leads_nowhere() {
        let long = [b"a".repeat(64), b".org".to_vec()].concat();
        let longer = b"abc.".repeat(63);
        for wrong in [
            &b""[..],
            b"example.org\0.evil.test",
            b"example.org\r\nX: y",
            b"example org",
            b"example\\org",
            b"ex\xc3\xa4mple.org",
            b"2130706433",
            b"0177.1",
            b"127.1",
            b"0x7f.0x1",
            b"0x7f000001",
            b"0",
            b"0.0.0.0",
            b"::",
            b"[::1]",
            b"localhost.",
            b".localhost",
            b"a..b",
            b"-a.org",
            b"fe80::1%lo",
            b"example.org:80",
            &long,
            &longer,
        ] {
            check(wrong, Err(Reply::NotAllowed));
        }
        let named = Named::Name(b"localhost".to_vec());
        assert_eq!(destination(&named, 0), Err(Reply::NotAllowed));
    }

    proptest! {
        /// A name that goes to the gateway can never be resolved to this machine.
        #[test]
        fn what_leads_out_is_a_plain_name(name in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(Destination::Outside { host, .. }) = destination(&Named::Name(name), 80) {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
                prop_assert!(host.bytes().all(plain));
                prop_assert!(!is_localhost(&host));
            }
        }
    }
}
