//! Short ids, short forms of commands, and what is answered to a slip.

use std::fs;

use serde_json::{Value, json};

use super::support::{TestUser, answer};
use super::terminal::Terminal;

fn short(person: &TestUser, plan: &str) -> String {
    person.json(&["plan", "status", plan]).data()["short_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_plan_is_named_by_the_last_letters_of_its_id() {
    let person = TestUser::new();
    let first = person.plan("echo 1 > a");
    let second = person.plan("echo 2 > b");
    let id = short(&person, &first);
    assert!((4..=6).contains(&id.len()) && first.to_lowercase().ends_with(&id), "{id} of {first}");
    assert_ne!(id, short(&person, &second));
    let unlike = id.to_uppercase();
    for word in [id.as_str(), &unlike, &first, &first.to_lowercase(), &first[10..]] {
        assert_eq!(person.json(&["plan", "status", word]).data()["plan_id"], json!(first), "{word}");
    }
    // The beginning, which was shown before, names it as long as it is the only one.
    let common = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
    assert_eq!(person.json(&["plan", "status", &first[..=common]]).data()["plan_id"], json!(first));
    let said = person.agents(&["plan", "status", &first[..common]]);
    assert_eq!(said.exit, 2, "{said:?}");
    assert!(said.stderr.contains("names several plans"), "{said:?}");
    for plan in [&first, &second] {
        assert!(said.stderr.contains(&format!("{}  sh -ec", short(&person, plan))), "{said:?}");
    }
    let said = person.json(&["plan", "status", &first[..common]]);
    assert_eq!(said.code(), "PLAN_AMBIGUOUS");
    let candidates = said.envelope()["messages"][0]["detail"]["candidates"].clone();
    assert_eq!(candidates, json!([first, second]));
    assert_eq!(person.json(&["plan", "status", "zzzz"]).code(), "PLAN_NOT_FOUND");
}

#[test]
fn plans_of_one_moment_have_short_ids_of_their_own() {
    let person = TestUser::new();
    let lines: String = (0..200).map(|line| format!("{line}\n")).collect();
    person.write("items", &lines);
    let made = person.json(&["run", "--for-each", "items", "--", "true"]);
    assert_eq!(made.exit, 0, "{made:?}");
    let listed = person.json(&["list", "--limit", "300"]).data()["plans"].as_array().unwrap().clone();
    let ids: Vec<&str> = listed.iter().map(|plan| plan["short_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 200);
    assert!(ids.iter().all(|id| (4..=6).contains(&id.len())), "{ids:?}");
    for plan in listed.iter().step_by(40) {
        let found = person.json(&["status", plan["short_id"].as_str().unwrap()]);
        assert_eq!(found.data()["plan_id"], plan["plan_id"]);
    }
    person.agents(&["cancel", "--all", "--yes"]);
}

#[test]
fn short_forms_mean_the_newest_plan_of_this_project() {
    let person = TestUser::new();
    person.write("a.txt", "old\n");
    let plan = person.plan("echo new > a.txt");
    let elsewhere = person.home().join("other");
    fs::create_dir(&elsewhere).unwrap();
    let other = answer(&mut person.command(&elsewhere, &["run", "--", "sh", "-c", "echo x > b"]));
    assert_eq!(other.exit, 0, "{other:?}");
    for verb in ["diff", "status", "logs", "watch"] {
        let said = person.json(&[verb]);
        let long = person.json(&["plan", verb]);
        assert_eq!(said.exit, 0, "{said:?}");
        assert_eq!(said.envelope()["command"], long.envelope()["command"], "{verb}");
    }
    assert_eq!(person.json(&["diff"]).data()["plan"], json!(plan));
    assert!(person.agents(&["diff", "a.txt"]).stdout.contains("+new"), "a path is a path");
    assert_eq!(person.json(&["diff", "no/such/file"]).code(), "NO_SUCH_HUNK");
    assert_eq!(person.json(&["diff", "nosuch"]).code(), "PLAN_NOT_FOUND");
    // Without a terminal it is not applied unasked, nor cancelled.
    assert_eq!(person.json(&["apply"]).code(), "CONFIRMATION_NEEDED");
    assert_eq!(person.json(&["cancel"]).code(), "CONFIRMATION_NEEDED");
    assert_eq!(person.json(&["apply", "--yes"]).data()["plan_id"], json!(plan));
    assert_eq!(person.read("a.txt"), "new\n");
    assert_eq!(person.json(&["undo", "--yes"]).data()["plan_id"], json!(plan));
    assert_eq!(person.read("a.txt"), "old\n");
    // One that failed is resumed.
    assert_eq!(person.json(&["run", "--", "sh", "-c", "test -e go"]).exit, 1);
    person.write("go", "");
    assert_eq!(person.json(&["plan", "resume"]).exit, 0);
}

#[test]
fn the_question_of_a_default_names_the_plan_and_its_project() {
    let person = TestUser::new();
    let plan = person.plan("echo new > a.txt");
    let id = short(&person, &plan);
    let mut terminal = Terminal::call(&person, &["apply"]);
    terminal.sees(&format!("apply plan {id} (sh -ec"));
    terminal.sees("of shop to your files: 1 file");
    terminal.types("n\r");
    assert!(terminal.ends().text.contains("nothing was applied"));
    let mut terminal = Terminal::call(&person, &["cancel"]);
    terminal.sees(&format!("cancel plan {id} (sh -ec"));
    terminal.sees("for good? [y/N] ");
    terminal.types("n\r");
    assert!(terminal.ends().text.contains("nothing was cancelled"));
    assert_eq!(person.json(&["status"]).data()["state"], "complete");
    let mut terminal = Terminal::call(&person, &["cancel"]);
    terminal.sees("[y/N] ");
    terminal.types("y\r");
    assert!(terminal.ends().text.contains("cancelled "));
}

#[test]
fn a_slip_never_leads_to_a_command_that_runs_or_removes_something() {
    let person = TestUser::new();
    let hints = |args: &[&str]| {
        let said = person.agents(args);
        assert_eq!(said.exit, 2, "{said:?}");
        said.stderr
    };
    assert!(hints(&["paln", "list"]).contains("did you mean `agents plan`?"));
    assert!(hints(&["tree"]).contains("did you mean `agents plan tree`?"));
    for args in
        [&["undoo"][..], &["rnu"], &["plan", "delete"], &["plan", "rm"], &["plan", "excute"], &["cancle"]]
    {
        let said = hints(args);
        let meant = said.lines().find(|line| line.contains("did you mean")).unwrap_or_default();
        for word in ["run", "execute", "cancel", "gc", "prompt", "resume", "worker"] {
            assert!(!meant.contains(&format!("{word}`")), "{args:?}: {said}");
        }
    }
}

#[test]
fn a_command_without_dashes_is_answered_with_the_line_to_type() {
    let person = TestUser::new();
    let said = person.agents(&["run", "--check", "true", "ls", "-la", "a b"]);
    assert_eq!(said.exit, 2);
    assert!(said.stderr.contains("`agents run --check true -- ls -la 'a b'`"), "{said:?}");
    person.write("codemod.sh", "#!/bin/sh\n");
    let said = person.json(&["run", "--", "codemod.sh", "-x"]);
    assert_eq!((said.exit, said.code()), (4, "PREFLIGHT_FAILED".to_owned()));
    let hint = said.envelope()["messages"].as_array().unwrap().last().unwrap()["suggestions"][0].clone();
    assert_eq!(hint, "there is a file codemod.sh here: write `-- ./codemod.sh -x`");
    assert_eq!(person.json(&["list"]).data()["total"], 0, "nothing was made");
}

#[test]
fn the_list_fits_the_screen_and_shows_titles_first() {
    let person = TestUser::new();
    person.write("items", "one\ntwo\n");
    let title = "{{item}}: a title that does not fit into the eighty columns of a screen";
    let made = person.json(&[
        "run",
        "--for-each",
        "items",
        "--title",
        title,
        "--",
        "sh",
        "-c",
        "echo $ITEM > $ITEM",
    ]);
    for plan in made.data()["plans"].as_array().unwrap() {
        person.json(&["watch", plan.as_str().unwrap()]);
    }
    for (columns, shown) in [
        (80, "  one: a title that does not fit into the eigh"),
        (140, "  one: a title that does not fit into the eighty columns of a screen "),
    ] {
        let command = person.command(&person.project(), &["list"]);
        let text = Terminal::with_columns(&command, columns).ends().text;
        let lines: Vec<String> = text
            .split("\r\n")
            .map(|line| {
                ["1", "2", "32", "0"]
                    .iter()
                    .fold(line.to_owned(), |line, code| line.replace(&format!("\x1b[{code}m"), ""))
            })
            .collect();
        assert!(lines[0].starts_with("TITLE ") && lines[0].ends_with("  PLAN"), "{text}");
        assert_eq!(lines[1], "batch items: 2 plans, 2 ready", "{text}");
        assert!(lines[3].contains(shown), "{columns}: {text}");
        for line in &lines {
            assert!(line.chars().count() <= usize::from(columns), "{columns}: {line}");
        }
        let id =
            person.json(&["status", made.data()["plans"][0].as_str().unwrap()]).data()["short_id"].clone();
        assert!(lines[3].ends_with(id.as_str().unwrap()), "the id is never cut: {text}");
    }
}

#[test]
fn the_list_is_of_this_project_and_says_how_many_others_there_are() {
    let person = TestUser::new();
    person.plan("echo 1 > a");
    person.plan("true");
    let elsewhere = person.home().join("other");
    fs::create_dir(&elsewhere).unwrap();
    let there = |args: &[&str]| answer(&mut person.command(&elsewhere, args));
    assert!(there(&["list"]).stdout.contains("no plans of this project\n2 plans of other projects"));
    assert_eq!(there(&["run", "--", "sh", "-c", "echo x > b"]).exit, 0);
    let said = person.agents(&["list"]).stdout;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["TITLE", "STATE", "FILES", "AGE", "PLAN"]);
    assert!(lines[1].starts_with("sh -ec true") && lines[1].contains("no changes"), "{said}");
    assert!(lines[2].contains("ready"), "{said}");
    assert_eq!(lines[3], "1 plan of other projects; see them with `--all`");
    let all = person.json(&["list", "--all"]).data();
    assert_eq!((&all["total"], &all["elsewhere"]), (&json!(3), &json!(0)));
    assert!(person.agents(&["list", "--all"]).stdout.lines().next().unwrap().contains("PROJECT"));
    let states: Vec<&Value> = all["plans"].as_array().unwrap().iter().map(|plan| &plan["status"]).collect();
    assert_eq!(states, [&json!("ready"), &json!("no changes"), &json!("ready")]);
}
