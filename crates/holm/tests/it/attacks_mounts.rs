//! Attacks by mounts, handles, kernel settings and the internals of the overlay (attacks 13, 14,
//! 15, 20, 22, 24).

use crate::support::Island;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const OLD_MOUNT_API: &str = r#"
def mount(source, target, kind, flags=0, data=None):
    call(libc.mount, source, target, kind, flags, data)
for name in ["place", "low", "up", "work"]:
    os.makedirs(name, exist_ok=True)
attempt("tmpfs", mount, b"none", b"place", b"tmpfs")
attempt("proc", mount, b"none", b"place", b"proc")
attempt("overlay", mount, b"none", b"place", b"overlay", 0, b"lowerdir=low,upperdir=up,workdir=work,userxattr")
attempt("bind", mount, b"/usr", b"place", None, 0x1000)
attempt("remount", mount, None, b"place", None, 0x20 | 0x1000)
attempt("unmount", lambda: call(libc.umount2, b"place", 2))
"#;

const NEW_MOUNT_API: &str = r#"
import struct
os.makedirs("place", exist_ok=True)
def open_tree():
    return call(libc.syscall, 428, -100, b"/usr", 1 | 0x8000)
def move():
    call(libc.syscall, 429, open_tree(), b"", -100, b"place", 4)
def fsopen():
    return call(libc.syscall, 430, b"tmpfs", 1)
def fsconfig():
    call(libc.syscall, 431, fsopen(), 6, None, None, 0)
def fsmount():
    context = fsopen()
    call(libc.syscall, 431, context, 6, None, None, 0)
    return call(libc.syscall, 432, context, 1, 0)
def set_attributes():
    attributes = struct.pack("QQQQ", 1, 0, 0, 0)
    call(libc.syscall, 442, fsmount(), b"", 0x1000, attributes, len(attributes))
attempt("open_tree", open_tree)
attempt("move_mount", move)
attempt("fsopen", fsopen)
attempt("fsconfig", fsconfig)
attempt("fsmount", fsmount)
attempt("mount_setattr", set_attributes)
"#;

/// Arguments for which the kernel itself has other answers than `EPERM`.
const FILTER_ONLY: &str = r#"
attempt("mount", lambda: call(libc.mount, ctypes.c_void_p(1), ctypes.c_void_p(1), ctypes.c_void_p(1), 0, None))
attempt("umount2", lambda: call(libc.umount2, b"/", 0xff00))
attempt("open_tree", lambda: call(libc.syscall, 428, -1, b"", 0x7fff0000))
attempt("open_tree_attr", lambda: call(libc.syscall, 467, -1, b"", 0x7fff0000, None, 0))
attempt("mount_setattr", lambda: call(libc.syscall, 442, -1, b"", 0x7fff0000, None, 0))
attempt("fsconfig", lambda: call(libc.syscall, 431, -1, 99, None, None, 0))
attempt("open_by_handle_at", lambda: call(libc.open_by_handle_at, -1, None, 0))
"#;

/// Clearing what keeps the host's and the protected paths read-only.
const MAKE_WRITABLE: &str = r#"
import struct
clear = struct.pack("QQQQ", 0, 1, 0, 0)
for path in ["/usr", "/etc", "/run/holm", "/proc/sys", "README.md"]:
    attempt(path + " remount", lambda: call(libc.mount, None, path.encode(), None, 0x20 | 0x1000, None))
    attempt(path + " setattr", lambda: call(libc.syscall, 442, -100, path.encode(), 0, clear, len(clear)))
    attempt(path + " fspick", lambda: call(libc.syscall, 433, -100, path.encode(), 0))
    attempt(path + " unmount", lambda: call(libc.umount2, path.encode(), 2))
for kind in [b"sysfs", b"cgroup2", b"binfmt_misc", b"fuse", b"devtmpfs", b"securityfs"]:
    attempt(kind.decode(), lambda: call(libc.mount, b"none", b"place", kind, 0, b"fd=0,rootmode=40000,user_id=0,group_id=0"))
"#;

#[test]
fn attacks_13_and_14_nothing_is_mounted_and_nothing_becomes_writable() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(
        "holm.toml",
        "[project]\nprotected_paths = [\"README.md\"]\n",
    );
    repository.commit("protected");
    repository.up("x");
    for script in [OLD_MOUNT_API, NEW_MOUNT_API, MAKE_WRITABLE] {
        island.attempts("x", script).refused(&["EPERM"]);
    }
    island.sh("x", "echo x >> README.md").exits(2);
    // In namespaces that a user makes outside, all of that works.
    let place = island.make_dir("home/place");
    island
        .attempts_in_namespaces(&place, OLD_MOUNT_API)
        .succeeded();
    island
        .attempts_in_namespaces(&place, NEW_MOUNT_API)
        .succeeded();
}

#[test]
fn attacks_13_to_15_it_is_the_filter_that_refuses() {
    let island = Island::new();
    island.repository("shop").up("x");
    let attempts = island.attempts("x", FILTER_ONLY);
    attempts.refused(&["EPERM"]);
    assert_eq!(attempts.0.len(), 7);
    let open = Island::without("seccomp");
    open.repository("shop").up("x");
    let attempts = open.attempts("x", FILTER_ONLY);
    attempts.refused(&["EFAULT", "EINVAL", "EBADF", "ENOSYS"]);
}

#[test]
fn attacks_13_and_22_no_device_is_made_not_even_the_one_that_means_deleted() {
    let script = r#"
def make(path, kind, device):
    os.mknod(path, kind | 0o600, device)
home = os.path.expanduser("~")
attempt("whiteout", make, home + "/whiteout", stat.S_IFCHR, 0)
"#;
    let devices = r#"
for name, kind, device in [("null", stat.S_IFCHR, os.makedev(1, 3)), ("disk", stat.S_IFBLK, os.makedev(254, 0)),
                           ("memory", stat.S_IFCHR, os.makedev(1, 1))]:
    for folder in [".", "/tmp", os.path.expanduser("~"), "/dev/shm", "/run"]:
        attempt(folder + " " + name, os.mknod, folder + "/" + name, kind | 0o600, device)
"#;
    let island = Island::new();
    island.repository("shop").up("x");
    island.attempts("x", script).refused(&["EPERM"]);
    island.attempts("x", devices).refused(&["EPERM"]);
    // Pipes and sockets are no devices.
    island.sh("x", "mkfifo pipe && test -p pipe").ok();
    let open = Island::without("seccomp");
    open.repository("shop").up("x");
    open.attempts("x", script).succeeded();
}

#[test]
fn attack_15_files_are_not_opened_by_guessed_handles() {
    let island = Island::new();
    island.repository("shop").up("x");
    let script = r#"
import struct
place = os.open("/tmp", os.O_RDONLY)
def guess(kind, inode, generation):
    handle = ctypes.create_string_buffer(struct.pack("IiII", 8, kind, inode, generation))
    call(libc.open_by_handle_at, place, handle, os.O_RDONLY)
for kind in (1, 2):
    for inode in range(0, 64):
        attempt("%d %d" % (kind, inode), guess, kind, inode, 0)
def own():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    number = ctypes.c_int()
    call(libc.name_to_handle_at, -100, b"/tmp", handle, ctypes.byref(number), 0)
    call(libc.open_by_handle_at, place, handle, os.O_RDONLY)
attempt("a true handle", own)
"#;
    island.attempts("x", script).refused(&["EPERM"]);
    // The kernel looks at the handle when nothing is in front of it: see `FILTER_ONLY`.
}

const KERNEL_SETTINGS: [&str; 12] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/fs/file-max",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/uevent_helper",
];

#[test]
fn attack_20_settings_of_the_kernel_are_not_written() {
    let island = Island::new();
    island.repository("shop").up("x");
    let values = || KERNEL_SETTINGS.map(|path| std::fs::read(path).ok());
    let before = values();
    let script = format!(
        r#"
for path in {KERNEL_SETTINGS:?}:
    attempt(path, write, path)
    attempt(path + " mode", os.chmod, path, 0o666)
"#
    );
    island
        .attempts("x", &script)
        .refused(&["EROFS", "EACCES", "EPERM", "ENOENT"]);
    // Even where the owner could: the second line of defence is the read-only mount.
    let own = r#"
attempt("write", write, "/proc/sys/net/ipv4/ip_forward")
attempt("user", write, "/proc/sys/user/max_user_namespaces")
"#;
    island.attempts("x", own).refused(&["EROFS", "EACCES"]);
    assert_eq!(values(), before);
    // Root of a user namespace may write these two.
    let writable = r#"
def put(path):
    with open(path, "w") as file:
        file.write("1")
attempt("net", put, "/proc/sys/net/ipv4/ip_forward")
attempt("user", put, "/proc/sys/user/max_user_namespaces")
"#;
    island
        .attempts_in_namespaces(&island.home(), writable)
        .succeeded();
}

#[test]
fn attack_20_what_tells_about_the_kernel_is_masked() {
    let look =
        "cat /proc/kallsyms /proc/keys /proc/timer_list /proc/vmallocinfo 2>/dev/null | wc -c";
    let island = Island::new();
    island.repository("shop").up("x");
    assert_eq!(island.sh("x", look).ok().out(), "0");
    let listed = island.sh(
        "x",
        "ls -A /proc/acpi /proc/scsi /proc/driver 2>/dev/null | grep -v :",
    );
    assert_eq!(listed.out(), "");
    let open = Island::without("proc_masks");
    open.repository("shop").up("x");
    assert_ne!(open.sh("x", look).ok().out(), "0");
}

#[test]
fn attack_22_the_layers_of_the_tree_are_out_of_reach() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("docs/base", "of the base\n");
    repository.commit("docs");
    let id = repository.up("x");
    let directory = island.data().join("workspaces").join(&id);
    let layers = ["upper", "work", "pins", "root", "lock"].map(|name| directory.join(name));
    let reach = format!(
        r#"
for path in {layers:?}:
    attempt(path, os.lstat, path)
    attempt(path + " by root", os.lstat, "/proc/self/root" + path)
for line in open("/proc/self/mountinfo"):
    if " overlay " in line:
        for option in line.split()[-1].split(","):
            name, _, places = option.partition("=")
            if name in ("upperdir", "workdir"):
                attempt(places, os.lstat, places)
"#
    );
    island.attempts("x", &reach).refused(&["ENOENT"]);
    let trusted = r#"
for name in ["trusted.overlay.opaque", "security.capability"]:
    attempt(name, os.setxattr, "docs", name, b"y")
"#;
    island.attempts("x", trusted).refused(&["EPERM", "EINVAL"]);
    // Where the kernel takes marks of the overlay's own kind it keeps them apart from its own.
    let mark = r#"
import os
open("docs/own", "w").close()
for path in ["docs", ".", ".git"]:
    for name, value in [("opaque", b"y"), ("redirect", b"/.git"), ("whiteout", b"y"), ("metacopy", b"")]:
        try:
            os.setxattr(path, "user.overlay." + name, value)
        except OSError:
            pass
"#;
    island.python("x", mark).ok();
    island.holm(&["restart", "x"]).ok();
    assert_eq!(
        island
            .sh("x", "ls docs; cat docs/base README.md")
            .ok()
            .out(),
        "base\nown\nof the base\n# hello"
    );
    // Written past the overlay, the same mark hides the base.
    island.holm(&["stop", "x"]).ok();
    let upper = directory.join("upper/docs");
    let script = format!("attempt('mark', os.setxattr, {upper:?}, 'user.overlay.opaque', b'y')");
    island.attempts_outside(&island.home(), &script).succeeded();
    island.holm(&["start", "x"]).ok();
    assert_eq!(island.sh("x", "ls docs").ok().out(), "own");
}

/// The trees of all bases.
pub fn bases(island: &Island) -> Vec<PathBuf> {
    let list = |path: PathBuf| {
        let entries = std::fs::read_dir(path).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
    };
    let projects = list(island.data().join("projects"));
    let bases = projects
        .iter()
        .flat_map(|project| list(project.join("bases")));
    bases.map(|base| base.join("tree")).collect()
}

fn print_of(path: &Path) -> (Vec<u8>, u64, u32, i64) {
    let metadata = path.metadata().unwrap();
    (
        std::fs::read(path).unwrap(),
        metadata.ino(),
        metadata.mode(),
        metadata.mtime_nsec(),
    )
}

#[test]
fn attack_24_writes_through_shared_inodes_stay_in_the_workspace() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("shared", "original\n");
    repository.commit("shared");
    repository.up("first");
    repository.write("other", "x\n");
    repository.commit("second");
    repository.up("second");
    let files: Vec<_> = bases(&island)
        .iter()
        .map(|tree| tree.join("shared"))
        .collect();
    assert_eq!(files.len(), 2);
    let inodes: Vec<_> = files
        .iter()
        .map(|file| file.metadata().unwrap().ino())
        .collect();
    assert_eq!(inodes[0], inodes[1], "bases share what did not change");
    let before: Vec<_> = files.iter().map(|file| print_of(file)).collect();

    let script = r#"
import mmap
early = os.open("shared", os.O_RDONLY)
os.link("shared", "alias")
os.link("README.md", os.path.abspath("docs-alias"))
attempt("alias", write, "alias")
attempt("name", write, "shared")
attempt("early descriptor", write, "/proc/self/fd/%d" % early)
def by_memory():
    descriptor = os.open("alias", os.O_RDWR)
    with mmap.mmap(descriptor, 0) as memory:
        memory[0:3] = b"map"
attempt("memory", by_memory)
attempt("chmod", os.chmod, "alias", 0o777)
attempt("chmod early", os.fchmod, early, 0o755)
attempt("times", os.utime, "alias", (1, 1))
attempt("readme", write, "docs-alias")
attempt("truncate", os.truncate, "shared", 0)
attempt("base's git", write, ".git/HEAD")
"#;
    island.attempts("first", script).succeeded();
    let after: Vec<_> = files.iter().map(|file| print_of(file)).collect();
    assert_eq!(after, before);
    assert_eq!(
        island.sh("second", "cat shared README.md").ok().out(),
        "original\n# hello"
    );
    assert_eq!(
        std::fs::read_to_string(repository.path.join("shared")).unwrap(),
        "original\n"
    );

    // A write past the overlay reaches both bases.
    let naive = format!("attempt('write', write, {:?})", files[0]);
    island.attempts_outside(&island.home(), &naive).succeeded();
    assert_ne!(print_of(&files[1]).0, before[1].0);
}

#[test]
fn attack_24_the_shared_git_objects_are_not_changed() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.git(&["gc", "-q"]);
    repository.up("x");
    let script = r#"
names = [os.path.join(folder, name) for folder, _, files in os.walk(OBJECTS) for name in files]
assert names
for path in names:
    attempt(path + " mode", os.chmod, path, 0o644)
    attempt(path, write, path)
    attempt(path + " remove", os.unlink, path)
attempt("new", lambda: os.close(os.open(OBJECTS + "/new", os.O_CREAT | os.O_WRONLY)))
"#;
    let at = |place: &str| format!("OBJECTS = {place:?}\n{script}");
    island
        .attempts("x", &at("/run/holm/objects"))
        .refused(&["EROFS", "EACCES"]);
    repository.git(&["fsck", "--full", "--strict"]);
    // Their owner can do all of it outside.
    let copy = island.home().join("objects");
    let objects = repository.path.join(".git/objects");
    let line = ["-r", objects.to_str().unwrap(), copy.to_str().unwrap()];
    island.run(&island.home(), "cp", &line).ok();
    island
        .attempts_outside(&island.home(), &at(copy.to_str().unwrap()))
        .succeeded();
}
