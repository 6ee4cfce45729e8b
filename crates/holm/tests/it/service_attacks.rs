//! Services that exhaust the disk, its inodes, or open files (attacks 139, 140, 141). Only their
//! own workspace is affected, and holm goes on.

use crate::services::{service, with_services};
use crate::support::{Island, program};
use serde_json::Value;

/// Writes wherever it may until nothing goes any more, and notes why where no disk is needed.
const FILL: &str = r#"
import errno, itertools, os, sys, time
def bytes_(place):
    with open(place + "/fill", "wb", buffering=0) as file:
        while True: file.write(bytes(1 << 16))
def names(place):
    os.makedirs(place + "/fill")
    for number in itertools.count(): open(f"{place}/fill/{number}", "w").close()
why = set()
for place in [os.getcwd(), os.path.expanduser("~"), "/tmp"]:
    try: {"bytes": bytes_, "names": names}[sys.argv[1]](place)
    except OSError as error: why.add(errno.errorcode[error.errno])
open("/dev/shm/why.new", "w").write(" ".join(why))
os.rename("/dev/shm/why.new", "/dev/shm/why")
while True: print("still here", flush=True); time.sleep(0.01)
"#;

/// A separate disk, filled by a service; then holm's reactions, line by line.
fn filled(what: &str, mount: &str) -> Vec<String> {
    let island = Island::new();
    let repository = with_services(
        &island,
        &format!(
            "[services.fill]\nrun = \"exec python3 fill.py {what}\"\n\
             [services.web]\nrun = \"exec python3 listen.py 127.0.0.1 3000\"\nready = {{ tcp = 3000 }}\n"
        ),
    );
    repository.write("fill.py", FILL);
    repository.commit("fill");
    let script = format!(
        r#"mkdir -p "$HOLM_HOME" && mount -t tmpfs -o {mount} none "$HOLM_HOME" || exit 99
        holm up a --no-wait >/dev/null || exit 98
        until holm exec a -- test -e /dev/shm/why; do :; done
        until holm service a ls --json | grep -q '"verdict":"ready"'; do :; done
        holm exec a -- cat /dev/shm/why; echo
        holm service a ls --json
        holm exec a -- /usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:3000").status)'
        holm rename a c >/dev/null; echo "rename $?"
        holm service c stop fill --json >/dev/null; echo "service stop $?"
        holm stop c >/dev/null; echo "stop $?"
        holm show c --json
        holm rm --force c >/dev/null; echo "rm $?"
        holm gc --all >/dev/null; echo "gc $?"
        holm up b --no-wait >/dev/null; echo "up $?"
        holm daemon stop --all >/dev/null"#
    );
    let ran = island.elsewhere(&repository.path, &script).ok();
    ran.out().lines().map(str::to_owned).collect()
}

#[track_caller]
fn contained(said: &[String]) {
    assert_eq!(said[0], "ENOSPC", "{said:?}");
    let services: Value = serde_json::from_str(&said[1]).unwrap();
    for name in ["fill", "web"] {
        assert_eq!(service(&services, name)["state"], "ready", "{services}");
    }
    assert_eq!(said[2], "200", "its neighbour answers");
    let done = ["rename 0", "service stop 0", "stop 0"];
    assert_eq!(said[3..6], done, "what is wanted is written down");
    let shown: Value = serde_json::from_str(&said[6]).unwrap();
    let found = (&shown["state"], &shown["label"]);
    assert_eq!(found, (&"stopped".into(), &"c".into()));
    assert_eq!(said[7..], ["rm 0", "gc 0", "up 0"], "and it can be freed");
}

#[test]
fn attack_139_a_service_that_fills_the_disk_stops_nothing_else() {
    let size = std::fs::metadata(program()).unwrap().len() / 1024 + 40 * 1024;
    contained(&filled("bytes", &format!("size={size}k")));
}

#[test]
fn attack_140_a_service_that_takes_all_inodes_stops_nothing_else() {
    contained(&filled("names", "size=1g,nr_inodes=4000"));
}

/// Opens files until it may not, and says why.
const OPEN: &str = r#"
import errno, os, resource, time
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
opened = []
try:
    while len(opened) < 2_000_000: opened.append(os.dup(0))
except OSError as error: why = errno.errorcode[error.errno]
os.close(opened.pop())
print(why, len(opened) < hard, hard <= 1 << 20, flush=True)
time.sleep(1000)
"#;

#[test]
fn attack_141_a_service_that_opens_files_without_end_has_its_own_limit() {
    let island = Island::new();
    let repository = with_services(
        &island,
        "[services.open]\nrun = \"exec python3 open.py\"\nready = { log = \"EMFILE\" }\n\
         [services.web]\nrun = \"exec python3 listen.py 127.0.0.1 3000\"\nready = { tcp = 3000 }\n\
         depends_on = [\"open\"]\n",
    );
    repository.write("open.py", OPEN);
    repository.commit("open");
    // Each has as many as it may, and the one after it is served all the same.
    for label in ["a", "b", "c"] {
        repository.up(label);
        let said = island.holm(&["logs", label, "open"]).ok().out();
        assert!(said.ends_with("open  EMFILE True True"), "{said}");
        assert_eq!(island.sh(label, "echo well").ok().out(), "well");
    }
    island.holm(&["ls"]).ok();
}
