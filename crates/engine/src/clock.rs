//! This machine's clocks as the engine needs them: the time since boot, and the wall clock.
//!
//! Leases are counted in time since boot, which all processes share, which continues during sleep and which
//! cannot be set back.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use domain::WallMs;
use rustix::time::{ClockId, clock_gettime};
use sync::{Clock, Parker};

/// The time since this machine was started, sleep included.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Duration {
        let since = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(since.tv_sec).unwrap_or_default();
        Duration::new(seconds, u32::try_from(since.tv_nsec).unwrap_or_default())
    }

    fn park_until(&self, parker: &Parker, at: Option<Duration>) {
        let left = at.map(|at| at.saturating_sub(self.now()));
        match left.and_then(|left| Instant::now().checked_add(left)) {
            Some(deadline) => {
                parker.park_until(deadline);
            }
            None => parker.park(),
        }
    }
}

/// The wall clock, for people to read.
pub fn wall_now() -> WallMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
