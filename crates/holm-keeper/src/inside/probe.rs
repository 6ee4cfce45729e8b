//! Probes a service repeatedly until it answers. Each function returns on success; the keeper ends
//! a process that takes too long.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
/// How much of an answer is read.
const LONGEST_ANSWER: u64 = 1 << 20;
/// For one attempt. A development server may build before its first answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);

pub fn tcp(port: u16) -> bool {
    until(|| addresses(port).iter().any(|to| connect(to).is_ok()))
}

/// A service with a network of its own.
pub fn tcp_at(to: SocketAddr) -> bool {
    until(|| connect(&to).is_ok())
}

/// Success is any status from 200 to 399.
pub fn http(port: u16, path: &str) -> bool {
    let request = request(port, path);
    until(|| {
        let answers = addresses(port).into_iter();
        let mut answers = answers.filter_map(|to| status(&to, &request).ok());
        answers.any(|status| (200..400).contains(&status))
    })
}

pub fn command(text: &str) -> bool {
    until(|| {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().is_ok_and(succeeds)
    })
}

fn until(mut succeeds: impl FnMut() -> bool) -> bool {
    let mut pause = SHORTEST_PAUSE;
    while !succeeds() {
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    true
}

/// Programs listen on either or on both.
fn addresses(port: u16) -> [SocketAddr; 2] {
    [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ]
    .map(|address| SocketAddr::new(address, port))
}

fn connect(to: &SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(to, CONNECT_WITHIN)
}

fn request(port: u16, path: &str) -> String {
    let mut safe = String::new();
    for byte in path.bytes() {
        match byte {
            0x21..=0x7e => safe.push(char::from(byte)),
            _ => safe.push_str(&format!("%{byte:02X}")),
        }
    }
    if !safe.starts_with('/') {
        safe.insert(0, '/');
    }
    format!(
        "GET {safe} HTTP/1.1\r\nHost: localhost:{port}\r\nUser-Agent: holm\r\n\
         Accept: */*\r\nConnection: close\r\n\r\n"
    )
}

fn status(to: &SocketAddr, request: &str) -> io::Result<u16> {
    let mut stream = connect(to)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    stream.write_all(request.as_bytes())?;
    // `HTTP/1.1 200`
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    // Reads to the end, so that the service does not log an error about a closed connection.
    stream.set_read_timeout(Some(CONNECT_WITHIN))?;
    let _ = io::copy(&mut (&stream).take(LONGEST_ANSWER), &mut io::sink());
    let text = std::str::from_utf8(&head).unwrap_or_default();
    let status = text
        .split_once(' ')
        .filter(|(version, _)| version.starts_with("HTTP/1."));
    status
        .and_then(|(_, status)| status.parse().ok())
        .ok_or_else(|| io::Error::other("not an answer of HTTP"))
}

/// Whether it exits with 0 in time.
fn succeeds(mut child: Child) -> bool {
    let deadline = Instant::now() + ANSWER_WITHIN;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(SHORTEST_PAUSE / 5),
            _ => break,
        }
    }
    // Fails only when it has ended.
    let _ = child.kill();
    let _ = child.wait();
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn paths_cannot_add_lines() {
        let text = request(80, "a b\r\nX: y");
        assert!(text.starts_with("GET /a%20b%0D%0AX:%20y HTTP/1.1\r\nHost: localhost:80\r\n"));
        assert!(request(80, "/?q=ü").starts_with("GET /?q=%C3%BC HTTP"));
    }

    fn answering(answer: &'static [u8]) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 16];
            let _ = stream.read(&mut asked);
            let _ = stream.write_all(answer);
        });
        (address, thread)
    }

    #[test]
    fn the_status_is_read_and_nonsense_is_none() {
        let check = |answer, expect: Option<u16>| {
            let (address, thread) = answering(answer);
            assert_eq!(status(&address, "GET / HTTP/1.1\r\n\r\n").ok(), expect);
            thread.join().unwrap();
        };
        check(b"HTTP/1.1 204 No Content\r\n\r\n", Some(204));
        check(b"HTTP/1.0 503 No\r\n\r\n", Some(503));
        check(b"SSH-2.0-OpenSSH_9.9\r\n", None);
        check(b"HTTP/1.1", None);
    }
}
