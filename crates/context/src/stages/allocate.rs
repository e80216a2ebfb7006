//! Stage 2: divides the tokens among the strategies.
//!
//! # Invariants
//! 1. The shares sum to the tokens exactly, also where every weight is 0.
//! 2. A strategy without a share may propose nothing.

use super::SelectedStrategy;

/// The approximate tokens of a line that lists a file: a share proposes no more files than it could list.
const LISTED_COSTS: u32 = 8;
const PROPOSALS_MIN: usize = 32;
const PROPOSALS_MAX: usize = 400;

/// A strategy's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetShare {
    /// In tokens.
    pub tokens: u32,
    /// The number of places it may propose.
    pub limit: usize,
}

/// Divides the tokens among strategies.
pub trait BudgetAllocator: Send + Sync {
    /// One share for each, in their order.
    fn allocate(&self, tokens: u32, selected: &[SelectedStrategy]) -> Vec<BudgetShare>;
}

/// By confidence times weight.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProportionalBudgetAllocator;

impl BudgetAllocator for ProportionalBudgetAllocator {
    fn allocate(&self, tokens: u32, selected: &[SelectedStrategy]) -> Vec<BudgetShare> {
        let values: Vec<f64> = selected
            .iter()
            .map(|selected| f64::from(selected.confidence) * f64::from(selected.weight))
            .collect();
        let names: Vec<&str> = selected.iter().map(|selected| selected.name.as_str()).collect();
        divide(tokens, &values, &names).into_iter().map(share).collect()
    }
}

fn share(tokens: u32) -> BudgetShare {
    let limit =
        if tokens == 0 { 0 } else { ((tokens / LISTED_COSTS) as usize).clamp(PROPOSALS_MIN, PROPOSALS_MAX) };
    BudgetShare { tokens, limit }
}

/// In proportion to `values`, whole, in sum `tokens`: what rounding leaves goes to the largest fractions,
/// then by name.
fn divide(tokens: u32, values: &[f64], names: &[&str]) -> Vec<u32> {
    if values.is_empty() {
        return Vec::new();
    }
    let sum: f64 = values.iter().sum();
    let equal = 1.0 / values.len() as f64;
    let parts: Vec<f64> =
        values.iter().map(|value| f64::from(tokens) * if sum > 0.0 { value / sum } else { equal }).collect();
    let mut shares: Vec<u32> = parts.iter().map(|part| part.floor() as u32).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|one, other| {
        let fraction = |at: usize| parts[at] - parts[at].floor();
        fraction(*other).total_cmp(&fraction(*one)).then_with(|| names[*one].cmp(names[*other]))
    });
    let given: u32 = shares.iter().sum();
    let mut left = tokens.saturating_sub(given);
    for at in order.into_iter().cycle() {
        if left == 0 {
            break;
        }
        // A strategy without weight gets nothing, unless none has weight.
        if values[at] > 0.0 || sum <= 0.0 {
            shares[at] += 1;
            left -= 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_the_tokens_and_remainders_go_to_the_largest_fractions() {
        assert_eq!(divide(10, &[1.0, 1.0, 1.0], &["a", "b", "c"]), [4, 3, 3]);
        assert_eq!(divide(10, &[1.0, 1.0, 1.0], &["c", "b", "a"]), [3, 3, 4]);
        assert_eq!(divide(10, &[1.0, 0.7, 0.3], &["a", "b", "c"]), [5, 4, 1]);
        assert_eq!(divide(7, &[0.0, 0.0], &["a", "b"]), [4, 3]);
        assert_eq!(divide(7, &[0.0, 1.0], &["a", "b"]), [0, 7]);
        assert_eq!(divide(0, &[1.0], &["a"]), [0]);
        assert_eq!(divide(9, &[], &[]), [] as [u32; 0]);
    }

    #[test]
    fn a_share_bounds_the_proposals() {
        let limits: Vec<usize> = [0, 1, 256, 264, 4000, u32::MAX].map(|tokens| share(tokens).limit).to_vec();
        assert_eq!(limits, [0, 32, 32, 33, 400, 400]);
    }
}
