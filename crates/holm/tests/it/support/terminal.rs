//! holm on a terminal: a script of what a person types and sees, played on a real pseudo terminal.

use super::user::as_tester;
use super::{Island, Ran};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a person does.
#[derive(Clone, Copy)]
pub enum Act<'a> {
    /// Waits until this is on the screen, after what was seen before.
    See(&'a str),
    Type(&'a str),
    Resize(u16, u16),
    /// A signal to the program itself.
    Signal(i32),
    /// A shell command of another user.
    Meanwhile(&'a str),
}

/// How it went.
#[derive(Debug)]
pub struct Played {
    pub screen: String,
    pub code: i64,
    /// The terminal is set as it was before.
    pub is_restored: bool,
}

/// 24 × 80 at first; the program is ended when something does not show up in time.
const PLAYER: &str = r#"
import fcntl, json, os, select, signal, struct, sys, termios, time
acts, argv = json.loads(sys.argv[1]), sys.argv[2:]
def resize(fd, rows, cols):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
master, slave = os.openpty()
resize(slave, 24, 80)
before = termios.tcgetattr(slave)
pid = os.fork()
if pid == 0:
    os.close(master)
    os.login_tty(slave)
    os.execvp(argv[0], argv)
screen, seen, deadline = b"", 0, time.monotonic() + 120
def read(limit):
    global screen
    if select.select([master], [], [], limit)[0]:
        screen += os.read(master, 65536)
        return True
def fail(why):
    os.kill(pid, signal.SIGKILL)
    sys.exit("%s; on the screen: %r" % (why, screen[seen:]))
for kind, value in acts:
    if kind == "see":
        while value.encode() not in screen[seen:]:
            if time.monotonic() > deadline:
                fail("did not show up: %r" % value)
            read(0.1)
        seen = screen.index(value.encode(), seen) + len(value.encode())
    elif kind == "type":
        os.write(master, value.encode())
    elif kind == "resize":
        resize(master, *value)
    elif kind == "signal":
        os.kill(pid, value)
    elif kind == "meanwhile":
        os.system(value)
while True:
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        break
    if time.monotonic() > deadline:
        fail("did not end")
    read(0.05)
while read(0):
    pass
json.dump({"screen": screen.decode(errors="replace"), "code": os.waitstatus_to_exitcode(status),
           "is_restored": termios.tcgetattr(slave) == before}, sys.stdout)
"#;

// === impl Island ===

impl Island {
    /// Plays a script with holm on a terminal.
    #[track_caller]
    pub fn play(&self, directory: &Path, arguments: &[&str], acts: &[Act<'_>]) -> Played {
        play(&self.holm_command(directory, arguments), acts)
    }
}

/// Plays a script with any command, which is run with exactly its own variables and `TERM`.
#[track_caller]
pub fn play(command: &Command, acts: &[Act<'_>]) -> Played {
    let acts: Vec<Value> = acts.iter().map(act).collect();
    let mut player = Command::new("/usr/bin/python3");
    as_tester(&mut player)
        .args([OsStr::new("-c"), OsStr::new(PLAYER)])
        .arg(json!(acts).to_string())
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .env("TERM", "xterm-256color")
        .stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        player.env(name, value.unwrap_or_default());
    }
    if let Some(directory) = command.get_current_dir() {
        player.current_dir(directory);
    }
    let played = Ran::new(&mut player).json();
    Played {
        screen: played["screen"].as_str().expect("a screen").to_owned(),
        code: played["code"].as_i64().expect("a code"),
        is_restored: played["is_restored"] == true,
    }
}

fn act(act: &Act<'_>) -> Value {
    match act {
        Act::See(text) => json!(["see", text]),
        Act::Type(text) => json!(["type", text]),
        Act::Resize(rows, cols) => json!(["resize", [rows, cols]]),
        Act::Signal(number) => json!(["signal", number]),
        Act::Meanwhile(command) => json!(["meanwhile", command]),
    }
}
