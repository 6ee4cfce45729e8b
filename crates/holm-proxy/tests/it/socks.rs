//! The endpoint of a browser, spoken to byte by byte (attacks 75, 77).

use crate::door::{Dice, Here, answers, say, server, within};
use holm_core::WorkspaceId;
use holm_proxy::{Traffic, socks};
use std::sync::atomic::Ordering;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn endpoint() -> (u16, Here) {
    let here = Here::default();
    let dial = here.clone();
    let id = WorkspaceId::random();
    let port = server(move |stream| {
        socks::serve(stream, dial.clone(), id.clone(), Traffic::for_files(4096))
    })
    .await;
    (port, here)
}

/// Sends a request for a kind of address; the reply's code and the connection.
async fn ask(endpoint: u16, command: u8, kind: u8, address: &[u8], port: u16) -> (u8, TcpStream) {
    let mut stream = TcpStream::connect(("127.0.0.1", endpoint)).await.unwrap();
    stream.write_all(&[5, 1, 0]).await.unwrap();
    let mut chosen = [0; 2];
    within(stream.read_exact(&mut chosen)).await.unwrap();
    assert_eq!(chosen, [5, 0]);
    let request = [&[5, command, 0, kind], address, &port.to_be_bytes()].concat();
    stream.write_all(&request).await.unwrap();
    let mut reply = [0; 10];
    within(stream.read_exact(&mut reply)).await.unwrap();
    assert_eq!((reply[0], reply[3]), (5, 1));
    (reply[1], stream)
}

fn name(text: &[u8]) -> Vec<u8> {
    [&[text.len() as u8], text].concat()
}

#[tokio::test]
async fn localhost_is_the_workspace_and_the_rest_is_the_gateways() {
    let (endpoint, here) = endpoint().await;
    let web = answers(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    for (kind, address) in [
        (3, name(b"localhost")),
        (1, vec![127, 0, 0, 1]),
        (4, [vec![0; 15], vec![1]].concat()),
    ] {
        let (code, mut stream) = ask(endpoint, 1, kind, &address, web).await;
        assert_eq!(code, 0);
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = [0; 15];
        within(stream.read_exact(&mut answer)).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }
    assert_eq!(here.dialled.load(Ordering::Relaxed), 3);
    let (code, mut stream) = ask(endpoint, 1, 3, &name(b"allowed.test"), 443).await;
    assert_eq!(code, 0);
    let mut greeting = String::new();
    within(stream.read_to_string(&mut greeting)).await.unwrap();
    assert_eq!(greeting, "allowed.test:443");
    assert_eq!(ask(endpoint, 1, 3, &name(b"denied.test"), 443).await.0, 2);
    assert_eq!(ask(endpoint, 1, 1, &[192, 0, 2, 1], 443).await.0, 2);
    // No program listens.
    assert_eq!(ask(endpoint, 1, 3, &name(b"localhost"), 1).await.0, 5);
    assert_eq!(here.dialled.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn what_is_no_name_is_refused_before_anybody_is_asked() {
    let (endpoint, here) = endpoint().await;
    for wrong in [
        &b"allowed.test\0.evil.test"[..],
        b"localhost\0",
        b"localhost\r\n",
        b"local host",
        b"localhost\\x",
        b"2130706433",
        b"0177.1",
        b"127.1",
        b"0",
        b"0.0.0.0",
        b"[::1]",
        b"",
        &[b'a'; 255],
    ] {
        let (code, _) = ask(endpoint, 1, 3, &name(wrong), 80).await;
        assert_eq!(code, 2, "{}", wrong.escape_ascii());
    }
    assert_eq!(here.dialled.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn only_connect_is_served() {
    let (endpoint, _) = endpoint().await;
    for command in [0, 2, 3, 9] {
        assert_eq!(
            ask(endpoint, command, 3, &name(b"localhost"), 80).await.0,
            7
        );
    }
    // Anything but SOCKS 5 without a password is cut.
    for wrong in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x04\x01\0\x50\x7f\0\0\x01\0",
        b"\x05\x01\x02",
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", endpoint)).await.unwrap();
        stream.write_all(wrong).await.unwrap();
        let mut answer = Vec::new();
        let _ = within(stream.read_to_end(&mut answer)).await;
        assert!(answer.is_empty() || answer == [5, 0xff], "{answer:?}");
    }
}

/// A real request with a few bytes changed, or cut: it ends, and the next one is served.
#[tokio::test]
async fn nonsense_ends_and_harms_nobody() {
    let (endpoint, _) = endpoint().await;
    let web = answers(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let mut dice = Dice::new();
    for _ in 0..500 {
        let mut bytes = [&[5, 1, 0, 5, 1, 0, 3][..], &name(b"localhost"), &[0, 80]].concat();
        for _ in 0..dice.below(4) {
            let index = dice.below(bytes.len());
            bytes[index] = dice.below(256) as u8;
        }
        bytes.truncate(dice.below(bytes.len() + 1));
        say(endpoint, &bytes).await;
    }
    assert_eq!(ask(endpoint, 1, 3, &name(b"localhost"), web).await.0, 0);
}
