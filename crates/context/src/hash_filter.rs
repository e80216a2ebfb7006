//! A filter that rejects most hashes that are not in a set, without a look at the set.

/// Marks of the hashes of a set: small enough to stay near to a processor where the set itself does not.
pub(crate) struct HashFilter {
    marks: Vec<u64>,
    /// The number of bits of a hash that are looked at.
    bits: u32,
}

impl HashFilter {
    /// The sieve of some hashes with `2^bits` marks, from 6 to 32 bits: the more, the fewer others pass.
    pub(crate) fn from_hashes(bits: u32, hashes: impl Iterator<Item = u32>) -> HashFilter {
        let mut sieve = HashFilter { marks: vec![0; 1 << (bits - 6)], bits };
        for hash in hashes {
            let (word, mark) = sieve.place(hash);
            sieve.marks[word] |= mark;
        }
        sieve
    }

    pub(crate) fn may_hold(&self, hash: u32) -> bool {
        let (word, mark) = self.place(hash);
        self.marks[word] & mark != 0
    }

    fn place(&self, hash: u32) -> (usize, u64) {
        let bits = hash >> (32 - self.bits);
        ((bits >> 6) as usize, 1 << (bits & 63))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_set_passes_and_most_else_does_not() {
        let hash = |number: u32| number.wrapping_mul(0x9E37_79B9);
        let sieve = HashFilter::from_hashes(16, (0..100).map(hash));
        assert!((0..100).all(|number| sieve.may_hold(hash(number))));
        let others = (1000..11_000).filter(|number| sieve.may_hold(hash(*number))).count();
        assert!(others < 100, "{others} of 10,000");
    }
}
