//! Draws the output of a program behind a `│`, so that no line of it looks like a line of holm. Used by
//! [`super::outlet`], after [`Drawing`](holm_core::session::drawing::Drawing) has dropped every sequence but colours.
//!
//! Lines longer than the terminal are broken here: the terminal itself would continue them in column 1.

use unicode_width::UnicodeWidthChar;

pub struct Gutter {
    /// Cells for text beside the gutter.
    room: usize,
    mark: String,
    has_colours: bool,
    /// Cells of the current line that are used.
    used: usize,
    is_open: bool,
    /// A carriage return arrived. What follows decides: a line end, or text that replaces the line.
    returns: bool,
    /// Colours of the program, which each line repeats behind the gutter.
    style: String,
}

const NORMAL: &str = "\u{1b}[m";
const TAB: usize = 8;
/// Cells of the mark and the blank behind it.
const WIDTH: usize = 2;
const NARROWEST: usize = 10;
/// A program that sets more colours than this without a reset starts again without any.
const LONGEST_STYLE: usize = 256;

// === impl Gutter ===

impl Gutter {
    /// `mark` is one cell wide.
    pub fn new(columns: usize, mark: &str, has_colours: bool) -> Self {
        Self {
            room: columns.saturating_sub(WIDTH).max(NARROWEST),
            mark: if has_colours {
                format!("\u{1b}[2m{mark}{NORMAL} ")
            } else {
                format!("{mark} ")
            },
            has_colours,
            used: 0,
            is_open: false,
            returns: false,
            style: String::new(),
        }
    }

    /// Draws text whose only sequences are complete colours.
    pub fn draw(&mut self, text: &str) -> String {
        let mut drawn = String::with_capacity(text.len() + 16);
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\u{1b}' => {
                    let mut colour = String::from(letter);
                    for letter in letters.by_ref() {
                        colour.push(letter);
                        if letter == 'm' {
                            break;
                        }
                    }
                    self.colour(&colour, &mut drawn);
                }
                '\n' => {
                    self.open(&mut drawn);
                    self.end_line(&mut drawn);
                }
                '\r' => self.returns = true,
                '\t' => {
                    let blanks = TAB - self.used % TAB;
                    (0..blanks).for_each(|_| self.letter(' ', 1, &mut drawn));
                }
                letter => self.letter(letter, letter.width().unwrap_or(0), &mut drawn),
            }
        }
        drawn
    }

    /// Ends a line that the program left open.
    pub fn close(&mut self) -> String {
        let mut drawn = String::new();
        if self.is_open {
            self.end_line(&mut drawn);
        }
        drawn
    }

    fn letter(&mut self, letter: char, width: usize, drawn: &mut String) {
        if self.returns && self.is_open {
            drawn.push_str("\r\u{1b}[K");
            self.is_open = false;
        }
        self.returns = false;
        if self.is_open && self.used + width > self.room {
            self.end_line(drawn);
        }
        self.open(drawn);
        drawn.push(letter);
        self.used += width;
    }

    fn open(&mut self, drawn: &mut String) {
        if !self.is_open {
            drawn.push_str(&self.mark);
            drawn.push_str(&self.style);
            (self.is_open, self.used) = (true, 0);
        }
    }

    fn end_line(&mut self, drawn: &mut String) {
        if !self.style.is_empty() {
            drawn.push_str(NORMAL);
        }
        drawn.push('\n');
        (self.is_open, self.returns) = (false, false);
    }

    fn colour(&mut self, colour: &str, drawn: &mut String) {
        if !self.has_colours {
            return;
        }
        let is_reset = matches!(colour, NORMAL | "\u{1b}[0m");
        if is_reset || self.style.len() > LONGEST_STYLE {
            self.style.clear();
        }
        if !is_reset {
            self.style.push_str(colour);
        }
        if self.is_open {
            drawn.push_str(colour);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(pieces: &[&str]) -> String {
        let mut gutter = Gutter::new(14, "│", false);
        let mut text: String = pieces.iter().map(|piece| gutter.draw(piece)).collect();
        text.push_str(&gutter.close());
        text
    }

    #[test]
    fn every_row_of_the_terminal_begins_with_the_mark() {
        let check = |pieces: &[&str], expect: &str| assert_eq!(drawn(pieces), expect, "{pieces:?}");
        check(&[], "");
        check(&["one\ntw", "o"], "│ one\n│ two\n");
        check(&["\n\n"], "│ \n│ \n");
        // Twelve cells of text fit beside the gutter.
        check(&["abcdefghijkl\n"], "│ abcdefghijkl\n");
        check(
            &["            ✓ claude ended"],
            "│             \n│ ✓ claude end\n│ ed\n",
        );
        check(&["日本語日本語日"], "│ 日本語日本語\n│ 日\n");
        check(&["a\tb"], "│ a       b\n");
    }

    #[test]
    fn a_carriage_return_replaces_the_line_and_not_the_gutter() {
        assert_eq!(
            drawn(&["10%\r", "20%\r\nend\r\n"]),
            "│ 10%\r\u{1b}[K│ 20%\n│ end\n"
        );
        assert_eq!(drawn(&["\r✓ done\n"]), "│ ✓ done\n");
    }

    #[test]
    fn colours_never_reach_the_gutter_and_go_on_behind_it() {
        let mut gutter = Gutter::new(80, "│", true);
        assert_eq!(
            gutter.draw("\u{1b}[8mx\ny\u{1b}[0mz\n"),
            "\u{1b}[2m│\u{1b}[m \u{1b}[8mx\u{1b}[m\n\u{1b}[2m│\u{1b}[m \u{1b}[8my\u{1b}[0mz\n"
        );
    }
}
