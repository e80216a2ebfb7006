//! Finds the git program.
//!
//! # Invariants
//! 1. Git is looked for in the absolute directories of `PATH` alone, so that no repository can put its own in
//!    place.
//!
//! # Not here
//! Starting it for a repository: `git::command`.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::remove_git_variables;

/// The git program: in a directory of `PATH` that is named from the root.
pub(super) fn program() -> io::Result<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = PROGRAM.get_or_init(find_program).as_deref();
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is not on PATH"))
}

fn find_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut candidates =
        std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("git"));
    let found =
        candidates.find(|candidate| rustix::fs::access(candidate, rustix::fs::Access::EXEC_OK).is_ok())?;
    Some(behind_script(&found).unwrap_or(found))
}

/// The time limit for a script in the place of git to say where git is.
const SCRIPT_WAIT: Duration = Duration::from_secs(2);

/// The program that a script in its place starts: within the walls no script could.
fn behind_script(found: &Path) -> Option<PathBuf> {
    let mut start = [0; 2];
    fs::File::open(found).and_then(|mut file| file.read_exact(&mut start)).ok()?;
    if &start != b"#!" {
        return None;
    }
    let mut command = Command::new(found);
    remove_git_variables(&mut command, false);
    command
        .arg("--exec-path")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut script = command.spawn().ok()?;
    let until = Instant::now() + SCRIPT_WAIT;
    while script.try_wait().ok()?.is_none() {
        if Instant::now() >= until {
            let _ = script.kill();
            let _ = script.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut printed = String::new();
    script.stdout?.take(4096).read_to_string(&mut printed).ok()?;
    Some(Path::new(printed.trim_end()).join("git")).filter(|git| git.is_file())
}
