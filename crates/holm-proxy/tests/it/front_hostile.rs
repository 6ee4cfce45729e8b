//! Servers and clients that do not play by the rules (attacks 98, 99).

use crate::door::{Door, answers, echo, read_head, read_to_end, server, status, within};
use holm_proxy::front::DoorLimits;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn attack_98_what_a_client_claims_does_not_pass() {
    let door = Door::new(&[("a", echo().await)]).await;
    let forged = "X-Forwarded-For: 203.0.113.1\r\nForwarded: for=203.0.113.1\r\nX-Real-IP: 203.0.113.1\r\n\
                  x_forwarded_for: 203.0.113.1\r\nX-Forwarded-Proto: https\r\nHolm-Identity: root\r\n\
                  Connection: x-forwarded-for, host\r\n";
    let answer = door.get("web.a.localhost", forged).await;
    assert!(
        !answer.contains("203.0.113") && !answer.contains("https"),
        "{answer}"
    );
    assert!(!answer.contains("holm-identity"), "{answer}");
    assert!(
        answer.contains("x-forwarded-for: 127.0.0.1\r\n"),
        "{answer}"
    );
    assert!(answer.contains("host: web.a.localhost\r\n"), "{answer}");
    // Without the door it would arrive.
    let mut direct = tokio::net::TcpStream::connect(("127.0.0.1", echo().await))
        .await
        .unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{forged}\r\n");
    direct.write_all(request.as_bytes()).await.unwrap();
    read_head(&mut direct).await;
    assert!(read_head(&mut direct).await.contains("203.0.113.1"));
}

#[tokio::test]
async fn attack_98_what_a_workspace_must_not_say_does_not_pass() {
    let answer =
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nStrict-Transport-Security: max-age=9\r\n\
        Clear-Site-Data: \"*\"\r\nAlt-Svc: h2=\":1\"\r\nSet-Cookie: a=1; Domain=localhost\r\n\
        Set-Cookie: b=2; Path=/\r\nAccess-Control-Allow-Origin: *\r\n\r\nok";
    let door = Door::new(&[("a", answers(answer).await)]).await;
    let answer = door.get("web.a.localhost", "").await.to_lowercase();
    for gone in [
        "strict-transport",
        "clear-site-data",
        "alt-svc",
        "domain=localhost",
    ] {
        assert!(!answer.contains(gone), "{answer}");
    }
    for kept in [
        "set-cookie: a=1\r\n",
        "set-cookie: b=2; path=/\r\n",
        "access-control-allow-origin: *",
    ] {
        assert!(answer.contains(kept), "{answer}");
    }
}

#[tokio::test]
async fn attack_99_a_hostile_server_is_an_error_page_and_others_go_on() {
    let endless = server(|mut stream| async move {
        read_head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(b"X-More: and more\r\n").await.is_ok() {}
    });
    let long = server(|mut stream| async move {
        read_head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX-More: ").await;
        while stream.write_all(&[b'a'; 4096]).await.is_ok() {}
    });
    let silent = server(|mut stream| async move {
        read_head(&mut stream).await;
        std::future::pending::<()>().await;
    });
    let door = Door::new(&[
        ("endless", endless.await),
        ("long", long.await),
        ("rubbish", answers(b"\0\0\0 this is not HTTP\r\n\r\n").await),
        ("gone", server(|_| async {}).await),
        (
            "switches",
            answers(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            )
            .await,
        ),
        (
            "lengths",
            answers(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab").await,
        ),
        ("silent", silent.await),
        (
            "good",
            answers(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood").await,
        ),
    ])
    .await;
    let mut waiting = door.connect().await;
    let request = b"GET / HTTP/1.1\r\nHost: web.silent.localhost\r\n\r\n";
    waiting.write_all(request).await.unwrap();
    for hostile in ["endless", "long", "rubbish", "gone", "switches", "lengths"] {
        let answer = door.get(&format!("web.{hostile}.localhost"), "").await;
        assert_eq!(status(&answer), 502, "{hostile}: {answer}");
        assert!(door.get("web.good.localhost", "").await.ends_with("good"));
    }
    // Another protocol than was asked for is refused too.
    let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
    let answer = door.get("web.switches.localhost", upgrade).await;
    assert_eq!(status(&answer), 502, "{answer}");
}

#[tokio::test]
async fn attack_99_an_answer_that_is_too_short_is_cut_and_never_complete() {
    let short = server(|mut stream| async move {
        read_head(&mut stream).await;
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
            .await;
    });
    let door = Door::new(&[("a", short.await)]).await;
    let answer = door.get("web.a.localhost", "").await;
    let is_complete = answer.ends_with("\r\n\r\nshort") && !answer.contains("content-length: 100");
    assert!(!is_complete, "{answer}");
    assert!(answer.is_empty() || answer.ends_with("short"), "{answer}");
}

/// What a server sends after its answer must not become the answer to the next request.
#[tokio::test]
async fn attack_99_an_answer_that_is_too_long_is_not_the_next_one() {
    let long = answers(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirstHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged");
    let door = Door::new(&[("a", long.await)]).await;
    for _ in 0..20 {
        let answer = door.get("web.a.localhost", "").await;
        assert!(answer.ends_with("first"), "{answer}");
    }
}

#[tokio::test]
async fn a_workspace_has_a_limit_and_others_do_not_notice() {
    let silent = server(|mut stream| async move {
        read_head(&mut stream).await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    });
    let door = Door::new(&[
        ("silent", silent.await),
        (
            "good",
            answers(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood").await,
        ),
    ])
    .await;
    let mut waiting = Vec::new();
    let mut full = None;
    for index in 0..1100 {
        let mut stream = door.connect().await;
        let request = b"GET / HTTP/1.1\r\nHost: web.silent.localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        waiting.push(stream);
        let dialled = || door.here.dialled.load(Ordering::Relaxed);
        if index >= 1024 {
            full = waiting.pop();
            break;
        }
        within(async {
            while dialled() <= index {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    let answer = read_to_end(&mut full.expect("one too many")).await;
    assert_eq!(status(&answer), 503, "{answer}");
    assert!(door.get("web.good.localhost", "").await.ends_with("good"));
    // When they have gone, there is room again.
    drop(waiting);
    within(async {
        loop {
            let mut stream = door.connect().await;
            let request =
                b"GET / HTTP/1.1\r\nHost: web.silent.localhost\r\nConnection: close\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let before = door.here.dialled.load(Ordering::Relaxed);
            let mut byte = [0];
            let refused = stream.read(&mut byte);
            let was_refused =
                tokio::time::timeout(std::time::Duration::from_millis(200), refused).await;
            if was_refused.is_err() && door.here.dialled.load(Ordering::Relaxed) >= before {
                break;
            }
        }
    })
    .await;
}

/// A head that is begun and never ended.
#[tokio::test]
async fn attack_99_a_slow_head_is_given_up_and_a_server_that_thinks_is_not() {
    let slow = server(|mut stream| async move {
        read_head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX-Part: ").await;
        std::future::pending::<()>().await;
    });
    // Answers when the slow one has been given up, however long that takes.
    let (given_up, is_given_up) = tokio::sync::watch::channel(false);
    let thinks = server(move |mut stream| {
        let mut is_given_up = is_given_up.clone();
        async move {
            read_head(&mut stream).await;
            let _ = is_given_up.wait_for(|given_up| *given_up).await;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
            let _ = stream.write_all(answer).await;
        }
    });
    let limits = DoorLimits {
        head: Duration::from_millis(200),
        ..DoorLimits::for_files(20_000)
    };
    let door = Door::limited(&[("slow", slow.await), ("thinks", thinks.await)], limits).await;
    let mut waiting = door.connect().await;
    let request = b"GET / HTTP/1.1\r\nHost: web.thinks.localhost\r\nConnection: close\r\n\r\n";
    waiting.write_all(request).await.unwrap();
    let answer = door.get("web.slow.localhost", "").await;
    assert_eq!(status(&answer), 504, "{answer}");
    given_up.send_replace(true);
    assert!(read_to_end(&mut waiting).await.ends_with("good"));
}

/// Clients that send half a request occupy the whole front door, and release it.
#[tokio::test]
async fn a_flood_of_half_heads_holds_the_door_for_a_time_and_no_longer() {
    const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
    let good = answers(GOOD).await;
    let limits = DoorLimits {
        clients: 8,
        head: Duration::from_millis(200),
        ..DoorLimits::for_files(20_000)
    };
    // Without a time limit, no other client gets in any more.
    let endless = DoorLimits {
        head: Duration::from_secs(3600),
        ..limits
    };
    for (limits, is_served) in [(endless, false), (limits, true)] {
        let door = Door::limited(&[("good", good)], limits).await;
        let mut flood = Vec::new();
        for _ in 0..100 {
            let mut stream = door.connect().await;
            let half = b"GET / HTTP/1.1\r\nHost: web.good.local";
            stream.write_all(half).await.unwrap();
            flood.push(stream);
        }
        assert_eq!(door.here.dialled.load(Ordering::Relaxed), 0);
        let mut client = door.connect().await;
        let request = b"GET / HTTP/1.1\r\nHost: web.good.localhost\r\nConnection: close\r\n\r\n";
        client.write_all(request).await.unwrap();
        if is_served {
            assert!(read_to_end(&mut client).await.ends_with("good"))
        } else {
            // Behind as many rounds as the served one has to wait.
            let mut byte = [0];
            let rounds = Duration::from_millis(200 * 100 / 8);
            let answer = tokio::time::timeout(rounds, client.read(&mut byte)).await;
            assert!(answer.is_err(), "{answer:?}");
            drop(flood);
            assert!(read_to_end(&mut client).await.ends_with("good"));
        }
    }
}
