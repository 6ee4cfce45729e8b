//! Tests that need a machine of their own. `.config/nextest.toml` leaves them out of the suite, because CI and
//! most containers cannot run them; `make vm` runs them.

use crate::attacks_kernel_limits::GREED;
use crate::support::{Island, Ran};
use std::process::Command;

/// A user who may take more of the machine than others passes nothing of it on to workspaces. Only a root with
/// CAP_SYS_RESOURCE can raise the limits of such a user. CI has `attack_64_a_workspace_cannot_take_more_than_its_share`.
#[test]
fn attack_64_what_the_user_may_take_is_not_passed_on() {
    let island = Island::new();
    let repository = island.repository("shop");
    let favoured = |arguments: &[&str]| {
        let holm = island.holm_command(&repository.path, arguments);
        let mut command = Command::new("prlimit");
        command.args([
            "--rtprio=99",
            "--nice=40",
            "setpriv",
            "--reuid",
            "holm-tester",
        ]);
        command.args(["--regid", "holm-tester", "--clear-groups"]);
        command.arg(holm.get_program()).args(holm.get_args());
        command.current_dir(&repository.path).env_clear();
        for (name, value) in holm.get_envs() {
            command.env(name, value.unwrap());
        }
        Ran::new(&mut command)
    };
    favoured(&["up", "x"]).ok();
    let limits =
        "import resource as r; print(r.getrlimit(r.RLIMIT_RTPRIO), r.getrlimit(r.RLIMIT_NICE))";
    assert_eq!(island.python("x", limits).ok().out(), "(0, 0) (0, 0)");
    island
        .attempts("x", GREED)
        .refused(&["EPERM", "EACCES", "EINVAL"]);
    // The daemon itself was favoured.
    let of_daemon =
        std::fs::read_to_string(format!("/proc/{}/limits", island.daemon_pid())).unwrap();
    let line = of_daemon
        .lines()
        .find(|line| line.starts_with("Max realtime priority"));
    assert!(line.unwrap().contains("99"), "{line:?}");
}
