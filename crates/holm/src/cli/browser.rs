//! Finds a browser on the host and builds its command line for a workspace.
//!
//! Called by `open`. The browser runs as the user, outside; all its connections, including name
//! lookups, go through the workspace's endpoint.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Chromium,
    Firefox,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub program: PathBuf,
    pub family: Family,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Window,
    /// Without a window, for programs that control it.
    Headless,
}

/// What a browser is started for.
#[derive(Clone, Debug)]
pub struct Visit<'a> {
    /// The endpoint's port on 127.0.0.1.
    pub proxy: u16,
    pub profile: &'a Path,
    pub url: &'a str,
    pub mode: Mode,
    pub user: BrowserUser,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowserUser {
    Ordinary,
    /// Chromium's own sandbox does not work for root.
    Root,
}

/// In order of preference.
const KNOWN: [(&str, Family); 11] = [
    ("chromium", Family::Chromium),
    ("chromium-browser", Family::Chromium),
    ("google-chrome", Family::Chromium),
    ("google-chrome-stable", Family::Chromium),
    ("chrome", Family::Chromium),
    ("brave-browser", Family::Chromium),
    ("microsoft-edge", Family::Chromium),
    ("vivaldi", Family::Chromium),
    ("firefox", Family::Firefox),
    ("firefox-esr", Family::Firefox),
    ("librewolf", Family::Firefox),
];

/// The browser makes no requests of its own, and nothing bypasses the endpoint.
const CHROMIUM: [&str; 14] = [
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-features=DialMediaRouteProvider,MediaRouter,OptimizationHints,Translate",
    "--no-pings",
    "--password-store=basic",
    // The endpoint resolves names, and UDP is disabled.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    // Without this, `localhost` would be the host's.
    "--proxy-bypass-list=<-loopback>",
];

/// The first browser on `path`.
pub fn find(path: &OsStr) -> Option<Found> {
    let directories: Vec<PathBuf> = std::env::split_paths(path).collect();
    KNOWN.iter().find_map(|(name, family)| {
        let programs = directories.iter().map(|directory| directory.join(name));
        let program = programs.into_iter().find(|program| is_program(program))?;
        Some(Found {
            program,
            family: *family,
        })
    })
}

fn is_program(path: &Path) -> bool {
    let is_executable = |found: std::fs::Metadata| found.permissions().mode() & 0o111 != 0;
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && is_executable(found))
}

// === impl Found ===

impl Found {
    /// The arguments after the program's name.
    pub fn arguments(&self, visit: &Visit<'_>) -> Vec<String> {
        match self.family {
            Family::Chromium => chromium(visit),
            Family::Firefox => firefox(visit),
        }
    }

    /// A file that the profile needs before the browser starts, with its content.
    pub fn preferences(&self, proxy: u16) -> Option<(&'static str, String)> {
        match self.family {
            Family::Chromium => None,
            Family::Firefox => Some(("user.js", user_js(proxy))),
        }
    }
}

fn chromium(visit: &Visit<'_>) -> Vec<String> {
    let mut words = vec![
        format!("--user-data-dir={}", visit.profile.display()),
        format!("--proxy-server=socks5://127.0.0.1:{}", visit.proxy),
    ];
    words.extend(CHROMIUM.map(str::to_owned));
    if visit.mode == Mode::Headless {
        words.push("--headless=new".to_owned());
        words.push("--remote-debugging-port=0".to_owned());
    }
    if visit.user == BrowserUser::Root {
        words.push("--no-sandbox".to_owned());
    }
    words.push(visit.url.to_owned());
    words
}

fn firefox(visit: &Visit<'_>) -> Vec<String> {
    let profile = visit.profile.display().to_string();
    let mut words = vec!["--no-remote".to_owned(), "--profile".to_owned(), profile];
    if visit.mode == Mode::Headless {
        words.push("--headless".to_owned());
        words.push("--remote-debugging-port=0".to_owned());
    }
    words.push(visit.url.to_owned());
    words
}

fn user_js(proxy: u16) -> String {
    let mut text = String::from("// Written by `holm open` at every start.\n");
    for (name, value) in [
        ("network.proxy.type", "1"),
        ("network.proxy.socks", "\"127.0.0.1\""),
        ("network.proxy.socks_port", &proxy.to_string()),
        ("network.proxy.socks_version", "5"),
        ("network.proxy.socks_remote_dns", "true"),
        ("network.proxy.no_proxies_on", "\"\""),
        // Without this, `localhost` would be the host's.
        ("network.proxy.allow_hijacking_localhost", "true"),
        ("network.proxy.failover_direct", "false"),
        ("network.dns.disablePrefetch", "true"),
        ("network.trr.mode", "5"),
        ("network.captive-portal-service.enabled", "false"),
        ("network.connectivity-service.enabled", "false"),
        ("media.peerconnection.ice.proxy_only", "true"),
        ("app.update.enabled", "false"),
        ("browser.aboutwelcome.enabled", "false"),
        ("browser.shell.checkDefaultBrowser", "false"),
        ("datareporting.policy.dataSubmissionEnabled", "false"),
        ("toolkit.telemetry.enabled", "false"),
    ] {
        text.push_str(&format!("user_pref(\"{name}\", {value});\n"));
    }
    text
}

/// Whether a browser that leads this process group shows pages: it has processes for them.
pub fn has_page(group: u32) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes = processes.filter(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name in parentheses may contain anything; state, parent and group follow it.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        fields.split_ascii_whitespace().nth(2) == Some(group.to_string().as_str())
    });
    processes.any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        // Chromium writes all words as one; Firefox separates them.
        let words: Vec<&[u8]> = line.split(|byte| matches!(byte, 0 | b' ')).collect();
        [&b"--type=renderer"[..], b"-contentproc"]
            .iter()
            .any(|word| words.contains(word))
    })
}

/// One line that a shell splits into these words.
pub fn shell_line(program: &Path, words: &[String]) -> String {
    let program = program.display().to_string();
    let all = std::iter::once(&program).chain(words);
    let quoted: Vec<String> = all.map(|word| shell_word(word)).collect();
    quoted.join(" ")
}

/// Only the value of an option is quoted.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let (option, value) = match word.split_once('=') {
        Some((option, value)) if option.chars().all(is_plain) => (format!("{option}="), value),
        _ => (String::new(), word),
    };
    format!("{option}'{}'", value.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(mode: Mode, user: BrowserUser) -> Visit<'static> {
        Visit {
            proxy: 4711,
            profile: Path::new("/p/it's"),
            url: "http://localhost:3000",
            mode,
            user,
        }
    }

    fn found(family: Family) -> Found {
        let program = PathBuf::from("/usr/bin/b");
        Found { program, family }
    }

    #[test]
    fn chromium_sees_only_the_workspace() {
        let words = found(Family::Chromium).arguments(&visit(Mode::Window, BrowserUser::Ordinary));
        for word in [
            "--user-data-dir=/p/it's",
            "--proxy-server=socks5://127.0.0.1:4711",
            "--proxy-bypass-list=<-loopback>",
        ] {
            assert!(words.iter().any(|found| found == word), "{words:?}");
        }
        assert_eq!(words.last().unwrap(), "http://localhost:3000");
        let has = |words: &[String], word: &str| words.iter().any(|found| found == word);
        assert!(!has(&words, "--no-sandbox") && !has(&words, "--headless=new"));
        let words = found(Family::Chromium).arguments(&visit(Mode::Headless, BrowserUser::Root));
        assert!(has(&words, "--no-sandbox") && has(&words, "--headless=new"));
    }

    #[test]
    fn firefox_is_told_by_its_profile() {
        let (name, text) = found(Family::Firefox).preferences(4711).unwrap();
        assert_eq!(name, "user.js");
        assert!(text.contains("user_pref(\"network.proxy.socks_port\", 4711);\n"));
        assert!(text.contains("allow_hijacking_localhost\", true"));
        assert_eq!(found(Family::Chromium).preferences(4711), None);
    }

    #[test]
    fn a_line_is_what_a_shell_takes_for_the_words() {
        let words = found(Family::Chromium).arguments(&visit(Mode::Window, BrowserUser::Ordinary));
        let line = shell_line(Path::new("printf"), &["%s\\n".to_owned()]);
        let rest = shell_line(Path::new(&words[0]), &words[1..]);
        let output = std::process::Command::new("sh")
            .args(["-c", &format!("{line} {rest}")])
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.lines().collect::<Vec<_>>(), words);
    }

    #[test]
    fn a_browser_with_a_page_has_a_process_for_it() {
        let start = |script: &str| {
            let mut command = std::process::Command::new("bash");
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            command.args(["-c", script]).spawn().unwrap()
        };
        let mut plain = start("sleep 1000");
        let mut paged = start("(exec -a --type=renderer sleep 1000) & wait");
        while !has_page(paged.id()) {
            assert!(paged.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        assert!(!has_page(plain.id()));
        for child in [&mut plain, &mut paged] {
            let group = rustix::process::Pid::from_child(child);
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_file_that_cannot_be_run_is_no_browser() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("chromium"), "").unwrap();
        assert_eq!(find(directory.path().as_os_str()), None);
        std::fs::write(path("firefox"), "").unwrap();
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path("firefox"), executable).unwrap();
        let found = find(directory.path().as_os_str()).unwrap();
        assert_eq!(found.family, Family::Firefox);
        assert_eq!(found.program, path("firefox"));
    }
}
