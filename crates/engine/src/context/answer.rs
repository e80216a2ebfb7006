//! A context as the tool `request_context` answers it, to a node and to other programs alike.

use domain::context::{AssembledContext, Depth, FileLocation, Fragment, Receipt, StrategyOutcome};
use serde_json::{Value, json};

/// The answer; `shown` says how a place's path is written.
pub fn context_answer(given: &AssembledContext, shown: &dyn Fn(&FileLocation) -> String) -> Value {
    let included: Vec<Value> = included(given)
        .map(|(fragment, place)| {
            let (from, to) = place.span.unzip();
            json!({ "path": shown(place), "from": from, "to": to, "depth": fragment.depth })
        })
        .collect();
    json!({
        "text": given.text, "tokens": given.tokens, "included": included,
        "left_out": given.receipt.excluded_by.values().sum::<u32>(), "notes": notes(&given.receipt),
    })
}

/// The pieces; of a file of which pieces are shown not its header too.
fn included(given: &AssembledContext) -> impl Iterator<Item = (&Fragment, &FileLocation)> {
    let pieces = given.fragments.iter().filter_map(|fragment| Some((fragment, fragment.place.as_ref()?)));
    let is_same =
        |one: &FileLocation, other: &FileLocation| one.project == other.project && one.path == other.path;
    let mut pieces = pieces.peekable();
    std::iter::from_fn(move || {
        loop {
            let (fragment, place) = pieces.next()?;
            let goes_on = pieces.peek().is_some_and(|(_, next)| is_same(next, place));
            if fragment.depth > Depth::Listing || !goes_on {
                return Some((fragment, place));
            }
        }
    })
}

/// Returns the notes about problems, with the strategies that failed.
fn notes(receipt: &Receipt) -> Vec<String> {
    let failed = receipt.strategies.iter().filter(|line| match line.outcome {
        StrategyOutcome::Open { .. }
        | StrategyOutcome::Failed(_)
        | StrategyOutcome::Panicked(_)
        | StrategyOutcome::TimedOut
        | StrategyOutcome::Hung => true,
        StrategyOutcome::Ok
        | StrategyOutcome::Empty
        | StrategyOutcome::Unavailable(_)
        | StrategyOutcome::NotStarted => false,
    });
    let failed = failed.map(|line| format!("{}: {}", line.name, line.outcome));
    receipt.notes.iter().cloned().chain(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::context::{ExclusionReason, FragmentKind, StrategyLine};
    use domain::{ContextId, Hash, RelPath, RootIndex};

    fn fragment(path: &str, span: Option<(u32, u32)>, depth: Depth) -> Fragment {
        let place = FileLocation { project: RootIndex(0), path: RelPath::new(path).unwrap(), span };
        Fragment {
            place: Some(place),
            kind: FragmentKind::Code,
            depth,
            text: String::new(),
            tokens: 0,
            score: 1.0,
            hash: Hash::from_content(b""),
            is_whole: false,
            why: Vec::new(),
        }
    }

    #[test]
    fn the_pieces_are_told_and_a_header_only_where_it_is_all_there_is() {
        let decision = Fragment { place: None, ..fragment("d", None, Depth::Full) };
        let fragments = vec![
            decision,
            fragment("a.rs", None, Depth::Listing),
            fragment("a.rs", Some((1, 4)), Depth::Full),
            fragment("a.rs", Some((9, 9)), Depth::Signatures),
            fragment("b.rs", None, Depth::Listing),
            fragment("c.rs", None, Depth::Listing),
        ];
        let failed = StrategyLine {
            name: "simple-keyword".parse().unwrap(),
            confidence: 1.0,
            weight: 1.0,
            tokens: 1,
            proposed: 0,
            cut: 0,
            ms: 1,
            outcome: StrategyOutcome::TimedOut,
        };
        let receipt = Receipt {
            notes: vec!["the index is read-only".to_owned()],
            strategies: vec![failed],
            excluded_by: [(ExclusionReason::Budget, 3), (ExclusionReason::Secret, 1)].into(),
            ..Receipt::default()
        };
        let (id, text) = (ContextId::from_u128(1), "t".to_owned());
        let given =
            AssembledContext { id, text, tokens: 7, fragments, hash: Hash::from_content(b"t"), receipt };
        let answer = context_answer(&given, &|place| format!("x:{}", place.path));
        let expected = json!({
            "text": "t", "tokens": 7, "left_out": 4,
            "included": [
                { "path": "x:a.rs", "from": 1, "to": 4, "depth": "full" },
                { "path": "x:a.rs", "from": 9, "to": 9, "depth": "signatures" },
                { "path": "x:b.rs", "from": null, "to": null, "depth": "listing" },
                { "path": "x:c.rs", "from": null, "to": null, "depth": "listing" },
            ],
            "notes": ["the index is read-only", "simple-keyword: timed out"],
        });
        assert_eq!(answer, expected);
    }
}
