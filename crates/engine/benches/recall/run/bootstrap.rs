//! How sure a difference is: the paired bootstrap over queries.
//!
//! # Invariants
//! 1. The same differences give the same interval: chance has a seed.

const RESAMPLES: usize = 10_000;
const SEED: u64 = 0x5EED_0C0D_E5EA_4C11;

/// The mean of differences and the interval that holds 95 % of the means of resampled ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Of the differences of pairs, one for each query.
pub(crate) fn interval(differences: &[f64]) -> Interval {
    let count = differences.len();
    if count == 0 {
        return Interval { mean: f64::NAN, low: f64::NAN, high: f64::NAN };
    }
    let mean = |sum: f64| sum / count as f64;
    let mut chance = Chance(SEED);
    let mut means: Vec<f64> =
        (0..RESAMPLES).map(|_| mean((0..count).map(|_| differences[chance.below(count)]).sum())).collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[((RESAMPLES - 1) as f64 * share).round() as usize];
    Interval { mean: mean(differences.iter().sum()), low: at(0.025), high: at(0.975) }
}

/// SplitMix64: all that is wanted is that it looks like chance.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((word ^ (word >> 31)) % bound as u64) as usize
    }
}
