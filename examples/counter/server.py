"""A page on port 3000 that counts its visits in a database beside it."""

import http.server
import os
import pathlib
import sqlite3

HERE = pathlib.Path(__file__).parent
DATABASE = HERE / "visits.db"


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with sqlite3.connect(DATABASE) as database:
            database.execute("create table if not exists visits (at text)")
            database.execute("insert into visits values (datetime('now'))")
            (count,) = database.execute("select count(*) from visits").fetchone()
        name = os.environ.get("HOLM_WORKSPACE_LABEL", "no workspace")
        body = f"visit {count} of {name}\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Page).serve_forever()
