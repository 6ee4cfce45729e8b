//! Shapes of stacks that people publish: each comes up twice at once from one unchanged file, answers on its published
//! port, and keeps its data apart. Every stack counts its visits.

use crate::rooms::{postgres, postgres_programs, redis};
use crate::services::service;
use crate::support::{Island, TestImage, eventually};
use serde_json::json;
use std::path::Path;

pub type MakeImage = fn() -> TestImage;

pub struct Shape {
    pub compose: &'static str,
    /// Added to `holm.toml`.
    pub toml: &'static str,
    pub files: &'static [(&'static str, &'static str)],
    pub images: &'static [(&'static str, MakeImage)],
    pub port: &'static str,
    /// Services that run when all is up.
    pub ready: &'static [&'static str],
    pub answers: Answers,
}

/// What the published port answers.
#[derive(Clone, Copy)]
pub enum Answers {
    /// The number of visits of this workspace.
    Visits,
    Text(&'static str),
}

/// Counts its visits in Redis, in a database, in a file, or lets a worker count them.
const APP: &str = r#"
const { execFileSync } = require("node:child_process"), fs = require("node:fs"), net = require("node:net");
const { REDIS = "redis", SQL, COUNTER, QUEUE, PORT = 80 } = process.env;
const redis = (...words) => new Promise((done, fail) => {
  const socket = net.connect(6379, REDIS, () => socket.write(words.join(" ") + "\r\n"));
  socket.once("data", (reply) => {
    done(String(reply).trim().split("\r\n").pop().replace(/^:/, ""));
    socket.end();
  }).once("error", fail);
});
const last = (text) => text.trim().split("\n").pop();
const sql = (program, ...words) => last(execFileSync(program, words, { encoding: "utf8" }));
const count = async () => {
  if (SQL) return sql(...SQL.split(" "), "insert into visits values (1); select count(*) from visits");
  if (COUNTER) {
    const visits = fs.existsSync(COUNTER) ? Number(fs.readFileSync(COUNTER)) + 1 : 1;
    fs.writeFileSync(COUNTER, String(visits));
    return visits;
  }
  if (!QUEUE) return redis("incr", "visits");
  await redis("rpush", "jobs", "visit");
  return redis("blpop", "done", "0");
};
const work = async () => {
  for (;;) {
    await redis("blpop", "jobs", "0");
    await redis("rpush", "done", await redis("incr", "visits"));
  }
};
const answer = async (_, reply) => reply.end(String(await count().catch((error) => `${error}`)));
if (process.argv[2] === "work") work();
else require("node:http").createServer(answer).listen(PORT);
"#;

pub const PROXY: &str = r#"
pid /tmp/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/f;
  uwsgi_temp_path /tmp/u; scgi_temp_path /tmp/s;
  server { listen 80; location / { proxy_pass http://UPSTREAM; } }
}
"#;

pub fn node() -> TestImage {
    let psql = postgres_programs().join("bin/psql");
    let image = TestImage::with_shell(json!({"Env": ["PATH=/usr/bin:/bin"]}))
        .program("/usr/bin/node")
        .program("/usr/bin/mariadb")
        .program(psql.to_str().unwrap())
        .link("usr/local/bin/psql", psql.to_str().unwrap());
    // Debian's Node loads parts of itself from there.
    [
        "acorn",
        "acorn-walk",
        "cjs-module-lexer",
        "undici",
        "minimatch",
    ]
    .iter()
    .map(|name| Path::new("/usr/share/nodejs").join(name))
    .filter(|path| path.is_dir())
    .fold(image, |image, path| image.tree(&path))
}

pub fn nginx() -> TestImage {
    TestImage::with_shell(json!({
        "Entrypoint": ["nginx", "-c", "/etc/nginx/nginx.conf"], "Cmd": ["-g", "daemon off;"],
        "Env": ["PATH=/usr/sbin:/usr/bin:/bin"], "ExposedPorts": {"80/tcp": {}}, "StopSignal": "SIGQUIT",
    }))
    .with_users()
    .program("/usr/sbin/nginx")
    .directory("var/log/nginx", 0o755)
    .directory("var/lib/nginx", 0o755)
}

const MARIADB: &str = r#"#!/bin/sh
set -e
if [ "$(id -u)" = 0 ]; then chown mysql /var/lib/mysql; exec gosu mysql "$0" "$@"; fi
if [ ! -d /var/lib/mysql/mysql ]; then
    mkdir -p /var/lib/mysql/mysql
    cd /usr/share/mysql
    { echo "use mysql;"; cat mysql_system_tables.sql mysql_performance_tables.sql mysql_system_tables_data.sql; } |
        mariadbd --no-defaults --bootstrap --datadir=/var/lib/mysql --skip-grant-tables
fi
exec mariadbd --no-defaults --datadir=/var/lib/mysql --socket=/tmp/mysql.sock --skip-grant-tables --init-file=/init.sql "$@"
"#;

pub fn mariadb() -> TestImage {
    TestImage::with_shell(json!({
        "Entrypoint": ["/entrypoint.sh"], "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/bin"],
        "Volumes": {"/var/lib/mysql": {}}, "ExposedPorts": {"3306/tcp": {}},
    }))
    .with_users()
    .program("/usr/sbin/mariadbd")
    .program("/usr/bin/mkdir")
    .file("entrypoint.sh", MARIADB, 0o755)
    .tree(Path::new("/usr/share/mysql"))
}

const CACHE: Shape = Shape {
    compose: "
services:
  web:
    image: node:22
    container_name: shop-web
    working_dir: /code
    command: node app.js
    environment: {PORT: 5000}
    volumes: [\".:/code\"]
    ports: [\"8000:5000\"]
    depends_on: [redis]
  redis: {image: redis:7, command: redis-server --protected-mode no}
",
    toml: "",
    files: &[],
    images: &[("node:22", node), ("redis:7", redis)],
    port: "8000",
    ready: &["web", "redis"],
    answers: Answers::Visits,
};

/// A proxy in front, all on port 80, and a database that only the application sees.
const BEHIND_A_PROXY: Shape = Shape {
    compose: "
x-app: &app
  image: node:22
  command: [node, /code/app.js]
  volumes: [\"./:/code:ro\"]
  environment: &settings {REDIS: store}
  networks: [front, back]
services:
  proxy:
    image: nginx:1
    ports: [\"8080:80\"]
    volumes: [\"./nginx.conf:/etc/nginx/nginx.conf:ro\"]
    networks: [front]
    depends_on: [app, admin]
  app: {<<: *app}
  admin: {<<: *app, ports: [\"8081:80\"]}
  redis:
    image: redis:7
    command: redis-server --protected-mode no
    networks: {back: {aliases: [store]}}
networks: {front: {}, back: {internal: true}}
",
    toml: "",
    files: &[("nginx.conf", PROXY)],
    images: &[("node:22", node), ("redis:7", redis), ("nginx:1", nginx)],
    port: "8080",
    ready: &["proxy", "app", "admin", "redis"],
    answers: Answers::Visits,
};

/// A job that prepares the database, which each workspace forks.
const AFTER_A_JOB: Shape = Shape {
    compose: "
services:
  db:
    image: postgres:15
    command: postgres -c fsync=off -c listen_addresses=*
    healthcheck: {test: pg_isready -h 127.0.0.1, interval: 1s}
    stop_signal: SIGINT
    volumes: [\"data:/var/lib/postgresql/data\", \"./init.sql:/init.sql:ro\"]
    ports: [\"5432\"]
  migrate:
    image: node:22
    command: [/usr/local/bin/psql, -h, db, -U, postgres, -c, create table visits (n int)]
    depends_on: {db: {condition: service_healthy}}
  app:
    image: node:22
    command: node /code/app.js
    environment: [\"SQL=/usr/local/bin/psql -h db -U postgres -qAtc\"]
    volumes: [\".:/code\"]
    ports: [\"3000:80\"]
    depends_on: {migrate: {condition: service_completed_successfully}}
volumes: {data: {}}
",
    toml: "[volumes.data]\npolicy = \"fork\"\n",
    files: &[("init.sql", "create table begun (n int);\n")],
    images: &[("node:22", node), ("postgres:15", postgres)],
    port: "3000",
    ready: &["db", "app"],
    answers: Answers::Visits,
};

const WITH_MARIADB: Shape = Shape {
    compose: "
services:
  db:
    image: mariadb:10
    volumes: [\"db_data:/var/lib/mysql\", \"./init.sql:/init.sql\"]
    expose: [3306]
    restart: always
  wordpress:
    image: node:22
    command: node /code/app.js
    env_file: [site.env]
    volumes: [\".:/code\"]
    ports: [\"80:80\"]
    restart: always
    depends_on: [db]
volumes: {db_data: {}}
",
    toml: "",
    files: &[
        (
            "site.env",
            "SQL=\"mariadb --no-defaults -h db -u root shop -Ne\"\n",
        ),
        (
            "init.sql",
            "create database if not exists shop;\ncreate table if not exists shop.visits (n int);\n",
        ),
    ],
    images: &[("node:22", node), ("mariadb:10", mariadb)],
    port: "80",
    ready: &["db", "wordpress"],
    answers: Answers::Visits,
};

/// A queue with a worker, the common parts in another file, and a tool that runs only on demand.
const WITH_A_WORKER: Shape = Shape {
    compose: "
services:
  web:
    extends: {file: common.yaml, service: app}
    environment: {QUEUE: \"yes\"}
    ports: [\"127.0.0.1:8000:80\"]
    depends_on: [queue, worker]
  worker:
    extends: {file: common.yaml, service: app}
    command: node /code/app.js work
    depends_on: [queue]
  queue: {image: redis:7, command: redis-server --protected-mode no, hostname: queue}
  tool: {image: node:22, command: node /code/app.js, profiles: [tools]}
",
    toml: "",
    files: &[(
        "common.yaml",
        "services: {app: {image: node:22, command: node /code/app.js, volumes: [\".:/code\"], environment: {REDIS: queue}}}\n",
    )],
    images: &[("node:22", node), ("redis:7", redis)],
    port: "8000",
    ready: &["web", "worker", "queue"],
    answers: Answers::Visits,
};

/// One program that keeps its data in a volume, with a configuration and a secret from files.
const ALONE: Shape = Shape {
    compose: "
services:
  app:
    image: node:22
    command: sh -c 'test -s /run/secrets/key && test -s /etc/app.conf && exec node /code/app.js'
    read_only: true
    environment: {COUNTER: /data/visits}
    volumes: [\"data:/data\", \".:/code:ro\"]
    tmpfs: [/tmp]
    ports: [\"9000:80\"]
    secrets: [key]
    configs: [{source: conf, target: /etc/app.conf}]
volumes: {data: {}}
secrets: {key: {file: ./key.txt}}
configs: {conf: {content: \"quiet\\n\"}}
",
    toml: "",
    files: &[("key.txt", "of the tree\n")],
    images: &[("node:22", node)],
    port: "9000",
    ready: &["app"],
    answers: Answers::Visits,
};

#[track_caller]
pub fn check(shapes: &[Shape]) {
    let island = Island::new();
    let mut added = Vec::new();
    for (number, shape) in shapes.iter().enumerate() {
        for (name, image) in shape.images {
            if !added.contains(name) {
                image().add(&island, name);
                added.push(name);
            }
        }
        let repository = island.repository(&format!("shop{number}"));
        repository.write("compose.yaml", shape.compose);
        repository.write("app.js", APP);
        for (path, text) in shape.files {
            repository.write(path, text.replace("UPSTREAM", "app"));
        }
        let head = "[project]\ncompose = \"compose.yaml\"\n";
        repository.write("holm.toml", format!("{head}{}", shape.toml));
        repository.commit("a stack");
        let labels = [format!("a{number}"), format!("b{number}")];
        std::thread::scope(|scope| {
            for label in &labels {
                scope.spawn(|| {
                    let made = repository.holm(&["up", label, "--json"]).json();
                    for name in shape.ready {
                        assert_eq!(service(&made, name)["state"], "ready", "{made:#}");
                    }
                });
            }
        });
        let url = format!("http://127.0.0.1:{}/", shape.port);
        let ask = |label: &str| island.inside(label, &["curl", "-sS", &url]).out();
        let (first, second) = match shape.answers {
            Answers::Visits => ("1", "2"),
            Answers::Text(text) => (text, text),
        };
        for label in &labels {
            eventually("it answers", || {
                let said = ask(label);
                // A failed test shows it.
                eprintln!("{label}: {said}");
                said == first
            });
            assert_eq!(ask(label), second, "{label}");
        }
        for label in &labels {
            island.holm(&["stop", label]).ok();
        }
    }
}

#[test]
fn stacks_with_a_cache_a_queue_or_a_volume() {
    check(&[CACHE, WITH_A_WORKER, ALONE]);
}

#[test]
fn a_stack_behind_a_proxy() {
    check(&[BEHIND_A_PROXY]);
}

#[test]
fn a_stack_after_a_job() {
    check(&[AFTER_A_JOB]);
}

#[test]
fn a_stack_with_mariadb() {
    check(&[WITH_MARIADB]);
}
