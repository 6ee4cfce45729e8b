//! Clones by URL, from a real https server on loopback.

use crate::sandbox::{Sandbox, commit_all, git};
use holm_core::clone_url::CloneUrl;
use holm_git::{Cancel, Dial, GitError, Repository, origin_of};
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};

/// Serves files of the current directory; `/lead/` redirects to the rest of the path, `/plain/` to
/// http.
const SERVER: &str = r#"
import http.server, ssl
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        port = self.server.server_port
        for prefix, to in [("/lead/", "https://127.0.0.1:%d/" % port), ("/plain/", "http://127.0.0.1:%d/" % port)]:
            if self.path.startswith(prefix):
                self.send_response(302)
                self.send_header("Location", to + self.path[len(prefix):])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        super().do_GET()
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Serves the sandbox's directory, with a certificate that the user's git trusts.
    fn new(sandbox: &Sandbox) -> Self {
        let here = sandbox.path("");
        let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=git.test \
            -addext subjectAltName=DNS:git.test,IP:127.0.0.1 -keyout key.pem -out cert.pem";
        let made = Command::new("openssl")
            .args(arguments.split_ascii_whitespace())
            .current_dir(&here)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let certificate = here.join("cert.pem");
        let certificate = certificate.to_str().unwrap();
        git(&here, ["config", "--global", "http.sslCAInfo", certificate]);
        let mut child = Command::new("python3")
            .args(["-c", SERVER])
            .current_dir(&here)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Self { child, port }
    }

    fn url(&self, host: &str, path: &str) -> CloneUrl {
        CloneUrl::parse(&format!("https://{host}:{}/{path}", self.port)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

sealed_test! {
    fn a_server_is_cloned_from_and_fetched_from(sandbox: &Sandbox) {
        let source = sandbox.repository("source");
        let publish = || {
            git(&sandbox.path("x.git"), ["fetch", "--quiet", "../source", "+refs/heads/*:refs/heads/*"]);
            git(&sandbox.path("x.git"), ["update-server-info"]);
        };
        git(&sandbox.path(""), ["clone", "--quiet", "--bare", "source", "x.git"]);
        git(&sandbox.path("x.git"), ["update-server-info"]);
        let server = Server::new(sandbox);
        let url = server.url("127.0.0.1", "x.git");
        let (place, cancel) = (sandbox.path("clone"), Cancel::default());
        holm_git::clone(&url, &place, &Dial::Free, &cancel).unwrap();
        assert_eq!(origin_of(&place).unwrap().unwrap().identity(), url.identity());
        let clone = Repository::discover(&place).unwrap();
        assert_eq!(clone.url, Some(url.identity()));
        assert_eq!(clone.origin_head().as_deref(), Some("origin/main"));
        // The name means the remote's branch until the user has own commits.
        assert_eq!(clone.remote_branch("main").unwrap().as_deref(), Some("origin/main"));
        assert_eq!(clone.remote_branch("nothing").unwrap(), None);

        let newest = commit_all(&source, "moved");
        publish();
        let head = clone.fetch_origin(&url, &Dial::Free, &cancel).unwrap();
        assert_eq!(head.as_deref(), Some("origin/main"));
        assert_eq!(clone.resolve("origin/main").unwrap().commit, newest);
        assert_eq!(clone.remote_branch("main").unwrap().as_deref(), Some("origin/main"));
        commit_all(&place, "the user's own");
        assert_eq!(clone.remote_branch("main").unwrap(), None);

        // What cannot be read says why, and nothing is left.
        let missing = server.url("127.0.0.1", "nothing.git");
        let place = sandbox.path("nothing");
        let error = holm_git::clone(&missing, &place, &Dial::Free, &cancel).unwrap_err();
        let GitError::Remote { url, detail } = &error else {
            panic!("{error}");
        };
        assert_eq!(*url, missing.to_string());
        assert!(detail.contains("not found"), "{detail}");
        assert!(!place.exists());
    }
}

sealed_test! {
    fn attack_82_no_redirect_chooses_what_a_program_reaches(sandbox: &Sandbox) {
        sandbox.repository("source");
        git(&sandbox.path(""), ["clone", "--quiet", "--bare", "source", "x.git"]);
        git(&sandbox.path("x.git"), ["update-server-info"]);
        let server = Server::new(sandbox);
        let checked: Vec<IpAddr> = vec!["127.0.0.1".parse().unwrap()];
        let mut number = 0;
        let mut try_it = |url: &CloneUrl, dial: &Dial| {
            number += 1;
            let place = sandbox.path(format!("clone-{number}"));
            holm_git::clone(url, &place, dial, &Cancel::default()).map_err(|error| error.to_string())
        };
        // The name has only the checked address, where a server listens or not.
        let only = Dial::Only(checked);
        try_it(&server.url("git.test", "x.git"), &only).unwrap();
        let nowhere = Dial::Only(vec!["127.0.0.9".parse().unwrap()]);
        let refused = try_it(&server.url("git.test", "x.git"), &nowhere).unwrap_err();
        assert!(refused.contains("connect"), "{refused}");
        let refused = try_it(&server.url("git.test", "lead/x.git"), &only).unwrap_err();
        assert!(refused.contains("302"), "{refused}");
        // The counterpart: a person's git follows the server.
        try_it(&server.url("127.0.0.1", "lead/x.git"), &Dial::Free).unwrap();
        // But not out of https.
        let refused = try_it(&server.url("127.0.0.1", "plain/x.git"), &Dial::Free).unwrap_err();
        assert!(refused.contains("http"), "{refused}");
    }
}
