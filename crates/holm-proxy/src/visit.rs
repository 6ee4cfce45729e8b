//! Byte counts of connections into workspaces. Every way inward (previews, host ports, browsers)
//! uses a [`Visit`], so each byte is counted exactly once.

use crate::byte_count::{CountedStream, Counts};
use crate::stream::Stream;
use holm_core::WorkspaceId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes to and from each port of each workspace. Clones share their state.
#[derive(Clone, Default)]
pub struct Tallies(Arc<Mutex<HashMap<WorkspaceId, Ports>>>);

type Ports = HashMap<u16, Arc<Counts>>;

/// The bytes of one port, from the workspace's point of view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortTraffic {
    pub port: u16,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// One connection to a port of a workspace.
pub type Visit = CountedStream;

// === impl Tallies ===

impl Tallies {
    pub fn count(&self, stream: impl Into<Stream>, workspace: &WorkspaceId, port: u16) -> Visit {
        let mut workspaces = self.workspaces();
        let ports = match workspaces.get_mut(workspace) {
            Some(ports) => ports,
            None => workspaces.entry(workspace.clone()).or_default(),
        };
        Visit::new(stream, Arc::clone(ports.entry(port).or_default()))
    }

    /// The bytes per port, unordered.
    pub fn of(&self, workspace: &WorkspaceId) -> Vec<PortTraffic> {
        let workspaces = self.workspaces();
        let ports = workspaces.get(workspace).into_iter().flatten();
        let served = ports.map(|(port, counts)| PortTraffic {
            port: *port,
            bytes_in: counts.written(),
            bytes_out: counts.read(),
        });
        served.collect()
    }

    /// Drops the counts of all other workspaces.
    pub fn retain(&self, is_known: impl Fn(&WorkspaceId) -> bool) {
        self.workspaces().retain(|id, _| is_known(id));
    }

    fn workspaces(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Ports>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn bytes_are_counted_by_port_until_the_workspace_is_forgotten() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tallies, id) = (Tallies::default(), WorkspaceId::random());
        for port in [80, 80, 81] {
            let stream = TcpStream::connect(address).await.unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            let mut visit = tallies.count(stream, &id, port);
            visit.write_all(b"abc").await.unwrap();
            server.write_all(b"hello").await.unwrap();
            let mut said = [0; 5];
            visit.read_exact(&mut said).await.unwrap();
        }
        let mut served = tallies.of(&id);
        served.sort_by_key(|served| served.port);
        let expect = |port, bytes_in, bytes_out| PortTraffic {
            port,
            bytes_in,
            bytes_out,
        };
        assert_eq!(served, [expect(80, 6, 10), expect(81, 3, 5)]);
        assert!(tallies.of(&WorkspaceId::random()).is_empty());
        tallies.retain(|_| false);
        assert!(tallies.of(&id).is_empty());
    }
}
