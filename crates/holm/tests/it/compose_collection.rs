//! More shapes of published stacks, by what their applications are written in. `docs/compose.md` lists them.

use crate::compose_shapes::{Answers, MakeImage, PROXY, Shape, check, mariadb, nginx, node};
use crate::rooms::{postgres, redis};
use crate::support::TestImage;
use serde_json::json;
use std::path::{Path, PathBuf};

const PYTHON: &str = r#"
import os, sqlite3
from flask import Flask
app = Flask(__name__)
given = os.environ.get

def counted(database):
    cursor = database.cursor()
    cursor.execute("create table if not exists visits (n int)")
    cursor.execute("insert into visits values (1)")
    cursor.execute("select count(*) from visits")
    count = cursor.fetchone()[0]
    database.commit()
    database.close()
    return str(count)

@app.route("/")
def visit():
    if given("REDIS"):
        import redis
        return str(redis.Redis(given("REDIS")).incr("visits"))
    if given("POSTGRES"):
        import psycopg2
        password = open("/run/secrets/db-password").read().strip()
        return counted(psycopg2.connect(host=given("POSTGRES"), user="postgres", password=password))
    if given("SQLITE"):
        return counted(sqlite3.connect(given("SQLITE")))
    return "a page of Flask"

if __name__ == "__main__":
    app.run("0.0.0.0", int(given("PORT", "80")))
"#;

const PHP: &str = r#"<?php
if ($host = getenv("DB")) {
    $db = new mysqli($host, "root", "", "shop");
    $db->query("insert into visits values (1)");
    echo $db->query("select count(*) from visits")->fetch_row()[0];
} else {
    $file = fopen("/data/visits", "c+");
    $count = intval(fgets($file)) + 1;
    rewind($file);
    fwrite($file, "$count");
    echo $count;
}
"#;

/// Asks a worker over a queue, or counts in memcached.
const QUEUE: &str = r#"
const net = require("node:net"), [, , role] = process.argv;
const talk = (host, port, first, heard) => {
  const socket = net.connect(port, host, () => socket.write(first)), said = [];
  socket.on("data", (text) => heard(String(said.splice(0) + text), socket));
  socket.on("error", (error) => heard(`${error}`, socket));
};
let count = 0;
if (role === "worker")
  talk("queue", 4222, "CONNECT {\"verbose\":false}\r\nSUB jobs 1\r\n", (text, socket) => {
    if (text.includes("PING")) socket.write("PONG\r\n");
    for (const [, to] of text.matchAll(/MSG jobs 1 (\S+) \d+/g)) {
      const reply = String(++count);
      socket.write(`PUB ${to} ${reply.length}\r\n${reply}\r\n`);
    }
    if (text.includes("Error")) process.exit(1);
  });
else
  require("node:http").createServer((_, reply) => {
    if (role === "cache") {
      talk("cache", 11211, "add visits 0 0 1\r\n0\r\nincr visits 1\r\n", (text, socket) => {
        const found = text.match(/STORED\r\n(\d+)/);
        if (found) reply.end(found[1]), socket.end();
      });
      return;
    }
    talk("queue", 4222, "CONNECT {\"verbose\":false}\r\nSUB answers 1\r\nPUB jobs answers 0\r\n\r\n", (text, socket) => {
      const found = text.match(/MSG answers 1 \d+\r\n(\d+)/);
      if (found) reply.end(found[1]), socket.end();
    });
  }).listen(80);
"#;

const HAPROXY: &str = "
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend web
  bind :80
  default_backend apps
backend apps
  option redispatch
  retries 3
  server one one:80
  server two two:80 backup
";

const APACHE: &str = "
ServerName shop.test
User www-data
Group www-data
Listen 80
PidFile /tmp/apache.pid
ErrorLog /dev/stderr
Mutex file:/tmp
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_fcgi_module /usr/lib/apache2/modules/mod_proxy_fcgi.so
ProxyPassMatch ^/ fcgi://php:9000/code/index.php
";

const FASTCGI: &str = "
pid /tmp/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/f;
  uwsgi_temp_path /tmp/u; scgi_temp_path /tmp/s;
  server {
    listen 80;
    location / { fastcgi_pass php:9000; fastcgi_param SCRIPT_FILENAME /code/index.php; fastcgi_param REQUEST_METHOD GET; }
  }
}
";

const FPM: &str = "[global]\ndaemonize = no\nerror_log = /dev/stderr\n[www]\nuser = www-data\ngroup = www-data\nlisten = 9000\npm = static\npm.max_children = 1\nclear_env = no\n";

const STATIC: &str = "
pid /tmp/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/f;
  uwsgi_temp_path /tmp/u; scgi_temp_path /tmp/s;
  server { listen 80; root /usr/share/nginx/html; }
}
";

/// A program with the library that ends threads, which others load only then.
const THREADS: &str = "/usr/bin/node";

/// The files of a directory of this machine with such an ending.
fn found(directory: &str, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| fits(path.file_name().unwrap().to_str().unwrap()))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{directory}: run `scripts/set-up test`");
    paths
}

fn python() -> TestImage {
    let program = std::fs::canonicalize("/usr/bin/python3").unwrap();
    let library = Path::new("/usr/lib").join(program.file_name().unwrap());
    let program = program.to_str().unwrap();
    let packages = "/usr/lib/python3/dist-packages";
    let mut image =
        TestImage::with_shell(json!({"Env": ["PATH=/usr/bin:/bin"], "Cmd": ["python3"]}))
            .program(program)
            .link("usr/bin/python3", program)
            .libraries(THREADS)
            .tree(&library);
    let needed = [
        "_sqlite3", "_hashlib", "_ssl", "_uuid", "_ctypes", "_bz2", "_lzma",
    ];
    let dynamic = library.join("lib-dynload");
    let is_needed = |name: &str| needed.iter().any(|it| name.starts_with(&format!("{it}.")));
    for path in found(dynamic.to_str().unwrap(), is_needed) {
        image = image.libraries(path.to_str().unwrap());
    }
    let names = [
        "flask",
        "werkzeug",
        "jinja2",
        "click",
        "itsdangerous",
        "markupsafe",
        "redis",
        "psycopg2",
        "packaging",
        "certifi",
    ];
    for name in names {
        let path = Path::new(packages).join(name);
        for library in std::fs::read_dir(&path).unwrap() {
            let library = library.unwrap().path();
            if library.extension().is_some_and(|it| it == "so") {
                image = image.libraries(library.to_str().unwrap());
            }
        }
        image = image.tree(&path);
    }
    image
}

fn php() -> TestImage {
    let program = std::fs::canonicalize("/usr/bin/php").unwrap();
    let program = program.to_str().unwrap();
    let fpm = found("/usr/sbin", |name| name.starts_with("php-fpm")).remove(0);
    let modules = found("/usr/lib/php", |name| name.starts_with("20")).remove(0);
    let names = ["mysqlnd.so", "mysqli.so"];
    let names = names.iter().map(|name| modules.join(name));
    let image = TestImage::with_shell(json!({"Env": ["PATH=/usr/sbin:/usr/bin:/bin"]}))
        .with_users()
        .program(program)
        .link("usr/bin/php", program)
        .program(fpm.to_str().unwrap())
        .link("usr/sbin/php-fpm", fpm.to_str().unwrap())
        .owned_by(33, 33)
        .directory("data", 0o755)
        .owned_by(0, 0);
    names.fold(image, |image, path| image.program(path.to_str().unwrap()))
}

fn apache() -> TestImage {
    let modules = "/usr/lib/apache2/modules";
    let names = ["mpm_event", "authz_core", "proxy", "proxy_fcgi"];
    let image = TestImage::with_shell(json!({"Env": ["PATH=/usr/sbin:/usr/bin:/bin"]}))
        .with_users()
        .libraries(THREADS)
        .program("/usr/sbin/apache2");
    names.iter().fold(image, |image, name| {
        image.program(&format!("{modules}/mod_{name}.so"))
    })
}

fn one(program: &str) -> TestImage {
    let environment = json!({"Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/bin"]});
    TestImage::with_shell(environment).program(program)
}

fn haproxy() -> TestImage {
    one("/usr/sbin/haproxy")
}

fn memcached() -> TestImage {
    let start = json!({"Env": ["PATH=/usr/bin:/bin"], "User": "memcache"});
    TestImage::with_shell(start)
        .with_users()
        .program("/usr/bin/memcached")
}

/// A program without libraries, as those written in Go are.
fn nats() -> TestImage {
    one("/usr/sbin/nats-server")
}

const PYTHON_AND_REDIS: &[(&str, MakeImage)] = &[("python:3", python), ("redis:7", redis)];

/// As `flask`: a program alone, with its data in a volume.
const FLASK_AND_SQLITE: Shape = Shape {
    compose: "
services:
  web:
    image: python:3
    command: [python3, /code/app.py]
    environment: {SQLITE: /data/site.db, PORT: 8000}
    volumes: [\".:/code\", \"data:/data\"]
    ports: [\"8000:8000\"]
    stop_signal: SIGINT
volumes: {data: {}}
",
    toml: "",
    files: &[("app.py", PYTHON)],
    images: PYTHON_AND_REDIS,
    port: "8000",
    ready: &["web"],
    answers: Answers::Visits,
};

const FLASK_AND_REDIS: Shape = Shape {
    compose: "
services:
  redis: {image: redis:7, command: redis-server --protected-mode no, ports: ['6379:6379']}
  web:
    image: python:3
    working_dir: /code
    command: python3 -m flask run --host 0.0.0.0 --port 8000
    environment: {REDIS: redis, FLASK_APP: app.py, FLASK_DEBUG: 0}
    ports: ['8000:8000']
    volumes: [\".:/code\"]
    depends_on: [redis]
",
    ..FLASK_AND_SQLITE
};

/// A proxy in front of Flask, whose page it shows.
const NGINX_AND_FLASK: Shape = Shape {
    compose: "
services:
  web:
    image: nginx:1
    volumes: [\"./nginx.conf:/etc/nginx/nginx.conf\"]
    ports: ['80:80']
    depends_on: [app]
  app:
    image: python:3
    command: [python3, /code/app.py]
    volumes: [\".:/code\"]
    expose: ['80']
    healthcheck: {test: [CMD, python3, -c, 'import urllib.request as it; it.urlopen(\"http://127.0.0.1\")'], interval: 2s}
",
    files: &[("app.py", PYTHON), ("nginx.conf", PROXY)],
    images: &[("python:3", python), ("nginx:1", nginx)],
    port: "80",
    ready: &["web", "app"],
    answers: Answers::Text("a page of Flask"),
    ..FLASK_AND_SQLITE
};

/// A password in a file that both services get as a secret.
const PYTHON_AND_POSTGRES: Shape = Shape {
    compose: "
services:
  db:
    image: postgres:15
    command: postgres -c fsync=off -c listen_addresses=*
    restart: always
    healthcheck: {test: [CMD-SHELL, pg_isready -h 127.0.0.1 -U postgres], interval: 3s, retries: 5}
    user: postgres
    secrets: [db-password]
    volumes: [\"db-data:/var/lib/postgresql/data\"]
    networks: [backnet]
    environment: [POSTGRES_DB=example, POSTGRES_PASSWORD_FILE=/run/secrets/db-password]
    expose: [5432]
  backend:
    image: python:3
    command: [python3, /code/app.py]
    environment: {POSTGRES: db}
    secrets: [db-password]
    volumes: [\".:/code\"]
    networks: [backnet, frontnet]
    depends_on: {db: {condition: service_healthy}}
  proxy:
    image: nginx:1
    volumes: [{type: bind, source: ./nginx.conf, target: /etc/nginx/nginx.conf, read_only: true}]
    ports: ['80:80']
    networks: [frontnet]
    depends_on: [backend]
volumes: {db-data: {}}
secrets: {db-password: {file: db/password.txt}}
networks: {backnet: {}, frontnet: {}}
",
    files: &[
        ("app.py", PYTHON),
        ("db/password.txt", "db-57xsl\n"),
        ("nginx.conf", TO_BACKEND),
    ],
    images: &[
        ("python:3", python),
        ("postgres:15", postgres),
        ("nginx:1", nginx),
    ],
    port: "80",
    ready: &["db", "backend", "proxy"],
    answers: Answers::Visits,
    ..FLASK_AND_SQLITE
};

const TO_BACKEND: &str = "
pid /tmp/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/f;
  uwsgi_temp_path /tmp/u; scgi_temp_path /tmp/s;
  server { listen 80; location / { proxy_pass http://backend; } }
}
";

const PHP_AND_MARIADB: Shape = Shape {
    compose: "
services:
  db:
    image: mariadb:10
    command: '--skip-name-resolve --skip-ssl'
    volumes: [\"db_data:/var/lib/mysql\", \"./init.sql:/init.sql\"]
    restart: always
    environment: [MYSQL_ROOT_PASSWORD=somewordpress, MYSQL_DATABASE=wordpress]
    expose: [3306, 33060]
  wordpress:
    image: php:8
    command: php -d extension=mysqlnd -d extension=mysqli -S 0.0.0.0:80 -t /code
    volumes: [\".:/code\"]
    ports: ['80:80']
    restart: always
    environment: [DB=db]
volumes: {db_data: {}}
",
    files: &[
        ("index.php", PHP),
        (
            "init.sql",
            "create database if not exists shop;\ncreate table if not exists shop.visits (n int);\n",
        ),
    ],
    images: &[("php:8", php), ("mariadb:10", mariadb)],
    port: "80",
    ready: &["db", "wordpress"],
    ..FLASK_AND_SQLITE
};

const NGINX_AND_FPM: Shape = Shape {
    compose: "
services:
  web: {image: nginx:1, volumes: [\"./nginx.conf:/etc/nginx/nginx.conf\"], ports: ['8080:80'], depends_on: [php]}
  php: {image: php:8, command: php-fpm -n -y /code/fpm.conf, volumes: [\".:/code\", \"data:/data\"]}
volumes: {data: {}}
",
    files: &[("index.php", PHP), ("fpm.conf", FPM), ("nginx.conf", FASTCGI)],
    images: &[("php:8", php), ("nginx:1", nginx)],
    port: "8080",
    ready: &["web", "php"],
    ..FLASK_AND_SQLITE
};

const APACHE_AND_PHP: Shape = Shape {
    compose: "
services:
  web: {image: apache:2, command: apache2 -D FOREGROUND -f /code/httpd.conf, volumes: [\".:/code:ro\"], ports: ['80:80'], depends_on: [php]}
  php: {image: php:8, command: php-fpm -n -y /code/fpm.conf, volumes: [\".:/code\", \"data:/data\"]}
volumes: {data: {}}
",
    files: &[("index.php", PHP), ("fpm.conf", FPM), ("httpd.conf", APACHE)],
    images: &[("php:8", php), ("apache:2", apache)],
    port: "80",
    ..NGINX_AND_FPM
};

/// What a build of a page in a browser leaves: files and a server.
const STATIC_SITE: Shape = Shape {
    compose: "
services:
  frontend:
    image: nginx:1
    container_name: frontend
    command: [-g, daemon off;]
    volumes: [\"./nginx.conf:/etc/nginx/nginx.conf:ro\", \"./html:/usr/share/nginx/html:ro\"]
    ports: ['80:80']
",
    files: &[("nginx.conf", STATIC), ("html/index.html", "a page")],
    images: &[("nginx:1", nginx)],
    port: "80",
    ready: &["frontend"],
    answers: Answers::Text("a page"),
    ..FLASK_AND_SQLITE
};

/// A balancer in front of two servers with a cache in memory.
const BALANCER_AND_MEMCACHED: Shape = Shape {
    compose: "
x-app: &app {image: node:22, command: node /code/queue.js cache, volumes: [\".:/code\"], depends_on: [cache]}
services:
  balancer:
    image: haproxy:2
    command: haproxy -db -f /code/haproxy.cfg
    volumes: [\".:/code:ro\"]
    ports: ['80:80', '8404:8404']
    depends_on: [one, two]
  one: *app
  two: *app
  cache: {image: memcached:1, command: memcached -m 16}
",
    files: &[("queue.js", QUEUE), ("haproxy.cfg", HAPROXY)],
    images: &[
        ("node:22", node),
        ("haproxy:2", haproxy),
        ("memcached:1", memcached),
    ],
    port: "80",
    ready: &["balancer", "one", "two", "cache"],
    ..FLASK_AND_SQLITE
};

/// A queue that is one program without libraries, and a worker.
const QUEUE_AND_WORKER: Shape = Shape {
    compose: "
services:
  web: {image: node:22, command: node /code/queue.js, volumes: [\".:/code\"], ports: ['8000:80'], depends_on: [queue, worker]}
  worker: {image: node:22, command: node /code/queue.js worker, volumes: [\".:/code\"], restart: always, depends_on: [queue]}
  queue: {image: nats:2, command: nats-server -p 4222, ulimits: {nofile: 1024}, hostname: queue}
",
    files: &[("queue.js", QUEUE)],
    images: &[("node:22", node), ("nats:2", nats)],
    port: "8000",
    ready: &["web", "worker", "queue"],
    ..FLASK_AND_SQLITE
};

/// As `react-express-mysql`: a page in front, a server between two networks, and a database that only it sees.
const NODE_AND_MARIADB: Shape = Shape {
    compose: "
services:
  backend:
    image: node:22
    command: node /code/app.js
    environment: {SQL: mariadb --no-defaults -h db -u root shop -Ne, NODE_ENV: development}
    ports: ['80', '9229:9229']
    volumes: [\".:/code:ro\", \"back-notused:/opt/app/node_modules\"]
    networks: [public, private]
    depends_on: {db: {condition: service_healthy}}
  db:
    image: mariadb:10
    restart: always
    healthcheck: {test: [CMD-SHELL, test -S /tmp/mysql.sock], interval: 1s, retries: 30, start_period: 30s}
    secrets: [db-password]
    volumes: [\"db-data:/var/lib/mysql\", \"./init.sql:/init.sql\"]
    networks: [private]
    environment: [MYSQL_DATABASE=example, MYSQL_ROOT_PASSWORD_FILE=/run/secrets/db-password]
  frontend:
    image: nginx:1
    ports: ['3000:80']
    volumes: [\"./nginx.conf:/etc/nginx/nginx.conf:ro\"]
    networks: [public]
    depends_on: [backend]
networks: {public: {}, private: {internal: true}}
volumes: {back-notused: {}, db-data: {}}
secrets: {db-password: {file: db/password.txt}}
",
    files: &[
        ("db/password.txt", "db-btf5q\n"),
        ("nginx.conf", TO_BACKEND),
        (
            "init.sql",
            "create database if not exists shop;\ncreate table if not exists shop.visits (n int);\n",
        ),
    ],
    images: &[
        ("node:22", node),
        ("mariadb:10", mariadb),
        ("nginx:1", nginx),
    ],
    port: "3000",
    ready: &["backend", "db", "frontend"],
    ..FLASK_AND_SQLITE
};

#[test]
fn stacks_of_python() {
    check(&[
        FLASK_AND_SQLITE,
        FLASK_AND_REDIS,
        NGINX_AND_FLASK,
        PYTHON_AND_POSTGRES,
    ]);
}

#[test]
fn stacks_of_php() {
    check(&[PHP_AND_MARIADB, NGINX_AND_FPM, APACHE_AND_PHP]);
}

#[test]
fn stacks_of_a_page_a_balancer_or_a_queue() {
    check(&[
        STATIC_SITE,
        BALANCER_AND_MEMCACHED,
        QUEUE_AND_WORKER,
        NODE_AND_MARIADB,
    ]);
}
