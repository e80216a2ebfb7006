//! Kills, crowds and second thoughts: what a plan survives, by the real program.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::json;

use super::support::TestUser;

/// A run that has begun to work: its command has printed `ready`.
fn working(person: &TestUser, args: &[&str]) -> Child {
    let mut command = person.command(&person.project(), args);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains("\nready") {}
    child
}

fn kill_hard(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Whether a process of the person's plans is alive.
fn processes_of(person: &TestUser) -> Vec<String> {
    let home = person.home();
    let mut alive = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let of = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&of("environ")).into_owned();
        if text.contains("AGENTS_JOB=") && text.contains(home.to_str().unwrap()) {
            alive.push(String::from_utf8_lossy(&of("cmdline")).into_owned());
        }
    }
    alive
}

fn sandboxes(person: &TestUser) -> usize {
    let listed = fs::read_dir(person.home().join("data/sandboxes"));
    listed.map_or(0, |entries| entries.flatten().count())
}

#[test]
fn a_killed_engine_leaves_no_process_and_its_plan_is_resumed() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    let script = "echo half >> a.txt; (setsid sh -c 'while :; do echo x >> noise; done' &); echo ready; \
                  test -e go || sleep 1000; echo whole > b.txt";
    let mut child = working(&person, &["run", "--", "sh", "-c", script]);
    kill_hard(&mut child);
    while !processes_of(&person).is_empty() {}
    assert_eq!(person.read("a.txt"), "one\n");
    assert_eq!(person.git(&["status", "--porcelain"]), "?? a.txt\n");
    // With the file there the command ends by itself when it is run again.
    person.write("go", "");
    let resumed = person.json(&["plan", "resume", "@last"]);
    assert_eq!(resumed.exit, 0, "{resumed:?}");
    assert_eq!(sandboxes(&person), 0);
    let names = person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
    assert!(names.starts_with("a.txt\nb.txt\n"), "{names}");
    assert!(person.agents(&["plan", "diff", "@last"]).stdout.contains("+half\n"));
}

#[test]
fn a_plan_whose_engine_was_killed_is_cancelled_by_another() {
    let person = TestUser::new();
    let mut child = working(&person, &["run", "--", "sh", "-c", "echo ready; sleep 1000"]);
    kill_hard(&mut child);
    let cancelled = person.json(&["plan", "cancel", "@last"]);
    assert_eq!(cancelled.exit, 0, "{cancelled:?}");
    assert_eq!(person.json(&["plan", "status", "@last"]).data()["state"], json!("cancelled"));
    assert_eq!((sandboxes(&person), processes_of(&person)), (0, Vec::new()));
}

#[test]
fn what_a_command_changed_before_its_time_was_over_is_captured() {
    let person = TestUser::new();
    let ran = person.json(&["run", "--timeout", "1s", "--", "sh", "-c", "echo kept > a.txt; sleep 1000"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "a.txt\n");
    assert!(!person.project().join("a.txt").exists());
}

#[test]
fn two_processes_that_execute_one_plan_run_it_once() {
    let person = TestUser::new();
    let made = person.json(&["plan", "use", "--", "sh", "-c", "echo ready; test -e go || sleep 1000"]);
    let id = made.data()["plan_id"].as_str().unwrap().to_owned();
    let mut first = working(&person, &["plan", "execute", &id]);
    let second = person.json(&["plan", "execute", &id]);
    assert_eq!((second.exit, second.code()), (4, "PLAN_BUSY".to_owned()), "{second:?}");
    assert_eq!(person.json(&["plan", "cancel", &id]).exit, 0);
    assert_eq!(first.wait().unwrap().code(), Some(5));
}

#[test]
fn executing_again_makes_a_new_attempt_and_keeps_the_first() {
    let person = TestUser::new();
    person.write("n", "1");
    let id = person.plan("echo \"from $(cat n)\" > out");
    let refused = person.json(&["plan", "execute", &id]);
    assert_eq!((refused.exit, refused.code()), (4, "PLAN_COMPLETE".to_owned()));
    person.write("n", "2");
    let again = person.json(&["plan", "execute", &id, "--again"]);
    assert_eq!((again.exit, &again.data()["attempt"]), (0, &json!(2)), "{again:?}");
    assert!(person.agents(&["plan", "diff", &id]).stdout.contains("+from 2\n"));
    assert_eq!(person.agents(&["plan", "apply", &id, "--yes"]).exit, 0);
    assert_eq!(person.read("out"), "from 2\n");
}

#[test]
fn two_applies_of_one_plan_at_once_apply_it_once() {
    let person = TestUser::new();
    let id = person.plan("for n in $(seq 50); do echo $n > f$n; done");
    let apply = || {
        let mut command = person.command(&person.project(), &["plan", "apply", &id, "--yes"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let exits = [apply(), apply(), apply()].map(|mut child| child.wait().unwrap().code());
    assert!(exits.contains(&Some(0)), "{exits:?}");
    assert!(exits.iter().all(|exit| [Some(0), Some(4)].contains(exit)), "{exits:?}");
    assert_eq!((person.read("f1").as_str(), person.read("f50").as_str()), ("1\n", "50\n"));
    let undone = person.agents(&["plan", "undo", &id, "--yes"]);
    assert_eq!((undone.exit, person.project().join("f7").exists()), (0, false), "{undone:?}");
}

#[test]
fn two_plans_that_are_applied_to_one_project_at_once_both_arrive() {
    let person = TestUser::new();
    person.write("shared", &"line\n".repeat(40));
    let first = person.plan("sed -i '1s/.*/first/' shared; echo 1 > one");
    let second = person.plan("sed -i '40s/.*/second/' shared; echo 2 > two");
    let apply = |id: &str| {
        let mut command = person.command(&person.project(), &["plan", "apply", id, "--yes"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let exits = [apply(&first), apply(&second)].map(|mut child| child.wait().unwrap().code());
    assert_eq!(exits, [Some(0), Some(0)]);
    let shared = person.read("shared");
    assert!(shared.starts_with("first\n") && shared.ends_with("second\n"), "{shared}");
    assert_eq!((person.read("one").as_str(), person.read("two").as_str()), ("1\n", "2\n"));
}

#[test]
fn what_a_check_writes_is_thrown_away_and_one_that_takes_too_long_blocks() {
    let person = TestUser::new();
    let ran =
        person.json(&["run", "--check", "echo junk > junk; rm -f a.txt", "--", "sh", "-c", "echo a > a.txt"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "a.txt\n");
    fs::create_dir_all(person.project().join(".cleveragents")).unwrap();
    person.write(".cleveragents/config.toml", "[[validation]]\nrun = \"sleep 1000\"\ntimeout = \"1s\"\n");
    let ran = person.json(&["run", "--", "sh", "-c", "echo b > b.txt"]);
    assert_eq!(ran.exit, 4, "{ran:?}");
    let refused = person.json(&["plan", "apply", "@last", "--yes"]);
    assert_eq!((refused.exit, refused.code()), (4, "VALIDATION_FAILED".to_owned()), "{refused:?}");
    assert!(!person.project().join("b.txt").exists());
}

#[test]
fn an_apply_that_is_killed_is_whole_after_the_next_command() {
    let person = TestUser::new();
    const FILES: usize = 120;
    for n in 0..FILES {
        person.write(&format!("d{}/f{n}", n % 7), &format!("old {n}\n").repeat(30));
    }
    let id = person.plan("for f in d*/f*; do sed -i s/old/new/ $f; done; rm d0/f0; echo made > made");
    let mut landed = 0;
    for round in 0..25_u32 {
        let verb = if round % 2 == 0 { "apply" } else { "undo" };
        let mut command = person.command(&person.project(), &["plan", verb, &id, "--yes"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // A moment that differs from round to round, told by work instead of by time.
        for _ in 0..(round * round * 40) {
            let _ = fs::metadata(person.project());
        }
        kill_hard(&mut child);
        let status = person.json(&["plan", "status", &id]);
        assert_eq!(status.exit, 0, "{status:?}");
        let news = (1..FILES).filter(|n| person.read(&format!("d{}/f{n}", n % 7)).starts_with("new")).count();
        assert!(news == 0 || news == FILES - 1, "{news} of {} files are new after round {round}", FILES - 1);
        assert_eq!(person.project().join("made").exists(), news > 0);
        assert_eq!(person.project().join("d0/f0").exists(), news == 0);
        assert!(parked(&person.project()).is_empty());
        landed += usize::from(news > 0);
        // Both verbs are asked for again until they have done what they say, so that the next round has work to do.
        let finished = person.agents(&["plan", verb, &id, "--yes"]);
        assert!([0, 4].contains(&finished.exit), "{finished:?}");
    }
    assert!(landed > 0, "no round came to its end");
}

fn parked(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && name != ".git" {
            found.extend(parked(&entry.path()));
        } else if name.starts_with(".agents-") {
            found.push(name);
        }
    }
    found
}

#[test]
fn one_conflict_among_a_hundred_files_changes_none() {
    let person = TestUser::new();
    for n in 0..100 {
        person.write(&format!("f{n}"), "same\n");
    }
    let id = person.plan("for f in f*; do echo plan > $f; done");
    person.write("f42", "mine\n");
    let refused = person.json(&["plan", "apply", &id, "--yes"]);
    assert_eq!((refused.exit, refused.code()), (4, "CONFLICTS".to_owned()), "{refused:?}");
    assert_eq!((person.read("f0").as_str(), person.read("f42").as_str()), ("same\n", "mine\n"));
    let taken = person.agents(&["plan", "apply", &id, "--take", "f42", "--yes"]);
    assert_eq!((taken.exit, person.read("f42").as_str()), (0, "plan\n"), "{taken:?}");
}

#[test]
fn an_undo_keeps_edits_elsewhere_and_refuses_where_a_file_was_deleted() {
    let person = TestUser::new();
    person.write("a", &(1..=30).map(|n| format!("{n}\n")).collect::<String>());
    let id = person.plan("sed -i '2s/.*/plan/' a; echo b > b");
    assert_eq!(person.agents(&["plan", "apply", &id, "--yes"]).exit, 0);
    let edited = person.read("a").replace("29\n", "mine\n");
    person.write("a", &edited);
    fs::remove_file(person.project().join("b")).unwrap();
    let undone = person.agents(&["plan", "undo", &id, "--yes"]);
    assert_eq!(undone.exit, 0, "{undone:?}");
    let a = person.read("a");
    assert!(a.contains("mine\n") && a.starts_with("1\n2\n"), "{a}");
    person.plan("echo c > a; echo d > d");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    fs::remove_file(person.project().join("a")).unwrap();
    let refused = person.json(&["plan", "undo", "@last", "--yes"]);
    assert_eq!((refused.exit, refused.code()), (4, "CONFLICTS".to_owned()), "{refused:?}");
    assert_eq!(person.read("d"), "d\n");
}

#[test]
fn a_commit_holds_the_plans_change_and_nothing_of_yours() {
    let person = TestUser::new();
    person.write("a", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    person.git(&["config", "user.name", "Someone"]);
    person.git(&["config", "user.email", "someone@example.com"]);
    person.git(&["add", "."]);
    person.git(&["commit", "-qm", "first"]);
    let id = person.plan("sed -i s/one/1/ a");
    let mine = person.read("a").replace("seven", "mine");
    person.write("a", &mine);
    let applied = person.json(&["plan", "apply", &id, "--commit", "-m", "count", "--yes"]);
    assert_eq!(applied.exit, 0, "{applied:?}");
    assert_eq!(person.git(&["log", "-1", "--format=%s"]), "count\n");
    let committed = person.git(&["show", "HEAD:a"]);
    assert!(committed.starts_with("1\n") && committed.ends_with("seven\n"), "{committed}");
    assert!(person.read("a").ends_with("mine\n"));
    let id = person.plan("sed -i s/two/2/ a");
    let before = person.read("a");
    let branched = person.json(&["plan", "apply", &id, "--branch", "side", "--yes"]);
    assert_eq!((branched.exit, person.read("a")), (0, before), "{branched:?}");
    assert!(person.git(&["show", "side:a"]).contains("\n2\n"));
    let id = person.plan("sed -i s/three/3/ a");
    let taken = person.json(&["plan", "apply", &id, "--branch", "side", "--yes"]);
    assert_eq!((taken.exit, taken.code()), (4, "BRANCH_EXISTS".to_owned()), "{taken:?}");
}

#[test]
fn gc_beside_a_running_plan_takes_nothing_from_it() {
    let person = TestUser::new();
    let body = "x".repeat(100_000);
    person.write("big", &body);
    let script = "tr x y < big > big2; echo ready; test -e go || sleep 1000";
    let mut child = working(&person, &["run", "--", "sh", "-c", script]);
    let cleared = person.json(&["plan", "gc", "--older", "1s"]);
    assert_eq!(cleared.exit, 0, "{cleared:?}");
    assert_eq!(person.json(&["plan", "cancel", "@last"]).exit, 0);
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let out = person.home().join("out");
    let written = person.agents(&["plan", "artifacts", "@last", "--out", out.to_str().unwrap()]);
    assert_eq!(written.exit, 0, "{written:?}");
    assert_eq!(fs::read_to_string(out.join("big2")).unwrap(), body.replace('x', "y"));
}

#[test]
fn a_plan_that_two_apply_again_after_an_undo_can_be_undone() {
    let person = TestUser::new();
    person.write("a", "old\n");
    let id = person.plan("echo new > a; echo b > b");
    assert_eq!(person.agents(&["plan", "apply", &id, "--yes"]).exit, 0);
    assert_eq!(person.agents(&["plan", "undo", &id, "--yes"]).exit, 0);
    let apply = || {
        let mut command = person.command(&person.project(), &["plan", "apply", &id, "--yes"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let exits = [apply(), apply()].map(|mut child| child.wait().unwrap().code());
    assert_eq!(exits, [Some(0), Some(0)]);
    assert_eq!(person.read("a"), "new\n");
    let undone = person.agents(&["plan", "undo", &id, "--yes"]);
    assert_eq!((undone.exit, person.read("a").as_str()), (0, "old\n"), "{undone:?}");
    assert!(!person.project().join("b").exists());
}

#[test]
fn what_you_edit_between_a_failed_try_and_its_resume_stays_yours() {
    let person = TestUser::new();
    person.write("f", "one\n");
    let failed = person.json(&["run", "--", "sh", "-c", "echo plan >> f; echo try > only-once; test -e go"]);
    assert_eq!(failed.exit, 1, "{failed:?}");
    person.write("f", "mine\none\n");
    person.write("go", "");
    let resumed = person.json(&["plan", "resume", "@last"]);
    assert_eq!(resumed.exit, 0, "{resumed:?}");
    let diff = person.agents(&["plan", "diff", "@last"]).stdout;
    assert!(diff.contains("+plan\n") && !diff.contains("+mine"), "{diff}");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("f"), "mine\none\nplan\n");
}

#[test]
fn a_secret_in_a_command_that_fails_is_in_no_answer_about_it() {
    let person = TestUser::new();
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0".repeat(2).get(..36).unwrap());
    let failed = person.agents(&["run", "--", "sh", "-c", &format!("echo {secret} > /dev/null; exit 3")]);
    assert_eq!(failed.exit, 1);
    for words in [&["plan", "errors", "@last"][..], &["plan", "status", "@last"], &["plan", "list"]] {
        let told = person.agents(words);
        let json = person.json(words);
        assert!(!told.stdout.contains(&secret) && !json.stdout.contains(&secret), "{words:?}: {told:?}");
    }
    assert!(!failed.stdout.contains(&secret) && !failed.stderr.contains(&secret), "{failed:?}");
}
