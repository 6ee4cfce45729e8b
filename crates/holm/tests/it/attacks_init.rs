//! A workspace whose init was taken over (attack 182): the attacker has its link to the keeper, and
//! sends wrong messages of every kind. Done by root, who alone can take it.

use crate::support::{Island, Running, eventually, is_gone, is_root};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// Takes init's end of the link and acts by each line of stdin; answers each with a line. `{"say":
/// [TEXT or [LENGTH, TEXT]…], "descriptors": N}` sends messages, each with this many descriptors,
/// `{"flood": N}` this many bytes of a longer message.
const TAKE_OVER: &str = r#"
import array, ctypes, json, os, socket, struct, sys
pid = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def sockets():
    # What it passes on comes and goes.
    try:
        names = os.listdir("/proc/%d/fd" % pid)
        return [int(name) for name in names if os.readlink("/proc/%d/fd/%s" % (pid, name)).startswith("socket:")]
    except FileNotFoundError:
        return []
number = []
while len(number) != 1:
    number = sockets()
held = libc.syscall(434, pid, 0)
taken = libc.syscall(438, held, number[0], 0)
assert taken >= 0, os.strerror(ctypes.get_errno())
link = socket.socket(fileno=taken)
# Not settimeout: it would keep the real init, who has the same socket, from waiting.
link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 60, 0))
print("taken", flush=True)
null = os.open("/dev/null", os.O_RDONLY)
for line in sys.stdin:
    order = json.loads(line)
    answer = "done"
    try:
        for text in order.get("say", []):
            length, text = text if isinstance(text, list) else (len(text.encode()), text)
            head = struct.pack("<I", length)
            extra = []
            if order.get("descriptors"):
                rights = array.array("i", [null] * order["descriptors"])
                extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
            link.sendmsg([head], extra)
            link.sendall(text.encode())
        if "flood" in order:
            link.sendall(struct.pack("<I", order["flood"] * 2))
            for _ in range(order["flood"] >> 20):
                link.sendall(b" " * (1 << 20))
    except OSError as error:
        answer = error.strerror or str(error)
    print(answer, flush=True)
"#;

/// An init that was taken over.
struct Taken(Running);

// === impl Taken ===

impl Taken {
    fn over(init: i32) -> Self {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", TAKE_OVER, &init.to_string()]);
        let mut running = Running::new(command.stderr(Stdio::inherit()));
        running.says("taken");
        Self(running)
    }

    fn does(&mut self, order: &Value) -> String {
        self.0.write(&format!("{order}\n"));
        self.0.line()
    }

    #[track_caller]
    fn says(&mut self, messages: &[Value], descriptors: usize) {
        let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
        let order = json!({"say": messages, "descriptors": descriptors});
        assert_eq!(self.does(&order), "done");
    }
}

fn number_of(pid: i32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

fn descriptors(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

#[test]
fn attack_182_words_of_another_init_are_dropped() {
    if !is_root() {
        return;
    }
    let island = Island::new();
    let id = island.repository("shop").up("x");
    let begin = |script: &str| {
        let arguments = ["exec", "x", "--", "sh", "-c", script];
        Running::new(&mut island.holm_command(&island.home(), &arguments))
    };
    let mut command = begin("echo $$; exec cat");
    // A process that does not end when the keeper considers it ended: otherwise the real init would
    // report it, in the middle of these messages.
    let mut victim = begin("echo $$; exec sleep 1000");
    command.line();
    let pid: i32 = victim.line().parse().unwrap();
    let keeper = island.keeper_of(&id).unwrap();
    let mut init = Taken::over(island.init_of(&id).unwrap());
    let (before, memory) = (descriptors(keeper), number_of(keeper, "VmRSS:"));
    // All of it repeats earlier messages or names unknown processes, and carries more than it may.
    let mut again = vec![
        json!({"hello": {"version": 1}}),
        json!("renames"),
        json!({"doorway": "gateway"}),
        json!({"doorway": "rules"}),
        json!("empty"),
        json!({"exited": {"pid": 0, "code": 0}}),
        json!({"exited": {"pid": -1, "code": 255}}),
        json!({"exited": {"pid": i32::MAX, "code": 137}}),
        json!({"not_spawned": {"sequence": 1, "code": 1, "cause": "\u{1b}[2J"}}),
        json!({"not_spawned": {"sequence": u64::MAX, "code": 1, "cause": "x".repeat(4 << 20)}}),
    ];
    let earlier = (0..300).map(|number| json!({"spawned": {"sequence": number, "pid": number}}));
    again.extend(earlier);
    for _ in 0..3 {
        init.says(&again, 250);
    }
    // No thread waits for these; but for this one a thread does. It is accepted, so the rest
    // arrived, too.
    let lies = [77, 78].map(|code| json!({"exited": {"pid": pid, "code": code}}));
    init.says(&lies, 250);
    assert_eq!(victim.code(), Some(77));
    eventually("nothing of what came along is kept", || {
        descriptors(keeper) <= before
    });
    let now = number_of(keeper, "VmRSS:");
    assert!(now < memory + (64 << 10), "{memory} kB became {now} kB");
    // Everything else continues.
    command.write("on it goes\n");
    command.says("on it goes");
    assert_eq!(island.sh("x", "echo well").ok().out(), "well");
    assert_eq!(island.keeper_of(&id), Some(keeper));
    command.close_stdin();
    assert_eq!(command.code(), Some(0));
}

#[test]
fn attack_182_nonsense_of_another_init_ends_its_workspace_only() {
    if !is_root() {
        return;
    }
    let island = Island::without("revival");
    let repository = island.repository("shop");
    let [id, other] = [repository.up("x"), repository.up("other")];
    island.sh("x", "echo work > file").ok();
    let arguments = ["exec", "other", "--", "sh", "-c", "echo ready; exec cat"];
    let mut neighbour = Running::new(&mut island.holm_command(&island.home(), &arguments));
    neighbour.says("ready");
    let (daemon, neighbours) = (island.daemon_pid(), island.keeper_of(&other));
    let deep = "[".repeat(100_000);
    for nonsense in [
        json!([[u32::MAX, "{}"]]),
        json!([[(8 << 20) + 1, "{}"]]),
        json!(["\u{0}\u{1b}"]),
        json!(["{\"exited\":{\"pid\":1,\"code\":256}}"]),
        json!([deep]),
        // Begun, and never ended.
        json!([[1000, "{\"exited\":"]]),
    ] {
        let what: String = nonsense.to_string().chars().take(60).collect();
        let all = island.inhabitants();
        let keeper = island.keeper_of(&id).unwrap();
        let theirs = |pid: i32| number_of(pid, "PPid:") as i32 == keeper || pid == keeper;
        let own: Vec<_> = all.into_iter().filter(|(pid, _)| theirs(*pid)).collect();
        let mut init = Taken::over(island.init_of(&id).unwrap());
        init.does(&json!({"say": nonsense}));
        eventually(&format!("it is noticed: {what}"), || {
            own.iter().all(|process| is_gone(*process))
        });
        let shown = island.holm(&["show", "x", "--json"]).json();
        assert_eq!(shown["state"], "failed", "{what}: {shown}");
        let reason = shown["reason"].as_str().unwrap();
        assert!(reason.contains("init spoke nonsense"), "{what}: {reason}");
        assert!(!reason.contains('\u{1b}'), "{reason:?}");
        // No other workspace has noticed, and it can be started again.
        neighbour.write("still here\n");
        neighbour.says("still here");
        island.holm(&["start", "x"]).ok();
        assert_eq!(island.sh("x", "cat file").ok().out(), "work");
    }
    assert_eq!(island.daemon_pid(), daemon);
    assert_eq!(island.keeper_of(&other), neighbours);
    let log = island.data().join(format!("workspaces/{id}/keeper.log"));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(log.matches("init spoke nonsense").count(), 6, "{log}");
    neighbour.close_stdin();
    assert_eq!(neighbour.code(), Some(0));

    // Without a limit of what a message may have, the keeper takes all that it is sent.
    for (without, is_taken) in [("", false), ("short_messages", true)] {
        let island = Island::without(without);
        let id = island.repository("shop").up("x");
        let keeper = island.keeper_of(&id).unwrap();
        let mut init = Taken::over(island.init_of(&id).unwrap());
        const FLOOD: u64 = 64 << 20;
        let said = init.does(&json!({"flood": FLOOD}));
        let peak = number_of(keeper, "VmHWM:") << 10;
        assert_eq!(said == "done", is_taken, "{said}");
        assert_eq!(peak > FLOOD / 2, is_taken, "{peak}");
    }
}
