"""`up` and `exec` with few and many live workspaces and files, and what live workspaces cost while they do nothing."""

import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

import bench_api
from bench_tools import BWRAP, Samples, make_repository, processes, remove_all

SMALL, LARGE = 30_000, 300_000


def live(bench, repository, count):
    """Brings the number of live workspaces to `count`."""
    while (there := len(bench.listed())) < count:
        bench.holm("up", "-n", str(min(count - there, 50)), f"live{there}", cwd=repository)


def settle_disk(place):
    """`up` flushes the disk, which is slow while it still writes what came before, also for a while after `sync`. Waits for
    ten small flushes in a row that take at most twice as long as the fastest one, for a minute at most."""
    subprocess.run(["sync"], check=True)
    fastest, calm, deadline = math.inf, 0, time.monotonic() + 60
    with tempfile.TemporaryFile(dir=place) as file:
        while calm < 10 and time.monotonic() < deadline:
            file.write(b"x")
            begin = time.perf_counter()
            file.flush()
            os.fsync(file.fileno())
            took = time.perf_counter() - begin
            fastest = min(fastest, took)
            calm = calm + 1 if took <= 2 * fastest else 0
            time.sleep(0.1)


def up_and_exec(bench, repository, times, name):
    """Samples of `up` to the end of the first `exec`, of `up` alone, of a later `exec`, and of bwrap. Every 25 new
    workspaces are removed again, so that the number of live ones stays about what the row says."""
    found = {"both": [], "exec": [], "bwrap": [], "alone": []}
    for batch in range(0, times, 25):
        label = f"{name}-{batch}"
        begun = []

        def up(number):
            begun.append(bench.time(bench.program, "up", f"{label}-{number}", cwd=repository))
            return begun[-1] + bench.time(bench.program, "exec", f"{label}-{number}", "--", "true", cwd=repository)

        settle_disk(bench.place)
        measured = bench.interleave(
            min(25, times - batch), both=up,
            exec=lambda number: bench.time(bench.program, "exec", f"{label}-{number}", "--", "true", cwd=repository),
            bwrap=lambda _: bench.time(*BWRAP),
        )
        for side, samples in zip(["both", "exec", "bwrap"], measured):
            found[side] += samples.values
        # The first round only warms up.
        found["alone"] += begun[1:]
        made = [workspace["id"] for workspace in bench.listed() if workspace["label"].startswith(f"{label}-")]
        bench.holm("rm", "--force", *made)
    return [Samples(found[side]) for side in ["both", "alone", "exec", "bwrap"]]


def measure_exec(bench, repository):
    bench.holm("up", "exec", cwd=repository)
    ours, peer = bench.interleave(
        20 if bench.is_quick else 100, exec=lambda _: bench.time(bench.program, "exec", "exec", "--", "true", cwd=repository),
        bwrap=lambda _: bench.time(*BWRAP))
    bench.ratio("`exec … true` through CLI and daemon", ours, 1.0, "bwrap … true", peer)
    remove_all(bench)


def measure_live(bench, repository):
    """The same commands with more and more live workspaces."""
    times, levels = (10, [1, 20]) if bench.is_quick else (200, [1, 50, 200])
    found = []
    for level in levels:
        live(bench, repository, level)
        both, alone, again, peer = up_and_exec(bench, repository, times, f"up{level}")
        found.append(both)
        what = f"{SMALL:,} files, {level} live"
        bench.ratio(f"`up` to first `exec` done, {what}", both, 3.5, "bwrap … true", peer)
        bench.row("… its slowest of a hundred", f"{both.p99:.1f} ms", "≤ 2 x p50", f"{both.p99 / both.p50:.2f} x p50", both.p99 / both.p50 / 2)
        bench.row("… `up` alone", str(alone))
        bench.ratio(f"`exec … true`, {level} live", again, 1.0, "bwrap … true", peer)
    flat = found[-1].p50 / found[0].p50
    bench.row(f"`up` with {levels[-1]} live beside 1", f"{flat:.2f} x", "≤ 1.15 x", "", flat / 1.15)
    measure_listing(bench, levels[-1])
    measure_idle(bench)
    measure_memory(bench)
    remove_all(bench)


def judged(bench, count, what, measured, budget, peer, used):
    """A row whose budget is for at most 200 live workspaces."""
    if count <= 200:
        bench.row(what, measured, budget, peer, used)
    else:
        bench.row(what, measured, "", peer)


def measure_listing(bench, count):
    times = 100 if bench.is_quick else 1000
    socket = bench.place / "holm/run/daemon.sock"
    one = bench.listed()[0]["id"]
    for what, path, limit in [(f"GET /workspaces, {count} live", "/api/v1/workspaces", 5), ("GET /workspaces/{id}", f"/api/v1/workspaces/{one}", 0.2)]:
        p50, p99 = (each / 1000 for each in bench_api.latency(socket, bench_api.request(path), times))
        judged(bench, count, what, f"{p50:.2f} ms (p99 {p99:.2f})", f"≤ {limit} ms", "", p50 / limit)
    listed, started = bench.interleave(
        20, ls=lambda _: bench.time(bench.program, "ls"), start=lambda _: bench.time(bench.program, "--version"))
    judged(bench, count, f"`holm ls`, {count} live", str(listed), "≤ 10 ms", f"`holm --version` takes {started.p50:.2f} ms", listed.p50 / 10)


def processor_time(directories):
    """Nanoseconds that the processes have run, with threads that have ended."""
    total = 0
    for process in directories:
        try:
            # The number of the clock of a whole process, as `clock_getcpuclockid` makes it.
            total += time.clock_gettime_ns(~int(process.name) << 3 | 2)
        except OSError:
            continue
    return total


def daemon(bench):
    return int(json.loads(bench.holm("daemon", "status", "--json"))["pid"])


def measure_idle(bench):
    kinds = {"daemon": [pathlib.Path(f"/proc/{daemon(bench)}")], "keepers": list(processes(b"__keeper")), "inits": list(processes(b"holm-init"))}
    seconds = 10 if bench.is_quick else 30
    # What was done just now is still being finished.
    time.sleep(5)
    before = {name: processor_time(all) for name, all in kinds.items()}
    time.sleep(seconds)
    used = {name: (processor_time(all) - before[name]) / seconds / 1e7 for name, all in kinds.items()}
    each = ", ".join(f"{name} {percent:.2f} %" for name, percent in used.items())
    judged(bench, len(kinds["inits"]), f"{len(kinds['inits'])} idle workspaces", f"{sum(used.values()):.2f} % of a core", "≤ 0.2 %", each, sum(used.values()) / 0.2)


def measure_memory(bench):
    """Proportional set size of keeper and init, per idle workspace."""
    sizes = {}
    for kind in [b"__keeper", b"holm-init"]:
        sizes[kind] = []
        for process in processes(kind):
            try:
                sizes[kind].append(int((process / "smaps_rollup").read_text().split("\nPss:")[1].split()[0]))
            except (OSError, IndexError):
                continue
    count = len(sizes[b"holm-init"])
    keeper, init = (sum(each) / count / 1024 for each in sizes.values())
    bench.row("idle workspace: keeper and init, proportional set size", f"{keeper + init:.2f} MB", "≤ 0.8 MB",
              f"keeper {keeper:.2f}, init {init:.2f}, over {count}", (keeper + init) / 0.8)


def measure_first(bench, repository):
    """The first `up` of a project beside `git worktree add`: nothing of the project is stored, the repository is in the
    page cache, and everything that was written before has reached the disk."""
    ours, theirs = [], []
    for number in range(2 if bench.is_quick else 5):
        bench.other_home(f"first-{number}")
        bench.holm("daemon", "start")
        subprocess.run(["sync"], check=True)
        ours.append(bench.time(bench.program, "up", "first", cwd=repository))
        bench.holm("daemon", "stop", "--all")
        shutil.rmtree(bench.place / f"first-{number}", ignore_errors=True)
        tree = bench.place / f"home/tree-{number}"
        subprocess.run(["sync"], check=True)
        theirs.append(bench.time("git", "worktree", "add", "-q", "--detach", tree, cwd=repository))
        bench.run("git", "worktree", "remove", "--force", tree, cwd=repository)
    bench.other_home("holm")
    ours, theirs = (bench.repeat(len(each), lambda number: each[number]) for each in (ours, theirs))
    bench.ratio(f"first `up` of {SMALL:,} files (a base is built)", ours, 1.5, "git worktree add", theirs)
    return theirs


def measure_files(bench, small):
    """More files do not make `up` slower, once their base is there."""
    times = 5 if bench.is_quick else 30
    few = 1_000 if bench.is_quick else LARGE
    large = make_repository(bench, "large", few)
    sides = {}
    for name, repository in [("small", small), ("large", large)]:
        bench.holm("up", f"{name}-base", cwd=repository)
        sides[name] = lambda number, name=name, repository=repository: bench.time(bench.program, "up", f"{name}-{number}", cwd=repository)
    near, far = bench.interleave(times, **sides)
    bench.row(f"`up` of {few:,} files beside {SMALL:,}", f"{far.p50 / near.p50:.2f} x", "≤ 1.15 x", f"{far} and {near}", far.p50 / near.p50 / 1.15)
    remove_all(bench)


def measure_many(bench, repository):
    bench.holm("up", "warm", cwd=repository)
    took = []
    for number in range(1 if bench.is_quick else 5):
        took.append(bench.time(bench.program, "up", "-n", "50", "many", cwd=repository))
        made = [each["id"] for each in bench.listed() if each["label"] != "warm"]
        if len(made) != 50:
            raise SystemExit(f"{len(made)} of 50 workspaces were made")
        bench.holm("rm", "--force", *made)
    took = statistics.median(took)
    bench.row("50 workspaces created at once", f"{took / 1000:.2f} s", "≤ 0.5 s", "", took / 500)
    remove_all(bench)


def measure_daemon_start(bench, repository):
    """A daemon that comes back to a hundred running workspaces."""
    live(bench, repository, 100)
    bench.holm("daemon", "stop")
    begin = time.perf_counter()
    bench.holm("daemon", "start")
    running = sum(workspace["state"] == "running" for workspace in bench.listed())
    took = (time.perf_counter() - begin) * 1000
    bench.row("daemon start and `ls` with 100 workspaces running", f"{took:.0f} ms ({running} run)", "≤ 1 s", "", took / 1000)
    remove_all(bench)


def measure_scale(bench, repository):
    """A thousand live workspaces."""
    count, step = (100, 50) if bench.is_quick else (1000, 100)
    points = []
    for level in range(step, count + 1, step):
        live(bench, repository, level)
        both, alone, again, peer = up_and_exec(bench, repository, 5, f"scale{level}")
        available = int(next(line for line in open("/proc/meminfo") if line.startswith("MemAvailable")).split()[1]) / 1024
        points.append({"live": level, "up": both.p50, "exec": again.p50, "bwrap": peer.p50, "available": available})
        bench.row(f"`up` to first `exec` done, {level} live", str(both), "", f"{both.p50 / peer.p50:.1f} x bwrap, {available:,.0f} MB of memory available")
        bench.row("… `up` alone", str(alone))
    running = sum(workspace["state"] == "running" for workspace in bench.listed())
    bench.row(f"{count} live workspaces", f"{running} run", f"{count}", "", count / max(running, 1))
    measure_listing(bench, count)
    measure_idle(bench)
    measure_memory(bench)
    remove_all(bench)
    bench.points = points
