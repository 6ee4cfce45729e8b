//! The API at the front door, asked by hand: every header is what the test says, and nothing else.

use super::Island;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A daemon's front door.
pub struct Door {
    pub port: u16,
    /// The default token of its user.
    pub token: String,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

/// What a browser sends to get a WebSocket, and every other client.
pub const UPGRADE: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

pub const JSON: (&str, &str) = ("Content-Type", "application/json");

// === impl Door ===

impl Door {
    /// Of the daemon, which is started if there is none.
    pub fn of(island: &Island) -> Self {
        island.holm(&["daemon", "start"]).ok();
        let status = island.holm(&["daemon", "status", "--json"]).json();
        let token = std::fs::read_to_string(island.data().join("token")).unwrap();
        Self {
            port: status["port"].as_u64().expect("a port") as u16,
            token: token.trim().to_owned(),
        }
    }

    /// `Authorization` with this token.
    pub fn bearer(token: &str) -> String {
        format!("Bearer {token}")
    }

    /// Asks as a program of the user would.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        self.ask_with(method, path, &[JSON], body.as_bytes())
    }

    /// Asks with the right token and these headers.
    pub fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let bearer = Self::bearer(&self.token);
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend(headers);
        self.ask_bare(method, path, &all, body)
    }

    /// Asks with these headers only, and what HTTP needs.
    pub fn ask_bare(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        read_reply(self.begin(method, path, headers, body.len(), body))
    }

    /// Sends a request whose body has `length` bytes, and a part of it.
    pub fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        length: usize,
        part: &[u8],
    ) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let limit = Some(Duration::from_secs(60));
        stream.set_read_timeout(limit).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.push_str(&format!("Host: localhost:{}\r\n", self.port));
        }
        if !headers.iter().any(|(name, _)| *name == "Connection") {
            head.push_str("Connection: close\r\n");
        }
        if length > 0 || method != "GET" {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses early does not read the rest.
        let _ = stream.write_all(part);
        stream
    }

    /// Opens a WebSocket with this token and returns the connection, if it is accepted.
    pub fn open_socket(&self, token: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let bearer = Self::bearer(token);
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend(UPGRADE);
        all.extend(headers);
        read_head(&mut self.begin("GET", path, &all, 0, b""))
    }
}

// === impl Reply ===

impl Reply {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of the error, or nothing.
    pub fn code(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Up to the end of the head.
pub fn read_head(stream: &mut TcpStream) -> Reply {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok());
    Reply {
        status: status.unwrap_or_default(),
        head,
        body: Vec::new(),
    }
}

fn read_reply(mut stream: TcpStream) -> Reply {
    let mut reply = read_head(&mut stream);
    // A response that is cut off has no more body.
    let _ = stream.read_to_end(&mut reply.body);
    if reply.header("transfer-encoding").is_some() {
        reply.body = unchunked(&reply.body);
    }
    reply
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let length = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
        let length = usize::from_str_radix(length, 16).unwrap_or_default();
        bytes = &bytes[end + 2..];
        body.extend(&bytes[..length.min(bytes.len())]);
        bytes = bytes.get(length + 2..).unwrap_or_default();
    }
    body
}
