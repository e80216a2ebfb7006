//! Columns that line up, for people.
//!
//! # Invariants
//! A cell never runs into the next: columns are as wide as their widest cell. When there is a screen, the
//! flexible column is cut until the line fits, and the last one is cut at the screen's end.

use domain::text::truncate_chars;

use super::{OutputStyle, Paint, escape_control_chars};

/// The space between two columns.
const GAP: &str = "  ";
/// The least width that a flexible column is cut to.
const FLEXIBLE_CHARS_MIN: usize = 12;

/// Rows of cells under a head.
#[derive(Clone, Debug)]
pub struct TextTable {
    head: Vec<&'static str>,
    rows: Vec<TableRow>,
    flexible: Option<usize>,
    painted: Option<(usize, PaintCell)>,
}

/// Puts colour on the words of a cell.
type PaintCell = fn(&str, Paint) -> String;

#[derive(Clone, Debug)]
enum TableRow {
    Cells(Vec<String>),
    Heading(String),
}

impl TextTable {
    /// A table with these columns.
    pub fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new(), flexible: None, painted: None }
    }

    /// The same table, in which the cells of this column have colours.
    #[must_use]
    pub fn with_colours(mut self, column: usize, paint: PaintCell) -> Self {
        self.painted = Some((column, paint));
        self
    }

    /// The same table, in which this column gives way on a narrow screen.
    #[must_use]
    pub fn with_flexible(mut self, column: usize) -> Self {
        self.flexible = Some(column);
        self
    }

    /// Adds a line above the rows that follow.
    pub fn heading(&mut self, text: &str) {
        self.rows.push(TableRow::Heading(escape_control_chars(text).replace(['\n', '\t'], " ")));
    }

    /// Adds a row. A cell without text shows as `-`.
    pub fn row(&mut self, cells: Vec<String>) {
        let shown = cells
            .into_iter()
            .map(|cell| if cell.is_empty() { "-".to_owned() } else { escape_control_chars(&cell) });
        self.rows.push(TableRow::Cells(shown.map(|cell| cell.replace(['\n', '\t'], " ")).collect()));
    }

    /// The lines, two spaces between columns.
    pub fn render(&self, style: &OutputStyle) -> String {
        let widths = self.widths(style.width);
        let head: Vec<String> = self.head.iter().map(|word| word.to_uppercase()).collect();
        let mut text = style.paint.dim(&line(&head, &widths, style.width)) + "\n";
        for row in &self.rows {
            match row {
                TableRow::Cells(cells) => {
                    let line = line(cells, &widths, style.width);
                    text.push_str(&self.painted_line(&line, &widths, style.paint));
                }
                TableRow::Heading(words) => {
                    let words =
                        style.width.map_or_else(|| words.clone(), |width| truncate_chars(words, width));
                    text.push_str(&style.paint.bold(&words));
                }
            }
            text.push('\n');
        }
        text
    }

    /// The line with the colours of its cells. A colour has no width, so the line has been cut by then.
    fn painted_line(&self, line: &str, widths: &[usize], paint: Paint) -> String {
        let Some((column, paint_cell)) = self.painted.filter(|_| paint.is_on()) else {
            return line.to_owned();
        };
        let begin = widths.iter().take(column).map(|width| width + GAP.len()).sum();
        let width = widths.get(column).copied().unwrap_or(0);
        let chars = |from: usize, count: usize| line.chars().skip(from).take(count).collect::<String>();
        let (before, cell, after) =
            (chars(0, begin), chars(begin, width), chars(begin + width, usize::MAX - begin - width));
        format!("{before}{}{after}", paint_cell(&cell, paint))
    }

    /// The widths of the columns on a screen with so many.
    fn widths(&self, screen: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = (0..self.head.len()).map(|column| self.width(column)).collect();
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        let over = screen.map_or(0, |screen| (widths.iter().sum::<usize>() + gaps).saturating_sub(screen));
        if let Some(width) = self.flexible.and_then(|column| widths.get_mut(column)) {
            *width = (*width).min(width.saturating_sub(over).max(FLEXIBLE_CHARS_MIN));
        }
        widths
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| match row {
            TableRow::Cells(cells) => cells.get(column),
            TableRow::Heading(_) => None,
        });
        let cells = cells.map(|cell| cell.chars().count());
        let head = self.head.get(column).map_or(0, |word| word.chars().count());
        cells.max().unwrap_or(0).max(head)
    }
}

fn line(cells: &[String], widths: &[usize], screen: Option<usize>) -> String {
    let mut text = String::new();
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if index > 0 {
            text.push_str(GAP);
        }
        let cell = truncate_chars(cell, *width);
        text.push_str(&cell);
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
        let mut style = OutputStyle::find(Some(Format::Plain), ColorWhen::Never, |_| None);
        let mut table = TextTable::new(&["plan", "state", "title"]);
        table.row(vec!["01JB3QK7XM".into(), "complete".into(), "a title\nof two lines".into()]);
        table.row(vec!["01".into(), String::new(), "b".into()]);
        style.width = None;
        assert_eq!(
            table.render(&style),
            "PLAN        STATE     TITLE\n\
             01JB3QK7XM  complete  a title of two lines\n\
             01          -         b\n"
        );
        style.width = Some(30);
        assert_eq!(table.render(&style).lines().nth(1), Some("01JB3QK7XM  complete  a title…"));
    }

    #[test]
    fn a_coloured_cell_stays_in_its_column() {
        let mut style = OutputStyle::find(Some(Format::Rich), ColorWhen::Always, |_| None);
        let mut table =
            TextTable::new(&["plan", "state", "title"]).with_colours(1, |cell, paint| paint.red(cell));
        table.row(vec!["k3ps".into(), "bad".into(), "a title".into()]);
        style.width = Some(40);
        let line = |text: String| text.lines().nth(1).unwrap().to_owned();
        assert_eq!(line(table.render(&style)), format!("k3ps  {}  a title", Paint::ON.red("bad  ")));
        style.width = Some(8);
        assert_eq!(line(table.render(&style)), format!("k3ps  {}", Paint::ON.red("b…")));
        style.paint = Paint::OFF;
        style.width = None;
        assert_eq!(line(table.render(&style)), "k3ps  bad    a title");
    }

    #[test]
    fn a_flexible_column_gives_way_on_a_narrow_screen() {
        let mut style = OutputStyle::find(Some(Format::Plain), ColorWhen::Never, |_| None);
        let mut table = TextTable::new(&["title", "state", "plan"]).with_flexible(0);
        table.row(vec!["a title that is too long".into(), "ready".into(), "k3ps".into()]);
        table.heading("batch one: 1 plan");
        table.row(vec!["short".into(), "failed".into(), "00aa".into()]);
        style.width = Some(32);
        assert_eq!(
            table.render(&style),
            "TITLE               STATE   PLAN\n\
             a title that is t…  ready   k3ps\n\
             batch one: 1 plan\n\
             short               failed  00aa\n"
        );
        style.width = Some(10);
        assert_eq!(table.render(&style).lines().nth(1), Some("a title t…"), "never less than it can show");
    }
}
