//! Decompresses layers and archives, and stops a bomb by its size and by its ratio.

use crate::bounded::{ArchiveLimits, BoundError};
use crate::media::Compression;
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

/// The ratio is not looked at below this size: a small file of zeros compresses a thousand times.
const FREE_BYTES: u64 = 64 << 20;

/// An uncompressed stream whose growth is bounded.
pub struct Decompressed<R: Read> {
    decoder: Decoder<BufReader<Counted<R>>>,
    compressed: Rc<Cell<u64>>,
    total: u64,
    limits: ArchiveLimits,
}

enum Decoder<R: BufRead> {
    None(R),
    Gzip(Box<MultiGzDecoder<R>>),
    Zstd { source: R, frame: Box<FrameDecoder> },
}

struct Counted<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

// === impl Decompressed ===

impl<R: Read> Decompressed<R> {
    pub fn new(inner: R, compression: Compression, limits: ArchiveLimits) -> Self {
        let compressed = Rc::new(Cell::new(0));
        let count = compressed.clone();
        let source = BufReader::with_capacity(1 << 16, Counted { inner, count });
        let decoder = match compression {
            Compression::None => Decoder::None(source),
            Compression::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(source))),
            Compression::Zstd => Decoder::Zstd {
                source,
                frame: Box::new(FrameDecoder::new()),
            },
        };
        Self {
            decoder,
            compressed,
            total: 0,
            limits,
        }
    }

    /// Decompresses what the first bytes of `inner` show.
    pub fn sniffed(
        mut inner: R,
        limits: ArchiveLimits,
    ) -> io::Result<Decompressed<io::Chain<io::Cursor<Vec<u8>>, R>>> {
        let mut first = Vec::new();
        inner.by_ref().take(4).read_to_end(&mut first)?;
        let compression = Compression::of(&first);
        let inner = io::Cursor::new(first).chain(inner);
        Ok(Decompressed::new(inner, compression, limits))
    }
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match &mut self.decoder {
            Decoder::None(source) => source.read(buffer)?,
            Decoder::Gzip(source) => source.read(buffer)?,
            Decoder::Zstd { source, frame } => read_zstd(source, frame, buffer)?,
        };
        self.total += length as u64;
        if self.total > self.limits.bytes {
            return Err(io::Error::other(BoundError::Bytes(self.limits.bytes)));
        }
        let most = self.compressed.get().saturating_mul(self.limits.ratio);
        if self.total > most.saturating_add(FREE_BYTES) {
            return Err(io::Error::other(BoundError::Ratio(self.limits.ratio)));
        }
        Ok(length)
    }
}

/// A stream of zstd has several frames, and frames to be skipped. The decoder refuses windows above 128 MiB.
fn read_zstd(
    source: &mut impl BufRead,
    frame: &mut FrameDecoder,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        if frame.can_collect() > 0 || buffer.is_empty() {
            return frame.read(buffer);
        }
        if !frame.is_finished() {
            let decoded = frame.decode_blocks(&mut *source, BlockDecodingStrategy::UptoBlocks(1));
            decoded.map_err(io::Error::other)?;
            continue;
        }
        if source.fill_buf()?.is_empty() {
            return Ok(0);
        }
        match frame.init(&mut *source) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => drop(io::copy(&mut source.take(length.into()), &mut io::sink())?),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.count.set(self.count.get() + length as u64);
        Ok(length)
    }
}
