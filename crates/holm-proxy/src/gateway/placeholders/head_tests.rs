//! Data-driven tests of request and response heads.

use super::*;
use holm_secrets::Value;
use holm_secrets::authority::Authority;
use hyper::{Request, Response};
use proptest::prelude::*;
use std::sync::Arc;

const VALUE: &str = "sk_live_51H+xCANARY/canary=0123";
const TOKEN: &str = "sk_live_80T+qZZQWEX/zqwert=9876";

fn value() -> Value {
    Value::parse(VALUE.as_bytes().to_vec()).unwrap()
}

fn at(host: &str, port: u16) -> Inspected {
    let leaf = Authority::generate().unwrap().leaf(host).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Inspected {
        host: host.to_owned(),
        port,
        tls: Arc::new(super::super::server_config(&leaf, &provider).unwrap()),
    }
}

fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn prepared(uri: &str, headers: &[(&str, &str)]) -> (Parts, BTreeSet<String>) {
    let exchange = Exchange::into_value(TOKEN, &value());
    let mut head = head(uri, headers);
    let used = prepare(&mut head, &at("api.test", 443), &[("KEY", &exchange)]);
    (head, used)
}

#[test]
fn the_value_is_put_into_headers_and_the_query() {
    let bearer = format!("Bearer {TOKEN}");
    let basic = format!("bAsIc {}", STANDARD.encode(format!("user:{TOKEN}")));
    let (head, used) = prepared(
        "/v1/charge?a=1&key=sk_live_80T%2BqZZQWEX%2Fzqwert%3D9876",
        &[
            ("host", "api.test"),
            ("authorization", &bearer),
            ("x-key", TOKEN),
        ],
    );
    assert_eq!(used, BTreeSet::from(["KEY".to_owned()]));
    assert_eq!(head.headers["authorization"], format!("Bearer {VALUE}"));
    assert!(head.headers["authorization"].is_sensitive());
    assert_eq!(head.headers["x-key"], VALUE);
    assert_eq!(
        head.uri,
        "/v1/charge?a=1&key=sk_live_51H%2BxCANARY%2Fcanary%3D0123"
    );
    let (head, _) = prepared("/", &[("host", "api.test"), ("authorization", &basic)]);
    let encoded = head.headers["authorization"]
        .to_str()
        .unwrap()
        .strip_prefix("Basic ")
        .unwrap();
    assert_eq!(
        STANDARD.decode(encoded).unwrap(),
        format!("user:{VALUE}").into_bytes()
    );
}

#[test]
fn nothing_else_has_it() {
    let path = "/sk_live_80T+qZZQWEX/zqwert=9876";
    let (head, used) = prepared(path, &[("host", "api.test"), ("accept-encoding", "gzip")]);
    assert_eq!((head.uri.path(), used.len()), (path, 0));
    assert_eq!(head.headers["accept-encoding"], "identity");
    // The gateway sets hop-by-hop and framing headers itself.
    let (head, used) = prepared(
        "https://api.test/x",
        &[
            ("host", "api.test"),
            ("connection", "x-key, upgrade"),
            ("x-key", TOKEN),
            ("upgrade", "h2c"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("expect", "100-continue"),
            ("proxy-authorization", TOKEN),
        ],
    );
    assert_eq!(used.len(), 0);
    assert_eq!(head.uri, "/x");
    let mut names: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept-encoding", "host"]);
}

#[test]
fn a_websocket_may_be_asked_for_without_compression() {
    let asked = [
        ("host", "api.test"),
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-extensions", "permessage-deflate"),
        ("sec-websocket-key", "abc"),
    ];
    let (head, _) = prepared("/socket", &asked);
    assert_eq!(head.headers["upgrade"], "WebSocket");
    assert_eq!(head.headers["connection"], "upgrade");
    assert_eq!(head.headers["sec-websocket-key"], "abc");
    assert!(!head.headers.contains_key("sec-websocket-extensions"));
}

#[test]
fn a_request_is_for_the_host_of_its_connection() {
    let check = |port: u16, uri: &str, headers: &[(&str, &str)], expect: Result<(), Refusal>| {
        let found = judge(&head(uri, headers), &at("api.test", port));
        assert_eq!(found, expect, "{uri} {headers:?}");
    };
    for host in ["api.test", "API.test", "api.test.", "api.test:443"] {
        check(443, "/", &[("host", host)], Ok(()));
    }
    check(8443, "/", &[("host", "api.test:8443")], Ok(()));
    check(443, "https://api.test/", &[("host", "api.test")], Ok(()));
    check(443, "/", &[], Err(Refusal::NoHost));
    for host in [
        "evil.test",
        "api.test:80",
        "api.test:x",
        "api.test:",
        "api.test@evil.test",
        "api.testx",
        "",
        "api.test, evil.test",
    ] {
        check(443, "/", &[("host", host)], Err(Refusal::OtherHost));
    }
    check(8443, "/", &[("host", "api.test")], Err(Refusal::OtherHost));
    check(
        443,
        "/",
        &[("host", "api.test"), ("host", "api.test")],
        Err(Refusal::OtherHost),
    );
    for uri in [
        "https://evil.test/",
        "http://api.test/",
        "https://api.test:80/",
    ] {
        check(443, uri, &[("host", "api.test")], Err(Refusal::OtherHost));
    }
    let lengths = [
        ("host", "api.test"),
        ("content-length", "3"),
        ("transfer-encoding", "chunked"),
    ];
    check(443, "/", &lengths, Err(Refusal::TwoLengths));
    let mut connect = head("api.test:443", &[("host", "api.test")]);
    connect.method = Method::CONNECT;
    assert_eq!(judge(&connect, &at("api.test", 443)), Err(Refusal::Method));
}

/// Also without a token: the requested part could be a part of the value.
#[test]
fn attack_189_no_request_asks_for_a_part_or_another_form() {
    let asked = [
        ("range", "bytes=0-3"),
        ("if-range", "\"x\""),
        ("request-range", "bytes=0-3"),
        ("x-ms-range", "bytes=0-3"),
        ("accept-charset", "utf-16"),
        ("a-im", "gzip"),
        ("te", "gzip"),
        ("accept-encoding", "br"),
        ("accept", "text/plain"),
    ];
    for key in ["none", TOKEN] {
        let headers = [&[("host", "api.test"), ("x-key", key)][..], &asked].concat();
        let (head, _) = prepared("/", &headers);
        let mut names: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "accept-encoding", "host", "x-key"]);
        assert_eq!(head.headers["accept-encoding"], "identity");
    }
}

fn answer(
    status: u16,
    headers: &[(&str, &str)],
    kind: RequestKind,
) -> Result<http::response::Parts, Unreadable> {
    let (value, other) = (value(), Value::parse(COLON.as_bytes().to_vec()).unwrap());
    let answers = Answers::new([(TOKEN, &value), (COLON_TOKEN, &other)].into_iter());
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    let mut head = response.body(()).unwrap().into_parts().0;
    let reason = hyper::ext::ReasonPhrase::try_from(VALUE.as_bytes()).unwrap();
    head.extensions.insert(reason);
    clean(&mut head, Some(&answers), kind).map(|()| head)
}

const COLON: &str = "robot:hunter2-hunter2";
const COLON_TOKEN: &str = "pqxyz:abcdef1-ghijkl3";

#[test]
fn an_answer_is_readable_and_has_no_value() {
    let location = format!("https://evil.test/?k={VALUE}");
    let head = answer(
        302,
        &[
            ("location", &location),
            ("alt-svc", "h3=\":443\""),
            ("content-length", "7"),
            ("content-encoding", "Identity"),
        ],
        RequestKind::Answer,
    );
    let head = head.unwrap();
    assert_eq!(
        head.headers["location"],
        format!("https://evil.test/?k={TOKEN}")
    );
    assert_eq!(head.headers["content-length"], "7");
    assert!(!head.headers.contains_key("alt-svc"));
}

#[test]
fn attack_189_no_part_of_a_head_has_the_value() {
    let hexadecimal =
        |text: &str| -> String { text.bytes().map(|byte| format!("{byte:02X}")).collect() };
    let name = format!("x-{}", hexadecimal(VALUE));
    let sent = [
        (name.as_str(), "1"),
        (name.as_str(), "2"),
        ("x-plain", VALUE),
        // As a header line of its own, without and with a space.
        ("robot", "hunter2-hunter2"),
        ("x-other", "robot:hunter2-hunter2"),
        ("connection", "x-hop"),
        ("x-hop", VALUE),
        ("trailer", VALUE),
    ];
    let head = answer(200, &sent, RequestKind::Answer).unwrap();
    let mut all: Vec<(&str, &str)> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    all.sort_unstable();
    let token = format!("x-{}", hexadecimal(TOKEN).to_lowercase());
    let mut expect = vec![
        (token.as_str(), "1"),
        (token.as_str(), "2"),
        ("x-other", COLON_TOKEN),
        ("x-plain", TOKEN),
    ];
    expect.sort_unstable();
    assert_eq!(all, expect);
    assert!(head.extensions.get::<hyper::ext::ReasonPhrase>().is_none());
}

#[test]
fn attack_189_an_answer_in_another_form_is_refused() {
    let check = |status: u16, headers: &[(&str, &str)], expect: Result<(), Unreadable>| {
        let found = answer(status, headers, RequestKind::Answer).map(|_| ());
        assert_eq!(found, expect, "{status} {headers:?}");
    };
    let coding = |text: &str| Err(Unreadable::Coding(text.to_owned()));
    for encoding in [
        "gzip",
        "identity, br",
        "x",
        "X-GZIP",
        "zstd",
        "deflate,identity",
    ] {
        check(200, &[("content-encoding", encoding)], coding(encoding));
        let twice = [
            ("content-encoding", "identity"),
            ("content-encoding", encoding),
        ];
        check(200, &twice, coding(encoding));
        check(200, &[("transfer-encoding", encoding)], coding(encoding));
    }
    check(200, &[("transfer-encoding", "Chunked")], Ok(()));
    for text in ["gzip, chunked", "chunked, chunked", "gzip"] {
        check(200, &[("transfer-encoding", text)], coding(text));
        let lines = [
            ("transfer-encoding", text),
            ("transfer-encoding", "chunked"),
        ];
        check(200, &lines, coding(text));
    }
    check(226, &[("im", "gzip")], coding("gzip"));
    // The refusal quotes the server's text, so the value in it is replaced.
    check(200, &[("content-encoding", VALUE)], coding(TOKEN));
    check(
        206,
        &[("content-range", "bytes 0-3/31")],
        Err(Unreadable::Part),
    );
    check(206, &[], Err(Unreadable::Part));
    check(
        200,
        &[("content-type", "Multipart/byteranges; boundary=x")],
        Err(Unreadable::Part),
    );
    check(206, &[("content-range", "0-9/100")], Ok(()));
    check(416, &[("content-range", "bytes */31")], Ok(()));
}

#[test]
fn attack_189_a_connection_changes_to_a_plain_websocket_only() {
    let switch = |protocol: &str, more: (&str, &str), kind: RequestKind| {
        let headers = [("connection", "Upgrade"), ("upgrade", protocol), more];
        answer(101, &headers, kind)
    };
    let head = switch("WebSocket", ("x-said", VALUE), RequestKind::WebSocket).unwrap();
    assert_eq!(head.headers["upgrade"], "websocket");
    assert_eq!(head.headers["x-said"], TOKEN);
    let nothing = ("x", "x");
    let refused = [
        switch("websocket", nothing, RequestKind::Answer),
        switch(VALUE, nothing, RequestKind::WebSocket),
        switch(
            "websocket",
            ("sec-websocket-extensions", "permessage-deflate"),
            RequestKind::WebSocket,
        ),
    ];
    for refused in refused {
        assert_eq!(refused.map(|_| ()), Err(Unreadable::Protocol));
    }
}

proptest! {
    /// Inserted values change neither the length nor the structure of a request.
    #[test]
    fn what_is_put_in_changes_no_structure(
        before in "[ -~]{0,20}",
        after in "[ -~]{0,20}",
        query in "[a-z0-9=&%+._~-]{0,20}",
    ) {
        let text = format!("x{before}{TOKEN}{after}x");
        let uri = format!("/p?{query}&k={TOKEN}&{query}");
        let (head, used) = prepared(&uri, &[("host", "api.test"), ("x-a", &text), ("x-b", "b")]);
        prop_assert_eq!(used.len(), 1);
        prop_assert_eq!(&head.headers["x-a"], &format!("x{before}{VALUE}{after}x"));
        prop_assert_eq!(&head.headers["x-b"], "b");
        prop_assert_eq!(head.headers.len(), 4);
        prop_assert_eq!(head.uri.to_string(), format!("/p?{query}&k={VALUE}&{query}"));
    }

    /// Requests without the token pass unchanged.
    #[test]
    fn others_are_not_changed(value in "[ -~]{0,60}", query in "[a-zA-Z0-9=&%+._~-]{0,60}") {
        let uri = format!("/p?{query}");
        let text = format!("x{value}x");
        let (head, used) = prepared(&uri, &[("host", "api.test"), ("x-a", &text)]);
        prop_assert!(used.is_empty());
        prop_assert_eq!(head.headers["x-a"].as_bytes(), text.as_bytes());
        prop_assert_eq!(head.uri.to_string(), uri);
    }
}
