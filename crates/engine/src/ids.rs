//! New ids: a port, since the simulation wants to choose them, and the one that the program uses.

use std::time::{SystemTime, UNIX_EPOCH};

use sync::primitives::{Mutex, lock};

const TIME_BITS: u32 = 48;
const RANDOM_BITS: u32 = 80;

/// Makes ids that nobody else makes.
pub trait Ids: Send + Sync {
    /// 48 bits of milliseconds since 1970 and 80 random bits: the 128 bits of a ULID.
    fn ulid(&self) -> u128;
}

/// Ids from the wall clock and the system's randomness, rising within a process even when the clock steps back.
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
        let mut last = lock(&self.last);
        *last = fresh.max(last.saturating_add(1));
        *last
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
    fn ids_of_one_process_rise_and_never_repeat() {
        let ids = RandomIds::new();
        let made: Vec<u128> = (0..10_000).map(|_| ids.ulid()).collect();
        assert!(made.is_sorted_by(|a, b| a < b));
        let first_ms = made[0] >> RANDOM_BITS;
        assert!(first_ms > 1_700_000_000_000, "the time part is the wall clock's");
        assert_ne!(ids.ulid() & 0xFFFF_FFFF, RandomIds::new().ulid() & 0xFFFF_FFFF, "the rest is random");
    }
}
