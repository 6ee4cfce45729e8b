//! Real browsers: Chromium, steered over its DevTools, and Firefox, steered by WebDriver BiDi.

use super::{Island, eventually};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::Duration;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

/// A browser without holm's doing: previews in it are what a user's own browser shows.
pub struct Chromium {
    child: Child,
    devtools: String,
}

/// One page.
pub struct Tab(Steered);

/// The first page of a Firefox.
pub struct FirefoxTab {
    steered: Steered,
    context: Value,
}

/// A connection on which questions are answered; both browsers speak alike so far.
struct Steered {
    socket: WebSocket<TcpStream>,
    last: u64,
}

// === impl Chromium ===

impl Chromium {
    pub fn new(island: &Island) -> Self {
        let profile = island.make_dir("chromium");
        let mut command = island.command("chromium", &island.home());
        command
            .arg(format!("--user-data-dir={}", profile.display()))
            .args([
                "--headless=new",
                "--remote-debugging-port=0",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--disable-gpu"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let child = command.spawn().expect("chromium");
        let mut said = String::new();
        eventually("chromium says where it listens", || {
            said = std::fs::read_to_string(profile.join("DevToolsActivePort")).unwrap_or_default();
            said.lines().count() == 2
        });
        let mut lines = said.lines();
        let (port, path) = (lines.next().unwrap(), lines.next().unwrap());
        let devtools = format!("ws://127.0.0.1:{port}{path}");
        Self { child, devtools }
    }

    pub fn tab(&self, island: &Island, url: &str) -> Tab {
        Tab::open(island, &self.devtools, url)
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

// === impl Tab ===

impl Tab {
    /// A new page of the browser at this DevTools address, when it has loaded.
    pub fn open(island: &Island, devtools: &str, url: &str) -> Self {
        let host = devtools.split('/').nth(2).expect("a host");
        let new = format!("http://{host}/json/new?about:blank");
        let made = island
            .run(&island.home(), "curl", &["-s", "-X", "PUT", &new])
            .json();
        let address = made["webSocketDebuggerUrl"].as_str().expect("an address");
        let mut tab = Self(Steered::connect(address));
        tab.go(url);
        tab
    }

    /// Opens the page and waits until something is shown.
    pub fn go(&mut self, url: &str) {
        self.ask("Page.navigate", json!({ "url": url }));
        eventually("the page has loaded", || {
            self.evaluate("document.readyState + location.protocol") == "completehttp:"
        });
    }

    /// The value of an expression; promises are awaited. An exception is a text, `Error: …`.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let answer = self.ask("Runtime.evaluate", parameters);
        match answer["result"].get("exceptionDetails") {
            Some(thrown) => thrown["exception"]["description"].clone(),
            None => answer["result"]["result"]["value"].clone(),
        }
    }

    /// Waits until an expression has this value.
    #[track_caller]
    pub fn shows(&mut self, expression: &str, expected: &str) {
        let mut last = Value::Null;
        let deadline = std::time::Instant::now() + Duration::from_secs(90);
        while std::time::Instant::now() < deadline {
            last = self.evaluate(expression);
            if last == expected {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        panic!("{expression} is {last} and not {expected}");
    }

    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.0.ask(method, parameters)
    }
}

// === impl FirefoxTab ===

impl FirefoxTab {
    /// Of the Firefox that can be steered at this address.
    pub fn of(address: &str) -> Self {
        let mut steered = Steered::connect(address);
        steered.ask("session.new", json!({ "capabilities": {} }));
        let tree = steered.ask("browsingContext.getTree", json!({}));
        let context = tree["result"]["contexts"][0]["context"].clone();
        assert!(context.is_string(), "{tree}");
        Self { steered, context }
    }

    /// Opens the page and waits until it has loaded, or failed.
    pub fn go(&mut self, url: &str) -> Value {
        let parameters = json!({ "context": self.context, "url": url, "wait": "complete" });
        self.steered.ask("browsingContext.navigate", parameters)
    }

    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({
            "expression": expression, "awaitPromise": true, "target": { "context": self.context },
        });
        let answer = self.steered.ask("script.evaluate", parameters);
        answer["result"]["result"]["value"].clone()
    }
}

// === impl Steered ===

impl Steered {
    fn connect(address: &str) -> Self {
        let host = address.split('/').nth(2).expect("a host");
        let stream = TcpStream::connect(host).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(90)))
            .unwrap();
        let (socket, _) = client(address, stream).unwrap();
        Self { socket, last: 0 }
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let question = json!({ "id": self.last, "method": method, "params": parameters });
        self.socket
            .send(Message::text(question.to_string()))
            .unwrap();
        loop {
            let message = self.socket.read().unwrap();
            let answer: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
            if answer["id"] == self.last {
                return answer;
            }
        }
    }
}
