//! A command's output as JSON Lines, for `exec --json`; used by [`super::attach`].

use super::output::json_line;
use super::stream::Stream;
use bytes::Bytes;
use serde_json::json;

/// Output as JSON Lines. A character that was split between two pieces waits for the rest; bytes
/// that are not UTF-8 are sent as an array.
#[derive(Default)]
pub struct Lines {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

// === impl Lines ===

impl Lines {
    pub fn piece(&mut self, stream: Stream, piece: &[u8]) -> Bytes {
        let (name, kept) = match stream {
            Stream::Stdout => ("stdout", &mut self.stdout),
            Stream::Stderr => ("stderr", &mut self.stderr),
        };
        kept.extend_from_slice(piece);
        let whole = match std::str::from_utf8(kept) {
            Ok(_) => kept.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => kept.len(),
        };
        let rest = kept.split_off(whole);
        let ready = std::mem::replace(kept, rest);
        line(name, ready)
    }

    pub fn end(self, code: u8) -> Bytes {
        let mut text = Vec::new();
        text.extend_from_slice(&line("stdout", self.stdout));
        text.extend_from_slice(&line("stderr", self.stderr));
        text.extend_from_slice(format!("{}\n", json!({ "exit_code": code })).as_bytes());
        Bytes::from(text)
    }
}

fn line(name: &str, bytes: Vec<u8>) -> Bytes {
    if bytes.is_empty() {
        return Bytes::new();
    }
    let content = holm_api::exec::Bytes::from(bytes);
    Bytes::from(json_line(&json!({ name: content })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_were_cut_are_joined_and_other_bytes_kept() {
        let mut lines = Lines::default();
        let mut text = Vec::new();
        text.extend(lines.piece(Stream::Stdout, b"gr\xc3"));
        text.extend(lines.piece(Stream::Stderr, b"x"));
        text.extend(lines.piece(Stream::Stdout, b"\xbc\xffn"));
        text.extend(lines.piece(Stream::Stdout, b"\xe6\x97"));
        text.extend(lines.end(3));
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "{\"stdout\":\"gr\"}\n{\"stderr\":\"x\"}\n{\"stdout\":[195,188,255,110]}\n\
             {\"stdout\":[230,151]}\n{\"exit_code\":3}\n"
        );
    }
}
