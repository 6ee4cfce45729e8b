//! Values and passphrases that a person types or pipes. Never from the command line, which every
//! program of the machine could read.

use holm_core::{Code, Fault};
use holm_secrets::{LONGEST_VALUE, Value};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{BufRead, IsTerminal, Read, Write};

/// A terminal without echo. Dropping it restores the settings.
struct Hidden(Termios);

/// All of stdin, or one hidden line of a terminal.
pub fn value(name: &str) -> Result<Value, Fault> {
    let stdin = std::io::stdin();
    let bytes = if stdin.is_terminal() {
        hidden_line(&format!("{name}: "))?
    } else {
        let mut bytes = Vec::new();
        // One byte over the limit shows that there is more.
        let most = LONGEST_VALUE as u64 + 2;
        let read = stdin.lock().take(most).read_to_end(&mut bytes);
        read.map_err(unread)?;
        bytes
    };
    Value::parse_line(bytes).map_err(|error| {
        Fault::new(
            Code::InvalidSecret,
            format!("the value of {name} cannot be used"),
            "a value is UTF-8 text of 1 byte to 32 KiB without NUL",
        )
        .because(error)
    })
}

/// One line of stdin, or a hidden one of a terminal.
pub fn passphrase() -> Result<Value, Fault> {
    read_passphrase("Passphrase: ")
}

/// The same, typed twice on a terminal.
pub fn new_passphrase() -> Result<Value, Fault> {
    let first = read_passphrase("New passphrase: ")?;
    if std::io::stdin().is_terminal() && first != read_passphrase("Once more: ")? {
        return Err(Fault::new(
            Code::Usage,
            "the two passphrases are not the same",
            "type the command again",
        ));
    }
    Ok(first)
}

fn read_passphrase(question: &str) -> Result<Value, Fault> {
    let stdin = std::io::stdin();
    let bytes = if stdin.is_terminal() {
        hidden_line(question)?
    } else {
        let mut line = Vec::new();
        let read = stdin.lock().read_until(b'\n', &mut line);
        read.map_err(unread)?;
        line
    };
    Value::parse_line(bytes).map_err(|error| {
        Fault::new(
            Code::Usage,
            "this cannot be a passphrase",
            "type it on the terminal, or pipe one line to the command",
        )
        .because(error)
    })
}

fn hidden_line(question: &str) -> Result<Vec<u8>, Fault> {
    let _hidden = Hidden::enter()?;
    let mut stderr = std::io::stderr().lock();
    // If the prompt cannot be written, the user can still answer.
    let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
    let mut line = Vec::new();
    let read = std::io::stdin().lock().read_until(b'\n', &mut line);
    let _ = writeln!(stderr);
    read.map_err(unread)?;
    Ok(line)
}

fn unread(error: std::io::Error) -> Fault {
    Fault::new(
        Code::Usage,
        "cannot read stdin",
        "pipe the value to the command, or type it on a terminal",
    )
    .because(error)
}

// === impl Hidden ===

impl Hidden {
    fn enter() -> Result<Self, Fault> {
        let failed = |error: rustix::io::Errno| unread(error.into());
        let stdin = rustix::stdio::stdin();
        let before = tcgetattr(stdin).map_err(failed)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin, OptionalActions::Flush, &hidden).map_err(failed)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.0);
    }
}
