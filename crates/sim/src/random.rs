//! All chance of a run: one stream of numbers that the seed decides.
//!
//! # Invariants
//! The same seed gives the same numbers, on every machine.

/// A stream of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self { state: seed ^ 0x5851_F42D_4C95_7F2D };
        // Neighbouring seeds part at once.
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// From 0 to `bound`, which is left out; 0 when that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// From `low` to `high`, both taken in.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True so many times in ten thousand.
    pub(crate) fn chance(&mut self, in_ten_thousand: u32) -> bool {
        self.below(10_000) < u64::from(in_ten_thousand)
    }

    /// One of them.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let index = usize::try_from(self.below(of.len() as u64)).unwrap_or(0);
        of.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_stream_and_its_neighbour_another() {
        let first = |seed| {
            let mut random = Random::new(seed);
            (0..8).map(|_| random.next()).collect::<Vec<_>>()
        };
        assert_eq!(first(7), first(7));
        assert_ne!(first(7), first(8));
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut random = Random::new(1);
        for _ in 0..1_000 {
            assert!((3..=5).contains(&random.between(3, 5)));
            assert!(random.below(4) < 4);
        }
        assert_eq!(random.below(0), 0);
        assert!(!random.chance(0) && random.chance(10_000));
        assert_eq!(random.pick::<u8>(&[]), None);
    }
}
