//! A plan as people and programs see it: one shape for every command that answers with a plan.
//!
//! # Invariants
//! 1. What is shown is computed from the plan's facts alone: two commands never tell two stories of one plan.
//! 2. There is always a way on: what can be typed next is part of the answer.

use domain::{
    Action, ApplyState, AskWhy, CallState, ErrorCategory, ErrorRecord, GatePoint, Phase, Plan, PlanState,
    Reason, Work,
};
use engine::plans::{PlanFacts, QueuePlace, kept_in};
use serde_json::{Value, json};

use crate::diff_view::{counted, left_out_line};
use crate::failure::{Failure, codes, from_engine};
use crate::ledger_view;
use crate::output::{Look, Paint, calm, one_line};
use crate::plan_times;
use crate::time::took;

/// What the engine says of a command that failed without the network and printed that it wants it.
const NETWORK_WORDS: &str = "it probably wanted the network";

/// What the store says of a plan that it gave up because it took its workers with it.
const WORKER_DIED_WORDS: &str = "its worker died ";

/// A command that leads on, and why one would type it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    /// Why.
    pub why: &'static str,
    /// What to type.
    pub command: String,
}

/// What can be done with the plan now.
pub fn next_steps(facts: &PlanFacts, id: &str) -> Vec<NextStep> {
    let step = |why, verb: &str| NextStep { why, command: format!("agents plan {verb} {id}") };
    let again = NextStep {
        why: "do it anew, keeping this try",
        command: format!("agents plan execute {id} --again"),
    };
    if facts.owner_is_gone {
        return vec![step("go on with it", "resume"), step("stop it for good", "cancel")];
    }
    match facts.plan.state {
        PlanState::Strategize(Work::Queued) | PlanState::Execute(Work::Queued) if is_in_queue(facts) => {
            vec![step("follow it", "watch"), step("stop it", "cancel")]
        }
        PlanState::Strategize(Work::Complete) | PlanState::Execute(Work::Complete) if facts.goes_on => {
            vec![step("follow it", "watch"), step("stop it", "cancel")]
        }
        PlanState::Strategize(Work::Complete) => {
            let again =
                NextStep { why: "have it thought out again", command: say_differently(&facts.plan, id) };
            let again = facts.plan.spec.strategist.as_ref().map(|_| again);
            let steps = [step("see what it is about to do", "tree"), step("say yes to that", "execute")];
            steps.into_iter().chain(again).collect()
        }
        PlanState::Strategize(Work::Queued) | PlanState::Execute(Work::Queued) => {
            vec![step("start it", "execute"), step("drop it", "cancel")]
        }
        PlanState::Strategize(Work::Processing)
        | PlanState::Execute(Work::Processing)
        | PlanState::Apply(ApplyState::Queued | ApplyState::Processing) => {
            vec![step("follow it", "watch"), step("stop it", "cancel")]
        }
        PlanState::Strategize(Work::Errored) | PlanState::Execute(Work::Errored) => {
            let try_again = match last_error(facts) {
                Some(record) if wants_network(record, facts) => {
                    NextStep { why: "do it anew with the network", command: with_network(facts) }
                }
                Some(record) => match ledger_view::raise_command(record, facts, id) {
                    Some(command) => NextStep { why: "let it use more and go on", command },
                    None => step("try again", "resume"),
                },
                None => step("try again", "resume"),
            };
            vec![step("see why", "errors"), step("see what was printed", "logs"), try_again]
        }
        PlanState::Execute(Work::Complete) if !facts.validations.lets_through() => {
            vec![step("see what was printed", "logs"), step("see what changed", "diff"), again]
        }
        PlanState::Execute(Work::Complete) if facts.net.is_empty() => {
            vec![step("see what was printed", "logs"), again]
        }
        PlanState::Execute(Work::Complete) => {
            vec![step("see what changed", "diff"), step("bring it into your files", "apply")]
        }
        PlanState::Apply(ApplyState::Constrained) => vec![
            NextStep {
                why: "see what stands in the way",
                command: format!("agents plan diff {id} --conflicts"),
            },
            step("try again", "apply"),
        ],
        PlanState::Apply(ApplyState::Errored) => vec![step("see why", "errors"), step("try again", "apply")],
        PlanState::Apply(ApplyState::Applied) if facts.plan.undone_at.is_some() => {
            vec![step("apply it again", "apply")]
        }
        PlanState::Apply(ApplyState::Applied) => vec![step("take it back", "undo")],
        PlanState::Strategize(Work::Cancelled)
        | PlanState::Execute(Work::Cancelled)
        | PlanState::Apply(ApplyState::Cancelled) => vec![step("see what it had changed", "diff")],
    }
}

/// Whether the plan waits for its turn, and not for a person.
fn is_in_queue(facts: &PlanFacts) -> bool {
    facts.place.is_some_and(|place| place.is_served || !place.is_held)
}

/// The slots that a plan waits for, and who comes before it; none when it waits for no slot.
pub fn waits_for_slot(place: &QueuePlace) -> Option<String> {
    if !place.waits_for_slot() {
        return None;
    }
    let QueuePlace { slots, busy, .. } = place;
    Some(format!("waiting: {busy} of {slots} slots busy (plan.concurrency), {}", before(place)))
}

fn before(place: &QueuePlace) -> String {
    match place.before {
        0 => "this plan is next".to_owned(),
        plans => format!("{} before this one", counted(plans, "plan")),
    }
}

/// What a plan in the queue waits for; none when it waits for a person.
fn queue_words(facts: &PlanFacts) -> Option<String> {
    let place = facts.place.filter(|_| is_in_queue(facts))?;
    Some(match waits_for_slot(&place) {
        Some(words) => words,
        None if !place.is_served => "waiting: no worker lives, start one with `agents worker`".to_owned(),
        None => format!("waiting for a worker, {}", before(&place)),
    })
}

/// Whether this went wrong for want of the network, as far as what the command printed tells.
fn wants_network(record: &ErrorRecord, facts: &PlanFacts) -> bool {
    !facts.plan.spec.uses_network() && record.error.message().contains(NETWORK_WORDS)
}

/// The network is frozen in the plan, so only a new plan can have it.
fn with_network(facts: &PlanFacts) -> String {
    let command = facts.shown.clone();
    // What was cut cannot be typed.
    let command = if one_line(&command) == command { command } else { "…".to_owned() };
    format!("agents run --network -- {command}")
}

/// What to type about an error of the plan.
pub fn command_for(record: &ErrorRecord, facts: &PlanFacts, id: &str) -> String {
    if facts.plan.state.is_final() && kept_in(&record.error).is_some() {
        return "agents doctor".to_owned();
    }
    let once_more = match record.error.phase() {
        Phase::Apply => format!("agents plan apply {id}"),
        Phase::Strategize | Phase::Execute => format!("agents plan resume {id}"),
    };
    if asks_for_word(record, facts).is_some() {
        return say_differently(&facts.plan, id);
    }
    match record.error.category() {
        // An apply needs no sandbox: what stood in its way is in the project itself.
        ErrorCategory::Sandbox if record.error.phase() == Phase::Apply => once_more,
        ErrorCategory::Sandbox | ErrorCategory::Auth => "agents doctor".to_owned(),
        // Of two nodes of the plan itself: only another attempt is without it.
        ErrorCategory::MergeConflict if record.error.phase() != Phase::Apply => {
            format!("agents plan prompt {id} \"…\" --replan")
        }
        ErrorCategory::MergeConflict => format!("agents plan diff {id} --conflicts"),
        ErrorCategory::Tool if wants_network(record, facts) => with_network(facts),
        ErrorCategory::Budget => ledger_view::raise_command(record, facts, id).unwrap_or(once_more),
        ErrorCategory::Tool
        | ErrorCategory::Timeout
        | ErrorCategory::Connection
        | ErrorCategory::Overloaded
        | ErrorCategory::RateLimit
        | ErrorCategory::Resource
        | ErrorCategory::ModelOutput
        | ErrorCategory::Validation
        | ErrorCategory::InvalidInput
        | ErrorCategory::Internal => once_more,
    }
}

/// Whether a person has to say how it goes on.
pub fn asks(facts: &PlanFacts) -> bool {
    last_error(facts).is_some_and(|record| record.recovery.action == Action::Ask)
        || wants_word(facts).is_some()
}

/// Why a plan that failed does not begin again by itself, though another strategy is called for.
fn wants_word(facts: &PlanFacts) -> Option<AskWhy> {
    facts.gate.filter(|gate| gate.point == GatePoint::Replan)?.asks()
}

/// What is typed to have a plan done another way: thought out anew where somebody thinks, else heeded by who does it.
pub fn say_differently(plan: &Plan, id: &str) -> String {
    let replan = if plan.spec.strategist.is_some() { " --replan" } else { "" };
    format!("agents plan prompt {id} \"…\"{replan}")
}

/// The same for one of its errors: only the last one is what it stands at.
fn asks_for_word(record: &ErrorRecord, facts: &PlanFacts) -> Option<AskWhy> {
    let is_last = last_error(facts).is_some_and(|last| last.recovery.seq == record.recovery.seq);
    wants_word(facts).filter(|_| is_last)
}

/// Whether the plan was given up because each process that worked on it died.
fn took_its_workers(record: &ErrorRecord) -> bool {
    record.error.category() == ErrorCategory::Resource
        && record.error.message().starts_with(WORKER_DIED_WORDS)
}

/// What to know or do about an error of the plan.
pub fn hint_for(record: &ErrorRecord, facts: &PlanFacts, id: &str) -> String {
    if let Some(why) = asks_for_word(record, facts) {
        return format!(
            "another strategy is called for, and {why}: say what to do differently, or resume it as it is"
        );
    }
    if kept_in(&record.error).is_some() {
        return "resuming captures what is in the sandbox, for as long as `capture.wait` allows; that of a cancelled plan stays until `agents plan gc`".to_owned();
    }
    match took_its_workers(record) {
        true => format!(
            "each process that worked on it was killed or crashed, so it is not given to another by itself: see how far it came with `agents plan logs {id}`, then try once more with `agents plan resume {id}`"
        ),
        false => record.recovery.hint.clone(),
    }
}

/// The shape that programs read.
pub fn to_json(facts: &PlanFacts, id: &str) -> Value {
    let plan = &facts.plan;
    let rung = facts.sandbox.as_ref().map(|sandbox| sandbox.rung.as_str());
    let projects: Vec<Value> = plan
        .projects
        .iter()
        .map(|project| {
            json!({
                "alias": project.alias, "root": project.root, "read_only": project.read_only, "sandbox": rung,
            })
        })
        .collect();
    let steps: Vec<Value> = facts
        .steps
        .iter()
        .map(|step| {
            json!({
                "node": step.node, "outcome": step.outcome.map_or(step.state.as_str(), |outcome| outcome.as_str()),
                "tries": step.tries,
                "duration_ms": step.duration_ms, "changed": step.changed,
            })
        })
        .collect();
    let next: Vec<Value> = next_steps(facts, id)
        .into_iter()
        .map(|step| json!({ "why": step.why, "command": step.command }))
        .collect();
    json!({
        "plan_id": plan.id, "short_id": id, "title": plan.title, "action": plan.spec.action, "command": facts.shown,
        "projects": projects, "phase": plan.state.phase(), "state": plan.state.word(), "attempt": plan.attempt,
        "reversions": plan.reversions, "undone": plan.undone_at.is_some(), "broken_off": facts.owner_is_gone,
        "automation": plan.spec.automation.name,
        "queue": facts.place.filter(|_| is_in_queue(facts)).map(|place| json!({
            "slots": place.slots, "busy": place.busy, "before": place.before, "served": place.is_served,
        })),
        "waiting": waiting(facts, id),
        "steps": steps,
        "changes": {
            "files": facts.net.len(), "insertions": facts.insertions, "deletions": facts.deletions,
            "ignored": facts.not_captured.scratch, "not_captured": facts.not_captured,
        },
        "validations": facts.validations,
        "usage": ledger_view::usage_json(&facts.ledger),
        "ledger": ledger_view::to_json(&facts.ledger),
        "error": error_json(facts, id),
        "constrained_by": plan.constrained_by,
        "sandbox": sandbox_json(facts),
        "times": plan_times::to_json(facts),
        "next": next,
    })
}

fn sandbox_json(facts: &PlanFacts) -> Value {
    let Some(sandbox) = &facts.sandbox else { return Value::Null };
    let passed: Vec<Value> =
        sandbox.passed_over.iter().map(|(rung, why)| json!({ "rung": rung, "why": why })).collect();
    json!({ "rung": sandbox.rung, "passed_over": passed })
}

fn waiting(facts: &PlanFacts, id: &str) -> Value {
    if facts.owner_is_gone {
        let command = next_steps(facts, id).into_iter().next().map(|step| step.command);
        return json!({ "reason": "somebody goes on with it", "command": command });
    }
    if facts.goes_on {
        return Value::Null;
    }
    if let Some(words) = queue_words(facts) {
        let command = (!facts.place.is_some_and(|place| place.is_served)).then_some("agents worker");
        return json!({ "reason": words, "command": command });
    }
    let reason = match facts.plan.state {
        PlanState::Strategize(Work::Complete) | PlanState::Execute(Work::Complete) => {
            return match asked_at_gate(facts) {
                Some(why) => json!({ "reason": why.to_string(), "command": yes_command(facts, id) }),
                None => Value::Null,
            };
        }
        PlanState::Strategize(Work::Queued) | PlanState::Execute(Work::Queued) => {
            let command = format!("agents plan execute {id}");
            return json!({ "reason": "somebody executes it", "command": command });
        }
        PlanState::Apply(ApplyState::Constrained) => "what stands in the way is removed",
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => return Value::Null,
    };
    let command = next_steps(facts, id).into_iter().next_back().map(|step| step.command);
    json!({ "reason": reason, "command": command })
}

/// Why a person is asked at the gate where the plan stands, if their yes is all that it waits for.
fn asked_at_gate(facts: &PlanFacts) -> Option<AskWhy> {
    facts.gate?.asks().filter(|why| why.is_settled_by_a_yes())
}

/// What is typed to say yes at that gate.
fn yes_command(facts: &PlanFacts, id: &str) -> String {
    match facts.plan.state {
        PlanState::Execute(Work::Complete) => format!("agents plan apply {id}"),
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => {
            format!("agents plan execute {id}")
        }
    }
}

/// What a plan that was thought out waits for, on a line of its own.
fn gate_line(facts: &PlanFacts) -> Option<String> {
    let is_thought_out = facts.plan.state == PlanState::Strategize(Work::Complete) && !facts.goes_on;
    let why = asked_at_gate(facts).filter(|_| is_thought_out)?;
    Some(format!("  waiting: {why}\n"))
}

/// The error that the plan stands at.
pub fn last_error(facts: &PlanFacts) -> Option<&ErrorRecord> {
    let is_errored = matches!(
        facts.plan.state,
        PlanState::Strategize(Work::Errored)
            | PlanState::Execute(Work::Errored)
            | PlanState::Apply(ApplyState::Errored)
    );
    facts.errors.records().next_back().filter(|_| is_errored)
}

fn error_json(facts: &PlanFacts, id: &str) -> Value {
    match last_error(facts) {
        Some(record) => json!({
            "category": record.error.category(), "message": record.error.message(), "hint": hint_for(record, facts, id),
            "command": command_for(record, facts, id),
        }),
        None => Value::Null,
    }
}

/// The plan for people: a head, a line for each phase, the way on.
pub fn to_text(facts: &PlanFacts, id: &str, look: &Look) -> String {
    body(facts, id, look) + &next_line(facts, id, look.paint)
}

/// The same with its times and what it used, for whoever asks how it stands.
pub fn to_text_with_times(facts: &PlanFacts, id: &str, look: &Look) -> String {
    let used = ledger_view::used_line(&facts.ledger, look.paint);
    body(facts, id, look)
        + &plan_times::to_text(facts, look.paint)
        + &used
        + &next_line(facts, id, look.paint)
}

fn body(facts: &PlanFacts, id: &str, look: &Look) -> String {
    let paint = look.paint;
    let plan = &facts.plan;
    let aliases: Vec<&str> = plan.projects.iter().map(|project| project.alias.as_str()).collect();
    let mut head =
        format!("plan {}  {} on {}", paint.bold(id), calm(&one_line(&plan.title)), aliases.join(", "));
    if let Some(sandbox) = &facts.sandbox {
        head.push_str(&format!("   sandbox {}", sandbox.rung));
    }
    if plan.spec.uses_network() {
        head.push_str(", network on");
    }
    let mut text = head + "\n";
    for line in phase_lines(facts, look) {
        text.push_str(&line);
    }
    text.extend(queue_words(facts).map(|words| format!("  {words}\n")));
    text.extend(gate_line(facts));
    text.push_str(&broken_line(facts));
    text.push_str(&error_lines(facts, id));
    for reason in &plan.constrained_by {
        text.push_str(&reason_line(reason));
    }
    text.push_str(&left_out_line(&facts.not_captured));
    text
}

fn broken_line(facts: &PlanFacts) -> String {
    match facts.owner_is_gone {
        true => {
            "  broken off: the process that worked on it is gone, what it did so far is kept\n".to_owned()
        }
        false => String::new(),
    }
}

/// What went wrong, and what to type.
fn error_lines(facts: &PlanFacts, id: &str) -> String {
    let Some(record) = last_error(facts) else { return String::new() };
    let command = command_for(record, facts, id);
    format!(
        "  {}: {}\n  go on with `{}`\n",
        record.error.category(),
        calm(record.error.message()),
        calm(&command)
    )
}

fn reason_line(reason: &Reason) -> String {
    format!("  {}  {}\n", calm(&reason.subject), calm(&reason.message))
}

fn next_line(facts: &PlanFacts, id: &str, paint: Paint) -> String {
    let steps: Vec<String> = next_steps(facts, id).into_iter().map(|step| step.command).collect();
    format!("{}  {}\n", paint.dim("next"), steps.join("     "))
}

fn phase_lines(facts: &PlanFacts, look: &Look) -> Vec<String> {
    let mut lines = Vec::new();
    let line = |phase: &str, state: String, time: String, rest: String| {
        let text =
            format!("  {phase:<10}  {}  {time:>9}  {rest}", coloured(&format!("{state:<10}"), look.paint));
        format!("{}\n", text.trim_end())
    };
    let state = facts.plan.state;
    let strategize = match state {
        PlanState::Strategize(work) => work_word(work, facts).to_owned(),
        PlanState::Execute(_) | PlanState::Apply(_) => "done".to_owned(),
    };
    let worked = |phase| plan_times::worked(facts, phase).map(took).unwrap_or_default();
    let steps = match (&facts.plan.spec.strategist, facts.plan.spec.steps.len()) {
        (Some(strategist), _) => format!("by {}", calm(&one_line(&strategist.name))),
        (None, 1) => "one step".to_owned(),
        (None, many) => format!("{many} steps"),
    };
    lines.push(line("strategize", strategize, worked(Phase::Strategize), steps));
    let command = look.cut(&calm(&one_line(&facts.shown)), 50);
    let execute = match state {
        PlanState::Strategize(_) => None,
        PlanState::Execute(work) => Some(work_word(work, facts).to_owned()),
        PlanState::Apply(_) => Some("done".to_owned()),
    };
    if let Some(word) = execute {
        let mut rest = command;
        if !facts.net.is_empty() || state == PlanState::Execute(Work::Complete) {
            let files = counted(facts.net.len(), "file");
            rest.push_str(&format!("   {files}  +{} -{}", facts.insertions, facts.deletions));
        }
        lines.push(line("execute", word, step_time(facts, |node| !node.starts_with("validate/")), rest));
        lines.extend(validate_line(facts, line));
    }
    if let PlanState::Apply(apply) = state {
        let word = match apply {
            ApplyState::Queued => "queued",
            ApplyState::Processing if facts.owner_is_gone => "broken off",
            ApplyState::Processing => "running",
            ApplyState::Applied if facts.plan.undone_at.is_some() => "undone",
            ApplyState::Applied => "applied",
            ApplyState::Constrained => "refused",
            ApplyState::Errored => "failed",
            ApplyState::Cancelled => "cancelled",
        };
        lines.push(line("apply", word.to_owned(), worked(Phase::Apply), String::new()));
    }
    lines
}

fn validate_line(facts: &PlanFacts, line: impl Fn(&str, String, String, String) -> String) -> Option<String> {
    let summary = &facts.validations;
    let is_over = matches!(facts.plan.state, PlanState::Execute(Work::Complete) | PlanState::Apply(_));
    if summary.verdict == "none" {
        return is_over
            .then(|| line("validate", "none".to_owned(), String::new(), "no validations".to_owned()));
    }
    if !is_over && facts.results.is_empty() {
        return None;
    }
    let mut rest = format!("{} of {} required", summary.passed, summary.required);
    if !summary.failed.is_empty() {
        rest.push_str(&format!("; failed: {}", names(&summary.failed)));
    }
    if !summary.warned.is_empty() {
        rest.push_str(&format!("; warned: {}", names(&summary.warned)));
    }
    let verdict = summary.verdict.replace('_', " ");
    Some(line("validate", verdict, step_time(facts, |node| node.starts_with("validate/")), rest))
}

fn names(checks: &[String]) -> String {
    calm(&checks.iter().map(|name| one_line(name)).collect::<Vec<_>>().join(", "))
}

fn step_time(facts: &PlanFacts, is_of: impl Fn(&str) -> bool) -> String {
    let steps = facts.steps.iter().filter(|step| is_of(&step.node) && step.state != CallState::Running);
    let times: Vec<u64> = steps.filter_map(|step| step.duration_ms).collect();
    if times.is_empty() { String::new() } else { took(times.iter().sum()) }
}

fn work_word(work: Work, facts: &PlanFacts) -> &'static str {
    match work {
        Work::Processing if facts.owner_is_gone => "broken off",
        Work::Queued => "queued",
        Work::Processing => "running",
        Work::Complete => "done",
        Work::Errored => "failed",
        Work::Cancelled => "cancelled",
    }
}

fn coloured(word: &str, paint: Paint) -> String {
    match word.trim_end() {
        "done" | "passed" | "applied" => paint.green(word),
        "failed" | "refused" | "cancelled" | "broken off" => paint.red(word),
        "running" | "queued" | "not run" | "undone" => paint.yellow(word),
        _ => word.to_owned(),
    }
}

/// Why the plan did not come where it was sent: none when it did.
pub fn failure_of(facts: &PlanFacts, id: &str) -> Option<Failure> {
    if facts.owner_is_gone {
        return Some(broken_off(facts, id));
    }
    match facts.plan.state {
        PlanState::Strategize(Work::Errored)
        | PlanState::Execute(Work::Errored)
        | PlanState::Apply(ApplyState::Errored) => Some(errored(facts, id)),
        PlanState::Strategize(Work::Cancelled)
        | PlanState::Execute(Work::Cancelled)
        | PlanState::Apply(ApplyState::Cancelled) => Some(cancelled(facts, id)),
        PlanState::Apply(ApplyState::Constrained) => {
            let failure =
                Failure::new(&codes::CONFLICTS, format!("plan {id} not applied, nothing was written"));
            let failure = facts.plan.constrained_by.iter().fold(failure, |failure, reason| {
                failure.line(format!("{}  {}", reason.subject, reason.message))
            });
            Some(
                failure
                    .hint(format!("see `agents plan diff {id} --conflicts`, then `agents plan apply {id}`")),
            )
        }
        PlanState::Execute(Work::Complete) if !facts.validations.lets_through() => {
            Some(from_engine::validation(&facts.validations.failed, &facts.validations.not_run, id))
        }
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => None,
    }
}

fn cancelled(facts: &PlanFacts, id: &str) -> Failure {
    let message =
        format!("plan {id} was cancelled; what it changed so far is kept, your files are untouched");
    let failure = Failure::new(&codes::CANCELLED, message);
    match facts.errors.records().next_back().and_then(|last| kept_in(&last.error)) {
        None => failure,
        Some(dir) => failure
            .line(format!(
                "what its last command changed could not be captured; its sandbox is kept in {dir}"
            ))
            .hint("copy what you need from there, then clear it with `agents plan gc`"),
    }
}

/// Nothing is left to go on with or to stop in a plan that was taken back.
///
/// # Errors
/// It was.
pub fn refuse_undone(facts: &PlanFacts, id: &str) -> Result<(), Failure> {
    match facts.plan.undone_at {
        None => Ok(()),
        Some(_) => Err(Failure::new(
            &codes::PLAN_FINAL,
            format!("plan {id} was applied and undone: there is nothing to go on with, and nothing to stop"),
        )
        .hint(format!("to apply it again: `agents plan apply {id}`"))),
    }
}

/// Nobody works on the plan, and it is not done.
pub fn broken_off(facts: &PlanFacts, id: &str) -> Failure {
    let phase = facts.plan.state.phase();
    let message = format!("plan {id} was broken off in {phase}: the process that worked on it is gone");
    Failure::new(&codes::PLAN_NOT_READY, message).hint(format!(
        "go on with `agents plan resume {id}`, or stop it for good with `agents plan cancel {id}`"
    ))
}

fn errored(facts: &PlanFacts, id: &str) -> Failure {
    let phase = facts.plan.state.phase();
    let Some(record) = facts.errors.records().next_back() else {
        return Failure::new(&codes::PLAN_ERRORED, format!("plan {id} failed in {phase}"))
            .hint(format!("try again with `agents plan resume {id}`"));
    };
    if let Some(command) = ledger_view::raise_command(record, facts, id) {
        let message = format!("plan {id} stopped in {phase}: {}", record.error.message());
        return Failure::new(&codes::LIMIT_REACHED, message)
            .detail(json!({ "category": record.error.category(), "phase": phase, "limit": record.error.detail() }))
            .hint(format!("let it use more and go on: `{command}`"));
    }
    let code = if asks(facts) { &codes::PLAN_ASKS } else { &codes::PLAN_ERRORED };
    let failure = Failure::new(code, format!("plan {id} failed in {phase}: {}", record.error.message()))
        .detail(json!({ "category": record.error.category(), "phase": phase }));
    if record.error.category() == ErrorCategory::Sandbox && record.error.phase() != Phase::Apply {
        return failure.hint(format!(
            "see what this machine offers with `agents doctor`; try again with `agents plan resume {id}`"
        ));
    }
    if took_its_workers(record) {
        return failure.hint(hint_for(record, facts, id));
    }
    let failure = failure.hint(format!("see `agents plan logs {id}` and `agents plan errors {id}`"));
    let command = command_for(record, facts, id);
    if asks_for_word(record, facts).is_some() {
        return failure
            .hint(format!("say what to do differently: `{command}`"))
            .hint(format!("or try again as it is with `agents plan resume {id}`"));
    }
    failure.hint(match wants_network(record, facts) {
        true => format!("let it use the network: `{command}`"),
        false => format!("try again with `{command}`"),
    })
}
