//! HTTP/2 to the door, and gRPC through it.

use crate::door::{Door, answers, echo, read_head, read_to_end, server, within};
use bytes::Bytes;
use holm_proxy::front::DoorLimits;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2 as client;
use hyper::header::HeaderMap;
use hyper::server::conn::http2 as server_http2;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

async fn connect(door: &Door) -> client::SendRequest<Full<Bytes>> {
    let stream = TokioIo::new(door.connect().await);
    let (sender, connection) = client::handshake(TokioExecutor::new(), stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test]
async fn http2_is_http1_inside() {
    let door = Door::new(&[("a", echo().await)]).await;
    let mut sender = connect(&door).await;
    let mut answers = Vec::new();
    for index in 0..20 {
        let request = Request::builder()
            .uri(format!("http://web.a.localhost:{}/{index}", door.port))
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .body(Full::default())
            .unwrap();
        answers.push(sender.send_request(request));
    }
    for (index, answer) in answers.into_iter().enumerate() {
        let answer = within(answer).await.unwrap();
        assert_eq!(answer.version(), Version::HTTP_2);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let head = String::from_utf8(body.to_vec()).unwrap();
        assert!(
            head.starts_with(&format!("GET /{index} HTTP/1.1\r\n")),
            "{head}"
        );
        assert!(
            head.contains(&format!("host: web.a.localhost:{}\r\n", door.port)),
            "{head}"
        );
        assert!(head.contains("cookie: a=1; b=2\r\n"), "{head}");
    }
    let foreign = Request::builder()
        .uri("http://example.org/")
        .body(Full::default())
        .unwrap();
    assert_eq!(
        within(sender.send_request(foreign)).await.unwrap().status(),
        421
    );
}

/// A server that speaks only HTTP/2, as gRPC servers do, and ends with trailers.
async fn grpc() -> u16 {
    crate::door::server(|stream| async move {
        let service = service_fn(|request: Request<Incoming>| async move {
            assert_eq!(request.headers()["te"], "trailers");
            let authority = request.uri().authority().unwrap().to_string();
            let collected = request.into_body().collect().await.unwrap();
            let sent = collected.trailers().is_some();
            let body = collected.to_bytes();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            trailers.insert("authority", authority.parse().unwrap());
            trailers.insert("sent-trailers", sent.to_string().parse().unwrap());
            let frames = [
                Ok::<_, Infallible>(Frame::data(body)),
                Ok(Frame::trailers(trailers)),
            ];
            let body = StreamBody::new(futures_util::stream::iter(frames));
            Ok::<_, Infallible>(Response::new(body))
        });
        let connection = server_http2::Builder::new(TokioExecutor::new());
        let _ = connection
            .serve_connection(TokioIo::new(stream), service)
            .await;
    })
    .await
}

#[tokio::test]
async fn grpc_passes_with_its_trailers() {
    let door = Door::new(&[("a", grpc().await)]).await;
    let mut sender = connect(&door).await;
    for _ in 0..10 {
        let request = Request::post(format!("http://web.a.localhost:{}/Echo/Say", door.port))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::from("\0\0\0\0\u{5}hello"))
            .unwrap();
        let answer = within(sender.send_request(request)).await.unwrap();
        let collected = within(answer.into_body().collect()).await.unwrap();
        let trailers = collected.trailers().cloned().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
        assert_eq!(
            trailers["authority"],
            format!("web.a.localhost:{}", door.port)
        );
        assert_eq!(collected.to_bytes(), "\0\0\0\0\u{5}hello");
    }
    assert_eq!(
        door.here.dialled.load(std::sync::atomic::Ordering::Relaxed),
        1
    );
}

/// Clients that speak HTTP/2 and then ask for nothing give the door's room back as others do.
#[tokio::test]
async fn idle_http2_clients_do_not_hold_the_door_and_waiting_ones_are_not_cut() {
    let (go_on, may_go_on) = tokio::sync::watch::channel(false);
    let slow = server(move |mut stream| {
        let mut may_go_on = may_go_on.clone();
        async move {
            read_head(&mut stream).await;
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
            let _ = stream.write_all(head).await;
            let _ = may_go_on.wait_for(|go_on| *go_on).await;
            let _ = stream.write_all(b"slow").await;
        }
    });
    let good = answers(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
    let limits = DoorLimits {
        clients: 8,
        head: Duration::from_millis(200),
        ..DoorLimits::for_files(20_000)
    };
    let door = Door::limited(&[("slow", slow.await), ("good", good.await)], limits).await;
    let mut waiting = connect(&door).await;
    let request = Request::get(format!("http://web.slow.localhost:{}/", door.port));
    let answer = waiting.send_request(request.body(Full::default()).unwrap());
    let answer = within(answer).await.unwrap();
    let mut idle = Vec::new();
    let mut deaf = Vec::new();
    for _ in 0..7 {
        idle.push(connect(&door).await);
        // A client that announces its protocol, and never gets a shutdown.
        let mut stream = door.connect().await;
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        stream.write_all(preface).await.unwrap();
        deaf.push(stream);
    }
    let mut client = door.connect().await;
    let request = b"GET / HTTP/1.1\r\nHost: web.good.localhost\r\nConnection: close\r\n\r\n";
    client.write_all(request).await.unwrap();
    assert!(read_to_end(&mut client).await.ends_with("good"));
    go_on.send_replace(true);
    let body = within(answer.into_body().collect()).await.unwrap();
    assert_eq!(body.to_bytes(), "slow");
}
