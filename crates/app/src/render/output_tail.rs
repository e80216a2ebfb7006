//! The last lines of what failed: a command of the plan, or its checks.
//!
//! # Invariants
//! 1. The lines lost their secrets where the output was stored, and are bounded there.
//! 2. Text is escaped before it is cut to the screen.

use domain::{ErrorRecord, ValidationOutcome, ValidationResult};
use engine::PlanDetails;

use super::failure::{failed_call, last_error};
use crate::output::{OutputStyle, escape_control_chars, one_line};

/// The number of lines that are shown.
const LINES_MAX: usize = 10;
/// The number of failed checks whose lines are shown.
const CHECKS_MAX: usize = 3;
/// The columns before a line.
const INDENT: usize = 4;

/// Returns the last lines that the failed call of an error printed; none if it printed nothing.
pub fn of_error(record: &ErrorRecord, details: &PlanDetails) -> Vec<String> {
    let end = failed_call(record, details);
    last_lines(end.and_then(|end| end.result["last_words"].as_str()).unwrap_or_default())
}

/// Returns the last lines that a check printed.
pub fn of_check(result: &ValidationResult) -> Vec<String> {
    last_lines(&result.message)
}

/// The last lines of what failed, for people; empty if nothing did, or it printed nothing.
pub fn to_text(details: &PlanDetails, style: &OutputStyle) -> String {
    if let Some(record) = last_error(details) {
        return block(&of_error(record, details), style);
    }
    let failed: Vec<&ValidationResult> = failed_checks(details).take(CHECKS_MAX).collect();
    let is_one = failed.len() == 1;
    let mut text = String::new();
    for result in failed {
        let lines = of_check(result);
        if !is_one && !lines.is_empty() {
            text.push_str(&format!("  {}:\n", escape_control_chars(&one_line(&result.validation))));
        }
        text.push_str(&block(&lines, style));
    }
    text
}

/// Returns the required checks that failed on the present changes.
pub fn failed_checks(details: &PlanDetails) -> impl Iterator<Item = &ValidationResult> {
    let is_named = |result: &&ValidationResult| details.validations.failed.contains(&result.validation);
    let failed = details.check_results().into_iter().filter(is_named);
    failed.filter(|result| result.outcome != ValidationOutcome::Passed)
}

fn last_lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines.iter().skip(lines.len().saturating_sub(LINES_MAX)).map(|line| (*line).to_owned()).collect()
}

/// The lines below each other, cut to the screen.
pub fn block(lines: &[String], style: &OutputStyle) -> String {
    let paint = style.paint;
    let line = |line: &String| {
        let shown = style.cut(&escape_control_chars(line).replace('\t', "    "), INDENT);
        format!("  {}\n", paint.dim(&format!("| {shown}")))
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{ColorWhen, Format};

    #[test]
    fn the_last_lines_fit_the_screen_and_are_calm() {
        let text: String = (1..=12).map(|no| format!("line {no}\n\n")).collect();
        let lines = last_lines(&text);
        assert_eq!((lines.len(), lines[0].as_str(), lines[9].as_str()), (10, "line 3", "line 12"));
        let mut style = OutputStyle::find(Some(Format::Plain), ColorWhen::Never, |_| None);
        style.width = Some(20);
        let shown = block(&["\x1b[31mred\tand much longer".to_owned()], &style);
        assert_eq!(shown, "  | \\x1B[31mred    …\n");
        assert_eq!(last_lines(""), Vec::<String>::new());
    }
}
