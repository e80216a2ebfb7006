//! New ids: a port, because the simulation chooses its own, and the implementation that the program uses.

use std::time::{SystemTime, UNIX_EPOCH};

use sync::primitives::{Mutex, lock};

const TIME_BITS: u32 = 48;
const RANDOM_BITS: u32 = 80;
/// The number of random bits that are dropped when an id is to come soon after another.
const RISE_SHIFT: u32 = 16;
/// The same for the next id of the same millisecond: 2^40 such steps fit into it.
const STEP_SHIFT: u32 = 40;

/// Makes ids that are unique.
pub trait Ids: Send + Sync {
    /// 48 bits of milliseconds since 1970 and 80 random bits: the 128 bits of a ULID.
    fn ulid(&self) -> u128;

    /// From here on ids come after `seen`, which another process made. Its clock may have been ahead of ours,
    /// or ours may have been set back. An implementation with an order of its own need not do anything.
    fn rise_above(&self, _seen: u128) {}
}

/// Ids from the wall clock and the system's randomness, rising within a process even when the clock steps
/// back.
///
/// Jobs are served in order of id, so two ids of one process keep the order they were made in.
#[derive(Debug, Default)]
pub struct RandomIds {
    last: Mutex<u128>,
}

impl RandomIds {
    /// A source of its own.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Ids for RandomIds {
    fn ulid(&self) -> u128 {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = since_1970.as_millis() & ((1 << TIME_BITS) - 1);
        let fresh = time << RANDOM_BITS | random_80_bits();
        // By chance as well: ids of one millisecond differ in their last letters.
        let step = 1 + (random_80_bits() >> STEP_SHIFT);
        let mut last = lock(&self.last);
        *last = fresh.max(last.saturating_add(step));
        *last
    }

    fn rise_above(&self, seen: u128) {
        let mut last = lock(&self.last);
        // By chance as well: two processes that saw the same id must not continue with the same one.
        *last = (*last).max(seen.saturating_add(random_80_bits() >> RISE_SHIFT));
    }
}

fn random_80_bits() -> u128 {
    let mut bytes = [0_u8; 16];
    // Without system randomness ids still differ within the process, since they rise.
    let _ = getrandom::fill(&mut bytes[6..]);
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_after_what_a_clock_ahead_of_ours_made() {
        let ahead = (1 << 47) << RANDOM_BITS;
        let made: Vec<u128> = (0..2)
            .map(|_| {
                let ids = RandomIds::new();
                ids.rise_above(ahead);
                ids.rise_above(7);
                ids.ulid()
            })
            .collect();
        assert!(made.iter().all(|id| *id > ahead));
        assert_ne!(made[0], made[1], "two that saw the same do not make the same");
    }

    #[test]
    fn ids_of_one_process_rise_and_never_repeat() {
        let ids = RandomIds::new();
        let made: Vec<u128> = (0..10_000).map(|_| ids.ulid()).collect();
        assert!(made.is_sorted_by(|a, b| a < b));
        let first_ms = made[0] >> RANDOM_BITS;
        assert!(first_ms > 1_700_000_000_000, "the time part is the wall clock's");
        assert_ne!(ids.ulid() & 0xFFFF_FFFF, RandomIds::new().ulid() & 0xFFFF_FFFF, "the rest is random");
    }
}
