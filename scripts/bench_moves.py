"""A live workspace goes to another branch: `holm assign`, beside `git switch` in a worktree, alone and
with its server ended, started and waited for by hand. Called by `scripts/bench`."""

import subprocess
import time
import urllib.error
import urllib.request

CHANGED = 200
PORT = 8099

SERVER = """\
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *rest):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

CONFIG = """\
[services.api]
run = "exec python3 server.py 8080"
ready = { tcp = 8080 }
on_assign = "STRATEGY"
"""


def branches(bench, repository, strategy):
    """`<strategy>` and `<strategy>-next`, which differ in some files of all."""
    # git never follows what the user of the measurement does not own, so it writes the files.
    script = """
        set -eu
        git switch -q -C "$1" main
        printf '%s' "$2" > server.py
        printf '%s' "$3" > holm.toml
        git add -A && git commit -q -m base
        git switch -q -C "$1-next"
        git ls-files '*.txt' | head -n "$4" | while read -r name; do echo changed >> "$name"; done
        git commit -q -a -m next
        git switch -q main
    """
    config = CONFIG.replace("STRATEGY", strategy)
    bench.run("sh", "-c", script, "sh", strategy, SERVER, config, CHANGED, cwd=repository)
    return strategy, f"{strategy}-next"


def assign(bench, repository, strategy, times):
    here, there = branches(bench, repository, strategy)
    bench.holm("up", "mover", "--from", here, cwd=repository)
    try:
        move = lambda n: bench.time(bench.program, "assign", "mover", [there, here][n % 2], cwd=repository)
        return bench.repeat(times, move)
    finally:
        bench.holm("rm", "mover", "--force", cwd=repository)


def start(bench, tree):
    server = subprocess.Popen([*bench.become, "python3", "server.py", str(PORT)], cwd=tree, env=bench.environment)
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}", timeout=1).close()
            return server
        except (urllib.error.URLError, OSError):
            if server.poll() is not None:
                raise SystemExit("the server of the measurement ended by itself")
            time.sleep(0.005)


def end(server):
    server.terminate()
    server.wait()


def by_hand(bench, repository, times):
    """Milliseconds of a switch alone, and of one with a restart."""
    here, there = "restart", "restart-next"
    tree = bench.place / "home/by-hand"
    bench.run("git", "worktree", "add", "-q", tree, here, cwd=repository)
    switch = lambda n: bench.time("git", "switch", "-q", [there, here][n % 2], cwd=tree)
    alone = bench.repeat(times, switch)
    server = start(bench, tree)

    def both(number):
        nonlocal server
        begin = time.perf_counter()
        switch(number)
        end(server)
        server = start(bench, tree)
        return (time.perf_counter() - begin) * 1000

    try:
        return alone, bench.repeat(times, both)
    finally:
        end(server)
        bench.run("git", "worktree", "remove", "--force", tree, cwd=repository)


def measure(bench, repository):
    times = 4 if bench.is_quick else 20
    hot = assign(bench, repository, "hot", times)
    restart = assign(bench, repository, "restart", times)
    alone, both = by_hand(bench, repository, times)
    bench.row(f"`assign`, {CHANGED} files differ, services see them change", f"p50 {hot.p50:.0f} p99 {hot.p99:.0f} ms",
              "", f"{hot.p50 / alone.p50:.2f} x git switch ({alone.p50:.0f} ms)")
    bench.row("`assign`, a service restarts until it is ready", f"p50 {restart.p50:.0f} p99 {restart.p99:.0f} ms",
              "", f"{restart.p50 / both.p50:.2f} x switch, end, start by hand ({both.p50:.0f} ms)")
