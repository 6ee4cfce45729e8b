//! Real programs through previews: git, gRPC, a dev server with hot reload.

use crate::support::{Chromium, Island, background, eventually};
use std::path::Path;

fn door(island: &Island) -> u64 {
    let status = island.holm(&["daemon", "status", "--json"]).json();
    status["port"].as_u64().expect("the front door's port")
}

/// Waits until something answers there.
fn answers(island: &Island, url: &str) {
    eventually("somebody answers", || {
        let curl = ["-sS", "-o", "/dev/null", "-w", "%{http_code}", url];
        !matches!(
            island.run(&island.home(), "curl", &curl).out().as_str(),
            "503" | "404"
        )
    });
}

#[test]
fn git_clones_through_a_preview() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("code.txt", "some code\n".repeat(10_000));
    repository.commit("code");
    let commit = repository.head();
    repository.up("one");
    let serve = "git clone -q --bare file://$PWD /tmp/repositories/shop.git && cd /tmp/repositories/shop.git \
        && git update-server-info && cd .. && exec python3 -m http.server 3000";
    background(&island, "one", &format!("sh -c '{serve}'"));
    let url = format!("http://3000.one.localhost:{}/shop.git", door(&island));
    answers(&island, &format!("{url}/HEAD"));
    // git uses the C library's resolver, which does not know these names everywhere.
    let resolve = format!(
        "http.curloptResolve=+3000.one.localhost:{}:127.0.0.1",
        door(&island)
    );
    let home = island.home();
    island
        .run(&home, "git", &["-c", &resolve, "clone", "-q", &url, "copy"])
        .ok();
    let copied = island
        .run(&home.join("copy"), "git", &["rev-parse", "HEAD"])
        .ok()
        .out();
    assert_eq!(copied, commit);
}

const ECHO_SERVER: &str = r#"
import grpc
from concurrent import futures
def echo(request, context):
    context.set_trailing_metadata((("said", request.decode()),))
    return request
def count(request, context):
    for index in range(int(request)):
        yield str(index).encode()
def upper(requests, context):
    for request in requests:
        yield request.upper()
handlers = {
    "Echo": grpc.unary_unary_rpc_method_handler(echo),
    "Count": grpc.unary_stream_rpc_method_handler(count),
    "Upper": grpc.stream_stream_rpc_method_handler(upper),
}
server = grpc.server(futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Test", handlers),))
server.add_insecure_port("127.0.0.1:50051")
server.start()
server.wait_for_termination()
"#;

const ECHO_CLIENT: &str = r#"
import grpc, sys
door, authority = sys.argv[1], sys.argv[2]
channel = grpc.insecure_channel("127.0.0.1:" + door, options=[("grpc.default_authority", authority)])
answer, call = channel.unary_unary("/Test/Echo").with_call(b"hello", timeout=60)
print(answer.decode(), dict(call.trailing_metadata())["said"])
print(b" ".join(channel.unary_stream("/Test/Count")(b"5", timeout=60)).decode())
# Each answer is waited for before the next question: nothing on the way waits for more.
def questions():
    for word in (b"a", b"b", b"c"):
        yield word
        heard.get(timeout=60)
import queue
heard = queue.Queue()
for answer in channel.stream_stream("/Test/Upper")(questions(), timeout=60):
    print(answer.decode())
    heard.put(answer)
try:
    channel.unary_unary("/Test/Nothing")(b"", timeout=60)
except grpc.RpcError as error:
    print(error.code())
"#;

#[test]
fn grpc_passes_with_streams_and_trailers() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[ports]\ngrpc = 50051\n");
    repository.write("echo.py", ECHO_SERVER);
    repository.commit("a server");
    repository.up("one");
    background(&island, "one", "exec /usr/bin/python3 echo.py");
    eventually("the server listens", || {
        island.holm(&["show", "one", "--json"]).json()["ports"][0]["listening"] == true
    });
    let door = door(&island).to_string();
    let authority = format!("grpc.one.localhost:{door}");
    let client = ["-c", ECHO_CLIENT, &door, &authority];
    let said = island
        .run(&island.home(), "/usr/bin/python3", &client)
        .ok()
        .out();
    let expect = "hello hello\n0 1 2 3 4\nA\nB\nC\nStatusCode.UNIMPLEMENTED";
    assert_eq!(said, expect);
}

/// Vite serves a page, and a change inside appears without a reload.
#[test]
fn a_dev_server_replaces_modules_in_a_browser() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[ports]\nweb = 3000\n");
    let page = "<!doctype html><body><p id=said></p><script type=module src=/main.js></script>";
    repository.write("index.html", page);
    let module = "import { word } from './word.js';\n\
        const show = (word) => { document.getElementById('said').textContent = word; };\n\
        show(word);\nimport.meta.hot.accept('./word.js', (changed) => show(changed.word));\n";
    repository.write("main.js", module);
    repository.write("word.js", "export const word = 'first';\n");
    repository.commit("a page");
    for label in ["one", "two"] {
        repository.up(label);
        background(
            &island,
            label,
            "exec vite --host 127.0.0.1 --port 3000 --strictPort",
        );
    }
    let url = |label: &str| format!("http://web.{label}.localhost:{}/", door(&island));
    answers(&island, &url("one"));
    answers(&island, &url("two"));
    let browser = Chromium::new(&island);
    let mut tabs = ["one", "two"].map(|label| browser.tab(&island, &url(label)));
    for tab in &mut tabs {
        tab.shows("document.getElementById('said').textContent", "first");
        tab.evaluate("window.kept = 'kept'");
    }
    // The connection for changes is a WebSocket through the front door; the change must be made
    // when it is open, which Vite prints in its console and the page cannot see, so it is repeated
    // until it appears.
    let [first, second] = &mut tabs;
    eventually("the module is replaced", || {
        let change = "echo \"export const word = 'second'; // $(date +%N)\" > word.js";
        island.sh("one", change).ok();
        first.evaluate("document.getElementById('said').textContent") == "second"
    });
    assert_eq!(first.evaluate("window.kept"), "kept", "it was not reloaded");
    assert_eq!(
        second.evaluate("document.getElementById('said').textContent"),
        "first"
    );
    assert!(Path::new("/usr/bin/vite").exists());
}
