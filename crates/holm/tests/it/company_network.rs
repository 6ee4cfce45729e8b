//! A workspace on a machine whose network has a proxy and a CA of its own: `[network]` of the user's settings. With
//! real installers, and a real proxy and CA of the test.

use crate::support::{Ran, Running, World, eventually, skipped};
use std::process::Stdio;

/// Connects to the test's web servers, whatever name is asked for, after a password. Each request is a line.
const PROXY: &str = r#"
import base64, socket, socketserver, sys, threading
log, known = sys.argv[1], base64.b64encode(b"me:p@ss").decode()

def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass

class Proxy(socketserver.StreamRequestHandler):
    rbufsize = 0
    def handle(self):
        lines = []
        while line := self.rfile.readline().strip().decode():
            lines.append(line)
        with open(log, "a") as file:
            file.write(lines[0] + "\n")
        if "Proxy-Authorization: Basic " + known not in lines:
            return self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        port = int(lines[0].split()[1].rpartition(":")[2])
        far = socket.create_connection(("192.0.2.10", port))
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        threading.Thread(target=copy, args=(far, self.connection), daemon=True).start()
        copy(self.connection, far)

class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = daemon_threads = True

server = Server(("127.0.0.1", 3128), Proxy)
print("ready", flush=True)
server.serve_forever()
"#;

const HOLM: &str = r#"
[project]
setup = ["npm ci --no-audit --no-fund"]
setup_files = ["~/.npmrc"]
[egress]
mode = "allow"
allow = ["untrusted.test", "web.test", "only-there.test", "private.test"]
"#;

const LOCK: &str = r#"{ "name": "shop", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
    "": { "name": "shop", "version": "1.0.0", "dependencies": { "dep": "1.0.0" } },
    "node_modules/dep": { "version": "1.0.0", "resolved": "https://untrusted.test/repo/dep-1.0.0.tgz" } } }"#;

/// A package of each kind, served by the test's hosts, whose certificates are of the company's CA.
const PACKAGES: &str = r#"
import io, sys, tarfile, zipfile
served = sys.argv[1]
with tarfile.open(served + "/repo/dep-1.0.0.tgz", "w:gz") as archive:
    for name, text in [("package.json", '{"name": "dep", "version": "1.0.0"}'), ("index.js", "module.exports = 41\n")]:
        entry = tarfile.TarInfo("package/" + name)
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
with zipfile.ZipFile(served + "/repo/wheel-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("wheel_of_test.py", "answer = 41\n")
    info = "wheel-1.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: wheel\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "")
"#;

struct Company {
    world: World,
    _proxy: Running,
}

impl Company {
    fn new() -> Option<Self> {
        let Some(world) = World::with_tls() else {
            skipped("only root can make a network with hosts");
            return None;
        };
        let island = world.island();
        let log = island.write("proxy.log", "");
        let mut command = world.on_machine(&["/usr/bin/python3", "-c", PROXY]);
        let mut proxy = Running::new(command.arg(log).stderr(Stdio::null()));
        proxy.says("ready");
        let authority = std::fs::read(island.home().parent().unwrap().join("certificates/bad.crt"));
        island.write("home/company.pem", authority.unwrap());
        island.write("home/.npmrc", "//untrusted.test/repo/:_auth=bWU6eA==\n");
        island.make_dir("served/repo");
        let served = world.served().display().to_string();
        island
            .run(
                &island.home(),
                "/usr/bin/python3",
                &["-c", PACKAGES, &served],
            )
            .ok();
        Some(Self {
            world,
            _proxy: proxy,
        })
    }

    fn configure(&self, network: &str) {
        let island = self.world.island();
        island.make_dir("holm");
        island.make_dir("holm/config");
        let text = format!("[home]\ncopy = [\"~/.npmrc\"]\n[network]\n{network}");
        island.write("holm/config/config.toml", text);
    }

    /// What the proxy was asked for.
    fn asked(&self, destination: &str) -> bool {
        let log = self
            .world
            .island()
            .home()
            .parent()
            .unwrap()
            .join("proxy.log");
        let log = std::fs::read_to_string(log).unwrap();
        log.contains(&format!("CONNECT {destination} "))
    }
}

const NETWORK: &str = "proxy = \"http://me:p%40ss@127.0.0.1:3128\"\n\
    no_proxy = [\"web.test\"]\nca = [\"~/company.pem\"]\n";

#[test]
fn installers_work_behind_a_proxy_with_a_ca_of_its_own() {
    let Some(company) = Company::new() else {
        return;
    };
    company.configure(NETWORK);
    let island = company.world.island();
    let repository = island.repository("shop");
    repository.write("holm.toml", HOLM);
    let manifest = r#"{ "name": "shop", "version": "1.0.0", "dependencies": { "dep": "1.0.0" } }"#;
    repository.write("package.json", manifest);
    repository.write("package-lock.json", LOCK);
    repository.write(".gitignore", "node_modules\n");
    repository.commit("a package of the company");
    repository.holm(&["trust", "--yes"]).ok();
    repository.holm(&["up", "x"]).ok();
    let sh = |script: &str| island.sh("x", script).ok().out();
    assert_eq!(sh("node -p \"require('dep') + 1\""), "42");
    assert!(company.asked("untrusted.test:443"));

    let source = island.repository("source");
    let bare = company
        .world
        .served()
        .join("repo.git")
        .display()
        .to_string();
    source.git(&["clone", "-q", "--bare", ".", &bare]);
    source.git(&["-C", &bare, "update-server-info"]);
    let clone = "cd /tmp && git clone -q https://me:x@untrusted.test/repo.git c && cat c/README.md";
    assert_eq!(sh(clone), "# hello");
    let pip = "/usr/bin/python3 -m pip install -q --no-deps --target /tmp/p \
        https://me:x@untrusted.test/repo/wheel-1.0-py3-none-any.whl 2>/tmp/pip.log || cat /tmp/pip.log; \
        PYTHONPATH=/tmp/p /usr/bin/python3 -c 'import wheel_of_test; print(wheel_of_test.answer)'";
    assert_eq!(sh(pip), "41");
    // A name that only the proxy knows, and one that is reached directly.
    assert_eq!(
        sh("curl -sS http://only-there.test/a"),
        "192.0.2.10 says /a"
    );
    assert_eq!(sh("curl -4 -sS http://web.test/b"), "192.0.2.10 says /b");
    assert!(company.asked("only-there.test:80"));
    assert!(!company.asked("web.test:80"));
    // `[egress]` decides first, and what this machine knows of a name counts.
    for name in ["evil.test", "private.test", "unknown.test"] {
        let refused = island.sh("x", &format!("curl -sS -m 20 http://{name}/"));
        assert_ne!(refused.code, Some(0), "{name}: {refused:?}");
        assert!(!company.asked(&format!("{name}:80")), "{name}");
    }
    refusals_are_explained(&company);
    variables_are_given_by_the_project_only(&company);
}

/// `HTTP_PROXY` of the user's shell stays outside. In `[env]` it makes programs dial the proxy, which the gateway
/// allows by its address.
fn variables_are_given_by_the_project_only(company: &Company) {
    let island = company.world.island();
    company.configure("");
    let repository = island.repository("other");
    let holm = |allow: &str| {
        format!(
            "[env]\nhttp_proxy = \"http://10.9.9.9:80\"\n[egress]\nmode = \"allow\"\nallow = [\"{allow}\"]\n"
        )
    };
    for (label, allow) in [("open", "10.9.9.9:80"), ("closed", "web.test")] {
        repository.write("holm.toml", holm(allow));
        repository.commit(label);
        repository.holm(&["trust", "--yes"]).ok();
        let mut up = island.holm_command(&repository.path, &["up", label]);
        let proxy = "http://outside.test:3128";
        Ran::new(up.env("HTTPS_PROXY", proxy).env("ALL_PROXY", proxy)).ok();
    }
    let variables = island.sh("open", "env | grep -i proxy").ok().out();
    assert_eq!(variables, "http_proxy=http://10.9.9.9:80");
    let said = island.sh("open", "curl -sS -m 20 http://anything.test/z");
    assert_eq!(said.ok().out(), "10.9.9.9 says http://anything.test/z");
    let refused = island.sh("closed", "curl -sS -m 20 http://anything.test/z");
    assert_ne!(refused.code, Some(0), "{refused:?}");
}

/// The same workspace with other settings, which count from its next start on.
fn refusals_are_explained(company: &Company) {
    let island = company.world.island();
    company.configure("proxy = \"http://127.0.0.1:3128\"\n");
    island.holm(&["restart", "x"]).ok();
    let failed = |name: &str| {
        let ran = island.sh("x", &format!("curl -sS -m 20 https://{name}/"));
        assert_ne!(ran.code, Some(0), "{ran:?}");
        ran.stderr
    };
    failed("untrusted.test");
    eventually("the record says why", || {
        let record = company.world.record("x");
        record
            .iter()
            .any(|entry| entry.to_string().contains("answered 407"))
    });
    // Without the company's CA, its certificates are not believed.
    company.configure("proxy = \"http://me:p%40ss@127.0.0.1:3128\"\n");
    island.holm(&["restart", "x"]).ok();
    let words = failed("untrusted.test");
    assert!(words.contains("certificate"), "{words}");
    // A file that is missing or has no certificate is an error that names it.
    island.write("home/empty.pem", "nothing\n");
    for file in ["~/empty.pem", "~/missing.pem"] {
        company.configure(&format!("ca = [\"{file}\"]\n"));
        let error: Ran = island.holm(&["restart", "x", "--json"]);
        let error = error.error(2);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(file.trim_start_matches('~')), "{message}");
    }
}
