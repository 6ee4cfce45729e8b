//! WebSockets to the daemon, with messages whose first byte is a channel. The callers define the
//! channels.

use super::transport::{Transport, fault_of, went_away};
use crate::{ON_BEHALF_OF, PREFIX, WORKSPACE};
use bytes::{Bytes, BytesMut};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use holm_core::Fault;
use hyper::header::HeaderValue;
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

pub(super) type Socket = WebSocketStream<UnixStream>;
pub(super) type Outgoing = SplitSink<Socket, Message>;
pub(super) type Incoming = SplitStream<Socket>;

/// Opens a WebSocket on `route`, on a new connection. Opening changes nothing, so a daemon that does
/// not answer the first request may be replaced.
pub(super) async fn open(transport: &Transport, route: &str) -> Result<Socket, Fault> {
    let (socket, _) = open_at(transport, route, None).await?;
    Ok(socket)
}

/// As [`open`], of a workspace as a person typed it. The response has its id.
pub(super) async fn open_at(
    transport: &Transport,
    route: &str,
    typed: Option<&HeaderValue>,
) -> Result<(Socket, Response), Fault> {
    match attempt(transport, route, typed).await {
        Err(fault) => {
            transport.replace_daemon(fault).await?;
            attempt(transport, route, typed).await
        }
        opened => opened,
    }
}

async fn attempt(
    transport: &Transport,
    route: &str,
    typed: Option<&HeaderValue>,
) -> Result<(Socket, Response), Fault> {
    let stream = transport.stream().await?;
    let address = format!("ws://holm.localhost{PREFIX}{route}");
    let config = WebSocketConfig::default()
        .max_message_size(Some(16 << 20))
        .max_frame_size(Some(16 << 20));
    let mut request = address.into_client_request().map_err(went_away)?;
    if let Some(actor) = transport.on_behalf_of() {
        request.headers_mut().insert(ON_BEHALF_OF, actor.clone());
    }
    if let Some(typed) = typed {
        request.headers_mut().insert(WORKSPACE, typed.clone());
    }
    match client_async_with_config(request, stream, Some(config)).await {
        Ok(opened) => {
            transport.note_alive();
            Ok(opened)
        }
        Err(tungstenite::Error::Http(response)) => {
            transport.note_alive();
            let body = response.body().as_deref().unwrap_or_default();
            Err(fault_of(response.status().as_u16(), body))
        }
        Err(error) => Err(went_away(error)),
    }
}

/// Sends a message on a channel.
pub(super) async fn say(sink: &mut Outgoing, channel: u8, payload: &[u8]) -> Result<(), Fault> {
    let mut message = BytesMut::with_capacity(payload.len() + 1);
    message.extend_from_slice(&[channel]);
    message.extend_from_slice(payload);
    let sent = sink.send(Message::Binary(message.freeze())).await;
    sent.map_err(went_away)
}

/// The next message with its channel; `None` when the daemon closed the connection.
pub(super) async fn receive(stream: &mut Incoming) -> Result<Option<(u8, Bytes)>, Fault> {
    loop {
        match stream.next().await {
            Some(Ok(Message::Binary(mut message))) if !message.is_empty() => {
                return Ok(Some((message.split_to(1)[0], message)));
            }
            Some(Ok(Message::Close(_))) | None => return Ok(None),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(went_away(error)),
        }
    }
}
