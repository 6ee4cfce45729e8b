//! Tests of the user's settings: defaults, places of keys, and the file itself.

use super::*;
use holm_core::config::EgressMode;

const HOME: &str = "/home/me";

#[track_caller]
fn good(text: &str) -> UserConfig {
    parse(text, "config.toml", Path::new(HOME)).unwrap_or_else(|errors| panic!("{errors}"))
}

#[track_caller]
fn check_wrong(text: &str, expect: &[&str]) {
    let errors = parse(text, "config.toml", Path::new(HOME)).expect_err(text);
    let lines = errors.errors().iter();
    let found: Vec<_> = lines
        .map(|error| format!("{}:{}: {}", error.line, error.column, error.what))
        .collect();
    assert_eq!(found, expect, "{text}");
}

#[test]
fn the_defaults_can_be_read() {
    let config = defaults(Path::new(HOME));
    assert_eq!(config.port, None);
    assert_eq!(config.trash_days, 7);
    assert_eq!((config.stop_after, config.remove_after), (None, None));
    assert_eq!(config.source_dirs, [Path::new("/home/me/src")]);
    assert_eq!(config.egress.mode, Some(EgressMode::Open));
    let limits = &config.limits;
    assert!(limits.memory.is_some() && limits.cpus.is_some());
    assert!(limits.processes.is_some() && limits.disk.is_some());
    assert_eq!(good(""), config);
}

#[test]
fn what_is_written_is_laid_over_the_defaults() {
    let config = good(
        "[daemon]\nport = 8080\nchecks_at_once = 3\n[projects]\nsource_dirs = [\"~/work/\", \"/data/src\"]\n\
         [limits]\nmemory = \"1GiB\"\n[egress]\nmode = \"allow\"\nallow = [\"example.org\"]\n\
         [home]\ncopy = [\"~/.bashrc\"]\n[toolchains]\npaths = [\"~/tools\"]\n",
    );
    assert_eq!(config.port.unwrap().get(), 8080);
    assert_eq!(config.checks_at_once, Some(3));
    assert_eq!(
        config.source_dirs,
        [Path::new("/home/me/work"), Path::new("/data/src")]
    );
    assert_eq!(config.limits.memory, Some(1 << 30));
    assert_eq!(config.limits.cpus, defaults(Path::new(HOME)).limits.cpus);
    assert_eq!(config.egress.allow.len(), 1);
    assert_eq!(config.home_copies, [Path::new("/home/me/.bashrc")]);
    assert_eq!(config.toolchain_paths, [Path::new("/home/me/tools")]);
}

#[test]
fn some_keys_have_two_places() {
    let hour = Some(Duration::from_secs(3600));
    let top = good(
        "trash_days = 3\nstop_after = \"1h\"\nremove_after = \"1h\"\ndefault_agent = \"claude\"\n",
    );
    let inside = good(
        "[daemon]\ntrash_days = 3\nstop_after = \"1h\"\nremove_after = \"1h\"\n[agents]\ndefault_agent = \"claude\"\n",
    );
    assert_eq!(top, inside);
    assert_eq!(
        (top.trash_days, top.stop_after, top.remove_after),
        (3, hour, hour)
    );
    assert_eq!(top.default_agent, Name::parse("claude").ok());
    assert!(top.agents.is_empty());
    assert_eq!(good("stop_after = \"off\"\n").stop_after, None);
    check_wrong(
        "trash_days = 1\n[daemon]\ntrash_days = 2\n",
        &["3:1: `trash_days` is there twice: at the top, and in `daemon`"],
    );
}

#[test]
fn agents_get_what_is_named() {
    let config = good(
        "[agents.claude]\ncommand = [\"claude\", \"-p\"]\nenv = [\"ANTHROPIC_API_KEY\"]\n\
         files = [\"~/.claude/.credentials.json\"]\n",
    );
    let agent = &config.agents[&Name::parse("claude").unwrap()];
    assert_eq!(agent.command.as_ref().unwrap().len(), 2);
    assert_eq!(agent.env[0].as_str(), "ANTHROPIC_API_KEY");
    assert_eq!(
        agent.files,
        [Path::new("/home/me/.claude/.credentials.json")]
    );
}

#[test]
fn errors_are_all_reported_with_their_places() {
    check_wrong(
        "[daemon]\nport = 0\nprot = 1\n[home]\ncopy = [\"x\"]\n[agents.a]\nenv = [\"A=B\"]\n",
        &[
            "2:8: `daemon.port` must be 1 to 65535",
            "3:1: unknown key `prot` in `daemon`; did you mean `port`?",
            "5:9: `x` is not a valid `home.copy`: it must begin with `/` or `~/`",
            "7:8: `A=B` is not a valid `agents.a.env`: it has `=`; only A-Z, a-z, 0-9 and _ may be used",
        ],
    );
    check_wrong(
        "trash_days = -1\n",
        &["1:14: `trash_days` must be 0 to 36500"],
    );
    check_wrong(
        "stop_after = \"never\"\n",
        &[
            "1:14: `never` is not a valid `stop_after`: write a number and a unit (ms, s, m, h, d), such as `90s` or `1h30m`",
        ],
    );
}

#[test]
fn only_a_missing_file_is_the_defaults() {
    let directory = tempfile::tempdir().unwrap();
    let home = Path::new(HOME);
    let path = directory.path().join("config.toml");
    assert_eq!(load(&path, home), Ok(defaults(home)));

    std::fs::write(&path, "trash_days = 9\n").unwrap();
    assert_eq!(load(&path, home).map(|config| config.trash_days), Ok(9));

    std::fs::write(&path, b"\xff").unwrap();
    assert_eq!(load(&path, home).unwrap_err().code, Code::InvalidConfig);

    // A directory cannot be read as a file, not even by root.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let fault = load(&path, home).unwrap_err();
    assert_eq!(fault.code, Code::InvalidConfig);
    assert!(
        fault.message().contains("config.toml"),
        "{}",
        fault.message()
    );
}

#[test]
fn notifications_go_where_the_user_says() {
    assert!(good("").notify.is_silent());
    let notify = good(
        "[notify]\ncommand = [\"tell\", \"-n\"]\nwebhook = \"https://hooks.example.org/a\"\ndesktop = true\n\
         mute = [\"ready\", \"comment\"]\n",
    )
    .notify;
    assert!(!notify.is_silent() && notify.desktop);
    assert_eq!(notify.command.unwrap(), ["tell", "-n"]);
    assert_eq!(notify.webhook.unwrap().host, "hooks.example.org");
    assert_eq!(notify.mute, [Reason::Ready, Reason::Comment]);
    check_wrong(
        "[notify]\ncommand = \"tell\"\nwebhook = \"ftp://a.test\"\nmute = [\"ready\", \"bells\"]\n",
        &[
            "2:11: `notify.command` must be a list of a program and its arguments, not a string",
            "3:11: `ftp://a.test` is not a valid `notify.webhook`: it must begin with `http://` or `https://`",
            "4:18: `notify.mute` cannot be `bells`; it is one of `question`, `refused`, `limit`, `stalled`, `failed`, \
             `conflict`, `ready`, `comment`",
        ],
    );
}

#[test]
fn the_store_is_a_url_and_an_error_about_it_never_has_its_password() {
    let text = "[daemon]\nstore = \"postgres://me@db.example.org/holm\"\nstore_password_file = \"~/secret\"\n";
    let config = parse(text, "config.toml", Path::new("/home/me")).unwrap();
    let url = config.store.map(|url| url.to_string());
    assert_eq!(url.as_deref(), Some("postgres://me@db.example.org/holm"));
    let file = config.store_password_file;
    assert_eq!(file.as_deref(), Some(Path::new("/home/me/secret")));
    let text = "[daemon]\nstore = \"postgres://me:hidden@db.example.org/holm\"\n";
    for text in [text, text.trim_end().trim_end_matches('"')] {
        let refused = parse(text, "config.toml", Path::new("/home/me"));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("db.example.org"), "{refused}");
        assert!(!refused.contains("hidden"), "{refused}");
    }
}
