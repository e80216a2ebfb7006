//! Renames in diffs, patches of several projects, addresses in `--stat`, and the numbers of files and the
//! branches in the answers of apply and undo.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::support::{CommandOutput, TestUser, answer};

fn good(answer: CommandOutput) -> CommandOutput {
    assert_eq!(answer.exit, 0, "{answer:?}");
    answer
}

fn git_apply(dir: &Path, words: &[&str], patch: &str) -> bool {
    let mut git = Command::new("git");
    git.arg("apply").args(words).current_dir(dir).env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap());
    let mut child = git.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(patch.as_bytes()).unwrap();
    child.wait().unwrap().success()
}

fn lines(first: u32, last: u32) -> String {
    (first..=last).map(|line| format!("this is line {line}\n")).collect()
}

/// A plan that moves a file and edits it, in two commands, and moves another one as it is.
fn renamed(person: &TestUser) -> String {
    person.write("greet.sh", &lines(1, 20));
    person.write("lib/a.txt", &lines(50, 60));
    person.write("stays.txt", "one\n");
    person.plan(
        "sed 's/line 7$/row 7/' greet.sh > welcome.sh; rm greet.sh; mv lib/a.txt b.txt; echo two >> stays.txt",
    )
}

#[test]
fn a_moved_and_edited_file_is_shown_as_one_and_is_chosen_by_its_two_names() {
    let person = TestUser::new();
    let plan = renamed(&person);
    let stat = good(person.agents(&["diff", &plan, "--stat"])).stdout;
    assert!(stat.contains("R  greet.sh -> welcome.sh"), "{stat}");
    assert!(stat.contains("+1 -1  (95% the same)") && stat.contains("R  lib/a.txt -> b.txt"), "{stat}");
    assert!(stat.contains("3 files  +2 -1  (2 renamed)"), "{stat}");
    let page = good(person.agents(&["diff", &plan, "--format", "rich"])).stdout;
    let head = "R greet.sh -> welcome.sh  +1 -1\n95% the same; choose it by both names: greet.sh, welcome.sh\n@@ -4,7 +4,7 @@\n";
    assert!(page.contains(head), "{page}");
    let names = good(person.agents(&["diff", &plan, "--name-only"])).stdout;
    assert_eq!(names, "b.txt\ngreet.sh\nstays.txt\nwelcome.sh\n");

    let data = person.json(&["diff", &plan]).data();
    assert_eq!(data["summary"]["files"], 4, "what was recorded: {data}");
    assert_eq!((&data["files"][1]["op"], &data["files"][3]["op"]), (&json!("delete"), &json!("create")));
    let end = |from, to| json!({ "from": from, "to": to, "similarity": 95 });
    assert_eq!(data["files"][1]["rename"], end(None, Some("welcome.sh")));
    assert_eq!(data["files"][3]["rename"], end(Some("greet.sh"), None));
    assert_eq!(data["files"][0]["rename"], json!(null), "this one was recorded as a move");

    good(person.agents(&["apply", &plan, "--yes", "--only", "greet.sh", "--only", "welcome.sh"]));
    assert!(!person.project().join("greet.sh").exists() && person.project().join("lib/a.txt").exists());
    assert_eq!(person.read("welcome.sh"), lines(1, 20).replace("line 7\n", "row 7\n"));
}

#[test]
fn git_applies_the_patch_of_a_rename_and_makes_what_apply_makes() {
    let person = TestUser::new();
    let plan = renamed(&person);
    let patch = good(person.agents(&["diff", &plan])).stdout;
    assert!(patch.contains("similarity index 95%\nrename from greet.sh\nrename to welcome.sh\n"), "{patch}");
    let copy = person.home().join("copy");
    let copied = Command::new("cp").arg("-r").arg(person.project()).arg(&copy).status().unwrap();
    assert!(copied.success() && git_apply(&copy, &[], &patch), "{patch}");
    good(person.agents(&["apply", &plan, "--yes"]));
    // The plan left an empty directory, which git does not know.
    fs::remove_dir(person.project().join("lib")).unwrap();
    let same = Command::new("diff").arg("-r").arg(&copy).arg(person.project()).output().unwrap();
    assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stdout));
}

#[test]
fn a_patch_of_several_projects_names_each_and_fits_no_other() {
    let person = TestUser::new();
    let other = person.home().join("bank");
    fs::create_dir(&other).unwrap();
    person.write("README", "shop\n");
    fs::write(other.join("README"), "shop\n").unwrap();
    let bank = format!("bank={}", other.display());
    let script = ["sh", "-ec", "echo more >> ../bank/README"];
    let run =
        [&["run", "--format", "json", "--project", "shop=.", "--project", &bank, "--"], &script[..]].concat();
    let ran = good(answer(&mut person.command(&person.project(), &run)));
    let plan = ran.data()["plan_id"].as_str().unwrap().to_owned();
    let patch = good(person.agents(&["diff", &plan])).stdout;
    assert!(patch.contains("diff --git a/bank/README b/bank/README\n"), "{patch}");
    assert!(!git_apply(&person.project(), &[], &patch), "it would change the README of the shop");
    let of_bank = good(person.agents(&["diff", &plan, "bank:"])).stdout;
    assert_eq!(of_bank, patch);
    assert!(git_apply(&other, &["-p2"], &of_bank));
    assert_eq!(fs::read_to_string(other.join("README")).unwrap(), "shop\nmore\n");
    assert_eq!(person.read("README"), "shop\n");
}

#[test]
fn stat_has_the_numbers_of_hunks_which_choose_them() {
    let person = TestUser::new();
    person.write("f.txt", &lines(1, 60));
    person.write("g.txt", "one\n");
    let plan =
        person.plan("sed -i -e 's/line 1$/A/' -e 's/line 30$/B/' -e 's/line 60$/C/' f.txt; echo > g.txt");
    let stat = good(person.agents(&["diff", &plan, "--stat"])).stdout;
    assert_eq!(stat, "M  f.txt#1-3  +3 -3\nM  g.txt      +1 -1\n2 files  +4 -4\n");
    let wrong = person.json(&["apply", &plan, "--yes", "--only", "f.txt#2-4"]);
    assert_eq!((wrong.exit, wrong.code().as_str()), (2, "NO_SUCH_HUNK"));
    good(person.agents(&["apply", &plan, "--yes", "--only", "f.txt#1-2"]));
    let expected = lines(1, 60).replace("line 1\n", "A\n").replace("line 30\n", "B\n");
    assert_eq!(person.read("f.txt"), expected);
}

/// The number before `file` or `files` in an answer.
fn files_in(text: &str) -> u32 {
    let words: Vec<&str> = text.split([' ', ':', '(', ')']).collect();
    let place = words.iter().position(|word| word.starts_with("file")).unwrap_or_else(|| panic!("{text}"));
    words[place - 1].parse().unwrap()
}

#[test]
fn apply_and_undo_count_the_same_files() {
    let person = TestUser::new();
    person.write("old/deep/a", "a\n");
    person.write("old/deep/b", "b\n");
    person.write("keep", "k\n");
    let plan = person.plan(
        "rm -r old; mkdir -p new/er; echo n > new/er/n; mkdir -m 700 odd; echo o > odd/o; echo k >> keep",
    );
    for choice in
        [&[][..], &["--only", "new", "--only", "old/deep/a"], &["--reject", "odd/o"], &["--only", "old"]]
    {
        let applied = good(person.agents(&[&["apply", &plan, "--yes"], choice].concat())).stdout;
        let undone = good(person.agents(&["undo", &plan, "--yes"])).stdout;
        assert_eq!(files_in(&applied), files_in(&undone), "{applied}{undone}");
    }
}

#[test]
fn a_branch_is_named_by_apply_by_undo_and_by_a_second_apply() {
    let person = TestUser::new();
    person.write("a", "one\n");
    person.git(&["config", "user.name", "Someone"]);
    person.git(&["config", "user.email", "someone@example.com"]);
    person.git(&["add", "."]);
    person.git(&["commit", "-qm", "first"]);
    let plan = person.plan("echo two >> a; echo b > b");
    let applied = good(person.agents(&["apply", &plan, "--yes", "--branch", "try-it"])).stdout;
    assert!(applied.contains("to branch try-it of ") && applied.contains(": 2 files (+2 -0)"), "{applied}");
    assert!(applied.contains("your files are as they were"), "{applied}");
    assert_eq!(person.read("a"), "one\n");
    let again = person.agents(&["apply", &plan, "--yes"]);
    assert_eq!(again.exit, 4);
    assert!(again.stderr.contains("is applied already on branch try-it, with 2 of 2 files"), "{again:?}");
    let undone = good(person.agents(&["undo", &plan, "--yes"])).stdout;
    assert!(undone.contains("deleted branch try-it of ") && undone.contains("(2 files)"), "{undone}");
    assert_eq!(person.git(&["branch", "--list", "try-it"]), "");
}

#[test]
fn stat_names_files_that_were_not_captured() {
    let person = TestUser::new();
    person.write(".gitignore", "*.log\n");
    let plan =
        person.plan("echo a > a; for n in 1 2 3 4; do echo x > $n.log; done; echo y > .git/description");
    let stat = good(person.agents(&["diff", &plan, "--stat"])).stdout;
    assert!(stat.contains("not captured: 4 scratch, 1 protected\n  scratch: "), "{stat}");
    assert!(stat.contains(".log and 1 more\n  protected: .git/description\n"), "{stat}");
}

#[test]
fn a_call_that_is_not_there_is_an_error() {
    let person = TestUser::new();
    let plan = person.plan("echo a > a");
    assert!(good(person.agents(&["diff", &plan, "--call", "1"])).stdout.contains("+a\n"));
    let (diff, logs) =
        (person.json(&["diff", &plan, "--call", "9"]), person.json(&["logs", &plan, "--call", "9"]));
    assert_eq!((diff.exit, diff.code()), (logs.exit, logs.code()), "{diff:?}");
    assert_ne!(diff.exit, 0);
}
