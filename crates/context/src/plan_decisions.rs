//! The decisions of the plan that asks, as text that comes before all files.
//!
//! # Invariants
//! 1. Together they cost at most a fifth of what files may; each is at most [`DECISION_TOKENS_MAX`].
//! 2. Each is one line, whatever its texts hold.

use domain::Hash;
use domain::context::{DecisionFact, Depth, Fragment, FragmentKind};

use crate::TokenCounter;

/// The token limit of one decision.
const DECISION_TOKENS_MAX: u64 = 120;
/// One token in so many goes to them at most.
const SHARE: u64 = 5;
const HEADER: &str = "## decisions of this plan\n";

/// The fragments of decisions, newest first, and what they cost in hundredths of a token.
pub(crate) fn decisions(
    facts: &[DecisionFact],
    tokens: u32,
    counter: &dyn TokenCounter,
) -> (Vec<Fragment>, u64) {
    let limit = u64::from(tokens) * 100 / SHARE;
    let mut spent = counter.hundredths(HEADER);
    let mut lines = Vec::new();
    for fact in facts {
        let line = line(fact, counter);
        let cost = counter.hundredths(&line);
        if spent + cost > limit {
            break;
        }
        spent += cost;
        lines.push(line);
    }
    if lines.is_empty() {
        return (Vec::new(), 0);
    }
    let texts = std::iter::once(HEADER.to_owned()).chain(lines);
    (texts.map(|text| fragment(text, counter)).collect(), spent)
}

fn fragment(text: String, counter: &dyn TokenCounter) -> Fragment {
    Fragment {
        place: None,
        kind: FragmentKind::Decision,
        depth: Depth::Full,
        tokens: counter.tokens(&text),
        score: 1.0,
        hash: Hash::from_content(text.as_bytes()),
        is_whole: false,
        text,
        why: Vec::new(),
    }
}

/// `- question → chosen: why`, cut to what one may cost.
fn line(fact: &DecisionFact, counter: &dyn TokenCounter) -> String {
    let mut text = format!("- {} → {}", one_line(&fact.question), one_line(&fact.chosen));
    if !fact.why.trim().is_empty() {
        text.push_str(": ");
        text.push_str(&one_line(&fact.why));
    }
    let fits = |text: &str| counter.hundredths(&format!("{text}…\n")) <= DECISION_TOKENS_MAX * 100;
    if counter.hundredths(&format!("{text}\n")) <= DECISION_TOKENS_MAX * 100 {
        text.push('\n');
        return text;
    }
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    // The longest beginning that fits: each shorter beginning fits too.
    let count = ends.partition_point(|end| fits(&text[..*end]));
    text.truncate(count.checked_sub(1).map_or(0, |last| ends[last]));
    text.push_str("…\n");
    text
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
