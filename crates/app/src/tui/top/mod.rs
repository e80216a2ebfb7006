//! Many plans on one screen: what is seen of each, and what the keys do.
//!
//! [`Top`] is a value that news and keys change; `draw` paints it, `rows` makes the rows. Whoever has the engine fulfils
//! the [`Wish`]es.
//!
//! # Invariants
//! 1. The cursor stays with its plan, wherever the plan moves in the table.
//! 2. Nothing is cancelled without a yes. Applying leads to the review, which is where one says yes.
//! 3. A key that can do nothing says why.

mod draw;
mod rows;

pub use draw::draw;
pub use rows::{Group, Row, Summary, breaker_words, breakers_json, rows, span, to_table, write_json};

use domain::PlanId;

use super::screen::Press;

/// What comes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
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
    /// What went wrong is to be shown.
    Errors(PlanId),
    /// What was printed is to be shown.
    Logs(PlanId),
}

/// What a page is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// What went wrong, from the beginning.
    Errors,
    /// What was printed, from the end.
    Logs,
}

/// Text that fills the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What it is about.
    pub kind: PageKind,
    /// Of which plan.
    pub plan: PlanId,
    /// Its head.
    pub title: String,
    /// Its lines, calm.
    pub lines: Vec<String>,
    /// How many lines lie below what is shown.
    below: usize,
}

/// What the keys mean at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The table.
    Table,
    /// The help.
    Help,
    /// Whether to cancel this plan.
    AskCancel(PlanId),
    /// Text.
    Page(Page),
}

/// The screen's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Top {
    rows: Vec<Row>,
    summary: Summary,
    chosen: Option<PlanId>,
    mode: Mode,
    message: String,
    /// How many lines of a page are shown at once.
    page_lines: usize,
}

impl Top {
    /// An empty one.
    pub fn new() -> Top {
        Top {
            rows: Vec::new(),
            summary: Summary::default(),
            chosen: None,
            mode: Mode::Table,
            message: String::new(),
            page_lines: 1,
        }
    }

    /// What is seen now.
    pub fn see(&mut self, rows: Vec<Row>, summary: Summary) {
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
            Mode::Page(page) if page.kind == kind && page.plan == plan => match page.below {
                0 => 0,
                // What is read stays in sight, though more comes below.
                below => below + lines.len().saturating_sub(page.lines.len()),
            },
            Mode::Page(_) | Mode::Table | Mode::Help | Mode::AskCancel(_) => match kind {
                PageKind::Errors => lines.len(),
                PageKind::Logs => 0,
            },
        };
        self.mode = Mode::Page(Page { kind, plan, title, lines, below });
        self.clamp();
    }

    /// The plan whose printed text is shown: it grows.
    pub fn shows_logs_of(&self) -> Option<PlanId> {
        match &self.mode {
            Mode::Page(page) if page.kind == PageKind::Logs => Some(page.plan),
            Mode::Page(_) | Mode::Table | Mode::Help | Mode::AskCancel(_) => None,
        }
    }

    /// The screen has so many lines.
    pub fn fit(&mut self, height: u16) {
        // A head, a foot and a frame.
        self.page_lines = usize::from(height.saturating_sub(4)).max(1);
        self.clamp();
    }

    fn clamp(&mut self) {
        if let Mode::Page(page) = &mut self.mode {
            page.below = page.below.min(page.lines.len().saturating_sub(self.page_lines));
        }
    }

    /// What a key does.
    pub fn press(&mut self, press: Press) -> Wish {
        self.message.clear();
        if press == Press::Interrupt {
            return Wish::Quit;
        }
        match std::mem::replace(&mut self.mode, Mode::Table) {
            Mode::Table => self.at_table(press),
            Mode::Help => Wish::Stay,
            Mode::AskCancel(plan) if matches!(press, Press::Char('y' | 'Y')) => Wish::Cancel(plan),
            Mode::AskCancel(_) => {
                self.message = "nothing was cancelled".to_owned();
                Wish::Stay
            }
            Mode::Page(page) => {
                self.at_page(page, press);
                Wish::Stay
            }
        }
    }

    fn at_page(&mut self, mut page: Page, press: Press) {
        let step = self.page_lines.saturating_sub(1).max(1);
        match press {
            Press::Char('q') | Press::Escape => return,
            Press::Char('k') | Press::Up => page.below = page.below.saturating_add(1),
            Press::Char('j') | Press::Down => page.below = page.below.saturating_sub(1),
            Press::PageUp => page.below = page.below.saturating_add(step),
            Press::PageDown | Press::Char(' ') => page.below = page.below.saturating_sub(step),
            Press::Char(_) | Press::Enter | Press::Backspace | Press::Interrupt => {}
        }
        self.mode = Mode::Page(page);
        self.clamp();
    }

    fn at_table(&mut self, press: Press) -> Wish {
        match press {
            Press::Char('j') | Press::Down => self.go(self.place().saturating_add(1)),
            Press::Char('k') | Press::Up => self.go(self.place().saturating_sub(1)),
            Press::PageDown => self.go(self.place().saturating_add(self.page_lines)),
            Press::PageUp => self.go(self.place().saturating_sub(self.page_lines)),
            Press::Char('?') => self.mode = Mode::Help,
            Press::Char('q') => return Wish::Quit,
            Press::Char(letter @ ('c' | 'd' | 'a' | 'e' | 'l')) => return self.with_plan(letter),
            Press::Enter => return self.with_plan('d'),
            Press::Char(_) | Press::Escape | Press::Backspace | Press::Interrupt => {}
        }
        Wish::Stay
    }

    fn with_plan(&mut self, letter: char) -> Wish {
        let Some(row) = self.chosen_row() else {
            self.message = "there is no plan to do that with".to_owned();
            return Wish::Stay;
        };
        let (id, short) = (row.id, row.short.clone());
        match letter {
            'e' => return Wish::Errors(id),
            'l' => return Wish::Logs(id),
            'd' if row.files > 0 => return Wish::Diff(id),
            'd' => self.message = format!("plan {short} has changed nothing"),
            'a' if row.can_apply => return Wish::Apply(id),
            'a' => self.message = format!("plan {short} cannot be applied: it is {}", row.state),
            'c' if row.can_cancel => self.mode = Mode::AskCancel(id),
            _ => self.message = format!("plan {short} has ended: there is nothing to cancel"),
        }
        Wish::Stay
    }

    fn place(&self) -> usize {
        self.rows.iter().position(|row| Some(row.id) == self.chosen).unwrap_or(0)
    }

    fn go(&mut self, place: usize) {
        let last = self.rows.len().saturating_sub(1);
        self.chosen = self.rows.get(place.min(last)).map(|row| row.id);
    }

    fn chosen_row(&self) -> Option<&Row> {
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
