//! The options of an apply beyond the choice of changes: a dry run, conflict markers, commits and their undo.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::support::{CommandOutput, TestUser};

fn good(answer: CommandOutput) -> CommandOutput {
    assert_eq!(answer.exit, 0, "{answer:?}");
    answer
}

fn lines(first: u32, last: u32) -> String {
    (first..=last).map(|line| format!("{line}\n")).collect()
}

/// A project with one commit.
fn committed(person: &TestUser) {
    person.git(&["config", "user.name", "Someone"]);
    person.git(&["config", "user.email", "someone@example.com"]);
    person.git(&["add", "."]);
    person.git(&["commit", "-qm", "first"]);
}

#[test]
fn a_dry_run_says_what_would_happen_and_writes_nothing() {
    let person = TestUser::new();
    for name in ["clean", "merged", "same"] {
        person.write(name, &lines(1, 30));
    }
    person.write("old", "old\n");
    let plan =
        person.plan("for f in clean merged same; do sed -i 's/^3$/three/' $f; done; echo n > new; rm old");
    person.write("merged", &lines(1, 30).replace("\n20\n", "\ntwenty\n"));
    person.write("same", &lines(1, 30).replace("\n3\n", "\nthree\n"));
    let before = person.read("merged");
    let said = good(person.agents(&["apply", &plan, "--dry-run", "--reject", "new"])).stdout;
    let rows: Vec<&str> = said.lines().collect();
    let expected =
        ["write     clean", "merge     merged", "remove    old", "there     same", "leave     new"];
    assert_eq!(rows[..5], expected, "{said}");
    assert!(rows[5].ends_with("would write 3 files; nothing was written"), "{said}");
    assert_eq!((person.read("clean"), person.read("merged")), (lines(1, 30), before));
    let data = good(person.json(&["apply", &plan, "--dry-run"])).data();
    assert_eq!(data["would_apply"], true, "{data}");
    assert_eq!(data["files"], json!(["clean", "merged", "new", "old"]), "{data}");
    assert_eq!((&data["merged"], &data["already"]), (&json!(["merged"]), &json!(["same"])));
    assert_eq!(person.json(&["status", &plan]).data()["state"], "complete");

    person.write("clean", &lines(1, 30).replace("\n3\n", "\nIII\n"));
    let refused = person.json(&["apply", &plan, "--dry-run"]);
    assert_eq!((refused.exit, refused.code().as_str()), (4, "CONFLICTS"), "{refused:?}");
    assert_eq!(refused.data()["would_apply"], false);
    assert_eq!(refused.data()["conflicts"][0]["address"], "clean#1");
    assert!(person.agents(&["apply", &plan, "--dry-run"]).stdout.contains("conflict  clean#1  "));
}

#[test]
fn a_dry_run_of_a_plan_whose_check_failed_says_so() {
    let person = TestUser::new();
    let run = person.json(&["run", "--check", "false", "--", "sh", "-ec", "echo a > a"]);
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    let refused = person.json(&["apply", &plan, "--dry-run"]);
    let applied = person.json(&["apply", &plan, "--yes"]);
    assert_eq!((refused.exit, refused.code()), (applied.exit, applied.code()));
    assert_eq!(refused.data()["files"], json!(["a"]));
}

#[test]
fn conflict_markers_are_written_on_request_told_loudly_and_undone() {
    let person = TestUser::new();
    person.write("both", &lines(1, 20));
    person.write("mine", &lines(1, 20));
    let plan = person.plan("sed -i -e 's/^3$/plan/' -e 's/^15$/fifteen/' both; sed -i 's/^2$/two/' mine");
    let yours = lines(1, 20).replace("\n3\n", "\nyours\n");
    person.write("both", &yours);
    let refused = person.agents(&["apply", &plan, "--yes"]);
    assert_eq!(refused.exit, 4);
    assert!(refused.stderr.contains("--conflicts markers"), "the way out is named: {refused:?}");

    let marked = person.agents(&["apply", &plan, "--yes", "--conflicts", "markers"]);
    assert_eq!(marked.exit, 6, "{marked:?}");
    assert!(
        marked.stderr.contains("error[CONFLICT_MARKERS]") && marked.stderr.contains("both"),
        "{marked:?}"
    );
    let id = person.json(&["status", &plan]).data()["plan_id"].as_str().unwrap().to_owned();
    let sides = format!("2\n<<<<<<< yours\nyours\n=======\nplan\n>>>>>>> plan {id}\n4\n");
    let text = person.read("both");
    assert!(text.contains(&sides) && text.contains("\n14\nfifteen\n16\n"), "{text}");
    assert_eq!(person.read("mine"), lines(1, 20).replace("\n2\n", "\ntwo\n"));
    good(person.agents(&["undo", &plan, "--yes"]));
    assert_eq!((person.read("both"), person.read("mine")), (yours, lines(1, 20)));

    let data = person.json(&["apply", &plan, "--dry-run", "--conflicts", "markers"]).data();
    assert_eq!((&data["marked"], &data["conflicts"]), (&json!(["both"]), &json!([])));
    let committed = person.json(&["apply", &plan, "--yes", "--conflicts", "markers", "--commit"]);
    assert_eq!((committed.exit, committed.code().as_str()), (2, "USAGE"), "markers are no commit");
}

#[test]
fn conflicts_that_have_no_lines_stay_an_obstacle() {
    let person = TestUser::new();
    person.write("a", "one\n");
    let plan = person.plan("rm a");
    person.write("a", "two\n");
    let refused = person.json(&["apply", &plan, "--yes", "--conflicts", "markers"]);
    assert_eq!((refused.exit, refused.code().as_str()), (4, "CONFLICTS"), "{refused:?}");
    assert_eq!(person.read("a"), "two\n");
}

#[test]
fn a_commit_names_the_work_and_the_plan_and_says_which_hooks_did_not_run() {
    let person = TestUser::new();
    person.write("a", "one\n");
    committed(&person);
    let plan = person.plan("echo two >> a");
    let plain = good(person.agents(&["apply", &plan, "--yes", "--commit"]));
    assert!(!plain.stderr.contains("hooks"), "there are none: {plain:?}");
    let id = person.json(&["status", &plan]).data()["plan_id"].as_str().unwrap().to_owned();
    let message = person.git(&["log", "-1", "--format=%B"]);
    assert_eq!(message.trim_end(), format!("Run sh -ec 'echo two >> a'\n\nAgents-Plan: {id}"));
    good(person.agents(&["undo", &plan, "--yes"]));

    let titled = ["run", "--format", "json", "--title", "Count on", "--", "sh", "-ec", "echo two >> a"];
    let run = good(person.agents(&titled));
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    let hook = person.project().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let hooked = good(person.agents(&["apply", &plan, "--yes", "--commit"]));
    assert!(hooked.stderr.contains("git hooks were not run for this commit: pre-commit"), "{hooked:?}");
    let message = person.git(&["log", "-1", "--format=%B"]);
    assert_eq!(message.trim_end(), format!("Count on\n\n    sh -ec 'echo two >> a'\n\nAgents-Plan: {plan}"));
}

#[test]
fn an_undo_after_later_commits_undoes_the_files_and_leaves_the_commits() {
    let person = TestUser::new();
    person.write("a", "one\n");
    committed(&person);
    let plan = person.plan("echo two >> a");
    good(person.agents(&["apply", &plan, "--yes", "--commit"]));
    let commit = person.git(&["rev-parse", "HEAD"]);
    person.git(&["commit", "-q", "--allow-empty", "-m", "later"]);
    let undone = good(person.agents(&["undo", &plan, "--yes"]));
    assert_eq!(person.read("a"), "one\n");
    let short = &commit.trim()[..12];
    assert!(undone.stderr.contains(&format!("commit {short} stays in the history")), "{undone:?}");
    assert!(undone.stderr.contains(&format!("git revert {short}")), "{undone:?}");
    assert_eq!(person.git(&["log", "-1", "--format=%s"]).trim(), "later");
    assert_eq!(person.git(&["status", "--short"]), " M a\n", "the undo is not committed");
}

#[test]
fn a_branch_with_other_commits_is_not_deleted_by_an_undo() {
    let person = TestUser::new();
    person.write("a", "one\n");
    committed(&person);
    let plan = person.plan("echo two >> a");
    good(person.agents(&["apply", &plan, "--yes", "--branch", "try-it"]));
    person.git(&["checkout", "-q", "try-it"]);
    person.git(&["commit", "-q", "--allow-empty", "-m", "mine"]);
    let refused = person.json(&["undo", &plan, "--yes"]);
    assert_eq!((refused.exit, refused.code().as_str()), (4, "BRANCH_MOVED"), "{refused:?}");
    assert_eq!(person.git(&["log", "-1", "--format=%s", "try-it"]).trim(), "mine");
    let said = person.agents(&["undo", &plan, "--yes"]).stderr;
    assert!(said.contains("git branch -D try-it") && said.contains("git revert "), "{said}");
}

#[test]
fn the_rest_of_a_plan_is_applied_after_a_part_and_one_undo_takes_all_of_it() {
    let person = TestUser::new();
    person.write("f", &lines(1, 60));
    let plan = person.plan("sed -i -e 's/^1$/A/' -e 's/^30$/B/' -e 's/^60$/C/' f; echo g > g");
    good(person.agents(&["apply", &plan, "--yes", "--only", "f#1"]));
    person.write("f", &person.read("f").replace("\n45\n", "\nmine\n"));
    let unasked = person.json(&["apply", &plan]);
    assert_eq!((unasked.exit, unasked.code().as_str()), (6, "CONFIRMATION_NEEDED"), "{unasked:?}");
    let more = good(person.agents(&["apply", &plan, "--yes", "--only", "f#1-2"])).stdout;
    assert!(more.starts_with("applied ") && more.contains(": 1 file"), "{more}");
    assert!(person.read("f").contains("\nB\n") && !person.read("f").contains("\nC\n"));
    let dry = person.json(&["apply", &plan, "--dry-run"]).data();
    assert_eq!(dry["files"], json!(["f", "g"]), "what is left: {dry}");
    good(person.agents(&["apply", &plan, "--yes"]));
    assert!(person.read("f").ends_with("\nC\n") && person.read("g") == "g\n");
    let again = good(person.agents(&["apply", &plan, "--yes"])).stdout;
    assert!(again.starts_with("already applied "), "{again}");
    assert_eq!(person.json(&["log", &plan]).data()["total"], 3);

    let less = person.json(&["apply", &plan, "--yes", "--only", "g"]);
    assert_eq!((less.exit, less.code().as_str()), (4, "ALREADY_APPLIED"), "{less:?}");
    good(person.agents(&["undo", &plan, "--yes"]));
    assert_eq!(person.read("f"), lines(1, 60).replace("\n45\n", "\nmine\n"), "your edit stays");
    assert!(!person.project().join("g").exists());
    good(person.agents(&["redo", &plan, "--yes"]));
    assert!(person.read("f").ends_with("\nC\n") && person.read("g") == "g\n");
}

#[test]
fn another_choice_than_was_applied_is_no_rest() {
    let person = TestUser::new();
    let plan = person.plan("echo a > a; echo b > b; echo c > c");
    good(person.agents(&["apply", &plan, "--yes", "--only", "a"]));
    let other = person.json(&["apply", &plan, "--yes", "--only", "b"]);
    assert_eq!((other.exit, other.code().as_str()), (4, "ALREADY_APPLIED"), "{other:?}");
    good(person.agents(&["apply", &plan, "--yes", "--only", "a", "--only", "b"]));
    assert!(person.project().join("b").exists() && !person.project().join("c").exists());
}

#[test]
fn the_commits_of_a_part_and_of_the_rest_are_undone_together() {
    let person = TestUser::new();
    person.write("a", "one\n");
    committed(&person);
    let first = person.git(&["rev-parse", "HEAD"]);
    let plan = person.plan("echo two >> a; echo b > b");
    good(person.agents(&["apply", &plan, "--yes", "--only", "a", "--commit"]));
    good(person.agents(&["apply", &plan, "--yes", "--commit"]));
    assert_eq!(person.git(&["rev-list", "--count", "HEAD"]).trim(), "3");
    good(person.agents(&["undo", &plan, "--yes"]));
    assert_eq!(person.git(&["rev-parse", "HEAD"]), first);
    assert_eq!(person.git(&["status", "--short"]), "", "files and index are as they were");
}
