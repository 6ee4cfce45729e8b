"""From the start of `holm run` to its first byte and to its end, beside `holm exec` of the same command."""

from bench_tools import remove_all


def measure(bench, repository):
    bench.holm("up", "runs", cwd=repository)
    times = 10 if bench.is_quick else 50
    ends = {"run": [], "exec": []}

    def side(verb, script):
        def once(number):
            done = bench.measure(bench.program, verb, "runs", "--", "sh", "-c", script, cwd=repository, first=True)
            if number:
                ends[verb].append(done["ms"])
            return done["first"]
        return once

    run, other = bench.interleave(times, run=side("run", "echo x"), exec=side("exec", "echo x"))
    bench.ratio("`run` to its first byte", run, 1.5, "`exec`", other)
    run, other = (bench.repeat(times, lambda number: ends[verb][number]) for verb in ("run", "exec"))
    bench.ratio("… to its end, nothing changed", run, 4, "`exec`", other)
    for each in ends.values():
        each.clear()
    bench.interleave(times, run=side("run", "echo x; date +%N > changed.txt"), exec=side("exec", "echo x; date +%N > changed.txt"))
    run, other = (bench.repeat(times, lambda number: ends[verb][number]) for verb in ("run", "exec"))
    bench.row("… to its end, one file changed", str(run), "", f"{run.p50 / other.p50:.2f} x `exec` ({other.p50:.2f} ms)")
    remove_all(bench)
