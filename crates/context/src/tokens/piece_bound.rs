//! The most tokens that a piece can have, by the tokens that both vocabularies are known to have.
//!
//! Within a piece a vocabulary joins two neighbours as long as they are together a token. So a piece that it
//! knows is one token, and any other ends as tokens of which no two neighbours are known together. The count
//! is the largest number of such parts, which no order of joining can exceed.
//!
//! # Invariants
//! 1. One pass, no memory but some fixed rows; a byte costs at most a fixed number of steps.

use super::vocabulary::{LONGEST, PieceHash};

/// The most tokens of a piece.
pub(super) fn most_tokens(piece: &[u8]) -> u64 {
    let length = piece.len();
    if length <= 1 || PieceHash::from_bytes(piece).is_known() {
        return length.min(1) as u64;
    }
    if length == 2 {
        return 2;
    }
    // The whole piece is no part: it would have been known.
    let mut most = 0;
    largest_numbers(piece, length - 1, |_| false, |_, number| most = number);
    // Without any way to part it, nothing is known of it but its bytes.
    if most > 0 { u64::from(most) } else { length as u64 }
}

/// Returns the most tokens that a piece can have before a token that begins at a place of `ends` and
/// continues beyond the piece.
pub(super) fn most_tokens_before(piece: &[u8], mut ends: impl FnMut(usize) -> bool) -> u64 {
    let mut hash = PieceHash::EMPTY;
    let mut are_known = piece.iter().map(|byte| {
        hash = hash.then(*byte);
        hash.is_known()
    });
    if are_known.all(|is_known| is_known) {
        return piece.len().min(1) as u64;
    }
    let mut most = 0;
    let tell = |end, number| most = if number > most && ends(end) { number } else { most };
    largest_numbers(piece, piece.len(), |_| false, tell);
    u64::from(most)
}

/// The most tokens that a stretch can begin with, if it may be cut into pieces wherever `may_be_cut` says so.
/// It is asked for each byte but the first, in their order.
pub(super) fn most_tokens_cut(stretch: &[u8], may_be_cut: impl FnMut(usize) -> bool) -> u64 {
    let mut most = 0;
    largest_numbers(stretch, stretch.len(), may_be_cut, |_, number| most = most.max(number));
    u64::from(most)
}

/// Calls `tell` for each place with the largest number of parts up to it, 0 if there is no way. No two
/// neighbours of these parts are known together, unless they may be cut there. A part is at most [`LONGEST`]
/// bytes long and a token of one of them, as far as that is known. The rings hold the last `LONGEST` places.
fn largest_numbers(
    piece: &[u8],
    longest: usize,
    mut may_be_cut: impl FnMut(usize) -> bool,
    mut tell: impl FnMut(usize, u32),
) {
    let mut ways = Partitions { rows: [[0; LONGEST]; LONGEST], lengths: [0; LONGEST] };
    let mut known = [0_u32; LONGEST];
    for at in 0..piece.len() {
        let (parts, together) = parts_from(&piece[at..], longest);
        known[at % LONGEST] = together;
        if at == 0 {
            ways.extend(at, parts, 0);
            continue;
        }
        let (mut lengths, row) = ways.take(at);
        tell(at, row.iter().max().copied().unwrap_or(0));
        let is_cut = may_be_cut(at);
        while lengths != 0 {
            let last = lengths.trailing_zeros() as usize;
            lengths &= lengths - 1;
            let joined = if last < LONGEST && !is_cut { known[(at - last) % LONGEST] >> last } else { 0 };
            ways.extend(at, parts & !joined, row[last - 1]);
        }
    }
    tell(piece.len(), ways.take(piece.len()).1.iter().max().copied().unwrap_or(0));
}

/// The ways to part a piece, by where their last part ends and how long it is.
struct Partitions {
    rows: [[u32; LONGEST]; LONGEST],
    /// The lengths that a row has, as bits.
    lengths: [u32; LONGEST],
}

impl Partitions {
    /// Puts a part behind `so_far` others, for each length that is in the bits of `parts`.
    fn extend(&mut self, at: usize, mut parts: u32, so_far: u32) {
        while parts != 0 {
            let length = parts.trailing_zeros() as usize;
            let end = (at + length) % LONGEST;
            let cell = &mut self.rows[end][length - 1];
            *cell = (*cell).max(so_far + 1);
            self.lengths[end] |= 1 << length;
            parts &= parts - 1;
        }
    }

    /// The ways that end here; their row is free for the end that is `LONGEST` further.
    fn take(&mut self, at: usize) -> (u32, [u32; LONGEST]) {
        let lengths = std::mem::take(&mut self.lengths[at % LONGEST]);
        (lengths, std::mem::take(&mut self.rows[at % LONGEST]))
    }
}

/// The lengths of the parts at the front of `rest` that may be tokens, and of those that both vocabularies
/// know, as bits.
fn parts_from(rest: &[u8], longest: usize) -> (u32, u32) {
    let (mut parts, mut known) = (0, 0);
    let mut hash = PieceHash::EMPTY;
    let mut is_ascii = true;
    for (length, byte) in (1..).zip(rest.iter().take(LONGEST)) {
        hash = hash.then(*byte);
        is_ascii &= byte.is_ascii();
        if is_ascii && length > 1 && !hash.may_begin() {
            break;
        }
        let is_known = length == 1 || hash.is_known();
        known |= u32::from(is_known) << length;
        if length <= longest && (is_known || !is_ascii || hash.may_be_known()) {
            parts |= 1 << length;
        }
    }
    (parts, known)
}
