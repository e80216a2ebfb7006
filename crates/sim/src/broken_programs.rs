//! Programs that are wrong on purpose: each breaks one promise, and must be caught by the check of that
//! promise.

use crate::promise::Promise;

macro_rules! broken {
    ($($(#[$doc:meta])* $name:ident = $word:literal breaks $promise:ident,)*) => {
        /// A way to be wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum BrokenProgram {
            $($(#[$doc])* $name,)*
        }

        impl BrokenProgram {
            /// All of them.
            pub const ALL: &'static [BrokenProgram] = &[$(BrokenProgram::$name,)*];

            /// Its name, as typed and shown.
            pub const fn name(self) -> &'static str {
                match self {
                    $(BrokenProgram::$name => $word,)*
                }
            }

            /// The promise that it breaks.
            pub const fn promise(self) -> Promise {
                match self {
                    $(BrokenProgram::$name => Promise::$promise,)*
                }
            }

            /// The one with this name.
            pub fn parse(word: &str) -> Option<BrokenProgram> {
                BrokenProgram::ALL.iter().copied().find(|broken| broken.name() == word)
            }
        }
    };
}

broken! {
    /// A cancel is acknowledged while its processes live.
    EarlyAcknowledgement = "early-acknowledgement" breaks CancelIsFinal,
    /// An owner that lost its job still writes.
    UnfencedWrite = "unfenced-write" breaks FencesHold,
    /// An entry is acknowledged and not written.
    LostEntry = "lost-entry" breaks EntriesSurvive,
    /// A changeset is closed without a sync.
    UnsyncedClose = "unsynced-close" breaks EntriesSurvive,
    /// An error is answered and not written.
    LostError = "lost-error" breaks ErrorsCount,
    /// A step is tried again, whatever was decided.
    RetryOverLimit = "retry-over-limit" breaks ErrorsCount,
    /// A job that runs is given to a second worker.
    DoubleClaim = "double-claim" breaks OneLiveJob,
    /// The end of a job is acknowledged without a sync.
    UnsyncedEnd = "unsynced-end" breaks OneLiveJob,
    /// The remaining budget is read first and reserved later.
    OverReserve = "over-reserve" breaks LedgerHolds,
    /// The reservations of a dead owner stay reserved.
    UnsettledSpend = "unsettled-spend" breaks LedgerHolds,
    /// A journal is put away before its files are written.
    TornApply = "torn-apply" breaks FilesWhole,
    /// A probe that never returns leaves its breaker half open.
    StuckProbe = "stuck-probe" breaks BreakersReturn,
    /// An event is left out.
    EventGap = "event-gap" breaks EventsRetell,
    /// A dead owner's job is never taken over.
    StuckLease = "stuck-lease" breaks PlansEnd,
    /// A dead owner's sandbox is never swept.
    LeakedSandbox = "leaked-sandbox" breaks NothingLeft,
    /// A lock is never released.
    LeakedLock = "leaked-lock" breaks NothingLeft,
    /// A stopped call leaves no mark in the sandbox: the next writer records its changes as its own.
    DroppedMark = "dropped-mark" breaks CallsRecorded,
    /// A check begins before what a stopped call left is recorded.
    BlindCheck = "blind-check" breaks CallsRecorded,
    /// A run ends, and a call of it is still at work.
    AbandonedCall = "abandoned-call" breaks CallsRecorded,
    /// A job ends, and its calls are shown as running.
    UnendedCall = "unended-call" breaks CallsRecorded,
}
