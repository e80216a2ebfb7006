//! The points at which a journal can be watched, stopped and merged from outside.
//!
//! Each step that leaves something on disk is announced before it is taken. In the program nothing listens.
//! The tests kill the process, refuse the step, or edit a file there, which is how every moment between two
//! writes is reached.
//!
//! # Not here
//! The merge itself (crate `domain`): the engine passes it in.

use std::io;

/// A step that is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JournalStep {
    /// The journal's images and ops are written out, without a commit mark.
    Prepare,
    /// The commit mark is appended.
    Commit,
    /// The journal and its directory are synced; nothing of the user's has been touched.
    CommitSync,
    /// One op.
    Op {
        /// The number of the op, in the order in which the ops are carried out.
        n: u32,
        /// The point that the op has reached.
        at: HookPoint,
    },
    /// The decision to go back is appended.
    Back,
    /// One op is rolled back.
    TakeBack {
        /// The number of the op.
        n: u32,
    },
    /// Bytes that the user may miss are saved next to the journal.
    SaveFound {
        /// Of which op.
        n: u32,
    },
    /// The user's files are synced.
    Sync,
    /// The final mark is appended.
    Done,
    /// A parked file is unlinked.
    Unpark {
        /// Of which op.
        n: u32,
    },
    /// The journal leaves the list of open ones.
    Retire,
}

/// A point within an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookPoint {
    /// Nothing has happened.
    Begin,
    /// The present state was found to be as expected.
    Checked,
    /// A piece of the content is written, in place or next to the file.
    Piece,
    /// The file is cut to its new length.
    Cut,
    /// The content that was written in place is checked once more.
    Verify,
    /// A new file next to the old one is complete and takes its place.
    Swap,
    /// The file that was swapped out is compared with the expected one.
    Swapped,
    /// The entry that was moved aside is compared with the expected one.
    Parked,
    /// A new directory gets its owner and mode.
    Made,
}

/// Receives each step before it is taken.
pub trait Hooks: Send + Sync {
    /// `step` is about to be taken.
    ///
    /// # Errors
    /// What is returned is handled as if the system had said it in that step.
    fn step(&self, step: JournalStep) -> io::Result<()>;
}

/// Hooks that do nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {
    fn step(&self, _: JournalStep) -> io::Result<()> {
        Ok(())
    }
}

/// Merges texts line by line.
pub trait Merger: Send + Sync {
    /// `now` and `plan` both come from `base`: a text with the changes of both, or none when they conflict.
    fn merge(&self, base: &[u8], now: &[u8], plan: &[u8]) -> Option<Vec<u8>>;
}
