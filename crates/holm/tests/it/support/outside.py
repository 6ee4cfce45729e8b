"""The internet of a test: web servers, an echo and a name server, in a namespace of their own.

Arguments: a directory to serve, a file to log to, and perhaps a directory of certificates; then port
443 speaks TLS by the name that is asked for. Every connection and every question is a line.
Says `ready` when everything listens; ends when its input ends.
"""
import base64, gzip, hashlib, http.server, json, os, socket, socketserver, ssl, sys, threading, time

served, log_path = sys.argv[1:3]
certificates = sys.argv[3] if len(sys.argv) > 3 else None
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


class Tls(http.server.SimpleHTTPRequestHandler):
    """Tells what it was told, in many ways. Every request is a line of JSON in the log."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=served)

    def log_message(self, *arguments):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, body, status=200, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def model(self, what, body):
        """Stands in for the API of a real agent: whatever is asked, the answer is one sentence."""
        words = "the model has spoken"
        kind, events = "text/event-stream", None
        if what.endswith("/messages"):
            usage = {"input_tokens": 1, "output_tokens": 1}
            message = {"id": "m", "type": "message", "role": "assistant", "content": [], "usage": usage,
                       "model": "m", "stop_reason": None, "stop_sequence": None}
            events = [
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
                {"type": "message_stop"},
            ]
            if b'"stream":true' not in body.replace(b" ", b""):
                whole = {**message, "content": [{"type": "text", "text": words}], "stop_reason": "end_turn"}
                return self.answer(json.dumps(whole).encode(), Content_Type="application/json")
        elif what.endswith("/responses") and self.command == "POST":
            item = {"type": "message", "id": "i", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": words, "annotations": []}]}
            usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
                     "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
            events = [
                {"type": "response.created", "response": {"id": "r"}},
                {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
                {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": words},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": {"id": "r", "output": [item], "usage": usage}},
            ]
        elif what.endswith("/chat/completions"):
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            delta = {"index": 0, "delta": {"role": "assistant", "content": words}, "finish_reason": None}
            last = {"index": 0, "delta": {}, "finish_reason": "stop"}
            if b'"stream":true' not in body.replace(b" ", b""):
                message = {"index": 0, "message": {"role": "assistant", "content": words}, "finish_reason": "stop"}
                whole = {**chunk, "object": "chat.completion", "choices": [message], "usage": usage}
                return self.answer(json.dumps(whole).encode(), Content_Type="application/json")
            chunks = [{**chunk, "choices": [delta]}, {**chunk, "choices": [last], "usage": usage}]
            lines = [f"data: {json.dumps(one)}\n\n" for one in chunks] + ["data: [DONE]\n\n"]
            return self.answer("".join(lines).encode(), Content_Type=kind)
        elif "enerateContent" in what:
            usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
            content = {"role": "model", "parts": [{"text": words}]}
            whole = {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}
            if "stream" in what:
                return self.answer(f"data: {json.dumps(whole)}\r\n\r\n".encode(), Content_Type=kind)
            return self.answer(json.dumps(whole).encode(), Content_Type="application/json")
        if events is None:
            return self.answer(b"{}", 200 if self.command == "GET" else 404, Content_Type="application/json")
        lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
        self.answer("".join(lines).encode(), Content_Type=kind)

    # A refresh token is valid once; the next one has the next number.
    refreshes = 1

    def token(self, body):
        fields = json.loads(body)
        if fields.get("refresh_token") != f"rt-CANARY-refresh-000{Tls.refreshes}":
            return self.answer(b'{"error":"invalid_grant"}', 400)
        Tls.refreshes += 1
        number = Tls.refreshes
        answer = {
            "access_token": f"at-CANARY-access-000{number}",
            "refresh_token": f"rt-CANARY-refresh-000{number}",
            "expires_in": 3600,
            "api_key": "key-CANARY-0001",
        }
        self.answer(json.dumps(answer).encode())

    def raw(self, status, rest):
        self.wfile.write(b"HTTP/1.1 " + status + b"\r\n" + rest)

    def do_GET(self):
        name = self.connection.asked
        body = self.body()
        seen = {
            "tls": name,
            "connection": id(self.connection),
            "method": self.command,
            "target": self.path,
            "headers": {key.lower(): value for key, value in self.headers.items()},
            "body": body.decode("latin-1"),
        }
        log(json.dumps(seen))
        said = self.headers.get("Authorization", "") + " " + self.path
        what = self.path.partition("?")[0]
        if what.startswith("/repo"):
            if "Authorization" not in self.headers:
                return self.answer(b"", 401, WWW_Authenticate='Basic realm="x"')
            return super().do_GET()
        if not name.endswith(".test"):
            return self.model(what, body)
        if what == "/token":
            return self.token(body)
        if what == "/base64":
            return self.answer(base64.b64encode(said.encode()))
        if what == "/header":
            return self.answer(b"", X_Said=said, Set_Cookie="k=" + said)
        if what == "/redirect":
            return self.answer(b"", 302, Location="https://other.test/?" + self.path.partition("?")[2])
        if what == "/gzip":
            return self.answer(gzip.compress(said.encode()), Content_Encoding="gzip")
        if what == "/pieces":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for letter in said.encode():
                self.wfile.write(b"1\r\n%c\r\n" % letter)
                self.wfile.flush()
            return self.wfile.write(b"0\r\n\r\n")
        if what == "/name":
            return self.answer(b"", **{"X-" + said.encode().hex(): "1"})
        if what == "/reason":
            return self.raw(b"200 " + said.encode(), b"Content-Length: 0\r\n\r\n")
        if what == "/coding":
            return self.raw(b"200 OK", b"Content-Encoding: " + said.encode() + b"\r\nContent-Length: 0\r\n\r\n")
        if what == "/transfer":
            packed = gzip.compress(said.encode())
            head = b"Transfer-Encoding: gzip, chunked\r\n\r\n"
            return self.raw(b"200 OK", head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed))
        if what == "/trailer":
            head = b"Trailer: X-Said\r\nTransfer-Encoding: chunked\r\n\r\n"
            return self.raw(b"200 OK", head + b"2\r\nok\r\n0\r\nX-Said: " + said.encode() + b"\r\n\r\n")
        if what == "/early":
            self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: <" + said.encode() + b">\r\n\r\n")
            return self.answer(b"ok")
        if what == "/old":
            self.close_connection = True
            return self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + said.encode())
        if what == "/silent":
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said[:24].encode())
            self.wfile.flush()
            # Longer than a gateway holds anything back.
            time.sleep(1.5)
            return self.wfile.write(said[24:].encode())
        if what == "/keep":
            Tls.kept = said
            return self.answer(b"kept")
        if what == "/unasked":
            return self.answer(said[7:20].encode(), 206, Content_Range=f"bytes 7-19/{len(said)}")
        said = Tls.kept if what == "/kept" else said
        if what in ("/part", "/kept") and "Range" in self.headers:
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            part = said.encode()[int(first) : int(last) + 1]
            return self.answer(part, 206, Content_Range=f"bytes {first}-{last}/{len(said)}")
        if what == "/frames":
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.end_headers()
            half = len(said) // 2
            self.wfile.write(b"\x01" + bytes([half]) + said[:half].encode())
            self.wfile.write(b"\x80" + bytes([len(said) - half]) + said[half:].encode())
            self.close_connection = True
            return
        if what == "/socket":
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", accept)
            self.end_headers()
            self.wfile.write(b"\x81" + bytes([len(said)]) + said.encode())
            self.wfile.write(b"\x81\x04" + self.rfile.read(4))
            self.close_connection = True
            return
        self.answer(json.dumps({"said": said, "body": seen["body"]}).encode())

    do_POST = do_PUT = do_GET


class TlsServer(WebServer):
    """Which certificate it has depends on the name that is asked for."""

    def finish_request(self, stream, address):
        asked = []

        def choose(stream, name, context):
            asked.append(name)
            path = f"{certificates}/{name}.pem"
            if name is None or not os.path.exists(path):
                return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
            other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            other.load_cert_chain(path)
            other.set_alpn_protocols(["http/1.1"])
            stream.context = other

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sni_callback = choose
        try:
            stream = context.wrap_socket(stream, server_side=True)
        except OSError:
            return log(f"no tls {asked}")
        stream.asked = asked[0]
        try:
            super().finish_request(stream, address)
            stream.unwrap()
        except OSError:
            pass
        finally:
            stream.close()


WEB, WEB6 = "192.0.2.10", "2001:db8::10"
ZONE = {
    "web.test": [WEB, WEB6],
    "api.test": [WEB, WEB6],
    "untrusted.test": [WEB],
    "wrong.test": [WEB],
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
    if certificates and name not in ZONE and os.path.exists(f"{certificates}/{name}.pem"):
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
secure = (443, EchoServer, Echo) if certificates is None else (443, TlsServer, Tls)
for port, server, handler in [(80, WebServer, Web), secure, (5432, EchoServer, Echo)]:
    server = server(("::", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Thread(target=names, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
