//! The token against a reference model: a list of generations, each with the reason it was cancelled for.

use proptest::prelude::*;
use sync::{Cancel, CancelReason, CancellationToken, Observed, Reset};

#[derive(Clone, Debug)]
enum Step {
    Cancel(CancelReason),
    CancelIf(usize, CancelReason),
    Reset,
    ResetIf(usize),
    Observe,
}

fn reason() -> impl Strategy<Value = CancelReason> {
    prop_oneof![
        Just(CancelReason::User),
        Just(CancelReason::Timeout),
        Just(CancelReason::Sibling),
        Just(CancelReason::Limit)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => reason().prop_map(Step::Cancel),
        2 => (0_usize..6, reason()).prop_map(|(seen, reason)| Step::CancelIf(seen, reason)),
        2 => Just(Step::Reset),
        2 => (0_usize..6).prop_map(Step::ResetIf),
        2 => Just(Step::Observe),
    ]
}

#[derive(Debug, PartialEq)]
enum Answer {
    Did,
    Not,
    Stale,
}

fn of_cancel(answer: Cancel) -> Answer {
    match answer {
        Cancel::Now(_) => Answer::Did,
        Cancel::Already(_) => Answer::Not,
        Cancel::Stale { .. } => Answer::Stale,
    }
}

fn of_reset(answer: Reset) -> Answer {
    match answer {
        Reset::Opened(_) => Answer::Did,
        Reset::Live(_) => Answer::Not,
        Reset::Stale { .. } => Answer::Stale,
    }
}

/// The reason of each generation so far; the last one is current.
struct Reference(Vec<Option<CancelReason>>);

impl Reference {
    fn current(&self) -> usize {
        self.0.len() - 1
    }

    fn cancel(&mut self, reason: CancelReason) -> Answer {
        let current = self.current();
        match self.0[current] {
            Some(_) => Answer::Not,
            None => {
                self.0[current] = Some(reason);
                Answer::Did
            }
        }
    }

    fn reset(&mut self) -> Answer {
        match self.0[self.current()] {
            None => Answer::Not,
            Some(_) => {
                self.0.push(None);
                Answer::Did
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_of_cancels_and_resets_answers_as_the_reference_does(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let token = CancellationToken::new();
        let mut reference = Reference(vec![None]);
        let mut seen: Vec<(Observed, usize)> = vec![(token.observe(), 0)];
        for step in steps {
            match step {
                Step::Cancel(reason) => {
                    prop_assert_eq!(of_cancel(token.cancel(reason)), reference.cancel(reason));
                }
                Step::CancelIf(index, reason) => if let Some((observed, generation)) = seen.get(index) {
                    let expected = match *generation == reference.current() {
                        true => reference.cancel(reason),
                        false => Answer::Stale,
                    };
                    prop_assert_eq!(of_cancel(token.cancel_if(observed.generation(), reason)), expected);
                },
                Step::Reset => prop_assert_eq!(of_reset(token.reset()), reference.reset()),
                Step::ResetIf(index) => if let Some((observed, generation)) = seen.get(index) {
                    let expected = match *generation == reference.current() {
                        true => reference.reset(),
                        false => Answer::Stale,
                    };
                    prop_assert_eq!(of_reset(token.reset_if(observed.generation())), expected);
                },
                Step::Observe => seen.push((token.observe(), reference.current())),
            }
            prop_assert_eq!(token.is_cancelled(), reference.0[reference.current()].is_some());
            for (observed, generation) in &seen {
                let expected = match *generation == reference.current() {
                    true => reference.0[*generation],
                    false => Some(CancelReason::Superseded),
                };
                prop_assert_eq!(observed.is_cancelled(), reference.0[*generation].is_some());
                prop_assert_eq!(observed.reason(), expected);
            }
        }
    }
}
