//! Real engines: Docker's daemon, which the test starts, and rootless podman. They build images for holm, and holm takes
//! images from them.

use crate::builds::{DOCKERFILE, holm, network, rootless, said, stack};
use crate::support::{Island, Ran, Repository, Running, eventually, skipped};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Docker's daemon in mount and network namespaces of its own, for every user. It ends with this.
struct Docker {
    daemon: Running,
    socket: PathBuf,
}

/// Files of `/run` are the machine's own; the daemon's are elsewhere. The last words are the daemon's options.
const START: &str = "mount --make-rprivate / && mount -t tmpfs tmpfs /run && exec dockerd \"$@\"";

impl Docker {
    fn start(island: &Island) -> Option<Self> {
        if !rustix::process::getuid().is_root() {
            skipped("only root can start dockerd");
            return None;
        }
        if !Path::new("/usr/sbin/dockerd").exists() {
            skipped("docker.io is not installed");
            return None;
        }
        let place = island.make_dir("docker");
        let socket = place.join("docker.sock");
        let option = |name: &str, path: &str| format!("--{name}={}", place.join(path).display());
        let mut command = Command::new("unshare");
        command.args([
            "-m",
            "-n",
            "sh",
            "-c",
            START,
            "dockerd",
            "--storage-driver=vfs",
        ]);
        command.args(["--bridge=none", "--iptables=false", "--ip6tables=false"]);
        command.arg(format!("--host=unix://{}", socket.display()));
        for (name, path) in [
            ("data-root", "data"),
            ("exec-root", "exec"),
            ("pidfile", "pid"),
        ] {
            command.arg(option(name, path));
        }
        let log = std::fs::File::create(place.join("log")).unwrap();
        let mut daemon = Running::new(command.stderr(Stdio::from(log)));
        eventually("dockerd answers", || {
            let log = || std::fs::read_to_string(place.join("log")).unwrap_or_default();
            assert!(!daemon.has_ended(), "{}", log());
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
        let anyone = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(&socket, anyone).unwrap();
        Some(Self { daemon, socket })
    }

    fn holm(&self, repository: &Repository<'_>, arguments: &[&str]) -> Ran {
        let mut command = repository.island.holm_command(&repository.path, arguments);
        let host = format!("unix://{}", self.socket.display());
        Ran::new(command.env("DOCKER_HOST", host))
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        self.daemon.signal(rustix::process::Signal::TERM);
        self.daemon.code();
    }
}

fn names(list: &serde_json::Value) -> Vec<&str> {
    let images = list["images"].as_array().unwrap().iter();
    images
        .map(|image| image["reference"].as_str().unwrap())
        .collect()
}

#[test]
fn docker_builds_and_gives_images() {
    let island = Island::new();
    let Some(docker) = Docker::start(&island) else {
        return;
    };
    // Without commands, so that no container has to run.
    let dockerfile = "FROM scratch AS base\nCOPY root/ /\nFROM base AS prod\nARG COLOUR\nCOPY text /\n\
        ENV COLOUR=$COLOUR\nCMD [\"/bin/sh\", \"-c\", \"echo $COLOUR; cat /text; exec sleep 1000\"]\n";
    let repository = stack(&island, dockerfile);
    docker.holm(&repository, &["trust", "--yes"]).ok();
    docker.holm(&repository, &["up", "a", "--json"]).ok();
    assert!(said(&island, "a", "the first text").contains("green"));
    let imported = docker.holm(
        &repository,
        &[
            "image",
            "import",
            "docker:localhost/holm/web",
            "--name",
            "web:1",
            "--json",
        ],
    );
    let imported = imported.json();
    assert!(names(&imported)[0].ends_with("/web:1"), "{imported}");
    let absent = docker
        .holm(
            &repository,
            &["image", "import", "docker:nothing:1", "--json"],
        )
        .error(1);
    assert_eq!(absent["code"], "import_failed");
    assert!(
        absent["message"].as_str().unwrap().contains("nothing:1"),
        "{absent}"
    );
    // An image that an engine gave runs like any other.
    repository.write("holm.toml", "[services.web]\nimage = \"web:1\"\n");
    repository.commit("from docker");
    repository.holm(&["up", "b", "--json"]).ok();
    said(&island, "b", "the first text");
}

#[test]
fn podman_builds_and_gives_images() {
    let Some(island) = rootless("podman") else {
        return;
    };
    let repository = stack(&island, DOCKERFILE);
    holm(&repository, &["trust", "--yes"]).ok();
    holm(&repository, &["up", "a", "--json"]).ok();
    let logs = said(&island, "a", "the first text");
    assert!(logs.contains("green"), "{logs}");
    assert!(!logs.contains(&network()), "{logs}");
    let imported = holm(
        &repository,
        &["image", "import", "podman:localhost/holm/web", "--json"],
    )
    .json();
    assert_eq!(names(&imported), ["localhost/holm/web:latest"]);
    let absent = holm(
        &repository,
        &["image", "import", "podman:nothing:1", "--json"],
    )
    .error(1);
    assert_eq!(absent["code"], "import_failed");
    // Ends the process that keeps podman's user namespace.
    let podman = island.home().join("bin/podman");
    Ran::new(
        island
            .command(podman, &island.home())
            .args(["system", "migrate"]),
    )
    .ok();
}
