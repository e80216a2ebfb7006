//! Changes of modes, owners and times for a command that only Landlock isolates.
//!
//! Landlock does not know of them, and a filter of calls cannot read paths. So each such call waits for the
//! reaper, which finds the file as the command would. The reaper changes it in the command's place if it is
//! below a path that the command may write.
//!
//! # Invariants
//! 1. The file that is judged is the one that is changed: it is held open from the one to the other. Nothing
//!    that the command changes meanwhile, in its memory or in the tree, leads elsewhere.
//! 2. The reaper changes nothing that the command's user could not change: it is the same user, without
//!    privileges.
//!
//! # Not here
//! Extended attributes and flags of files: the sibling `seccomp` refuses them on this backend.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use seccompiler::sock_filter;

use crate::child::fd_passing;

/// `fchmodat2`, which the C library's list may not have.
const SYS_FCHMODAT2: i64 = 452;
/// The longest path that the kernel takes.
const PATH_BYTES_MAX: usize = 4096;
const RECEIVE: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;
const IS_VALID: u64 = 0x4008_2102;

/// The calls that wait for the reaper.
#[cfg(target_arch = "x86_64")]
const CALLS: [i64; 12] = [
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_utimensat,
];
#[cfg(not(target_arch = "x86_64"))]
const CALLS: [i64; 6] = [
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
];

/// Makes this process, and all that come from it, wait for the reaper at the other end of `socket`.
///
/// Returns an error if the kernel cannot do it.
pub(super) fn install(socket: &OwnedFd) -> Result<(), String> {
    let instruction = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    let mut program = vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (left, call) in (1..=CALLS.len()).rev().zip(CALLS) {
        // To the last instruction but one, which asks.
        let jump = u8::try_from(left).map_err(|error| error.to_string())?;
        let number = u32::try_from(call).map_err(|error| error.to_string())?;
        program.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jump, 0, number));
    }
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_USER_NOTIF));
    let length = u16::try_from(program.len()).map_err(|error| error.to_string())?;
    let filter = libc::sock_fprog { len: length, filter: program.as_mut_ptr().cast() };
    // SAFETY: the filter and its instructions live during the call; the descriptor that it returns has no
    // other owner.
    let listener = unsafe {
        let listener = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &filter,
        );
        if listener < 0 {
            return Err(format!("a filter that asks: {}", io::Error::last_os_error()));
        }
        OwnedFd::from_raw_fd(listener as i32)
    };
    fd_passing::send(socket.as_fd(), b"listener", &[listener.as_fd()]).map_err(|error| error.to_string())
}

/// The reaper's side.
#[derive(Debug)]
pub(super) struct Broker {
    listener: OwnedFd,
    /// The paths that may be changed.
    writable: Vec<PathBuf>,
}

impl Broker {
    /// Takes over what the command sent before it began.
    pub(super) fn take(socket: &OwnedFd, writable: &[PathBuf]) -> io::Result<Broker> {
        let (_, carried) = fd_passing::receive(socket.as_fd())?;
        let listener = carried.into_iter().next().ok_or_else(|| io::Error::other("no listener came"))?;
        let writable = writable.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
        Ok(Broker { listener, writable })
    }

    /// Answers one call that waits.
    pub(super) fn answer(&self) {
        let Some(asked) = self.receive() else { return };
        let error = match self.perform(&asked) {
            Ok(()) => 0,
            Err(errno) => -errno.raw_os_error(),
        };
        let response = libc::seccomp_notif_resp { id: asked.id, val: 0, error, flags: 0 };
        // SAFETY: the response lives during the call. A process that died meanwhile needs none.
        unsafe { libc::ioctl(self.listener.as_raw_fd(), SEND as _, &response) };
    }

    fn receive(&self) -> Option<libc::seccomp_notif> {
        // SAFETY: the kernel demands zeros, fills the record, and does not hold it afterwards.
        unsafe {
            let mut asked: libc::seccomp_notif = std::mem::zeroed();
            let received = libc::ioctl(self.listener.as_raw_fd(), RECEIVE as _, &mut asked);
            (received == 0).then_some(asked)
        }
    }

    /// Returns true if the process still waits: only then its number is its own.
    fn still_waits(&self, id: u64) -> bool {
        // SAFETY: the number lives during the call, which reads it.
        unsafe { libc::ioctl(self.listener.as_raw_fd(), IS_VALID as _, &id) == 0 }
    }

    fn perform(&self, asked: &libc::seccomp_notif) -> Result<(), Errno> {
        let caller = BlockedCaller { pid: asked.pid };
        let [a, b, c, d, e, _] = asked.data.args;
        let call = i64::from(asked.data.nr);
        #[cfg(target_arch = "x86_64")]
        match call {
            libc::SYS_chmod => return self.chmod(asked, caller.at(None, a, 0)?, b),
            libc::SYS_chown => return self.chown(asked, caller.at(None, a, 0)?, b, c),
            libc::SYS_lchown => {
                return self.chown(asked, caller.at(None, a, libc::AT_SYMLINK_NOFOLLOW)?, b, c);
            }
            libc::SYS_utime => {
                return self.touch(asked, caller.at(None, a, 0)?, caller.times(b, TimeUnit::Seconds)?);
            }
            libc::SYS_utimes => {
                return self.touch(asked, caller.at(None, a, 0)?, caller.times(b, TimeUnit::Micros)?);
            }
            libc::SYS_futimesat => {
                return self.touch(asked, caller.at(Some(a), b, 0)?, caller.times(c, TimeUnit::Micros)?);
            }
            _ => {}
        }
        match call {
            libc::SYS_fchmod => self.chmod(asked, caller.fd(a)?, b),
            libc::SYS_fchmodat => self.chmod(asked, caller.at(Some(a), b, 0)?, c),
            SYS_FCHMODAT2 => self.chmod(asked, caller.at(Some(a), b, flags_of(d))?, c),
            libc::SYS_fchown => self.chown(asked, caller.fd(a)?, b, c),
            libc::SYS_fchownat => self.chown(asked, caller.at(Some(a), b, flags_of(e))?, c, d),
            libc::SYS_utimensat if b == 0 => {
                self.touch(asked, caller.fd(a)?, caller.times(c, TimeUnit::Nanos)?)
            }
            libc::SYS_utimensat => {
                self.touch(asked, caller.at(Some(a), b, flags_of(d))?, caller.times(c, TimeUnit::Nanos)?)
            }
            _ => Err(Errno::PERM),
        }
    }

    /// Returns an error unless the file is below what the command may write, or has no name any more.
    fn judge(&self, asked: &libc::seccomp_notif, file: &OwnedFd) -> Result<(), Errno> {
        let path = fs::read_link(named(file.as_fd())).map_err(|_| Errno::PERM)?;
        let has_no_name = rustix::fs::fstat(file)?.st_nlink == 0;
        let is_below = self.writable.iter().any(|root| path.starts_with(root));
        if (is_below || has_no_name) && self.still_waits(asked.id) { Ok(()) } else { Err(Errno::PERM) }
    }

    fn chmod(&self, asked: &libc::seccomp_notif, file: OwnedFd, mode: u64) -> Result<(), Errno> {
        self.judge(asked, &file)?;
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) == FileType::Symlink {
            return Err(Errno::OPNOTSUPP);
        }
        rustix::fs::chmod(named(file.as_fd()), Mode::from_raw_mode(mode as u32 & 0o7777))
    }

    fn chown(&self, asked: &libc::seccomp_notif, file: OwnedFd, user: u64, group: u64) -> Result<(), Errno> {
        self.judge(asked, &file)?;
        // SAFETY: the empty path lives for ever; the numbers are judged by the kernel.
        let done = unsafe {
            libc::fchownat(file.as_raw_fd(), c"".as_ptr(), user as u32, group as u32, libc::AT_EMPTY_PATH)
        };
        result(done)
    }

    fn touch(
        &self,
        asked: &libc::seccomp_notif,
        file: OwnedFd,
        times: Option<[libc::timespec; 2]>,
    ) -> Result<(), Errno> {
        self.judge(asked, &file)?;
        let times = times.as_ref().map_or(std::ptr::null(), |times| times.as_ptr());
        // SAFETY: the empty path lives for ever, and the times, if there are any, during the call.
        let done = unsafe { libc::utimensat(file.as_raw_fd(), c"".as_ptr(), times, libc::AT_EMPTY_PATH) };
        result(done)
    }
}

impl AsFd for Broker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn result(done: i32) -> Result<(), Errno> {
    if done == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

fn flags_of(argument: u64) -> i32 {
    argument as u32 as i32
}

fn named(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The unit in which a call counts time.
#[derive(Clone, Copy)]
enum TimeUnit {
    Seconds,
    Micros,
    Nanos,
}

/// The process that waits.
struct BlockedCaller {
    pid: u32,
}

impl BlockedCaller {
    /// A file that it has open.
    fn fd(&self, number: u64) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/{}/fd/{}", self.pid, number as u32 as i32);
        rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| if errno == Errno::NOENT { Errno::BADF } else { errno })
    }

    /// A file by its path, as the process would find it.
    fn at(&self, dir: Option<u64>, path: u64, flags: i32) -> Result<OwnedFd, Errno> {
        let path = self.own_names(self.text(path)?)?;
        let dir = dir.map(flags_of).filter(|dir| *dir != libc::AT_FDCWD);
        if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            return match dir {
                Some(dir) => self.fd(dir as u32 as u64),
                None => self.open(CWD, format!("/proc/{}/cwd", self.pid).as_bytes(), OFlags::empty()),
            };
        }
        let follow = if flags & libc::AT_SYMLINK_NOFOLLOW == 0 { OFlags::empty() } else { OFlags::NOFOLLOW };
        if path.to_bytes().starts_with(b"/") {
            return self.open(CWD, path.to_bytes(), follow);
        }
        let base = match dir {
            Some(dir) => self.fd(dir as u32 as u64)?,
            None => self.open(CWD, format!("/proc/{}/cwd", self.pid).as_bytes(), OFlags::empty())?,
        };
        self.open(base.as_fd(), path.to_bytes(), follow)
    }

    fn open(&self, base: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(base, path, flags | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    }

    /// `/proc/self` means another process here.
    fn own_names(&self, path: CString) -> Result<CString, Errno> {
        let own = ["/proc/self/", "/proc/thread-self/"];
        let rest = own.iter().find_map(|own| path.to_bytes().strip_prefix(own.as_bytes()));
        match rest {
            Some(rest) => {
                let replaced = [format!("/proc/{}/", self.pid).as_bytes(), rest].concat();
                CString::new(replaced).map_err(|_| Errno::INVAL)
            }
            None => Ok(path),
        }
    }

    fn memory(&self) -> Result<File, Errno> {
        File::open(format!("/proc/{}/mem", self.pid)).map_err(|_| Errno::PERM)
    }

    /// The text at an address, up to its end; a page at most at once, since the next may not be there.
    fn text(&self, address: u64) -> Result<CString, Errno> {
        let memory = self.memory()?;
        let mut bytes = Vec::new();
        while bytes.len() < PATH_BYTES_MAX {
            let at = address.checked_add(bytes.len() as u64).ok_or(Errno::FAULT)?;
            let left_in_page = PATH_BYTES_MAX - (at as usize % PATH_BYTES_MAX);
            let mut piece = vec![0; left_in_page];
            let count = memory.read_at(&mut piece, at).map_err(|_| Errno::FAULT)?;
            if count == 0 {
                return Err(Errno::FAULT);
            }
            bytes.extend_from_slice(&piece[..count]);
            if let Ok(text) = CStr::from_bytes_until_nul(&bytes) {
                return Ok(text.to_owned());
            }
        }
        Err(Errno::NAMETOOLONG)
    }

    /// The two times at an address; none for now.
    fn times(&self, address: u64, clock: TimeUnit) -> Result<Option<[libc::timespec; 2]>, Errno> {
        if address == 0 {
            return Ok(None);
        }
        let numbers = if matches!(clock, TimeUnit::Seconds) { 2 } else { 4 };
        let mut bytes = vec![0; numbers * size_of::<i64>()];
        self.memory()?.read_exact_at(&mut bytes, address).map_err(|_| Errno::FAULT)?;
        let number = |at: usize| {
            let bytes = bytes.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, i64::from_ne_bytes)
        };
        let time = |seconds: i64, nanos: i64| libc::timespec { tv_sec: seconds, tv_nsec: nanos };
        Ok(Some(match clock {
            TimeUnit::Seconds => [time(number(0), 0), time(number(1), 0)],
            TimeUnit::Micros => [
                time(number(0), number(1).saturating_mul(1000)),
                time(number(2), number(3).saturating_mul(1000)),
            ],
            TimeUnit::Nanos => [time(number(0), number(1)), time(number(2), number(3))],
        }))
    }
}
