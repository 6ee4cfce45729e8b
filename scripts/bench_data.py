"""Fresh databases: a forked volume to its first query, beside what people do with one PostgreSQL.

`HOLM_BENCH_DATA="100 1000"` says of how many megabytes; quick runs take the first only.
"""

import os
import pathlib
import pwd
import shutil
import statistics
import subprocess
import time

SIZES = [int(size) for size in os.environ.get("HOLM_BENCH_DATA", "100 1000").split()]

HOLM_TOML = """
[services.db]
run = "exec {bin}/postgres -D /data/pg -k /tmp -c listen_addresses=127.0.0.1"
ready = {{ command = "{bin}/psql -h 127.0.0.1 -U shop -Atqc 'select 1' shop" }}

[volumes.pg]
path = "/data/pg"
policy = "fork"
seed = ["sh seed.sh"]
seed_inputs = ["seed.sh"]
"""

# A hundred tables: what is asked touches one of them, as tests do.
SEED = """
set -e
PATH={bin}:$PATH
initdb -D {data} -U shop --auth=trust --no-sync >/dev/null
pg_ctl -D {data} -w -s -l {log} -o "-k {socket} -p {port} -c listen_addresses=127.0.0.1" start
createdb -h 127.0.0.1 -p {port} -U shop shop
for i in $(seq 1 100); do
    echo "create table t$i (id int primary key, text text);
          insert into t$i select n, repeat(md5(n::text), 28) from generate_series(1, {rows}) n;"
done | psql -h 127.0.0.1 -p {port} -U shop -q shop
"""

# A row of `SEED` is about a kilobyte.
ROWS_PER_MEGABYTE = 10
PORT = 25432
QUERY = "select count(*) from t1"


def programs():
    """Where PostgreSQL is; the newest."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


def make_repository(bench, bin_dir, megabytes):
    path = bench.place / "home/src" / f"data{megabytes}"
    path.mkdir(parents=True)
    (path / "holm.toml").write_text(HOLM_TOML.format(bin=bin_dir))
    seed = SEED.format(bin=bin_dir, data="/data/pg", log="/tmp/pg.log", socket="/tmp", port=5432,
                       rows=megabytes * ROWS_PER_MEGABYTE)
    (path / "seed.sh").write_text(seed)
    bench.give(path)
    for command in [["init", "-q", "-b", "main"], ["config", "user.name", "Bench"],
                    ["config", "user.email", "bench@example.org"], ["add", "-A"], ["commit", "-q", "-m", "data"]]:
        bench.run("git", *command, cwd=path)
    return path


def psql(bench, bin_dir, database, statement):
    return bench.run(bin_dir / "psql", "-h", "127.0.0.1", "-p", PORT, "-U", "shop", "-Atqc", statement, database)


def timed(action):
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1000


def peers(bench, bin_dir, megabytes, times):
    """One server with the same content: a copy by TEMPLATE, and by a dump, each to its first query."""
    place = bench.place / f"home/peer{megabytes}"
    script = SEED.format(bin=bin_dir, data=place, log=bench.place / "home/peer.log", socket=bench.place / "home",
                         port=PORT, rows=megabytes * ROWS_PER_MEGABYTE)
    bench.run("sh", "-c", script)
    try:
        def template(number):
            psql(bench, bin_dir, "postgres", f"create database a{number} template shop")
            psql(bench, bin_dir, f"a{number}", QUERY)

        def dump(number):
            psql(bench, bin_dir, "postgres", f"create database b{number}")
            to = f"-h 127.0.0.1 -p {PORT} -U shop"
            bench.run("sh", "-c", f"{bin_dir}/pg_dump {to} shop | {bin_dir}/psql {to} -q b{number} >/dev/null")
            psql(bench, bin_dir, f"b{number}", QUERY)

        copied = [timed(lambda n=n: template(n)) for n in range(times)]
        dumped = [timed(lambda n=n: dump(n)) for n in range(1 if megabytes > 500 else times)]
        return statistics.median(copied), statistics.median(dumped)
    finally:
        bench.run(bin_dir / "pg_ctl", "-D", place, "-s", "-m", "fast", "stop")
        shutil.rmtree(place)


def measure(bench, remove_all):
    bin_dir = programs()
    if bin_dir is None:
        bench.row("fork of a seeded PostgreSQL", "-", "", "no PostgreSQL here")
        return
    for megabytes in SIZES[:1] if bench.is_quick else SIZES:
        times = 3 if bench.is_quick else 5
        repository = make_repository(bench, bin_dir, megabytes)
        first = timed(lambda: bench.holm("up", "seeded", cwd=repository))
        ask = [bin_dir / "psql", "-h", "127.0.0.1", "-U", "shop", "-Atqc", QUERY, "shop"]

        def fork(label):
            bench.holm("up", label, cwd=repository)
            bench.holm("exec", label, "--", *ask, cwd=repository)

        def reset():
            bench.holm("reset", "seeded", "--volume", "pg", cwd=repository)
            bench.holm("exec", "seeded", "--", *ask, cwd=repository)

        forks = statistics.median(timed(lambda n=n: fork(f"fork-{n}")) for n in range(times))
        resets = statistics.median(timed(reset) for _ in range(times))
        branched = timed(lambda: bench.holm("fork", "seeded", "branched", cwd=repository))
        remove_all(bench)
        bench.holm("gc", "--all")
        copied, dumped = peers(bench, bin_dir, megabytes, times)
        beside = f"CREATE DATABASE … TEMPLATE {copied:.0f} ms, pg_dump | psql {dumped:.0f} ms"
        bench.row(f"`up` with a seeded PostgreSQL of {megabytes} MB to first query", f"{forks:.0f} ms", "1 s", beside)
        bench.row("`reset --volume` of it to first query", f"{resets:.0f} ms", "about 1 s", f"{resets / copied:.2f} x TEMPLATE")
        bench.row("`fork` of it while it runs, ready", f"{branched:.0f} ms", "", f"the seed itself took {first:.0f} ms")
