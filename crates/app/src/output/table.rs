//! Columns that line up, for people.
//!
//! # Invariants
//! A cell never runs into the next: columns are as wide as their widest cell, and the last one is cut at the
//! screen's end when there is a screen.

use domain::text::truncate_chars;

use super::{OutputStyle, escape_control_chars};

/// Rows of cells under a head.
#[derive(Clone, Debug)]
pub struct TextTable {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with these columns.
    pub fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    /// Adds a row. A cell without text shows as `-`.
    pub fn row(&mut self, cells: Vec<String>) {
        let shown = cells
            .into_iter()
            .map(|cell| if cell.is_empty() { "-".to_owned() } else { escape_control_chars(&cell) });
        self.rows.push(shown.map(|cell| cell.replace(['\n', '\t'], " ")).collect());
    }

    /// The lines, two spaces between columns.
    pub fn render(&self, look: &OutputStyle) -> String {
        let widths: Vec<usize> = (0..self.head.len()).map(|column| self.width(column)).collect();
        let head: Vec<String> = self.head.iter().map(|word| word.to_uppercase()).collect();
        let mut text = look.paint.dim(&line(&head, &widths, look.width)) + "\n";
        for row in &self.rows {
            text.push_str(&line(row, &widths, look.width));
            text.push('\n');
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        let head = self.head.get(column).map_or(0, |word| word.chars().count());
        cells.max().unwrap_or(0).max(head)
    }
}

fn line(cells: &[String], widths: &[usize], screen: Option<usize>) -> String {
    let mut text = String::new();
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if index > 0 {
            text.push_str("  ");
        }
        text.push_str(cell);
        let is_last = index + 1 == cells.len();
        if !is_last {
            text.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
        }
    }
    match screen {
        Some(columns) => truncate_chars(&text, columns),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{ColorWhen, Format};

    #[test]
    fn columns_line_up_and_the_last_is_cut_at_the_screen() {
        let mut look = OutputStyle::find(Some(Format::Plain), ColorWhen::Never, |_| None);
        let mut table = TextTable::new(&["plan", "state", "title"]);
        table.row(vec!["01JB3QK7XM".into(), "complete".into(), "a title\nof two lines".into()]);
        table.row(vec!["01".into(), String::new(), "b".into()]);
        look.width = None;
        assert_eq!(
            table.render(&look),
            "PLAN        STATE     TITLE\n\
             01JB3QK7XM  complete  a title of two lines\n\
             01          -         b\n"
        );
        look.width = Some(30);
        assert_eq!(table.render(&look).lines().nth(1), Some("01JB3QK7XM  complete  a title…"));
    }
}
