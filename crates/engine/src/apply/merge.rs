//! Merges a plan's changes with the user's files as they are now. The result is the work of the journal, or
//! the conflicts.
//!
//! # Invariants
//! 1. Nothing is written here.
//! 2. Every file is read beneath its project's root, through no link.
//! 3. A file that is to be overwritten is named by its state, so that the journal finds out if it changed
//!    meanwhile.
//! 4. A link that is removed by the same changes is on the way of nothing that is made in its place.
//! 5. A file that its mode does not let us read is as a journal left it, if nothing touched it since: see
//!    [`UndoneJournal`].

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use domain::{
    ConflictKind, ConflictTake, FileMerge, FileState, Hash, HunkAddress, Kind, MarkerNames, Merge,
    MergePlacement, MergeSides, NetChange, Plan, Region, RelPath, RootIndex, TEXT_BYTES_MAX,
    hunks_by_conflict, merge, merge_file, merge_marked, merge_taking,
};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use sandbox::content::ContentSource;
use sandbox::fs::beneath;
use sandbox::fs::beneath::{BeneathError, LinkPolicy};
use sandbox::journal::{Attributes, FileImage, ImageBytes, JournalChange};

use crate::plan::create::path_of;

/// A change that a person wants to have.
#[derive(Clone, Debug)]
pub(crate) struct WantedChange {
    pub(crate) change: NetChange,
    /// Its name for users.
    pub(crate) address: String,
    /// The plan's content, when it is not the recorded one because only some hunks are wanted.
    pub(crate) content: Option<Vec<u8>>,
    /// The recorded content in that case: hunks have their numbers in it.
    pub(crate) whole_content: Option<Vec<u8>>,
    /// The owner and the attributes of a file that is created; `None`: those of any file created there.
    pub(crate) attributes: Option<Attributes>,
    /// The part of it that wins over a conflict.
    pub(crate) take: ConflictTake,
    /// The name of the plan's side between the markers of a conflict; `None`: a conflict is an obstacle.
    pub(crate) marked_as: Option<Arc<str>>,
    /// True if it is only a directory that holds others of what is wanted: it is not counted.
    pub(crate) is_carrier: bool,
}

/// The files of the changes that have other names, which no change mentions: by device and inode, wherever
/// the other names are.
pub(crate) fn linked_elsewhere<'a>(
    roots: &ProjectRoots,
    changes: impl IntoIterator<Item = &'a NetChange>,
) -> BTreeSet<(RootIndex, RelPath)> {
    let mut names: BTreeMap<(u64, u64), (u64, Vec<&NetChange>)> = BTreeMap::new();
    for change in changes {
        let here = change.from.as_ref().unwrap_or(&change.path);
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let held = roots.of(change.root).and_then(|root| {
            beneath::open(root.as_fd(), here, flags, Mode::empty(), LinkPolicy::Refuse).ok()
        });
        let Some(stat) = held.and_then(|held| rustix::fs::fstat(held).ok()) else { continue };
        let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        if is_file && stat.st_nlink > 1 {
            let known = names.entry((stat.st_dev, stat.st_ino)).or_insert((stat.st_nlink, Vec::new()));
            known.1.push(change);
        }
    }
    let is_file = |state: Option<FileState>| state.is_some_and(|state| state.kind == Kind::File);
    let elsewhere = names.into_values().filter(|(links, here)| *links > here.len() as u64);
    elsewhere
        .flat_map(|(_, here)| here)
        .filter(|change| change.from.is_none() && is_file(change.after))
        .map(|change| (change.root, change.path.clone()))
        .collect()
}

/// The number of paths that these changes touch that a person counts, and which.
pub(crate) fn counted(changes: &[JournalChange], wanted: &[WantedChange]) -> BTreeSet<(RootIndex, RelPath)> {
    let carriers: BTreeSet<(RootIndex, &RelPath)> = wanted
        .iter()
        .filter(|wanted| wanted.is_carrier)
        .map(|wanted| (wanted.change.root, &wanted.change.path))
        .collect();
    let all = changes.iter().map(|change| (change.root, &change.path));
    let counted = all.filter(|place| !carriers.contains(place));
    counted.map(|(root, path)| (root, path.clone())).collect()
}

/// A conflict in one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The file or the hunk, as people call it.
    pub address: String,
    /// Why.
    pub kind: ConflictKind,
    /// Both sides of each place, where the conflict is about lines.
    pub places: Vec<ConflictPlace>,
    /// The address of the file.
    pub file: String,
}

/// One place that both changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictPlace {
    /// The line in the user's file, from 1.
    pub line: u32,
    /// The content of the user's file there.
    pub yours: Vec<u8>,
    /// The content of the plan's file there.
    pub plans: Vec<u8>,
    /// The numbers of the plan's hunks that have a part in it.
    pub hunks: BTreeSet<u32>,
}

/// The result of a merge.
#[derive(Default)]
pub(crate) struct MergeResult {
    pub(crate) changes: Vec<JournalChange>,
    /// Files that have both the user's edits and the plan's.
    pub(crate) merged: Vec<String>,
    /// Files that are as the plan wants them already.
    pub(crate) already: Vec<String>,
    pub(crate) conflicts: Vec<Conflict>,
    /// Files that have markers where both sides conflict.
    pub(crate) marked: Vec<String>,
}

/// Why nothing could be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A path would leave its project.
    #[error("{path} leads outside its project")]
    Escapes {
        /// The path.
        path: RelPath,
    },
    /// A content is not stored any more, or was too large to be stored.
    #[error("the content of {address} is not stored")]
    ContentMissing {
        /// The file.
        address: String,
    },
    /// A file would lose its capabilities.
    #[error("{address} has file capabilities, which it would lose: only root can restore them")]
    Capabilities {
        /// The file.
        address: String,
    },
    /// A file cannot be read.
    #[error("{address} cannot be read: {source}")]
    Io {
        /// The file.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// The roots of a plan's projects, held open.
pub(crate) struct ProjectRoots(BTreeMap<RootIndex, OwnedFd>);

impl ProjectRoots {
    pub(crate) fn open(plan: &Plan) -> Result<Self, MergeError> {
        let mut roots = BTreeMap::new();
        for (project, no) in plan.projects.iter().zip(0..) {
            let path = path_of(&project.root);
            let root = beneath::open_root(&path).map_err(|source| unreadable(&path, source))?;
            roots.insert(RootIndex(no), root);
        }
        Ok(Self(roots))
    }

    fn of(&self, root: RootIndex) -> Option<&OwnedFd> {
        self.0.get(&root)
    }
}

fn unreadable(path: &Path, source: io::Error) -> MergeError {
    MergeError::Io { address: path.display().to_string(), source }
}

/// The trace of an earlier journal, for an undo: it shows whether files that cannot be read are unchanged
/// since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UndoneJournal {
    /// When its last file had been written, in seconds and nanoseconds of the file system's clock.
    pub(crate) at: (i64, i64),
}

impl UndoneJournal {
    /// Returns true if what has this record was not touched since.
    fn knows(self, stat: &Stat) -> bool {
        #[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
        let changed = (stat.st_ctime as i64, stat.st_ctime_nsec as i64);
        changed <= self.at
    }
}

/// The present file at a path.
struct CurrentFile {
    state: FileState,
    /// The bytes of what may be merged by lines.
    bytes: Option<Vec<u8>>,
    inode: (u64, u64),
    links: u64,
    /// True if it could not be read, and a journal says what it is.
    is_unread: bool,
}

/// Merges everything that is wanted. `left_by` is the journal that is undone.
pub(crate) fn merge_all(
    roots: &ProjectRoots,
    wanted: &[WantedChange],
    contents: &dyn ContentSource,
    left_by: Option<UndoneJournal>,
) -> Result<MergeResult, MergeError> {
    let mut merged = MergeResult::default();
    let gone_links: BTreeSet<(RootIndex, &RelPath)> = wanted.iter().filter_map(gone_link).collect();
    let mut inodes: BTreeMap<(u64, u64), (Option<Hash>, String)> = BTreeMap::new();
    for wanted in wanted {
        let Some(root) = roots.of(wanted.change.root) else { continue };
        let here = wanted.change.from.as_ref().unwrap_or(&wanted.change.path);
        let read_state = |path: &RelPath, expected: Option<FileState>| {
            let looking = FileProbe { root, address: &wanted.address, expected, left_by };
            match looking.found(path) {
                Err(MergeError::Escapes { .. }) if is_below(&gone_links, wanted.change.root, path) => {
                    Ok(None)
                }
                found => found,
            }
        };
        let now = read_state(here, wanted.change.before)?;
        let there = match &wanted.change.from {
            Some(_) => read_state(&wanted.change.path, None)?,
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
        FileMerger { wanted, now, there, contents }.merge(&mut merged)?;
    }
    Ok(merged)
}

/// The link that a change removes, or puts something else in the place of.
fn gone_link(wanted: &WantedChange) -> Option<(RootIndex, &RelPath)> {
    let change = &wanted.change;
    let is_link = |state: FileState| state.kind == Kind::Symlink;
    let goes =
        change.before.is_some_and(is_link) && (change.from.is_some() || !change.after.is_some_and(is_link));
    goes.then(|| (change.root, change.from.as_ref().unwrap_or(&change.path)))
}

fn is_below(places: &BTreeSet<(RootIndex, &RelPath)>, root: RootIndex, path: &RelPath) -> bool {
    let mut above = path.parent();
    while let Some(directory) = above {
        if places.contains(&(root, &directory)) {
            return true;
        }
        above = directory.parent();
    }
    false
}

fn conflict(wanted: &WantedChange, kind: ConflictKind) -> Conflict {
    let file = wanted.address.clone();
    Conflict { address: file.clone(), kind, places: Vec::new(), file }
}

/// One change and what it meets.
struct FileMerger<'a> {
    wanted: &'a WantedChange,
    now: Option<CurrentFile>,
    there: Option<CurrentFile>,
    contents: &'a dyn ContentSource,
}

impl FileMerger<'_> {
    fn merge(&self, merged: &mut MergeResult) -> Result<(), MergeError> {
        let state = |found: &Option<CurrentFile>| found.as_ref().map(|found| found.state);
        let sides = MergeSides::from_change(&self.wanted.change, state(&self.now), state(&self.there));
        match merge_file(&sides) {
            FileMerge::AlreadyThere => merged.already.push(self.wanted.address.clone()),
            FileMerge::Write(post) => merged.changes.push(self.write(post, self.plan_bytes(&post))),
            FileMerge::Remove => merged.changes.push(self.removal()),
            FileMerge::Move(post) => merged.changes.extend(self.movement(post, self.plan_bytes(&post))),
            FileMerge::MergeLines { mode } => self.merge_lines(mode, merged)?,
            FileMerge::Conflict(_) if self.wanted.take == ConflictTake::File => {
                merged.changes.extend(self.take_plan_side(&sides))
            }
            FileMerge::Conflict(kind) => merged.conflicts.push(conflict(self.wanted, kind)),
        }
        Ok(())
    }

    fn merge_lines(&self, mode: u16, merged: &mut MergeResult) -> Result<(), MergeError> {
        let base = self.content(self.wanted.change.before)?;
        let plan = match &self.wanted.content {
            Some(content) => content.clone(),
            None => self.content(self.wanted.change.after)?,
        };
        let now = self.now.as_ref().and_then(|now| now.bytes.clone()).unwrap_or_default();
        let (bytes, is_merged) = match self.merge_contents(&base, &now, &plan) {
            (Merge::Same, _) => (now, false),
            (Merge::Merged(bytes), _) => (bytes, true),
            (Merge::Conflict(_), _) if self.wanted.take == ConflictTake::File => (plan, false),
            (Merge::Conflict(regions), _) if self.wanted.marked_as.is_some() => {
                merged.marked.push(self.wanted.address.clone());
                (self.with_markers((&base, &now, &plan), &regions), false)
            }
            (Merge::Conflict(regions), hunks) => {
                let place = |(region, hunks): (&Region, BTreeSet<u32>)| ConflictPlace {
                    line: region.now.start + 1,
                    yours: lines(&now, region.now.start, region.now.end),
                    plans: lines(&plan, region.plan.start, region.plan.end),
                    hunks,
                };
                let file = self.wanted.address.clone();
                let address = match hunks.iter().flatten().min() {
                    Some(number) => HunkAddress::new(&file, *number).to_string(),
                    None => file.clone(),
                };
                let places = regions.iter().zip(hunks).map(place).collect();
                merged.conflicts.push(Conflict { address, kind: ConflictKind::Lines(regions), places, file });
                return Ok(());
            }
        };
        if is_merged {
            merged.merged.push(self.wanted.address.clone());
        }
        let post = FileState::file(&bytes, mode);
        match self.wanted.change.from {
            Some(_) => merged.changes.extend(self.movement(post, ImageBytes::Here(bytes))),
            None => merged.changes.push(self.write(post, ImageBytes::Here(bytes))),
        }
        Ok(())
    }

    /// The merge of the contents, and the plan's hunks that have a part in each conflict that is left.
    fn merge_contents(&self, base: &[u8], now: &[u8], plan: &[u8]) -> (Merge, Vec<BTreeSet<u32>>) {
        let regions = match merge(base, now, plan) {
            Merge::Conflict(regions) => regions,
            done @ (Merge::Same | Merge::Merged(_)) => return (done, Vec::new()),
        };
        let hunks = self.hunks_of(base, plan, &regions);
        let taken: Vec<u32> = regions
            .iter()
            .zip(&hunks)
            .filter(|(_, hunks)| {
                matches!(self.wanted.take, ConflictTake::Hunks(_)) && self.wanted.take.wins(hunks)
            })
            .map(|(region, _)| region.base.start)
            .collect();
        if taken.is_empty() {
            return (Merge::Conflict(regions), hunks);
        }
        match merge_taking(base, now, plan, |region| taken.contains(&region.base.start)) {
            Merge::Conflict(left) => {
                let hunks = self.hunks_of(base, plan, &left);
                (Merge::Conflict(left), hunks)
            }
            done @ (Merge::Same | Merge::Merged(_)) => (done, Vec::new()),
        }
    }

    /// The merge with markers around each of these regions.
    fn with_markers(&self, (base, now, plan): (&[u8], &[u8], &[u8]), regions: &[Region]) -> Vec<u8> {
        let is_taken = |region: &Region| !regions.iter().any(|left| left.base == region.base);
        let names = MarkerNames { now: "yours", plan: self.wanted.marked_as.as_deref().unwrap_or("plan") };
        merge_marked(base, now, plan, is_taken, names)
    }

    fn hunks_of(&self, base: &[u8], plan: &[u8], regions: &[Region]) -> Vec<BTreeSet<u32>> {
        hunks_by_conflict(base, self.wanted.whole_content.as_deref().unwrap_or(plan), regions)
    }

    /// The plan's file over whatever is there.
    fn take_plan_side(&self, sides: &MergeSides) -> Vec<JournalChange> {
        let Some(post) = sides.plan else { return vec![self.removal()] };
        match sides.place {
            MergePlacement::Moves { .. } => self.movement(post, self.plan_bytes(&post)),
            MergePlacement::Stays => vec![self.write(post, self.plan_bytes(&post))],
        }
    }

    fn write(&self, post: FileState, bytes: ImageBytes) -> JournalChange {
        JournalChange {
            root: self.wanted.change.root,
            path: self.wanted.change.path.clone(),
            from: None,
            pre: self.now.as_ref().map(as_found),
            post: Some(FileImage { state: post, bytes, attributes: self.wanted.attributes.clone() }),
        }
    }

    fn removal(&self) -> JournalChange {
        let path = self.wanted.change.from.as_ref().unwrap_or(&self.wanted.change.path);
        JournalChange {
            root: self.wanted.change.root,
            path: path.clone(),
            from: None,
            pre: self.now.as_ref().map(as_found),
            post: None,
        }
    }

    fn movement(&self, post: FileState, bytes: ImageBytes) -> Vec<JournalChange> {
        let arrival = JournalChange {
            root: self.wanted.change.root,
            path: self.wanted.change.path.clone(),
            from: self.wanted.change.from.clone(),
            pre: self.there.as_ref().map(as_found),
            post: Some(FileImage { state: post, bytes, attributes: self.wanted.attributes.clone() }),
        };
        let departure = self.now.is_some().then(|| self.removal());
        std::iter::once(arrival).chain(departure).collect()
    }

    /// Returns the place of the bytes that are to be written.
    fn plan_bytes(&self, post: &FileState) -> ImageBytes {
        let narrowed =
            self.wanted.content.as_ref().filter(|content| Hash::from_content(content) == post.hash);
        let present = self.now.as_ref().filter(|now| now.state.hash == post.hash);
        match (narrowed, present.and_then(|now| now.bytes.clone())) {
            (Some(content), _) => ImageBytes::Here(content.clone()),
            (None, Some(bytes)) => ImageBytes::Here(bytes),
            (None, None) => ImageBytes::Content,
        }
    }

    fn content(&self, state: Option<FileState>) -> Result<Vec<u8>, MergeError> {
        let missing = || MergeError::ContentMissing { address: self.wanted.address.clone() };
        let state = state.ok_or_else(missing)?;
        let mut bytes = Vec::new();
        let mut reader = self.contents.open(&state.hash).map_err(|_| missing())?;
        reader.read_to_end(&mut bytes).map_err(|_| missing())?;
        // A damaged base would merge into a text that neither the user nor the plan wrote.
        if Hash::from_content(&bytes) == state.hash { Ok(bytes) } else { Err(missing()) }
    }
}

fn as_found(found: &CurrentFile) -> FileImage {
    let bytes = if found.is_unread { ImageBytes::Content } else { ImageBytes::AsFound };
    FileImage { state: found.state, bytes, attributes: None }
}

fn lines(text: &[u8], from: u32, to: u32) -> Vec<u8> {
    let all = text.split_inclusive(|byte| *byte == b'\n');
    all.skip(from as usize).take(to.saturating_sub(from) as usize).collect::<Vec<_>>().concat()
}

/// A look at one path.
struct FileProbe<'a> {
    root: &'a OwnedFd,
    address: &'a str,
    /// The expected state of the file.
    expected: Option<FileState>,
    left_by: Option<UndoneJournal>,
}

impl FileProbe<'_> {
    /// Returns the present file at a path.
    fn found(&self, path: &RelPath) -> Result<Option<CurrentFile>, MergeError> {
        let io_error = |source: io::Error| self.io_error(source);
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let file = match beneath::open(self.root.as_fd(), path, flags, Mode::empty(), LinkPolicy::Refuse) {
            Ok(file) => file,
            Err(BeneathError::Escapes { path }) => return Err(MergeError::Escapes { path }),
            Err(BeneathError::Io { source, .. }) => {
                let is_absent =
                    matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
                let is_closed = source.kind() == io::ErrorKind::PermissionDenied;
                return match (is_absent, is_closed && self.is_way_known(path)) {
                    (true, _) => Ok(None),
                    (false, true) => Ok(self.expected.map(unread)),
                    (false, false) => Err(io_error(source)),
                };
            }
        };
        let stat =
            rustix::fs::statat(&file, c"", AtFlags::EMPTY_PATH).map_err(|errno| io_error(errno.into()))?;
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
            match file_state(self.root, path, mode) {
                Ok(read) => read,
                Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                    return self.known(&stat, mode).map(Some).ok_or_else(|| io_error(source));
                }
                Err(source) => return Err(io_error(source)),
            }
        } else {
            // A socket or a device: something is there, and it is nothing that can be merged.
            (
                FileState {
                    kind: Kind::File,
                    mode,
                    size: 0,
                    hash: Hash::from_content(b"special"),
                    text: false,
                },
                None,
            )
        };
        let inode = (stat.st_dev, stat.st_ino);
        Ok(Some(CurrentFile { state, bytes, inode, links: stat.st_nlink, is_unread: false }))
    }

    /// The file that may not be read, if it is what the journal left.
    fn known(&self, stat: &Stat, mode: u16) -> Option<CurrentFile> {
        let is_left = self.left_by.is_some_and(|left_by| left_by.knows(stat));
        let is_expected = |expected: &FileState| {
            expected.kind == Kind::File
                && expected.mode == mode
                && i64::try_from(expected.size).is_ok_and(|size| size == stat.st_size)
        };
        self.expected.filter(|expected| is_left && is_expected(expected)).map(unread)
    }

    /// Returns true if the directory that blocks the path is as the journal left it: then its contents are
    /// too.
    fn is_way_known(&self, path: &RelPath) -> bool {
        let mut above = path.parent();
        while let Some(directory) = above {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            if let Ok(held) =
                beneath::open(self.root.as_fd(), &directory, flags, Mode::empty(), LinkPolicy::Refuse)
            {
                let stat = rustix::fs::fstat(&held);
                return self.left_by.zip(stat.ok()).is_some_and(|(left_by, stat)| left_by.knows(&stat));
            }
            above = directory.parent();
        }
        false
    }

    fn io_error(&self, source: io::Error) -> MergeError {
        MergeError::Io { address: self.address.to_owned(), source }
    }
}

fn unread(state: FileState) -> CurrentFile {
    CurrentFile { state, bytes: None, inode: (0, 0), links: 1, is_unread: true }
}

fn file_state(root: &OwnedFd, path: &RelPath, mode: u16) -> io::Result<(FileState, Option<Vec<u8>>)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = beneath::open(root.as_fd(), path, flags, Mode::empty(), LinkPolicy::Refuse)
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
