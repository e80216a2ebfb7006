//! Several plans beside each other: what they change both, watching them together, and being told that one
//! needs you.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::TestUser;

fn lines(changed: &[(usize, &str)]) -> String {
    let mut lines: Vec<String> = (1..=20).map(|no| no.to_string()).collect();
    for (no, text) in changed {
        lines[no - 1] = (*text).to_owned();
    }
    lines.join("\n") + "\n"
}

fn person_with_a_file() -> TestUser {
    let person = TestUser::new();
    person.write("a.txt", &lines(&[]));
    person.write("b.txt", "old\n");
    person
}

/// The forecast of a plan: with which plan, at which path, and how.
fn forecast(person: &TestUser, plan: &str) -> Vec<(String, String, String)> {
    let data = person.json(&["plan", "status", plan]).data();
    let mut found = Vec::new();
    for met in data["forecast"].as_array().unwrap() {
        for path in met["paths"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            found.push((text(&met["plan"]), text(&path["path"]), text(&path["kind"])));
        }
    }
    found
}

fn met(plan: &str, path: &str, kind: &str) -> (String, String, String) {
    (plan.to_owned(), path.to_owned(), kind.to_owned())
}

#[test]
fn plans_that_will_be_in_conflict_are_told_before_anybody_applies() {
    let person = person_with_a_file();
    let first = person.plan("sed -i 's/^1$/one/' a.txt");
    assert_eq!(forecast(&person, &first), []);
    let second = person.plan("sed -i 's/^1$/eins/' a.txt");
    let third = person.plan("sed -i 's/^20$/twenty/' a.txt");
    let fourth = person.plan("echo new > b.txt");
    let fifth = person.plan("rm b.txt");
    assert_eq!(
        forecast(&person, &first),
        [met(&second, "a.txt", "same_lines"), met(&third, "a.txt", "same_file")]
    );
    assert_eq!(forecast(&person, &fourth), [met(&fifth, "b.txt", "one_deletes")]);

    let text = person.agents(&["plan", "status", &first]).stdout;
    assert!(
        text.contains("conflict to come with plan ") && text.contains(": a.txt (same lines)\n"),
        "{text}"
    );
    assert!(text.contains(" also changes a.txt, without a conflict\n"), "{text}");
    let diff = person.agents(&["plan", "diff", &first]);
    assert!(diff.stderr.contains("warning: conflict to come with plan "), "{diff:?}");
    assert!(!diff.stdout.contains("conflict"), "a patch stays one: {diff:?}");
    let list = person.agents(&["plan", "list"]).stdout;
    assert_eq!(list.matches(" 1 !").count(), 4, "{list}");
    assert!(list.contains("! will be in conflict with another plan"), "{list}");

    let applied = person.json(&["plan", "apply", &first, "--yes"]);
    assert_eq!((applied.exit, &applied.data()["forecast"][0]["kind"]), (0, &json!("same_lines")));
    assert_eq!(forecast(&person, &second), [met(&third, "a.txt", "same_file")], "applied is applied");
    let said = person.agents(&["plan", "apply", &third, "--yes"]);
    assert!(said.exit == 0 && !said.stderr.contains("conflict"), "{said:?}");
    assert_eq!(person.read("a.txt"), lines(&[(1, "one"), (20, "twenty")]), "as was foretold");
    assert_eq!(person.agents(&["plan", "apply", &second, "--yes"]).exit, 4, "as was foretold");
    let said = person.agents(&["plan", "apply", &fourth, "--yes"]);
    assert!(said.stderr.contains("b.txt (one deletes it); the first one applied wins"), "{said:?}");
    assert_eq!(person.agents(&["plan", "cancel", &fifth]).exit, 0);
    assert_eq!(forecast(&person, &fourth), []);
}

#[test]
fn plans_of_different_projects_do_not_meet() {
    let person = person_with_a_file();
    let other = person.home().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a.txt"), lines(&[])).unwrap();
    let here = person.plan("echo here > a.txt");
    let there = other.display().to_string();
    let said = person.json(&["run", "--project", &there, "--", "sh", "-c", "echo there > a.txt"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(forecast(&person, &here), []);
    let both = format!("other={there}");
    let said =
        person.json(&["run", "--project", ".", "--project", &both, "--", "sh", "-c", "echo 3 > a.txt"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let both = said.data()["plan_id"].as_str().unwrap().to_owned();
    assert_eq!(forecast(&person, &here), [met(&both, "a.txt", "same_lines")]);
}

#[test]
fn plans_are_watched_together_and_the_worst_is_the_exit() {
    let person = person_with_a_file();
    let good = person.plan("echo new > b.txt");
    let bad = person.json(&["run", "--", "false"]).data()["plan_id"].as_str().unwrap().to_owned();
    assert_eq!(person.agents(&["plan", "watch", &good]).exit, 0);
    assert_eq!(person.agents(&["plan", "watch", &bad]).exit, 1);
    let said = person.json(&["plan", "watch", &good, &bad, &good]);
    assert_eq!(said.exit, 1, "{said:?}");
    let mut told: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let envelope = told.pop().unwrap();
    assert_eq!((&envelope["exit_code"], envelope["data"]["plans"].as_array().unwrap().len()), (&json!(1), 2));
    for plan in [&good, &bad] {
        let numbers = told.iter().filter(|event| event["plan"] == json!(plan));
        let numbers: Vec<u64> = numbers.map(|event| event["n"].as_u64().unwrap()).collect();
        assert!(!numbers.is_empty() && numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
    }
    let text = person.agents(&["plan", "watch", &good, &bad]);
    assert!(text.stdout.contains("  made: false\n"), "{text:?}");
    let ends = |words: &str| text.stdout.lines().filter(|line| line.ends_with(words)).count();
    assert_eq!((ends("  starts"), ends("  done"), ends("  failed")), (2, 1, 1), "{text:?}");
    let nobody = person.agents(&["plan", "watch", "--all"]);
    assert_eq!((nobody.exit, nobody.stdout.as_str()), (0, "no plan waits for its turn or is worked on\n"));
    assert_eq!(person.agents(&["plan", "watch", "--all", &good]).exit, 2);
    let made = person.json(&["plan", "use", "--", "true"]);
    assert_eq!(made.exit, 0, "{made:?}");
    assert_eq!(person.agents(&["plan", "watch"]).exit, 0, "what waits for a person is not waited for");
}

/// A worker that takes any plan, once it does.
fn worker(person: &TestUser, command: &str) -> Child {
    let mut worker = person.command(&person.project(), &["worker", "--format", "plain"]);
    worker.env("CLEVERAGENTS_NOTIFY_COMMAND", command);
    let mut worker = worker.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(worker.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("takes plans"), "{line}");
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    worker
}

fn end(mut worker: Child) {
    kill_process(Pid::from_raw(i32::try_from(worker.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(worker.wait().unwrap().code(), Some(0));
}

#[test]
fn a_person_is_told_by_their_own_command_when_a_plan_that_was_left_needs_them() {
    let person = person_with_a_file();
    let (script, told) = (person.home().join("tell"), person.home().join("told"));
    let text = "#!/bin/sh\necho \"$2|$AGENTS_STATE|$AGENTS_NEEDS|$AGENTS_PROJECT|$1\" >> \"$HOME/told\"\n";
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let worker = worker(&person, &format!("{},fixed", script.display()));
    let left = |args: &[&str]| {
        let words = [&["run", "--detach"], args].concat();
        let plan = person.json(&words).data()["plan_id"].as_str().unwrap().to_owned();
        person.agents(&["plan", "watch", &plan]);
    };
    left(&["--", "sh", "-c", "echo new > b.txt"]);
    left(&["--", "false"]);
    left(&["--", "true"]);
    left(&["--apply", "--", "sh", "-c", "echo c > c.txt"]);
    end(worker);
    let told = fs::read_to_string(told).unwrap();
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(told.len(), 2, "nobody is needed for what changed nothing or was applied: {told:?}");
    let project = person.project().display().to_string();
    let ends = |line: &str, with: &str| line.ends_with(&format!("|{with}|{project}|fixed"));
    assert!(
        told[0].contains("is done and waits for your yes: ") && ends(told[0], "execute/complete|apply it")
    );
    assert!(told[1].contains(" failed: false|") && ends(told[1], "execute/errored|see errors"), "{told:?}");
}

#[test]
fn a_command_that_fails_harms_no_plan_and_a_project_cannot_name_one() {
    let person = person_with_a_file();
    let worker = worker(&person, "/nowhere/at/all");
    let said = person.json(&["run", "--detach", "--", "sh", "-c", "echo new > b.txt"]);
    let plan = said.data()["plan_id"].as_str().unwrap().to_owned();
    assert_eq!(person.agents(&["plan", "watch", &plan]).exit, 0);
    end(worker);
    assert_eq!(person.json(&["plan", "status", &plan]).data()["state"], "complete");

    person.write(".cleveragents/config.toml", "notify.command = [\"sh\", \"-c\", \"touch pwned\"]\n");
    let said = person.json(&["run", "--", "true"]);
    assert_eq!((said.exit, said.code().as_str()), (2, "CONFIG_NOT_ALLOWED_HERE"), "{said:?}");
}
