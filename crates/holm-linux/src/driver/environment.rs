//! The environment, PATH and `/etc` of programs inside.

use holm_core::service_network;
use holm_core::spec::WorkspaceSpec;
use holm_core::toolchain::{Client, Look, Visible, visible};
use holm_keeper::directories::WorkspaceDirs;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The visible host paths and PATH inside, for the current state of the disk.
pub fn toolchains(spec: &WorkspaceSpec) -> Visible {
    let variables = BTreeMap::new();
    let client = Client {
        path: &spec.environment.path,
        home: &spec.home,
        variables: &variables,
        root: &spec.root,
        extra: &spec.toolchains,
    };
    let look = Look {
        read_link: &|path: &Path| fs::read_link(path).ok(),
        exists: &|path: &Path| path.exists(),
        list: &|path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten();
            entries
                .filter_map(|entry| Some(entry.ok()?.path()))
                .collect()
        },
    };
    visible(&client, &look)
}

/// The environment, which starts empty. The keeper adds what changes: TERM and the label.
pub fn variables(spec: &WorkspaceSpec, path: String) -> Vec<(String, String)> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut variables = vec![
        ("HOME".to_owned(), text(&spec.home)),
        ("PATH".to_owned(), path),
        ("HOLM_WORKSPACE_ID".to_owned(), spec.id.clone()),
        ("HOLM_ROOT".to_owned(), text(&spec.root)),
    ];
    let optional = [
        ("LANG", &spec.environment.lang),
        ("TZ", &spec.environment.tz),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            variables.push((name.to_owned(), value.clone()));
        }
    }
    variables
}

/// The files that cover the host's in `/etc`.
pub const ETC: [&str; 6] = [
    "passwd",
    "group",
    "hosts",
    "hostname",
    "resolv.conf",
    "nsswitch.conf",
];

/// Writes the files of [`ETC`].
pub fn write_etc(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> io::Result<()> {
    let etc = dirs.etc();
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    let user = user_name(uid);
    let home = spec.home.display();
    let shell = if Path::new("/bin/bash").exists() {
        "/bin/bash"
    } else {
        "/bin/sh"
    };
    let label = &spec.label;
    let texts = [
        format!(
            "root:x:0:0:root:/root:/usr/sbin/nologin\n\
             {user}:x:{uid}:{gid}::{home}:{shell}\n\
             nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        ),
        format!("root:x:0:\n{user}:x:{gid}:\nnogroup:x:65534:\n"),
        hosts(spec),
        format!("{label}\n"),
        resolver(),
        "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n\
         protocols: files\nservices: files\nethers: files\nrpc: files\n"
            .to_owned(),
    ];
    for (name, text) in ETC.into_iter().zip(texts) {
        fs::write(etc.join(name), text)?;
    }
    Ok(())
}

/// Names of services and shared services resolve to the workspace's own loopback, those of services with a network of
/// their own to their addresses.
fn hosts(spec: &WorkspaceSpec) -> String {
    let elsewhere = service_network::names(&spec.services);
    let mut names = vec!["localhost".to_owned()];
    let shared = spec.network.shared.iter().map(|shared| &shared.name);
    for name in spec.network.names.iter().chain(shared) {
        let is_elsewhere = elsewhere.iter().any(|(_, other)| other == name);
        if !names.contains(name) && *name != spec.label && !is_elsewhere {
            names.push(name.clone());
        }
    }
    let names = names.join(" ");
    let label = &spec.label;
    // As usual, a host's own name resolves to IPv4 first.
    let mut text = format!("127.0.0.1 {names} {label}\n::1 {names} ip6-localhost ip6-loopback\n");
    for (address, name) in elsewhere {
        text.push_str(&format!("{address} {name}\n"));
    }
    text
}

fn resolver() -> String {
    let address = crate::launch::network::ADDRESS;
    format!("nameserver {address}\noptions timeout:5 attempts:2\n")
}

/// Updates the host name to the current label, and the names of services.
pub fn follow_spec(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> io::Result<()> {
    let known = |name: &str| fs::read_to_string(dirs.etc().join(name)).unwrap_or_default();
    let is_same = known("hostname").trim_end() == spec.label
        && known("hosts") == hosts(spec)
        && known("resolv.conf") == resolver();
    if is_same {
        Ok(())
    } else {
        write_etc(dirs, spec)
    }
}

/// The user's name on the host; a name that is not in the file becomes `user`.
fn user_name(uid: u32) -> String {
    let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
    known
        .lines()
        .find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
        })
        .unwrap_or_else(|| "user".to_owned())
}

/// Maps a path in the user's home on the host to the workspace's own home.
pub fn below_home(spec: &WorkspaceSpec, dirs: &WorkspaceDirs, path: &Path) -> Option<PathBuf> {
    Some(dirs.home().join(path.strip_prefix(&spec.home).ok()?))
}
