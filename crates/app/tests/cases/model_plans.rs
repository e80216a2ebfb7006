//! Whole plans of models: thought about, done, mended, told something meanwhile, killed and gone on with.

use std::fs;
use std::process::Stdio;
use std::sync::{Arc, Barrier};

use serde_json::{Value, json};

use super::model_world::{KEY, ModelFixture, ScriptedTurn, Wire, calls, mending, says};

/// What the model was told about its part.
fn system(body: &Value) -> String {
    body["messages"][0]["content"].as_str().unwrap().to_owned()
}

/// The first thing that the model was asked.
fn asked(body: &Value) -> String {
    let messages = body["messages"].as_array().unwrap();
    let first = messages.iter().find(|message| message["role"] == "user").unwrap();
    first["content"].as_str().unwrap().to_owned()
}

/// Everything that is in a request.
fn whole(body: &Value) -> String {
    body["messages"].to_string()
}

fn actor(world: &ModelFixture, name: &str, text: &str) {
    let dir = world.person.home().join(".config/cleveragents/actors");
    fs::write(dir.join(format!("{name}.yaml")), text).unwrap();
}

/// So many requests, in their order.
fn bodies(world: &ModelFixture, count: usize) -> Vec<Value> {
    (0..count).map(|_| world.server.asked().body).collect()
}

#[test]
fn what_must_hold_and_what_the_project_says_reach_every_model() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("Nothing to do.")]));
    world.person.write("AGENTS.md", "Use tabs, never spaces.\n");
    world.person.write(
        ".cleveragents/actions/tidy.yaml",
        "description: Tidy up\nactor: mender\ninvariants: [\"Prices stay whole numbers\", {never: [\"test.sh\"]}]\n",
    );
    let answer = world.agents(&["--format", "json", "run", "tidy"]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let bodies = bodies(&world, 1);
    let system = system(&bodies[0]);
    for part in
        ["Be careful.", "- Prices stay whole numbers", "- never touch test.sh", "Use tabs, never spaces."]
    {
        assert!(system.contains(part), "{part}: {system}");
    }
}

#[test]
fn a_strategy_is_thought_out_read_only_recorded_and_followed() {
    let strategy = json!({
        "summary": "Mend the sum.",
        "steps": [{"title": "Multiply", "detail": "in total", "paths": ["price.sh"]}],
        "decisions": [{"question": "Where?", "chosen": "in price.sh", "rationale": "it is wrong there", "confidence": 0.9,
                       "alternatives": [{"text": "in test.sh", "why_not": "the test is right"}]}],
    });
    let mut turns = vec![
        // It tries to write, and has no such tool.
        calls([
            ("write_file", json!({"path": "price.sh", "content": "broken"})),
            ("read_file", json!({"path": "price.sh"})),
        ]),
        ScriptedTurn { text: Box::leak(strategy.to_string().into_boxed_str()), calls: Vec::new() },
    ];
    turns.extend(mending());
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    actor(&world, "mender", "model: scripted/m-1\n");
    actor(
        &world,
        "thinker",
        "model: scripted/m-1\ntools: [read]\nprompt: \"{{prompt}}\"\noutput: {summary: string, steps: {type: array}, decisions: {type: array}}\n",
    );
    world.person.write(
        ".cleveragents/actions/mend.yaml",
        "description: Make the tests pass\nactor: mender\nstrategist: thinker\nvalidations: [sh test.sh]\n",
    );
    let answer = world.agents(&["--format", "json", "run", "mend"]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let bodies = bodies(&world, 6);
    assert!(
        whole(&bodies[1]).contains("UNKNOWN_TOOL") || whole(&bodies[1]).contains("TOOL_NOT_FOUND"),
        "{}",
        whole(&bodies[1])
    );
    let told = asked(&bodies[2]);
    assert!(told.contains("Mend the sum.") && told.contains("1. Multiply: in total (price.sh)"), "{told}");
    assert_eq!(world.person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(world.person.read("price.sh"), "total() { echo $(($1 * $2)); }\n");
    let tree = world.person.agents(&["plan", "tree", "@last"]).stdout;
    assert!(tree.contains("Mend the sum.") && tree.contains("in price.sh"), "{tree}");
}

/// The turns of a model that mends the shop in a second round alone.
fn in_two_rounds() -> [ScriptedTurn; 4] {
    let half = calls([
        ("read_file", json!({"path": "price.sh"})),
        ("edit_file", json!({"path": "price.sh", "old": "$1 + $2", "new": "$1 - $2"})),
    ]);
    let rest = calls([
        ("read_file", json!({"path": "price.sh"})),
        ("edit_file", json!({"path": "price.sh", "old": "$1 - $2", "new": "$1 * $2"})),
    ]);
    [half, says("Done."), rest, says("Now it is.")]
}

#[test]
fn what_checks_find_goes_back_to_the_model_until_they_pass() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&in_two_rounds()));
    actor(&world, "mender", "model: scripted/m-1\n");
    let answer = world.run(&["--check", "sh test.sh"]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let bodies = bodies(&world, 4);
    assert!(!asked(&bodies[0]).contains("2 times 3 is -1"), "{}", asked(&bodies[0]));
    assert!(asked(&bodies[2]).contains("2 times 3 is -1"), "{}", asked(&bodies[2]));
    assert_eq!(answer.data()["validations"]["verdict"], "passed");
}

#[test]
fn an_actor_that_stands_for_another_mends_like_it() {
    for (inner, node) in [
        ("model: scripted/m-1\n", "main/main.fix1"),
        ("nodes:\n  m: {model: scripted/m-1}\n  n: {needs: [m], run: 'true'}\nfix: m\n", "main/m.fix1"),
    ] {
        let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&in_two_rounds()));
        actor(&world, "inner", inner);
        actor(&world, "mender", "actor: inner\n");
        let answer = world.run(&["--check", "sh test.sh"]);
        assert_eq!(answer.exit, 0, "{answer:?}");
        assert_eq!(answer.data()["validations"]["verdict"], "passed", "{answer:?}");
        let bodies = bodies(&world, 4);
        assert!(asked(&bodies[2]).contains("2 times 3 is -1"), "{}", asked(&bodies[2]));
        let steps = answer.data()["steps"].to_string();
        assert!(steps.contains(node), "{steps}");
    }
}

#[test]
fn what_a_person_says_meanwhile_is_heard_at_the_next_turn_and_once() {
    let turns = [
        calls([("list_directory", json!({"path": "."}))]),
        calls([("read_file", json!({"path": "price.sh"}))]),
        says("Done."),
    ];
    // The first answer waits for us: nothing waits inside the sandbox.
    let said = Arc::new(Barrier::new(2));
    let mut scripts = Wire::Openai.scripts(&turns);
    let first = scripts.remove(0).together(&said);
    scripts.insert(0, first);
    let world = ModelFixture::new(Wire::Openai, scripts);
    let settings = fs::read_to_string(world.person.config_file()).unwrap();
    fs::write(world.person.config_file(), settings.replace("idle = \"1s\"", "idle = \"60s\"")).unwrap();
    let mut command = world.person.command(&world.person.project(), &["run", "Make it", "--actor", "mender"]);
    let mut child =
        command.env("SCRIPTED_KEY", KEY).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut bodies = bodies(&world, 1);
    let prompted = world.agents(&["--format", "json", "plan", "prompt", "@last", "Mind the taxes."]);
    assert_eq!(prompted.exit, 0, "{prompted:?}");
    said.wait();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    bodies.extend(self::bodies(&world, 2));
    let heard: Vec<usize> =
        bodies.iter().map(|body| whole(body).matches("Mind the taxes.").count()).collect();
    assert_eq!(heard, [0, 1, 1], "told before the second turn, and not told again");
}

#[test]
fn a_model_that_was_killed_in_the_middle_begins_anew_on_a_clean_tree() {
    let mut turns = vec![
        calls([
            ("read_file", json!({"path": "price.sh"})),
            ("edit_file", json!({"path": "price.sh", "old": "$1 + $2", "new": "half"})),
        ]),
        calls([("run_command", json!({"command": "echo at it; sleep 1000", "timeout_s": 2000}))]),
    ];
    turns.extend(mending());
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    let mut command = world.person.command(&world.person.project(), &["run", "Make it", "--actor", "mender"]);
    let mut child =
        command.env("SCRIPTED_KEY", KEY).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !world.person.agents(&["plan", "logs", "@last"]).stdout.contains("\nat it") {
        assert_eq!(child.try_wait().unwrap(), None, "it ended and did not wait");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let answer = world.agents(&["--format", "json", "plan", "resume", "@last"]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    assert!(whole(&bodies(&world, 6)[3]).contains("$1 + $2"), "it read what the first try had written");
    assert_eq!(world.person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(world.person.read("price.sh"), "total() { echo $(($1 * $2)); }\n");
}

#[test]
fn a_model_records_its_choices_and_is_told_what_is_wrong_with_one() {
    let sure = json!({"question": "Which file?", "chosen": "price.sh", "rationale": "the sum is there",
        "confidence": 0.9, "alternatives": [{"text": "test.sh", "why_not": "it is right"}]});
    let wrong = |key: &str, value: Value| {
        let mut said = json!({"question": "How?", "chosen": "so", "rationale": "why not"});
        said[key] = value;
        said
    };
    let turns = [
        calls([
            ("plan_decide", sure.clone()),
            ("plan_decide", wrong("confidence", json!(1.5))),
            ("plan_decide", wrong("parent", json!(99))),
            ("plan_decide", json!({"question": "How?"})),
            // The same once more is the same decision.
            ("plan_decide", sure),
        ]),
        says("I chose."),
    ];
    let world =
        ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&turns), "tools: [read, plan.decide]\n");
    let answer = world.agents(&["--format", "json", "run", "Mend it", "--actor", "mender"]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let bodies = bodies(&world, 2);
    let results: Vec<&str> = bodies[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(results[0], "Recorded as decision 3.", "{results:?}");
    assert!(
        results[1].starts_with("error: DECISION_INVALID: its confidence is 1.5, and not from 0 to 1"),
        "{results:?}"
    );
    assert!(results[2].starts_with("error: DECISION_INVALID: it follows from decision 99"), "{results:?}");
    assert!(results[3].starts_with("error: INVALID_ARGUMENTS"), "{results:?}");
    assert_eq!(results[4], results[0]);
    let tree = world.person.json(&["plan", "tree", "@last"]).data();
    let decisions = tree["decisions"].as_array().unwrap();
    let choice = decisions.iter().find(|decision| decision["kind"] == "choice").unwrap();
    assert_eq!((&choice["chosen"], &choice["parent"]), (&json!("price.sh"), &json!(2)), "{tree}");
    assert_eq!(decisions.iter().filter(|decision| decision["kind"] == "choice").count(), 1);
    let explained = world.person.agents(&["plan", "explain", "@last:3"]).stdout;
    assert!(explained.contains("the sum is there") && explained.contains("it is right"), "{explained}");
}
