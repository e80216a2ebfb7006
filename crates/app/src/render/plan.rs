//! A plan as people and programs see it: one shape for every command that answers with a plan.
//!
//! # Invariants
//! 1. What is shown is computed from the plan's facts alone: two commands never tell two stories of one plan.
//! 2. There is always a way on: what can be typed next is part of the answer.
//!
//! # Not here
//! The commands that can be typed next (`next_steps`); errors and their remedies (`failure`).

use domain::text::truncate_chars;
use domain::{
    ApplyState, CallState, ConstraintReason, NodeOutcome, NodePath, Phase, Plan, PlanState, ToolCall,
    ValidationResult, WorkState, latest_apply,
};
use engine::{ApplySummary, CheckedTree, ChecksAtApply, PlanDetails, StepDetails};
use serde_json::{Value, json};

use super::diff::{counted, left_out_line};
use super::failure::{error_json, error_line};
use super::isolation;
use super::next_steps::{
    asked_at_gate, is_in_queue, next_steps, queue_words, waiting, waits_words, wanted_keys,
};
use super::output_tail;
use super::state::{coloured, words_of};
use super::timeline;
use super::usage;
use crate::output::{OutputStyle, Paint, escape_control_chars, one_line};
use crate::time::{format_duration, now};

/// The characters of a title that a question shows.
const TITLE_CHARS: usize = 40;
/// The columns of the line of execute before its command.
const EXECUTE_COLUMNS: usize = 38;

/// The shape that programs read.
pub fn to_json(details: &PlanDetails, id: &str) -> Value {
    let plan = &details.plan;
    let strategy = details.sandbox.as_ref().map(|sandbox| sandbox.rung.as_str());
    let projects: Vec<Value> = plan
        .projects
        .iter()
        .map(|project| {
            json!({
                "alias": project.alias, "root": project.root, "read_only": project.read_only, "sandbox": strategy,
            })
        })
        .collect();
    let steps: Vec<Value> = details
        .steps
        .iter()
        .map(|step| {
            json!({
                "node": step.node, "outcome": outcome_word(step, details), "tries": step.tries, "duration_ms": step.duration_ms, "changed": step.changed,
                "exit_status": step.exit,
            })
        })
        .collect();
    let next: Vec<Value> = next_steps(details, id)
        .into_iter()
        .map(|step| json!({ "why": step.why, "command": step.command }))
        .collect();
    json!({
        "plan_id": plan.id, "short_id": id, "title": plan.title, "batch": plan.spec.batch, "follows": plan.spec.follows, "action": plan.spec.action, "command": details.shown,
        "projects": projects, "phase": plan.state.phase(), "state": plan.state.word(), "status": words_of(details), "attempt": plan.attempt,
        "exit_status": exit_status(details),
        "reversions": plan.reversions, "undone": plan.undone_at.is_some(), "broken_off": details.owner_is_gone,
        "interrupted": details.is_interrupted,
        "automation": plan.spec.automation.name,
        "queue": details.place.filter(|_| is_in_queue(details)).map(|place| json!({
            "slots": place.slots, "busy": place.busy, "before": place.before, "served": place.is_served,
        })),
        "waiting": waiting(details, id),
        "steps": steps,
        "answer": details.answer,
        "changes": {
            "files": details.net.len(), "insertions": details.insertions, "deletions": details.deletions,
            "ignored": details.not_captured.scratch, "not_captured": details.not_captured,
        },
        "validations": details.validations, "checks": checks_json(details), "checks_at_apply": checks_at_apply(details),
        "usage": usage::usage_json(&details.ledger),
        "ledger": usage::to_json(&details.ledger),
        "error": error_json(details, id),
        "constrained_by": plan.constrained_by,
        "sandbox": sandbox_json(details),
        "isolation": isolation::weakest(&details.calls),
        "tree": details.sandbox.as_ref().and_then(|sandbox| sandbox.tree.as_ref()).map(|tree| json!({
            "changed_meanwhile": tree.moved, "more": tree.more, "compared_whole": tree.is_whole,
        })),
        "times": timeline::to_json(details),
        "next": next,
    })
}

/// Returns the exit status of the plan's last command; `None` if it ran none, or the command has not ended.
fn exit_status(details: &PlanDetails) -> Option<i32> {
    details.last_command()?.end.as_ref()?.exit
}

/// The results of the checks on the present changes.
fn checks_json(details: &PlanDetails) -> Vec<Value> {
    let exit = |result: &ValidationResult| {
        details.calls.iter().find(|call| call.no == result.call)?.end.as_ref()?.exit
    };
    let one = |result: &ValidationResult| {
        json!({
            "name": result.validation, "mode": result.mode, "outcome": result.outcome, "exit_status": exit(result),
            "duration_ms": result.duration_ms, "call": result.call, "output": output_tail::of_check(result),
        })
    };
    details.check_results().into_iter().map(one).collect()
}

/// Returns the outcome of a step, in the words of [`NodeOutcome`], or that it is at work.
fn outcome_word(step: &StepDetails, details: &PlanDetails) -> &'static str {
    let is_worked_on = details.live_job.is_some() && !details.owner_is_gone;
    let by_call = match step.state {
        CallState::Ok => NodeOutcome::Succeeded,
        CallState::Failed | CallState::TimedOut | CallState::Refused => NodeOutcome::Failed,
        CallState::Running | CallState::Cancelled => NodeOutcome::Cancelled,
    };
    match step.outcome {
        Some(outcome) => outcome.as_str(),
        // A check is one call. Any other step that has not settled continues after a call that ended.
        None if is_check(&step.node) && step.state != CallState::Running => by_call.as_str(),
        None if is_worked_on => "running",
        None if by_call == NodeOutcome::Failed => by_call.as_str(),
        None if details.owner_is_gone => "broken_off",
        None => NodeOutcome::Cancelled.as_str(),
    }
}

fn is_check(node: &str) -> bool {
    NodePath::parse(node).check().is_some()
}

/// Returns the worth of the checks of the present apply; `None` if there is none.
fn checks_at_apply(details: &PlanDetails) -> Option<ChecksAtApply> {
    let apply = latest_apply(&details.applies).filter(|_| details.plan.is_applied())?;
    serde_json::from_value::<ApplySummary>(apply.summary.clone()).ok().map(|summary| summary.checks)
}

/// Returns the worth of an apply's checks in words; `None` if there are no checks.
pub fn checked_words(checks: &ChecksAtApply) -> Option<&'static str> {
    match checks.on {
        CheckedTree::None => None,
        CheckedTree::ThisTree => Some("checks passed on this tree"),
        CheckedTree::MergedTree => Some("re-run on the merged tree, passed"),
        CheckedTree::NotCompared => Some("checks not compared with this tree, as you asked"),
    }
}

/// A plan by its short id, its title and its projects, for questions.
pub fn named_words(short: &str, plan: &Plan) -> String {
    let title = truncate_chars(&escape_control_chars(&one_line(&plan.title)), TITLE_CHARS);
    let aliases: Vec<&str> = plan.projects.iter().map(|project| project.alias.as_str()).collect();
    format!("{short} ({title}) of {}", escape_control_chars(&aliases.join(", ")))
}

/// The projects of a plan, as a person finds them again.
pub fn projects_words(plan: &Plan) -> String {
    let roots: Vec<String> = plan
        .projects
        .iter()
        .map(|project| escape_control_chars(&one_line(&project.root.to_string())))
        .collect();
    roots.join(", ")
}

/// Returns the last words of a plan that was asked something; of a plan that changed nothing they are the result.
fn answer_text(details: &PlanDetails) -> Option<String> {
    let is_asked = !details.plan.spec.prompt.is_empty();
    let is_done = details.plan.state == PlanState::Execute(WorkState::Complete);
    let answer = details.answer.as_deref().filter(|_| is_asked && is_done)?;
    Some(format!("\n{}\n\n", answer.trim_end()))
}

fn sandbox_json(details: &PlanDetails) -> Value {
    let Some(sandbox) = &details.sandbox else { return Value::Null };
    let passed: Vec<Value> =
        sandbox.passed_over.iter().map(|(strategy, why)| json!({ "rung": strategy, "why": why })).collect();
    json!({ "rung": sandbox.rung, "passed_over": passed })
}

/// Returns a line for the gate that a plan waits at after its strategy is complete.
fn gate_line(details: &PlanDetails) -> Option<String> {
    let is_thought_out = details.plan.state == PlanState::Strategize(WorkState::Complete) && !details.goes_on;
    let why = asked_at_gate(details).filter(|_| is_thought_out)?;
    Some(format!("  waiting: {why}\n"))
}

/// The plan for people: a head, a line for each phase, its last words, the way on.
pub fn to_text(details: &PlanDetails, id: &str, style: &OutputStyle) -> String {
    whole_body(details, id, style)
        + &answer_text(details).unwrap_or_default()
        + &next_line(details, id, style.paint, ShownAlready::Nothing)
}

/// The same for a command that shows the changes themselves above it.
pub fn to_text_below_diff(details: &PlanDetails, id: &str, style: &OutputStyle) -> String {
    whole_body(details, id, style)
        + &answer_text(details).unwrap_or_default()
        + &next_line(details, id, style.paint, ShownAlready::Diff)
}

/// The same above an error of the plan: that names the cause, and what to type next.
pub fn to_text_above_error(details: &PlanDetails, id: &str, style: &OutputStyle) -> String {
    let answer = answer_text(details).unwrap_or_default();
    body(details, id, style) + answer.strip_suffix('\n').unwrap_or(&answer)
}

/// Returns the plan with its times and its usage, for `agents plan status`.
pub fn to_text_with_times(details: &PlanDetails, id: &str, style: &OutputStyle) -> String {
    let used = usage::used_line(&details.ledger, timeline::running_ms(details), style.paint);
    whole_body(details, id, style)
        + &timeline::to_text(details, style.paint)
        + &used
        + &next_line(details, id, style.paint, ShownAlready::Nothing)
}

/// The part of a plan that the answer shows elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShownAlready {
    Nothing,
    Diff,
}

/// The line about a command that had the network of this machine itself; `None` if none had.
fn shared_network(calls: &[ToolCall]) -> Option<String> {
    let why = calls
        .iter()
        .find_map(|call| call.end.as_ref()?.isolation.as_ref()?.get("shared_network")?.as_str())?;
    Some(format!(
        "  the network of this machine itself was used, with every service on it: {}",
        escape_control_chars(why)
    ))
}

/// The head, which fits the screen: the title gives way.
fn head(details: &PlanDetails, id: &str, style: &OutputStyle) -> String {
    const TITLE_CHARS_MIN: usize = 12;
    let plan = &details.plan;
    let aliases: Vec<&str> = plan.projects.iter().map(|project| project.alias.as_str()).collect();
    let mut rest = format!(" on {}", escape_control_chars(&aliases.join(", ")));
    if let Some(sandbox) = &details.sandbox {
        rest.push_str(&format!("   sandbox {}", sandbox.rung));
    }
    if plan.spec.uses_network() {
        rest.push_str(", network on");
    }
    let title = escape_control_chars(&one_line(&plan.title));
    let taken = "plan   ".len() + id.chars().count() + rest.chars().count();
    let title = match style.width {
        Some(width) => truncate_chars(&title, width.saturating_sub(taken).max(TITLE_CHARS_MIN)),
        None => title,
    };
    format!("plan {}  {title}{rest}\n", style.paint.bold(id))
}

/// The body with the error of the plan and the obstacles to its apply.
fn whole_body(details: &PlanDetails, id: &str, style: &OutputStyle) -> String {
    let mut text = body(details, id, style);
    text.push_str(&broken_line(details));
    text.push_str(&error_line(details));
    for reason in &details.plan.constrained_by {
        text.push_str(&reason_line(reason));
    }
    text
}

fn body(details: &PlanDetails, id: &str, style: &OutputStyle) -> String {
    let paint = style.paint;
    let mut text = head(details, id, style);
    text.extend(
        details.plan.spec.follows.map(|followed| format!("  continues plan {followed}, which was applied\n")),
    );
    text.extend(isolation::weakest(&details.calls).and_then(isolation::line));
    text.extend(shared_network(&details.calls).map(|line| paint.red(&line) + "\n"));
    for line in phase_lines(details, style) {
        text.push_str(&line);
    }
    text.push_str(&output_tail::to_text(details, style));
    text.extend(queue_words(details).map(|words| format!("  {words}\n")));
    text.extend(gate_line(details));
    text.extend(
        waits_words(details, now())
            .map(|why| format!("  waiting: {}\n", escape_control_chars(&why.replace('\n', " ")))),
    );
    text.push_str(&left_out_line(&details.not_captured));
    text.extend(tree_words(details).map(|words| format!("  {}\n", paint.red(&words))));
    text
}

/// Returns words about changes in the user's tree that happened while the plan ran, and not by it.
pub fn tree_words(details: &PlanDetails) -> Option<String> {
    let tree = details.sandbox.as_ref()?.tree.as_ref().filter(|tree| tree.has_moved())?;
    let named =
        tree.moved.iter().map(|path| escape_control_chars(&one_line(path))).collect::<Vec<_>>().join(", ");
    let more = if tree.more > 0 { format!(" and {} more", tree.more) } else { String::new() };
    let whole = if tree.is_whole { "" } else { "; not all of it was compared" };
    Some(format!("your tree changed while the plan ran, and not by it: {named}{more}{whole}"))
}

fn broken_line(details: &PlanDetails) -> String {
    if !details.owner_is_gone {
        return String::new();
    }
    let keys = wanted_keys(details).map(|keys| format!("; a worker that has {keys} resumes it"));
    let keys = keys.unwrap_or_default();
    format!(
        "  interrupted: the process that ran it is gone; finished steps are stored, the running one starts again{keys}\n"
    )
}

fn reason_line(reason: &ConstraintReason) -> String {
    format!("  {}  {}\n", escape_control_chars(&reason.subject), escape_control_chars(&reason.message))
}

fn next_line(details: &PlanDetails, id: &str, paint: Paint, shown: ShownAlready) -> String {
    let diff = format!("agents plan diff {id}");
    let is_wanted = |command: &String| shown != ShownAlready::Diff || *command != diff;
    let steps = next_steps(details, id).into_iter().map(|step| step.command).filter(is_wanted);
    let steps: Vec<String> = steps.collect();
    format!("{}  {}\n", paint.dim("next"), steps.join("     "))
}

fn phase_lines(details: &PlanDetails, style: &OutputStyle) -> Vec<String> {
    let mut lines = Vec::new();
    let line = |phase: &str, state: String, time: String, rest: String| {
        let text =
            format!("  {phase:<10}  {}  {time:>9}  {rest}", coloured(&format!("{state:<10}"), style.paint));
        format!("{}\n", text.trim_end())
    };
    let state = details.plan.state;
    let strategize = match state {
        PlanState::Strategize(work) => work_word(work, details).to_owned(),
        PlanState::Execute(_) | PlanState::Apply(_) => "done".to_owned(),
    };
    let worked = |phase| timeline::worked(details, phase).map(format_duration).unwrap_or_default();
    let steps = match (&details.plan.spec.strategist, details.plan.spec.steps.len()) {
        (Some(strategist), _) => format!("by {}", escape_control_chars(&one_line(&strategist.name))),
        (None, 1) => "one step".to_owned(),
        (None, many) => format!("{many} steps"),
    };
    // The only step of a plan without a strategist is the plan itself.
    if details.plan.spec.strategist.is_some() || state.phase() == Phase::Strategize {
        lines.push(line("strategize", strategize, worked(Phase::Strategize), steps));
    }
    // A plan without a title of its own has that of its command, which may be cut.
    let is_named = one_line(&details.shown).starts_with(one_line(&details.plan.title).trim_end_matches('…'));
    let command = if is_named { String::new() } else { escape_control_chars(&one_line(&details.shown)) };
    let execute = match state {
        PlanState::Strategize(_) => None,
        PlanState::Execute(work) => Some(work_word(work, details).to_owned()),
        PlanState::Apply(_) => Some("done".to_owned()),
    };
    if let Some(word) = execute {
        let has_counts = !details.net.is_empty() || state == PlanState::Execute(WorkState::Complete);
        let files = counted(details.net.len(), "file");
        let (added, removed) = (format!("+{}", details.insertions), format!("-{}", details.deletions));
        let taken = if has_counts { files.len() + added.len() + removed.len() + 6 } else { 0 };
        let command = style.cut(&command, EXECUTE_COLUMNS + taken);
        let counts = match details.net.is_empty() {
            true => "no changes".to_owned(),
            false => format!("{files}  {} {}", style.paint.green(&added), style.paint.red(&removed)),
        };
        let rest = match (command.is_empty(), has_counts) {
            (_, false) => command,
            (true, true) => counts,
            (false, true) => format!("{command}   {counts}"),
        };
        lines.push(line("execute", word, worked(Phase::Execute), rest));
        lines.extend(validate_line(details, style, line));
    }
    if let PlanState::Apply(apply) = state {
        let word = match apply {
            ApplyState::Queued => "queued",
            ApplyState::Processing if details.owner_is_gone => "interrupted",
            ApplyState::Processing => "running",
            ApplyState::Applied if details.plan.undone_at.is_some() => "undone",
            ApplyState::Applied => "applied",
            ApplyState::Constrained => "refused",
            ApplyState::Errored => "failed",
            ApplyState::Cancelled => "cancelled",
        };
        // Of checks that did not run nothing is said here: the line above names them.
        let checked = checks_at_apply(details).filter(|_| details.validations.lets_through());
        let rest = checked.as_ref().and_then(checked_words).unwrap_or_default().to_owned();
        lines.push(line("apply", word.to_owned(), worked(Phase::Apply), rest));
    }
    lines
}

fn validate_line(
    details: &PlanDetails,
    style: &OutputStyle,
    line: impl Fn(&str, String, String, String) -> String,
) -> Option<String> {
    let summary = &details.validations;
    let is_over = matches!(details.plan.state, PlanState::Execute(WorkState::Complete) | PlanState::Apply(_));
    if summary.verdict == "none" {
        return None;
    }
    if !is_over && details.results.is_empty() {
        return None;
    }
    let mut rest = format!("{} of {} required", summary.passed, summary.required);
    if !summary.failed.is_empty() {
        rest.push_str(&format!("; failed: {}", names(&summary.failed)));
    }
    if !summary.warned.is_empty() {
        rest.push_str(&format!("; warned: {}", names(&summary.warned)));
    }
    if !summary.untrusted.is_empty() {
        rest.push_str(&format!("; not run, because you have not trusted: {}", names(&summary.untrusted)));
    }
    if !summary.trusted_since.is_empty() {
        rest.push_str(&format!("; trusted since, apply runs: {}", names(&summary.trusted_since)));
    } else if !summary.run_by_apply().is_empty() {
        rest.push_str(&format!("; not run on these changes, apply runs: {}", names(&summary.run_by_apply())));
    }
    let verdict = summary.verdict.replace('_', " ");
    Some(line("validate", verdict, check_time(details), style.cut(&rest, EXECUTE_COLUMNS)))
}

fn names(checks: &[String]) -> String {
    escape_control_chars(&checks.iter().map(|name| one_line(name)).collect::<Vec<_>>().join(", "))
}

/// Returns the time of the checks that have ended. It is a part of the phase that they run in.
fn check_time(details: &PlanDetails) -> String {
    let steps = details.steps.iter().filter(|step| is_check(&step.node) && step.state != CallState::Running);
    let times: Vec<u64> = steps.filter_map(|step| step.duration_ms).collect();
    if times.is_empty() { String::new() } else { format_duration(times.iter().sum()) }
}

fn work_word(work: WorkState, details: &PlanDetails) -> &'static str {
    match work {
        WorkState::Processing if details.owner_is_gone => "interrupted",
        WorkState::Errored if details.is_interrupted => "interrupted",
        WorkState::Queued => "queued",
        WorkState::Processing => "running",
        WorkState::Complete => "done",
        WorkState::Errored => "failed",
        WorkState::Cancelled => "cancelled",
    }
}
