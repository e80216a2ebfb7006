//! Carries out one op.
//!
//! # Invariants
//! 1. An op that finds something other than what it was prepared for changes nothing that stays:
//!    [`OpError::Changed`].
//! 2. Nothing of the user's is gone before the final mark: an entry that is removed or replaced is parked
//!    next to it.

use std::os::fd::AsFd;

use domain::RelPath;
use rustix::fs::{AtFlags, Mode, RenameFlags};
use rustix::io::Errno;

use super::attributes;
use super::attributes::NewFileOwner;
use super::classify::lost_by_writing;
use super::hooks::HookPoint;
use super::observe_file::{ContentStamp, EntryLocation, ObservedFile, ObservedKind, OpError, observe};
use super::op::{JournalOp, OpAction, SavedState};
use super::replay::JournalReplay;
use super::write_file::{ReplacedFilePolicy, WriteSource, move_in, open_spot, swap};
use crate::git::refs::move_ref;

/// The bit that marks a directory that was made and has not got its mode.
pub(super) const STICKY: u16 = 0o1000;

/// The mode that a directory is made with. It differs from its own in a bit that only the last step of
/// setting its attributes changes. So a recovery sees whether that step was reached.
fn initial_dir_mode(own: u16) -> Mode {
    Mode::from_raw_mode(u32::from(0o700 | ((own & STICKY) ^ STICKY)))
}

impl JournalReplay {
    /// Carries the op out, from what it expects to what it shall leave.
    pub(super) fn perform(&mut self, op: &JournalOp) -> Result<(), OpError> {
        self.touched.note(op);
        match &op.how {
            OpAction::Write { pre, post, apart: true } => {
                self.op_step(op, HookPoint::Begin)?;
                self.replace(op, ContentStamp::of_state(&pre.state), WriteSource::Image(post))
            }
            OpAction::Write { pre, post, apart: false } => {
                let expected = ContentStamp::of_state(&pre.state);
                self.rewrite(op, expected, WriteSource::Image(post), ReplacedFilePolicy::PutBack(pre))
            }
            OpAction::Create { post } => self.create_file(op, post),
            OpAction::Remove { pre } => self.park(op, |seen| is_same(seen, pre)),
            OpAction::MakeDir { post } => self.make_dir(op, post),
            OpAction::RemoveDir { .. } => self.remove_dir(op),
            OpAction::Link { pre, post } => {
                let target = self.read_all(post)?;
                let before = pre.as_ref().map(|pre| self.read_all(pre)).transpose()?;
                self.link(op, before.as_deref(), &target, post)
            }
            OpAction::Mode { pre, post } => self.change_mode(op, pre.state.mode, post.state.mode),
            OpAction::Ref(moved) => {
                self.op_step(op, HookPoint::Begin)?;
                Ok(move_ref(self.roots.get(op.root)?, moved)?)
            }
        }
    }

    /// Moves what is at the path aside, if it is what was expected.
    pub(super) fn park(
        &mut self,
        op: &JournalOp,
        is_expected: impl Fn(&ObservedFile) -> Result<bool, OpError>,
    ) -> Result<(), OpError> {
        self.op_step(op, HookPoint::Begin)?;
        let root = self.roots.get(op.root)?;
        let spot = open_spot(EntryLocation::open(root, &op.path))?;
        let parked = EntryLocation::open(root, &op.parked)?;
        let (from, to) = (spot.name.as_c_str(), parked.name.as_c_str());
        let aside = || {
            match rustix::fs::renameat_with(&spot.parent, from, &parked.parent, to, RenameFlags::NOREPLACE) {
                // The name carries the journal's id: nothing is there unless we put it there.
                Err(Errno::INVAL) => rustix::fs::renameat(&spot.parent, from, &parked.parent, to),
                other => other,
            }
        };
        match aside() {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(OpError::Changed),
            // An earlier run moved it aside, and another process made it again.
            Err(Errno::EXIST) => {
                self.discard_parked(op)?;
                aside()?;
            }
            Err(errno) => return Err(errno.into()),
        }
        self.op_step(op, HookPoint::Parked)?;
        let out = observe(self.roots.get(op.root)?, &op.parked)?.ok_or(OpError::Changed)?;
        if is_expected(&out)? {
            return Ok(());
        }
        move_in(&parked, &spot)?;
        Err(OpError::Changed)
    }

    /// Makes a directory where nothing is.
    pub(super) fn make_dir(&mut self, op: &JournalOp, saved: &SavedState) -> Result<(), OpError> {
        self.op_step(op, HookPoint::Begin)?;
        let spot = open_spot(EntryLocation::open(self.roots.get(op.root)?, &op.path))?;
        match rustix::fs::mkdirat(&spot.parent, spot.name.as_c_str(), initial_dir_mode(saved.state.mode)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(OpError::Changed),
            Err(errno) => return Err(errno.into()),
        }
        self.op_step(op, HookPoint::Made)?;
        self.apply_dir_attributes(op, saved)
    }

    /// Gives a directory its owner and mode.
    pub(super) fn apply_dir_attributes(&mut self, op: &JournalOp, saved: &SavedState) -> Result<(), OpError> {
        let root = self.roots.get(op.root)?;
        let seen =
            observe(root, &op.path)?.filter(|seen| seen.kind == ObservedKind::Dir).ok_or(OpError::Changed)?;
        let spot = EntryLocation::open(root, &op.path)?;
        let owner =
            saved.attributes.as_ref().map_or(NewFileOwner::OfDirectory(&spot.parent), NewFileOwner::As);
        Ok(attributes::apply_attributes(seen.handle.as_fd(), owner, saved.state.mode)?)
    }

    fn remove_dir(&mut self, op: &JournalOp) -> Result<(), OpError> {
        self.op_step(op, HookPoint::Begin)?;
        let spot = open_spot(EntryLocation::open(self.roots.get(op.root)?, &op.path))?;
        match rustix::fs::unlinkat(&spot.parent, spot.name.as_c_str(), AtFlags::REMOVEDIR) {
            Ok(()) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) if !op.in_the_way => {
                self.left.insert(op.n);
                Ok(())
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Err(OpError::Changed),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Puts a link with this target where nothing is, or where a link with the target `before` is.
    pub(super) fn link(
        &mut self,
        op: &JournalOp,
        before: Option<&[u8]>,
        target: &[u8],
        saved: &SavedState,
    ) -> Result<(), OpError> {
        self.op_step(op, HookPoint::Begin)?;
        let root = self.roots.get(op.root)?;
        let spot = open_spot(EntryLocation::open(root, &op.path))?;
        let parked = EntryLocation::open(root, &op.parked)?;
        parked.unlink()?;
        rustix::fs::symlinkat(target, &parked.parent, parked.name.as_c_str())?;
        let owner =
            saved.attributes.as_ref().map_or(NewFileOwner::OfDirectory(&spot.parent), NewFileOwner::As);
        attributes::own_link(&parked.parent, &parked.name, owner)?;
        self.op_step(op, HookPoint::Swap)?;
        let Some(before) = before else {
            return move_in(&parked, &spot).inspect_err(|_| drop(parked.unlink()));
        };
        if !is_link_at(&observe(self.roots.get(op.root)?, &op.path)?, before)? {
            parked.unlink()?;
            return Err(OpError::Changed);
        }
        self.replaced.insert(op.n);
        if !swap(&parked, &spot)? {
            rustix::fs::renameat(&parked.parent, parked.name.as_c_str(), &spot.parent, spot.name.as_c_str())?;
            return Ok(());
        }
        self.op_step(op, HookPoint::Swapped)?;
        if is_link_at(&observe(self.roots.get(op.root)?, &op.parked)?, before)? {
            return Ok(());
        }
        swap(&parked, &spot)?;
        parked.unlink()?;
        Err(OpError::Changed)
    }

    /// Changes the permission bits from what was expected.
    pub(super) fn change_mode(&mut self, op: &JournalOp, from: u16, to: u16) -> Result<(), OpError> {
        self.op_step(op, HookPoint::Begin)?;
        let seen = observe(self.roots.get(op.root)?, &op.path)?;
        let is_from = |mode: u16| mode == from || lost_by_writing(Some(mode), from);
        let seen = seen.filter(|seen| is_from(seen.mode) && seen.kind != ObservedKind::Symlink);
        let seen = seen.ok_or(OpError::Changed)?;
        self.op_step(op, HookPoint::Checked)?;
        Ok(attributes::set_mode(seen.handle.as_fd(), to)?)
    }

    /// Returns the entry at a path of the op's root.
    pub(super) fn observe_at(&self, op: &JournalOp, path: &RelPath) -> Result<Option<ObservedFile>, OpError> {
        observe(self.roots.get(op.root)?, path)
    }
}

fn is_link_at(seen: &Option<ObservedFile>, target: &[u8]) -> Result<bool, OpError> {
    match seen {
        Some(seen) if seen.kind == ObservedKind::Symlink => Ok(seen.link_target()? == target),
        Some(_) | None => Ok(false),
    }
}

/// Returns whether the observed entry has the kind and the content of the image.
pub(super) fn is_same(seen: &ObservedFile, saved: &SavedState) -> Result<bool, OpError> {
    let wanted = ContentStamp::of_state(&saved.state);
    Ok(match (seen.kind, saved.state.kind) {
        (ObservedKind::File, domain::Kind::File) => seen.stamp(&saved.state)? == wanted,
        (ObservedKind::Symlink, domain::Kind::Symlink) => {
            ContentStamp::of_bytes(&seen.link_target()?) == wanted
        }
        (ObservedKind::Dir, domain::Kind::Dir) => true,
        (
            ObservedKind::File | ObservedKind::Symlink | ObservedKind::Dir | ObservedKind::Special,
            domain::Kind::File | domain::Kind::Symlink | domain::Kind::Dir,
        ) => false,
    })
}
