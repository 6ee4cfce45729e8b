//! Attack 187: one workspace takes everything of a resource that the kernel counts per user, so
//! that its siblings, new workspaces, holm and the user's own programs get none.
//!
//! The kernel would count this test together with all others of the same user. So each of these
//! resources is taken below limits that are far lower than those of the other tests: they are not
//! exhausted there.

use crate::support::{Island, Ran, Running, eventually};
use serde_json::{Value, json};

/// Takes up to as many of each as its argument says, prints how many there were and why there were no
/// more, and keeps them until its stdin ends.
const TAKE: &str = r#"
import array, ctypes, errno, json, os, resource, socket, sys, tempfile, time
libc = ctypes.CDLL(None, use_errno=True)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
def call(function, *arguments):
    answer = function(*arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), "")
    return answer
def take(one):
    count = 0
    try:
        while count < int(sys.argv[1]):
            one(count)
            count += 1
        return [count, "ok"]
    except OSError as error:
        return [count, errno.errorcode[error.errno]]
left, right = socket.socketpair()
left.setblocking(False)
place = tempfile.mkdtemp()
def in_flight(_):
    # Descriptors that other tests pass at the same moment count, too. So only a refusal that lasts is one.
    for left_over in reversed(range(50)):
        try:
            return left.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 5))])
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS or not left_over:
                raise
        time.sleep(0.01)
def signals(_):
    call(libc.timer_create, 1, None, ctypes.byref(ctypes.c_void_p()))
def queues(number):
    name = b"/holm-it-%d-%d" % (os.getpid(), number)
    call(libc.mq_open, name, os.O_CREAT | os.O_RDWR, 0o600, None)
    libc.mq_unlink(name)
def instances(_):
    call(libc.inotify_init1, 0)
def watches(number):
    path = f"{place}/{number}"
    open(path, "w").close()
    call(libc.inotify_add_watch, watcher, path.encode(), 2)
taken = {}
if len(sys.argv) == 2:
    taken["signals"], taken["queues"] = take(signals), take(queues)
    watcher = libc.inotify_init1(0)
    taken["watches"] = take(watches)
    taken["instances"] = take(instances)
taken["in_flight"] = take(in_flight)
print(json.dumps(taken), flush=True)
sys.stdin.read()
"#;

/// Runs holm below low limits while a workspace, and later a program of the host, takes everything.
/// Reports the results in JSON.
const DRIVE: &str = r#"
import json, os, resource, subprocess, sys, time, urllib.request
take = ["/usr/bin/python3", "take.py"]
holm = ["setpriv", "--inh-caps=-all", "--ambient-caps=-all", "--", os.environ["HOLM_PROGRAM"]]
def ran(argv, text=""):
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=300)
    return {"code": done.returncode, "out": done.stdout.strip(), "error": done.stderr.strip()}
def shown(label):
    return json.loads(ran(holm + ["show", label, "--json"])["out"])
def until(condition):
    deadline = time.monotonic() + 120
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
def held(argv):
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
# More than holm may have open, less than the other tests.
of_host = held(["prlimit", "--nofile=900", "sh", "-c", "read word; exec python3 take.py 100000 in_flight"])
for name, most in [("NOFILE", 600), ("SIGPENDING", 200), ("MSGQUEUE", 400000)]:
    resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))
for name, most in [("instances", 16), ("watches", 400)]:
    with open("/proc/sys/user/max_inotify_" + name, "w") as file:
        file.write(str(most))
said = {}
for label in ("greedy", "sibling"):
    assert ran(holm + ["up", label])["code"] == 0
greedy = held(holm + ["exec", "greedy", "--"] + take + ["100000"])
said["greedy"] = json.loads(greedy.stdout.readline())
said["sibling"] = ran(holm + ["exec", "sibling", "--"] + take + ["1"])
said["up"] = ran(holm + ["up", "new"])
said["host"] = ran(take + ["1"])
found = until(lambda: (found := shown("greedy"))["reason"] == "limit" and found) or shown("greedy")
said["reason"], said["reached"] = found["reason"], found["isolation"]["limits_reached"]
greedy.stdin.close()
greedy.wait()
said["afterwards"] = until(lambda: shown("greedy")["reason"] is None)
# And when no program of the user's may send any: neither init, nor the keeper, nor the launcher.
of_host.stdin.write("go\n")
of_host.stdin.flush()
said["of_host"] = json.loads(of_host.stdout.readline())
script = "cat; echo aside >&2; exit 3"
said["none: exec"] = ran(holm + ["exec", "sibling", "--", "sh", "-c", script], "word")
said["none: up"] = ran(holm + ["up", "late"])
server = ["python3", "-m", "http.server", "3000", "--bind", "127.0.0.1"]
said["none: session"] = ran(holm + ["session", "new", "sibling", "--detach", "--"] + server)
def answered():
    ports = json.loads(ran(holm + ["ports", "sibling", "--json"])["out"])["ports"]
    ports = [port["host_port"] for port in ports if port["port"] == 3000 and port["host_port"]]
    try:
        return ports and urllib.request.urlopen(f"http://127.0.0.1:{ports[0]}/", timeout=60).status
    except OSError:
        return None
if said["none: session"]["code"] == 0:
    said["none: port"] = until(answered)
of_host.stdin.close()
of_host.wait()
ran(holm + ["daemon", "stop", "--all"])
print(json.dumps(said))
"#;

fn driven(without: &str) -> Value {
    let island = Island::without(without);
    let repository = island.repository("shop");
    repository.write("take.py", TAKE);
    repository.commit("take");
    let drive = island.write("home/drive.py", DRIVE);
    let script = format!("exec /usr/bin/python3 {}", drive.display());
    island.elsewhere(&repository.path, &script).json()
}

/// What a separate program got when it asked for one of each.
fn got(ran: &Value) -> Value {
    serde_json::from_str(ran["out"].as_str().unwrap()).unwrap_or(Value::Null)
}

/// One test, because both halves use up what the kernel counts for their common user.
#[test]
fn attack_187_one_workspace_starves_nobody() {
    let said = driven("");
    let greedy = &said["greedy"];
    // The ordinary errors report it, at a quarter of the resource.
    assert_eq!(greedy["signals"], json!([50, "EAGAIN"]), "{said:#}");
    assert_eq!(greedy["queues"], json!([1, "EMFILE"]));
    assert_eq!(greedy["watches"], json!([100, "ENOSPC"]));
    assert_eq!(
        greedy["instances"],
        json!([3, "EMFILE"]),
        "and one for the watches"
    );
    // At half for descriptors in flight: 300, and up to five more of the last message.
    let in_flight = &greedy["in_flight"];
    assert_eq!(in_flight[1], "ETOOMANYREFS");
    assert!(in_flight[0].as_u64().unwrap() <= 61, "{in_flight}");
    // The others get theirs.
    assert_eq!(said["sibling"]["code"], 0, "{said:#}");
    let one = json!([1, "ok"]);
    for kind in ["signals", "queues", "watches", "instances", "in_flight"] {
        assert_eq!(got(&said["host"])[kind], one, "{kind}: {said:#}");
        // A program with as few open files as the greedy one can be blocked by it.
        let expect = if kind == "in_flight" {
            json!([0, "ETOOMANYREFS"])
        } else {
            one.clone()
        };
        assert_eq!(got(&said["sibling"])[kind], expect, "{kind}: {said:#}");
    }
    assert_eq!(said["up"]["code"], 0, "{said:#}");
    assert_eq!(said["reason"], "limit");
    let reached = [
        "descriptors_in_flight",
        "inotify_instances",
        "message_queues",
        "pending_signals",
    ];
    assert_eq!(said["reached"], json!(reached));
    assert_eq!(said["afterwards"], true);

    // Where no descriptor can be sent, everything continues without.
    assert_eq!(said["of_host"]["in_flight"][1], "ETOOMANYREFS");
    let exec = json!({"code": 3, "out": "word", "error": "aside"});
    assert_eq!(said["none: exec"], exec, "{said:#}");
    assert_eq!(said["none: up"]["code"], 0, "{said:#}");
    assert_eq!(said["none: session"]["code"], 0, "{said:#}");
    assert_eq!(said["none: port"], 200, "{said:#}");

    // Without the shares, and without the ways that need no descriptors in flight, all of them starve.
    let said = driven("share,taken_descriptors");
    assert_eq!(
        said["greedy"]["signals"],
        json!([200, "EAGAIN"]),
        "{said:#}"
    );
    let words = "too many descriptors in flight";
    for starved in ["sibling", "up", "none: exec", "none: up", "none: session"] {
        assert_ne!(said[starved]["code"], 0, "{starved}: {said:#}");
        let error = said[starved]["error"].as_str().unwrap();
        assert!(error.contains(words), "{starved}: {error}");
    }
    for (kind, error) in [
        ("signals", "EAGAIN"),
        ("queues", "EMFILE"),
        ("instances", "EMFILE"),
        ("in_flight", "ETOOMANYREFS"),
    ] {
        assert_eq!(
            got(&said["host"])[kind],
            json!([0, error]),
            "{kind}: {said:#}"
        );
    }
}

/// Opens terminals until there are no more, or this many.
const TERMINALS: &str = r#"
import errno, os, resource, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held, why = [], "enough"
try:
    while len(held) < int(sys.argv[1]): held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError as error: why = errno.errorcode[error.errno]
print(len(held), why, flush=True)
sys.stdin.read()
"#;

fn terminals<'a>(island: &'a Island, most: &'a str) -> Running {
    let argv = ["exec", "x", "--", "/usr/bin/python3", "-c", TERMINALS, most];
    Running::new(&mut island.holm_command(&island.home(), &argv))
}

/// Never all of the machine's: other tests need some.
#[test]
fn attack_187_one_workspace_leaves_terminals_to_others() {
    let setting = |name: &str| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/pty/{name}")).unwrap();
        text.trim().parse().unwrap()
    };
    let share = holm_core::share::terminals(setting("max"), setting("reserve"));
    let more = (share + 8).to_string();
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    repository.up("sibling");
    let mut greedy = terminals(&island, &more);
    greedy.says(&format!("{share} ENOSPC"));
    let reached = || {
        let shown = island.holm(&["show", "x", "--json"]).json();
        shown["reason"] == "limit" && shown["isolation"]["limits_reached"] == json!(["terminals"])
    };
    eventually("it is shown", reached);
    let shown = island.holm(&["show", "x"]).ok().out();
    assert!(shown.contains("used up: terminals"), "{shown}");
    island.holm(&["session", "new", "sibling", "--detach"]).ok();
    let shown = island.holm(&["show", "sibling", "--json"]).json();
    assert_eq!(shown["reason"], Value::Null);
    assert_eq!(greedy.code(), Some(0));

    let island = Island::without("share");
    island.repository("shop").up("x");
    let mut greedy = terminals(&island, &more);
    greedy.says(&format!("{more} enough"));
    assert_eq!(greedy.code(), Some(0));
}

/// Programs that use `select` get the limit of the shell, holm the highest.
#[test]
fn attack_187_holm_raises_its_own_limit_of_open_files_and_nobody_elses() {
    let island = Island::new();
    let repository = island.repository("shop");
    let program = crate::support::program().display();
    let line = format!("ulimit -Sn 900; exec {program} daemon start");
    island.run(&island.home(), "sh", &["-c", &line]).ok();
    let id = repository.up("x");
    let outside = island.run(&island.home(), "sh", &["-c", "ulimit -Hn"]);
    let hard: u64 = outside.ok().out().parse().unwrap();
    let share = holm_core::share::open_files(hard);
    let inside = island.sh("x", "echo $(ulimit -Sn) $(ulimit -Hn)");
    assert_eq!(inside.ok().out(), format!("900 {share}"));
    assert!(share <= hard / 2);
    let processes = "import resource as r; print(r.getrlimit(r.RLIMIT_NPROC)[1])";
    let number = |ran: Ran| -> i64 { ran.ok().out().parse().unwrap() };
    let outside = number(island.run(&island.home(), "/usr/bin/python3", &["-c", processes]));
    let inside = number(island.python("x", processes));
    assert!(
        outside < 0 || inside <= outside / 4,
        "{inside} of {outside}"
    );
    // Nothing inside gets more.
    island.sh("x", &format!("! ulimit -Hn {hard}")).ok();
    let of = |pid: i32| {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"));
        line.unwrap().split_whitespace().nth(3).unwrap().to_owned()
    };
    // Programs with a limit as low as this shell's cannot be protected, and doctor says so.
    let checks = island.holm(&["doctor", "--json"]).json()["checks"].clone();
    let mut checks = checks.as_array().unwrap().iter();
    let check = checks.find(|check| check["name"] == "descriptors in flight");
    let check = check.unwrap();
    assert_eq!(check["status"], "warning");
    let detail = check["detail"].as_str().unwrap();
    assert!(detail.contains("(here 900)"), "{detail}");
    for pid in [island.daemon_pid(), island.keeper_of(&id).unwrap()] {
        assert_eq!(of(pid), hard.to_string());
    }
}
