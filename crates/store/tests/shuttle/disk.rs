//! The stand-in for SQLite: a list of what is committed, and one commit that fails.

use std::cell::RefCell;
use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use sync::primitives::{Mutex, lock};

use crate::StoreError;
use crate::writer::{BatchCommitter, FailedBatch, PendingWrite};

/// The failure of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The next one may succeed.
    ForNow,
    /// Nothing may be written any more.
    ForGood,
}

impl Failure {
    pub(crate) fn error(self) -> StoreError {
        match self {
            Self::ForNow => StoreError::Full,
            Self::ForGood => StoreError::Broken { why: "the disk failed".to_owned() },
        }
    }
}

/// Shared by the writer and by those who look whether it told the truth.
#[derive(Clone)]
pub(crate) struct Disk(Arc<Mutex<State>>);

struct State {
    committed: Vec<u32>,
    commits: usize,
    /// The commit that fails, and its failure.
    fails: Option<(usize, Failure)>,
}

impl Disk {
    pub(crate) fn that_works() -> Self {
        Self(Arc::new(Mutex::new(State { committed: Vec::new(), commits: 0, fails: None })))
    }

    /// One whose first, second or third commit fails.
    pub(crate) fn that_fails() -> Self {
        let disk = Self::that_works();
        let how = if thread_rng().r#gen() { Failure::ForNow } else { Failure::ForGood };
        lock(&disk.0).fails = Some((thread_rng().gen_range(0..3), how));
        disk
    }

    pub(crate) fn commit(&self, written: Vec<u32>) -> Result<(), Failure> {
        let mut state = lock(&self.0);
        let number = state.commits;
        state.commits += 1;
        match state.fails {
            Some((fails, how)) if fails == number => return Err(how),
            Some((fails, Failure::ForGood)) => {
                assert!(number < fails, "written after a commit that failed for good: {written:?}");
            }
            Some((_, Failure::ForNow)) | None => {}
        }
        state.committed.extend(written);
        Ok(())
    }

    pub(crate) fn committed(&self) -> Vec<u32> {
        lock(&self.0).committed.clone()
    }
}

/// Transactions of ours, on a disk.
pub(crate) struct Transactions {
    pub(crate) disk: Disk,
    pub(crate) has_unmoved: bool,
}

impl BatchCommitter for Transactions {
    type Tx<'t> = RefCell<Vec<u32>>;

    fn commit(&mut self, writes: &mut [PendingWrite<Self>]) -> Result<(), FailedBatch> {
        let written = RefCell::default();
        for pending in writes {
            assert!(pending.run(&written), "a write is run once");
        }
        self.has_unmoved = true;
        self.disk.commit(written.into_inner()).map_err(|failure| match failure {
            Failure::ForNow => FailedBatch::for_now(failure.error()),
            Failure::ForGood => FailedBatch::for_good(failure.error()),
        })
    }

    fn has_unmoved(&self) -> bool {
        self.has_unmoved
    }

    fn checkpoint(&mut self) {
        self.has_unmoved = false;
    }
}
