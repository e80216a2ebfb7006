//! The directory of a sandbox: claimed while its owner runs, and swept when the owner is gone.
//!
//! # Invariants
//! 1. A directory belongs to the process that holds the `flock` of its `lock`. The kernel lets go when the
//!    owner dies, however it dies.
//! 2. A `lock` has its name only once it is held: no process can take it from an owner that has just made it.
//! 3. A directory without a `lock` is being made or was left in the making. The process that makes one holds
//!    the sandbox directory itself meanwhile, so the holder of that lock sees only leftovers.
//! 4. A sandbox is renamed before it is removed, so that its name is free at once and no process takes half a
//!    sandbox for one.
//! 5. Nothing is looked for behind a link: neither in the place of the directory of all sandboxes, nor in it.
//! 6. A sandbox whose lock says that it is retained is removed only on a request that names it.
//!
//! # Not here
//! The content of the lock: `lock_record`.

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::lock_record;
use super::lock_record::{OpenRecord, RetainNote};
use crate::fs::listing::{list, names};
use crate::fs::remove::remove_tree;

const LOCK: &CStr = c"lock";

/// The name of the lock until it is held.
const NEW_LOCK: &CStr = c"lock.new";

/// The prefix of the name that a directory gets before it is removed.
const GONE: &[u8] = b".gone-";

/// The reason that a directory could not be claimed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error("another process has it open")]
    Busy,
    #[error("it is retained for the changes in it")]
    Kept,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for ClaimError {
    fn from(errno: Errno) -> ClaimError {
        ClaimError::Io(errno.into())
    }
}

/// The directory of a sandbox, claimed. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SandboxDir {
    path: PathBuf,
    parent: OwnedFd,
    name: CString,
    dir: OwnedFd,
    /// None when it has been removed.
    lock: Option<Arc<OwnedFd>>,
    /// True if the sandbox outlives this handle.
    is_kept: Arc<Mutex<bool>>,
}

/// Retains a sandbox while another thread works in it.
#[derive(Clone, Debug)]
pub struct RetainHandle {
    path: PathBuf,
    lock: Arc<OwnedFd>,
    is_kept: Arc<Mutex<bool>>,
}

impl RetainHandle {
    /// Returns the directory of the sandbox.
    pub fn dir(&self) -> &Path {
        &self.path
    }

    /// Makes the sandbox outlive its owner, for the capture that follows. Its note is empty, unless the
    /// sandbox was retained before: then its note stays. Unlike [`Sandbox::retain`](crate::Sandbox::retain)
    /// this waits for no disk: it guards against the end of the process, not of the machine. Returns false if
    /// it was retained before.
    ///
    /// # Errors
    /// It could not be marked.
    pub fn retain(&self) -> io::Result<bool> {
        let mut is_kept = locked(&self.is_kept);
        if *is_kept {
            return Ok(false);
        }
        lock_record::mark_unsynced(self.lock.as_fd(), "")?;
        *is_kept = true;
        Ok(true)
    }

    /// The sandbox goes with its owner again.
    ///
    /// # Errors
    /// The mark could not be removed; it goes all the same, unless its owner dies before.
    pub fn unretain(&self) -> io::Result<()> {
        let mut is_kept = locked(&self.is_kept);
        *is_kept = false;
        lock_record::unmark(self.lock.as_fd())
    }
}

/// No code panics while holding it: it is a word and a write.
fn locked(is_kept: &Mutex<bool>) -> MutexGuard<'_, bool> {
    is_kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SandboxDir {
    /// Makes the directory. One of this name that was left over is removed first.
    pub(crate) fn make(path: &Path) -> Result<SandboxDir, ClaimError> {
        let (parent_path, name) = parent_and_name(path)?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent_path)?;
        let parent = open_parent(parent_path)?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&parent, FlockOperation::LockExclusive))?;
        let made = make_in(parent.as_fd(), &name);
        rustix::fs::flock(&parent, FlockOperation::Unlock)?;
        let (dir, lock, left) = made?;
        if let Some(TrashDir { name, lock }) = left {
            // It is out of the way; what cannot be removed now is swept later.
            let _ = remove_tree(parent.as_fd(), &name);
            drop(lock);
        }
        Ok(SandboxDir {
            path: path.to_owned(),
            parent,
            name,
            dir,
            lock: Some(Arc::new(lock)),
            is_kept: Arc::default(),
        })
    }

    /// Claims a retained sandbox; it stays retained.
    pub(crate) fn reclaim(path: &Path) -> Result<SandboxDir, ClaimError> {
        let (parent, name) = parent_and_name(path)?;
        let parent = open_parent(parent)?;
        let lock =
            take_leftover(parent.as_fd(), &name)?.ok_or(io::ErrorKind::NotFound).map_err(io::Error::from)?;
        if !lock_record::is_marked(lock.as_fd())? {
            return Err(io::Error::new(io::ErrorKind::NotFound, "it is not retained").into());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&parent, &name, flags, Mode::empty())?;
        Ok(SandboxDir {
            path: path.to_owned(),
            parent,
            name,
            dir,
            lock: Some(Arc::new(lock)),
            is_kept: Arc::new(Mutex::new(true)),
        })
    }

    /// Returns how the sandbox was opened, and why it is retained.
    pub(crate) fn read_lock_record(&self) -> io::Result<(OpenRecord, RetainNote)> {
        lock_record::read(self.lock.as_ref().ok_or(io::ErrorKind::NotFound)?.as_fd())
    }

    /// Writes down how the sandbox was opened.
    pub(crate) fn describe(&self, how: &OpenRecord) -> io::Result<()> {
        self.lock.as_ref().map_or(Ok(()), |lock| lock_record::describe(lock.as_fd(), how))
    }

    /// From now on it outlives its owner.
    pub(crate) fn retain(&mut self, note: &str) -> io::Result<()> {
        let lock = self.lock.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut is_kept = locked(&self.is_kept);
        lock_record::mark(lock.as_fd(), note)?;
        *is_kept = true;
        drop(is_kept);
        // The changes in it must outlive the machine's next crash too; overlays are mounted so that nothing
        // is synced.
        Ok(rustix::fs::syncfs(&self.dir)?)
    }

    /// From now on it goes with its owner again.
    pub(crate) fn unretain(&mut self) -> io::Result<()> {
        self.retain_handle().map_or(Ok(()), |keeper| keeper.unretain())
    }

    /// Returns a handle that can retain the sandbox from elsewhere; `None` if it has been removed.
    pub(crate) fn retain_handle(&self) -> Option<RetainHandle> {
        let lock = Arc::clone(self.lock.as_ref()?);
        Some(RetainHandle { path: self.path.clone(), lock, is_kept: Arc::clone(&self.is_kept) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode of the directory that all sandboxes lie in.
    pub(crate) fn parent_identity(&self) -> io::Result<(u64, u64)> {
        let stat = rustix::fs::fstat(&self.parent)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Removes everything in it, except the claim itself.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for name in names(self.dir.as_fd())? {
            if name.as_c_str() != LOCK {
                remove_tree(self.dir.as_fd(), &name)?;
            }
        }
        Ok(())
    }

    /// Removes it, unless it is retained, and releases the claim.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        let Some(lock) = self.lock.take() else { return Ok(()) };
        // Held until the name is free: a request to retain it comes too late from then on.
        let is_kept = locked(&self.is_kept);
        if *is_kept {
            // Said aloud: a child that was forked and has not begun its program yet holds the descriptor too.
            return Ok(rustix::fs::flock(&lock, FlockOperation::Unlock)?);
        }
        let aside = move_to_trash(self.parent.as_fd(), &self.name);
        drop(is_kept);
        let removed = aside.and_then(|aside| remove_tree(self.parent.as_fd(), &aside));
        // Unlocked explicitly: a handle that could have retained it holds the descriptor too.
        let _ = rustix::fs::flock(&lock, FlockOperation::Unlock);
        removed
    }
}

impl Drop for SandboxDir {
    fn drop(&mut self) {
        // A caller that wants the error calls `remove`; a directory that stays is swept at the next start.
        let _ = self.remove();
    }
}

fn parent_and_name(path: &Path) -> io::Result<(&Path, CString)> {
    let nameless =
        || io::Error::new(io::ErrorKind::InvalidInput, "a sandbox directory needs a name and a parent");
    let name = path.file_name().ok_or_else(nameless)?;
    Ok((path.parent().ok_or_else(nameless)?, CString::new(name.to_os_string().into_vec())?))
}

/// Opens the directory that sandboxes are in. A link in its place is not followed: directories of others
/// would be taken for sandboxes whose owners are gone.
fn open_parent(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| {
        if path.is_symlink() {
            let why = "is a link, which is not followed: name the directory itself in `sandbox.dir`";
            return io::Error::new(io::ErrorKind::NotADirectory, format!("{} {why}", path.display()));
        }
        errno.into()
    })
}

/// A directory that was renamed to be removed, and the claim on it.
struct TrashDir {
    name: CString,
    lock: Option<OwnedFd>,
}

/// The directory, its lock, and what had its name before.
fn make_in(parent: BorrowedFd<'_>, name: &CStr) -> Result<(OwnedFd, OwnedFd, Option<TrashDir>), ClaimError> {
    let mut left = None;
    match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            let lock = not_kept(take_leftover(parent, name)?)?;
            left = Some(TrashDir { name: move_to_trash(parent, name)?, lock });
            rustix::fs::mkdirat(parent, name, Mode::RWXU)?;
        }
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = rustix::fs::openat(&dir, NEW_LOCK, flags, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    rustix::fs::renameat(&dir, NEW_LOCK, &dir, LOCK)?;
    Ok((dir, lock, left))
}

/// The claim on a directory whose owner is gone. One that was left in the making has none.
fn take_leftover(parent: BorrowedFd<'_>, name: &CStr) -> Result<Option<OwnedFd>, ClaimError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let lock = match rustix::fs::openat(&dir, LOCK, flags, Mode::empty()) {
        Ok(lock) => lock,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(ClaimError::Busy),
        Err(errno) => return Err(errno.into()),
    }
    // The owner may have removed it just now, and another may have made one of the same name.
    let at_name =
        rustix::fs::openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if same(&rustix::fs::fstat(&at_name)?, &rustix::fs::fstat(&dir)?) {
        Ok(Some(lock))
    } else {
        Err(ClaimError::Busy)
    }
}

/// Returns the claim, or an error if the directory is retained.
fn not_kept(lock: Option<OwnedFd>) -> Result<Option<OwnedFd>, ClaimError> {
    match &lock {
        Some(held) if lock_record::is_marked(held.as_fd())? => Err(ClaimError::Kept),
        Some(_) | None => Ok(lock),
    }
}

fn same(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

/// Frees the name; says under which other one it can be removed.
fn move_to_trash(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<CString> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    if name.to_bytes().starts_with(GONE) {
        return Ok(name.to_owned());
    }
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let suffix = format!("-{}-{number}", std::process::id());
        let aside = CString::new([GONE, name.to_bytes(), suffix.as_bytes()].concat())?;
        match rustix::fs::renameat_with(parent, name, parent, aside.as_c_str(), RenameFlags::NOREPLACE) {
            // A directory that is gone already counts as removed.
            Ok(()) | Err(Errno::NOENT) => return Ok(aside),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The results of a sweep.
#[derive(Debug, Default)]
pub struct SweepReport {
    /// Sandboxes without an owner, which are no more; after a survey, which would be removed.
    pub removed: Vec<PathBuf>,
    /// The number of those that have an owner, or are being made.
    pub in_use: usize,
    /// Those without an owner that stay: what was done in them could not be captured.
    pub kept: Vec<PathBuf>,
    /// The paths that should have been removed, and the reasons that they are still there.
    pub left: Vec<(PathBuf, io::Error)>,
}

/// Removes every sandbox in `sandbox_dir` whose owner is gone.
pub fn sweep(sandbox_dir: &Path) -> SweepReport {
    each_leftover(sandbox_dir, |parent, name| {
        let (aside, lock) = claim_leftover(parent, name, move_to_trash)?;
        let removed = remove_tree(parent, &aside);
        drop(lock);
        Ok(removed?)
    })
}

/// Reports what [`sweep`] would remove now. Nothing is removed; each leftover is claimed for the moment of
/// looking, so that none is reported that another process is taking over.
pub fn survey(sandbox_dir: &Path) -> SweepReport {
    each_leftover(sandbox_dir, |parent, name| claim_leftover(parent, name, |_, _| Ok(())).map(drop))
}

/// Removes one retained sandbox, with all that was done in it.
///
/// # Errors
/// Returns an error if it is not retained, is open in another process, or cannot be removed.
pub fn discard(dir: &Path) -> io::Result<()> {
    let mut claimed = SandboxDir::reclaim(dir).map_err(|why| match why {
        ClaimError::Busy | ClaimError::Kept => io::Error::new(io::ErrorKind::ResourceBusy, why.to_string()),
        ClaimError::Io(why) => why,
    })?;
    claimed.unretain()?;
    claimed.remove()
}

/// Does something with each directory; it says `Busy` of those that have an owner.
fn each_leftover(
    sandbox_dir: &Path,
    mut act: impl FnMut(BorrowedFd<'_>, &CStr) -> Result<(), ClaimError>,
) -> SweepReport {
    let mut report = SweepReport::default();
    let listed = open_parent(sandbox_dir).and_then(|parent| Ok((list(parent.as_fd())?, parent)));
    let (entries, parent) = match listed {
        Ok(listed) => listed,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return report,
        Err(why) => {
            report.left.push((sandbox_dir.to_owned(), why));
            return report;
        }
    };
    for entry in entries.into_iter().filter(|entry| entry.kind().is_dir()) {
        let path = sandbox_dir.join(OsString::from_vec(entry.name.as_bytes().to_vec()));
        match act(parent.as_fd(), &entry.name) {
            Ok(()) => report.removed.push(path),
            Err(ClaimError::Busy) => report.in_use += 1,
            Err(ClaimError::Kept) => report.kept.push(path),
            Err(ClaimError::Io(why)) if why.kind() == io::ErrorKind::NotFound => {}
            Err(ClaimError::Io(why)) => report.left.push((path, why)),
        }
    }
    report
}

/// Acts on a directory without an owner while no process can take it over, and returns the claim on it if it
/// has one.
fn claim_leftover<T>(
    parent: BorrowedFd<'_>,
    name: &CStr,
    act: impl FnOnce(BorrowedFd<'_>, &CStr) -> io::Result<T>,
) -> Result<(T, Option<OwnedFd>), ClaimError> {
    let lock = not_kept(take_leftover(parent, name)?)?;
    let done = if lock.is_some() || name.to_bytes().starts_with(GONE) {
        act(parent, name)?
    } else {
        while_none_is_made(parent, name, act)?
    };
    Ok((done, lock))
}

/// Acts on a directory without a lock: only if no process is making one, and no lock has appeared since.
fn while_none_is_made<T>(
    parent: BorrowedFd<'_>,
    name: &CStr,
    act: impl FnOnce(BorrowedFd<'_>, &CStr) -> io::Result<T>,
) -> Result<T, ClaimError> {
    match rustix::fs::flock(parent, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(ClaimError::Busy),
        Err(errno) => return Err(errno.into()),
    }
    let lock = CString::new([name.to_bytes(), b"/", LOCK.to_bytes()].concat()).map_err(io::Error::from)?;
    let claimed_since = rustix::fs::statat(parent, lock.as_c_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let done = if claimed_since { Err(ClaimError::Busy) } else { act(parent, name).map_err(ClaimError::Io) };
    rustix::fs::flock(parent, FlockOperation::Unlock)?;
    done
}
