//! Renders the next steps of a plan: what it waits for, and the commands to type next.
//!
//! # Invariants
//! 1. Whatever the plan's state, there is a next step.
//! 2. A plan that waits for its turn never suggests a start, and one that waits for a person always names a
//!    command.
//!
//! # Not here
//! Errors and their remedies (`failure`); the form of a plan (`plan`).

use domain::{ApplyState, AskReason, ErrorCategory, PlanState, Validation, WallMs, WorkState, format_wait};
use engine::{PlanDetails, QueuePlace};
use serde_json::{Value, json};

use super::diff::counted;
use super::failure::{ask_again_command, last_error, say_differently, wants_network, with_network};
use super::usage;
use crate::cli::trust_command;
use crate::time::now;

/// A command that leads on, and why one would type it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    /// The reason.
    pub why: &'static str,
    /// The command to type.
    pub command: String,
}

/// Returns the commands that are possible for the plan now.
pub fn next_steps(facts: &PlanDetails, id: &str) -> Vec<NextStep> {
    let step = |why, verb: &str| NextStep { why, command: format!("agents plan {verb} {id}") };
    let again = NextStep {
        why: "do it anew, keeping this try",
        command: format!("agents plan execute {id} --again"),
    };
    if facts.owner_is_gone {
        return vec![step("go on with it", "resume"), step("stop it for good", "cancel")];
    }
    match facts.plan.state {
        PlanState::Strategize(WorkState::Queued) | PlanState::Execute(WorkState::Queued)
            if is_in_queue(facts) =>
        {
            vec![step("follow it", "watch"), step("stop it", "cancel")]
        }
        PlanState::Strategize(WorkState::Complete) | PlanState::Execute(WorkState::Complete)
            if facts.goes_on =>
        {
            vec![step("follow it", "watch"), step("stop it", "cancel")]
        }
        PlanState::Strategize(WorkState::Complete) => {
            let again =
                NextStep { why: "have it thought out again", command: say_differently(&facts.plan, id) };
            let again = facts.plan.spec.strategist.as_ref().map(|_| again);
            let steps = [step("see what it is about to do", "tree"), step("say yes to that", "execute")];
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
            let try_again = match last_error(facts) {
                Some(record) if wants_network(record, facts) => {
                    NextStep { why: "do it anew with the network", command: with_network(facts) }
                }
                Some(record) if record.error.category() == ErrorCategory::InvalidInput => {
                    NextStep { why: "ask differently", command: ask_again_command(facts) }
                }
                Some(record) => match usage::raise_command(record, facts, id) {
                    Some(command) => NextStep { why: "let it use more and go on", command },
                    None => step("try again", "resume"),
                },
                None => step("try again", "resume"),
            };
            vec![step("see why", "errors"), step("see what was printed", "logs"), try_again]
        }
        PlanState::Execute(WorkState::Complete) if facts.validations.waits_for_trust() => {
            let trust = untrusted_root(facts).map(trust_command);
            let trust = trust.map(|command| NextStep { why: "trust the checks of the project", command });
            let unchecked = format!("agents plan apply {id} --unchecked");
            let unchecked = NextStep { why: "apply it without them", command: unchecked };
            [step("see what changed", "diff")].into_iter().chain(trust).chain([unchecked]).collect()
        }
        PlanState::Execute(WorkState::Complete) if !facts.validations.may_be_applied() => {
            vec![step("see what was printed", "logs"), step("see what changed", "diff"), again]
        }
        PlanState::Execute(WorkState::Complete) if facts.net.is_empty() => {
            vec![step("see what was printed", "logs"), again]
        }
        PlanState::Execute(WorkState::Complete) => {
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
        PlanState::Strategize(WorkState::Cancelled)
        | PlanState::Execute(WorkState::Cancelled)
        | PlanState::Apply(ApplyState::Cancelled) => vec![step("see what it had changed", "diff")],
    }
}

/// The project of the first check that waits for the user's trust.
fn untrusted_root(facts: &PlanDetails) -> Option<&[u8]> {
    let plan = &facts.plan;
    let waits = |check: &&Validation| facts.validations.untrusted.contains(&check.name);
    let check = plan.spec.validations.iter().find(waits)?;
    Some(plan.projects.get(usize::from(check.root.0))?.root.as_bytes())
}

/// Returns whether the plan waits for its turn, and not for a person.
pub fn is_in_queue(facts: &PlanDetails) -> bool {
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

/// Returns the reason why a plan waits in the queue; `None` if it waits for a person.
pub fn queue_words(facts: &PlanDetails) -> Option<String> {
    let place = facts.place.filter(|_| is_in_queue(facts))?;
    Some(match waits_for_slot(&place) {
        Some(words) => words,
        None if !place.is_served => match wanted_keys(facts) {
            None => "waiting: no worker lives, start one with `agents worker`".to_owned(),
            Some(keys) => {
                format!("waiting: no worker that lives has {keys}, start one that has with `agents worker`")
            }
        },
        None => format!("waiting for a worker, {}", before(&place)),
    })
}

/// The variables that a worker must have to take up or over what was left to the workers; none where any will
/// do.
pub fn wanted_keys(facts: &PlanDetails) -> Option<String> {
    let job = facts.live_job.as_ref().filter(|job| !job.is_held() && !job.keys.is_empty())?;
    Some(job.keys.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
}

/// Returns the reason why a node of the plan waits, if the wait ends by itself, and the time left.
pub fn waits_words(facts: &PlanDetails, now: WallMs) -> Option<String> {
    let waits = facts.waits.as_ref()?;
    let left = waits.left(now).map(|left| format!(" (for {} more)", format_wait(left)));
    Some(waits.why.clone() + &left.unwrap_or_default())
}

/// The same for programs: what the plan waits for, and what ends the waiting; null when it waits for nothing.
pub fn waiting(facts: &PlanDetails, id: &str) -> Value {
    if facts.owner_is_gone {
        let command = next_steps(facts, id).into_iter().next().map(|step| step.command);
        return json!({ "reason": "somebody goes on with it", "command": command });
    }
    if facts.goes_on {
        return Value::Null;
    }
    if let Some(words) = waits_words(facts, now()) {
        return json!({ "reason": words, "command": null });
    }
    if let Some(words) = queue_words(facts) {
        let command = (!facts.place.is_some_and(|place| place.is_served)).then_some("agents worker");
        return json!({ "reason": words, "command": command });
    }
    let reason = match facts.plan.state {
        PlanState::Strategize(WorkState::Complete) | PlanState::Execute(WorkState::Complete) => {
            if facts.validations.waits_for_trust() {
                let command = untrusted_root(facts).map(trust_command);
                return json!({ "reason": "you trust the checks of the project", "command": command });
            }
            return match asked_at_gate(facts) {
                Some(why) => json!({ "reason": why.to_string(), "command": yes_command(facts, id) }),
                None => Value::Null,
            };
        }
        PlanState::Strategize(WorkState::Queued) | PlanState::Execute(WorkState::Queued) => {
            let command = format!("agents plan execute {id}");
            return json!({ "reason": "somebody executes it", "command": command });
        }
        PlanState::Apply(ApplyState::Constrained) => "what stands in the way is removed",
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => return Value::Null,
    };
    let command = next_steps(facts, id).into_iter().next_back().map(|step| step.command);
    json!({ "reason": reason, "command": command })
}

/// Returns the reason why a person is asked at the plan's gate, if their yes is all that it waits for.
pub fn asked_at_gate(facts: &PlanDetails) -> Option<AskReason> {
    facts.gate?.asks().filter(|why| why.is_settled_by_a_yes())
}

/// Returns the command that says yes at that gate.
fn yes_command(facts: &PlanDetails, id: &str) -> String {
    match facts.plan.state {
        PlanState::Execute(WorkState::Complete) => format!("agents plan apply {id}"),
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => {
            format!("agents plan execute {id}")
        }
    }
}
