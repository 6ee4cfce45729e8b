//! Filters what may be written to a user's terminal on behalf of a program inside: text, colours,
//! cursor positions, and a few modes that are reset at the end. It drops every sequence that makes
//! the terminal answer, sets its title, touches the clipboard, or changes its character set.
//!
//! Sessions are drawn from the keeper's own screen model, which produces only allowed sequences;
//! for them this filter is the second line of defence. The output of a run is unfiltered program
//! output, and holm's own messages may contain text of a guest: for those this filter is the only
//! protection.

/// Passes allowed sequences, at any split of the input, and drops the rest.
#[derive(Debug, Default)]
pub struct Drawing {
    state: State,
    /// The start of an incomplete sequence or character.
    held: Vec<u8>,
    dropped: u64,
    steered: u64,
    allowed: Allowed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Allowed {
    /// All allowed sequences.
    #[default]
    Screen,
    /// Only lines and colours.
    Lines,
    /// As `Lines`, and carriage returns.
    Progress,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// After `ESC [`.
    Sequence,
    /// In a control string that is dropped up to its end.
    String,
    StringEscape,
    /// After `ESC` and a byte that needs one more.
    Intermediate,
}

/// Longer sequences are not allowed.
const LONGEST: usize = 64;

/// Modes of `CSI ? … h` and `l`: arrow keys, mouse, cursor visibility, bracketed paste.
const MODES: [&[u8]; 9] = [
    b"1", b"9", b"25", b"1000", b"1002", b"1003", b"1005", b"1006", b"2004",
];

/// Resets a terminal, whatever was drawn on it and wherever the output was cut off.
pub const RESET: &str = "\u{18}\u{1b}[?1l\u{1b}>\u{1b}[?9l\u{1b}[?1000l\u{1b}[?1002l\u{1b}[?1003l\
    \u{1b}[?1005l\u{1b}[?1006l\u{1b}[?2004l\u{1b}[0 q\u{1b}[?25h\u{1b}[m\u{f}\u{1b}(B";

/// Keeps only text, lines, colours and tabs.
pub fn lines(text: &str) -> String {
    let mut drawing = Drawing {
        allowed: Allowed::Lines,
        ..Drawing::default()
    };
    String::from_utf8_lossy(&drawing.pass(text.as_bytes())).into_owned()
}

// === impl Drawing ===

impl Drawing {
    /// Lets only text, lines, colours, tabs and carriage returns pass. The way back to the first column that
    /// programs use for progress (`ESC [ G`) becomes a carriage return.
    pub fn of_progress() -> Self {
        Self {
            allowed: Allowed::Progress,
            ..Self::default()
        }
    }

    /// The allowed part of these bytes.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut passed = Vec::with_capacity(bytes.len());
        for byte in bytes {
            self.take(*byte, &mut passed);
        }
        passed
    }

    /// How many sequences and control characters were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether a sequence passed that [`RESET`] must undo.
    pub fn has_steered(&self) -> bool {
        self.steered > 0
    }

    fn take(&mut self, byte: u8, passed: &mut Vec<u8>) {
        match self.state {
            State::Ground => self.take_text(byte, passed),
            State::Escape => self.take_escape(byte, passed),
            State::Sequence => self.take_sequence(byte, passed),
            State::Intermediate => {
                if byte == 0x1b {
                    self.state = State::Escape;
                } else if !(0x20..0x30).contains(&byte) {
                    self.drop_held();
                }
            }
            State::String => match byte {
                0x1b => self.state = State::StringEscape,
                0x07 | 0x18 | 0x1a => self.drop_held(),
                _ => {}
            },
            State::StringEscape => match byte {
                b'\\' => self.drop_held(),
                0x1b => {}
                _ => {
                    self.state = State::Escape;
                    self.take_escape(byte, passed);
                }
            },
        }
    }

    fn take_text(&mut self, byte: u8, passed: &mut Vec<u8>) {
        if !self.held.is_empty() && !(0x80..0xc0).contains(&byte) {
            self.drop_held();
        }
        match byte {
            0x1b => self.state = State::Escape,
            b'\n' | b'\t' | 0x20..=0x7e => passed.push(byte),
            b'\r' if self.allowed == Allowed::Progress => passed.push(byte),
            b'\r' | 0x08 | 0x07 if self.allowed == Allowed::Screen => passed.push(byte),
            0x80.. => self.take_character(byte, passed),
            _ => self.dropped += 1,
        }
    }

    /// A multi-byte character passes as a whole, unless terminals treat it as a control.
    fn take_character(&mut self, byte: u8, passed: &mut Vec<u8>) {
        self.held.push(byte);
        match std::str::from_utf8(&self.held) {
            Ok(text) => {
                if text.chars().any(char::is_control) {
                    self.dropped += 1;
                } else {
                    passed.extend_from_slice(text.as_bytes());
                }
                self.held.clear();
            }
            Err(error) if error.error_len().is_some() => self.drop_held(),
            Err(_) => {}
        }
    }

    fn take_escape(&mut self, byte: u8, passed: &mut Vec<u8>) {
        match byte {
            b'[' => {
                self.state = State::Sequence;
                self.held.clear();
            }
            b'=' | b'>' if self.allowed == Allowed::Screen => {
                passed.extend([0x1b, byte]);
                self.steered += 1;
                self.state = State::Ground;
            }
            b']' | b'P' | b'_' | b'^' | b'X' | b'k' => self.state = State::String,
            0x1b => {}
            0x20..0x30 => self.state = State::Intermediate,
            _ => self.drop_held(),
        }
    }

    fn take_sequence(&mut self, byte: u8, passed: &mut Vec<u8>) {
        match byte {
            0x20..0x40 if self.held.len() < LONGEST => self.held.push(byte),
            b'G' if self.allowed == Allowed::Progress
                && matches!(self.held.as_slice(), b"" | b"1") =>
            {
                passed.push(b'\r');
                self.held.clear();
                self.state = State::Ground;
            }
            0x40..0x7f => {
                let is_on_list = self.allowed == Allowed::Screen || byte == b'm';
                if is_on_list && is_allowed(&self.held, byte) {
                    self.steered += 1;
                    passed.extend(b"\x1b[");
                    passed.extend(&self.held);
                    passed.push(byte);
                    self.held.clear();
                    self.state = State::Ground;
                } else {
                    self.drop_held();
                }
            }
            0x1b => {
                self.drop_held();
                self.state = State::Escape;
            }
            // Overlong, or interrupted by a control: not allowed.
            _ => self.drop_held(),
        }
    }

    fn drop_held(&mut self) {
        self.held.clear();
        self.dropped += 1;
        self.state = State::Ground;
    }
}

fn is_allowed(parameters: &[u8], last: u8) -> bool {
    let is_plain = |bytes: &[u8]| {
        bytes
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b';')
    };
    match last {
        b'A' | b'B' | b'C' | b'D' | b'G' | b'H' | b'J' | b'K' | b'X' | b'd' => is_plain(parameters),
        b'm' => parameters
            .iter()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':')),
        // The shape of the cursor.
        b'q' => parameters
            .strip_suffix(b" ")
            .is_some_and(|rest| rest.len() <= 1 && is_plain(rest)),
        b'h' | b'l' => parameters.strip_prefix(b"?").is_some_and(|modes| {
            modes
                .split(|byte| *byte == b';')
                .all(|one| MODES.contains(&one))
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(bytes: &[u8]) -> String {
        let whole = Drawing::default().pass(bytes);
        // At every split.
        let mut drawing = Drawing::default();
        let pieces: Vec<u8> = bytes
            .iter()
            .flat_map(|byte| drawing.pass(&[*byte]))
            .collect();
        assert_eq!(whole, pieces);
        String::from_utf8(whole).unwrap()
    }

    #[test]
    fn what_is_drawn_passes() {
        for drawn in [
            "plain größe 日本 \r\n\u{8}\t",
            "\u{1b}[m\u{1b}[1;38;2;1;2;3m\u{1b}[H\u{1b}[2J\u{1b}[12;40H\u{1b}[K\u{1b}[3X\u{1b}[4C",
            "\u{1b}[?25l\u{1b}[?25h\u{1b}[?1h\u{1b}=\u{1b}>\u{1b}[?2004h\u{1b}[?1000h\u{1b}[?1006h",
            "\u{1b}[2 q\u{7}",
        ] {
            assert_eq!(pass(drawn.as_bytes()), drawn);
        }
    }

    #[test]
    fn of_progress_only_text_colours_and_returns_pass() {
        let check = |text: &str, expect: &str| {
            let passed = Drawing::of_progress().pass(text.as_bytes());
            assert_eq!(String::from_utf8(passed).unwrap(), expect);
        };
        check(
            "10 %\r\u{1b}[31m20 %\u{1b}[m\t\n",
            "10 %\r\u{1b}[31m20 %\u{1b}[m\t\n",
        );
        check("a\u{1b}[Gb\u{1b}[1Gc", "a\rb\rc");
        check(
            "a\u{1b}[2Gb\u{1b}[2A\u{1b}[H\u{1b}[2J\u{1b}[K\u{8}\u{7}c",
            "abc",
        );
    }

    #[test]
    fn what_asks_names_copies_or_stays_does_not() {
        for hostile in [
            "\u{1b}]0;title\u{7}",
            "\u{1b}]2;title\u{1b}\\",
            "\u{1b}]52;c;aGVsbG8=\u{7}",
            "\u{1b}]52;c;?\u{7}",
            "\u{1b}]10;?\u{7}",
            "\u{1b}]8;;http://example.org\u{1b}\\",
            "\u{1b}Ptmux;\u{1b}\u{1b}]0;title\u{7}\u{1b}\\",
            "\u{1b}P$qm\u{1b}\\",
            "\u{1b}_Ga=T;AAAA\u{1b}\\",
            "\u{1b}^private\u{1b}\\",
            "\u{1b}Xstart of string\u{1b}\\",
            "\u{1b}ktitle\u{1b}\\",
            "\u{1b}[c",
            "\u{1b}[>c",
            "\u{1b}[5n",
            "\u{1b}[6n",
            "\u{1b}[?6n",
            "\u{1b}[21t",
            "\u{1b}[8;50;100t",
            "\u{1b}[?1049h",
            "\u{1b}[?25;1049h",
            "\u{1b}[?1004h",
            "\u{1b}[4h",
            "\u{1b}[20h",
            "\u{1b}[>1u",
            "\u{1b}[?u",
            "\u{1b}[>4;2m",
            "\u{1b}[!p",
            "\u{1b}[?2026$p",
            "\u{1b}[5i",
            "\u{1b}[2;5r",
            "\u{1b}Z",
            "\u{1b}c",
            "\u{1b}(0",
            "\u{1b}%G",
            "\u{1b}#8",
            "\u{e}",
            "\u{5}",
            "\u{0}",
            "\u{9b}6n",
            "\u{9d}0;title\u{9c}",
        ] {
            let passed = pass(format!("a{hostile}b").as_bytes());
            // For C1 controls only the control character itself is removed; the rest is then plain
            // text.
            let text: String = passed
                .chars()
                .filter(|one| !one.is_ascii_punctuation())
                .collect();
            assert!(
                !passed.contains(['\u{1b}', '\u{9b}', '\u{9d}']),
                "{hostile:?}"
            );
            assert!(
                text.starts_with('a') && text.ends_with('b'),
                "{hostile:?}: {passed:?}"
            );
            assert!(
                passed == "ab" || hostile.starts_with(['\u{9b}', '\u{9d}']),
                "{hostile:?}: {passed:?}"
            );
        }
        // A sequence that starts within another, and bytes that are not UTF-8.
        assert_eq!(pass(b"a\x1b[12\x1b]0;x\x07b"), "ab");
        assert_eq!(pass(b"a\x1b]0;x\x1b[2Jb"), "a\u{1b}[2Jb");
        assert_eq!(pass(b"a\xff\xc3b\xe2\x82c\xc2\x9b6n"), "abc6n");
        assert_eq!(
            pass(format!("a\u{1b}[{}mb", "1;".repeat(100)).as_bytes()).get(..1),
            Some("a")
        );
    }

    #[test]
    fn lines_have_colours_and_nothing_else() {
        let drawn = "a\tb\n\u{1b}[1;31mred\u{1b}[m größe\n";
        assert_eq!(lines(drawn), drawn);
        let hostile =
            "a\r\u{8}\u{7}\u{1b}[2J\u{1b}[A\u{1b}[?25l\u{1b}=\u{1b}]52;c;aGk=\u{7}\u{9b}b";
        assert_eq!(lines(hostile), "ab");
    }

    #[test]
    fn what_steers_is_known() {
        let mut drawing = Drawing::default();
        drawing.pass(b"a\r\n\x1b]0;x\x07\x1b[6n");
        assert!(!drawing.has_steered());
        drawing.pass(b"\x1b[31m");
        assert!(drawing.has_steered());
    }
}
