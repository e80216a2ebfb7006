//! The index of a project in the memory of one process, and its way to the disk.
//!
//! # Invariants
//! 1. The rows in memory are right without the disk: whatever cannot be written is retained, reported, and
//!    tried again.
//! 2. Equal contents share their facts.
//!
//! # Not here
//! What is read and scanned: `update`.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::{Hash, RelPath};

use super::config::IndexConfig;
use super::disk::{self, DiskError, DiskIndex, IndexRow, RowContent};
use super::evict::{evict, remove, sweep};
use super::history::KnownHistory;
use super::image;
use super::{ContentParts, Facts, Language, Outline};

/// The length of a day.
const DAY_NS: i64 = 24 * 60 * 60 * 1_000_000_000;

/// For fewer files there is no image: the tables are read as fast.
const IMAGE_FILES_MIN: usize = 256;

/// An image is rewritten when more than one in so many files differs from it, and more than
/// [`IMAGE_FILES_MIN`].
const IMAGE_SHARE: usize = 16;

/// The contents that are known, with their facts.
pub(super) type KnownFacts = HashMap<(Hash, Language), Arc<Facts>>;

/// The files that are known.
pub(super) type Rows = HashMap<RelPath, IndexRow>;

/// The writable state of a project's index; one update at a time has it.
#[derive(Debug)]
pub(super) struct IndexWriter {
    place: IndexLocation,
    pub(super) rows: Rows,
    pub(super) facts: KnownFacts,
    pub(super) history: KnownHistory,
    /// Rows that could not be written, and whether their facts could not either.
    unsaved: BTreeSet<RelPath>,
    is_history_unsaved: bool,
    /// The time when the last update ended that looked at everything, by the process's clock.
    pub(super) ended: Option<Duration>,
    evicted_day: Option<i64>,
    /// The number of files that changed since the image was written; none: there is none.
    since_image: Option<usize>,
    notes: Vec<String>,
}

/// The location of the index.
#[derive(Debug)]
enum IndexLocation {
    /// Not opened yet.
    Unopened(PathBuf),
    Open(Box<DiskIndex>, PathBuf),
    /// In memory, since there is no file, or it cannot be used.
    Nowhere,
}

impl IndexWriter {
    pub(super) fn new(path: Option<PathBuf>) -> IndexWriter {
        IndexWriter {
            place: path.map_or(IndexLocation::Nowhere, IndexLocation::Unopened),
            rows: HashMap::new(),
            facts: HashMap::new(),
            history: KnownHistory::default(),
            unsaved: BTreeSet::new(),
            is_history_unsaved: false,
            ended: None,
            evicted_day: None,
            since_image: None,
            notes: Vec::new(),
        }
    }

    /// Opens the file and takes over what it knows, the first time.
    pub(super) fn open(&mut self, config: &IndexConfig, now_ns: i64) {
        let path = match &self.place {
            IndexLocation::Unopened(path) => path.clone(),
            IndexLocation::Open(..) | IndexLocation::Nowhere => return,
        };
        match disk::open(&path, config.file_bytes_max, now_ns) {
            Ok(opened) => {
                self.notes.extend(opened.note);
                // If rows are known already, they are written there, and none is taken over.
                if self.rows.is_empty() {
                    // A history that cannot be read is read from git again.
                    self.history = opened.disk.history().unwrap_or_default();
                    self.take_over(opened.rows);
                    self.since_image = opened.beside_image;
                }
                self.place = IndexLocation::Open(Box::new(opened.disk), path);
            }
            Err(DiskError::Full) => {
                // The index itself may fill the disk.
                remove(&path);
                self.give_up(&DiskError::Full);
            }
            Err(why) => self.give_up(&why),
        }
    }

    fn take_over(&mut self, rows: Vec<IndexRow>) {
        self.rows.reserve(rows.len());
        self.facts.reserve(rows.len());
        for mut row in rows {
            if let Some(hash) = row.file.hash {
                let key = (hash, row.file.facts.language);
                row.file.facts = Arc::clone(self.facts.entry(key).or_insert(row.file.facts));
            }
            self.rows.insert(row.file.path.clone(), row);
        }
    }

    /// Continues in memory.
    fn give_up(&mut self, why: &DiskError) {
        self.notes.push(format!("the index is only in memory: {why}"));
        self.place = IndexLocation::Nowhere;
    }

    /// Takes over what was read, and writes it.
    pub(super) fn put(&mut self, fresh: Vec<(IndexRow, RowContent)>, now_ns: i64) {
        for (row, new) in &fresh {
            if let (RowContent::Facts(_), Some(hash)) = (new, row.file.hash) {
                self.facts.insert((hash, row.file.facts.language), Arc::clone(&row.file.facts));
            }
        }
        self.changed_since_image(fresh.len());
        let saved =
            self.on_disk(|disk| disk.save(fresh.iter().map(|(row, new)| (row, new)), now_ns / DAY_NS));
        for (row, _) in fresh {
            if saved {
                self.unsaved.remove(&row.file.path);
            } else {
                self.unsaved.insert(row.file.path.clone());
            }
            self.rows.insert(row.file.path.clone(), row);
        }
    }

    /// Forgets files that are gone.
    pub(super) fn remove(&mut self, gone: &[RelPath], before_ns: i64) {
        for path in gone {
            self.rows.remove(path);
            self.unsaved.remove(path);
        }
        if !gone.is_empty() {
            self.changed_since_image(gone.len());
            self.on_disk(|disk| disk.remove(gone.iter(), before_ns));
        }
    }

    /// Takes over a newer history.
    pub(super) fn put_history(&mut self, known: KnownHistory) {
        self.is_history_unsaved = !self.on_disk(|disk| disk.save_history(&known));
        self.history = known;
    }

    /// Writes rows that could not be written before, and removes data that is no longer needed.
    pub(super) fn settle(&mut self, config: &IndexConfig, now_ns: i64, has_changed: bool) {
        self.facts.retain(|_, facts| Arc::strong_count(facts) > 1);
        let today = now_ns / DAY_NS;
        self.save_again(today);
        if has_changed || self.evicted_day != Some(today) {
            self.evicted_day = Some(today);
            self.on_disk(|disk| evict(disk, today, config.keep_days, config.disk_bytes_max));
            if let IndexLocation::Open(_, path) = &self.place {
                sweep(path, now_ns, config.keep_days, config.disk_bytes_max);
            }
        }
    }

    fn changed_since_image(&mut self, files: usize) {
        self.since_image = self.since_image.map(|since| since + files);
    }

    /// Writes an image of what is known, if there are enough files and too many have changed since the last.
    /// It can be done without: where it cannot be written, the next process reads the tables.
    pub(super) fn draw_image(&mut self, config: &IndexConfig, now_ns: i64) {
        let most = (self.rows.len() / IMAGE_SHARE).max(IMAGE_FILES_MIN);
        let is_wanted =
            self.rows.len() >= IMAGE_FILES_MIN && self.since_image.is_none_or(|since| since > most);
        let is_future = |row: &IndexRow| row.seen_ns > now_ns;
        // It is about half as large as the tables.
        let may_be = || self.size().1 < config.disk_bytes_max / 2 && !self.rows.values().any(is_future);
        // Now the tables are as large as they get: if that is too much for the disk, they go.
        if !is_wanted || !self.unsaved.is_empty() || !may_be() || !self.on_disk(DiskIndex::take_log_in) {
            return;
        }
        if let IndexLocation::Open(_, path) = &self.place {
            let _ = image::write(path, self.rows.values());
            self.since_image = Some(0);
        }
    }

    fn save_again(&mut self, today: i64) {
        if !self.unsaved.is_empty() {
            let unsaved = std::mem::take(&mut self.unsaved);
            let rows: Vec<IndexRow> =
                unsaved.iter().filter_map(|path| self.rows.get(path).cloned()).collect();
            // Their parts are found again at the next request.
            let facts = RowContent::Facts(None);
            if !self.on_disk(|disk| disk.save(rows.iter().map(|row| (row, &facts)), today)) {
                self.unsaved = unsaved;
            }
        }
        if self.is_history_unsaved {
            let known = self.history.clone();
            self.is_history_unsaved = !self.on_disk(|disk| disk.save_history(&known));
        }
    }

    /// The stored outline of a content.
    pub(super) fn outline(&mut self, hash: &Hash, language: Language) -> Option<Outline> {
        match &self.place {
            IndexLocation::Open(disk, _) => disk.outline(hash, language).ok().flatten(),
            IndexLocation::Unopened(_) | IndexLocation::Nowhere => None,
        }
    }

    /// Stores outlines.
    pub(super) fn put_outlines(&mut self, outlines: &[(Hash, Language, Arc<Outline>)]) {
        if !outlines.is_empty() {
            let each = outlines.iter().map(|(hash, language, outline)| (hash, *language, outline.as_ref()));
            self.on_disk(|disk| disk.save_outlines(each));
        }
    }

    /// The stored parts of a content.
    pub(super) fn parts(&self, hash: &Hash, language: Language) -> Option<ContentParts> {
        match &self.place {
            IndexLocation::Open(disk, _) => disk.parts(hash, language).ok().flatten(),
            IndexLocation::Unopened(_) | IndexLocation::Nowhere => None,
        }
    }

    /// Stores parts.
    pub(super) fn put_parts(&mut self, parts: &[(Hash, Language, ContentParts)]) {
        self.on_disk(|disk| disk.save_parts(parts));
    }

    /// Returns the value derived from a snapshot that is stored under this key.
    pub(super) fn load_derived(&self, key: &Hash) -> Option<Vec<u8>> {
        match &self.place {
            IndexLocation::Open(disk, _) => disk.load_derived(key).ok().flatten(),
            IndexLocation::Unopened(_) | IndexLocation::Nowhere => None,
        }
    }

    /// Stores the data derived from a snapshot, if there is a place for it.
    pub(super) fn store_derived(&mut self, key: &Hash, bytes: &[u8]) {
        self.on_disk(|disk| disk.store_derived(key, bytes));
    }

    /// Returns the number of known contents and the bytes on disk.
    pub(super) fn size(&self) -> (u64, u64) {
        match &self.place {
            IndexLocation::Open(disk, path) => {
                let (facts, bytes) = disk.size().unwrap_or_default();
                (facts, bytes + image::bytes(path))
            }
            IndexLocation::Unopened(_) | IndexLocation::Nowhere => (self.facts.len() as u64, 0),
        }
    }

    /// Takes the notes since the last call.
    pub(super) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Does something on disk; whether there is nothing left to do there.
    fn on_disk(&mut self, act: impl FnOnce(&mut DiskIndex) -> Result<(), DiskError>) -> bool {
        let disk = match &mut self.place {
            IndexLocation::Open(disk, _) => disk,
            IndexLocation::Unopened(_) => return false,
            IndexLocation::Nowhere => return true,
        };
        match act(disk) {
            Ok(()) => true,
            Err(DiskError::Busy) => {
                let note = "part of the index is only in memory: another process is using the file";
                if !self.notes.iter().any(|known| known == note) {
                    self.notes.push(note.to_owned());
                }
                false
            }
            Err(DiskError::Unusable) => {
                self.begin_anew();
                false
            }
            Err(DiskError::Full) => {
                self.make_room();
                true
            }
            Err(why @ (DiskError::Io(_) | DiskError::Sqlite(_))) => {
                self.give_up(&why);
                true
            }
        }
    }

    /// Continues in memory, and removes the file that filled the disk, unless other processes use it.
    fn make_room(&mut self) {
        if let IndexLocation::Open(disk, path) = std::mem::replace(&mut self.place, IndexLocation::Nowhere) {
            drop(disk);
            remove(&path);
        }
        self.give_up(&DiskError::Full);
    }

    /// Removes a file whose damage showed only now; the next update makes another and writes all of it.
    fn begin_anew(&mut self) {
        let IndexLocation::Open(disk, path) = std::mem::replace(&mut self.place, IndexLocation::Nowhere)
        else {
            return;
        };
        // Its lock goes with it: it is removed by who has it alone.
        drop(disk);
        if !remove(&path) {
            return self.give_up(&DiskError::Unusable);
        }
        self.notes.push("the index was damaged: it is rebuilt the next time".to_owned());
        self.unsaved = self.rows.keys().cloned().collect();
        self.is_history_unsaved = true;
        self.since_image = None;
        self.place = IndexLocation::Unopened(path);
    }
}

#[cfg(test)]
mod tests {
    use super::super::File;
    use super::super::PathOnly;
    use super::*;

    #[test]
    fn where_the_disk_is_full_the_index_goes_on_in_memory_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("i.sqlite");
        let mut writer = IndexWriter::new(Some(path.clone()));
        writer.open(&IndexConfig::default(), 1);
        let IndexLocation::Open(disk, _) = &writer.place else { panic!("it is open") };
        // No page more than there are, as if the disk had none.
        disk.connection.execute_batch("PRAGMA max_page_count = 1").unwrap();
        let row = |number: u32| {
            let name = RelPath::new(format!("{number}{}", "long".repeat(50))).unwrap();
            let file = File::unread(name, 1, PathOnly::Unreadable);
            (IndexRow { size: 1, mtime_ns: 0, ctime_ns: 0, inode: 1, seen_ns: 1, file }, RowContent::Nothing)
        };
        writer.put((0..2000).map(row).collect(), 1);
        assert_eq!(writer.rows.len(), 2000);
        assert_eq!(writer.notes(), ["the index is only in memory: the disk is full"]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing of it stays");
    }
}
