//! What a program inside gets from the keeper, and what comes back of its start: environment,
//! directory, streams, terminal. Used for commands, runs, sessions and services.

use super::Registry;
use std::io;
use std::os::fd::OwnedFd;

/// The source of a port that `holm.toml` names.
const DECLARED: &str = "declared";

/// Init did not pass the requested terminal, or the kernel did not allow it.
pub const NO_TERMINAL: &str = "init passed no terminal";

/// The ends of all three streams.
pub fn three(ends: Vec<OwnedFd>) -> io::Result<[OwnedFd; 3]> {
    let not_three = |_| io::Error::other("init passed other streams than it was asked for");
    ends.try_into().map_err(not_three)
}

/// Whether init really passed a terminal. Init may be under a guest's control, and reading from
/// another kind of descriptor could block forever.
pub fn is_terminal(master: &OwnedFd) -> bool {
    const MASTER: (u32, u32) = (5, 2);
    rustix::fs::fstat(master).is_ok_and(|found| {
        let kind = rustix::fs::FileType::from_raw_mode(found.st_mode);
        let device = (
            rustix::fs::major(found.st_rdev),
            rustix::fs::minor(found.st_rdev),
        );
        kind == rustix::fs::FileType::CharacterDevice && device == MASTER
    })
}

/// The workspace's own environment, then what the request adds.
pub fn environment(
    registry: &Registry,
    term: Option<&str>,
    added: Vec<(Vec<u8>, Vec<u8>)>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut environment: Vec<(Vec<u8>, Vec<u8>)> = registry
        .plan
        .environment
        .iter()
        .map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()))
        .collect();
    environment.push((
        b"HOLM_WORKSPACE_LABEL".to_vec(),
        registry.label().into_bytes(),
    ));
    environment.extend(urls(registry));
    environment.push((b"TERM".to_vec(), term.unwrap_or("dumb").as_bytes().to_vec()));
    environment.extend(added);
    environment
}

/// `HOLM_URL_<NAME>` for every declared port with a URL.
fn urls(registry: &Registry) -> Vec<(Vec<u8>, Vec<u8>)> {
    let declared = registry.ports().into_iter();
    let declared = declared.filter(|port| port.source == DECLARED);
    let urls = declared.filter_map(|port| {
        let name = port.name.to_ascii_uppercase().replace('-', "_");
        Some((
            format!("HOLM_URL_{name}").into_bytes(),
            port.url?.into_bytes(),
        ))
    });
    urls.collect()
}

pub fn directory(registry: &Registry, asked: Option<Vec<u8>>) -> Vec<u8> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let root = &registry.plan.root;
    let path = match asked {
        Some(asked) => root.join(std::ffi::OsString::from_vec(asked)),
        None => root.clone(),
    };
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_182_only_a_terminal_is_taken_for_one() {
        let (pipe, _) = io::pipe().unwrap();
        assert!(!is_terminal(&pipe.into()));
        for (path, expect) in [
            ("/dev/null", false),
            ("/proc/self/exe", false),
            ("/dev/ptmx", true),
        ] {
            let file = std::fs::File::open(path).unwrap();
            assert_eq!(is_terminal(&file.into()), expect, "{path}");
        }
    }
}
