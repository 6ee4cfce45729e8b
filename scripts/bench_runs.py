"""From the start of `holm run` to its first byte, and to its end with the changes told, beside `holm exec` and a bare shell."""

import subprocess
import time


def first_byte(bench, command, cwd):
    """Milliseconds to the first byte of a command's output, and to its end."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [*bench.become, *map(str, command)], cwd=cwd, env=bench.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )
    process.stdout.read(1)
    first = (time.perf_counter() - begin) * 1000
    process.stdout.read()
    if process.wait():
        raise SystemExit(f"{command} ended with {process.returncode}")
    return first, (time.perf_counter() - begin) * 1000


def measure(bench, repository, remove_all):
    bench.holm("up", "runs", cwd=repository)
    count = 10 if bench.is_quick else 50
    script = ["sh", "-c", "echo x; echo y > changed.txt"]
    commands = {
        "run": [bench.program, "run", "runs", "--", *script],
        "exec": [bench.program, "exec", "runs", "--", *script],
        "sh": ["sh", "-c", "echo x"],
    }
    measured = {}
    for name, command in commands.items():
        ends = []

        def once(_):
            first, end = first_byte(bench, command, repository)
            ends.append(end)
            return first

        measured[name] = bench.repeat(count, once)
        measured[name]["end"] = sorted(ends)[len(ends) // 2]
    run, other, bare = measured["run"], measured["exec"], measured["sh"]
    peer = f"exec {other['p50']:.1f} ms, bare sh -c {bare['p50']:.1f} ms"
    bench.row("`run -- sh -c …` to its first byte", f"p50 {run['p50']:.1f} p99 {run['p99']:.1f} ms", "", peer)
    bench.row("… to its end, changed files told", f"p50 {run['end']:.1f} ms", "", f"exec {other['end']:.1f} ms")
    remove_all(bench)
