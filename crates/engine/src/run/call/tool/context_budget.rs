//! The context budget of a model node: the room that is left, and the fragments that were delivered already.
//!
//! # Invariants
//! 1. The tokens of a request are reserved before the search, and settled with the delivered ones. Concurrent
//!    requests never sum above what its window leaves.
//! 2. The context before the prompt stays there, so it is never given again. The answer of a tool may be left
//!    out of the conversation later; then it may be given again.

use actors::tool::ToolError;
use context::{ContextLedger, InsufficientTokens, RESERVE_MIN, Reservation};
use domain::context::{AssembledContext, Budget, Depth, Fragment, PriorFragment};
use serde_json::{Value, json};
use sync::primitives::{Mutex, lock};

/// Too little is left to be of use.
const BUDGET_SPENT: &str = "BUDGET_SPENT";

/// The context budget of one run of a model node.
pub(crate) struct ContextBudget {
    /// `PROVIDER/NAME` of the model.
    model: String,
    budget: Budget,
    ledger: ContextLedger,
    shown: Mutex<DeliveredContext>,
}

#[derive(Default)]
struct DeliveredContext {
    before_the_prompt: Vec<PriorFragment>,
    by_calls: Vec<PriorFragment>,
}

/// The position at which something was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContextPosition {
    /// It stays as long as the node.
    BeforeThePrompt,
    /// It stays until room is made.
    InAResult,
}

impl ContextBudget {
    /// Of a model with this budget.
    pub(crate) fn new(model: &str, budget: Budget) -> ContextBudget {
        ContextBudget {
            model: model.to_owned(),
            budget,
            ledger: ContextLedger::new(budget.base()),
            shown: Mutex::default(),
        }
    }

    /// The model whose vocabulary counts.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// Returns the budget of the context before the prompt. If the node does not say how much it wants, half
    /// of what is left is for the conversation.
    pub(crate) fn first_budget(&self, cap: Option<u32>) -> Budget {
        let kept_free = match cap {
            Some(_) => 0,
            None => self.budget.base().div_ceil(2),
        };
        Budget { system: self.budget.system.saturating_add(kept_free), cap, ..self.budget }
    }

    /// Reserves so many tokens, or what is left of them.
    pub(crate) fn reserve(&self, tokens: u32) -> Result<Reservation, ToolError> {
        self.ledger.reserve(tokens).map_err(|InsufficientTokens(left)| ToolError::NoContext {
            code: BUDGET_SPENT,
            message: format!(
                "{left} tokens are left of your context budget, and fewer than {RESERVE_MIN} are of no use; \
                 continue with what you have, or read single files"
            ),
        })
    }

    /// All that the node was shown.
    pub(crate) fn shown(&self) -> Vec<PriorFragment> {
        let so_far = lock(&self.shown);
        so_far.before_the_prompt.iter().chain(&so_far.by_calls).cloned().collect()
    }

    /// The node is shown this.
    pub(crate) fn show(&self, given: &AssembledContext, stands: ContextPosition) {
        let pieces = given.fragments.iter().filter_map(shown);
        let mut so_far = lock(&self.shown);
        match stands {
            ContextPosition::BeforeThePrompt => so_far.before_the_prompt.extend(pieces),
            ContextPosition::InAResult => so_far.by_calls.extend(pieces),
        }
    }

    /// Results of tools were left out of the conversation.
    pub(crate) fn forget_results(&self) {
        lock(&self.shown).by_calls.clear();
    }

    /// Returns the budget as `get_context_budget` reports it.
    pub(crate) fn report(&self) -> Value {
        let Budget { window, response, tools, system, cap: _ } = self.budget;
        let view = self.ledger.view();
        json!({
            "window": window, "response": response, "system": system, "tools": tools,
            "used": view.used, "reserved": view.reserved, "available": view.available(),
        })
    }
}

/// Of a file that is only listed no part was shown, and its content may not have been read.
fn shown(fragment: &Fragment) -> Option<PriorFragment> {
    let place = fragment.place.clone()?;
    (fragment.depth > Depth::Listing || place.span.is_none()).then_some(PriorFragment {
        place,
        depth: fragment.depth,
        hash: fragment.hash,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(window: u32) -> ContextBudget {
        ContextBudget::new("openai/m", Budget { window, response: 1_000, tools: 300, system: 200, cap: None })
    }

    #[test]
    fn the_half_is_for_the_conversation_unless_the_node_says_how_much_it_wants() {
        let budget = budget(9_500);
        assert_eq!(budget.first_budget(None).base(), 4_000);
        assert_eq!(budget.first_budget(Some(6_000)).base(), 8_000);
        assert_eq!(budget.first_budget(Some(6_000)).cap, Some(6_000));
    }

    #[test]
    fn eight_who_ask_at_once_never_get_more_than_there_is_and_what_they_leave_is_returned() {
        let budget = budget(9_500);
        let spent: u32 = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..8_u32)
                .map(|caller| {
                    let budget = &budget;
                    scope.spawn(move || {
                        let mut spent = 0;
                        while let Ok(held) = budget.reserve(500 + caller) {
                            let report = budget.report();
                            let of = |field: &str| report[field].as_u64().unwrap();
                            assert!(of("used") + of("reserved") <= 8_000, "{report}");
                            let used = held.granted() / 2;
                            spent += used;
                            held.spend(used);
                        }
                        spent
                    })
                })
                .collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).sum()
        });
        let report = budget.report();
        assert_eq!((&report["used"], &report["reserved"]), (&json!(spent), &json!(0)));
        let refused = budget.reserve(RESERVE_MIN).map(drop).unwrap_err();
        assert!(refused.text_with_code().starts_with("BUDGET_SPENT: "), "{}", refused.text_with_code());
    }
}
