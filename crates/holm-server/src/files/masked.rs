//! Masks the workspace's secrets in a part of a file: a star per byte, so that offsets stay valid.
//! More is read on both sides, because a value may begin before the part or end after it.

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use holm_core::files::Range;
use holm_engine::files::FileBody;
use holm_secrets::mask::LONGEST_FORM;
use std::io;

/// The part of the file that the client requested.
pub struct Part {
    before: u64,
    asked: Option<u64>,
}

/// A body in progress.
struct MaskedBody {
    body: FileBody,
    skip: u64,
    left: u64,
}

// === impl Part ===

impl Part {
    /// The part, and the range that has to be read.
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

    /// The length of the response for this input length.
    pub fn length(&self, coming: u64) -> u64 {
        let length = coming.saturating_sub(self.before);
        self.asked.map_or(length, |asked| asked.min(length))
    }

    /// The client recognises an incomplete response by a broken body.
    pub fn body(self, body: FileBody, coming: u64) -> Body {
        let masked = MaskedBody {
            left: self.length(coming),
            skip: self.before,
            body,
        };
        Body::from_stream(stream::try_unfold(masked, |mut masked| async move {
            let piece = masked.next().await?;
            Ok::<_, io::Error>(piece.map(|piece| (piece, masked)))
        }))
    }
}

// === impl MaskedBody ===

impl MaskedBody {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while self.left > 0 {
            let piece = self.body.next().await;
            let piece = piece.map_err(|fault| io::Error::other(fault.message()))?;
            let Some(piece) = piece else { break };
            let asked = self.cut(piece);
            if !asked.is_empty() {
                return Ok(Some(Bytes::from(asked)));
            }
        }
        Ok(None)
    }

    /// The requested part of the next bytes.
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
