//! Trees that lie in a directory, and the patch that leads from one to another.
//!
//! # Invariants
//! What a tree has is a function of numbers, so that a child process makes the same ones.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A file: its bytes and its mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantedFile {
    pub bytes: Vec<u8>,
    pub mode: u16,
}

/// A tree, by path.
pub type BenchTree = BTreeMap<String, PlantedFile>;

/// About 60 bytes that occur nowhere else.
pub fn line(file: usize, number: usize, word: &str) -> String {
    format!(
        "{word} {file:06} {number:04} {:016x} and some more words here\n",
        (file * 7919 + number) as u64 * 0x9e37_79b9
    )
}

pub fn text(file: usize, lines: usize) -> String {
    (0..lines).map(|number| line(file, number, "line")).collect()
}

/// A tree to be planted.
pub fn plant(root: &Path, tree: &BenchTree) {
    for (path, file) in tree {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &file.bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(u32::from(file.mode))).unwrap();
    }
}

/// The patch from one tree to the other, made by git; for `git apply -p2`.
pub fn write_patch(scratch: &Path, before: &BenchTree, after: &BenchTree, patch: &Path) {
    plant(&scratch.join("before"), before);
    plant(&scratch.join("after"), after);
    let mut diff = git(scratch);
    diff.args(["diff", "--no-index", "--binary", "--no-renames", "before", "after"]);
    let output = diff.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(patch, output.stdout).unwrap();
    for name in ["before", "after"] {
        fs::remove_dir_all(scratch.join(name)).unwrap();
    }
}

/// Git, untouched by the settings of the user who runs this.
pub fn git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    // Maintenance that git starts in the background would outlive the call.
    command.args(["-c", "maintenance.auto=false"]);
    command.current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    // Without this, git would look a project up in a repository above it.
    command.env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(dir)).env_remove("GIT_DIR");
    command
}
