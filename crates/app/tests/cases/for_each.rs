//! A plan for every line of a file, done by the workers.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::model_world::{KEY, ModelFixture, Wire, says};
use super::support::{CommandOutput, TestUser};
use testkit::scripted_server::{Script, Scripted};

/// A worker, once it takes plans.
fn worker(person: &TestUser) -> Child {
    let mut command = person.command(&person.project(), &["worker", "--format", "json"]);
    command.env("SCRIPTED_KEY", KEY);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut news = BufReader::new(child.stderr.as_mut().unwrap());
    while !said.contains("ready") {
        assert_ne!(news.read_line(&mut said).unwrap(), 0, "{said}");
    }
    child
}

#[test]
fn every_line_becomes_a_plan_that_finds_its_line() {
    let person = TestUser::new();
    let mut worker = worker(&person);
    person.write("items", "one\n\ntwo words\n$(three)\n");
    let command = ["--", "sh", "-c", "printf '%s\n' \"$ITEM\" > out.txt"];
    let said = person.json(&[&["run", "--for-each", "items"][..], &command].concat());
    assert_eq!(said.exit, 0, "{said:?}");
    let plans = said.data()["plans"].as_array().unwrap().clone();
    assert_eq!((plans.len(), &said.data()["asked"]), (3, &json!(3)));
    for plan in &plans {
        let watched = person.json(&["plan", "watch", plan.as_str().unwrap()]);
        assert_eq!(watched.exit, 0, "{watched:?}");
    }
    let added = |plan: &serde_json::Value| {
        let diff = person.agents(&["plan", "diff", plan.as_str().unwrap()]).stdout;
        let line = diff.lines().find(|line| line.starts_with('+') && !line.starts_with("+++"));
        line.unwrap_or(&diff)[1..].to_owned()
    };
    let found: BTreeSet<String> = plans.iter().map(added).collect();
    assert_eq!(found, ["one", "two words", "$(three)"].map(str::to_owned).into());
    assert_eq!(said.data()["worker_started"], json!(false));
    worker.kill().unwrap();
    worker.wait().unwrap();
}

#[test]
fn lines_that_cannot_be_had_make_no_plan() {
    let person = TestUser::new();
    person.write("empty", "\n\n");
    for file in ["none", "empty"] {
        let said = person.json(&["run", "--for-each", file, "--", "true"]);
        assert_eq!((said.exit, said.code()), (2, "USAGE".to_owned()), "{said:?}");
    }
    assert_eq!(person.json(&["plan", "list"]).data()["plans"], json!([]));
}

#[test]
fn who_interrupts_it_is_told_of_every_plan_that_was_made() {
    let person = TestUser::new();
    let lines: String = (0..5000).map(|line| format!("{line}\n")).collect();
    person.write("items", &lines);
    let args = ["run", "--format", "json", "--for-each", "items", "--", "true"];
    let mut command = person.command(&person.project(), &args);
    let making = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stored = || person.json(&["plan", "list", "--limit", "1"]).data()["total"].as_u64().unwrap();
    while stored() == 0 {}
    kill_process(Pid::from_child(&making), Signal::INT).unwrap();
    let said = CommandOutput::of(&making.wait_with_output().unwrap());
    assert_eq!((said.exit, said.code()), (5, "CANCELLED".to_owned()), "{said:?}");
    let told = said.data()["plans"].as_array().unwrap().len();
    assert!((1..5000).contains(&told));
    assert_eq!(stored(), told as u64);
    let cancelled = person.json(&["plan", "cancel", "--state", "queued", "--yes"]);
    assert_eq!(cancelled.exit, 0, "{:?}", cancelled.code());
}

#[test]
fn plans_are_told_of_also_if_no_worker_can_be_started_for_them() {
    let person = TestUser::new();
    person.write("items", "one\ntwo\n");
    let data = person.home().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("logs"), "in the place of a folder").unwrap();
    let data = data.to_str().unwrap();
    let said = person.json(&["--data-dir", data, "run", "--for-each", "items", "--", "true"]);
    assert_eq!((said.exit, said.code()), (1, "WORKER_NOT_STARTED".to_owned()), "{said:?}");
    let plans = said.data()["plans"].as_array().unwrap().clone();
    assert_eq!(plans.len(), 2);
    let stored = person.json(&["--data-dir", data, "plan", "list"]).data();
    assert_eq!(stored["total"], 2, "{stored}");
}

/// What the models of all plans were asked, one for each line of `items`.
fn asked(actor: &str, words: &[&str]) -> Vec<String> {
    let mut world = ModelFixture::new(Wire::Openai, Vec::new());
    let body: Script = Wire::Openai.script(0, &says("Done."));
    world.server = Scripted::answering(move |_, _| body.clone());
    world.settings(Wire::Openai, &world.server.url);
    let person = &world.person;
    person.write("items", "one\ntwo {{words}}\n");
    person.write(
        ".cleveragents/actions/handle.yaml",
        "description: Handle it\nprompt: Handle the thing\nargs: {item: {}}\nactor: nv\n",
    );
    person.write(
        ".cleveragents/actions/named.yaml",
        "description: Handle {{item}}\nargs: {item: {}}\nactor: nv\n",
    );
    person.write(".cleveragents/actors/nv.yaml", actor);
    let mut worker = worker(person);
    let said = world.agents(&[&["--format", "json", "run", "--for-each", "items"][..], words].concat());
    assert_eq!(said.exit, 0, "{said:?}");
    let plans = said.data()["plans"].as_array().unwrap().clone();
    assert_eq!(plans.len(), 2);
    for plan in &plans {
        assert_eq!(person.json(&["plan", "watch", plan.as_str().unwrap()]).exit, 0);
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
    let mut asked: Vec<String> = (0..2)
        .map(|_| {
            let body = world.server.asked().body;
            let messages = body["messages"].as_array().unwrap().clone();
            let of_user = messages.iter().rfind(|message| message["role"] == "user").unwrap();
            of_user["content"].as_str().unwrap().to_owned()
        })
        .collect();
    asked.sort();
    asked
}

#[test]
fn a_line_reaches_the_model_wherever_it_is_named_and_else_at_the_end_of_the_task() {
    let plain = "model: scripted/m-1\ncontext: {tokens: 0}\ntools: []\n";
    for (actor, words, expected) in [
        (plain.to_owned(), &["handle it", "--actor", "nv"][..], "handle it\n\nItem: one"),
        (plain.to_owned(), &["handle {{item}} now", "--actor", "nv"], "handle one now"),
        (plain.to_owned(), &["handle {{ item }} now", "--actor", "nv"], "handle one now"),
        (
            format!("{plain}prompt: \"Do {{{{item}}}}: {{{{task}}}}\"\n"),
            &["handle it", "--actor", "nv"],
            "Do one: handle it",
        ),
        (plain.to_owned(), &["handle"], "Handle the thing\n\nItem: one"),
        (plain.to_owned(), &["named"], "Handle one"),
    ] {
        let asked = asked(&actor, words);
        assert!(asked[0].contains(expected), "{words:?}: {asked:?}");
        let other = expected.replace("one", "two {{words}}");
        assert!(asked[1].contains(&other), "{words:?}: {asked:?}");
        let told = asked[0].matches("one").count();
        assert_eq!(told, 1, "{words:?}: {asked:?}");
    }
}

#[test]
fn what_the_lines_give_is_not_given_twice() {
    let person = TestUser::new();
    person.write("items", "one\n");
    person
        .write(".cleveragents/actions/a.yaml", "description: a\nargs: {item: {}}\nactor: {run: \"true\"}\n");
    let said = person.json(&["run", "a", "--for-each", "items", "--arg", "item=x"]);
    assert_eq!((said.exit, said.code()), (2, "USAGE".to_owned()), "{said:?}");
}

#[test]
fn every_line_that_is_no_value_is_told_with_its_number_before_a_plan_is_made() {
    let person = TestUser::new();
    person.write(
        ".cleveragents/actions/a.yaml",
        "description: a\nargs: {item: {type: integer, min: 3}}\nactor: {run: \"true\"}\n",
    );
    for (items, told) in [
        (
            "5\n1\n\nx\n7\n",
            ["line 2: the argument `item` cannot be `1`", "line 4: the argument `item` cannot be `x`"],
        ),
        (
            "x\n5\n2\n",
            ["line 1: the argument `item` cannot be `x`", "line 3: the argument `item` cannot be `2`"],
        ),
    ] {
        person.write("items", items);
        let said = person.agents(&["run", "a", "--for-each", "items"]);
        assert_eq!(said.exit, 2, "{said:?}");
        assert!(said.stderr.contains("error[ARG_INVALID]: 2 lines of `--for-each items`"), "{}", said.stderr);
        assert!(told.iter().all(|told| said.stderr.contains(told)), "{}", said.stderr);
    }
    let many: String = (0..60).map(|_| "x\n").collect();
    person.write("items", &many);
    let said = person.agents(&["run", "a", "--for-each", "items"]);
    assert!(said.stderr.contains("and 40 more") && said.stderr.lines().count() < 30, "{}", said.stderr);
    assert_eq!(person.json(&["plan", "list"]).data()["total"], json!(0));
}

#[test]
fn the_title_of_every_plan_tells_its_line() {
    let person = TestUser::new();
    person.write("items", "a\nfix\n");
    person.write(".cleveragents/actors/doer.yaml", "run: \"true\"\n");
    person.write(
        ".cleveragents/actions/handle.yaml",
        "description: Handle {{item}}\nargs: {item: {}}\nactor: doer\n",
    );
    person
        .write(".cleveragents/actions/all.yaml", "description: Handle all\nargs: {item: {}}\nactor: doer\n");
    for (words, expected) in [
        (&["fix all", "--actor", "doer"][..], ["a: fix all", "fix: fix all"]),
        (&["fix {{ item }} now", "--actor", "doer"], ["fix a now", "fix fix now"]),
        (&["handle"], ["Handle a", "Handle fix"]),
        (&["all"], ["a: Handle all", "fix: Handle all"]),
        (&["handle", "--title", "fix a"], ["a: fix a", "fix: fix a"]),
    ] {
        let said = person.json(&[&["run", "--for-each", "items"][..], words].concat());
        assert_eq!(said.exit, 0, "{said:?}");
        let title = |plan: &serde_json::Value| {
            person.json(&["plan", "status", plan.as_str().unwrap()]).data()["title"].clone()
        };
        let titles: Vec<_> = said.data()["plans"].as_array().unwrap().iter().map(title).collect();
        assert_eq!(titles, expected, "{words:?}");
    }
}

#[test]
fn who_names_the_line_without_declaring_it_is_told_how() {
    let person = TestUser::new();
    person.write("items", "one\n");
    person.write(".cleveragents/actions/a.yaml", "description: a\nactor: {run: [echo, \"{{item}}\"]}\n");
    let said = person.agents(&["run", "a", "--for-each", "items"]);
    assert_eq!(said.exit, 2, "{said:?}");
    assert!(
        said.stderr.contains("there is no value `item`; an action declares it with `args: {item: {}}`"),
        "{}",
        said.stderr
    );
}
