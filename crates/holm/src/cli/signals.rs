//! The signals of this process while a command runs inside; used by [`super::attach`].

use super::attach::Attachment;
use holm_core::{Code, Fault};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that are handled while a command runs inside.
pub struct Signals {
    attachment: Attachment,
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
    resized: Signal,
}

pub enum Heard {
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
                let message = format!("cannot listen for signals: {error}");
                Fault::new(Code::Internal, message, "try again")
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
                Heard::Forward(number) => return number as u8,
                Heard::End(number) => return number,
                Heard::Resized => {}
            }
        }
    }

    pub async fn next(&mut self) -> Heard {
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
                Attachment::Terminal if is_resize => return Heard::Resized,
                _ if is_resize => {}
                // Keys reach the command through its terminal; a signal is meant for this process.
                Attachment::Terminal => return Heard::End(number as u8),
                Attachment::Pipes | Attachment::Lines => return Heard::Forward(number),
            }
        }
    }
}
