//! As in a container: files below `/etc` are separate mounts.

use crate::support::{Island, Ran, is_root};
use std::process::Command;

/// A directory with mounts below it cannot be an overlay's layer in a user namespace, so `/etc` is
/// put together entry by entry there.
#[test]
fn mounts_below_etc_do_not_stand_in_the_way() {
    // Only root can mount on the host's /etc, in a mount namespace that ends with the command.
    if !is_root() {
        return;
    }
    let island = Island::new();
    let repository = island.repository("shop");
    let holm = |arguments: &[&str]| {
        let inner = island.holm_command(&repository.path, arguments);
        let ids = rustix::fs::stat(&repository.path).unwrap();
        let script = "mount --make-rprivate / && mount --bind /etc/hosts /etc/hosts && exec \"$@\"";
        let mut outer = Command::new("unshare");
        outer
            .args([
                "--mount",
                "sh",
                "-c",
                script,
                "sh",
                "setpriv",
                "--clear-groups",
            ])
            .arg(format!("--reuid={}", ids.st_uid))
            .arg(format!("--regid={}", ids.st_gid))
            .arg(inner.get_program())
            .args(inner.get_args())
            .current_dir(&repository.path)
            .env_clear()
            .envs(
                inner
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
        Ran::new(&mut outer)
    };
    holm(&["up", "boxed"]).ok();
    let hosts = island
        .sh("boxed", "cat /etc/hosts; ls /etc | wc -l; touch /etc/new")
        .exits(1);
    let text = hosts.out();
    assert!(text.starts_with("127.0.0.1 localhost boxed"), "{text}");
    let entries: usize = text.lines().last().unwrap().trim().parse().unwrap();
    assert!(entries > 20, "the host's files are there too: {text}");
    assert!(
        hosts.stderr.contains("Read-only file system"),
        "{}",
        hosts.stderr
    );
    assert_eq!(
        island
            .sh("boxed", "getent passwd $(id -u) | cut -d: -f1")
            .ok()
            .out(),
        island.sh("boxed", "whoami").ok().out()
    );
}
