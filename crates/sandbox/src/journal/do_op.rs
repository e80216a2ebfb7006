//! One op, carried out.
//!
//! # Invariants
//! 1. An op that finds something other than what it was prepared for changes nothing that stays: [`OpError::Changed`].
//! 2. Nothing of the user's is gone before the final mark: what is removed or replaced lies parked beside it.

use std::os::fd::AsFd;

use domain::RelPath;
use rustix::fs::{AtFlags, Mode, RenameFlags};
use rustix::io::Errno;

use super::attributes;
use super::attributes::Owner;
use super::classify::lost_by_writing;
use super::hooks::Moment;
use super::op::{How, Op, Saved};
use super::replay::Work;
use super::target::{OpError, Seen, SeenKind, Spot, Stamp, look};
use super::write_file::{Mistake, Source, move_in, open_spot, swap};
use crate::git::refs::move_ref;

/// The bit by which a directory is told that was made and has not got its mode.
pub(super) const STICKY: u16 = 0o1000;

/// The mode that a directory is made with. It differs from its own in a bit that nothing but the last step of dressing
/// changes, so that a recovery sees whether that was reached.
fn naked_mode(own: u16) -> Mode {
    Mode::from_raw_mode(u32::from(0o700 | ((own & STICKY) ^ STICKY)))
}

impl Work {
    /// Carries the op out, from what it expects to what it shall leave.
    pub(super) fn perform(&mut self, op: &Op) -> Result<(), OpError> {
        self.touched.note(op);
        match &op.how {
            How::Write { pre, post, apart: true } => {
                self.op_step(op, Moment::Begin)?;
                self.replace(op, Stamp::of_state(&pre.state), Source::Image(post))
            }
            How::Write { pre, post, apart: false } => {
                let expected = Stamp::of_state(&pre.state);
                self.rewrite(op, expected, Source::Image(post), Mistake::PutBack(pre))
            }
            How::Create { post } => self.create_file(op, post),
            How::Remove { pre } => self.park(op, |seen| is_same(seen, pre)),
            How::MakeDir { post } => self.make_dir(op, post),
            How::RemoveDir { .. } => self.remove_dir(op),
            How::Link { pre, post } => {
                let target = self.read_all(post)?;
                let before = pre.as_ref().map(|pre| self.read_all(pre)).transpose()?;
                self.link(op, before.as_deref(), &target, post)
            }
            How::Mode { pre, post } => self.change_mode(op, pre.state.mode, post.state.mode),
            How::Ref(moved) => {
                self.op_step(op, Moment::Begin)?;
                Ok(move_ref(self.roots.get(op.root)?, moved)?)
            }
        }
    }

    /// Moves what is at the path aside, if it is what was expected.
    pub(super) fn park(
        &mut self,
        op: &Op,
        is_expected: impl Fn(&Seen) -> Result<bool, OpError>,
    ) -> Result<(), OpError> {
        self.op_step(op, Moment::Begin)?;
        let root = self.roots.get(op.root)?;
        let spot = open_spot(Spot::open(root, &op.path))?;
        let parked = Spot::open(root, &op.parked)?;
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
            // An earlier run moved it aside, and somebody made it anew.
            Err(Errno::EXIST) => {
                self.discard_parked(op)?;
                aside()?;
            }
            Err(errno) => return Err(errno.into()),
        }
        self.op_step(op, Moment::Parked)?;
        let out = look(self.roots.get(op.root)?, &op.parked)?.ok_or(OpError::Changed)?;
        if is_expected(&out)? {
            return Ok(());
        }
        move_in(&parked, &spot)?;
        Err(OpError::Changed)
    }

    /// Makes a directory where nothing is.
    pub(super) fn make_dir(&mut self, op: &Op, saved: &Saved) -> Result<(), OpError> {
        self.op_step(op, Moment::Begin)?;
        let spot = open_spot(Spot::open(self.roots.get(op.root)?, &op.path))?;
        match rustix::fs::mkdirat(&spot.parent, spot.name.as_c_str(), naked_mode(saved.state.mode)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(OpError::Changed),
            Err(errno) => return Err(errno.into()),
        }
        self.op_step(op, Moment::Made)?;
        self.dress_dir(op, saved)
    }

    /// Gives a directory its owner and mode.
    pub(super) fn dress_dir(&mut self, op: &Op, saved: &Saved) -> Result<(), OpError> {
        let root = self.roots.get(op.root)?;
        let seen = look(root, &op.path)?.filter(|seen| seen.kind == SeenKind::Dir).ok_or(OpError::Changed)?;
        let spot = Spot::open(root, &op.path)?;
        let owner = saved.attributes.as_ref().map_or(Owner::OfDirectory(&spot.parent), Owner::As);
        Ok(attributes::dress(seen.handle.as_fd(), owner, saved.state.mode)?)
    }

    fn remove_dir(&mut self, op: &Op) -> Result<(), OpError> {
        self.op_step(op, Moment::Begin)?;
        let spot = open_spot(Spot::open(self.roots.get(op.root)?, &op.path))?;
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
        op: &Op,
        before: Option<&[u8]>,
        target: &[u8],
        saved: &Saved,
    ) -> Result<(), OpError> {
        self.op_step(op, Moment::Begin)?;
        let root = self.roots.get(op.root)?;
        let spot = open_spot(Spot::open(root, &op.path))?;
        let parked = Spot::open(root, &op.parked)?;
        parked.unlink()?;
        rustix::fs::symlinkat(target, &parked.parent, parked.name.as_c_str())?;
        let owner = saved.attributes.as_ref().map_or(Owner::OfDirectory(&spot.parent), Owner::As);
        attributes::own_link(&parked.parent, &parked.name, owner)?;
        self.op_step(op, Moment::Swap)?;
        let Some(before) = before else {
            return move_in(&parked, &spot).inspect_err(|_| drop(parked.unlink()));
        };
        if !is_link_at(&look(self.roots.get(op.root)?, &op.path)?, before)? {
            parked.unlink()?;
            return Err(OpError::Changed);
        }
        self.replaced.insert(op.n);
        if !swap(&parked, &spot)? {
            rustix::fs::renameat(&parked.parent, parked.name.as_c_str(), &spot.parent, spot.name.as_c_str())?;
            return Ok(());
        }
        self.op_step(op, Moment::Swapped)?;
        if is_link_at(&look(self.roots.get(op.root)?, &op.parked)?, before)? {
            return Ok(());
        }
        swap(&parked, &spot)?;
        parked.unlink()?;
        Err(OpError::Changed)
    }

    /// Changes the permission bits from what was expected.
    pub(super) fn change_mode(&mut self, op: &Op, from: u16, to: u16) -> Result<(), OpError> {
        self.op_step(op, Moment::Begin)?;
        let seen = look(self.roots.get(op.root)?, &op.path)?;
        let is_from = |mode: u16| mode == from || lost_by_writing(Some(mode), from);
        let seen = seen.filter(|seen| is_from(seen.mode) && seen.kind != SeenKind::Symlink);
        let seen = seen.ok_or(OpError::Changed)?;
        self.op_step(op, Moment::Checked)?;
        Ok(attributes::set_mode(seen.handle.as_fd(), to)?)
    }

    /// What lies at a path of the op's root.
    pub(super) fn look_at(&self, op: &Op, path: &RelPath) -> Result<Option<Seen>, OpError> {
        look(self.roots.get(op.root)?, path)
    }
}

fn is_link_at(seen: &Option<Seen>, target: &[u8]) -> Result<bool, OpError> {
    match seen {
        Some(seen) if seen.kind == SeenKind::Symlink => Ok(seen.link_target()? == target),
        Some(_) | None => Ok(false),
    }
}

/// Whether what was seen has the kind and the content of the image.
pub(super) fn is_same(seen: &Seen, saved: &Saved) -> Result<bool, OpError> {
    let wanted = Stamp::of_state(&saved.state);
    Ok(match (seen.kind, saved.state.kind) {
        (SeenKind::File, domain::Kind::File) => seen.stamp(&saved.state)? == wanted,
        (SeenKind::Symlink, domain::Kind::Symlink) => Stamp::of_bytes(&seen.link_target()?) == wanted,
        (SeenKind::Dir, domain::Kind::Dir) => true,
        (
            SeenKind::File | SeenKind::Symlink | SeenKind::Dir | SeenKind::Special,
            domain::Kind::File | domain::Kind::Symlink | domain::Kind::Dir,
        ) => false,
    })
}
