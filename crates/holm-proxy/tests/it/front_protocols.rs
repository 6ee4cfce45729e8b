//! HTTP/2 to the door, and gRPC through it.

use crate::door::{Door, echo, within};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2 as client;
use hyper::header::HeaderMap;
use hyper::server::conn::http2 as server_http2;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;

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
