//! When to kill: drawn from a seed, over a time that is learned from those that were too late.

use std::process::Child;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The interval at which a process is checked for its end.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Numbers at random (splitmix64), the same for the same seed.
pub struct Dice(u64);

pub fn fresh_seed() -> usize {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() % 1_000_000_007) as usize
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Evenly from 0 up to, not with, `count`.
    #[allow(dead_code, reason = "not every part draws numbers")]
    pub fn below(&mut self, count: u64) -> u64 {
        self.next() % count.max(1)
    }

    /// One time in so many.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }
}

/// A kill is drawn over this much of the usual time, so that longer ones are met, and learned from, too.
const DRAWN_OVER: f64 = 1.2;

/// The time that something takes unless it is killed: the mean of the last times that it came to its end.
pub struct DurationSpan {
    mean: Duration,
}

impl DurationSpan {
    pub fn new(first: Duration) -> DurationSpan {
        DurationSpan { mean: first }
    }

    /// It came to its end after so long; nothing, when it was killed.
    pub fn learn(&mut self, took: Option<Duration>) {
        if let Some(took) = took {
            self.mean = (self.mean * 7 + took) / 8;
        }
    }

    /// A kill drawn from it met what it was to meet, or came too late. Settles where three of five meet it.
    pub fn aim(&mut self, met: bool) {
        self.mean = self.mean.mul_f64(if met { 1.02 } else { 0.97 });
    }

    /// A moment within it.
    pub fn draw(&self, dice: &mut Dice) -> Duration {
        self.mean.mul_f64(dice.share() * DRAWN_OVER)
    }
}

/// Waits until `moment` has passed since `start`, or the process has come to its end before.
pub fn wait(process: &mut Child, start: Instant, moment: Duration) -> Option<Duration> {
    loop {
        if process.try_wait().unwrap().is_some() {
            return Some(start.elapsed());
        }
        let left = moment.saturating_sub(start.elapsed());
        if left.is_zero() {
            return None;
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}
