//! Attacks on files of the host: written, read, followed and waited for from inside (attacks 1, 2,
//! 9, 12, 16, 17, 18). Every refusal is held against the same attempt outside.

use crate::support::{Island, Ran, Repository, eventually, program};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What a refused file access ends with.
const REFUSED: [&str; 3] = ["EROFS", "EACCES", "ENOENT"];

/// `holm up` with a toolchain of the user's own on PATH, which is shown read-only inside.
fn up_with_toolchain(repository: &Repository, label: &str) -> PathBuf {
    let island = repository.island;
    island.make_dir("home/.cargo");
    let bin = island.make_dir("home/.cargo/bin");
    let tool = island.write("home/.cargo/bin/tool", "#!/bin/sh\necho tool\n");
    std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let mut command = island.holm_command(&repository.path, &["up", label]);
    Ran::new(command.env("PATH", path)).ok();
    tool
}

/// Every path below a directory with its bytes; symlinks with their target.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_dir() {
            found.extend(contents(&path));
            found.insert(path, Vec::new());
        } else if kind.is_symlink() {
            let target = std::fs::read_link(&path).unwrap();
            found.insert(path, target.as_os_str().as_bytes().to_vec());
        } else {
            let bytes = std::fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

fn workspace_id(island: &Island, label: &str) -> String {
    let shown = island.holm(&["show", label, "--json"]).json();
    shown["id"].as_str().unwrap().to_owned()
}

#[test]
fn attack_1_a_read_only_path_of_the_host_is_not_written_by_any_alias() {
    let island = Island::new();
    let repository = island.repository("shop");
    let tool = up_with_toolchain(&repository, "x");
    assert_eq!(island.inside("x", &["tool"]).ok().out(), "tool");
    let before = contents(&island.home().join(".cargo"));

    let script = format!(
        r#"
target = {tool:?}
folder = os.path.dirname(target)
def by_descriptor():
    write("/proc/self/fd/%d" % os.open(target, os.O_RDONLY))
def by_path_descriptor():
    write("/proc/self/fd/%d" % os.open(target, os.O_PATH))
def by_directory():
    write("/proc/self/fd/%d/tool" % os.open(folder, os.O_RDONLY))
def by_link():
    os.symlink(target, "a-link")
    write("a-link")
attempt("direct", write, target)
attempt("parents", write, "../../.cargo/bin/tool")
attempt("root", write, "/proc/self/root" + target)
attempt("root of the thread", write, "/proc/thread-self/root" + target)
attempt("current directory", write, "/proc/self/cwd/../../.cargo/bin/tool")
attempt("descriptor", by_descriptor)
attempt("path descriptor", by_path_descriptor)
attempt("directory", by_directory)
attempt("link", by_link)
attempt("truncate", os.truncate, target, 0)
attempt("chmod", os.chmod, target, 0o777)
attempt("times", os.utime, target, (1, 1))
attempt("attribute", os.setxattr, target, "user.holm", b"x")
attempt("make", os.mkdir, folder + "/made")
attempt("rename", os.rename, target, folder + "/renamed")
attempt("remove", os.unlink, folder + "/" + ("renamed" if results["rename"] == "ok" else "tool"))
"#
    );
    island.attempts("x", &script).refused(&REFUSED);
    let by_init = format!(r#"attempt("init", write, "/proc/1/root" + {tool:?})"#);
    island.attempts("x", &by_init).refused(&REFUSED);
    assert_eq!(contents(&island.home().join(".cargo")), before);

    // Only the mount prevents it: outside the same user can do all of it.
    island
        .attempts_outside(&repository.path, &script)
        .succeeded();
    assert_ne!(contents(&island.home().join(".cargo")), before);
}

#[test]
fn attack_2_hidden_paths_cannot_be_named_and_siblings_leave_no_trace() {
    let island = Island::new();
    let repository = island.repository("shop");
    island.repository("other").write("secret", "canary");
    for directory in ["home/.ssh", "home/.aws"] {
        island.make_dir(directory);
    }
    island.write("home/.ssh/id_ed25519", "canary");
    island.write("home/.aws/credentials", "canary");
    let sibling = repository.up("sibling-of-x");
    island.sh("sibling-of-x", "echo canary > ~/note").ok();
    repository.up("x");

    let hidden = [
        island.home().join(".ssh/id_ed25519"),
        island.home().join(".aws/credentials"),
        island.home().join("src/other/secret"),
        island.data().join("holm.db"),
        island.data().join("workspaces").join(&sibling),
        island
            .data()
            .join("workspaces")
            .join(&sibling)
            .join("home/note"),
        island.holm_home().join("run/daemon.sock"),
    ];
    let script = format!(
        r#"
up = "/".join([".."] * 30)
for path in {hidden:?}:
    look = os.lstat if path.endswith(".sock") else read
    attempt(path, look, path)
    attempt(path + " by parents", look, up + path)
    attempt(path + " by root", look, "/proc/self/root" + path)
    attempt(path + " by directory", look, "/proc/self/cwd/" + up + path)
    attempt(path + " by descriptor", look, "/proc/self/fd/%d%s" % (os.open("/", os.O_PATH), path))
"#
    );
    island.attempts("x", &script).refused(&REFUSED);
    island
        .attempts_outside(&repository.path, &script)
        .succeeded();

    // The strings in mountinfo name host paths, which do not exist inside.
    let named = r#"
for line in open("/proc/self/mountinfo"):
    place = line.split()[3]
    if "/data/" in place:
        attempt(place, os.stat, place)
"#;
    island.attempts("x", named).refused(&["ENOENT"]);
    let everything = "cat /proc/self/mountinfo /proc/self/mounts /proc/*/maps /proc/*/cmdline \
                      /proc/*/environ /run/holm/* 2>&1; holm here --json; env; ls -laR /tmp ~ /run";
    let told = island.sh("x", everything).out();
    let own = workspace_id(&island, "x");
    assert!(told.contains(&own), "the sweep sees its own workspace");
    for leak in [sibling.as_str(), "sibling-of-x", "canary"] {
        assert!(!told.contains(leak), "{leak} in {told}");
    }
}

#[test]
fn attack_9_links_where_the_next_start_writes_are_not_followed() {
    let island = Island::new();
    let repository = island.repository("shop");
    up_with_toolchain(&repository, "x");
    let id = workspace_id(&island, "x");
    let outside = island.make_dir("outside");
    island.write("outside/kept", "kept");
    let before = contents(&outside);
    let plant = format!(
        "set -e; out={out}
         mv ~/.cargo ~/moved; ln -s $out ~/.cargo; ln -s $out ~/.rustup
         ln -s $out /tmp/out; ln -s $out out; ln -s $out/kept README.link
         mv .git .git-moved; ln -s $out .git
         ! mv ~/src ~/src-moved; ! rmdir ~/src",
        out = outside.display()
    );
    island.sh("x", &plant).ok();
    island.holm(&["stop", "x"]).ok();
    let mut start = island.holm_command(&island.home(), &["start", "x"]);
    Ran::new(&mut start).ok();
    assert_eq!(
        island.sh("x", "readlink ~/.cargo").ok().out(),
        outside.to_str().unwrap()
    );
    island.holm(&["rename", "x", "y"]).ok();
    island.holm(&["show", "y"]).ok();
    island.holm(&["restart", "y"]).ok();
    // With such a repository holm cannot tell what is unsaved.
    island.holm(&["rm", "y", "--json"]).error(4);
    island.holm(&["rm", "y", "--force"]).ok();
    assert_eq!(contents(&outside), before);

    // The planted symlinks work against a program that follows them.
    let place = island.data().join("trash").join(id).join("home/.cargo/bin");
    island
        .run(&island.home(), "mkdir", &["-p", place.to_str().unwrap()])
        .ok();
    assert_ne!(contents(&outside), before);
}

#[test]
fn attack_9_a_link_on_the_way_to_the_tree_ends_the_start() {
    let island = Island::without("pins");
    let repository = island.repository("shop");
    repository.up("x");
    let outside = island.make_dir("outside");
    // Only possible without the pins, which is why this is the second line of defence.
    let plant = format!("mv ~/src ~/moved && ln -s {} ~/src", outside.display());
    island.sh("x", &plant).ok();
    island.holm(&["stop", "x"]).ok();
    let failed = island.holm(&["start", "x", "--json"]).error(1);
    assert_eq!(failed["code"], "start_failed", "{failed}");
    assert!(contents(&outside).is_empty());
}

/// Runs holm with a limit that only a read that blocks reaches.
fn holm_within_limit(repository: &Repository, arguments: &[&str]) -> Ran {
    let program = program().to_str().unwrap();
    let line = [&["60", program], arguments].concat();
    let ran = repository.island.run(&repository.path, "timeout", &line);
    assert_ne!(ran.code, Some(124), "it waits: {ran:?}");
    ran
}

#[test]
fn attack_12_pipes_devices_and_links_in_place_of_files_that_are_read() {
    let island = Island::new();
    let repository = island.repository("shop");
    let elsewhere = "[project]\nroot = \"/srv/elsewhere\"\n";
    let outside = island.write("home/outside.toml", elsewhere);
    let fifo = |name: &str| {
        island.run(&repository.path, "mkfifo", &[name]).ok();
    };
    let link = |target: &str, name: &str| {
        island
            .run(&repository.path, "ln", &["-s", target, name])
            .ok();
    };
    let clear = |name: &str| std::fs::remove_file(repository.path.join(name)).unwrap();
    let own_root = repository.path.to_str().unwrap();

    fifo("holm.toml");
    let blocked = island.run(&repository.path, "timeout", &["0.2", "cat", "holm.toml"]);
    assert_eq!(blocked.code, Some(124), "a plain read waits for ever");
    let mut number = 0;
    let mut up = |options: &[&str]| {
        number += 1;
        let label = format!("w{number}");
        let ran = holm_within_limit(&repository, &[&["up", &label, "--json"], options].concat());
        island.holm(&["ls"]).ok();
        (label, ran)
    };
    assert_eq!(up(&["--dirty"]).1.json()["root"], own_root);
    clear("holm.toml");
    for target in ["/proc/self/mem", "/dev/zero", outside.to_str().unwrap()] {
        link(target, "holm.toml");
        assert_eq!(up(&["--dirty"]).1.json()["root"], own_root, "{target}");
        clear("holm.toml");
    }
    // A file with the same text counts, so the link was not followed.
    repository.write("holm.toml", elsewhere);
    assert_eq!(up(&["--dirty"]).1.json()["root"], "/srv/elsewhere");
    clear("holm.toml");

    for name in [".worktreeinclude", "AGENTS.md"] {
        fifo(name);
        up(&[]).1.ok();
        up(&["--dirty"]).1.ok();
        clear(name);
        link("/dev/zero", name);
        up(&[]).1.ok();
        clear(name);
    }
    let secret = island.write("home/secret", "canary");
    link(secret.to_str().unwrap(), "AGENTS.md");
    let (label, ran) = up(&[]);
    ran.ok();
    let seen = island.sh(&label, "readlink AGENTS.md; cat AGENTS.md");
    assert!(seen.out().starts_with(secret.to_str().unwrap()), "{seen:?}");
    assert!(!seen.out().contains("canary"), "{seen:?}");

    fifo("pipe");
    up(&["--include", "pipe"]).1.exits(2);
    island.run(&repository.path, "mkdir", &["folder"]).ok();
    fifo("folder/pipe");
    repository.write("folder/file", "here");
    let (label, ran) = up(&["--include", "folder"]);
    ran.ok();
    assert_eq!(island.sh(&label, "ls folder").ok().out(), "file");
}

#[test]
fn attack_12_pipes_in_place_of_gits_files_do_not_hold_up_the_daemon() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    island
        .sh(
            "x",
            "cd .git && rm -f HEAD index config && mkfifo HEAD index config",
        )
        .ok();
    let blocked = island.sh("x", "timeout 0.2 git status");
    assert_eq!(blocked.code, Some(124), "git itself waits: {blocked:?}");
    for line in [
        &["ls"][..],
        &["show", "x"],
        &["exec", "x", "--", "true"],
        &["restart", "x"],
        &["up", "x"],
        &["rm", "x", "--force"],
        &["up", "y"],
    ] {
        holm_within_limit(&repository, line).ok();
    }
}

/// holm with a directory of the host, a listening socket and a pipe on descriptors 3 to 40.
fn holm_with_descriptors(island: &Island, directory: &Path, arguments: &[&str]) -> Command {
    let script = r#"
import os, socket, sys
directory = os.open("/", os.O_RDONLY)
listener = socket.socket(socket.AF_UNIX)
listener.bind("")
listener.listen()
reader, writer = os.pipe()
sources = [os.dup2(source, 60 + at) for at, source in
           enumerate([directory, listener.fileno(), reader, writer])]
for number in range(3, 41):
    os.dup2(sources[number % 4], number, inheritable=True)
os.execv(sys.argv[1], sys.argv[1:])
"#;
    let mut command = island.command("/usr/bin/python3", directory);
    command.args(["-c", script]).arg(program()).args(arguments);
    command
}

/// A workspace whose daemon, client and commands all had descriptors to lose.
fn up_with_descriptors(repository: &Repository) -> Child {
    let island = repository.island;
    let run = ["daemon", "run"];
    let mut command = holm_with_descriptors(island, &repository.path, &run);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let daemon = command.spawn().unwrap();
    eventually("the daemon answers", || {
        let status = island.holm(&["daemon", "status"]);
        status.code == Some(0)
    });
    assert_eq!(island.daemon_pid(), daemon.id() as i32);
    let mut up = holm_with_descriptors(island, &repository.path, &["up", "x"]);
    Ran::new(&mut up).ok();
    daemon
}

fn descriptors_inside(repository: &Repository) -> String {
    let list = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))";
    let line = ["exec", "x", "--", "/usr/bin/python3", "-c", list];
    let mut command = holm_with_descriptors(repository.island, &repository.path, &line);
    Ran::new(&mut command).ok().out()
}

/// Stops the daemon and waits for it, so that no zombie is left.
fn end(island: &Island, mut daemon: Child) {
    island.holm(&["daemon", "stop", "--all"]).ok();
    daemon.wait().unwrap();
}

#[test]
fn attack_16_descriptors_of_client_and_daemon_do_not_get_inside() {
    let island = Island::new();
    let repository = island.repository("shop");
    let daemon = up_with_descriptors(&repository);
    // 3 is the listing itself.
    assert_eq!(descriptors_inside(&repository), "[0, 1, 2, 3]");
    for number in 3..=40 {
        let directory = format!("/proc/self/fd/{number}");
        let line = ["exec", "x", "--cwd", &directory, "--", "true"];
        island.holm(&line).exits(126);
    }
    end(&island, daemon);
}

#[test]
fn attacks_16_and_17_work_without_closed_descriptors() {
    let island = Island::without("closed_descriptors,landlock");
    let repository = island.repository("shop");
    let canary = island.write("home/canary", "outside");
    let daemon = up_with_descriptors(&repository);
    assert_ne!(descriptors_inside(&repository), "[0, 1, 2, 3]");
    island
        .sh("x", &format!("cat {}", canary.display()))
        .exits(1);
    let reached = (3..=40).any(|number| {
        let directory = format!("/proc/self/fd/{number}");
        let relative = canary.strip_prefix("/").unwrap().to_str().unwrap();
        let line = ["exec", "x", "--cwd", &directory, "--", "cat", relative];
        island.holm(&line).out() == "outside"
    });
    assert!(reached, "a descriptor leads to the host's root");
    end(&island, daemon);
}

#[test]
fn attack_17_a_directory_to_run_in_is_inside_or_refused() {
    let island = Island::new();
    let repository = island.repository("shop");
    let outside = island.make_dir("home/outside");
    repository.up("x");
    let prepare = format!(
        "ln -s {} out; ln -s /proc/1/root root; ln -s / top; mkdir gone
         cd gone; setsid sleep 1000 >/dev/null 2>&1 & echo $! > /tmp/pid; \
         cd {}; rmdir gone",
        outside.display(),
        repository.path.display()
    );
    island.sh("x", &prepare).ok();
    let run_in =
        |directory: &str| island.holm(&["exec", "x", "--cwd", directory, "--", "pwd", "-P"]);
    let pid = island.sh("x", "cat /tmp/pid").ok().out();
    let deleted = format!("/proc/{pid}/cwd");
    for directory in [
        "out",
        "root",
        "/proc/1/root",
        "/proc/1/cwd",
        "/proc/self/fd/0",
        "/proc/self/fd/3",
        "README.md",
        "not-there",
        outside.to_str().unwrap(),
        &deleted,
    ] {
        let ran = run_in(directory);
        assert!(ran.code != Some(0), "{directory}: {ran:?}");
        assert!(
            ran.stderr.contains("holm: ") || directory == deleted,
            "{ran:?}"
        );
    }
    // Inside they work, however they are written.
    let up = vec![".."; 30].join("/");
    for (directory, is) in [
        ("/", "/"),
        ("top", "/"),
        (up.as_str(), "/"),
        ("/run/holm", "/run/holm"),
        ("/proc/self/root/usr", "/usr"),
    ] {
        assert_eq!(run_in(directory).ok().out(), is, "{directory}");
    }
    // A host directory that is not shown contains nothing of the host.
    assert_eq!(
        island.sh("x", "ls -A /srv /mnt").ok().out(),
        "/mnt:\n\n/srv:"
    );
}

/// The hash of a program, its place, mode and time of change.
fn fingerprint(island: &Island, path: &Path) -> String {
    let sum = island.run(&island.home(), "cksum", &[path.to_str().unwrap()]);
    let metadata = path.metadata().unwrap();
    let (inode, mode) = (metadata.ino(), metadata.mode());
    format!(
        "{} {inode} {mode:o} {}",
        sum.ok().out(),
        metadata.mtime_nsec()
    )
}

#[test]
fn attack_18_the_programs_of_daemon_and_init_cannot_be_overwritten() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let installed = program().to_owned();
    let versions = std::fs::read_dir(island.data().join("program")).unwrap();
    let copies: Vec<_> = versions.map(|it| it.unwrap().path().join("holm")).collect();
    assert_eq!(copies.len(), 1);
    let print = || [&installed, &copies[0]].map(|path| fingerprint(&island, path));
    let before = print();

    let script = r#"
import fcntl, subprocess
program = sys.argv[1] if len(sys.argv) > 1 else PROGRAM
attempt("write", write, program)
attempt("truncate", os.truncate, program, 0)
attempt("chmod", os.chmod, program, 0o777)
attempt("rename", os.rename, program, program + ".old")
attempt("remove", os.unlink, program if results["rename"] != "ok" else program + ".old")
attempt("beside", lambda: os.close(os.open(os.path.dirname(program) + "/new", os.O_CREAT | os.O_WRONLY)))
"#;
    let at = |program: &str| format!("PROGRAM = {program:?}\n{script}");
    let refused = ["EROFS", "EACCES", "ETXTBSY", "EBUSY"];
    island
        .attempts("x", &at("/run/holm/bin/holm"))
        .refused(&refused);

    // A process of holm that hangs in the middle of a write, and the links to its program.
    let running = r#"
import fcntl, subprocess
reader, writer = os.pipe()
fcntl.fcntl(writer, 1031, 4096)
holm = subprocess.Popen(["/run/holm/bin/holm", "schema"], stdout=writer)
own = "/proc/%d/exe" % holm.pid
while os.readlink(own) != "/run/holm/bin/holm":
    pass
attempt("init", write, "/proc/1/exe")
attempt("a process", write, own)
attempt("truncate", os.truncate, own, 0)
kept = os.open(own, os.O_RDONLY)
holm.kill()
holm.wait()
attempt("by descriptor", write, "/proc/self/fd/%d" % kept)
attempt("chmod by descriptor", os.fchmod, kept, 0o777)
"#;
    island.attempts("x", running).refused(&refused);
    let shebang = "printf '#!/proc/self/exe\\n' > trick; chmod +x trick";
    island.sh("x", shebang).ok();
    let tricked = island.inside("x", &["./trick"]);
    assert_ne!(tricked.code, Some(0), "{tricked:?}");
    assert_eq!(print(), before);

    // Outside the same user does all of it to a copy.
    let copy = island.home().join("holm");
    let line = [copies[0].to_str().unwrap(), copy.to_str().unwrap()];
    island.run(&island.home(), "cp", &line).ok();
    island
        .attempts_outside(&island.home(), &at(copy.to_str().unwrap()))
        .succeeded();
}

#[test]
fn a_descriptor_of_the_client_is_not_kept_open_by_the_daemon() {
    let island = Island::new();
    let repository = island.repository("shop");
    // `$(holm up)` and pipelines end when every copy of the writing end is closed.
    let script = "exec 9>&1; exec \"$0\" up x >/dev/null 2>&1";
    let program = program().to_str().unwrap();
    // Reading its output to the end would block forever.
    island
        .run(
            &repository.path,
            "timeout",
            &["60", "sh", "-c", script, program],
        )
        .ok();
}
