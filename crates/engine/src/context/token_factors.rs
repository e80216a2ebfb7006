//! The factor between the lexical count and the tokens of a model, learnt from its replies.
//!
//! # Invariants
//! 1. A factor only rises, and never above [`FACTOR_MAX`]: a server that says what it likes makes contexts
//!    smaller, not none.
//! 2. Nothing is learnt from a short request, of which most is added by the provider. Nor is anything learnt
//!    from a reply that does not report the tokens read.
//!
//! # Not here
//! The count itself: [`LexicalCounter`]. The reservation of a call from a plan's limits: that is an estimate
//! by bytes.

use std::collections::BTreeMap;

use actors::model::{Message, ModelRequest, estimate};
use context::{LexicalCounter, TokenCounter};
use sync::primitives::{Mutex, lock};

/// Of the vocabularies that the count was fitted to, in hundredths.
const KNOWN_FACTOR: u32 = 100;
/// Of all others, until a reply says more.
const FOREIGN_FACTOR: u32 = 115;
/// The most that is believed.
const FACTOR_MAX: u32 = 400;
/// The number of models that are remembered; of more, nothing is learnt.
const MODELS_MAX: usize = 256;
/// The tokens that providers add to a message, a tool, and tools in general.
const AROUND_MESSAGE: u64 = 8;
const AROUND_TOOL: u64 = 16;
const AROUND_TOOLS: u64 = 512;
/// Shorter questions teach nothing. In tokens.
const LEARN_FROM_TOKENS: u64 = 1_000;

/// The factors of the models that this process asked, by `PROVIDER/NAME`.
#[derive(Debug, Default)]
pub(crate) struct TokenFactors {
    learnt: Mutex<BTreeMap<String, u32>>,
}

impl TokenFactors {
    /// Returns the counter for a model.
    pub(crate) fn counter(&self, model: &str) -> LexicalCounter {
        let learnt = lock(&self.learnt).get(model).copied();
        LexicalCounter::with_factor(learnt.unwrap_or_else(|| untaught(model)))
    }

    /// A model read `question`, and says that it had `reported` tokens.
    pub(crate) fn learn(&self, model: &str, question: &ModelRequest, reported: u64) {
        // A count that a server does not report is filled in with the estimate.
        if reported == estimate(question).prompt {
            return;
        }
        let counter = self.counter(model);
        let counted = count(question, counter);
        if counted < LEARN_FROM_TOKENS || reported <= counted {
            return;
        }
        let wanted = u64::from(counter.factor()).saturating_mul(reported).div_ceil(counted);
        let factor = u32::try_from(wanted).unwrap_or(FACTOR_MAX).min(FACTOR_MAX);
        let mut learnt = lock(&self.learnt);
        let has_room = learnt.len() < MODELS_MAX;
        match learnt.get_mut(model) {
            // Another reply may have taught more meanwhile.
            Some(known) => *known = factor.max(*known),
            None if has_room => {
                learnt.insert(model.to_owned(), factor);
            }
            None => {}
        }
    }
}

fn untaught(model: &str) -> u32 {
    match model.split_once('/') {
        Some(("openai", _)) => KNOWN_FACTOR,
        Some(_) | None => FOREIGN_FACTOR,
    }
}

/// Returns the cost of a question by a counter.
fn count(question: &ModelRequest, counter: LexicalCounter) -> u64 {
    let ModelRequest { model: _, system, messages, tools, max_tokens: _, output, caller: _ } = question;
    let tokens = |text: &str| u64::from(counter.tokens(text));
    let message = |message: &Message| match message {
        Message::User(text) => tokens(text),
        Message::Assistant { text, calls } => {
            let call = |name: &str, arguments: String| tokens(name) + tokens(&arguments) + AROUND_TOOL;
            let calls = calls.iter().map(|each| call(&each.name, each.arguments.to_string()));
            tokens(text) + calls.sum::<u64>()
        }
        Message::Results(results) => {
            results.iter().map(|result| tokens(&result.text) + AROUND_MESSAGE).sum::<u64>()
        }
    };
    let messages: u64 = messages.iter().map(|each| message(each) + AROUND_MESSAGE).sum();
    let tool = |name: &str, description: &str, input: String| {
        tokens(name) + tokens(description) + tokens(&input) + AROUND_TOOL
    };
    let offered: u64 =
        tools.iter().map(|each| tool(&each.name, &each.description, each.input.to_string())).sum();
    let output_tokens = output.as_ref().map_or(0, |schema| tokens(&schema.to_string()));
    let around = if tools.is_empty() && output.is_none() { 0 } else { AROUND_TOOLS };
    tokens(system) + messages + offered + output_tokens + around
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(words: usize) -> ModelRequest {
        ModelRequest {
            model: "m".to_owned(),
            system: String::new(),
            messages: vec![Message::User("word ".repeat(words))],
            tools: Vec::new(),
            max_tokens: 10,
            output: None,
            caller: String::new(),
        }
    }

    #[test]
    fn a_reply_that_read_more_than_was_counted_raises_the_factor_and_none_lowers_it() {
        let factors = TokenFactors::default();
        assert_eq!(factors.counter("openai/x").factor(), 100);
        assert_eq!(factors.counter("local/x").factor(), 115);
        let asked = question(10_000);
        let counted = count(&asked, factors.counter("local/x"));
        factors.learn("local/x", &asked, counted);
        assert_eq!(factors.counter("local/x").factor(), 115, "as much as was counted");
        factors.learn("local/x", &asked, counted * 3 / 2);
        assert_eq!(factors.counter("local/x").factor(), 173);
        assert!(count(&asked, factors.counter("local/x")) >= counted * 3 / 2, "the next count is not below");
        factors.learn("local/x", &asked, 7);
        assert_eq!(factors.counter("local/x").factor(), 173);
        assert_eq!(factors.counter("local/y").factor(), 115, "another model's");
    }

    #[test]
    fn a_lie_a_short_question_and_a_reply_that_says_nothing_teach_little_or_nothing() {
        let factors = TokenFactors::default();
        factors.learn("a/lie", &question(10_000), u64::MAX);
        assert_eq!(factors.counter("a/lie").factor(), FACTOR_MAX);
        factors.learn("a/short", &question(10), 5_000);
        assert_eq!(factors.counter("a/short").factor(), FOREIGN_FACTOR);
        let dense = ModelRequest { system: "漢字".repeat(4_000), ..question(1) };
        factors.learn("a/silent", &dense, estimate(&dense).prompt);
        assert_eq!(factors.counter("a/silent").factor(), FOREIGN_FACTOR);
        for number in 0..2 * MODELS_MAX {
            factors.learn(&format!("many/{number}"), &question(10_000), 1 << 40);
        }
        assert!(lock(&factors.learnt).len() <= MODELS_MAX);
    }
}
