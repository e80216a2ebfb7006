//! `run --for-each`: a plan for every line of a file, all of them left to the workers.
//!
//! # Invariants
//! 1. All lines are read, and held against the argument that they are given for, before the first plan is
//!    made. A file that cannot be read makes none, nor does one with a line that is no value.
//! 2. The first plan that cannot be made ends it, as a signal does. None is begun any more, and all that were
//!    made or are on their way are reported.
//! 3. A line is bytes, as a file name is; inside a text, it is text.
//! 4. It reaches the actor of the plan: as `$ITEM`, as `{{item}}`, or at the end of the task if nothing names
//!    it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::{ByteText, PlanId};
use engine::{Engine, NewPlanRequest};
use futures_util::{StreamExt, stream};
use serde_json::json;
use store::PlanFilter;

use super::definition_source::PlanSource;
use super::plan_args::PendingPlan;
use super::signals::StopSignals;
use super::{Invocation, detach};
use crate::errors::{CommandError, codes, from_engine, hints};
use crate::output::CommandReport;
use crate::setup::text_file;

/// The variable in which a command finds its line.
const ITEM: &str = "ITEM";
/// So many plans are made at once, so that they share the disk's time.
const AT_ONCE: usize = 256;
/// The number of bytes that are read: more than the largest number of waiting plans needs.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The number of unusable lines that are reported.
const WRONG_SHOWN_MAX: usize = 20;
/// So many are named to programs.
const WRONG_NAMED_MAX: usize = 1000;
/// The characters of a batch's name besides letters and digits.
const BATCH_MARKS: [char; 3] = ['-', '_', '.'];
/// The maximum number of characters of a batch's name.
const BATCH_CHARS_MAX: usize = 64;
/// So many of them are those of the file.
const BATCH_STEM_CHARS: usize = 40;
/// So many names are tried.
const BATCH_NUMBERS_MAX: usize = 1000;
/// The kernel's bound of one variable, less its name and its end.
const LINE_BYTES_MAX: usize = 128 * 1024 - "ITEM=".len() - 1;

/// The name of a batch, as it was typed.
pub(super) fn batch_name(text: &str) -> Result<String, String> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || BATCH_MARKS.contains(&letter);
    let begins = text.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    if begins && text.len() <= BATCH_CHARS_MAX && text.chars().all(is_allowed) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "a name has 1 to {BATCH_CHARS_MAX} letters, digits, `-`, `_` and `.`, and begins with a letter or a digit"
    ))
}

pub(super) async fn detach_all(
    items: &[ByteText],
    asked: &PendingPlan,
    batch: &str,
    invocation: &Invocation,
    engine: &Engine,
) -> Result<CommandReport, CommandError> {
    let is_over = AtomicBool::new(false);
    let made = stream::iter(items.iter().map(|item| {
        let is_over = &is_over;
        async move {
            // What has not begun when another failed does not begin.
            if is_over.load(Ordering::Relaxed) {
                return None;
            }
            let made = match for_item(asked, item, invocation) {
                Ok(request) => {
                    let made = engine.use_and_leave(request).await;
                    made.map_err(|error| from_engine::use_plan(&error))
                }
                Err(failure) => Err(failure),
            };
            is_over.fetch_or(made.is_err(), Ordering::Relaxed);
            Some(made)
        }
    }));
    let mut stops = StopSignals::listen();
    let mut plans: Vec<PlanId> = Vec::with_capacity(items.len());
    let mut keys = BTreeSet::new();
    let mut made = std::pin::pin!(made.buffered(AT_ONCE));
    let mut outcome = Ok(());
    // To its end, whatever happens: those that are on their way are made, and are reported.
    loop {
        let next = tokio::select! {
            next = made.next() => next,
            _ = stops.next() => {
                if is_over.swap(true, Ordering::Relaxed) {
                    // Asked twice: those that are still on their way are not waited for.
                    break;
                }
                outcome = Err(CommandError::new(&codes::CANCELLED, "interrupted: no more plans are created")
                    .hint(hints::CANCEL_QUEUED));
                continue;
            }
        };
        match next {
            None => break,
            Some(None) => {}
            Some(Some(Ok(plan))) => {
                keys.extend(plan.spec.keys.iter().cloned());
                plans.push(plan.id);
            }
            Some(Some(Err(failure))) => outcome = outcome.and(Err(failure)),
        }
    }
    let started = match plans.is_empty() {
        true => Ok(false),
        false => detach::start_worker(invocation, engine, &keys).await,
    };
    let is_started = matches!(started, Ok(true));
    // They are made all the same, and wait.
    let outcome = outcome.and(started.map(drop));
    let how = if is_started { "a worker that was started for them" } else { "the workers" };
    let many = if plans.len() == 1 { "1 plan is".to_owned() } else { format!("{} plans are", plans.len()) };
    let text = format!(
        "batch {batch}: {many} left to {how}\nnext  agents list --batch {batch}     agents top     agents apply --batch {batch}\n"
    );
    let data = json!({
        "batch": batch, "plans": plans, "asked": items.len(), "worker_started": is_started,
    });
    let report = CommandReport::new(data, text);
    Ok(match outcome {
        Ok(()) => report,
        Err(failure) => report.failed(failure),
    })
}

/// The lines of a file that are not empty.
pub(super) struct NonEmptyLines {
    /// The file, as it was typed.
    file: String,
    /// The content of each line.
    pub(super) items: Vec<ByteText>,
    /// The number of each line, from 1; as many as there are items.
    numbers: Vec<usize>,
}

impl NonEmptyLines {
    /// Returns a name for the batch of these lines that no batch of the project has: that of the file, or the
    /// same with a number.
    ///
    /// # Errors
    /// Returns an error if the store failed.
    pub(super) async fn unused_batch(
        &self,
        engine: &Engine,
        root: Option<&[u8]>,
    ) -> Result<String, CommandError> {
        let stem = Path::new(&self.file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let is_part = |letter: &char| letter.is_ascii_alphanumeric() || BATCH_MARKS.contains(letter);
        let stem: String = stem.unwrap_or_default().chars().filter(is_part).take(BATCH_STEM_CHARS).collect();
        let stem = match stem.trim_start_matches(BATCH_MARKS) {
            "" => "batch",
            named => named,
        };
        for number in 1..BATCH_NUMBERS_MAX {
            let name = if number == 1 { stem.to_owned() } else { format!("{stem}-{number}") };
            let root = root.map(<[u8]>::to_vec);
            let filter = PlanFilter { root, batch: Some(name.clone()), limit: 1, ..PlanFilter::default() };
            let found = engine.store().newest_plans(&filter).await;
            if found.map_err(|error| from_engine::store(&error))?.is_empty() {
                return Ok(name);
            }
        }
        // More of one name than anybody makes: they are one batch.
        Ok(stem.to_owned())
    }

    /// Refuses lines that are no values of the argument that they are given for.
    ///
    /// # Errors
    /// Returns an error if there are some: it names them with their numbers.
    pub(super) fn check(&self, source: &PlanSource) -> Result<(), CommandError> {
        let lines = self.numbers.iter().zip(&self.items);
        let wrong =
            |(number, item): (&usize, &ByteText)| Some((*number, source.wrong_item(&item.to_string())?));
        let wrong: Vec<(usize, String)> = lines.filter_map(wrong).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let many = if wrong.len() == 1 { "1 line".to_owned() } else { format!("{} lines", wrong.len()) };
        let message = format!("{many} of `--for-each {}` cannot be used, so no plan is made", self.file);
        let lines_shown =
            wrong.iter().take(WRONG_SHOWN_MAX).map(|(number, why)| format!("line {number}: {why}"));
        let more = wrong.len().checked_sub(WRONG_SHOWN_MAX).filter(|more| *more > 0);
        let lines_shown = lines_shown.chain(more.map(|more| format!("and {more} more")));
        let numbers: Vec<usize> = wrong.iter().map(|(number, _)| *number).take(WRONG_NAMED_MAX).collect();
        let failure = lines_shown.fold(CommandError::new(&codes::ARG_INVALID, message), CommandError::line);
        let detail = json!({ "lines": numbers, "wrong": wrong.len() });
        Err(failure.detail(detail).hint(hints::CORRECT_LINES))
    }
}

/// Reads the lines of a file.
pub(super) fn read(file: &Path, invocation: &Invocation) -> Result<NonEmptyLines, CommandError> {
    let cannot = |why: String| {
        CommandError::new(&codes::USAGE, format!("`--for-each {}` cannot be read: {why}", file.display()))
            .hint(hints::FOR_EACH_FILE)
    };
    let read = if file == Path::new("-") {
        text_file::read_from(std::io::stdin().lock(), BYTES_MAX)
    } else {
        text_file::read(&invocation.here.join(file), BYTES_MAX)
    };
    let (numbers, items) = lines(&read.map_err(|error| cannot(error.to_string()))?).map_err(cannot)?;
    if items.is_empty() {
        return Err(CommandError::new(&codes::USAGE, format!("`--for-each {}` has no line", file.display()))
            .hint(hints::FOR_EACH_LINES));
    }
    Ok(NonEmptyLines { file: file.display().to_string(), items, numbers })
}

/// The lines that are not empty, behind their numbers. Each has to fit into a variable.
fn lines(bytes: &[u8]) -> Result<(Vec<usize>, Vec<ByteText>), String> {
    let (mut numbers, mut items) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.contains(&0) {
            return Err(format!("line {number} has a NUL in it, which no variable can hold"));
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(format!(
                "line {number} is longer than the {LINE_BYTES_MAX} bytes that a variable can hold"
            ));
        }
        if !line.is_empty() {
            numbers.push(number);
            items.push(ByteText(line.to_vec()));
        }
    }
    Ok((numbers, items))
}

/// The plan for one line.
fn for_item(
    asked: &PendingPlan,
    item: &ByteText,
    invocation: &Invocation,
) -> Result<NewPlanRequest, CommandError> {
    let mut request = asked.for_item(item, invocation)?;
    for step in &mut request.spec.steps {
        if let Some(task) = step.command_mut() {
            task.set_variable(ITEM, item);
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_bytes_that_a_variable_can_hold() {
        let (numbers, items) = lines(b"one\r\n\n\xff two\n").unwrap();
        assert_eq!(numbers, [1, 3]);
        assert_eq!(items, [ByteText(b"one".to_vec()), ByteText(b"\xff two".to_vec())]);
        assert!(lines(b"fine\na\0b\n").unwrap_err().starts_with("line 2 has a NUL"));
        assert_eq!(lines(&vec![b'x'; LINE_BYTES_MAX]).unwrap().0, [1]);
        assert!(lines(&vec![b'x'; LINE_BYTES_MAX + 1]).unwrap_err().starts_with("line 1 is longer"));
    }
}
