//! Aligned tables for people. Used by `ls`, `project ls`, `project find` and `doctor`.

use super::output::{FAINT, printable};

/// Rows of cells under a heading in lower case. Cells are made printable; the last column is never padded.
pub struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<String>>,
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
