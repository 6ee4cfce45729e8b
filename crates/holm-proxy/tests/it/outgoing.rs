//! Which hosts the daemon itself connects to: by policy, never this machine, unless the settings list it.

use holm_core::config::{Address, EgressMode};
use holm_core::egress::Policy;
use holm_proxy::gateway::Proxy;
use holm_proxy::outgoing::Outgoing;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn outgoing(mode: EgressMode, allow: &[&str], loopback: &[String]) -> Outgoing {
    let allow: Vec<String> = allow.iter().map(ToString::to_string).collect();
    let listed = loopback.iter().map(|text| Address::parse(text).unwrap());
    Outgoing {
        policy: Policy::parse(mode, &allow).unwrap(),
        proxy: None,
        direct: Policy::nothing(),
        loopback: listed.collect(),
    }
}

async fn refusal(outgoing: &Outgoing, host: &str, port: u16) -> String {
    let refused = outgoing.connect(host, port).await;
    refused.map(drop).unwrap_err().to_string()
}

#[tokio::test]
async fn this_machine_is_reached_only_where_it_is_listed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // An entry of `egress.allow` is meant for workspaces, and does not open this machine to the daemon.
    let wide = outgoing(EgressMode::Open, &["127.0.0.0/8", "::/0"], &[]);
    for host in [
        "127.0.0.1",
        "127.0.0.2",
        "::1",
        "::ffff:127.0.0.1",
        "0.0.0.0",
    ] {
        let said = refusal(&wide, host, port).await;
        assert!(said.contains("is an address of this machine"), "{said}");
    }
    let said = refusal(&wide, "localhost", port).await;
    assert!(said.contains("this machine (it leads to"), "{said}");
    // The counterpart: listed, the same connection is made, whatever the policy says.
    let listed = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("192.0.2.1:{port}"),
    ];
    let listed = outgoing(EgressMode::None, &[], &listed);
    for host in ["127.0.0.1", "localhost"] {
        listed.connect(host, port).await.unwrap();
    }
    let said = refusal(&listed, "192.0.2.1", port).await;
    assert!(said.contains("has no loopback address"), "{said}");
    let said = refusal(&listed, "127.0.0.1", port.wrapping_add(1)).await;
    assert!(said.contains("is an address of this machine"), "{said}");
}

#[tokio::test]
async fn the_policy_decides_on_names_and_addresses() {
    let open = outgoing(EgressMode::Open, &[], &[]);
    for (host, reason) in [
        ("10.1.2.3", "closed: a private network"),
        ("192.168.0.1", "closed: a private network"),
        ("169.254.169.254", "closed: a metadata service"),
        ("fe80::1", "closed: link-local"),
        ("::ffff:10.0.0.1", "closed: a private network"),
        ("0x7f.1", "not a host name"),
        ("127.1", "not a host name"),
    ] {
        let said = refusal(&open, host, 443).await;
        assert!(said.contains(reason), "{host}: {said}");
    }
    let some = outgoing(EgressMode::Allow, &["registry.example.org:443"], &[]);
    let said = refusal(&some, "cdn.example.org", 443).await;
    assert_eq!(said, "cdn.example.org:443 is refused: not in egress.allow");
    let said = refusal(&some, "registry.example.org", 80).await;
    assert!(said.contains("with other ports"), "{said}");
    let said = refusal(&some, "192.0.2.1", 443).await;
    assert!(said.contains("not in egress.allow"), "{said}");
    let none = outgoing(EgressMode::None, &["example.org"], &[]);
    let said = refusal(&none, "example.org", 443).await;
    assert!(said.contains("egress.mode is none"), "{said}");
}

#[tokio::test]
async fn a_proxy_is_asked_for_what_the_policy_allows() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = [0; 256];
        let length = stream.read(&mut asked).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        String::from_utf8_lossy(&asked[..length]).into_owned()
    });
    let mut outgoing = outgoing(EgressMode::Allow, &["registry.test"], &[]);
    outgoing.proxy = Some(Proxy {
        host: "127.0.0.1".to_owned(),
        port,
        authorization: None,
    });
    let said = refusal(&outgoing, "other.test", 443).await;
    assert!(said.contains("not in egress.allow"), "{said}");
    // The name is known to the proxy only.
    outgoing.connect("registry.test", 443).await.unwrap();
    let asked = serving.await.unwrap();
    assert!(asked.starts_with("CONNECT registry.test:443 "), "{asked}");
}
