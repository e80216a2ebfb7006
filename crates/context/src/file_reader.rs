//! Files that were read for one assembly, each once.
//!
//! # Invariants
//! 1. A file is read at most once, so what is ranked, shown and hashed is the same bytes.
//! 2. A file that changed since the snapshot is scanned again; its facts are those of the bytes that were
//!    read.
//! 3. No lock is held while a file is read: two callers at once may both read, and the first answer is
//!    retained.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, OnceLock};

use domain::Hash;
use domain::context::ExclusionReason;
use sync::primitives::{Mutex, lock};

use crate::IndexedRoot;
use crate::index::{Facts, File, LineIndex, PathOnly, scan};
use crate::part_scorer::{PartScorer, TermHits, WordTerms};

/// The result of reading a file.
pub(crate) type FileReadResult = Result<Arc<LoadedFile>, ExclusionReason>;

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct LoadedFile {
    /// Of the bytes.
    pub(crate) hash: Hash,
    /// The lines of the text; bytes that are no UTF-8 are replaced.
    pub(crate) lines: Arc<LineIndex>,
    /// The bytes themselves, where they are not those of the text.
    other_bytes: Option<Vec<u8>>,
    pub(crate) facts: Arc<Facts>,
    met: OnceLock<TermHits>,
}

impl LoadedFile {
    /// The bytes as they were read.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.other_bytes.as_deref().unwrap_or(self.lines.text().as_bytes())
    }

    /// Returns the places of the query's words in the text. All callers of one assembly pass the same words.
    pub(crate) fn find_terms(&self, weigher: &PartScorer<'_>, words: &mut WordTerms) -> &TermHits {
        self.met.get_or_init(|| weigher.find_terms(self.lines.text(), words))
    }
}

/// The files of one assembly that were read.
#[derive(Default)]
pub(crate) struct FileReader {
    read: Mutex<HashMap<u32, FileReadResult>>,
}

impl FileReader {
    /// The file with this number, read now if it was not before.
    pub(crate) fn get(
        &self,
        number: u32,
        project: &IndexedRoot,
        file: &File,
        max_bytes: usize,
        is_named: bool,
    ) -> FileReadResult {
        if let Some(reading) = lock(&self.read).get(&number) {
            return reading.clone();
        }
        let reading = read(project, file, max_bytes, is_named);
        lock(&self.read).entry(number).or_insert(reading).clone()
    }
}

fn read(project: &IndexedRoot, file: &File, max_bytes: usize, is_named: bool) -> FileReadResult {
    if let Some(why) = file.path_only.filter(|why| is_withheld(*why, is_named)) {
        return Err(left_out(why));
    }
    let bytes = project.source.read(&file.path, max_bytes).map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            ExclusionReason::Changed
        } else {
            ExclusionReason::Unreadable
        }
    })?;
    if bytes.len() > max_bytes {
        return Err(ExclusionReason::TooLarge);
    }
    let hash = Hash::from_content(&bytes);
    let is_known = Some(hash) == file.hash && !file.facts.is_lost();
    let facts = if is_known { Arc::clone(&file.facts) } else { Arc::new(scan(&file.path, &bytes)) };
    if let Some(why) = facts.path_only.filter(|why| is_withheld(*why, is_named)) {
        return Err(left_out(why));
    }
    let (text, other_bytes) = match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(no_text) => {
            let bytes = no_text.into_bytes();
            (String::from_utf8_lossy(&bytes).into_owned(), Some(bytes))
        }
    };
    let lines = Arc::new(LineIndex::new(text));
    Ok(Arc::new(LoadedFile { hash, lines, other_bytes, facts, met: OnceLock::new() }))
}

/// Returns true if such a file is not looked into. A file that no person wrote is shown only if it is named
/// for sure.
pub(crate) fn is_withheld(why: PathOnly, is_named: bool) -> bool {
    match why {
        PathOnly::Generated | PathOnly::LockFile => !is_named,
        PathOnly::Secret
        | PathOnly::TooLarge
        | PathOnly::Binary
        | PathOnly::LongLines
        | PathOnly::Unreadable => true,
    }
}

/// Returns the reason that a receipt gives for a file that is not opened.
pub fn left_out(why: PathOnly) -> ExclusionReason {
    match why {
        PathOnly::Secret => ExclusionReason::Secret,
        PathOnly::TooLarge => ExclusionReason::TooLarge,
        PathOnly::Binary => ExclusionReason::Binary,
        PathOnly::LongLines => ExclusionReason::LongLines,
        PathOnly::Generated | PathOnly::LockFile => ExclusionReason::Generated,
        PathOnly::Unreadable => ExclusionReason::Unreadable,
    }
}
