//! The rules for protected and ignored paths: git's rules as they are in the sandbox, or the plan's.
//!
//! # Invariants
//! 1. A protected name is protected at any depth, whatever else is said. No pattern takes protection back:
//!    an added pattern can only make it stricter.
//! 2. Everything in an ignored directory is ignored, whatever a pattern further down says, as in git.
//! 3. The closest `.gitignore` decides first; in one file the last pattern that fits.
//! 4. A directory is entered once: what holds in it follows from what holds in the one above it.
//!
//! # Not here
//! Patterns that are not UTF-8. The matcher takes text only, so such a line says nothing, and what git
//! ignores by it is not ignored here. That tracked and reported files are captured although ignored:
//! [`CaptureFilter::is_scratch`] gets them as an argument.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use domain::{RelPath, is_name_of_no_project, is_of_no_project};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags};

use super::{CaptureRules, TrackedRepository};
use crate::fs::beneath;
use crate::fs::beneath::LinkPolicy;
use crate::fs::regular_file::{only_regular, open_regular, read_bounded};
use crate::git::command::GitStopCheck;
use crate::hidden_path_matcher::HiddenInProject;

/// In [`CaptureRules::ignore`]: all that git ignores.
pub const GITIGNORED: &str = "@gitignored";

/// An ignore file longer than this is read up to here.
const IGNORE_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// So many patterns of ignore files are heeded in a project: each costs time and memory to be made ready.
const PATTERNS_MAX: usize = 20_000;

/// So many bytes may they have in all.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// A longer line of an ignore file says nothing.
const PATTERN_LINE_BYTES_MAX: usize = 1024;

/// The rest of the patterns that are heeded. Patterns beyond it have no effect, so that more is captured,
/// never less.
#[derive(Debug)]
struct PatternBudget {
    patterns: usize,
    bytes: usize,
    is_met: bool,
}

impl PatternBudget {
    fn new() -> PatternBudget {
        PatternBudget { patterns: PATTERNS_MAX, bytes: PATTERN_BYTES_MAX, is_met: false }
    }

    /// Returns true if there is room for this line.
    fn takes(&mut self, line: &str) -> bool {
        if line.trim().is_empty() || line.starts_with('#') {
            return false;
        }
        let fits = line.len() <= PATTERN_LINE_BYTES_MAX && self.patterns > 0 && line.len() <= self.bytes;
        if fits {
            self.patterns -= 1;
            self.bytes -= line.len();
        } else {
            self.is_met = true;
        }
        fits
    }
}

/// The mark with which some editors begin a file; git skips it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The paths that a plan never writes: those for which [`is_of_no_project`] is true, and those that its
/// patterns name.
#[derive(Clone, Debug)]
pub struct ProtectedPaths {
    patterns: Gitignore,
    hidden: HiddenInProject,
}

impl ProtectedPaths {
    /// By these rules.
    pub fn new(rules: &CaptureRules) -> ProtectedPaths {
        ProtectedPaths { patterns: protected_patterns(rules), hidden: HiddenInProject::default() }
    }

    /// By them, and what is hidden.
    #[must_use]
    pub fn and(self, hidden: HiddenInProject) -> ProtectedPaths {
        ProtectedPaths { hidden, ..self }
    }

    /// Returns true if the path, or a directory above it, is protected.
    pub fn has(&self, path: &RelPath, is_dir: bool) -> bool {
        let is_named = |path: &[u8], is_dir| fits(&self.patterns, path, is_dir) == Some(true);
        let bytes = path.as_bytes();
        let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.map(|(slash, _)| &bytes[..slash]).any(|dir| is_named(dir, true))
            || is_of_no_project(path)
            || self.hidden.has(path)
            || is_named(bytes, is_dir)
    }
}

/// The patterns of what is protected, without those that would take protection back.
fn protected_patterns(rules: &CaptureRules) -> Gitignore {
    let named = rules.protected.iter().map(|pattern| pattern.trim_start());
    patterns(named.filter(|pattern| !pattern.starts_with('!')))
}

/// The class that the rules give a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathClass {
    Captured,
    Protected,
    /// Ignored, and whether as part of an ignored directory.
    Ignored {
        within: bool,
    },
}

/// The rules of one scan of one project.
pub(crate) struct CaptureFilter<'a> {
    tree: BorrowedFd<'a>,
    tracked: &'a mut TrackedRepository,
    protected: Gitignore,
    hidden: HiddenInProject,
    ignored: Gitignore,
    git: Option<GitRules>,
    /// The rules in each directory that was asked for; those of the root under `None`.
    entered: HashMap<Option<RelPath>, DirRules>,
    /// The directory of the path that was asked for last: mostly the next one is in it too.
    last: Option<(Option<RelPath>, DirRules)>,
    /// The number of times that a directory was entered or passed on the way to one.
    #[cfg(test)]
    steps: usize,
}

/// The rules for everything in one directory.
#[derive(Clone)]
struct DirRules {
    class: PathClass,
    /// The closest `.gitignore` that says something.
    rules: Option<Arc<RulesInTree>>,
}

/// The rules of a `.gitignore` in the tree.
struct RulesInTree {
    own: Gitignore,
    /// The length of the way to its directory.
    way: usize,
    /// The next one above it.
    above: Option<Arc<RulesInTree>>,
}

/// Returns true if the path is in this directory itself; `None` is the root.
fn is_in(dir: Option<&RelPath>, path: &RelPath) -> bool {
    let bytes = path.as_bytes();
    let slash = bytes.iter().rposition(|byte| *byte == b'/');
    slash.map(|slash| &bytes[..slash]) == dir.map(RelPath::as_bytes)
}

struct GitRules {
    /// Directories without a `.gitignore`, as far as that is known.
    without: HashSet<RelPath>,
    /// Those of the directories above the project, closest first, each with the way down to the project.
    above: Vec<(Gitignore, Vec<u8>)>,
    budget: PatternBudget,
}

impl<'a> CaptureFilter<'a> {
    pub(crate) fn new(
        tree: BorrowedFd<'a>,
        tracked: &'a mut TrackedRepository,
        project: &Path,
        rules: &CaptureRules,
    ) -> Self {
        let of_git = rules.ignore.iter().any(|pattern| pattern == GITIGNORED);
        let others = rules.ignore.iter().filter(|pattern| *pattern != GITIGNORED);
        let mut root = DirRules { class: PathClass::Captured, rules: None };
        let git = of_git.then(|| {
            let mut budget = PatternBudget::new();
            let above = rules_above(tracked, project, &mut budget);
            // That of the root matters most, so it comes before those of other directories.
            root.rules = rules_in(tree, None, None, &mut budget);
            GitRules { without: HashSet::new(), above, budget }
        });
        CaptureFilter {
            tree,
            tracked,
            protected: protected_patterns(rules),
            hidden: HiddenInProject::default(),
            ignored: patterns(others.map(String::as_str)),
            git,
            entered: HashMap::from([(None, root)]),
            last: None,
            #[cfg(test)]
            steps: 0,
        }
    }

    /// The same, in which these paths are protected.
    pub(crate) fn with_hidden(self, hidden: HiddenInProject) -> Self {
        CaptureFilter { hidden, ..self }
    }

    /// Called by a caller that has listed a directory: it has no `.gitignore`, so none is looked for.
    pub(crate) fn has_no_rules(&mut self, dir: Option<&RelPath>) {
        if let (Some(git), Some(dir)) = (&mut self.git, dir) {
            git.without.insert(dir.clone());
        }
    }

    /// Returns true if patterns were left out, because there are too many or they are too long.
    pub(super) fn left_out_patterns(&self) -> bool {
        self.git.as_ref().is_some_and(|git| git.budget.is_met)
    }

    pub(crate) fn class(&mut self, path: &RelPath, is_dir: bool) -> PathClass {
        let (dir, within) = match self.last.take() {
            Some((dir, within)) if is_in(dir.as_ref(), path) => (dir, within),
            Some(_) | None => {
                let dir = path.parent();
                (dir.clone(), self.enter(dir))
            }
        };
        let class = self.class_within(&within, path, is_dir);
        self.last = Some((dir, within));
        class
    }

    fn class_within(&self, within: &DirRules, path: &RelPath, is_dir: bool) -> PathClass {
        match within.class {
            PathClass::Protected => PathClass::Protected,
            PathClass::Captured | PathClass::Ignored { .. } if self.is_named_protected(path, is_dir) => {
                PathClass::Protected
            }
            PathClass::Ignored { .. } => PathClass::Ignored { within: true },
            PathClass::Captured if self.is_ignored(within, path, is_dir) => {
                PathClass::Ignored { within: is_dir }
            }
            PathClass::Captured => PathClass::Captured,
        }
    }

    /// Goes up to a directory that was entered before, and down again.
    fn enter(&mut self, dir: Option<RelPath>) -> DirRules {
        let mut new = Vec::new();
        let mut at = dir;
        let mut within = loop {
            #[cfg(test)]
            {
                self.steps += 1;
            }
            match (self.entered.get(&at), at) {
                (Some(within), _) => break within.clone(),
                (None, Some(dir)) => {
                    at = dir.parent();
                    new.push(dir);
                }
                (None, None) => break DirRules { class: PathClass::Captured, rules: None },
            }
        };
        while let Some(dir) = new.pop() {
            let class = self.class_within(&within, &dir, true);
            let is_silent = |git: &GitRules| class != PathClass::Captured || git.without.contains(&dir);
            let rules = match &mut self.git {
                Some(git) if !is_silent(git) => {
                    rules_in(self.tree, Some(&dir), within.rules, &mut git.budget)
                }
                Some(_) | None => within.rules,
            };
            within = DirRules { class, rules };
            self.entered.insert(Some(dir), within.clone());
        }
        within
    }

    fn is_named_protected(&self, path: &RelPath, is_dir: bool) -> bool {
        is_name_of_no_project(path.file_name())
            || self.hidden.has(path)
            || fits(&self.protected, path.as_bytes(), is_dir) == Some(true)
    }

    /// Returns whether git has this file, or something in this directory, in its index or would add it. Git
    /// is asked for its index the first time that something is ignored; `None` if there was no time for that.
    pub(crate) fn is_git_s(
        &mut self,
        path: &RelPath,
        is_dir: bool,
        is_over: &GitStopCheck<'_>,
    ) -> Option<bool> {
        match self.class(path, is_dir) {
            PathClass::Captured => Some(true),
            PathClass::Protected => Some(false),
            PathClass::Ignored { .. } => self.tracked.ask(is_over).then(|| self.tracked.has_at(path, is_dir)),
        }
    }

    /// Returns true if something ignored is scratch: git does not track it, and it is new or part of an
    /// ignored directory.
    pub(super) fn is_scratch(&mut self, path: &RelPath, within: bool, is_new: impl FnOnce() -> bool) -> bool {
        (within || is_new()) && !self.tracked.has(path)
    }

    /// Returns true if all of an ignored directory is scratch.
    pub(super) fn is_scratch_dir(&mut self, dir: &RelPath) -> bool {
        !self.tracked.has_below(dir)
    }

    fn is_ignored(&self, within: &DirRules, path: &RelPath, is_dir: bool) -> bool {
        let of_plan = || fits(&self.ignored, path.as_bytes(), is_dir);
        let inside = || {
            let mut rules = std::iter::successors(within.rules.as_ref(), |rules| rules.above.as_ref());
            rules.find_map(|rules| fits(&rules.own, &path.as_bytes()[rules.way..], is_dir))
        };
        let above = || {
            let mut rules = self.git.iter().flat_map(|git| &git.above);
            rules.find_map(|(rules, way)| fits(rules, &[way.as_slice(), path.as_bytes()].concat(), is_dir))
        };
        of_plan().or_else(inside).or_else(above).unwrap_or(false)
    }
}

/// Returns whether the rules take the path or leave it on purpose; `None` if they say nothing.
fn fits(rules: &Gitignore, path: &[u8], is_dir: bool) -> Option<bool> {
    if rules.is_empty() {
        return None;
    }
    match rules.matched(Path::new(OsStr::from_bytes(path)), is_dir) {
        ignore::Match::None => None,
        ignore::Match::Ignore(_) => Some(true),
        ignore::Match::Whitelist(_) => Some(false),
    }
}

/// A pattern that is none says nothing, as for git.
fn patterns<'a>(lines: impl Iterator<Item = &'a str>) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for line in lines {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// The name of the file that lists the paths git ignores.
pub(crate) const GITIGNORE: &str = ".gitignore";

/// Returns the rules in a directory below one with these rules.
fn rules_in(
    tree: BorrowedFd<'_>,
    dir: Option<&RelPath>,
    above: Option<Arc<RulesInTree>>,
    budget: &mut PatternBudget,
) -> Option<Arc<RulesInTree>> {
    let own = gitignore_in(tree, dir, budget);
    if own.is_empty() {
        return above;
    }
    let way = dir.map_or(0, |dir| dir.as_bytes().len() + 1);
    Some(Arc::new(RulesInTree { own, way, above }))
}

fn gitignore_in(tree: BorrowedFd<'_>, dir: Option<&RelPath>, budget: &mut PatternBudget) -> Gitignore {
    let Ok(path) = crate::open::copy::join_name(dir, GITIGNORE.as_bytes()) else { return Gitignore::empty() };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    // Git does not follow a link here, so that what is ignored does not depend on files elsewhere.
    match beneath::open(tree.as_fd(), &path, flags, Mode::empty(), LinkPolicy::Refuse) {
        Ok(file) => read_rules(only_regular(File::from(file)), budget),
        Err(_) => Gitignore::empty(),
    }
}

/// Returns the rules in a file; none if it cannot be read.
fn read_rules(file: io::Result<File>, budget: &mut PatternBudget) -> Gitignore {
    match file.and_then(|file| read_bounded(file, IGNORE_FILE_BYTES_MAX)) {
        Ok(bytes) => {
            let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
            let lines = text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
            patterns(lines.filter(|line| budget.takes(line)))
        }
        Err(_) => Gitignore::empty(),
    }
}

/// Rules of the directories between the project and the top of its repository, then of the repository, then
/// the user's.
fn rules_above(
    tracked: &TrackedRepository,
    project: &Path,
    budget: &mut PatternBudget,
) -> Vec<(Gitignore, Vec<u8>)> {
    let Some(top) = tracked.top() else { return Vec::new() };
    let mut rules = Vec::new();
    let way_from = |dir: &Path| match project.strip_prefix(dir) {
        Ok(way) if !way.as_os_str().is_empty() => [way.as_os_str().as_bytes(), b"/"].concat(),
        Ok(_) | Err(_) => Vec::new(),
    };
    for dir in project.ancestors().skip(1).take_while(|dir| dir.starts_with(top)) {
        rules.push((read_rules(open_regular(&dir.join(GITIGNORE)), budget), way_from(dir)));
    }
    for file in tracked.exclude_files() {
        rules.push((read_rules(open_regular(&file), budget), way_from(top)));
    }
    rules.retain(|(rules, _)| !rules.is_empty());
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_of_a_chain_costs_the_same_however_deep_it_is() {
        const DEEP: usize = 1500;
        let project = tempfile::TempDir::new().unwrap();
        std::fs::write(project.path().join(GITIGNORE), "*.log\n").unwrap();
        std::fs::create_dir(project.path().join("d")).unwrap();
        std::fs::write(project.path().join("d").join(GITIGNORE), "!kept.log\nkept.d/\n").unwrap();
        let tree = File::open(project.path()).unwrap();
        let mut tracked = TrackedRepository::new(project.path());
        let rules = CaptureRules::default();
        let mut filter = CaptureFilter::new(tree.as_fd(), &mut tracked, project.path(), &rules);
        let mut dir = "d".to_owned();
        for _ in 0..DEEP {
            let mut class =
                |name: &str, is_dir| filter.class(&RelPath::new(format!("{dir}/{name}")).unwrap(), is_dir);
            let classes =
                [class("x", false), class("x.log", false), class("kept.log", false), class("d", true)];
            let ignored = PathClass::Ignored { within: false };
            assert_eq!(classes, [PathClass::Captured, ignored, PathClass::Captured, PathClass::Captured]);
            dir.push_str("/d");
        }
        // Each is entered once, from the one above it.
        assert_eq!(filter.steps, 2 * DEEP);
    }
}
