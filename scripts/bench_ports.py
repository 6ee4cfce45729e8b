"""What leads into workspaces, measured beside a server of the host: called by `scripts/bench`."""

import json
import os
import pathlib
import socket
import subprocess
import time

# A server that says one byte to a client that says `b`, and much to one that says `m`.
SERVER = """
import socket, sys, threading
def serve(client):
    with client:
        if client.recv(1) == b'b':
            client.sendall(b'.')
        else:
            piece = bytes(1 << 20)
            for _ in range(int(sys.argv[2])): client.sendall(piece)
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])), backlog=128)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
MEGABYTES = 2048
PORT = 3000


def port_of(bench, label, port, is_listening=True):
    """Waits for a port and returns its host port."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for found in json.loads(bench.holm("ports", label, "--json"))["ports"]:
            if found["port"] == port and (found["listening"] or not is_listening):
                return found["host_port"]
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on {port} of {label}")


def serve_inside(bench, repository, label):
    script = f"python3 -c \"$0\" {PORT} {MEGABYTES} >/dev/null 2>&1 &"
    bench.holm("exec", label, "--", "sh", "-c", script, SERVER, cwd=repository)


def round_trip(port):
    begin = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"b")
        client.recv(1)
    return (time.perf_counter() - begin) * 1e6


def throughput(port):
    begin, received = time.perf_counter(), 0
    buffer = bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"m")
        while length := client.recv_into(buffer):
            received += length
    assert received == MEGABYTES << 20, received
    return received / (time.perf_counter() - begin) / 1e9


def measure_relay(bench, repository):
    bench.holm("up", "relay", cwd=repository)
    serve_inside(bench, repository, "relay")
    inside = port_of(bench, "relay", PORT)
    direct = subprocess.Popen(["python3", "-c", SERVER, "3999", str(MEGABYTES)])
    try:
        while True:
            try:
                round_trip(3999)
                break
            except OSError:
                time.sleep(0.05)
        mine, peer = bench.repeat(500, lambda n: round_trip(inside)), bench.repeat(500, lambda n: round_trip(3999))
        bench.row("connect, one byte each way, through a host port", f"p50 {mine.p50:.0f} p99 {mine.p99:.0f} µs", "",
                  f"{mine.p50 / peer.p50:.2f} x the server itself ({peer.p50:.0f} µs)")
        mine, peer = max(throughput(inside) for _ in range(3)), max(throughput(3999) for _ in range(3))
        bench.row("bulk from inside through a host port", f"{mine:.2f} GB/s", "", f"{mine / peer:.2f} x the server itself ({peer:.2f} GB/s)")
    finally:
        direct.terminate()
        direct.wait()


def post(bench, route, document):
    """What the CLI does, without starting one."""
    body = json.dumps(document).encode()
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.connect(str(bench.place / "holm/run/daemon.sock"))
        daemon.sendall(f"POST /api/v1{route} HTTP/1.1\r\nHost: holm.localhost\r\nContent-Type: application/json\r\n"
                       f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = b"".join(iter(lambda: daemon.recv(1 << 16), b""))
    if not answer.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"{route}: {answer.decode()}")


def measure_hand_over(bench, repository):
    """From the command to the first byte of the other workspace."""
    bench.holm("up", "other", cwd=repository)
    serve_inside(bench, repository, "other")
    port_of(bench, "other", PORT)

    def hand_over(number):
        begin = time.perf_counter()
        bench.holm("checkout", ["relay", "other"][number % 2], "--ports", PORT)
        round_trip(PORT)
        return (time.perf_counter() - begin) * 1000

    measured = bench.repeat(20, hand_over)
    ids = [json.loads(bench.holm("show", label, "--json"))["id"] for label in ["relay", "other"]]

    def by_api(number):
        begin = time.perf_counter()
        post(bench, "/checkout", {"workspace": ids[number % 2], "ports": [str(PORT)]})
        round_trip(PORT)
        return (time.perf_counter() - begin) * 1000

    direct = bench.repeat(100, by_api)
    bench.row("canonical port handed over, to the first byte of the other", f"p50 {direct.p50:.1f} p99 {direct.p99:.1f} ms", "≤ 5 ms",
              f"{measured.p50:.1f} ms by `holm checkout`")
    bench.holm("checkout", "--none")


def processes():
    """The daemon and the keepers: processor time and proportional memory, by kind."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            kind = "keepers" if b"__keeper" in arguments else "daemon" if arguments[1:3] == [b"daemon", b"run"] else None
            if kind is None:
                continue
            fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
            memory = int((process / "smaps_rollup").read_text().split("\nPss:")[1].split()[0])
        except (OSError, IndexError):
            continue
        ticks, size, count = found.get(kind, (0, 0, 0))
        found[kind] = (ticks + int(fields[11]) + int(fields[12]), size + memory, count + 1)
    return found


def measure_idle(bench, repository, count=100, seconds=20):
    """Many workspaces with one listening port each, and nobody there."""
    bench.holm("up", "-n", count, "idle", cwd=repository)
    listen = "import socket, time; s = socket.create_server(('127.0.0.1', 3000)); time.sleep(100000)"
    for number in range(1, count + 1):
        bench.holm("exec", f"idle-{number}", "--", "sh", "-c", "python3 -c \"$0\" >/dev/null 2>&1 &", listen, cwd=repository)
    deadline = time.monotonic() + 30
    while True:
        ports = json.loads(bench.holm("ports", "--json"))["ports"]
        listening = sum(port["listening"] for port in ports if port["label"].startswith("idle-"))
        if listening == count or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    before = processes()
    time.sleep(seconds)
    after = processes()
    each = os.sysconf("SC_CLK_TCK") * seconds / 100
    daemon, keepers = ((after[kind][0] - before[kind][0]) / each for kind in ["daemon", "keepers"])
    bench.row(f"{count} workspaces that listen, idle", f"daemon {daemon:.2f} %, keepers {keepers:.2f} %", "of one processor",
              f"{listening} listen; daemon {after['daemon'][1] / 1024:.1f} MB")


def measure(bench, repository, remove_all):
    measure_relay(bench, repository)
    measure_hand_over(bench, repository)
    remove_all(bench)
    measure_idle(bench, repository, 20 if bench.is_quick else 100)
    remove_all(bench)
