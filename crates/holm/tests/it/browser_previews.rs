//! Previews in a user's own browser: every workspace is another site (attacks 95, 98, 103).

use crate::support::{Chromium, Island, Repository, background, eventually};

/// A dev server that allows every origin, as many do.
const SERVER: &str = r#"
import http.server, os
label = os.environ["HOLM_WORKSPACE_LABEL"]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *arguments): pass
    def do_OPTIONS(self): self.do_GET()
    def do_POST(self): self.do_GET()
    def do_GET(self):
        if self.headers.get("Upgrade") == "websocket":
            open("/tmp/upgrades", "a").write("x")
        kind = "text/javascript" if self.path == "/secret.js" else "text/html"
        body = b"window.stolen = 'secret';" if self.path == "/secret.js" else (
            "<title>%s</title><p id=secret>secret of %s</p>" % (label, label)).encode()
        self.send_response(200)
        origin = self.headers.get("Origin")
        if origin:
            self.send_header("Access-Control-Allow-Origin", origin)
            self.send_header("Access-Control-Allow-Credentials", "true")
        self.send_header("Set-Cookie", "wide=" + label + "; Domain=localhost; Path=/")
        self.send_header("Set-Cookie", "own=" + label + "; Path=/")
        self.send_header("Strict-Transport-Security", "max-age=10000")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
"#;

fn shop(island: &Island) -> Repository<'_> {
    island.shop("[ports]\nweb = 3000\n", SERVER)
}

fn served(island: &Island, label: &str) -> String {
    let status = island.holm(&["daemon", "status", "--json"]).json();
    let url = format!("http://web.{label}.localhost:{}/", status["port"]);
    background(island, label, "exec python3 server.py");
    eventually("the preview is served", || {
        let curl = ["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url];
        island.run(&island.home(), "curl", &curl).out() == "200"
    });
    url
}

#[test]
fn attack_95_a_page_of_one_workspace_reads_nothing_of_another() {
    let island = Island::new();
    let repository = shop(&island);
    repository.up("one");
    repository.up("two");
    let [one, two] = ["one", "two"].map(|label| served(&island, label));
    let by_id = island.holm(&["show", "one", "--json"]).json()["id"].clone();
    let by_id = one.replace("web.one.", &format!("web.{}.", by_id.as_str().unwrap()));
    let door = one.replace("web.one.", "");
    let browser = Chromium::new(&island);
    browser
        .tab(&island, &two)
        .evaluate("localStorage.setItem('kept', 'two')");
    let mut tab = browser.tab(&island, &one);
    tab.shows("document.title", "one");
    let read = |url: &str, options: &str| {
        format!(
            "fetch('{url}', {options}).then((answer) => answer.text())\
             .then((text) => text.includes('secret') ? 'read' : 'empty', () => 'failed')"
        )
    };
    // Its own it can read, and by its other name too, because the server allows that.
    assert_eq!(tab.evaluate(&read(&one, "{}")), "read");
    assert_eq!(tab.evaluate(&read(&by_id, "{}")), "read");
    for options in [
        "{}",
        "{credentials: 'include'}",
        "{method: 'POST', body: 'x'}",
    ] {
        assert_eq!(tab.evaluate(&read(&two, options)), "failed", "{options}");
        assert_eq!(tab.evaluate(&read(&door, options)), "failed", "{options}");
    }
    assert_ne!(tab.evaluate(&read(&two, "{mode: 'no-cors'}")), "read");
    // A script of the other is not run here, and its own is.
    let script = |url: &str| {
        format!(
            "new Promise((done) => {{ const script = document.createElement('script'); \
             script.src = '{url}secret.js'; script.onload = () => done('ran'); \
             script.onerror = () => done('refused'); document.head.append(script); }})"
        )
    };
    assert_eq!(tab.evaluate(&script(&two)), "refused");
    assert_eq!(tab.evaluate(&script(&one)), "ran");
    // Neither a frame nor a window of it can be looked into.
    let frame = format!(
        "new Promise((done) => {{ const frame = document.createElement('iframe'); frame.src = '{two}'; \
         frame.onload = () => {{ try {{ done(frame.contentWindow.document.title) }} \
         catch (error) {{ done(error.name) }} }}; document.body.append(frame); }})"
    );
    assert_eq!(tab.evaluate(&frame), "SecurityError");
    let window = format!(
        "new Promise((done) => {{ const other = window.open('{two}'); setTimeout(() => {{ \
         try {{ done(other.document.title) }} catch (error) {{ done(error.name) }} }}, 1500); }})"
    );
    assert_eq!(tab.evaluate(&window), "SecurityError");
    let socket = |url: &str| {
        let url = url.replace("http:", "ws:");
        format!(
            "new Promise((done) => {{ const socket = new WebSocket('{url}'); \
             socket.onopen = () => done('open'); socket.onerror = () => done('failed'); }})"
        )
    };
    assert_eq!(tab.evaluate(&socket(&two)), "failed");
    let upgrades = "cat /tmp/upgrades 2>/dev/null || true";
    assert_eq!(
        island.sh("two", upgrades).ok().out(),
        "",
        "it did not even arrive"
    );
    tab.evaluate(&socket(&one));
    assert_eq!(island.sh("one", upgrades).ok().out(), "x", "its own does");
    assert_eq!(
        tab.evaluate("localStorage.getItem('kept')"),
        serde_json::Value::Null
    );
    // Cookies for all sites are not set for other workspaces, and no browser is sent to TLS.
    assert_eq!(
        tab.evaluate("document.cookie.split('; ').sort().join()"),
        "own=one,wide=one"
    );
    tab.go(&two);
    assert_eq!(
        tab.evaluate("document.cookie.split('; ').sort().join()"),
        "own=two,wide=two"
    );
}

#[test]
fn a_page_waits_and_shows_what_comes() {
    let island = Island::new();
    shop(&island).up("one");
    let status = island.holm(&["daemon", "status", "--json"]).json();
    let url = format!("http://web.one.localhost:{}/", status["port"]);
    let browser = Chromium::new(&island);
    let mut tab = browser.tab(&island, &url);
    tab.shows("document.title", "Waiting for one");
    background(&island, "one", "exec python3 server.py");
    tab.shows("document.title", "one");
    // Nothing that a name could hold becomes a part of the page.
    tab.go(&url.replace("web.one", "nobody"));
    tab.shows(
        "document.querySelector('h1').textContent.includes('nobody') ? 'said' : ''",
        "said",
    );
    tab.shows("document.querySelector('code').textContent", "holm ports");
}

/// A label that is used again shows nothing that a browser kept of the workspace before.
#[test]
fn a_label_that_is_used_again_is_a_clean_site() {
    let island = Island::new();
    let repository = shop(&island);
    repository.up("one");
    let url = served(&island, "one");
    let browser = Chromium::new(&island);
    let mut tab = browser.tab(&island, &url);
    let keep = "localStorage.setItem('kept', 'old'); document.cookie = 'session=old; path=/; max-age=9999'; \
        caches.open('old').then((cache) => cache.put('/x', new Response('old'))).then(() => 'kept')";
    assert_eq!(tab.evaluate(keep), "kept");
    tab.go(&url);
    let kept = "caches.keys().then((names) => [localStorage.getItem('kept'), \
        document.cookie.includes('session'), names.length].join())";
    assert_eq!(tab.evaluate(kept), "old,true,1");
    repository.holm(&["rm", "one", "--force"]).ok();
    repository.up("one");
    served(&island, "one");
    tab.go(&url);
    tab.shows("document.title", "one");
    tab.shows(kept, ",false,0");
    // What the new one keeps stays.
    assert_eq!(tab.evaluate(keep), "kept");
    tab.go(&url);
    tab.shows("document.title", "one");
    assert_eq!(tab.evaluate(kept), "old,true,1");
}
