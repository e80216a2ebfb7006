//! Plans of one batch: named, listed, applied, cancelled and cleared together.

use serde_json::{Value, json};

use super::support::TestUser;

/// Makes a plan for each line and waits until all have ended.
fn batch(person: &TestUser, lines: &str, args: &[&str], script: &str) -> Value {
    person.write("items.txt", lines);
    let made =
        person.json(&[&["run", "--for-each", "items.txt"][..], args, &["--", "sh", "-c", script]].concat());
    assert_eq!(made.exit, 0, "{made:?}");
    for plan in made.data()["plans"].as_array().unwrap() {
        person.json(&["plan", "watch", plan.as_str().unwrap()]);
    }
    made.data()
}

const SCRIPT: &str = "case $ITEM in bad) exit 3;; none) :;; *) echo $ITEM > $ITEM.out;; esac";

#[test]
fn a_batch_has_a_name_and_is_listed_together() {
    let person = TestUser::new();
    let title = ["--title", "write {{item}}"];
    let first = batch(&person, "one\ntwo\nbad\nnone\n", &title, SCRIPT);
    assert_eq!(first["batch"], "items", "by its file");
    let second = batch(&person, "three\n", &[], SCRIPT);
    assert_eq!(second["batch"], "items-2", "a name that no other has");
    let third = batch(&person, "four\n", &["--batch", "mine"], SCRIPT);
    assert_eq!(third["batch"], "mine");
    person.plan("echo x > alone");
    let said = person.agents(&["list"]).stdout;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[2], "batch mine: 1 plan, 1 ready", "{said}");
    assert!(lines.contains(&"batch items: 4 plans, 1 no changes, 1 failed, 2 ready"), "{said}");
    assert!(said.contains("\n  write two ") && !said.contains("{{item}}"), "{said}");
    let listed = person.json(&["list", "--batch", "items"]).data();
    assert_eq!(listed["total"], 4);
    assert_eq!(
        listed["batches"],
        json!([{ "name": "items", "plans": 4, "states": { "failed": 1, "no changes": 1, "ready": 2 } }])
    );
    assert_eq!(person.json(&["list", "--batch", "@last"]).data()["plans"][0]["batch"], "mine");
    assert_eq!(person.json(&["list", "--batch", "nosuch"]).code(), "BATCH_NOT_FOUND");
    for wrong in ["", "@last", "a b", "-x"] {
        let name = format!("--batch={wrong}");
        assert_eq!(person.json(&["run", "--for-each", "items.txt", &name, "--", "true"]).exit, 2, "{wrong}");
    }
    person.agents(&["cancel", "--all", "--yes"]);
}

#[test]
fn the_plans_of_a_batch_that_passed_are_applied_with_one_answer() {
    let person = TestUser::new();
    batch(&person, "one\ntwo\nbad\nnone\nwrong\n", &["--check", "test ! -e wrong.out"], SCRIPT);
    let said = person.agents(&["apply", "--batch", "@last", "--passed"]);
    assert_eq!(said.exit, 6, "without a yes nothing is applied: {said:?}");
    let said = person.json(&["apply", "--batch", "items", "--passed", "--yes"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!((&said.data()["applied"], &said.data()["skipped"]), (&json!(2), &json!(3)));
    let skipped: Vec<String> = said.data()["plans"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|plan| Some(plan["skipped"].as_str()?.to_owned()))
        .collect();
    assert_eq!(skipped, ["failed", "no changes", "check failed"]);
    assert_eq!((person.read("one.out"), person.read("two.out")), ("one\n".to_owned(), "two\n".to_owned()));
    assert!(!person.project().join("wrong.out").exists());
    for (which, exit) in [(&["--passed"][..], 0), (&[], 4)] {
        let again = person.agents(&[&["apply", "--batch", "items", "--yes"], which].concat());
        assert_eq!(again.exit, exit, "some have failed: {again:?}");
        assert!(again.stdout.starts_with("nothing to apply (left out: 2 applied"), "{again:?}");
    }
}

#[test]
fn several_named_plans_are_applied_and_one_that_is_refused_fails_the_whole() {
    let person = TestUser::new();
    person.write("a", "old\n");
    let (first, second) = (person.plan("echo one > a"), person.plan("echo two > a"));
    let third = person.plan("echo three > b");
    let said = person.json(&["apply", &first, &second, &third, &first, "--yes"]);
    assert_eq!((said.exit, said.code()), (4, "CONFLICTS".to_owned()), "{said:?}");
    assert_eq!(said.data()["applied"], 2, "{said:?}");
    assert_eq!((person.read("a"), person.read("b")), ("one\n".to_owned(), "three\n".to_owned()));
    let said = person.json(&["apply", &first, &third, "--only", "a", "--yes"]);
    assert_eq!((said.exit, said.code()), (2, "USAGE".to_owned()), "a part is a part of one plan");
    let said = person.json(&["apply", "--all", "--yes"]);
    assert_eq!((said.exit, &said.data()["applied"]), (0, &json!(0)), "{said:?}");
}

#[test]
fn all_that_wait_or_run_are_cancelled_and_so_is_a_batch() {
    let person = TestUser::new();
    let id = |args: &[&str]| {
        let made = person.json(&[&["plan", "use"][..], args].concat());
        made.data()["plan_id"].as_str().unwrap().to_owned()
    };
    let (first, second) = (id(&["--", "true"]), id(&["--", "true"]));
    assert_eq!(person.json(&["cancel", "--all"]).code(), "CONFIRMATION_NEEDED");
    let said = person.json(&["cancel", "--all", "--yes"]);
    assert_eq!((said.exit, &said.data()["cancelled"]), (0, &json!(2)), "{said:?}");
    for plan in [first, second] {
        assert_eq!(person.json(&["status", &plan]).data()["state"], "cancelled");
    }
    assert_eq!(person.json(&["cancel", "--state", "running"]).data()["cancelled"], 0);
    batch(&person, "one\ntwo\n", &[], SCRIPT);
    assert_eq!(person.json(&["cancel", "--batch", "@last"]).code(), "CONFIRMATION_NEEDED");
    let said = person.json(&["cancel", "--batch", "items", "--yes"]);
    assert_eq!((said.exit, &said.data()["cancelled"]), (0, &json!(2)), "{said:?}");
}

#[test]
fn old_plans_that_were_not_applied_are_cleared_after_a_question() {
    let person = TestUser::new();
    let ready = person.plan("echo 1 > a");
    let empty = person.plan("true");
    let applied = person.plan("echo 2 > b");
    assert_eq!(person.agents(&["apply", &applied, "--yes"]).exit, 0);
    let said = person.json(&["plan", "gc", "--older-than", "1h"]);
    assert_eq!(said.data()["plans"], json!([]), "none is old: {said:?}");
    let said = person.json(&["plan", "gc", "--unapplied", "--older-than", "0s"]);
    assert_eq!(said.code(), "CONFIRMATION_NEEDED", "{said:?}");
    assert_eq!(person.json(&["list"]).data()["total"], 3);
    let said = person.json(&["plan", "gc", "--unapplied", "--older-than", "0s", "--dry-run"]);
    let would = said.data()["unapplied"].as_array().unwrap().clone();
    assert!(would.contains(&json!(ready)) && would.contains(&json!(empty)), "{said:?}");
    let said = person.json(&["plan", "gc", "--unapplied", "--older-than", "0s", "--yes"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let total = person.json(&["list"]).data()["total"].clone();
    assert_eq!(total, 0, "the applied one is old as well: {said:?}");
}

#[test]
fn a_plan_without_changes_ends_by_itself() {
    let person = TestUser::new();
    let (empty, ready) = (person.plan("true"), person.plan("echo 1 > a"));
    let said = person.json(&["plan", "gc", "--older-than", "0s"]);
    assert_eq!(said.data()["unapplied"], json!([empty]), "{said:?}");
    let left = person.json(&["list"]).data();
    assert_eq!((&left["total"], &left["plans"][0]["plan_id"]), (&json!(1), &json!(ready)));
}
