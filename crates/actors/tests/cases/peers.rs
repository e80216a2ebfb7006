//! The locations of the foreign programs that the tests use.

use std::path::PathBuf;

/// A file of a peer that `cargo xtask peers` installs.
pub(crate) fn peer(name: &str, file: &str) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let dir = target.parent().unwrap().join("peers").join(name);
    let path = dir.join(file);
    let is_whole = dir.join("installed").is_file() && path.exists();
    assert!(is_whole, "{} is not there: `cargo xtask peers` installs it, by npm or pip", path.display());
    path
}
