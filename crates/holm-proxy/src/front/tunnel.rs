//! Copies bytes both ways on a connection that was upgraded (WebSocket and others).

use super::idle::Permit;
use super::link::Link;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

/// Connects both sides once the client has received its 101. `answer` is the workspace's response.
pub fn join(client: OnUpgrade, answer: &mut Response<Incoming>, link: Link, permit: Permit) {
    let workspace = hyper::upgrade::on(answer);
    link.release();
    tokio::spawn(async move {
        // Counts against the workspace's limit while the tunnel is open.
        let _permit = permit;
        let Ok((client, workspace)) = tokio::try_join!(client, workspace) else {
            return;
        };
        let (mut client, mut workspace) = (TokioIo::new(client), TokioIo::new(workspace));
        // Both peers see how the tunnel ends.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut workspace).await;
    });
}

/// Whether the server switched to the protocol that the client requested.
pub fn is_what_was_asked(answer: &Response<Incoming>, asked: &HeaderValue) -> bool {
    let lower = |value: &HeaderValue| value.as_bytes().to_ascii_lowercase();
    let offered = lower(asked);
    answer.headers().get(header::UPGRADE).is_some_and(|chosen| {
        let chosen = lower(chosen);
        let mut offers = offered.split(|byte| *byte == b',');
        !chosen.is_empty() && offers.any(|offer| offer.trim_ascii() == chosen)
    })
}
