//! Actors that are graphs: forks, joins, conditions, loops, failures, kills, by the real program and real
//! processes.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::support::{CommandOutput, TestUser, alive};

/// An actor of the project, by its nodes.
fn actor(person: &TestUser, yaml: &str) {
    person.write(".cleveragents/actors/team.yaml", yaml);
}

/// A directory outside the project that commands may write, for what must outlive a try.
fn outside(person: &TestUser) -> PathBuf {
    let dir = person.home().join("outside");
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn run(person: &TestUser) -> CommandOutput {
    let outside = outside(person);
    person.json(&["run", "--trust", "--actor", "team", "--writable", outside.to_str().unwrap(), "a task"])
}

fn start(person: &TestUser) -> Child {
    let outside = outside(person);
    let args = ["run", "--trust", "--actor", "team", "--writable", outside.to_str().unwrap(), "a task"];
    let mut command = person.command(&person.project(), &args);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn said(person: &TestUser, file: &str) -> String {
    fs::read_to_string(outside(person).join(file)).unwrap_or_default()
}

/// How the nodes ended.
fn outcomes(data: &Value) -> Vec<(String, String)> {
    let steps = data["steps"].as_array().unwrap();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let mut all: Vec<_> = steps.iter().map(|step| (word(&step["node"]), word(&step["outcome"]))).collect();
    all.sort();
    all
}

fn pairs(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut all: Vec<_> = wanted.iter().map(|(node, end)| ((*node).to_owned(), (*end).to_owned())).collect();
    all.sort();
    all
}

fn status(person: &TestUser) -> Value {
    person.json(&["plan", "status", "@last"]).data()
}

#[test]
fn nodes_fork_and_join_and_hand_on_what_they_said() {
    let person = TestUser::new();
    person.write("a.txt", "hello\n");
    actor(
        &person,
        r#"
nodes:
  one: {run: "echo one >> a.txt; echo ONE; echo '{\"n\": 3}' > \"$AGENTS_OUTPUT\""}
  two: {run: "echo two >> b.txt; echo TWO"}
  look: {run: "cat a.txt > /dev/null; touch x 2> /dev/null || echo read-only", writes: false}
  join: {needs: [one, two, look], run: [tee, joined.txt], stdin: "{{nodes.one.text}} {{nodes.two.text}} {{nodes.look.text}} {{nodes.one.json.n}} {{task}}"}
  no: {needs: [join], if: "nodes.one.json.n > 5", run: "touch never"}
  yes: {needs: [join], if: "nodes.one.json.n == 3 and nodes.join.exit_code == 0", run: "touch taken"}
"#,
    );
    let answer = run(&person);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let wanted = [("one", "succeeded"), ("two", "succeeded"), ("look", "succeeded"), ("join", "succeeded")];
    let wanted = [&wanted[..], &[("no", "skipped"), ("yes", "succeeded")]].concat();
    assert_eq!(outcomes(&answer.data()), pairs(&wanted));
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("joined.txt"), "ONE TWO read-only 3 a task");
    assert_eq!((person.read("a.txt").as_str(), person.read("b.txt").as_str()), ("hello\none\n", "two\n"));
    let there = |name: &str| person.project().join(name).exists();
    assert_eq!((there("x"), there("never"), there("taken")), (false, false, true));
}

#[test]
fn nodes_run_beside_each_other() {
    let person = TestUser::new();
    // Each waits for the other: one after the other they would never end.
    let place = outside(&person);
    let place = place.to_str().unwrap();
    actor(
        &person,
        &format!(
            "nodes:\n  a: {{run: \"touch {place}/a; until test -e {place}/b; do :; done\", writes: false}}\n  \
             b: {{run: \"touch {place}/b; until test -e {place}/a; do :; done\", writes: false}}\n"
        ),
    );
    let answer = run(&person);
    assert_eq!(answer.exit, 0, "{answer:?}");
    assert_eq!(outcomes(&answer.data()), pairs(&[("a", "succeeded"), ("b", "succeeded")]));
}

#[test]
fn a_writer_is_alone_and_each_change_has_one_author() {
    let person = TestUser::new();
    person.write("shared.txt", "");
    let nodes: String = (1..=4)
        .map(|n| format!("  w{n}: {{run: \"echo w{n} >> shared.txt; echo w{n} > own{n}.txt\"}}\n"))
        .collect();
    actor(&person, &format!("nodes:\n{nodes}"));
    let answer = run(&person);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let steps = answer.data()["steps"].clone();
    let changed: Vec<&Value> = steps.as_array().unwrap().iter().map(|step| &step["changed"]).collect();
    assert_eq!(changed, [&json!(2); 4], "{steps}");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    let mut lines: Vec<String> = person.read("shared.txt").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["w1", "w2", "w3", "w4"]);
}

#[test]
fn a_handled_failure_goes_to_its_handler_with_what_it_said() {
    let person = TestUser::new();
    actor(
        &person,
        r#"
nodes:
  boom: {run: "echo why; echo half > half.txt; exit 3"}
  mend: {needs: [boom], on: failure, run: [tee, mended.txt], stdin: "{{nodes.boom.outcome}} {{nodes.boom.exit_code}} {{nodes.boom.text}}"}
  never: {needs: [boom], run: "touch never"}
  last: {needs: [mend, never], run: "touch last"}
"#,
    );
    let answer = run(&person);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let wanted = [("boom", "failed"), ("mend", "succeeded"), ("never", "skipped"), ("last", "succeeded")];
    assert_eq!(outcomes(&answer.data()), pairs(&wanted));
    let files = person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
    assert_eq!(files, "half.txt\nlast\nmended.txt\n");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("mended.txt"), "failed 3 why");
    let errors = person.agents(&["plan", "errors", "@last"]).stdout;
    assert!(
        errors.contains("exited with status 3"),
        "a failure that was handled is told all the same: {errors}"
    );
}

#[test]
fn an_unhandled_failure_stops_the_others_wherever_it_stands() {
    for failing in ["a", "b", "c"] {
        let person = TestUser::new();
        let place = outside(&person);
        let place = place.to_str().unwrap();
        let node = |name: &str| {
            let others: Vec<&str> = ["a", "b", "c"].into_iter().filter(|other| *other != name).collect();
            let ready = format!("test -e {place}/{} -a -e {place}/{}", others[0], others[1]);
            match name == failing {
                // When both others are at work it fails, and they would go on for ever.
                true => format!(
                    "  {name}: {{run: \"touch {place}/{name}; until {ready}; do :; done; exit 7\", writes: false}}\n"
                ),
                false => format!("  {name}: {{run: \"touch {place}/{name}; sleep 1000\", writes: false}}\n"),
            }
        };
        let after = format!("  after: {{needs: [{failing}], run: \"touch {place}/after\"}}\n");
        actor(&person, &format!("nodes:\n{}{}{}{after}", node("a"), node("b"), node("c")));
        let answer = run(&person);
        assert_eq!(answer.exit, 1, "{answer:?}");
        let data = status(&person);
        let ends: Vec<(String, String)> = outcomes(&data);
        let wanted: Vec<(&str, &str)> = ["a", "b", "c"]
            .into_iter()
            .map(|name| (name, if name == failing { "failed" } else { "cancelled" }))
            .chain([("after", "cancelled")])
            .collect();
        assert_eq!(ends, pairs(&wanted), "{failing} fails");
        assert!(data["error"]["message"].as_str().unwrap().contains("status 7"), "{data}");
        assert!(!outside(&person).join("after").exists());
        assert_eq!(alive(&person), 0);
    }
}

#[test]
fn two_nodes_that_fail_at_once_are_both_told() {
    let person = TestUser::new();
    let place = outside(&person);
    let place = place.to_str().unwrap();
    let node = |name: &str, other: &str, exit: u8| {
        format!(
            "  {name}: {{run: \"touch {place}/{name}; until test -e {place}/{other}; do :; done; exit {exit}\", writes: false}}\n"
        )
    };
    actor(&person, &format!("nodes:\n{}{}", node("a", "b", 3), node("b", "a", 4)));
    assert_eq!(run(&person).exit, 1);
    let errors = person.agents(&["plan", "errors", "@last"]).stdout;
    // One of them may have been stopped by the other's failure; what failed by itself is told.
    let ends = outcomes(&status(&person));
    for ((name, end), exit) in ends.iter().zip([3, 4]) {
        let is_told = errors.contains(&format!("status {exit}"));
        assert_eq!(is_told, end == "failed", "{name} {end}: {errors}");
    }
    assert!(ends.iter().any(|(_, end)| end == "failed"));
}

#[test]
fn a_retry_sees_the_tree_of_the_first_try_and_counts_no_step() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    let place = outside(&person);
    let place = place.to_str().unwrap();
    actor(
        &person,
        &format!(
            "nodes:\n  first: {{run: \"echo first >> a.txt\"}}\n  flaky:\n    needs: [first]\n    retries: 2\n    \
             run: \"cat a.txt >> {place}/seen; echo x >> {place}/tries; echo bad >> a.txt; echo bad > bad.txt; \
             test $(wc -l < {place}/tries) -ge 3\"\n"
        ),
    );
    let answer = run(&person);
    assert_eq!(answer.exit, 0, "{answer:?}");
    assert_eq!(said(&person, "tries"), "x\nx\nx\n", "exactly one call and two retries");
    assert_eq!(said(&person, "seen"), "one\nfirst\n".repeat(3), "each try saw what the first one saw");
    let used = status(&person);
    assert_eq!(used["usage"]["steps"], 2, "{}", used["usage"]);
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("a.txt"), "one\nfirst\nbad\n");
}

#[test]
fn a_killed_run_goes_on_after_the_last_node_that_settled() {
    let person = TestUser::new();
    person.write("a.txt", "");
    let place = outside(&person);
    let place = place.to_str().unwrap();
    actor(
        &person,
        &format!(
            r#"
nodes:
  one: {{run: "echo one >> {place}/ran; echo one >> a.txt; echo '{{\"go\": false}}' > \"$AGENTS_OUTPUT\""}}
  branch: {{needs: [one], if: "nodes.one.json.go", run: "echo branch >> {place}/ran"}}
  other: {{needs: [one], if: "not nodes.one.json.go", run: "echo other >> {place}/ran; echo other >> a.txt"}}
  slow: {{needs: [other], run: "echo half >> a.txt; echo half > half.txt; touch {place}/ready; test -e {place}/go || sleep 1000"}}
  join: {{needs: [branch, slow], run: "cp a.txt joined.txt"}}
"#
        ),
    );
    let mut child = start(&person);
    while !outside(&person).join("ready").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended and did not wait");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(outside(&person).join("go"), "").unwrap();
    let answer = person.json(&["plan", "resume", "@last"]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    assert_eq!(
        said(&person, "ran"),
        "one\nother\n",
        "a node that had settled was done again, or the other branch"
    );
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("joined.txt"), "one\nother\nhalf\n", "what was half done was taken back first");
}

#[test]
fn a_failed_plan_that_is_resumed_does_only_what_failed() {
    let person = TestUser::new();
    let place = outside(&person);
    let place = place.to_str().unwrap();
    actor(
        &person,
        &format!(
            "nodes:\n  good: {{run: \"echo good >> {place}/ran; touch good.txt\"}}\n  \
             bad: {{needs: [good], run: \"echo bad >> {place}/ran; touch part.txt; test -e {place}/go\"}}\n  \
             last: {{needs: [bad], run: \"echo last >> {place}/ran\"}}\n"
        ),
    );
    assert_eq!(run(&person).exit, 1);
    fs::write(outside(&person).join("go"), "").unwrap();
    let answer = person.json(&["plan", "resume", "@last"]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    assert_eq!(said(&person, "ran"), "good\nbad\nbad\nlast\n");
    let ends = [("good", "succeeded"), ("bad", "succeeded"), ("last", "succeeded")];
    assert_eq!(outcomes(&answer.data()), pairs(&ends));
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "good.txt\npart.txt\n");
}

#[test]
fn a_node_is_repeated_until_its_condition_holds_and_no_longer() {
    let person = TestUser::new();
    let count = r#"echo x >> n.txt; echo "{\"n\": $(wc -l < n.txt)}" > "$AGENTS_OUTPUT""#;
    let node = |max: u8| {
        format!(
            "nodes:\n  count:\n    run: {}\n    repeat: {{until: nodes.count.json.n >= 3, max: {max}}}\n",
            json!(count)
        )
    };
    actor(&person, &node(5));
    let answer = run(&person);
    assert_eq!(answer.exit, 0, "{answer:?}");
    assert!(person.agents(&["plan", "diff", "@last"]).stdout.contains("+x\n+x\n+x\n"));
    actor(&person, &node(2));
    let answer = run(&person);
    assert_eq!(answer.exit, 6, "{answer:?}");
    let message = status(&person)["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("REPEAT_EXHAUSTED") && message.contains("2 times"), "{message}");
}

#[test]
fn a_nested_actor_is_one_node_of_the_other() {
    let person = TestUser::new();
    person.write(
        ".cleveragents/actors/pair.yaml",
        "nodes:\n  left: {run: \"echo left >> both.txt\"}\n  right: {needs: [left], run: [sh, -c, 'echo right >> both.txt; echo said by right']}\nresult: right\n",
    );
    actor(
        &person,
        "nodes:\n  pair: {actor: pair}\n  after: {needs: [pair], run: [tee, after.txt], stdin: \"{{nodes.pair.text}} {{nodes.pair.changed}}\"}\n",
    );
    let answer = run(&person);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let wanted = [
        ("pair", "succeeded"),
        ("pair/left", "succeeded"),
        ("pair/right", "succeeded"),
        ("after", "succeeded"),
    ];
    assert_eq!(outcomes(&answer.data()), pairs(&wanted));
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("after.txt"), "said by right 2");
    assert_eq!(person.read("both.txt"), "left\nright\n");
}

#[test]
fn what_checks_find_is_mended_as_often_as_it_leads_anywhere() {
    let person = TestUser::new();
    let place = outside(&person);
    let place = place.to_str().unwrap();
    // It is told what was found, and each round brings it one line further.
    actor(
        &person,
        &format!(
            "nodes:\n  code: {{run: [sh, -c, 'cat >> {place}/told; echo line >> out.txt'], stdin: \"{{{{prompt}}}}\\n--\\n\"}}\nfix: code\n"
        ),
    );
    let check = "test $(wc -l < out.txt) -ge 3 || { echo too few lines; exit 1; }";
    let outside = outside(&person);
    let args = [
        "run",
        "--trust",
        "--actor",
        "team",
        "--writable",
        outside.to_str().unwrap(),
        "--check",
        check,
        "write lines",
    ];
    let answer = person.json(&args);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let ends = outcomes(&answer.data());
    let rounds: Vec<&str> =
        ends.iter().map(|(node, _)| node.as_str()).filter(|node| node.starts_with("code")).collect();
    assert_eq!(rounds, ["code", "code.fix1", "code.fix2"]);
    assert_eq!(answer.data()["validations"]["verdict"], "passed");
    let told = said(&person, "told");
    let parts: Vec<&str> = told.split("--\n").collect();
    assert!(!parts[0].contains("too few lines") && parts[1].contains("too few lines"), "{told}");
    assert!(parts.iter().take(3).all(|part| part.starts_with("write lines")), "{told}");
}

#[test]
fn mending_that_changes_nothing_is_the_last() {
    let person = TestUser::new();
    let place = outside(&person);
    let place = place.to_str().unwrap();
    actor(
        &person,
        &format!("nodes:\n  code: {{run: \"echo x >> {place}/ran; touch out.txt\"}}\nfix: code\n"),
    );
    let args = ["run", "--trust", "--actor", "team", "--writable", place, "--check", "false", "a task"];
    let answer = person.json(&args);
    assert_eq!(answer.exit, 4, "{answer:?}");
    assert_eq!(said(&person, "ran"), "x\nx\n", "one round, which changed nothing");
}

#[test]
fn what_breaks_an_invariant_is_not_applied() {
    let person = TestUser::new();
    person.write("keep/a.txt", "a\n");
    person.write(
        ".cleveragents/actions/tidy.yaml",
        "description: Tidy up\nactor: {run: \"echo b >> keep/a.txt; touch new.txt\"}\ninvariants:\n  - {never: [\"keep/**\"]}\n  - {max_files: 5}\n",
    );
    let answer = person.json(&["run", "tidy"]);
    assert_eq!(answer.exit, 4, "{answer:?}");
    let failed = answer.data()["validations"]["failed"].clone();
    assert_eq!(failed, json!(["invariant: never touch keep/**"]));
    let refused = person.json(&["plan", "apply", "@last", "--yes"]);
    assert_eq!(refused.exit, 4, "{refused:?}");
    assert_eq!(person.read("keep/a.txt"), "a\n");
    assert!(!person.project().join("new.txt").exists());
}

#[test]
fn a_cancel_ends_every_node_that_runs() {
    let person = TestUser::new();
    let place = outside(&person);
    let place = place.to_str().unwrap();
    let node = |name: &str, writes: bool| {
        format!(
            "  {name}: {{run: \"touch part-{name} 2> /dev/null || true; touch {place}/{name}; sleep 1000 & sleep 1000\", writes: {writes}}}\n"
        )
    };
    actor(&person, &format!("nodes:\n{}{}", node("a", false), node("b", false)));
    let mut child = start(&person);
    while !["a", "b"].iter().all(|name| outside(&person).join(name).exists()) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended and did not wait");
    }
    let cancelled = person.json(&["plan", "cancel", "@last"]);
    assert_eq!(cancelled.exit, 0, "{cancelled:?}");
    assert_eq!(alive(&person), 0, "something of it lives on");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let steps = status(&person)["steps"].clone();
    let running = steps.as_array().unwrap().iter().filter(|step| step["outcome"] == "running").count();
    assert_eq!(running, 0, "{steps}");
}

/// Two nodes that change one file: `a` ends with status 75 in its first tries and is done again, `b` comes
/// between.
fn interleaved(b: &str) -> TestUser {
    let person = TestUser::new();
    let place = outside(&person);
    let place = place.to_str().unwrap();
    let lines: String = (1..=9).map(|n| format!("line {n}\n")).collect();
    person.write("f", &lines);
    let a = format!(
        "echo x >> {place}/tries; n=$(wc -l < {place}/tries)\n{{ echo try $n; cat f; }} > g; mv g f\n[ $n -ge 3 ] || exit 75\n"
    );
    person.write("a.sh", &a);
    person.write("b.sh", b);
    actor(&person, "nodes:\n  a: {run: [sh, a.sh], retries: 2}\n  b: {run: [sh, b.sh]}\n");
    person
}

#[test]
fn a_node_is_done_again_though_another_changed_the_same_file_since() {
    let person = interleaved("head -1 f; echo b >> f\n");
    let answer = run(&person);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let logs = person.agents(&["plan", "logs", "@last"]).stdout;
    assert!(logs.contains("try 1"), "b came between the first try and the second: {logs}");
    let steps = answer.data()["steps"].clone();
    let tries: Vec<(&str, u64)> = steps
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["node"].as_str().unwrap(), step["tries"].as_u64().unwrap()))
        .collect();
    assert_eq!(tries, [("a", 3), ("b", 1)], "{steps}");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    let lines: String = (1..=9).map(|n| format!("line {n}\n")).collect();
    assert_eq!(person.read("f"), format!("try 3\n{lines}b\n"));
    assert!(!person.project().join("g").exists());
}

#[test]
fn only_where_both_changed_the_same_lines_a_person_is_asked() {
    let person = interleaved("sed -i '1s/.*/b was here/' f\n");
    let answer = run(&person);
    assert_eq!(answer.exit, 6, "{answer:?}");
    let error = answer.data()["error"].clone();
    let told = error["message"].as_str().unwrap();
    assert!(
        told.contains("a cannot run again: another node has since changed the same place in f"),
        "{told}"
    );
    assert!(error["command"].as_str().unwrap().ends_with("--replan"), "{error}");
    // What is typed then begins with neither of them.
    let place = outside(&person);
    fs::write(place.join("tries"), "x\nx\n").unwrap();
    let again = person.json(&["plan", "prompt", "@last", "one after the other", "--replan"]);
    assert_eq!((again.exit, &again.data()["attempt"]), (0, &json!(2)), "{again:?}");
}
