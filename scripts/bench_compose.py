"""One Compose file with four services (PostgreSQL, Redis, an application, nginx), unchanged, ten times at once: `holm up`
beside `docker-compose up -d` with an engine of our own, and beside `podman-compose up -d` with rootless podman. Called by
`scripts/bench`."""

import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import time

COMPOSE = """
services:
  db:
    image: stack:1
    user: "999:999"
    command: [sh, -c, "[ -s /data/PG_VERSION ] || initdb -D /data -U postgres --auth=trust --no-sync > /dev/null; exec postgres -D /data -c listen_addresses='*' -c unix_socket_directories=/tmp"]
    healthcheck: {test: [CMD, pg_isready, -h, 127.0.0.1], interval: 1s, retries: 60}
    stop_signal: SIGINT
    volumes: ["db:/data"]
  cache:
    image: stack:1
    command: [redis-server, --save, "", --protected-mode, "no"]
  app:
    image: stack:1
    command: [python3, -u, /app.py]
    depends_on: {db: {condition: service_healthy}, cache: {condition: service_started}}
  web:
    image: stack:1
    command: [nginx, -c, /nginx.conf, -g, daemon off;]
    ports: ["80"]
    depends_on: [app]
volumes: {db: {}}
"""

# Rootless podman makes a network between services with /dev/net/tun, which is closed where the benchmarks run. So all
# services of a stack share one network namespace without a way out (`--network none`), and find each other by a file.
# Podman needs to be told to give the volume to the server's user.
FOR_PODMAN = [
    ("    image: stack:1\n", "    image: localhost/stack:1\n    pull_policy: never\n"),
    ("  db:\n", "  db:\n    network_mode: none\n"),
    *[(f"  {name}:\n", f'  {name}:\n    network_mode: service:db\n    volumes: ["./hosts:/etc/hosts:ro"]\n')
      for name in ["cache", "app", "web"]],
    ('    ports: ["80"]\n', ""),
    ('"db:/data"', '"db:/data:U"'),
]
PODMAN_COMPOSE = "/usr/local/lib/holm-tests/podman-compose/bin"

# The one line for holm: the first start makes the data, and each workspace forks it.
HOLM = '[project]\ncompose = "compose.yaml"\n[volumes.db]\npolicy = "fork"\n'

APP = """
import http.server, socket
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        for place in [("db", 5432), ("cache", 6379)]:
            socket.create_connection(place, timeout=5).close()
        self.send_response(200); self.end_headers(); self.wfile.write(b"both are there")
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("", 8000), Answer).serve_forever()
"""

NGINX = """
pid /tmp/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/f;
  uwsgi_temp_path /tmp/u; scgi_temp_path /tmp/s;
  server { listen 80; location / { proxy_pass http://app:8000; } }
}
"""

ANSWER = "both are there"
LIMIT = 120


class Image:
    """A root file system with programs of this machine and the libraries that they need."""

    def __init__(self):
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w")
        self.names = set()
        for directory, mode, owner in [(".", 0o755, 0), ("tmp", 0o1777, 0), ("data", 0o700, 999), ("var/log/nginx", 0o755, 0), ("etc", 0o755, 0)]:
            entry = self.entry(directory, tarfile.DIRTYPE, mode)
            entry.uid = entry.gid = owner
            self.tar.addfile(entry)
        self.text("etc/passwd", "root:x:0:0::/root:/bin/sh\npostgres:x:999:999::/data:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
        self.text("etc/group", "root:x:0:\npostgres:x:999:\nnogroup:x:65534:\n")

    @staticmethod
    def entry(name, kind, mode):
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = kind, mode
        return entry

    def text(self, name, text):
        entry = self.entry(name, tarfile.REGTYPE, 0o644)
        entry.size = len(text.encode())
        self.tar.addfile(entry, io.BytesIO(text.encode()))

    def file(self, path):
        """At its own path, with what links lead to."""
        name = str(path).lstrip("/")
        if name in self.names:
            return
        self.names.add(name)
        content = pathlib.Path(path).read_bytes()
        entry = self.entry(name, tarfile.REGTYPE, 0o755)
        entry.size = len(content)
        self.tar.addfile(entry, io.BytesIO(content))
        if content.startswith(b"\x7fELF"):
            said = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
            for word in said.split():
                if word.startswith("/"):
                    self.file(word)

    def link(self, name, target):
        entry = self.entry(name, tarfile.SYMTYPE, 0o777)
        entry.linkname = str(target)
        self.tar.addfile(entry)

    def tree(self, top):
        for path in sorted(pathlib.Path(top).rglob("*")):
            if path.is_file():
                self.file(path)

    def done(self):
        self.tar.close()
        return self.bytes.getvalue()


def postgres():
    """`/usr/lib/postgresql/15`."""
    return max(pathlib.Path("/usr/lib/postgresql").glob("*"), default=None)


def make_image():
    image = Image()
    for program in ["/bin/sh", "/usr/bin/redis-server", "/usr/sbin/nginx"]:
        image.file(program)
    python = pathlib.Path("/usr/bin/python3").resolve()
    image.file(python)
    image.link("usr/bin/python3", python)
    image.tree(f"/usr/lib/{python.name}")
    place = postgres()
    for program in ["initdb", "postgres", "pg_isready"]:
        image.file(place / "bin" / program)
    for library in ["dict_snowball.so", "plpgsql.so"]:
        image.file(place / "lib" / library)
    image.tree(f"/usr/share/postgresql/{place.name}")
    zones = pathlib.Path("/usr/share/zoneinfo/Etc/UTC")
    if zones.exists():
        image.file(zones)
    image.text("app.py", APP)
    image.text("nginx.conf", NGINX)
    return image.done(), f"{place}/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def pids():
    return {path.name for path in pathlib.Path("/proc").glob("[0-9]*")}


def memory(before):
    """Bytes of all processes that are not in `before`, each shared page divided among those that share it."""
    total = 0
    for pid in pids() - before:
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def disk(path):
    return int(subprocess.run(["du", "-sx", "--block-size=1", path], capture_output=True, text=True).stdout.split()[0])


def until_it_answers(ask):
    deadline = time.monotonic() + LIMIT
    while (said := ask()) != ANSWER:
        if time.monotonic() > deadline:
            raise SystemExit(f"the stack does not answer: {said}")
        time.sleep(0.05)


class Side:
    """What ten stacks took, one after the other, all of them running."""

    def __init__(self, count, place, before, up):
        self.ms, held = [], [(memory(before), disk(place))]
        for number in range(count):
            begin = time.perf_counter()
            up(number)
            self.ms.append((time.perf_counter() - begin) * 1000)
            held.append((memory(before), disk(place)))
        added = [(now[0] - then[0], now[1] - then[1]) for then, now in zip(held, held[1:])]
        self.memory, self.disk = zip(*added)


def by_holm(bench, count, archive, path):
    bench.run("git", "init", "-q", "-b", "main", cwd=path)
    for command in [["config", "user.name", "Bench"], ["config", "user.email", "bench@example.org"], ["add", "-A"],
                    ["commit", "-q", "-m", "A stack"]]:
        bench.run("git", *command, cwd=path)
    bench.holm("image", "import", archive, "--name", "stack:1", cwd=path)
    # The daemon runs before, as the engine does.
    before = pids() - {daemon_pid(bench)}

    def up(number):
        bench.holm("up", f"compose-{number}", cwd=path)
        ask = ["exec", f"compose-{number}", "--", "curl", "-s", "http://127.0.0.1/"]
        until_it_answers(lambda: bench.holm(*ask, cwd=path, check=False).strip())

    return Side(count, bench.place / "holm", before, up)


def daemon_pid(bench):
    return str(json.loads(bench.holm("daemon", "status", "--json"))["pid"])


def by_compose(bench, engine, count, path, before):
    environment = {**os.environ, "DOCKER_HOST": engine.socket, "COMPOSE_HTTP_TIMEOUT": "120"}

    def compose(number, *words):
        done = subprocess.run(["docker-compose", "-p", f"compose{number}", *words], cwd=path, env=environment,
                              capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"docker-compose {words[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout.strip()

    def up(number):
        compose(number, "up", "-d")
        web = compose(number, "ps", "-q", "web")
        address = subprocess.run(
            ["docker", "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", web],
            env=environment, capture_output=True, text=True).stdout.strip()
        ask = ["curl", "-s", "-m", "5", f"http://{address}/"]
        until_it_answers(lambda: subprocess.run(ask, capture_output=True, text=True).stdout)

    try:
        return Side(count, bench.place / "docker/data", before, up)
    finally:
        for number in range(count):
            compose(number, "down", "-v", "-t", "2")


def by_podman(bench, count, root, programs, before):
    """The same with rootless podman. An error says in words why it does not run here."""
    place = bench.place / "podman"
    stack, settings = place / "stack", place / "home/.config/containers"
    for directory in [stack, settings, place / "run"]:
        directory.mkdir(parents=True)
    text = COMPOSE
    for written, instead in FOR_PODMAN:
        text = text.replace(written, instead)
    (stack / "compose.yaml").write_text(text)
    (stack / "hosts").write_text("127.0.0.1 localhost db cache app\n")
    (settings / "containers.conf").write_text('[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n')
    (settings / "storage.conf").write_text('[storage]\ndriver = "overlay"\n')
    (place / "root.tar").write_bytes(root)
    bench.give(place)
    environment = {"PATH": f"{PODMAN_COMPOSE}:{bench.environment['PATH']}", "HOME": str(place / "home"),
                   "XDG_RUNTIME_DIR": str(place / "run")}

    def run(*words, check=True):
        done = subprocess.run([*bench.become, *map(str, words)], cwd=stack, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT)
        if check and done.returncode:
            raise RuntimeError(f"`{' '.join(map(str, words[:3]))}` ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return done.stdout.strip()

    def up(number):
        run("podman-compose", "--in-pod=0", "-p", f"compose{number}", "up", "-d")
        pid = run("podman", "inspect", "-f", "{{.State.Pid}}", f"compose{number}_db_1")
        ask = ["podman", "unshare", "nsenter", f"--net=/proc/{pid}/ns/net", "curl", "-s", "-m", "5", "http://127.0.0.1/"]
        until_it_answers(lambda: run(*ask, check=False))

    try:
        run("podman", "import", "-c", f"ENV PATH={programs}", place / "root.tar", "localhost/stack:1")
        return Side(count, place / "home", before, up)
    finally:
        for number in range(count):
            run("podman-compose", "--in-pod=0", "-p", f"compose{number}", "down", "-v", "-t", "2", check=False)
        # It ends podman's own process, too.
        run("podman", "system", "reset", "-f", check=False)
        run("podman", "system", "migrate", check=False)


def beside_podman(bench, what, count, root, programs, ours):
    missing = [name for name in ["podman", "newuidmap", "runc"] if not shutil.which(name)]
    if not os.path.exists(f"{PODMAN_COMPOSE}/podman-compose"):
        missing.append("podman-compose")
    try:
        if missing:
            raise RuntimeError(f"no {', '.join(missing)} here; `scripts/set-up bench` installs them")
        theirs = by_podman(bench, count, root, programs, pids())
    except (RuntimeError, SystemExit, subprocess.TimeoutExpired) as error:
        return bench.row("… by podman-compose", "-", "", str(error))
    note = "one network namespace for a stack"
    for index, name in [(0, "first"), (count - 1, f"number {count}")]:
        mine, other = ours.ms[index], theirs.ms[index]
        bench.row(f"… {name}, beside podman-compose", f"{mine:.0f} ms", "",
                  f"{mine / other:.2f} x podman-compose up -d ({other:.0f} ms; {note})")
        for of, mine, other in [("disk", ours.disk, theirs.disk), ("memory", ours.memory, theirs.memory)]:
            mine, other = mine[index], other[index]
            bench.row(f"… {of} that it adds, beside podman-compose", megabytes(mine), "",
                      f"{mine / max(other, 1):.2f} x podman-compose ({megabytes(other)})")


def megabytes(value):
    return f"{value / 1e6:.1f} MB"


def measure(bench, remove_all, start_docker):
    what = "`up` of a Compose file with four services"
    missing = [name for name in ["docker-compose", "docker", "redis-server", "nginx", "curl"] if not shutil.which(name)]
    if missing or not postgres():
        return bench.row(what, "-", "", f"no {', '.join(missing) or 'PostgreSQL'} here; `scripts/set-up bench` installs them")
    count = 3 if bench.is_quick else 10
    path = bench.place / "home/src/compose"
    path.mkdir(parents=True)
    (path / "compose.yaml").write_text(COMPOSE)
    (path / "holm.toml").write_text(HOLM)
    bench.give(path)
    root, programs = make_image()
    before = pids()
    engine = start_docker(bench)
    if not engine:
        return bench.row(what, "-", "", "no Docker engine could be started here")
    try:
        docker = ["docker", "-H", engine.socket]
        subprocess.run([*docker, "import", "-c", f"ENV PATH={programs}", "-", "stack:1"], input=root, check=True, capture_output=True)
        archive = bench.place / "home/stack.tar"
        subprocess.run([*docker, "save", "-o", archive, "stack:1"], check=True)
        archive.chmod(0o644)
        theirs = by_compose(bench, engine, count, path, before)
    finally:
        engine.stop()
    ours = by_holm(bench, count, archive, path)
    remove_all(bench)
    for index, name in [(0, "first"), (count - 1, f"number {count}")]:
        mine, other = ours.ms[index], theirs.ms[index]
        is_last = index == count - 1
        used = mine / other * 3 if is_last else None
        bench.row(f"{what}, {name}, until it answers", f"{mine:.0f} ms", "≤ 1/3 x" if is_last else "",
                  f"{mine / other:.2f} x docker-compose up -d ({other:.0f} ms)", used)
        mine, other = ours.disk[index], theirs.disk[index]
        used = mine / other * 5 if is_last else None
        bench.row("… disk that it adds", megabytes(mine), "≤ 1/5 x" if is_last else "",
                  f"{mine / other:.2f} x docker-compose ({megabytes(other)})", used)
        mine, other = ours.memory[index], theirs.memory[index]
        bench.row("… memory that it adds", megabytes(mine), "", f"{mine / other:.2f} x docker-compose ({megabytes(other)})")
    beside_podman(bench, what, count, root, programs, ours)
