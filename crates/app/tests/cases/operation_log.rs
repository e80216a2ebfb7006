//! The log of applies and undos, and redo.

use super::support::{CommandOutput, TestUser};

fn good(answer: CommandOutput) -> CommandOutput {
    assert_eq!(answer.exit, 0, "{answer:?}");
    answer
}

#[test]
fn the_log_has_each_apply_and_undo_and_redo_applies_the_same_choice_again() {
    let person = TestUser::new();
    let empty = good(person.agents(&["log"])).stdout;
    assert!(empty.contains("nothing was applied yet"), "{empty}");
    let nothing = person.json(&["redo", "--yes"]);
    assert_eq!((nothing.exit, nothing.code().as_str()), (4, "NOT_UNDONE"), "{nothing:?}");

    let first = person.plan("echo a > a; echo b > b");
    let second = person.plan("echo c > c");
    good(person.agents(&["apply", &first, "--yes", "--only", "a"]));
    good(person.agents(&["apply", &second, "--yes"]));
    good(person.agents(&["undo", &first, "--yes"]));
    let log = person.json(&["log"]).data();
    let kinds: Vec<(&str, &str, bool)> = log["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap();
            (text("kind"), text("plan_id"), row["in_force"].as_bool().unwrap())
        })
        .collect();
    let expected = [("undo", &*first, false), ("apply", &*second, true), ("apply", &*first, false)];
    assert_eq!(kinds, expected, "{log}");
    assert_eq!(log["operations"][2]["left_out"], serde_json::json!(["b"]));
    let text = good(person.agents(&["log"])).stdout;
    assert!(text.contains("applied, undone since") && text.contains("agents redo PLAN"), "{text}");
    assert!(text.lines().nth(1).unwrap().contains("  undone  "), "{text}");

    let again = good(person.agents(&["redo", "--yes"])).stdout;
    assert!(again.starts_with("applied again "), "{again}");
    assert_eq!(person.read("a"), "a\n");
    assert!(!person.project().join("b").exists(), "with the same choice");
    let of_first = person.json(&["log", &first]).data();
    assert_eq!(of_first["total"], 3, "{of_first}");
    assert_eq!(of_first["operations"][0]["can_undo"], true);
    let twice = person.json(&["redo", &first, "--yes"]);
    assert_eq!((twice.exit, twice.code().as_str()), (4, "NOT_UNDONE"));
    assert_eq!(person.json(&["log", "--limit", "1"]).data()["operations"].as_array().unwrap().len(), 1);
}

#[test]
fn an_older_apply_is_undone_and_redone_by_its_plan() {
    let person = TestUser::new();
    person.write("a", "one\n");
    let first = person.plan("echo two >> a");
    good(person.agents(&["apply", &first, "--yes"]));
    let second = person.plan("echo x > b");
    good(person.agents(&["apply", &second, "--yes"]));
    good(person.agents(&["undo", &first, "--yes"]));
    assert_eq!((person.read("a"), person.read("b")), ("one\n".to_owned(), "x\n".to_owned()));
    good(person.agents(&["redo", &first, "--yes"]));
    assert_eq!(person.read("a"), "one\ntwo\n");
}
