"""Reviews: checks beside `up`, turns beside git, and the inbox over many workspaces."""

import json

from bench_tools import make_repository, remove_all

FILES = 30_000
EDIT_ALL = "find d* -name '*.txt' -exec sh -c 'for f; do echo {word} >> \"$f\"; done' sh {{}} +"


def measure(bench, repository):
    """From `holm check` to the end of a check that does nothing, beside `up` of the same commit."""
    (repository / "holm.toml").write_text('[checks.nothing]\nrun = "true"\n')
    bench.give(repository)
    bench.run("git", "add", "holm.toml", cwd=repository)
    bench.run("git", "commit", "-q", "-m", "a check", cwd=repository)
    bench.holm("up", "reviewed", cwd=repository)
    bench.holm("exec", "reviewed", "--", "sh", "-c", "echo x > changed.txt", cwd=repository)
    times = 5 if bench.is_quick else 20

    def check(_):
        return bench.time(bench.program, "check", "reviewed", "--again", cwd=repository)

    def up(number):
        return bench.time(bench.program, "up", f"reviewed-{number}", cwd=repository)

    check, up = bench.interleave(times, check=check, up=up)
    bench.ratio("`check`: fresh workspace, `true`, undone", check, 3, "`up`", up)
    remove_all(bench)


def measure_inbox(bench, repository):
    """`holm inbox --count` in a shell prompt, beside `ls` and `git status` of the same repository."""
    count = 20 if bench.is_quick else 200
    bench.holm("up", "-n", str(count), "inbox", cwd=repository)
    for number in range(1, 4):
        bench.holm("exec", f"inbox-{number}", "--", "holm", "notify", "a question", cwd=repository)
    times = 10 if bench.is_quick else 50
    inbox, ls, status = bench.interleave(
        times,
        inbox=lambda _: bench.time(bench.program, "inbox", "--count", cwd=repository),
        ls=lambda _: bench.time(bench.program, "ls", cwd=repository),
        status=lambda _: bench.time("git", "status", "--porcelain", cwd=repository))
    budget = 20
    bench.row(f"`inbox --count`, {count} workspaces", str(inbox), f"≤ {budget} ms",
              f"`ls` {ls.p50:.1f} ms, `git status` {status.p50:.1f} ms", inbox.p50 / budget)
    remove_all(bench)


def measure_turns(bench):
    """Recording a turn, beside what git does with the same files."""
    files = 3000 if bench.is_quick else FILES
    repository = make_repository(bench, "turns", files)
    workspace = json.loads(bench.holm("up", "turns", "--json", cwd=repository))
    socket = json.loads(bench.holm("daemon", "status", "--json"))["socket"]
    mark = ["curl", "-sf", "--unix-socket", socket, "-X", "POST", f"http://localhost/api/v1/workspaces/{workspace['id']}/turns"]
    plain = bench.place / "home/src/plain"
    bench.run("git", "clone", "-q", str(repository), str(plain))
    bench.run("git", "config", "user.name", "Bench", cwd=plain)
    bench.run("git", "config", "user.email", "bench@example.org", cwd=plain)

    def turn(number):
        bench.holm("exec", "turns", "--", "sh", "-c", EDIT_ALL.format(word=number))
        return bench.time(*mark)

    def stash(number):
        bench.run("sh", "-c", EDIT_ALL.format(word=number), cwd=plain)
        return bench.time("git", "stash", "create", cwd=plain)

    recorded, stashed = bench.interleave(3, turn=turn, stash=stash)
    bench.ratio(f"turn of {files} changed files", recorded, 1, "`git stash create`", stashed)

    edit = "echo {} >> d0/e0/file0.txt"
    times = 3 if bench.is_quick else 10
    run, other, status, nothing = bench.interleave(
        times,
        run=lambda number: bench.time(bench.program, "run", "turns", "--", "sh", "-c", edit.format(number)),
        exec=lambda number: bench.time(bench.program, "exec", "turns", "--", "sh", "-c", edit.format(number)),
        status=lambda _: bench.time(bench.program, "exec", "turns", "--", "git", "status", "--porcelain"),
        nothing=lambda _: bench.time(bench.program, "exec", "turns", "--", "true"))
    extra, beside = run.p50 - other.p50, status.p50 - nothing.p50
    bench.row("… `run` of one edit after that, beyond `exec`", f"{extra:.1f} ms", "",
              f"{extra / beside:.2f} x `git status` inside ({beside:.1f} ms); a `run` looks at its changes besides")
    remove_all(bench)
