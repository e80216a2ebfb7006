//! Classifies the progress of an op from the file at its path.
//!
//! # The classes
//! - *Pre*: as it was. *Post*: as it shall be.
//! - *Torn*: half of ours. Within one boot that is exactly what a killed process leaves, see
//!   [`super::write_file`]: a beginning of the new bytes over the old ones. After a power loss pages may be
//!   missing anywhere. Then it is a file that is neither, and that no process has written since the machine
//!   started.
//! - *Other*: an edit by the user or another program.
//!
//! # Invariants
//! 1. Torn is never guessed within one boot: every byte is accounted for.
//! 2. If one op clears the way for another, each is classified on its own. If the way is not clear, the other
//!    cannot have been made.
//! 3. If a later op changes the result of an earlier one, or closes the directory above it, the earlier one
//!    is done. Ops are begun in their order.
//!
//! # Not here
//! The consequences ([`super::recover`], [`super::undo_op`]).

use std::fs::File;
use std::io::Read;

use domain::RelPath;

use super::do_op::{STICKY, is_same};
use super::frame::PIECE_BYTES;
use super::log::Mark;
use super::observe_file::{ContentStamp, DeviceNumbers, ObservedFile, ObservedKind, OpError};
use super::op::{JournalOp, OpAction, SavedState};
use super::replay::JournalReplay;
use super::save_before_overwrite::OverwriteReason;
use crate::git::refs::read_ref;

const SET_GROUP_ID: u16 = 0o2000;
const SET_USER_ID: u16 = 0o4000;

/// A directory that was made, and has not got its owner and mode.
const UNDRESSED: TornFile = TornFile { stamp: ContentStamp::NOTHING, explained: true };

/// The progress of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpProgress {
    /// Not at all.
    Pre,
    /// All the way.
    Post,
    /// Half of it.
    Torn(TornFile),
    /// Another process changed it.
    Other,
}

/// A file that is half ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TornFile {
    /// The stamp of its present content.
    pub(super) stamp: ContentStamp,
    /// True if all its bytes are in the journal too.
    pub(super) explained: bool,
}

impl JournalReplay {
    /// Returns how far the op came. A path that leads through a link is an edit by others.
    pub(super) fn classify(&self, op: &JournalOp) -> Result<OpProgress, OpError> {
        match self.classify_inside(op) {
            Err(OpError::Escapes) => Ok(OpProgress::Other),
            Err(OpError::Io(error))
                if error.kind() == std::io::ErrorKind::PermissionDenied && self.is_closed_by_later(op)? =>
            {
                Ok(OpProgress::Post)
            }
            other => other,
        }
    }

    /// Returns whether a later op has closed the file at the op's path, or a directory above it.
    fn is_closed_by_later(&self, op: &JournalOp) -> Result<bool, OpError> {
        let later = self.log.ops.get(op.n as usize + 1..).unwrap_or_default();
        let is_on_way = |path: &RelPath| *path == op.path || is_above(path, &op.path);
        for other in later.iter().filter(|other| other.root == op.root && is_on_way(&other.path)) {
            let OpAction::Mode { post, .. } = &other.how else { continue };
            match self.observe_at(other, &other.path) {
                Ok(Some(seen)) if seen.mode == post.state.mode => return Ok(true),
                // Closed itself by one that is still later.
                Err(OpError::Io(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// The ops at the same path that come after this one.
    fn later_here<'a>(&'a self, op: &'a JournalOp) -> impl Iterator<Item = &'a JournalOp> {
        let numbers = self.log.by_place.get(&(op.root, op.path.clone())).map(Vec::as_slice);
        let later = numbers.unwrap_or_default().iter().filter(|n| **n > op.n);
        later.filter_map(|n| self.log.ops.get(*n as usize))
    }

    /// Returns true if a later op gives the path this mode.
    pub(super) fn is_mode_of_later(&self, op: &JournalOp, mode: u16) -> bool {
        let leaves = |other: &JournalOp| match &other.how {
            OpAction::Mode { post, .. } => mode == post.state.mode,
            OpAction::Write { .. }
            | OpAction::Create { .. }
            | OpAction::Remove { .. }
            | OpAction::MakeDir { .. }
            | OpAction::RemoveDir { .. }
            | OpAction::Link { .. }
            | OpAction::Ref(_) => false,
        };
        self.later_here(op).any(leaves)
    }

    /// Returns true if what is seen is what a later op at the same path leaves.
    fn is_left_by_later(&self, op: &JournalOp, seen: Option<&ObservedFile>) -> bool {
        let removes_dir = |other: &JournalOp| matches!(other.how, OpAction::RemoveDir { .. });
        match seen {
            Some(seen) if self.is_mode_of_later(op, seen.mode) => true,
            Some(seen) if seen.kind == ObservedKind::Dir => false,
            Some(_) | None => self.later_here(op).any(removes_dir),
        }
    }

    fn classify_inside(&self, op: &JournalOp) -> Result<OpProgress, OpError> {
        if let Some(n) = op.cleared_by
            && let Some(clearing) = self.log.ops.get(n as usize)
            && self.classify(clearing)? == OpProgress::Pre
        {
            return Ok(OpProgress::Pre);
        }
        match &op.how {
            OpAction::Write { pre, post, .. } => self.classify_write(op, pre, post),
            OpAction::Create { post } => self.classify_create(op, post),
            OpAction::Remove { pre } => self.classify_remove(op, pre),
            OpAction::MakeDir { post } => self.classify_make_dir(op, post),
            OpAction::RemoveDir { pre } => self.classify_remove_dir(op, pre),
            OpAction::Link { pre, post } => self.classify_link(op, pre.as_ref(), post),
            OpAction::Mode { pre, post } => {
                let seen = self.observe_at(op, &op.path)?;
                let mode = seen.as_ref().map(|seen| seen.mode);
                Ok(if mode == Some(pre.state.mode) && mode != Some(post.state.mode) {
                    OpProgress::Pre
                } else if mode == Some(post.state.mode) || self.is_left_by_later(op, seen.as_ref()) {
                    OpProgress::Post
                } else if lost_by_writing(mode, pre.state.mode) {
                    // A write in place was killed before it put the bits back.
                    OpProgress::Pre
                } else {
                    OpProgress::Other
                })
            }
            OpAction::Ref(moved) => {
                let now = read_ref(self.roots.get(op.root)?, &moved.name)?;
                Ok(if now == moved.new {
                    OpProgress::Post
                } else if now == moved.old {
                    OpProgress::Pre
                } else {
                    OpProgress::Other
                })
            }
        }
    }

    fn classify_write(
        &self,
        op: &JournalOp,
        pre: &SavedState,
        post: &SavedState,
    ) -> Result<OpProgress, OpError> {
        let Some(seen) = self.observe_at(op, &op.path)?.filter(|seen| seen.kind == ObservedKind::File) else {
            return Ok(OpProgress::Other);
        };
        let file = seen.open_file()?;
        let stamp = ContentStamp::of_file(&file)?;
        if stamp == ContentStamp::of_state(&pre.state) {
            // With the same bytes on both sides, the file with other names shows which one is in place.
            let is_same_content = stamp == ContentStamp::of_state(&post.state);
            let parked = if is_same_content { self.observe_at(op, &op.parked)? } else { None };
            let is_swapped = parked.is_some_and(|parked| parked.links > seen.links);
            return Ok(if is_swapped { OpProgress::Post } else { OpProgress::Pre });
        }
        if stamp == ContentStamp::of_state(&post.state) {
            return self.swapped_out(op, pre);
        }
        let explained = self.is_half_written(op, pre, post, &file, stamp)?;
        self.torn_or_other(&seen, stamp, explained)
    }

    /// Classifies an op whose new state is in place. The state that it swapped out must be the old one, or it
    /// was a user's save.
    fn swapped_out(&self, op: &JournalOp, pre: &SavedState) -> Result<OpProgress, OpError> {
        match self.observe_at(op, &op.parked)? {
            Some(out) if !is_same(&out, pre)? => Ok(OpProgress::Other),
            Some(_) | None => Ok(OpProgress::Post),
        }
    }

    fn torn_or_other(
        &self,
        seen: &ObservedFile,
        stamp: ContentStamp,
        explained: bool,
    ) -> Result<OpProgress, OpError> {
        let lost_pages =
            self.devices == DeviceNumbers::Renumbered && seen.mtime_s < self.journals.boot.started_s;
        let torn = explained || lost_pages;
        Ok(if torn { OpProgress::Torn(TornFile { stamp, explained }) } else { OpProgress::Other })
    }

    /// Returns whether the bytes are those that a killed write leaves: forward, backward, or over what was
    /// found by an earlier recovery.
    fn is_half_written(
        &self,
        op: &JournalOp,
        pre: &SavedState,
        post: &SavedState,
        file: &File,
        stamp: ContentStamp,
    ) -> Result<bool, OpError> {
        let size = stamp.size;
        let image = |saved| -> Box<dyn Read + '_> { Box::new(self.log.image(saved)) };
        if size >= pre.state.size && is_mix(file, vec![image(post), image(pre)])? {
            return Ok(true);
        }
        let least = pre.state.size.min(post.state.size);
        let going_back = matches!(self.log.mark, Mark::Back(_));
        if going_back && size >= least && is_mix(file, vec![image(pre), image(post), image(pre)])? {
            return Ok(true);
        }
        for over in [post, pre] {
            if let Some(found) = self.open_found(op, OverwriteReason::Torn)?
                && size >= found.metadata()?.len().min(over.state.size)
                && is_mix(file, vec![image(over), Box::new(found)])?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn classify_create(&self, op: &JournalOp, post: &SavedState) -> Result<OpProgress, OpError> {
        let Some(seen) = self.observe_at(op, &op.path)? else { return Ok(OpProgress::Pre) };
        if seen.kind != ObservedKind::File {
            return Ok(OpProgress::Other);
        }
        let stamp = seen.stamp(&post.state)?;
        if stamp == ContentStamp::of_state(&post.state) {
            return Ok(OpProgress::Post);
        }
        let Some(file) = seen.open_readable()? else { return Ok(OpProgress::Other) };
        // A created file appears whole. Only one that an earlier recovery found without its pages is written
        // in place.
        let image = self.log.image(post);
        let explained = match self.open_found(op, OverwriteReason::Torn)? {
            Some(found) => is_mix(&file, vec![Box::new(image), Box::new(found)])?,
            None => false,
        };
        self.torn_or_other(&seen, stamp, explained)
    }

    fn classify_remove(&self, op: &JournalOp, pre: &SavedState) -> Result<OpProgress, OpError> {
        let parked = self.observe_at(op, &op.parked)?;
        let parked_is_pre = match &parked {
            Some(parked) => is_same(parked, pre)?,
            None => false,
        };
        match self.observe_at(op, &op.path)? {
            // The op that this one cleared the way for judges the file that is there instead.
            Some(_) if op.in_the_way && parked_is_pre => Ok(OpProgress::Post),
            Some(seen) if is_same(&seen, pre)? => Ok(OpProgress::Pre),
            Some(_) => Ok(OpProgress::Other),
            None if parked.is_none() || parked_is_pre => Ok(OpProgress::Post),
            // Another process saved it in the moment before it was moved aside.
            None => Ok(OpProgress::Other),
        }
    }

    fn classify_make_dir(&self, op: &JournalOp, post: &SavedState) -> Result<OpProgress, OpError> {
        let Some(seen) = self.observe_at(op, &op.path)? else { return Ok(OpProgress::Pre) };
        if seen.kind != ObservedKind::Dir {
            return Ok(OpProgress::Other);
        }
        let is_dressed = !is_undressed(seen.mode, post.state.mode) || self.is_left_by_later(op, Some(&seen));
        Ok(if is_dressed { OpProgress::Post } else { OpProgress::Torn(UNDRESSED) })
    }

    fn classify_remove_dir(&self, op: &JournalOp, pre: &SavedState) -> Result<OpProgress, OpError> {
        let going_back = matches!(self.log.mark, Mark::Back(_));
        Ok(match self.observe_at(op, &op.path)? {
            None => OpProgress::Post,
            // A rollback was killed after it had made the directory again.
            Some(seen)
                if seen.kind == ObservedKind::Dir
                    && going_back
                    && is_undressed(seen.mode, pre.state.mode) =>
            {
                OpProgress::Torn(UNDRESSED)
            }
            Some(seen) if seen.kind == ObservedKind::Dir => OpProgress::Pre,
            Some(_) if op.in_the_way => OpProgress::Post,
            Some(_) => OpProgress::Other,
        })
    }

    fn classify_link(
        &self,
        op: &JournalOp,
        pre: Option<&SavedState>,
        post: &SavedState,
    ) -> Result<OpProgress, OpError> {
        let seen = self.observe_at(op, &op.path)?;
        match (seen, pre) {
            (None, None) => Ok(OpProgress::Pre),
            (None, Some(_)) => Ok(OpProgress::Other),
            (Some(seen), Some(pre)) if is_same(&seen, pre)? => Ok(OpProgress::Pre),
            (Some(seen), Some(pre)) if is_same(&seen, post)? => self.swapped_out(op, pre),
            (Some(seen), None) if is_same(&seen, post)? => Ok(OpProgress::Post),
            (Some(_), _) => Ok(OpProgress::Other),
        }
    }
}

fn is_above(directory: &RelPath, path: &RelPath) -> bool {
    let rest = path.as_bytes().strip_prefix(directory.as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b"/"))
}

/// Returns true if a directory with this mode was made by us and has not got its own, see
/// `initial_dir_mode`. Journals of earlier versions made directories with mode 0700.
fn is_undressed(mode: u16, own: u16) -> bool {
    let (mode, own) = (mode & !SET_GROUP_ID, own & !SET_GROUP_ID);
    mode & STICKY != own & STICKY || (mode == 0o700 && own != 0o700)
}

/// Returns true if a mode is what writing leaves of `before`: the kernel takes the bits away that give a
/// program rights.
pub(super) fn lost_by_writing(mode: Option<u16>, before: u16) -> bool {
    let special = SET_USER_ID | SET_GROUP_ID;
    mode.is_some_and(|mode| mode != before && mode | (before & special) == before)
}

/// Returns whether the file is a beginning of the first source, then the rest of the second, and so on. It
/// never goes back to an earlier one. All are read in parallel, one piece in memory at a time.
///
/// Taking each source as far as it goes is enough: a later one then has less to account for.
pub(super) fn is_mix(file: &File, mut sources: Vec<Box<dyn Read + '_>>) -> Result<bool, OpError> {
    let mut at = 0;
    let mut current = 0;
    let mut pieces: Vec<Vec<u8>> = vec![Vec::new(); sources.len()];
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let count = read_full_at(file, &mut piece, at)?;
        for (source, bytes) in sources.iter_mut().zip(&mut pieces) {
            bytes.clear();
            source.take(count as u64).read_to_end(bytes)?;
        }
        for (place, byte) in piece[..count].iter().enumerate() {
            while pieces.get(current).is_some_and(|bytes| bytes.get(place) != Some(byte)) {
                current += 1;
            }
            if current == sources.len() {
                return Ok(false);
            }
        }
        if count < PIECE_BYTES {
            return Ok(true);
        }
        at += count as u64;
    }
}

fn read_full_at(file: &File, buffer: &mut [u8], at: u64) -> std::io::Result<usize> {
    use std::os::unix::fs::FileExt;
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}
