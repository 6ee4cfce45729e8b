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
        let mut stream = self.ask_partly(method, path, body.len(), body);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let body = answer.split_off(end.unwrap() + 4);
        let head = String::from_utf8(answer).unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
    }

    /// Begins a request whose body has `length` bytes, and sends a part of it.
    pub fn ask_partly(&self, method: &str, path: &str, length: usize, part: &[u8]) -> UnixStream {
        // Through the directory's descriptor: the path may be too long for a socket address.
        let directory = File::open(self.holm_home().join("run")).unwrap();
        let socket = format!("/proc/self/fd/{}/daemon.sock", directory.as_raw_fd());
        let mut stream = UnixStream::connect(socket).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: holm.localhost\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(part).unwrap();
        stream
    }
}
