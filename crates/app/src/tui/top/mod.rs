//! Many plans on one screen: what is seen of each, and what the keys do.
//!
//! [`Top`] is a value that news and keys change; `draw` paints it, `rows` makes the rows. Whoever
//! has the engine fulfils the [`TopCommand`]es.
//!
//! # Invariants
//! 1. The cursor stays with its plan, wherever the plan moves in the table.
//! 2. Nothing is cancelled without a yes. Applying leads to the review, which is where one says yes.
//! 3. A key that can do nothing says why.

mod draw;
mod rows;

pub use draw::draw;
pub use rows::{PlanGroup, Summary, TopRow, breaker_words, breakers_json, rows, span, to_table, write_json};

use domain::PlanId;

use super::screen::KeyPress;

/// The command of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopCommand {
    /// Nothing is to be done.
    Stay,
    /// The end.
    Quit,
    /// This plan is to be cancelled.
    Cancel(PlanId),
    /// Its changes are to be shown.
    Diff(PlanId),
    /// Its changes are to be reviewed and applied.
    Apply(PlanId),
    /// The errors are to be shown.
    Errors(PlanId),
    /// The output is to be shown.
    Logs(PlanId),
}

/// The subject of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// The errors, from the beginning.
    Errors,
    /// The output, from the end.
    Logs,
}

/// Text that fills the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its subject.
    pub kind: PageKind,
    /// Of which plan.
    pub plan: PlanId,
    /// Its head.
    pub title: String,
    /// Its lines, with control characters escaped.
    pub lines: Vec<String>,
    /// The number of lines that lie below what is shown.
    below: usize,
}

/// The present meaning of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopMode {
    /// The table.
    Table,
    /// The help.
    Help,
    /// The question whether to cancel this plan.
    AskCancel(PlanId),
    /// Text.
    Page(Page),
}

/// The screen's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Top {
    rows: Vec<TopRow>,
    summary: Summary,
    chosen: Option<PlanId>,
    mode: TopMode,
    message: String,
    /// The number of lines of a page that are shown at once.
    page_lines: usize,
}

impl Top {
    /// An empty one.
    pub fn new() -> Top {
        Top {
            rows: Vec::new(),
            summary: Summary::default(),
            chosen: None,
            mode: TopMode::Table,
            message: String::new(),
            page_lines: 1,
        }
    }

    /// Takes over the present rows and summary.
    pub fn see(&mut self, rows: Vec<TopRow>, summary: Summary) {
        let before = self.place();
        (self.rows, self.summary) = (rows, summary);
        if !self.rows.iter().any(|row| Some(row.id) == self.chosen) {
            let last = self.rows.len().saturating_sub(1);
            self.chosen = self.rows.get(before.min(last)).map(|row| row.id);
        }
    }

    /// Something to tell, until the next key.
    pub fn say(&mut self, message: String) {
        self.message = message;
    }

    /// Shows text, or what became of it; a page that is shown already stays where it was scrolled to.
    pub fn show(&mut self, kind: PageKind, plan: PlanId, title: String, lines: Vec<String>) {
        let below = match &self.mode {
            TopMode::Page(page) if page.kind == kind && page.plan == plan => match page.below {
                0 => 0,
                // What is read stays in sight, though more comes below.
                below => below + lines.len().saturating_sub(page.lines.len()),
            },
            TopMode::Page(_) | TopMode::Table | TopMode::Help | TopMode::AskCancel(_) => match kind {
                PageKind::Errors => lines.len(),
                PageKind::Logs => 0,
            },
        };
        self.mode = TopMode::Page(Page { kind, plan, title, lines, below });
        self.clamp();
    }

    /// The plan whose printed text is shown: it grows.
    pub fn shows_logs_of(&self) -> Option<PlanId> {
        match &self.mode {
            TopMode::Page(page) if page.kind == PageKind::Logs => Some(page.plan),
            TopMode::Page(_) | TopMode::Table | TopMode::Help | TopMode::AskCancel(_) => None,
        }
    }

    /// The screen has so many lines.
    pub fn fit(&mut self, height: u16) {
        // A head, a foot and a frame.
        self.page_lines = usize::from(height.saturating_sub(4)).max(1);
        self.clamp();
    }

    fn clamp(&mut self) {
        if let TopMode::Page(page) = &mut self.mode {
            page.below = page.below.min(page.lines.len().saturating_sub(self.page_lines));
        }
    }

    /// Handles a key.
    pub fn press(&mut self, press: KeyPress) -> TopCommand {
        self.message.clear();
        if press == KeyPress::Interrupt {
            return TopCommand::Quit;
        }
        match std::mem::replace(&mut self.mode, TopMode::Table) {
            TopMode::Table => self.at_table(press),
            TopMode::Help => TopCommand::Stay,
            TopMode::AskCancel(plan) if matches!(press, KeyPress::Char('y' | 'Y')) => {
                TopCommand::Cancel(plan)
            }
            TopMode::AskCancel(_) => {
                self.message = "nothing was cancelled".to_owned();
                TopCommand::Stay
            }
            TopMode::Page(page) => {
                self.at_page(page, press);
                TopCommand::Stay
            }
        }
    }

    fn at_page(&mut self, mut page: Page, press: KeyPress) {
        let step = self.page_lines.saturating_sub(1).max(1);
        match press {
            KeyPress::Char('q') | KeyPress::Escape => return,
            KeyPress::Char('k') | KeyPress::Up => page.below = page.below.saturating_add(1),
            KeyPress::Char('j') | KeyPress::Down => page.below = page.below.saturating_sub(1),
            KeyPress::PageUp => page.below = page.below.saturating_add(step),
            KeyPress::PageDown | KeyPress::Char(' ') => page.below = page.below.saturating_sub(step),
            KeyPress::Char(_) | KeyPress::Enter | KeyPress::Backspace | KeyPress::Interrupt => {}
        }
        self.mode = TopMode::Page(page);
        self.clamp();
    }

    fn at_table(&mut self, press: KeyPress) -> TopCommand {
        match press {
            KeyPress::Char('j') | KeyPress::Down => self.go(self.place().saturating_add(1)),
            KeyPress::Char('k') | KeyPress::Up => self.go(self.place().saturating_sub(1)),
            KeyPress::PageDown => self.go(self.place().saturating_add(self.page_lines)),
            KeyPress::PageUp => self.go(self.place().saturating_sub(self.page_lines)),
            KeyPress::Char('?') => self.mode = TopMode::Help,
            KeyPress::Char('q') => return TopCommand::Quit,
            KeyPress::Char(letter @ ('c' | 'd' | 'a' | 'e' | 'l')) => return self.with_plan(letter),
            KeyPress::Enter => return self.with_plan('d'),
            KeyPress::Char(_) | KeyPress::Escape | KeyPress::Backspace | KeyPress::Interrupt => {}
        }
        TopCommand::Stay
    }

    fn with_plan(&mut self, letter: char) -> TopCommand {
        let Some(row) = self.chosen_row() else {
            self.message = "there is no plan to do that with".to_owned();
            return TopCommand::Stay;
        };
        let (id, short) = (row.id, row.short.clone());
        match letter {
            'e' => return TopCommand::Errors(id),
            'l' => return TopCommand::Logs(id),
            'd' if row.files > 0 => return TopCommand::Diff(id),
            'd' => self.message = format!("plan {short} has changed nothing"),
            'a' if row.can_apply => return TopCommand::Apply(id),
            'a' => self.message = format!("plan {short} cannot be applied: it is {}", row.state),
            'c' if row.can_cancel => self.mode = TopMode::AskCancel(id),
            _ => self.message = format!("plan {short} has ended: there is nothing to cancel"),
        }
        TopCommand::Stay
    }

    fn place(&self) -> usize {
        self.rows.iter().position(|row| Some(row.id) == self.chosen).unwrap_or(0)
    }

    fn go(&mut self, place: usize) {
        let last = self.rows.len().saturating_sub(1);
        self.chosen = self.rows.get(place.min(last)).map(|row| row.id);
    }

    fn chosen_row(&self) -> Option<&TopRow> {
        self.rows.iter().find(|row| Some(row.id) == self.chosen)
    }
}

impl Default for Top {
    fn default() -> Self {
        Top::new()
    }
}

#[cfg(test)]
mod tests;
