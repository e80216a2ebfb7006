//! Shared helpers of the index tests: a project in memory with settable times, one on disk, a manual wall
//! clock.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use context::StopCheck;
use context::index::{Index, IndexConfig, IndexUpdate, Snapshot};
use context::ports::{FileStat, FileTree, History, PortError, StopPoll, WalkSummary, WallClock};
use domain::RelPath;
use sync::{CancellationToken, ManualClock};

pub(crate) const SECOND_NS: i64 = 1_000_000_000;

pub(crate) fn path(text: impl AsRef<[u8]>) -> RelPath {
    RelPath::new(text).expect("a test's path keeps the rule")
}

/// The time on a wall that a test moves.
pub(crate) struct Wall(AtomicI64);

impl Wall {
    pub(crate) fn new() -> Arc<Wall> {
        Arc::new(Wall(AtomicI64::new(1_000_000 * SECOND_NS)))
    }

    pub(crate) fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds * SECOND_NS, Ordering::SeqCst);
    }
}

impl WallClock for Wall {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Clone)]
pub(crate) struct MemFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mtime_ns: i64,
    pub(crate) inode: u64,
}

type OnRead = dyn Fn(&RelPath) -> io::Result<()> + Send + Sync;

/// A project in memory. It remembers what was read.
pub(crate) struct MemTree {
    wall: Arc<Wall>,
    pub(crate) files: Mutex<BTreeMap<RelPath, MemFile>>,
    pub(crate) reads: Mutex<Vec<RelPath>>,
    /// The result of a walk that nothing stops.
    pub(crate) end: Mutex<WalkSummary>,
    /// Called before each read.
    pub(crate) on_read: Box<OnRead>,
}

impl MemTree {
    pub(crate) fn new(wall: &Arc<Wall>) -> MemTree {
        MemTree {
            wall: Arc::clone(wall),
            files: Mutex::default(),
            reads: Mutex::default(),
            end: Mutex::new(WalkSummary::all()),
            on_read: Box::new(|_| Ok(())),
        }
    }

    pub(crate) fn of(wall: &Arc<Wall>, files: &[(&str, &str)]) -> MemTree {
        let tree = MemTree::new(wall);
        for (name, text) in files {
            tree.write(name, text.as_bytes());
        }
        tree
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let mut files = self.files.lock().expect("not poisoned");
        let inode = files.get(&path(name)).map_or(files.len() as u64 + 1, |file| file.inode);
        let file = MemFile { bytes: bytes.to_vec(), mtime_ns: self.wall.now_ns(), inode };
        files.insert(path(name), file);
    }

    pub(crate) fn remove(&self, name: &RelPath) {
        self.files.lock().expect("not poisoned").remove(name);
    }

    /// The files that were read since the last call, in order.
    pub(crate) fn reads(&self) -> Vec<String> {
        let mut reads: Vec<RelPath> = std::mem::take(&mut *self.reads.lock().expect("not poisoned"));
        reads.sort();
        reads.iter().map(ToString::to_string).collect()
    }

    /// A snapshot built from nothing.
    pub(crate) fn rebuilt(&self) -> Snapshot {
        let files = self.files.lock().expect("not poisoned");
        Snapshot::of_files(files.iter().map(|(path, file)| (path.clone(), file.bytes.clone())))
    }
}

impl FileTree for MemTree {
    fn walk(
        &self,
        is_over: &StopPoll<'_>,
        sink: &(dyn Fn(FileStat) + Sync),
    ) -> Result<WalkSummary, PortError> {
        let files = self.files.lock().expect("not poisoned").clone();
        for (path, file) in files {
            let (size, times) = (file.bytes.len() as u64, file.mtime_ns);
            let stat = FileStat { path, size, mtime_ns: times, ctime_ns: times, inode: file.inode };
            if is_over() {
                return Ok(WalkSummary::stopped());
            }
            sink(stat);
        }
        Ok(self.end.lock().expect("not poisoned").clone())
    }

    fn size(&self, path: &RelPath) -> io::Result<u64> {
        let files = self.files.lock().expect("not poisoned");
        Ok(files.get(path).ok_or(io::ErrorKind::NotFound)?.bytes.len() as u64)
    }

    fn read(&self, path: &RelPath, max: usize) -> io::Result<Vec<u8>> {
        self.reads.lock().expect("not poisoned").push(path.clone());
        (self.on_read)(path)?;
        let files = self.files.lock().expect("not poisoned");
        let file = files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(file.bytes[..file.bytes.len().min(max)].to_vec())
    }
}

/// A project on disk, without git's rules.
pub(crate) struct DirTree(pub(crate) PathBuf);

impl DirTree {
    fn below(&self, dir: &Path, sink: &(dyn Fn(FileStat) + Sync)) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let found = entry.metadata()?;
            if found.is_dir() {
                self.below(&entry.path(), sink)?;
                continue;
            }
            let at = entry.path();
            let below = at.strip_prefix(&self.0).expect("below the root");
            let stat = FileStat {
                path: path(below.as_os_str().as_bytes()),
                size: found.len(),
                mtime_ns: found.mtime() * SECOND_NS + found.mtime_nsec(),
                ctime_ns: found.ctime() * SECOND_NS + found.ctime_nsec(),
                inode: found.ino(),
            };
            sink(stat);
        }
        Ok(())
    }
}

impl FileTree for DirTree {
    fn walk(&self, _: &StopPoll<'_>, sink: &(dyn Fn(FileStat) + Sync)) -> Result<WalkSummary, PortError> {
        match self.below(&self.0, sink) {
            Ok(()) => Ok(WalkSummary::all()),
            Err(why) => Err(PortError { message: why.to_string(), source: Some(Box::new(why)) }),
        }
    }

    fn size(&self, path: &RelPath) -> io::Result<u64> {
        Ok(fs::symlink_metadata(self.0.join(std::ffi::OsStr::from_bytes(path.as_bytes())))?.len())
    }

    fn read(&self, path: &RelPath, max: usize) -> io::Result<Vec<u8>> {
        use std::io::Read;
        let mut bytes = Vec::new();
        let at = self.0.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
        fs::File::open(at)?.take(max as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// An index with clocks to move.
pub(crate) struct Rig {
    pub(crate) wall: Arc<Wall>,
    pub(crate) clock: ManualClock,
    pub(crate) token: CancellationToken,
    pub(crate) config: IndexConfig,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        let config = IndexConfig { threads: 3, ..IndexConfig::default() };
        Rig { wall: Wall::new(), clock: ManualClock::new(), token: CancellationToken::new(), config }
    }

    pub(crate) fn in_memory(&self) -> Index {
        Index::in_memory(self.config.clone(), Arc::new(self.clock.clone()), self.wall.clone())
    }

    pub(crate) fn in_file(&self, file: &Path) -> Index {
        let clock = Arc::new(self.clock.clone());
        Index::in_file(file.to_owned(), self.config.clone(), clock, self.wall.clone())
    }

    pub(crate) fn stop(&self) -> StopCheck {
        StopCheck::new(self.token.observe(), None, Arc::new(self.clock.clone()))
    }

    /// Updates, after the moment in which an update is not repeated.
    pub(crate) fn update(&self, index: &Index, tree: &dyn FileTree) -> IndexUpdate {
        self.update_with(index, tree, None)
    }

    pub(crate) fn update_with(
        &self,
        index: &Index,
        tree: &dyn FileTree,
        history: Option<&dyn History>,
    ) -> IndexUpdate {
        self.clock.advance(std::time::Duration::from_secs(2));
        index.update(tree, history, &self.stop()).expect("nobody cancels")
    }
}

pub(crate) fn paths(snapshot: &Snapshot) -> Vec<String> {
    snapshot.files().iter().map(|file| file.path.to_string()).collect()
}
