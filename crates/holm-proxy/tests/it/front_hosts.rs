//! Which `Host` reaches which workspace (attacks 93, 94, 100, 103, 107).

use crate::door::{Dice, Door, answers, echo, status};
use holm_proxy::front::Generation;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const A: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nI am A\r\n\r";
const B: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nI am B\r\n\r";

#[tokio::test]
async fn every_name_leads_to_its_workspace() {
    let door = Door::new(&[("a", answers(A).await), ("b", answers(B).await)]).await;
    let port = door.port;
    let id = door.table.snapshot()[1].id.to_string();
    for (host, who) in [
        (format!("web.a.localhost:{port}"), "I am A"),
        ("web.a.localhost".to_owned(), "I am A"),
        ("WEB.A.LocalHost".to_owned(), "I am A"),
        ("a.localhost".to_owned(), "I am A"),
        ("web.b.localhost".to_owned(), "I am B"),
        (format!("web.{id}.localhost:{port}"), "I am B"),
        (format!("{id}.localhost"), "I am B"),
    ] {
        let answer = door.get(&host, "").await;
        assert!(
            answer.ends_with(&format!("{who}\r\n\r")),
            "{host}: {answer}"
        );
    }
    assert!(door.used.load(std::sync::atomic::Ordering::Relaxed) >= 7);
}

#[tokio::test]
async fn attack_93_107_every_other_host_leads_nowhere() {
    let door = Door::new(&[("a", answers(A).await)]).await;
    let port = door.port;
    let long = format!("{}.localhost", "a".repeat(8192));
    for (host, expect) in [
        ("web.b.localhost", 404),
        ("api.a.localhost", 404),
        ("web.a.b.localhost", 404),
        ("x.web.a.localhost", 404),
        ("web.a.localhost:1", 404),
        ("web.a.localhost.", 400),
        ("web.a.localhost:x", 400),
        ("", 400),
        ("[", 400),
        ("[::1", 400),
        ("me@web.a.localhost", 400),
        ("web.a.localhost, web.a.localhost", 400),
        (&long, 400),
        ("example.org", 421),
        ("web.a.localhost.example.org", 421),
        ("192.0.2.1", 421),
        ("localhost", 404),
        ("holm.localhost", 404),
        ("127.0.0.1", 404),
        ("[::1]", 404),
    ] {
        let answer = door.get(host, "").await;
        assert_eq!(status(&answer), expect, "{host}: {answer}");
        assert!(!answer.contains("I am A"), "{host}: {answer}");
    }
    for (request, expect) in [
        ("GET / HTTP/1.1\r\n".to_owned(), 400),
        ("GET / HTTP/1.0\r\n".to_owned(), 400),
        (
            "GET / HTTP/1.1\r\nHost: web.a.localhost\r\nHost: web.b.localhost\r\n".to_owned(),
            400,
        ),
        (
            "GET / HTTP/1.1\r\nHost: web.a.localhost\r\nHost: web.a.localhost\r\n".to_owned(),
            400,
        ),
        (
            "GET http://web.a.localhost/ HTTP/1.1\r\nHost: web.b.localhost\r\n".to_owned(),
            400,
        ),
        ("GET http://web.a.localhost/ HTTP/1.1\r\n".to_owned(), 400),
        (
            "GET / HTTP/1.1\r\nHost: web.a.localhost\r\n X: folded\r\n".to_owned(),
            400,
        ),
        (
            "GET / HTTP/1.1\r\nHost : web.a.localhost\r\n".to_owned(),
            400,
        ),
        (
            format!("CONNECT web.a.localhost:{port} HTTP/1.1\r\nHost: web.a.localhost:{port}\r\n"),
            405,
        ),
        (
            "CONNECT example.org:80 HTTP/1.1\r\nHost: example.org:80\r\n".to_owned(),
            421,
        ),
    ] {
        let answer = door
            .raw(format!("{request}Connection: close\r\n\r\n"))
            .await;
        assert_eq!(status(&answer), expect, "{request}: {answer}");
        assert!(!answer.contains("I am A"), "{request}: {answer}");
    }
    // The absolute form with the same host is an ordinary request.
    let absolute = "GET http://web.a.localhost/x HTTP/1.1\r\nHost: web.a.localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&door.raw(absolute).await), 200);
}

/// Every program of the machine can ask, without a token.
#[tokio::test]
async fn pages_name_nothing_that_the_request_did_not_name() {
    let door = Door::new(&[("aardvark", answers(A).await), ("zebra", 1)]).await;
    let mut workspaces = door.table.snapshot().to_vec();
    workspaces[1].ports[0].port = 54321;
    let ids = [workspaces[0].id.to_string(), workspaces[1].id.to_string()];
    // A workspace without a declared port in which two listen.
    let mut several = workspaces[0].clone();
    several.id = holm_core::WorkspaceId::random();
    several.site = "badger--shop".to_owned();
    several.label = holm_core::Label::parse("badger").unwrap();
    several.ports[0].source = holm_proxy::Source::Discovered;
    several.ports[0].name = "41000".to_owned();
    several.ports.push(several.ports[0].clone());
    let (several_id, zebra) = (several.id.to_string(), ids[1].clone());
    workspaces.push(several);
    door.table.replace(workspaces.clone());
    let stopped = |workspaces: &[holm_proxy::LiveWorkspace]| {
        let mut workspaces = workspaces.to_vec();
        workspaces
            .iter_mut()
            .for_each(|workspace| workspace.is_running = false);
        workspaces
    };
    let hosts = [
        "nobody.localhost",
        "localhost",
        "holm.localhost",
        "other.aardvark.localhost",
        "web.zebra.localhost",
        &format!("web.{zebra}.localhost"),
        "badger--shop.localhost",
        &format!("{several_id}.localhost"),
        "example.org",
    ];
    for table in [workspaces.clone(), stopped(&workspaces)] {
        door.table.replace(table);
        for host in hosts {
            for accept in ["text/html", "application/json", "*/*"] {
                let answer = door.get(host, &format!("Accept: {accept}\r\n")).await;
                assert!(status(&answer) >= 400, "{host}: {answer}");
                let body = answer.split("\r\n\r\n").nth(1).unwrap();
                for secret in ["aardvark", "zebra", "badger", "shop", "54321", "41000"] {
                    let is_said = host.contains(secret);
                    assert!(is_said || !body.contains(secret), "{host}: {body}");
                }
                for id in ids.iter().chain([&several_id]) {
                    assert!(host.contains(id) || !body.contains(id), "{host}: {body}");
                }
            }
        }
    }
    let text = door.get("nobody.localhost", "").await;
    assert!(text.contains("try: holm ports\n"), "{text}");
    let json = door.get("localhost", "Accept: application/json\r\n").await;
    assert!(json.contains("\"hint\":\"holm ports\""), "{json}");
    let stopped = door.get("badger--shop.localhost", "").await;
    assert!(
        stopped.contains("try: holm start shop/badger\n"),
        "{stopped}"
    );
}

#[tokio::test]
async fn nobody_listening_is_a_page_that_waits() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let door = Door::new(&[("a", port)]).await;
    let text = door.get("web.a.localhost", "").await;
    assert_eq!(status(&text), 503);
    assert!(text.to_lowercase().contains("retry-after: 1"), "{text}");
    let html = door.get("web.a.localhost", "Accept: text/html\r\n").await;
    assert!(html.contains("Holm-Waiting"), "{html}");
    let waiting = door.get("web.a.localhost", "Holm-Waiting: 1\r\n").await;
    assert_eq!(status(&waiting), 503);
    let _server = tokio::net::TcpListener::bind(("127.0.0.1", port))
        .await
        .unwrap();
    let waiting = door.get("web.a.localhost", "Holm-Waiting: 1\r\n").await;
    assert_eq!(status(&waiting), 204);
    // A stopped workspace says how to start it.
    let mut workspaces = door.table.snapshot().to_vec();
    workspaces[0].is_running = false;
    door.table.replace(workspaces);
    let stopped = door.get("web.a.localhost", "").await;
    assert_eq!(status(&stopped), 503);
    assert!(stopped.contains("holm start a\n"), "{stopped}");
}

#[tokio::test]
async fn attack_103_pages_of_others_are_refused_and_its_own_pass() {
    let door = Door::new(&[("a", echo().await), ("b", echo().await)]).await;
    let port = door.port;
    for foreign in [
        "null".to_owned(),
        "http://[::1".to_owned(),
        format!("http://web.b.localhost:{port}"),
        format!("http://localhost:{port}"),
    ] {
        let origin = format!("Origin: {foreign}\r\n");
        assert_eq!(
            status(&door.get("web.a.localhost", &origin).await),
            403,
            "{foreign}"
        );
        let upgrade = format!("{origin}Connection: upgrade\r\nUpgrade: websocket\r\n");
        assert_eq!(
            status(&door.get("web.a.localhost", &upgrade).await),
            403,
            "{foreign}"
        );
    }
    for own in [
        format!("http://web.a.localhost:{port}"),
        "http://localhost:3000".to_owned(),
    ] {
        let answer = door
            .get("web.a.localhost", &format!("Origin: {own}\r\n"))
            .await;
        assert!(answer.contains(&format!("origin: {own}\r\n")), "{answer}");
    }
}

#[tokio::test]
async fn attack_100_a_preview_that_leads_to_itself_ends() {
    let door = Door::new(&[("a", 1)]).await;
    let mut workspaces = door.table.snapshot().to_vec();
    workspaces[0].ports[0].port = door.port;
    door.table.replace(workspaces);
    let answer = door.get("web.a.localhost", "").await;
    assert_eq!(status(&answer), 508, "{answer}");
}

#[tokio::test]
async fn a_name_that_is_used_again_is_cleared_first() {
    let door = Door::with(&[("a", answers(A).await)], Generation::Later).await;
    let id = door.table.snapshot()[0].id.to_string();
    let navigate = "Sec-Fetch-Mode: navigate\r\n";
    let first = door.get("web.a.localhost", navigate).await;
    let clear = "clear-site-data: \"cache\", \"cookies\", \"storage\"";
    assert!(
        first.contains(clear) && !first.contains("I am A"),
        "{first}"
    );
    let cookies = format!("{navigate}Cookie: holm-site={id}; holm-host={id}\r\n");
    let second = door.get("web.a.localhost", &cookies).await;
    assert!(
        second.contains("I am A") && !second.contains("clear-site-data"),
        "{second}"
    );
    // A program keeps nothing, and an id is never used again.
    assert!(door.get("web.a.localhost", "").await.contains("I am A"));
    assert!(
        door.get(&format!("web.{id}.localhost"), navigate)
            .await
            .contains("I am A")
    );
    let worker = door
        .get("web.a.localhost", "Service-Worker: script\r\n")
        .await;
    assert!(worker.contains("unregister"), "{worker}");
}

/// A real request with a few bytes changed: it is answered or cut, and only an exact name is
/// forwarded.
#[tokio::test]
async fn nonsense_never_leads_to_another_workspace() {
    let door = Door::new(&[("a", answers(A).await), ("b", answers(B).await)]).await;
    let (mut dice, mut answered) = (Dice::new(), 0);
    let request =
        b"GET / HTTP/1.1\r\nHost: web.a.localhost\r\nAccept: */*\r\nConnection: close\r\n\r\n";
    for _ in 0..500 {
        let mut bytes = request.to_vec();
        for _ in 0..1 + dice.below(3) {
            let index = dice.below(bytes.len());
            let bit = 1 << dice.below(8);
            bytes[index] ^= bit;
        }
        let mut stream = door.connect().await;
        let _ = stream.write_all(&bytes).await;
        let mut answer = Vec::new();
        // A head that does not end any more has no answer; nothing depends on how long is waited.
        let patience = std::time::Duration::from_millis(200);
        let _ = tokio::time::timeout(patience, stream.read_to_end(&mut answer)).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        answered += usize::from(!answer.is_empty());
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let is_exact = |name: &str| text.contains(&format!("{name}.localhost\r\n"));
        assert!(
            !answer.contains("I am B") || is_exact(".b"),
            "{text}: {answer}"
        );
        assert!(
            !answer.contains("I am A") || is_exact("a"),
            "{text}: {answer}"
        );
    }
    assert!(answered > 0);
    assert!(door.get("web.a.localhost", "").await.contains("I am A"));
}
