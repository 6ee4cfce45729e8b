//! A part of a file in which the workspace's secrets are masked: a star for every byte, so that every
//! other byte is where it is in the file. Some more is read on both sides, because a value may begin
//! before the part or end after it.

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use holm_engine::files::FileBody;
use holm_engine::files::wire::Range;
use holm_secrets::mask::LONGEST_FORM;
use std::io;

/// What of that which is read was asked for.
pub struct Part {
    before: u64,
    asked: Option<u64>,
}

/// A body under way.
struct Telling {
    body: FileBody,
    skip: u64,
    left: u64,
}

// === impl Part ===

impl Part {
    /// With what has to be read.
    pub fn of(range: &Range) -> (Self, Range) {
        let margin = LONGEST_FORM as u64;
        let offset = range.offset.saturating_sub(margin);
        let before = range.offset - offset;
        let length = range
            .length
            .map(|length| length.saturating_add(before).saturating_add(margin));
        let part = Self {
            before,
            asked: range.length,
        };
        (part, Range { offset, length })
    }

    /// How much is told when so much comes.
    pub fn length(&self, coming: u64) -> u64 {
        let length = coming.saturating_sub(self.before);
        self.asked.map_or(length, |asked| asked.min(length))
    }

    /// Whoever reads it hears by a broken body that it is not whole.
    pub fn body(self, body: FileBody, coming: u64) -> Body {
        let telling = Telling {
            left: self.length(coming),
            skip: self.before,
            body,
        };
        Body::from_stream(stream::try_unfold(telling, |mut telling| async move {
            let piece = telling.next().await?;
            Ok::<_, io::Error>(piece.map(|piece| (piece, telling)))
        }))
    }
}

// === impl Telling ===

impl Telling {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while self.left > 0 {
            let piece = self.body.next().await;
            let piece = piece.map_err(|fault| io::Error::other(fault.message))?;
            let Some(piece) = piece else { break };
            let asked = self.cut(piece);
            if !asked.is_empty() {
                return Ok(Some(Bytes::from(asked)));
            }
        }
        Ok(None)
    }

    /// Of the bytes that come next, those that were asked for.
    fn cut(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        let skipped = bytes
            .len()
            .min(usize::try_from(self.skip).unwrap_or(usize::MAX));
        bytes.drain(..skipped);
        self.skip -= skipped as u64;
        bytes.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= bytes.len() as u64;
        bytes
    }
}
