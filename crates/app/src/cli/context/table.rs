//! A receipt as people read it.
//!
//! # Invariants
//! What a file's name holds cannot forge a line or move the cursor.

use domain::context::{BudgetLine, IncludedLine, MoreLine, Receipt, StrategyLine, StrategyOutcome};

use crate::output::{OutputStyle, escape_control_chars};

/// The short names of the strategies.
const SHORT: [(&str, &str); 6] = [
    ("arce", "arce"),
    ("breadth-depth-navigator", "graph"),
    ("plan-decision-context", "plan"),
    ("semantic-embedding", "semantic"),
    ("simple-keyword", "keyword"),
    ("temporal-archaeology", "history"),
];

/// The alignment of a column's cells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnAlignment {
    Left,
    Right,
}

/// The receipt in lines.
pub(super) fn render_receipt(receipt: &Receipt, aliases: &[String], style: &OutputStyle) -> String {
    let mut text = head(receipt);
    let strategies = receipt.strategies.iter().map(strategy).collect();
    text.push_str(&columns(
        &["strategy", "confidence", "weight", "proposed", "time", "outcome"],
        &[
            ColumnAlignment::Left,
            ColumnAlignment::Right,
            ColumnAlignment::Right,
            ColumnAlignment::Right,
            ColumnAlignment::Right,
            ColumnAlignment::Left,
        ],
        strategies,
        style,
    ));
    if !receipt.included.is_empty() {
        let files = receipt.included.iter().map(|line| file(line, aliases)).collect();
        text.push_str(&columns(
            &["score", "depth", "tokens", "path", "why"],
            &[
                ColumnAlignment::Right,
                ColumnAlignment::Left,
                ColumnAlignment::Right,
                ColumnAlignment::Left,
                ColumnAlignment::Left,
            ],
            files,
            style,
        ));
    }
    text.push_str(&more(&receipt.included_more));
    text.push_str(&left_out(receipt));
    text
}

/// Returns a line for the included files that have no line of their own.
fn more(more: &MoreLine) -> String {
    let MoreLine { files, tokens } = more;
    let s = if *files == 1 { "" } else { "s" };
    if *files == 0 { String::new() } else { format!("and {files} more file{s}, {tokens} tokens\n") }
}

/// Returns the words after an incomplete number of files: whether the next time brings more. A note gives the
/// reason.
pub(super) fn missing(is_partial: bool, is_unfinished: bool) -> &'static str {
    match (is_partial, is_unfinished) {
        (false, _) => "",
        (true, true) => ", not all of them yet",
        (true, false) => ", not all of them",
    }
}

fn head(receipt: &Receipt) -> String {
    let index = &receipt.index;
    let partial = missing(index.partial, index.unfinished);
    let mut text = format!(
        "index   {} files, {} changed, {} ms{partial}      history {} commits      counter {}\n",
        index.files,
        index.changed,
        index.ms,
        index.commits,
        escape_control_chars(&receipt.counter)
    );
    let BudgetLine { window: _, total, preamble, skeleton, decisions, files, free } = receipt.budget;
    let unless_none = |what: &str, tokens: u32| match tokens {
        0 => String::new(),
        1.. => format!(" + {what} {tokens}"),
    };
    text.push_str(&format!(
        "budget  {total} = preamble {preamble}{}{} + files {files} + free {free}\n",
        unless_none("skeleton", skeleton),
        unless_none("decisions", decisions)
    ));
    text
}

fn strategy(line: &StrategyLine) -> Vec<String> {
    let has_run = match &line.outcome {
        StrategyOutcome::Ok
        | StrategyOutcome::Empty
        | StrategyOutcome::Failed(_)
        | StrategyOutcome::Panicked(_)
        | StrategyOutcome::TimedOut => true,
        StrategyOutcome::Unavailable(_)
        | StrategyOutcome::Open { .. }
        | StrategyOutcome::NotStarted
        | StrategyOutcome::Hung => false,
    };
    let when = |is_so: bool, text: String| if is_so { text } else { "-".to_owned() };
    vec![
        line.name.to_string(),
        when(line.confidence > 0.0, format!("{:.2}", line.confidence)),
        format!("{:.2}", line.weight),
        when(has_run, line.proposed.to_string()),
        when(has_run, format!("{} ms", line.ms)),
        escape_control_chars(&line.outcome.to_string()).replace('\n', " "),
    ]
}

fn file(line: &IncludedLine, aliases: &[String]) -> Vec<String> {
    let depth = match line.full_parts {
        0 => line.depth.to_string(),
        full if full == line.parts => line.depth.to_string(),
        full => format!("{} {full}/{}", line.depth, line.parts),
    };
    let path = match aliases.get(usize::from(line.place.project.0)) {
        Some(alias) if aliases.len() > 1 => format!("{alias}:{}", line.place.path),
        Some(_) | None => line.place.path.to_string(),
    };
    let short = |name: &str| {
        let known = SHORT.iter().find(|(long, _)| *long == name);
        known.map_or_else(|| name.to_owned(), |(_, short)| (*short).to_owned())
    };
    let why: Vec<String> =
        line.why.iter().map(|(name, share)| format!("{} {share:.2}", short(name))).collect();
    vec![
        format!("{:.2}", line.score),
        depth,
        line.tokens.to_string(),
        escape_control_chars(&path),
        why.join(", "),
    ]
}

fn left_out(receipt: &Receipt) -> String {
    let all: u32 = receipt.excluded_by.values().sum();
    let mut text = match all {
        0 => "nothing was left out\n".to_owned(),
        all => {
            let mut counts: Vec<(u32, &str)> =
                receipt.excluded_by.iter().map(|(reason, count)| (*count, reason.as_str())).collect();
            counts.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
            let counts: Vec<String> =
                counts.iter().map(|(count, reason)| format!("{count} {reason}")).collect();
            format!("left out {all}: {}\n", counts.join(", "))
        }
    };
    if receipt.redacted > 0 {
        text.push_str(&format!("secrets were taken out of {} files\n", receipt.redacted));
    }
    text
}

/// Lines of cells under a head, two spaces between columns; nothing is cut but the last column, at the
/// screen's end.
fn columns(head: &[&str], sides: &[ColumnAlignment], rows: Vec<Vec<String>>, style: &OutputStyle) -> String {
    let head: Vec<String> = head.iter().map(|word| (*word).to_owned()).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&head]).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).zip(sides).map(|((cell, width), side)| {
            let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
            match side {
                ColumnAlignment::Left => format!("{cell}{gap}"),
                ColumnAlignment::Right => format!("{gap}{cell}"),
            }
        });
        let text = cells.collect::<Vec<_>>().join("  ");
        style.cut(text.trim_end(), 0)
    };
    let mut text = style.paint.dim(&line(&head)) + "\n";
    for row in &rows {
        text.push_str(&line(row));
        text.push('\n');
    }
    text
}
