//! The screen model of a session: the screen, queries of the program to its terminal, and requests
//! for attention. Queries are answered here; the user's terminal never sees them.

use super::history::History;
use super::sieve::Sieve;
use holm_core::session::Size;
use holm_core::session::keys::CursorKeys;
use holm_core::session::protocol::ScreenShape;
use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};
use vt100::{Callbacks, Parser, Screen};

/// The emulated terminal.
pub const TERM: &str = "xterm-256color";

/// The limit of buffered replies, for a program that only sends queries.
const MOST_REPLIES: usize = 16 * 1024;
/// The most requests for attention between two checks.
const MOST_CALLS: usize = 16;
const LONGEST_CALL: usize = 200;

pub struct Model {
    parser: Parser<TerminalRequests>,
    sieve: Sieve,
    /// Reused to avoid allocations.
    piece: Vec<u8>,
}

/// What the program sent besides drawing.
#[derive(Debug, Default)]
pub struct TerminalRequests {
    /// To be typed to the program.
    pub replies: Vec<u8>,
    /// Requests for attention, with a text or only the bell.
    pub calls: Vec<Option<String>>,
    pub bells: u64,
    pub title: Option<String>,
}

// === impl Model ===

impl Model {
    pub fn new(size: Size) -> Self {
        Self {
            parser: parser(size, TerminalRequests::default()),
            sieve: Sieve::default(),
            piece: Vec::new(),
        }
    }

    pub fn take(&mut self, bytes: &[u8], history: &mut History) {
        self.piece.clear();
        self.sieve.take(bytes, &mut self.piece, history);
        let (parser, piece) = (&mut self.parser, &self.piece);
        // The bytes come from a guest. A panic of the parser costs this screen, and nothing else.
        let taken = catch_unwind(AssertUnwindSafe(|| parser.process(piece)));
        if taken.is_err() {
            self.begin_anew();
        }
    }

    pub fn resize(&mut self, size: Size) {
        let (rows, cols) = numbers(size);
        let parser = &mut self.parser;
        if catch_unwind(AssertUnwindSafe(|| parser.set_size(rows, cols))).is_err() {
            self.parser = self::parser(size, TerminalRequests::default());
        }
    }

    pub fn screen(&self) -> &Screen {
        self.parser.screen()
    }

    pub fn requests(&mut self) -> &mut TerminalRequests {
        self.parser.callbacks_mut()
    }

    pub fn size(&self) -> Size {
        let (rows, cols) = self.screen().size();
        Size {
            rows: rows.get(),
            cols: cols.get(),
        }
    }

    pub fn shape(&self) -> ScreenShape {
        let (Size { rows, cols }, (row, col)) = (self.size(), self.screen().cursor_position());
        ScreenShape {
            rows,
            cols,
            cursor_row: row,
            cursor_col: col.min(cols - 1),
            is_alternate: self.screen().alternate_screen(),
        }
    }

    /// The screen as text: no escape sequences, no trailing spaces, no empty lines at the end.
    pub fn text(&self) -> String {
        let width = self.size().cols;
        let rows = self.screen().rows(0, width);
        let rows: Vec<String> = rows.map(|row| plain(row.trim_end())).collect();
        let mut text = rows.join("\n");
        text.truncate(text.trim_end().len());
        if !text.is_empty() {
            text.push('\n');
        }
        text
    }

    /// Input in the form that the program wants.
    pub fn typed(&self, text: &[u8]) -> Vec<u8> {
        let is_several_lines = text.strip_suffix(b"\n").unwrap_or(text).contains(&b'\n');
        if !(is_several_lines && self.screen().bracketed_paste()) {
            return text
                .iter()
                .map(|byte| if *byte == b'\n' { b'\r' } else { *byte })
                .collect();
        }
        // Pasted text cannot contain the end marker of the paste.
        let mut typed = b"\x1b[200~".to_vec();
        typed.extend(text.iter().filter(|byte| **byte != 0x1b));
        typed.extend(b"\x1b[201~");
        typed
    }

    pub fn cursor_keys(&self) -> CursorKeys {
        if self.screen().application_cursor() {
            CursorKeys::Application
        } else {
            CursorKeys::Normal
        }
    }

    fn begin_anew(&mut self) {
        complain!("a session's output broke its screen, which begins anew");
        let requests = std::mem::take(self.parser.callbacks_mut());
        self.parser = parser(self.size(), requests);
        self.sieve = Sieve::default();
    }
}

fn parser(size: Size, requests: TerminalRequests) -> Parser<TerminalRequests> {
    let (rows, cols) = numbers(size);
    Parser::new_with_callbacks(rows, cols, 0, requests)
}

fn numbers(size: Size) -> (NonZeroU16, NonZeroU16) {
    let Size { rows, cols } = size.bounded();
    let number = |number| NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN);
    (number(rows), number(cols))
}

// === impl TerminalRequests ===

impl TerminalRequests {
    fn reply(&mut self, text: &str) {
        if self.replies.len() < MOST_REPLIES {
            self.replies.extend(text.as_bytes());
        }
    }

    fn call(&mut self, text: Option<String>) {
        if self.calls.len() < MOST_CALLS {
            self.calls.push(text);
        }
    }

    fn ring(&mut self) {
        self.bells += 1;
        self.call(None);
    }
}

impl Callbacks for TerminalRequests {
    fn audible_bell(&mut self, _: &mut Screen) {
        self.ring();
    }

    fn visual_bell(&mut self, _: &mut Screen) {
        self.ring();
    }

    fn set_window_title(&mut self, _: &mut Screen, title: &[u8]) {
        self.title = Some(words(&[title])).filter(|title| !title.is_empty());
    }

    fn unhandled_csi(
        &mut self,
        screen: &mut Screen,
        first: Option<u8>,
        second: Option<u8>,
        parameters: &[&[u16]],
        last: char,
    ) {
        let number = parameters.first().and_then(|one| one.first()).copied();
        let number = number.unwrap_or(0);
        let (row, col) = screen.cursor_position();
        let (rows, cols) = screen.size();
        let (row, col) = (row + 1, col.min(cols.get() - 1) + 1);
        match (first, second, last, number) {
            // A VT220 with colours.
            (None, None, 'c', 0) => self.reply("\u{1b}[?62;22c"),
            (Some(b'>'), None, 'c', 0) => self.reply("\u{1b}[>1;10;0c"),
            (None, None, 'n', 5) => self.reply("\u{1b}[0n"),
            (None, None, 'n', 6) => self.reply(&format!("\u{1b}[{row};{col}R")),
            (Some(b'?'), None, 'n', 6) => self.reply(&format!("\u{1b}[?{row};{col}R")),
            (None, None, 't', 18) => self.reply(&format!("\u{1b}[8;{rows};{cols}t")),
            // No queryable mode is known.
            (Some(b'?'), Some(b'$'), 'p', mode) => self.reply(&format!("\u{1b}[?{mode};0$y")),
            _ => {}
        }
    }

    fn unhandled_osc(&mut self, _: &mut Screen, parameters: &[&[u8]]) {
        match parameters {
            [b"10" | b"12", b"?"] => {
                let which = String::from_utf8_lossy(parameters[0]);
                self.reply(&format!("\u{1b}]{which};rgb:d8d8/d8d8/d8d8\u{1b}\\"));
            }
            [b"11", b"?"] => self.reply("\u{1b}]11;rgb:0000/0000/0000\u{1b}\\"),
            // Progress reports, several times a second.
            [b"9", b"4", ..] => {}
            [b"9", text @ ..] | [b"777", b"notify", text @ ..] | [b"99", _, text @ ..] => {
                self.call(Some(words(text)).filter(|text| !text.is_empty()));
            }
            _ => {}
        }
    }
}

/// A guest's text, on one line and short.
fn words(parts: &[&[u8]]) -> String {
    let joined = parts.join(&b';');
    let text = plain(&String::from_utf8_lossy(&joined));
    let short: String = text.trim().chars().take(LONGEST_CALL).collect();
    short
}

/// Without control characters and characters that change the reading order.
pub fn plain(text: &str) -> String {
    let steers = |one: char| {
        one.is_control()
            || matches!(one, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(|one| !steers(*one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> Model {
        let mut model = Model::new(Size { rows: 5, cols: 20 });
        model.take(text.as_bytes(), &mut History::default());
        model
    }

    #[test]
    fn questions_are_answered_to_the_program() {
        let check = |asked: &str, expect: &str| {
            let replies = std::mem::take(&mut model(asked).requests().replies);
            assert_eq!(String::from_utf8(replies).unwrap(), expect, "{asked:?}");
        };
        check("\u{1b}[c", "\u{1b}[?62;22c");
        check("\u{1b}[0c", "\u{1b}[?62;22c");
        check("\u{1b}[>c", "\u{1b}[>1;10;0c");
        check("ab\r\nc\u{1b}[6n", "\u{1b}[2;2R");
        check("\u{1b}[5n", "\u{1b}[0n");
        check("\u{1b}]11;?\u{7}", "\u{1b}]11;rgb:0000/0000/0000\u{1b}\\");
        check(
            "\u{1b}]10;?\u{1b}\\",
            "\u{1b}]10;rgb:d8d8/d8d8/d8d8\u{1b}\\",
        );
        check("\u{1b}[18t", "\u{1b}[8;5;20t");
        check("\u{1b}[?2026$p", "\u{1b}[?2026;0$y");
        // Queries that could reveal something of the user are not answered at all.
        check(
            "\u{1b}[21t\u{1b}[20t\u{1b}P$qm\u{1b}\\\u{5}\u{1b}]52;c;?\u{7}\u{1b}Z",
            "",
        );
        let many = "\u{1b}[c".repeat(100_000);
        assert!(model(&many).requests().replies.len() <= MOST_REPLIES + 100);
    }

    #[test]
    fn bells_and_notifications_are_calls_and_their_words_are_clean() {
        let check = |text: &str, expect: &[Option<&str>]| {
            let mut model = model(text);
            let calls: Vec<_> = model
                .requests()
                .calls
                .iter()
                .map(Option::as_deref)
                .collect();
            assert_eq!(calls, expect, "{text:?}");
        };
        check("\u{7}", &[None]);
        check("\u{1b}]9;done; really\u{7}", &[Some("done; really")]);
        check(
            "\u{1b}]777;notify;Agent;needs you\u{1b}\\",
            &[Some("Agent;needs you")],
        );
        check("\u{1b}]99;i=1:d=0;hello\u{1b}\\", &[Some("hello")]);
        check("\u{1b}]9;4;1;50\u{7}", &[]);
        check("\u{1b}]9;a\u{202e}b\u{9b}c\u{7}", &[Some("abc")]);
        check("\u{1b}]0;t\u{7}", &[]);
        let mut model = model(&"\u{7}".repeat(100_000));
        assert_eq!(model.requests().calls.len(), MOST_CALLS);
    }

    #[test]
    fn a_screen_is_text_without_escapes() {
        let model = model("\u{1b}[31mone\u{1b}[m  \r\n\r\n日本\u{1b}]2;x\u{7}");
        assert_eq!(model.text(), "one\n\n日本\n");
        let shape = model.shape();
        assert_eq!((shape.cursor_row, shape.cursor_col), (2, 4));
    }

    #[test]
    fn what_is_pasted_does_not_leave_its_brackets() {
        let asked = model("\u{1b}[?2004h");
        assert_eq!(asked.typed(b"one line\n"), b"one line\r");
        let typed = asked.typed(b"a\n\x1b[201~rm -rf\nb");
        assert_eq!(typed, b"\x1b[200~a\n[201~rm -rf\nb\x1b[201~");
        assert_eq!(model("").typed(b"a\nb"), b"a\rb");
    }
}
