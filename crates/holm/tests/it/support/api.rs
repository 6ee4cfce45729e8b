//! The daemon's API on its socket: by the typed client, and by hand where a request is to be wrong.

use super::Island;
use holm_api::Client;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

// === impl Island ===

impl Island {
    /// Does something with the typed client. A daemon has to run.
    pub fn api<T>(&self, work: impl AsyncFnOnce(&Client) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let socket = self.holm_home().join("run/daemon.sock");
            let client = Client::connect(socket).await.unwrap();
            work(&client).await
        })
    }

    /// Asks by hand; the status and the body of the answer.
    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        self.ask_with(method, path, "", body)
    }

    /// As [`ask`](Self::ask), with more headers, each with its line's end.
    pub fn ask_with(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let answer = self.try_ask(method, path, headers, body);
        answer.expect("an answer to its end")
    }

    /// As [`ask_with`](Self::ask_with); `None` when the daemon went away before all of it was there.
    pub fn try_ask(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Option<(u16, Vec<u8>)> {
        let mut stream = self.begin(method, path, headers, (body.len(), body));
        let mut answer = Vec::new();
        // A client that was refused before its body was read gets the response, and then a closed
        // connection.
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
        let body = answer.split_off(end + 4);
        let head = String::from_utf8(answer).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.split("\r\n").next()?.parse().ok());
        match length {
            _ if head.contains("transfer-encoding: chunked") => Some((status, joined(&body)?)),
            Some(length) if body.len() < length => None,
            _ => Some((status, body)),
        }
    }

    /// Begins a request whose body has `length` bytes, and sends a part of it.
    pub fn ask_partly(&self, method: &str, path: &str, length: usize, part: &[u8]) -> UnixStream {
        self.begin(method, path, "", (length, part))
    }

    fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        (length, part): (usize, &[u8]),
    ) -> UnixStream {
        let mut stream = self.api_socket();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: holm.localhost\r\nconnection: close\r\n\
             content-length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses early does not read the rest.
        let _ = stream.write_all(part);
        stream
    }

    /// A connection to the daemon.
    pub fn api_socket(&self) -> UnixStream {
        // Through the directory's descriptor: the path may be too long for a socket address.
        let directory = File::open(self.holm_home().join("run")).unwrap();
        let socket = format!("/proc/self/fd/{}/daemon.sock", directory.as_raw_fd());
        UnixStream::connect(socket).unwrap()
    }
}

/// The chunks of a body as one; `None` when the last is missing.
fn joined(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n")?;
        let length = std::str::from_utf8(&body[..end]).ok()?;
        let length = usize::from_str_radix(length, 16).ok()?;
        let chunk = body.get(end + 2..end + 2 + length)?;
        if length == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(chunk);
        body = body.get(end + 2 + length + 2..)?;
    }
}
