//! Files that are made to break the reader, or to reach the host.

use super::{Case, cases};
use crate::compose::keys::SERVICE_KEYS;
use crate::compose::shape::Verdict;
use proptest::prelude::*;

fn errors(text: &str) -> String {
    Case::new(text).result().unwrap_err()
}

#[test]
fn bombs_are_bounded() {
    let mut laughs = "=== compose.yaml\nx-0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs += &format!("x-{level}: &a{level} [{aliases}]\n");
    }
    assert!(
        errors(&laughs).contains("more than 20000 values"),
        "{}",
        errors(&laughs)
    );
    let deep = format!("=== compose.yaml\nx: {}", "[".repeat(5000));
    errors(&deep);
    let deep = format!("=== compose.yaml\nx: {}1{}", "[".repeat(40), "]".repeat(40));
    assert!(errors(&deep).contains("nested deeper than 32 levels"));
    assert!(errors("=== compose.yaml\nx: &a [*a]").contains("an alias inside of its own anchor"));
    let large = format!("=== compose.yaml\n#{}", "x".repeat(600_000));
    assert!(errors(&large).contains("larger than"));
}

#[test]
fn many_services_that_extend_a_large_one_are_refused() {
    let variables: String = (0..4000)
        .map(|number| format!("      A{number}: x\n"))
        .collect();
    let services: String = (0..2000)
        .map(|number| format!("  s{number}: {{extends: base}}\n"))
        .collect();
    let text = format!(
        "=== compose.yaml\nservices:\n  base:\n    image: x\n    environment:\n{variables}{services}"
    );
    assert!(errors(&text).contains("more than 200000 values in all files"));
}

#[test]
fn floods_of_warnings_and_requests_are_bounded() {
    let lines: String = (0..5000)
        .map(|number| format!("      A{number}: $NOT\n"))
        .collect();
    let text =
        format!("=== compose.yaml\nservices:\n  web:\n    image: x\n    environment:\n{lines}");
    let result = Case::new(&text).result().unwrap();
    let warnings = result["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 201);
    assert!(
        warnings[200]
            .to_string()
            .contains("4800 more warnings are not listed")
    );
    let services: String = (0..600)
        .map(|number| format!("  s{number}: {{image: x, privileged: true}}\n"))
        .collect();
    assert!(
        errors(&format!("=== compose.yaml\nservices:\n{services}"))
            .contains("more than 500 things")
    );
}

#[test]
fn includes_do_not_multiply() {
    // Each of 16 levels includes the next one twice, by two names of one file.
    let mut text = "=== compose.yaml\ninclude: [a0.yaml, b0.yaml]\n".to_owned();
    for level in 0..16 {
        for name in ["a", "b"] {
            let next = level + 1;
            text += &format!("=== {name}{level}.yaml\ninclude: [a{next}.yaml, b{next}.yaml]\n");
        }
    }
    text += "=== a16.yaml\n=== b16.yaml\n";
    let errors = errors(&text);
    assert!(
        errors.contains("is one file too many") || errors.contains("too deep"),
        "{errors}"
    );
}

/// Every key that can reach the host, without which nothing would be asked.
#[test]
fn every_trusted_key_asks() {
    let values = [
        ("build", "."),
        ("cap_add", "[SYS_ADMIN]"),
        ("cgroup", "host"),
        ("device_cgroup_rules", "['a *:* rwm']"),
        ("devices", "['/dev/sda:/dev/sda']"),
        ("env_file", "/etc/environment"),
        ("environment", "[TOKEN]"),
        ("gpus", "all"),
        ("ipc", "host"),
        ("label_file", "../x"),
        ("network_mode", "container:x"),
        ("pid", "host"),
        ("post_start", "[{command: x, privileged: true}]"),
        ("pre_start", "[{command: x, privileged: true}]"),
        ("pre_stop", "[{command: x, privileged: true}]"),
        ("privileged", "true"),
        ("provider", "{type: x}"),
        ("security_opt", "['seccomp:unconfined']"),
        ("sysctls", "{kernel.x: 1}"),
        ("use_api_socket", "true"),
        ("userns_mode", "host"),
        ("uts", "host"),
        ("volumes", "['/var/run/docker.sock:/x']"),
        ("volumes_from", "['container:x']"),
    ];
    for key in SERVICE_KEYS {
        let is_trust = matches!(key.verdict, Verdict::Trust(_));
        let value = values.iter().find(|(name, _)| *name == key.name);
        assert_eq!(is_trust, value.is_some(), "{}", key.name);
        if let Some((name, value)) = value {
            let text = format!(
                "=== @environment\nTOKEN=x\n=== compose.yaml\nservices: {{web: {{image: web, {name}: {value}}}}}\n"
            );
            let result = Case::new(&text).result().unwrap();
            assert!(result["requests"][0].is_string(), "{name}: {result}");
            // Without the key nothing is asked.
            let text = "=== compose.yaml\nservices: {web: {image: web}}\n";
            assert!(Case::new(text).result().unwrap().get("requests").is_none());
        }
    }
}

/// A command that `develop` runs asks as the hooks do.
#[test]
fn a_privileged_command_of_a_watch_asks() {
    let text = "=== compose.yaml
services:
  web:
    image: web
    develop: {watch: [{path: src, action: sync+exec, target: /src, exec: {command: x, privileged: true}}]}
";
    let result = Case::new(text).result().unwrap();
    let request = result["requests"][0].as_str().unwrap_or_default();
    assert!(
        request.contains("`services.web.develop.watch.exec.privileged`"),
        "{result}"
    );
}

#[test]
fn values_that_stay_inside_do_not_ask() {
    let text = "=== compose.yaml
services:
  web:
    image: web
    privileged: false
    build: {context: ., network: none}
    cap_add: []
    network_mode: service:db
    pid: service:db
    volumes: ['./a:/a', '/home/me/shop/b:/b', 'db:/c', '/d']
    ports: ['0.0.0.0:80:80']
  db: {image: db}
volumes: {db: }
";
    let result = Case::new(text).result().unwrap();
    // A build always asks, but not for a network that it does not get.
    let requests = result["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 1, "{result}");
    assert!(
        requests[0]
            .as_str()
            .unwrap()
            .contains("`services.web.build` needs approval")
    );
}

#[test]
fn an_environment_value_is_in_no_request() {
    let text = "=== @environment\nTOKEN=hunter2\n=== compose.yaml\nservices: {web: {image: web, environment: [TOKEN]}}\n";
    let result = Case::new(text).result().unwrap();
    assert!(
        !result["requests"].to_string().contains("hunter2"),
        "{result}"
    );
}

/// The check would read one `subpath`, and the stack would keep the other.
#[test]
fn an_option_of_a_mount_twice_is_refused() {
    let mount = |options: &str| {
        format!(
            "=== compose.yaml
services: {{web: {{image: web, volumes: [{{type: volume, source: db, target: /x, {options}}}]}}}}
volumes: {{db: }}
"
        )
    };
    for options in [
        "subpath: ok, volume: {subpath: ../../etc}",
        "volume: {subpath: ../../etc}, subpath: ok",
        "volume: {subpath: ok}, image: {subpath: ../../etc}",
    ] {
        let errors = errors(&mount(options));
        assert!(errors.contains("has `subpath` twice"), "{errors}");
    }
    let errors = errors(&mount("volume: {subpath: ../../etc}"));
    assert!(errors.contains("leaves the volume"), "{errors}");
}

fn all_cases() -> Vec<String> {
    let entries = std::fs::read_dir(cases())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|it| it == "files"));
    files
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}|[-:\\[\\]{}&*!|>'\"%@`#,?\n a<]{0,80}") {
        let _ = Case::new(&format!("=== compose.yaml\n{text}")).result();
        let _ = Case::new(&format!("=== .env\n{text}\n=== compose.yaml\nservices: {{a: {{image: a}}}}\n")).result();
    }

    /// Cases with bytes removed, doubled or replaced.
    #[test]
    fn changed_cases_are_read_or_refused(
        number in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, "[-:\\[\\]{}&*!$'\" \na0]"), 1..12),
    ) {
        let cases = all_cases();
        let mut text: Vec<char> = cases[number.index(cases.len())].chars().collect();
        for (at, kind, new) in changes {
            let at = at.index(text.len());
            match kind {
                0 if text.len() > 1 => { text.remove(at); }
                1 => text.insert(at, text[at]),
                2 => text.splice(at..at, new.chars()).for_each(drop),
                _ => text.truncate(at.max(1)),
            }
        }
        let text: String = text.into_iter().collect();
        let _ = Case::new(&text).result();
    }
}
