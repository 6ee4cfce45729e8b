//! `holm session attach`: shows a session on this terminal, and writes to it if no other client
//! does.
//!
//! When the daemon dies, this client starts another one and attaches again: the whole screen is
//! redrawn, and keys that did not arrive are sent again.

use super::super::attach::secret;
use super::super::output::{WARNING, printable};
use super::super::signals::{SignalAction, Signals};
use super::super::stream::Keys;
use super::super::terminal::Attachment;
use super::super::{Context, Outcome, connect, terminal};
use super::find::{self, Found};
use super::screen::Screen;
use clap::Args;
use holm_api::client::{AttachEvent, AttachReceiver, AttachSender, AttachSocket, Client};
use holm_api::session::{Attach, AttachToServer};
use holm_core::session::protocol::AttachMessage;
use holm_core::{Code, Fault};
use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Show a session on this terminal; ctrl-\ detaches
///
/// Several people can watch a session and one can type; the session takes the size of the typist's
/// terminal. Later viewers are read-only and see who types. The exit code is the program's when it
/// ends, or when it has ended already, and 0 after ctrl-\.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm session attach review\n  \
    holm session attach review --read-only\n  \
    holm session attach review --take")]
pub struct AttachArgs {
    /// An id, a name, the beginning of an id, WS/NAME, or a WS with one live session
    #[arg(value_name = "S", add = find::sessions())]
    session: String,
    /// Never write
    #[arg(long, conflicts_with = "take")]
    read_only: bool,
    /// Take over the keyboard from the current typist
    #[arg(long)]
    take: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// If no other client does.
    Write,
    Take,
    Look,
}

/// ctrl-\
const DETACH: u8 = 0x1c;
/// How long to try to reach another daemon.
const COMES_BACK: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a message stays on the last line.
const NOTE_STAYS: Duration = Duration::from_secs(3);
/// Keys that are kept until they have arrived.
const MOST_KEPT: usize = 64 * 1024;

/// A program that ends within this time ended at once.
const AT_ONCE: Duration = Duration::from_secs(5);

/// How attaching ended.
enum Ended {
    Detached,
    Code(u8, Option<String>),
    Signalled(u8),
    /// The daemon is gone, or the session with its workspace.
    Lost(Fault),
    /// The terminal is gone.
    Unwritten,
}

/// A session that has answered.
struct Begun {
    socket: AttachSocket,
    first: AttachEvent,
}

/// State that outlives the connection to one daemon.
struct Attached {
    screen: Screen,
    signals: Signals,
    input: Keys,
    /// The last keys sent, and their total number.
    kept: VecDeque<u8>,
    sent: u64,
    writes: bool,
    /// A message of ours on the screen, and how long it stays.
    noted: Option<(String, Instant)>,
}

// === impl AttachArgs ===

impl AttachArgs {
    pub fn of(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            read_only: false,
            take: false,
        }
    }
}

pub fn run(context: &Context, arguments: AttachArgs) -> Outcome {
    let how = match (arguments.read_only, arguments.take) {
        (true, _) => AttachMode::Look,
        (false, true) => AttachMode::Take,
        (false, false) => AttachMode::Write,
    };
    if !terminal::is_interactive() {
        return Err(Fault::new(
            Code::Usage,
            "attaching needs a terminal on stdin and stdout",
            "`holm session read S` prints what it shows, `holm session send S` types something",
        ));
    }
    connect::block_on(async {
        let client = connect::started().await?;
        let found = find::one_or_only(&client, &arguments.session).await?;
        attach(context, &client, &found, how).await
    })
}

/// Runs until the session ends or the user detaches.
pub async fn attach(context: &Context, client: &Client, found: &Found, how: AttachMode) -> Outcome {
    let size = terminal::size();
    let mut wanted = Attach {
        rows: Some(size.rows),
        cols: Some(size.cols),
        read_only: how == AttachMode::Look,
        take: how == AttachMode::Take,
        since: None,
        name: Some(own_name()),
        key: Some(secret()?),
    };
    let signals = Signals::listen(Attachment::Terminal)?;
    // Errors are printed before the terminal changes.
    let mut begun = begin(client, found, &wanted).await?;
    if let AttachEvent::Control(AttachMessage::Ended { code, reason }) = begun.first {
        show_last(context, client, found).await;
        return said(context, found, Ended::Code(code, reason));
    }
    let began = Instant::now();
    wanted.take = false;
    let mut attached = Attached {
        screen: Screen::take()?,
        signals,
        input: Keys::listen(),
        kept: VecDeque::new(),
        sent: 0,
        writes: false,
        noted: None,
    };
    let ended = loop {
        match attached.converse(begun).await {
            Ended::Lost(fault) if fault.code == Code::DaemonUnreachable => {
                let size = terminal::size();
                (wanted.rows, wanted.cols) = (Some(size.rows), Some(size.cols));
                match come_back(&mut attached, found, &wanted).await {
                    Ok(again) => begun = again,
                    Err(ended) => break ended,
                }
            }
            ended => break Ok(ended),
        }
    };
    attached.screen.give_back().await;
    if matches!(ended, Ok(Ended::Code(..))) && began.elapsed() < AT_ONCE {
        show_last(context, client, found).await;
    }
    said(context, found, ended?)
}

/// Prints the last screen of a program that ended before its user could read it.
async fn show_last(context: &Context, client: &Client, found: &Found) {
    // A keeper that is gone, too, has no screen to show.
    if let Ok(last) = client.session_screen(&found.workspace, &found.id).await {
        let lines = last.text.trim_end().lines().map(printable);
        let text = lines.collect::<Vec<_>>().join("\n");
        if !text.is_empty() {
            context.output.remark(&text);
        }
    }
}

fn said(context: &Context, found: &Found, ended: Ended) -> Outcome {
    let id = &found.id;
    match ended {
        Ended::Detached => {
            let word = format!("detached from {id}; `holm session attach {id}` comes back");
            context.output.done(
                &serde_json::json!({ "session": id.as_str(), "state": "running" }),
                || word,
            );
            Ok(ExitCode::SUCCESS)
        }
        Ended::Code(code, reason) => {
            let why = reason.as_deref().map(|why| format!(": {}", printable(why)));
            let why = why.unwrap_or_default();
            let document =
                serde_json::json!({ "session": id.as_str(), "state": "exited", "exit_code": code });
            let word = || {
                format!(
                    "{WARNING}session {id} ended{WARNING:#} with exit code {code}{why}; \
                     `holm session read {id}` shows what it said last"
                )
            };
            context.output.done(&document, word);
            Ok(ExitCode::from(code))
        }
        Ended::Signalled(number) => Ok(ExitCode::from(128 + number)),
        Ended::Unwritten => Ok(ExitCode::from(super::super::output::BROKEN_PIPE_EXIT)),
        Ended::Lost(fault) => Err(fault),
    }
}

/// The name that other clients see.
fn own_name() -> String {
    let terminal = rustix::termios::ttyname(rustix::stdio::stdin(), Vec::new());
    let terminal = terminal.ok().and_then(|name| name.into_string().ok());
    let terminal = terminal.unwrap_or_default();
    let terminal = terminal.trim_start_matches("/dev/");
    format!("holm on {terminal} (pid {})", std::process::id())
}

/// Connects and waits for the session's answer.
async fn begin(client: &Client, found: &Found, wanted: &Attach) -> Result<Begun, Fault> {
    let attached = client.attach_session(&found.workspace, &found.id, wanted);
    let mut socket = attached.await?;
    let first = socket.receiver.next().await?;
    Ok(Begun { socket, first })
}

/// Attaches to the same session through another daemon.
async fn come_back(
    attached: &mut Attached,
    found: &Found,
    wanted: &Attach,
) -> Result<Begun, Result<Ended, Fault>> {
    let lost_at = Instant::now();
    loop {
        let tried = async {
            let client = connect::started_unless_stopped().await?;
            begin(&client, found, wanted).await
        };
        match tried.await {
            Ok(begun) => return Ok(begun),
            Err(fault) => {
                let is_away = fault.code == Code::DaemonUnreachable;
                if !is_away || lost_at.elapsed() > COMES_BACK {
                    return Err(Err(fault));
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            number = attached.signals.ending() => return Err(Ok(Ended::Signalled(number))),
            keys = attached.input.next() => match keys {
                Some(keys) if keys.contains(&DETACH) => return Err(Ok(Ended::Detached)),
                Some(keys) => attached.keep(&keys),
                None => return Err(Ok(Ended::Detached)),
            },
        }
    }
}

// === impl Attached ===

impl Attached {
    async fn converse(&mut self, begun: Begun) -> Ended {
        let Begun { socket, first } = begun;
        let AttachSocket {
            mut sender,
            mut receiver,
        } = socket;
        let ended = match self.receive(&mut sender, first).await {
            Ok(None) => self.pass_on(&mut sender, &mut receiver).await,
            Ok(Some(ended)) => Ok(ended),
            Err(fault) => Err(fault),
        };
        let ended = ended.unwrap_or_else(Ended::Lost);
        if !matches!(ended, Ended::Lost(_)) {
            sender.detach().await;
        }
        ended
    }

    async fn pass_on(
        &mut self,
        sender: &mut AttachSender,
        receiver: &mut AttachReceiver,
    ) -> Result<Ended, Fault> {
        loop {
            let until = self.noted.as_ref().map(|(_, until)| *until);
            let note_is_over = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                signal = self.signals.next() => match signal {
                    SignalAction::Resized => {
                        let size = terminal::size();
                        let (rows, cols) = (size.rows, size.cols);
                        sender.say(&AttachToServer::Resize { rows, cols }).await?;
                    }
                    SignalAction::Forward(number) => return Ok(Ended::Signalled(number as u8)),
                    SignalAction::End(number) => return Ok(Ended::Signalled(number)),
                },
                event = receiver.next() => {
                    if let Some(ended) = self.receive(sender, event?).await? {
                        return Ok(ended);
                    }
                }
                keys = self.input.next() => {
                    let Some(keys) = keys else { return Ok(Ended::Detached) };
                    let end = keys.iter().position(|key| *key == DETACH);
                    let typed = &keys[..end.unwrap_or(keys.len())];
                    if !typed.is_empty() {
                        self.keep(typed);
                        sender.input(typed).await?;
                    }
                    if end.is_some() {
                        return Ok(Ended::Detached);
                    }
                }
                () = note_is_over => {
                    self.noted = None;
                    sender.say(&AttachToServer::Redraw).await?;
                }
            }
        }
    }

    async fn receive(
        &mut self,
        sender: &mut AttachSender,
        event: AttachEvent,
    ) -> Result<Option<Ended>, Fault> {
        let control = match event {
            AttachEvent::Output(bytes) => {
                let mut is_drawn = self.screen.draw(&bytes).await;
                if let Some((text, _)) = &self.noted {
                    is_drawn = is_drawn && self.screen.note(text).await;
                }
                return Ok((!is_drawn).then_some(Ended::Unwritten));
            }
            AttachEvent::Control(control) => control,
        };
        match control {
            AttachMessage::Attached {
                writes,
                writer,
                received,
                ..
            } => {
                self.writes = writes;
                self.screen.clear().await;
                let missing = self.missing(received);
                if !missing.is_empty() {
                    sender.input(&missing).await?;
                }
                if !writes {
                    self.note_writer(writer.as_deref()).await;
                }
            }
            AttachMessage::Writer { writes, writer } => {
                let has_changed = writes != self.writes;
                self.writes = writes;
                if has_changed && writes {
                    self.note(" you write now ").await;
                } else if has_changed {
                    self.note_writer(writer.as_deref()).await;
                }
            }
            AttachMessage::NotTaken { writer } => self.note_writer(writer.as_deref()).await,
            AttachMessage::Ended { code, reason } => {
                return Ok(Some(Ended::Code(code, reason)));
            }
            AttachMessage::Size { .. } | AttachMessage::Cursor(_) | AttachMessage::Missed(_) => {}
        }
        Ok(None)
    }

    async fn note_writer(&mut self, writer: Option<&str>) {
        let text = match writer {
            Some(writer) => format!(" read only: {writer} writes; attach --take takes over "),
            None => " read only ".to_owned(),
        };
        self.note(&text).await;
    }

    async fn note(&mut self, text: &str) {
        self.screen.note(text).await;
        self.noted = Some((text.to_owned(), Instant::now() + NOTE_STAYS));
    }

    fn keep(&mut self, keys: &[u8]) {
        self.kept.extend(keys);
        self.sent += keys.len() as u64;
        let surplus = self.kept.len().saturating_sub(MOST_KEPT);
        self.kept.drain(..surplus);
    }

    /// Keys that were sent and did not arrive.
    fn missing(&self, received: u64) -> Vec<u8> {
        let missing = self.sent.saturating_sub(received) as usize;
        let arrived = self.kept.len().saturating_sub(missing);
        self.kept.iter().skip(arrived).copied().collect()
    }
}
