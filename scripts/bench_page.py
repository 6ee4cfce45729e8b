"""The page of the dashboard in Chromium: what it loads, its frames with many workspaces and with a busy log, and the time from an
event to the screen. Printed, not judged: frame times of a browser without a graphics card say little about one with it."""

import json
import os
import pathlib
import shutil
import subprocess

from bench_tools import QUICK, make_repository, remove_all

UI = pathlib.Path(__file__).resolve().parent.parent / "ui"
# Ten thousand lines each second, with colours.
NOISE = r"""
import sys, time
begin, n = time.monotonic(), 0
while True:
    due = int((time.monotonic() - begin) * 10_000)
    sys.stdout.write("".join(f"\x1b[32mGET\x1b[0m /item/{i} 200 {i % 90} ms\n" for i in range(n, due)))
    sys.stdout.flush()
    n = due
    time.sleep(0.01)
"""


def measure(bench, small):
    if not shutil.which("chromium") or not (UI / "node_modules").exists():
        return bench.row("the dashboard's page", "-", "", "needs chromium, and `make build` with Node.js")
    noisy = make_repository(bench, "noisy", 1)
    (noisy / "noise.py").write_text(NOISE)
    (noisy / "holm.toml").write_text('[services.noise]\nrun = "exec python3 -u noise.py"\n')
    bench.give(noisy)
    bench.run("git", "add", "-A", cwd=noisy)
    bench.run("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "-m", "noise", cwd=noisy)
    many = 50 if QUICK else 500
    bench.holm("up", "-n", str(many), "agent", cwd=small)
    bench.holm("up", "noisy", cwd=noisy)
    program = bench.place / "bin/as-the-user"
    variables = " ".join(f"{name}='{value}'" for name, value in bench.environment.items())
    program.write_text(f"#!/bin/sh\nexec {' '.join(bench.become)} env -i {variables} {bench.program} \"$@\"\n")
    program.chmod(0o755)
    url = json.loads(bench.holm("ui", "--print", "--json"))["url"]
    environment = {**os.environ, "HOLM": str(program), "PROJECT": str(noisy), "BASE": url.split("/#")[0]}
    done = subprocess.run(["node", UI / "e2e/bench.mjs"], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench.mjs: {done.stderr}")
    for line in done.stdout.splitlines():
        row = json.loads(line)
        bench.row(row["what"], row["measured"], row.get("budget", ""), row.get("beside", ""))
    remove_all(bench)
