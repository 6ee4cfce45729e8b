//! A server that answers as a test says, also with nonsense, and remembers what it was asked.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

pub struct Scripted {
    pub port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// `answer` gets the head of a request and returns all bytes of the answer; the connection closes after it.
    pub fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (noted, answer) = (asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, noted, answer) = (stream.unwrap(), noted.clone(), answer.clone());
                std::thread::spawn(move || {
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n")
                        && stream.read(&mut byte).is_ok_and(|length| length > 0)
                    {
                        head.push(byte[0]);
                    }
                    let head = String::from_utf8(head).unwrap();
                    noted.lock().unwrap().push(head.clone());
                    let _ = stream.write_all(&answer(&head));
                });
            }
        });
        Self { port, asked }
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// An answer with a body of the stated length.
pub fn reply(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
