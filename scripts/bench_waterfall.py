"""Where the time of one `up` and one `exec` goes, from the kernel's own trace of processes. Needs root.

The trace has the machine's process numbers, which are others than here. So processes are recognised by what they do."""

import contextlib
import pathlib
import re

from bench_tools import remove_all

TRACING = pathlib.Path("/sys/kernel/tracing/instances")
EVENTS = ["sched/sched_process_fork", "sched/sched_process_exec", "sched/sched_process_exit",
          "syscalls/sys_enter_connect", "syscalls/sys_exit_read", "syscalls/sys_enter_sendmsg", "syscalls/sys_enter_sethostname"]
LINE = re.compile(r"^.+-(\d+) +\[\d+\] +\S+ +(\d+\.\d+): (\w+)(.*)$")


@contextlib.contextmanager
def traced():
    """Traces until the block ends; then the list that it was given has the events: (process, ms, event, rest)."""
    place = TRACING / "holm-bench"
    place.mkdir()
    events = []
    try:
        (place / "trace_clock").write_text("mono")
        for event in EVENTS:
            (place / "events" / event / "enable").write_text("1")
        yield events
        (place / "tracing_on").write_text("0")
        for line in (place / "trace").read_text(errors="replace").splitlines():
            if found := LINE.match(line):
                events.append((int(found[1]), float(found[2]) * 1000, found[3], found[4]))
    finally:
        (place / "tracing_on").write_text("0")
        place.rmdir()


def number(rest, name):
    found = re.search(rf"\b{name}=(\d+)", rest)
    return int(found[1]) if found else None


class Trace:
    """The events of one command, by process."""

    def __init__(self, events):
        self.events = events
        self.forks = {number(rest, "child_pid"): (ms, pid) for pid, ms, event, rest in events if event == "sched_process_fork"}

    def client(self, program):
        return next(pid for pid, _, event, rest in self.events if event == "sched_process_exec" and f"filename={program} " in rest)

    def init(self):
        """The process that names the workspace's machine becomes its init."""
        return next(pid for pid, _, event, _ in self.events if event == "sys_sethostname")

    def first(self, pid, event, after=0):
        """When a thread of the process first did this."""
        threads = self.threads(pid)
        return next((ms for who, ms, what, _ in self.events if who in threads and what.startswith(event) and ms >= after), None)

    def ends(self, pid):
        return next(ms for who, ms, what, _ in self.events if who == pid and what == "sched_process_exit")

    def begins(self, pid):
        return self.forks[pid][0]

    def is_program(self, pid):
        return any(who == pid and what == "sched_process_exec" for who, _, what, _ in self.events)

    def threads(self, pid):
        found = {pid}
        for child, (_, parent) in self.forks.items():
            if parent in found and not self.is_program(child):
                found.add(child)
        return found

    def programs(self, pid):
        """Children of the process that execute something."""
        threads = self.threads(pid)
        return [child for child, (_, parent) in self.forks.items() if parent in threads and self.is_program(child)]


def spans_of_up(trace, client, init):
    begin = trace.first(client, "sched_process_exec")
    programs = trace.programs(client)
    asked = trace.first(client, "sys_connect")
    keeper = trace.forks[init][1]
    # A keeper may have waited ahead for its plan.
    keeper_begins = trace.first(keeper, "sched_process_exec") or trace.first(keeper, "sys_read", asked)
    executed = trace.first(init, "sched_process_exec")
    ready = trace.first(init, "sys_sendmsg", executed)
    ends = trace.ends(client)
    marks = [("client starts", begin, min([asked, *map(trace.begins, programs)]))]
    if programs:
        marks.append(("git in the client", min(map(trace.begins, programs)), max(map(trace.ends, programs))))
    marks += [
        ("daemon decides", max(asked, marks[-1][2]), keeper_begins),
        ("keeper prepares", keeper_begins, trace.begins(init)),
        ("namespaces, mounts, network", trace.begins(init), executed),
        ("init starts", executed, ready),
        ("keeper, daemon, client answer", ready, ends),
    ]
    return [(name, first - begin, last - begin) for name, first, last in marks], ends - begin


def spans_of_exec(trace, client, init):
    begin = trace.first(client, "sched_process_exec")
    asked = trace.first(client, "sys_connect")
    [program] = trace.programs(init)
    executed, ended = trace.first(program, "sched_process_exec"), trace.ends(program)
    ends = trace.ends(client)
    marks = [("client starts", begin, asked), ("client, daemon, keeper ask init", asked, trace.begins(program)),
             ("init forks and executes", trace.begins(program), executed), ("the program itself", executed, ended),
             ("its end reaches the client", ended, ends)]
    return [(name, first - begin, last - begin) for name, first, last in marks], ends - begin


def measure(bench, repository):
    if not bench.become or not TRACING.is_dir():
        return bench.row("waterfall of `up`", "-", "", "needs root and tracefs")
    bench.holm("up", "before", cwd=repository)
    found = {"up": [], "exec": []}
    for each in range(9):
        label = f"traced-{each}"
        with traced() as events:
            bench.time(bench.program, "up", label, cwd=repository)
        trace = Trace(events)
        init = trace.init()
        found["up"].append(spans_of_up(trace, trace.client(bench.program), init))
        with traced() as events:
            bench.time(bench.program, "exec", label, "--", "true", cwd=repository)
        trace = Trace(events)
        found["exec"].append(spans_of_exec(trace, trace.client(bench.program), init))
    remove_all(bench)
    for name, all in found.items():
        # The run in the middle, because parts of different runs do not add up.
        spans, total = sorted(all, key=lambda one: one[1])[len(all) // 2]
        bench.waterfalls[f"waterfall-{name}"] = spans, total
        for what, first, last in spans:
            bench.row(f"`{name}`: {what}", f"{last - first:.2f} ms", "", f"from {first:.2f} ms")
