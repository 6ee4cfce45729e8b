//! Joins programs inside that call the daemon to the daemon's socket for guests. One connection waits in the store for the
//! next caller.

use crate::live::{Answered, Live};
use holm_keeper::container::Hello;
use std::path::PathBuf;
use std::sync::Weak;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::UnixStream;

/// Between two attempts to reach a store that is gone.
const PAUSE: Duration = Duration::from_secs(2);

/// Serves until the engine is forgotten.
pub async fn serve(live: Weak<Live>, socket: PathBuf) {
    while let Some(live) = live.upgrade() {
        match live.connect(&Hello::Guest).await {
            Ok((mut caller, Answered::Connected)) => {
                let socket = socket.clone();
                tokio::spawn(async move {
                    if let Ok(mut daemon) = UnixStream::connect(socket).await {
                        // When either side closes, the other is closed, too.
                        let _ = copy_bidirectional(&mut caller, &mut daemon).await;
                    }
                });
            }
            Ok(_) | Err(_) => {
                drop(live);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
