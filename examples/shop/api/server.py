"""The shop's API: products and orders in PostgreSQL, what was sold lately in Redis.

GET  /health          200 when both answer
GET  /products        what there is, with prices and stock
POST /buy/<product>   one less in stock, one order more; 409 when it is sold out
GET  /sold            what was sold, newest first
"""

import http.server
import json
import os
import pathlib
import sys
import threading
import time

import psycopg2
import redis

PORT = int(os.environ.get("API_PORT", "8080"))
MIGRATIONS = pathlib.Path(__file__).parent / "migrations"
DATABASE = {
    "host": "127.0.0.1",
    "port": int(os.environ.get("DB_PORT", "5432")),
    "user": "shop",
    "dbname": "shop",
}
CACHE = redis.Redis(port=int(os.environ.get("CACHE_PORT", "6379")))
THREAD = threading.local()


def database():
    """This thread's connection; a new one when the server went away."""
    connection = getattr(THREAD, "connection", None)
    if connection is None or connection.closed:
        connection = THREAD.connection = psycopg2.connect(**DATABASE, connect_timeout=5)
    return connection


def query(text, *values):
    """The rows of one statement, which is a transaction."""
    try:
        return ask(database(), text, values)
    except (psycopg2.OperationalError, psycopg2.InterfaceError):
        # The database was begun anew since the last one (`holm reset`): the connection is that of the old one.
        return ask(database(), text, values)


def ask(connection, text, values):
    with connection, connection.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall() if cursor.description else []


def migrate():
    """Runs every file of migrations/ that has not been run, each as a transaction."""
    query("CREATE TABLE IF NOT EXISTS migrations (name text PRIMARY KEY)")
    done = {name for (name,) in query("SELECT name FROM migrations")}
    for file in sorted(MIGRATIONS.glob("*.sql")):
        if file.name not in done:
            connection = database()
            with connection, connection.cursor() as cursor:
                cursor.execute(file.read_text())
                cursor.execute("INSERT INTO migrations VALUES (%s)", (file.name,))
            print(f"migrated {file.name}")


def wait_for_database(seconds=30):
    """Started by hand, this may be quicker than the database."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return database()
        except psycopg2.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def health():
    query("SELECT 1")
    CACHE.ping()
    return 200, {"status": "ok", "workspace": os.environ.get("HOLM_WORKSPACE_LABEL")}


def products():
    rows = query("SELECT name, cents, stock FROM products ORDER BY name")
    return 200, [{"name": name, "cents": cents, "stock": stock} for name, cents, stock in rows]


def buy(name):
    sold = query(
        """WITH sold AS (UPDATE products SET stock = stock - 1 WHERE name = %s AND stock > 0 RETURNING id, stock),
                placed AS (INSERT INTO orders (product) SELECT id FROM sold)
           SELECT stock FROM sold""",
        name,
    )
    if not sold:
        return 409, {"error": f"no {name} in stock"}
    CACHE.lpush("sold", name)
    CACHE.ltrim("sold", 0, 9)
    return 200, {"name": name, "stock": sold[0][0]}


def sold():
    return 200, [name.decode() for name in CACHE.lrange("sold", 0, -1)]


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        known = {"/health": health, "/products": products, "/sold": sold}
        self.answer(known.get(self.path))

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        name = self.path.removeprefix("/buy/")
        self.answer((lambda: buy(name)) if name != self.path else None)

    def answer(self, work):
        try:
            status, document = work() if work else (404, {"error": "no such page"})
        except (psycopg2.Error, redis.RedisError) as error:
            status, document = 503, {"error": str(error).strip()}
        body = json.dumps(document).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    wait_for_database()
    migrate()
    if "--migrate" in sys.argv:
        sys.exit()
    print(f"the API is on port {PORT}")
    http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Api).serve_forever()
