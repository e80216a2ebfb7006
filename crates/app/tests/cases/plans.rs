//! Plans from the first command to the last.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};

use super::support::{TestUser, answer};

fn words(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

#[test]
fn a_plan_is_run_shown_applied_and_undone() {
    let person = TestUser::new();
    person.write("a.txt", "one\ntwo\n");
    let said =
        person.agents(&["run", "--", "sh", "-c", "sed -i s/two/2/ a.txt; echo new > b.txt; echo hello"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines[0].starts_with("plan ") && lines[0].contains(" on shop   sandbox "), "{}", said.stdout);
    assert!(
        lines[1].starts_with("  execute     done") && lines[1].ends_with(" s  2 files  +2 -1"),
        "{}",
        said.stdout
    );
    let id = person.json(&["plan", "status"]).data()["short_id"].as_str().unwrap().to_owned();
    assert!(lines[2].starts_with(&format!("next  agents plan diff {id} ")), "{}", said.stdout);
    assert_eq!(
        (person.read("a.txt").as_str(), person.project().join("b.txt").exists()),
        ("one\ntwo\n", false)
    );

    let diff = person.agents(&["plan", "diff"]);
    assert_eq!(diff.exit, 0);
    assert!(diff.stdout.contains("-two\n+2\n") && diff.stdout.contains("+++ b/b.txt"), "{}", diff.stdout);
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "a.txt\nb.txt\n");
    let logs = person.agents(&["plan", "logs", "@last", "--call", "1"]);
    assert_eq!(logs.stdout, "hello\n");

    let asked = person.json(&["plan", "apply", "@last"]);
    assert_eq!((asked.exit, asked.code()), (6, "CONFIRMATION_NEEDED".to_owned()));
    assert_eq!(person.read("a.txt"), "one\ntwo\n");
    let applied = person.agents(&["plan", "apply", "@last", "--yes"]);
    assert_eq!(applied.exit, 0, "{applied:?}");
    assert!(
        applied.stdout.starts_with(&format!("applied {id} "))
            && applied.stdout.contains("2 files (+2 -1), no validations"),
        "{applied:?}"
    );
    assert_eq!((person.read("a.txt").as_str(), person.read("b.txt").as_str()), ("one\n2\n", "new\n"));

    let again = person.json(&["plan", "apply", "@last"]);
    assert_eq!((again.exit, &again.data()["already"]), (0, &json!(true)));
    let asked = person.json(&["plan", "undo", "@last"]);
    assert_eq!((asked.exit, asked.code()), (6, "CONFIRMATION_NEEDED".to_owned()));
    let undone = person.agents(&["plan", "undo", "@last", "--yes"]);
    assert_eq!(undone.exit, 0, "{undone:?}");
    assert!(undone.stdout.starts_with(&format!("undone {id} ")), "{}", undone.stdout);
    assert_eq!(
        (person.read("a.txt").as_str(), person.project().join("b.txt").exists()),
        ("one\ntwo\n", false)
    );
    let applied = person.agents(&["plan", "apply", "@last", "--yes"]);
    assert_eq!((applied.exit, person.read("a.txt").as_str()), (0, "one\n2\n"), "{applied:?}");
}

#[test]
fn the_plain_diff_is_a_patch_that_git_takes() {
    let person = TestUser::new();
    person.write("a.txt", "one\ntwo\n");
    person.plan("sed -i s/two/2/ a.txt; mkdir d; echo x > d/n; chmod +x d/n");
    let patch = person.agents(&["plan", "diff"]).stdout;
    let file = person.home().join("p.patch");
    fs::write(&file, patch).unwrap();
    person.git(&["apply", &file.display().to_string()]);
    assert_eq!((person.read("a.txt").as_str(), person.read("d/n").as_str()), ("one\n2\n", "x\n"));
    assert_eq!(fs::metadata(person.project().join("d/n")).unwrap().permissions().mode() & 0o111, 0o111);
}

#[test]
fn run_with_apply_is_one_command() {
    let person = TestUser::new();
    let said = person.json(&["run", "--apply", "--check", "test -f made", "--", "touch", "made"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let data = said.data();
    assert_eq!((&data["phase"], &data["state"]), (&json!("apply"), &json!("applied")));
    assert_eq!(data["validations"]["verdict"], "passed");
    assert_eq!(data["apply"]["files"], 1);
    assert!(person.project().join("made").exists());
}

#[test]
fn a_failed_check_keeps_the_plan_out() {
    let person = TestUser::new();
    let said = person.json(&["run", "--apply", "--check", "false", "--", "touch", "made"]);
    assert_eq!((said.exit, said.code()), (4, "VALIDATION_FAILED".to_owned()));
    assert!(!person.project().join("made").exists());
    let said = person.json(&["plan", "apply", "@last", "--yes"]);
    assert_eq!((said.exit, said.code()), (4, "VALIDATION_FAILED".to_owned()));
    assert_eq!(said.envelope()["messages"][0]["detail"]["failed"], json!(["false"]));
    assert!(!person.project().join("made").exists());
}

#[test]
fn automation_applies_only_what_was_checked() {
    let person = TestUser::new();
    person.agents(&["config", "set", "automation=auto"]);
    let said = person.json(&["run", "--", "touch", "unchecked"]);
    assert_eq!((said.exit, said.envelope()["status"].as_str()), (6, Some("needs_person")), "{said:?}");
    assert!(!person.project().join("unchecked").exists());
    let said = person.json(&["run", "--check", "true", "--", "touch", "checked"]);
    assert_eq!((said.exit, &said.data()["state"]), (0, &json!("applied")), "{said:?}");
    assert!(person.project().join("checked").exists());
}

#[test]
fn the_level_of_automation_is_frozen_with_the_plan() {
    let person = TestUser::new();
    let made = ["plan", "use", "--automation", "auto", "--check", "true", "--", "touch", "checked"];
    assert_eq!(person.json(&made).data()["automation"], "auto");
    person.agents(&["config", "set", "automation=manual"]);
    let said = person.json(&["plan", "execute", "@last"]);
    assert_eq!((said.exit, &said.data()["state"]), (0, &json!("applied")), "{said:?}");
    assert!(person.project().join("checked").exists());

    person.agents(&["plan", "use", "--automation", "auto", "--", "touch", "unchecked"]);
    let said = person.json(&["plan", "execute", "@last"]);
    assert_eq!((said.exit, &said.data()["state"]), (6, &json!("complete")), "{said:?}");

    person.agents(&["plan", "use", "--check", "true", "--", "touch", "by_hand"]);
    person.agents(&["config", "set", "automation=auto"]);
    let said = person.json(&["plan", "execute", "@last"]);
    let level = &said.data()["automation"];
    assert_eq!(
        (said.exit, level, &said.data()["state"]),
        (0, &json!("manual"), &json!("complete")),
        "{said:?}"
    );
}

#[test]
fn a_failing_command_is_told_with_what_it_printed() {
    let person = TestUser::new();
    let said = person.json(&["run", "--", "sh", "-c", "echo kept > f; echo oops >&2; exit 3"]);
    assert_eq!((said.exit, said.code()), (1, "COMMAND_FAILED".to_owned()));
    assert_eq!((&said.data()["state"], &said.data()["status"]), (&json!("errored"), &json!("failed")));
    assert_eq!(
        (&said.data()["exit_status"], &said.data()["steps"][0]["exit_status"]),
        (&json!(3), &json!(3))
    );
    let error = &said.data()["error"];
    assert_eq!(
        (&error["category"], &error["output"], &error["exit_status"]),
        (&json!("tool"), &json!(["oops"]), &json!(3))
    );
    let logs = person.agents(&["plan", "logs"]);
    assert!(
        logs.stdout.starts_with("== call 1  execute  run_command sh -c '") && logs.stdout.ends_with("oops\n"),
        "{}",
        logs.stdout
    );
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "f\n");
    let errors = person.json(&["plan", "errors"]);
    assert_eq!((&errors.data()["recorded"], errors.exit), (&json!(1), 0));
    let status = person.json(&["plan", "status"]);
    assert_eq!((status.exit, &status.data()["state"]), (0, &json!("errored")));
    let resumed = person.json(&["plan", "resume", "@last"]);
    assert_eq!((resumed.exit, resumed.code()), (1, "COMMAND_FAILED".to_owned()));
}

#[test]
fn a_failing_command_is_answered_with_its_last_lines_and_one_hint() {
    let person = TestUser::new();
    let script = "for no in $(seq 30); do echo line $no; done; printf 'it broke\\033[2J' >&2; exit 7";
    let said = person.agents(&["run", "--", "sh", "-c", script]);
    assert_eq!(said.exit, 1, "{said:?}");
    let shown: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(shown.len(), 12, "a head, execute, ten lines: {said:?}");
    assert!(shown[1].starts_with("  execute     failed "), "{said:?}");
    assert_eq!(
        (shown[2], shown[10], shown[11]),
        ("  | line 22", "  | line 30", "  | it broke\\x1B[2J"),
        "{said:?}"
    );
    assert_eq!(said.stderr.matches("hint: ").count(), 1, "{said:?}");
    for part in ["error[COMMAND_FAILED]", "exited with status 7", "agents plan logs", "agents plan resume"] {
        assert_eq!(said.stderr.matches(part).count(), 1, "{part}: {said:?}");
    }
    // Work that was done can be had.
    let said = person.agents(&["run", "--", "sh", "-c", "echo kept > f; exit 1"]);
    assert!(
        said.stderr.contains("hint: it changed 1 file: apply them as they are with `agents plan apply "),
        "{said:?}"
    );
    assert_eq!(said.stderr.matches("hint: ").count(), 1, "{said:?}");
    // A time limit is named, with the command that raises it: a resume has the same one.
    let said = person.agents(&["run", "--timeout", "1s", "--", "sleep", "1000"]);
    assert_eq!(said.exit, 1, "{said:?}");
    assert!(said.stderr.contains("hint: its time limit is 1s; give it more in a new plan: `agents run --timeout 2s -- sleep 1000`\n"), "{said:?}");
    let said = person.agents(&["run", "--", "/etc/passwd"]);
    assert!(
        said.stderr.contains("/etc/passwd is not executable") && !said.stderr.contains("doctor"),
        "{said:?}"
    );
}

#[test]
fn a_failed_check_is_told_with_its_last_lines_and_is_a_state_of_its_own() {
    let person = TestUser::new();
    let check = "echo first; echo 'expected 2, found 3' >&2; test -e fixed";
    let said = person.agents(&["run", "--check", check, "--", "touch", "made"]);
    assert_eq!((said.exit, said.stderr.matches("hint: ").count()), (4, 1), "{said:?}");
    assert!(said.stdout.contains("\n  | first\n  | expected 2, found 3\n"), "{said:?}");
    let id = person.json(&["plan", "status"]).data()["short_id"].as_str().unwrap().to_owned();
    let all = person.json(&["plan", "list"]).data();
    assert_eq!(all["plans"][0]["status"], "check failed", "{all}");
    let status = person.json(&["plan", "status"]).data();
    assert_eq!((&status["status"], &status["checks"][0]["exit_status"]), (&json!("check failed"), &json!(1)));
    assert_eq!(status["checks"][0]["output"], json!(["first", "expected 2, found 3"]));
    person.plan("touch other");
    let failed = person.json(&["plan", "list", "--state", "check-failed"]).data();
    assert_eq!((&failed["total"], &failed["plans"][0]["short_id"]), (&json!(1), &json!(id)), "{failed}");
    let top = person.json(&["top"]).data();
    let row = top["plans"].as_array().unwrap().iter().find(|row| row["short_id"] == id.as_str()).unwrap();
    assert_eq!((&row["status"], &row["needs"]), (&json!("check failed"), &json!("see checks")), "{row}");
    let errors = person.agents(&["plan", "errors", &id]);
    assert!(
        errors.stdout.contains("expected 2, found 3") && errors.stdout.contains("agents plan check "),
        "{errors:?}"
    );
    assert_eq!(person.json(&["plan", "errors", &id]).data()["checks"][0]["outcome"], "failed");
}

#[test]
fn checks_run_again_without_the_work_and_let_the_plan_be_applied() {
    let person = TestUser::new();
    let check = "cat made; test -e flag";
    let said =
        person.json(&["run", "--check", check, "--check", "true", "--", "sh", "-c", "echo once >> made"]);
    assert_eq!(said.exit, 4, "{said:?}");
    let again = person.agents(&["plan", "check"]);
    assert_eq!(again.exit, 4, "{again:?}");
    assert!(again.stdout.contains("  | once\n"), "the changes are there, once: {again:?}");
    // The cause is outside of the plan: in your files, which the checks see as they are.
    person.write("flag", "");
    // Another check says nothing of this one.
    assert_eq!(person.json(&["plan", "check", "--only", "true"]).exit, 4);
    person.write("mine", "edited meanwhile\n");
    let passed = person.json(&["check", "@last", "--only", check]);
    assert_eq!((passed.exit, &passed.data()["status"]), (0, &json!("ready")), "{passed:?}");
    let logs = person.json(&["plan", "logs", "@last"]).data();
    let calls: Vec<&str> =
        logs["calls"].as_array().unwrap().iter().map(|call| call["tool"].as_str().unwrap()).collect();
    assert_eq!(
        calls.iter().filter(|tool| **tool == "run_command").count(),
        1,
        "the work is not redone: {logs}"
    );
    assert_eq!(calls.iter().filter(|tool| **tool == "validate").count(), 6, "{logs}");
    assert_eq!(person.json(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(
        (person.read("made").as_str(), person.read("mine").as_str()),
        ("once\n", "edited meanwhile\n")
    );
    // Wrong input, and plans that cannot be checked.
    let said = person.json(&["plan", "check", "@last"]);
    assert_eq!((said.exit, said.code()), (4, "PLAN_NOT_READY".to_owned()), "{said:?}");
    person.plan("touch unchecked");
    let said = person.json(&["plan", "check"]);
    assert_eq!((said.exit, said.code()), (2, "NO_SUCH_CHECK".to_owned()), "{said:?}");
    person.json(&["run", "--check", "true", "--", "touch", "other"]);
    let said = person.agents(&["plan", "check", "--only", "tru"]);
    assert!(said.exit == 2 && said.stderr.contains("its checks are `true`"), "{said:?}");
}

#[test]
fn a_plan_can_be_made_first_and_executed_later() {
    let person = TestUser::new();
    let said = person.json(&["plan", "use", "--title", "make it", "--", "touch", "made"]);
    assert_eq!(
        (said.exit, &said.data()["state"], &said.data()["title"]),
        (0, &json!("queued"), &json!("make it"))
    );
    let id = said.data()["short_id"].as_str().unwrap().to_owned();
    let said = person.json(&["plan", "execute", &id]);
    assert_eq!((said.exit, &said.data()["state"]), (0, &json!("complete")), "{said:?}");
    let said = person.json(&["plan", "execute", &id]);
    assert_eq!((said.exit, said.code()), (4, "PLAN_COMPLETE".to_owned()));
    let said = person.json(&["plan", "execute", &id, "--again"]);
    assert_eq!((said.exit, &said.data()["attempt"]), (0, &json!(2)), "{said:?}");
    let said = person.json(&["plan", "apply", &id, "--yes"]);
    assert_eq!((said.exit, &said.data()["files"]), (0, &json!(1)), "{said:?}");
}

#[test]
fn hunks_and_files_can_be_left_out() {
    let person = TestUser::new();
    let text: String = (1..=40).map(|n| format!("line {n}\n")).collect();
    person.write("a.txt", &text);
    person.plan("sed -i -e 's/line 2$/second/' -e 's/line 39$/last/' a.txt; echo x > b.txt");
    let said = person.json(&["plan", "apply", "@last", "--yes", "--reject", "a.txt#2", "--reject", "b.txt"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(words(&said.data()["left_out"]), ["a.txt#2", "b.txt"]);
    assert_eq!(person.read("a.txt"), text.replace("line 2\n", "second\n"));
    assert!(!person.project().join("b.txt").exists());
}

#[test]
fn your_edits_elsewhere_in_a_file_are_kept() {
    let person = TestUser::new();
    let text: String = (1..=20).map(|n| format!("line {n}\n")).collect();
    person.write("a.txt", &text);
    person.plan("sed -i 's/line 2$/second/' a.txt");
    person.write("a.txt", &text.replace("line 19\n", "mine\n"));
    let said = person.agents(&["plan", "apply", "@last", "--yes"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stdout.contains("1 merged with your edits"), "{}", said.stdout);
    assert_eq!(person.read("a.txt"), text.replace("line 2\n", "second\n").replace("line 19\n", "mine\n"));
}

#[test]
fn plans_are_listed_newest_first_and_by_filter() {
    let person = TestUser::new();
    let first = person.plan("echo 1 > a");
    let second = person.plan("echo 2 > b");
    let said = person.json(&["plan", "list"]);
    let ids: Vec<_> =
        said.data()["plans"].as_array().unwrap().iter().map(|plan| plan["plan_id"].clone()).collect();
    assert_eq!(ids, [json!(second), json!(first)]);
    assert_eq!(said.data()["total"], 2);
    assert_eq!(person.json(&["plan", "list", "--state", "applied"]).data()["total"], 0);
    let text = person.agents(&["plan", "list", "--limit", "1"]).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("TITLE") && lines[1].contains("ready") && lines[2].starts_with("1 of 2 plans"),
        "{text}"
    );
    let elsewhere = person.home().join("other");
    fs::create_dir(&elsewhere).unwrap();
    let here =
        answer(&mut person.command(&elsewhere, &["plan", "list", "--project", ".", "--format", "json"]));
    assert_eq!(here.data()["total"], 0);
}

#[test]
fn artifacts_are_listed_and_written_out() {
    let person = TestUser::new();
    person.write("gone", "x\n");
    person.plan("mkdir d; echo made > d/f; rm gone");
    let said = person.json(&["plan", "artifacts", "@last", "--out", "../out"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(said.data()["artifacts"][0]["address"], "d/f");
    assert_eq!(fs::read_to_string(person.home().join("out/d/f")).unwrap(), "made\n");
}

#[test]
fn what_happened_is_watched_to_its_end() {
    let person = TestUser::new();
    person.plan("true");
    let said = person.json(&["plan", "watch"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let mut events: Vec<Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let envelope = events.pop().unwrap();
    assert_eq!(envelope["data"]["plans"][0]["state"], "complete");
    let numbers: Vec<_> = events.iter().map(|event| event["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(events[0]["kind"], "plan.created");
    let text = person.agents(&["plan", "watch", "@last"]).stdout;
    assert!(text.contains("  starts\n") && text.contains("  done\n"), "{text}");
}

#[test]
fn ctrl_c_interrupts_cleanly_and_keeps_what_was_done() {
    let person = TestUser::new();
    let script = "echo half > f; echo started; exec sleep 600";
    let mut command =
        person.command(&person.project(), &["run", "--format", "json", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Another process follows until the command has printed its line.
    loop {
        let logs = person.json(&["plan", "logs"]);
        if logs.exit == 0 && logs.data()["calls"][0]["stdout"] == "started\n" {
            break;
        }
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was interrupted");
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5), "{line}");
    let envelope: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&envelope["status"], &envelope["data"]["state"]), (&json!("cancelled"), &json!("errored")));
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "f\n");
    assert_eq!(person.agents(&["plan", "cancel", "@last"]).exit, 0);
    let again = person.agents(&["plan", "cancel", "@last"]);
    assert!(again.exit == 0 && again.stdout.ends_with("was cancelled already\n"), "{again:?}");
    let said = person.json(&["plan", "apply", "@last", "--yes"]);
    assert_eq!((said.exit, said.code()), (4, "PLAN_NOT_READY".to_owned()));
    assert!(said.stdout.contains("--partial"), "{said:?}");
}

#[test]
fn the_data_directory_is_its_owners_alone() {
    let person = TestUser::new();
    person.plan("true");
    let mode = fs::metadata(person.home().join("data")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn gc_tells_what_it_would_clear_and_clears_nothing_that_is_needed() {
    let person = TestUser::new();
    person.plan("echo x > f");
    let said = person.json(&["plan", "gc", "--dry-run", "--older", "0s"]);
    assert_eq!((said.exit, &said.data()["plans"]), (0, &json!([])), "{said:?}");
    assert_eq!(person.agents(&["plan", "gc"]).exit, 0);
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("f"), "x\n");
    let would = person.json(&["plan", "gc", "--dry-run", "--older", "0s"]).data();
    let said = person.json(&["plan", "gc", "--older", "0s"]);
    assert_eq!(said.data()["plans"].as_array().unwrap().len(), 1, "{said:?}");
    let cleared = |data: &Value| ["plans", "contents", "content_bytes"].map(|key| data[key].clone());
    assert_eq!(cleared(&would), cleared(&said.data()));
    assert_eq!(said.data()["contents"], 1, "what the plan wrote: {said:?}");
    let said = person.json(&["plan", "undo", "@last", "--yes"]);
    assert_eq!((said.exit, said.code()), (3, "PLAN_NOT_FOUND".to_owned()));
}

#[test]
fn the_doctor_says_what_works() {
    let person = TestUser::new();
    let said = person.json(&["doctor"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let works =
        |key: &str| said.data()[key].as_array().unwrap().iter().any(|finding| finding["works"] == true);
    assert!(works("sandbox") && works("isolation"));
    let text = person.agents(&["doctor"]).stdout;
    assert!(text.contains("left by a crash, cleared now: 0 sandboxes"), "{text}");
}

#[test]
fn the_command_runs_where_the_person_stands() {
    let person = TestUser::new();
    fs::create_dir(person.project().join("sub")).unwrap();
    let mut command = person.command(&person.project().join("sub"), &["run", "--", "sh", "-c", "pwd > here"]);
    assert_eq!(answer(&mut command).exit, 0);
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "sub/here\n");
}

#[test]
fn a_plan_works_on_two_projects() {
    let person = TestUser::new();
    let lib = person.home().join("lib");
    fs::create_dir(&lib).unwrap();
    let script = format!("echo a > a; echo b > {}/b", lib.display());
    let said = person.json(&["run", "--project", ".", "--project", "../lib", "--", "sh", "-c", &script]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "shop:a\nlib:b\n");
    let said = person.json(&["plan", "apply", "@last", "--yes", "--reject", "shop:a"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(fs::read_to_string(lib.join("b")).unwrap(), "b\n");
    assert!(!person.project().join("a").exists());
}

#[test]
fn a_secret_that_a_command_names_and_prints_is_hidden_also_where_its_line_is_cut() {
    let person = TestUser::new();
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    for pad in [10, 25, 40, 55] {
        let script = format!(": {}; echo {secret}; echo {secret} >&2; exit 3", "x".repeat(pad));
        let said = person.json(&["run", "--", "sh", "-c", &script]);
        assert_eq!(said.exit, 1, "{said:?}");
        let shown = |words: &[&str]| {
            let said = person.agents(words);
            assert!(!format!("{said:?}").contains("ghp_a1B2a1"), "{pad}: {words:?}: {said:?}");
            said.stdout
        };
        assert!(!format!("{said:?}").contains("ghp_a1B2a1"), "{pad}: {said:?}");
        for command in ["status", "errors", "list", "tree"] {
            shown(&["plan", command]);
            shown(&["plan", command, "--format", "json"]);
        }
        assert!(shown(&["plan", "logs"]).contains("[REDACTED:github_token:"));
        shown(&["plan", "logs", "--format", "json"]);
        assert!(person.agents(&["plan", "logs", "@last", "--reveal"]).stdout.contains(&secret));
    }
}

#[test]
fn a_secret_in_a_check_or_an_invariant_is_in_no_record_of_it() {
    let person = TestUser::new();
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let action = format!(
        "description: make it\nactor: {{run: touch made}}\nvalidations: ['test {secret} != x']\n\
         invariants: ['never print {secret}', {{max_files: 9, text: 'few, as {secret} says'}}]\n"
    );
    person.write(".cleveragents/actions/make-it.yaml", &action);
    let said = person.json(&["run", "make-it", "--check", &format!("true {secret}")]);
    assert_eq!((said.exit, &said.data()["validations"]["verdict"]), (0, &json!("passed")), "{said:?}");
    assert!(!said.stdout.contains(&secret), "{said:?}");
    for words in
        [["plan", "status"], ["plan", "logs"], ["plan", "watch"], ["plan", "tree"], ["plan", "errors"]]
    {
        let said = person.agents(&[&words[..], &["@last", "--format", "json"]].concat());
        assert!(!said.stdout.contains(&secret), "{words:?}: {said:?}");
    }
    assert_eq!(
        person.agents(&["plan", "apply", "@last", "--yes"]).exit,
        0,
        "its checks are known by their names"
    );
}

#[test]
fn a_secret_is_hidden_in_the_diff_and_exact_in_the_file() {
    let person = TestUser::new();
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    person.plan(&format!("echo 'token={secret}' > .env.local"));
    let said = person.agents(&["plan", "diff"]);
    assert!(!said.stdout.contains(&secret) && said.stdout.contains("[REDACTED:"), "{}", said.stdout);
    assert!(said.stderr.contains("secrets are hidden in .env.local"), "{}", said.stderr);
    assert!(person.agents(&["plan", "diff", "@last", "--reveal"]).stdout.contains(&secret));
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read(".env.local"), format!("token={secret}\n"));
}
