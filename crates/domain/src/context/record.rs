//! A stored context: the request, and the receipt of the answer. The text is stored among the contents.
//!
//! # Invariants
//! 1. Neither the request nor the receipt has more than [`CONTEXT_JSON_BYTES_MAX`] bytes, whatever was asked
//!    and found. If a receipt is too long, the files that were left out are cut first, the least of them
//!    before the others. The counts remain.
//! 2. A cut is reported at its place: `left_out` names the lists and how many of their lines are missing.
//!    Included files that are cut are counted among `included_more`, so that the tokens add up.
//!
//! # Not here
//! Storing it: the stores. The right to store it: the claim of the plan's owner.

use serde_json::{Map, Value, json};

use super::{AssembledContext, ContextRequest, QUERY_BYTES_MAX};
use crate::change::file_state::Hash;
use crate::id::{ContextId, PlanId};
use crate::time::WallMs;

/// The limit of the request of a stored context, and of its receipt.
pub const CONTEXT_JSON_BYTES_MAX: usize = 64 * 1024;

/// The room left after the lists, to say what they lack.
const LEFT_OUT_BYTES: usize = 256;

/// The context that a node of a plan was given.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextRecord {
    /// Names it.
    pub id: ContextId,
    /// The plan.
    pub plan: PlanId,
    /// The node that it was given to.
    pub node: String,
    /// The time of the request.
    pub at: WallMs,
    /// The request.
    pub request: Value,
    /// The receipt of the answer.
    pub receipt: Value,
    /// The hash under which the text is stored.
    pub text: Hash,
}

impl ContextRecord {
    /// A context that `node` of `plan` was given.
    pub fn new(
        plan: PlanId,
        node: &str,
        request: &ContextRequest,
        given: &AssembledContext,
    ) -> ContextRecord {
        let cut = request.query.floor_char_boundary(QUERY_BYTES_MAX);
        let asked = ContextRequest { query: request.query[..cut].to_owned(), ..request.clone() };
        let (asked, said) = (serde_json::to_value(&asked), serde_json::to_value(&given.receipt));
        ContextRecord {
            id: given.id,
            plan,
            node: node.to_owned(),
            at: request.at,
            request: within(
                asked.unwrap_or_default(),
                &["/shown", "/plan/findings", "/plan/touched", "/plan/decisions"],
            ),
            receipt: within(said.unwrap_or_default(), &["/excluded", "/included", "/notes"]),
            text: given.hash,
        }
    }

    /// Returns what the text costs, by the receipt.
    pub fn tokens(&self) -> u64 {
        let of = |part: &str| self.receipt["budget"][part].as_u64().unwrap_or(0);
        of("preamble") + of("skeleton") + of("decisions") + of("files")
    }

    /// Returns what was asked, in the words of who asked.
    pub fn query(&self) -> &str {
        self.request["query"].as_str().unwrap_or_default()
    }
}

/// The value within its bound: of these lists, one after the other, the last lines go.
fn within(mut value: Value, lists: &[&str]) -> Value {
    let mut over = value.to_string().len().saturating_sub(CONTEXT_JSON_BYTES_MAX);
    if over == 0 {
        return value;
    }
    over += LEFT_OUT_BYTES;
    let mut left_out = Map::new();
    for list in lists {
        let Some(Value::Array(lines)) = value.pointer_mut(list) else { continue };
        let (mut gone, mut tokens): (usize, u64) = (0, 0);
        while over > 0
            && let Some(line) = lines.pop()
        {
            over = over.saturating_sub(line.to_string().len() + 1);
            tokens += line["tokens"].as_u64().unwrap_or(0);
            gone += 1;
        }
        if gone > 0 {
            let name = list.rsplit('/').next().unwrap_or_default();
            left_out.insert(name.to_owned(), json!(gone));
            if let Some(more) = value.get_mut(format!("{name}_more")) {
                let and = |key: &str, further: u64| json!(more[key].as_u64().unwrap_or(0) + further);
                *more = json!({ "files": and("files", gone as u64), "tokens": and("tokens", tokens) });
            }
        }
    }
    value["left_out"] = Value::Object(left_out);
    match value.to_string().len() {
        bytes if bytes > CONTEXT_JSON_BYTES_MAX => json!({ "left_out_bytes": bytes }),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::context::{
        Budget, BudgetLine, ContextView, DecisionFact, Depth, ExcludedLine, ExclusionReason, FileLocation,
        IncludedLine, IndexLine, MoreLine, PlanFacts, Receipt,
    };
    use crate::id::RootIndex;
    use crate::path::RelPath;

    fn place(n: usize, length: usize) -> FileLocation {
        FileLocation::file(
            RootIndex(0),
            RelPath::new(format!("{n}/{}", "p".repeat(length)).as_bytes()).unwrap(),
        )
    }

    fn given(included: usize, excluded: usize, length: usize) -> AssembledContext {
        let included = (0..included).map(|n| IncludedLine {
            place: place(n, length),
            depth: Depth::Full,
            full_parts: 1,
            parts: 2,
            tokens: 3,
            score: 0.5,
            hash: Some(Hash::from_content(b"x")),
            why: vec![("simple-keyword".to_owned(), 1.0)],
        });
        let excluded = (0..excluded).map(|n| ExcludedLine {
            place: place(n, length),
            reason: ExclusionReason::Budget,
            score: 0.1,
        });
        let receipt = Receipt {
            at: WallMs(7),
            view: ContextView::Execute,
            index: IndexLine::default(),
            budget: BudgetLine { preamble: 5, skeleton: 6, files: 7, ..BudgetLine::default() },
            counter: "lexical".to_owned(),
            strategies: Vec::new(),
            included: included.collect(),
            included_more: MoreLine { files: 2, tokens: 11 },
            excluded: excluded.collect(),
            excluded_by: BTreeMap::from([(ExclusionReason::Budget, 9)]),
            redacted: 0,
            notes: vec!["note".to_owned()],
        };
        let (text, id) = ("text".to_owned(), ContextId::from_u128(3));
        AssembledContext {
            id,
            hash: Hash::from_content(text.as_bytes()),
            text,
            tokens: 18,
            fragments: Vec::new(),
            receipt,
        }
    }

    fn record(given: &AssembledContext) -> ContextRecord {
        let asked = ContextRequest {
            at: WallMs(7),
            query: "why".to_owned(),
            ..ContextRequest::new(given.id, Budget::fixed(9))
        };
        ContextRecord::new(PlanId::from_u128(1), "code", &asked, given)
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let given = given(2, 2, 10);
        let kept = record(&given);
        assert_eq!(kept.receipt, serde_json::to_value(&given.receipt).unwrap());
        assert_eq!((kept.tokens(), kept.query(), kept.at, kept.text), (18, "why", WallMs(7), given.hash));
    }

    #[test]
    fn the_least_of_what_was_left_out_goes_first_and_then_what_is_in() {
        for (included, excluded, length) in [(100, 200, 200), (500, 200, 200), (500, 200, 3000)] {
            let kept = record(&given(included, excluded, length)).receipt;
            assert!(kept.to_string().len() <= CONTEXT_JSON_BYTES_MAX, "{included} {excluded} {length}");
            let lines = |list: &str| kept[list].as_array().unwrap().len();
            assert_eq!(kept["left_out"]["excluded"], excluded - lines("excluded"));
            assert!(lines("included") == included || lines("excluded") == 0, "the others go before them");
            assert_eq!(kept["excluded_by"]["budget"], 9, "what is counted stays");
            let gone = included - lines("included");
            assert_eq!(kept["included_more"], json!({ "files": 2 + gone, "tokens": 11 + 3 * gone }));
        }
        let kept = record(&given(100, 200, 200)).receipt;
        assert_eq!(kept["included"].as_array().unwrap().len(), 100);
        assert_eq!(kept["excluded"][0]["place"]["path"], place(0, 200).path.to_string());
    }

    #[test]
    fn a_request_of_any_size_is_kept_within_its_bound() {
        let fact = DecisionFact {
            question: "q".repeat(3000),
            chosen: String::new(),
            why: String::new(),
            distance: 0,
        };
        let plan = PlanId::from_u128(1);
        let facts = PlanFacts { plan, decisions: vec![fact; 100], touched: Vec::new(), findings: Vec::new() };
        let asked = ContextRequest {
            query: "w".repeat(16 * 1024),
            plan: Some(facts),
            ..ContextRequest::new(ContextId::from_u128(3), Budget::fixed(9))
        };
        let kept = ContextRecord::new(plan, "code", &asked, &given(0, 0, 0));
        assert!(kept.request.to_string().len() <= CONTEXT_JSON_BYTES_MAX);
        assert_eq!(kept.query().len(), 16 * 1024);
        let many = ContextRequest { query: "\u{1}".repeat(16 * 1024), ..asked };
        let kept = ContextRecord::new(plan, "code", &many, &given(0, 0, 0));
        assert!(kept.request.to_string().len() <= CONTEXT_JSON_BYTES_MAX);
    }
}
