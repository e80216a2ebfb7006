//! `agents plan apply` of several plans: one question, one after the other, one summary.
//!
//! # Invariants
//! 1. Each plan is applied on its own, as `plan apply` does it: one that is refused does not stop the others.
//! 2. Of a batch or a project only plans that are ready are taken. A plan that was named and is not ready
//!    fails.
//! 3. The exit is that of the first failure; without one it is 0.

use std::collections::BTreeSet;

use domain::{ApplyState, PlanState, WorkState};
use engine::{ApplyRequest, Engine, PlanDetails};
use serde_json::{Value, json};
use sync::Observed;

use super::agreed;
use super::apply::{ApplyArgs, hooks_note, marked_failure, summary_json, summary_line};
use crate::cli::invocation::NamedPlan;
use crate::cli::{Invocation, follow};
use crate::errors::{CommandError, codes, from_engine, hints};
use crate::output::{CommandReport, escape_control_chars, one_line};
use crate::render::diff::counted;
use crate::render::state::words_of;

/// Of more plans than this only the number is shown in the question.
const QUESTION_LINES_MAX: usize = 20;

/// The reasons to leave a plan out that ask nothing of the user.
const DONE: [&str; 2] = ["applied", "no changes"];

/// The columns of such a line that are left for all but the title.
const LINE_RESERVE_CHARS: usize = 24;

/// A plan that is about to be applied.
struct ReadyPlan {
    plan: NamedPlan,
    details: PlanDetails,
}

/// A plan that is left out, and why.
struct SkippedPlan {
    plan: NamedPlan,
    why: &'static str,
}

pub(super) async fn run(
    args: &ApplyArgs,
    request: &ApplyRequest,
    plans: Vec<NamedPlan>,
    engine: &Engine,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    args.refuse_choice_of_several()?;
    let are_named = !args.which.plans.is_empty();
    let (mut ready, mut skipped) = (Vec::new(), Vec::new());
    for plan in plans {
        let details = super::details(engine, &plan).await?;
        match obstacle(&details, args.passed) {
            // One that was named is tried, so that its obstacle is the failure.
            None => ready.push(ReadyPlan { plan, details }),
            Some(_) if are_named && !args.passed => ready.push(ReadyPlan { plan, details }),
            Some(why) => skipped.push(SkippedPlan { plan, why }),
        }
    }
    if ready.is_empty() {
        let data = json!({ "plans": skipped_json(&skipped), "applied": 0, "skipped": skipped.len() });
        let report = CommandReport::new(data, format!("nothing to apply{}\n", skipped_words(&skipped)));
        return Ok(match args.passed || skipped.iter().all(|one| DONE.contains(&one.why)) {
            true => report,
            false => {
                let message = format!("nothing was applied{}", skipped_words(&skipped));
                report.failed(CommandError::new(&codes::NOTHING_TO_APPLY, message))
            }
        });
    }
    if !agreed(&question(&ready, &skipped, invocation), args.yes, invocation)? {
        let data = json!({ "plans": skipped_json(&skipped), "applied": 0, "skipped": skipped.len() });
        return Ok(CommandReport::new(data, "nothing was applied\n"));
    }
    let (mut text, mut rows, mut failures) = (String::new(), skipped_json(&skipped), Vec::new());
    let (many, mut notes) = (ready.len(), Vec::new());
    for ReadyPlan { plan, details } in ready {
        let mut request = request.clone();
        if args.commit {
            request.commit = Some(String::new());
        }
        let (id, wanted) = (plan.id, &request);
        let apply = |stop: Observed| async move { engine.apply_unless(id, wanted, None, &stop).await };
        match follow::follow_files(invocation, engine, &plan, apply).await {
            Ok(summary) => {
                let word = if summary.already { "already applied" } else { "applied" };
                text.push_str(&summary_line(&summary, &plan, &details.plan, word));
                rows.push(summary_json(&summary, &plan));
                notes.extend(hooks_note(engine, &details.plan, &summary));
                failures.extend(marked_failure(&summary, &plan));
            }
            Err(error) => {
                let failure = from_engine::apply(&error, &plan.short);
                text.push_str(&format!("not applied: {}\n", failure.message));
                rows.push(json!({
                    "plan": plan.id, "applied": false, "code": failure.code.name, "message": failure.message,
                }));
                let is_stopped = failure.code == &codes::CANCELLED;
                failures.push(failure);
                if is_stopped {
                    break;
                }
            }
        }
    }
    let applied = rows.iter().filter(|row| row["applied"] == true).count();
    text.push_str(&format!("{applied} of {} applied{}\n", counted(many, "plan"), skipped_words(&skipped)));
    let data = json!({ "plans": rows, "applied": applied, "skipped": skipped.len() });
    notes.dedup();
    let report = notes.into_iter().fold(CommandReport::new(data, text), CommandReport::note);
    Ok(match failures.into_iter().next() {
        Some(failure) => report.failed(failure),
        None => report,
    })
}

/// Returns the reason why a plan of a batch is left out; `None` if it is ready.
fn obstacle(details: &PlanDetails, passed: bool) -> Option<&'static str> {
    let checks = &details.validations;
    let words = words_of(details);
    match details.plan.state {
        PlanState::Execute(WorkState::Complete) if details.net.is_empty() => Some("no changes"),
        PlanState::Execute(WorkState::Complete) if !checks.failed.is_empty() => Some("check failed"),
        PlanState::Execute(WorkState::Complete) if passed && checks.required == 0 => Some("no checks"),
        PlanState::Execute(WorkState::Complete) if passed && !checks.lets_through() => Some("check not run"),
        PlanState::Execute(WorkState::Complete) => None,
        // It is tried again: the conflict may be gone.
        PlanState::Apply(ApplyState::Constrained | ApplyState::Errored) => None,
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => Some(words),
    }
}

fn question(ready: &[ReadyPlan], skipped: &[SkippedPlan], invocation: &Invocation) -> String {
    let line = |ReadyPlan { plan, details }: &ReadyPlan| {
        let title = escape_control_chars(&one_line(&details.plan.title));
        let title = invocation.style.cut(&title, LINE_RESERVE_CHARS);
        format!("  {}  {title}: {}\n", plan.short, counted(details.net.len(), "file"))
    };
    let shown: String = ready.iter().take(QUESTION_LINES_MAX).map(line).collect();
    let more = match ready.len().checked_sub(QUESTION_LINES_MAX) {
        Some(more @ 1..) => format!("  … and {more} more\n"),
        Some(0) | None => String::new(),
    };
    let projects = ready.iter().flat_map(|ready| &ready.details.plan.projects);
    let aliases: BTreeSet<&str> = projects.map(|project| project.alias.as_str()).collect();
    let of = escape_control_chars(&aliases.into_iter().collect::<Vec<_>>().join(", "));
    let many = counted(ready.len(), "plan");
    format!("{shown}{more}apply {many} of {of} to your files{}?", skipped_words(skipped))
}

/// Returns the plans that are left out in words, counted by reason; empty if there are none.
fn skipped_words(skipped: &[SkippedPlan]) -> String {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for one in skipped {
        match reasons.iter_mut().find(|(why, _)| *why == one.why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((one.why, 1)),
        }
    }
    let words: Vec<String> = reasons.iter().map(|(why, count)| format!("{count} {why}")).collect();
    if words.is_empty() { String::new() } else { format!(" (left out: {})", words.join(", ")) }
}

fn skipped_json(skipped: &[SkippedPlan]) -> Vec<Value> {
    let one = |one: &SkippedPlan| json!({ "plan": one.plan.id, "applied": false, "skipped": one.why });
    skipped.iter().map(one).collect()
}

impl ApplyArgs {
    /// Returns an error if a part of several plans is chosen: an address belongs to one plan.
    fn refuse_choice_of_several(&self) -> Result<(), CommandError> {
        let chosen = [
            ("--only", !self.only.is_empty()),
            ("--reject", !self.reject.is_empty()),
            ("--take", !self.take.is_empty()),
            ("--branch", self.branch.is_some()),
            ("--message", self.message.is_some()),
            ("--interactive", self.interactive),
            ("--dry-run", self.dry_run),
            ("--partial", self.partial),
        ];
        match chosen.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((flag, _)) => {
                let message = format!("`{flag}` is about one plan, and several were named");
                Err(CommandError::new(&codes::USAGE, message).hint(hints::ONE_AFTER_THE_OTHER))
            }
        }
    }
}
