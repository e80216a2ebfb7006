//! Runs a test again as a user without privileges, wherever the build and the temporary files are.
//!
//! The build may be below a home that other users cannot enter, and so may `TMPDIR`. So the user gets a
//! directory that it can reach, with copies of this test program and of the program that sandboxes start.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::child::ChildProgram;
use tempfile::TempDir;

/// The user and the group.
pub(crate) const ORDINARY_USER: u32 = 65534;

/// Set for a test that runs again as the user; the directory is that user's.
const HOME_VARIABLE: &str = "SANDBOX_TEST_ORDINARY_USER";

const CHILD_PROGRAM: &str = "sandbox-child";

/// A directory that every user can enter.
///
/// # Panics
/// If there is none: the test cannot be run as another user here.
pub(crate) fn reachable_dir() -> TempDir {
    let places = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()];
    let place =
        places.iter().find(|place| can_be_entered(place)).expect("a directory that other users can enter");
    let dir = tempfile::tempdir_in(place).unwrap();
    // Whatever the umask is.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn can_be_entered(place: &Path) -> bool {
    let Ok(place) = place.canonicalize() else { return false };
    place.ancestors().all(|above| {
        fs::metadata(above).is_ok_and(|found| found.is_dir() && found.permissions().mode() & 0o001 != 0)
    })
}

/// Runs the whole test again as the user, to whom `dir` is given.
pub(crate) fn run_as_ordinary_user(test: &str, dir: &TempDir) {
    let home = dir.path();
    chown(home, Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
    let this_program = std::env::current_exe().unwrap();
    for (program, name) in [(this_program.as_path(), "tests"), (Path::new(BUILT_CHILD), CHILD_PROGRAM)] {
        // By another process: a program that is open for writing here can be busy in a child that another test forks.
        let copied = Command::new("cp").arg(program).arg(home.join(name)).status().unwrap();
        assert!(copied.success());
        fs::set_permissions(home.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(home.join("tests"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.uid(ORDINARY_USER).gid(ORDINARY_USER).current_dir(home);
    command.env(HOME_VARIABLE, home).env("TMPDIR", home).env("HOME", home);
    assert_one_passes(&mut command);
}

/// Runs one test of a test program, which has to pass.
pub(crate) fn assert_one_passes(command: &mut Command) {
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{command:?}: {printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The directory that was given to the user; `None` for the test as it was started.
pub(crate) fn home_of_ordinary_user() -> Option<PathBuf> {
    std::env::var_os(HOME_VARIABLE).map(PathBuf::from)
}

const BUILT_CHILD: &str = env!("CARGO_BIN_EXE_sandbox-child");

/// The program that sandboxes start, where this process can reach it.
pub(crate) fn child_program() -> ChildProgram {
    ChildProgram::new(
        home_of_ordinary_user().map_or_else(|| BUILT_CHILD.into(), |home| home.join(CHILD_PROGRAM)),
    )
}
