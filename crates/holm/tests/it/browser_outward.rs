//! What a workspace's browser reaches outside: what the workspace may, by its gateway, and nothing
//! of the host. Against the test's own internet, as in `egress.rs`.

use crate::support::{World, eventually};

const ALLOW: &str = "[egress]\nmode = \"allow\"\nallow = [\"web.test\", \"v6.test\", \"192.0.2.20\", \
                     \"nowhere.test\", \"web.test:9\"]\n";

/// A program of the host that goes through the endpoint of a workspace, as its browser does.
struct Endpoint<'a> {
    world: &'a World,
    proxy: String,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
enum Became {
    Answered(String),
    /// The reply of the endpoint, RFC 1928 section 6.
    Refused(u8),
}

const NOT_ALLOWED: Became = Became::Refused(2);
const UNREACHABLE: Became = Became::Refused(4);
const NOBODY: Became = Became::Refused(5);

impl<'a> Endpoint<'a> {
    fn new(world: &'a World, workspace: &str) -> Self {
        let opened = world
            .island()
            .holm(&["open", workspace, "3000", "--print", "--json"])
            .json();
        let proxy = opened["proxy"].as_str().unwrap();
        let proxy = proxy.replace("socks5://", "socks5h://");
        Self { world, proxy }
    }

    #[track_caller]
    fn get(&self, url: &str) -> Became {
        let arguments = ["-sSg", "--max-time", "60", "--noproxy", "", "--proxy"];
        let arguments = [&arguments[..], &[&self.proxy, url]].concat();
        let island = self.world.island();
        let ran = island.run(&island.home(), "curl", &arguments);
        if ran.code == Some(0) {
            return Became::Answered(ran.out());
        }
        // "cannot complete SOCKS5 connection to evil.test. (2)"
        let reply = ran.stderr.rsplit_once('(').and_then(|(_, rest)| {
            let (number, _) = rest.split_once(')')?;
            number.parse().ok()
        });
        Became::Refused(reply.unwrap_or_else(|| panic!("{url}: {ran:?}")))
    }
}

fn says(text: &str) -> Became {
    Became::Answered(text.to_owned())
}

#[test]
fn the_browser_reaches_what_the_workspace_may_and_it_is_written_down() {
    let Some(world) = World::new() else { return };
    world.up("x", ALLOW);
    let browser = Endpoint::new(&world, "x");
    assert_eq!(
        browser.get("http://v6.test/a"),
        says("2001:db8::10 says /a")
    );
    assert_eq!(
        browser.get("http://192.0.2.20/b"),
        says("192.0.2.20 says /b")
    );
    let Became::Answered(by_name) = browser.get("http://WEB.test/c") else {
        panic!("web.test is allowed");
    };
    assert!(by_name.ends_with("says /c"), "{by_name}");
    // Not allowed, no listener, no such name: each gives another reply.
    for url in [
        "http://evil.test/",
        "http://sub.web.test/",
        "http://198.51.100.10/",
        "http://[2001:db8::20]/",
        "http://192.0.2.10/",
    ] {
        assert_eq!(browser.get(url), NOT_ALLOWED, "{url}");
    }
    assert_eq!(browser.get("http://web.test:9/"), NOBODY);
    assert_eq!(browser.get("http://nowhere.test/"), UNREACHABLE);
    for unseen in ["dns evil.test", "dns sub.web.test", "198.51.100.10"] {
        assert_eq!(world.count(unseen), 0, "{unseen}");
    }
    let entry = |kind: &str, target: &str| {
        let mut found = None;
        eventually("it is written down", || {
            let is_it = |entry: &serde_json::Value| {
                entry["kind"] == kind && (entry["name"] == target || entry["address"] == target)
            };
            found = world.record("x").into_iter().find(is_it);
            found.is_some()
        });
        found.unwrap()
    };
    let made = entry("connect", "web.test");
    assert_eq!(made["port"], 80);
    assert!(made["bytes_in"].as_u64() > Some(0) && made["bytes_out"].as_u64() > Some(0));
    entry("connect", "192.0.2.20");
    let refused = entry("refuse", "evil.test");
    assert_eq!(refused["allow"], "[egress] allow = [\"evil.test:80\"]");
    entry("refuse", "198.51.100.10");
    entry("fail", "nowhere.test");
}

/// Where the browser would get by names and addresses that are not public.
const CLOSED: [&str; 9] = [
    "http://10.9.9.9/",
    "http://169.254.169.254/",
    "http://[fd00:9::9]/",
    "http://[64:ff9b::a09:909]/",
    "http://203.0.113.2:8099/",
    "http://private.test/",
    "http://metadata.test/",
    "http://loop.test:8099/",
    "http://own.test:8099/",
];

#[test]
fn what_is_closed_to_the_workspace_is_closed_to_its_browser() {
    let Some(world) = World::new() else { return };
    let _service = world.host_service();
    world.up("open", "");
    world.up("none", "[egress]\nmode = \"none\"\n");
    let browser = Endpoint::new(&world, "open");
    assert_eq!(
        browser.get("http://v4.test/a"),
        says("192.0.2.10 says /a"),
        "the public internet is open"
    );
    for url in CLOSED {
        assert_eq!(browser.get(url), NOT_ALLOWED, "{url}");
    }
    // The workspace's own loopback, where no program listens; not the host's, where one does.
    assert_eq!(browser.get("http://localhost:8099/"), NOBODY);
    let without = Endpoint::new(&world, "none");
    for url in [
        "http://v4.test/",
        "http://192.0.2.10/",
        "http://[2001:db8::10]/",
    ] {
        assert_eq!(without.get(url), NOT_ALLOWED, "{url}");
    }
    assert_eq!(world.count("http "), 1, "{:?}", world.seen());
    // With no way out, localhost is still the workspace.
    let island = world.island();
    crate::support::background(island, "none", "exec python3 -m http.server 3000");
    crate::support::host_port(island, "none", 3000);
    assert!(matches!(
        without.get("http://localhost:3000/"),
        Became::Answered(_)
    ));
}

#[test]
fn without_the_gateways_judgement_the_browser_would_get_there() {
    let Some(world) = World::without("gateway") else {
        return;
    };
    let _service = world.host_service();
    world.up("open", "");
    world.up("none", "[egress]\nmode = \"none\"\n");
    let browser = Endpoint::new(&world, "open");
    // An own service of the host, and private addresses, by name and by number.
    for url in [
        "http://10.9.9.9/",
        "http://203.0.113.2:8099/",
        "http://loop.test:8099/",
    ] {
        assert!(matches!(browser.get(url), Became::Answered(_)), "{url}");
    }
    let without = Endpoint::new(&world, "none");
    assert!(matches!(
        without.get("http://192.0.2.10/"),
        Became::Answered(_)
    ));
}
