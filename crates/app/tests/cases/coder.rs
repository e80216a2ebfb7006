//! The coder keeps its work: bounds that are reached, conversations that are too long, the prompt, the nudge,
//! strategists that give no answer, providers that ask to wait or do not run.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::model_world::{ModelFixture, ScriptedTurn, Wire, calls, mending, says};
use super::support::{TestUser, answer};
use testkit::scripted_server::{Script, Scripted};

const MENDED: &str = "total() { echo $(($1 * $2)); }\n";

/// The text of the newest message to the model.
fn told(body: &Value) -> String {
    body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
}

fn read() -> ScriptedTurn {
    calls([("read_file", json!({"path": "price.sh"}))])
}

fn edit() -> ScriptedTurn {
    calls([("edit_file", json!({"path": "price.sh", "old": "$1 + $2", "new": "$1 * $2"}))])
}

/// Lets the built-in coder use the scripted model, without a strategist.
fn with_coder(world: &ModelFixture, more: &str) {
    let settings = fs::read_to_string(world.person.config_file()).unwrap();
    let settings = format!("model.default = \"scripted/m-1\"\n{more}\n{settings}");
    fs::write(world.person.config_file(), settings).unwrap();
}

const ALONE: &str = "actor.strategist = \"none\"";

#[test]
fn a_model_that_used_up_its_turns_keeps_its_work_and_continues_its_conversation() {
    let turns = [read(), edit(), says("Done.")];
    let world = ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&turns), "max_turns: 2\n");
    let said = world.run(&["--check", "sh test.sh"]);
    assert_eq!(said.exit, 6, "it asks: {said:?}");
    let (category, message) = world.error();
    assert_eq!(category, "budget");
    assert!(message.contains("is not done after 2 turns (`max_turns`)"), "{message}");
    world.server.asked();
    world.server.asked();
    world.server.was_not_asked_again();
    let diff = world.person.agents(&["plan", "diff", "@last"]).stdout;
    assert!(diff.contains("+total() { echo $(($1 * $2)); }"), "its work is there: {diff}");
    let status = world.person.json(&["plan", "status"]).data();
    let command = status["error"]["command"].as_str().unwrap_or_else(|| panic!("{status}"));
    assert!(command.starts_with("agents plan resume ") && !command.contains("--limit"), "{command}");

    let resumed = world.agents(&["--format", "json", "plan", "resume", "@last"]);
    assert_eq!(resumed.exit, 0, "{resumed:?}");
    assert_eq!(resumed.data()["changes"]["files"], 1, "{resumed:?}");
    assert_eq!(resumed.data()["validations"]["verdict"], "passed", "{resumed:?}");
    let body = world.server.asked().body;
    let messages = body["messages"].to_string();
    for earlier in ["read_file", "edit_file", "Replaced: 1.", "     1\\ttotal() { echo $(($1 + $2)); }"] {
        assert!(messages.contains(earlier), "{earlier}: {messages}");
    }
    assert!(told(&body).starts_with("You were stopped by a limit, and may continue now."), "{}", told(&body));
    world.server.was_not_asked_again();
    assert_eq!(world.person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(world.person.read("price.sh"), MENDED);
}

#[test]
fn a_model_that_used_up_its_turns_can_be_revised() {
    let turns = [read(), edit(), says("Done.")];
    let world = ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&turns), "max_turns: 2\n");
    assert_eq!(world.run(&[]).exit, 6);
    let revised =
        world.agents(&["--format", "json", "plan", "revise", "@last", "Only say that you are done"]);
    assert_eq!((revised.exit, &revised.data()["changes"]["files"]), (0, &json!(1)), "{revised:?}");
    world.server.asked();
    world.server.asked();
    let body = world.server.asked().body;
    assert!(body["messages"].to_string().contains("Replaced: 1."), "{body}");
    assert!(told(&body).contains("Only say that you are done"), "{}", told(&body));
}

#[test]
fn a_limit_of_the_plan_stops_a_model_and_its_work_is_not_begun_again() {
    let run = || calls([("run_command", json!({"command": "sh test.sh"}))]);
    let turns = [read(), edit(), run(), run(), says("Done.")];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    let said = world.run(&["--limit", "tool_calls=2"]);
    assert_eq!((said.exit, world.error().0.as_str()), (6, "budget"), "{said:?}");
    let resumed = world.agents(&["--format", "json", "plan", "resume", "@last", "--limit", "tool_calls=9"]);
    assert_eq!((resumed.exit, &resumed.data()["changes"]["files"]), (0, &json!(1)), "{resumed:?}");
    let logs = world.person.agents(&["plan", "logs"]).stdout;
    assert!(!logs.contains("take_back"), "nothing was reverted: {logs}");
    for _ in 0..3 {
        world.server.asked();
    }
    let body = world.server.asked().body;
    assert!(body["messages"].to_string().contains("Replaced: 1."), "{body}");
    assert!(told(&body).starts_with("You were stopped by a limit"), "{}", told(&body));
    let last = told(&world.server.asked().body);
    assert_eq!(last, "Exit status 0.\nstdout:\npassed\n", "the edit was still there");
}

#[test]
fn a_continued_model_that_fails_begins_again_where_it_was_stopped() {
    // It is stopped after an edit, continues with a wrong file and runs in a circle: that is reverted, the edit is not.
    let run = calls([("run_command", json!({"command": "sh test.sh"}))]);
    let mut turns = vec![read(), edit(), run];
    turns.push(calls([("write_file", json!({"path": "wrong.txt", "content": "x"}))]));
    turns.extend((0..5).map(|_| calls([("list_directory", json!({}))])));
    turns.push(says("Done."));
    let world = ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&turns), "retries: 1\n");
    assert_eq!(world.run(&["--limit", "tool_calls=2"]).exit, 6);
    let resumed = world.agents(&["--format", "json", "plan", "resume", "@last", "--limit", "tool_calls=99"]);
    assert_eq!((resumed.exit, &resumed.data()["changes"]["files"]), (0, &json!(1)), "{resumed:?}");
    let diff = world.person.agents(&["plan", "diff", "@last"]).stdout;
    assert!(diff.contains("+total() { echo $(($1 * $2)); }") && !diff.contains("wrong.txt"), "{diff}");
    for _ in 0..9 {
        world.server.asked();
    }
    let body = world.server.asked().body;
    let messages = body["messages"].to_string();
    assert!(messages.contains("Replaced: 1.") && !messages.contains("wrong.txt"), "{messages}");
}

#[test]
fn a_conversation_that_is_too_long_for_the_model_is_shortened_and_sent_again() {
    let look = calls([("read_file", json!({"path": "big.txt"}))]);
    let too_long = json!({"error": {
        "message": "This model's maximum context length is 20000 tokens. However, your messages resulted in 30000 tokens.",
        "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded",
    }});
    let scripts = vec![
        Wire::Openai.script(0, &look),
        Script::status("400 Bad Request", &[("content-type", "application/json")], &too_long.to_string()),
        Script::status("413 Payload Too Large", &[], "too much"),
        Wire::Openai.script(3, &says("Done.")),
    ];
    let world = ModelFixture::with(Wire::Openai, scripts, "context: {tokens: 0}\nretries: 0\n");
    let lines: String = (0..1_800).map(|line| format!("line {line} of a long file\n")).collect();
    world.person.write("big.txt", &lines);
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(world.errors(), ["invalid_input"; 2]);
    let errors = world.person.json(&["plan", "errors"]).data();
    assert_eq!(errors["records"][0]["action"], "told the model", "{errors}");
    world.server.asked();
    let sent: Vec<Value> = (0..3).map(|_| world.server.asked().body).collect();
    let bytes: Vec<usize> = sent.iter().map(|body| body.to_string().len()).collect();
    assert!(bytes[0] > 50_000 && bytes[1] < bytes[0] / 2 && bytes[2] <= bytes[1], "{bytes:?}");
    let shown = told(&sent[1]);
    assert!(
        shown.contains("\n[… left out here: there is no room for more; ask for less at a time]\n"),
        "{shown}"
    );
    let is_cut = |line: &&str| line.contains("line") && !line.ends_with("of a long file");
    assert_eq!(shown.lines().find(is_cut), None, "lines stay whole");
    assert!(sent[2]["max_tokens"].as_u64() <= sent[0]["max_tokens"].as_u64());
}

#[test]
fn the_coder_is_told_how_to_work_and_which_checks_judge_it() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&mending()));
    with_coder(&world, ALONE);
    let words =
        ["--format", "json", "run", "Make the tests pass", "--actor", "coder", "--check", "sh test.sh"];
    let said = world.agents(&words);
    assert_eq!(said.exit, 0, "{said:?}");
    let body = world.server.asked().body;
    let system = body["messages"][0]["content"].as_str().unwrap();
    for part in [
        "Keep working until the\ntask is done and its checks pass.",
        "without the network",
        "The work is done when these checks pass (they run on the result, in the project):\n- sh test.sh",
    ] {
        assert!(system.contains(part), "{part}: {system}");
    }
    assert!(system.len() < 9_000, "it is compact: {}", system.len());
}

#[test]
fn a_coder_that_only_talks_is_asked_once_more() {
    let talk = || says("I will now edit price.sh.");
    let turns = [talk(), read(), edit(), says("Done.")];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    with_coder(&world, ALONE);
    let words = ["--format", "json", "run", "Make the tests pass", "--actor", "coder"];
    let said = world.agents(&words);
    assert_eq!((said.exit, &said.data()["changes"]["files"]), (0, &json!(1)), "{said:?}");
    world.server.asked();
    let body = world.server.asked().body;
    assert!(told(&body).starts_with("You ended your turn, but no file is changed."), "{}", told(&body));
    // Who has nothing to change says so, and is done.
    let world =
        ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[talk(), says("Nothing has to change.")]));
    with_coder(&world, ALONE);
    let said = world.agents(&words);
    assert_eq!((said.exit, &said.data()["changes"]["files"]), (0, &json!(0)), "{said:?}");
}

#[test]
fn a_strategist_that_gives_no_json_is_done_without() {
    let prose = || says("First I would look at the sums, then mend them.");
    let mut turns = vec![prose(), says("I am sorry: I would look at the sums.")];
    turns.extend(mending());
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    with_coder(&world, "");
    let said = world.agents(&[
        "--format",
        "json",
        "run",
        "Make the tests pass",
        "--actor",
        "coder",
        "--check",
        "sh test.sh",
    ]);
    assert_eq!((said.exit, &said.data()["changes"]["files"]), (0, &json!(1)), "{said:?}");
    let noted = said.envelope()["messages"].to_string();
    assert!(noted.contains("the plan works without a strategy: node "), "{noted}");
    let errors = world.person.json(&["plan", "errors"]).data();
    let last = errors["records"].as_array().unwrap().last().unwrap()["message"].as_str().unwrap().to_owned();
    assert!(last.ends_with("the plan continues without a strategy"), "{errors}");
    assert!(!errors.to_string().contains("additionalProperties"), "no schema: {errors}");
    let tree = world.person.agents(&["plan", "tree", "@last"]).stdout;
    assert!(tree.contains("as the task says"), "{tree}");
    for _ in 0..6 {
        world.server.asked();
    }
    world.server.was_not_asked_again();
}

#[test]
fn a_server_on_this_machine_that_does_not_run_is_told_at_once() {
    let world = ModelFixture::new(Wire::Openai, Vec::new());
    world.settings(Wire::Openai, &Scripted::nobody());
    let said = world.run(&[]);
    assert_eq!(said.exit, 6, "{said:?}");
    let (category, message) = world.error();
    assert_eq!(category, "connection");
    assert!(message.contains("scripted cannot be reached at http://127.0.0.1:"), "{message}");
    assert!(message.ends_with("; is it running?"), "{message}");
    assert_eq!(world.errors(), ["connection"], "it was tried once");
}

fn limited(wait: &str) -> Script {
    let body = "{\"error\":{\"message\":\"Rate limit reached\"}}";
    Script::status("429 Too Many Requests", &[("retry-after", wait)], body)
}

#[test]
fn a_rate_limit_of_an_hour_is_told_with_its_length_to_who_waits() {
    let world = ModelFixture::new(Wire::Openai, vec![limited("3600")]);
    let said = world.run(&[]);
    assert_eq!(said.exit, 6, "{said:?}");
    let (category, message) = world.error();
    assert_eq!(category, "rate_limit");
    assert!(message.ends_with("429 from scripted: Rate limit reached (it asks to wait 60 min)"), "{message}");
}

#[test]
fn a_rate_limit_of_an_hour_is_waited_for_by_a_detached_plan() {
    for (setting, waits) in [("6h", true), ("30m", false)] {
        let world = ModelFixture::new(Wire::Openai, vec![limited("3600")]);
        with_coder(&world, &format!("recovery.wait_max = \"{setting}\""));
        let said = world.run(&["--detach"]);
        assert_eq!(said.exit, 0, "{said:?}");
        world.server.asked();
        let of = |status: &Value| status["waiting"]["reason"].as_str().unwrap_or_default().to_owned();
        let status = loop {
            let status = world.agents(&["--format", "json", "plan", "status", "@last"]).data();
            if of(&status).contains("the limit of scripted ends at ") || status["error"].is_object() {
                break status;
            }
        };
        assert_eq!(of(&status).contains("UTC (for 5"), waits, "{status}");
        assert_eq!(status["error"].is_object(), !waits, "{status}");
        if waits {
            let cancelled = world.agents(&["--format", "json", "plan", "cancel", "@last"]);
            assert_eq!(cancelled.exit, 0, "{cancelled:?}");
        }
    }
}

/// The commands of the part of the README that shows a model without a key.
fn readme_commands() -> Vec<String> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let part = readme.split_once("<!-- a model without a key -->").unwrap().1;
    let block = part.split_once("```").and_then(|(_, rest)| rest.split_once('\n')).unwrap().1;
    let block = block.split_once("```").unwrap().0;
    block.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_readme_shows_a_model_at_work_without_a_key() {
    let person = TestUser::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let copied = std::process::Command::new("cp").arg("-r").arg(&examples).arg(person.project()).status();
    assert!(copied.unwrap().success());
    let commands = readme_commands();
    assert!(
        commands.len() >= 3 && commands[1].contains("scripted-model/server.py agents run"),
        "{commands:?}"
    );
    // As a person would paste them, into one shell.
    let bin = Path::new(env!("CARGO_BIN_EXE_agents")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let shell = |script: &str| {
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-ec", script])
            .current_dir(person.project())
            .env_clear()
            .stdin(std::process::Stdio::null());
        shell.env("HOME", person.home()).env("PATH", &path);
        answer(shell.env("CLEVERAGENTS_DATA_DIR", person.home().join("data")))
    };
    let said = shell(&commands[..2].join("\n"));
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stdout.contains("Welcome, %s!") && said.stderr.contains("scripted/scripted"), "{said:?}");
    let sample = person.project().join("examples/sample");
    let status = answer(&mut person.command(&sample, &["--format", "json", "plan", "status"])).data();
    assert_eq!(status["validations"]["verdict"], "passed", "{status}");
    assert_eq!(status["changes"]["files"], 2, "{status}");
    let tree = answer(&mut person.command(&sample, &["plan", "tree"])).stdout;
    assert!(tree.contains("strategy  The greeting is in lib/greet.sh"), "its strategist answered: {tree}");
    let rest = shell(&format!("{}\n{}", commands[0], commands[2..].join("\n")));
    assert_eq!(rest.exit, 0, "{rest:?}");
    assert!(rest.stdout.contains("Everybody is welcomed now, and the test expects it."), "{rest:?}");
    let greeting = fs::read_to_string(sample.join("lib/greet.sh")).unwrap();
    assert!(greeting.contains("Hello, %s!"), "applied and undone: {greeting}");
}
