//! The signals of this process while a command runs inside; used by [`super::attach`].

use super::terminal::Attachment;
use holm_core::{Code, Fault};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A shell's code for an interrupted program.
pub const INTERRUPTED: u8 = 130;

/// The signals that are handled while a command runs inside.
pub struct Signals {
    attachment: Attachment,
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
    resized: Signal,
}

pub enum SignalAction {
    /// Forward it to the command inside.
    Forward(i32),
    Resized,
    /// This process must end.
    End(u8),
}

// === impl Signals ===

impl Signals {
    pub fn listen(attachment: Attachment) -> Result<Self, Fault> {
        let listen = |kind: SignalKind| {
            signal(kind).map_err(|error| {
                let message = "cannot listen for signals";
                Fault::new(Code::Internal, message, "try again").because(error)
            })
        };
        Ok(Self {
            attachment,
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            quit: listen(SignalKind::quit())?,
            resized: listen(SignalKind::window_change())?,
        })
    }

    pub fn attachment(&self) -> Attachment {
        self.attachment
    }

    /// The number of the next signal that would end a process.
    pub async fn ending(&mut self) -> u8 {
        loop {
            match self.next().await {
                SignalAction::Forward(number) => return number as u8,
                SignalAction::End(number) => return number,
                SignalAction::Resized => {}
            }
        }
    }

    pub async fn next(&mut self) -> SignalAction {
        loop {
            let kind = tokio::select! {
                _ = self.interrupt.recv() => SignalKind::interrupt(),
                _ = self.terminate.recv() => SignalKind::terminate(),
                _ = self.hangup.recv() => SignalKind::hangup(),
                _ = self.quit.recv() => SignalKind::quit(),
                _ = self.resized.recv() => SignalKind::window_change(),
            };
            let number = kind.as_raw_value();
            let is_resize = kind == SignalKind::window_change();
            match self.attachment {
                Attachment::Terminal if is_resize => return SignalAction::Resized,
                _ if is_resize => {}
                // Keys reach the command through its terminal; a signal is meant for this process.
                Attachment::Terminal => return SignalAction::End(number as u8),
                Attachment::Pipes | Attachment::Lines => return SignalAction::Forward(number),
            }
        }
    }
}
