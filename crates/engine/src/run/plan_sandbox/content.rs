//! Moves contents between sandbox and store: capture stores them, restore and the journal read them.
//!
//! # Invariants
//! 1. Small contents wait here until the call that names them is stored: call, entries and contents are one
//!    step.
//! 2. Large ones are files of the store already when `store` returns.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::Hash;
use sandbox::content::{ContentFile, ContentSink, ContentSource, StoredContent};
use store::{StagedContent, Store, StoredFile};
use sync::primitives::{Mutex, lock};

/// Stages the contents of one call, until the call is stored.
pub(crate) struct Staging {
    store: Arc<dyn Store>,
    staged: Mutex<BTreeMap<Hash, StagedContent>>,
    /// True if no task waits for more.
    is_over: AtomicBool,
}

/// A reader that fails as soon as no task waits for it any more.
struct UntilCancelled<'a> {
    bytes: &'a mut dyn Read,
    is_over: &'a AtomicBool,
}

impl Read for UntilCancelled<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(io::Error::other("its caller no longer waits for it"));
        }
        self.bytes.read(into)
    }
}

impl Staging {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, staged: Mutex::default(), is_over: AtomicBool::new(false) }
    }

    /// Returns the contents that are to be stored with the call.
    pub(crate) fn contents(&self) -> Vec<StagedContent> {
        lock(&self.staged).values().cloned().collect()
    }

    /// The call is stored: nothing waits any more.
    pub(crate) fn clear(&self) {
        lock(&self.staged).clear();
    }

    /// Cancels what is still being stored: from now on that fails.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Stages bytes that are in memory already.
    pub(crate) fn keep_bytes(&self, mut bytes: &[u8]) -> io::Result<StoredContent> {
        self.store(&mut bytes)
    }
}

impl ContentSink for Staging {
    fn store(&self, bytes: &mut dyn Read) -> io::Result<StoredContent> {
        let staged = self.store.stage(&mut UntilCancelled { bytes, is_over: &self.is_over })?;
        let kept = StoredContent { hash: staged.hash, size: staged.size, text: staged.text };
        lock(&self.staged).insert(staged.hash, staged);
        Ok(kept)
    }
}

impl ContentSource for Staging {
    fn open(&self, hash: &Hash) -> io::Result<Box<dyn Read + '_>> {
        let waiting = lock(&self.staged).get(hash).and_then(|staged| staged.bytes.clone());
        match waiting {
            Some(bytes) => Ok(Box::new(io::Cursor::new(bytes))),
            None => Ok(self.store.open_content(hash)?),
        }
    }
}

/// Reads contents of the store.
pub(crate) struct StoreContents<'a>(pub(crate) &'a dyn Store);

impl ContentSource for StoreContents<'_> {
    fn open(&self, hash: &Hash) -> io::Result<Box<dyn Read + '_>> {
        Ok(self.0.open_content(hash)?)
    }

    fn linkable_file(&self, hash: &Hash) -> Option<ContentFile> {
        let StoredFile { path, is_synced } = self.0.content_file(hash).ok()??;
        Some(ContentFile { path, is_synced })
    }
}

impl StoreContents<'_> {
    /// Returns whether a content is stored.
    pub(crate) fn has(&self, hash: &Hash) -> bool {
        self.0.open_content(hash).is_ok()
    }

    /// All bytes of a content.
    ///
    /// # Errors
    /// It is not there, or damaged.
    pub(crate) fn read(&self, hash: &Hash) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.open_content(hash)?.read_to_end(&mut bytes)?;
        if Hash::from_content(&bytes) != *hash {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its bytes do not match its hash"));
        }
        Ok(bytes)
    }
}
