//! Attacks on the kernel's surface: each row of the filter's table on the real kernel (attacks 58,
//! 61, 62), and ways to namespaces of one's own (attack 59).
//!
//! A refusal only counts as the filter's when the bare kernel says something else to the very same
//! call; where it cannot, the row is listed with the reason.

use crate::support::{Island, Ran};
use holm_linux::sys::seccomp::{Row, Rule, TABLE};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const EPERM: i64 = 1;
const ENOSYS: i64 = 38;

/// One system call: a name for it, its number, its arguments, and the filter's answer.
struct Call {
    name: String,
    number: i64,
    arguments: [i64; 6],
    expect: i64,
}

/// Calls that the bare kernel, too, refuses with the filter's very error to a process without
/// capabilities, before it looks at the arguments. (A kernel that was built without modules or kexec
/// says that there is no such call.)
const ALSO_REFUSED_WITHOUT_CAPABILITIES: &[&str] = &[
    // They ask for CAP_SYS_ADMIN over the mount namespace first; attacks_mounts.rs and the user
    // namespace below tell the filter from the kernel.
    "pivot_root",
    "move_mount",
    "fsopen",
    "fsmount",
    "fspick",
    "sethostname",
    "setdomainname",
    // They ask for a capability over the machine first, which no test can have without root.
    "vhangup",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "swapon",
    "swapoff",
    "reboot",
    "acct",
    "syslog",
];

/// Arguments that no call takes: pointers to nowhere, unknown flags, impossible descriptors.
const NONSENSE: [i64; 6] = [-1; 6];

fn calls(row: &Row) -> Vec<Call> {
    let call = |detail: String, arguments| Call {
        name: format!("{}{detail}", row.name),
        number: row.number,
        arguments,
        expect: row.error.into(),
    };
    let with = |argument: u32, value: i64| {
        let mut arguments = NONSENSE;
        arguments[argument as usize] = value;
        arguments
    };
    match row.rule {
        Rule::Deny => vec![call(String::new(), nonsense_for(row.name))],
        Rule::DenyBits { argument, bits } => (0..32)
            .map(|shift| 1i64 << shift)
            .filter(|bit| i64::from(bits) & bit != 0)
            .map(|bit| {
                let value = bit | impossible_bit(row.name);
                call(format!("({bit:#x})"), with(argument, value))
            })
            .collect(),
        Rule::DenyValues { argument, values } => values
            .iter()
            .flat_map(|value| [i64::from(*value), i64::from(*value) | 0x7eed_0000_0000_0000])
            .map(|value| call(format!("({value:#x})"), with(argument, value)))
            .collect(),
        // A kind of socket that does not exist is found out before the family is looked at.
        Rule::PlainSocketsOnly => (0..46)
            .filter(|family| ![1, 2, 10, 16].contains(family))
            .map(|family| call(format!("({family})"), [family, 15, 0, -1, -1, -1]))
            .chain((1..23).map(|protocol| {
                let netlink = [16, 15, protocol, -1, -1, -1];
                call(format!("(netlink {protocol})"), netlink)
            }))
            .collect(),
        Rule::DenySetting {
            argument, value, ..
        } => {
            vec![call(String::new(), with(argument, value.into()))]
        }
    }
}

/// What makes the bare kernel say something else than "not permitted".
fn nonsense_for(name: &str) -> [i64; 6] {
    match name {
        // FAN_REPORT_FID, which needs no capability, and an unknown flag.
        "fanotify_init" => [0x4000_0200, 0, 0, 0, 0, 0],
        _ => NONSENSE,
    }
}

/// A bit that makes a call with flags invalid in any case.
fn impossible_bit(name: &str) -> i64 {
    match name {
        // Not a flag of unshare.
        "unshare" => 0x1,
        // CLONE_THREAD without CLONE_SIGHAND.
        "clone" => 0x1_0000,
        _ => 0,
    }
}

fn every_call() -> Vec<Call> {
    TABLE.iter().flat_map(calls).collect()
}

fn script(calls: &[Call]) -> String {
    let calls: Vec<Value> = calls
        .iter()
        .map(|call| json!([call.name, call.number, call.arguments]))
        .collect();
    format!(
        r#"
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
results = {{}}
for name, number, arguments in json.loads({:?}):
    ctypes.set_errno(0)
    answer = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    results[name] = ctypes.get_errno() if answer == -1 else 0
print(json.dumps(results))
"#,
        json!(calls).to_string()
    )
}

fn errors(ran: Ran) -> BTreeMap<String, i64> {
    serde_json::from_value(ran.json()).unwrap()
}

fn base_name(name: &str) -> &str {
    name.split('(').next().unwrap_or(name)
}

#[test]
fn attack_61_every_row_of_the_filter_answers_with_its_own_error() {
    let calls = every_call();
    let with_filter = {
        let island = Island::new();
        island.repository("shop").up("x");
        errors(island.python("x", &script(&calls)))
    };
    let wrong: Vec<_> = calls
        .iter()
        .filter(|call| with_filter[&call.name] != call.expect)
        .map(|call| format!("{}: {}", call.name, with_filter[&call.name]))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");

    let bare = {
        let island = Island::without("seccomp");
        island.repository("shop").up("x");
        errors(island.python("x", &script(&calls)))
    };
    let same: Vec<_> = calls
        .iter()
        .filter(|call| bare[&call.name] == call.expect)
        .map(|call| base_name(&call.name))
        .filter(|name| !ALSO_REFUSED_WITHOUT_CAPABILITIES.contains(name))
        .collect();
    assert!(
        same.is_empty(),
        "the kernel says the same as the filter: {same:?}"
    );

    // As root of its own user namespace, to see the kernel's own answer for the rest.
    let island = Island::new();
    let arguments = ["-Urmu", "/usr/bin/python3", "-c", &script(&calls)];
    let privileged = errors(island.run(&island.home(), "unshare", &arguments));
    for name in &ALSO_REFUSED_WITHOUT_CAPABILITIES[..7] {
        assert_ne!(privileged[*name], EPERM, "{name}");
    }
}

#[test]
fn attack_61_with_nested_only_the_rows_that_it_lifts_are_lifted() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[project]\nnested = true\n");
    repository.commit("nested");
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("x");
    let calls = every_call();
    let found = errors(island.python("x", &script(&calls)));
    for call in &calls {
        let row = TABLE.iter().find(|row| row.name == base_name(&call.name));
        let answered = found[&call.name] == call.expect;
        if !row.expect("a row").lifted_when_nested {
            assert!(answered, "{}: {}", call.name, found[&call.name]);
        } else if !ALSO_REFUSED_WITHOUT_CAPABILITIES.contains(&base_name(&call.name)) {
            assert!(!answered, "{} is lifted", call.name);
        }
    }
}

/// Calls in the old 32-bit way, and with the numbers of x32.
const FOREIGN: &str = r#"
import ctypes, json, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def old_way(number):
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\x53\xb8" + number.to_bytes(4, "little") + b"\x31\xdb\x31\xc9\x31\xd2\xcd\x80\x5b\xc3")
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, str(function()).encode())
        os._exit(0)
    os.close(writer)
    return os.read(reader, 20).decode() or "crash"
def x32(number):
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(number | 0x40000000), 0, 0, 0)
    return ctypes.get_errno()
# getuid; mount; unshare
print(json.dumps({"old": [old_way(number) for number in (24, 21, 310)],
                  "x32": [x32(number) for number in (39, 165, 272, 0)], "uid": str(os.getuid())}))
"#;

#[cfg(target_arch = "x86_64")]
#[test]
fn attack_61_calls_of_a_foreign_architecture_do_not_exist() {
    let island = Island::new();
    island.repository("shop").up("x");
    let found = island.python("x", FOREIGN).json();
    let no_such_call = format!("-{ENOSYS}");
    assert_eq!(
        found["old"],
        json!([no_such_call, no_such_call, no_such_call])
    );
    assert_eq!(found["x32"], json!([ENOSYS, ENOSYS, ENOSYS, ENOSYS]));

    // Outside the same code works, if the kernel was built with it.
    let outside = island
        .run(&island.home(), "/usr/bin/python3", &["-c", FOREIGN])
        .json();
    if outside["old"][0] != "crash" {
        assert_eq!(outside["old"][0], outside["uid"], "{outside}");
    }
}

#[test]
fn attack_58_sockets_of_other_kinds_are_not_made() {
    let attempts = r#"
import socket
for family, kind, protocol in [("AF_PACKET", socket.SOCK_RAW, 0x300), ("AF_ALG", socket.SOCK_SEQPACKET, 0),
                               ("AF_KEY", socket.SOCK_RAW, 2), ("AF_BLUETOOTH", socket.SOCK_RAW, 1), ("AF_XDP", socket.SOCK_RAW, 0),
                               ("AF_VSOCK", socket.SOCK_STREAM, 0), ("AF_CAN", socket.SOCK_RAW, 1), ("AF_TIPC", socket.SOCK_STREAM, 0)]:
    number = {"AF_XDP": 44, "AF_KEY": 15, "AF_BLUETOOTH": 31}.get(family) or getattr(socket, family)
    attempt(family, lambda: call(libc.socket, number, kind, protocol))
for name, protocol in [("NETFILTER", 12), ("AUDIT", 9), ("KOBJECT_UEVENT", 15), ("GENERIC", 16), ("SOCK_DIAG", 4), ("XFRM", 6)]:
    attempt("netlink " + name, lambda: call(libc.socket, 16, socket.SOCK_RAW, protocol))
pair = (ctypes.c_int * 2)()
attempt("pair", lambda: call(libc.socketpair, socket.AF_TIPC, socket.SOCK_STREAM, 0, pair))
"#;
    let plain = r#"
import socket
for family in ("AF_UNIX", "AF_INET", "AF_INET6"):
    attempt(family, lambda: socket.socket(getattr(socket, family), socket.SOCK_STREAM))
attempt("route", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
attempt("pair", socket.socketpair)
"#;
    let island = Island::new();
    island.repository("shop").up("x");
    island.attempts("x", attempts).refused(&["EAFNOSUPPORT"]);
    island.attempts("x", plain).succeeded();

    // Root of a user namespace of one's own may listen on the wire and to the firewall.
    let outside = island.attempts_in_namespaces(&island.home(), attempts);
    for name in ["AF_PACKET", "netlink KOBJECT_UEVENT", "netlink GENERIC"] {
        assert_eq!(outside.0[name], "ok", "{outside:?}");
    }
    // And it is the filter that stops a workspace, not the lack of capabilities alone.
    let island = Island::without("seccomp");
    island.repository("shop").up("x");
    let without = island.attempts("x", attempts);
    assert_eq!(without.0["netlink KOBJECT_UEVENT"], "ok", "{without:?}");
    assert_eq!(without.0["AF_PACKET"], "EPERM", "{without:?}");
}

#[test]
fn attack_62_a_ring_that_would_make_calls_in_our_place_is_not_set_up() {
    let ring = r#"
parameters = ctypes.create_string_buffer(120)
libc.syscall.restype = ctypes.c_long
attempt("setup", lambda: call(libc.syscall, 425, 8, parameters))
attempt("enter", lambda: call(libc.syscall, 426, -1, 0, 0, 0, None, 0))
attempt("register", lambda: call(libc.syscall, 427, -1, 0, None, 0))
"#;
    let island = Island::new();
    island.repository("shop").up("x");
    island.attempts("x", ring).refused(&["EPERM"]);
    let island = Island::without("seccomp");
    island.repository("shop").up("x");
    let without = island.attempts("x", ring);
    // A host may have disabled io_uring: then the kernel itself refuses.
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    if disabled.map_or("0".to_owned(), |text| text.trim().to_owned()) == "0" {
        assert_eq!(without.0["setup"], "ok");
    }
    assert_eq!(without.0["enter"], "EBADF");
}

/// Each kind of namespace, asked for in each way.
const NAMESPACES: &str = r#"
libc.syscall.restype = ctypes.c_long
flags = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
         "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000}
def in_child(function):
    pid = os.fork()
    if pid == 0:
        try:
            function()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    number = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if number:
        raise OSError(number, "in the child")
def unshare(bits):
    call(libc.unshare, bits)
def clone(bits):
    if call(libc.syscall, 56, bits | 17, 0, 0, 0, 0) == 0:
        os._exit(0)
    os.wait()
def clone3(bits):
    arguments = (ctypes.c_uint64 * 11)(bits, 0, 0, 0, 17)
    if call(libc.syscall, 435, arguments, 88) == 0:
        os._exit(0)
    os.wait()
for name, bits in flags.items():
    both = bits | flags["user"]
    attempt("unshare " + name, in_child, lambda: unshare(both))
    attempt("clone " + name, in_child, lambda: clone(both))
    attempt("clone3 " + name, in_child, lambda: clone3(both))
"#;

#[cfg(target_arch = "x86_64")]
#[test]
fn attack_59_no_namespace_is_made_inside() {
    let island = Island::new();
    island.repository("shop").up("x");
    let found = island.attempts("x", NAMESPACES);
    for (name, how) in &found.0 {
        let expect = if name.starts_with("clone3") {
            "ENOSYS"
        } else {
            "EPERM"
        };
        assert_eq!(how, expect, "{name}");
    }
    let limit = r#"
for alias in ("/proc", "/proc/1/root/proc", "/proc/self/root/proc"):
    attempt(alias, lambda: os.write(os.open(alias + "/sys/user/max_user_namespaces", os.O_WRONLY), b"1000"))
"#;
    island.attempts("x", limit).refused(&["EROFS", "EACCES"]);
    assert_eq!(
        island
            .sh("x", "cat /proc/sys/user/max_user_namespaces")
            .ok()
            .out(),
        "0"
    );
    island
        .sh("x", "setpriv --version >/dev/null; ! unshare -Ur true")
        .ok();

    // The second check holds without the filter…
    let island = Island::without("seccomp");
    island.repository("shop").up("x");
    island.attempts("x", NAMESPACES).refused(&["ENOSPC"]);
    // … and without both it works.
    let island = Island::without("seccomp,namespace_limit,landlock");
    island.repository("shop").up("x");
    island.attempts("x", NAMESPACES).succeeded();
}

#[test]
fn attack_59_nested_allows_user_namespaces_and_says_that_this_is_weaker() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("plain");
    repository.write("holm.toml", "[project]\nnested = true\n");
    repository.commit("nested");
    // Not without a person's word.
    repository.holm(&["up", "x"]).exits(4);
    repository.holm(&["trust", "--yes"]).ok();
    let workspace = repository.holm(&["up", "x", "--json"]).json();
    let degraded = &workspace["isolation"]["degraded"];
    assert!(
        degraded.as_array().unwrap().contains(&json!("nested")),
        "{degraded}"
    );
    // A quarter of the namespaces that the user may have.
    let most = "cat /proc/sys/user/max_user_namespaces";
    let number = |ran: Ran| -> u64 { ran.ok().out().parse().unwrap() };
    let outside = number(island.run(&island.home(), "sh", &["-c", most]));
    assert_eq!(number(island.sh("x", most)), outside / 4);
    let mounts = "unshare -Urm sh -c 'mount -t tmpfs none /mnt && touch /mnt/x'";
    island.sh("x", mounts).ok();
    let shown = island.holm(&["show", "plain", "--json"]).json();
    let degraded = shown["isolation"]["degraded"].as_array().unwrap();
    assert!(!degraded.contains(&json!("nested")), "{degraded:?}");
    island.sh("plain", "! unshare -Ur true").ok();

    // Root of a namespace inside has no rights on the host: the system stays as it is, and holm's
    // mounts cannot be removed.
    let as_root = r#"
call(libc.unshare, 0x10020000)
attempt("usr", lambda: open("/usr/holm-was-here", "w"))
attempt("etc", lambda: open("/etc/passwd", "a"))
attempt("guest", lambda: os.unlink("/run/holm/guest.sock"))
attempt("remount", lambda: call(libc.mount, None, b"/usr", None, 0x1020, None))
attempt("unmount", lambda: call(libc.umount2, b"/usr", 2))
attempt("unmount proc", lambda: call(libc.umount2, b"/proc/sys", 2))
"#;
    island
        .attempts("x", as_root)
        .refused(&["EROFS", "EPERM", "EACCES", "EINVAL"]);
}
