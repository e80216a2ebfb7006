//! A plan's changes merged with the user's files as they are now: what the journal is to do, or what stands in the way.
//!
//! # Invariants
//! 1. Nothing is written here.
//! 2. Every file is read beneath its project's root, through no link.
//! 3. What is to be written over is named by its state, so that the journal finds out if it changed meanwhile.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use domain::{
    ConflictKind, FileMerge, FileState, Hash, Kind, Merge, NetChange, Place, Plan, Region, RelPath, RootNo,
    Sides, TEXT_BYTES_MAX, hunks_in_conflict, merge, merge_file,
};
use rustix::fs::{AtFlags, Mode, OFlags};
use sandbox::beneath::{self, BeneathError, Links};
use sandbox::content::ContentSource;
use sandbox::journal::{Attributes, Bytes, Change, Image};

use super::use_plan::path_of;

/// A change that a person wants to have.
pub(super) struct Wanted {
    pub(super) change: NetChange,
    /// What people call it.
    pub(super) address: String,
    /// The plan's content, when it is not the recorded one because only some hunks are wanted.
    pub(super) content: Option<Vec<u8>>,
    /// Whom a file that is made anew shall belong to, and what hangs on it; none: as files made there.
    pub(super) attributes: Option<Attributes>,
    /// Whether the plan's file wins over a conflict.
    pub(super) take: bool,
}

/// What stands in the way of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The file or the hunk, as people call it.
    pub address: String,
    /// Why.
    pub kind: ConflictKind,
    /// Both sides of each place, where the conflict is about lines.
    pub places: Vec<ConflictPlace>,
}

/// One place that both changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictPlace {
    /// The line in the user's file, from 1.
    pub line: u32,
    /// What the user has there.
    pub yours: Vec<u8>,
    /// What the plan has there.
    pub plans: Vec<u8>,
}

/// What came of merging.
#[derive(Default)]
pub(super) struct Merged {
    pub(super) changes: Vec<Change>,
    /// Files that have both the user's edits and the plan's.
    pub(super) merged: Vec<String>,
    /// Files that are as the plan wants them already.
    pub(super) already: Vec<String>,
    pub(super) conflicts: Vec<Conflict>,
}

/// Why nothing could be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergingError {
    /// A path would leave its project.
    #[error("{path} leads out of its project")]
    Escapes {
        /// The path.
        path: RelPath,
    },
    /// A content is not kept any more, or was too large to be kept.
    #[error("the content of {address} is not kept")]
    ContentMissing {
        /// The file.
        address: String,
    },
    /// A file cannot be read.
    #[error("{address} cannot be read: {source}")]
    Io {
        /// The file.
        address: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The roots of a plan's projects, held open.
pub(super) struct Roots(BTreeMap<RootNo, OwnedFd>);

impl Roots {
    pub(super) fn open(plan: &Plan) -> Result<Self, MergingError> {
        let mut roots = BTreeMap::new();
        for (project, no) in plan.projects.iter().zip(0..) {
            let path = path_of(&project.root);
            let root = beneath::open_root(&path).map_err(|source| unreadable(&path, source))?;
            roots.insert(RootNo(no), root);
        }
        Ok(Self(roots))
    }

    fn of(&self, root: RootNo) -> Option<&OwnedFd> {
        self.0.get(&root)
    }
}

fn unreadable(path: &Path, source: io::Error) -> MergingError {
    MergingError::Io { address: path.display().to_string(), source }
}

/// A file as it lies there now.
struct Found {
    state: FileState,
    /// The bytes of what may be merged by lines.
    bytes: Option<Vec<u8>>,
    inode: (u64, u64),
    links: u64,
}

/// Merges everything that is wanted.
pub(super) fn merge_all(
    roots: &Roots,
    wanted: &[Wanted],
    contents: &dyn ContentSource,
) -> Result<Merged, MergingError> {
    let mut merged = Merged::default();
    let mut inodes: BTreeMap<(u64, u64), (Option<Hash>, String)> = BTreeMap::new();
    for wanted in wanted {
        let Some(root) = roots.of(wanted.change.root) else { continue };
        let here = wanted.change.from.as_ref().unwrap_or(&wanted.change.path);
        let now = found(root, here, &wanted.address)?;
        let there = match &wanted.change.from {
            Some(_) => found(root, &wanted.change.path, &wanted.address)?,
            None => None,
        };
        if let Some(now) = now.as_ref().filter(|now| now.links > 1) {
            let result = wanted.change.after.map(|after| after.hash);
            match inodes.get(&now.inode) {
                Some((other, _)) if *other != result => {
                    merged.conflicts.push(conflict(wanted, ConflictKind::Linked));
                    continue;
                }
                Some(_) | None => {
                    inodes.insert(now.inode, (result, wanted.address.clone()));
                }
            }
        }
        Merging { wanted, now, there, contents }.merge(&mut merged)?;
    }
    Ok(merged)
}

fn conflict(wanted: &Wanted, kind: ConflictKind) -> Conflict {
    Conflict { address: wanted.address.clone(), kind, places: Vec::new() }
}

/// One change and what it meets.
struct Merging<'a> {
    wanted: &'a Wanted,
    now: Option<Found>,
    there: Option<Found>,
    contents: &'a dyn ContentSource,
}

impl Merging<'_> {
    fn merge(&self, merged: &mut Merged) -> Result<(), MergingError> {
        let state = |found: &Option<Found>| found.as_ref().map(|found| found.state);
        let sides = Sides::of(&self.wanted.change, state(&self.now), state(&self.there));
        match merge_file(&sides) {
            FileMerge::AlreadyThere => merged.already.push(self.wanted.address.clone()),
            FileMerge::Write(post) => merged.changes.push(self.write(post, self.plan_bytes(&post))),
            FileMerge::Remove => merged.changes.push(self.removal()),
            FileMerge::Move(post) => merged.changes.extend(self.movement(post, self.plan_bytes(&post))),
            FileMerge::MergeLines { mode } => self.merge_lines(mode, merged)?,
            FileMerge::Conflict(_) if self.wanted.take => merged.changes.extend(self.taken(&sides)),
            FileMerge::Conflict(kind) => merged.conflicts.push(conflict(self.wanted, kind)),
        }
        Ok(())
    }

    fn merge_lines(&self, mode: u16, merged: &mut Merged) -> Result<(), MergingError> {
        let base = self.content(self.wanted.change.before)?;
        let plan = match &self.wanted.content {
            Some(content) => content.clone(),
            None => self.content(self.wanted.change.after)?,
        };
        let now = self.now.as_ref().and_then(|now| now.bytes.clone()).unwrap_or_default();
        let (bytes, is_merged) = match merge(&base, &now, &plan) {
            Merge::Same => (now, false),
            Merge::Merged(bytes) => (bytes, true),
            Merge::Conflict(_) if self.wanted.take => (plan, false),
            Merge::Conflict(regions) => {
                let places = regions.iter().map(|region| ConflictPlace {
                    line: region.now.start + 1,
                    yours: lines(&now, region.now.start, region.now.end),
                    plans: lines(&plan, region.plan.start, region.plan.end),
                });
                let address = self.hunk_address(&base, &plan, &regions);
                let places = places.collect();
                merged.conflicts.push(Conflict { address, kind: ConflictKind::Lines(regions), places });
                return Ok(());
            }
        };
        if is_merged {
            merged.merged.push(self.wanted.address.clone());
        }
        let post = FileState::file(&bytes, mode);
        match self.wanted.change.from {
            Some(_) => merged.changes.extend(self.movement(post, Bytes::Here(bytes))),
            None => merged.changes.push(self.write(post, Bytes::Here(bytes))),
        }
        Ok(())
    }

    /// The file with the first of its hunks that is in conflict.
    fn hunk_address(&self, base: &[u8], plan: &[u8], regions: &[Region]) -> String {
        match hunks_in_conflict(base, plan, regions).first() {
            Some(number) => format!("{}#{number}", self.wanted.address),
            None => self.wanted.address.clone(),
        }
    }

    /// The plan's file over whatever is there.
    fn taken(&self, sides: &Sides) -> Vec<Change> {
        let Some(post) = sides.plan else { return vec![self.removal()] };
        match sides.place {
            Place::Moves { .. } => self.movement(post, self.plan_bytes(&post)),
            Place::Stays => vec![self.write(post, self.plan_bytes(&post))],
        }
    }

    fn write(&self, post: FileState, bytes: Bytes) -> Change {
        Change {
            root: self.wanted.change.root,
            path: self.wanted.change.path.clone(),
            from: None,
            pre: self.now.as_ref().map(as_found),
            post: Some(Image { state: post, bytes, attributes: self.wanted.attributes.clone() }),
        }
    }

    fn removal(&self) -> Change {
        let path = self.wanted.change.from.as_ref().unwrap_or(&self.wanted.change.path);
        Change {
            root: self.wanted.change.root,
            path: path.clone(),
            from: None,
            pre: self.now.as_ref().map(as_found),
            post: None,
        }
    }

    fn movement(&self, post: FileState, bytes: Bytes) -> Vec<Change> {
        let arrival = Change {
            root: self.wanted.change.root,
            path: self.wanted.change.path.clone(),
            from: self.wanted.change.from.clone(),
            pre: self.there.as_ref().map(as_found),
            post: Some(Image { state: post, bytes, attributes: self.wanted.attributes.clone() }),
        };
        let departure = self.now.is_some().then(|| self.removal());
        std::iter::once(arrival).chain(departure).collect()
    }

    /// Where the bytes of what is to be written are.
    fn plan_bytes(&self, post: &FileState) -> Bytes {
        let narrowed = self.wanted.content.as_ref().filter(|content| Hash::of(content) == post.hash);
        let present = self.now.as_ref().filter(|now| now.state.hash == post.hash);
        match (narrowed, present.and_then(|now| now.bytes.clone())) {
            (Some(content), _) => Bytes::Here(content.clone()),
            (None, Some(bytes)) => Bytes::Here(bytes),
            (None, None) => Bytes::Content,
        }
    }

    fn content(&self, state: Option<FileState>) -> Result<Vec<u8>, MergingError> {
        let missing = || MergingError::ContentMissing { address: self.wanted.address.clone() };
        let state = state.ok_or_else(missing)?;
        let mut bytes = Vec::new();
        let mut reader = self.contents.open(&state.hash).map_err(|_| missing())?;
        reader.read_to_end(&mut bytes).map_err(|_| missing())?;
        Ok(bytes)
    }
}

fn as_found(found: &Found) -> Image {
    Image { state: found.state, bytes: Bytes::AsFound, attributes: None }
}

fn lines(text: &[u8], from: u32, to: u32) -> Vec<u8> {
    let all = text.split_inclusive(|byte| *byte == b'\n');
    all.skip(from as usize).take(to.saturating_sub(from) as usize).collect::<Vec<_>>().concat()
}

/// What lies at a path now.
fn found(root: &OwnedFd, path: &RelPath, address: &str) -> Result<Option<Found>, MergingError> {
    let io_error = |source: io::Error| MergingError::Io { address: address.to_owned(), source };
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let file = match beneath::open(root.as_fd(), path, flags, Mode::empty(), Links::Refuse) {
        Ok(file) => file,
        Err(BeneathError::Escapes { path }) => return Err(MergingError::Escapes { path }),
        Err(BeneathError::Io { source, .. }) => {
            let is_absent = matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
            return if is_absent { Ok(None) } else { Err(io_error(source)) };
        }
    };
    let stat = rustix::fs::statat(&file, c"", AtFlags::EMPTY_PATH).map_err(|errno| io_error(errno.into()))?;
    let mode = (stat.st_mode & 0o7777) as u16;
    let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
    let (state, bytes) = if kind.is_dir() {
        (FileState::dir(mode), None)
    } else if kind.is_symlink() {
        let target =
            rustix::fs::readlinkat(&file, c"", Vec::new()).map_err(|errno| io_error(errno.into()))?;
        (FileState::symlink(target.as_bytes()), None)
    } else if kind.is_file() {
        drop(file);
        file_state(root, path, mode).map_err(io_error)?
    } else {
        // A socket or a device: something is there, and it is nothing that can be merged.
        (FileState { kind: Kind::File, mode, size: 0, hash: Hash::of(b"special"), text: false }, None)
    };
    let inode = (stat.st_dev, stat.st_ino);
    Ok(Some(Found { state, bytes, inode, links: stat.st_nlink }))
}

fn file_state(root: &OwnedFd, path: &RelPath, mode: u16) -> io::Result<(FileState, Option<Vec<u8>>)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = beneath::open(root.as_fd(), path, flags, Mode::empty(), Links::Refuse)
        .map_err(BeneathError::into_io)?;
    let mut file = std::fs::File::from(file);
    let size = file.metadata()?.len();
    if size <= TEXT_BYTES_MAX {
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        file.read_to_end(&mut bytes)?;
        return Ok((FileState::file(&bytes, mode), Some(bytes)));
    }
    let mut hasher = blake3::Hasher::new();
    let size = hasher.update_reader(&mut file)?.count();
    let hash = Hash::from_bytes(*hasher.finalize().as_bytes());
    Ok((FileState { kind: Kind::File, mode, size, hash, text: false }, None))
}
