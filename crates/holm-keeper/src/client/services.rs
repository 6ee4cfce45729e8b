//! The services of a workspace.

use super::{KeeperClient, LONG_PATIENCE};
use crate::wire::{Answer, CodeSeen, Op};
use holm_core::Fault;
use holm_core::service::Wish;
use holm_core::service::status::Services;
use tokio::sync::mpsc;

// === impl KeeperClient ===

impl KeeperClient {
    /// Tells how the services are: at once, and whenever it changes. The channel closes with the workspace's
    /// processes.
    pub async fn watch_services(&self) -> Result<mpsc::Receiver<Services>, Fault> {
        let understand = |answer| match answer {
            Answer::Services(services) => Some(services),
            _ => None,
        };
        self.watch(Op::WatchServices, understand).await
    }

    /// Starts, stops or restarts one service; does not wait for it.
    pub async fn service(&self, name: &str, wish: Wish) -> Result<(), Fault> {
        let op = Op::Service {
            name: name.to_owned(),
            wish,
        };
        self.order_within(op, LONG_PATIENCE).await
    }

    /// The tree has another commit: has these services do something about it.
    pub async fn react(&self, wishes: Vec<(String, Wish)>, code: CodeSeen) -> Result<(), Fault> {
        let op = Op::React { wishes, code };
        self.order_within(op, LONG_PATIENCE).await
    }
}
