"""The whole example stack until it is ready: `holm up`, beside the same four programs started by a
shell script, and as containers where there is a Docker engine. Called by `scripts/bench`."""

import os
import pathlib
import pwd
import shutil
import subprocess
import time

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples/shop"
NEEDED = ["node", "redis-server"]

# Each starts when what it needs answers, as `depends_on` and `ready` of its holm.toml say. $1 runs a
# program of the stack in the background; what it prints is in $LOGS.
SCRIPT = r"""
set -eu
answers() { until curl -sf -o /dev/null "$1"; do sleep 0.02; done; }
run() { name=$1; shift; $START "$@" > "$LOGS/$name" 2>&1 & echo $! >> "$LOGS/pids"; }
run db db/start
run cache redis-server --bind 127.0.0.1 --port 6379 --save '' --appendonly no
until grep -q 'database system is ready to accept connections' "$LOGS/db"; do sleep 0.02; done
until redis-cli -p 6379 ping > /dev/null 2>&1; do sleep 0.02; done
run api /usr/bin/python3 -u api/server.py
answers http://127.0.0.1:8080/health
run web node web/server.js
answers http://127.0.0.1:3000/
"""


def copy_of(bench, name):
    """The example, without the data of an earlier run."""
    path = bench.place / "home/src" / name
    shutil.copytree(EXAMPLE, path, ignore=shutil.ignore_patterns(".data"))
    bench.give(path)
    return path


def by_holm(bench, times):
    repository = copy_of(bench, "stack")
    for command in [["init", "-q", "-b", "main"], ["config", "user.name", "Bench"],
                    ["config", "user.email", "bench@example.org"], ["add", "-A"], ["commit", "-q", "-m", "A shop"]]:
        bench.run("git", *command, cwd=repository)

    def one(number):
        took = bench.time(bench.program, "up", f"stack-{number}", cwd=repository)
        bench.holm("rm", "--force", f"stack-{number}", cwd=repository)
        return took

    return bench.repeat(times, one)


def by_script(bench, name, start, become, end):
    """Milliseconds until all four answer; `start` comes before each command, `end` takes pids away."""
    tree = copy_of(bench, name)
    logs = tree / ".logs"
    bench.run("mkdir", logs)
    environment = {**bench.environment, "LOGS": str(logs), "START": start, "PWD": str(tree)}
    begin = time.perf_counter()
    try:
        done = subprocess.run([*become, "sh", "-c", SCRIPT], cwd=tree, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
        took = (time.perf_counter() - begin) * 1000
        if done.returncode:
            raise SystemExit(f"the stack did not start: {done.stderr}")
    finally:
        end([int(pid) for pid in (logs / "pids").read_text().split()])
        shutil.rmtree(tree, ignore_errors=True)
    return took


def kill(pids):
    """The newest first, each waited for: the next run wants its ports."""
    for pid in reversed(pids):
        try:
            os.kill(pid, 15)
        except ProcessLookupError:
            continue
        deadline = time.monotonic() + 20
        while pathlib.Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.02)


def in_containers(bench, engine, times):
    """One container for each program, with the host's own programs, since no image can be fetched."""
    entry = pwd.getpwnam("holm-tester")
    shown = [f"-v {place}:{place}:ro" for place in ["/usr", "/etc", "/bin", "/lib", "/lib64"]]
    docker = f"docker -H {engine.socket}"
    scratch = bench.place / "docker/tmp"
    scratch.mkdir(exist_ok=True)
    scratch.chmod(0o1777)
    start = (f"{docker} run --rm --network=host --user={entry.pw_uid}:{entry.pw_gid} -v {scratch}:/tmp "
             f"{' '.join(shown)} -v {bench.place}:{bench.place} -e PATH=/usr/local/bin:/usr/bin:/bin bench")

    def end(pids):
        running = subprocess.run([*docker.split(), "ps", "-q"], capture_output=True, text=True).stdout.split()
        if running:
            subprocess.run([*docker.split(), "stop", "-t", "10", *running], capture_output=True)
        kill(pids)

    def one(number):
        tree = bench.place / "home/src" / f"contained-{number}"
        return by_script(bench, tree.name, start.replace(" bench", f" -w {tree} bench"), [], end)

    return bench.repeat(times, one)


def measure(bench, remove_all, start_docker):
    what = "`up` of examples/shop until its four services are ready"
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        return bench.row(what, "-", "", f"no {', '.join(missing)} here; `scripts/set-up demo` installs them")
    times = 1 if bench.is_quick else 3
    script = bench.repeat(times, lambda n: by_script(bench, f"plain-{n}", "", bench.become, kill))
    holm = by_holm(bench, times)
    bench.row(what, f"p50 {holm.p50:.0f} ms", "",
              f"{holm.p50 / script.p50:.2f} x a shell script ({script.p50:.0f} ms)")
    remove_all(bench)
    what = "the same four as containers, `docker run`"
    engine = start_docker(bench)
    if not engine:
        return bench.row(what, "-", "", "no Docker engine could be started here")
    try:
        docker = in_containers(bench, engine, times)
        bench.row(what, f"p50 {docker.p50:.0f} ms", "", f"{docker.p50 / holm.p50:.2f} x `up`")
    except (SystemExit, subprocess.TimeoutExpired) as error:
        bench.row(what, "-", "", f"they did not become ready: {error}")
    finally:
        engine.stop()
        # It leaves the network that it shared with them mounted.
        for place in (bench.place / "docker/exec/netns").glob("*"):
            subprocess.run(["umount", "-l", place], capture_output=True)
