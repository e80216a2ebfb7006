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
    assert!(lines[1].starts_with("  strategize  done"), "{}", said.stdout);
    assert!(
        lines[2].starts_with("  execute     done") && lines[2].ends_with("2 files  +2 -1"),
        "{}",
        said.stdout
    );
    assert!(
        lines[3].starts_with("  validate    none") && lines[3].ends_with("no validations"),
        "{}",
        said.stdout
    );
    let id = person.json(&["plan", "status"]).data()["short_id"].as_str().unwrap().to_owned();
    assert!(lines[4].starts_with(&format!("next  agents plan diff {id} ")), "{}", said.stdout);
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
    assert_eq!((said.exit, said.code()), (6, "PLAN_ASKS".to_owned()));
    assert_eq!(said.data()["state"], "errored");
    assert_eq!(said.data()["error"]["category"], "tool");
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
    assert_eq!((resumed.exit, resumed.code()), (6, "PLAN_ASKS".to_owned()));
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
    assert!(text.contains("sandbox opened") && text.contains("-> execute/complete"), "{text}");
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
        assert_eq!(said.exit, 6, "{said:?}");
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
