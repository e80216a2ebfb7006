//! Files that a person names to be read whole: an actor, the lines of `--for-each`.
//!
//! # Invariants
//! 1. Nothing is read without a bound, so that `/dev/zero` or a wrong file eats no memory.
//! 2. Nothing is waited for: anything but a file, such as a pipe without a writer, is refused.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// All bytes of a regular file of at most `bytes_max`.
///
/// # Errors
/// It cannot be read, is no file, or is larger.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Without this a pipe is waited for before it can be seen to be one.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe or a device, and no file"));
    }
    read_from(file, bytes_max)
}

/// The same of what is open already, whatever it is.
///
/// # Errors
/// It cannot be read, or there is more.
pub fn read_from(source: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        let why = format!("it is larger than {} KiB", bytes_max / 1024);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_bounded_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let (file, pipe) = (dir.path().join("file"), dir.path().join("pipe"));
        std::fs::write(&file, "four").unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(read(&file, 4).unwrap(), b"four");
        for (path, bytes_max, why) in [
            (file.as_path(), 3, "it is larger"),
            (pipe.as_path(), 3, "no file"),
            (Path::new("/dev/zero"), 3, "no file"),
            (dir.path(), 3, "is a directory"),
            (Path::new("/none/such"), 3, "No such file"),
        ] {
            let said = read(path, bytes_max).unwrap_err().to_string();
            assert!(said.contains(why), "{}: {said}", path.display());
        }
        assert!(read_from(io::repeat(0), 3).is_err());
    }
}
