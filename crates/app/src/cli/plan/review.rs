//! The review of a plan's changes on the screen, for `plan apply -i` and `agents top`.
//!
//! # Invariants
//! 1. A conflict never ends the review: the screen and the choices stay, and the conflict is marked.
//! 2. An edit of the person is recorded at once, as theirs. One that cannot be recorded stays in its file.
//! 3. A note is recorded when it is written. One that cannot be recorded stays on the input line, or in its
//!    file.
//! 4. What ends the review with a choice is what a preview let through without a conflict.

use std::collections::BTreeMap;
use std::io;

use domain::{ConflictKind, HunkAddress};
use engine::{
    ApplyError, ApplyPreview, ApplyRequest, Conflict, DiffRequest, Engine, NotePlace, SecretFilter,
};

use super::{diff, editor};
use crate::cli::invocation::NamedPlan;
use crate::errors::{CommandError, codes, from_engine, hints};
use crate::output::{escape_control_bytes, escape_control_chars};
use crate::render;
use crate::tui::review::{
    NoteDraft, Review, ReviewConflict, ReviewEnding, ReviewFile, ReviewNote, ReviewPalette, go_through,
    without_tabs,
};
use crate::tui::screen::{Keys, Screen};

/// The end of a review.
#[derive(Debug)]
pub(in crate::cli) enum ReviewDecision {
    /// This is to be applied, as the preview shows it.
    Apply(Box<(ApplyRequest, ApplyPreview)>),
    /// The plan is to be revised with its open notes.
    Revise,
    /// The person quit.
    Quit,
    /// The person broke it off.
    Interrupted,
}

/// The reason why a review could not be held to its end.
#[derive(Debug)]
pub(in crate::cli) enum ReviewFailure {
    /// The changes cannot be shown.
    Command(CommandError),
    /// The plan cannot be applied.
    Apply(ApplyError),
    /// The terminal cannot be used.
    Terminal(io::Error),
}

impl ReviewFailure {
    /// The failure as a command reports it.
    pub(in crate::cli) fn into_error(self, plan: &NamedPlan) -> CommandError {
        match self {
            ReviewFailure::Command(error) => error,
            ReviewFailure::Apply(error) => from_engine::apply(&error, &plan.short),
            ReviewFailure::Terminal(error) => {
                CommandError::new(&codes::IO_FAILED, format!("the review cannot be shown: {error}"))
                    .hint(hints::CHOOSE_WITH_FLAGS)
            }
        }
    }
}

impl From<io::Error> for ReviewFailure {
    fn from(error: io::Error) -> Self {
        ReviewFailure::Terminal(error)
    }
}

impl From<CommandError> for ReviewFailure {
    fn from(error: CommandError) -> Self {
        ReviewFailure::Command(error)
    }
}

impl From<ApplyError> for ReviewFailure {
    fn from(error: ApplyError) -> Self {
        ReviewFailure::Apply(error)
    }
}

/// A plan whose changes are reviewed.
pub(in crate::cli) struct PlanReview<'a> {
    pub(in crate::cli) engine: &'a Engine,
    pub(in crate::cli) plan: &'a NamedPlan,
    pub(in crate::cli) palette: ReviewPalette,
}

impl PlanReview<'_> {
    /// Lets a person read the changes.
    pub(in crate::cli) async fn read(
        &self,
        screen: &mut Screen,
        keys: &mut Keys,
    ) -> Result<(), ReviewFailure> {
        let (title, files) = self.files().await?;
        let mut review = Review::to_read(title, files);
        go_through(&mut review, self.palette, screen, keys).await?;
        Ok(())
    }

    /// Lets a person choose, until the choice can be applied or they quit. `request` has the other flags.
    pub(in crate::cli) async fn choose(
        &self,
        request: &ApplyRequest,
        screen: &mut Screen,
        keys: &mut Keys,
    ) -> Result<ReviewDecision, ReviewFailure> {
        let (title, files) = self.files().await?;
        let mut review = Review::new(title, files);
        let all = self.mark_conflicts(&mut review, request).await?;
        let mut open = self.mark_notes(&mut review).await?;
        let mut shown = all.net_hash();
        let checks = &all.validations;
        let is_let_through = checks.may_be_applied() || (request.unchecked && checks.waits_for_trust());
        if !is_let_through {
            review.say("a required check did not pass: this plan cannot be applied yet");
        }
        loop {
            let choice = match go_through(&mut review, self.palette, screen, keys).await? {
                ReviewEnding::Apply(choice) => choice,
                ReviewEnding::Edit(address) => {
                    let said = self.edit(&address, screen).await?;
                    let (_, files) = self.files().await?;
                    review.replace_files(files);
                    shown = self.mark_conflicts(&mut review, request).await?.net_hash();
                    open = self.mark_notes(&mut review).await?;
                    review.say(said);
                    continue;
                }
                ReviewEnding::Comment(draft) => {
                    let text = draft.text.clone();
                    match self.engine.add_note(self.plan.id, &draft.place, &text).await {
                        Ok(_) => {
                            open = self.mark_notes(&mut review).await?;
                            review.say(written_words(open));
                        }
                        Err(error) => {
                            review.say(error.to_string());
                            review.continue_note(draft);
                        }
                    }
                    continue;
                }
                ReviewEnding::CommentInEditor(draft) => {
                    let said = self.comment_in_editor(draft, &mut review, screen).await?;
                    open = self.mark_notes(&mut review).await?;
                    review.say(said);
                    continue;
                }
                ReviewEnding::SendBack if open == 0 => {
                    review.say("there is no open note: c writes one");
                    continue;
                }
                ReviewEnding::SendBack => return Ok(ReviewDecision::Revise),
                ReviewEnding::Quit => return Ok(ReviewDecision::Quit),
                ReviewEnding::Interrupted => return Ok(ReviewDecision::Interrupted),
            };
            let mut wanted = request.clone();
            wanted.reject.extend(choice.reject);
            wanted.take.extend(choice.take);
            let preview = self.engine.preview(self.plan.id, &wanted).await?;
            if preview.net_hash() != shown {
                let (_, files) = self.files().await?;
                review.replace_files(files);
                shown = self.mark_conflicts(&mut review, request).await?.net_hash();
                open = self.mark_notes(&mut review).await?;
                review.say("another process changed the plan since: these are its changes now");
                continue;
            }
            if preview.conflicts.is_empty() {
                return Ok(ReviewDecision::Apply(Box::new((wanted, preview))));
            }
            self.mark_conflicts(&mut review, request).await?;
            if review.open_conflicts() == 0 {
                review.reopen(preview.conflicts.iter().map(|conflict| conflict.file.as_str()));
            }
            review.say_conflicts();
        }
    }

    /// Lets the person edit the new text of a hunk, and records the edit as theirs. Returns what came of it, in
    /// words; a failure loses nothing.
    async fn edit(&self, address: &HunkAddress, screen: &mut Screen) -> Result<String, ReviewFailure> {
        let shown = match self.engine.hunk_text(self.plan.id, address).await {
            Ok(shown) => shown,
            Err(error) => return Ok(error.to_string()),
        };
        let unique = format!("{}-{}", self.plan.id, std::process::id());
        let edited = match screen.lend(editor::edit(&shown.file_name, &shown.text, &unique)).await? {
            Ok(edited) => edited,
            Err(error) => return Ok(error.to_string()),
        };
        match self.engine.edit_by_user(self.plan.id, &shown, &edited.bytes).await {
            Ok(is_changed) => {
                edited.discard();
                let said = if is_changed { "your edit is recorded as yours" } else { "nothing was changed" };
                Ok(said.to_owned())
            }
            Err(error) => Ok(format!("{error}; your text is in {}", edited.file.display())),
        }
    }

    /// Lets the person write a note in their editor. Returns what came of it, in words; a failure loses nothing.
    async fn comment_in_editor(
        &self,
        draft: NoteDraft,
        review: &mut Review,
        screen: &mut Screen,
    ) -> Result<String, ReviewFailure> {
        let unique = format!("{}-{}", self.plan.id, std::process::id());
        let written = screen.lend(editor::edit(b"note.md", draft.text.as_bytes(), &unique)).await?;
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                review.continue_note(draft);
                return Ok(error.to_string());
            }
        };
        let text = String::from_utf8_lossy(&written.bytes).into_owned();
        if text.trim().is_empty() {
            written.discard();
            return Ok("an empty note is not written".to_owned());
        }
        match self.engine.add_note(self.plan.id, &draft.place, &text).await {
            Ok(_) => {
                written.discard();
                Ok("the note is written: R revises the plan with the open notes".to_owned())
            }
            Err(error) => Ok(format!("{error}; your text is in {}", written.file.display())),
        }
    }

    /// Shows the open notes at their lines. Returns their number.
    async fn mark_notes(&self, review: &mut Review) -> Result<usize, CommandError> {
        let notes = self.engine.notes(self.plan.id).await;
        let notes = notes.map_err(|error| from_engine::plan(&error, &self.plan.short))?;
        let mut placed: BTreeMap<String, Vec<ReviewNote>> = BTreeMap::new();
        let mut open = 0;
        for note in notes.iter().filter(|note| !note.is_resolved) {
            open += 1;
            let Ok(place) = note.place.parse::<NotePlace>() else { continue };
            let text: Vec<String> =
                note.note.new.chosen.lines().map(|line| without_tabs(&escape_control_chars(line))).collect();
            let (is_outdated, text) = (note.is_outdated, text.join("\n"));
            placed.entry(place.file.clone()).or_default().push(ReviewNote { place, is_outdated, text });
        }
        review.set_notes(|file| placed.remove(file).unwrap_or_default());
        Ok(open)
    }

    async fn files(&self) -> Result<(String, Vec<ReviewFile>), CommandError> {
        let found = self.engine.diff(self.plan.id, &DiffRequest::default()).await;
        let found = found.map_err(|error| from_engine::plan(&error, &self.plan.short))?;
        let files: Vec<_> = found.files.iter().collect();
        let shown = diff::shown_diffs(&files, false, self.engine)?;
        let title = format!("plan {}  {}", self.plan.short, escape_control_chars(&found.plan.title));
        Ok((title, render::diff::to_review(&shown)))
    }

    /// Marks the conflicts of the whole plan with the user's files as they are now.
    async fn mark_conflicts(
        &self,
        review: &mut Review,
        request: &ApplyRequest,
    ) -> Result<ApplyPreview, ApplyError> {
        let (only, reject, take) = (Vec::new(), Vec::new(), Vec::new());
        let all = ApplyRequest { only, reject, take, ..request.clone() };
        let preview = self.engine.preview(self.plan.id, &all).await?;
        let filter = self.engine.secret_filter();
        let mut marked: BTreeMap<&str, Vec<ReviewConflict>> = BTreeMap::new();
        for conflict in &preview.conflicts {
            marked.entry(&conflict.file).or_default().extend(shown_conflicts(conflict, &filter));
        }
        review.set_conflicts(|file| marked.remove(file).unwrap_or_default());
        Ok(preview)
    }
}

fn written_words(open: usize) -> String {
    format!("the note is written, {}: R revises the plan with them", render::diff::counted(open, "open note"))
}

/// A conflict as the review shows it: each place by itself.
fn shown_conflicts(conflict: &Conflict, filter: &SecretFilter) -> Vec<ReviewConflict> {
    let lines = |bytes: &[u8]| -> Vec<String> {
        let text = escape_control_bytes(&filter.text(bytes.to_vec()));
        text.lines().map(without_tabs).collect()
    };
    let ConflictKind::Lines(regions) = &conflict.kind else {
        return vec![ReviewConflict {
            hunks: Default::default(),
            sentence: conflict.kind.sentence(),
            yours: Vec::new(),
            plans: Vec::new(),
        }];
    };
    let places = regions.iter().zip(&conflict.places);
    let shown = places.map(|(region, place)| ReviewConflict {
        hunks: place.hunks.clone(),
        sentence: ConflictKind::Lines(vec![region.clone()]).sentence(),
        yours: lines(&place.yours),
        plans: lines(&place.plans),
    });
    shown.collect()
}
