//! Is the base of a change known? The one rule that tells.
//!
//! A sandbox is opened at a moment T0 of the wall clock. Nothing of the user's tree is read before the clock that the
//! kernel stamps files with has passed T0. From then on an original is as it was at T0 when
//! - its record was last changed at or before T0, and
//! - no directory on the way to it was put there since: a directory moved into place leaves the records of its files
//!   alone, but has itself changed, and so has the directory that it was put into.
//!
//! # Invariants
//! 1. The rule may call an unchanged file changed, never the other way round.
//! 2. A wall clock that was set back since T0 makes nothing known.
//!
//! # Not here
//! What follows from it: that is for capture.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::RelPath;
use rustix::fs::Stat;
use rustix::thread::NanosleepRelativeResult;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::listing::stat_beneath;

/// How far the wall clock may fall behind the clock of the boot before it counts as set back. Slewing stays below.
const STEP_BACK_NS: i128 = 10_000_000;

/// How long to wait before the kernel's file clock is looked at again; it ticks every 1 to 10 ms.
const LOOK_AGAIN_NS: i64 = 250_000;

/// How often at most: a clock that does not pass within this was set back, and then nothing is known anyway.
const LOOKS_MAX: u32 = 400;

/// A moment of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Moment {
    seconds: i64,
    nanoseconds: i64,
}

impl Moment {
    /// Now, exactly.
    pub(crate) fn now() -> Moment {
        Moment::from(clock_gettime(ClockId::Realtime))
    }

    /// Now, as the kernel stamps files.
    pub(crate) fn now_for_files() -> Moment {
        Moment::from(clock_gettime(ClockId::RealtimeCoarse))
    }

    /// When the file's record was last changed.
    #[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
    pub(crate) fn changed(stat: &Stat) -> Moment {
        Moment { seconds: stat.st_ctime as i64, nanoseconds: stat.st_ctime_nsec as i64 }
    }

    /// When the file's content was last changed, or what it says of that.
    #[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
    pub(crate) fn modified(stat: &Stat) -> Moment {
        Moment { seconds: stat.st_mtime as i64, nanoseconds: stat.st_mtime_nsec as i64 }
    }
}

impl From<Timespec> for Moment {
    fn from(time: Timespec) -> Moment {
        Moment { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
    }
}

/// Waits until whatever is written to a file is stamped later than `moment`.
fn wait_until_files_are_later(moment: Moment) {
    for _ in 0..LOOKS_MAX {
        if Moment::now_for_files() > moment {
            return;
        }
        match rustix::thread::nanosleep(&Timespec { tv_sec: 0, tv_nsec: LOOK_AGAIN_NS }) {
            NanosleepRelativeResult::Ok
            | NanosleepRelativeResult::Interrupted(_)
            | NanosleepRelativeResult::Err(_) => {}
        }
    }
}

/// When a sandbox was opened, as one that is kept says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenedRecord {
    t0: Moment,
    ahead_of_boot_ns: i64,
}

/// When a sandbox was opened, and what that tells of originals since.
#[derive(Debug)]
pub(crate) struct Opened {
    t0: Moment,
    ahead_of_boot_ns: i128,
    first_call_after: Moment,
    passed: AtomicBool,
}

impl Opened {
    /// At this moment.
    pub(crate) fn now() -> Opened {
        let t0 = Moment::now();
        Opened {
            t0,
            ahead_of_boot_ns: wall_ahead_of_boot_ns(),
            first_call_after: t0,
            passed: AtomicBool::new(false),
        }
    }

    /// To be written down.
    pub(crate) fn record(&self) -> OpenedRecord {
        let ahead_of_boot_ns = i64::try_from(self.ahead_of_boot_ns).unwrap_or(i64::MAX);
        OpenedRecord { t0: self.t0, ahead_of_boot_ns }
    }

    /// As it was written down. In another boot, or over other directories, nothing tells whether an original is what
    /// the plan saw.
    pub(crate) fn again(record: OpenedRecord, is_comparable: bool) -> Opened {
        let ahead_of_boot_ns = if is_comparable { i128::from(record.ahead_of_boot_ns) } else { i128::MAX };
        Opened {
            t0: record.t0,
            ahead_of_boot_ns,
            first_call_after: Moment::now(),
            passed: AtomicBool::new(false),
        }
    }

    /// Waits, at most for a tick and only the first time, until nothing written from now on can be taken for older than
    /// the opening.
    pub(crate) fn wait(&self) {
        if !self.passed.load(Ordering::Acquire) {
            wait_until_files_are_later(self.first_call_after);
            self.passed.store(true, Ordering::Release);
        }
    }

    /// A copy and its records have just been made: the first call must be told apart from the copying too.
    pub(crate) fn copied(&mut self) {
        self.first_call_after = Moment::now();
        self.passed.store(false, Ordering::Release);
    }

    /// The wall clock's milliseconds at the opening.
    pub(crate) fn at_ms(&self) -> u64 {
        u64::try_from(self.t0.seconds * 1000 + self.t0.nanoseconds / 1_000_000).unwrap_or(0)
    }

    /// Whether the file of this record, read just before, is what it was at the opening.
    pub(crate) fn unchanged(&self, original: BorrowedFd<'_>, path: &RelPath, stat: &Stat) -> bool {
        Moment::changed(stat) <= self.t0 && self.way_unchanged(original, path) && !self.clock_was_set_back()
    }

    /// Whether the directory of this record is the one that was there at the opening, whatever has come into it since.
    pub(crate) fn same_directory(&self, original: BorrowedFd<'_>, path: &RelPath, stat: &Stat) -> bool {
        !(Moment::changed(stat) > self.t0 && self.was_written(original, path.parent().as_ref()))
            && self.way_unchanged(original, path)
            && !self.clock_was_set_back()
    }

    fn way_unchanged(&self, original: BorrowedFd<'_>, path: &RelPath) -> bool {
        let mut next = path.parent();
        while let Some(dir) = next {
            let Ok(Some(stat)) = stat_beneath(original, &dir) else { return false };
            next = dir.parent();
            if Moment::changed(&stat) > self.t0 && self.was_written(original, next.as_ref()) {
                return false;
            }
        }
        true
    }

    /// Whether names came into the directory, or left it, since the opening. Not knowing counts as yes.
    fn was_written(&self, original: BorrowedFd<'_>, dir: Option<&RelPath>) -> bool {
        let stat = match dir {
            Some(dir) => stat_beneath(original, dir).ok().flatten(),
            None => rustix::fs::fstat(original).ok(),
        };
        stat.is_none_or(|stat| Moment::modified(&stat) > self.t0)
    }

    fn clock_was_set_back(&self) -> bool {
        set_back(self.ahead_of_boot_ns, wall_ahead_of_boot_ns())
    }
}

fn set_back(then_ns: i128, now_ns: i128) -> bool {
    now_ns < then_ns - STEP_BACK_NS
}

fn wall_ahead_of_boot_ns() -> i128 {
    let ns = |time: Timespec| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    ns(clock_gettime(ClockId::Realtime)) - ns(clock_gettime(ClockId::Boottime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_set_back_when_it_fell_behind_the_boot_by_more_than_10_ms() {
        assert!(!set_back(0, 0));
        assert!(!set_back(0, 5_000_000_000));
        assert!(!set_back(1_000_000_000, 990_000_000));
        assert!(set_back(1_000_000_000, 989_999_999));
    }

    #[test]
    fn after_waiting_whatever_is_written_is_stamped_later_than_the_opening() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let opened = Opened::now();
            opened.wait();
            let path = dir.path().join(round.to_string());
            std::fs::write(&path, b"x").unwrap();
            let stat = rustix::fs::stat(&path).unwrap();
            assert!(Moment::changed(&stat) > opened.t0);
        }
    }

    #[test]
    fn what_was_written_before_is_never_stamped_later_than_the_opening() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for _ in 0..2000 {
            std::fs::write(&path, b"x").unwrap();
            let opened = Opened::now();
            assert!(Moment::changed(&rustix::fs::stat(&path).unwrap()) <= opened.t0);
        }
    }
}
