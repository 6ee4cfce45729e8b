//! Splits output into lines. At most [`LONGEST`] bytes of a line are kept.

use holm_core::cut;
use holm_core::service::names_missing_program;

/// The maximum length of a line.
pub const LONGEST: usize = 64 * 1024;

/// Appended to a truncated line.
pub const CUT: &[u8] = b" [cut by holm: the line is longer than 64 KiB]";

/// The state of one stream.
#[derive(Default)]
pub struct Lines {
    partial: Vec<u8>,
    /// The rest of a truncated line is being dropped.
    is_dropping: bool,
}

/// The last line that says that a program does not exist, if few lines followed it.
#[derive(Default)]
pub struct Missing {
    line: Option<String>,
    followed_by: usize,
}

/// Longer lines are no message of a shell.
const LONGEST_COMPLAINT: usize = 300;
/// How many lines package managers print after it.
const MOST_AFTER: usize = 20;

// === impl Lines ===

impl Lines {
    /// Takes the next bytes and calls back for every complete line.
    pub fn take(&mut self, mut piece: &[u8], mut tell: impl FnMut(&[u8])) {
        // Checked first, which is much faster for long lines without an end.
        while piece.contains(&b'\n')
            && let Some(end) = piece.iter().position(|byte| *byte == b'\n')
        {
            let (line, rest) = (&piece[..end], &piece[end + 1..]);
            piece = rest;
            if self.partial.is_empty() && line.len() <= LONGEST && !self.is_dropping {
                tell(line)
            } else {
                self.add(line, &mut tell);
                self.finish(&mut tell);
            }
            self.is_dropping = false;
        }
        self.add(piece, &mut tell);
    }

    /// Calls back for the incomplete line.
    pub fn finish(&mut self, mut tell: impl FnMut(&[u8])) {
        if !self.is_dropping && !self.partial.is_empty() {
            tell(&self.partial);
        }
        self.partial.clear();
    }

    /// The incomplete line.
    pub fn partial(&self) -> &[u8] {
        &self.partial
    }

    fn add(&mut self, piece: &[u8], tell: &mut impl FnMut(&[u8])) {
        if self.is_dropping {
            return;
        }
        let room = LONGEST - self.partial.len();
        if piece.len() <= room {
            self.partial.extend(piece);
            return;
        }
        self.partial.extend(cut::beginning(piece, room));
        self.partial.extend(CUT);
        tell(&self.partial);
        self.partial = Vec::new();
        self.is_dropping = true;
    }
}

// === impl Missing ===

impl Missing {
    pub fn heed(&mut self, line: &[u8]) {
        self.followed_by += 1;
        if line.len() <= LONGEST_COMPLAINT && line.ends_with(b"not found") {
            let line = String::from_utf8_lossy(line);
            if names_missing_program(&line) {
                self.line = Some(line.trim().to_owned());
                self.followed_by = 0;
            }
        }
    }

    pub fn line(&self) -> Option<String> {
        let line = self.line.clone();
        line.filter(|_| self.followed_by <= MOST_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.take(piece, |line| found.push(line.to_vec()));
        }
        lines.finish(|line| found.push(line.to_vec()));
        found
    }

    #[test]
    fn lines_come_out_whole_however_they_are_cut() {
        let text = b"one\n\ntwo\xff\nlast without end";
        let expect = [&b"one"[..], b"", b"two\xff", b"last without end"];
        for size in 1..text.len() {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(lines(&pieces), expect, "{size}");
        }
        assert_eq!(lines(&[b"a\n"]), [b"a"]);
        assert!(lines(&[b""]).is_empty());
    }

    #[test]
    fn a_line_without_end_is_cut_once_and_costs_no_more_than_its_limit() {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        let mut most = 0;
        for _ in 0..1000 {
            lines.take(&[b'x'; 5000], |line| found.push(line.to_vec()));
            most = most.max(lines.partial.capacity());
        }
        lines.take(b"\nnext\n", |line| found.push(line.to_vec()));
        lines.finish(|line| found.push(line.to_vec()));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].len(), LONGEST + CUT.len());
        assert!(found[0].ends_with(CUT) && found[0].starts_with(b"xxx"));
        assert_eq!(found[1], b"next");
        assert!(most <= 2 * (LONGEST + CUT.len()), "{most}");
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_whole() {
        let line = vec![b'x'; LONGEST];
        let ended = [line.as_slice(), b"\n"].concat();
        assert_eq!(lines(&[&ended]), std::slice::from_ref(&line));
        assert_eq!(lines(&[&line, b"\n"]), [line]);
        let longer = [vec![b'x'; LONGEST + 1].as_slice(), b"\nb\n"].concat();
        let found = lines(&[&longer]);
        assert_eq!(found.len(), 2);
        assert!(found[0].ends_with(CUT));
    }

    #[test]
    fn a_missing_program_is_remembered_for_a_few_lines() {
        let mut missing = Missing::default();
        missing.heed(b"sh: 1: vite: not found");
        for _ in 0..MOST_AFTER {
            missing.heed(b"npm error");
        }
        assert_eq!(missing.line().as_deref(), Some("sh: 1: vite: not found"));
        missing.heed(b"later");
        assert_eq!(missing.line(), None);
    }
}
