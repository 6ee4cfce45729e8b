"""The API beside nginx, which answers the same bytes: latency and requests per second, on the Unix socket
and at the front door."""

import json
import os
import re
import socket
import statistics
import time

import bench_previews

NGINX, NGINX_DOOR = "nginx-api.sock", 18073
ITSELF = """server {{ listen unix:{place}/{name}; listen 127.0.0.1:{port};
    location = /list {{ default_type application/json; alias {root}/list; }}
    location = /one {{ default_type application/json; alias {root}/one; }} }}"""


def request(path, token=""):
    bearer = f"authorization: Bearer {token}\r\n" if token else ""
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{bearer}\r\n".encode()


def connected(where):
    if isinstance(where, int):
        client = socket.create_connection(("127.0.0.1", where))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client
    client = socket.socket(socket.AF_UNIX)
    # A path may be too long for an address; its directory's descriptor is not.
    directory = os.open(where.parent, os.O_PATH)
    client.connect(f"/proc/self/fd/{directory}/{where.name}")
    os.close(directory)
    return client


def answer(client, asked):
    """Asks, reads exactly one answer and returns its body."""
    client.sendall(asked)
    got = b""
    while b"\r\n\r\n" not in got:
        got += client.recv(1 << 16)
    head, body = got.split(b"\r\n\r\n", 1)
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"{asked}: {head.decode()} {body[:300]}")
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    while len(body) < length:
        body += client.recv(1 << 20)
    return body


def latency(where, asked, times):
    """p50 and p99 in microseconds, of one client on one connection."""
    client = connected(where)
    for _ in range(20):
        answer(client, asked)
    samples = []
    for _ in range(times):
        begin = time.perf_counter()
        answer(client, asked)
        samples.append((time.perf_counter() - begin) * 1e6)
    samples.sort()
    return statistics.median(samples), samples[int(len(samples) * 0.99)]


def rate(where, asked, seconds, connections=16):
    """Requests per second: every connection has always one under way."""
    clients = [connected(where) for _ in range(connections)]
    for client in clients:
        answer(client, asked)
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for client in clients:
            client.sendall(asked)
        for client in clients:
            answer(client, b"")
        done += connections
    return done / (time.perf_counter() - begin)


def measure(bench, repository, remove_all):
    count, times, seconds = (5, 300, 1) if bench.is_quick else (20, 3000, 4)
    for number in range(count):
        bench.holm("up", f"api-{number}", cwd=repository)
    home = bench.place / "home"
    ours = bench.place / "holm/run/daemon.sock"
    door = json.loads(bench.holm("daemon", "status", "--json"))["port"]
    token = json.loads(bench.holm("token", "new", "bench", "--json"))["token"]
    first = json.loads(bench.holm("ls", "--json"))["workspaces"][0]["id"]
    routes = {"list": "/api/v1/workspaces", "one": f"/api/v1/workspaces/{first}"}
    for name, path in routes.items():
        file = home / f"api/{name}"
        bench.run("mkdir", "-p", file.parent)
        file.write_bytes(answer(connected(ours), request(path)))
    inner = ITSELF.format(place=home, name=NGINX, port=NGINX_DOOR, root=home / "api")
    peer = bench_previews.nginx(bench, "api", inner)
    try:
        for _ in range(200):
            if (home / NGINX).exists():
                break
            time.sleep(0.05)
        for words, path, there, budget in [
            (f"GET /workspaces, {count} of them", routes["list"], "/list", ""),
            ("GET /workspaces/{id}", routes["one"], "/one", "≤ 5 ms"),
        ]:
            for way, place, shown, beside in [
                ("socket", ours, "", home / NGINX),
                ("front door", door, token, NGINX_DOOR),
            ]:
                p50, p99 = latency(place, request(path, shown), times)
                their50, their99 = latency(beside, request(there), times)
                bench.row(f"API, {way}: {words} (p50, p99)", f"{p50 / 1e3:.2f}, {p99 / 1e3:.2f} ms", budget,
                          f"nginx, the same bytes: {their50 / 1e3:.2f}, {their99 / 1e3:.2f} ms")
                each = rate(place, request(path, shown), seconds)
                theirs = rate(beside, request(there), seconds)
                bench.row(f"API, {way}: {words}, 16 connections", f"{each:,.0f} per second", "",
                          f"nginx {theirs:,.0f}")
    finally:
        peer.terminate()
        peer.wait()
    remove_all(bench)
