//! The same files, read by docker-compose 1.29 of Debian, for what that version knows.

use super::Case;
use serde_json::{Map, Value};
use std::io::Write;
use std::process::Command;

/// Reports that this machine cannot run the test. In CI that is a failure.
fn skipped(reason: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "CI has to run every test, and this one cannot run here: {reason}"
    );
    let test = std::env::var("NEXTEST_TEST_NAME").unwrap_or_default();
    eprintln!("{test} was skipped: {reason}");
    if let Some(file) = std::env::var_os("HOLM_TEST_SKIPPED") {
        let line = format!("{test}: {reason}\n");
        let file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(file);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the list of skipped tests");
    }
}

/// Values of one service that both programs write the same way.
const SAME: [&str; 12] = [
    "image",
    "user",
    "hostname",
    "working_dir",
    "restart",
    "tty",
    "stop_signal",
    "cap_add",
    "cap_drop",
    "dns",
    "expose",
    "labels",
];

const FILES: [&str; 4] = [
    "=== @environment
TAG=16
=== .env
NAME=from-file
=== compose.yaml
version: '3.8'
x-env: &env {A: '1', B: two}
services:
  db:
    image: postgres:${TAG:-1}
    command: echo '$$HOME' ${NAME} \"${NOT:-a b}\"
    environment: {<<: *env, B: own, EMPTY: ''}
    hostname: ${NAME}
    user: root
    labels: [one=1, two=b]
    cap_add: [NET_ADMIN]
    ports: ['8000:80', '127.0.0.1:9000:90/udp', '3000']
    restart: always
    tty: true
",
    "=== @files
compose.yaml
over.yaml
=== a.env
FROM=file
A=weaker
=== compose.yaml
version: '3.8'
services:
  web:
    image: web:1
    command: [a, b]
    entrypoint: /start one
    environment: {A: base, B: base}
    labels: {one: '1', two: '2'}
    env_file: a.env
    expose: ['1', '2']
    dns: 1.1.1.1
    depends_on: [db]
    working_dir: /x
  db: {image: db}
=== over.yaml
version: '3.8'
services:
  web:
    image: web:2
    command: debug 'x y'
    environment: [B=over, C=new]
    labels: [two=over]
    expose: ['2', '3']
    dns: [8.8.8.8]
    cap_drop: [ALL]
",
    "=== compose.yaml
version: '2.4'
services:
  base: {image: base, user: root, environment: {TZ: utc, PORT: 80}, labels: {a: '1'}}
  cli:
    extends: {service: base}
    environment: [PORT=8080]
    labels: {b: '2'}
  far:
    extends: {file: lib/common.yaml, service: worker}
    command: own
=== lib/common.yaml
version: '2.4'
services:
  worker: {image: worker, command: [common], env_file: w.env, stop_signal: SIGINT}
=== lib/w.env
FROM=lib
",
    "=== compose.yaml
version: '3.8'
services:
  web:
    image: web
    volumes: ['named:/named', './rel:/rel:ro', '/anonymous']
    healthcheck: {test: curl localhost, interval: 1m30s, retries: 3}
    stop_signal: SIGTERM
volumes: {named: {}}
",
];

/// What docker-compose makes of the case, as JSON.
fn peer(case: &Case<'_>) -> Value {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in case.files() {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    #[allow(clippy::disallowed_methods)] // A program of the test, not of holm.
    let mut command = Command::new("docker-compose");
    for file in case.main() {
        command.args(["-f", file]);
    }
    command
        .arg("config")
        .current_dir(directory.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = command.envs(case.environment()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let root = directory.path().to_str().unwrap();
    let text = String::from_utf8(output.stdout)
        .unwrap()
        .replace(root, "/home/me/shop");
    serde_saphyr::from_str(&text).unwrap()
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Lists and maps in one order, all values as text.
fn plain(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut texts: Vec<String> = items.iter().map(text).collect();
            texts.sort();
            Value::from(texts)
        }
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), Value::from(text(value))))
            .collect::<Map<_, _>>()
            .into(),
        other => Value::from(text(other)),
    }
}

/// A command is a text there, if a text was written, with its dollar signs doubled.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items
            .iter()
            .map(|item| text(item).replace("$$", "$"))
            .collect(),
        other => crate::compose::form::words(&text(other).replace("$$", "$")).unwrap(),
    }
}

#[test]
fn docker_compose_reads_the_same() {
    let is_there = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|place| place.join("docker-compose").exists());
    if !is_there {
        return skipped("docker-compose is not installed");
    }
    for file in FILES {
        let case = Case::new(file);
        let (ours, theirs) = (case.result().unwrap(), peer(&case));
        let services = theirs["services"].as_object().unwrap();
        assert_eq!(
            services.len(),
            ours["stack"]["services"].as_object().unwrap().len()
        );
        for (name, theirs) in services {
            compare(name, &ours["stack"]["services"][name], theirs);
        }
    }
}

fn compare(name: &str, ours: &Value, theirs: &Value) {
    for key in SAME.iter().chain(&["environment"]) {
        let own = match &ours[key] {
            // That version writes one text as a text.
            Value::Array(items) if items.len() == 1 && !theirs[key].is_array() => &items[0],
            value => value,
        };
        assert_eq!(
            plain(own),
            plain(&theirs[key]),
            "{name}.{key}\n{ours}\n{theirs}"
        );
    }
    for key in ["command", "entrypoint"] {
        if !theirs[key].is_null() {
            assert_eq!(words(&ours[key]), words(&theirs[key]), "{name}.{key}");
        }
    }
    let dependencies = |value: &Value| -> Vec<String> {
        value
            .as_object()
            .map(|map| map.keys().cloned().collect())
            .unwrap_or_default()
    };
    assert_eq!(
        dependencies(&ours["depends_on"]),
        dependencies(&theirs["depends_on"]),
        "{name}"
    );
    assert_eq!(
        list(&ours["ports"], &port),
        list(&theirs["ports"], &their_port),
        "{name}"
    );
    assert_eq!(
        list(&ours["volumes"], &mount),
        list(&theirs["volumes"], &their_mount),
        "{name}"
    );
    if let Some(check) = theirs.get("healthcheck") {
        let own = &ours["healthcheck"];
        assert_eq!(plain(&check["retries"]), plain(&own["retries"]));
        let interval = crate::compose::form::duration(&text(&check["interval"]));
        assert_eq!(interval, own["interval"].as_u64());
        assert_eq!(text(&check["test"]), text(&own["test"][1]), "{name}");
    }
}

fn list(value: &Value, shown: &dyn Fn(&Value) -> String) -> Vec<String> {
    let mut texts: Vec<String> = value.as_array().into_iter().flatten().map(shown).collect();
    texts.sort();
    texts
}

fn port(port: &Value) -> String {
    let part = |key: &str| {
        port.get(key)
            .filter(|it| !it.is_null())
            .map(text)
            .unwrap_or_default()
    };
    let protocol = if part("protocol").is_empty() {
        "tcp".to_owned()
    } else {
        part("protocol")
    };
    format!(
        "{}:{}:{}/{protocol}",
        part("host_ip"),
        part("published"),
        part("target")
    )
}

/// A text, or a table if the version of the file has them.
fn their_port(written: &Value) -> String {
    if written.is_object() {
        return port(written);
    }
    let ports = holm_core::compose::ports(&text(written)).unwrap();
    port(&serde_json::to_value(&ports[0]).unwrap())
}

fn mount(mount: &Value) -> String {
    let source = mount.get("source").map(text).unwrap_or_default();
    let place = if mount["type"] == "bind" {
        "/home/me/shop/"
    } else {
        ""
    };
    let is_read_only = mount["read_only"] == Value::Bool(true);
    format!("{place}{source}:{}:{is_read_only}", text(&mount["target"]))
}

fn their_mount(written: &Value) -> String {
    let mount = holm_core::compose::mount(&text(written)).unwrap();
    let source = mount.source.unwrap_or_default();
    format!("{source}:{}:{}", mount.target, mount.read_only)
}
