//! Disks that are full, read-only or hold huge files: what is told, and that nothing is lost or torn.
//!
//! Small disks are mounted in a mount namespace of the test's own thread, whose children see them too. They
//! are filled with bytes other than zero, since zeros take no room.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde_json::json;

use super::review_screen::{review_with_editor, texts_left};
use super::support::{CommandOutput, TestUser, alive, answer, ordinary_command};

/// Set for a test that runs again in a user namespace.
const IN_USER_NAMESPACE: &str = "AGENTS_TEST_IN_USER_NAMESPACE";

/// Runs a test where it may mount disks. A test of an ordinary user runs again as root of a user namespace.
pub(super) fn with_own_mounts(act: impl FnOnce() + Send) {
    if !rustix::process::geteuid().is_root() {
        return run_in_user_namespace();
    }
    let outcome = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: of this thread only the view of mounts and the working directory become its own.
            let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
            assert_eq!(
                unshared,
                Ok(()),
                "this test mounts disks of its own, which this machine does not allow"
            );
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            act();
        });
        thread.join()
    });
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// Runs the test of this thread again as root of a user namespace. What mounts several times runs again as a
/// whole.
fn run_in_user_namespace() {
    assert!(std::env::var_os(IN_USER_NAMESPACE).is_none(), "a user namespace without root");
    let thread = std::thread::current();
    let test = thread.name().unwrap();
    let mut again = Command::new("unshare");
    again.args(["--user", "--map-root-user", "--mount"]).arg(std::env::current_exe().unwrap());
    let output = again.args(["--exact", test, "--nocapture"]).env(IN_USER_NAMESPACE, "yes").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{again:?}: {printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Mounts an empty disk of so many MiB.
pub(super) fn mount_disk(at: &Path, mib: u32) {
    fs::create_dir_all(at).unwrap();
    let options = std::ffi::CString::new(format!("size={mib}m,mode=0755")).unwrap();
    mount("none", at, "tmpfs", MountFlags::empty(), options.as_c_str()).unwrap();
}

fn resize_disk(at: &Path, mib: u32) {
    let options = std::ffi::CString::new(format!("size={mib}m")).unwrap();
    mount_remount(at, MountFlags::empty(), options.as_c_str()).unwrap();
}

fn data(person: &TestUser) -> PathBuf {
    person.home().join("data")
}

fn sandboxes(person: &TestUser) -> Vec<PathBuf> {
    let listed = fs::read_dir(data(person).join("sandboxes"));
    listed.map_or(Vec::new(), |entries| entries.flatten().map(|entry| entry.path()).collect())
}

/// The file of this name somewhere below a directory.
fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            } else if entry.file_name() == name {
                return Some(entry.path());
            }
        }
    }
    None
}

/// All files of the project, without git's.
fn files(person: &TestUser) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(person.project()).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            all.push((entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
        }
    }
    all.sort();
    all
}

fn told(answer: &CommandOutput) -> String {
    format!("{}{}", answer.stdout, answer.stderr)
}

#[test]
fn what_a_full_disk_kept_from_being_captured_is_captured_on_resume_without_running_again() {
    for strategy in ["overlay", "copy"] {
        with_own_mounts(|| {
            let person = TestUser::new();
            mount_disk(&data(&person), 16);
            person.write("a", "one\n");
            assert_eq!(person.agents(&["config", "set", &format!("sandbox.strategy={strategy}")]).exit, 0);
            let script = "head -c 10000000 /dev/zero | tr '\\0' '\\1' > big; head -c 32 /dev/urandom > token; echo two >> a; echo done";
            let ran = person.agents(&["run", "--", "sh", "-ec", script]);
            let kept = sandboxes(&person);
            assert_eq!((ran.exit, kept.len()), (6, 1), "{strategy}: {ran:?}");
            let said = told(&ran);
            assert!(said.contains("No space left on device"), "{said}");
            assert!(said.contains(&format!("retained in {}", kept[0].display())), "{said}");
            assert!(said.contains("agents plan resume"), "{said}");
            let token = fs::read(find(&kept[0], "token").unwrap()).unwrap();

            // Neither is it swept by what clears up, and it is told of.
            let doctor = person.agents(&["doctor"]);
            assert!(doctor.stdout.contains(&format!("are in {}", kept[0].display())), "{doctor:?}");
            assert_eq!(person.json(&["plan", "gc"]).data()["sandboxes"], json!(0));
            // With the disk as full as before it stays as it is.
            let again = person.json(&["plan", "resume", "@last"]);
            assert_eq!(
                (again.exit, again.code(), sandboxes(&person)),
                (6, "PLAN_ASKS".to_owned(), kept.clone()),
                "{again:?}"
            );
            assert!(told(&again).contains("retained in"), "{again:?}");

            resize_disk(&data(&person), 64);
            let resumed = person.json(&["plan", "resume", "@last"]);
            assert_eq!((resumed.exit, sandboxes(&person)), (0, Vec::new()), "{strategy}: {resumed:?}");
            assert!(person.agents(&["plan", "logs", "@last"]).stdout.contains("done"));
            let names = person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
            assert_eq!(names, "a\nbig\ntoken\n", "{strategy}");
            assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
            assert_eq!(fs::read(person.project().join("token")).unwrap(), token, "{strategy}");
            assert_eq!((person.read("a"), person.read("big").len()), ("one\ntwo\n".to_owned(), 10_000_000));
        });
    }
}

#[test]
fn a_command_that_fills_the_disk_fails_and_what_it_made_is_captured_when_there_is_space() {
    with_own_mounts(|| {
        let person = TestUser::new();
        mount_disk(&data(&person), 16);
        let script = "echo kept > first; cat /dev/zero > big";
        let ran = person.agents(&["run", "--", "sh", "-c", script]);
        let said = told(&ran);
        assert_ne!(ran.exit, 0, "{ran:?}");
        assert!(said.to_lowercase().contains("no space left") || said.contains("full"), "{said}");
        assert_eq!(sandboxes(&person).len(), 1, "{ran:?}");
        assert_eq!(files(&person), []);
        resize_disk(&data(&person), 96);
        let resumed = person.json(&["plan", "resume", "@last"]);
        // The command had failed, and that stands.
        assert_eq!((resumed.exit, sandboxes(&person)), (6, Vec::new()), "{resumed:?}");
        assert!(told(&resumed).contains("exited with status 1"), "{resumed:?}");
        assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "big\nfirst\n");
        assert_eq!(alive(&person), 0);
    });
}

#[test]
fn what_an_interrupted_command_had_made_is_kept_and_the_command_runs_again_on_resume() {
    with_own_mounts(|| {
        let person = TestUser::new();
        mount_disk(&data(&person), 16);
        let script = "head -c 10000000 /dev/zero | tr '\\0' '\\1' > big; echo half > half; test -e go || sleep 1000; echo whole > whole";
        assert_eq!(person.agents(&["config", "set", "limits.time=1s"]).exit, 0);
        let ran = person.json(&["run", "--", "sh", "-ec", script]);
        assert_eq!((ran.exit, sandboxes(&person).len()), (6, 1), "{ran:?}");
        resize_disk(&data(&person), 64);
        person.write("go", "");
        let resumed = person.json(&["plan", "resume", "@last", "--limit", "time=1h"]);
        assert_eq!((resumed.exit, sandboxes(&person)), (0, Vec::new()), "{resumed:?}");
        // What it had made was captured, and taken back before it ran again.
        let logs = person.agents(&["plan", "logs", "@last"]).stdout;
        assert!(logs.contains("take_back"), "{logs}");
        let names = person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
        assert_eq!(names, "big\nhalf\nwhole\n");
    });
}

#[test]
fn what_a_cancelled_command_had_made_is_kept_on_a_full_disk_until_it_is_cleared() {
    with_own_mounts(|| {
        let person = TestUser::new();
        mount_disk(&data(&person), 16);
        let script = "head -c 10000000 /dev/zero | tr '\\0' '\\1' > big; echo ready; sleep 1000";
        let mut command = person.command(&person.project(), &["run", "--", "sh", "-ec", script]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while !person.agents(&["plan", "logs", "@last"]).stdout.contains("\nready") {}
        let cancelled = person.agents(&["plan", "cancel", "@last"]);
        assert_eq!(cancelled.exit, 0, "{cancelled:?}");
        assert_eq!(child.wait().unwrap().code(), Some(5));
        let kept = sandboxes(&person);
        assert_eq!(kept.len(), 1);
        let doctor = person.agents(&["doctor"]).stdout;
        assert!(doctor.contains(&format!("are in {}: the plan is final", kept[0].display())), "{doctor}");
        assert_eq!(person.json(&["plan", "gc"]).data()["sandboxes"], json!(1));
        assert_eq!(sandboxes(&person), Vec::<PathBuf>::new());
    });
}

#[test]
fn what_is_kept_of_a_plan_that_is_cancelled_is_cleared_by_gc() {
    with_own_mounts(|| {
        let person = TestUser::new();
        mount_disk(&data(&person), 16);
        assert_ne!(
            person
                .agents(&["run", "--", "sh", "-c", "head -c 10000000 /dev/zero | tr '\\0' '\\1' > big"])
                .exit,
            0
        );
        assert_eq!(person.json(&["plan", "cancel", "@last"]).exit, 0);
        assert_eq!(sandboxes(&person).len(), 1);
        assert_eq!(person.json(&["plan", "gc", "--dry-run"]).data()["sandboxes"], json!(1));
        assert_eq!(sandboxes(&person).len(), 1);
        assert_eq!(person.json(&["plan", "gc"]).data()["sandboxes"], json!(1));
        assert_eq!(sandboxes(&person), Vec::<PathBuf>::new());
    });
}

#[test]
fn a_project_whose_disk_fills_in_the_middle_of_an_apply_is_as_before() {
    with_own_mounts(|| {
        let person = TestUser::new();
        mount_disk(&person.project(), 6);
        person.write("a", "one\n");
        let before = files(&person);
        let id =
            person.plan("echo two > a; for n in 1 2 3; do head -c 3000000 /dev/zero | tr '\\0' '\\1' > f$n; done; rm -f gone");
        let refused = person.json(&["plan", "apply", &id, "--yes"]);
        assert_ne!(refused.exit, 0, "{refused:?}");
        let said = told(&refused);
        assert!(
            said.contains("No space left on device") && said.contains("your files are as they were"),
            "{said}"
        );
        assert_eq!(files(&person), before);
        resize_disk(&person.project(), 64);
        assert_eq!(person.agents(&["plan", "apply", &id, "--yes"]).exit, 0);
        assert_eq!(files(&person).len(), 4);
        assert_eq!(person.read("a"), "two\n");
    });
}

#[test]
fn a_data_directory_that_fills_while_an_apply_is_prepared_leaves_the_project_as_before() {
    with_own_mounts(|| {
        let person = TestUser::new();
        mount_disk(&data(&person), 64);
        let text = "before\n".repeat(500_000);
        person.write("a", &text);
        let id = person.plan("sed -i 1s/before/after/ a; echo new > b");
        // What was edited since is in no store yet: the journal needs room for it, and for what both make together.
        person.write("a", &format!("{text}mine\n"));
        let before = files(&person);
        let filler = data(&person).join("filler");
        let _ = std::io::copy(&mut std::io::repeat(0), &mut fs::File::create(&filler).unwrap());
        // A little room, for the store.
        fs::OpenOptions::new()
            .write(true)
            .open(&filler)
            .unwrap()
            .set_len(fs::metadata(&filler).unwrap().len() - 1_000_000)
            .unwrap();
        let refused = person.json(&["plan", "apply", &id, "--yes"]);
        assert_ne!(refused.exit, 0, "{refused:?}");
        let said = told(&refused);
        assert!(
            said.contains("No space left on device") && said.contains("your files are as they were"),
            "{said}"
        );
        assert_eq!(files(&person), before);
        fs::remove_file(filler).unwrap();
        let applied = person.agents(&["plan", "apply", &id, "--yes"]);
        assert_eq!(applied.exit, 0, "{applied:?}");
        let a = person.read("a");
        assert!(
            person.read("b") == "new\n" && a.starts_with("after\nbefore\n") && a.ends_with("before\nmine\n")
        );
    });
}

#[test]
fn an_index_that_fills_the_disk_goes_and_what_needs_the_disk_goes_on() {
    with_own_mounts(|| {
        let person = TestUser::new();
        mount_disk(&data(&person), 4);
        for number in 0..1500 {
            let word =
                |line: u32| format!("def rescue_{number}_{line}(queue, limit_{line}):\n    return {line}\n");
            person.write(&format!("part{number}.py"), &(0..8).map(word).collect::<String>());
        }
        assert_eq!(person.agents(&["run", "--", "sh", "-c", "echo one > a"]).exit, 0);
        for _ in 0..2 {
            let indexed = person.agents(&["context", "index"]);
            assert_eq!(indexed.exit, 0, "{indexed:?}");
            assert!(told(&indexed).contains("only in memory: the disk is full"), "{indexed:?}");
        }
        let ran = person.agents(&["run", "--", "sh", "-c", "echo two > b"]);
        assert_eq!(ran.exit, 0, "{ran:?}");
    });
}

#[test]
fn a_project_on_a_read_only_disk_can_be_worked_on_and_is_not_applied_to() {
    with_own_mounts(|| {
        let person = TestUser::new();
        person.write("a", "one\n");
        mount_bind(person.project(), person.project()).unwrap();
        mount_remount(person.project(), MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
        let before = files(&person);
        let id = person.plan("echo two >> a; echo new > b");
        assert!(person.agents(&["plan", "diff", &id]).stdout.contains("+two\n"));
        let refused = person.json(&["plan", "apply", &id, "--yes"]);
        assert_ne!(refused.exit, 0, "{refused:?}");
        let said = told(&refused);
        assert!(
            said.contains("Read-only file system") && said.contains("your files are as they were"),
            "{said}"
        );
        assert_eq!(files(&person), before);
        mount_remount(person.project(), MountFlags::BIND, c"").unwrap();
        assert_eq!(person.agents(&["plan", "apply", &id, "--yes"]).exit, 0);
        assert_eq!(person.read("a"), "one\ntwo\n");
    });
}

fn as_nobody(person: &TestUser, args: &[&str]) -> CommandOutput {
    answer(&mut ordinary_command(person, args))
}

#[test]
fn a_file_that_cannot_be_read_is_told_of_and_the_others_are_captured_and_applied() {
    let person = TestUser::new();
    person.write("a", "one\n");
    person.write("closed", "secret\n");
    fs::set_permissions(person.project().join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let script = "rm -f closed; echo two >> a; echo new > b";
    let ran = as_nobody(&person, &["run", "--", "sh", "-ec", script]);
    assert_eq!(ran.exit, 0, "this test must be able to become an ordinary user: {ran:?}");
    let diff = as_nobody(&person, &["plan", "diff", "@last", "--name-only"]);
    assert_eq!(diff.stdout, "a\nb\nclosed\n", "{diff:?}");
    let refused = as_nobody(&person, &["plan", "apply", "@last", "--yes"]);
    assert_eq!(refused.exit, 1, "{refused:?}");
    assert!(refused.stderr.contains("closed cannot be read: Permission denied"), "{refused:?}");
    assert!(refused.stderr.contains("--reject"), "{refused:?}");
    assert_eq!(person.read("a"), "one\n");
    let applied = as_nobody(&person, &["plan", "apply", "@last", "--yes", "--reject", "closed"]);
    assert_eq!(applied.exit, 0, "{applied:?}");
    assert_eq!((person.read("a"), person.read("b")), ("one\ntwo\n".to_owned(), "new\n".to_owned()));
    assert_eq!(person.read("closed"), "secret\n");
}

/// The blocks that a tree takes on the disk, in bytes.
fn used(dir: &Path) -> u64 {
    let mut sum = 0;
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let found = entry.metadata().unwrap();
            sum += found.blocks() * 512;
            if found.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    sum
}

/// Runs to the end; says how much memory the process had at most, in KiB, as long as it could be looked at.
fn with_peak(mut command: Command) -> (CommandOutput, u64) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let exit = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        peak = peak.max(kib.unwrap_or(0));
        if let Some(exit) = child.try_wait().unwrap() {
            break exit;
        }
        std::thread::yield_now();
    };
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (CommandOutput { exit: exit.code().unwrap_or(-1), stdout, stderr }, peak)
}

const GIB: u64 = 1024 * 1024 * 1024;
/// More than the program itself needs, less than any of the files.
const PEAK_KIB_MAX: u64 = 128 * 1024;

#[test]
fn a_huge_file_that_a_plan_does_not_touch_is_not_copied() {
    let person = TestUser::new();
    fs::File::create(person.project().join("huge")).unwrap().set_len(GIB).unwrap();
    person.git(&["add", "huge"]);
    assert_eq!(person.agents(&["config", "set", "sandbox.strategy=overlay"]).exit, 0);
    let run = person.command(&person.project(), &["run", "--", "sh", "-c", "echo small > small"]);
    let (ran, peak) = with_peak(run);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(peak > 0 && peak < PEAK_KIB_MAX, "{peak} KiB");
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "small\n");
    assert!(used(&data(&person)) < 16 * 1024 * 1024, "{}", used(&data(&person)));
}

#[test]
fn a_huge_file_that_a_command_makes_is_captured_or_told_of_in_little_memory() {
    let person = TestUser::new();
    assert_eq!(person.agents(&["config", "set", "capture.max_file_mb=512"]).exit, 0);
    let script = "truncate -s 1G beyond; head -c 300000000 /dev/zero > within";
    let (ran, peak) = with_peak(person.command(&person.project(), &["run", "--", "sh", "-c", script]));
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(peak > 0 && peak < PEAK_KIB_MAX, "{peak} KiB");
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "beyond\nwithin\n");
    let refused = person.json(&["plan", "apply", "@last", "--yes"]);
    assert_eq!((refused.exit, refused.code()), (4, "TOO_LARGE".to_owned()), "{refused:?}");
    assert!(told(&refused).contains("beyond"), "{refused:?}");
    let apply = person.command(&person.project(), &["plan", "apply", "@last", "--yes", "--reject", "beyond"]);
    let (applied, peak) = with_peak(apply);
    assert_eq!(applied.exit, 0, "{applied:?}");
    assert!(peak > 0 && peak < PEAK_KIB_MAX, "{peak} KiB");
    assert_eq!(fs::metadata(person.project().join("within")).unwrap().len(), 300_000_000);
    assert!(!person.project().join("beyond").exists());
}

/// How many directories of a tree have files.
fn filled(tree: &Path) -> usize {
    let dirs = fs::read_dir(tree).into_iter().flatten().flatten();
    dirs.filter(|dir| fs::read_dir(dir.path()).is_ok_and(|mut files| files.next().is_some())).count()
}

const DIRS: usize = 40;

#[test]
fn a_copy_that_takes_long_is_interrupted_and_leaves_nothing() {
    let person = TestUser::new();
    for dir in 0..DIRS {
        for file in 0..500 {
            person.write(&format!("d{dir}/f{file}"), "x");
        }
    }
    assert_eq!(person.agents(&["config", "set", "sandbox.strategy=copy"]).exit, 0);
    let mut command = person.command(&person.project(), &["run", "--", "sh", "-c", "echo began; sleep 1000"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The tree is made when copying begins.
    while !sandboxes(&person).iter().any(|dir| dir.join("0/tree/d0").exists()) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it copied");
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut copied = 0;
    let exit = loop {
        copied = copied.max(sandboxes(&person).iter().map(|dir| filled(&dir.join("0/tree"))).sum());
        if let Some(exit) = child.try_wait().unwrap() {
            break exit;
        }
    };
    assert_eq!(exit.code(), Some(5));
    assert!(copied < DIRS, "it was copied to the end");
    assert_eq!((sandboxes(&person), alive(&person)), (Vec::new(), 0));
    let status = person.json(&["plan", "status", "@last"]).data();
    assert_eq!((&status["state"], &status["interrupted"]), (&json!("errored"), &json!(true)), "{status}");
    assert!(!person.agents(&["plan", "logs", "@last"]).stdout.contains("began"));
}

#[test]
fn a_disk_that_is_full_while_an_edit_is_saved_loses_nothing_of_it() {
    with_own_mounts(|| {
        let person = TestUser::new();
        mount_disk(&data(&person), 64);
        person.write("a.txt", "one\ntwo\n");
        person.plan("sed -i 's/one/ONE/' a.txt");
        let mut terminal = review_with_editor(&person, "head -c 3000000 /dev/urandom | base64 > \"$1\"");
        let free = rustix::fs::statvfs(data(&person)).unwrap();
        let left = usize::try_from(free.f_bavail * free.f_frsize).unwrap();
        fs::write(data(&person).join("filler"), vec![7; left.saturating_sub(64 << 10)]).unwrap();
        terminal.types("e");
        terminal.shows("your text is in");
        terminal.types("q");
        terminal.ends();
        assert_eq!(texts_left(&person), 1, "the text is still there");
        fs::remove_file(data(&person).join("filler")).unwrap();
        let applied = person.agents(&["plan", "apply", "@last", "--yes"]);
        assert_eq!(applied.exit, 0, "{applied:?}");
        assert_eq!(person.read("a.txt"), "ONE\ntwo\n");
    });
}
