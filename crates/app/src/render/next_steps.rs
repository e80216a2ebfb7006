//! The next steps of a plan: what it waits for, and the commands to type next.
//!
//! # Invariants
//! 1. Whatever the plan's state, there is a next step.
//! 2. A plan that waits for its turn never suggests a start, and one that waits for a person always names a
//!    command.
//!
//! # Not here
//! The failures of plans (`failure`); the hints of failures (`errors::codes`); the form of a plan (`plan`).

use std::time::Duration;

use domain::{
    ApplyState, AskReason, ByteText, CallState, CommandLine, ErrorCategory, ErrorRecord, LimitReached, Phase,
    Plan, PlanEvent, PlanState, SpendKind, Validation, WallMs, WorkState, format_wait, money,
};
use engine::{PlanDetails, QueuePlace, retained_dir_of};
use serde_json::{Value, json};

use super::diff::counted;
use super::failure::{asks_for_word, failed_command, last_error, wants_network};
use crate::output::one_line;
use crate::time::{format_typed, now};

/// A command that leads on, and why one would type it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    /// The reason.
    pub why: &'static str,
    /// The command to type.
    pub command: String,
}

/// Returns the commands that are possible for the plan now.
pub fn next_steps(details: &PlanDetails, id: &str) -> Vec<NextStep> {
    let step = |why, verb: &str| NextStep { why, command: format!("agents plan {verb} {id}") };
    let again = NextStep {
        why: "do it again, and keep this attempt",
        command: format!("agents plan execute {id} --again"),
    };
    if details.owner_is_gone {
        return vec![step("continue it", "resume"), step("stop it for good", "cancel")];
    }
    let partial = || NextStep {
        why: "apply what it changed, as it is",
        command: format!("agents apply {id} --partial"),
    };
    let has_part = !details.net.is_empty() && details.plan.state.next(PlanEvent::Accept).is_ok();
    if details.is_interrupted {
        let steps = [step("continue it", "resume")].into_iter();
        return steps
            .chain(has_part.then(|| step("see its changes", "diff")))
            .chain(has_part.then(partial))
            .collect();
    }
    match details.plan.state {
        PlanState::Strategize(WorkState::Queued) | PlanState::Execute(WorkState::Queued)
            if is_in_queue(details) =>
        {
            vec![step("follow it", "watch"), step("stop it", "cancel")]
        }
        PlanState::Strategize(WorkState::Complete) | PlanState::Execute(WorkState::Complete)
            if details.goes_on =>
        {
            vec![step("follow it", "watch"), step("stop it", "cancel")]
        }
        PlanState::Strategize(WorkState::Complete) => {
            let again =
                NextStep { why: "ask for another strategy", command: say_differently(&details.plan, id) };
            let again = details.plan.spec.strategist.as_ref().map(|_| again);
            let steps = [step("see its strategy", "tree"), step("approve the strategy", "execute")];
            steps.into_iter().chain(again).collect()
        }
        PlanState::Strategize(WorkState::Queued) | PlanState::Execute(WorkState::Queued) => {
            vec![step("start it", "execute"), step("drop it", "cancel")]
        }
        PlanState::Strategize(WorkState::Processing)
        | PlanState::Execute(WorkState::Processing)
        | PlanState::Apply(ApplyState::Queued | ApplyState::Processing) => {
            vec![step("follow it", "watch"), step("stop it", "cancel")]
        }
        PlanState::Strategize(WorkState::Errored) | PlanState::Execute(WorkState::Errored) => {
            let try_again = match last_error(details) {
                Some(record) if wants_network(record, details) => {
                    NextStep { why: "do it again with the network", command: with_network(details) }
                }
                Some(record) if record.error.category() == ErrorCategory::InvalidInput => {
                    NextStep { why: "ask differently", command: ask_again_command(details) }
                }
                Some(record) => match raise_command(record, details, id) {
                    Some(command) => NextStep { why: "let it use more and continue", command },
                    None => step("try again", "resume"),
                },
                None => step("try again", "resume"),
            };
            let is_command =
                last_error(details).is_some_and(|record| failed_command(record, details).is_some());
            let why = (!is_command).then(|| step("see why", "errors"));
            let steps = why.into_iter().chain([step("see its output", "logs"), try_again]);
            steps.chain(has_part.then(partial)).collect()
        }
        PlanState::Execute(WorkState::Complete) if details.validations.waits_for_trust() => {
            let trust = untrusted_root(details).map(trust_command);
            let trust = trust.map(|command| NextStep { why: "trust the checks of the project", command });
            let unchecked = format!("agents plan apply {id} --unchecked");
            let unchecked = NextStep { why: "apply it without them", command: unchecked };
            [step("see its changes", "diff")].into_iter().chain(trust).chain([unchecked]).collect()
        }
        PlanState::Execute(WorkState::Complete) if !details.validations.may_be_applied() => {
            let check = step("run its checks again", "check");
            vec![step("see its output", "logs"), step("see its changes", "diff"), check, again]
        }
        PlanState::Execute(WorkState::Complete) if details.net.is_empty() => {
            vec![step("see its output", "logs"), again]
        }
        PlanState::Execute(WorkState::Complete) => {
            vec![step("see its changes", "diff"), step("apply it to your files", "apply")]
        }
        PlanState::Apply(ApplyState::Constrained) => vec![
            NextStep { why: "see the conflicts", command: format!("agents plan diff {id} --conflicts") },
            step("try again", "apply"),
        ],
        PlanState::Apply(ApplyState::Errored) => vec![step("see why", "errors"), step("try again", "apply")],
        PlanState::Apply(ApplyState::Applied) if details.plan.undone_at.is_some() => {
            vec![step("apply it again", "apply")]
        }
        PlanState::Apply(ApplyState::Applied) => vec![step("undo it", "undo")],
        PlanState::Strategize(WorkState::Cancelled)
        | PlanState::Execute(WorkState::Cancelled)
        | PlanState::Apply(ApplyState::Cancelled) => {
            [step("see its changes", "diff")].into_iter().chain(has_part.then(partial)).collect()
        }
    }
}

/// The project of the first check that waits for the user's trust.
fn untrusted_root(details: &PlanDetails) -> Option<&[u8]> {
    let plan = &details.plan;
    let waits = |check: &&Validation| details.validations.untrusted.contains(&check.name);
    let check = plan.spec.validations.iter().find(waits)?;
    Some(plan.projects.get(usize::from(check.root.0))?.root.as_bytes())
}

/// Returns whether the plan waits for its turn, and not for a person.
pub fn is_in_queue(details: &PlanDetails) -> bool {
    details.place.is_some_and(|place| place.is_served || !place.is_held)
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

/// Returns the reason why a plan waits in the queue; `None` if it waits for a person.
pub fn queue_words(details: &PlanDetails) -> Option<String> {
    let place = details.place.filter(|_| is_in_queue(details))?;
    Some(match waits_for_slot(&place) {
        Some(words) => words,
        None if !place.is_served => match wanted_keys(details) {
            None => format!("waiting: no worker is running, {START_WORKER}"),
            Some(keys) => format!("waiting: no running worker has {keys}, {START_WORKER} where it is set"),
        },
        None => format!("waiting for a worker, {}", before(&place)),
    })
}

/// The variables that a worker must have to take up or over what was left to the workers; none where any will
/// do.
pub fn wanted_keys(details: &PlanDetails) -> Option<String> {
    let job = details.live_job.as_ref().filter(|job| !job.is_held() && !job.keys.is_empty())?;
    Some(job.keys.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
}

/// Returns the reason why a node of the plan waits, if the wait ends by itself, and the time left.
pub fn waits_words(details: &PlanDetails, now: WallMs) -> Option<String> {
    let waits = details.waits.as_ref()?;
    let left = waits.left(now).map(|left| format!(" (for {} more)", format_wait(left)));
    Some(waits.why.clone() + &left.unwrap_or_default())
}

/// The same for programs: what the plan waits for, and what ends the waiting; null when it waits for nothing.
pub fn waiting(details: &PlanDetails, id: &str) -> Value {
    if details.owner_is_gone {
        let command = next_steps(details, id).into_iter().next().map(|step| step.command);
        return json!({ "reason": "the user resumes it", "command": command });
    }
    if details.goes_on {
        return Value::Null;
    }
    if let Some(words) = waits_words(details, now()) {
        return json!({ "reason": words, "command": null });
    }
    if let Some(words) = queue_words(details) {
        let command = (!details.place.is_some_and(|place| place.is_served)).then_some("agents worker");
        return json!({ "reason": words, "command": command });
    }
    let reason = match details.plan.state {
        PlanState::Strategize(WorkState::Complete) | PlanState::Execute(WorkState::Complete) => {
            if details.validations.waits_for_trust() {
                let command = untrusted_root(details).map(trust_command);
                return json!({ "reason": "you trust the checks of the project", "command": command });
            }
            return match asked_at_gate(details) {
                Some(why) => json!({ "reason": why.to_string(), "command": yes_command(details, id) }),
                None => Value::Null,
            };
        }
        PlanState::Strategize(WorkState::Queued) | PlanState::Execute(WorkState::Queued) => {
            let command = format!("agents plan execute {id}");
            return json!({ "reason": "the user executes it", "command": command });
        }
        PlanState::Apply(ApplyState::Constrained) => "the conflicts are resolved",
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => return Value::Null,
    };
    let command = next_steps(details, id).into_iter().next_back().map(|step| step.command);
    json!({ "reason": reason, "command": command })
}

/// Returns the reason why a person is asked at the plan's gate, if their yes is all that it waits for.
pub fn asked_at_gate(details: &PlanDetails) -> Option<AskReason> {
    details.gate?.asks().filter(|why| why.is_settled_by_a_yes())
}

/// Returns the command that says yes at that gate.
fn yes_command(details: &PlanDetails, id: &str) -> String {
    match details.plan.state {
        PlanState::Execute(WorkState::Complete) => format!("agents plan apply {id}"),
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => {
            format!("agents plan execute {id}")
        }
    }
}

/// Returns the command to type about an error of the plan.
pub fn command_for(record: &ErrorRecord, details: &PlanDetails, id: &str) -> String {
    if details.plan.state.is_final() && retained_dir_of(&record.error).is_some() {
        return "agents doctor".to_owned();
    }
    let once_more = match record.error.phase() {
        Phase::Apply => format!("agents plan apply {id}"),
        Phase::Strategize | Phase::Execute => format!("agents plan resume {id}"),
    };
    if asks_for_word(record, details).is_some() {
        return say_differently(&details.plan, id);
    }
    match record.error.category() {
        // An apply needs no sandbox: what stood in its way is in the project itself.
        ErrorCategory::Sandbox if record.error.phase() == Phase::Apply => once_more,
        ErrorCategory::Sandbox => "agents doctor".to_owned(),
        ErrorCategory::InvalidInput if record.error.phase() != Phase::Apply => ask_again_command(details),
        // Of two nodes of the plan itself: only another attempt is without it.
        ErrorCategory::MergeConflict if record.error.phase() != Phase::Apply => {
            format!("agents plan prompt {id} \"…\" --replan")
        }
        ErrorCategory::MergeConflict => format!("agents plan diff {id} --conflicts"),
        ErrorCategory::Tool if wants_network(record, details) => with_network(details),
        ErrorCategory::Budget => raise_command(record, details, id).unwrap_or(once_more),
        ErrorCategory::Tool
        | ErrorCategory::Timeout
        | ErrorCategory::Connection
        | ErrorCategory::Overloaded
        | ErrorCategory::RateLimit
        | ErrorCategory::Resource
        | ErrorCategory::ModelOutput
        | ErrorCategory::Validation
        | ErrorCategory::Auth
        | ErrorCategory::InvalidInput
        | ErrorCategory::Internal => once_more,
    }
}

/// Returns the command that has a plan done another way: with a new strategy if it has a strategist, else
/// heeded by its actor.
pub fn say_differently(plan: &Plan, id: &str) -> String {
    let replan = if plan.spec.strategist.is_some() { " --replan" } else { "" };
    format!("agents plan prompt {id} \"…\"{replan}")
}

/// Returns the command to ask again: the sources of the plan are frozen in it.
pub fn ask_again_command(details: &PlanDetails) -> String {
    let spec = &details.plan.spec;
    let actor = spec.sources.iter().find(|source| source.kind == "actor");
    match (&spec.action, actor) {
        (Some(action), _) => format!("agents run {action}"),
        (None, Some(actor)) => format!("agents run \"…\" --actor {}", actor.name),
        (None, None) => "agents run …".to_owned(),
    }
}

/// The network is frozen in the plan, so only a new plan can have it.
pub fn with_network(details: &PlanDetails) -> String {
    format!("agents run --network -- {}", typed_command(details))
}

/// Returns the time limit at which the plan's only command was stopped, and the command that starts it with twice
/// as much: the limit is frozen in the plan. `None` if it failed otherwise, or is not a command that was typed.
pub fn more_time_command(record: &ErrorRecord, details: &PlanDetails) -> Option<(Duration, String)> {
    let spec = &details.plan.spec;
    let call = details.calls.iter().find(|call| Some(call.no) == record.error.tool_call())?;
    let is_late = call.end.as_ref().is_some_and(|end| end.state == CallState::TimedOut);
    let task = spec.commands().next().filter(|task| is_late && spec.steps.len() == 1 && !task.expand)?;
    let limit = Duration::from_secs(task.timeout_s?);
    let more = format_typed(limit.saturating_mul(2).max(Duration::from_secs(1)));
    let network = if task.network { " --network" } else { "" };
    Some((limit, format!("agents run --timeout {more}{network} -- {}", typed_command(details))))
}

/// The plan's command as it can be typed; `…` if it is too long for a line.
fn typed_command(details: &PlanDetails) -> String {
    let command = details.shown.clone();
    // What was cut cannot be typed.
    if one_line(&command) == command { command } else { "…".to_owned() }
}

/// Returns the command that lets a plan continue after a limit stopped it, and not just for one call. It asks
/// for twice as much, or as much more as two calls reserve if that is more. `None` for another error.
pub fn raise_command(record: &ErrorRecord, details: &PlanDetails, id: &str) -> Option<String> {
    let kind = LimitReached::kind_in(record.error.detail());
    let kind = kind.filter(|_| record.error.category() == ErrorCategory::Budget)?;
    let amount = |key: &str| record.error.detail().get(key).and_then(Value::as_u64).unwrap_or_default();
    let wanted = amount("used").saturating_add(amount("reserved")).saturating_add(amount("asked"));
    let scope = record.error.detail().get("scope").and_then(Value::as_str).unwrap_or_default();
    if scope.starts_with("day:") {
        let more = money::format_dollars(more_than(amount("max"), amount("asked"), wanted));
        return Some(format!("agents config set limits.day_cost={more}"));
    }
    let max = details.ledger.account(kind).max.unwrap_or_default();
    let more = match kind {
        // In whole seconds, and no less than one.
        SpendKind::Time => format_typed(Duration::from_secs(max.div_ceil(1_000).max(1).saturating_mul(2))),
        SpendKind::Steps | SpendKind::ToolCalls => max.max(1).saturating_mul(2).to_string(),
        SpendKind::Tokens => more_than(max, amount("asked"), wanted).to_string(),
        SpendKind::Cost => money::format_dollars(more_than(max, amount("asked"), wanted)),
    };
    Some(format!("agents plan resume {id} --limit {kind}={more}"))
}

/// Twice the limit, or the limit and twice what was asked for. A call that is settled has used less than it
/// reserved, so there is room for the next ones. Rounded up, so that it can be typed.
fn more_than(max: u64, asked: u64, wanted: u64) -> u64 {
    let more = max.saturating_mul(2).max(max.saturating_add(asked.saturating_mul(2))).max(wanted);
    let unit = 10_u64.saturating_pow(more.checked_ilog10().unwrap_or(0).saturating_sub(1));
    more.div_ceil(unit).saturating_mul(unit)
}

/// The way to the first plan.
pub const FIRST_PLAN: &str = "start one with `agents run -- COMMAND`";
/// The way to a worker.
pub const START_WORKER: &str = "start one with `agents worker`";
/// The way to the outcome of a cancel whose end was not awaited.
pub const SEE_PLANS: &str = "see the outcome with `agents plan list`";
/// The way to the reason why an isolation is not the best.
pub const SEE_DOCTOR: &str = "see `agents doctor`";
/// The way to the notes that a line has no room for.
pub const SEE_ALL_NOTES: &str = "`agents plan logs --format json`";
/// The way to free the space of a retained sandbox whose plan is final.
pub const COPY_THEN_CLEAR: &str = "copy what you need, then clear it with `agents plan gc`";
/// The commands of a screen without a plan, if there are older ones.
pub const TABLE_OF_ENDED_PLANS: &str = "\
    agents plan list                 all plans, also those that ended\n\
    agents run --detach -- COMMAND   run a command in a background worker: it is listed here\n";
/// The commands of a screen without a plan.
pub const TABLE_OF_NO_PLANS: &str = "\
    agents run -- COMMAND            run a command in a sandbox of your project\n\
    agents run --detach -- COMMAND   the same in a background worker: it is listed here\n";

/// Returns the step after an apply.
pub fn after_apply(id: &str) -> String {
    format!("undo with `agents plan undo {id}`")
}

/// Returns the step that sends notes to the actor.
pub fn send_notes(id: &str) -> String {
    format!("send the open notes with `agents plan revise {id}`")
}

/// Returns the step from a list of checkpoints.
pub fn roll_back(id: &str) -> String {
    format!("return to one with `agents plan rollback {id} --to N`")
}

/// Returns the step that continues a finished plan.
pub fn continue_plan(id: &str) -> String {
    format!("continue it with `agents plan revise {id} \"…\"`")
}

/// Returns the step after an undo.
pub fn after_undo(id: &str) -> String {
    format!("apply again with `agents plan apply {id}`")
}

/// Returns the step after a cancel that left changes.
pub fn after_cancel(id: &str) -> String {
    format!("see them with `agents plan diff {id}`, have them with `agents apply {id} --partial`")
}

/// Returns the steps for a plan whose process is gone.
pub fn after_interruption(id: &str) -> String {
    format!("continue with `agents plan resume {id}`, or stop it with `agents plan cancel {id}`")
}

/// Returns the step that shows all about a plan.
pub fn see_status(id: &str) -> String {
    format!("see `agents plan status {id}`")
}

/// Returns the steps for a retained sandbox whose plan is not final.
pub fn capture_or_give_up(plan: &str) -> String {
    format!(
        "capture them with `agents plan resume {plan}`, or give them up with `agents plan cancel {plan}` and `agents plan gc`"
    )
}

/// Returns the step that abandons an interrupted apply.
pub fn abandon_apply(id: &str) -> String {
    format!("give it up with `agents plan gc --set-aside {id}`")
}

/// Returns the steps for checks of a project that is not trusted.
pub fn trust_or_skip_checks(root: &[u8]) -> String {
    format!(
        "trust it with `{}`, or apply without it: `agents plan apply ID --unchecked`",
        trust_command(root)
    )
}

/// Returns the command that trusts a project.
pub fn trust_command(root: &[u8]) -> String {
    CommandLine::Argv(vec!["agents".into(), "trust".into(), ByteText(root.to_vec())]).render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_twice_as_much_or_what_two_calls_ask_for_on_top_in_two_digits() {
        assert_eq!(more_than(5, 1, 6), 10);
        assert_eq!(more_than(9_000, 9_050, 9_050), 28_000);
        assert_eq!(more_than(100, 11_050, 11_050), 23_000, "and not 11050, which one call would reserve");
        assert_eq!(more_than(60_000, 11_050, 70_000), 120_000);
        assert_eq!(more_than(u64::MAX, 1, 1), u64::MAX);
    }
}
