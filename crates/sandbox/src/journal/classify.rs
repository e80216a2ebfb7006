//! How far an op came, told from what lies at its path.
//!
//! # The classes
//! - *Pre*: as it was. *Post*: as it shall be.
//! - *Torn*: half of ours. Within one boot that is exactly what a killed process leaves, see [`super::in_place`]: a
//!   beginning of the new bytes over the old ones. After a power loss pages may be missing anywhere; then it is a file
//!   that is neither, and that nobody has written since the machine started.
//! - *Other*: somebody's edit.
//!
//! # Invariants
//! 1. Torn is never guessed within one boot: every byte is accounted for.
//! 2. Where one op clears the way for another, each is told apart: what is not cleared cannot have been made.
//!
//! # Not here
//! What follows from it ([`super::recover`], [`super::take_back`]).

use std::fs::File;
use std::io::Read;

use super::found::Found;
use super::frame::PIECE_BYTES;
use super::log::Mark;
use super::op::{How, Op, Saved};
use super::perform::is_same;
use super::target::{Devices, OpError, Seen, SeenKind, Stamp};
use super::work::Work;
use crate::git_ref::read_ref;

const SET_GROUP_ID: u16 = 0o2000;

/// How far an op came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Not at all.
    Pre,
    /// All the way.
    Post,
    /// Half of it.
    Torn(Torn),
    /// Somebody else was there.
    Other,
}

/// A file that is half ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Torn {
    /// What it holds now.
    pub(super) stamp: Stamp,
    /// Whether all its bytes are in the journal too.
    pub(super) explained: bool,
}

impl Work {
    /// How far the op came. A path that leads through a link is somebody's doing.
    pub(super) fn classify(&self, op: &Op) -> Result<Class, OpError> {
        match self.classify_inside(op) {
            Err(OpError::Escapes) => Ok(Class::Other),
            other => other,
        }
    }

    fn classify_inside(&self, op: &Op) -> Result<Class, OpError> {
        if let Some(n) = op.cleared_by
            && let Some(clearing) = self.log.ops.get(n as usize)
            && self.classify(clearing)? == Class::Pre
        {
            return Ok(Class::Pre);
        }
        match &op.how {
            How::Write { pre, post } => self.classify_write(op, pre, post),
            How::Create { post } => self.classify_create(op, post),
            How::Remove { pre } => self.classify_remove(op, pre),
            How::MakeDir { post } => self.classify_make_dir(op, post),
            How::RemoveDir { .. } => self.classify_remove_dir(op),
            How::Link { pre, post } => self.classify_link(op, pre.as_ref(), post),
            How::Mode { pre, post } => {
                let mode = self.look_at(op, &op.path)?.map(|seen| seen.mode);
                Ok(if mode == Some(post.state.mode) {
                    Class::Post
                } else if mode == Some(pre.state.mode) {
                    Class::Pre
                } else {
                    Class::Other
                })
            }
            How::Ref(moved) => {
                let now = read_ref(self.roots.get(op.root)?, &moved.name)?;
                Ok(if now == moved.new {
                    Class::Post
                } else if now == moved.old {
                    Class::Pre
                } else {
                    Class::Other
                })
            }
        }
    }

    fn classify_write(&self, op: &Op, pre: &Saved, post: &Saved) -> Result<Class, OpError> {
        let Some(seen) = self.look_at(op, &op.path)?.filter(|seen| seen.kind == SeenKind::File) else {
            return Ok(Class::Other);
        };
        let file = seen.open_file()?;
        let stamp = Stamp::of_file(&file)?;
        if stamp == Stamp::of_state(&pre.state) {
            return Ok(Class::Pre);
        }
        if stamp == Stamp::of_state(&post.state) {
            return self.swapped_out(op, pre);
        }
        let explained = self.is_half_written(op, pre, post, &file, stamp)?;
        self.torn_or_other(&seen, stamp, explained)
    }

    /// Of an op whose new state is in place: what it swapped out must be the old one, or it was somebody's save.
    fn swapped_out(&self, op: &Op, pre: &Saved) -> Result<Class, OpError> {
        match self.look_at(op, &op.parked)? {
            Some(out) if !is_same(&out, pre)? => Ok(Class::Other),
            Some(_) | None => Ok(Class::Post),
        }
    }

    fn torn_or_other(&self, seen: &Seen, stamp: Stamp, explained: bool) -> Result<Class, OpError> {
        let lost_pages = self.devices == Devices::Renumbered && seen.mtime_s < self.journals.boot.started_s;
        let torn = explained || lost_pages;
        Ok(if torn { Class::Torn(Torn { stamp, explained }) } else { Class::Other })
    }

    /// Whether the bytes are what a killed write leaves: forward, backward, or over what was found by an earlier
    /// recovery.
    fn is_half_written(
        &self,
        op: &Op,
        pre: &Saved,
        post: &Saved,
        file: &File,
        stamp: Stamp,
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
            if let Some(found) = self.open_found(op, Found::Torn)?
                && size >= found.metadata()?.len().min(over.state.size)
                && is_mix(file, vec![image(over), Box::new(found)])?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn classify_create(&self, op: &Op, post: &Saved) -> Result<Class, OpError> {
        let Some(seen) = self.look_at(op, &op.path)? else { return Ok(Class::Pre) };
        if seen.kind != SeenKind::File {
            return Ok(Class::Other);
        }
        let file = seen.open_file()?;
        let stamp = Stamp::of_file(&file)?;
        if stamp == Stamp::of_state(&post.state) {
            return Ok(Class::Post);
        }
        // A created file appears whole. Only one that an earlier recovery found without its pages is written in place.
        let image = self.log.image(post);
        let explained = match self.open_found(op, Found::Torn)? {
            Some(found) => is_mix(&file, vec![Box::new(image), Box::new(found)])?,
            None => false,
        };
        self.torn_or_other(&seen, stamp, explained)
    }

    fn classify_remove(&self, op: &Op, pre: &Saved) -> Result<Class, OpError> {
        let parked = self.look_at(op, &op.parked)?;
        let parked_is_pre = match &parked {
            Some(parked) => is_same(parked, pre)?,
            None => false,
        };
        match self.look_at(op, &op.path)? {
            // What is there instead is for the op to judge that this one cleared the way for.
            Some(_) if op.in_the_way && parked_is_pre => Ok(Class::Post),
            Some(seen) if is_same(&seen, pre)? => Ok(Class::Pre),
            Some(_) => Ok(Class::Other),
            None if parked.is_none() || parked_is_pre => Ok(Class::Post),
            // Somebody saved it in the moment before it was moved aside.
            None => Ok(Class::Other),
        }
    }

    fn classify_make_dir(&self, op: &Op, post: &Saved) -> Result<Class, OpError> {
        let Some(seen) = self.look_at(op, &op.path)? else { return Ok(Class::Pre) };
        if seen.kind != SeenKind::Dir {
            return Ok(Class::Other);
        }
        let dressed = seen.mode & !SET_GROUP_ID == post.state.mode & !SET_GROUP_ID;
        let stamp = Stamp::of_bytes(b"");
        Ok(if dressed { Class::Post } else { Class::Torn(Torn { stamp, explained: true }) })
    }

    fn classify_remove_dir(&self, op: &Op) -> Result<Class, OpError> {
        Ok(match self.look_at(op, &op.path)? {
            None => Class::Post,
            Some(seen) if seen.kind == SeenKind::Dir => Class::Pre,
            Some(_) if op.in_the_way => Class::Post,
            Some(_) => Class::Other,
        })
    }

    fn classify_link(&self, op: &Op, pre: Option<&Saved>, post: &Saved) -> Result<Class, OpError> {
        let seen = self.look_at(op, &op.path)?;
        match (seen, pre) {
            (None, None) => Ok(Class::Pre),
            (None, Some(_)) => Ok(Class::Other),
            (Some(seen), Some(pre)) if is_same(&seen, pre)? => Ok(Class::Pre),
            (Some(seen), Some(pre)) if is_same(&seen, post)? => self.swapped_out(op, pre),
            (Some(seen), None) if is_same(&seen, post)? => Ok(Class::Post),
            (Some(_), _) => Ok(Class::Other),
        }
    }
}

/// Whether the file is a beginning of the first source, then what the second has from there on, and so on: never back
/// to an earlier one. All are read side by side, one piece in memory at a time.
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
