//! Writes the first part of a journal: header, images (the bytes of each file before and after), ops.
//!
//! # Invariants
//! 1. All bytes that recovery and undo need are in the journal or linked from it, each content once, compared
//!    with the hash that was promised.
//! 2. Images pass through memory one piece at a time.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::AsFd;

use domain::{FileState, Hash, Kind, RelPath, RootIndex};

use super::JournalId;
use super::attributes;
use super::codec;
use super::content_links::{ContentLinks, INLINE_BYTES_MAX};
use super::frame::{FrameKind, FrameSpan, FrameWriter};
use super::journal_file::JournalFile;
use super::observe_file::{ObservedKind, OpError, OpenRoots, observe, permission_bits};
use super::op::{ByteSource, JournalOp, OpAction, SavedState};
use super::op_order::{OpKind, PlannedOp};
use super::prepare::{PrepareError, refused};
use super::request::{Attributes, FileImage, ImageBytes, JournalChange, JournalHeader, Request};
use crate::content::ContentSource;

/// Writes header, images and ops.
pub(super) fn write_journal(
    file: JournalFile,
    header: &JournalHeader,
    request: &Request,
    planned: &[PlannedOp],
    roots: &OpenRoots,
    content: &dyn ContentSource,
    links: &ContentLinks,
) -> Result<(JournalFile, u64, Vec<JournalOp>), PrepareError> {
    let mut frames = FrameWriter::begin(file)?;
    frames.append(FrameKind::Header, &codec::encode_header(header))?;
    let mut writing = JournalWriter { frames, roots, content, links, contents: BTreeMap::new() };
    let mut ops = Vec::with_capacity(planned.len() + request.refs.len());
    for (n, one) in (0_u32..).zip(planned) {
        let change = one.change.and_then(|index| request.changes.get(index));
        let how = writing.action(one, change)?;
        ops.push(JournalOp {
            n,
            root: one.root,
            path: one.path.clone(),
            from: change.and_then(|change| change.from.clone()),
            how,
            parked: parked_path(header.id, n, one.park_in.as_ref())?,
            in_the_way: one.in_the_way,
            cleared_by: one.cleared_by,
        });
    }
    for (root, moved) in &request.refs {
        let n = u32::try_from(ops.len()).map_err(io::Error::other)?;
        let path = RelPath::new(&moved.name)
            .map_err(|error| PrepareError::Invalid { what: format!("{}: {error}", moved.name) })?;
        let parked = parked_path(header.id, n, None)?;
        let how = OpAction::Ref(moved.clone());
        ops.push(JournalOp {
            n,
            root: *root,
            path,
            from: None,
            how,
            parked,
            in_the_way: false,
            cleared_by: None,
        });
    }
    for op in &ops {
        writing.frames.append(FrameKind::Op, &codec::encode_op(op))?;
    }
    // Once more, elsewhere on the disk: a journal with a bad place in it is carried out all the same.
    for op in &ops {
        writing.frames.append(FrameKind::OpCopy, &codec::encode_op(op))?;
    }
    let count = u32::try_from(ops.len()).map_err(io::Error::other)?;
    writing.frames.append(FrameKind::HeaderCopy, &codec::encode_header_copy(header, count))?;
    let (file, end) = writing.frames.finish()?;
    Ok((file, end, ops))
}

fn parked_path(id: JournalId, n: u32, directory: Option<&RelPath>) -> Result<RelPath, PrepareError> {
    let name = format!(".agents-{id}-{n}");
    let path = match directory {
        Some(directory) => [directory.as_bytes(), b"/", name.as_bytes()].concat(),
        None => name.into_bytes(),
    };
    RelPath::new(path).map_err(|error| PrepareError::Invalid { what: error.to_string() })
}

/// A journal being written.
struct JournalWriter<'a> {
    frames: FrameWriter,
    roots: &'a OpenRoots,
    content: &'a dyn ContentSource,
    links: &'a ContentLinks,
    contents: BTreeMap<Hash, ByteSource>,
}

impl JournalWriter<'_> {
    fn action(&mut self, one: &PlannedOp, change: Option<&JournalChange>) -> Result<OpAction, PrepareError> {
        let missing = || PrepareError::Invalid { what: format!("{} lacks an image", one.path) };
        let pre = change.and_then(|change| change.pre.as_ref());
        let post = change.and_then(|change| change.post.as_ref());
        Ok(match one.verb {
            OpKind::Write => {
                let mut pre = self.with_bytes(one, pre.ok_or_else(missing)?)?;
                let mut post = self.with_bytes(one, post.ok_or_else(missing)?)?;
                // The mode that the file has meanwhile: writing takes bits away, which are put back.
                pre.state.mode = one.from_mode.unwrap_or(pre.state.mode);
                post.state.mode = pre.state.mode;
                pre.attributes = self.capabilities_at(one)?;
                OpAction::Write { pre, post, apart: one.apart }
            }
            OpKind::Create => {
                let mut post = self.with_bytes(one, post.ok_or_else(missing)?)?;
                let from = change.and_then(|change| change.from.as_ref());
                if let (None, Some(from)) = (&post.attributes, from) {
                    post.attributes = self.attributes_at(one.root, from)?;
                    refuse_lost_capabilities(from, post.attributes.as_ref())?;
                }
                OpAction::Create { post }
            }
            OpKind::Remove => {
                let mut pre = self.with_bytes(one, pre.ok_or_else(missing)?)?;
                pre.attributes = self.attributes_at(one.root, &one.path)?;
                OpAction::Remove { pre }
            }
            OpKind::MakeDir => {
                let mut post = match post {
                    Some(post) => without_bytes(post),
                    None => self.like_the_directory_above(one)?,
                };
                post.state.mode = one.to_mode.unwrap_or(post.state.mode);
                OpAction::MakeDir { post }
            }
            OpKind::RemoveDir => {
                let mut pre = without_bytes(pre.ok_or_else(missing)?);
                pre.attributes = self.attributes_at(one.root, &one.path)?;
                pre.state.mode = one.from_mode.unwrap_or(pre.state.mode);
                OpAction::RemoveDir { pre }
            }
            OpKind::Link => {
                let pre = pre.filter(|pre| pre.state.kind == Kind::Symlink);
                let pre = pre.map(|pre| self.with_bytes(one, pre)).transpose()?;
                OpAction::Link { pre, post: self.with_bytes(one, post.ok_or_else(missing)?)? }
            }
            OpKind::Open | OpKind::Mode | OpKind::Close => {
                // A directory that is made or removed has one image, and two modes; the other image is of
                // another kind.
                let is_other = pre.zip(post).is_some_and(|(pre, post)| pre.state.kind != post.state.kind);
                let (pre, post) = match (is_other, one.verb == OpKind::Open, one.verb == OpKind::Close) {
                    (true, true, _) => (pre, pre),
                    (true, _, true) => (post, post),
                    (true | false, _, _) => (pre.or(post), post.or(pre)),
                };
                let mut pre = without_bytes(pre.ok_or_else(missing)?);
                let mut post = without_bytes(post.ok_or_else(missing)?);
                pre.state.mode = one.from_mode.unwrap_or(pre.state.mode);
                post.state.mode = one.to_mode.unwrap_or(post.state.mode);
                OpAction::Mode { pre, post }
            }
        })
    }

    /// Returns the owner and attributes of the present entry.
    fn attributes_at(&self, root: RootIndex, path: &RelPath) -> Result<Option<Attributes>, PrepareError> {
        let seen = match observe(self.roots.get(root)?, path) {
            // Behind a directory that this journal opens.
            Err(OpError::Io(error)) if error.kind() == io::ErrorKind::PermissionDenied => None,
            seen => seen.map_err(|error| refused(path, error))?,
        };
        Ok(seen.map(|seen| attributes::read(seen.handle.as_fd())).transpose()?)
    }

    /// Owner and attributes of a file that is written, if it has capabilities: writing takes them away.
    fn capabilities_at(&self, one: &PlannedOp) -> Result<Option<Attributes>, PrepareError> {
        let attributes = self.attributes_at(one.root, &one.path)?;
        let capable = attributes.filter(|attributes| attributes.capabilities().is_some());
        refuse_lost_capabilities(&one.path, capable.as_ref())?;
        Ok(capable)
    }

    /// Returns the state of a directory that no change mentions. It gets the mode of the nearest one above
    /// it, and of its special bits the one that directories inherit.
    fn like_the_directory_above(&self, one: &PlannedOp) -> Result<SavedState, PrepareError> {
        let root = self.roots.get(one.root)?;
        let mut above = one.path.parent();
        let mode = loop {
            let Some(path) = above else {
                break permission_bits(rustix::fs::fstat(root).map_err(io::Error::from)?.st_mode);
            };
            match observe(root, &path).map_err(|error| refused(&path, error))? {
                Some(seen) if seen.kind == ObservedKind::Dir => break seen.mode,
                Some(_) | None => above = path.parent(),
            }
        };
        Ok(SavedState { state: FileState::dir(mode & 0o2777), bytes: None, attributes: None })
    }

    /// Links or writes the bytes of an image, unless the same are there already.
    fn with_bytes(&mut self, one: &PlannedOp, image: &FileImage) -> Result<SavedState, PrepareError> {
        let known = self.contents.get(&image.state.hash).copied();
        let bytes = match known {
            Some(bytes) => bytes,
            None if self.is_linked(&image.state) => ByteSource::Linked,
            None => ByteSource::Inline(self.append_bytes(one, image)?),
        };
        self.contents.insert(image.state.hash, bytes);
        Ok(SavedState { bytes: Some(bytes), ..without_bytes(image) })
    }

    /// Links a large content whose file is known. That a user's file still has it is found out by the op,
    /// which compares before it writes.
    fn is_linked(&self, state: &FileState) -> bool {
        let file = (state.size > INLINE_BYTES_MAX).then(|| self.content.linkable_file(&state.hash));
        file.flatten().is_some_and(|file| self.links.add(&file, state))
    }

    fn append_bytes(&mut self, one: &PlannedOp, image: &FileImage) -> Result<FrameSpan, PrepareError> {
        let unreadable = |source| PrepareError::Content { path: one.path.clone(), source };
        let (reader, wrong): (Box<dyn Read + '_>, _) = match &image.bytes {
            ImageBytes::Here(bytes) => (Box::new(&bytes[..]), HashMismatch::Content),
            ImageBytes::Content => {
                (self.content.open(&image.state.hash).map_err(unreadable)?, HashMismatch::Content)
            }
            ImageBytes::AsFound => (self.open_found(one)?, HashMismatch::Changed),
        };
        let mut hashing = HashingReader { from: reader, hasher: blake3::Hasher::new() };
        let span = self.frames.append_image(&mut hashing).map_err(unreadable)?;
        let hash = Hash::from_bytes(*hashing.hasher.finalize().as_bytes());
        if (hash, span.len) == (image.state.hash, image.state.size) {
            return Ok(span);
        }
        Err(match wrong {
            HashMismatch::Changed => PrepareError::ChangedUnderUs { path: one.path.clone() },
            HashMismatch::Content => {
                unreadable(io::Error::new(io::ErrorKind::InvalidData, "its bytes do not match its hash"))
            }
        })
    }

    fn open_found(&self, one: &PlannedOp) -> Result<Box<dyn Read>, PrepareError> {
        let changed = || PrepareError::ChangedUnderUs { path: one.path.clone() };
        let seen =
            observe(self.roots.get(one.root)?, &one.path).map_err(|error| refused(&one.path, error))?;
        let seen = seen.ok_or_else(changed)?;
        match seen.kind {
            ObservedKind::File => Ok(Box::new(seen.open_file()?)),
            ObservedKind::Symlink => Ok(Box::new(io::Cursor::new(seen.link_target()?))),
            ObservedKind::Dir | ObservedKind::Special => Err(changed()),
        }
    }
}

/// Returns an error if there are capabilities among the attributes that could not be put back.
fn refuse_lost_capabilities(path: &RelPath, attributes: Option<&Attributes>) -> Result<(), PrepareError> {
    let has_some = attributes.is_some_and(|attributes| attributes.capabilities().is_some());
    match has_some && !attributes::may_put_capabilities() {
        true => Err(PrepareError::Capabilities { path: path.clone() }),
        false => Ok(()),
    }
}

/// The meaning of bytes that do not have the expected hash.
enum HashMismatch {
    /// Another process saved the file.
    Changed,
    /// The content store is damaged, or the request is.
    Content,
}

fn without_bytes(image: &FileImage) -> SavedState {
    SavedState { state: image.state, bytes: None, attributes: image.attributes.clone() }
}

struct HashingReader<'a> {
    from: Box<dyn Read + 'a>,
    hasher: blake3::Hasher,
}

impl Read for HashingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}
