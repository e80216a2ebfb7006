//! The promises, by number, and what it looks like when one is broken.

macro_rules! promises {
    ($($(#[$doc:meta])* $name:ident = $no:literal $words:literal,)*) => {
        /// A promise of the runtime.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Promise {
            $($(#[$doc])* $name,)*
        }

        impl Promise {
            /// All of them, in order of number.
            pub const ALL: &'static [Promise] = &[$(Promise::$name,)*];

            /// Its number, from 1.
            pub const fn number(self) -> u32 {
                match self {
                    $(Promise::$name => $no,)*
                }
            }

            /// In a few words.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Promise::$name => $words,)*
                }
            }
        }
    };
}

promises! {
    /// After an acknowledged cancel no tool start, entry, live process or applied file of that plan.
    CancelIsFinal = 1 "after a cancel nothing happens",
    /// Fences grow, and no write shows an old one.
    FencesHold = 2 "fences grow, no write with an old one",
    /// Acknowledged entries survive what their durability covers, in their own changeset, without a gap.
    EntriesSurvive = 3 "acknowledged entries survive",
    /// Errors acknowledged are errors stored or folded, and retries stay within their limit.
    ErrorsCount = 4 "errors are counted, retries bounded",
    /// One live job per plan, processing exactly while it runs, final is final.
    OneLiveJob = 5 "one live job, final is final",
    /// Used and reserved never exceed the limit, and a final job has nothing reserved.
    LedgerHolds = 6 "the ledger never exceeds its limit",
    /// Real files are all old or all new.
    FilesWhole = 7 "files are all old or all new",
    /// No breaker is open or probing past its time.
    BreakersReturn = 8 "breakers come back in time",
    /// Events have no gaps and retell the rows.
    EventsRetell = 9 "events agree with the rows",
    /// Once faults end, every plan is final or waiting within ten leases.
    PlansEnd = 10 "every plan ends or waits",
    /// No sandbox, process, lock, waiter or open changeset is left over.
    NothingLeft = 11 "nothing is left over",
    /// No call is running in a plan that is not processing. Every change in the sandbox at a check is in the
    /// changeset, under the call that made it.
    CallsRecorded = 12 "calls end, checks see what is recorded",
}

impl Promise {
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// The number of promises.
pub(crate) const PROMISES: usize = Promise::ALL.len();

/// A promise that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromiseViolation {
    /// The promise.
    pub promise: Promise,
    /// The observation that breaks it.
    pub what: String,
}

impl std::fmt::Display for PromiseViolation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "promise {} ({}): {}", self.promise.number(), self.promise.words(), self.what)
    }
}
