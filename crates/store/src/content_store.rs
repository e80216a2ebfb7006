//! The port for contents: bytes under their hash, stored once.
//!
//! Small ones are stored in the database and are written with the call that made them; large ones are files,
//! written while they are hashed. So none has to fit into memory, and none is stored by halves.
//!
//! These calls block: an asynchronous caller runs them on a thread that may block.

use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use domain::{Hash, Ms, PlanId};

/// Above this a content is a file of its own.
pub const INLINE_BYTES_MAX: usize = 32 * 1024;

/// The time for which a large content that was staged waits for its name before it may be collected.
pub const STAGED_KEPT: Duration = Duration::from_secs(60 * 60);

/// A content that was read and hashed, to be named by an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedContent {
    /// Its hash.
    pub hash: Hash,
    /// The size in bytes.
    pub size: u64,
    /// True if it is text.
    pub text: bool,
    /// The bytes of a small one, to be written with the call; none for a large one, whose file is there
    /// already.
    pub bytes: Option<Vec<u8>>,
}

/// The file of a large content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name. The named file is never written again; a collection removes the name.
    pub path: PathBuf,
    /// True if its bytes are known to be on disk.
    pub is_synced: bool,
}

/// The contents that a collection removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectedContents {
    /// The number of contents that nothing names any more.
    pub contents: u64,
    /// The number of bytes that they had.
    pub bytes: u64,
}

/// The space that the store gave back to the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReclaimedSpace {
    /// The number of bytes by which its file is smaller.
    pub bytes: u64,
    /// The number of bytes of its file that are free and were not given back.
    pub kept_bytes: u64,
    /// The reason, if that has to wait for something.
    pub kept_because: Option<String>,
}

/// Stores contents.
pub trait ContentStore: Send + Sync {
    /// Reads to the end.
    ///
    /// # Errors
    /// Reading failed, or the disk is full; nothing is left behind.
    fn stage(&self, reader: &mut dyn Read) -> io::Result<StagedContent>;

    /// A reader of a content.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::NotFound`] if nothing is stored under the hash.
    fn open_content(&self, hash: &Hash) -> io::Result<Box<dyn Read + Send>>;

    /// Returns the file of a large content; `None` if the content is not a file of its own, or is not stored.
    ///
    /// # Errors
    /// The store failed.
    fn content_file(&self, hash: &Hash) -> io::Result<Option<StoredFile>>;

    /// Finds and removes, in one step, the contents that no entry, no call and no context names; with
    /// `dry_run` only counts them. A large content that is not named yet stays if it was staged less than
    /// [`STAGED_KEPT`] ago. It also stays if it was staged after the oldest running job began. A command may
    /// run longer than that, and names its contents only at its end.
    ///
    /// # Errors
    /// The store failed.
    fn collect(&self, dry_run: bool) -> io::Result<CollectedContents>;

    /// Returns what a collection would remove if these plans were forgotten before.
    ///
    /// # Errors
    /// The store failed.
    fn collectable(&self, without: &[PlanId]) -> io::Result<CollectedContents>;

    /// Gives the space back to the disk that forgotten plans and collected contents left in the store's own
    /// file.
    ///
    /// # Errors
    /// The store failed; it is as it was.
    fn give_back(&self) -> io::Result<ReclaimedSpace>;
}

/// Returns the moment since which a staged content may still be named. A caller that stages and names at once
/// may name it, or a running job, of which the oldest began at `oldest`.
pub(crate) fn waits_since(now: Ms, oldest: Option<Ms>) -> Ms {
    let kept = Ms(now.0.saturating_sub(u64::try_from(STAGED_KEPT.as_millis()).unwrap_or(u64::MAX)));
    // One moment before: what was staged in the same moment waits too.
    oldest.map_or(kept, |oldest| kept.min(Ms(oldest.0.saturating_sub(1))))
}
