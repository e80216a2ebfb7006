//! The risks of a first day: finished work, the modes of directories, files of another project.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::support::{CommandOutput, TestUser, answer};
use super::terminal::{CTRL_C, Terminal};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        std::thread::yield_now();
    }
}

fn spawn(person: &TestUser, args: &[&str]) -> Child {
    let mut command = person.command(&person.project(), args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn state(person: &TestUser, plan: &str) -> (String, String) {
    let status = person.json(&["plan", "status", plan]).data();
    let word = |key: &str| status[key].as_str().unwrap().to_owned();
    (word("phase"), word("state"))
}

fn signal(child: &Child, name: &str) {
    // The child is `env`, which has become the program.
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn files_that_git_ignores_are_in_the_sandbox() {
    let person = TestUser::new();
    person.write(".gitignore", ".env\nnode_modules/\n");
    person.write(".env", "PORT=1\n");
    person.write("node_modules/left/index.js", "left\n");
    person.git(&["init", "-q"]);
    let plan = person.plan("cat .env node_modules/left/index.js > seen.txt");
    assert_eq!(person.agents(&["plan", "apply", &plan, "--yes"]).exit, 0);
    assert_eq!(person.read("seen.txt"), "PORT=1\nleft\n");
}

#[test]
fn an_apply_and_an_undo_wait_for_no_slot() {
    let person = TestUser::new();
    person.write("a.txt", "old\n");
    let plan = person.plan("echo new > a.txt");
    assert_eq!(person.agents(&["config", "set", "plan.concurrency=1"]).exit, 0);
    person.write("go", "hold\n");
    let mut busy = spawn(
        &person,
        &["run", "--", "sh", "-c", "echo ready; while test \"$(cat go)\" = hold; do sleep 0.05; done"],
    );
    wait_for(|| person.agents(&["plan", "logs", "@last"]).stdout.contains("ready").then_some(()));
    assert_eq!(person.agents(&["plan", "apply", &plan, "--yes"]).exit, 0);
    assert_eq!(person.read("a.txt"), "new\n");
    assert_eq!(person.agents(&["plan", "undo", &plan, "--yes"]).exit, 0);
    assert_eq!(person.agents(&["plan", "apply", &plan, "--yes"]).exit, 0);
    assert_eq!(busy.try_wait().unwrap(), None, "the slot was busy all the while");
    person.write("go", "go\n");
    assert!(busy.wait().unwrap().success());
}

/// Holds the lock that every apply to the project needs.
fn hold_project(person: &TestUser) -> fs::File {
    let root = fs::File::open(person.project()).unwrap();
    rustix::fs::flock(&root, rustix::fs::FlockOperation::LockExclusive).unwrap();
    root
}

#[test]
fn a_signal_ends_an_apply_that_waits_and_leaves_the_plan_as_it_was() {
    let person = TestUser::new();
    person.write("a.txt", "old\n");
    let plan = person.plan("echo new > a.txt");
    for name in ["INT", "TERM", "HUP"] {
        let held = hold_project(&person);
        let applying = spawn(&person, &["plan", "apply", &plan, "--yes", "--format", "json"]);
        wait_for(|| (state(&person, &plan).1 == "processing").then_some(()));
        signal(&applying, name);
        let ended = CommandOutput::of(&applying.wait_with_output().unwrap());
        assert_eq!((ended.exit, ended.code().as_str()), (5, "CANCELLED"), "{ended:?}");
        assert_eq!(state(&person, &plan), ("execute".to_owned(), "complete".to_owned()));
        assert_eq!(person.read("a.txt"), "old\n");
        drop(held);
    }
    assert_eq!(person.agents(&["plan", "apply", &plan, "--yes"]).exit, 0);
    assert_eq!(person.read("a.txt"), "new\n");
    // An undo that waits is ended likewise.
    let held = hold_project(&person);
    let undoing = spawn(&person, &["plan", "undo", &plan, "--yes", "--format", "json"]);
    wait_for(|| {
        let locks = fs::read_dir(person.home().join("data/workers")).unwrap().count();
        (locks > 0).then_some(())
    });
    signal(&undoing, "INT");
    let ended = CommandOutput::of(&undoing.wait_with_output().unwrap());
    drop(held);
    // A signal before the program listens ends it at once; in both cases nothing was written.
    assert!(ended.exit == 5 || ended.exit == -1, "{ended:?}");
    assert_eq!(person.read("a.txt"), "new\n");
    assert_eq!(person.agents(&["plan", "undo", &plan, "--yes"]).exit, 0);
}

#[test]
fn ctrl_c_at_a_terminal_ends_an_apply_that_waits_and_leaves_the_plan_as_it_was() {
    let person = TestUser::new();
    person.write("a.txt", "old\n");
    let plan = person.plan("echo new > a.txt");
    let held = hold_project(&person);
    let mut applying = Terminal::call(&person, &["plan", "apply", &plan]);
    applying.sees("to your files");
    applying.types("y\r");
    wait_for(|| (state(&person, &plan).1 == "processing").then_some(()));
    applying.types(CTRL_C);
    let left = applying.ends();
    assert!(left.is_restored && left.text.contains("nothing was written"), "{left:?}");
    assert_eq!(left.exit, Some(5), "{left:?}");
    assert_eq!(state(&person, &plan), ("execute".to_owned(), "complete".to_owned()));
    drop(held);
    assert_eq!(person.agents(&["plan", "apply", &plan, "--yes"]).exit, 0);
    assert_eq!(person.read("a.txt"), "new\n");
}

#[test]
fn a_data_directory_that_was_there_keeps_its_mode_and_one_with_other_files_is_refused() {
    let person = TestUser::new();
    let (open, foreign) = (person.home().join("open"), person.home().join("foreign"));
    for dir in [&open, &foreign] {
        fs::create_dir(dir).unwrap();
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(foreign.join("thesis.txt"), "years of work\n").unwrap();
    let with = |dir: &Path, args: &[&str]| {
        let dir = dir.to_str().unwrap();
        let mut command =
            person.command(&person.project(), &[&["--data-dir", dir, "--format", "json"], args].concat());
        answer(&mut command)
    };
    for args in [&["plan", "list"][..], &["run", "--", "true"]] {
        let refused = with(&foreign, args);
        assert_eq!((refused.exit, refused.code().as_str()), (2, "DATA_DIR_FOREIGN"), "{refused:?}");
    }
    assert_eq!(with(&open, &["plan", "list"]).exit, 0);
    assert_eq!(fs::read_dir(&open).unwrap().count() + fs::read_dir(&foreign).unwrap().count(), 1);
    // An empty one serves, and what is made in it is for its owner only.
    assert_eq!(with(&open, &["run", "--detach", "--", "true"]).exit, 0);
    assert_eq!(with(&open, &["plan", "watch", "@last"]).exit, 0);
    assert_eq!((mode(&open), mode(&foreign)), (0o755, 0o755));
    for entry in fs::read_dir(&open).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
    fs::set_permissions(&open, fs::Permissions::from_mode(0o750)).unwrap();
    assert_eq!(with(&open, &["plan", "list"]).exit, 0);
    assert_eq!(mode(&open), 0o750);
}

#[test]
fn a_command_that_only_reads_makes_nothing() {
    let person = TestUser::new();
    let data = person.home().join("data");
    for (args, exit) in [
        (&["plan", "list"][..], 0),
        (&["plan", "status", "@last"], 3),
        (&["plan", "apply", "@last", "--yes"], 3),
        (&["plan", "watch", "@last"], 3),
        (&["job", "list"], 0),
        (&["plan", "gc", "--dry-run"], 0),
    ] {
        let said = person.json(args);
        assert_eq!(said.exit, exit, "{args:?}: {said:?}");
        assert!(!data.exists(), "{args:?}");
    }
}

#[test]
fn the_last_plan_is_of_this_project_and_every_answer_names_the_project() {
    let person = TestUser::new();
    person.write("a.txt", "old\n");
    let plan = person.plan("echo new > a.txt");
    let short = person.json(&["status"]).data()["short_id"].as_str().unwrap().to_owned();
    let other = person.home().join("other");
    fs::create_dir_all(other.join(".git")).unwrap();
    fs::write(other.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    for args in [
        ["plan", "apply", "@last", "--yes"].as_slice(),
        &["plan", "status", "@last"],
        &["plan", "cancel", "@last"],
    ] {
        let said = answer(&mut person.command(&other, args));
        assert_eq!(said.exit, 3, "{said:?}");
        let root = person.project().display().to_string();
        assert!(said.stderr.contains(&format!("is {short} of {root}")), "{said:?}");
    }
    assert_eq!(person.read("a.txt"), "old\n");
    let root = person.project().display().to_string();
    for (args, word) in [
        (["plan", "apply", &plan, "--yes"].as_slice(), "applied "),
        (&["plan", "undo", &plan, "--yes"], "undone "),
    ] {
        let said = answer(&mut person.command(&other, args));
        assert!(said.stdout.starts_with(word) && said.stdout.contains(&root), "{said:?}");
    }
    let waiting = person.plan("echo other > a.txt");
    let said = answer(&mut person.command(&other, &["plan", "cancel", &waiting]));
    assert!(said.stdout.starts_with("cancelled ") && said.stdout.contains(&root), "{said:?}");
}

#[test]
fn a_directory_of_the_system_is_no_project_unless_it_is_really_meant() {
    let person = TestUser::new();
    let home = person.home();
    for dir in [Path::new("/"), Path::new("/usr"), Path::new("/etc"), &home] {
        for args in [
            &["run", "--format", "json", "--", "true"][..],
            &["run", "--format", "json", "--project", ".", "--", "true"],
        ] {
            let refused = answer(&mut person.command(dir, args));
            assert_eq!(
                (refused.exit, refused.code().as_str()),
                (2, "PROJECT_IS_SYSTEM"),
                "{dir:?} {refused:?}"
            );
        }
    }
    assert!(person.json(&["plan", "list"]).data()["plans"].as_array().unwrap().is_empty());
    // A repository that is the home itself.
    let meant = ["run", "--project", ".", "--system-project", "--", "true"];
    let run =
        |args: &[&str]| answer(person.command(&person.project(), args).env("HOME", person.project())).exit;
    assert_eq!((run(&["run", "--", "true"]), run(&meant)), (2, 0));
}

#[test]
fn a_copy_of_a_project_has_a_bound() {
    let person = TestUser::new();
    for no in 0..20 {
        person.write(&format!("f{no}"), "text\n");
    }
    let run = |files: &str, mb: &str| {
        let mut command = person.command(&person.project(), &["run", "--format", "json", "--", "true"]);
        command
            .env("CLEVERAGENTS_SANDBOX_STRATEGY", "copy")
            .env("CLEVERAGENTS_SANDBOX_COPY_MAX_FILES", files);
        answer(command.env("CLEVERAGENTS_SANDBOX_COPY_MAX_MB", mb))
    };
    let refused = run("10", "100");
    assert_ne!(refused.exit, 0);
    assert!(refused.stdout.contains("more than 10 files (sandbox.copy_max_files)"), "{refused:?}");
    person.write("big", &"x".repeat(2 << 20));
    let refused = run("1000", "1");
    assert!(
        refused.exit != 0 && refused.stdout.contains("more than 1 MB (sandbox.copy_max_mb)"),
        "{refused:?}"
    );
    assert_eq!(run("1000", "100").exit, 0);
    assert_eq!(fs::read_dir(person.home().join("data/sandboxes")).unwrap().count(), 0);
}

#[test]
fn a_tree_that_changed_while_a_plan_ran_is_told_by_the_plan_its_status_and_its_apply() {
    let person = TestUser::new();
    person.write("a.txt", "old\n");
    person.write("mine.txt", "mine\n");
    person.write("gone.txt", "gone\n");
    person.write("go", "hold\n");
    let script = "echo new > a.txt; echo ready; while test \"$(cat go)\" = hold; do sleep 0.05; done";
    let running = spawn(&person, &["run", "--format", "json", "--", "sh", "-c", script]);
    wait_for(|| person.agents(&["plan", "logs", "@last"]).stdout.contains("ready").then_some(()));
    person.write("mine.txt", "edited\n");
    fs::remove_file(person.project().join("gone.txt")).unwrap();
    person.write("go", "go\n");
    let ended = CommandOutput::of(&running.wait_with_output().unwrap());
    assert_eq!(ended.exit, 0, "{ended:?}");
    let tree = ended.data()["tree"].clone();
    assert_eq!(tree["compared_whole"], true, "{tree}");
    let moved: Vec<&str> =
        tree["changed_meanwhile"].as_array().unwrap().iter().filter_map(|path| path.as_str()).collect();
    assert!(moved.contains(&"mine.txt") && !moved.contains(&"a.txt"), "{tree}");
    let words = "your tree changed while the plan ran, and not by it: ";
    let status = person.agents(&["plan", "status", "@last"]);
    assert!(status.stdout.contains(words) && status.stdout.contains("mine.txt"), "{status:?}");
    let applied = person.agents(&["plan", "apply", "@last", "--yes"]);
    assert!(applied.exit == 0 && applied.stderr.contains(words), "{applied:?}");
    // Where nothing else changed nothing is told.
    let plan = person.plan("echo newer > a.txt");
    let status = person.json(&["plan", "status", &plan]).data();
    assert_eq!(status["tree"]["changed_meanwhile"].as_array().map(Vec::len), Some(0), "{status}");
}

#[test]
fn of_a_large_tree_only_a_part_is_compared_and_that_is_said() {
    let person = TestUser::new();
    for no in 0..1100 {
        person.write(&format!("d{}/f{no}", no % 7), "");
    }
    let plan = person.plan("true");
    let status = person.json(&["plan", "status", &plan]).data();
    assert_eq!(status["tree"]["compared_whole"], false, "{status}");
}
