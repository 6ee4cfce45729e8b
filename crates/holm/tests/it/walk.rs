//! The first hour as one walk at a terminal of 80 columns (tmux). What is on the screen after each command is
//! compared with `walk.screens`; `UPDATE_DOCS=1` rewrites that file.

use crate::support::{Island, Ran, eventually};
use std::path::{Path, PathBuf};

/// What a person types, one after the other.
const TYPED: [&str; 23] = [
    "holm",
    "holm up fix-login",
    "holm",
    "holm list",
    "holm ports fix-login",
    "holm exec fix-login -- sh -c 'echo $DATABASE_URL; echo hello >> README.md'",
    "holm diff fix-login --stat",
    "holm diff fix-login --sta",
    "holm changes fix-login",
    "holm apply fix-login",
    "holm apply fix-login --undo",
    "holm apply fix-login --undo",
    "holm up fix-login --from main",
    "holm show fix-logn",
    "holm delet fix-login",
    "holm exec fix-login -- git commit -qam greet",
    "holm run fix-login --agent shell 'echo more >> README.md; echo written'",
    "holm delete fix-login",
    "holm rm -f fix-login",
    "holm restore fix-login",
    "holm down fix-login",
    "holm ps",
    "holm up fix-login",
];

const HOLM_TOML: &str = "[ports]\nweb = 3000\ndb = 5432\n\
    [env]\nDATABASE_URL = \"postgres://app@127.0.0.1:${ports.db}/app\"\n\
    [services.web]\nrun = \"exec python3 -m http.server 3000\"\nready = { tcp = 3000 }\n";

struct Terminal<'a> {
    island: &'a Island,
    socket: PathBuf,
}

impl<'a> Terminal<'a> {
    fn open(island: &'a Island, directory: &Path) -> Self {
        let socket = island.make_dir("tmux").join("walk");
        let terminal = Self { island, socket };
        let bin = island.make_dir("bin");
        let link = bin.join("holm");
        std::os::unix::fs::symlink(crate::support::program(), link).unwrap();
        let script = format!(
            "cd {} && PATH={}:$PATH LANG=C.UTF-8 PS1='$ ' exec sh",
            directory.display(),
            bin.display()
        );
        let size = ["-x", "80", "-y", "24"];
        let start = [&["-f", "/dev/null", "-u", "new-session", "-d"][..], &size].concat();
        terminal.tmux(&[&start[..], &["sh", "-c", &script]].concat());
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Ran {
        let mut command = self.island.command("tmux", &self.island.home());
        command.arg("-S").arg(&self.socket).args(arguments);
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
        Ran::new(&mut command)
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).out()
    }

    /// Types a command on an empty screen, and returns the screen once the next prompt is there.
    fn types(&self, line: &str) -> String {
        self.tmux(&["send-keys", "-l", "clear"]);
        self.tmux(&["send-keys", "Enter"]);
        eventually("the screen is empty", || self.screen().trim() == "$");
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
        eventually(&format!("{line} ends: {}", self.screen()), || {
            let screen = self.screen();
            screen.contains(line.get(..40).unwrap_or(line)) && screen.trim_end().ends_with("\n$")
        });
        self.screen()
    }
}

/// The screen without what differs from run to run: ids, times, host ports, commits.
fn settled(screen: &str) -> String {
    let lines = screen.lines().map(|line| {
        let mut line = line.to_owned();
        for words in ["ready in ", "started in ", "trash until "] {
            if let Some((before, _)) = line.split_once(words) {
                line = format!("{before}{words}TIME");
            }
        }
        // How long a run took.
        if let Some((before, rest)) = line.split_once(" after ")
            && let Some((_, behind)) = rest.split_once(", exit")
        {
            line = format!("{before} after TIME, exit{behind}");
        }
        let words: Vec<String> = line.split(' ').map(settled_word).collect();
        words.join(" ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

fn settled_word(word: &str) -> String {
    let id = word.trim_end_matches([',', ':']);
    let is_id = id.len() == 13
        && id.starts_with(['w', 'r'])
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let commit = word.trim_end_matches(',');
    let is_commit = commit.len() == 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id {
        return word.replace(&id[1..], "000000000000");
    }
    if is_commit {
        return word.replace(commit, "COMMIT7");
    }
    match word.rsplit_once(':') {
        Some((before, port)) if port.len() == 5 && port.starts_with('2') => {
            format!("{before}:20000")
        }
        Some((before, port)) if before.ends_with(".localhost") && port.len() == 4 => {
            format!("{before}:7070")
        }
        _ => word.to_owned(),
    }
}

#[test]
fn the_first_hour_at_a_terminal() {
    let island = Island::new();
    let shop = island.shop(HOLM_TOML, "");
    shop.write("README.md", "shop\n");
    shop.commit("read me");
    let terminal = Terminal::open(&island, &island.home().join("src/shop"));
    let mut screens = String::new();
    for line in TYPED {
        let screen = settled(&terminal.types(line));
        assert!(
            screen.lines().all(|line| line.chars().count() <= 80),
            "{screen}"
        );
        screens.push_str(&format!("{screen}\n\n"));
    }
    terminal.tmux(&["kill-server"]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/walk.screens");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &screens).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        screens == expected,
        "the screens are other ones:\n{screens}"
    );
}
