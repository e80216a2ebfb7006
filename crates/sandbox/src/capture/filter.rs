//! What is protected, and what is ignored: by git's rules as they stand in the sandbox, or by the plan's.
//!
//! # Invariants
//! 1. A protected name is protected at any depth, whatever else is said. No pattern takes protection back: whoever adds
//!    one can only make it stricter.
//! 2. What lies in an ignored directory is ignored, whatever a pattern further down says: git has it so.
//! 3. The closest `.gitignore` decides first; in one file the last pattern that fits.
//!
//! # Not here
//! Patterns that are not UTF-8: the matcher takes text only, so such a line says nothing, and what git ignores by it is not
//! ignored here.
//! That tracked and reported files are captured although ignored: [`Filter::is_scratch`] is told of them.

use std::collections::HashMap;
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

use super::{CaptureRules, Tracked};
use crate::beneath::{self, Links};
use crate::git_command::IsOver;
use crate::hidden::HiddenInProject;
use crate::regular::{only_regular, open_regular, read_bounded};

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

/// What is left of the patterns that are heeded. Those beyond say nothing, so that more is captured, never less.
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

    /// Whether there is room for this line.
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

/// What some editors begin a file with; git passes it by.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What is never written, by the rules of a plan: what [`is_of_no_project`] tells, and what their patterns name.
#[derive(Clone, Debug)]
pub struct Protected {
    patterns: Gitignore,
    hidden: HiddenInProject,
}

impl Protected {
    /// By these rules.
    pub fn of(rules: &CaptureRules) -> Protected {
        Protected { patterns: protecting(rules), hidden: HiddenInProject::default() }
    }

    /// By them, and what is hidden.
    #[must_use]
    pub fn and(self, hidden: HiddenInProject) -> Protected {
        Protected { hidden, ..self }
    }

    /// Whether the path, or a directory above it, is protected.
    pub fn has(&self, path: &RelPath, is_dir: bool) -> bool {
        let is_named = |path: &RelPath, is_dir| fits(&self.patterns, path.as_bytes(), is_dir) == Some(true);
        let mut above = path.parent();
        while let Some(dir) = above {
            if is_named(&dir, true) {
                return true;
            }
            above = dir.parent();
        }
        is_of_no_project(path) || self.hidden.has(path) || is_named(path, is_dir)
    }
}

/// The patterns of what is protected, without those that would take protection back.
fn protecting(rules: &CaptureRules) -> Gitignore {
    let named = rules.protected.iter().map(|pattern| pattern.trim_start());
    patterns(named.filter(|pattern| !pattern.starts_with('!')))
}

/// What the rules say of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Captured,
    Protected,
    /// Ignored, and whether as part of an ignored directory.
    Ignored {
        within: bool,
    },
}

/// The rules of one scan of one project.
pub(crate) struct Filter<'a> {
    tree: BorrowedFd<'a>,
    tracked: &'a mut Tracked,
    protected: Gitignore,
    hidden: HiddenInProject,
    ignored: Gitignore,
    git: Option<GitRules>,
    classes: HashMap<RelPath, Class>,
    /// The directory of the path that was asked for last: mostly the next one lies in it too.
    within: Option<Within>,
}

/// What holds for all that lies in one directory.
struct Within {
    /// The directory; none is the root.
    dir: Option<RelPath>,
    class: Class,
    /// What its `.gitignore` says and those above it in the tree, closest first, each with the length of the way to it.
    rules: Vec<(Arc<Gitignore>, usize)>,
}

impl Within {
    fn holds(&self, path: &RelPath) -> bool {
        let bytes = path.as_bytes();
        let slash = bytes.iter().rposition(|byte| *byte == b'/');
        slash.map(|slash| &bytes[..slash]) == self.dir.as_ref().map(RelPath::as_bytes)
    }
}

struct GitRules {
    /// The `.gitignore` of each directory in the tree, read when it is needed; the root's under none.
    inside: HashMap<Option<RelPath>, Arc<Gitignore>>,
    /// Those of the directories above the project, closest first, each with the way down to the project.
    above: Vec<(Gitignore, Vec<u8>)>,
    budget: PatternBudget,
}

impl<'a> Filter<'a> {
    pub(crate) fn new(
        tree: BorrowedFd<'a>,
        tracked: &'a mut Tracked,
        project: &Path,
        rules: &CaptureRules,
    ) -> Self {
        let of_git = rules.ignore.iter().any(|pattern| pattern == GITIGNORED);
        let others = rules.ignore.iter().filter(|pattern| *pattern != GITIGNORED);
        let git = of_git.then(|| {
            let mut budget = PatternBudget::new();
            let above = rules_above(tracked, project, &mut budget);
            // That of the root matters most, so it comes before those of other directories.
            let root = Arc::new(gitignore_in(tree, None, &mut budget));
            GitRules { inside: HashMap::from([(None, root)]), above, budget }
        });
        Filter {
            tree,
            tracked,
            protected: protecting(rules),
            hidden: HiddenInProject::default(),
            ignored: patterns(others.map(String::as_str)),
            git,
            classes: HashMap::new(),
            within: None,
        }
    }

    /// The same, in which these paths are protected.
    pub(crate) fn hiding(self, hidden: HiddenInProject) -> Self {
        Filter { hidden, ..self }
    }

    /// Told by who has listed a directory: it holds no `.gitignore`, so none is looked for.
    pub(crate) fn has_no_rules(&mut self, dir: Option<&RelPath>) {
        if let Some(git) = &mut self.git {
            git.inside.entry(dir.cloned()).or_insert_with(|| Arc::new(Gitignore::empty()));
        }
    }

    /// Whether patterns were left out, because there are too many or they are too long.
    pub(super) fn left_out_patterns(&self) -> bool {
        self.git.as_ref().is_some_and(|git| git.budget.is_met)
    }

    pub(crate) fn class(&mut self, path: &RelPath, is_dir: bool) -> Class {
        let within = match self.within.take() {
            Some(within) if within.holds(path) => within,
            Some(_) | None => self.enter(path.parent()),
        };
        let class = match within.class {
            Class::Protected => Class::Protected,
            Class::Captured | Class::Ignored { .. } if self.is_named_protected(path, is_dir) => {
                Class::Protected
            }
            Class::Ignored { .. } => Class::Ignored { within: true },
            Class::Captured if self.is_ignored(&within, path, is_dir) => Class::Ignored { within: is_dir },
            Class::Captured => Class::Captured,
        };
        self.within = Some(within);
        class
    }

    fn enter(&mut self, dir: Option<RelPath>) -> Within {
        let class = dir.as_ref().map_or(Class::Captured, |dir| self.class_of_dir(dir));
        let mut rules = Vec::new();
        if let Some(git) = self.git.as_mut().filter(|_| class == Class::Captured) {
            let mut at = dir.clone();
            loop {
                let tree = self.tree;
                let budget = &mut git.budget;
                let found = git
                    .inside
                    .entry(at.clone())
                    .or_insert_with(|| Arc::new(gitignore_in(tree, at.as_ref(), budget)));
                if !found.is_empty() {
                    rules.push((Arc::clone(found), at.as_ref().map_or(0, |dir| dir.as_bytes().len() + 1)));
                }
                match at {
                    Some(inner) => at = inner.parent(),
                    None => break,
                }
            }
        }
        Within { dir, class, rules }
    }

    fn is_named_protected(&self, path: &RelPath, is_dir: bool) -> bool {
        is_name_of_no_project(path.file_name())
            || self.hidden.has(path)
            || fits(&self.protected, path.as_bytes(), is_dir) == Some(true)
    }

    fn class_of_dir(&mut self, dir: &RelPath) -> Class {
        if let Some(class) = self.classes.get(dir) {
            return *class;
        }
        let class = self.class(dir, true);
        self.classes.insert(dir.clone(), class);
        class
    }

    /// Whether git has this file, or something in this directory, in its index or would take it in. Git is asked for its
    /// index the first time that something is ignored; none if there was no time for that.
    pub(crate) fn is_git_s(&mut self, path: &RelPath, is_dir: bool, is_over: &IsOver<'_>) -> Option<bool> {
        match self.class(path, is_dir) {
            Class::Captured => Some(true),
            Class::Protected => Some(false),
            Class::Ignored { .. } => self.tracked.ask(is_over).then(|| self.tracked.has_at(path, is_dir)),
        }
    }

    /// Whether something ignored is scratch: nobody tracks it, and it is new or part of an ignored directory.
    pub(super) fn is_scratch(&mut self, path: &RelPath, within: bool, is_new: impl FnOnce() -> bool) -> bool {
        (within || is_new()) && !self.tracked.has(path)
    }

    /// Whether all of an ignored directory is scratch.
    pub(super) fn is_scratch_dir(&mut self, dir: &RelPath) -> bool {
        !self.tracked.has_below(dir)
    }

    fn is_ignored(&self, within: &Within, path: &RelPath, is_dir: bool) -> bool {
        let of_plan = || fits(&self.ignored, path.as_bytes(), is_dir);
        let inside = || {
            let mut rules = within.rules.iter();
            rules.find_map(|(rules, way)| fits(rules, &path.as_bytes()[*way..], is_dir))
        };
        let above = || {
            let mut rules = self.git.iter().flat_map(|git| &git.above);
            rules.find_map(|(rules, way)| fits(rules, &[way.as_slice(), path.as_bytes()].concat(), is_dir))
        };
        of_plan().or_else(inside).or_else(above).unwrap_or(false)
    }
}

/// Whether the rules take the path, leave it on purpose, or say nothing.
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

/// Where git is told what to ignore.
pub(crate) const GITIGNORE: &str = ".gitignore";

fn gitignore_in(tree: BorrowedFd<'_>, dir: Option<&RelPath>, budget: &mut PatternBudget) -> Gitignore {
    let Ok(path) = crate::copy::join_name(dir, GITIGNORE.as_bytes()) else { return Gitignore::empty() };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    // Git does not follow a link here, so that what is ignored does not depend on files elsewhere.
    match beneath::open(tree.as_fd(), &path, flags, Mode::empty(), Links::Refuse) {
        Ok(file) => read_rules(only_regular(File::from(file)), budget),
        Err(_) => Gitignore::empty(),
    }
}

/// What a file says, if there is one that can be read.
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

/// Rules of the directories between the project and the top of its repository, then of the repository, then the user's.
fn rules_above(tracked: &Tracked, project: &Path, budget: &mut PatternBudget) -> Vec<(Gitignore, Vec<u8>)> {
    let Some(top) = tracked.top() else { return Vec::new() };
    let mut rules = Vec::new();
    let way_from = |dir: &Path| match project.strip_prefix(dir) {
        Ok(way) if !way.as_os_str().is_empty() => [way.as_os_str().as_bytes(), b"/"].concat(),
        Ok(_) | Err(_) => Vec::new(),
    };
    for dir in project.ancestors().skip(1).take_while(|dir| dir.starts_with(top)) {
        rules.push((read_rules(open_regular(&dir.join(GITIGNORE)), budget), way_from(dir)));
    }
    let of_user = ignore::gitignore::gitconfig_excludes_path();
    for file in tracked.exclude_file().into_iter().chain(of_user) {
        rules.push((read_rules(open_regular(&file), budget), way_from(top)));
    }
    rules.retain(|(rules, _)| !rules.is_empty());
    rules
}
