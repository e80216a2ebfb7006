//! The texts that real vocabularies know as one token, as sets of hashes that are built in.
//!
//! There are three sets in 465 KB. `BEGINNINGS`: the ASCII beginnings of the tokens of either (a sieve of one
//! bit, 283,000). `OTHERS`: the ASCII tokens that only one of them knows (a sieve of four bits, 60,000).
//! `BOTH`: every piece of text that cl100k and o200k both know as one token (an xor filter of 24 bits,
//! 90,000). It also has the pieces that one knows and the other is never asked for. The first two sets have
//! texts of up to [`LONGEST`] bytes. A test makes them from the vocabularies and compares, or writes them.
//!
//! # Invariants
//! 1. A text that is in a set is found in it. A text that is not in `BOTH` is found in it once in 16 million
//!    times. Of the texts that are not in the other sets, a part passes, which makes a count higher and never
//!    lower.
//! 2. The file depends on the vocabularies alone.
//!
//! # Not here
//! Ranks: which of two tokens a vocabulary joins first is not known.

/// The longest beginning that is in the sieve.
pub(super) const LONGEST: usize = 16;

/// The sets, one after the other.
static SETS: [u8; SETS_BYTES] = *include_bytes!("known.bin");
const SETS_BYTES: usize = include_bytes!("known.bin").len();
const BEGINNINGS_BYTES: usize = 1 << 16;
const OTHERS_BYTES: usize = 1 << 16;
const SIEVES_BYTES: usize = BEGINNINGS_BYTES + OTHERS_BYTES;
/// The stored bytes of a hash. Fewer would be enough but for short texts, of which a wrong answer is half.
const PRINT_BYTES: usize = 3;
/// The number of places each of the three parts of the filter has.
const PART: usize = (SETS_BYTES - SIEVES_BYTES) / PRINT_BYTES / 3;

/// The hash of some bytes, byte by byte.
#[derive(Clone, Copy)]
pub(super) struct PieceHash(u64);

impl PieceHash {
    /// Not 0, which a byte 0 would leave as it is.
    pub(super) const EMPTY: PieceHash = PieceHash(0x9e37_79b9_7f4a_7c15);

    pub(super) fn from_bytes(bytes: &[u8]) -> PieceHash {
        bytes.iter().fold(PieceHash::EMPTY, |hash, byte| hash.then(*byte))
    }

    pub(super) fn then(self, byte: u8) -> PieceHash {
        PieceHash((self.0.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x517c_c1b7_2722_0a95))
    }

    /// Returns true if both vocabularies know it as one token.
    pub(super) fn is_known(self) -> bool {
        let mixed = self.mixed();
        let print = |place: usize| {
            let at = SIEVES_BYTES + place * PRINT_BYTES;
            u32::from_le_bytes([SETS[at], SETS[at + 1], SETS[at + 2], 0])
        };
        let [one, two, three] = places(mixed, PART);
        print(one) ^ print(two) ^ print(three) == fingerprint(mixed)
    }

    /// Returns true if one of the vocabularies may know it as one token, if not both.
    pub(super) fn may_be_known(self) -> bool {
        self.other_marks().into_iter().all(|(byte, bit)| SETS[byte] & bit != 0)
    }

    /// Returns true if a token of one of the vocabularies may begin with it.
    pub(super) fn may_begin(self) -> bool {
        let (byte, bit) = self.mark();
        SETS[byte] & bit != 0
    }

    fn mark(self) -> (usize, u8) {
        let place = self.0 >> (64 - (BEGINNINGS_BYTES * 8).ilog2());
        ((place >> 3) as usize, 1 << (place & 7))
    }

    fn other_marks(self) -> [(usize, u8); 4] {
        let mixed = self.mixed();
        [0, 16, 32, 48].map(|shift| {
            let place = (mixed.rotate_right(shift) as usize) % (OTHERS_BYTES * 8);
            (BEGINNINGS_BYTES + place / 8, 1 << (place % 8))
        })
    }

    /// The upper bits of a product know of all its factors, the lower ones do not.
    fn mixed(self) -> u64 {
        let half = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        half ^ (half >> 32)
    }
}

/// Returns the places of a hash in an xor filter of three parts.
fn places(mixed: u64, part: usize) -> [usize; 3] {
    let within = |bits: u64| (((bits & 0xffff_ffff) * part as u64) >> 32) as usize;
    [within(mixed), part + within(mixed.rotate_left(21)), 2 * part + within(mixed.rotate_left(42))]
}

fn fingerprint(mixed: u64) -> u32 {
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 8 * PRINT_BYTES)) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The number of places an xor filter has for ten of its members.
    const PLACES_FOR_TEN: f64 = 12.3;
    const SPARE_PLACES: usize = 32;

    fn vocabulary(name: &str) -> BTreeSet<Vec<u8>> {
        let vocabulary = tiktoken::get_encoding(name).expect("it is built in");
        let tokens = (0..vocabulary.vocab_size() as u32 + 64).map(|token| vocabulary.decode(&[token]));
        let is_for_programs = |bytes: &[u8]| bytes.starts_with(b"<|") && bytes.ends_with(b"|>");
        tokens.filter(|bytes| !bytes.is_empty() && !is_for_programs(bytes)).collect()
    }

    /// Returns the tokens that both know, and those for which only one is ever asked. The other one cuts
    /// them: `o200k` before a capital after a small letter, `cl100k` between a line end and a slash.
    fn both() -> BTreeSet<Vec<u8>> {
        let (one, other) = (vocabulary("cl100k_base"), vocabulary("o200k_base"));
        let is_hump = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
        let is_slash = |pair: &[u8]| matches!(pair[0], b'\r' | b'\n') && pair[1] == b'/';
        let both = one.iter().filter(|token| other.contains(*token) || token.windows(2).any(is_hump));
        both.chain(other.iter().filter(|token| token.windows(2).any(is_slash))).cloned().collect()
    }

    /// The sieves of what tokens begin with, and of what only one vocabulary knows.
    fn sieves() -> Vec<u8> {
        let (one, other) = (vocabulary("cl100k_base"), vocabulary("o200k_base"));
        let mut sieves = vec![0; SIEVES_BYTES];
        for token in one.union(&other) {
            let mut hash = PieceHash::EMPTY;
            for byte in token.iter().take(LONGEST).take_while(|byte| byte.is_ascii()) {
                hash = hash.then(*byte);
                let (place, bit) = hash.mark();
                sieves[place] |= bit;
            }
        }
        let is_looked_up = |token: &&Vec<u8>| token.is_ascii() && token.len() <= LONGEST;
        for token in one.symmetric_difference(&other).filter(is_looked_up) {
            for (place, bit) in PieceHash::from_bytes(token).other_marks() {
                sieves[place] |= bit;
            }
        }
        sieves
    }

    /// The filter: a member that is alone at a place is removed until none is left, and put back in the
    /// reverse order.
    fn filter(members: &[u64]) -> Vec<u8> {
        let part = ((members.len() as f64 * PLACES_FOR_TEN / 10.0) as usize + SPARE_PLACES).div_ceil(3);
        let mut here = vec![(0_u32, 0_u64); part * 3];
        for member in members {
            for place in places(*member, part) {
                here[place] = (here[place].0 + 1, here[place].1 ^ member);
            }
        }
        let mut alone: Vec<usize> = (0..here.len()).filter(|place| here[*place].0 == 1).collect();
        let mut taken = Vec::new();
        while let Some(place) = alone.pop() {
            let (1, member) = here[place] else { continue };
            taken.push((place, member));
            for place in places(member, part) {
                here[place] = (here[place].0 - 1, here[place].1 ^ member);
                if here[place].0 == 1 {
                    alone.push(place);
                }
            }
        }
        assert_eq!(
            taken.len(),
            members.len(),
            "the hashes go round in a circle: change the factor of `mixed`"
        );
        let mut prints = vec![0_u32; part * 3];
        for (place, member) in taken.into_iter().rev() {
            let others = places(member, part).into_iter().filter(|other| *other != place);
            prints[place] = others.fold(fingerprint(member), |print, other| print ^ prints[other]);
        }
        prints.iter().flat_map(|print| print.to_le_bytes().into_iter().take(PRINT_BYTES)).collect()
    }

    fn sets() -> Vec<u8> {
        let members: BTreeSet<u64> =
            both().iter().map(|token| PieceHash::from_bytes(token).mixed()).collect();
        let mut sets = sieves();
        sets.extend(filter(&members.into_iter().collect::<Vec<u64>>()));
        sets
    }

    /// With `WRITE_SETS=1` in the environment it writes them before it looks.
    #[test]
    fn the_sets_that_are_built_in_are_those_of_the_vocabularies() {
        let (file, sets) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tokens/known.bin"), sets());
        if std::env::var_os("WRITE_SETS").is_some() {
            fs::write(&file, &sets).expect("it is ours");
        }
        let kept = fs::read(&file).expect("it is there");
        assert!(kept == sets, "write them with `WRITE_SETS=1 cargo test -p context the_sets`");
    }

    #[test]
    fn all_that_both_know_is_known_and_next_to_nothing_else() {
        let both = both();
        assert!(both.len() > 80_000, "{}", both.len());
        assert!(both.iter().all(|token| PieceHash::from_bytes(token).is_known()));
        let mut others = 0;
        for number in 0_u32..1_000_000 {
            others +=
                u32::from(PieceHash::from_bytes(&[&[255], &number.to_le_bytes()[..]].concat()).is_known());
        }
        assert!(others < 4, "{others} of a million");
    }
}
