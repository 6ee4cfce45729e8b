"""What holm does with control groups of v2 that have all their controllers. Runs as root in the machine
that `scripts/vm` makes, and says `VM: ok <what>` for each check: a line that is missing is a failure."""

import json
import os
import pathlib
import pwd
import signal
import subprocess
import time
import traceback

GROUPS = pathlib.Path("/sys/fs/cgroup")
UNIT = GROUPS / "user.slice/user-1000.slice/user@1000.service/app.slice/holm.service"
CONFIG = '[limits]\nmemory = "96MiB"\ncpus = 0.5\nprocesses = 64\ndisk = "200MiB"\n'
KEPT = {"memory": "cgroup", "cpus": "cgroup", "processes": "cgroup", "disk": "measured"}
HOG = "import sys; x = bytearray(int(sys.argv[1]) << 20); print(len(x) >> 20)"
# The machine is emulated.
PATIENCE = 120

# Which of holm's tests are to run instead of the checks.
CHOSEN = pathlib.Path("/opt/holm/chosen")

CHECKS = []


def check(function):
    """One line of the result; they run in this order."""
    CHECKS.append(function)
    return function


class Person:
    """Somebody who types holm, in a control group."""

    def __init__(self, name, group):
        self.account = pwd.getpwnam(name)
        self.group = group
        self.environment = {"HOME": self.account.pw_dir, "PATH": "/usr/local/bin:/usr/bin:/usr/sbin", "LANG": "C.UTF-8"}
        self.repository = pathlib.Path(self.account.pw_dir) / "shop"

    def start(self, *argv, directory=None, **more):
        def enter():
            (self.group / "cgroup.procs").write_text("0")
            os.setgid(self.account.pw_gid)
            os.setgroups([])
            os.setuid(self.account.pw_uid)

        place = directory or (self.repository if self.repository.exists() else self.account.pw_dir)
        return subprocess.Popen(argv, cwd=place, env=self.environment, stdin=subprocess.DEVNULL, text=True,
                                preexec_fn=enter, **more)

    def run(self, *argv, code=0, directory=None):
        process = self.start(*argv, directory=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, f"{argv}: {process.returncode} instead of {code}\n{out}\n{err}"
        return out, err

    def json(self, *argv):
        return json.loads(self.run("holm", *argv, "--json")[0])

    def show(self, workspace):
        return self.json("show", workspace)

    def sh(self, workspace, script, code=0):
        return self.run("holm", "exec", workspace, "--", "sh", "-c", script, code=code)

    def hog(self, workspace, mebibytes, code=0):
        return self.run("holm", "exec", workspace, "--", "python3", "-c", HOG, str(mebibytes), code=code)

    def answers(self):
        asked = self.start("holm", "daemon", "status", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return asked.wait() == 0

    def make_repository(self):
        self.run("git", "init", "-q", "-b", "main", str(self.repository), directory=self.account.pw_dir)
        written = f"cat > holm.toml <<'END'\n{CONFIG}END\n"
        identity = "git -c user.name=Me -c user.email=me@example.org"
        self.run("sh", "-c", f"{written} git add . && {identity} commit -qm configured")
        self.run("holm", "trust", "--yes")


def eventually(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"it never came to be: {what}"
        time.sleep(0.05)


def group_of(workspace):
    found = [path for path in GROUPS.rglob(workspace["id"]) if path.is_dir()]
    assert len(found) == 1, found
    return found[0]


def has_no_group(workspace):
    return not any(GROUPS.rglob(workspace["id"]))


def read(path):
    return path.read_text().strip()


def control_groups(doctor):
    return next(one for one in doctor["checks"] if one["name"] == "control groups")


def delegate():
    """What systemd does: it gives a manager of its own to the user, and that makes the unit."""
    manager = GROUPS / "user.slice/user-1000.slice/user@1000.service"
    manager.mkdir(parents=True)
    for above in [GROUPS, GROUPS / "user.slice", GROUPS / "user.slice/user-1000.slice", manager]:
        (above / "cgroup.subtree_control").write_text("+memory +cpu +pids")
    for name in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"]:
        os.chown(manager / name, 1000, 1000)
    script = ("mkdir app.slice && echo '+memory +cpu +pids' > app.slice/cgroup.subtree_control && "
              "mkdir app.slice/holm.service")
    subprocess.run(["sh", "-c", script], cwd=manager, user=1000, group=1000, extra_groups=[], check=True)


def holds_lock(pid, workspace):
    try:
        for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            if os.readlink(descriptor).endswith(f"{workspace}/lock"):
                return True
    except OSError:
        # It has ended meanwhile.
        pass
    return False


SESSION = GROUPS / "session"
user = Person("tester", SESSION)
daemon = []


@check
def the_kernel_offers_every_controller_on_v2_and_v1_is_not_there():
    offered = read(GROUPS / "cgroup.controllers").split()
    assert {"memory", "cpu", "pids"} <= set(offered), offered
    mounted = pathlib.Path("/proc/self/mountinfo").read_text()
    assert " - cgroup2 " in mounted and " - cgroup " not in mounted, mounted


@check
def where_nothing_is_delegated_a_limit_is_refused_and_the_way_is_told():
    said = user.json("doctor")
    found = control_groups(said)
    assert said["daemon"] is None and found["status"] != "ok", said
    assert "holm daemon install" in found["fix"], found
    user.make_repository()
    _, told = user.run("holm", "up", "x", "--json", code=4)
    fault = json.loads(told)
    fault = fault.get("error", fault)
    assert fault["code"] == "limit_unavailable", fault
    assert "holm daemon install" in fault["hint"], fault
    assert user.json("ls")["workspaces"] == []
    made = user.json("up", "x", "--allow-degraded=memory,cpus")
    assert made["isolation"]["cgroup"] is None, made["isolation"]
    assert made["isolation"]["limits"]["processes"] == "rlimit", made["isolation"]
    # Without the defence the same program takes what it likes.
    assert user.hog("x", 160)[0].strip() == "160"
    # The daemon, which is there now, has nothing either.
    said = user.json("doctor")
    assert said["daemon"] == user.json("daemon", "status")["pid"], said
    assert control_groups(said)["status"] != "ok", said
    user.run("holm", "rm", "x", "--force")
    user.run("holm", "daemon", "stop", "--all")


@check
def a_daemon_in_a_unit_that_systemd_delegated_goes_to_a_leaf_and_doctor_is_content():
    delegate()
    daemon.append(Person("tester", UNIT).start("holm", "daemon", "run"))
    eventually("the daemon answers", user.answers)
    # It is typed in a shell that was given nothing: what counts is what the daemon has.
    said = user.json("doctor")
    found = control_groups(said)
    assert said["daemon"] == daemon[0].pid, said
    assert (found["status"], found["detail"]) == ("ok", "v2 limits memory, cpus, processes"), found
    assert not any((UNIT / "holm").glob("w*")), "its trial leaves nothing"
    assert read(UNIT / "cgroup.procs") == ""
    assert str(daemon[0].pid) in read(UNIT / "daemon/cgroup.procs").split()


@check
def limits_are_written_and_told_and_everything_inside_is_in_the_group():
    made = user.json("up", "x")
    assert made["isolation"]["cgroup"] == "v2", made["isolation"]
    assert made["isolation"]["limits"] == KEPT, made["isolation"]
    assert made["isolation"]["degraded"] == [], made["isolation"]
    assert user.show("x")["isolation"]["limits"] == KEPT
    group = group_of(made)
    assert group.parent == UNIT / "holm", group
    written = {name: read(group / name) for name in ["memory.max", "cpu.max", "pids.max", "memory.oom.group"]}
    expect = {"memory.max": str(96 << 20), "cpu.max": "50000 100000", "pids.max": "64", "memory.oom.group": "0"}
    assert written == expect, written
    user.sh("x", "sleep 1000 & (setsid sleep 1000 &)")
    members = read(group / "inside/cgroup.procs").split()
    assert len(members) == 3, members
    assert read(group / "cgroup.procs") == ""
    assert user.sh("x", "cat /proc/self/cgroup")[0].strip() == "0::/"


@check
def a_workspace_cannot_change_or_leave_its_group():
    user.sh("x", "mkdir -p /tmp/g && mount -t cgroup2 none /tmp/g", code=32)
    tried = user.sh("x", "find /sys/fs/cgroup -name '*.max' -writable 2>/dev/null | head -3; "
                         "for f in /sys/fs/cgroup/memory.max /sys/fs/cgroup/../cgroup.procs; do "
                         "(echo 0 > $f) 2>/dev/null && echo wrote $f; done; true")[0]
    assert tried.strip() == "", tried
    assert read(group_of(user.show("x")) / "memory.max") == str(96 << 20)


@check
def who_takes_too_much_memory_dies_alone_and_the_reason_is_told():
    user.run("holm", "up", "sibling")
    for workspace in ["x", "sibling"]:
        user.sh(workspace, "sleep 1000 & echo $! > /tmp/pid")
    assert user.hog("x", 32)[0].strip() == "32"
    assert user.show("x")["isolation"]["oom_kills"] == 0
    _, told = user.hog("x", 160, code=137)
    assert "limit of memory" in told, told
    shown = user.show("x")
    assert (shown["state"], shown["reason"]) == ("running", "memory_limit"), shown
    assert shown["isolation"]["oom_kills"] == 1, shown["isolation"]
    for workspace in ["x", "sibling"]:
        user.sh(workspace, "kill -0 $(cat /tmp/pid)")
    sibling = user.show("sibling")
    assert sibling["reason"] is None and sibling["isolation"]["oom_kills"] == 0, sibling


@check
def memory_that_belongs_to_no_process_ends_the_workspace_and_no_other():
    user.sh("x", "head -c 160M /dev/zero > /dev/shm/full; sleep 1000", code=137)
    eventually("it is told", lambda: user.show("x")["state"] == "failed")
    assert user.show("x")["reason"] == "memory_limit", user.show("x")
    user.sh("sibling", "kill -0 $(cat /tmp/pid)")
    user.run("holm", "start", "x")
    assert user.show("x")["reason"] is None
    user.sh("x", "test -e /tmp/pid && test ! -e /dev/shm/full")


@check
def a_fork_bomb_is_stopped_by_the_kernel_and_the_sibling_starts_what_it_likes():
    group = group_of(user.show("x"))
    # RLIMIT_NPROC has the same number and is asked first: with less, it is the group that refuses.
    (group / "pids.max").write_text("32")
    bomb = ("import errno, os, time\nwhile True:\n  try: os.fork()\n"
            "  except OSError as error:\n    assert error.errno == errno.EAGAIN\n    time.sleep(0.2)\n")
    running = user.start("holm", "exec", "x", "--", "python3", "-c", bomb, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    try:
        eventually("the workspace is full", lambda: read(group / "pids.current") == "32")
        eventually("the kernel refuses", lambda: read(group / "pids.events") != "max 0")
        many = "for i in $(seq 40); do sleep 100 & done; echo all"
        assert user.sh("sibling", many)[0].strip() == "all"
        assert user.show("x")["state"] == "running"
    finally:
        user.run("holm", "stop", "x")
        running.wait(timeout=PATIENCE)
    assert has_no_group(user.show("x"))
    user.run("holm", "start", "x")


@check
def processors_are_shared_as_was_asked_for():
    group = group_of(user.show("x"))
    user.sh("x", "timeout 3 python3 -c 'while True: pass'", code=124)
    told = dict(line.split() for line in read(group / "cpu.stat").splitlines())
    assert int(told["nr_throttled"]) > 0, told


@check
def what_is_frozen_is_told_and_thawed_in_order_to_stop():
    workspace = user.show("x")
    group = group_of(workspace)
    (group / "cgroup.freeze").write_text("1")
    eventually("it is frozen", lambda: "frozen 1" in read(group / "cgroup.events"))
    eventually("it is told", lambda: "frozen" in (user.show("x")["reason"] or ""))
    (group / "cgroup.freeze").write_text("0")
    eventually("it is well again", lambda: user.show("x")["state"] == "running")
    assert user.sh("x", "echo well")[0].strip() == "well"
    (group / "cgroup.freeze").write_text("1")
    eventually("it is frozen", lambda: "frozen 1" in read(group / "cgroup.events"))
    user.run("holm", "stop", "x")
    assert has_no_group(workspace)


@check
def a_killed_keeper_leaves_no_group_and_a_new_daemon_finds_its_place_again():
    user.run("holm", "start", "x")
    workspace = user.show("x")
    keepers = [pid for pid in read(UNIT / "daemon/cgroup.procs").split() if holds_lock(pid, workspace["id"])]
    assert len(keepers) == 1, keepers
    os.kill(int(keepers[0]), signal.SIGKILL)
    eventually("it is told", lambda: user.show("x")["state"] == "failed")
    # As systemd starts it with `DelegateSubgroup=daemon`, while the sibling runs.
    daemon[0].terminate()
    daemon[0].wait(timeout=PATIENCE)
    daemon[0] = Person("tester", UNIT / "daemon").start("holm", "daemon", "run")
    eventually("the daemon answers", user.answers)
    user.run("holm", "start", "x")
    assert user.show("x")["isolation"]["limits"] == KEPT
    user.sh("sibling", "kill -0 $(cat /tmp/pid)")
    for name in ["x", "sibling"]:
        gone = user.show(name)
        user.run("holm", "rm", name, "--force")
        assert has_no_group(gone), name
    user.run("holm", "daemon", "stop", "--all")
    daemon[0].wait(timeout=PATIENCE)
    assert read(UNIT / "daemon/cgroup.procs") == ""


@check
def started_by_root_the_daemon_is_the_user_holm_in_a_group_that_root_prepared():
    root = Person("root", SESSION)
    root.make_repository()
    made = root.json("up", "y")
    assert made["isolation"]["cgroup"] == "v2" and made["isolation"]["limits"] == KEPT, made["isolation"]
    group = group_of(made)
    holm = pwd.getpwnam("holm").pw_uid
    assert group.parent == GROUPS / "holm" and group.stat().st_uid == holm, group
    assert (GROUPS / "holm/cgroup.subtree_control").stat().st_uid == holm
    # Limits of the whole stay root's.
    assert (GROUPS / "holm/memory.max").stat().st_uid == 0
    assert read(GROUPS / "holm/cgroup.procs") == ""
    root.hog("y", 160, code=137)
    assert root.show("y")["reason"] == "memory_limit"
    root.run("holm", "rm", "y", "--force")
    assert has_no_group(made)
    found = control_groups(root.json("doctor"))
    assert found["status"] == "ok", found
    root.run("holm", "daemon", "stop", "--all")


def the_chosen_tests_pass_on_this_kernel():
    argv = ["/opt/holm/tests", "--test-threads=1", *CHOSEN.read_text().split()]
    assert subprocess.run(argv, stdin=subprocess.DEVNULL, cwd="/tmp").returncode == 0


def main():
    SESSION.mkdir()
    for name in ["tester", "holm", "holm-tester"]:
        account = pwd.getpwnam(name)
        os.chown(account.pw_dir, account.pw_uid, account.pw_gid)
    failed = False
    # What the firmware wrote to the terminal is in front of the first line.
    print()
    for one in [the_chosen_tests_pass_on_this_kernel] if CHOSEN.exists() else CHECKS:
        what = one.__name__.replace("_", " ")
        try:
            one()
            print(f"VM: ok {what}")
        except Exception:  # whatever it is, the next checks are still worth a look
            failed = True
            print(traceback.format_exc())
            print(f"VM: FAILED {what}")
    if not failed:
        print("VM: all checks are well")


main()
