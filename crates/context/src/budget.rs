//! Divides the tokens of a request before the search begins.
//!
//! # Invariants
//! 1. `skeleton + preamble + files = total ≤ window`: no reserve is more than the total can bear.
//! 2. Every division rounds down; what is left over goes to the files.

use domain::context::Budget;

/// Below this total there is no first paragraph: the files need every token.
const PREAMBLE_FROM: u32 = 512;
const PREAMBLE_MAX: u32 = 128;
/// One token in so many goes to the first paragraph.
const PREAMBLE_SHARE: u32 = 32;

/// The parts of a total. In tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The token limit of the whole text.
    pub total: u32,
    /// For what the plan above was given.
    pub skeleton: u32,
    /// For the first paragraph.
    pub preamble: u32,
    /// For decisions and files.
    pub files: u32,
}

/// Divides a budget. `max_tokens` applies if the request names no cap. `skeleton_ratio` (0..=0.5) of the
/// total is reserved for a parent's context, if there is one.
///
/// ```
/// use context::split;
/// use domain::context::Budget;
///
/// let parts = split(&Budget::fixed(4096), 16_384, None);
/// assert_eq!((parts.preamble, parts.files), (128, 3968));
/// ```
pub fn split(budget: &Budget, max_tokens: u32, skeleton_ratio: Option<f32>) -> Split {
    let total = budget.base().min(budget.cap.unwrap_or(max_tokens));
    let ratio = f64::from(skeleton_ratio.unwrap_or(0.0)).clamp(0.0, 0.5);
    // Not above half the total, so the cast is exact.
    let skeleton = (f64::from(total) * ratio).floor() as u32;
    let preamble = if total < PREAMBLE_FROM { 0 } else { PREAMBLE_MAX.min(total / PREAMBLE_SHARE) };
    let files = total.saturating_sub(skeleton).saturating_sub(preamble);
    Split { total, skeleton, preamble, files }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(total: u32, ratio: Option<f32>) -> (u32, u32, u32, u32) {
        let Split { total, skeleton, preamble, files } = split(&Budget::fixed(total), 9, ratio);
        (total, skeleton, preamble, files)
    }

    #[test]
    fn small_totals_bear_no_reserve() {
        assert_eq!(parts(0, None), (0, 0, 0, 0));
        assert_eq!(parts(1, Some(0.5)), (1, 0, 0, 1));
        assert_eq!(parts(9, Some(0.15)), (9, 1, 0, 8));
        assert_eq!(parts(511, None), (511, 0, 0, 511));
        assert_eq!(parts(512, None), (512, 0, 16, 496));
        assert_eq!(parts(16_384, Some(0.15)), (16_384, 2457, 128, 13_799));
    }

    #[test]
    fn a_window_below_its_reserves_is_nothing() {
        let budget = Budget { window: 4000, response: 4096, tools: 1, system: 1, cap: None };
        assert_eq!(split(&budget, 16_384, Some(0.15)).total, 0);
    }

    #[test]
    fn the_cap_of_the_request_goes_before_the_configured_one() {
        let budget = Budget { window: 100_000, response: 4096, tools: 0, system: 0, cap: None };
        assert_eq!(split(&budget, 16_384, None).total, 16_384);
        assert_eq!(split(&Budget { cap: Some(20_000), ..budget }, 16_384, None).total, 20_000);
        assert_eq!(split(&Budget { cap: Some(u32::MAX), ..budget }, 16_384, None).total, 95_904);
    }
}
