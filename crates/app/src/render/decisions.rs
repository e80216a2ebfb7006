//! Decisions as people and programs see them: a tree, a line, and one with all that hangs on it.
//!
//! # Invariants
//! 1. A decision is named by the beginning of its id that no other of its plan has, of at least 10 letters.
//! 2. A decision that is nested below another follows from it; an arrow names its other grounds.
//! 3. Every answer about one decision has the command that corrects it.

use std::collections::BTreeMap;

use domain::{Decision, DecisionKind, Plan};
use engine::{Affected, DecisionDetails, SHORT_ID_CHARS_MIN, shortest};
use serde_json::{Value, json};

use crate::output::{OutputStyle, escape_control_chars, one_line};
use crate::time::stamp;

/// The characters of a choice that its line shows.
const CHOSEN_CHARS: usize = 72;

/// The names of a plan's decisions.
#[derive(Clone, Debug)]
pub struct DecisionNames(BTreeMap<u32, String>);

impl DecisionNames {
    /// All of the plan's, also those that gave way.
    pub fn new(all: &[Decision]) -> DecisionNames {
        let mut ids: Vec<String> = all.iter().map(|decision| decision.id.to_string()).collect();
        ids.sort_unstable();
        let short = |decision: &Decision| {
            let id = decision.id.to_string();
            (decision.seq, shortest(&id, &ids, SHORT_ID_CHARS_MIN).to_owned())
        };
        DecisionNames(all.iter().map(short).collect())
    }

    /// The short name of the one with this number.
    pub fn short(&self, seq: u32) -> String {
        self.0.get(&seq).cloned().unwrap_or_else(|| format!("#{seq}"))
    }
}

const fn kind_word(kind: DecisionKind) -> &'static str {
    match kind {
        DecisionKind::Prompt => "prompt",
        DecisionKind::Invariants => "invariants",
        DecisionKind::Strategy => "strategy",
        DecisionKind::Choice => "choice",
        DecisionKind::Recovery => "recovery",
        DecisionKind::Guidance => "guidance",
        DecisionKind::Note => "note",
        DecisionKind::Reversion => "reversion",
        DecisionKind::Spawn => "spawn",
    }
}

/// A decision on one line.
pub fn line(decision: &Decision, names: &DecisionNames, style: &OutputStyle) -> String {
    let new = &decision.new;
    let chosen = style.cut(&escape_control_chars(&one_line(&new.chosen)), CHOSEN_CHARS);
    let mut text = format!("{}  {}  {chosen}", names.short(decision.seq), kind_word(new.kind));
    if let Some(confidence) = new.confidence {
        text.push_str(&format!("  {confidence:.2}"));
    }
    if !new.depends_on.is_empty() {
        let rests: Vec<String> = new.depends_on.iter().map(|seq| names.short(*seq)).collect();
        text.push_str(&format!("  ← {}", rests.join(", ")));
    }
    if let Some(by) = decision.superseded_by {
        text.push_str(&format!("  (replaced by {})", names.short(by)));
    }
    if decision.is_live() { text } else { style.paint.dim(&text) }
}

/// All of these below each other, under a head that names the plan.
pub fn tree(plan: &Plan, id: &str, shown: &[Decision], names: &DecisionNames, style: &OutputStyle) -> String {
    let mut text =
        format!("plan {}  {}\n", style.paint.bold(id), escape_control_chars(&one_line(&plan.title)));
    let mut roots = shown.iter().filter(|decision| parent(decision, shown).is_none()).peekable();
    while let Some(root) = roots.next() {
        branch(root, shown, names, style, ("", roots.peek().is_none()), &mut text);
    }
    text
}

/// Returns the decision above this one in the picture; `None` if that is not shown.
fn parent(decision: &Decision, shown: &[Decision]) -> Option<u32> {
    decision.new.parent.filter(|parent| shown.iter().any(|other| other.seq == *parent))
}

/// Draws a decision and those that follow from it. `place` is the text before its line, and whether it is the
/// last there.
fn branch(
    decision: &Decision,
    shown: &[Decision],
    names: &DecisionNames,
    style: &OutputStyle,
    place: (&str, bool),
    text: &mut String,
) {
    // A parent has a lower number, so this comes to an end.
    let (before, is_last) = place;
    let (corner, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
    text.push_str(&format!("{before}{corner}{}\n", line(decision, names, style)));
    let below = format!("{before}{below}");
    let mut children = shown.iter().filter(|other| parent(other, shown) == Some(decision.seq)).peekable();
    while let Some(child) = children.next() {
        branch(child, shown, names, style, (&below, children.peek().is_none()), text);
    }
}

/// A decision for programs.
pub fn to_json(decision: &Decision, names: &DecisionNames) -> Value {
    let new = &decision.new;
    json!({
        "decision_id": decision.id, "short_id": names.short(decision.seq), "seq": decision.seq,
        "parent": new.parent, "attempt": new.attempt, "phase": new.phase, "kind": new.kind,
        "question": new.question, "chosen": new.chosen, "alternatives": new.alternatives,
        "rationale": new.rationale, "confidence": new.confidence, "depends_on": new.depends_on,
        "node": new.node, "at_entry": new.at_entry, "superseded_by": decision.superseded_by,
        "created": stamp(decision.created),
    })
}

/// Returns the decisions and files that depend on a decision, for programs.
pub fn affected_json(affected: &Affected) -> Value {
    json!({ "decisions": affected.decisions, "files": affected.files })
}

/// Returns the command that corrects a decision of the plan; `None` if it cannot be corrected any more.
fn correction(details: &DecisionDetails, id: &str) -> Option<String> {
    let may = !details.plan.state.is_final() && details.decision.is_live();
    may.then(|| crate::render::next_steps::say_differently(&details.plan, id))
}

/// One decision with all that hangs on it, for programs.
pub fn explained_json(details: &DecisionDetails, id: &str) -> Value {
    let mut data = to_json(&details.decision, &DecisionNames::new(&details.all));
    data["plan_id"] = json!(details.plan.id);
    data["affected"] = affected_json(&details.affected);
    data["correct"] = json!(correction(details, id));
    data
}

/// The same for people.
pub fn render_explanation(details: &DecisionDetails, id: &str, style: &OutputStyle) -> String {
    let DecisionDetails { decision, all, affected, .. } = details;
    let (new, names) = (&decision.new, DecisionNames::new(all));
    let seqs = |seqs: &mut dyn Iterator<Item = u32>| -> String {
        seqs.map(|seq| names.short(seq)).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!(
        "decision {}  {}  number {} of plan {id}\n",
        style.paint.bold(&decision.id.to_string()),
        kind_word(new.kind),
        decision.seq
    );
    let mut add = |name: &str, value: String| {
        if !value.trim().is_empty() {
            let value = escape_control_chars(value.trim_end()).replace('\n', "\n               ");
            text.push_str(&format!("  {name:<11}  {value}\n"));
        }
    };
    add("question", new.question.clone());
    add("chosen", new.chosen.clone());
    for other in &new.alternatives {
        add("instead of", format!("{} ({})", other.text, other.why_not));
    }
    add("rationale", new.rationale.clone());
    add("confidence", new.confidence.map(|part| format!("{part:.2}")).unwrap_or_default());
    add("taken", format!("in {}, attempt {}, {}", new.phase, new.attempt, stamp(decision.created)));
    add("by node", new.node.clone().unwrap_or_default());
    add("follows", seqs(&mut new.parent.into_iter()));
    add("rests upon", seqs(&mut new.depends_on.iter().copied()));
    add("replaced by", seqs(&mut decision.superseded_by.into_iter()));
    let others = affected.decisions.iter().copied().filter(|seq| *seq != decision.seq);
    add("affects", seqs(&mut others.into_iter()));
    add("files", affected.files.join(", "));
    if let Some(command) = correction(details, id) {
        text.push_str(&format!("{}  {command}\n", style.paint.dim("correct it")));
    }
    text
}
