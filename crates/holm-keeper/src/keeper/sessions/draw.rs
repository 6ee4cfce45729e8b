//! Draws a session's screen on an attached client's terminal, from cells and never from the
//! program's output. Every sequence it writes is allowed by [`holm_core::session::drawing`].

use super::model::plain;
use holm_core::session::Size;
use std::fmt::Write;
use vt100::{Cell, Color, Screen};

/// What a client has on its terminal.
pub struct DrawnScreen {
    screen: Screen,
    view: Size,
    /// The first visible row of the screen, if the terminal has fewer.
    top: u16,
    bells: u64,
}

/// Whether the client's terminal is asked to send what the program wants (mouse, bracketed paste).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    Asked,
    Left,
}

/// The attributes of a cell.
#[derive(Clone, Copy, PartialEq)]
struct Pen {
    foreground: Color,
    background: Color,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    inverse: bool,
}

/// The output that makes a terminal of this size show the screen.
pub fn draw(
    seen: &mut Option<DrawnScreen>,
    screen: &Screen,
    view: Size,
    modes: Modes,
    bells: u64,
) -> String {
    let (rows, cols) = screen.size();
    let size = Size {
        rows: rows.get().min(view.rows),
        cols: cols.get().min(view.cols),
    };
    let (cursor_row, cursor_col) = screen.cursor_position();
    let top = (cursor_row + 1).saturating_sub(size.rows);
    let before = seen
        .take()
        .filter(|seen| seen.view == view && seen.top == top && seen.screen.size() == screen.size());
    let mut out = String::new();
    if before.is_none() {
        out.push_str("\u{1b}[m\u{1b}[?25l\u{1b}[H\u{1b}[2J");
    }
    let known = before.as_ref().map(|seen| &seen.screen);
    let mut pen = Pen::PLAIN;
    for row in 0..size.rows {
        let row = Row {
            row: top + row,
            at: row,
            cols: size.cols,
        };
        draw_row(&mut out, &mut pen, known, screen, row);
    }
    pen.change(&mut out, Pen::PLAIN);
    if modes == Modes::Asked {
        out.push_str(&match known {
            Some(known) => screen.input_mode_diff(known),
            None => screen.input_mode_formatted(),
        });
    }
    let is_hidden = screen.hide_cursor();
    let was = known.map(|known| (known.cursor_position(), known.hide_cursor()));
    if !out.is_empty() || was != Some(((cursor_row, cursor_col), is_hidden)) {
        let (row, col) = (cursor_row - top + 1, cursor_col.min(size.cols - 1) + 1);
        let shown = if is_hidden { 'l' } else { 'h' };
        // Writing to a string cannot fail.
        let _ = write!(out, "\u{1b}[{row};{col}H\u{1b}[?25{shown}");
    }
    let rung = before.as_ref().is_some_and(|seen| seen.bells < bells);
    if rung {
        out.push('\u{7}');
    }
    *seen = Some(DrawnScreen {
        screen: screen.clone(),
        view,
        top,
        bells,
    });
    out
}

/// The lines of [`Model::text`](super::model::Model::text) with their colours: SGR sequences and nothing else.
pub fn coloured(screen: &Screen) -> String {
    let (rows, cols) = screen.size();
    let mut lines: Vec<String> = (0..rows.get())
        .map(|row| coloured_row(screen, row, cols.get()))
        .collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// One row without the blanks at its end; plain at both ends.
fn coloured_row(screen: &Screen, row: u16, cols: u16) -> String {
    let cells = (0..cols).filter_map(|col| screen.cell(row, col));
    let cells: Vec<&Cell> = cells.filter(|cell| !cell.is_wide_continuation()).collect();
    let is_seen = |cell: &&Cell| !plain(cell.contents()).trim_end().is_empty();
    let end = cells.iter().rposition(is_seen).map_or(0, |last| last + 1);
    let (mut out, mut pen) = (String::new(), Pen::PLAIN);
    for cell in &cells[..end] {
        pen.change(&mut out, Pen::of(cell));
        let contents = cell.contents();
        out.push_str(&plain(if contents.is_empty() { " " } else { contents }));
    }
    pen.change(&mut out, Pen::PLAIN);
    out
}

/// A row of the screen, and where the terminal shows it.
struct Row {
    row: u16,
    at: u16,
    cols: u16,
}

/// One row, from the first to the last cell that differs.
fn draw_row(out: &mut String, pen: &mut Pen, known: Option<&Screen>, screen: &Screen, row: Row) {
    let Row { row, at, cols } = row;
    let is_other = |col: &u16| match (screen.cell(row, *col), known) {
        (Some(cell), Some(known)) => known.cell(row, *col) != Some(cell),
        (Some(cell), None) => !is_blank(cell),
        (None, _) => false,
    };
    let Some(mut first) = (0..cols).find(is_other) else {
        return;
    };
    let last = (first..cols).rev().find(is_other).unwrap_or(first);
    // A character of two cells is written as a whole.
    let is_second = |col: u16| {
        screen
            .cell(row, col)
            .is_some_and(Cell::is_wide_continuation)
    };
    while first > 0 && is_second(first) {
        first -= 1;
    }
    let is_full = |col: &u16| screen.cell(row, *col).is_some_and(|cell| !is_blank(cell));
    let end = (0..cols).rev().find(is_full).map_or(0, |col| col + 1);
    let _ = write!(out, "\u{1b}[{};{}H", at + 1, first + 1);
    for col in first..end.min(last + 1) {
        let Some(cell) = screen.cell(row, col) else {
            continue;
        };
        if cell.is_wide_continuation() && col > first {
            continue;
        }
        pen.change(out, Pen::of(cell));
        let is_cut = cell.is_wide() && col + 1 >= cols;
        let contents = cell.contents();
        let before = out.len();
        if !is_cut {
            out.extend(contents.chars().filter(|one| !one.is_control()));
        }
        if out.len() == before {
            out.push(' ');
        }
    }
    if last >= end {
        pen.change(out, Pen::PLAIN);
        if end > first || first == 0 {
            out.push_str("\u{1b}[K");
        } else {
            let _ = write!(out, "\u{1b}[{};{}H\u{1b}[K", at + 1, end.max(first) + 1);
        }
    }
}

fn is_blank(cell: &Cell) -> bool {
    (!cell.has_contents() || cell.contents() == " ")
        && !cell.is_wide_continuation()
        && Pen::of(cell).is_unseen()
}

// === impl Pen ===

impl Pen {
    const PLAIN: Pen = Pen {
        foreground: Color::Default,
        background: Color::Default,
        bold: false,
        dim: false,
        italic: false,
        underline: false,
        inverse: false,
    };

    fn of(cell: &Cell) -> Self {
        Self {
            foreground: cell.fgcolor(),
            background: cell.bgcolor(),
            bold: cell.bold(),
            dim: cell.dim(),
            italic: cell.italic(),
            underline: cell.underline(),
            inverse: cell.inverse(),
        }
    }

    /// Whether a space with these attributes is invisible.
    fn is_unseen(self) -> bool {
        self.background == Color::Default && !self.underline && !self.inverse
    }

    fn change(&mut self, out: &mut String, to: Pen) {
        if *self == to {
            return;
        }
        *self = to;
        out.push_str("\u{1b}[0");
        let flags = [
            (to.bold, 1),
            (to.dim, 2),
            (to.italic, 3),
            (to.underline, 4),
            (to.inverse, 7),
        ];
        for (_, number) in flags.into_iter().filter(|(is_set, _)| *is_set) {
            let _ = write!(out, ";{number}");
        }
        color(out, to.foreground, 30);
        color(out, to.background, 40);
        out.push('m');
    }
}

fn color(out: &mut String, color: Color, base: u8) {
    let _ = match color {
        Color::Default => Ok(()),
        Color::Idx(index @ 0..=7) => write!(out, ";{}", base + index),
        Color::Idx(index @ 8..=15) => write!(out, ";{}", base + 60 + index - 8),
        Color::Idx(index) => write!(out, ";{};5;{index}", base + 8),
        Color::Rgb(red, green, blue) => write!(out, ";{};2;{red};{green};{blue}", base + 8),
    };
}

#[cfg(test)]
mod tests {
    use super::super::history::History;
    use super::super::model::Model;
    use super::*;
    use holm_core::session::drawing::Drawing;
    use vt100::Parser;

    const VIEW: Size = Size { rows: 6, cols: 20 };

    /// A client's terminal.
    struct Outer {
        parser: Parser,
        seen: Option<DrawnScreen>,
        view: Size,
    }

    impl Outer {
        fn new(view: Size) -> Self {
            let number = |number| std::num::NonZeroU16::new(number).unwrap();
            Self {
                parser: Parser::new(number(view.rows), number(view.cols), 0),
                seen: None,
                view,
            }
        }

        fn shows(&mut self, model: &mut Model) -> Vec<String> {
            let bells = model.requests().bells;
            let drawn = draw(
                &mut self.seen,
                model.screen(),
                self.view,
                Modes::Asked,
                bells,
            );
            let mut drawing = Drawing::default();
            let passed = drawing.pass(drawn.as_bytes());
            assert_eq!(drawing.dropped(), 0, "not on the list: {drawn:?}");
            assert_eq!(passed, drawn.as_bytes());
            self.parser.process(&passed);
            let rows = self.parser.screen().rows(0, self.view.cols);
            rows.map(|row| row.trim_end().to_owned()).collect()
        }
    }

    /// Removes SGR sequences; others stay.
    fn without_colours(text: &str) -> String {
        let mut pieces = text.split("\u{1b}[");
        let mut left = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let end = piece.trim_start_matches(|one: char| one.is_ascii_digit() || one == ';');
            left.push_str(end.strip_prefix('m').unwrap_or("?"));
        }
        left
    }

    #[test]
    fn a_screen_with_colours_has_sgr_and_nothing_else() {
        let mut model = Model::new(VIEW);
        take(
            &mut model,
            "\u{1b}[1;31mred\u{1b}[m  日\u{1b}[44m \u{1b}[m\r\n\r\n\u{1b}]0;t\u{7}x \u{202e}y\r\n"
                .as_bytes(),
        );
        let drawn = coloured(model.screen());
        assert_eq!(drawn, "\u{1b}[0;1;31mred\u{1b}[0m  日\n\nx y\n");
        assert_eq!(without_colours(&drawn), model.text());
    }

    fn take(model: &mut Model, bytes: &[u8]) {
        model.take(bytes, &mut History::default());
    }

    #[test]
    fn a_late_one_sees_what_an_early_one_does() {
        let mut model = Model::new(VIEW);
        let mut early = Outer::new(VIEW);
        for piece in [
            "one\r\ntwo\r\n\u{1b}[1;31mthree\u{1b}[m\r\n",
            "\u{1b}[2;2Hxx\u{1b}[K\u{1b}[5;18Hwide日",
            "\u{1b}[?1049h\u{1b}[44mfull\u{1b}[K\u{1b}[m",
            "\u{1b}[?1049l\u{1b}[3;1H\u{1b}[K",
            "\u{1b}[2J\u{1b}[H日本語\u{8}\u{8}x",
            "scroll\r\n1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7",
        ] {
            take(&mut model, piece.as_bytes());
            let seen = early.shows(&mut model);
            assert_eq!(seen, Outer::new(VIEW).shows(&mut model), "{piece:?}");
            let own: Vec<String> = model.screen().rows(0, VIEW.cols).collect();
            let own: Vec<_> = own.iter().map(|row| row.trim_end()).collect();
            assert_eq!(seen, own, "{piece:?}");
            let cursors = (early.parser.screen().cursor_position(), model.shape());
            assert_eq!(cursors.0, (cursors.1.cursor_row, cursors.1.cursor_col));
            assert_eq!(early.shows(&mut model), seen, "nothing changed");
        }
    }

    #[test]
    fn smaller_and_larger_terminals_see_a_part_or_all() {
        let mut model = Model::new(VIEW);
        take(&mut model, b"aaaaaaaaaaaaaaaaaaaaBBBB\r\n1\r\n2\r\n3\r\n4");
        let large = Size { rows: 9, cols: 40 };
        let seen = Outer::new(large).shows(&mut model);
        assert_eq!(
            seen[..3],
            ["a".repeat(20), "BBBB".to_owned(), "1".to_owned()]
        );
        // The part with the cursor.
        let small = Size { rows: 3, cols: 4 };
        assert_eq!(Outer::new(small).shows(&mut model), ["2", "3", "4"]);
    }

    #[test]
    fn whatever_a_guest_writes_only_drawing_comes_out() {
        // Random sequences of escape sequences, characters and noise.
        let pieces: &[&[u8]] = &[
            b"\x1b[",
            b"\x1b]",
            b"\x1bP",
            b"\x1b_",
            b"\x1b^",
            b"\x1b\\",
            b"\x07",
            b"\x9b",
            b"0;t",
            b"52;c;?",
            b"6n",
            b"c",
            b"?1049h",
            b"?1000h",
            b"?1006h",
            b"?2004h",
            b"?25l",
            b"31m",
            b"999;999H",
            b"65535b",
            b"2J",
            b"\x1b(0",
            b"lqk",
            b"\x0e",
            b"\x0f",
            b"\r\n",
            b"\xff",
            "日本".as_bytes(),
            "\u{9d}0;x\u{9c}".as_bytes(),
            "e\u{301}\u{301}".as_bytes(),
            "\u{202e}".as_bytes(),
            b"5 q",
            b"8;1;1t",
            b"L",
            b"M",
            b"S",
            b"T",
            b"2;3r",
            b"text",
            b"\x1b7",
            b"\x1b8",
            b"\x1bM",
            b"\x1bc",
            b"\x08",
            b"\t",
            b"\x18",
            b"@",
            b"P",
            b"X",
        ];
        let mut random = 0x2545_f491_4f6c_dd1du64;
        let mut next = |most: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % most as u64) as usize
        };
        for round in 0..300 {
            let size = Size {
                rows: 2 + next(8) as u16,
                cols: 4 + next(30) as u16,
            };
            let view = Size {
                rows: 1 + next(9) as u16,
                cols: 1 + next(34) as u16,
            };
            let (mut model, mut outer) = (Model::new(size), Outer::new(view));
            for step in 0..60 {
                let piece: Vec<u8> = match next(5) {
                    0 => (0..next(9)).map(|_| next(256) as u8).collect(),
                    _ => pieces[next(pieces.len())].to_vec(),
                };
                take(&mut model, &piece);
                if step % 17 == 3 {
                    model.resize(Size {
                        rows: 2 + next(8) as u16,
                        cols: 4 + next(30) as u16,
                    });
                }
                let seen = outer.shows(&mut model);
                let anew = Outer::new(view).shows(&mut model);
                assert_eq!(seen, anew, "round {round}");
                let lines = |text: &str| -> Vec<String> {
                    text.lines()
                        .map(|line| line.trim_end().to_owned())
                        .collect()
                };
                let coloured = without_colours(&coloured(model.screen()));
                assert_eq!(lines(&coloured), lines(&model.text()), "round {round}");
            }
        }
    }
}
