//! Reads the instructions of projects to their workers: the `AGENTS.md` in their roots.
//!
//! # Invariants
//! 1. At most [`BYTES_MAX`] bytes of a file are taken; a cut text ends in a line that says so, and a note
//!    informs the user.
//! 2. A file that leads out of its project is not read: files elsewhere are not the project's to disclose.
//!
//! # Not here
//! The recipients of the instructions, and the time: the brief of the actors.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use domain::{Instructions, ProjectLink};

use crate::output::OutputNote;

/// The most bytes of a file that are taken.
pub const BYTES_MAX: usize = 32 * 1024;
/// The file, below a project's root.
const FILE: &str = "AGENTS.md";

/// Returns the instructions of the projects, and the notes about them.
pub fn read_all(projects: &[ProjectLink]) -> (Vec<Instructions>, Vec<OutputNote>) {
    use std::os::unix::ffi::OsStrExt;
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    for project in projects {
        let root = Path::new(std::ffi::OsStr::from_bytes(project.root.as_bytes()));
        match read(root) {
            Ok(None) => {}
            Ok(Some((text, note))) => {
                notes.extend(
                    note.map(|note| OutputNote::warning(format!("{}: {note}", root.join(FILE).display()))),
                );
                found.push(Instructions { alias: project.alias.clone(), text });
            }
            Err(why) => {
                notes.push(OutputNote::warning(format!("{} is not read: {why}", root.join(FILE).display())))
            }
        }
    }
    (found, notes)
}

/// The text of a project, and what is odd about it; none when it says nothing.
fn read(root: &Path) -> Result<Option<(String, Option<String>)>, String> {
    let file = root.join(FILE);
    let Ok(place) = std::fs::canonicalize(&file) else { return Ok(None) };
    let root = std::fs::canonicalize(root).map_err(|error| error.to_string())?;
    if !place.starts_with(&root) {
        return Err("it leads out of the project".to_owned());
    }
    if !place.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let opened = File::open(&place).map_err(|error| error.to_string())?;
    let size = opened.metadata().map_or(0, |found| found.len());
    opened.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let is_cut = bytes.len() > BYTES_MAX;
    bytes.truncate(BYTES_MAX);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if !is_cut {
        return Ok(Some((text, None)).filter(|(text, _)| !text.trim().is_empty()));
    }
    // The last letter may have been cut in two.
    while text.ends_with('\u{fffd}') {
        text.pop();
    }
    text.push_str(&format!("\n… cut: {FILE} has {size} bytes, of which the first {BYTES_MAX} are read"));
    Ok(Some((text, Some(format!("of its {size} bytes only the first {BYTES_MAX} are read")))))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use domain::ByteText;
    use tempfile::TempDir;

    use super::*;

    fn project(root: &Path) -> ProjectLink {
        let root = ByteText(root.as_os_str().as_bytes().to_vec());
        ProjectLink { alias: "shop".to_owned(), root, read_only: false }
    }

    #[test]
    fn a_long_file_is_cut_and_that_is_said() {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join(FILE), "é".repeat(BYTES_MAX)).unwrap();
        let (found, notes) = read_all(&[project(dir.path())]);
        let [only] = &found[..] else { panic!("{found:?}") };
        assert!(only.text.starts_with(&"é".repeat(BYTES_MAX / 2)), "no letter is cut in two");
        assert!(only.text.ends_with("65536 bytes, of which the first 32768 are read"));
        assert!(only.text.len() < BYTES_MAX + 100);
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn a_file_that_leads_out_of_its_project_is_not_read() {
        let (dir, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        fs::write(outside.path().join("key"), "secret").unwrap();
        std::os::unix::fs::symlink(outside.path().join("key"), dir.path().join(FILE)).unwrap();
        let (found, notes) = read_all(&[project(dir.path())]);
        assert_eq!((found.len(), notes.len()), (0, 1));
        fs::remove_file(dir.path().join(FILE)).unwrap();
        assert_eq!(read_all(&[project(dir.path())]), (Vec::new(), Vec::new()));
        fs::write(dir.path().join("CLAUDE.md"), "be kind\n").unwrap();
        std::os::unix::fs::symlink("CLAUDE.md", dir.path().join(FILE)).unwrap();
        assert_eq!(read_all(&[project(dir.path())]).0[0].text, "be kind\n");
    }
}
