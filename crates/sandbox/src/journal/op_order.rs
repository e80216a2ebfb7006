//! Plans the ops that lead to the requested state, in the order in which they are made.
//!
//! # The order
//! Modes that must be opened first, the outer first; removals in the way of creations; directories, the outer
//! first; writes; creations; links; modes; the other removals; directories that go, the inner first; modes
//! that close a directory, the inner first; git refs. A rollback goes the other way round.
//!
//! # Modes that deny
//! A directory whose mode denies its owner to enter or to write, before or after, is open in between. One op
//! opens it, and one closes it. A file whose mode denies reading is opened before it is written. So an
//! ordinary user applies and undoes what root does.
//!
//! # Invariants
//! 1. Each op finds the directories that it needs, and nothing in its way, when its turn comes. Directories
//!    that no change mentions are ops of their own, so that they are rolled back too.
//! 2. Nothing is parked in a directory that is removed, because it would not be empty. Nothing is parked in a
//!    directory that is closed before or after, because parked files are looked for at any time.
//!
//! # Not here
//! Reading anything: the caller says whether a directory is there.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Kind, RelPath, RootIndex};

use super::request::{FileImage, JournalChange};

/// The kind of an op, in the order of the phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OpKind {
    /// Permission bits that let us in.
    Open,
    /// Another directory.
    MakeDir,
    /// Other content.
    Write,
    /// Another file.
    Create,
    /// Another link, or another target.
    Link,
    /// Other permission bits.
    Mode,
    /// No file or link.
    Remove,
    /// No directory.
    RemoveDir,
    /// Permission bits that keep us out of a directory.
    Close,
}

/// An op before its images are written down.
#[derive(Clone, Debug)]
pub(super) struct PlannedOp {
    /// The kind of the op.
    pub(super) verb: OpKind,
    /// The project.
    pub(super) root: RootIndex,
    /// The path.
    pub(super) path: RelPath,
    /// The change that it belongs to; `None` for a directory that no change mentions.
    pub(super) change: Option<usize>,
    /// True if something is made where this removes.
    pub(super) in_the_way: bool,
    /// The op that removes what is where this makes.
    pub(super) cleared_by: Option<u32>,
    /// The directory to park in; none for the root.
    pub(super) park_in: Option<RelPath>,
    /// True if a new file takes the place of one that has other names.
    pub(super) apart: bool,
    /// The mode that it finds, where that is not the one of the change.
    pub(super) from_mode: Option<u16>,
    /// The mode that it leaves, where that is not the one of the change.
    pub(super) to_mode: Option<u16>,
}

/// Owner's bits without which nothing is made or removed in a directory.
const ENTER: u16 = 0o300;
/// Owner's bits that are given to what must be opened.
const OPENED_DIR: u16 = 0o700;
const OPENED_FILE: u16 = 0o600;
const READ: u16 = 0o400;

type PathKey = (RootIndex, RelPath);

/// The ops that make the changes, in order. `is_dir` says whether a directory is there at present.
pub(super) fn arrange<E>(
    changes: &[JournalChange],
    apart: &BTreeSet<PathKey>,
    mut is_dir: impl FnMut(RootIndex, &RelPath) -> Result<bool, E>,
) -> Result<Vec<PlannedOp>, E> {
    let mut planned: Vec<PlannedOp> =
        changes.iter().enumerate().flat_map(|(index, change)| split(index, change, apart)).collect();
    add_directories(&mut planned, &mut is_dir)?;
    open_and_close(&mut planned, changes);
    mark_in_the_way(&mut planned);
    planned.sort_by(|a, b| phase(a).cmp(&phase(b)).then_with(|| within_phase(a, b)));
    connect(&mut planned);
    Ok(planned)
}

/// The ops of one change. If the kind changes, one entry is removed and another is made.
fn split(index: usize, change: &JournalChange, apart: &BTreeSet<PathKey>) -> Vec<PlannedOp> {
    let is_apart = apart.contains(&(change.root, change.path.clone()));
    let verbs: Vec<OpKind> = match (&change.pre, &change.post) {
        (None, None) => vec![],
        (None, Some(post)) => vec![makes(post)],
        (Some(pre), None) => vec![removes(pre)],
        (Some(pre), Some(post)) if pre.state.kind != post.state.kind => vec![removes(pre), makes(post)],
        (Some(pre), Some(post)) => {
            let same_bytes = pre.state.hash == post.state.hash && pre.state.size == post.state.size;
            let content = match pre.state.kind {
                Kind::File if !same_bytes || is_apart => Some(OpKind::Write),
                Kind::Symlink if !same_bytes => Some(OpKind::Link),
                Kind::File | Kind::Symlink | Kind::Dir => None,
            };
            let has_mode = pre.state.kind != Kind::Symlink;
            let mode = (has_mode && pre.state.mode != post.state.mode).then_some(OpKind::Mode);
            content.into_iter().chain(mode).collect()
        }
    };
    let planned = verbs.into_iter().map(|verb| plan(verb, change.root, change.path.clone(), Some(index)));
    planned.map(|one| PlannedOp { apart: is_apart && one.verb == OpKind::Write, ..one }).collect()
}

fn plan(verb: OpKind, root: RootIndex, path: RelPath, change: Option<usize>) -> PlannedOp {
    PlannedOp {
        verb,
        root,
        path,
        change,
        in_the_way: false,
        cleared_by: None,
        park_in: None,
        apart: false,
        from_mode: None,
        to_mode: None,
    }
}

/// Adds the ops that open what denies us before something is done in it, and that close it afterwards.
fn open_and_close(planned: &mut Vec<PlannedOp>, changes: &[JournalChange]) {
    let touched: BTreeSet<(RootIndex, Vec<u8>)> =
        planned.iter().map(|one| (one.root, one.path.as_bytes().to_vec())).collect();
    let is_entered = |one: &PlannedOp| {
        let below = [one.path.as_bytes(), b"/"].concat();
        let first = touched.range((one.root, below.clone())..).next();
        first.is_some_and(|(root, path)| *root == one.root && path.starts_with(&below))
    };
    let written: BTreeSet<PathKey> =
        planned.iter().filter(|one| one.verb == OpKind::Write).map(key).collect();
    let mut done = Vec::with_capacity(planned.len());
    for one in planned.drain(..) {
        let change = one.change.and_then(|index| changes.get(index));
        let mode = |image: Option<&Option<FileImage>>| image.and_then(Option::as_ref).map(|it| it.state.mode);
        let pre = mode(change.map(|change| &change.pre));
        let post = mode(change.map(|change| &change.post));
        let is_dir = change
            .and_then(|change| change.post.as_ref().or(change.pre.as_ref()))
            .is_some_and(|image| image.state.kind == Kind::Dir);
        match (one.verb, pre, post) {
            (OpKind::MakeDir, _, Some(post)) if post & ENTER != ENTER && is_entered(&one) => {
                let open = post | OPENED_DIR;
                done.push(PlannedOp { verb: OpKind::Close, from_mode: Some(open), ..one.clone() });
                done.push(PlannedOp { to_mode: Some(open), ..one });
            }
            (OpKind::RemoveDir, Some(pre), _) if pre & ENTER != ENTER && is_entered(&one) => {
                let open = pre | OPENED_DIR;
                done.push(PlannedOp { verb: OpKind::Open, to_mode: Some(open), ..one.clone() });
                done.push(PlannedOp { from_mode: Some(open), ..one });
            }
            (OpKind::Mode, Some(pre), Some(post)) if is_dir && is_entered(&one) => {
                match (pre & ENTER == ENTER, post & ENTER == ENTER) {
                    (true, true) => done.push(one),
                    (true, false) => done.push(PlannedOp { verb: OpKind::Close, ..one }),
                    (false, true) => done.push(PlannedOp { verb: OpKind::Open, ..one }),
                    (false, false) => {
                        let open = Some(post | OPENED_DIR);
                        done.push(PlannedOp { verb: OpKind::Open, to_mode: open, ..one.clone() });
                        done.push(PlannedOp { verb: OpKind::Close, from_mode: open, ..one });
                    }
                }
            }
            // With one mode on both sides a recovery could not see whether it was closed again or never
            // opened.
            (OpKind::Write, Some(pre), Some(post)) if pre & READ == 0 && pre != post => {
                let open = post | OPENED_FILE;
                done.push(PlannedOp { verb: OpKind::Open, to_mode: Some(open), ..one.clone() });
                if open != post {
                    done.push(PlannedOp { verb: OpKind::Mode, from_mode: Some(open), ..one.clone() });
                }
                done.push(PlannedOp { from_mode: Some(open), ..one });
            }
            // Its mode is changed when it is opened, and after it was written.
            (OpKind::Mode, Some(pre), Some(_)) if pre & READ == 0 && written.contains(&key(&one)) => {}
            (
                OpKind::Open
                | OpKind::MakeDir
                | OpKind::Write
                | OpKind::Create
                | OpKind::Link
                | OpKind::Mode
                | OpKind::Remove
                | OpKind::RemoveDir
                | OpKind::Close,
                _,
                _,
            ) => done.push(one),
        }
    }
    *planned = done;
}

fn makes(image: &FileImage) -> OpKind {
    match image.state.kind {
        Kind::File => OpKind::Create,
        Kind::Symlink => OpKind::Link,
        Kind::Dir => OpKind::MakeDir,
    }
}

fn removes(image: &FileImage) -> OpKind {
    match image.state.kind {
        Kind::File | Kind::Symlink => OpKind::Remove,
        Kind::Dir => OpKind::RemoveDir,
    }
}

fn makes_something(planned: &PlannedOp) -> bool {
    match planned.verb {
        OpKind::MakeDir | OpKind::Create | OpKind::Link => true,
        OpKind::Open | OpKind::Write | OpKind::Mode | OpKind::Remove | OpKind::RemoveDir | OpKind::Close => {
            false
        }
    }
}

fn removes_something(planned: &PlannedOp) -> bool {
    matches!(planned.verb, OpKind::Remove | OpKind::RemoveDir)
}

fn key(planned: &PlannedOp) -> PathKey {
    (planned.root, planned.path.clone())
}

/// Adds the directories that are needed and not there. One that would go and be needed again stays.
fn add_directories<E>(
    planned: &mut Vec<PlannedOp>,
    is_dir: &mut impl FnMut(RootIndex, &RelPath) -> Result<bool, E>,
) -> Result<(), E> {
    let removed: BTreeMap<PathKey, OpKind> =
        planned.iter().filter(|one| removes_something(one)).map(|one| (key(one), one.verb)).collect();
    let mut known: BTreeSet<PathKey> =
        planned.iter().filter(|one| one.verb == OpKind::MakeDir).map(key).collect();
    let mut needed_again = BTreeSet::new();
    let mut added = Vec::new();
    for one in planned.iter().filter(|one| makes_something(one)) {
        let mut above = one.path.parent();
        while let Some(directory) = above {
            let here = (one.root, directory.clone());
            above = directory.parent();
            if !known.insert(here.clone()) {
                break;
            }
            match removed.get(&here) {
                Some(OpKind::RemoveDir) => {
                    needed_again.insert(here);
                    break;
                }
                Some(_) => added.push(plan(OpKind::MakeDir, one.root, directory, None)),
                // A link or a file above it goes: whatever it leads to, nothing is there then.
                None if is_below_removed(&here, &removed) => {
                    added.push(plan(OpKind::MakeDir, one.root, directory, None));
                }
                None if is_dir(one.root, &directory)? => break,
                None => added.push(plan(OpKind::MakeDir, one.root, directory, None)),
            }
        }
    }
    planned.retain(|one| one.verb != OpKind::RemoveDir || !needed_again.contains(&key(one)));
    planned.extend(added);
    Ok(())
}

fn is_below_removed((root, path): &PathKey, removed: &BTreeMap<PathKey, OpKind>) -> bool {
    let mut above = path.parent();
    while let Some(directory) = above {
        above = directory.parent();
        if removed.get(&(*root, directory)) == Some(&OpKind::Remove) {
            return true;
        }
    }
    false
}

/// A removal is in the way of what is made at its path, and of what is made where a directory above it was.
fn mark_in_the_way(planned: &mut [PlannedOp]) {
    let made: BTreeSet<PathKey> = planned.iter().filter(|one| makes_something(one)).map(key).collect();
    let cleared: BTreeSet<PathKey> = planned
        .iter()
        .filter(|one| one.verb == OpKind::RemoveDir)
        .map(key)
        .filter(|key| made.contains(key))
        .collect();
    for one in planned.iter_mut().filter(|one| removes_something(one)) {
        one.in_the_way = made.contains(&key(one)) || is_below(one, &cleared);
    }
}

fn is_below(one: &PlannedOp, directories: &BTreeSet<PathKey>) -> bool {
    let mut above = one.path.parent();
    while let Some(directory) = above {
        above = directory.parent();
        if directories.contains(&(one.root, directory)) {
            return true;
        }
    }
    false
}

fn phase(planned: &PlannedOp) -> (bool, OpKind) {
    (!planned.in_the_way && planned.verb != OpKind::Open, planned.verb)
}

fn within_phase(a: &PlannedOp, b: &PlannedOp) -> std::cmp::Ordering {
    let rising = a.root.cmp(&b.root).then_with(|| a.path.cmp(&b.path));
    if matches!(a.verb, OpKind::RemoveDir | OpKind::Close) { rising.reverse() } else { rising }
}

/// Sets which op clears the way for which, and where each parks: not in a directory that goes, or that is
/// closed at times.
fn connect(planned: &mut [PlannedOp]) {
    let unfit: BTreeSet<PathKey> = planned
        .iter()
        .filter(|one| matches!(one.verb, OpKind::RemoveDir | OpKind::Open | OpKind::Close))
        .map(key)
        .collect();
    let numbered = || (0_u32..).zip(planned.iter());
    let clears: BTreeMap<PathKey, u32> = numbered()
        .filter(|(_, one)| removes_something(one) && one.in_the_way)
        .map(|(n, one)| (key(one), n))
        .collect();
    let opens: BTreeMap<PathKey, u32> =
        numbered().filter(|(_, one)| one.verb == OpKind::Open).map(|(n, one)| (key(one), n)).collect();
    for (n, one) in (0_u32..).zip(planned.iter_mut()) {
        let here = key(one);
        let cleared = if makes_something(one) { nearest(&clears, &here) } else { None };
        let opened = opens.get(&here).copied().or_else(|| nearest_above(&opens, &here));
        let opened_above = || nearest_above(&opens, &here);
        one.cleared_by = cleared.or(opened).filter(|by| *by < n).or_else(opened_above);
        let mut park_in = one.path.parent();
        while let Some(directory) =
            park_in.take_if(|directory| unfit.contains(&(one.root, directory.clone())))
        {
            park_in = directory.parent();
        }
        one.park_in = park_in;
    }
}

/// The op at this path, or at the nearest one above it.
fn nearest(ops: &BTreeMap<PathKey, u32>, here: &PathKey) -> Option<u32> {
    ops.get(here).copied().or_else(|| nearest_above(ops, here))
}

fn nearest_above(ops: &BTreeMap<PathKey, u32>, (root, path): &PathKey) -> Option<u32> {
    let mut above = path.parent();
    while let Some(directory) = above {
        above = directory.parent();
        if let Some(n) = ops.get(&(*root, directory)) {
            return Some(*n);
        }
    }
    None
}
