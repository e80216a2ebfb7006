//! Models that work: on both wires, recorded and replayed, within their limits.

use serde_json::{Value, json};

use super::model_world::{KEY, ModelFixture, ScriptedTurn, Wire, calls, mending, says};
use super::support::{CommandOutput, answer};
use testkit::scripted_server::Scripted;

const MENDED: &str = "total() { echo $(($1 * $2)); }\n";

/// The results in the newest message to the model.
fn results(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap();
    let text = |text: &Value| text.as_str().unwrap().to_owned();
    let newest = messages.last().unwrap();
    if newest["role"] == "user" {
        // Anthropic's tools answer in a message of the user.
        let parts = newest["content"].as_array().unwrap().iter();
        return parts
            .filter(|part| part["type"] == "tool_result")
            .map(|part| text(&part["content"]))
            .collect();
    }
    let tools = messages.iter().rev().take_while(|message| message["role"] == "tool");
    let mut all: Vec<String> = tools.map(|message| text(&message["content"])).collect();
    all.reverse();
    all
}

#[test]
fn a_model_edits_a_project_until_its_tests_pass_on_either_wire() {
    for wire in [Wire::Openai, Wire::Anthropic] {
        let world = ModelFixture::with(wire, wire.scripts(&mending()), "context: {tokens: 0}\n");
        let said = world.run(&["--check", "sh test.sh"]);
        assert_eq!(said.exit, 0, "{wire:?}: {said:?}");
        let first = world.server.asked();
        let system = "Be careful.\n\nThe work is done when these checks pass (they run on the result, in the \
                      project):\n- sh test.sh";
        match wire {
            Wire::Openai => {
                assert_eq!(first.line, "POST /v1/chat/completions HTTP/1.1");
                assert_eq!(first.headers["authorization"], format!("Bearer {KEY}"));
                let asked = json!([
                    {"role": "system", "content": system},
                    {"role": "user", "content": "Make the tests pass."},
                ]);
                assert_eq!(first.body["messages"], asked);
            }
            Wire::Anthropic => {
                assert_eq!(first.line, "POST /v1/messages HTTP/1.1");
                assert_eq!(first.headers["x-api-key"], KEY);
                assert_eq!(first.body["system"][0]["text"], system);
                assert_eq!(first.body["messages"][0]["content"][0]["text"], "Make the tests pass.");
            }
        }
        assert_eq!((&first.body["model"], &first.body["stream"]), (&json!("m-1"), &json!(true)));
        let names: Vec<&str> = first.body["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool.get("function").unwrap_or(tool)["name"].as_str().unwrap())
            .collect();
        let offered = [
            "read_file",
            "list_directory",
            "search_files",
            "write_file",
            "edit_file",
            "delete_file",
            "move_file",
            "run_command",
            "request_context",
            "query_history",
            "get_context_budget",
        ];
        assert_eq!(names, offered);
        let second = results(&world.server.asked().body);
        assert_eq!(second[0], "     1\ttotal() { echo $(($1 + $2)); }\n");
        assert_eq!(second[1], "Exit status 1.\nstdout:\n2 times 3 is 5\n");
        let third = results(&world.server.asked().body);
        assert!(third[0].starts_with("Replaced: 1.\ndiff --git "), "{third:?}");
        let fourth = world.server.asked();
        assert_eq!(results(&fourth.body)[0], "Exit status 0.\nstdout:\npassed\n");
        assert_eq!(
            fourth.body["messages"].as_array().unwrap().len(),
            if wire == Wire::Openai { 9 } else { 7 }
        );
        world.server.was_not_asked_again();

        let data = said.data();
        assert_eq!(data["validations"]["verdict"], "passed", "{data}");
        assert_eq!(data["changes"]["files"], 1);
        // Four turns of 100 tokens read at 2 and 10 written at 10 micro-dollars.
        assert_eq!(world.used("tokens"), json!({"used": 440, "reserved": 0, "max": 5_000_000, "assumed": 0}));
        assert_eq!(
            world.used("cost"),
            json!({"used": 1_200, "reserved": 0, "max": 10_000_000, "assumed": 0})
        );
        assert_eq!(
            world.person.read("price.sh"),
            "total() { echo $(($1 + $2)); }\n",
            "nothing is applied yet"
        );
        let applied = world.person.agents(&["plan", "apply", "@last", "--yes"]);
        assert_eq!(applied.exit, 0, "{applied:?}");
        assert_eq!(world.person.read("price.sh"), MENDED);
        assert_eq!(world.person.git(&["status", "--porcelain"]), " M price.sh\n");
    }
}

#[test]
fn the_key_of_a_provider_is_nowhere_in_what_is_kept() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("done")]));
    let tape = world.person.home().join("run.jsonl");
    assert_eq!(world.run(&["--record", tape.to_str().unwrap()]).exit, 0);
    let found =
        std::process::Command::new("grep").args(["-rl", KEY]).arg(world.person.home()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "{found:?}");
}

#[test]
fn a_key_in_a_file_is_taken_out_of_all_that_a_model_reads() {
    use std::os::unix::fs::PermissionsExt;
    let look = ("read_file", json!({"path": "notes.txt"}));
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[calls([look]), says("done")]));
    let (key, file) = ("nobody-knows-this-word", world.person.home().join("box.key"));
    std::fs::write(&file, key).unwrap();
    world.person.write("notes.txt", &format!("it is {key}\n"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let settings = std::fs::read_to_string(world.person.config_file()).unwrap();
    let settings = settings.replace("key_env = \"SCRIPTED_KEY\"", "key_file = \"~/box.key\"");
    std::fs::write(world.person.config_file(), settings).unwrap();
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(world.server.asked().headers["authorization"], format!("Bearer {key}"));
    let read = results(&world.server.asked().body)[0].clone();
    assert!(read.contains("it is [REDACTED:") && !read.contains(key), "{read}");
}

#[test]
fn a_recorded_run_is_repeated_without_a_key_and_without_a_network() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&mending()));
    let tape = world.person.home().join("run.jsonl");
    let tape = tape.to_str().unwrap();
    let said = world.run(&["--record", tape]);
    assert_eq!(said.exit, 0, "{said:?}");
    let recorded = world.person.agents(&["plan", "diff", "@last"]).stdout;
    assert!(recorded.contains("+total() { echo $(($1 * $2)); }"), "{recorded}");

    let nobody = Scripted::nobody();
    world.settings(Wire::Openai, &nobody);
    let words = ["--format", "json", "run", "Make the tests pass", "--actor", "mender", "--replay", tape];
    let replayed = world.person.agents(&words);
    assert_eq!(replayed.exit, 0, "{replayed:?}");
    assert!(replayed.stderr.is_empty(), "every call was asked for: {replayed:?}");
    assert_eq!(world.person.agents(&["plan", "diff", "@last"]).stdout, recorded);
    assert_eq!(world.used("cost")["used"], 0, "a replay costs nothing");
    let again = world.run(&["--record", tape]);
    assert_eq!(
        (again.exit, again.code()),
        (4, "PREFLIGHT_FAILED".to_owned()),
        "never written over: {again:?}"
    );
}

#[test]
fn a_recorded_run_is_repeated_where_nobody_knows_its_provider() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&mending()));
    let tape = world.person.home().join("run.jsonl");
    let tape = tape.to_str().unwrap();
    let settings = std::fs::read_to_string(world.person.config_file()).unwrap();
    // Both decide what is asked.
    let bounds = "idle = \"1s\"\ncontext_tokens = 30000\nanswer_tokens = 1234\n";
    let bounded = settings.replace("idle = \"1s\"\n", bounds);
    std::fs::write(world.person.config_file(), bounded).unwrap();
    let said = world.run(&["--record", tape]);
    assert_eq!(said.exit, 0, "{said:?}");
    std::fs::write(world.person.config_file(), "").unwrap();
    let said = world.run(&["--replay", tape]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(said.data()["changes"]["files"], 1, "{said:?}");
    let live = world.run(&[]);
    assert_eq!((live.exit, live.code()), (4, "PREFLIGHT_FAILED".to_owned()), "{live:?}");
}

#[test]
fn nothing_is_recorded_where_a_model_would_be_shown_it() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&mending()));
    let said = world.run(&["--record", "run.jsonl"]);
    assert_eq!((said.exit, said.code()), (4, "PREFLIGHT_FAILED".to_owned()), "{said:?}");
    assert!(said.stdout.contains("--record ../run.jsonl"), "it says where to: {said:?}");
    assert!(!world.person.project().join("run.jsonl").exists());
    assert_eq!(world.person.json(&["plan", "list"]).data()["total"], json!(0));
    let said = world.run(&["--record", "../run.jsonl"]);
    assert_eq!(said.exit, 0, "{said:?}");
    // One that was put there later is told of, since a call may not be what was recorded.
    std::fs::rename(world.person.home().join("run.jsonl"), world.person.project().join("run.jsonl")).unwrap();
    let words = ["run", "Make the tests pass", "--actor", "mender", "--replay", "run.jsonl"];
    let said = world.person.agents(&words);
    assert!(said.stderr.contains("is inside the project shop"), "{said:?}");
}

#[test]
fn a_changed_prompt_is_told_as_drift_and_what_was_not_asked_for_as_a_note() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&mending()));
    let tape = world.person.home().join("run.jsonl");
    let tape = tape.to_str().unwrap();
    assert_eq!(world.run(&["--record", tape]).exit, 0);
    let actor = world.person.home().join(".config/cleveragents/actors/mender.yaml");
    let text = std::fs::read_to_string(&actor).unwrap();
    std::fs::write(&actor, text.replace("Be careful.", "Be quick.")).unwrap();
    let said = world.run(&["--replay", tape]);
    assert_eq!(said.exit, 1, "{said:?}");
    let (category, message) = world.error();
    assert_eq!(category, "invalid_input");
    assert!(message.contains("call 1 is not what was recorded: the system prompt"), "{message}");
    assert!(message.contains("Be quick."), "{message}");
    assert!(message.ends_with("if the plan is resumed without `--replay`, it calls the model"), "{message}");
    let told = said.envelope()["messages"].to_string();
    assert!(told.contains("4 recorded calls of a model were not used"), "{told}");
}

#[test]
fn a_limit_of_tokens_stops_before_it_is_overrun_and_the_plan_goes_on_with_more() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&mending()));
    let said = world.run(&["--limit", "tokens=100"]);
    assert_eq!((said.exit, said.code()), (6, "LIMIT_REACHED".to_owned()), "{said:?}");
    let used = world.used("tokens");
    assert_eq!((&used["used"], &used["reserved"]), (&json!(0), &json!(0)), "nothing was asked: {used}");
    let (_, message) = world.error();
    assert!(message.starts_with("the plan has a limit of 100 tokens (tokens): 0 used, "), "{message}");
    let command =
        world.person.json(&["plan", "status"]).data()["error"]["command"].as_str().unwrap().to_owned();
    let more: u64 = command.rsplit_once("--limit tokens=").unwrap().1.parse().unwrap();
    assert!(more > 10_000 && more.is_multiple_of(1_000), "it can be typed, and lets it go on: {command}");
    let words: Vec<&str> = ["--format", "json"].into_iter().chain(command.split(' ').skip(1)).collect();
    // It reserves for a long answer, so what would do for all turns is more than was used.
    let said = world.agents(&words);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(world.used("tokens")["used"], 440);
}

#[test]
fn a_plan_that_needs_a_model_and_may_use_nothing_of_it_is_refused_before_it_runs() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("free")]));
    for kind in ["tokens", "cost"] {
        let said = world.run(&["--limit", &format!("{kind}=0")]);
        assert_eq!((said.exit, said.code()), (4, "PREFLIGHT_FAILED".to_owned()), "{said:?}");
        let words = format!("limits.{kind} is 0: node main could not call scripted/m-1");
        assert!(said.stdout.contains(&words), "{said:?}");
    }
    assert_eq!(world.person.json(&["plan", "list"]).data()["total"], json!(0));
    // What costs nothing may be asked for nothing.
    let file = world.person.config_file();
    let settings = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, settings.replace("input = 2\noutput = 10", "input = 0\noutput = 0")).unwrap();
    let said = world.run(&["--limit", "cost=0"]);
    assert_eq!(said.exit, 0, "{said:?}");
}

#[test]
fn a_limit_of_the_day_holds_for_all_plans_and_tells_how_it_is_raised() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("one"), says("two")]));
    let set = world.person.agents(&["config", "set", "limits.day_cost=0.09"]);
    assert_eq!(set.exit, 0, "{set:?}");
    assert_eq!(world.run(&[]).exit, 0);
    assert_eq!(world.person.agents(&["config", "set", "limits.day_cost=0.0003"]).exit, 0);
    let said = world.run(&[]);
    assert_eq!((said.exit, said.code()), (6, "LIMIT_REACHED".to_owned()), "{said:?}");
    let (_, message) = world.error();
    assert!(message.starts_with("the day 20") && message.contains(": 0.0003 used"), "{message}");
    let used = world.used("tokens");
    assert_eq!((&used["used"], &used["reserved"]), (&json!(0), &json!(0)), "both or none: {used}");
}

#[test]
fn a_limit_of_the_day_counts_what_was_spent_before_it_was_set() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("one")]));
    assert_eq!(world.run(&[]).exit, 0);
    assert_eq!(world.person.agents(&["config", "set", "limits.day_cost=0.0003"]).exit, 0);
    let said = world.run(&[]);
    assert_eq!((said.exit, said.code()), (6, "LIMIT_REACHED".to_owned()), "{said:?}");
    let (_, message) = world.error();
    assert!(message.starts_with("the day 20") && message.contains(": 0.0003 used"), "{message}");
}

#[test]
fn a_limit_of_money_that_could_not_be_kept_is_refused_and_one_that_nobody_set_is_told() {
    let world = ModelFixture::new(Wire::Openai, Vec::new());
    let far = "[providers.far]\nspeaks = \"openai\"\nurl = \"https://models.example/v1\"\nkey_env = \"SCRIPTED_KEY\"\n";
    std::fs::write(world.person.config_file(), far).unwrap();
    let actor = world.person.home().join(".config/cleveragents/actors/mender.yaml");
    std::fs::write(&actor, "model: far/m-1\nprompt: x\n").unwrap();
    let made = |more: &[&str]| {
        let words = ["--format", "json", "plan", "use", "a task", "--actor", "mender"];
        world.agents(&[&words[..], more].concat())
    };
    let refused = |said: &CommandOutput, limit: &str| {
        assert_eq!((said.exit, said.code()), (4, "PREFLIGHT_FAILED".to_owned()), "{said:?}");
        let told = format!("what far/m-1 costs is not known, so `{limit}` could not be enforced");
        assert!(said.stdout.contains(&told) && said.stdout.contains("[prices."), "{said:?}");
    };
    refused(&made(&["--limit", "cost=1"]), "limits.cost");
    let said = made(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stdout.contains("so `limits.cost` does not hold for it"), "{said:?}");
    let said = made(&["--limit", "cost=none"]);
    assert!(said.exit == 0 && !said.stdout.contains("is not known"), "{said:?}");
    let set = |key: &str| assert_eq!(world.person.agents(&["config", "set", key]).exit, 0, "{key}");
    set("limits.day_cost=5");
    refused(&made(&[]), "limits.day_cost");
    let priced = std::fs::read_to_string(world.person.config_file()).unwrap()
        + "[prices.\"far/m-1\"]\ninput = 3\noutput = 15\n";
    std::fs::write(world.person.config_file(), priced).unwrap();
    let said = made(&["--limit", "cost=1"]);
    assert!(said.exit == 0 && !said.stdout.contains("is not known"), "{said:?}");
}

#[test]
fn a_model_that_cannot_be_asked_is_found_out_before_anything_is_stored() {
    let world = ModelFixture::new(Wire::Openai, Vec::new());
    let words = ["--format", "json", "run", "x y", "--actor", "mender"];
    let said = world.person.agents(&words);
    assert_eq!((said.exit, said.code()), (4, "PREFLIGHT_FAILED".to_owned()), "{said:?}");
    let told = said.envelope().to_string();
    assert!(told.contains("SCRIPTED_KEY"), "the variable is named: {told}");
    std::fs::write(world.person.config_file(), "").unwrap();
    let told = world.run(&[]).envelope().to_string();
    assert!(told.contains("there is no provider `scripted`"), "{told}");
    assert_eq!(world.person.json(&["plan", "list"]).data()["plans"], json!([]));
}

#[test]
fn the_doctor_tells_which_providers_can_be_asked_and_what_to_set() {
    let world = ModelFixture::new(Wire::Openai, Vec::new());
    let settings = std::fs::read_to_string(world.person.config_file()).unwrap();
    std::fs::write(world.person.config_file(), settings + "[providers.half]\nspeaks = \"openai\"\n").unwrap();
    let with_key = world.agents(&["--format", "json", "doctor"]);
    assert!(!with_key.stdout.contains(KEY), "a key is never shown");
    let providers = with_key.data()["providers"].clone();
    let of = |name: &str| {
        let all = providers.as_array().unwrap();
        all.iter().find(|provider| provider["name"] == name).cloned().unwrap_or_else(|| panic!("{providers}"))
    };
    let url = format!("{}/v1", world.server.url);
    // It was asked for its models, and has no answer to that.
    let scripted = json!({
        "name": "scripted", "url": url, "local": true, "has_key": true, "lacks": null, "answers": false,
        "first_model": null,
    });
    assert_eq!(of("scripted"), scripted);
    assert_eq!(of("half")["lacks"], "its settings lack `url`");
    assert_eq!(of("openai")["lacks"], "the key is missing: set the environment variable OPENAI_API_KEY");
    let text = world.person.agents(&["doctor"]).stdout;
    let line = text.lines().find(|line| line.contains("scripted")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("set the environment variable SCRIPTED_KEY"), "{line}");
}

#[test]
fn an_answer_that_is_to_be_json_gets_one_more_turn_and_then_fails() {
    let output = "output: {ok: boolean}\nretries: 0\n";
    let wrong = || -> ScriptedTurn { says("it is fine") };
    let fits = || says("```json\n{\"ok\": true}\n```");
    let world = ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&[wrong(), fits()]), output);
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    world.server.asked();
    let second = world.server.asked().body;
    let told = second["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
    assert!(told.starts_with("Your answer cannot be used: it is not JSON"), "{told}");
    let scripts = Wire::Openai.scripts(&[wrong(), says("{\"ok\": 1}")]);
    let world = ModelFixture::with(Wire::Openai, scripts, output);
    assert_eq!(world.run(&[]).exit, 6);
    let (category, message) = world.error();
    assert_eq!(category, "model_output");
    assert!(message.contains("does not match `output`: `ok`"), "{message}");
}

#[test]
fn a_model_that_only_reads_needs_no_write() {
    let turns = [
        calls([("write_file", json!({"path": "x", "content": "x"})), ("list_directory", json!({}))]),
        says("two files"),
    ];
    let world = ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&turns), "tools: [read]\n");
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    world.server.asked();
    let told = results(&world.server.asked().body);
    assert!(told[0].contains("UNKNOWN_TOOL"), "{told:?}");
    assert!(told[1].lines().nth(1).unwrap().starts_with("price.sh  "), "{told:?}");
    assert_eq!(said.data()["changes"]["files"], 0);
}

/// The shop, whose provider names a model; nobody thinks first.
fn chosen(model: &str) -> ModelFixture {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&mending()));
    let settings = std::fs::read_to_string(world.person.config_file()).unwrap();
    let settings = settings.replace("idle = \"1s\"\n", &format!("idle = \"1s\"\nmodel = \"{model}\"\n"));
    std::fs::write(world.person.config_file(), format!("{settings}[actor]\nstrategist = \"none\"\n"))
        .unwrap();
    world
}

#[test]
fn a_replay_needs_neither_the_settings_nor_the_servers_that_chose_who_did_it() {
    let world = chosen("m-1");
    let tape = world.person.home().join("run.jsonl");
    let tape = tape.to_str().unwrap();
    let said = world.agents(&["run", "Make the tests pass", "--record", tape]);
    assert!(said.exit == 0 && said.stderr.contains("so scripted/m-1 is used"), "{said:?}");
    let recorded = world.person.agents(&["plan", "diff", "@last"]).stdout;
    assert!(recorded.contains("+total() { echo $(($1 * $2)); }"), "{recorded}");
    std::fs::remove_file(world.person.config_file()).unwrap();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let host = server.local_addr().unwrap().to_string();
    for more in [&[][..], &["--actor", "coder"]] {
        let words = [&["run", "Make the tests pass", "--replay", tape][..], more].concat();
        let mut command = world.person.command(&world.person.project(), &words);
        let said = answer(command.env("OLLAMA_HOST", &host).env("PATH", "/usr/bin:/bin"));
        assert_eq!(said.exit, 0, "{said:?}");
        assert_eq!(said.stderr.contains("actor: coder (as recorded"), more.is_empty(), "{said:?}");
        assert_eq!(world.person.agents(&["plan", "diff", "@last"]).stdout, recorded);
        let asked = server.accept().unwrap_err();
        assert_eq!(asked.kind(), std::io::ErrorKind::WouldBlock, "no server was asked: {asked}");
    }
}

#[test]
fn a_replay_does_what_was_recorded_whatever_the_settings_name_by_now() {
    let world = chosen("m-1");
    let tape = world.person.home().join("run.jsonl");
    let tape = tape.to_str().unwrap();
    let said = world.agents(&["run", "Make the tests pass", "--actor", "mender", "--record", tape]);
    assert_eq!(said.exit, 0, "{said:?}");
    let settings = "actor.default = \"coder\"\nmodel.default = \"ollama/other\"\n";
    std::fs::write(world.person.config_file(), settings).unwrap();
    let said = world.person.json(&["run", "Make the tests pass", "--replay", tape]);
    assert_eq!(said.exit, 0, "the actor that was typed is recorded too: {said:?}");
    assert_eq!(said.data()["changes"]["files"], 1, "{said:?}");
}

#[test]
fn an_older_recording_asks_who_did_it() {
    let world = chosen("m-1");
    let tape = world.person.home().join("run.jsonl");
    let said = world.agents(&["run", "Make the tests pass", "--record", tape.to_str().unwrap()]);
    assert_eq!(said.exit, 0, "{said:?}");
    let text = std::fs::read_to_string(&tape).unwrap();
    let calls = text.split_once('\n').unwrap().1;
    std::fs::write(&tape, calls).unwrap();
    std::fs::remove_file(world.person.config_file()).unwrap();
    let words = ["run", "Make the tests pass", "--replay", tape.to_str().unwrap()];
    let said = world.person.agents(&words);
    assert!(said.exit == 2 && said.stderr.contains("error[NO_ACTOR]"), "{said:?}");
    assert!(
        said.stderr.contains("does not name its actor") && said.stderr.contains("--actor coder"),
        "{said:?}"
    );
    std::fs::write(
        world.person.config_file(),
        "model.default = \"scripted/m-1\"\nactor.strategist = \"none\"\n",
    )
    .unwrap();
    let said = world.person.agents(&[&words[..], &["--actor", "coder"]].concat());
    assert_eq!(said.exit, 0, "{said:?}");
}
