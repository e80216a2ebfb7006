//! Paints the table of plans, and the panes over it.
//!
//! # Invariants
//! 1. Everything reads without colour: `>` is the cursor, `!` a conflict to come, states are words.
//! 2. On a narrow screen the least informative columns are left out; the pane below shows everything about
//!    the chosen plan.
//! 3. Text of plans cannot move the cursor: its control characters were escaped before it came here.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph};

use super::rows::{PlanGroup, TopRow, span};
use super::{Page, Top, TopMode};

const KEYS: &str = "j/k move  d diff  a apply  c cancel  l logs  e errors  ? help  q quit";
const PAGE_KEYS: &str = "j/k, page up/down scroll  q back";

const HELP: &str = "\
j, down    next plan              k, up  plan before
d, enter   what it changed        a      review it, apply what you take
l          what it prints         e      what went wrong
c          cancel it (asks)       q      quit; plans of workers continue

state      of the plan            does   its command, or what it waits for
time       in this state          files  number of changed files
clash ! 2  with two plans that are not applied yet it will be in conflict:
           both change the same lines, or one deletes what the other changes;
           the first one applied wins

any key goes back";

/// The pane below is left out on screens that are lower.
const PANE_FROM_LINES: u16 = 16;
const PANE_LINES: u16 = 6;
/// From here on there is room for worker and project.
const WIDE_FROM_COLUMNS: u16 = 110;

/// Paints the whole screen.
pub fn draw(top: &Top, with_colour: bool, frame: &mut Frame<'_>) {
    let rows = Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)]);
    let [head, body, foot] = rows.areas(frame.area());
    let palette = TopPalette { with_colour };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Line::styled(format!("agents top  {}", top.summary.line()), bold), head);
    match &top.mode {
        TopMode::Help => frame.render_widget(Paragraph::new(HELP).block(block("help")), body),
        TopMode::Page(page) => draw_page(page, frame, body),
        TopMode::Table | TopMode::AskCancel(_) => draw_table(top, palette, frame, body),
    }
    let style = match top.mode {
        TopMode::AskCancel(_) => palette.of(Color::Yellow).add_modifier(Modifier::BOLD),
        TopMode::Table | TopMode::Help | TopMode::Page(_) => Style::new(),
    };
    frame.render_widget(Line::styled(foot_line(top), style), foot);
}

fn foot_line(top: &Top) -> String {
    match &top.mode {
        TopMode::AskCancel(_) => {
            let row =
                top.chosen_row().map(|row| format!("{} ({})", row.short, row.title)).unwrap_or_default();
            format!("cancel plan for good? y/n   {row}")
        }
        _ if !top.message.is_empty() => top.message.clone(),
        TopMode::Page(_) => PAGE_KEYS.to_owned(),
        TopMode::Table | TopMode::Help => KEYS.to_owned(),
    }
}

fn block(title: &str) -> Block<'_> {
    Block::new().borders(Borders::ALL).title(title)
}

#[derive(Clone, Copy)]
struct TopPalette {
    with_colour: bool,
}

impl TopPalette {
    fn of(self, color: Color) -> Style {
        if self.with_colour { Style::new().fg(color) } else { Style::new() }
    }

    fn group(self, row: &TopRow) -> Style {
        match row.group {
            PlanGroup::NeedsYou if is_bad(row.state) => self.of(Color::Red),
            PlanGroup::Running => self.of(Color::Cyan),
            PlanGroup::NeedsYou => self.of(Color::Yellow),
            PlanGroup::Queued => Style::new(),
            PlanGroup::Ended => self.of(Color::DarkGray),
        }
    }
}

fn draw_page(page: &Page, frame: &mut Frame<'_>, area: Rect) {
    let height = usize::from(area.height.saturating_sub(2)).max(1);
    let end = page.lines.len().saturating_sub(page.below);
    let first = end.saturating_sub(height);
    let lines = page.lines.iter().skip(first).take(height).map(|line| Line::raw(line.replace('\t', "    ")));
    let paragraph = Paragraph::new(lines.collect::<Vec<_>>());
    frame.render_widget(paragraph.block(block(&page.title)), area);
}

fn draw_table(top: &Top, palette: TopPalette, frame: &mut Frame<'_>, area: Rect) {
    if top.rows.is_empty() {
        frame.render_widget(Paragraph::new(top.summary.nothing()), inner(area));
        return;
    }
    let pane = if area.height >= PANE_FROM_LINES { PANE_LINES } else { 0 };
    let [table, below] = Layout::vertical([Constraint::Min(1), Constraint::Length(pane)]).areas(area);
    let columns = Columns::fit(&top.rows, area.width);
    let height = usize::from(table.height.saturating_sub(1)).max(1);
    let first = top.place().saturating_sub(height.saturating_sub(1));
    let head = Line::styled(columns.head(), palette.of(Color::DarkGray));
    let mut lines = vec![head];
    for row in top.rows.iter().skip(first).take(height) {
        let is_here = Some(row.id) == top.chosen;
        let style = palette.group(row);
        let text = columns.line(row, if is_here { '>' } else { ' ' });
        lines.push(Line::styled(text, if is_here { style.add_modifier(Modifier::BOLD) } else { style }));
    }
    frame.render_widget(Paragraph::new(lines), table);
    if let Some(row) = top.chosen_row().filter(|_| pane > 0) {
        draw_pane(row, frame, below);
    }
}

/// A margin of one line and two columns, where there is room for it.
fn inner(area: Rect) -> Rect {
    let (x, y) = (area.x + 2.min(area.width), area.y + 1.min(area.height));
    Rect { x, y, width: area.width.saturating_sub(2), height: area.height.saturating_sub(1) }
}

fn draw_pane(row: &TopRow, frame: &mut Frame<'_>, area: Rect) {
    let mut lines = vec![row.title.clone()];
    let worker = row.worker.as_ref().map(|worker| format!(", worker {worker}")).unwrap_or_default();
    let does = if row.does.is_empty() { String::new() } else { format!(", {}", row.does) };
    lines.push(format!("{} for {}, on {}{worker}{does}", row.state, span(row.since_ms), row.project));
    let conflicts = row.met.iter().filter(|met| met.is_conflict());
    let others = row.met.iter().filter(|met| !met.is_conflict());
    lines.extend(conflicts.chain(others).map(|met| met.line()));
    let room = usize::from(PANE_LINES.saturating_sub(2));
    if lines.len() > room {
        let more = lines.len() - (room - 1);
        lines.truncate(room - 1);
        lines.push(format!("… and {more} more plans change the same files"));
    }
    let title = format!("plan {}", row.short);
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::raw).collect();
    frame.render_widget(Paragraph::new(lines).block(block(&title)), area);
}

/// Returns whether the state is one that something went wrong in.
fn is_bad(state: &str) -> bool {
    ["failed", "check failed", "apply failed", "conflict", "interrupted"].contains(&state)
}

/// The widths of the columns, so that they stay where they are while plans go on.
struct Columns {
    title: usize,
    does: usize,
    is_wide: bool,
}

const STATE: usize = 13;
const TITLE_MIN: usize = 12;
const DOES_MIN: usize = 13;
/// The columns of all but plan, title and does, with the cursor and the gaps.
const TAKEN: usize = 1 + STATE + TIME + FILES + CLASH + 6 * 2;
const TIME: usize = 6;
const FILES: usize = 5;
const CLASH: usize = 5;
const WORKER: usize = 6;
const PROJECT: usize = 16;

impl Columns {
    fn fit(rows: &[TopRow], width: u16) -> Columns {
        let plan = rows.iter().map(|row| row.short.len()).max().unwrap_or(0).max("PLAN".len());
        let is_wide = width >= WIDE_FROM_COLUMNS;
        let more = if is_wide { WORKER + PROJECT + 2 * 2 } else { 0 };
        // What is left is shared by the title and what the plan does.
        let room = usize::from(width).saturating_sub(TAKEN + plan + more);
        let does = (room / 2).max(DOES_MIN);
        Columns { title: room.saturating_sub(does).max(TITLE_MIN), does, is_wide }
    }

    fn head(&self) -> String {
        self.cells(' ', ["TITLE", "STATE", "DOES", "TIME", "FILES", "CLASH", "WORKER", "PROJECT", "PLAN"])
    }

    fn line(&self, row: &TopRow, cursor: char) -> String {
        let (time, files, clash) = (span(row.since_ms), row.files.to_string(), row.conflicts_shown());
        let worker = row.worker.as_deref().unwrap_or("");
        let cells =
            [&row.title, row.state, &row.does, &time, &files, &clash, worker, &row.project, &row.short];
        self.cells(cursor, cells)
    }

    fn cells(&self, cursor: char, cells: [&str; 9]) -> String {
        let [title, state, does, time, files, clash, worker, project, plan] = cells;
        let (title_columns, does_columns) = (self.title, self.does);
        let (title, does, project) =
            (cut(title, title_columns), cut(does, does_columns), cut(project, PROJECT));
        let mut text = format!(
            "{cursor}{title:<title_columns$}  {state:<STATE$}  {does:<does_columns$}  {time:>TIME$}  {files:>FILES$}  {clash:<CLASH$}"
        );
        if self.is_wide {
            text.push_str(&format!("  {worker:<WORKER$}  {project:<PROJECT$}"));
        }
        format!("{text}  {plan}").trim_end().to_owned()
    }
}

fn cut(text: &str, columns: usize) -> String {
    crate::output::one_line_of(text, columns)
}
