//! Memory that is no process's own: files in memory, shared mappings, System V segments.
//!
//! # Invariants
//! 1. Memory that is held several times counts once, by its inode. A file that a process has open counts with
//!    its size. A file that is only mapped counts with its mapped part.
//! 2. Looking waits for no file system: only files in memory are asked for their size.
//!
//! # Not here
//! Files in directories, which their file system counts: the sibling `usage`. Files that the kernel shows
//! with no process: those whose descriptor is on its way through a socket, and those of a process that cannot
//! be looked at.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use rustix::fs::MemfdFlags;
use rustix::process::Pid;

use super::usage::proc_of;

/// The System V segments of a namespace.
const SEGMENTS: &str = "/proc/sysvipc/shm";
/// The columns of a segment's size in memory and of what of it is swapped.
const SEGMENT_COLUMNS: [usize; 2] = [14, 15];
/// The prefix of the name of a mapped segment, and of a file in memory.
const SEGMENT: &str = "/SYSV";
const MEMORY_FILE: &[u8] = b"/memfd:";
/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// A file in memory: segments have numbers of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SharedObject {
    File(u64),
    Segment(u64),
}

/// Finds such memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedMemory {
    /// The device that the kernel has it on; none if there is none.
    device: Option<u64>,
    /// True if the segments that this process sees are the command's.
    has_own_segments: bool,
}

impl SharedMemory {
    /// Prepares to look. `has_own_segments` if this process is in the command's own namespaces.
    pub(super) fn new(has_own_segments: bool) -> SharedMemory {
        let file = rustix::fs::memfd_create("device", MemfdFlags::CLOEXEC).ok();
        let device = file.and_then(|file| rustix::fs::fstat(file).ok()).map(|found| found.st_dev);
        SharedMemory { device, has_own_segments }
    }

    /// Returns the shared memory of the whole machine, in bytes, files in private directories included.
    pub(super) fn of_machine_bytes() -> u64 {
        let machine = rustix::system::sysinfo();
        (machine.sharedram as u64).saturating_mul(u64::from(machine.mem_unit))
    }

    /// Returns the shared memory that the processes hold, in bytes.
    pub(super) fn bytes(&self, processes: &[Pid]) -> u64 {
        let Some(device) = self.device else { return 0 };
        let mut held = BTreeMap::new();
        for (shared, bytes) in processes.iter().flat_map(|pid| mapped_by(*pid, device)) {
            let most = held.entry(shared).or_insert(0);
            *most = bytes.max(*most);
        }
        // Exact, and so in the place of what is mapped.
        held.extend(processes.iter().flat_map(|pid| opened_by(*pid, device)));
        if self.has_own_segments {
            held.retain(|shared, _| matches!(shared, SharedObject::File(_)));
        }
        let segments = if self.has_own_segments { segments_bytes() } else { 0 };
        held.values().fold(segments, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// The files in memory that a process has open, with their sizes in bytes.
fn opened_by(pid: Pid, device: u64) -> Vec<(SharedObject, u64)> {
    let entries = fs::read_dir(proc_of(pid).join("fd")).into_iter().flatten().flatten();
    let links = entries.map(|entry| entry.path());
    let is_memory = |link: &std::path::PathBuf| {
        fs::read_link(link).is_ok_and(|target| target.as_os_str().as_bytes().starts_with(MEMORY_FILE))
    };
    let found = links.filter(is_memory).filter_map(|link| fs::metadata(link).ok());
    found
        .filter(|file| file.dev() == device)
        .map(|file| (SharedObject::File(file.ino()), file.blocks().saturating_mul(BLOCK_BYTES)))
        .collect()
}

/// Returns the part of each such file that a process has mapped, in bytes.
fn mapped_by(pid: Pid, device: u64) -> BTreeMap<SharedObject, u64> {
    let text = fs::read(proc_of(pid).join("smaps")).unwrap_or_default();
    mapped_in(&String::from_utf8_lossy(&text), device)
}

/// The same, from the text of the kernel. A place of a file that is mapped twice counts once.
fn mapped_in(text: &str, device: u64) -> BTreeMap<SharedObject, u64> {
    let mut places = BTreeMap::<(SharedObject, &str), u64>::new();
    let (mut place, mut resident) = (None, 0);
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        let kilobytes = || words.clone().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
        match (first, place) {
            ("Rss:", Some(_)) => resident = kilobytes(),
            // Pages of its own count as the process's.
            ("Anonymous:", Some(place)) => {
                let most = places.entry(place).or_insert(0);
                *most = resident.saturating_sub(kilobytes()).saturating_mul(1024).max(*most);
            }
            _ if !first.ends_with(':') => place = shared_of(line, device),
            _ => {}
        }
    }
    let mut files = BTreeMap::new();
    for ((shared, _), bytes) in places {
        *files.entry(shared).or_insert(0) += bytes;
    }
    files
}

/// The file of a mapping, and the place in it, by the line that begins with its addresses.
fn shared_of(line: &str, device: u64) -> Option<(SharedObject, &str)> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let (offset, numbers, inode) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    let (major, minor) = numbers.split_once(':')?;
    let numbers = [major, minor].map(|number| u32::from_str_radix(number, 16).ok());
    let [Some(major), Some(minor)] = numbers else { return None };
    if rustix::fs::makedev(major, minor) != device {
        return None;
    }
    let is_segment = words.next().is_some_and(|name| name.starts_with(SEGMENT));
    Some((if is_segment { SharedObject::Segment(inode) } else { SharedObject::File(inode) }, offset))
}

/// Returns the size of all System V segments, attached or not.
fn segments_bytes() -> u64 {
    let text = fs::read_to_string(SEGMENTS).unwrap_or_default();
    let bytes_of = |line: &str| -> u64 {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
        SEGMENT_COLUMNS.map(number).into_iter().fold(0, u64::saturating_add)
    };
    // The first line names the columns.
    text.lines().skip(1).map(bytes_of).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_memory_counts_once_however_often_it_is_held() {
        const BYTES: usize = 8 << 20;
        let own = rustix::process::getpid();
        let memory = SharedMemory::new(false);
        let device = memory.device.unwrap();
        let file = rustix::fs::memfd_create("counted", MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(rustix::io::write(&file, &vec![1; BYTES]).unwrap(), BYTES);
        let inode = SharedObject::File(rustix::fs::fstat(&file).unwrap().st_ino);
        let again = rustix::io::dup(&file).unwrap();
        let of = |found: Vec<(SharedObject, u64)>| {
            found
                .into_iter()
                .filter(|(shared, _)| *shared == inode)
                .map(|(_, bytes)| bytes)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(opened_by(own, device)), [BYTES as u64; 2]);
        assert!(memory.bytes(&[own]) >= BYTES as u64);
        assert_eq!(memory.bytes(&[own, own]), memory.bytes(&[own]));
        drop((file, again));
        assert!(of(opened_by(own, device)).is_empty());
    }

    #[test]
    fn what_is_mapped_counts_by_file_and_place() {
        let text = "7f0000000000-7f0000800000 rw-s 00000000 00:01 77 /memfd:x (deleted)\n\
            Size: 8192 kB\nRss: 100 kB\nAnonymous: 0 kB\nVmFlags: rd wr\n\
            7f0001000000-7f0001800000 rw-s 00000000 00:01 77 /memfd:x (deleted)\nRss: 60 kB\nAnonymous: 0 kB\n\
            7f0002000000-7f0002800000 rw-p 00800000 00:01 77 /memfd:x (deleted)\nRss: 30 kB\nAnonymous: 10 kB\n\
            7f0003000000-7f0003800000 rw-s 00000000 00:01 77 /SYSV00000000 (deleted)\nRss: 5 kB\nAnonymous: 0 kB\n\
            7f0004000000-7f0004800000 r--p 00000000 08:01 77 /usr/lib/x.so\nRss: 500 kB\nAnonymous: 0 kB\n\
            7f0005000000-7f0005800000 rw-p 00000000 00:00 0 \nRss: 900 kB\nAnonymous: 900 kB\n";
        let expected = [(SharedObject::File(77), 120 * 1024), (SharedObject::Segment(77), 5 * 1024)];
        assert_eq!(mapped_in(text, rustix::fs::makedev(0, 1)), expected.into());
    }
}
