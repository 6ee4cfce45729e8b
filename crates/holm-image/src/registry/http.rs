//! One GET request on a connection of its own, with a limit of time for every step.

use super::Access;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST, HeaderName, USER_AGENT};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Where a pull wants to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// A name or an address; IPv6 without brackets.
    pub host: String,
    pub port: u16,
}

/// A byte stream in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

pub type Connection = Box<dyn Duplex>;

/// Opens connections for a pull, or refuses to: egress rules and the rule about loopback are decided there.
pub type Dial =
    Arc<dyn Fn(Destination) -> BoxFuture<'static, io::Result<Connection>> + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("cannot connect to {0}")]
    Connect(String, #[source] io::Error),
    #[error("TLS with {0} failed")]
    Tls(String, #[source] io::Error),
    #[error("`{0}` is not an address that holm can ask")]
    Address(String),
    #[error("the request to {0} failed")]
    Http(String, #[source] hyper::Error),
    #[error("{0} did not answer in time")]
    Time(String),
    #[error("{host} sends more than {most} bytes for a document")]
    Large { host: String, most: u64 },
}

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub is_tls: bool,
    /// In lower case, with the port if the URL has one.
    pub authority: String,
    /// With its query.
    pub path: String,
}

pub struct Answer {
    host: String,
    response: Response<Incoming>,
}

// === impl Address ===

impl Address {
    /// Parses an absolute URL. User names in URLs are refused.
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let is_tls = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = uri.authority()?.as_str().to_ascii_lowercase();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        (!authority.contains('@')).then(|| Self {
            is_tls,
            authority,
            path: path.to_owned(),
        })
    }

    /// What `Location` names, which may be relative.
    pub fn join(&self, location: &str) -> Option<Self> {
        if location.starts_with('/') && !location.starts_with("//") {
            return Some(Self {
                path: location.to_owned(),
                ..self.clone()
            });
        }
        Self::parse(location)
    }

    pub fn add_query(&mut self, pairs: &[(&str, &str)]) {
        for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
            self.path
                .push(if self.path.contains('?') { '&' } else { '?' });
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            self.path += &format!("{name}={value}");
        }
    }

    pub fn is_same_server(&self, other: &Self) -> bool {
        self.is_tls == other.is_tls && self.destination() == other.destination()
    }

    fn destination(&self) -> Option<Destination> {
        let standard = if self.is_tls { 443 } else { 80 };
        let (host, port) = match self.authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (self.authority.as_str(), standard),
        };
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        Some(Destination { host, port })
    }
}

/// Asks for `address`. Redirects are the caller's matter.
pub async fn get(
    access: &Access,
    address: &Address,
    headers: &[(HeaderName, String)],
    authorization: Option<&str>,
) -> Result<Answer, RequestError> {
    let late = || RequestError::Time(address.authority.clone());
    let asking = ask(access, address, headers, authorization);
    let response = timeout(access.bounds.answer, asking)
        .await
        .map_err(|_| late())??;
    Ok(Answer {
        host: address.authority.clone(),
        response,
    })
}

async fn ask(
    access: &Access,
    address: &Address,
    headers: &[(HeaderName, String)],
    authorization: Option<&str>,
) -> Result<Response<Incoming>, RequestError> {
    let host = || address.authority.clone();
    let wrong = || RequestError::Address(format!("{}{}", address.authority, address.path));
    let mut request = Request::get(&address.path)
        .header(HOST, &address.authority)
        .header(USER_AGENT, "holm");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    if let Some(value) = authorization {
        request = request.header(AUTHORIZATION, value);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|_| wrong())?;
    let destination = address.destination().ok_or_else(wrong)?;
    let name = destination.host.clone();
    let dialled = (access.dial)(destination).await;
    let mut stream = dialled.map_err(|error| RequestError::Connect(host(), error))?;
    if address.is_tls {
        let name = ServerName::try_from(name).map_err(|_| wrong())?;
        let connector = TlsConnector::from(access.tls.clone());
        let connected = connector.connect(name, stream).await;
        stream = Box::new(connected.map_err(|error| RequestError::Tls(host(), error))?);
    }
    let http = |error| RequestError::Http(host(), error);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(http)?;
    // The task ends when the answer's body was read or dropped; its error reaches the body's reader.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(http)
}

// === impl Answer ===

impl Answer {
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// A header with text; one with other bytes counts as absent.
    pub fn header(&self, name: &HeaderName) -> Option<String> {
        let value = self.response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    }

    /// The next part of the body.
    pub async fn next(&mut self, stall: Duration) -> Result<Option<Bytes>, RequestError> {
        loop {
            let frame = timeout(stall, self.response.body_mut().frame()).await;
            let frame = frame.map_err(|_| RequestError::Time(self.host.clone()))?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| RequestError::Http(self.host.clone(), error))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// The whole body, if it is not too long.
    pub async fn collect(mut self, most: u64, stall: Duration) -> Result<Vec<u8>, RequestError> {
        let mut bytes = Vec::new();
        while let Some(part) = self.next(stall).await? {
            bytes.extend_from_slice(&part);
            if bytes.len() as u64 > most {
                let host = self.host;
                return Err(RequestError::Large { host, most });
            }
        }
        Ok(bytes)
    }
}
