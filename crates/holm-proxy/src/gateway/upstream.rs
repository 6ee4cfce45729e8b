//! The proxy of this machine's network, as the user's settings name it: the gateway asks it for a connection
//! (`CONNECT`) where it would dial the destination itself.
//!
//! The policy was checked before. The proxy resolves the name, so its address is not known here.

use holm_secrets::Value;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The time limit for a connection, with all addresses of a name together.
pub const PATIENCE: Duration = Duration::from_secs(45);

/// The longest head of an answer.
const LONGEST_HEAD: usize = 16 * 1024;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proxy {
    pub host: String,
    pub port: u16,
    /// The value of `Proxy-Authorization`.
    pub authorization: Option<Value>,
}

// === impl Proxy ===

impl Proxy {
    /// A connection to the destination, `host:port`.
    pub(crate) async fn connect(&self, destination: &str) -> io::Result<TcpStream> {
        match tokio::time::timeout(PATIENCE, self.ask(destination)).await {
            Ok(result) => result,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn ask(&self, destination: &str) -> io::Result<TcpStream> {
        let (host, port) = (&self.host, self.port);
        let failed = |why: String| io::Error::other(format!("the proxy {host}:{port} {why}"));
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let mut stream = stream.map_err(|error| failed(format!("cannot be reached: {error}")))?;
        let mut request = format!("CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n");
        if let Some(authorization) = &self.authorization {
            request.push_str("Proxy-Authorization: ");
            request.push_str(authorization.reveal());
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        let head = head(&mut stream).await;
        let head = head.map_err(|error| failed(format!("did not answer: {error}")))?;
        match status(&head) {
            Some((200..=299, _)) => Ok(stream),
            Some((code, reason)) => Err(failed(format!("answered {code} {reason}"))),
            None => Err(failed("does not speak HTTP".to_owned())),
        }
    }
}

/// The head of the answer and not a byte more: what follows belongs to the destination.
async fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == LONGEST_HEAD {
            return Err(io::Error::other("its answer is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(head)
}

fn status(head: &[u8]) -> Option<(u16, String)> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let line = String::from_utf8_lossy(line);
    let rest = line.strip_prefix("HTTP/1.")?;
    let (_, rest) = rest.split_once(' ')?;
    let (code, reason) = rest.split_once(' ').unwrap_or((rest, ""));
    let reason = reason.chars().filter(|letter| !letter.is_control());
    Some((code.parse().ok()?, reason.take(100).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        let check = |head: &str, expect: Option<(u16, &str)>| {
            let found = status(head.as_bytes());
            let expect = expect.map(|(code, reason)| (code, reason.to_owned()));
            assert_eq!(found, expect, "{head}");
        };
        check(
            "HTTP/1.1 200 Connection established\r\n\r\n",
            Some((200, "Connection established")),
        );
        check("HTTP/1.0 200\r\nA: b\r\n\r\n", Some((200, "")));
        check(
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            Some((407, "Proxy Authentication Required")),
        );
        check("SSH-2.0-x\r\n\r\n", None);
        check("HTTP/1.1 abc\r\n\r\n", None);
    }
}
