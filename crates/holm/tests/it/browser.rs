//! `holm open`: a browser in which localhost is the workspace.

use crate::support::{
    FirefoxTab, Island, Place, Ran, Repository, Tab, background, eventually, host_port,
};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;

/// Identifies itself, sets a cookie, and redirects to a sign-in on another port that redirects
/// back.
const SERVER: &str = r#"
import http.server, os, threading
label = os.environ["HOLM_WORKSPACE_LABEL"]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *arguments): pass
    def do_GET(self):
        port = self.server.server_port
        where = {
            (3000, "/login"): "http://localhost:4000/authorize?redirect_uri=http://localhost:3000/callback",
            (4000, "/authorize"): "http://localhost:3000/callback?code=code-of-" + label,
        }.get((port, self.path.split("?")[0]))
        body = ("<title>%s</title><p id=path>%s</p>" % (label, self.path)).encode()
        self.send_response(302 if where else 200)
        if where: self.send_header("Location", where)
        if self.path == "/cookie": self.send_header("Set-Cookie", "who=" + label + "; Path=/")
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
servers = [http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) for port in (3000, 4000)]
threading.Thread(target=servers[0].serve_forever).start()
servers[1].serve_forever()
"#;

fn shop(island: &Island) -> Repository<'_> {
    island.shop("[ports]\nweb = 3000\n", SERVER)
}

/// A headless browser of holm's, ended with the test.
struct Opened(Value);

impl Opened {
    fn new(island: &Island, workspace: &str) -> Self {
        Self(
            island
                .holm(&["open", workspace, "--headless", "--json"])
                .json(),
        )
    }

    /// The same on a machine that has no other browser than Firefox.
    fn firefox(island: &Island, workspace: &str) -> Self {
        let only = island.home().join("only-firefox");
        if !only.exists() {
            let link = island.make_dir(&only).join("firefox-esr");
            std::os::unix::fs::symlink("/usr/bin/firefox-esr", link).unwrap();
        }
        let arguments = ["open", workspace, "--headless", "--json"];
        let mut command = island.holm_command(&island.home(), &arguments);
        Self(Ran::new(command.env("PATH", only)).json())
    }

    fn tab(&self, island: &Island, url: &str) -> Tab {
        Tab::open(
            island,
            self.0["devtools"].as_str().expect("where to steer it"),
            url,
        )
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let pid = self.0["pid"].as_i64().unwrap_or_default() as i32;
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            // A browser that holm has closed is gone.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
    }
}

#[test]
fn the_same_address_is_another_workspace_in_the_window_next_to_it() {
    let island = Island::new();
    let repository = shop(&island);
    for label in ["one", "two"] {
        repository.up(label);
        background(&island, label, "exec python3 server.py");
        host_port(&island, label, 3000);
    }
    let browsers = ["one", "two"].map(|label| Opened::new(&island, label));
    assert_eq!(browsers[0].0["url"], "http://localhost:3000");
    assert_ne!(browsers[0].0["profile"], browsers[1].0["profile"]);
    let mut tabs = ["one", "two"].map(|label| {
        let browser = &browsers[usize::from(label == "two")];
        let mut tab = browser.tab(&island, "http://localhost:3000/cookie");
        tab.shows("document.title", label);
        tab.evaluate(&format!("localStorage.setItem('kept', '{label}')"));
        tab
    });
    for (tab, label) in tabs.iter_mut().zip(["one", "two"]) {
        tab.go("http://localhost:3000/");
        assert_eq!(tab.evaluate("document.cookie"), format!("who={label}"));
        assert_eq!(tab.evaluate("localStorage.getItem('kept')"), label);
        // The sign-in comes back to the workspace that it was begun in.
        tab.go("http://localhost:3000/login");
        let expect = format!("/callback?code=code-of-{label}");
        tab.shows("document.getElementById('path').textContent", &expect);
        tab.shows("location.origin", "http://localhost:3000");
        assert_eq!(tab.evaluate("document.title"), label);
        // By address it is the workspace as well.
        tab.go("http://127.0.0.1:3000/");
        assert_eq!(tab.evaluate("document.title"), label);
    }
    // Opened again it is the same browser.
    let again = Opened::new(&island, "one");
    assert_eq!(again.0["devtools"], browsers[0].0["devtools"]);
}

#[test]
fn in_firefox_the_same_address_is_another_workspace_too() {
    let island = Island::new();
    let repository = shop(&island);
    let browsers = ["one", "two"].map(|label| {
        repository.up(label);
        background(&island, label, "exec python3 server.py");
        host_port(&island, label, 3000);
        Opened::firefox(&island, label)
    });
    assert_ne!(browsers[0].0["profile"], browsers[1].0["profile"]);
    let mut tabs = browsers.each_ref().map(|browser| {
        let address = browser.0["devtools"].as_str().expect("where to steer it");
        let mut tab = FirefoxTab::of(address);
        tab.go("http://localhost:3000/cookie");
        tab
    });
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    host.set_nonblocking(true).unwrap();
    for (tab, label) in tabs.iter_mut().zip(["one", "two"]) {
        assert_eq!(tab.evaluate("document.title"), label);
        assert_eq!(tab.evaluate("document.cookie"), format!("who={label}"));
        tab.go("http://localhost:3000/login");
        let expect = format!("/callback?code=code-of-{label}");
        let path = "document.getElementById('path').textContent";
        assert_eq!(tab.evaluate(path), expect);
        // What listens on the host is not in this browser.
        let port = host.local_addr().unwrap().port();
        for name in ["localhost", "127.0.0.1"] {
            let answer = tab.go(&format!("http://{name}:{port}/"));
            assert_eq!(answer["type"], "error", "{answer}");
        }
    }
    let nobody = host.accept().unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_browser_goes_on_over_a_restart_of_the_daemon() {
    let island = Island::new();
    shop(&island).up("one");
    background(&island, "one", "exec python3 server.py");
    host_port(&island, "one", 3000);
    let browser = Opened::new(&island, "one");
    let mut tab = browser.tab(&island, "http://localhost:3000/");
    tab.shows("document.title", "one");
    island.holm(&["daemon", "stop"]).ok();
    island.holm(&["daemon", "start"]).ok();
    tab.go("http://localhost:3000/again");
    tab.shows("document.getElementById('path').textContent", "/again");
    // When everything is stopped, it ends too.
    let process = format!("/proc/{}", browser.0["pid"]);
    assert!(std::path::Path::new(&process).exists());
    island.holm(&["daemon", "stop", "--all"]).ok();
    let state = std::fs::read_to_string(format!("{process}/stat")).unwrap_or_default();
    let is_gone = state.is_empty() || state.rsplit(')').next().unwrap().starts_with(" Z");
    assert!(is_gone, "{state}");
}

/// The host's own loopback is not in that browser, nor anything that the workspace may not reach.
#[test]
fn the_endpoint_never_leads_to_the_host() {
    let island = Island::new();
    shop(&island).up("one");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 1024];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhost");
        }
    });
    let opened = island.holm(&["open", "one", "--print", "--json"]).json();
    let proxy = opened["proxy"]
        .as_str()
        .unwrap()
        .replace("socks5://", "socks5h://");
    let url = |host: &str| format!("http://{host}:{port}/");
    let curl = |arguments: &[&str]| {
        let arguments = [&["-sS", "--max-time", "60"], arguments].concat();
        island.run(&island.home(), "curl", &arguments)
    };
    // Without the endpoint it is reachable.
    assert_eq!(curl(&[&url("127.0.0.1")]).ok().out(), "host");
    for host in [
        "127.0.0.1",
        "localhost",
        "x.localhost",
        "[::1]",
        "127.9.9.9",
        "[::ffff:127.0.0.1]",
    ] {
        let ran = curl(&["--noproxy", "", "--proxy", &proxy, &url(host)]);
        assert_ne!(ran.code, Some(0), "{host}: {ran:?}");
        assert_ne!(ran.out(), "host");
    }
    // The front door and the endpoint itself are the host's too.
    let door = island.holm(&["daemon", "status", "--json"]).json()["port"].clone();
    let door = format!("http://web.one.localhost:{door}/");
    assert_ne!(
        curl(&["--noproxy", "", "--proxy", &proxy, &door]).code,
        Some(0)
    );
}

#[test]
fn the_command_line_can_be_had_and_says_what_is_missing() {
    let island = Island::new();
    let repository = shop(&island);
    repository.up("one");
    let line = island.holm(&["open", "one", "--print"]).ok().out();
    assert!(line.contains("--proxy-bypass-list='<-loopback>'"), "{line}");
    assert!(
        line.contains("--proxy-server=socks5://127.0.0.1:"),
        "{line}"
    );
    assert!(line.ends_with("http://localhost:3000"), "{line}");
    let json = island
        .holm(&["open", "one", "8080", "--print", "--json"])
        .json();
    assert_eq!(json["url"], "http://localhost:8080");
    assert!(json["pid"].is_null());
    let error = island
        .holm(&["open", "one", "nothing", "--print", "--json"])
        .error(3);
    assert_eq!(error["code"], "port_not_found");
    // A port that there cannot be starts nothing.
    island.holm(&["stop", "one"]).ok();
    let error = island
        .holm(&["open", "one", "99999", "--print", "--json"])
        .error(3);
    assert_eq!(error["code"], "port_not_found");
    assert_eq!(island.states()["one"], "stopped");
    island.holm(&["open", "one", "--print"]).ok();
    assert_eq!(island.states()["one"], "running");
    island
        .holm(&["open", "nobody", "--print", "--json"])
        .error(3);
    // A window needs a display, which tests do not have.
    let error = island.holm(&["open", "one", "--json"]).error(1);
    assert_eq!(error["code"], "no_browser");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("there is no display"), "{error}");
    let hint = error["hint"].as_str().unwrap();
    assert!(
        hint.contains("`holm open one --headless`") && hint.contains("--print"),
        "{error}"
    );
    // The address is printed, for a browser elsewhere.
    let plain = island.holm(&["open", "one"]);
    assert_eq!(plain.code, Some(1), "{plain:?}");
    let url = plain.out();
    assert!(
        url.starts_with("http://") && hint.contains(&url),
        "{plain:?}"
    );
    let mut command = island.holm_command(&island.home(), &["open", "one", "--json"]);
    command
        .env("PATH", island.make_dir("nothing"))
        .env("DISPLAY", ":0");
    let error = crate::support::Ran::new(&mut command).error(1);
    assert_eq!(error["code"], "no_browser");
    assert!(
        error["hint"].as_str().unwrap().contains("chromium"),
        "{error}"
    );
}

#[test]
fn without_a_declared_port_it_says_what_listens() {
    let island = Island::new();
    island.repository("plain").up("plain");
    let refused = || {
        island
            .holm(&["open", "plain", "--print", "--json"])
            .error(3)
    };
    let error = refused();
    assert!(
        error.to_string().contains("no program in it listens"),
        "{error}"
    );
    for port in [3000, 4000] {
        background(
            &island,
            "plain",
            &format!("exec python3 -m http.server {port} --bind 127.0.0.1"),
        );
        host_port(&island, "plain", port);
        if port == 3000 {
            let line = island.holm(&["open", "plain", "--print"]).ok().out();
            assert!(line.ends_with("http://localhost:3000"), "{line}");
        }
    }
    let error = refused();
    let message = error["message"].as_str().unwrap();
    assert!(
        message.ends_with("listens on several: 3000, 4000"),
        "{error}"
    );
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("`holm open plain 3000`"), "{error}");
}

#[test]
fn a_profile_goes_with_its_workspace() {
    let island = Island::new();
    let repository = shop(&island);
    let made = repository.holm(&["up", "one", "--json"]).json();
    island.holm(&["open", "one", "--print"]).ok();
    let profile = island
        .data()
        .join("browsers")
        .join(made["id"].as_str().unwrap());
    assert!(profile.exists());
    repository.holm(&["rm", "one", "--force"]).ok();
    island.holm(&["gc"]).ok();
    assert!(profile.exists(), "it can still be restored");
    island.holm(&["gc", "--all"]).ok();
    eventually("the profile is gone", || !profile.exists());
}

/// The daemon is the user `holm`'s, the browser is not.
#[test]
fn roots_browser_is_roots_own() {
    let Some(place) = Place::new() else {
        return;
    };
    let repository = place.configured("[ports]\nweb = 3000\n");
    place.holm(&repository, &["up", "one"]).ok();
    let opened = place.holm(&repository, &["open", "one", "--print", "--json"]);
    let opened = opened.json();
    let profile = opened["profile"].as_str().unwrap();
    assert!(
        profile.starts_with(place.home().to_str().unwrap()),
        "{opened}"
    );
    let words = opened["command"].as_array().unwrap();
    assert!(words.iter().any(|word| word == "--no-sandbox"), "{opened}");
}
