//! `holm top`: all workspaces live, on a terminal. [`frame`] decides what is drawn; this module
//! requests numbers, reads keys, and restores the terminal.

mod frame;

use super::output::printable;
use super::terminal::{RawMode, is_interactive, size};
use super::{Context, Outcome, connect};
use clap::Args;
use frame::{Look, View};
use holm_api::client::Client;
use holm_api::numbers::NumbersList;
use holm_core::{Code, Fault};
use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Watch what all workspaces take of the machine
///
/// Processors, memory, processes, disk (and its part in volumes) and bytes in and out, of each
/// workspace and its services, with the last minutes as small bars. q or ctrl-C ends it, s sorts by
/// another column, v hides or shows services, and the arrows move.
///
/// Without a terminal, and with --once or --json, it is printed once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm top\n  holm top --once\n  holm top --json")]
pub struct TopArgs {
    /// Print it once
    #[arg(long)]
    once: bool,
}

/// How often it is redrawn.
const EVERY: Duration = Duration::from_secs(1);

/// The width where none is known.
const PLAIN_WIDTH: usize = 140;

/// Lower terminals have no line for the keys.
const LEAST_WITH_KEYS: u16 = 5;

/// Between the first two samples, which are needed for rates.
const FIRST: Duration = Duration::from_millis(300);

/// The alternate screen without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const END_OF_LINE: &str = "\x1b[K";
const BELOW: &str = "\x1b[J";

pub fn run(context: &Context, arguments: TopArgs) -> Outcome {
    let is_live = !arguments.once && !context.output.is_json() && is_interactive();
    connect::block_on(async {
        let client = connect::started().await?;
        if is_live {
            live(client).await
        } else {
            once(context, &client).await
        }
    })
}

async fn once(context: &Context, client: &Client) -> Outcome {
    // The first sample of a daemon has nothing to compare with.
    client.numbers().await?;
    tokio::time::sleep(FIRST).await;
    let numbers = client.numbers().await?;
    context.output.result(&numbers, || {
        let view = View::default();
        let look = Look {
            width: PLAIN_WIDTH,
            height: usize::MAX,
            is_styled: false,
        };
        let lines = frame::lines(&numbers, &view, look);
        lines.iter().map(|line| format!("{line}\n")).collect()
    });
    Ok(ExitCode::SUCCESS)
}

enum Key {
    Quit,
    Sort,
    Services,
    Up,
    Down,
}

/// The alternate screen of the terminal. Dropping it goes back, also when the program panics.
struct Screen {
    _raw: RawMode,
}

async fn live(client: Client) -> Outcome {
    let mut resized = listen(SignalKind::window_change())?;
    let mut terminated = listen(SignalKind::terminate())?;
    let mut hung_up = listen(SignalKind::hangup())?;
    let mut keys = read_keys();
    let mut screen = Screen::enter()?;
    let mut source = Source {
        client,
        numbers: NumbersList::default(),
        trouble: None,
    };
    let mut view = View::default();
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            key = keys.recv() => match key {
                Some(Key::Quit) | None => return Ok(ExitCode::SUCCESS),
                Some(Key::Sort) => view.order = view.order.next(),
                Some(Key::Services) => view.has_services = !view.has_services,
                Some(Key::Up) => view.skip = view.skip.saturating_sub(1),
                Some(Key::Down) => view.skip += 1,
            },
            _ = terminated.recv() => return Ok(ExitCode::from(143)),
            _ = hung_up.recv() => return Ok(ExitCode::from(129)),
            _ = resized.recv() => {}
            _ = tick.tick() => source.ask().await,
        }
        let most = frame::height(&source.numbers, &view);
        view.skip = view.skip.min(most.saturating_sub(1));
        screen.draw(&source, &view)?;
    }
}

fn listen(kind: SignalKind) -> Result<tokio::signal::unix::Signal, Fault> {
    signal(kind).map_err(|error| {
        let message = "cannot listen for signals";
        Fault::new(Code::Internal, message, "try again").because(error)
    })
}

/// Reads the terminal in a separate thread, which ends with the program.
fn read_keys() -> mpsc::UnboundedReceiver<Key> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        let mut stdin = std::io::stdin();
        loop {
            let length = match stdin.read(&mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(length) => length,
            };
            for key in keys_in(&bytes[..length]) {
                if sender.send(key).is_err() {
                    return;
                }
            }
        }
    });
    receiver
}

fn keys_in(bytes: &[u8]) -> Vec<Key> {
    match bytes {
        b"\x1b" => return vec![Key::Quit],
        b"\x1b[A" | b"\x1bOA" => return vec![Key::Up],
        b"\x1b[B" | b"\x1bOB" => return vec![Key::Down],
        [0x1b, ..] => return Vec::new(),
        _ => {}
    }
    let key = |byte: &u8| match byte {
        b'q' | b'Q' | 0x03 | 0x04 => Some(Key::Quit),
        b's' => Some(Key::Sort),
        b'v' => Some(Key::Services),
        b'k' => Some(Key::Up),
        b'j' => Some(Key::Down),
        _ => None,
    };
    bytes.iter().filter_map(key).collect()
}

/// The source of numbers, and the last ones.
struct Source {
    client: Client,
    numbers: NumbersList,
    trouble: Option<String>,
}

// === impl Source ===

impl Source {
    /// The last numbers stay on the screen when the daemon dies; another one is started.
    async fn ask(&mut self) {
        let fault = match self.client.numbers().await {
            Ok(numbers) => {
                self.numbers = numbers;
                self.trouble = None;
                return;
            }
            Err(fault) => fault,
        };
        self.trouble = Some(printable(&fault.message()));
        if fault.code == Code::DaemonUnreachable
            && let Ok(client) = connect::started().await
        {
            self.client = client;
        }
    }
}

// === impl Screen ===

impl Screen {
    fn enter() -> Result<Self, Fault> {
        let raw = RawMode::enter()?;
        let screen = Self { _raw: raw };
        write(ENTER)?;
        Ok(screen)
    }

    fn draw(&mut self, source: &Source, view: &View) -> Result<(), Fault> {
        let size = size();
        let has_keys = size.rows > LEAST_WITH_KEYS;
        let look = Look {
            width: usize::from(size.cols),
            // The last line is for the keys, if there is room.
            height: usize::from(size.rows) - usize::from(has_keys),
            is_styled: std::env::var_os("NO_COLOR").is_none(),
        };
        let mut lines = frame::lines(&source.numbers, view, look);
        if let Some(trouble) = &source.trouble {
            lines.truncate(look.height.saturating_sub(1));
            lines.push(trouble.chars().take(look.width).collect());
        }
        if has_keys {
            lines.resize(look.height, String::new());
            lines.push(frame::keys(look.width, look.is_styled));
        }
        let mut text = HOME.to_owned();
        for (position, line) in lines.iter().enumerate() {
            if position > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str(END_OF_LINE);
        }
        text.push_str(BELOW);
        write(&text)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = write(LEAVE);
    }
}

fn write(text: &str) -> Result<(), Fault> {
    let mut stdout = std::io::stdout();
    let written = stdout.write_all(text.as_bytes());
    written.and_then(|()| stdout.flush()).map_err(|error| {
        let message = "cannot write to the terminal";
        Fault::new(Code::Internal, message, "`holm top --once` prints it once").because(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keys_mean() {
        let count = |bytes: &[u8]| keys_in(bytes).len();
        assert!(matches!(keys_in(b"\x03")[..], [Key::Quit]));
        assert!(matches!(keys_in(b"\x1b")[..], [Key::Quit]));
        assert!(matches!(keys_in(b"\x1b[A")[..], [Key::Up]));
        assert!(matches!(keys_in(b"jq")[..], [Key::Down, Key::Quit]));
        assert_eq!(count(b"\x1b[15~"), 0, "a key that means nothing");
        assert_eq!(count("ü".as_bytes()), 0);
        let order = frame::Order::default();
        assert_eq!(order.next().next().next(), order);
    }
}
