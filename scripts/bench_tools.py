"""What every part of the benchmark uses: programs run as an ordinary user, samples, and the table of results."""

import json
import os
import pathlib
import pwd
import statistics
import subprocess
import sys

QUICK = "--quick" in sys.argv
BWRAP = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "--dev", "/dev", "true"]

# Starts programs with vfork and nothing between them and the clock. Runs as the measured user.
WORKER = """
import json, os, sys, time
def run(asked):
    os.chdir(asked["cwd"])
    opened = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
              (os.POSIX_SPAWN_OPEN, 2, asked["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
    if asked["first"]:
        reader, writer = os.pipe()
        opened.append((os.POSIX_SPAWN_DUP2, writer, 1))
    else:
        opened.append((os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0))
    begin = time.perf_counter()
    pid = os.posix_spawnp(asked["argv"][0], asked["argv"], os.environ, file_actions=opened)
    first = None
    if asked["first"]:
        os.close(writer)
        os.read(reader, 1)
        first = (time.perf_counter() - begin) * 1000
        while os.read(reader, 1 << 16): pass
        os.close(reader)
    _, status = os.waitpid(pid, 0)
    return {"pid": pid, "first": first, "ms": (time.perf_counter() - begin) * 1000,
            "code": os.waitstatus_to_exitcode(status)}
for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
"""


class Samples:
    """Measurements of one thing, in milliseconds unless the part says otherwise."""

    def __init__(self, values):
        self.values = sorted(values)
        self.p50 = statistics.median(self.values)
        self.p99 = self.at(0.99)

    def at(self, part):
        return self.values[min(len(self.values) - 1, int(len(self.values) * part))]

    def __str__(self):
        """The median, what four of five samples lie between, and the slowest of a hundred."""
        digits = 2 if self.p50 < 10 else 1 if self.p50 < 100 else 0
        low, high = self.at(0.1), self.at(0.9)
        return f"{self.p50:.{digits}f} ms ({low:.{digits}f}–{high:.{digits}f}, p99 {self.p99:.{digits}f})"


def user():
    """How to become the ordinary user to measure as."""
    if os.getuid() != 0:
        return []
    entry = pwd.getpwnam("holm-tester")
    return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "--"]


class Bench:
    def __init__(self, place):
        self.place = place
        self.become = user()
        self.rows, self.points, self.waterfalls = [], [], {}
        self.is_quick = QUICK
        self.environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(place / "home"),
            "HOLM_HOME": str(place / "holm"),
            "GIT_CONFIG_COUNT": "0",
        }
        self.program = place / "bin/holm"
        self.worker = None

    def run(self, *command, cwd=None, check=True, given=b""):
        """`given` is its input."""
        done = subprocess.run(
            [*self.become, *map(str, command)], cwd=cwd or self.place, env=self.environment, input=given, capture_output=True,
        )
        if check and done.returncode:
            raise SystemExit(f"{command} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode()

    def holm(self, *arguments, cwd=None, check=True):
        return self.run(self.program, *arguments, cwd=cwd, check=check)

    def listed(self):
        return json.loads(self.holm("ls", "--json"))["workspaces"]

    def measure(self, *command, cwd=None, first=False):
        """Runs a command: its `pid`, the `ms` to its end and, if asked for, to the `first` byte of its output."""
        if self.worker is None:
            self.worker = subprocess.Popen(
                [*self.become, "/usr/bin/python3", "-c", WORKER], env=self.environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
        errors = self.place / "home/errors"
        asked = {"argv": [str(word) for word in command], "cwd": str(cwd or self.place), "errors": str(errors), "first": first}
        self.worker.stdin.write(json.dumps(asked) + "\n")
        self.worker.stdin.flush()
        done = json.loads(self.worker.stdout.readline())
        if done["code"]:
            raise SystemExit(f"{command} ended with {done['code']}: {errors.read_text()}")
        return done

    def time(self, *command, cwd=None):
        return self.measure(*command, cwd=cwd)["ms"]

    def other_home(self, name):
        """Another data directory from now on, with nothing in it."""
        self.end_worker()
        self.environment["HOLM_HOME"] = str(self.place / name)

    def end_worker(self):
        if self.worker:
            self.worker.stdin.close()
            self.worker.wait()
            self.worker = None

    def repeat(self, times, action):
        return Samples(action(number) for number in range(times))

    def interleave(self, times, **sides):
        """Measures the sides in turn, so that other work of the machine meets all of them alike. The first round only
        warms up."""
        found = {name: [] for name in sides}
        for number in range(times + 1):
            for name, side in sides.items():
                value = side(number)
                if number:
                    found[name].append(value)
        return [Samples(values) for values in found.values()]

    def give(self, path):
        """To the user that is measured as, with the directories up to its home."""
        if self.become:
            entry = pwd.getpwnam("holm-tester")
            os.chown(path.parent, entry.pw_uid, entry.pw_gid)
            subprocess.run(["chown", "-R", f"{entry.pw_uid}:{entry.pw_gid}", str(path)], check=True)

    def row(self, what, measured, budget="", peer="", used=None):
        """One line of the table. `used` is what was measured as a share of the budget, if there is one."""
        verdict = "" if used is None else "met" if used <= 1 else "MISSED"
        row = {"what": what, "measured": measured, "budget": budget, "peer": peer, "used": used, "verdict": verdict}
        self.rows.append(row)
        print(f"  {what:<56} {str(measured):<36} {budget:<20} {verdict:<7} {peer}", flush=True)

    def ratio(self, what, measured, limit, peer, samples):
        """A budget as a ratio to a peer of the same run."""
        ratio = measured.p50 / samples.p50
        self.row(what, str(measured), f"≤ {limit} x", f"{ratio:.2f} x {peer} ({samples.p50:.2f} ms)", ratio / limit)

    def conclude(self):
        """Counts the verdicts and writes everything beside what was built."""
        budgets = [row for row in self.rows if row["verdict"]]
        missed = [row["what"] for row in budgets if row["verdict"] == "MISSED"]
        print(f"\n  {len(budgets) - len(missed)} of {len(budgets)} budgets met")
        for what in missed:
            print(f"  missed: {what}")


def make_repository(bench, name, files):
    """A repository of so many files in directories of a hundred. Its objects are written as one pack: git would delete
    loose ones afterwards, and for minutes after that ext4 searches the deleted inodes whenever a file is created."""
    path = bench.place / "home/src" / name
    path.mkdir(parents=True)
    bench.give(path)
    bench.run("git", "init", "-q", "-b", "main", cwd=path)
    for key, value in [("maintenance.auto", "false"), ("user.name", "Bench"), ("user.email", "bench@example.org")]:
        bench.run("git", "config", key, value, cwd=path)
    stream = [b"commit refs/heads/main\ncommitter Bench <bench@example.org> 1700000000 +0000\ndata 6\nfiles\n\n"]
    for number in range(files):
        content = (f"file {number}\n" * (1 + number % 50)).encode()
        place = f"d{number // 10_000}/e{number // 100 % 100}/file{number}.txt"
        stream.append(f"M 100644 inline {place}\ndata {len(content)}\n".encode() + content + b"\n")
    bench.run("git", "fast-import", "--quiet", cwd=path, given=b"".join(stream))
    bench.run("git", "reset", "-q", "--hard", cwd=path)
    return path


def remove_all(bench):
    """In one command, because each costs its start."""
    ids = [workspace["id"] for workspace in bench.listed()]
    for begin in range(0, len(ids), 100):
        bench.holm("rm", "--force", *ids[begin:begin + 100])


def processes(kind):
    """The directories below /proc of keepers (`__keeper`) or inits (`holm-init`)."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if kind in arguments[:2]:
            yield process
