//! Real engines for tests: Docker's daemon and Podman's service, each started in mount and network namespaces of its own,
//! with an image of programs of this machine. Also a part of the tests of `holm`.

#![allow(dead_code, reason = "each program of tests uses a part of it")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The image that workspaces of tests run in.
pub const IMAGE: &str = "holm-test:1";

/// Packages whose programs the image has.
const PACKAGES: [&str; 5] = ["coreutils", "findutils", "grep", "sed", "tar"];
const PROGRAMS: [&str; 5] = [
    "/bin/sh",
    "/bin/bash",
    "/usr/bin/git",
    "/usr/bin/ps",
    "/usr/bin/python3",
];

/// The engine has files of `/run` and a network of its own.
const START: &str = "mount --make-rprivate / && mount -t tmpfs tmpfs /run && ip link set lo up && \
    ip addr add 203.0.113.1/32 dev lo && exec \"$@\"";

const STARTS_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Docker,
    Podman,
}

/// A running engine. It ends with this.
pub struct Engine {
    kind: Kind,
    process: Child,
    place: PathBuf,
}

// === impl Kind ===

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Kind::Docker => "/usr/sbin/dockerd",
            Kind::Podman => "/usr/bin/podman",
        }
    }
}

// === impl Engine ===

impl Engine {
    /// The error says why this machine cannot have one.
    pub fn start(kind: Kind, place: &Path) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can start an engine".to_owned());
        }
        if !Path::new(kind.program()).exists() {
            return Err(format!("{} is not installed", kind.program()));
        }
        fs::create_dir_all(place).unwrap();
        let mut engine = Self {
            kind,
            process: begin(kind, place),
            place: place.to_owned(),
        };
        engine.wait();
        let anyone = fs::Permissions::from_mode(0o666);
        fs::set_permissions(engine.socket(), anyone).unwrap();
        engine.import_image();
        Ok(engine)
    }

    pub fn socket(&self) -> PathBuf {
        self.place.join("engine.sock")
    }

    /// As in `DOCKER_HOST`.
    pub fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// A command in the engine's own network, where 203.0.113.1 is an address of the machine.
    pub fn beside(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &self.process.id().to_string(), "-n", "--"])
            .args(arguments);
        command
    }

    /// Ends the engine, which ends its containers, and starts it again with the same files.
    pub fn restart(&mut self) {
        self.end();
        self.process = begin(self.kind, &self.place);
        self.wait();
        let anyone = fs::Permissions::from_mode(0o666);
        fs::set_permissions(self.socket(), anyone).unwrap();
    }

    /// Docker's client, which speaks with Podman, too.
    pub fn client(&self, arguments: &[&str]) -> String {
        let output = Command::new("docker")
            .args(["--host", &self.address()])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(output.status.success(), "docker {arguments:?}: {output:?}");
        said
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.join("log")).unwrap_or_default()
    }

    fn wait(&mut self) {
        let deadline = Instant::now() + STARTS_WITHIN;
        while UnixStream::connect(self.socket()).is_err() {
            assert_eq!(self.process.try_wait().unwrap(), None, "{}", self.log());
            assert!(Instant::now() < deadline, "{}", self.log());
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn import_image(&self) {
        let root = self.place.join("root");
        make_root(&root).unwrap();
        let archive = self.place.join("root.tar");
        let packed = Command::new("tar")
            .args(["--owner=0", "--group=0", "-C"])
            .arg(&root)
            .arg("-cf")
            .arg(&archive)
            .arg(".")
            .status();
        assert!(packed.unwrap().success());
        self.client(&["import", archive.to_str().unwrap(), IMAGE]);
        fs::remove_dir_all(root).unwrap();
        fs::remove_file(archive).unwrap();
    }

    fn end(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.process.wait();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}

fn begin(kind: Kind, place: &Path) -> Child {
    let at = |name: &str| place.join(name).display().to_string();
    let socket = format!("unix://{}", at("engine.sock"));
    // A socket of an engine that was killed is in the way.
    let _ = fs::remove_file(place.join("engine.sock"));
    let mut command = Command::new("unshare");
    command.args(["-m", "-n", "sh", "-c", START, "engine", kind.program()]);
    match kind {
        Kind::Docker => {
            command.args([
                "--iptables=false",
                "--ip6tables=false",
                "--storage-driver=overlay2",
            ]);
            command.arg(format!("--host={socket}"));
            for (name, path) in [
                ("data-root", "data"),
                ("exec-root", "exec"),
                ("pidfile", "pid"),
            ] {
                command.arg(format!("--{name}={}", at(path)));
            }
        }
        Kind::Podman => {
            command.args(["--root", &at("data"), "--runroot", &at("exec")]);
            // Debian's other runtime refuses machines with both versions of control groups.
            command.args(["--runtime", "runc", "--cgroup-manager", "cgroupfs"]);
            command.args(["system", "service", "--time=0", &socket]);
        }
    }
    let log = File::options()
        .create(true)
        .append(true)
        .open(at("log"))
        .unwrap();
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Programs of this machine with their libraries.
fn make_root(root: &Path) -> io::Result<()> {
    for name in ["bin", "sbin", "lib", "lib64"] {
        fs::create_dir_all(root.join("usr").join(name))?;
        symlink(Path::new("usr").join(name), root.join(name))?;
    }
    for name in [
        "etc", "dev", "proc", "sys", "run", "root", "home", "tmp", "var/tmp",
    ] {
        fs::create_dir_all(root.join(name))?;
    }
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\n")?;
    let listed = Command::new("dpkg").arg("-L").args(PACKAGES).output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let listed = listed.lines().filter(|path| path.contains("/bin/"));
    let mut files: BTreeSet<String> = PROGRAMS.map(str::to_owned).into();
    files.extend(listed.map(str::to_owned));
    let own = std::env::current_exe()?;
    let examined = files.iter().map(PathBuf::from).chain([own]);
    let examined: Vec<_> = examined.filter(|path| path.is_file()).collect();
    let found = Command::new("ldd").args(examined).output()?;
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    let words = found.split_whitespace();
    files.extend(
        words
            .filter(|word| word.starts_with('/') && !word.ends_with(':'))
            .map(str::to_owned),
    );
    for file in files.iter().map(Path::new).filter(|file| file.is_file()) {
        let to = root.join(file.strip_prefix("/").unwrap_or(file));
        fs::create_dir_all(to.parent().unwrap())?;
        fs::copy(file, to)?;
    }
    for directory in ["/usr/lib/git-core", "/usr/lib/python3.11"] {
        let status = Command::new("cp")
            .args(["-a", "--parents", directory])
            .arg(root)
            .stderr(Stdio::null())
            .status()?;
        // Another release has another path for Python.
        let _ = status;
    }
    Ok(())
}
