//! Tests of `holm.toml`: valid content, and the errors.

use super::*;
use holm_core::Code;
use holm_core::Fault;
use holm_core::config::{CheckVolumes, DriverName, EgressMode, OnAssign, Restart, Scope};
use proptest::prelude::*;
use std::time::Duration;

/// The example of the documentation, which must always parse.
pub const EXAMPLE: &str = include_str!("../assets/example.toml");

#[track_caller]
fn good(text: &str) -> ProjectConfig {
    parse(text, "holm.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// Each error as `line:column: what`.
#[track_caller]
fn wrong(text: &str) -> Vec<String> {
    let errors = parse(text, "holm.toml").expect_err(text);
    let lines = errors.errors().iter();
    lines
        .map(|error| format!("{}:{}: {}", error.line, error.column, error.what))
        .collect()
}

#[track_caller]
fn check_wrong(text: &str, expect: &[&str]) {
    assert_eq!(wrong(text), expect, "{text}");
}

/// Checks files that begin with `prefix`: the rest of each, followed by its errors after `! `.
#[track_caller]
fn check_all(prefix: &str, files: &str) {
    let mut lines = files.trim().lines().peekable();
    while lines.peek().is_some() {
        let mut text = prefix.to_owned();
        while let Some(line) = lines.next_if(|line| !line.starts_with("! ")) {
            text.push_str(line);
            text.push('\n');
        }
        let mut errors = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with("! ")) {
            errors.push(&line[2..]);
        }
        check_wrong(&text, &errors);
    }
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(good(""), ProjectConfig::default());
    assert_eq!(
        good("\n# nothing\n[project]\n[ports]\n"),
        ProjectConfig::default()
    );
}

#[test]
fn the_example_says_everything() {
    let config = good(EXAMPLE);
    let project = &config.project;
    assert_eq!(project.name.as_ref().unwrap().as_str(), "shop");
    assert_eq!(project.root.as_ref().unwrap().as_str(), "/home/me/src/shop");
    assert_eq!(project.setup, ["npm ci"]);
    assert_eq!(project.include[0].as_str(), ".env.local");
    assert_eq!(project.protected_paths.len(), 3);
    assert_eq!(project.isolation, Scope::Workspace);
    assert_eq!(project.driver, DriverName::Linux);
    assert!(!project.nested);

    let web = &config.services[&Name::parse("web").unwrap()];
    let port = NonZeroU16::new(3000).unwrap();
    let probe = Probe::Http {
        path: "/".to_owned(),
        port,
    };
    assert_eq!(
        web.ready,
        Some(Ready {
            probe,
            timeout: Duration::from_secs(60)
        })
    );
    assert_eq!(web.depends_on, [Name::parse("db").unwrap()]);
    assert_eq!(web.restart, Restart::OnFailure);
    assert_eq!(web.on_assign, OnAssign::Hot);
    assert_eq!(
        web.env[&Variable::parse("NODE_ENV").unwrap()],
        "development"
    );

    let volume = &config.volumes[&Name::parse("pg").unwrap()];
    assert_eq!(volume.policy, Policy::Fork);
    assert_eq!(volume.seed.len(), 2);
    let shared = &config.shared[&Name::parse("redis").unwrap()];
    assert_eq!(shared.address.to_string(), "127.0.0.1:6379");
    let secret = &config.secrets[&Variable::parse("STRIPE_KEY").unwrap()];
    assert_eq!(secret.ttl, Some(Duration::from_secs(8 * 3600)));
    assert_eq!(secret.to, [Receiver::Service(Name::parse("api").unwrap())]);
    assert_eq!(config.egress.mode, Some(EgressMode::Open));
    assert_eq!(config.egress.allow.len(), 2);
    assert_eq!(config.limits.memory, Some(4 << 30));
    assert_eq!(config.limits.cpus, Some(2.0));
    assert_eq!(config.limits.processes, Some(1024));
    let agent = &config.agents[&Name::parse("claude").unwrap()];
    assert_eq!(agent.timeout, Some(Duration::from_secs(300)));
    let check = &config.checks[&Name::parse("test").unwrap()];
    assert_eq!(check.run, "npm test");
    assert_eq!(check.when.len(), 2);
    assert_eq!(check.volumes, CheckVolumes::Fresh);
}

#[test]
fn checks_have_defaults_and_errors() {
    let config = good(
        "[checks.a]\nrun = \"x\"\n[checks.b]\nrun = \"y\"\ntimeout = \"2s\"\nvolumes = \"current\"\n[review]\ncheck = true\n",
    );
    let check = |name: &str| &config.checks[&Name::parse(name).unwrap()];
    assert_eq!(check("a").timeout, DEFAULT_TIMEOUT);
    assert!(check("a").when.is_empty());
    assert_eq!(check("b").timeout, Duration::from_secs(2));
    assert_eq!(check("b").volumes, CheckVolumes::Current);
    assert!(config.check_runs && !config.review_required);
    for wrong_text in [
        "[checks.a]\n",
        "[checks.a]\nrun = \"\"\n",
        "[checks.\"a/b\"]\nrun = \"x\"\n",
        "[checks.a]\nrun = \"x\"\ntimeout = \"soon\"\n",
        "[checks.a]\nrun = \"x\"\nwhen = [\"../x\"]\n",
        "[checks.a]\nrun = \"x\"\nvolumes = \"mine\"\n",
        "[checks.a]\nrun = \"x\"\nnope = 1\n",
        "[review]\ncheck = \"yes\"\n",
    ] {
        assert_eq!(wrong(wrong_text).len(), 1, "{wrong_text}");
    }
}

#[test]
fn a_repository_cannot_notify() {
    check_wrong(
        "[notify]\ncommand = [\"x\"]\n",
        &["1:2: unknown key `notify`; only your own settings, config.toml, may have it"],
    );
}

#[test]
fn every_error_is_reported_at_once_with_its_place() {
    let text =
        "[project]\nnam = \"shop\"\nnested = \"yes\"\n\n[ports]\nweb = 0\n[servces.x]\nrun = 1\n";
    check_wrong(
        text,
        &[
            "2:1: unknown key `nam` in `project`; did you mean `name`?",
            "3:10: `project.nested` must be `true` or `false`, not a string",
            "6:7: `ports.web` must be 1 to 65535",
            "7:2: unknown key `servces`; did you mean `services`?",
        ],
    );
    let fault = Fault::from(parse(text, "holm.toml").unwrap_err());
    assert_eq!(fault.code, Code::InvalidConfig);
    for place in [
        "holm.toml:2:1: ",
        "holm.toml:3:10: ",
        "holm.toml:6:7: ",
        "holm.toml:7:2: ",
    ] {
        assert!(fault.message().contains(place), "{}", fault.message());
    }
    assert!(
        fault.message().contains("  2 | nam = \"shop\"\n    | ^^^"),
        "{}",
        fault.message()
    );
    assert!(fault.hint.contains("holm schema"));
}

#[test]
fn syntax_errors_have_a_place_too() {
    let errors = wrong("[project\nname = \"shop\"\n");
    assert!(errors[0].starts_with("1:9: "), "{errors:?}");
    let errors = wrong("a = 1\na = 2\n");
    assert!(errors[0].starts_with("2:1: "), "{errors:?}");
    assert!(!wrong("[a]\nx = \n[b]\ny = \n").is_empty());
    assert_eq!(
        wrong(&"#".repeat(300_000)),
        ["1:1: the file is larger than 262144 bytes"]
    );
}

#[test]
fn project_values() {
    check_all(
        "[project]\n",
        r#"
name = "Shop"
! 2:8: `Shop` is not a valid `project.name`: it has `S`; only a-z, 0-9 and - are allowed
name = 3
! 2:8: `project.name` must be a string, not an integer
name = "a-name-of-21-letters-"
! 2:8: `a-name-of-21-letters-` is not a valid `project.name`: it has 21 characters, 20 is the most
root = "src"
! 2:8: `src` is not a valid `project.root`: it must be absolute
root = "/a/../etc"
! 2:8: `/a/../etc` is not a valid `project.root`: it has a `..` part; write the path without it
root = "/usr/src"
! 2:8: `/usr/src` is not a valid `project.root`: `/usr` belongs to the system
setup = "npm ci"
! 2:9: `project.setup` must be a list, not a string
setup = ["a", 1]
! 2:15: `project.setup` must be a string, not an integer
setup = [" "]
! 2:10: ` ` is not a valid `project.setup`: it is empty
include = ["../x"]
! 2:12: `../x` is not a valid `project.include`: it has a `..` part; write the path without it
protected_paths = ["a\u0000"]
! 2:20: `a\u{0}` is not a valid `project.protected_paths`: it has the control character `\u{0}`
protected_paths = [""]
! 2:20: `` is not a valid `project.protected_paths`: it is empty
isolation = "none"
! 2:13: `project.isolation` cannot be `none`; it is one of `workspace`, `project`
driver = "linus"
! 2:10: `project.driver` cannot be `linus`; it is one of `linux`, `docker`, `kubernetes`; did you mean `linux`?
nested = 1
! 2:10: `project.nested` must be `true` or `false`, not an integer
zzz = 1
! 2:1: unknown key `zzz` in `project`; known here: name, root, setup, setup_inputs, setup_files, include, protected_paths, isolation, driver, nested, compose, devcontainer
"#,
    );
    check_all(
        "",
        r#"
project = 1
! 1:11: `project` must be a table, not an integer
[[project]]
! 1:1: `project` must be a table, not a list
"#,
    );
    let nested = good("[project]\nprotected_paths = [\"a\", \"a/b\", \"a\", \"c/\"]");
    assert_eq!(nested.project.protected_paths.len(), 4);
}

#[test]
fn ports_are_numbers_that_nobody_else_has() {
    check_all(
        "",
        r#"
[ports]
web = "80"
! 2:7: `ports.web` must be an integer or a table, not a string
[ports]
a = 80
b = 80
! 3:5: port 80 of `ports.b` is taken by `ports.a`
[ports]
my_web = 80
! 2:1: `my_web` is not a valid name in `ports`: it has `_`; only a-z, 0-9 and - are allowed
"#,
    );
    for (port, place) in [
        ("0", 7),
        ("65536", 7),
        ("-1", 7),
        ("99999999999999999999", 7),
    ] {
        let text = format!("[ports]\nweb = {port}\n");
        check_wrong(
            &text,
            &[&format!("2:{place}: `ports.web` must be 1 to 65535")],
        );
    }
    check_wrong(
        "[ports]\nredis = 6379\n[shared.redis]\naddress = \"127.0.0.1:6379\"\n",
        &["4:11: port 6379 of `shared.redis` is taken by `ports.redis`"],
    );
    assert_eq!(good("[ports]\nweb = 0xBB8\n").ports.len(), 1);
}

#[test]
fn services_name_what_exists() {
    check_all(
        "",
        r#"
[services.web]
! 1:11: `services.web` needs `run`, `image` or `build`
[services.a]
run = "x"
tree = "/app"
volumes = ["pg"]
! 3:1: `services.a.tree` needs `image`
! 4:1: `services.a.volumes` needs `image`
! 4:12: there is no volume `pg`
[services.a]
image = "a b"
tree = "/proc/x"
! 2:9: `a b` is not a valid `services.a.image`: `a b` is not the name of an image repository
! 3:8: `/proc/x` is not a valid `services.a.tree`: `/proc` belongs to the system
[services.a]
run = "x"
ready = { tcp = "db" }
! 3:17: there is no port `db`
[services.runs]
run = "x"
! 1:11: a service cannot be called `runs`: `secrets.*.to` uses the word
[services.a]
run = "x"
env = { "A B" = "x", C = 1 }
! 3:9: `A B` is not a valid name in `services.a.env`: it has ` `; only A-Z, a-z, 0-9 and _ may be used
! 3:26: `services.a.env.C` must be a string, not an integer
"#,
    );
    check_all(
        "[services.a]\nrun = \"x\"\nready = ",
        r#"
{ }
! 3:1: `services.a.ready` needs exactly one of `http`, `tcp`, `log`, `command`
{ tcp = 1, log = "x" }
! 3:1: `services.a.ready` needs exactly one of `http`, `tcp`, `log`, `command`
{ http = "/" }
! 3:11: `services.a.ready` needs `port`
{ tcp = 1, port = 2 }
! 3:20: `services.a.ready.port` belongs to `http`
{ tcp = 0 }
! 3:17: `services.a.ready.tcp` must be 1 to 65535
{ tcp = true }
! 3:17: `services.a.ready.tcp` must be a string or an integer, not a boolean
{ http = "x", port = 1 }
! 3:18: `x` is not a valid `services.a.ready.http`: it must begin with `/`
{ tcp = 1, timeout = "1" }
! 3:30: `1` is not a valid `services.a.ready.timeout`: write a number and a unit (ms, s, m, h, d), such as `90s` or `1h30m`
"#,
    );
    check_wrong(
        "[services.web]\nrun = \"x\"\ndepends_on = [\"dbb\"]\n[services.db]\nrun = \"x\"\n",
        &["3:15: there is no service `dbb`; did you mean `db`?"],
    );
    check_wrong(
        "[services.web]\nrun = \"x\"\nready = { http = \"/\", port = \"wbe\" }\n[ports]\nweb = 1\n",
        &["3:30: there is no port `wbe`"],
    );
}

#[test]
fn a_port_left_out_is_the_services_own_or_the_only_one() {
    let port = |text: &str| {
        let config = good(&format!(
            "[services.web]\nrun = \"x\"\nready = {{ http = \"/\" }}\n{text}"
        ));
        match &config.services[&Name::parse("web").unwrap()]
            .ready
            .as_ref()
            .unwrap()
            .probe
        {
            Probe::Http { port, .. } => port.get(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(port("[ports]\napi = 1\nweb = 2\n"), 2);
    assert_eq!(port("[ports]\napi = 1\n"), 1);
}

#[test]
fn services_do_not_wait_in_a_circle() {
    let service =
        |name: &str, on: &str| format!("[services.{name}]\nrun = \"x\"\ndepends_on = [{on}]\n");
    check_wrong(
        &service("a", "\"a\""),
        &["3:15: services wait for each other: a → a"],
    );
    let text = service("a", "\"b\"") + &service("b", "\"c\"") + &service("c", "\"a\"");
    check_wrong(
        &text,
        &["9:15: services wait for each other: a → b → c → a"],
    );
    let diamond = service("a", "\"b\", \"c\"")
        + &service("b", "\"d\"")
        + &service("c", "\"d\"")
        + &service("d", "");
    assert_eq!(good(&diamond).services.len(), 4);
}

#[test]
fn data_and_secrets() {
    check_all(
        "",
        r#"
[volumes.v]
! 1:10: `volumes.v` needs `path`
[volumes.v]
path = "data"
policy = "frok"
! 2:8: `data` is not a valid `volumes.v.path`: it must be absolute
! 3:10: `volumes.v.policy` cannot be `frok`; it is one of `isolated`, `fork`, `shared`; did you mean `fork`?
[volumes]
a = { path = "/d" }
b = { path = "/d" }
! 3:14: `/d` is the path of the volume `a` too
[shared.r]
address = "127.0.0.1"
! 2:11: `127.0.0.1` is not a valid `shared.r.address`: it has no port; write `host:port`
[caches]
npm = { path = "~" }
! 2:16: `~` is not a valid `caches.npm.path`: it is the home directory itself
[caches]
npm = "~/.npm"
! 2:7: `caches.npm` must be a table, not a string
"#,
    );
    check_all(
        "[secrets.KEY]\n",
        r#"
to = []
! 2:6: `secrets.KEY.to` is empty
to = ["web"]
! 2:7: there is no service (or `runs`, `sessions`, `setup`) `web`
to = ["runs"]
from = { stored = false }
! 3:19: `secrets.KEY.from.stored` can only be `true`
to = ["runs"]
from = { env = "A", stored = true }
! 3:1: `secrets.KEY.from` needs exactly one of `env`, `file`, `command`, `stored`
to = ["runs"]
from = { command = [] }
! 3:20: `secrets.KEY.from.command` is empty
to = ["runs"]
from = { command = [""] }
! 3:21: `` is not a valid `secrets.KEY.from.command`: it is empty
to = ["runs"]
inject = "placeholder"
! 3:10: `secrets.KEY` is a placeholder and needs `hosts` to be used at
to = ["runs"]
inject = "placeholder"
hosts = ["a.test:8443", "*.b.test", "192.0.2.1"]
! 4:25: `*.b.test`: a placeholder is used at exact names, such as `api.example.org`
! 4:37: `192.0.2.1`: a placeholder is used at exact names, such as `api.example.org`
to = ["runs"]
ttl = "0s"
! 3:7: `0s` is not a valid `secrets.KEY.ttl`: it is zero
"#,
    );
    check_wrong(
        "[volumes.v]\npath = \"/d\"\nseed = [\"x\"]\nsingle = true\n",
        &["4:1: `volumes.v.single` belongs to the policy `shared`, and this one is `isolated`"],
    );
    check_wrong(
        "[volumes.v]\npath = \"/d\"\npolicy = \"shared\"\nsingle = 1\n",
        &["4:10: `volumes.v.single` must be `true` or `false`, not an integer"],
    );
    let shared = good("[volumes.v]\npath = \"/d\"\npolicy = \"shared\"\nsingle = true\n");
    assert!(shared.volumes[&Name::parse("v").unwrap()].single);
    check_wrong("[secrets.KEY]\n", &["1:10: `secrets.KEY` needs `to`"]);
    let stored = good("[secrets.KEY]\nto = [\"runs\", \"sessions\"]\n");
    assert_eq!(
        stored.secrets.values().next().unwrap().from,
        SecretSource::Stored
    );
}

#[test]
fn limits_egress_and_agents() {
    check_all(
        "",
        r#"
[limits]
memory = "4"
! 2:10: `4` is not a valid `limits.memory`: write a number and a unit (B, KiB, MiB, GiB, TiB, KB, MB, GB, TB), such as `4GiB`
[limits]
memory = 4
! 2:10: `limits.memory` must be a string, not an integer
[limits]
processes = 0
! 2:13: `limits.processes` must be 1 to 4194304
[egress]
allow = ["*"]
! 2:10: `*` is not a valid `egress.allow`: `*` stands only in front, as in `*.example.org`; for everything use `mode = "open"`
[agents.claude]
! 1:9: `agents.claude` needs `command`
[agents.claude]
command = "claude"
! 2:11: `agents.claude.command` must be a list of a program and its arguments, not a string
"#,
    );
    for cpus in ["0", "-1.0", "nan", "inf", "1e9"] {
        check_wrong(
            &format!("[limits]\ncpus = {cpus}\n"),
            &["2:8: `limits.cpus` must be greater than 0 and at most 4096"],
        );
    }
    assert_eq!(good("[limits]\ncpus = 3\n").limits.cpus, Some(3.0));
}

#[test]
fn what_the_file_says_cannot_act_on_a_terminal() {
    let errors = parse("\"\\u001b[31m\\u202e\" = 1\n", "holm\u{1b}.toml")
        .unwrap_err()
        .to_string();
    assert!(!errors.contains('\u{1b}'), "{errors}");
    assert!(!errors.contains('\u{202e}'), "{errors}");
}

/// Text made of pieces of TOML.
fn near_toml() -> impl Strategy<Value = String> {
    let words = "[ ] [[ ]] { } = \" ' \"\"\" , . # project services ports ready secrets to from web \
        run true 1 -1 1.5 nan 1979-05-27 \\u0000 é \u{202e} \0 depends_on http limits cpus agents inf 0x";
    let lines = ["[services.a]\nrun = \"x\"\n", "path = \"~\"\n", "env = "];
    let pieces = words.split(' ').chain(["\n", " ", "\r"]).chain(lines);
    let pieces: Vec<_> = pieces.collect();
    prop::collection::vec(prop::sample::select(pieces), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in prop_oneof![near_toml(), any::<String>()]) {
        if let Err(errors) = parse(&text, "holm.toml") {
            prop_assert!(!errors.errors().is_empty());
            let lines = text.matches('\n').count() + 1;
            for error in errors.errors() {
                prop_assert!((1..=lines).contains(&error.line));
                prop_assert!(error.column >= 1);
            }
        }
    }

    #[test]
    fn no_mutation_of_the_example_panics(
        at in 0..EXAMPLE.len(),
        removed in 0..20_usize,
        inserted in prop_oneof![near_toml(), "[ -~]{0,6}"],
    ) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        let end = (at + removed).min(bytes.len());
        bytes.splice(at..end, inserted.bytes());
        let text = String::from_utf8_lossy(&bytes);
        if let Err(errors) = parse(&text, "holm.toml") {
            prop_assert!(errors.to_string().starts_with("holm.toml:"));
        }
    }
}
