//! Paths of the machine that nothing of a plan sees: neither its commands, nor its tools, nor its contexts.
//!
//! # Invariants
//! 1. A path is hidden by each of its names: as it was given, and without links.
//! 2. A file that is opened through links is judged by its real path, after it was opened.
//!
//! # Not here
//! Covering them from commands: `isolation`. The list of the paths: the user's settings.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::RelPath;

/// The hidden paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenPathMatcher {
    /// Sorted. Every sandbox has the same ones.
    paths: Arc<[PathBuf]>,
}

impl HiddenPathMatcher {
    /// These paths, and where their links lead.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> HiddenPathMatcher {
        let mut all = Vec::new();
        let mut resolver = Resolver::default();
        for path in paths.into_iter().filter(|path| path.is_absolute()) {
            // One that is not there yet may be made by a tool: its directory counts as it is.
            if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
                let real = resolver.real(parent).map(|parent| parent.join(name));
                let leads_to =
                    real.as_deref().filter(|real| is_link(real)).and_then(|real| fs::canonicalize(real).ok());
                all.extend(real.filter(|real| *real != path));
                all.extend(leads_to);
            } else {
                all.extend(fs::canonicalize(&path).ok());
            }
            all.push(path);
        }
        all.sort();
        all.dedup();
        HiddenPathMatcher { paths: all.into() }
    }

    /// All of them.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path)
    }

    /// The hidden path that this path is, or is below; `None` if it is not hidden.
    pub fn above(&self, path: &Path) -> Option<&Path> {
        self.paths.iter().map(PathBuf::as_path).find(|hidden| path.starts_with(hidden))
    }

    /// The hidden paths inside a project. Those that the project itself is below do not count: a person
    /// agreed to it.
    pub fn within(&self, project: &Path) -> HiddenInProject {
        // They are sorted by their components, so all paths inside the project follow its own place.
        let start = self.paths.partition_point(|path| path.as_path() < project);
        let inside = self.paths.iter().skip(start).map_while(|path| path.strip_prefix(project).ok());
        let prefixes = inside.map(|way| way.as_os_str().as_bytes().to_vec());
        HiddenInProject { prefixes: prefixes.filter(|way| !way.is_empty()).collect() }
    }
}

/// Finds directories without links, each once: most hidden paths are in the same few directories, which are
/// often absent.
#[derive(Default)]
struct Resolver {
    known: HashMap<PathBuf, Option<PathBuf>>,
}

impl Resolver {
    /// The directory without links; `None` if it is not there.
    fn real(&mut self, dir: &Path) -> Option<PathBuf> {
        if let Some(known) = self.known.get(dir) {
            return known.clone();
        }
        let real = match (dir.parent(), dir.file_name()) {
            (Some(parent), Some(name)) => {
                self.real(parent).map(|parent| parent.join(name)).and_then(resolve_existing)
            }
            // The root, or a path that ends in `..`.
            (Some(_), None) | (None, _) => fs::canonicalize(dir).ok(),
        };
        self.known.insert(dir.to_owned(), real.clone());
        real
    }
}

/// A path in a directory without links, itself without links; `None` if nothing is there.
fn resolve_existing(path: PathBuf) -> Option<PathBuf> {
    let metadata = fs::symlink_metadata(&path).ok()?;
    if metadata.is_symlink() { fs::canonicalize(path).ok() } else { Some(path) }
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// The hidden paths of one project, from its root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenInProject {
    prefixes: Vec<Vec<u8>>,
}

impl HiddenInProject {
    /// Returns whether the path is hidden, or below one that is.
    pub fn has(&self, path: &RelPath) -> bool {
        self.has_bytes(path.as_bytes())
    }

    /// Returns an error if the path is hidden.
    ///
    /// # Errors
    /// It is.
    pub fn check(&self, path: &RelPath) -> io::Result<()> {
        if self.has(path) { Err(refused()) } else { Ok(()) }
    }

    /// Returns an error if what was opened beneath `root`, perhaps through links, is hidden.
    ///
    /// # Errors
    /// Returns an error if it is, or if its place cannot be determined.
    pub fn check_opened(&self, root: BorrowedFd<'_>, opened: BorrowedFd<'_>) -> io::Result<()> {
        if self.prefixes.is_empty() {
            return Ok(());
        }
        let place = |fd: BorrowedFd<'_>| fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        let (root, opened) = (place(root)?, place(opened)?);
        let way = opened.strip_prefix(&root).map_err(io::Error::other)?;
        if self.has_bytes(way.as_os_str().as_bytes()) { Err(refused()) } else { Ok(()) }
    }

    fn has_bytes(&self, path: &[u8]) -> bool {
        let is_at_or_below = |hidden: &Vec<u8>| match path.strip_prefix(hidden.as_slice()) {
            Some(rest) => rest.is_empty() || rest.starts_with(b"/"),
            None => false,
        };
        self.prefixes.iter().any(is_at_or_below)
    }
}

fn refused() -> io::Error {
    let why = "it is hidden from plans: see `isolation.hide` in the settings";
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_hidden_by_its_name_by_where_it_leads_and_with_all_below_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        fs::create_dir_all(home.join("dotfiles/ssh")).unwrap();
        fs::create_dir_all(home.join("open")).unwrap();
        fs::write(home.join("dotfiles/ssh/id"), "key").unwrap();
        symlink("dotfiles/ssh", home.join(".ssh")).unwrap();
        symlink("../dotfiles/ssh", home.join("open/way")).unwrap();
        let hidden =
            HiddenPathMatcher::new([home.join(".ssh"), home.join(".netrc"), PathBuf::from("relative")]);
        let inside = hidden.within(&home);
        let has = |path: &str| inside.has(&RelPath::new(path).unwrap());
        assert!(has(".ssh") && has(".ssh/id") && has("dotfiles/ssh/id") && has(".netrc"));
        assert!(!has(".sshd") && !has("dotfiles") && !has("open/way/id"));
        assert_eq!(hidden.above(&home.join(".ssh/deep")), Some(home.join(".ssh").as_path()));
        assert_eq!(hidden.above(&home), None);
        assert_eq!(hidden.within(&home.join("dotfiles/ssh")), HiddenInProject::default());

        let root = crate::fs::beneath::open_root(&home).unwrap();
        let check = |path: &str| {
            let opened = fs::File::open(home.join(path)).unwrap();
            inside.check_opened(root.as_fd(), opened.as_fd()).map_err(|error| error.kind())
        };
        assert_eq!(check("open/way/id"), Err(io::ErrorKind::PermissionDenied));
        assert_eq!(check("open"), Ok(()));
    }

    #[test]
    fn the_paths_inside_a_project_are_found_among_neighbours_of_similar_names() {
        let paths = [
            "/h",
            "/h/p",
            "/h/p/a",
            "/h/p/a/b",
            "/h/p/.x",
            "/h/p/../q",
            "/h/p-x",
            "/h/p-x/a",
            "/h/p.b/a",
            "/h/p0",
            "/h/pp/a",
            "/h/o/p/a",
            "/a",
            "/z/h/p/a",
        ];
        let hidden = HiddenPathMatcher::new(paths.map(PathBuf::from));
        for project in ["/", "/h", "/h/", "/h/p", "/h/p/", "/h/p-x", "/h/p.b", "/h/p/a", "/h/none", "/zz"] {
            let project = Path::new(project);
            let below = |path: &Path| path != project && path.starts_with(project);
            let expected: Vec<&Path> = hidden.paths().filter(|path| below(path)).collect();
            let found = hidden.within(project).prefixes;
            let found: Vec<PathBuf> =
                found.into_iter().map(|way| project.join(std::ffi::OsStr::from_bytes(&way))).collect();
            assert_eq!(found, expected, "{}", project.display());
        }
    }
}
