//! Undoes one op.
//!
//! # Invariants
//! 1. Each op is looked at afresh: a path that is as before stays, our change is removed, an edit by others
//!    stays.
//! 2. A file that was edited after the plan changed it loses only the plan's part, if the two can be
//!    separated line by line. Otherwise it stays as it is and is named. No byte of it is lost either way.
//! 3. Killed anywhere, it is run again and comes to the same end.

use domain::is_text;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::classify::{OpProgress, TornFile, is_mix};
use super::do_op::is_same;
use super::hooks::{HookPoint, JournalStep};
use super::observe_file::{ContentStamp, EntryLocation, ObservedFile, ObservedKind, OpError, observe};
use super::op::{JournalOp, OpAction, SavedState};
use super::replay::{JournalReplay, ReplayOrigin};
use super::save_before_overwrite::OverwriteReason;
use super::write_file::{ReplacedFilePolicy, WriteSource, move_in, swap};
use crate::git::refs::move_ref;

/// The most looks at an op at whose path another process writes at the same moment.
const LOOKS_MAX: u32 = 8;

impl JournalReplay {
    /// Restores the entry at the op's path to its state before the op.
    pub(super) fn undo_op(&mut self, op: &JournalOp) -> Result<(), OpError> {
        self.journals.hooks.step(JournalStep::TakeBack { n: op.n })?;
        self.touched.note(op);
        for _ in 0..LOOKS_MAX {
            let class = self.classify(op)?;
            let result = match class {
                OpProgress::Pre => self.drop_staged(op).and_then(|()| self.put_bits_back(op)),
                OpProgress::Post => self.restore(op, None),
                OpProgress::Torn(torn) => {
                    self.save_torn(op, torn).and_then(|()| self.restore(op, Some(torn)))
                }
                OpProgress::Other => self.take_back_edited(op),
            };
            match result {
                Err(OpError::Changed) => {}
                Err(OpError::Escapes) => break,
                other => return other,
            }
        }
        self.leave(op)
    }

    /// Saves what a recovery is about to write over. A process that rolls back its own half-written file
    /// knows where every byte came from.
    pub(super) fn save_torn(&mut self, op: &JournalOp, torn: TornFile) -> Result<(), OpError> {
        match (self.origin, torn.explained) {
            (ReplayOrigin::Live, true) => Ok(()),
            // Its bytes are all in the journal: a full disk must not prevent the repair.
            (ReplayOrigin::Recovery, true) => self.save_found(op, OverwriteReason::Torn).or(Ok(())),
            (ReplayOrigin::Live | ReplayOrigin::Recovery, false) => {
                self.save_found(op, OverwriteReason::Torn)
            }
        }
    }

    fn restore(&mut self, op: &JournalOp, torn: Option<TornFile>) -> Result<(), OpError> {
        match &op.how {
            OpAction::Write { pre, post, .. } => {
                if self.observe_at(op, &op.parked)?.is_some() && torn.is_none() {
                    return self.swap_back(op, post);
                }
                let expected = torn.map_or(ContentStamp::of_state(&post.state), |torn| torn.stamp);
                let mistake = if torn.is_some() {
                    ReplacedFilePolicy::Leave
                } else {
                    ReplacedFilePolicy::PutBack(post)
                };
                self.rewrite(op, expected, WriteSource::Image(pre), mistake)
            }
            OpAction::Create { post } => {
                let expected = torn.map_or(ContentStamp::of_state(&post.state), |torn| torn.stamp);
                self.take_away(op, |seen| has_stamp(seen, expected, post))
            }
            OpAction::Link { pre: None, post } => self.take_away(op, |seen| is_same(seen, post)),
            OpAction::Link { pre: Some(pre), post } => {
                if self.observe_at(op, &op.parked)?.is_some() {
                    return self.swap_back(op, post);
                }
                let (target, now) = (self.read_all(pre)?, self.read_all(post)?);
                self.link(op, Some(&now), &target, pre)?;
                self.parked_spot(op)?.unlink()
            }
            OpAction::Remove { pre } => self.put_back(op, pre),
            OpAction::MakeDir { .. } => self.unmake_dir(op),
            OpAction::RemoveDir { pre } if torn.is_some() => self.apply_dir_attributes(op, pre),
            OpAction::RemoveDir { pre } => self.make_dir(op, pre),
            OpAction::Mode { pre, post } => self.change_mode(op, post.state.mode, pre.state.mode),
            OpAction::Ref(moved) => {
                self.op_step(op, HookPoint::Begin)?;
                Ok(move_ref(self.roots.get(op.root)?, &moved.reversed())?)
            }
        }
    }

    /// Exchanges the new one for the old one that is parked, which gets its inode back in its place.
    fn swap_back(&mut self, op: &JournalOp, post: &SavedState) -> Result<(), OpError> {
        let (spot, parked) =
            (EntryLocation::open(self.roots.get(op.root)?, &op.path)?, self.parked_spot(op)?);
        self.op_step(op, HookPoint::Swap)?;
        if !swap(&parked, &spot)? {
            return Err(Errno::INVAL.into());
        }
        self.op_step(op, HookPoint::Swapped)?;
        let out = self.observe_at(op, &op.parked)?.ok_or(OpError::Changed)?;
        if is_same(&out, post)? {
            return parked.unlink();
        }
        swap(&parked, &spot)?;
        Err(OpError::Changed)
    }

    /// Removes what the op made, if it is still that.
    fn take_away(
        &mut self,
        op: &JournalOp,
        is_ours: impl Fn(&ObservedFile) -> Result<bool, OpError>,
    ) -> Result<(), OpError> {
        self.park(op, is_ours)?;
        self.parked_spot(op)?.unlink()
    }

    /// Puts what was moved aside back in its place, or a new one like it.
    fn put_back(&mut self, op: &JournalOp, pre: &SavedState) -> Result<(), OpError> {
        let root = self.roots.get(op.root)?;
        if observe(root, &op.parked)?.is_some() {
            let (spot, parked) =
                (EntryLocation::open(root, &op.path)?, EntryLocation::open(root, &op.parked)?);
            self.op_step(op, HookPoint::Swap)?;
            return match move_in(&parked, &spot) {
                Err(OpError::Changed) => self.leave(op),
                other => other,
            };
        }
        match pre.state.kind {
            domain::Kind::File => self.create_file(op, pre),
            domain::Kind::Symlink => {
                let target = self.read_all(pre)?;
                self.link(op, None, &target, pre)
            }
            domain::Kind::Dir => Err(OpError::Changed),
        }
    }

    fn unmake_dir(&mut self, op: &JournalOp) -> Result<(), OpError> {
        self.op_step(op, HookPoint::Begin)?;
        let spot = EntryLocation::open(self.roots.get(op.root)?, &op.path)?;
        match rustix::fs::unlinkat(&spot.parent, spot.name.as_c_str(), AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                self.leave_dir(op);
                Ok(())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// A directory that is not empty stays. It is named unless something in it is.
    fn leave_dir(&mut self, op: &JournalOp) {
        let below = [op.path.as_bytes(), b"/"].concat();
        let names_more = self
            .left
            .iter()
            .filter_map(|n| self.log.ops.get(*n as usize))
            .any(|other| other.root == op.root && other.path.as_bytes().starts_with(&below));
        if !names_more {
            self.left.insert(op.n);
        }
    }

    /// Removes the content that is staged for an op that did not happen.
    fn drop_staged(&mut self, op: &JournalOp) -> Result<(), OpError> {
        let parked = match self.observe_at(op, &op.parked) {
            Ok(Some(parked)) => parked,
            // A link that is not removed is in its place: nothing was staged.
            Ok(None) | Err(OpError::Escapes) => return Ok(()),
            Err(error) => return Err(error),
        };
        // Rolling back a created file moves it aside first: in that moment the edit of another process may be
        // there.
        let made = match &op.how {
            OpAction::Create { post } | OpAction::Link { pre: None, post } => Some(post),
            OpAction::Write { .. }
            | OpAction::Link { .. }
            | OpAction::Remove { .. }
            | OpAction::MakeDir { .. }
            | OpAction::RemoveDir { .. }
            | OpAction::Mode { .. }
            | OpAction::Ref(_) => None,
        };
        if made.is_some() && !self.is_explained(op, &parked)? {
            let root = self.roots.get(op.root)?;
            move_in(&EntryLocation::open(root, &op.parked)?, &EntryLocation::open(root, &op.path)?)?;
            return Err(OpError::Changed);
        }
        self.discard_parked(op)
    }

    /// Removes what is parked; bytes that are not in the journal are saved first.
    pub(super) fn discard_parked(&mut self, op: &JournalOp) -> Result<(), OpError> {
        let Some(parked) = self.observe_at(op, &op.parked)? else { return Ok(()) };
        if parked.kind == ObservedKind::File && !self.is_explained(op, &parked)? {
            self.save_found_from(op, &parked, OverwriteReason::Parked)?;
        }
        self.parked_spot(op)?.unlink()
    }

    /// Returns whether the parked entry is the old one, or a beginning of one that was being staged.
    fn is_explained(&self, op: &JournalOp, parked: &ObservedFile) -> Result<bool, OpError> {
        for saved in op.how.pre().into_iter().chain(op.how.post()) {
            if is_same(parked, saved)? {
                return Ok(true);
            }
            if parked.kind == ObservedKind::File
                && let Some(file) = parked.open_readable()?
                && is_mix(&file, vec![Box::new(self.log.image(saved))])?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take_back_edited(&mut self, op: &JournalOp) -> Result<(), OpError> {
        match &op.how {
            OpAction::Write { pre, post, .. } => self.take_back_edited_file(op, pre, post),
            OpAction::Link { pre: Some(_), post } if self.is_at(op, post)? => self.swap_back(op, post),
            OpAction::Remove { .. } if self.observe_at(op, &op.path)?.is_none() => {
                let root = self.roots.get(op.root)?;
                move_in(&EntryLocation::open(root, &op.parked)?, &EntryLocation::open(root, &op.path)?)
            }
            OpAction::Create { .. }
            | OpAction::Link { .. }
            | OpAction::Remove { .. }
            | OpAction::MakeDir { .. }
            | OpAction::RemoveDir { .. }
            | OpAction::Mode { .. }
            | OpAction::Ref(_) => self.leave(op),
        }
    }

    fn is_at(&self, op: &JournalOp, saved: &SavedState) -> Result<bool, OpError> {
        match self.observe_at(op, &op.path) {
            Ok(Some(seen)) => is_same(&seen, saved),
            Ok(None) | Err(OpError::Escapes) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The plan's part of an edited file goes, the edit stays.
    fn take_back_edited_file(
        &mut self,
        op: &JournalOp,
        pre: &SavedState,
        post: &SavedState,
    ) -> Result<(), OpError> {
        if self.is_at(op, post)? {
            // The op swapped out a save that was made in the moment before it: it is parked.
            return self.swap_back(op, post);
        }
        let Ok(Some(seen)) = self.observe_at(op, &op.path) else { return self.leave(op) };
        let merges = pre.state.text && post.state.text && seen.kind == ObservedKind::File;
        let Some(now) = (if merges { self.read_text(&seen)? } else { None }) else { return self.leave(op) };
        let (base, plan) = (self.read_all(post)?, self.read_all(pre)?);
        if let Some(found) = self.read_edited(op)?
            && let Some(merged) = self.journals.merger.merge(&base, &found, &plan)
        {
            // An earlier run had begun to write this very result.
            if now == merged {
                return self.discard_parked(op);
            }
            let sources: Vec<Box<dyn std::io::Read>> = vec![Box::new(&merged[..]), Box::new(&found[..])];
            if is_mix(&seen.open_file()?, sources)? {
                return self.write_merged(op, &now, &merged);
            }
        }
        match self.journals.merger.merge(&base, &now, &plan) {
            Some(merged) if merged == now => self.discard_parked(op),
            Some(merged) if self.open_found(op, OverwriteReason::Edited)?.is_none() => {
                self.save_found(op, OverwriteReason::Edited)?;
                self.write_merged(op, &now, &merged)
            }
            Some(_) | None => self.leave(op),
        }
    }

    fn write_merged(&mut self, op: &JournalOp, now: &[u8], merged: &[u8]) -> Result<(), OpError> {
        self.discard_parked(op)?;
        self.rewrite(op, ContentStamp::of_bytes(now), WriteSource::Bytes(merged), ReplacedFilePolicy::Leave)
    }

    /// Leaves the present entry as it is, and names it.
    fn leave(&mut self, op: &JournalOp) -> Result<(), OpError> {
        self.left.insert(op.n);
        match self.discard_parked(op) {
            // The path leads through a link by now: nothing there is touched, parked or not.
            Err(OpError::Escapes) => Ok(()),
            other => other,
        }
    }

    fn parked_spot(&self, op: &JournalOp) -> Result<EntryLocation, OpError> {
        EntryLocation::open(self.roots.get(op.root)?, &op.parked)
    }

    /// The content of a file, when it is text.
    fn read_text(&self, seen: &ObservedFile) -> Result<Option<Vec<u8>>, OpError> {
        let Some(file) = seen.open_readable()? else { return Ok(None) };
        let size = file.metadata()?.len();
        if size > domain::TEXT_BYTES_MAX {
            return Ok(None);
        }
        let bytes = read_bounded(&file)?;
        Ok(bytes.filter(|bytes| is_text(bytes, bytes.len() as u64)))
    }
}

/// All bytes of a file, when they are not too many for a text.
pub(super) fn read_bounded(file: &std::fs::File) -> Result<Option<Vec<u8>>, OpError> {
    use std::io::Read;
    let mut bytes = Vec::new();
    file.take(domain::TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= domain::TEXT_BYTES_MAX).then_some(bytes))
}

fn has_stamp(seen: &ObservedFile, expected: ContentStamp, known: &SavedState) -> Result<bool, OpError> {
    Ok(seen.kind == ObservedKind::File && seen.stamp(&known.state)? == expected)
}
