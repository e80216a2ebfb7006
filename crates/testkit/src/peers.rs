//! The locations of the foreign programs that the tests use.

use std::path::PathBuf;

/// A file of a peer that `cargo xtask peers` installs.
pub fn peer(name: &str, file: &str) -> PathBuf {
    // A test program is in `debug/deps` below the target directory.
    let program = std::env::current_exe().unwrap();
    let dir = program.ancestors().nth(3).unwrap().join("peers").join(name);
    let path = dir.join(file);
    let is_whole = dir.join("installed").is_file() && path.exists();
    assert!(is_whole, "{} is not there: `cargo xtask peers` installs it, by npm or pip", path.display());
    path
}
