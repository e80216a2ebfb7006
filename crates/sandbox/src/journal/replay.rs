//! A committed journal being carried out: forward, or back again, to a final mark.
//!
//! # Invariants
//! 1. Ops are begun in their order. So an op with a later one done was reached, and one behind an op that is not done
//!    was not.
//! 2. The decision to go back is on disk, with how many ops were reached, before the first op is taken back. From then
//!    on nobody goes forward.
//! 3. The final mark is on disk after the files are. Only then is anything parked unlinked.
//! 4. Whoever fails leaves a journal that the next command takes up.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use domain::Hash;

use super::attributes;
use super::change::{Header, Place};
use super::classify::{Class, lost_by_writing};
use super::codec;
use super::codec::{BackMark, DoneMark};
use super::ending::{Ending, Settled, Stuck, Why};
use super::frame::FrameKind;
use super::hooks::Step;
use super::log::{Log, Mark};
use super::op::{How, Op, Saved};
use super::recover::Damage;
use super::sync::Touched;
use super::target::{Devices, OpError, Roots, SeenKind};
use super::write_file::{Mistake, Source};
use super::{JournalId, Journals};

/// Who carries the journal out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The process that prepared it.
    Live,
    /// Another one, that found it.
    Recovery,
}

/// A committed journal with its roots open.
pub(super) struct Work {
    pub(super) journals: Journals,
    pub(super) id: JournalId,
    pub(super) header: Header,
    pub(super) log: Log,
    pub(super) roots: Roots,
    pub(super) origin: Origin,
    /// Whether the journal is of this boot.
    pub(super) devices: Devices,
    pub(super) touched: Touched,
    /// Files that were written in place, by device and inode: one may have several names.
    pub(super) written: BTreeSet<(u64, u64)>,
    /// Ops that gave a file another inode.
    pub(super) replaced: BTreeSet<u32>,
    /// Ops that left something where it was.
    pub(super) left: BTreeSet<u32>,
}

/// The op that failed, and why.
struct Failed {
    n: u32,
    error: OpError,
}

impl Work {
    /// Carries out what was just committed.
    pub(super) fn run_live(mut self) -> Result<Settled, Stuck> {
        match self.forward(None) {
            Ok(()) => self.finish(None),
            Err(failed) => self.give_up(failed, 0),
        }
    }

    /// Takes up what another process left.
    pub(super) fn run_recovery(mut self) -> Result<Settled, Stuck> {
        match self.log.mark.clone() {
            Mark::Open | Mark::Committed => self.recover_committed(),
            Mark::Back(back) => {
                if let Err(error) = self.find_bad_images() {
                    return Err(self.stuck(None, OpError::Io(error)));
                }
                if self.needs_bad(back.reached) {
                    return Err(self.stuck(None, OpError::Io(io::Error::other(Damage))));
                }
                self.back(Why::Recovered { reason: back.reason }, back.reached)
            }
            Mark::Done(done) => self.clean_up(done, None),
        }
    }

    /// Finds the contents of the journal that are not what their hashes say.
    fn find_bad_images(&mut self) -> io::Result<()> {
        let images = self.log.ops.iter().flat_map(|op| op.how.pre().into_iter().chain(op.how.post()));
        let contents: BTreeMap<Hash, &Saved> =
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

    /// Whether taking back the first ops needs one of them.
    fn needs_bad(&self, reached: u32) -> bool {
        let begun = self.log.ops.get(..reached as usize).unwrap_or(&self.log.ops);
        let mut images = begun.iter().filter_map(|op| op.how.pre()).filter(|saved| saved.bytes.is_some());
        images.any(|saved| self.log.bad.contains(&saved.state.hash))
    }

    fn recover_committed(mut self) -> Result<Settled, Stuck> {
        let ops = Arc::clone(&self.log.ops);
        if let Err(error) = self.find_bad_images() {
            return Err(self.stuck(None, OpError::Io(error)));
        }
        let mut classes = Vec::with_capacity(ops.len());
        for op in ops.iter() {
            match self.classify(op) {
                Ok(class) => classes.push(class),
                Err(OpError::Io(error)) if is_bad_image(&error) => {
                    return Err(self.stuck(Some(op), OpError::Io(io::Error::other(Damage))));
                }
                Err(error) => return Err(self.stuck(Some(op), error)),
            }
        }
        let is_trace = |class: &Class| matches!(class, Class::Post | Class::Torn(_));
        if self.log.mark == Mark::Open && !classes.iter().any(is_trace) {
            let (file, header) = (self.log.file, Some(self.header));
            return Ok(Settled::new(self.journals, self.id, header, file, Ending::NeverBegan));
        }
        let is_due = |(op, class): (&Op, &Class)| {
            let post = op.how.post().filter(|post| *class != Class::Post && post.bytes.is_some());
            post.is_some_and(|post| self.log.bad.contains(&post.state.hash))
        };
        if ops.iter().zip(&classes).any(is_due) {
            let reached = reached(&classes);
            if self.needs_bad(reached) {
                return Err(self.stuck(None, OpError::Io(io::Error::other(Damage))));
            }
            return self.decide_to_go_back("its journal is damaged".to_owned(), reached);
        }
        let Some(edited) = classes.iter().position(|class| *class == Class::Other) else {
            return match self.forward(Some(&classes)) {
                Ok(()) => self.finish(None),
                Err(failed) => self.give_up(failed, reached(&classes)),
            };
        };
        let path = ops.get(edited).map(|op| op.path.to_string()).unwrap_or_default();
        let reason = format!("{path} was changed by somebody else after the interruption");
        self.decide_to_go_back(reason, reached(&classes))
    }

    /// Carries out the ops in order, from the states that they were found in; without, all are as before.
    fn forward(&mut self, classes: Option<&[Class]>) -> Result<(), Failed> {
        let ops = Arc::clone(&self.log.ops);
        for (index, op) in ops.iter().enumerate() {
            let class =
                classes.map_or(Class::Pre, |classes| classes.get(index).copied().unwrap_or(Class::Pre));
            let result = match class {
                Class::Pre => self.perform(op),
                Class::Post => self.confirm(op),
                Class::Torn(torn) => {
                    self.touched.note(op);
                    self.save_torn(op, torn).and_then(|()| match &op.how {
                        How::Write { post, .. } | How::Create { post } => {
                            self.rewrite(op, torn.stamp, Source::Image(post), Mistake::Leave)
                        }
                        How::MakeDir { post } => self.dress_dir(op, post),
                        How::RemoveDir { .. } => self.perform(op),
                        How::Remove { .. } | How::Link { .. } | How::Mode { .. } | How::Ref(_) => {
                            Err(OpError::Changed)
                        }
                    })
                }
                Class::Other => Err(OpError::Changed),
            };
            result.map_err(|error| Failed { n: op.n, error })?;
        }
        Ok(())
    }

    /// Of an op that an earlier run has done: it counts as touched, since nobody may have synced it.
    fn confirm(&mut self, op: &Op) -> Result<(), OpError> {
        match &op.how {
            // The ref is moved; the index may not be.
            How::Ref(_) => self.perform(op),
            How::Write { .. } | How::Link { pre: Some(_), .. } => {
                if self.look_at(op, &op.parked)?.is_some() {
                    self.replaced.insert(op.n);
                }
                self.touched.note(op);
                self.put_bits_back(op)
            }
            How::Create { .. }
            | How::Link { .. }
            | How::Remove { .. }
            | How::MakeDir { .. }
            | How::RemoveDir { .. }
            | How::Mode { .. } => {
                self.touched.note(op);
                Ok(())
            }
        }
    }

    /// Gives a file back what writing in place took from its mode and its capabilities, if the process was killed before it
    /// did so itself.
    pub(super) fn put_bits_back(&self, op: &Op) -> Result<(), OpError> {
        match self.look_at(op, &op.path) {
            Ok(Some(seen)) if seen.kind == SeenKind::File => {
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

    /// The mode that a file with `mode` keeps while it is written: what writing took away is put back, unless a later op
    /// has taken it away on purpose.
    pub(super) fn mode_to_keep(&self, op: &Op, mode: u16) -> u16 {
        let How::Write { pre, .. } = &op.how else { return mode };
        let is_lost = lost_by_writing(Some(mode), pre.state.mode);
        if is_lost && !self.is_mode_of_later(op, mode) { pre.state.mode } else { mode }
    }

    /// The capabilities that a file keeps while it is written: its own, or those that writing took away.
    ///
    /// Returns an error if this process may not put them back.
    pub(super) fn capabilities_to_keep(&self, op: &Op, file: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
        let How::Write { pre, .. } = &op.how else { return Ok(None) };
        let written_down = || pre.attributes.as_ref()?.capabilities().map(<[u8]>::to_vec);
        let capabilities = attributes::read_capabilities(file)?.or_else(written_down);
        match capabilities.is_some() && !attributes::may_put_capabilities() {
            true => Err(io::Error::new(io::ErrorKind::PermissionDenied, "it has file capabilities")),
            false => Ok(capabilities),
        }
    }

    /// An op failed: all that were begun are rolled back, by us or by the process that we took over from.
    fn give_up(mut self, failed: Failed, begun_before: u32) -> Result<Settled, Stuck> {
        let ops = Arc::clone(&self.log.ops);
        let Some(op) = ops.get(failed.n as usize) else {
            return Err(self.stuck(None, failed.error));
        };
        let place = op.place();
        // Taking such an op back would need the git that does not work.
        let is_begun = !matches!(failed.error, OpError::GitBefore(_));
        let why = match failed.error {
            OpError::Changed => Why::ChangedUnderUs { place },
            OpError::Escapes => Why::Escapes { place },
            OpError::Io(source) => Why::Io { place, source },
            OpError::Git(source) | OpError::GitBefore(source) => Why::Git { source },
        };
        let reached = op.n.saturating_add(is_begun.into()).max(begun_before);
        match self.mark_back(why.to_string(), reached) {
            Ok(()) => self.back(why, reached),
            Err(error) => Err(self.stuck(None, OpError::Io(error))),
        }
    }

    fn decide_to_go_back(mut self, reason: String, reached: u32) -> Result<Settled, Stuck> {
        match self.mark_back(reason.clone(), reached) {
            Ok(()) => self.back(Why::Recovered { reason }, reached),
            Err(error) => Err(self.stuck(None, OpError::Io(error))),
        }
    }

    fn mark_back(&mut self, reason: String, reached: u32) -> io::Result<()> {
        self.journals.hooks.step(Step::Back)?;
        let mark = BackMark { reason, reached };
        self.log.append(FrameKind::Back, &codec::encode_back(&mark))?;
        self.log.mark = Mark::Back(mark);
        Ok(())
    }

    /// Takes back the ops that were reached, the last first.
    fn back(mut self, why: Why, reached: u32) -> Result<Settled, Stuck> {
        self.left.clear();
        self.replaced.clear();
        self.written.clear();
        let ops = Arc::clone(&self.log.ops);
        let begun = ops.get(..reached as usize).unwrap_or(&ops);
        for op in begun.iter().rev() {
            match self.take_back(op) {
                Ok(()) => {}
                // Of a file that is half ours, both contents have to be known.
                Err(OpError::Io(error)) if is_bad_image(&error) && !self.log.bad.is_empty() => {
                    return Err(self.stuck(Some(op), OpError::Io(io::Error::other(Damage))));
                }
                Err(error) => return Err(self.stuck(Some(op), error)),
            }
        }
        self.finish(Some(why))
    }

    /// Syncs, writes the final mark and cleans up. `why` when it was taken back.
    fn finish(mut self, why: Option<Why>) -> Result<Settled, Stuck> {
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
        self.journals.hooks.step(Step::Sync)?;
        self.touched.sync(&self.roots)?;
        self.journals.hooks.step(Step::Done)?;
        self.log.append(FrameKind::Done, &codec::encode_done(done))
    }

    /// Unlinks what is parked. The journal is over, whether that works or not; it stays until it does.
    fn clean_up(self, done: DoneMark, why: Option<Why>) -> Result<Settled, Stuck> {
        let ops = Arc::clone(&self.log.ops);
        let mut unparked = Touched::default();
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
        Ok(Settled::new(self.journals, self.id, Some(self.header), self.log.file, ending))
    }

    /// Whether something may lie at the op's parked name. A recovery does not know what its predecessor did.
    fn may_be_parked(&self, op: &Op) -> bool {
        let parks = match op.how {
            How::Remove { .. } => true,
            How::Write { .. } | How::Link { .. } => self.replaced.contains(&op.n),
            How::Create { .. }
            | How::MakeDir { .. }
            | How::RemoveDir { .. }
            | How::Mode { .. }
            | How::Ref(_) => false,
        };
        parks || (self.origin == Origin::Recovery && !matches!(op.how, How::Ref(_)))
    }

    /// Unlinks what is parked; whether there was something.
    fn unpark(&self, op: &Op) -> Result<bool, OpError> {
        match self.look_at(op, &op.parked) {
            Ok(None) | Err(OpError::Escapes) => return Ok(false),
            Ok(Some(_)) => {}
            Err(error) => return Err(error),
        }
        self.journals.hooks.step(Step::Unpark { n: op.n })?;
        super::target::Spot::open(self.roots.get(op.root)?, &op.parked)?.unlink()?;
        Ok(true)
    }

    fn stuck(self, op: Option<&Op>, error: OpError) -> Stuck {
        Stuck {
            id: self.id,
            plan: Some(self.header.plan),
            place: op.map(Op::place),
            source: match error {
                OpError::Io(source) => source,
                OpError::Git(source) | OpError::GitBefore(source) => io::Error::other(source),
                OpError::Changed => io::Error::other("somebody keeps changing it"),
                OpError::Escapes => io::Error::other("it leads out of its project"),
            },
        }
    }

    /// The bytes of an image that is known to be small: a text, or the target of a link.
    pub(super) fn read_all(&self, saved: &Saved) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.log.image(saved).take(domain::TEXT_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Whether an image in the journal cannot be read: its frame is wrong, or cut off.
fn is_bad_image(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// How a journal with this final mark ended.
pub(super) fn ending(ops: &[Op], done: &DoneMark, why: Option<Why>) -> Ending {
    let places = |numbers: &[u32]| -> Vec<Place> {
        numbers.iter().filter_map(|n| ops.get(*n as usize)).map(Op::place).collect()
    };
    let left = places(&done.left);
    if done.applied {
        Ending::Applied { replaced: places(&done.replaced), left }
    } else {
        let why = why.unwrap_or_else(|| Why::Recovered { reason: "it was interrupted".to_owned() });
        Ending::RolledBack { why, left }
    }
}

/// How many ops may have been begun: those up to the last that left a trace, and the edited ones behind it, which may
/// hide one.
fn reached(classes: &[Class]) -> u32 {
    let is_trace = |class: &Class| matches!(class, Class::Post | Class::Torn(_));
    let last = classes.iter().rposition(is_trace).map_or(0, |last| last + 1);
    let hidden =
        classes.get(last..).unwrap_or_default().iter().take_while(|class| **class == Class::Other).count();
    u32::try_from(last + hidden).unwrap_or(u32::MAX)
}
