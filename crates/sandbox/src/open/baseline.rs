//! The one rule that decides whether the base of a change is known.
//!
//! A sandbox is opened at a moment T0 of the wall clock. Nothing of the user's tree is read before the clock
//! that the kernel stamps files with has passed T0. From then on an original is as it was at T0 when
//! - its record was last changed at or before T0, and
//! - no directory on the way to it was put there since. A directory that is moved into place leaves the
//!   records of its files alone. But its own record changes, and so does that of the directory that it was
//!   put into.
//!
//! # Invariants
//! 1. The rule may call an unchanged file changed, never the other way round.
//! 2. A wall clock that was set back since T0 makes nothing known.
//! 3. A clock that was not set back never counts as set back, however long this thread is interrupted between
//!    two reads of a clock. Bounds are compared, not readings ([`WallOffset`]).
//!
//! # Not here
//! The consequences: capture.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::RelPath;
use rustix::fs::Stat;
use rustix::thread::NanosleepRelativeResult;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::fs::listing::stat_beneath;

/// The time by which the wall clock may fall behind the clock of the boot before it counts as set back.
/// Slewing stays below.
const STEP_BACK_NS: i128 = 10_000_000;

/// Two reads of the clock of the boot, with one of the wall clock between them, are good when they lie so
/// near together.
const NEAR_NS: i128 = 1_000_000;

/// The most times that the clocks are read again, until they are read without an interruption.
const READS_MAX: u32 = 1_000;

/// The wait before the kernel's file clock is read again; it ticks every 1 to 10 ms.
const LOOK_AGAIN_NS: i64 = 250_000;

/// The most reads of it: a clock that does not pass within this was set back, and then nothing is known
/// anyway.
const LOOKS_MAX: u32 = 400;

/// A moment of the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Timestamp {
    seconds: i64,
    nanoseconds: i64,
}

/// The text has the type's former name, because capture hashes it as the mark of a content that was not read.
impl fmt::Debug for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Moment")
            .field("seconds", &self.seconds)
            .field("nanoseconds", &self.nanoseconds)
            .finish()
    }
}

impl Timestamp {
    /// Now, exactly.
    pub(crate) fn now() -> Timestamp {
        Timestamp::from(clock_gettime(ClockId::Realtime))
    }

    /// Now, as the kernel stamps files.
    pub(crate) fn now_for_files() -> Timestamp {
        Timestamp::from(clock_gettime(ClockId::RealtimeCoarse))
    }

    /// When the file's record was last changed.
    #[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
    pub(crate) fn changed(stat: &Stat) -> Timestamp {
        Timestamp { seconds: stat.st_ctime as i64, nanoseconds: stat.st_ctime_nsec as i64 }
    }

    /// When the file's content was last changed, or what it says of that.
    #[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
    pub(crate) fn modified(stat: &Stat) -> Timestamp {
        Timestamp { seconds: stat.st_mtime as i64, nanoseconds: stat.st_mtime_nsec as i64 }
    }
}

impl From<Timespec> for Timestamp {
    fn from(time: Timespec) -> Timestamp {
        Timestamp { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
    }
}

/// Waits until whatever is written to a file is stamped later than `moment`.
fn wait_until_files_are_later(moment: Timestamp) {
    for _ in 0..LOOKS_MAX {
        if Timestamp::now_for_files() > moment {
            return;
        }
        match rustix::thread::nanosleep(&Timespec { tv_sec: 0, tv_nsec: LOOK_AGAIN_NS }) {
            NanosleepRelativeResult::Ok
            | NanosleepRelativeResult::Interrupted(_)
            | NanosleepRelativeResult::Err(_) => {}
        }
    }
}

/// The stored form of [`OpenTimes`] in a retained sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenTimesRecord {
    t0: Timestamp,
    ahead_of_boot_ns: i64,
}

/// The time when a sandbox was opened, which decides whether an original is unchanged since.
#[derive(Debug)]
pub(crate) struct OpenTimes {
    t0: Timestamp,
    /// At the opening the wall clock was so far ahead of the clock of the boot, or farther.
    ahead_of_boot_ns: i128,
    first_call_after: Timestamp,
    passed: AtomicBool,
}

impl OpenTimes {
    /// At this moment.
    pub(crate) fn now() -> OpenTimes {
        let t0 = Timestamp::now();
        OpenTimes {
            t0,
            ahead_of_boot_ns: WallOffset::now().low_ns,
            first_call_after: t0,
            passed: AtomicBool::new(false),
        }
    }

    /// To be written down.
    pub(crate) fn record(&self) -> OpenTimesRecord {
        let ahead_of_boot_ns = i64::try_from(self.ahead_of_boot_ns).unwrap_or(i64::MAX);
        OpenTimesRecord { t0: self.t0, ahead_of_boot_ns }
    }

    /// Restores the times from a record. In another boot, or over other directories, nothing says whether an
    /// original is what the plan saw.
    pub(crate) fn from_record(record: OpenTimesRecord, is_comparable: bool) -> OpenTimes {
        let ahead_of_boot_ns = if is_comparable { i128::from(record.ahead_of_boot_ns) } else { i128::MAX };
        OpenTimes {
            t0: record.t0,
            ahead_of_boot_ns,
            first_call_after: Timestamp::now(),
            passed: AtomicBool::new(false),
        }
    }

    /// Waits, at most for a tick and only the first time, until nothing written from now on can be taken for
    /// older than the opening.
    pub(crate) fn wait(&self) {
        if !self.passed.load(Ordering::Acquire) {
            wait_until_files_are_later(self.first_call_after);
            self.passed.store(true, Ordering::Release);
        }
    }

    /// A copy and its records have just been made: the first call must differ from the copying too.
    pub(crate) fn copied(&mut self) {
        self.first_call_after = Timestamp::now();
        self.passed.store(false, Ordering::Release);
    }

    /// Returns true if a moment is later than the opening.
    pub(crate) fn is_before(&self, moment: Timestamp) -> bool {
        self.t0 < moment
    }

    /// The wall clock's milliseconds at the opening.
    pub(crate) fn at_ms(&self) -> u64 {
        u64::try_from(self.t0.seconds * 1000 + self.t0.nanoseconds / 1_000_000).unwrap_or(0)
    }

    /// Returns true if the file of this record, read just before, is what it was at the opening, if the
    /// [clock was not set back](OpenTimes::clock_was_set_back).
    pub(crate) fn unchanged(&self, original: BorrowedFd<'_>, path: &RelPath, stat: &Stat) -> bool {
        Timestamp::changed(stat) <= self.t0 && self.way_unchanged(original, path)
    }

    /// Returns true if the directory of this record is the one that was there at the opening, whatever has
    /// come into it since. The clock must not have been set back.
    pub(crate) fn same_directory(&self, original: BorrowedFd<'_>, path: &RelPath, stat: &Stat) -> bool {
        !(Timestamp::changed(stat) > self.t0 && self.was_written(original, path.parent().as_ref()))
            && self.way_unchanged(original, path)
    }

    fn way_unchanged(&self, original: BorrowedFd<'_>, path: &RelPath) -> bool {
        let mut next = path.parent();
        while let Some(dir) = next {
            let Ok(Some(stat)) = stat_beneath(original, &dir) else { return false };
            next = dir.parent();
            if Timestamp::changed(&stat) > self.t0 && self.was_written(original, next.as_ref()) {
                return false;
            }
        }
        true
    }

    /// Returns true if names came into the directory, or left it, since the opening. Not knowing counts as
    /// yes.
    fn was_written(&self, original: BorrowedFd<'_>, dir: Option<&RelPath>) -> bool {
        let stat = match dir {
            Some(dir) => stat_beneath(original, dir).ok().flatten(),
            None => rustix::fs::fstat(original).ok(),
        };
        stat.is_none_or(|stat| Timestamp::modified(&stat) > self.t0)
    }

    /// Returns true if the wall clock was set back since the opening. It is asked once, after the records
    /// that the answer is for were read.
    pub(crate) fn clock_was_set_back(&self) -> bool {
        set_back(self.ahead_of_boot_ns, WallOffset::now().high_ns)
    }
}

/// Returns true if the clock fell behind: then it was ahead by `then_low_ns` or more, now by `now_high_ns` or
/// less.
fn set_back(then_low_ns: i128, now_high_ns: i128) -> bool {
    now_high_ns < then_low_ns - STEP_BACK_NS
}

/// The time by which the wall clock is ahead of the clock of the boot, within bounds that hold for certain.
///
/// The wall clock is read between two reads of the clock of the boot, so it was read at a moment between
/// them. An interruption makes the bounds wider, and never wrong; then the clocks are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WallOffset {
    low_ns: i128,
    high_ns: i128,
}

impl WallOffset {
    fn now() -> WallOffset {
        let ns = |time: Timespec| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
        WallOffset::measure(|clock| ns(clock_gettime(clock)))
    }

    /// By clocks that are read with `read`: the narrowest bounds that were found.
    fn measure(mut read: impl FnMut(ClockId) -> i128) -> WallOffset {
        let mut best: Option<WallOffset> = None;
        for _ in 0..READS_MAX {
            let before = read(ClockId::Boottime);
            let wall = read(ClockId::Realtime);
            let after = read(ClockId::Boottime);
            let found = WallOffset { low_ns: wall - after, high_ns: wall - before };
            best = Some(best.filter(|best| best.width_ns() <= found.width_ns()).unwrap_or(found));
            if found.width_ns() <= NEAR_NS {
                break;
            }
        }
        best.unwrap_or(WallOffset { low_ns: i128::MIN / 4, high_ns: i128::MAX / 4 })
    }

    fn width_ns(&self) -> i128 {
        self.high_ns - self.low_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Clocks of a machine on which each read takes as long as a schedule says.
    struct ScriptedClocks<'a> {
        boot_ns: i128,
        ahead_ns: i128,
        delays_ns: std::iter::Cycle<std::slice::Iter<'a, u32>>,
    }

    impl ScriptedClocks<'_> {
        fn read(&mut self, clock: ClockId) -> i128 {
            self.boot_ns += i128::from(*self.delays_ns.next().unwrap());
            if clock == ClockId::Boottime { self.boot_ns } else { self.boot_ns + self.ahead_ns }
        }
    }

    #[test]
    fn the_text_of_a_timestamp_is_that_which_marks_are_made_of() {
        let timestamp = Timestamp { seconds: 1, nanoseconds: 2 };
        assert_eq!(format!("{timestamp:?}"), "Moment { seconds: 1, nanoseconds: 2 }");
    }

    proptest! {
        #[test]
        fn no_schedule_of_interruptions_makes_a_clock_look_set_back(
            delays in prop::collection::vec(prop_oneof![9 => 20_u32..2_000, 1 => 0_u32..500_000_000], 3..60),
            ahead in -1_000_000_000_i128..1_000_000_000_000,
            forward in 0_i128..5_000_000_000,
        ) {
            let mut machine = ScriptedClocks { boot_ns: 7, ahead_ns: ahead, delays_ns: delays.iter().cycle() };
            let then = WallOffset::measure(|clock| machine.read(clock));
            machine.boot_ns += 3_000_000_000;
            prop_assert!(then.low_ns <= ahead && ahead <= then.high_ns);
            for step in [0, forward] {
                machine.ahead_ns += step;
                let now = WallOffset::measure(|clock| machine.read(clock));
                prop_assert!(!set_back(then.low_ns, now.high_ns));
            }
        }

        #[test]
        fn a_clock_that_was_set_back_is_found_out_between_interruptions(
            delays in prop::collection::vec(prop_oneof![9 => 20_u32..2_000, 1 => 0_u32..500_000_000], 30..60),
            back in (STEP_BACK_NS + 2 * NEAR_NS + 1)..100_000_000_000_i128,
        ) {
            prop_assume!(delays.windows(4).any(|four| four.iter().all(|delay| *delay < 2_000)));
            let mut machine = ScriptedClocks { boot_ns: 7, ahead_ns: 5, delays_ns: delays.iter().cycle() };
            let then = WallOffset::measure(|clock| machine.read(clock));
            machine.ahead_ns -= back;
            let now = WallOffset::measure(|clock| machine.read(clock));
            prop_assume!(then.width_ns() <= NEAR_NS && now.width_ns() <= NEAR_NS);
            prop_assert!(set_back(then.low_ns, now.high_ns));
        }
    }

    #[test]
    fn a_reader_that_is_interrupted_at_every_read_calls_no_clock_set_back() {
        let always = [30_000_000];
        let mut machine = ScriptedClocks { boot_ns: 0, ahead_ns: 0, delays_ns: always.iter().cycle() };
        let (then, now) = (
            WallOffset::measure(|clock| machine.read(clock)),
            WallOffset::measure(|clock| machine.read(clock)),
        );
        assert!(!set_back(then.low_ns, now.high_ns));
    }

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
            let opened = OpenTimes::now();
            opened.wait();
            let path = dir.path().join(round.to_string());
            std::fs::write(&path, b"x").unwrap();
            let stat = rustix::fs::stat(&path).unwrap();
            assert!(Timestamp::changed(&stat) > opened.t0);
        }
    }

    #[test]
    fn what_was_written_before_is_never_stamped_later_than_the_opening() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for _ in 0..2000 {
            std::fs::write(&path, b"x").unwrap();
            let opened = OpenTimes::now();
            assert!(Timestamp::changed(&rustix::fs::stat(&path).unwrap()) <= opened.t0);
        }
    }
}
