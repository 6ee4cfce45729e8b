//! A machine without packet rules: refused with how to get them, or without any way out.

use crate::support::{Island, Ran};
use std::path::Path;

/// Runs a program as on a kernel without netfilter: no such socket can be made by it or by anything
/// that it starts.
const WITHOUT: &str = "import ctypes, os, struct, sys\n\
libc = ctypes.CDLL(None, use_errno=True)\n\
def op(code, jt, jf, k): return struct.pack('=HBBI', code, jt, jf, k)\n\
SOCKET, NETLINK, NETFILTER, EPROTONOSUPPORT = 41, 16, 12, 93\n\
program = b''.join([\n\
\x20 op(0x20, 0, 0, 0), op(0x15, 0, 5, SOCKET), op(0x20, 0, 0, 16), op(0x15, 0, 3, NETLINK),\n\
\x20 op(0x20, 0, 0, 32), op(0x15, 0, 1, NETFILTER), op(0x06, 0, 0, 0x50000 | EPROTONOSUPPORT),\n\
\x20 op(0x06, 0, 0, 0x7fff0000)])\n\
text = ctypes.create_string_buffer(program)\n\
class Program(ctypes.Structure): _fields_ = [('length', ctypes.c_ushort), ('code', ctypes.c_void_p)]\n\
filter = Program(len(program) // 8, ctypes.addressof(text))\n\
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(filter)) == 0\n\
os.execv(sys.argv[1], sys.argv[1:])\n";

fn holm(island: &Island, directory: &Path, arguments: &[&str]) -> Ran {
    let mut command = island.command("/usr/bin/python3", directory);
    command.args(["-c", WITHOUT]).arg(crate::support::program());
    Ran::new(command.args(arguments))
}

#[test]
#[cfg(target_arch = "x86_64")]
fn without_packet_rules_nothing_starts_unless_one_goes_without_a_way_out() {
    let island = Island::new();
    let repository = island.repository("shop");
    let refused = holm(&island, &repository.path, &["up", "x", "--json"]).error(4);
    assert_eq!(refused["code"], "isolation_missing");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("packet rules"), "{message}");
    assert!(
        refused["hint"]
            .as_str()
            .unwrap()
            .contains("--allow-degraded=egress")
    );
    let doctor = holm(&island, &repository.path, &["doctor"]);
    assert!(doctor.out().contains("modprobe"), "{doctor:?}");
    let up = ["up", "y", "--allow-degraded=egress"];
    holm(&island, &repository.path, &up).ok();
    let shown = island.holm(&["show", "y", "--json"]).json();
    let degraded = shown["isolation"]["degraded"].as_array().unwrap();
    assert!(degraded.iter().any(|part| part == "egress"), "{shown}");
    // Nothing leaves, and no program blocks.
    let knock = "import socket\ns = socket.socket(); s.settimeout(60)\n\
        try: s.connect(('192.0.2.1', 80))\nexcept OSError as e: print(e.strerror)\n\
        try: socket.getaddrinfo('web.test', 80)\nexcept socket.gaierror: print('no name')";
    let said = island.python("y", knock).ok().out();
    assert_eq!(said, "Network is unreachable\nno name");
}
