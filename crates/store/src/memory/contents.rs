//! Contents in memory: one map from hash to bytes.
//!
//! # Invariants
//! A large content that was staged is retained for an hour, also by collections in that time. This holds even
//! if it is named by then. Another caller may have staged the same content, and name it only after the first
//! one has forgotten it.

use std::collections::{HashMap, HashSet};
use std::io::{self, Cursor, Read};
use std::sync::Arc;

use domain::{Hash, JobState, Ms, PlanId, PlanRecord, is_text};
use sync::primitives::lock;

use super::{MemoryStore, all_jobs};

use crate::content_store::waits_since;
use crate::{CollectedContents, ContentStore, INLINE_BYTES_MAX, ReclaimedSpace, StagedContent, StoredFile};

/// The stored contents, and when the large ones were last staged.
#[derive(Default)]
pub(super) struct Contents {
    kept: HashMap<Hash, Arc<[u8]>>,
    staged_at: HashMap<Hash, Ms>,
}

impl Contents {
    /// Stores staged contents, which have been named now.
    pub(super) fn keep(&mut self, staged: Vec<StagedContent>) {
        for StagedContent { hash, bytes, .. } in staged {
            if let Some(bytes) = bytes {
                self.kept.entry(hash).or_insert_with(|| bytes.into());
            }
        }
    }

    fn collect(&mut self, named: &HashSet<Hash>, waits_since: Ms, dry_run: bool) -> CollectedContents {
        let waits = |at: &Ms| *at > waits_since;
        let is_free = |hash: &Hash| !named.contains(hash) && !self.staged_at.get(hash).is_some_and(waits);
        let free: Vec<Hash> = self.kept.keys().copied().filter(is_free).collect();
        let mut collected = CollectedContents::default();
        for hash in free {
            collected.contents += 1;
            collected.bytes += self.kept.get(&hash).map_or(0, |bytes| bytes.len() as u64);
            if !dry_run {
                self.kept.remove(&hash);
            }
        }
        self.staged_at.retain(|_, at| waits(at));
        collected
    }
}

impl ContentStore for MemoryStore {
    fn stage(&self, reader: &mut dyn Read) -> io::Result<StagedContent> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        let (hash, size) = (Hash::from_content(&bytes), bytes.len() as u64);
        let text = is_text(&bytes, size);
        if bytes.len() <= INLINE_BYTES_MAX {
            return Ok(StagedContent { hash, size, text, bytes: Some(bytes) });
        }
        let now = self.now();
        let mut contents = lock(&self.contents);
        contents.kept.entry(hash).or_insert_with(|| bytes.into());
        contents.staged_at.insert(hash, now);
        Ok(StagedContent { hash, size, text, bytes: None })
    }

    fn open_content(&self, hash: &Hash) -> io::Result<Box<dyn Read + Send>> {
        let kept = lock(&self.contents).kept.get(hash).cloned();
        let bytes = kept.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("there is no content with the hash {hash}"))
        })?;
        Ok(Box::new(Cursor::new(bytes)))
    }

    /// Memory has no file.
    fn content_file(&self, _: &Hash) -> io::Result<Option<StoredFile>> {
        Ok(None)
    }

    fn collect(&self, dry_run: bool) -> io::Result<CollectedContents> {
        let now = self.now();
        Ok(self.plans.update_all(|plans| {
            let named = plans.values().flat_map(PlanRecord::named_contents).collect();
            let running = all_jobs(plans).filter(|job| job.state == JobState::Running);
            let oldest = running.filter_map(|job| job.started_at).min();
            lock(&self.contents).collect(&named, waits_since(now, oldest), dry_run)
        }))
    }

    fn collectable(&self, without: &[PlanId]) -> io::Result<CollectedContents> {
        let now = self.now();
        Ok(self.plans.update_all(|plans| {
            let stay = plans.iter().filter(|(plan, _)| !without.contains(plan));
            let named = stay.flat_map(|(_, record)| record.named_contents()).collect();
            lock(&self.contents).collect(&named, now, true)
        }))
    }

    /// Memory has no file.
    fn give_back(&self) -> io::Result<ReclaimedSpace> {
        Ok(ReclaimedSpace::default())
    }
}
