//! Sparse files: their holes take no room, wherever their bytes go.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::disk::{mount_disk, with_own_mounts};
use super::support::TestUser;

/// More than fits on the disks of the test.
const MADE: &str = "truncate -s 300M made; printf x | dd of=made bs=1 seek=150000000 conv=notrunc status=none; printf end >> made";
const EDITED: &str = "printf new | dd of=old bs=1 seek=5000 conv=notrunc status=none; printf more >> old";

fn old(at: &Path) {
    fs::File::create(at.join("old")).unwrap().set_len(100 << 20).unwrap();
}

fn shell(dir: &Path, script: &str) {
    assert!(Command::new("sh").args(["-ec", script]).current_dir(dir).status().unwrap().success());
}

fn assert_same(a: &Path, b: &Path) {
    assert!(Command::new("cmp").args([a, b]).status().unwrap().success(), "{}", a.display());
}

#[test]
fn holes_of_files_take_no_room_when_they_are_captured_applied_resumed_and_undone() {
    let expected = tempfile::TempDir::new().unwrap();
    old(expected.path());
    shell(expected.path(), &format!("cp --sparse=always old was; {MADE}; {EDITED}"));
    for strategy in ["overlay", "copy"] {
        with_own_mounts(|| {
            let person = TestUser::new();
            mount_disk(&person.home().join("data"), 32);
            mount_disk(&person.project(), 32);
            old(&person.project());
            assert_eq!(person.agents(&["config", "set", &format!("sandbox.strategy={strategy}")]).exit, 0);
            // The second step begins in a sandbox into which the changes of the first were put.
            let script = format!("test -e made || {{ {MADE}; {EDITED}; }}; test -e go || exit 7");
            let stopped = person.agents(&["run", "--", "sh", "-ec", &script]);
            assert_ne!(stopped.exit, 0, "{strategy}: {stopped:?}");
            person.write("go", "");
            let resumed = person.agents(&["plan", "resume", "@last"]);
            assert_eq!(resumed.exit, 0, "{strategy}: {resumed:?}");
            let applied = person.agents(&["plan", "apply", "@last", "--yes"]);
            assert_eq!(applied.exit, 0, "{strategy}: {applied:?}");
            for name in ["made", "old"] {
                assert_same(&person.project().join(name), &expected.path().join(name));
                let blocks = fs::metadata(person.project().join(name)).unwrap().blocks();
                assert!(blocks * 512 < 1 << 20, "{strategy} {name}: {blocks}");
            }
            let undone = person.agents(&["plan", "undo", "@last", "--yes"]);
            assert_eq!(undone.exit, 0, "{strategy}: {undone:?}");
            assert_same(&person.project().join("old"), &expected.path().join("was"));
            assert!(!person.project().join("made").exists());
        });
    }
}
