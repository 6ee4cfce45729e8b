//! The first parser of a session's output, which is hostile. It bounds the work of the screen model
//! and extracts plain text for the history.
//!
//! Sequences that the model does not know are translated (line drawing, old cursor movements);
//! unused strings (DCS, APC, PM, SOS) are dropped.

use super::history::History;

#[derive(Debug, Default)]
pub struct Sieve {
    state: State,
    /// The bytes of a control sequence after `ESC [`.
    held: Vec<u8>,
    /// Whether G0 and G1 are line drawing, and which one is active.
    is_drawing: [bool; 2],
    shifted: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// After `ESC` and a byte that needs another one.
    Intermediate(u8),
    Sequence,
    /// A control sequence that is too long.
    Overlong,
    /// An operating system command; the model bounds it.
    Command,
    CommandEscape,
    /// A string that is dropped.
    String,
    StringEscape,
}

/// Longer control sequences are ignored.
const LONGEST: usize = 128;

/// The repetition limit of a character: a whole line.
const MOST_REPEATED: u32 = 500;

/// The line drawing characters for bytes 0x60 to 0x7e.
const DRAWING: [&str; 31] = [
    "◆", "▒", "␉", "␌", "␍", "␊", "°", "±", "␤", "␋", "┘", "┐", "┌", "└", "┼", "⎺", "⎻", "─", "⎼",
    "⎽", "├", "┤", "┴", "┬", "│", "≤", "≥", "π", "≠", "£", "·",
];

// === impl Sieve ===

impl Sieve {
    /// Parses further bytes: `model` gets the drawing, `history` the text.
    pub fn take(&mut self, bytes: &[u8], model: &mut Vec<u8>, history: &mut History) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            if self.state == State::Ground && is_text(byte) {
                let length = rest.iter().take_while(|byte| is_text(**byte)).count();
                self.take_text(&rest[..length], model, history);
                rest = &rest[length..];
                continue;
            }
            rest = &rest[1..];
            match self.state {
                State::Ground => self.take_control(byte, model, history),
                State::Escape => self.take_escape(byte, model, history),
                State::Intermediate(first) => self.take_designation(first, byte, model),
                State::Sequence => self.take_sequence(byte, model, history),
                State::Overlong => match byte {
                    0x1b => self.state = State::Escape,
                    0x18 | 0x1a | 0x40..=0x7e => self.state = State::Ground,
                    _ => {}
                },
                State::Command | State::CommandEscape => self.take_command(byte, model, history),
                State::String => match byte {
                    0x1b => self.state = State::StringEscape,
                    0x18 | 0x1a => self.state = State::Ground,
                    _ => {}
                },
                State::StringEscape => match byte {
                    b'\\' => self.state = State::Ground,
                    _ => self.take_escape(byte, model, history),
                },
            }
        }
    }

    fn take_text(&self, text: &[u8], model: &mut Vec<u8>, history: &mut History) {
        if !self.is_drawing[self.shifted] {
            model.extend_from_slice(text);
            return history.text(text);
        }
        for byte in text {
            match byte {
                0x60..=0x7e => {
                    let drawn = DRAWING[usize::from(byte - 0x60)].as_bytes();
                    model.extend_from_slice(drawn);
                    history.text(drawn);
                }
                _ => {
                    model.push(*byte);
                    history.text(&[*byte]);
                }
            }
        }
    }

    fn take_control(&mut self, byte: u8, model: &mut Vec<u8>, history: &mut History) {
        match byte {
            0x1b => self.state = State::Escape,
            0x0e => self.shifted = 1,
            0x0f => self.shifted = 0,
            0x07..=0x0d => {
                model.push(byte);
                match byte {
                    b'\n' | 0x0b | 0x0c => history.line_end(),
                    b'\r' => history.carriage_return(),
                    b'\t' => history.text(b"\t"),
                    _ => {}
                }
            }
            // Padding and controls of other terminals.
            _ => {}
        }
    }

    fn take_escape(&mut self, byte: u8, model: &mut Vec<u8>, history: &mut History) {
        self.state = State::Ground;
        match byte {
            b'[' => {
                self.held.clear();
                self.state = State::Sequence;
            }
            b']' => {
                model.extend(b"\x1b]");
                self.state = State::Command;
            }
            b'P' | b'_' | b'^' | b'X' | b'k' => self.state = State::String,
            b'D' => {
                model.push(b'\n');
                history.line_end();
            }
            b'E' => {
                model.extend(b"\r\n");
                history.line_end();
            }
            b'c' => {
                (self.is_drawing, self.shifted) = ([false; 2], 0);
                model.extend(b"\x1bc");
                history.moved();
            }
            b'7' | b'8' | b'=' | b'>' | b'M' | b'g' => {
                model.extend([0x1b, byte]);
                if matches!(byte, b'8' | b'M') {
                    history.moved();
                }
            }
            0x1b => self.state = State::Escape,
            0x20..=0x2f => self.state = State::Intermediate(byte),
            _ => {}
        }
    }

    /// Selects the character sets G0 and G1. Other sequences of this form are for other terminals.
    fn take_designation(&mut self, first: u8, byte: u8, model: &mut Vec<u8>) {
        if (0x20..=0x2f).contains(&byte) {
            return;
        }
        self.state = State::Ground;
        match (first, byte) {
            (_, 0x1b) => self.state = State::Escape,
            (b'(', _) => self.is_drawing[0] = byte == b'0',
            (b')', _) => self.is_drawing[1] = byte == b'0',
            // DECALN fills the screen with E, for adjusting tubes; here it clears the screen.
            (b'#', b'8') => model.extend(b"\x1b[2J"),
            _ => {}
        }
    }

    fn take_sequence(&mut self, byte: u8, model: &mut Vec<u8>, history: &mut History) {
        match byte {
            0x20..=0x3f if self.held.len() < LONGEST => self.held.push(byte),
            0x20..=0x3f => self.state = State::Overlong,
            0x40..=0x7e => {
                self.state = State::Ground;
                self.dispatch(byte, model, history);
            }
            0x1b => self.state = State::Escape,
            0x18 | 0x1a => self.state = State::Ground,
            // Controls inside a sequence are executed at once.
            0x07..=0x0d => self.take_control(byte, model, history),
            _ => {}
        }
    }

    fn dispatch(&self, last: u8, model: &mut Vec<u8>, history: &mut History) {
        let is_plain = self.held.iter().all(|byte| (0x30..=0x3b).contains(byte));
        match last {
            b's' if self.held.is_empty() => return model.extend(b"\x1b7"),
            b'u' if self.held.is_empty() => {
                history.moved();
                return model.extend(b"\x1b8");
            }
            b'b' if is_plain => {
                let count = self.number().clamp(1, MOST_REPEATED);
                return model.extend(format!("\x1b[{count}b").bytes());
            }
            b'H' | b'f' if is_plain => history.moved_to(self.column()),
            b'A' | b'B' | b'd' if is_plain => history.moved_to(history.column()),
            b'E' | b'F' if is_plain => history.moved(),
            b'G' | b'`' if is_plain => history.go_to(self.number().saturating_sub(1) as usize),
            b'C' if is_plain => history.spaces(self.number().clamp(1, 80) as usize),
            _ => {}
        }
        model.extend(b"\x1b[");
        model.extend(&self.held);
        model.push(last);
    }

    /// The column of a sequence with a row and a column.
    fn column(&self) -> usize {
        let mut numbers = self.held.split(|byte| *byte == b';').skip(1);
        let digits = numbers.next().unwrap_or_default();
        let text = std::str::from_utf8(digits).unwrap_or_default();
        text.parse::<usize>().unwrap_or(1).saturating_sub(1)
    }

    fn number(&self) -> u32 {
        let digits = self.held.iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0u32, |number, byte| {
            number
                .saturating_mul(10)
                .saturating_add(u32::from(byte - b'0'))
        })
    }

    fn take_command(&mut self, byte: u8, model: &mut Vec<u8>, history: &mut History) {
        match (self.state, byte) {
            (State::CommandEscape, b'\\') => {
                model.extend(b"\x1b\\");
                self.state = State::Ground;
            }
            // Interrupted by the start of another sequence.
            (State::CommandEscape, _) => {
                model.push(0x18);
                self.take_escape(byte, model, history);
            }
            (_, 0x1b) => self.state = State::CommandEscape,
            (_, 0x07 | 0x18 | 0x1a) => {
                model.push(byte);
                self.state = State::Ground;
            }
            _ => model.push(byte),
        }
    }
}

fn is_text(byte: u8) -> bool {
    byte >= 0x20 && byte != 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sieved(bytes: &[u8]) -> (String, String) {
        let (mut model, mut history) = (Vec::new(), History::default());
        Sieve::default().take(bytes, &mut model, &mut history);
        let (mut cut, mut pieces, mut again) = (Sieve::default(), Vec::new(), History::default());
        for byte in bytes {
            cut.take(&[*byte], &mut pieces, &mut again);
        }
        assert_eq!(
            (&model, history.since(0).text),
            (&pieces, again.since(0).text)
        );
        let text = history.since(0).text.to_owned();
        (String::from_utf8_lossy(&model).into_owned(), text)
    }

    #[test]
    fn text_has_no_escapes_and_its_lines_are_lines() {
        let check = |bytes: &str, expect: &str| assert_eq!(sieved(bytes.as_bytes()).1, expect);
        check("one\r\ntwo\r\n", "one\ntwo\n");
        check("10%\r20%\r30%\r\n", "10%\n20%\n30%\n");
        check(
            "\u{1b}[1mbold\u{1b}[m \u{1b}]0;title\u{7}größe",
            "bold größe",
        );
        check("\u{1b}[2J\u{1b}[5;1Hfoo\u{1b}[6;1Hbar", "foo\nbar");
        check("a\u{1b}[3Cb\u{1b}Pq payload\u{1b}\\c", "a   bc");
        check("\u{1b}[?2004l\r$ ls\r\n", "$ ls\n");
        check("a\u{0}\u{5}\u{7f}\u{9b}b\u{8}", "ab");
        check("x\u{1b}(0lqk\u{1b}(By", "x┌─┐y");
    }

    #[test]
    fn the_model_gets_only_what_it_can_bear() {
        let check = |bytes: &str, expect: &str| assert_eq!(sieved(bytes.as_bytes()).0, expect);
        check("x\u{1b}[65535b", "x\u{1b}[500b");
        check("x\u{1b}[99999999999b", "x\u{1b}[500b");
        check(
            "a\u{1b}Ppayload\u{1b}\\\u{1b}_G;x\u{1b}\\\u{1b}^y\u{1b}\\b",
            "ab",
        );
        check("\u{1b})0\u{e}q\u{f}q\u{1b}D\u{1b}E", "─q\n\r\n");
        check("\u{1b}[s\u{1b}[u", "\u{1b}7\u{1b}8");
        check("\u{1b}]0;a\u{1b}[2Jb", "\u{1b}]0;a\u{18}\u{1b}[2Jb");
        let long = format!("a\u{1b}[{}mb", "1;".repeat(1000));
        check(&long, "ab");
    }
}
