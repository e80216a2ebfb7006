//! Carries out a committed journal: forward, or back again, to a final mark.
//!
//! # Invariants
//! 1. Ops are begun in their order. So an op with a later one done was reached, and one behind an op that is
//!    not done was not.
//! 2. The decision to go back is on disk, with how many ops were reached, before the first op is rolled back.
//!    From then on no process goes forward.
//! 3. The final mark is on disk after the files are. Only then is anything parked unlinked.
//! 4. A process that fails leaves a journal that the next command takes up.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use domain::Hash;

use super::attributes;
use super::classify::{OpProgress, lost_by_writing};
use super::codec;
use super::codec::{BackMark, DoneMark};
use super::ending::{JournalEnding, RollbackReason, SettledJournal, StuckJournal};
use super::frame::FrameKind;
use super::hooks::JournalStep;
use super::log::{JournalLog, Mark};
use super::observe_file::{DeviceNumbers, ObservedKind, OpError, OpenRoots};
use super::op::{JournalOp, OpAction, SavedState};
use super::recover::MissingBytes;
use super::request::{JournalHeader, JournalPath};
use super::sync_to_disk::SyncSet;
use super::write_file::{ReplacedFilePolicy, WriteSource};
use super::{JournalId, Journals};

/// The process that carries the journal out: its own, or a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayOrigin {
    /// The process that prepared it.
    Live,
    /// Another one, that found it.
    Recovery,
}

/// A committed journal with its roots open.
pub(super) struct JournalReplay {
    pub(super) journals: Journals,
    pub(super) id: JournalId,
    pub(super) header: JournalHeader,
    pub(super) log: JournalLog,
    pub(super) roots: OpenRoots,
    pub(super) origin: ReplayOrigin,
    /// The meaning of the journal's device numbers: they are valid within one boot.
    pub(super) devices: DeviceNumbers,
    pub(super) touched: SyncSet,
    /// Files that were written in place, by device and inode: one may have several names.
    pub(super) written: BTreeSet<(u64, u64)>,
    /// Ops that gave a file another inode.
    pub(super) replaced: BTreeSet<u32>,
    /// Ops that left something where it was.
    pub(super) left: BTreeSet<u32>,
}

/// The op that failed, and why.
struct FailedOp {
    n: u32,
    error: OpError,
}

impl JournalReplay {
    /// Carries out what was just committed.
    pub(super) fn run_live(mut self) -> Result<SettledJournal, StuckJournal> {
        match self.forward(None) {
            Ok(()) => self.finish(None),
            Err(failed) => self.roll_back(failed, 0),
        }
    }

    /// Takes up what another process left.
    pub(super) fn run_recovery(mut self) -> Result<SettledJournal, StuckJournal> {
        match self.log.mark.clone() {
            Mark::Open | Mark::Committed => self.recover_committed(),
            Mark::Back(back) => {
                if let Err(error) = self.find_bad_images() {
                    return Err(self.stuck(None, OpError::Io(error)));
                }
                if self.needs_bad(back.reached) {
                    return Err(self.stuck(None, OpError::Io(io::Error::other(MissingBytes))));
                }
                self.back(RollbackReason::Recovered { reason: back.reason }, back.reached)
            }
            Mark::Done(done) => self.clean_up(done, None),
        }
    }

    /// Finds the contents of the journal that are not what their hashes say.
    fn find_bad_images(&mut self) -> io::Result<()> {
        let images = self.log.ops.iter().flat_map(|op| op.how.pre().into_iter().chain(op.how.post()));
        let contents: BTreeMap<Hash, &SavedState> =
            images.filter(|saved| saved.bytes.is_some()).map(|saved| (saved.state.hash, saved)).collect();
        let mut bad = BTreeSet::new();
        for (hash, saved) in contents {
            let mut hasher = blake3::Hasher::new();
            let read = hasher.update_reader(self.log.image(saved)).map(drop);
            match read {
                Ok(()) if hasher.finalize().as_bytes() == hash.as_bytes() => {}
                Ok(()) => {
                    bad.insert(hash);
                }
                Err(error) if is_bad_image(&error) => {
                    bad.insert(hash);
                }
                Err(error) => return Err(error),
            }
        }
        self.log.bad = bad;
        Ok(())
    }

    /// Returns true if rolling back the first ops needs one of them.
    fn needs_bad(&self, reached: u32) -> bool {
        let begun = self.log.ops.get(..reached as usize).unwrap_or(&self.log.ops);
        let mut images = begun.iter().filter_map(|op| op.how.pre()).filter(|saved| saved.bytes.is_some());
        images.any(|saved| self.log.bad.contains(&saved.state.hash))
    }

    fn recover_committed(mut self) -> Result<SettledJournal, StuckJournal> {
        let ops = Arc::clone(&self.log.ops);
        if let Err(error) = self.find_bad_images() {
            return Err(self.stuck(None, OpError::Io(error)));
        }
        let mut classes = Vec::with_capacity(ops.len());
        for op in ops.iter() {
            match self.classify(op) {
                Ok(class) => classes.push(class),
                Err(OpError::Io(error)) if is_bad_image(&error) => {
                    return Err(self.stuck(Some(op), OpError::Io(io::Error::other(MissingBytes))));
                }
                Err(error) => return Err(self.stuck(Some(op), error)),
            }
        }
        let is_trace = |class: &OpProgress| matches!(class, OpProgress::Post | OpProgress::Torn(_));
        if self.log.mark == Mark::Open && !classes.iter().any(is_trace) {
            let (file, header) = (self.log.file, Some(self.header));
            return Ok(SettledJournal::new(self.journals, self.id, header, file, JournalEnding::NeverBegan));
        }
        let is_due = |(op, class): (&JournalOp, &OpProgress)| {
            let post = op.how.post().filter(|post| *class != OpProgress::Post && post.bytes.is_some());
            post.is_some_and(|post| self.log.bad.contains(&post.state.hash))
        };
        if ops.iter().zip(&classes).any(is_due) {
            let reached = reached(&classes);
            if self.needs_bad(reached) {
                return Err(self.stuck(None, OpError::Io(io::Error::other(MissingBytes))));
            }
            return self.decide_to_go_back("its journal is damaged".to_owned(), reached);
        }
        let Some(edited) = classes.iter().position(|class| *class == OpProgress::Other) else {
            return match self.forward(Some(&classes)) {
                Ok(()) => self.finish(None),
                Err(failed) => self.roll_back(failed, reached(&classes)),
            };
        };
        let path = ops.get(edited).map(|op| op.path.to_string()).unwrap_or_default();
        let reason = format!("another process changed {path} after the interruption");
        self.decide_to_go_back(reason, reached(&classes))
    }

    /// Carries out the ops in order, from the states that they were found in; without, all are as before.
    fn forward(&mut self, classes: Option<&[OpProgress]>) -> Result<(), FailedOp> {
        let ops = Arc::clone(&self.log.ops);
        for (index, op) in ops.iter().enumerate() {
            let class = classes
                .map_or(OpProgress::Pre, |classes| classes.get(index).copied().unwrap_or(OpProgress::Pre));
            let result = match class {
                OpProgress::Pre => self.perform(op),
                OpProgress::Post => self.confirm(op),
                OpProgress::Torn(torn) => {
                    self.touched.note(op);
                    self.save_torn(op, torn).and_then(|()| match &op.how {
                        OpAction::Write { post, .. } | OpAction::Create { post } => {
                            self.rewrite(op, torn.stamp, WriteSource::Image(post), ReplacedFilePolicy::Leave)
                        }
                        OpAction::MakeDir { post } => self.apply_dir_attributes(op, post),
                        OpAction::RemoveDir { .. } => self.perform(op),
                        OpAction::Remove { .. }
                        | OpAction::Link { .. }
                        | OpAction::Mode { .. }
                        | OpAction::Ref(_) => Err(OpError::Changed),
                    })
                }
                OpProgress::Other => Err(OpError::Changed),
            };
            result.map_err(|error| FailedOp { n: op.n, error })?;
        }
        Ok(())
    }

    /// Confirms an op that an earlier run has done: it counts as touched, because it may not have been
    /// synced.
    fn confirm(&mut self, op: &JournalOp) -> Result<(), OpError> {
        match &op.how {
            // The ref is moved; the index may not be.
            OpAction::Ref(_) => self.perform(op),
            OpAction::Write { .. } | OpAction::Link { pre: Some(_), .. } => {
                if self.observe_at(op, &op.parked)?.is_some() {
                    self.replaced.insert(op.n);
                }
                self.touched.note(op);
                self.put_bits_back(op)
            }
            OpAction::Create { .. }
            | OpAction::Link { .. }
            | OpAction::Remove { .. }
            | OpAction::MakeDir { .. }
            | OpAction::RemoveDir { .. }
            | OpAction::Mode { .. } => {
                self.touched.note(op);
                Ok(())
            }
        }
    }

    /// Gives a file back what writing in place took from its mode and its capabilities, if the process was
    /// killed before it did so itself.
    pub(super) fn put_bits_back(&self, op: &JournalOp) -> Result<(), OpError> {
        match self.observe_at(op, &op.path) {
            Ok(Some(seen)) if seen.kind == ObservedKind::File => {
                let capabilities = self.capabilities_to_keep(op, seen.handle.as_fd())?;
                attributes::set_mode(seen.handle.as_fd(), self.mode_to_keep(op, seen.mode))?;
                let put = |value: Vec<u8>| attributes::put_capabilities(seen.handle.as_fd(), &value);
                Ok(capabilities.map_or(Ok(()), put)?)
            }
            // Closed by a later op, which comes after the bits were put back.
            Err(OpError::Io(error)) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Ok(Some(_) | None) | Err(OpError::Escapes) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The mode to restore after a file with `mode` is written. Bits that writing removed are restored,
    /// unless a later op has removed them on purpose.
    pub(super) fn mode_to_keep(&self, op: &JournalOp, mode: u16) -> u16 {
        let OpAction::Write { pre, .. } = &op.how else { return mode };
        let is_lost = lost_by_writing(Some(mode), pre.state.mode);
        if is_lost && !self.is_mode_of_later(op, mode) { pre.state.mode } else { mode }
    }

    /// The capabilities to restore after a file is written: its own, or those that writing removed.
    ///
    /// Returns an error if this process may not put them back.
    pub(super) fn capabilities_to_keep(
        &self,
        op: &JournalOp,
        file: BorrowedFd<'_>,
    ) -> io::Result<Option<Vec<u8>>> {
        let OpAction::Write { pre, .. } = &op.how else { return Ok(None) };
        let written_down = || pre.attributes.as_ref()?.capabilities().map(<[u8]>::to_vec);
        let capabilities = attributes::read_capabilities(file)?.or_else(written_down);
        match capabilities.is_some() && !attributes::may_put_capabilities() {
            true => Err(io::Error::new(io::ErrorKind::PermissionDenied, "it has file capabilities")),
            false => Ok(capabilities),
        }
    }

    /// An op failed: all that were begun are rolled back, by us or by the process that we took over from.
    fn roll_back(mut self, failed: FailedOp, begun_before: u32) -> Result<SettledJournal, StuckJournal> {
        let ops = Arc::clone(&self.log.ops);
        let Some(op) = ops.get(failed.n as usize) else {
            return Err(self.stuck(None, failed.error));
        };
        let place = op.place();
        // Taking such an op back would need the git that does not work.
        let is_begun = !matches!(failed.error, OpError::GitBefore(_));
        let why = match failed.error {
            OpError::Changed => RollbackReason::ChangedUnderUs { place },
            OpError::Escapes => RollbackReason::Escapes { place },
            OpError::Io(source) => RollbackReason::Io { place, source },
            OpError::Git(source) | OpError::GitBefore(source) => RollbackReason::Git { source },
        };
        let reached = op.n.saturating_add(is_begun.into()).max(begun_before);
        match self.mark_back(why.to_string(), reached) {
            Ok(()) => self.back(why, reached),
            Err(error) => Err(self.stuck(None, OpError::Io(error))),
        }
    }

    fn decide_to_go_back(mut self, reason: String, reached: u32) -> Result<SettledJournal, StuckJournal> {
        match self.mark_back(reason.clone(), reached) {
            Ok(()) => self.back(RollbackReason::Recovered { reason }, reached),
            Err(error) => Err(self.stuck(None, OpError::Io(error))),
        }
    }

    fn mark_back(&mut self, reason: String, reached: u32) -> io::Result<()> {
        self.journals.hooks.step(JournalStep::Back)?;
        let mark = BackMark { reason, reached };
        self.log.append(FrameKind::Back, &codec::encode_back(&mark))?;
        self.log.mark = Mark::Back(mark);
        Ok(())
    }

    /// Rolls back the ops that were reached, the last first.
    fn back(mut self, why: RollbackReason, reached: u32) -> Result<SettledJournal, StuckJournal> {
        self.left.clear();
        self.replaced.clear();
        self.written.clear();
        let ops = Arc::clone(&self.log.ops);
        let begun = ops.get(..reached as usize).unwrap_or(&ops);
        for op in begun.iter().rev() {
            match self.undo_op(op) {
                Ok(()) => {}
                // Of a file that is half ours, both contents have to be known.
                Err(OpError::Io(error)) if is_bad_image(&error) && !self.log.bad.is_empty() => {
                    return Err(self.stuck(Some(op), OpError::Io(io::Error::other(MissingBytes))));
                }
                Err(error) => return Err(self.stuck(Some(op), error)),
            }
        }
        self.finish(Some(why))
    }

    /// Syncs, writes the final mark and cleans up. `why` if it was rolled back.
    fn finish(mut self, why: Option<RollbackReason>) -> Result<SettledJournal, StuckJournal> {
        let done = DoneMark {
            applied: why.is_none(),
            left: self.left.iter().copied().collect(),
            replaced: self.replaced.iter().copied().collect(),
        };
        match self.write_done(&done) {
            Ok(()) => self.clean_up(done, why),
            Err(error) => Err(self.stuck(None, OpError::Io(error))),
        }
    }

    fn write_done(&mut self, done: &DoneMark) -> io::Result<()> {
        self.journals.hooks.step(JournalStep::Sync)?;
        self.touched.sync(&self.roots)?;
        self.journals.hooks.step(JournalStep::Done)?;
        self.log.append(FrameKind::Done, &codec::encode_done(done))
    }

    /// Unlinks what is parked. The journal is over, whether that works or not; it stays until it does.
    fn clean_up(self, done: DoneMark, why: Option<RollbackReason>) -> Result<SettledJournal, StuckJournal> {
        let ops = Arc::clone(&self.log.ops);
        let mut unparked = SyncSet::default();
        for op in ops.iter().filter(|op| self.may_be_parked(op)) {
            match self.unpark(op) {
                Ok(true) => unparked.note_parked(op),
                Ok(false) => {}
                Err(error) => return Err(self.stuck(Some(op), error)),
            }
        }
        // A parked name that a power loss brings back would find no journal that knows it.
        if let Err(error) = unparked.sync_directories(&self.roots) {
            return Err(self.stuck(None, OpError::Io(error)));
        }
        let ending = ending(&ops, &done, why);
        Ok(SettledJournal::new(self.journals, self.id, Some(self.header), self.log.file, ending))
    }

    /// Returns true if something may lie at the op's parked name. A recovery does not know what its
    /// predecessor did.
    fn may_be_parked(&self, op: &JournalOp) -> bool {
        let parks = match op.how {
            OpAction::Remove { .. } => true,
            OpAction::Write { .. } | OpAction::Link { .. } => self.replaced.contains(&op.n),
            OpAction::Create { .. }
            | OpAction::MakeDir { .. }
            | OpAction::RemoveDir { .. }
            | OpAction::Mode { .. }
            | OpAction::Ref(_) => false,
        };
        parks || (self.origin == ReplayOrigin::Recovery && !matches!(op.how, OpAction::Ref(_)))
    }

    /// Unlinks what is parked; whether there was something.
    fn unpark(&self, op: &JournalOp) -> Result<bool, OpError> {
        match self.observe_at(op, &op.parked) {
            Ok(None) | Err(OpError::Escapes) => return Ok(false),
            Ok(Some(_)) => {}
            Err(error) => return Err(error),
        }
        self.journals.hooks.step(JournalStep::Unpark { n: op.n })?;
        super::observe_file::EntryLocation::open(self.roots.get(op.root)?, &op.parked)?.unlink()?;
        Ok(true)
    }

    fn stuck(self, op: Option<&JournalOp>, error: OpError) -> StuckJournal {
        StuckJournal {
            id: self.id,
            plan: Some(self.header.plan),
            place: op.map(JournalOp::place),
            source: match error {
                OpError::Io(source) => source,
                OpError::Git(source) | OpError::GitBefore(source) => io::Error::other(source),
                OpError::Changed => io::Error::other("another process keeps changing it"),
                OpError::Escapes => io::Error::other("it leads outside its project"),
            },
        }
    }

    /// The bytes of an image that is known to be small: a text, or the target of a link.
    pub(super) fn read_all(&self, saved: &SavedState) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.log.image(saved).take(domain::TEXT_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Returns true if an image in the journal cannot be read: its frame is wrong, or cut off.
fn is_bad_image(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// Returns the ending of a journal with this final mark.
pub(super) fn ending(ops: &[JournalOp], done: &DoneMark, why: Option<RollbackReason>) -> JournalEnding {
    let places = |numbers: &[u32]| -> Vec<JournalPath> {
        numbers.iter().filter_map(|n| ops.get(*n as usize)).map(JournalOp::place).collect()
    };
    let left = places(&done.left);
    if done.applied {
        JournalEnding::Applied { replaced: places(&done.replaced), left }
    } else {
        let why =
            why.unwrap_or_else(|| RollbackReason::Recovered { reason: "it was interrupted".to_owned() });
        JournalEnding::RolledBack { why, left }
    }
}

/// Returns the number of ops that may have been begun. These are the ops up to the last that left a trace,
/// and the edited ones behind it, which may hide a trace.
fn reached(classes: &[OpProgress]) -> u32 {
    let is_trace = |class: &OpProgress| matches!(class, OpProgress::Post | OpProgress::Torn(_));
    let last = classes.iter().rposition(is_trace).map_or(0, |last| last + 1);
    let hidden = classes
        .get(last..)
        .unwrap_or_default()
        .iter()
        .take_while(|class| **class == OpProgress::Other)
        .count();
    u32::try_from(last + hidden).unwrap_or(u32::MAX)
}
