//! An internet for a test: a machine in a separate namespace, on which holm runs, and hosts in
//! another one, with a name server. Made by root; no traffic leaves the two namespaces.

use super::user::{ids, is_root};
use super::{Island, Running};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const SERVERS: &str = include_str!("outside.py");

/// The link between the two, and what the internet has. 203.0.113.2 is the machine itself.
const MACHINE: &str = "\
    ip link set lo up && ip link set m0 up && ip addr add 203.0.113.2/24 dev m0 && \
    ip -6 addr add 2001:db8:1::2/64 dev m0 nodad && ip route add default via 203.0.113.1 && \
    ip -6 route add default via 2001:db8:1::1";
const INTERNET: &str = "\
    ip link set lo up && ip link set i0 up && ip addr add 203.0.113.1/24 dev i0 && \
    ip -6 addr add 2001:db8:1::1/64 dev i0 nodad && \
    for a in 192.0.2.10 192.0.2.20 198.51.100.10 10.9.9.9 169.254.169.254 100.100.100.200 \
        168.63.129.16 172.16.9.9 192.168.9.9 100.64.9.9; do ip addr add $a/32 dev lo || exit 1; done && \
    for a in 2001:db8::10 2001:db8::20 fd00:9::9 fd00:ec2::254 64:ff9b::a09:909; do \
        ip -6 addr add $a/128 dev lo nodad || exit 1; done";

pub struct World {
    island: Island,
    /// Holds the machine's namespaces.
    machine: Child,
    internet: Child,
    log: PathBuf,
    served: PathBuf,
}

// === impl World ===

impl World {
    /// `None` when the tests are not run by root: the test was skipped.
    pub fn new() -> Option<Self> {
        Self::without("")
    }

    /// With defences switched off, as in [`Island::without`].
    pub fn without(defences: &str) -> Option<Self> {
        Self::make(Island::without(defences), |_| None)
    }

    /// With TLS at port 443, for the names of [`certificates`]; the machine believes the authority
    /// of all but `untrusted.test`.
    pub fn with_tls() -> Option<Self> {
        Self::make(Island::new(), |island| Some(certificates(island)))
    }

    /// The same, also for these names. They lead to the test's own servers.
    pub fn with_names(names: &[String]) -> Option<Self> {
        Self::make(Island::new(), |island| {
            let place = certificates(island);
            let script = "cd \"$1\"; shift; for name; do openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 \
                 -nodes -days 30 -batch -CA good.crt -CAkey good.key -subj /CN=x -addext subjectAltName=DNS:$name \
                 -addext basicConstraints=critical,CA:FALSE -keyout key -out crt 2>/dev/null || exit 1; \
                 cat crt key > $name.pem; chmod 644 $name.pem; done".to_string();
            let mut command = Command::new("sh");
            let made = command
                .args(["-c", &script, "sh"])
                .arg(&place)
                .args(names)
                .output();
            assert!(made.unwrap().status.success());
            Some(place)
        })
    }

    fn make(mut island: Island, tls: impl FnOnce(&Island) -> Option<PathBuf>) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let (uid, gid) = ids()?;
        let served = island.make_dir("served");
        let log = island.write("world.log", "");
        let tls = tls(&island);
        let machine = hold(
            Command::new("unshare")
                .args(["--net", "--mount", "--", "sh", "-c"])
                .arg(
                    "mount --bind \"$1\" \"$(readlink -f /etc/resolv.conf)\" && \
                     { [ -z \"$2\" ] || mount --bind \"$2/roots\" /etc/ssl/certs/ca-certificates.crt; } && \
                     echo ready && exec cat",
                )
                .arg("sh")
                .arg(island.write("resolv.conf", "nameserver 203.0.113.1\noptions timeout:2\n"))
                .args(&tls),
        );
        let internet = hold(
            Command::new("unshare")
                .args(["--net", "--", "sh", "-c"])
                .arg("echo 0 > /proc/sys/net/ipv6/bindv6only; exec /usr/bin/python3 -c \"$@\"")
                .args(["sh", SERVERS])
                .arg(&served)
                .arg(&log)
                .args(&tls),
        );
        let (near, far) = (machine.id().to_string(), internet.id().to_string());
        let link = format!(
            "ip link add name m0 netns {near} type veth peer name i0 netns {far} && \
             nsenter -t {near} -n sh -c '{MACHINE}' && nsenter -t {far} -n sh -c '{INTERNET}'"
        );
        let made = Command::new("sh").args(["-c", &link]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        island.enter_by(vec![
            "nsenter".to_owned(),
            format!("--net=/proc/{near}/ns/net"),
            format!("--mount=/proc/{near}/ns/mnt"),
            "--".to_owned(),
            "setpriv".to_owned(),
            format!("--reuid={uid}"),
            format!("--regid={gid}"),
            "--clear-groups".to_owned(),
            "--".to_owned(),
        ]);
        Some(Self {
            island,
            machine,
            internet,
            log,
            served,
        })
    }

    pub fn island(&self) -> &Island {
        &self.island
    }

    /// What the web servers serve below `/repo`.
    pub fn served(&self) -> PathBuf {
        self.served.clone()
    }

    /// What the servers of the internet saw, line by line.
    pub fn seen(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// How many recorded lines contain this text.
    pub fn count(&self, text: &str) -> usize {
        self.seen()
            .iter()
            .filter(|line| line.contains(text))
            .count()
    }

    /// A workspace of a project with this `holm.toml`, approved.
    #[track_caller]
    pub fn up(&self, label: &str, holm_toml: &str) {
        let repository = self.island.repository(&format!("p-{label}"));
        repository.write("holm.toml", holm_toml);
        repository.commit("configure");
        repository.holm(&["trust", "--yes"]).ok();
        repository.holm(&["up", label]).ok();
    }

    /// A command of the machine itself, started by root in the machine's network.
    pub fn on_machine(&self, argv: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let net = format!("--net=/proc/{}/ns/net", self.machine.id());
        command.args([net.as_str(), "--"]).args(argv);
        command
    }

    /// A service of the machine on port 8099 of all its addresses.
    pub fn host_service(&self) -> Running {
        let server = "import http.server, socket\n\
            class S(http.server.ThreadingHTTPServer): address_family = socket.AF_INET6\n\
            s = S(('::', 8099), http.server.SimpleHTTPRequestHandler)\n\
            print('ready', flush=True); s.serve_forever()";
        let mut command = self.on_machine(&["/usr/bin/python3", "-c", server]);
        let mut service = Running::new(command.stderr(Stdio::null()));
        service.says("ready");
        service
    }

    /// The record of a workspace.
    #[track_caller]
    pub fn record(&self, workspace: &str) -> Vec<serde_json::Value> {
        let list = self.island.holm(&["egress", workspace, "--json"]).json();
        list["egress"].as_array().expect("a list").clone()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.island.end();
        for child in [&mut self.machine, &mut self.internet] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Certificates by name, and `roots`, which the machine trusts: `untrusted.test` is signed by
/// another CA, and `wrong.test` has a certificate for another name.
fn certificates(island: &Island) -> PathBuf {
    let place = island.make_dir("certificates");
    let script = "set -e; cd \"$1\"\n\
        new() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -batch \"$@\" 2>/dev/null; }\n\
        for ca in good bad; do new -subj /CN=$ca -keyout $ca.key -out $ca.crt; done\n\
        leaf() { new -CA $2.crt -CAkey $2.key -subj /CN=$3 -addext subjectAltName=DNS:$3 \
            -addext basicConstraints=critical,CA:FALSE -keyout $1.key -out $1.crt; cat $1.crt $1.key > $1.pem; }\n\
        for name in api.test other.test web.test; do leaf $name good $name; done\n\
        leaf untrusted.test bad untrusted.test; leaf wrong.test good other.test\n\
        cp good.crt roots; chmod 755 .; chmod 644 *";
    let path = place.to_str().unwrap();
    let made = Command::new("sh").args(["-c", script, "sh", path]).output();
    let made = made.unwrap();
    assert!(made.status.success(), "{made:?}");
    place
}

/// Starts what says `ready` and then stays until its input ends.
fn hold(command: &mut Command) -> Child {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}
