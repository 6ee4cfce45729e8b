"""Previews beside nginx as a proxy of the same server, and beside the server itself."""

import json
import re
import subprocess
import time

SERVER = """
worker_processes 1; pid {place}/nginx-{name}.pid; error_log /dev/null; daemon off;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; keepalive_requests 10000000;
  client_body_temp_path {place}/{name}-1; proxy_temp_path {place}/{name}-2; fastcgi_temp_path {place}/{name}-3;
  uwsgi_temp_path {place}/{name}-4; scgi_temp_path {place}/{name}-5;
  {inner}
}}
"""
ITSELF = "server {{ listen 127.0.0.1:{port}; root {root}; }}"
PROXY = """upstream itself {{ server 127.0.0.1:{to}; keepalive 64; }}
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://itself; proxy_http_version 1.1;
    proxy_set_header Connection ""; proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $remote_addr; }} }}"""
DIRECT, NGINX = 18071, 18072
# wrk asks the C library, which does not know such names everywhere. All three are asked the same.
HOST = "Host: 3000.previews.localhost"


def nginx(bench, name, inner):
    """An nginx of the host, in the foreground; its process."""
    place = bench.place / "home"
    config = place / f"nginx-{name}.conf"
    config.write_text(SERVER.format(place=place, name=name, inner=inner))
    command = [*bench.become, "/usr/sbin/nginx", "-e", "/dev/null", "-c", str(config), "-p", str(place)]
    return subprocess.Popen(command, env=bench.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wrk(bench, url, connections):
    """Requests per second, and p50 in microseconds."""
    out = bench.run("wrk", "-t1", f"-c{connections}", "-d4", "--latency", "-H", HOST, url)
    if "Non-2xx" in out:
        raise SystemExit(f"{url}: {out}")
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])
    number, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", out).groups()
    return rate, float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def throughput(bench, url):
    """Megabytes per second, the best of three."""
    speeds = [bench.run("curl", "-sS", "-H", HOST, "-o", "/dev/null", "-w", "%{speed_download}", url) for _ in range(3)]
    return max(map(float, speeds)) / 1e6


def wait_for(bench, url):
    for _ in range(200):
        if bench.run("curl", "-s", "-H", HOST, "-o", "/dev/null", "-w", "%{http_code}", url, check=False) == "200":
            return
        time.sleep(0.05)
    raise SystemExit(f"{url} does not answer")


def measure(bench, repository, remove_all):
    site = bench.place / "home/site"
    bench.run("mkdir", "-p", site)
    bench.run("sh", "-c", f"echo a small page > {site}/index.html; head -c 256M /dev/zero > {site}/big")
    bench.holm("up", "previews", cwd=repository)
    inside = SERVER.format(place="/tmp", name="inside", inner=ITSELF.format(port=3000, root="/tmp/site"))
    script = f"""mkdir -p /tmp/site; echo a small page > /tmp/site/index.html; head -c 256M /dev/zero > /tmp/site/big
        cat > /tmp/nginx.conf <<'END'\n{inside}\nEND
        /usr/sbin/nginx -e /dev/null -c /tmp/nginx.conf -p /tmp >/dev/null 2>&1 &"""
    bench.holm("exec", "previews", "--", "sh", "-c", script, cwd=repository)
    door = json.loads(bench.holm("daemon", "status", "--json"))["port"]
    urls = {
        "itself": f"http://127.0.0.1:{DIRECT}/",
        "nginx": f"http://127.0.0.1:{NGINX}/",
        "preview": f"http://127.0.0.1:{door}/",
    }
    started = [
        nginx(bench, "itself", ITSELF.format(port=DIRECT, root=site)),
        nginx(bench, "proxy", PROXY.format(port=NGINX, to=DIRECT)),
    ]
    try:
        for url in urls.values():
            wait_for(bench, url)
        one = {name: wrk(bench, url, 1)[1] for name, url in urls.items()}
        many = {name: wrk(bench, url, 32)[0] for name, url in urls.items()}
        bulk = {name: throughput(bench, url + "big") for name, url in urls.items()}
    finally:
        for process in started:
            process.terminate()
            process.wait()
    added = one["preview"] - one["itself"]
    bench.row("preview: added to a request (p50)", f"{added:.0f} µs", "≤ 150 µs",
              f"nginx adds {one['nginx'] - one['itself']:.0f} µs")
    bench.row("preview: requests per second, 32 connections", f"{many['preview']:,.0f}", "≥ 70 % of nginx",
              f"{many['preview'] / many['nginx']:.0%} of nginx ({many['nginx']:,.0f}); itself {many['itself']:,.0f}")
    bench.row("preview: one large download", f"{bulk['preview']:,.0f} MB/s", "",
              f"{bulk['preview'] / bulk['nginx']:.0%} of nginx ({bulk['nginx']:,.0f}); itself {bulk['itself']:,.0f}")
    remove_all(bench)
