"""From a key to its echo: through `holm session attach` on a terminal, through the API's WebSocket, and through
tmux and ssh to localhost, all with `cat` at the other end, but for ssh in a raw terminal."""

import base64
import json
import os
import pathlib
import pty
import select
import shlex
import socket
import struct
import subprocess
import time

# Echoes every byte at once, without the kernel's own echo.
ECHO = ["sh", "-c", "stty raw -echo; printf ready; exec cat"]


class Terminal:
    """A program on a terminal of ours."""

    def __init__(self, bench, command, cwd, environment=None):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*bench.become, *map(str, command)], cwd=cwd, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, env={**bench.environment, "TERM": "xterm-256color", **(environment or {})},
        )
        os.close(slave)

    def until(self, text, limit=20):
        seen, end = b"", time.monotonic() + limit
        while text not in seen:
            if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
                raise SystemExit(f"{text!r} did not show up: {seen[-500:]!r}")
            seen += os.read(self.master, 65536)
        return seen

    def echo(self, key):
        """Milliseconds until a key is on the screen."""
        begin = time.perf_counter()
        os.write(self.master, key)
        self.until(key)
        took = (time.perf_counter() - begin) * 1000
        # What follows of the same picture does not count for the next.
        while select.select([self.master], [], [], 0.001)[0]:
            os.read(self.master, 65536)
        return took

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


class WebSocket:
    """Just enough of one, on the daemon's socket."""

    def __init__(self, path, route):
        self.socket = socket.socket(socket.AF_UNIX)
        directory = os.open(pathlib.Path(path).parent, os.O_PATH)
        self.socket.connect(f"/proc/self/fd/{directory}/{pathlib.Path(path).name}")
        os.close(directory)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            (f"GET {route} HTTP/1.1\r\nHost: holm.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode()
        )
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.socket.recv(65536)
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise SystemExit(head)

    def take(self, count):
        while len(self.buffer) < count:
            self.buffer += self.socket.recv(65536)
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def receive(self):
        _, length = self.take(2)
        if length == 126:
            length, = struct.unpack(">H", self.take(2))
        elif length == 127:
            length, = struct.unpack(">Q", self.take(8))
        return self.take(length)

    def send(self, payload):
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        self.socket.sendall(bytes([0x82, 0x80 | len(payload)]) + mask + masked)

    def until(self, text):
        seen = b""
        while text not in seen:
            message = self.receive()
            if message[:1] == b"\x02":
                seen += message[1:]

    def echo(self, key):
        begin = time.perf_counter()
        self.send(b"\x01" + key)
        self.until(key)
        return (time.perf_counter() - begin) * 1000


def keys():
    """One after the other, so that an echo is never mistaken for the one before."""
    while True:
        yield from (bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyz")


def ssh_server(bench, place):
    """A server of its own on a free port, with a key of its own, or none."""
    if not pathlib.Path("/usr/sbin/sshd").exists():
        return None
    for name in ("host", "user"):
        bench.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name)
    bench.run("cp", place / "user.pub", place / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [*bench.become, "/usr/sbin/sshd", "-D", "-f", "/dev/null", "-h", str(place / "host"), "-p", str(port),
         "-o", "ListenAddress=127.0.0.1", "-o", f"AuthorizedKeysFile={place}/authorized", "-o", "StrictModes=no",
         "-o", f"PidFile={place}/pid"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    # A server that is not root's gives no terminal, so the far side is `cat` on a pipe: less than a session does.
    ssh = shlex.join([
        "ssh", "-T", "-F", "/dev/null", "-p", str(port), "-i", str(place / "user"), "-o", "StrictHostKeyChecking=no",
        "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "127.0.0.1", "printf ready; exec cat",
    ])
    command = ["sh", "-c", f"stty raw -echo; exec {ssh}"]
    return server, command


def measure(bench, repository, remove_all):
    bench.holm("up", "sessions", cwd=repository)
    count = 50 if bench.is_quick else 300
    place = pathlib.Path(bench.environment["HOME"]) / "bench-sessions"
    bench.run("mkdir", "-p", place)
    measured = {}

    def typed(name, far):
        far.until(b"ready")
        letters = keys()
        measured[name] = bench.repeat(count, lambda _: far.echo(next(letters)))

    session = json.loads(bench.holm("--json", "session", "new", "sessions", "--", *ECHO, cwd=repository))
    attached = Terminal(bench, [bench.program, "session", "attach", session["id"]], repository)
    typed("attach", attached)
    attached.close()
    second = json.loads(bench.holm("--json", "session", "new", "sessions", "--", *ECHO, cwd=repository))
    route = f"/api/v1/workspaces/{second['workspace']}/sessions/{second['id']}/attach?rows=24&cols=80"
    typed("websocket", WebSocket(pathlib.Path(bench.environment["HOLM_HOME"]) / "run/daemon.sock", route))
    tmux = Terminal(bench, ["tmux", "-S", place / "tmux", "-f", "/dev/null", "new-session", *ECHO], repository)
    typed("tmux", tmux)
    bench.run("tmux", "-S", place / "tmux", "kill-server")
    tmux.close()
    peers = [f"tmux {measured['tmux'].p50:.2f} ms"]
    server = ssh_server(bench, place)
    if server:
        server, command = server
        time.sleep(0.5)
        remote = Terminal(bench, command, repository)
        typed("ssh", remote)
        remote.close()
        server.terminate()
        server.wait()
        peers.append(f"ssh {measured['ssh'].p50:.2f} ms")
    shown = {name: f"p50 {value.p50:.2f} p99 {value.p99:.2f} ms" for name, value in measured.items()}
    bench.row("key to echo, `session attach`", shown["attach"], "", ", ".join(peers))
    bench.row("… through the WebSocket", shown["websocket"], "", "")
    remove_all(bench)
