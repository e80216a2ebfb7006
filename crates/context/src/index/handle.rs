//! An index as its users hold it. A user asks for the newest snapshot, and holds it as long as it likes.
//!
//! # Invariants
//! 1. A published snapshot never changes; readers of an older one are not disturbed.
//! 2. One update at a time has the writer. Another update waits for it until its own deadline, then continues
//!    with the published snapshot.
//! 3. Three locks, never two at once, and only for a clone, a swap, a hand-over or to lay changes over a
//!    snapshot. No file is read under any.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{Hash, RelPath};
use sync::Clock;

use super::config::IndexConfig;
use super::overlay_snapshot::{ChangedViews, read_changes};
use super::update::{UpdateInputs, update};
use super::writer::IndexWriter;
use super::{ContentParts, Facts, File, Language, Outline, Snapshot, outline};
use crate::parallel_map::in_parallel;
use crate::ports::{FileTree, History, WallClock};
use crate::{StopCause, StopCheck};

/// An update that ended less than this ago is not repeated.
const FRESH: Duration = Duration::from_secs(1);

/// The time for which a request waits for stored parts: about as long as it takes to find them again.
const PARTS_WAIT: Duration = Duration::from_millis(50);

/// The interval at which a caller that waits for the writer checks whether to stop.
const LOOK: Duration = Duration::from_millis(20);

/// The index of a project.
///
/// ```
/// use std::sync::Arc;
/// use context::StopCheck;
/// use context::index::{Index, IndexConfig};
/// use context::ports::SystemWallClock;
/// use sync::{CancellationToken, SystemClock};
/// # use context::ports::{FileStat, StopPoll, PortError, FileTree, WalkSummary};
/// # struct NoFiles;
/// # impl FileTree for NoFiles {
/// #     fn walk(&self, _: &StopPoll<'_>, _: &(dyn Fn(FileStat) + Sync)) -> Result<WalkSummary, PortError> {
/// #         Ok(WalkSummary::all())
/// #     }
/// #     fn size(&self, _: &domain::RelPath) -> std::io::Result<u64> {
/// #         Err(std::io::ErrorKind::NotFound.into())
/// #     }
/// #     fn read(&self, _: &domain::RelPath, _: usize) -> std::io::Result<Vec<u8>> {
/// #         Err(std::io::ErrorKind::NotFound.into())
/// #     }
/// # }
/// # let tree = NoFiles;
///
/// let clock = Arc::new(SystemClock::new());
/// let stop = StopCheck::new(CancellationToken::new().observe(), None, clock.clone());
/// let index = Index::in_memory(IndexConfig::default(), clock, Arc::new(SystemWallClock));
/// let updated = index.update(&tree, None, &stop)?;
/// assert_eq!(updated.snapshot.files().len(), 0);
/// # Ok::<(), context::StopCause>(())
/// ```
pub struct Index {
    config: IndexConfig,
    clock: Arc<dyn Clock>,
    wall: Arc<dyn WallClock>,
    current: Mutex<Arc<Snapshot>>,
    /// `None` while a caller has it.
    writer: Mutex<Option<IndexWriter>>,
    returned: Condvar,
    /// The views of the project that plans changed.
    changed: Mutex<ChangedViews>,
}

/// The result of an update.
#[derive(Clone, Debug)]
pub struct IndexUpdate {
    /// The newest there is.
    pub snapshot: Arc<Snapshot>,
    /// The number of files that are not as they were.
    pub changed: u32,
    /// There was no time for all files: the next update continues.
    pub is_unfinished: bool,
    /// Messages for the user: the files that were left out, and the place of the index.
    pub notes: Vec<String>,
}

/// The comparison of an index with one built from nothing.
#[derive(Clone, Debug)]
pub struct IndexComparison {
    /// The index as it is.
    pub updated: IndexUpdate,
    /// Files that the two do not know alike, by path. One that was written meanwhile may be among them.
    pub differing: Vec<RelPath>,
    /// True if they know the same commits.
    pub is_same_history: bool,
}

impl IndexComparison {
    /// Returns true if there is no difference.
    pub fn is_same(&self) -> bool {
        self.differing.is_empty() && self.is_same_history
    }
}

/// The paths of files that are not the same in both.
fn differing(one: &Snapshot, other: &Snapshot) -> Vec<RelPath> {
    let unlike = |file: &&File, there: &Snapshot| there.file(&file.path) != Some(*file);
    let from_one = one.files().iter().filter(|file| unlike(file, other));
    let from_other = other.files().iter().filter(|file| unlike(file, one));
    let mut paths: Vec<RelPath> = from_one.chain(from_other).map(|file| file.path.clone()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The size of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSize {
    /// The number of contents it knows.
    pub facts: u64,
    /// The number of bytes it has on disk.
    pub bytes: u64,
}

impl Index {
    /// Opens an index that is stored in a file; creates the file if there is none.
    pub fn in_file(
        path: PathBuf,
        config: IndexConfig,
        clock: Arc<dyn Clock>,
        wall: Arc<dyn WallClock>,
    ) -> Index {
        Index::new(IndexWriter::new(Some(path)), config, clock, wall)
    }

    /// An index that ends with the process.
    pub fn in_memory(config: IndexConfig, clock: Arc<dyn Clock>, wall: Arc<dyn WallClock>) -> Index {
        Index::new(IndexWriter::new(None), config, clock, wall)
    }

    fn new(
        writer: IndexWriter,
        config: IndexConfig,
        clock: Arc<dyn Clock>,
        wall: Arc<dyn WallClock>,
    ) -> Index {
        Index {
            config,
            clock,
            wall,
            current: Mutex::default(),
            writer: Mutex::new(Some(writer)),
            returned: Condvar::new(),
            changed: Mutex::default(),
        }
    }

    /// The bounds of the index.
    pub(super) fn config(&self) -> &IndexConfig {
        &self.config
    }

    /// Returns the last published snapshot; an empty one before the first update.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.current))
    }

    /// Brings the index up to date and publishes a snapshot, unless another caller just did.
    ///
    /// At `stop`'s deadline, or the index's own, the files read by then are published as partial, and the
    /// next call continues. Files and git that cannot be read, and an index that cannot be written, are
    /// notes.
    ///
    /// # Errors
    /// Only a cancel.
    pub fn update(
        &self,
        tree: &dyn FileTree,
        history: Option<&dyn History>,
        stop: &StopCheck,
    ) -> Result<IndexUpdate, StopCause> {
        self.update_within(self.config.update_deadline, tree, history, stop)
    }

    fn update_within(
        &self,
        time: Duration,
        tree: &dyn FileTree,
        history: Option<&dyn History>,
        stop: &StopCheck,
    ) -> Result<IndexUpdate, StopCause> {
        let Some(mut lent) = self.lock_writer(stop) else {
            cancelled(stop)?;
            let notes =
                vec!["another update is still running: the index may be older than the files".to_owned()];
            return Ok(IndexUpdate { snapshot: self.snapshot(), changed: 0, is_unfinished: true, notes });
        };
        let writer = &mut lent.writer;
        if writer.ended.is_some_and(|ended| self.clock.now().saturating_sub(ended) < FRESH) {
            let (snapshot, notes) = (self.snapshot(), Vec::new());
            return Ok(IndexUpdate { snapshot, changed: 0, is_unfinished: false, notes });
        }
        let now_ns = self.wall.now_ns();
        writer.open(&self.config, now_ns);
        let sooner = self.within(time, stop);
        let done =
            update(writer, &UpdateInputs { tree, history, config: &self.config, stop: &sooner, now_ns });
        cancelled(stop)?;
        writer.settle(&self.config, now_ns, done.changed > 0);
        if !done.is_unfinished && !stop.should_stop() {
            writer.draw_image(&self.config, now_ns);
        }
        writer.ended = (!done.is_unfinished).then(|| self.clock.now());
        let is_new = done.changed > 0 || done.has_new_history;
        let snapshot = self.publish(writer, done.is_partial, is_new);
        let mut notes = writer.notes();
        notes.extend(done.notes);
        Ok(IndexUpdate { snapshot, changed: done.changed, is_unfinished: done.is_unfinished, notes })
    }

    /// Brings the index up to date, builds another from nothing in memory, and compares. The caller waits for
    /// all of it: the index's own deadline does not apply, because two halves cannot be compared.
    ///
    /// # Errors
    /// Only a cancel.
    pub fn verify(
        &self,
        tree: &dyn FileTree,
        history: Option<&dyn History>,
        stop: &StopCheck,
    ) -> Result<IndexComparison, StopCause> {
        self.expect_changes(stop);
        let updated = self.update_within(Duration::MAX, tree, history, stop)?;
        let aside = Index::in_memory(self.config.clone(), Arc::clone(&self.clock), Arc::clone(&self.wall));
        let rebuilt = aside.update_within(Duration::MAX, tree, history, stop)?.snapshot;
        let differing = differing(&updated.snapshot, &rebuilt);
        let is_same_history = updated.snapshot.commits() == rebuilt.commits();
        Ok(IndexComparison { updated, differing, is_same_history })
    }

    /// The next update looks at everything, even if one just ended.
    pub fn expect_changes(&self, stop: &StopCheck) {
        if let Some(mut lent) = self.lock_writer(stop) {
            lent.writer.ended = None;
        }
    }

    /// Returns a snapshot with some files read again from another tree, such as a sandbox over the project.
    /// It is the same one as long as base and contents are the same. Nothing is published or written.
    pub fn with_changes(
        &self,
        base: &Arc<Snapshot>,
        tree: &dyn FileTree,
        changed: &[RelPath],
    ) -> Arc<Snapshot> {
        let scanned = lock(&self.changed).scanned();
        let changes = read_changes(base, tree, changed, self.config.file_bytes_max, &scanned);
        lock(&self.changed).take(base, changes)
    }

    /// Returns the outlines of texts that are about to be shown, each given with its hash and facts. Stored
    /// outlines come from the disk. Others are made on all cores and stored in one write, unless another
    /// caller has the writer.
    pub fn outlines(&self, texts: &[(Hash, &str, &Facts)], stop: &StopCheck) -> Vec<Arc<Outline>> {
        let lent = if stop.should_stop() { None } else { self.try_lock_writer() };
        let stored: Vec<Option<Arc<Outline>>> = match lent {
            Some(mut lent) => {
                let stored = texts.iter().map(|(hash, _, facts)| lent.writer.outline(hash, facts.language));
                stored.map(|outline| outline.map(Arc::new)).collect()
            }
            None => texts.iter().map(|_| None).collect(),
        };
        // The writer is free while texts are parsed.
        let outlines = in_parallel(texts.len(), 1, |at| {
            let (_, text, facts) = texts[at];
            stored[at].clone().unwrap_or_else(|| Arc::new(outline(text, facts)))
        });
        let made = texts.iter().zip(&outlines).zip(&stored).filter(|(_, stored)| stored.is_none());
        let made: Vec<_> = made
            .map(|(((hash, _, facts), outline), _)| (*hash, facts.language, Arc::clone(outline)))
            .collect();
        if !made.is_empty()
            && let Some(mut lent) = self.try_lock_writer()
        {
            lent.writer.put_outlines(&made);
        }
        outlines
    }

    /// Returns the stored parts of contents, unless another caller has the index for long.
    pub fn parts(&self, contents: &[(Hash, Language)], stop: &StopCheck) -> Vec<Option<ContentParts>> {
        match self.lock_writer(&self.within(PARTS_WAIT, stop)) {
            Some(lent) => {
                contents.iter().map(|(hash, language)| lent.writer.parts(hash, *language)).collect()
            }
            None => vec![None; contents.len()],
        }
    }

    /// Stores the parts of contents, unless another caller has the index.
    pub fn keep_parts(&self, parts: &[(Hash, Language, ContentParts)]) {
        if let Some(mut lent) = self.try_lock_writer() {
            lent.writer.put_parts(parts);
        }
    }

    /// Returns the stored value of this key that was derived from a snapshot; `None` if another caller has
    /// the index.
    pub fn load_derived(&self, key: &Hash) -> Option<Vec<u8>> {
        self.try_lock_writer().and_then(|lent| lent.writer.load_derived(key))
    }

    /// Stores a value derived from a snapshot, unless another caller has the index.
    pub fn store_derived(&self, key: &Hash, bytes: &[u8]) {
        if let Some(mut lent) = self.try_lock_writer() {
            lent.writer.store_derived(key, bytes);
        }
    }

    /// Returns the size of the index.
    pub fn size(&self, stop: &StopCheck) -> IndexSize {
        let size = self.lock_writer(stop).map(|lent| lent.writer.size());
        size.map(|(facts, bytes)| IndexSize { facts, bytes }).unwrap_or_default()
    }

    /// Returns the approximate memory of its snapshots, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.snapshot().memory_bytes() + lock(&self.changed).memory_bytes()
    }

    /// The same stop, or the end of `time` if that comes first.
    fn within(&self, time: Duration, stop: &StopCheck) -> StopCheck {
        let left = stop.remaining().map_or(time, |left| left.min(time));
        let due = self.clock.now().saturating_add(left);
        StopCheck::new(stop.observed().clone(), Some(due), Arc::clone(&self.clock))
    }

    /// Swaps the published snapshot, unless there is nothing new.
    fn publish(&self, writer: &IndexWriter, is_partial: bool, is_new: bool) -> Arc<Snapshot> {
        let before = self.snapshot();
        let is_first = !before.is_of(&writer.history.commits);
        if !is_new && !is_first && before.partial() == is_partial && before.files().len() == writer.rows.len()
        {
            return before;
        }
        let mut files: Vec<File> = writer.rows.values().map(|row| row.file.clone()).collect();
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let snapshot = Snapshot::of_sorted(files)
            .with_commits(Arc::clone(&writer.history.commits))
            .with_partial(is_partial);
        let snapshot = Arc::new(snapshot);
        *lock(&self.current) = Arc::clone(&snapshot);
        snapshot
    }

    /// Returns the writer; `None` if another caller has it.
    fn try_lock_writer(&self) -> Option<WriterGuard<'_>> {
        let writer = lock(&self.writer).take()?;
        Some(WriterGuard { index: self, writer })
    }

    /// Returns the writer once it is free; `None` if `stop` came first.
    fn lock_writer(&self, stop: &StopCheck) -> Option<WriterGuard<'_>> {
        let mut writer = lock(&self.writer);
        loop {
            if let Some(writer) = writer.take() {
                return Some(WriterGuard { index: self, writer });
            }
            if stop.should_stop() {
                return None;
            }
            writer = self.returned.wait_timeout(writer, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The writer, while one call has it. It goes back however the call ends.
struct WriterGuard<'i> {
    index: &'i Index,
    writer: IndexWriter,
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        let writer = std::mem::replace(&mut self.writer, IndexWriter::new(None));
        *lock(&self.index.writer) = Some(writer);
        self.index.returned.notify_one();
    }
}

fn cancelled(stop: &StopCheck) -> Result<(), StopCause> {
    stop.observed().reason().map_or(Ok(()), |reason| Err(StopCause::Cancelled(reason)))
}

/// Locks a mutex. A poisoned lock is taken over: a panic leaves a whole value behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("config", &self.config).finish_non_exhaustive()
    }
}
