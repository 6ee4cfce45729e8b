//! The first hour as one walk at a terminal of 80 columns (tmux). What is on the screen after each command is
//! compared with `walk.screens`; `UPDATE_DOCS=1` rewrites that file.

use crate::support::{Island, Ran, eventually};
use std::path::{Path, PathBuf};

/// What a person types, one after the other.
const TYPED: [&str; 41] = [
    "holm",
    "holm help",
    "holm init",
    "git add holm.toml && git commit -qm 'describe the services'",
    "holm up fix-login",
    "holm",
    "holm list",
    "holm logs fix-login",
    "printf '[env]\\nGREETING = \"hi from ${ports.web}\"\\n' >> holm.toml",
    "holm reload fix-login",
    "git commit -qam 'greet'",
    "holm ports fix-login",
    "holm exec fix-login -- sh -c 'echo $GREETING; echo hello >> README.md'",
    "holm diff fix-login --stat",
    "holm diff fix-login --sta",
    "holm changes fix-login",
    "holm apply fix-login",
    "holm apply fix-login --undo",
    "holm apply fix-login --undo",
    "holm up fix-login --from main",
    "holm show fix-logn",
    "holm status fix-logn",
    "holm delet fix-login",
    "holm help stop",
    "holm exec fix-login -- git commit -qam greet",
    "holm run fix-login --agent robot 'echo more >> README.md; echo written'",
    "holm session new fix-login --agent robot --name chat --detach",
    "holm session wait chat --for '^robot>'",
    "holm session send chat --enter 'who are you'",
    "holm session wait chat --for '^I am'",
    "holm session read chat",
    "holm session kill chat",
    "holm delete fix-login",
    "holm reset fix-login",
    "holm reset fix-login --force",
    "holm rm fix-login",
    "holm restore fix-login",
    "holm down fix-login",
    "holm ps",
    "holm up fix-login",
    "holm compare fix-login",
];

/// Commands that ask, the question, and the answer.
const ANSWERS: [(&str, &str, &str); 2] = [
    ("holm init", "[Y/n]", "y"),
    ("holm run fix-login --agent robot", "[Y/n/always]", "y"),
];

/// A known agent, whose program is in the repository.
const AGENTS: &str = r#"
[services.api]
hosts = ["api.test"]
paths = ["/v1/messages*"]

[agents.robot]
title = "Robot"
run = ["sh", "robot"]
session = ["sh", "robot", "chat"]

[[agents.robot.sign_ins]]
service = "api"
file = ".robot/auth.json"
access = "/access"
"#;

const ROBOT: &str = "[ \"$1\" = chat ] || exec sh\n\
    while printf 'robot> ' && read -r line; do echo \"I am a robot; you said: $line\"; done\n";

const PROCFILE: &str = "web: echo serving; exec python3 -m http.server ${PORT:-3000}\n";

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
        if let Some((_, question, answer)) = ANSWERS.iter().find(|(of, ..)| line.starts_with(of)) {
            eventually(&format!("{line} asks: {}", self.screen()), || {
                self.screen().trim_end().ends_with(question)
            });
            self.tmux(&["send-keys", "-l", answer]);
            self.tmux(&["send-keys", "Enter"]);
        }
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
        // The time of a line of the log.
        if line.as_bytes().get(2) == Some(&b':') && line.as_bytes().get(8) == Some(&b'.') {
            line = format!("HH:MM:SS.mmm{}", &line[12..]);
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
        && id.starts_with(['w', 'r', 's'])
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let commit = word.trim_end_matches([',', ';']);
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
    island.write("agents.toml", AGENTS);
    island.make_dir("home/.robot");
    island.write(
        "home/.robot/auth.json",
        "{ \"access\": \"a-token-of-robot-0123456789\" }",
    );
    let shop = island.repository("shop");
    for (file, text) in [
        ("README.md", "shop\n"),
        ("Procfile", PROCFILE),
        ("robot", ROBOT),
    ] {
        shop.write(file, text);
    }
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
