//! Parts of files and directories that are not their bytes: capabilities, the mode of the project itself,
//! attributes that mean something to an overlay.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use rustix::fs::XattrFlags;

use super::support::{CommandOutput, TestUser, answer, is_root, ordinary_command};

/// `cap_net_bind_service=ep`, as the kernel stores it.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn good(answer: CommandOutput) -> CommandOutput {
    assert_eq!(answer.exit, 0, "{answer:?}");
    answer
}

fn set(person: &TestUser, path: &str, name: &str, value: &[u8]) {
    rustix::fs::setxattr(person.project().join(path), name, value, XattrFlags::empty()).unwrap();
}

fn capability(person: &TestUser, path: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 64];
    let path = person.project().join(path);
    let length = rustix::fs::getxattr(path, c"security.capability", &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

#[test]
fn a_file_that_is_edited_has_its_capabilities_after_apply_and_after_undo() {
    // Only root gives capabilities to a file.
    if !is_root() {
        return;
    }
    let person = TestUser::new();
    for name in ["server", "linked", "reads"] {
        person.write(name, "#!/bin/sh\n");
        set(&person, name, "security.capability", &CAPABILITY);
    }
    fs::hard_link(person.project().join("linked"), person.home().join("other")).unwrap();
    fs::set_permissions(person.project().join("reads"), fs::Permissions::from_mode(0o555)).unwrap();
    let plan = person.plan("for f in server linked; do echo more >> $f; done; chmod +w reads; echo more >> reads; chmod -w reads");
    let all = |person: &TestUser| ["server", "linked", "reads"].map(|name| capability(person, name));
    good(person.agents(&["plan", "apply", &plan, "--yes"]));
    assert_eq!(person.read("server"), "#!/bin/sh\nmore\n");
    assert_eq!(all(&person), [(); 3].map(|()| Some(CAPABILITY.to_vec())));
    good(person.agents(&["plan", "undo", &plan, "--yes"]));
    assert_eq!(person.read("server"), "#!/bin/sh\n");
    assert_eq!(all(&person), [(); 3].map(|()| Some(CAPABILITY.to_vec())));
}

#[test]
fn an_apply_that_would_lose_capabilities_is_refused_before_it_writes() {
    // Only root gives capabilities to a file.
    if !is_root() {
        return;
    }
    let person = TestUser::new();
    person.write("a", "one\n");
    person.write("server", "#!/bin/sh\n");
    let as_nobody = |args: &[&str]| {
        let mut command = ordinary_command(&person, args);
        // Another owner takes them away.
        set(&person, "server", "security.capability", &CAPABILITY);
        answer(&mut command)
    };
    // An overlay of an ordinary user cannot copy the capabilities, so the file is not opened but replaced.
    good(as_nobody(&["run", "--", "sh", "-ec", "echo two >> a; echo more > new; mv -f new server"]));
    let refused = as_nobody(&["plan", "apply", "@last", "--yes"]);
    assert_ne!(refused.exit, 0, "{refused:?}");
    assert!(refused.stderr.contains("server") && refused.stderr.contains("capabilities"), "{refused:?}");
    assert!(refused.stderr.contains("--reject"), "{refused:?}");
    assert_eq!((person.read("a"), person.read("server")), ("one\n".to_owned(), "#!/bin/sh\n".to_owned()));
    assert_eq!(capability(&person, "server"), Some(CAPABILITY.to_vec()));
    good(as_nobody(&["plan", "apply", "@last", "--yes", "--reject", "server"]));
    assert_eq!(person.read("a"), "one\ntwo\n");
    assert_eq!(capability(&person, "server"), Some(CAPABILITY.to_vec()));
}

#[test]
fn a_changed_mode_of_the_project_itself_is_left_out_and_told() {
    for strategy in ["overlay", "copy"] {
        let person = TestUser::new();
        person.write("a", "one\n");
        fs::set_permissions(person.project(), fs::Permissions::from_mode(0o755)).unwrap();
        good(person.agents(&["config", "set", &format!("sandbox.strategy={strategy}")]));
        let run = good(person.agents(&["run", "--", "sh", "-ec", "chmod 700 .; echo two >> a"]));
        let told = "1 project directory mode left out: . (was 0700)";
        assert!(format!("{}{}", run.stdout, run.stderr).contains(told), "{strategy}: {run:?}");
        assert!(good(person.agents(&["plan", "diff", "@last"])).stderr.contains(told));
        assert!(good(person.agents(&["plan", "status", "@last"])).stdout.contains(told));
        assert!(good(person.agents(&["plan", "apply", "@last", "--yes"])).stderr.contains(told));
        let mode = fs::metadata(person.project()).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode, person.read("a")), (0o755, "one\ntwo\n".to_owned()));
        let run = good(person.agents(&["run", "--", "sh", "-ec", "echo three >> a"]));
        assert!(!format!("{}{}", run.stdout, run.stderr).contains("left out"), "{strategy}: {run:?}");
    }
}

/// Attributes that an overlay uses for itself, on files of the project: they hide no change, and a copy
/// passes them by.
#[test]
fn attributes_of_an_overlay_on_a_projects_files_make_no_change_of_their_own() {
    let person = TestUser::new();
    for path in ["meta", "dir/in", "moved/in", "white/gone", "white/there", "plain"] {
        person.write(path, "one\n");
    }
    fs::write(person.project().join("white/gone"), "").unwrap();
    for (path, name, value) in [
        ("meta", "user.overlay.metacopy", &b""[..]),
        ("dir", "user.overlay.opaque", b"y"),
        ("moved", "user.overlay.redirect", b"/dir"),
        ("white", "user.overlay.opaque", b"x"),
        ("white/gone", "user.overlay.whiteout", b"y"),
        ("plain", "user.overlay.origin", b"none"),
    ] {
        set(&person, path, name, value);
    }
    let edit = "for f in dir/in moved/in white/there plain; do echo two >> $f; done";
    let plan = person.plan(edit);
    let names = good(person.agents(&["plan", "diff", &plan, "--name-only"])).stdout;
    assert_eq!(names, "dir/in\nmoved/in\nplain\nwhite/there\n");
    good(person.agents(&["plan", "apply", &plan, "--yes"]));
    for path in ["dir/in", "moved/in", "white/there", "plain"] {
        assert_eq!(person.read(path), "one\ntwo\n", "{path}");
    }
    assert_eq!((person.read("meta"), person.read("white/gone")), ("one\n".to_owned(), String::new()));
    // What an overlay cannot show for them fails aloud, and a copy shows it.
    for (script, why) in
        [("cat meta", "Operation not permitted"), ("rm -r white", "No such file or directory")]
    {
        let ran = person.agents(&["run", "--", "sh", "-ec", script]);
        assert_ne!(ran.exit, 0, "{ran:?}");
        assert!(person.printed().contains(why), "{ran:?}");
    }
    good(person.agents(&["config", "set", "sandbox.strategy=copy"]));
    let plan = person.plan("echo two >> meta; test -e white/gone");
    good(person.agents(&["plan", "apply", &plan, "--yes"]));
    assert_eq!(person.read("meta"), "one\ntwo\n");
}

fn owned_by(person: &TestUser, owner: &str) {
    let project = person.project();
    assert!(Command::new("chown").args(["-R", owner]).arg(project).status().unwrap().success());
}

#[test]
fn root_can_work_in_a_tree_that_belongs_to_another_user() {
    if !is_root() {
        return;
    }
    for strategy in ["overlay", "copy"] {
        let person = TestUser::new_outside_tmp();
        person.write("a", "one\n");
        person.write("sub/b", "one\n");
        person.write("closed", "secret\n");
        fs::set_permissions(person.project().join("closed"), fs::Permissions::from_mode(0o600)).unwrap();
        owned_by(&person, "1234:1235");
        good(person.agents(&["config", "set", &format!("sandbox.strategy={strategy}")]));
        let script = "echo two >> a; echo two >> sub/b; rm closed; mkdir made; echo new > made/c; git status --short >&2; \
                      echo x > $HOME/x; echo y > $TMPDIR/y; echo z > /tmp/z; echo said > /dev/stdout; cat /etc/shadow || id -u";
        let ran = good(person.agents(&["run", "--", "sh", "-ec", script]));
        let printed = person.printed();
        assert!(
            printed.contains("said") && printed.contains("Permission denied"),
            "{strategy}: {ran:?} {printed}"
        );
        good(person.agents(&["plan", "apply", "@last", "--yes"]));
        assert_eq!((person.read("a"), person.read("made/c")), ("one\ntwo\n".to_owned(), "new\n".to_owned()));
        assert!(!person.project().join("closed").exists());
        for path in ["a", "sub/b", "made", "made/c"] {
            let found = fs::metadata(person.project().join(path)).unwrap();
            assert_eq!((found.uid(), found.gid()), (1234, 1235), "{strategy} {path}");
        }
        good(person.agents(&["plan", "undo", "@last", "--yes"]));
        assert_eq!((person.read("closed"), person.read("a")), ("secret\n".to_owned(), "one\n".to_owned()));
    }
}

#[test]
fn root_can_still_write_what_is_its_own_in_a_directory_of_another_user() {
    if !is_root() {
        return;
    }
    let person = TestUser::new_outside_tmp();
    person.write("a", "one\n");
    person.write("sub/b", "one\n");
    std::os::unix::fs::chown(person.project(), Some(1234), Some(1235)).unwrap();
    good(person.agents(&["config", "set", "sandbox.strategy=overlay"]));
    good(person.agents(&["run", "--", "sh", "-ec", "echo two >> a; echo two >> sub/b; echo new > sub/c"]));
    good(person.agents(&["plan", "apply", "@last", "--yes"]));
    assert_eq!((person.read("a"), person.read("sub/c")), ("one\ntwo\n".to_owned(), "new\n".to_owned()));
}

#[test]
fn a_directory_that_cannot_be_renamed_in_an_overlay_is_explained() {
    let person = TestUser::new();
    person.write("dir/a", "one\n");
    person.git(&["add", "-A"]);
    person.git(&["commit", "-qm", "first"]);
    good(person.agents(&["config", "set", "sandbox.strategy=overlay"]));
    let ran = person.agents(&["run", "--", "git", "mv", "dir", "moved"]);
    assert_ne!(ran.exit, 0, "{ran:?}");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("sandbox.strategy=copy") && said.contains("`mv`"), "{said}");
    good(person.agents(&["config", "set", "sandbox.strategy=copy"]));
    let plan = person.plan("python3 -c 'import os; os.rename(\"dir\", \"moved\")'");
    let names = good(person.agents(&["plan", "diff", &plan, "--name-only"])).stdout;
    assert!(names.contains("moved/a"), "{names}");
}
