//! Notes of a person on places of a plan's changes; a revision sends the open ones to the actor.
//!
//! A note is a decision: its question is the place, its choice the text, its rationale the lines on which
//! it was written. It is resolved when a later guidance or resolution depends on it.
//!
//! # Invariants
//! 1. A note names a place that the changes had when it was written, and stores the lines of that place.
//! 2. After a revision a note is shown at the lines on which it was written, or as outdated; it never
//!    moves to other lines.
//!
//! # Not here
//! Sending them: `revise`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use domain::{Decision, DecisionKind, NewDecision, Phase, PlanId};
use store::{DecisionStoreError, PlanStoreError, StoreError};

use super::guidance::GUIDANCE_BYTES_MAX;
use crate::engine::Engine;
use crate::query::diff::{DiffRequest, FileDiff};

/// The rationale of a decision that resolves notes.
const RESOLVED: &str = "resolved";
/// The number of lines that a note stores at most.
const LINES_MAX: u32 = 100;

/// A place in the changes of a plan: `PATH#HUNK`, `PATH:LINE`, `PATH:FIRST-LAST`, or the same with `-` before it
/// for lines of the old file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotePlace {
    /// The address of the file, as `plan diff` prints it.
    pub file: String,
    /// The lines.
    pub lines: NoteLines,
}

/// The lines of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteLines {
    /// A hunk, by its number from 1.
    Hunk(usize),
    /// Lines of the new file, from 1.
    New(u32, u32),
    /// Lines of the old file.
    Old(u32, u32),
}

/// A text that is no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a place in a diff: write PATH#HUNK, PATH:LINE or PATH:FIRST-LAST (-PATH:LINE for an old line)"
)]
pub struct NotePlaceError {
    /// The text.
    pub text: String,
}

impl FromStr for NotePlace {
    type Err = NotePlaceError;

    fn from_str(text: &str) -> Result<NotePlace, NotePlaceError> {
        let unfit = || NotePlaceError { text: text.to_owned() };
        let (is_old, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        // The lines first: the name of a file may have a `#`.
        if let Some((file, (first, last))) = rest.rsplit_once(':').and_then(|(file, lines)| {
            let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
            Some((file, (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?)))
        }) {
            if file.is_empty() || first == 0 || last < first {
                return Err(unfit());
            }
            let lines = if is_old { NoteLines::Old(first, last) } else { NoteLines::New(first, last) };
            return Ok(NotePlace { file: file.to_owned(), lines });
        }
        let (file, number) = text.rsplit_once('#').ok_or_else(unfit)?;
        let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(unfit)?;
        Ok(NotePlace { file: file.to_owned(), lines: NoteLines::Hunk(number) })
    }
}

impl fmt::Display for NotePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |first: u32, last: u32| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        match self.lines {
            NoteLines::Hunk(number) => write!(f, "{}#{number}", self.file),
            NoteLines::New(first, last) => write!(f, "{}:{}", self.file, range(first, last)),
            NoteLines::Old(first, last) => write!(f, "-{}:{}", self.file, range(first, last)),
        }
    }
}

/// The reason why a note was not written or resolved.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// There is nothing in it, or too much.
    #[error("a note has from 1 to {GUIDANCE_BYTES_MAX} bytes, this one has {bytes}")]
    Length {
        /// The number of bytes.
        bytes: usize,
    },
    /// The plan did not change such a file, or not at such lines.
    #[error("the changes have no place {place}: {why}")]
    NoSuchPlace {
        /// The place.
        place: String,
        /// The reason.
        why: String,
    },
    /// There is no such open note.
    #[error("there is no open note {number}")]
    NoSuchNote {
        /// Its number.
        number: u32,
    },
    /// It was not recorded.
    #[error(transparent)]
    Decision(#[from] DecisionStoreError),
    /// The plan cannot be read.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
}

impl From<StoreError> for NoteError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

/// A note with the place at which it is shown now.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedNote {
    /// The note. Its number is that of the decision.
    pub note: Decision,
    /// True if it was sent or resolved.
    pub is_resolved: bool,
    /// True if the lines on which it was written are no longer in the changes.
    pub is_outdated: bool,
    /// The place at which its lines are now; the one at which they were if it is outdated.
    pub place: String,
}

impl Engine {
    /// Records a note on a place of the plan's present changes.
    ///
    /// # Errors
    /// Returns an error, and records nothing, if there is no such place.
    pub async fn add_note(&self, id: PlanId, place: &NotePlace, text: &str) -> Result<Decision, NoteError> {
        let text = text.trim();
        if text.is_empty() || text.len() > GUIDANCE_BYTES_MAX {
            return Err(NoteError::Length { bytes: text.len() });
        }
        let lines = self.lines_at(id, place).await?;
        let redact = |text: &str| self.inner.redactor.redact_text(text);
        let note = NewDecision {
            question: place.to_string(),
            rationale: redact(&lines),
            ..NewDecision::new(1, Phase::Execute, DecisionKind::Note, redact(text))
        };
        Ok(self.inner.store.add_guidance(id, note).await?)
    }

    /// Marks an open note as resolved.
    ///
    /// # Errors
    /// Returns an error if there is no such open note.
    pub async fn resolve_note(&self, id: PlanId, number: u32) -> Result<(), NoteError> {
        let open = open_notes(&self.inner.store.decisions(id).await?);
        if !open.iter().any(|note| note.seq == number) {
            return Err(NoteError::NoSuchNote { number });
        }
        let resolution = NewDecision {
            question: "Is the note settled?".to_owned(),
            rationale: RESOLVED.to_owned(),
            depends_on: vec![number],
            ..NewDecision::new(1, Phase::Execute, DecisionKind::Note, "resolved by a person")
        };
        self.inner.store.add_guidance(id, resolution).await?;
        Ok(())
    }

    /// Returns the notes of a plan, in order, each with its present place.
    ///
    /// # Errors
    /// Returns an error if the plan cannot be read.
    pub async fn notes(&self, id: PlanId) -> Result<Vec<PlacedNote>, PlanStoreError> {
        let decisions = self.inner.store.decisions(id).await?;
        let resolved = resolved(&decisions);
        let notes: Vec<&Decision> = decisions.iter().filter(|decision| is_note(decision)).collect();
        if notes.is_empty() {
            return Ok(Vec::new());
        }
        let files = self.diff(id, &DiffRequest::default()).await?.files;
        let placed = notes.into_iter().map(|note| {
            let now = note
                .new
                .question
                .parse()
                .ok()
                .and_then(|place| place_now(&files, &place, &note.new.rationale));
            PlacedNote {
                is_resolved: resolved.contains(&note.seq),
                is_outdated: now.is_none(),
                place: now.map_or_else(|| note.new.question.clone(), |place: NotePlace| place.to_string()),
                note: note.clone(),
            }
        });
        Ok(placed.collect())
    }

    /// Returns the lines of a place in the present changes.
    async fn lines_at(&self, id: PlanId, place: &NotePlace) -> Result<String, NoteError> {
        let no_such = |why: &str| NoteError::NoSuchPlace { place: place.to_string(), why: why.to_owned() };
        let files = self.diff(id, &DiffRequest::default()).await?.files;
        let file = files.iter().find(|file| file.address == place.file);
        let file = file.ok_or_else(|| no_such("the plan did not change this file"))?;
        lines_of(file, place.lines).ok_or_else(|| no_such("it has no such lines"))
    }
}

/// Returns the lines of a place; `None` if the file has no such lines.
fn lines_of(file: &FileDiff, lines: NoteLines) -> Option<String> {
    let cut = |text: &Option<Vec<u8>>, first: u32, last: u32| {
        let text = String::from_utf8_lossy(text.as_deref()?);
        let all: Vec<&str> = text.lines().collect();
        let (from, to) = (first as usize - 1, last.min(first.saturating_add(LINES_MAX)) as usize);
        let lines = all.get(from..to.min(all.len()))?;
        (!lines.is_empty() && last as usize <= all.len()).then(|| lines.join("\n"))
    };
    match lines {
        NoteLines::New(first, last) => cut(&file.after, first, last),
        NoteLines::Old(first, last) => cut(&file.before, first, last),
        NoteLines::Hunk(number) => {
            let hunk = file.hunks.get(number.checked_sub(1)?)?;
            Some(crate::query::diff::hunk_text(hunk))
        }
    }
}

/// Returns where the lines of a note are now: at the same place, or at the only other one; `None` if they are gone.
fn place_now(files: &[FileDiff], place: &NotePlace, written_on: &str) -> Option<NotePlace> {
    let file = files.iter().find(|file| file.address == place.file)?;
    if lines_of(file, place.lines).as_deref() == Some(written_on) {
        return Some(place.clone());
    }
    let moved = |text: &Option<Vec<u8>>, count: usize| {
        let text = String::from_utf8_lossy(text.as_deref()?);
        let (all, wanted): (Vec<&str>, Vec<&str>) = (text.lines().collect(), written_on.lines().collect());
        let mut found = all.windows(count.max(1)).enumerate().filter(|(_, lines)| *lines == wanted);
        let (at, _) = found.next()?;
        found.next().is_none().then_some(u32::try_from(at + 1).ok()?)
    };
    let lines = match place.lines {
        NoteLines::New(first, last) => {
            let at = moved(&file.after, (last - first + 1) as usize)?;
            NoteLines::New(at, at + last - first)
        }
        NoteLines::Old(first, last) => {
            let at = moved(&file.before, (last - first + 1) as usize)?;
            NoteLines::Old(at, at + last - first)
        }
        NoteLines::Hunk(_) => {
            let is_it = |hunk: &domain::Hunk| crate::query::diff::hunk_text(hunk) == written_on;
            NoteLines::Hunk(file.hunks.iter().position(is_it)? + 1)
        }
    };
    Some(NotePlace { file: place.file.clone(), lines })
}

/// Returns true for a note, and false for the decision that resolves notes: that depends on them.
fn is_note(decision: &Decision) -> bool {
    decision.new.kind == DecisionKind::Note && decision.new.depends_on.is_empty()
}

fn resolved(decisions: &[Decision]) -> BTreeSet<u32> {
    let resolves = |decision: &&Decision| match decision.new.kind {
        DecisionKind::Note | DecisionKind::Guidance => true,
        DecisionKind::Prompt
        | DecisionKind::Invariants
        | DecisionKind::Strategy
        | DecisionKind::Choice
        | DecisionKind::Recovery
        | DecisionKind::Reversion
        | DecisionKind::Spawn => false,
    };
    decisions.iter().filter(resolves).flat_map(|decision| decision.new.depends_on.iter().copied()).collect()
}

/// Returns the notes that were neither sent nor resolved, in order.
pub(crate) fn open_notes(decisions: &[Decision]) -> Vec<Decision> {
    let resolved = resolved(decisions);
    let is_open = |decision: &&Decision| is_note(decision) && !resolved.contains(&decision.seq);
    decisions.iter().filter(is_open).cloned().collect()
}

/// Returns a message and notes as one request to an actor.
pub(crate) fn as_request(message: &str, notes: &[Decision]) -> String {
    let note = |note: &Decision| {
        let lines: Vec<String> = note.new.rationale.lines().map(|line| format!("  > {line}")).collect();
        format!("{}: {}\n{}", note.new.question, note.new.chosen, lines.join("\n"))
    };
    let parts = std::iter::once(message.to_owned()).chain(notes.iter().map(note));
    parts.filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join("\n\n")
}
