//! The guest socket: answers questions of programs inside, about this workspace only.

use super::Registry;
use super::here::here;
use serde_json::json;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Guests can open any number of connections; only this many get a thread.
const MOST: usize = 32;
const LONGEST_REQUEST: u64 = 4096;

pub fn serve(stream: UnixStream, registry: &Arc<Registry>) {
    let registry = Arc::clone(registry);
    let thread = std::thread::Builder::new().stack_size(128 * 1024);
    // Without a thread the connection closes, which the guest sees.
    let _ = thread.spawn(move || {
        let Some(_talking) = registry.talk(MOST) else {
            return;
        };
        // Errors of a guest's connection concern only the guest.
        let _ = answer(&stream, &registry);
    });
}

fn answer(mut stream: &UnixStream, registry: &Registry) -> io::Result<()> {
    let patience = Some(Duration::from_secs(2));
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    let mut request = String::new();
    BufReader::new(stream.take(LONGEST_REQUEST)).read_line(&mut request)?;
    let answer = match request.trim() {
        "here 1" => here(registry),
        _ => json!({"error": {
            "code": "bad_request",
            "message": "the workspace's keeper does not know this request",
            "hint": "holm here",
        }}),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}
