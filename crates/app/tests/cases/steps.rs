//! Plans of several steps: each sees what the ones before it did, none is done twice, a failed try leaves no
//! trace.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;

use super::support::TestUser;

/// A directory outside the project that commands may write, for what must outlive a try.
fn outside(person: &TestUser) -> PathBuf {
    let dir = person.home().join("outside");
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn lines(file: PathBuf) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

#[test]
fn each_step_sees_what_the_ones_before_it_did() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    let steps = ["--step", "echo two >> a.txt", "--step", "cp a.txt b.txt", "--step", "grep -q two b.txt"];
    let said = person.json(&[&["run"][..], &steps].concat());
    assert_eq!(said.exit, 0, "{said:?}");
    let told = &said.data()["steps"];
    let names: Vec<&str> = told.as_array().unwrap().iter().filter_map(|step| step["node"].as_str()).collect();
    assert_eq!(names, ["step1", "step2", "step3"]);
    assert_eq!(
        (&told[0]["changed"], &told[1]["changed"], &told[2]["changed"]),
        (&json!(1), &json!(1), &json!(0))
    );
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "a.txt\nb.txt\n");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!((person.read("a.txt").as_str(), person.read("b.txt").as_str()), ("one\ntwo\n", "one\ntwo\n"));
}

#[test]
fn a_step_that_ended_well_is_not_done_again_after_a_kill() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    let outside = outside(&person);
    let place = outside.to_str().unwrap();
    let first = format!("echo once >> {place}/first; echo two >> a.txt; echo gone > made; rm made");
    let second =
        format!("echo half >> a.txt; echo half > half; echo ready; test -e {place}/go || sleep 1000");
    let third = "cp a.txt c.txt";
    let args = ["run", "--writable", place, "--step", &first, "--step", &second, "--step", third];
    let mut command = person.command(&person.project(), &args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !person.agents(&["plan", "logs", "@last", "--call", "2"]).stdout.contains("ready") {}
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(outside.join("go"), "").unwrap();
    let resumed = person.json(&["plan", "resume", "@last"]);
    assert_eq!(resumed.exit, 0, "{resumed:?}");
    assert_eq!(lines(outside.join("first")), 1, "the first step was done twice");
    let tries: Vec<_> = (0..3).map(|step| resumed.data()["steps"][step]["tries"].clone()).collect();
    assert_eq!(tries, [json!(1), json!(2), json!(1)]);
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("a.txt"), "one\ntwo\nhalf\n");
    assert_eq!(person.read("c.txt"), "one\ntwo\nhalf\n");
}

#[test]
fn a_step_is_done_again_as_often_as_was_said_and_its_failed_tries_leave_no_trace() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    let outside = outside(&person);
    let place = outside.to_str().unwrap();
    let before = "echo two >> a.txt";
    let flaky = format!(
        "echo try >> {place}/tries; echo try >> a.txt; n=$(wc -l < {place}/tries); echo $n > try-$n; test $n -ge 3"
    );
    let args = ["--writable", place, "--step", before, "--step", &flaky];
    let said = person.json(&[&["run", "--retries", "1"][..], &args].concat());
    assert_eq!((said.exit, lines(outside.join("tries"))), (1, 2), "{said:?}");
    fs::remove_file(outside.join("tries")).unwrap();
    let said = person.json(&[&["run", "--retries", "2"][..], &args].concat());
    assert_eq!((said.exit, lines(outside.join("tries"))), (0, 3), "{said:?}");
    assert_eq!(said.data()["steps"][1]["tries"], json!(3));
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "a.txt\ntry-3\n");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("a.txt"), "one\ntwo\ntry\n");
    let errors = person.json(&["plan", "errors", "@last"]);
    assert_eq!(errors.data()["records"].as_array().map(Vec::len), Some(2), "{errors:?}");
}

#[test]
fn a_program_that_says_try_later_is_tried_later_and_a_cancel_ends_the_wait() {
    let person = TestUser::new();
    let outside = outside(&person);
    let place = outside.to_str().unwrap();
    let script = format!("echo try >> {place}/tries; test $(wc -l < {place}/tries) -ge 2 || exit 75");
    let said = person.json(&["run", "--writable", place, "--", "sh", "-c", &script]);
    assert_eq!((said.exit, lines(outside.join("tries"))), (0, 2), "{said:?}");

    let last = || person.json(&["plan", "status", "@last"]).data()["plan_id"].clone();
    let before = last();
    let script = "exit 75";
    let mut command =
        person.command(&person.project(), &["run", "--retries", "100", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let failed = |times: usize| {
        let errors = person.json(&["plan", "errors", "@last"]).data();
        errors["records"].as_array().is_some_and(|records| records.len() >= times)
    };
    while last() == before || !failed(1) {}
    let cancelled = person.json(&["plan", "cancel", "@last"]);
    assert_eq!(cancelled.exit, 0, "{cancelled:?}");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_plan_that_only_reads_and_waits_needs_no_sandbox() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    let actor = "nodes:\n  wait: { tool: wait, with: { seconds: 0 }, needs: [read] }\n  \
                 read: { tool: read, with: { path: a.txt } }\n";
    person.write("actor.yaml", actor);
    let said = person.json(&["run", "--actor", "actor.yaml"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(
        (&said.data()["steps"][0]["node"], &said.data()["steps"][1]["node"]),
        (&json!("read"), &json!("wait"))
    );
    assert_eq!(said.data()["sandbox"], json!(null));
    person.write("actor.yaml", "nodes: { read: { tool: read, with: { path: ../a.txt } } }");
    let said = person.json(&["run", "--actor", "actor.yaml"]);
    assert_eq!((said.exit, said.code()), (4, "PREFLIGHT_FAILED".to_owned()), "{said:?}");
    person.write("actor.yaml", "nodes: { read: { tool: read, with: { path: none.txt } } }");
    let said = person.json(&["run", "--actor", "actor.yaml"]);
    assert_eq!(said.exit, 1, "{said:?}");
}

#[test]
fn a_read_step_sees_the_sandbox() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    let actor = "nodes:\n  edit: { run: echo two >> a.txt }\n  read: { tool: read, with: { path: a.txt }, needs: [edit] }\n";
    person.write("actor.yaml", actor);
    let said = person.json(&["run", "--actor", "actor.yaml"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let logs = person.agents(&["plan", "logs", "@last", "--call", "2"]);
    assert_eq!(logs.stdout, "one\ntwo\n", "{logs:?}");
}

#[test]
fn files_are_written_and_edited_in_the_sandbox_without_a_process() {
    let person = TestUser::new();
    person.write("a.txt", "one two two\n");
    let actor = |nodes: &str| {
        person.write("actor.yaml", &format!("nodes:\n{nodes}"));
        person.json(&["run", "--actor", "actor.yaml"])
    };
    let said = actor(
        "  write: { tool: write, with: { path: new/deep/b.txt, text: \"b\\n\" } }\n  \
           edit: { tool: edit, with: { path: a.txt, old: one, new: uno }, needs: [write] }\n  \
           see: { run: 'grep -q uno a.txt && grep -q b new/deep/b.txt', needs: [edit] }\n",
    );
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(person.read("a.txt"), "one two two\n", "before the apply nothing is written");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(
        (person.read("a.txt").as_str(), person.read("new/deep/b.txt").as_str()),
        ("uno two two\n", "b\n")
    );

    for (node, why) in [
        ("{ tool: edit, with: { path: a.txt, old: two, new: x } }", "2 times"),
        ("{ tool: edit, with: { path: a.txt, old: three, new: x } }", "does not contain the text to replace"),
        ("{ tool: edit, with: { path: none, old: a, new: b } }", "none cannot be read"),
        ("{ tool: write, with: { path: .git/config, text: x } }", "protected"),
        ("{ tool: write, with: { path: .GIT/config, text: x } }", "protected"),
        ("{ tool: write, with: { path: new, text: x } }", "new"),
    ] {
        let said = actor(&format!("  a: {node}\n"));
        let errors = person.agents(&["plan", "errors", "@last"]).stdout;
        assert!(said.exit == 6 && errors.contains(why), "{node}: {said:?} {errors}");
        assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "");
    }
}

#[test]
fn a_passing_failure_is_tried_again_as_often_as_the_settings_say_and_no_more() {
    let person = TestUser::new();
    let outside = outside(&person);
    let place = outside.to_str().unwrap();
    assert_eq!(person.agents(&["config", "set", "recovery.max_retries_per_step=1"]).exit, 0);
    let script = format!("echo try >> {place}/tries; exit 75");
    let said = person.json(&["run", "--writable", place, "--", "sh", "-c", &script]);
    assert_ne!(said.exit, 0, "{said:?}");
    assert_eq!(lines(outside.join("tries")), 2, "one call, and one more");
    assert_eq!(person.json(&["plan", "errors"]).data()["retries"], json!(1));
}

#[test]
fn a_file_that_is_too_large_to_be_read_whole_is_not_edited() {
    let person = TestUser::new();
    person.write(".cleveragents/config.toml", "[capture]\nmax_file_mb = 1\n");
    let large = format!("HEAD\n{}TAIL\n", "x\n".repeat(700_000));
    person.write("large.txt", &large);
    person.write("actor.yaml", "nodes:\n  a: { tool: edit, with: { path: large.txt, old: HEAD, new: X } }\n");
    let said = person.json(&["run", "--actor", "actor.yaml"]);
    let errors = person.agents(&["plan", "errors", "@last"]).stdout;
    assert!(said.exit == 6 && errors.contains("capture.max_file_mb"), "{said:?} {errors}");
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "");
    assert_eq!(person.read("large.txt"), large);
}
