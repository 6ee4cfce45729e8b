//! The connection to an engine: where it is, which version of its API it speaks, and what its errors mean.

use crate::settings::Settings;
use bollard::errors::Error;
use bollard::models::SystemInfo;
use bollard::{API_DEFAULT_VERSION, Docker};
use holm_core::{Code, Fault};
use std::env;
use std::path::{Path, PathBuf};

/// Seconds that the engine may take to answer: it copies an image's files for each container with some storage drivers.
const PATIENCE: u64 = 300;

/// The oldest version of the API that has what the driver needs.
const OLDEST: (usize, usize) = (1, 40);

/// Where an engine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Unix(PathBuf),
    Tcp(String),
}

/// Whose API it is: they differ in details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Docker,
    Podman,
}

pub async fn kind(docker: &Docker) -> Result<Kind, Fault> {
    let version = docker.version().await;
    let version = version.map_err(|error| refused("the engine does not say its version", error))?;
    let mut components = version.components.into_iter().flatten();
    Ok(if components.any(|part| part.name.contains("Podman")) {
        Kind::Podman
    } else {
        Kind::Docker
    })
}

/// Rootless Podman mounts no volumes with options, and the trees of workspaces are overlays.
pub fn require_overlays(kind: Kind, info: &SystemInfo) -> Result<(), Fault> {
    let mut options = info.security_options.iter().flatten();
    if kind == Kind::Podman && options.any(|option| option.contains("rootless")) {
        return Err(unavailable(
            "rootless Podman does not mount overlays as volumes",
            "use Podman as root (`sudo systemctl start podman.socket`), or Docker, which can be rootless",
        ));
    }
    Ok(())
}

/// The address of the engine; `None`: there is none on this machine, and no variable names another.
pub fn find(settings: &Settings) -> Result<Option<Address>, Fault> {
    let asked = settings.host.clone();
    let asked = asked.or_else(|| env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty()));
    match asked {
        Some(asked) => parse(&asked).map(Some),
        None => Ok(sockets()
            .into_iter()
            .find(|path| path.exists())
            .map(Address::Unix)),
    }
}

fn parse(asked: &str) -> Result<Address, Fault> {
    if let Some(path) = asked.strip_prefix("unix://") {
        return Ok(Address::Unix(path.into()));
    }
    let is_tls = env::var("DOCKER_TLS_VERIFY").is_ok_and(|value| !value.is_empty());
    match asked.strip_prefix("tcp://") {
        Some(_) if is_tls => Err(unavailable(
            "holm does not speak TLS with an engine",
            "forward the engine's socket (`ssh -L`) and name that in DOCKER_HOST",
        )),
        Some(address) => Ok(Address::Tcp(format!("tcp://{address}"))),
        None => Err(unavailable(
            format!("holm cannot connect to an engine at {asked}"),
            "name a `unix://` or a `tcp://` address in DOCKER_HOST or in [docker] host",
        )),
    }
}

/// Where engines of this machine listen: the user's own first.
fn sockets() -> Vec<PathBuf> {
    let own = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = own
        .iter()
        .flat_map(|run| [run.join("docker.sock"), run.join("podman/podman.sock")]);
    let machine = ["/var/run/docker.sock", "/run/podman/podman.sock"];
    own.chain(machine.map(PathBuf::from)).collect()
}

/// Connects, and agrees on a version.
pub async fn connect(address: &Address) -> Result<Docker, Fault> {
    let connected = match address {
        Address::Unix(path) => {
            Docker::connect_with_unix(&path.display().to_string(), PATIENCE, API_DEFAULT_VERSION)
        }
        Address::Tcp(address) => Docker::connect_with_http(address, PATIENCE, API_DEFAULT_VERSION),
    };
    let connected = match connected {
        Ok(connected) => connected.negotiate_version().await,
        Err(error) => Err(error),
    };
    let docker = connected.map_err(|error| does_not_answer(address, error))?;
    let version = docker.client_version();
    if (version.major_version, version.minor_version) < OLDEST {
        return Err(unavailable(
            format!("{address} speaks version {version} of its API, and holm needs 1.40"),
            "use a newer engine",
        ));
    }
    Ok(docker)
}

fn does_not_answer(address: &Address, error: Error) -> Fault {
    let hint = match address {
        Address::Unix(path) if !is_writable(path) => {
            "your user must be able to use the engine's socket; or leave out `driver`"
        }
        _ => "start the engine, or leave out `driver`",
    };
    unavailable(format!("{address} does not answer"), hint).because(error)
}

fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

pub fn none() -> Fault {
    unavailable(
        "there is no Docker or Podman engine on this machine",
        "start one, name its address in DOCKER_HOST, or leave out `driver`",
    )
}

pub fn unavailable(message: impl Into<String>, hint: &str) -> Fault {
    Fault::new(Code::DriverUnavailable, message.into(), hint)
}

/// The engine refused what the driver asked for.
pub fn refused(what: impl Into<String>, error: Error) -> Fault {
    let what = what.into();
    match error {
        Error::DockerResponseServerError { message, .. } => {
            Fault::new(Code::Internal, what, "see the engine's own log").because(message)
        }
        error => unavailable(what, "is the engine running? `holm doctor` looks").because(error),
    }
}

/// Whether what was asked for is not there.
pub fn is_absent(error: &Error) -> bool {
    matches!(
        error,
        Error::DockerResponseServerError {
            status_code: 404,
            ..
        }
    )
}

/// Whether another process made the same object at the same time, or the object is in that state already.
pub fn is_conflict(error: &Error) -> bool {
    matches!(
        error,
        Error::DockerResponseServerError {
            status_code: 304 | 409,
            ..
        }
    )
}

// === impl Address ===

impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "the engine at {}", path.display()),
            Self::Tcp(address) => write!(formatter, "the engine at {address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rootless_podman_is_refused_before_anything_is_made() {
        let info = |option: &str| SystemInfo {
            security_options: Some(vec!["name=seccomp".to_owned(), option.to_owned()]),
            ..SystemInfo::default()
        };
        for (kind, option, is_fit) in [
            (Kind::Podman, "name=rootless", false),
            (Kind::Podman, "name=selinux", true),
            (Kind::Docker, "name=rootless", true),
        ] {
            assert_eq!(
                require_overlays(kind, &info(option)).is_ok(),
                is_fit,
                "{kind:?} {option}"
            );
        }
    }

    #[test]
    fn addresses() {
        let unix = |path: &str| Some(Address::Unix(path.into()));
        for (asked, expected) in [
            ("unix:///run/docker.sock", unix("/run/docker.sock")),
            (
                "tcp://127.0.0.1:2375",
                Some(Address::Tcp("tcp://127.0.0.1:2375".to_owned())),
            ),
            ("ssh://me@example.org", None),
            ("nonsense", None),
        ] {
            assert_eq!(parse(asked).ok(), expected, "{asked}");
        }
    }
}
