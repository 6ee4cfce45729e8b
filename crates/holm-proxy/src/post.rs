//! Posts a JSON document to an address of the user's settings: one request on a connection of its own, no redirects, no
//! cookies, and no more of the answer than its status is read.

use crate::tls::trusting;
use bytes::Bytes;
use holm_core::config::{Address, WebhookUrl};
use http_body_util::Full;
use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

#[derive(Debug, thiserror::Error)]
pub enum PostError {
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    #[error("TLS failed")]
    Tls(#[source] io::Error),
    #[error("the name of the host cannot be verified")]
    Name(#[from] InvalidDnsNameError),
    #[error("TLS cannot be set up")]
    Config(#[from] rustls::Error),
    #[error("the request failed")]
    Http(#[from] hyper::Error),
    #[error("the request cannot be written")]
    Request(#[from] hyper::http::Error),
    #[error("it answered with {status}{}", if *.is_redirect { ", and redirects are not followed" } else { "" })]
    Status { status: u16, is_redirect: bool },
}

/// Posts `body`; any answer but 2xx is an error. `trusted` are the CAs for `https`, as DER. The caller bounds the time.
pub async fn post_json(
    url: &WebhookUrl,
    body: Vec<u8>,
    trusted: impl FnOnce() -> Vec<Vec<u8>>,
) -> Result<(), PostError> {
    let stream = TcpStream::connect((url.host.as_str(), url.port.get()));
    let stream = stream.await.map_err(PostError::Connect)?;
    if !url.is_tls {
        return send(stream, url, body).await;
    }
    let config = trusting(trusted())?;
    let name = ServerName::try_from(url.host.clone())?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await;
    send(stream.map_err(PostError::Tls)?, url, body).await
}

async fn send<S>(stream: S, url: &WebhookUrl, body: Vec<u8>) -> Result<(), PostError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let host = Address {
        host: url.host.clone(),
        port: url.port,
    };
    let request = Request::post(&url.path)
        .header(HOST, host.to_string())
        .header(USER_AGENT, "holm")
        .header(CONTENT_TYPE, "application/json")
        .header(CONNECTION, "close")
        .body(Full::new(Bytes::from(body)))?;
    let asking = async {
        let answer: hyper::Response<Incoming> = sender.send_request(request).await?;
        Ok::<_, hyper::Error>(answer.status())
    };
    let status = tokio::select! {
        status = asking => status?,
        // The connection ends with an error of its own before the answer.
        Err(error) = connection => return Err(error.into()),
    };
    if status.is_success() {
        Ok(())
    } else {
        Err(PostError::Status {
            status: status.as_u16(),
            is_redirect: status.is_redirection(),
        })
    }
}
