//! A session's output as plain text, of bounded size. A cursor is a position in the total output,
//! in bytes.

/// At least this much is kept, and twice that at most.
const KEPT: usize = 256 * 1024;
/// Wider than any terminal.
const WIDEST: usize = 1000;

#[derive(Debug, Default)]
pub struct History {
    text: String,
    /// Bytes that were dropped before `text`.
    dropped: u64,
    /// The first bytes of an incomplete character.
    partial: Vec<u8>,
    /// The program returned to the beginning of the line; further text starts another line.
    is_returned: bool,
    /// The terminal's column at which the current line of the text began.
    start: usize,
}

#[derive(Debug, PartialEq)]
pub struct OutputSince<'a> {
    pub text: &'a str,
    /// Requested bytes before it that are no longer stored.
    pub missed: u64,
}

// === impl History ===

impl History {
    pub fn cursor(&self) -> u64 {
        self.dropped + self.text.len() as u64
    }

    pub fn since(&self, cursor: u64) -> OutputSince<'_> {
        let missed = self.dropped.saturating_sub(cursor);
        let from = cursor.saturating_sub(self.dropped);
        let mut from = usize::try_from(from)
            .unwrap_or(usize::MAX)
            .min(self.text.len());
        while !self.text.is_char_boundary(from) {
            from += 1;
        }
        OutputSince {
            text: &self.text[from..],
            missed,
        }
    }

    /// Adds bytes without control characters; a character may be split.
    pub fn text(&mut self, bytes: &[u8]) {
        if self.is_returned && !bytes.is_empty() {
            self.is_returned = false;
            self.moved();
        }
        let joined;
        let mut rest = bytes;
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.partial);
            rest = &joined;
        }
        for chunk in rest.utf8_chunks() {
            self.push(chunk.valid());
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                continue;
            }
            let is_last = rest.ends_with(invalid)
                && std::ptr::eq(rest.as_ptr_range().end, invalid.as_ptr_range().end);
            let is_cut =
                std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if is_last && is_cut {
                self.partial = invalid.to_vec();
            } else {
                self.push("\u{fffd}");
            }
        }
        self.bound();
    }

    pub fn line_end(&mut self) {
        self.break_off();
        self.is_returned = false;
        self.start = 0;
        self.push("\n");
        self.bound();
    }

    /// The end of a line or the beginning of overwriting it: the next byte decides.
    pub fn carriage_return(&mut self) {
        self.is_returned = true;
    }

    /// The terminal's cursor moved to the beginning of a line.
    pub fn moved(&mut self) {
        self.moved_to(0);
    }

    /// The terminal's column, if every character is one column wide.
    pub fn column(&self) -> usize {
        if self.is_returned {
            return 0;
        }
        let line = self.text.rsplit('\n').next().unwrap_or_default();
        self.start + line.chars().count()
    }

    /// The cursor moved within its line: to the right, it is the same line with a gap.
    pub fn go_to(&mut self, column: usize) {
        let now = self.column();
        if column == 0 {
            self.carriage_return();
        } else if column < now || self.is_returned {
            self.moved_to(column);
        } else if column - now <= WIDEST {
            self.spaces(column - now);
        }
    }

    /// The terminal's cursor moved: the text so far is a line of its own.
    pub fn moved_to(&mut self, column: usize) {
        self.break_off();
        self.is_returned = false;
        self.start = column.min(WIDEST);
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.push("\n");
        }
    }

    pub fn spaces(&mut self, count: usize) {
        self.text(" ".repeat(count).as_bytes());
    }

    /// Frees memory that only a writer needs.
    pub fn finish(&mut self) {
        self.break_off();
        self.text.shrink_to_fit();
    }

    fn break_off(&mut self) {
        if !std::mem::take(&mut self.partial).is_empty() {
            self.push("\u{fffd}");
        }
    }

    fn push(&mut self, text: &str) {
        let is_control = |one: char| one.is_control() && !matches!(one, '\n' | '\t');
        if text.contains(is_control) {
            self.text
                .extend(text.chars().filter(|one| !is_control(*one)))
        } else {
            self.text.push_str(text)
        }
    }

    fn bound(&mut self) {
        if self.text.len() <= 2 * KEPT {
            return;
        }
        let mut cut = self.text.len() - KEPT;
        while !self.text.is_char_boundary(cut) {
            cut += 1;
        }
        self.text.drain(..cut);
        self.dropped += cut as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_are_cut_come_out_whole() {
        let mut history = History::default();
        for byte in "größe 日本\u{85}".bytes().chain([0xff, 0xe6, 0x97]) {
            history.text(&[byte]);
        }
        history.line_end();
        assert_eq!(history.since(0).text, "größe 日本\u{fffd}\u{fffd}\n");
    }

    #[test]
    fn a_gap_within_a_line_is_spaces() {
        let mut history = History::default();
        // As Claude Code draws: every word at its column.
        history.text(b"Do");
        history.go_to(3);
        history.text(b"you");
        history.go_to(7);
        history.text(b"trust?");
        assert_eq!(history.since(0).text, "Do you trust?");
        // To the left it overwrites, which is another line.
        history.go_to(3);
        history.text(b"they");
        history.line_end();
        assert_eq!(history.since(0).text, "Do you trust?\nthey\n");
        // A line that begins somewhere has no gap before it.
        history.moved_to(40);
        history.text(b"a");
        history.go_to(42);
        history.text(b"b");
        assert_eq!(history.since(0).text, "Do you trust?\nthey\na b");
    }

    #[test]
    fn it_is_bounded_and_says_what_is_gone() {
        let mut history = History::default();
        for _ in 0..100 {
            history.text(&vec![b'x'; 100_000]);
        }
        assert_eq!(history.cursor(), 10_000_000);
        let all = history.since(0);
        assert!(all.text.len() >= KEPT && all.text.len() <= 2 * KEPT);
        assert_eq!(all.missed + all.text.len() as u64, 10_000_000);
        let end = history.since(9_999_990);
        assert_eq!((end.text.len(), end.missed), (10, 0));
        assert_eq!(history.since(u64::MAX).text, "");
    }
}
