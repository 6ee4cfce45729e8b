//! Everything that HTTP/1.1 can carry passes, as it comes.

use crate::door::{Door, answers, read_head, read_to_end, server, status, within};
use std::sync::atomic::Ordering;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn connections_are_used_again_on_both_sides() {
    let door = Door::new(&[(
        "a",
        answers(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await,
    )])
    .await;
    let mut client = door.connect().await;
    for _ in 0..50 {
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: web.a.localhost\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(status(&within(read_head(&mut client)).await), 200);
        let mut body = [0; 2];
        within(client.read_exact(&mut body)).await.unwrap();
    }
    assert_eq!(door.here.dialled.load(Ordering::Relaxed), 1);
}

/// A server that closes after every answer, without saying so.
#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced() {
    let once = server(|mut stream| async move {
        read_head(&mut stream).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .await;
    });
    let door = Door::new(&[("a", once.await)]).await;
    for _ in 0..50 {
        let answer = door.get("web.a.localhost", "").await;
        assert!(answer.ends_with("ok"), "{answer}");
    }
}

#[tokio::test]
async fn events_come_as_they_are_sent_and_the_end_of_the_client_is_seen() {
    let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let (next, more) = async_pair();
    let events = server(move |mut stream| {
        let (said, more) = (said.clone(), more.clone());
        async move {
            read_head(&mut stream).await;
            let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
            stream.write_all(head).await.unwrap();
            more.notified().await;
            stream.write_all(b"data: 2\n\n").await.unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            said.send(()).unwrap();
        }
    });
    let door = Door::new(&[("a", events.await)]).await;
    let mut client = door.connect().await;
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: web.a.localhost\r\n\r\n")
        .await
        .unwrap();
    let until = async |client: &mut tokio::net::TcpStream, text: &str| {
        let mut seen = String::new();
        while !seen.contains(text) {
            seen.push(char::from(within(client.read_u8()).await.unwrap()));
        }
    };
    until(&mut client, "data: 1\n\n").await;
    next.notify_one();
    until(&mut client, "data: 2\n\n").await;
    drop(client);
    within(heard.recv()).await.expect("the server saw the end");
}

fn async_pair() -> (
    std::sync::Arc<tokio::sync::Notify>,
    std::sync::Arc<tokio::sync::Notify>,
) {
    let notify = std::sync::Arc::new(tokio::sync::Notify::new());
    (notify.clone(), notify)
}

#[tokio::test]
async fn a_websocket_and_any_other_protocol_pass() {
    let tunnel = server(|mut stream| async move {
        let head = read_head(&mut stream).await.to_lowercase();
        assert!(head.contains("upgrade: websocket\r\n"), "{head}");
        assert!(head.contains("connection: upgrade\r\n"), "{head}");
        assert!(head.contains("sec-websocket-key: abc\r\n"), "{head}");
        let answer =
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Accept: x\r\n\r\nhello";
        stream.write_all(answer).await.unwrap();
        let mut bytes = [0; 5];
        while stream.read_exact(&mut bytes).await.is_ok() {
            stream.write_all(&bytes).await.unwrap();
        }
    });
    let door = Door::new(&[("a", tunnel.await)]).await;
    let mut client = door.connect().await;
    let request =
        b"GET /x HTTP/1.1\r\nHost: web.a.localhost\r\nConnection: keep-alive, Upgrade\r\n\
        Upgrade: websocket\r\nSec-WebSocket-Key: abc\r\n\r\nfirst";
    client.write_all(request).await.unwrap();
    let head = within(read_head(&mut client)).await.to_lowercase();
    assert_eq!(status(&head.to_uppercase()), 101);
    assert!(head.contains("sec-websocket-accept: x"), "{head}");
    let mut bytes = [0; 10];
    within(client.read_exact(&mut bytes)).await.unwrap();
    assert_eq!(&bytes, b"hellofirst");
    client.write_all(b"again").await.unwrap();
    let mut bytes = [0; 5];
    within(client.read_exact(&mut bytes)).await.unwrap();
    assert_eq!(&bytes, b"again");
}

#[tokio::test]
async fn a_refused_upgrade_is_an_ordinary_answer() {
    let door = Door::new(&[(
        "a",
        answers(b"HTTP/1.1 426 No\r\nContent-Length: 2\r\n\r\nno").await,
    )])
    .await;
    let answer = door
        .get(
            "web.a.localhost",
            "Connection: upgrade\r\nUpgrade: websocket\r\n",
        )
        .await;
    assert_eq!(status(&answer), 426);
    assert!(answer.ends_with("no"), "{answer}");
}

#[tokio::test]
async fn answers_without_a_body_keep_their_headers() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nETag: x\r\n\r\n";
    let door = Door::new(&[
        ("head", answers(head).await),
        (
            "none",
            answers(b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n").await,
        ),
        (
            "same",
            answers(b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n").await,
        ),
    ])
    .await;
    let request = "HEAD / HTTP/1.1\r\nHost: web.head.localhost\r\nConnection: close\r\n\r\n";
    let answer = door.raw(request).await.to_lowercase();
    assert!(
        answer.contains("content-length: 1234") && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
    assert_eq!(status(&door.get("web.none.localhost", "").await), 204);
    assert_eq!(status(&door.get("web.same.localhost", "").await), 304);
}

#[tokio::test]
async fn chunks_and_trailers_pass_both_ways() {
    let trailers = server(|mut stream| async move {
        let head = read_head(&mut stream).await;
        assert!(head.contains("te: trailers"), "{head}");
        let mut body = String::new();
        while !body.ends_with("\r\n\r\n") {
            body.push(char::from(stream.read_u8().await.unwrap()));
        }
        assert!(body.contains("5\r\nhello\r\n"), "{body}");
        let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
            5\r\nworld\r\n0\r\nx-sum: 7\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    });
    let door = Door::new(&[("a", trailers.await)]).await;
    let request = "POST / HTTP/1.1\r\nHost: web.a.localhost\r\nConnection: close\r\nTE: trailers\r\n\
        Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let answer = door.raw(request).await;
    assert!(
        answer.ends_with("5\r\nworld\r\n0\r\nx-sum: 7\r\n\r\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_client_that_waits_for_100_is_told_to_go_on() {
    let upload = server(|mut stream| async move {
        read_head(&mut stream).await;
        let mut body = [0; 4];
        stream.read_exact(&mut body).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .await
            .unwrap();
    });
    let door = Door::new(&[("a", upload.await)]).await;
    let mut client = door.connect().await;
    let request = b"POST / HTTP/1.1\r\nHost: web.a.localhost\r\nConnection: close\r\nExpect: 100-continue\r\n\
        Content-Length: 4\r\n\r\n";
    client.write_all(request).await.unwrap();
    assert_eq!(status(&within(read_head(&mut client)).await), 100);
    client.write_all(b"body").await.unwrap();
    let answer = read_to_end(&mut client).await;
    assert!(answer.ends_with("ok"), "{answer}");
}

/// An upload continues while the response already comes.
#[tokio::test]
async fn both_directions_at_once() {
    let echo = server(|mut stream| async move {
        read_head(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n")
            .await
            .unwrap();
        for _ in 0..8 {
            let byte = stream.read_u8().await.unwrap();
            stream.write_u8(byte).await.unwrap();
        }
    });
    let door = Door::new(&[("a", echo.await)]).await;
    let mut client = door.connect().await;
    let request = b"POST / HTTP/1.1\r\nHost: web.a.localhost\r\nContent-Length: 8\r\n\r\n";
    client.write_all(request).await.unwrap();
    assert_eq!(status(&within(read_head(&mut client)).await), 200);
    for byte in b"abcdefgh" {
        client.write_u8(*byte).await.unwrap();
        assert_eq!(within(client.read_u8()).await.unwrap(), *byte);
    }
}
