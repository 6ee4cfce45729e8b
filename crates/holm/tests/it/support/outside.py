"""The internet of a test: web servers, an echo and a name server, in a namespace of their own.

Arguments: a directory to serve, a file to log to. Every connection and every question is a line.
Says `ready` when everything listens; ends when its input ends.
"""
import http.server, os, socket, socketserver, sys, threading, time

served, log_path = sys.argv[1:3]
log_lock = threading.Lock()


def log(line):
    with log_lock, open(log_path, "a") as file:
        file.write(line + "\n")


class Web(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=served)

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        address = self.connection.getsockname()[0].removeprefix("::ffff:")
        log(f"http {address} {self.headers.get('Host')} {self.path}")
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path.startswith("/repo"):
            super().do_GET()
        else:
            body = f"{address} says {self.path}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


class WebServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 256


class Echo(socketserver.BaseRequestHandler):
    """Sends back what comes, each way to its end; says how many came."""

    def handle(self):
        address = self.request.getsockname()[0].removeprefix("::ffff:")
        log(f"echo {address}")
        count = 0
        try:
            while data := self.request.recv(65536):
                count += len(data)
                self.request.sendall(data)
            self.request.sendall(f"\n{count}\n".encode())
        except OSError:
            log(f"cut {address}")


class EchoServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 256


WEB, WEB6 = "192.0.2.10", "2001:db8::10"
ZONE = {
    "web.test": [WEB, WEB6],
    "other.test": ["192.0.2.20"],
    "v4.test": [WEB],
    "v6.test": [WEB6],
    "evil.test": ["198.51.100.10"],
    "private.test": ["10.9.9.9"],
    "private6.test": ["fd00:9::9"],
    "mixed.test": ["10.9.9.9", WEB],
    "mapped.test": ["::ffff:10.9.9.9"],
    "nat64.test": ["64:ff9b::a09:909"],
    "metadata.test": ["169.254.169.254"],
    "metadata6.test": ["fd00:ec2::254"],
    "loop.test": ["127.0.0.1"],
    "loop6.test": ["::1"],
    "own.test": ["203.0.113.2"],
}
turns = {}


def addresses(name):
    if name == "rebind.test":
        # Public for one lookup (of both kinds), private for the next.
        turns[name] = turns.get(name, -1) + 1
        return [WEB] if turns[name] < 2 else ["10.9.9.9"]
    if name.endswith(".wild.test"):
        return [WEB]
    return ZONE.get(name)


def answer(query):
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    name, kind = ".".join(labels).lower(), int.from_bytes(query[at + 1 : at + 3])
    log(f"dns {name} {kind}")
    if name == "broken.test":
        return query[:2] + b"\x81\x82" + query[4:6] + bytes(6) + query[12 : at + 5]
    found = addresses(name)
    code = b"\x81\x83" if found is None else b"\x81\x80"
    records = b""
    count = 0
    for address in found or []:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        if kind == (28 if ":" in address else 1):
            data = socket.inet_pton(family, address)
            records += b"\xc0\x0c" + kind.to_bytes(2) + b"\x00\x01" + bytes(4)
            records += len(data).to_bytes(2) + data
            count += 1
    head = query[:2] + code + b"\x00\x01" + count.to_bytes(2) + bytes(4)
    return head + query[12 : at + 5] + records


def names():
    server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    server.bind(("::", 53))
    while True:
        query, client = server.recvfrom(4096)
        try:
            server.sendto(answer(query), client)
        except (IndexError, UnicodeDecodeError):
            log("dns nonsense")


socketserver.TCPServer.allow_reuse_address = True
for port, server, handler in [(80, WebServer, Web), (443, EchoServer, Echo), (5432, EchoServer, Echo)]:
    server = server(("::", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Thread(target=names, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
