//! From what shall be to the ops that make it so, in the order in which they are made.
//!
//! # The order
//! Removals in the way of creations; directories, the outer first; writes; creations; links; modes; the other removals;
//! directories that go, the inner first; git refs. A rollback goes the other way round.
//!
//! # Invariants
//! 1. Each op finds the directories that it needs, and nothing in its way, when its turn comes. Directories that nobody
//!    mentioned are ops of their own, so that they are taken back too.
//! 2. Nothing is parked in a directory that goes: it would not be empty.
//!
//! # Not here
//! Reading anything: whether a directory is there is asked of the caller.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Kind, RelPath, RootNo};

use super::change::{Change, Image};

/// What kind of op it will be, in the order of the phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verb {
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
}

/// An op before its images are written down.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    /// What it does.
    pub(super) verb: Verb,
    /// The project.
    pub(super) root: RootNo,
    /// The path.
    pub(super) path: RelPath,
    /// The change that it belongs to; none for a directory that nobody mentioned.
    pub(super) change: Option<usize>,
    /// Whether something is made where this removes.
    pub(super) in_the_way: bool,
    /// The op that removes what is where this makes.
    pub(super) cleared_by: Option<u32>,
    /// The directory to park in; none for the root.
    pub(super) park_in: Option<RelPath>,
}

type Key = (RootNo, RelPath);

/// The ops that make the changes, in order. `is_dir` says whether a directory is there at present.
pub(super) fn arrange<E>(
    changes: &[Change],
    mut is_dir: impl FnMut(RootNo, &RelPath) -> Result<bool, E>,
) -> Result<Vec<Planned>, E> {
    let mut planned: Vec<Planned> = changes.iter().enumerate().flat_map(split).collect();
    add_directories(&mut planned, &mut is_dir)?;
    mark_in_the_way(&mut planned);
    planned.sort_by(|a, b| phase(a).cmp(&phase(b)).then_with(|| within_phase(a, b)));
    connect(&mut planned);
    Ok(planned)
}

/// The ops of one change. Where the kind changes, one goes and another comes.
fn split((index, change): (usize, &Change)) -> Vec<Planned> {
    let verbs: Vec<Verb> = match (&change.pre, &change.post) {
        (None, None) => vec![],
        (None, Some(post)) => vec![makes(post)],
        (Some(pre), None) => vec![removes(pre)],
        (Some(pre), Some(post)) if pre.state.kind != post.state.kind => vec![removes(pre), makes(post)],
        (Some(pre), Some(post)) => {
            let same_bytes = pre.state.hash == post.state.hash && pre.state.size == post.state.size;
            let content = match pre.state.kind {
                Kind::File if !same_bytes => Some(Verb::Write),
                Kind::Symlink if !same_bytes => Some(Verb::Link),
                Kind::File | Kind::Symlink | Kind::Dir => None,
            };
            let has_mode = pre.state.kind != Kind::Symlink;
            let mode = (has_mode && pre.state.mode != post.state.mode).then_some(Verb::Mode);
            content.into_iter().chain(mode).collect()
        }
    };
    verbs.into_iter().map(|verb| plan(verb, change.root, change.path.clone(), Some(index))).collect()
}

fn plan(verb: Verb, root: RootNo, path: RelPath, change: Option<usize>) -> Planned {
    Planned { verb, root, path, change, in_the_way: false, cleared_by: None, park_in: None }
}

fn makes(image: &Image) -> Verb {
    match image.state.kind {
        Kind::File => Verb::Create,
        Kind::Symlink => Verb::Link,
        Kind::Dir => Verb::MakeDir,
    }
}

fn removes(image: &Image) -> Verb {
    match image.state.kind {
        Kind::File | Kind::Symlink => Verb::Remove,
        Kind::Dir => Verb::RemoveDir,
    }
}

fn makes_something(planned: &Planned) -> bool {
    match planned.verb {
        Verb::MakeDir | Verb::Create | Verb::Link => true,
        Verb::Write | Verb::Mode | Verb::Remove | Verb::RemoveDir => false,
    }
}

fn removes_something(planned: &Planned) -> bool {
    matches!(planned.verb, Verb::Remove | Verb::RemoveDir)
}

fn key(planned: &Planned) -> Key {
    (planned.root, planned.path.clone())
}

/// Adds the directories that are needed and not there. One that would go and be needed again stays.
fn add_directories<E>(
    planned: &mut Vec<Planned>,
    is_dir: &mut impl FnMut(RootNo, &RelPath) -> Result<bool, E>,
) -> Result<(), E> {
    let removed: BTreeMap<Key, Verb> =
        planned.iter().filter(|one| removes_something(one)).map(|one| (key(one), one.verb)).collect();
    let mut known: BTreeSet<Key> = planned.iter().filter(|one| one.verb == Verb::MakeDir).map(key).collect();
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
                Some(Verb::RemoveDir) => {
                    needed_again.insert(here);
                    break;
                }
                Some(_) => added.push(plan(Verb::MakeDir, one.root, directory, None)),
                None if is_dir(one.root, &directory)? => break,
                None => added.push(plan(Verb::MakeDir, one.root, directory, None)),
            }
        }
    }
    planned.retain(|one| one.verb != Verb::RemoveDir || !needed_again.contains(&key(one)));
    planned.extend(added);
    Ok(())
}

/// A removal is in the way of what is made at its path, and of what is made where a directory above it was.
fn mark_in_the_way(planned: &mut [Planned]) {
    let made: BTreeSet<Key> = planned.iter().filter(|one| makes_something(one)).map(key).collect();
    let cleared: BTreeSet<Key> = planned
        .iter()
        .filter(|one| one.verb == Verb::RemoveDir)
        .map(key)
        .filter(|key| made.contains(key))
        .collect();
    for one in planned.iter_mut().filter(|one| removes_something(one)) {
        one.in_the_way = made.contains(&key(one)) || is_below(one, &cleared);
    }
}

fn is_below(one: &Planned, directories: &BTreeSet<Key>) -> bool {
    let mut above = one.path.parent();
    while let Some(directory) = above {
        above = directory.parent();
        if directories.contains(&(one.root, directory)) {
            return true;
        }
    }
    false
}

fn phase(planned: &Planned) -> (bool, Verb) {
    (!planned.in_the_way, planned.verb)
}

fn within_phase(a: &Planned, b: &Planned) -> std::cmp::Ordering {
    let rising = a.root.cmp(&b.root).then_with(|| a.path.cmp(&b.path));
    if a.verb == Verb::RemoveDir { rising.reverse() } else { rising }
}

/// Which op clears the way for which, and where each parks: not in a directory that goes.
fn connect(planned: &mut [Planned]) {
    let gone: BTreeSet<Key> = planned.iter().filter(|one| one.verb == Verb::RemoveDir).map(key).collect();
    let clears: BTreeMap<Key, u32> = (0_u32..)
        .zip(planned.iter())
        .filter(|(_, one)| removes_something(one) && one.in_the_way)
        .map(|(n, one)| (key(one), n))
        .collect();
    for one in planned.iter_mut() {
        if makes_something(one) {
            one.cleared_by = clears.get(&key(one)).copied();
        }
        let mut park_in = one.path.parent();
        while let Some(directory) = park_in.take_if(|directory| gone.contains(&(one.root, directory.clone())))
        {
            park_in = directory.parent();
        }
        one.park_in = park_in;
    }
}
