//! Bringing an index up to date: walk, compare, read what may have changed, publish.
//!
//! # When a row is valid
//! Size, both times and inode are what they were, and both times are at least [`YOUNG_NS`] before the look: a
//! write in the same tick as a look leaves no trace but the content. Everything else is read and hashed; a
//! known content is not scanned again.
//!
//! # Invariants
//! 1. The index after any number of updates equals the one that an update from nothing would make.
//! 2. A row carries the time at which the look began, so a write after it makes the next look notice.
//! 3. At the deadline finished work stays done: files not reached retain their old facts, and the next update
//!    continues. A walk that met something to read has half of the time, so that however many files there
//!    are, some are read. One that met nothing to read continues: it passes by files that an earlier update
//!    read.
//! 4. Only a walk that came to its end removes anything, and nothing below a directory that it could not
//!    read.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Hash, RelPath};
use sync::contained;

use super::config::IndexConfig;
use super::disk::{IndexRow, RowContent};
use super::history::{KnownHistory, refresh};
use super::path_only_files::{PathOnly, before_reading};
use super::writer::{IndexWriter, KnownFacts, Rows};
use super::{File, Language, Scanner};
use crate::StopCheck;
use crate::ports::{FileStat, FileTree, History, PortError, WalkSummary};

/// The least age of a file's times for its row to be believed.
const YOUNG_NS: i64 = 2_000_000_000;

/// The number of files that are written at once.
const BATCH_FILES: usize = 256;

/// The number of files a thread takes at once.
const CLAIM_FILES: usize = 8;

/// Below this many files no threads are started.
const THREADS_FROM_FILES: usize = 16;

/// The number of results that may wait for the disk.
const WAITING_MAX: usize = 64;

/// The inputs of an update, and its deadline.
pub(super) struct UpdateInputs<'a> {
    pub(super) tree: &'a dyn FileTree,
    pub(super) history: Option<&'a dyn History>,
    pub(super) config: &'a IndexConfig,
    /// The caller's, or the index's own if that comes first.
    pub(super) stop: &'a StopCheck,
    /// The wall's time as the update begins.
    pub(super) now_ns: i64,
}

/// The summary of an update.
#[derive(Debug, Default)]
pub(super) struct UpdateSummary {
    /// The number of files that are not as they were.
    pub(super) changed: u32,
    pub(super) has_new_history: bool,
    /// Files may be missing.
    pub(super) is_partial: bool,
    /// There was no time for all files: the next update continues.
    pub(super) is_unfinished: bool,
    pub(super) notes: Vec<String>,
}

impl UpdateInputs<'_> {
    fn is_over(&self) -> bool {
        self.stop.should_stop()
    }
}

/// Brings a writer up to date.
pub(super) fn update(writer: &mut IndexWriter, work: &UpdateInputs<'_>) -> UpdateSummary {
    let mut done = UpdateSummary::default();
    let known = writer.history.clone();
    let history = std::thread::scope(|scope| {
        let told = work.history.map(|history| {
            let newer = || newer_history(history, &known, work);
            (std::thread::Builder::new().spawn_scoped(scope, newer).ok(), newer)
        });
        files(writer, work, &mut done);
        // If there are too many threads, this one asks.
        told.and_then(|(thread, newer)| thread.map_or_else(|| Some(newer()), |thread| thread.join().ok()))
    });
    match history {
        Some(Ok(Some(newer))) => {
            writer.put_history(newer);
            done.has_new_history = true;
        }
        // There is none, or it is not to be looked at.
        None if writer.history != KnownHistory::default() => {
            writer.put_history(KnownHistory::default());
            done.has_new_history = true;
        }
        Some(Ok(None)) | None => {}
        Some(Err(why)) if writer.history.commits.is_empty() => {
            done.notes.push(format!("the history is left out: {why}"));
        }
        Some(Err(why)) => done.notes.push(format!("the history is not up to date: {why}")),
    }
    done
}

fn newer_history(
    history: &dyn History,
    known: &KnownHistory,
    work: &UpdateInputs<'_>,
) -> Result<Option<KnownHistory>, PortError> {
    contained(|| refresh(history, known, work.config.history_commits, work.stop)).unwrap_or_else(|panicked| {
        Err(PortError {
            message: format!("git's answer cannot be parsed: {}", panicked.message),
            source: None,
        })
    })
}

fn files(writer: &mut IndexWriter, work: &UpdateInputs<'_>, done: &mut UpdateSummary) {
    let (met, walked) = walk(&writer.rows, work, done);
    let to_read = compare(writer, work, &met, done);
    let reached = read(writer, work, &to_read, done);
    if reached < to_read.len() {
        (done.is_partial, done.is_unfinished) = (true, true);
    }
    if walked.complete && !done.is_unfinished {
        let there: HashSet<&RelPath> = met.iter().map(|stat| &stat.path).collect();
        let is_gone = |path: &&RelPath| !there.contains(path) && !is_below_any(path, &walked.unread);
        let gone: Vec<RelPath> = writer.rows.keys().filter(is_gone).cloned().collect();
        done.changed += u32::try_from(gone.len()).unwrap_or(u32::MAX);
        writer.remove(&gone, work.now_ns);
    }
}

fn is_below_any(path: &RelPath, dirs: &[RelPath]) -> bool {
    let is_below = |dir: &RelPath| {
        path.as_bytes().strip_prefix(dir.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'/'))
    };
    dirs.iter().any(is_below)
}

/// Every file that is there, by path, as many as are allowed, and how the walk ended.
fn walk(rows: &Rows, work: &UpdateInputs<'_>, done: &mut UpdateSummary) -> (Vec<FileStat>, WalkSummary) {
    let met: Mutex<Vec<FileStat>> = Mutex::new(Vec::new());
    let files_max = work.config.files_max;
    let is_over_many = AtomicBool::new(false);
    let sink = |stat| {
        let mut met = lock(&met);
        met.push(stat);
        // Files beyond the bound are dropped early, so that a million files do not take a million records.
        if met.len() >= files_max.saturating_mul(2).max(1024) {
            is_over_many.store(true, Ordering::Relaxed);
            first_by_path(&mut met, files_max);
        }
    };
    // None: it is over.
    let until = Mutex::new(Some(work.stop.halfway()));
    let is_over = || {
        let mut until = lock(&until);
        if until.as_ref().is_some_and(|until| !until.should_stop()) {
            return false;
        }
        // The rest of the time is for what is to be read, if there is something.
        let is_over =
            until.is_none() || work.is_over() || lock(&met).iter().any(|stat| is_to_read(rows, work, stat));
        *until = (!is_over).then(|| work.stop.halfway());
        is_over
    };
    let walked = contained(|| work.tree.walk(&is_over, &sink));
    let mut met = met.into_inner().unwrap_or_else(PoisonError::into_inner);
    let is_over_many = is_over_many.into_inner() || met.len() > files_max;
    first_by_path(&mut met, files_max);
    met.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    met.dedup_by(|a, b| a.path == b.path);
    let walked = match walked {
        Ok(Ok(walked)) => walked,
        Ok(Err(why)) => note_failed_walk(done, &why.to_string()),
        Err(panicked) => note_failed_walk(done, &panicked.message),
    };
    if is_over_many {
        done.is_partial = true;
        done.notes.push(format!("there are more than {files_max} files: only the first by path are indexed"));
    }
    if !walked.complete {
        (done.is_partial, done.is_unfinished) = (true, true);
        done.notes.push("there was no time to list all files: only those found so far are known".to_owned());
    }
    if let Some(first) = walked.unread.first() {
        done.is_partial = true;
        let others = match walked.unread.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        done.notes.push(format!("the folder `{first}`{others} cannot be read: its files are not known"));
    }
    (met, walked)
}

/// Notes a walk that failed; it says nothing about removed files.
fn note_failed_walk(done: &mut UpdateSummary, why: &str) -> WalkSummary {
    done.notes.push(format!("the files could not be listed: {why}"));
    WalkSummary::stopped()
}

fn first_by_path(met: &mut Vec<FileStat>, files_max: usize) {
    if met.len() > files_max {
        met.select_nth_unstable_by(files_max, |a, b| a.path.cmp(&b.path));
        met.truncate(files_max);
    }
}

/// Locks a mutex. A poisoned lock is taken over: a panic leaves a whole value behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_to_read(rows: &Rows, work: &UpdateInputs<'_>, stat: &FileStat) -> bool {
    before_reading(&stat.path, stat.size, work.config.file_bytes_max).is_none()
        && !rows.get(&stat.path).is_some_and(|row| is_unchanged(row, stat))
}

/// Returns the files that must be read; the others are taken over at once.
fn compare<'m>(
    writer: &mut IndexWriter,
    work: &UpdateInputs<'_>,
    met: &'m [FileStat],
    done: &mut UpdateSummary,
) -> Vec<&'m FileStat> {
    let mut to_read = Vec::new();
    let mut unread = Vec::new();
    for stat in met {
        let row = writer.rows.get(&stat.path);
        match before_reading(&stat.path, stat.size, work.config.file_bytes_max) {
            Some(reason) => {
                if !row.is_some_and(|row| row.file.path_only == Some(reason) && row.size == stat.size) {
                    unread.push((row_of(stat, unread_file(stat, reason), work.now_ns), RowContent::Nothing));
                }
            }
            None if row.is_some_and(|row| is_unchanged(row, stat)) => {}
            None => to_read.push(stat),
        }
    }
    done.changed += u32::try_from(unread.len()).unwrap_or(u32::MAX);
    if !unread.is_empty() {
        writer.put(unread, work.now_ns);
    }
    to_read
}

fn is_unchanged(row: &IndexRow, stat: &FileStat) -> bool {
    let is_same = row.file.hash.is_some()
        && !row.file.facts.was_lost()
        && (row.size, row.mtime_ns, row.ctime_ns, row.inode)
            == (stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode);
    is_same && stat.mtime_ns.max(stat.ctime_ns) < row.seen_ns.saturating_sub(YOUNG_NS)
}

fn unread_file(stat: &FileStat, reason: PathOnly) -> File {
    File::unread(stat.path.clone(), stat.size, reason)
}

fn row_of(stat: &FileStat, file: File, seen_ns: i64) -> IndexRow {
    IndexRow {
        size: stat.size,
        mtime_ns: stat.mtime_ns,
        ctime_ns: stat.ctime_ns,
        inode: stat.inode,
        seen_ns,
        file,
    }
}

/// The result for a file that was to be read.
enum FileLookup {
    At(IndexRow, RowContent),
    Gone(RelPath),
}

/// Reads files in parallel and takes them over in batches; how many were reached before the deadline.
fn read(
    writer: &mut IndexWriter,
    work: &UpdateInputs<'_>,
    to_read: &[&FileStat],
    done: &mut UpdateSummary,
) -> usize {
    let known = std::mem::take(&mut writer.facts);
    let next = AtomicUsize::new(0);
    let threads = if to_read.len() < THREADS_FROM_FILES { 1 } else { work.config.threads.max(1) };
    let mut reached = 0;
    let mut taken = PendingRows { fresh: Vec::new(), gone: Vec::new(), changed: 0 };
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        for _ in 0..threads {
            let sender = sender.clone();
            let (known, next) = (&known, &next);
            let look = move || look_at_each(work, to_read, known, next, &sender);
            // If there are too many threads, others read, or the next update does.
            if std::thread::Builder::new().spawn_scoped(scope, look).is_err() {
                break;
            }
        }
        drop(sender);
        for looked in receiver {
            reached += looked.len();
            taken.take(writer, work, looked);
        }
    });
    writer.facts.extend(known);
    taken.hand_over(writer, work);
    taken.gone.retain(|path| writer.rows.contains_key(path));
    writer.remove(&taken.gone, work.now_ns);
    done.changed += taken.changed + u32::try_from(taken.gone.len()).unwrap_or(u32::MAX);
    reached
}

/// The rows that were read and are not yet written.
struct PendingRows {
    fresh: Vec<(IndexRow, RowContent)>,
    gone: Vec<RelPath>,
    changed: u32,
}

impl PendingRows {
    fn take(&mut self, writer: &mut IndexWriter, work: &UpdateInputs<'_>, looked: Vec<FileLookup>) {
        for one in looked {
            match one {
                FileLookup::At(row, new) => {
                    let before = writer.rows.get(&row.file.path);
                    if before.is_none_or(|before| before.file != row.file) {
                        self.changed += 1;
                    }
                    self.fresh.push((row, new));
                }
                FileLookup::Gone(path) => self.gone.push(path),
            }
        }
        if self.fresh.len() >= BATCH_FILES {
            self.hand_over(writer, work);
        }
    }

    fn hand_over(&mut self, writer: &mut IndexWriter, work: &UpdateInputs<'_>) {
        if !self.fresh.is_empty() {
            writer.put(std::mem::take(&mut self.fresh), work.now_ns);
        }
    }
}

/// The work of one thread: claims a few files, looks at them, reports them.
fn look_at_each(
    work: &UpdateInputs<'_>,
    to_read: &[&FileStat],
    known: &KnownFacts,
    next: &AtomicUsize,
    sender: &SyncSender<Vec<FileLookup>>,
) {
    let mut scanner = Scanner::default();
    while !work.is_over() {
        let from = next.fetch_add(CLAIM_FILES, Ordering::Relaxed);
        let Some(claimed) = to_read.get(from..(from + CLAIM_FILES).min(to_read.len())) else { return };
        if claimed.is_empty() {
            return;
        }
        let mut looked = Vec::with_capacity(claimed.len());
        for stat in claimed {
            if work.is_over() {
                break;
            }
            let one = contained(|| look_at(work, stat, known, &mut scanner)).unwrap_or_else(|_| {
                scanner = Scanner::default();
                FileLookup::At(
                    row_of(stat, unread_file(stat, PathOnly::Unreadable), work.now_ns),
                    RowContent::Nothing,
                )
            });
            looked.push(one);
        }
        if sender.send(looked).is_err() {
            return;
        }
    }
}

fn look_at(
    work: &UpdateInputs<'_>,
    stat: &FileStat,
    known: &KnownFacts,
    scanner: &mut Scanner,
) -> FileLookup {
    let bytes_max = usize::try_from(work.config.file_bytes_max).unwrap_or(usize::MAX);
    let row = |file: File| row_of(stat, file, work.now_ns);
    let bytes = match work.tree.read(&stat.path, bytes_max.saturating_add(1)) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return FileLookup::Gone(stat.path.clone()),
        Err(_) => return FileLookup::At(row(unread_file(stat, PathOnly::Unreadable)), RowContent::Nothing),
    };
    if bytes.len() > bytes_max {
        // It grew since it was met; the next walk meets it as it is.
        return FileLookup::At(row(unread_file(stat, PathOnly::TooLarge)), RowContent::Nothing);
    }
    let language = Language::detect(&stat.path, &bytes);
    let hash = Hash::from_content(&bytes);
    if let Some(facts) = known.get(&(hash, language)).filter(|facts| !facts.was_lost()) {
        let file = File::scanned(stat.path.clone(), hash, Arc::clone(facts));
        return FileLookup::At(row(file), RowContent::Nothing);
    }
    let (facts, parts) = scanner.scan_parts(language, &bytes);
    let file = File::scanned(stat.path.clone(), hash, Arc::new(facts));
    FileLookup::At(row(file), RowContent::Facts(Some(parts)))
}
