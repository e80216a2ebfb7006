//! Stage 8: orders the files.
//!
//! # Invariants
//! 1. Every file that was bought is in the order once.

use super::{ContextItem, PackResult};

/// Decides the order of files.
pub trait FragmentOrderer: Send + Sync {
    /// The places in `items` of what was bought.
    fn order(&self, items: &[ContextItem], packed: &PackResult) -> Vec<usize>;
}

/// The best first; files that are only listed last, in one block.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelevanceCoherenceOrderer;

impl FragmentOrderer for RelevanceCoherenceOrderer {
    fn order(&self, items: &[ContextItem], packed: &PackResult) -> Vec<usize> {
        let shows_text = |at: usize| match packed.files.get(at) {
            Some(Ok(bought)) => Some(bought.pieces.iter().any(Option::is_some)),
            Some(Err(_)) | None => None,
        };
        let mut order: Vec<(usize, bool)> =
            (0..items.len()).filter_map(|at| Some((at, shows_text(at)?))).collect();
        order.sort_by(|(one, one_shows), (other, other_shows)| {
            let by_score = items[*other].score.total_cmp(&items[*one].score);
            other_shows.cmp(one_shows).then(by_score).then(one.cmp(other))
        });
        order.into_iter().map(|(at, _)| at).collect()
    }
}
