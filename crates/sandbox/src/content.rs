//! The two ports for contents: the sink that capture writes to, and the source that restore and apply read
//! from.
//!
//! They are here because capture and restore use them; the engine connects them to the store.

use std::io::{self, Read};
use std::path::PathBuf;

use domain::Hash;

/// A content that a sink stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredContent {
    /// The hash of all the bytes.
    pub hash: Hash,
    /// The number of bytes.
    pub size: u64,
    /// True if they are text, as [`domain::is_text`] decides from the beginning and the size.
    pub text: bool,
}

/// Stores contents by their hash.
pub trait ContentSink: Sync {
    /// Reads to the end and stores the bytes. The same bytes are stored once.
    ///
    /// # Errors
    /// Returns an error if reading or storing fails; then nothing of it counts as stored.
    fn store(&self, bytes: &mut dyn Read) -> io::Result<StoredContent>;
}

/// A file that has one content, under a name that no process writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentFile {
    /// Its name.
    pub path: PathBuf,
    /// True if its bytes are known to be on disk.
    pub is_synced: bool,
}

/// Returns stored contents.
pub trait ContentSource: Sync {
    /// A reader of the content with this hash.
    ///
    /// # Errors
    /// Returns an error if nothing is stored under it ([`io::ErrorKind::NotFound`]), or it cannot be read.
    fn open(&self, hash: &Hash) -> io::Result<Box<dyn Read + '_>>;

    /// The file that has this content and may be hard-linked by a caller that needs the content for long;
    /// `None` if there is none. The caller compares it with the hash.
    fn linkable_file(&self, _hash: &Hash) -> Option<ContentFile> {
        None
    }
}
