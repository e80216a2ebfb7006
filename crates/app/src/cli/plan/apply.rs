//! `agents plan apply`: brings a plan's changes into the user's files, all that were chosen or none.
//!
//! # Invariants
//! 1. Nobody's files change without a yes: asked for at a terminal, given by `--yes`, or by enter in a
//!    review.
//! 2. Obstacles are reported before the user is asked.
//! 3. A dry run writes nothing and asks nothing.
//! 4. What is advised to type again has all that was typed, so that a commit does not get lost on the way.

use std::os::unix::ffi::OsStrExt;

use domain::{ByteText, CommandLine, Plan, PlanEvent, PlanState, WorkState};
use engine::{
    ApplyError, ApplyPreview, ApplyRequest, ApplySummary, CheckedTree, ConflictMode, Engine, RecheckWhen,
};
use serde_json::{Value, json};
use store::PlanFilter;
use sync::Observed;

use super::review::{PlanReview, ReviewDecision, ReviewFailure};
use super::selection::PlanSelection;
use super::{agreed, apply_batch, dry_run, selection};
use crate::cli::invocation::NamedPlan;
use crate::cli::signals::StopSignals;
use crate::cli::{Invocation, follow, forecast};
use crate::errors::{CommandError, Exit, codes, from_engine, hints};
use crate::output::{CommandReport, OutputNote};
use crate::render;
use crate::render::diff::counted;
use crate::setup::project;
use crate::time::stamp;
use crate::tui::review::ReviewPalette;
use crate::tui::screen::{Keys, Screen};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ApplyArgs {
    #[command(flatten)]
    pub(super) which: PlanSelection,
    /// All plans of this project that are ready
    #[arg(long, conflicts_with_all = ["plans", "batch"])]
    pub(super) all: bool,
    /// Of several plans only those whose required checks passed
    #[arg(long)]
    pub(super) passed: bool,
    /// Apply only this file, directory, glob, hunk (FILE#N) or lines of a hunk (FILE#N:2-4); may be repeated
    #[arg(long, value_name = "WHAT")]
    pub(super) only: Vec<String>,
    /// Leave out this file, directory, glob, hunk or lines of a hunk; may be repeated
    #[arg(long, value_name = "WHAT")]
    pub(super) reject: Vec<String>,
    /// Take the plan's version of this file or hunk (FILE#N) where both changed it; may be repeated
    #[arg(long, value_name = "WHAT")]
    pub(super) take: Vec<String>,
    /// Do not fail if there is nothing to apply
    #[arg(long)]
    allow_empty: bool,
    /// Write lines that both you and the plan changed with markers around both versions, or refuse
    #[arg(long, value_name = "HOW", value_enum, default_value = "refuse", conflicts_with_all = ["commit", "branch"])]
    pub(super) conflicts: ConflictChoice,
    /// Show what would be written, merged and in conflict, and write nothing
    #[arg(long, conflicts_with = "interactive")]
    pub(super) dry_run: bool,
    /// Commit the changes, and only them; git hooks are not run
    #[arg(long)]
    pub(super) commit: bool,
    /// Commit the changes on a new branch, and do not change the files
    #[arg(long, value_name = "NAME")]
    pub(super) branch: Option<String>,
    /// The commit message [default: the title, the command and the id of the plan]
    #[arg(long, short, value_name = "TEXT")]
    pub(super) message: Option<String>,
    /// Write files with several names (hard links) in place, so that all names change
    #[arg(long)]
    through_links: bool,
    /// Apply even if checks of the project did not run because you do not trust them
    #[arg(long)]
    unchecked: bool,
    /// Apply the changes of a plan that failed, timed out or was cancelled, as far as they go
    #[arg(long)]
    pub(super) partial: bool,
    /// Choose files, hunks and lines on the screen
    #[arg(long, short)]
    pub(super) interactive: bool,
    /// Always run the required checks again on the merged files [default: apply.recheck]
    #[arg(long, conflicts_with = "no_recheck")]
    recheck: bool,
    /// Do not run them again, even if your files differ from those they passed on; this is recorded
    #[arg(long)]
    no_recheck: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// The treatment of lines that both changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum ConflictChoice {
    /// Nothing is written
    Refuse,
    /// Both versions are written, between markers
    Markers,
}

impl ConflictChoice {
    fn mode(self) -> ConflictMode {
        match self {
            ConflictChoice::Refuse => ConflictMode::Refuse,
            ConflictChoice::Markers => ConflictMode::Markers,
        }
    }
}

impl ApplyArgs {
    /// Returns the plans that are meant.
    async fn selected(
        &self,
        engine: &Engine,
        invocation: &Invocation,
    ) -> Result<Vec<NamedPlan>, CommandError> {
        if !self.all {
            return self.which.find(engine, invocation).await;
        }
        let root = project::root_of(&invocation.here)?;
        let filter = PlanFilter {
            state: Some("complete".to_owned()),
            root: Some(root.as_os_str().as_bytes().to_vec()),
            limit: usize::MAX,
            ..PlanFilter::default()
        };
        selection::found(engine, invocation, &filter).await
    }

    /// Returns what is asked for each of several plans.
    fn request_for_several(&self) -> ApplyRequest {
        ApplyRequest {
            allow_empty: self.allow_empty,
            through_links: self.through_links,
            recheck: self.recheck_when(),
            unchecked: self.unchecked,
            conflicts: self.conflicts.mode(),
            ..ApplyRequest::default()
        }
    }

    fn recheck_when(&self) -> Option<RecheckWhen> {
        match (self.recheck, self.no_recheck) {
            (true, _) => Some(RecheckWhen::Always),
            (false, true) => Some(RecheckWhen::Never),
            (false, false) => None,
        }
    }

    /// Returns the same command, to be typed again; the user confirms again.
    fn retry_command(&self, id: &str) -> String {
        let mut words = vec!["agents", "plan", "apply", id];
        for (flag, values) in [("--only", &self.only), ("--reject", &self.reject), ("--take", &self.take)] {
            let is_first = |(no, value): &(usize, &String)| !values[..*no].contains(value);
            values.iter().enumerate().filter(is_first).for_each(|(_, value)| words.extend([flag, value]));
        }
        words.extend(self.allow_empty.then_some("--allow-empty"));
        if self.conflicts == ConflictChoice::Markers {
            words.extend(["--conflicts", "markers"]);
        }
        words.extend(self.commit.then_some("--commit"));
        words.extend(self.branch.iter().flat_map(|name| ["--branch", name]));
        words.extend(self.message.iter().flat_map(|text| ["--message", text]));
        words.extend(self.through_links.then_some("--through-links"));
        words.extend(self.recheck.then_some("--recheck"));
        words.extend(self.no_recheck.then_some("--no-recheck"));
        words.extend(self.unchecked.then_some("--unchecked"));
        words.extend(self.partial.then_some("--partial"));
        words.extend(self.interactive.then_some("--interactive"));
        CommandLine::Argv(words.into_iter().map(ByteText::from).collect()).render()
    }
}

pub(super) async fn run(args: ApplyArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plans = args.selected(&engine, invocation).await?;
    let is_one = !args.all && !args.passed && args.which.batch.is_none();
    let plan = match <[NamedPlan; 1]>::try_from(plans) {
        Ok([plan]) if is_one => plan,
        several => {
            let plans = several.map_or_else(|plans| plans, Vec::from);
            let request = args.request_for_several();
            return apply_batch::run(&args, &request, plans, &engine, invocation).await;
        }
    };
    let details = super::details(&engine, &plan).await?;
    let typed = args.retry_command(&plan.short);
    let is_unfinished = is_unfinished(&details);
    if is_unfinished && !args.dry_run && !agreed_to_part(&args, &details, &plan, invocation)? {
        return Ok(not_applied(&plan));
    }
    let broken_off = details.owner_is_gone.then(|| render::failure::interrupted_error(&details, &plan.short));
    let refused = |error: &ApplyError| match (error, &broken_off) {
        (ApplyError::NotReady { .. } | ApplyError::Busy { .. }, Some(failure)) => failure.clone(),
        (other, _) => from_engine::apply(other, &plan.short).field("apply", &typed),
    };
    let recheck = args.recheck_when();
    let is_dry_run = args.dry_run;
    let mut request = ApplyRequest {
        conflicts: args.conflicts.mode(),
        only: args.only,
        reject: args.reject,
        take: args.take,
        allow_empty: args.allow_empty,
        commit: None,
        branch: args.branch,
        through_links: args.through_links,
        recheck,
        unchecked: args.unchecked,
    };
    if args.commit || request.branch.is_some() || args.message.is_some() {
        // The engine writes a message where there is none.
        request.commit = Some(args.message.unwrap_or_default());
    }
    if is_dry_run {
        let is_ready =
            matches!(details.plan.state, PlanState::Execute(WorkState::Complete) | PlanState::Apply(_));
        if !is_ready && !is_unfinished {
            return Err(refused(&ApplyError::NotReady { plan: plan.id, state: details.plan.state }));
        }
        let preview = engine.preview(plan.id, &request).await.map_err(|error| refused(&error))?;
        return Ok(dry_run::report(&preview, &request, &plan, &typed));
    }
    // Of a plan that is applied in part, the rest is applied like a whole plan: after a question.
    let adds =
        !args.interactive && engine.adds_to_applied(&details.plan, &request).await.is_ok_and(|adds| adds);
    let stands = details.plan.is_applied() && !adds;
    let (mut mets, mut linked, mut previewed) = (Vec::new(), Vec::new(), None);
    if !stands {
        if args.interactive {
            match review(&engine, &plan, &request, invocation, refused).await? {
                ReviewDecision::Apply(chosen) => {
                    let (wanted, preview) = *chosen;
                    (request, previewed) = (wanted, Some(preview));
                }
                ReviewDecision::Revise => return super::revise::send_notes(&engine, &plan, invocation).await,
                ReviewDecision::Quit => return Ok(not_applied(&plan)),
                ReviewDecision::Interrupted => {
                    let message =
                        format!("the review of plan {} was stopped; nothing was applied", plan.short);
                    return Err(CommandError::new(&codes::CANCELLED, message));
                }
            }
        }
        let preview = match previewed.take() {
            Some(preview) => preview,
            None => engine.preview(plan.id, &request).await.map_err(|error| refused(&error))?,
        };
        let may = may_ask(&preview, &details, is_unfinished, request.unchecked);
        if is_unfinished && !may {
            return Err(refused(&unfinished_refusal(plan.id, preview)));
        }
        if let Some(warning) = render::diff::linked_warning(&preview.linked, request.through_links) {
            invocation.tell(&OutputNote::warning(warning));
        }
        linked.clone_from(&preview.linked);
        if let Some(words) = render::plan::tree_words(&details) {
            invocation.tell(&OutputNote::warning(words));
        }
        for line in render::diff::left_out_parts(&details.not_captured) {
            invocation.tell(&OutputNote::warning(line));
        }
        mets = forecast::find_overlaps(&engine, &plan).await?.mets;
        if let Some(warning) = render::forecast::warning(&mets) {
            invocation.tell(&OutputNote::warning(format!("{warning}; the first one applied wins")));
        }
        if may
            && !agreed(
                &question(&preview, &plan, &details.plan, invocation),
                args.yes || args.interactive,
                invocation,
            )?
        {
            return Ok(not_applied(&plan));
        }
        previewed = Some(preview);
    }
    if is_unfinished {
        // Not before the user's yes: a plan that is not applied stays one that can be resumed.
        let accepted = engine.accept_partial(plan.id).await;
        accepted.map_err(|error| from_engine::execute(&error, &plan.short))?;
    }
    let (id, applying, wanted, previewed) = (plan.id, &engine, &request, previewed.as_ref());
    let apply = |stop: Observed| async move { applying.apply_unless(id, wanted, previewed, &stop).await };
    let applied = follow::follow_files(invocation, &engine, &plan, apply).await;
    let details = super::details(&engine, &plan).await?;
    let summary = applied.map_err(|error| match (&error, refused(&error)) {
        (ApplyError::Failed { .. }, failure) if render::failure::asks(&details) => {
            failure.with_code(&codes::PLAN_ASKS)
        }
        (_, failure) => failure,
    })?;
    let mut data = with_plan(summary_json(&summary, &plan), render::plan::to_json(&details, &plan.short));
    data["forecast"] = render::forecast::to_json(&mets);
    data["linked"] = json!(linked);
    let word = if summary.already { "already applied" } else { "applied" };
    let mut report = CommandReport::new(data, summary_line(&summary, &plan, &details.plan, word));
    if let Some(note) = hooks_note(&engine, &details.plan, &summary) {
        report = report.note(note);
    }
    if let Some(failure) = marked_failure(&summary, &plan) {
        report = report.failed(failure);
    }
    let is_checked_alone = summary.checks.on == CheckedTree::NotCompared;
    Ok(if request.is_partial() && is_checked_alone {
        report.note(OutputNote::warning("a part of the plan was applied: the checks ran on the whole of it"))
    } else {
        report
    })
}

/// Returns why the changes of a run that did not come to its end are not applied.
fn unfinished_refusal(plan: domain::PlanId, preview: ApplyPreview) -> ApplyError {
    let ApplyPreview { conflicts, validations, .. } = preview;
    match conflicts.is_empty() {
        true => ApplyError::Validation { plan, summary: validations },
        false => ApplyError::Conflicts { plan, conflicts, reasons: Vec::new() },
    }
}

/// Returns a note about the git hooks that a commit passed over; `None` if there are none.
pub(super) fn hooks_note(engine: &Engine, plan: &Plan, summary: &ApplySummary) -> Option<OutputNote> {
    summary.commit.as_ref().filter(|_| !summary.already)?;
    let hooks: Vec<&str> = engine.commit_hooks(plan).into_iter().collect();
    let message = format!("git hooks were not run for this commit: {}", hooks.join(", "));
    (!hooks.is_empty()).then(|| OutputNote::warning(message))
}

/// Returns the failure of an apply that left markers; `None` if it left none.
pub(super) fn marked_failure(summary: &ApplySummary, plan: &NamedPlan) -> Option<CommandError> {
    let count = counted(summary.marked.len(), "file");
    let message = format!("plan {} is applied, and {count} must be edited: conflict markers", plan.short);
    let failure = CommandError::new(&codes::CONFLICT_MARKERS, message).plan(&plan.short);
    let failure = summary.marked.iter().fold(failure, |failure, file| failure.line(file.clone()));
    (!summary.marked.is_empty()).then_some(failure)
}

/// Returns whether the run of the plan failed or was stopped, and left changes.
fn is_unfinished(details: &engine::PlanDetails) -> bool {
    let state = details.plan.state;
    !details.net.is_empty() && state.next(PlanEvent::Accept).is_ok()
}

/// The person's yes to changes of a run that did not come to its end.
fn agreed_to_part(
    args: &ApplyArgs,
    details: &engine::PlanDetails,
    plan: &NamedPlan,
    invocation: &Invocation,
) -> Result<bool, CommandError> {
    let how = match details.plan.state.is_cancelled() {
        true => "was cancelled",
        false if details.is_interrupted => "was interrupted",
        false => "failed",
    };
    if args.partial {
        return Ok(true);
    }
    let refusal = CommandError::new(
        &codes::PLAN_NOT_READY,
        format!(
            "plan {} {how} before it was done; it left {}",
            plan.short,
            counted(details.net.len(), "file")
        ),
    );
    if !invocation.style.can_ask || invocation.style.format.is_for_programs() {
        return Err(refusal
            .hint(hints::APPLY_PARTIAL)
            .field("apply", args.retry_command(&plan.short))
            .plan(&plan.short));
    }
    let question = format!(
        "plan {} {how} before it was done; apply its {} all the same?",
        plan.short,
        counted(details.net.len(), "file")
    );
    agreed(&question, false, invocation)
}

/// Returns whether there is anything to confirm: an apply that is refused anyway needs no question.
fn may_ask(
    preview: &ApplyPreview,
    details: &engine::PlanDetails,
    is_unfinished: bool,
    unchecked: bool,
) -> bool {
    use domain::ApplyState;
    let is_ready = matches!(
        details.plan.state,
        PlanState::Execute(WorkState::Complete)
            | PlanState::Apply(
                ApplyState::Constrained | ApplyState::Errored | ApplyState::Applied | ApplyState::Queued
            )
    );
    // One whose owner is gone is gone on with, perhaps with another choice.
    let is_processing = details.plan.state == PlanState::Apply(ApplyState::Processing);
    let is_ready = is_ready || (is_processing && details.owner_is_gone);
    let checks = &preview.validations;
    let is_let_through = checks.may_be_applied() || (unchecked && checks.waits_for_trust());
    (is_ready || is_unfinished) && preview.conflicts.is_empty() && is_let_through
}

fn question(preview: &ApplyPreview, named: &NamedPlan, plan: &Plan, invocation: &Invocation) -> String {
    let mut text = format!(
        "apply plan {} to your files: {}",
        render::plan::named_words(&named.short, plan),
        counted(preview.files.len(), "file")
    );
    if !preview.merged.is_empty() {
        text.push_str(&format!(", {} merged with your edits", preview.merged.len()));
    }
    if !preview.marked.is_empty() {
        text.push_str(&format!(", {} with conflict markers", preview.marked.len()));
    }
    if preview.validations.verdict == "none" {
        text.push_str(", no validations");
    }
    if !preview.validations.untrusted.is_empty() {
        text.push_str(", the project's own checks not run");
    }
    if !preview.validations.trusted_since.is_empty() {
        text.push_str(", the project's own checks run first");
    } else if !preview.validations.run_by_apply().is_empty() {
        text.push_str(", the required checks run first");
    }
    let shown: Vec<String> =
        preview.files.iter().take(10).map(|file| format!("  {}\n", invocation.style.cut(file, 4))).collect();
    let more = preview.files.len().saturating_sub(shown.len());
    let rest = if more > 0 { format!("  … and {more} more\n") } else { String::new() };
    format!("{}{rest}{text}?", shown.concat())
}

fn not_applied(plan: &NamedPlan) -> CommandReport {
    let mut report =
        CommandReport::new(json!({ "plan": plan.id, "applied": false }), "nothing was applied\n");
    report.exit = Exit::Done;
    report
}

/// Returns the user's choice on the screen.
async fn review(
    engine: &Engine,
    plan: &NamedPlan,
    request: &ApplyRequest,
    invocation: &Invocation,
    refused: impl Fn(&ApplyError) -> CommandError,
) -> Result<ReviewDecision, CommandError> {
    if !invocation.style.can_ask {
        return Err(CommandError::new(
            &codes::CONFIRMATION_NEEDED,
            "a review needs a terminal, and there is none",
        )
        .hint(hints::CHOOSE_AND_CONFIRM));
    }
    if invocation.env.get("TERM").is_some_and(|term| term == "dumb") {
        return Err(CommandError::new(
            &codes::CONFIRMATION_NEEDED,
            "TERM is `dumb`: this terminal has no screen for a review",
        )
        .hint(hints::CHOOSE_AND_CONFIRM));
    }
    let palette = ReviewPalette::of_terminal(invocation.style.err_paint.is_on());
    let mut stops = StopSignals::listen();
    let held = async {
        let (mut keys, mut screen) = (Keys::begin()?, Screen::enter()?);
        PlanReview { engine, plan, palette }.choose(request, &mut screen, &mut keys).await
    };
    let held = tokio::select! {
        held = held => held,
        _ = stops.next() => Ok(ReviewDecision::Interrupted),
    };
    held.map_err(|failure| match failure {
        ReviewFailure::Apply(error) => refused(&error),
        failure @ (ReviewFailure::Command(_) | ReviewFailure::Terminal(_)) => failure.into_error(plan),
    })
}

/// The apply as programs read it.
pub(in crate::cli) fn summary_json(summary: &ApplySummary, plan: &NamedPlan) -> Value {
    json!({
        "plan": plan.id, "apply": summary.apply, "applied": true, "already": summary.already, "files": summary.files,
        "insertions": summary.insertions, "deletions": summary.deletions, "merged": summary.merged,
        "replaced": summary.replaced, "marked": summary.marked, "left_commit": summary.left_commit, "left_out": summary.left_out,
        "validations": { "passed": summary.validations.0, "required": summary.validations.1 },
        "checks_at_apply": summary.checks,
        "commit": summary.commit, "branch": summary.branch, "undo_until": stamp(summary.undo_until),
    })
}

/// Returns the plan as every command answers with it, together with the changes to the files.
pub(super) fn with_plan(summary: Value, mut plan: Value) -> Value {
    let (Some(all), Value::Object(summary)) = (plan.as_object_mut(), summary) else { return plan };
    for (key, value) in summary {
        // If both have a key, the plan's value is retained: it has more words.
        all.entry(key).or_insert(value);
    }
    plan
}

/// The apply in one line.
pub(in crate::cli) fn summary_line(
    summary: &ApplySummary,
    named: &NamedPlan,
    plan: &Plan,
    word: &str,
) -> String {
    let id = &named.short;
    let mut text = format!(
        "{word} {id} to {}{}: {} (+{} -{})",
        summary.branch.as_ref().map(|branch| format!("branch {branch} of ")).unwrap_or_default(),
        render::plan::projects_words(plan),
        counted(summary.files, "file"),
        summary.insertions,
        summary.deletions
    );
    if !summary.merged.is_empty() {
        text.push_str(&format!(", {} merged with your edits", summary.merged.len()));
    }
    if !summary.marked.is_empty() {
        text.push_str(&format!(", conflict markers in: {}", summary.marked.join(", ")));
    }
    if !summary.replaced.is_empty() {
        text.push_str(&format!(", replaced: {}", summary.replaced.join(", ")));
    }
    if !summary.left_out.is_empty() {
        text.push_str(&format!(", left out: {}", summary.left_out.join(", ")));
    }
    match summary.validations {
        (_, 0) => text.push_str(", no validations"),
        (passed, required) => {
            text.push_str(&format!(", validations {passed} of {required}"));
            // Nothing else lets an apply through without them.
            if passed < required {
                text.push_str(&format!(" ({} not run, as you asked)", required - passed));
            } else if let Some(words) = render::plan::checked_words(&summary.checks) {
                text.push_str(&format!(" ({words})"));
            }
        }
    }
    if let Some(commit) = &summary.commit {
        text.push_str(&format!(", commit {}", commit.get(..12).unwrap_or(commit)));
    }
    if summary.branch.is_some() {
        text.push_str(", your files are as they were");
    }
    format!("{text}; {}\n", render::next_steps::after_apply(id))
}
