//! Events as a stream: a WebSocket that is dropped and resumed, filters, a daemon that dies under
//! its followers, and readers that are too slow (attack 145).

use crate::support::{Island, Running};
use futures_util::StreamExt;
use serde_json::Value;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::Response;

type Socket = WebSocketStream<UnixStream>;

async fn open(island: &Island, query: &str) -> (Socket, Response) {
    let stream = island.api_socket();
    stream.set_nonblocking(true).unwrap();
    let stream = UnixStream::from_std(stream).unwrap();
    let url = format!("ws://holm.localhost/api/v1/events{query}");
    tokio_tungstenite::client_async(url, stream).await.unwrap()
}

/// The next event; `None` when the daemon closes.
async fn next(socket: &mut Socket) -> Option<Value> {
    let limit = Duration::from_secs(60);
    loop {
        let message = tokio::time::timeout(limit, socket.next()).await;
        match message.expect("an event in time") {
            Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(_)) | Some(Err(_)) | None => return None,
        }
    }
}

fn cursor(event: &Value) -> u64 {
    event["cursor"].as_u64().unwrap()
}

fn newest(island: &Island) -> u64 {
    let (_, body) = island.ask("GET", "/api/v1/events", b"");
    let text = String::from_utf8(body).unwrap();
    cursor(&serde_json::from_str(text.lines().last().unwrap()).unwrap())
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

#[test]
fn a_client_that_drops_and_resumes_sees_each_event_once() {
    let island = Island::new();
    let id = island.repository("shop").up("one");
    block_on(async {
        let mut seen = Vec::new();
        let (mut socket, response) = open(&island, "?after=0").await;
        assert_eq!(response.headers()["holm-cursor"], "0");
        seen.push(next(&mut socket).await.unwrap());
        assert_eq!(seen[0]["type"], "workspace.created");
        assert_eq!(seen[0]["workspace"], *id);
        island.holm(&["stop", "one"]).ok();
        seen.push(next(&mut socket).await.unwrap());
        // Dropped in the middle, without a word; meanwhile things happen and the daemon dies.
        drop(socket);
        island.holm(&["start", "one"]).ok();
        island.kill_daemon();
        island.holm(&["stop", "one"]).ok();
        for round in 0..4 {
            let after = cursor(seen.last().unwrap());
            let (mut socket, response) = open(&island, &format!("?after={after}")).await;
            assert_eq!(
                response.headers()["holm-cursor"],
                after.to_string().as_str()
            );
            let verb = if round % 2 == 0 { "start" } else { "stop" };
            island.holm(&[verb, "one"]).ok();
            let newest = newest(&island);
            assert!(newest > after);
            while cursor(seen.last().unwrap()) < newest {
                seen.push(next(&mut socket).await.unwrap());
            }
        }
        // The stored events are exactly those that were received.
        let (mut socket, _) = open(&island, "?after=0&follow=false").await;
        let mut stored = Vec::new();
        while let Some(event) = next(&mut socket).await {
            stored.push(event);
        }
        assert_eq!(seen, stored);
        // Without a cursor: from now on.
        let (mut socket, response) = open(&island, "?type=workspace.renamed").await;
        let newest = cursor(stored.last().unwrap()).to_string();
        assert_eq!(response.headers()["holm-cursor"], newest.as_str());
        island.holm(&["start", "one"]).ok();
        island.holm(&["rename", "one", "two"]).ok();
        let renamed = next(&mut socket).await.unwrap();
        assert_eq!(renamed["label"], "two");
    });
    let lines = |query: &str| {
        let (status, body) = island.ask("GET", &format!("/api/v1/events?{query}"), b"");
        assert_eq!(status, 200);
        String::from_utf8(body).unwrap().lines().count()
    };
    assert_eq!(lines("limit=2"), 2);
    assert_eq!(lines("type=workspace.renamed"), 1);
    assert_eq!(lines("type=workspace"), lines(""));
    assert_eq!(lines("type=work"), 0);
    assert_eq!(lines(&format!("workspace={id}")), lines(""));
    assert_eq!(lines("workspace=w000000000000"), 0);
    // An incomplete handshake gets an error.
    let headers = "upgrade: websocket\r\n";
    let (status, _) = island.ask_with("GET", "/api/v1/events", headers, b"");
    assert_eq!(status, 400);
}

#[test]
fn attack_145_who_is_too_slow_is_told_so_and_let_go() {
    let island = Island::new();
    island.repository("shop").up("one");
    // As if ten thousand others had come and the oldest had gone.
    let add = "import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
store.execute('''insert into events select 20000, at, 'port.opened', workspace_id, detail from events''')
store.commit()";
    let database = island.data().join("holm.db");
    let arguments = ["-c", add, database.to_str().unwrap()];
    island
        .run(&island.home(), "/usr/bin/python3", &arguments)
        .ok();
    block_on(async {
        let (mut socket, _) = open(&island, "?after=1").await;
        let missed = next(&mut socket).await.unwrap();
        assert_eq!(missed["type"], "events.missed");
        assert_eq!(missed["missed"], 19_998);
        assert_eq!(next(&mut socket).await, None, "and it is let go");
        let (mut socket, _) = open(&island, &format!("?after={}", missed["cursor"])).await;
        assert_eq!(next(&mut socket).await.unwrap()["type"], "port.opened");
    });
    // Readers that take nothing cost the daemon nothing: it serves others, and ends on request.
    let stuck: Vec<_> = (0..50)
        .map(|_| island.ask_partly("GET", "/api/v1/events?after=0&follow=true", 0, b""))
        .collect();
    island.holm(&["ls"]).ok();
    drop(stuck);
}

#[test]
fn following_goes_on_with_the_next_daemon() {
    let island = Island::new();
    island.repository("shop").up("one");
    let arguments = ["events", "--follow", "--json"];
    let mut following = Running::new(&mut island.holm_command(&island.home(), &arguments));
    let mut told = Vec::new();
    let mut happens = |verb: &str, expected: &str| {
        island.holm(&[verb, "one"]).ok();
        let event: Value = serde_json::from_str(&following.line()).unwrap();
        assert_eq!(event["type"], expected);
        told.push(cursor(&event));
    };
    // Until it follows, nothing is sure to be told: it begins with what happens from then on.
    crate::support::eventually("it follows", || {
        let (_, body) = island.ask("GET", "/metrics", b"");
        String::from_utf8_lossy(&body).contains("route=\"/api/v1/events\"")
    });
    // The daemon dies before the first event: nothing is missed.
    island.kill_daemon();
    happens("stop", "workspace.stopped");
    happens("start", "workspace.started");
    island.kill_daemon();
    happens("stop", "workspace.stopped");
    // A follower does not start a stopped daemon; it finds the next one.
    island.holm(&["daemon", "stop"]).ok();
    happens("start", "workspace.started");
    assert!(told.is_sorted_by(|one, two| one + 1 == *two), "{told:?}");
    following.signal(rustix::process::Signal::INT);
    following.code();
}
