//! Every workspace has its own names in browsers and for programs.

use crate::support::{Island, Repository, background, eventually, times};

/// Returns its identity and the request, and handles bodies of any size.
const SERVER: &str = r#"
import http.server, json, os, sys
label = os.environ["HOLM_WORKSPACE_LABEL"]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *arguments): pass
    def do_GET(self):
        if self.path.startswith("/big/"):
            size = int(self.path[5:])
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            block = b"x" * 65536
            while size > 0:
                self.wfile.write(block[:size])
                size -= len(block)
            return
        who = {"label": label, "pid": os.getpid(), "connection": self.client_address[1]}
        self.answer({**who, "path": self.path, "headers": dict(self.headers)})
    def do_PUT(self):
        size = 0
        if self.headers.get("Transfer-Encoding") == "chunked":
            while True:
                length = int(self.rfile.readline(), 16)
                rest = length
                while rest > 0:
                    rest -= len(self.rfile.read(min(rest, 65536)))
                size += length
                self.rfile.readline()
                if length == 0: break
        else:
            rest = int(self.headers["Content-Length"])
            while rest > 0:
                got = len(self.rfile.read(min(rest, 65536)))
                rest -= got
                size += got
        self.answer({"size": size})
    def answer(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

fn shop(island: &Island) -> Repository<'_> {
    island.shop("[ports]\napi = 8080\nweb = 3000\n", SERVER)
}

fn serve(island: &Island, workspace: &str, port: u16) {
    background(island, workspace, &format!("exec python3 server.py {port}"));
}

/// The port of previews.
fn door(island: &Island) -> u64 {
    let status = island.holm(&["daemon", "status", "--json"]).json();
    status["port"].as_u64().expect("the front door's port")
}

fn curl(island: &Island, arguments: &[&str]) -> String {
    let arguments = [&["-sS", "--max-time", "60"], arguments].concat();
    island.run(&island.home(), "curl", &arguments).ok().out()
}

/// Waits until the preview is served.
fn served(island: &Island, url: &str) {
    eventually("the preview is served", || {
        curl(island, &["-o", "/dev/null", "-w", "%{http_code}", url]) == "200"
    });
}

#[test]
fn two_workspaces_have_the_same_port_and_each_its_own_names() {
    let island = Island::new();
    let repository = shop(&island);
    let port = [("one", 3000), ("two", 3000)].map(|(label, port)| {
        let made = repository.holm(&["up", label, "--json"]).json();
        serve(&island, label, port);
        made["id"].as_str().unwrap().to_owned()
    });
    let door = door(&island);
    for (label, id) in ["one", "two"].iter().zip(&port) {
        let url = format!("http://web.{label}.localhost:{door}/");
        served(&island, &url);
        // As `show` prints it.
        let shown = island.holm(&["show", label, "--json"]).json();
        let ports = shown["ports"].as_array().unwrap();
        assert!(
            ports
                .iter()
                .any(|port| port["url"] == url.trim_end_matches('/')),
            "{shown}"
        );
        for host in [
            format!("web.{label}.localhost"),
            format!("3000.{label}.localhost"),
            format!("{label}.localhost"),
            format!("web.{id}.localhost"),
            format!("{id}.localhost"),
        ] {
            let url = format!("http://{host}:{door}/x?y=1");
            for more in [
                &["-4"][..],
                &["-6"],
                &["--http2-prior-knowledge"],
                &["--http1.0"],
            ] {
                let answer = curl(&island, &[more, &[url.as_str()]].concat());
                let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
                assert_eq!(answer["label"], *label, "{url} {more:?}");
                assert_eq!(answer["path"], "/x?y=1");
                let headers = &answer["headers"];
                assert_eq!(headers["host"], format!("{host}:{door}"), "{headers}");
                assert_eq!(headers["x-forwarded-host"], format!("{host}:{door}"));
                assert_eq!(headers["x-forwarded-proto"], "http");
            }
        }
    }
}

/// Much more each way than the daemon may grow by; a gibibyte in `make soak`.
#[test]
fn bodies_of_any_size_pass_without_being_kept() {
    let size: u64 = times(1 << 28, 1 << 30);
    let island = Island::new();
    shop(&island).up("one");
    serve(&island, "one", 3000);
    let url = format!("http://web.one.localhost:{}/", door(&island));
    served(&island, &url);
    let pid = island.daemon_pid();
    let peak = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
        kilobytes.parse::<u64>().unwrap()
    };
    let before = peak();
    let down = format!("{url}big/{size}");
    let got = curl(
        &island,
        &["-o", "/dev/null", "-w", "%{size_download}", &down],
    );
    assert_eq!(got, size.to_string());
    let upload = format!("head -c {size} /dev/zero | curl -sS --max-time 120 -T - {url}up");
    let answer = island
        .run(&island.home(), "sh", &["-c", &upload])
        .ok()
        .out();
    assert_eq!(answer, format!("{{\"size\": {size}}}"));
    let grown = peak() - before;
    assert!(grown < 64 << 10, "the daemon grew by {grown} kB");
}

#[test]
fn what_does_not_listen_or_run_or_exist_says_so() {
    let island = Island::new();
    let repository = shop(&island);
    repository.up("one");
    let url = format!("http://web.one.localhost:{}/", door(&island));
    let get = |accept: &str| curl(&island, &["-i", "-H", &format!("Accept: {accept}"), &url]);
    let waiting = get("*/*");
    assert!(waiting.starts_with("HTTP/1.1 503 "), "{waiting}");
    assert!(waiting.contains("retry-after: 1"), "{waiting}");
    assert!(get("text/html").contains("location.reload()"));
    assert!(get("application/json").contains("\"code\":\"not_listening\""));
    serve(&island, "one", 3000);
    served(&island, &url);
    island.holm(&["stop", "one"]).ok();
    eventually("the page says that it is stopped", || {
        get("*/*").contains("holm start one")
    });
    // Removed, it is no more; a new workspace of the same label is another one.
    repository.holm(&["rm", "one", "--force"]).ok();
    eventually("the name is gone", || {
        get("*/*").starts_with("HTTP/1.1 404 ")
    });
    repository.up("one");
    let new = get("*/*");
    assert!(new.starts_with("HTTP/1.1 503 "), "{new}");
}

/// Attack 101: an old address never shows the workspace that has the label now, nor the other way.
#[test]
fn attack_101_a_label_that_is_used_again_shows_the_new_workspace_and_the_id_nothing() {
    let island = Island::new();
    let repository = shop(&island);
    let old = repository.holm(&["up", "one", "--json"]).json();
    let old = old["id"].as_str().unwrap().to_owned();
    serve(&island, "one", 3000);
    let door = door(&island);
    let url = format!("http://web.one.localhost:{door}/");
    served(&island, &url);
    repository.holm(&["rm", "one", "--force"]).ok();
    repository.up("one");
    island
        .sh("one", "sed -i 's/label = .*/label = \"new\"/' server.py")
        .ok();
    serve(&island, "one", 3000);
    served(&island, &url);
    for _ in 0..20 {
        assert!(curl(&island, &[&url]).contains("\"label\": \"new\""));
    }
    let old = format!("http://web.{old}.localhost:{door}/");
    assert_eq!(
        curl(&island, &["-o", "/dev/null", "-w", "%{http_code}", &old]),
        "404"
    );
}

/// A request does not cost a connection into the workspace, for any client; and kept connections
/// end with their server.
#[test]
fn connections_inside_are_used_again_and_never_by_another_workspace_or_server() {
    let island = Island::new();
    let repository = shop(&island);
    for label in ["one", "two"] {
        repository.up(label);
    }
    let door = door(&island);
    let urls = ["one", "two"].map(|label| {
        serve(&island, label, 3000);
        let url = format!("http://web.{label}.localhost:{door}/");
        served(&island, &url);
        url
    });
    // Many times in turns, each on a new connection to the front door.
    let ask = |times: usize| -> Vec<serde_json::Value> {
        let mut arguments = vec!["-H", "Connection: close"];
        for _ in 0..times {
            arguments.extend(urls.iter().map(String::as_str));
        }
        let answers = curl(&island, &arguments);
        let answers = serde_json::Deserializer::from_str(&answers).into_iter();
        answers.collect::<Result<_, _>>().unwrap()
    };
    let answers = ask(20);
    assert_eq!(answers.len(), 40);
    for (index, label) in ["one", "two"].into_iter().enumerate() {
        let own = answers.iter().skip(index).step_by(2);
        let used: std::collections::BTreeSet<u64> = own
            .inspect(|answer| assert_eq!(answer["label"], label))
            .map(|answer| answer["connection"].as_u64().unwrap())
            .collect();
        // One is enough; a machine that is very busy may have let one go.
        assert!(used.len() < 10, "{used:?}");
    }
    let first = answers[0]["pid"].clone();
    island.sh("one", &format!("kill -9 {first}")).ok();
    eventually("nobody listens", || {
        !curl(&island, &[&urls[0]]).contains("\"label\"")
    });
    serve(&island, "one", 3000);
    served(&island, &urls[0]);
    for answer in ask(5).iter().step_by(2) {
        assert_eq!(answer["label"], "one");
        assert_ne!(answer["pid"], first);
    }
}

#[test]
fn a_new_daemon_leads_to_the_same_workspaces_at_the_same_address() {
    let island = Island::new();
    shop(&island).up("one");
    serve(&island, "one", 3000);
    let url = format!("http://web.one.localhost:{}/", door(&island));
    served(&island, &url);
    island.holm(&["daemon", "stop"]).ok();
    island.holm(&["daemon", "start"]).ok();
    served(&island, &url);
}
