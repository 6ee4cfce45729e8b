//! Aligned tables for people: with a heading ([`Table`]), or rows that fill the terminal ([`rows`]).

use super::figures::cut;
use super::output::{FAINT, STRONG, printable};
use clap::builder::styling::Style;

/// Rows of cells under a heading in lower case. Cells are made printable; the last column is never padded.
pub struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// A row of a list without a heading: a glyph, a bold name, further cells, and an age or another number.
pub struct Row<const CELLS: usize> {
    pub style: Style,
    pub glyph: &'static str,
    pub cells: [String; CELLS],
}

/// The shortest fact that is still worth a column.
const NARROWEST_FACT: usize = 8;

/// Rows as wide as the terminal. Only the fact is cut; the last cell stands at the right edge.
pub fn rows<const CELLS: usize>(all: &[Row<CELLS>], fact: usize, columns: usize) -> String {
    let shown: Vec<[String; CELLS]> = all
        .iter()
        .map(|row| row.cells.each_ref().map(|cell| printable(cell)))
        .collect();
    let width = |column: usize| {
        let cells = shown.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let mut widths: [usize; CELLS] = std::array::from_fn(width);
    // The glyph, and two blanks between columns.
    let others: usize = (0..CELLS).filter(|one| *one != fact).map(width).sum();
    let taken = others + 2 * CELLS;
    widths[fact] = columns.saturating_sub(taken).max(NARROWEST_FACT);
    let lines = all.iter().zip(&shown).map(|(row, cells)| {
        let style = row.style;
        let mut line = format!("{style}{}{style:#} ", row.glyph);
        for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            line.push_str(gap);
            line.push_str(&if column == 0 {
                format!("{STRONG}{cell:width$}{STRONG:#}")
            } else if column + 1 == CELLS {
                format!("{FAINT}{cell:>width$}{FAINT:#}")
            } else if column == fact {
                format!("{:width$}", cut(cell, width))
            } else {
                format!("{cell:width$}")
            });
        }
        line.push('\n');
        line
    });
    lines.collect()
}

// === impl Table ===

impl Table {
    pub fn new<const COLUMNS: usize>(heading: [&'static str; COLUMNS]) -> Self {
        Self {
            heading: heading.to_vec(),
            rows: Vec::new(),
        }
    }

    pub fn row<const COLUMNS: usize>(&mut self, cells: [String; COLUMNS]) {
        self.rows
            .push(cells.iter().map(|cell| printable(cell)).collect());
    }

    pub fn render(&self) -> String {
        let widths: Vec<usize> = (0..self.heading.len())
            .map(|column| {
                let cells = self.rows.iter().map(|row| row[column].chars().count());
                cells.max().unwrap_or(0).max(self.heading[column].len())
            })
            .collect();
        let heading: Vec<String> = self.heading.iter().map(|&cell| cell.to_owned()).collect();
        let mut text = format!("{FAINT}{}{FAINT:#}\n", line(&heading, &widths));
        for row in &self.rows {
            text.push_str(&line(row, &widths));
            text.push('\n');
        }
        text
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let padded: Vec<String> = cells
        .iter()
        .zip(widths)
        .map(|(cell, &width)| format!("{cell:width$}"))
        .collect();
    padded.join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["label", "state", "ref"]);
        table.row(["fix-login".into(), "running".into(), "größe".into()]);
        table.row(["x".into(), "failed\u{1b}".into(), String::new()]);
        let text = anstream::adapter::strip_str(&table.render()).to_string();
        assert_eq!(
            text,
            "label      state         ref\n\
             fix-login  running       größe\n\
             x          failed\\u{1b}\n"
        );
    }
}
