//! Servers of the Model Context Protocol whose tools a model calls in a plan.
//!
//! Most servers here are lines of a shell that answer in the order in which they are asked; one is the
//! reference server.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::model_world::{KEY, ModelFixture, ScriptedTurn, Wire, calls, says};
use super::support::{CommandOutput, TestUser, alive};
use testkit::peers::peer;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;

/// The word of the shell that writes this line.
pub(super) fn line(message: &str) -> String {
    format!("printf '%s\\n' '{message}'\n")
}

/// A server that shook hands and listed these tools; the rest it does when it is asked for more.
pub(super) fn server(tools: &Value, rest: &str) -> String {
    let listed = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools } }).to_string();
    let read = "read -r asked\n";
    format!("{read}{}{read}{read}{}{rest}cat > /dev/null\n", line(HELLO), line(&listed))
}

/// Waits to be called, does this, and answers with the result.
pub(super) fn called(id: u32, does: &str, result: &Value) -> String {
    let answer = line(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
    format!("read -r asked\n{does}\n{answer}")
}

pub(super) fn tool(name: &str) -> Value {
    json!({ "name": name, "description": format!("does {name}"), "inputSchema": { "type": "object" } })
}

/// A world whose model has these turns and the tools `tools`, and a server `box`, which is this script.
pub(super) fn world(turns: &[ScriptedTurn], tools: &str, script: &str, settings: &str) -> ModelFixture {
    let wire = Wire::Openai;
    let world = ModelFixture::with(wire, wire.scripts(turns), &format!("tools: {tools}\nretries: 0\n"));
    world.person.write("server.sh", script);
    describe(&world.person, &format!("[mcp.box]\ncommand = [\"sh\", \"server.sh\"]\n{settings}"));
    world
}

fn describe(person: &TestUser, table: &str) {
    let file = person.config_file();
    let before = fs::read_to_string(&file).unwrap_or_default();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, before + table).unwrap();
}

pub(super) fn changed(person: &TestUser) -> Vec<String> {
    let said = person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
    said.lines().map(str::to_owned).collect()
}

/// What the model was told of its last call.
fn told(world: &ModelFixture) -> String {
    let body = world.server.asked().body;
    body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[test]
fn the_reference_server_reads_and_writes_for_a_model_behind_the_gate() {
    let turns = [
        calls([("files_read_text_file", json!({ "path": "price.sh" }))]),
        calls([("files_write_file", json!({ "path": "made.txt", "content": "by the server\n" }))]),
        calls([("files_read_text_file", json!({ "path": "/etc/hostname" }))]),
        says("It is made."),
    ];
    let world = ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&turns), "tools: [files.*]\n");
    let person = &world.person;
    let installed = peer("mcp-filesystem", "node_modules");
    let copied = Command::new("cp").arg("-r").arg(installed).arg(person.project()).status().unwrap();
    assert!(copied.success());
    person.write(".gitignore", "node_modules\n");
    person.git(&["add", ".gitignore"]);
    person.git(&["commit", "-qm", "ignored"]);
    let script = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";
    describe(
        person,
        &format!(
            "[mcp.files]\ncommand = [\"node\", \"{script}\", \".\"]\nread_only = [\"read_text_file\"]\n"
        ),
    );
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let first = world.server.asked();
    let names: Vec<&str> = first.body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"files_write_file") && !names.contains(&"read_file"), "{names:?}");
    assert!(told(&world).contains("total() { echo $(($1 + $2)); }"));
    assert!(told(&world).contains("Successfully wrote"));
    assert!(told(&world).contains("Access denied"));
    assert_eq!(changed(person), ["made.txt"]);
    assert!(!person.project().join("made.txt").exists());
    assert_eq!(alive(person), 0);
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("made.txt"), "by the server\n");
}

#[test]
fn a_denied_tool_of_a_server_is_not_offered_and_never_reaches_it() {
    let turns = [calls([("box_t", json!({})), ("box_u", json!({}))]), says("I may not.")];
    let answer = json!({ "content": [{ "type": "text", "text": "it is u" }] });
    let script = server(&json!([tool("t"), tool("u")]), &called(2, "echo called > asked.txt", &answer));
    let world = world(&turns, "[box.*]", &script, "");
    let file = world.person.config_file();
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("policy.deny_tools = [\"box.t\"]\n{before}")).unwrap();
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let offered = world.server.asked().body["tools"].to_string();
    assert!(offered.contains("box_u") && !offered.contains("box_t"), "{offered}");
    let body = world.server.asked().body;
    let results: Vec<&str> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    let why = "error: NOT_ALLOWED: box.t is not allowed: `policy.deny_tools` names it";
    assert_eq!(results[0], why, "{results:?}");
    assert!(results[1].contains("it is u"), "it was asked once, for the other: {results:?}");
    // A step that calls it is found before anything runs.
    let step = "nodes:\n  only: {tool: box.t, with: {}}\n";
    fs::write(world.person.home().join(".config/cleveragents/actors/caller.yaml"), step).unwrap();
    let said = world.person.json(&["run", "call it", "--actor", "caller"]);
    assert_eq!((said.exit, said.code()), (4, "PREFLIGHT_FAILED".to_owned()), "{said:?}");
    assert!(said.stdout.contains("NOT_ALLOWED: box.t is not allowed"), "{said:?}");
}

#[test]
fn a_server_whose_tools_are_all_denied_is_not_started() {
    let script = attempt("early") + "\n" + &server(&json!([tool("t")]), "");
    for tools in ["[box.*]", "[box.t]"] {
        let world = world(&[says("I have none.")], tools, &script, "");
        let file = world.person.config_file();
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("policy.deny_tools = [\"box.*\"]\n{before}")).unwrap();
        let said = world.run(&[]);
        assert_eq!(said.exit, 0, "{tools}: {said:?}");
        assert!(!world.server.asked().body["tools"].to_string().contains("box_"), "{tools}");
        let logs = world.person.json(&["plan", "logs", "@last"]).data();
        assert!(!logs.to_string().contains("start_server"), "{tools}: {logs}");
        assert_eq!(changed(&world.person), [""; 0], "{tools}");
    }
}

#[test]
fn what_goes_wrong_with_a_call_is_told_to_the_model_and_the_plan_goes_on() {
    let sum =
        json!({ "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"] });
    let lying = json!({ "name": "t", "inputSchema": { "type": "object" }, "outputSchema": sum });
    let lies = json!({ "content": [], "structuredContent": { "sum": "many" } });
    let failed = json!({ "content": [{ "type": "text", "text": "no such row" }], "isError": true });
    let one = json!([tool("t")]);
    let cases = [
        (server(&one, "read -r asked; echo out of memory >&2; exit 7\n"), "disconnected"),
        (server(&one, "read -r asked; sleep 600\n"), " 1 s"),
        (server(&json!([lying]), &called(2, "", &lies)), "BAD_OUTPUT"),
        (server(&one, &called(2, "", &failed)), "no such row"),
        (server(&one, "read -r asked; echo what is this; exit 0\n"), "what is this"),
    ];
    for (script, says_so) in cases {
        let turns = [calls([("box_t", json!({}))]), says("I know.")];
        let world = world(&turns, "[box.t]", &script, "timeout = \"1s\"\n");
        let said = world.run(&[]);
        assert_eq!(said.exit, 0, "{says_so}: {said:?}");
        world.server.asked();
        let told = told(&world);
        assert!(told.contains(says_so), "{says_so}: {told}");
        assert_eq!(alive(&world.person), 0, "{says_so}");
        assert_eq!(world.errors(), ["tool"], "{says_so}");
        let record = world.person.json(&["plan", "errors"]).data()["records"][0].clone();
        assert!(record["message"].as_str().unwrap().contains(says_so), "{says_so}: {record}");
        assert_eq!(record["action"], "told the model");
    }
}

#[test]
fn a_server_that_went_away_is_started_again_for_the_next_call_and_not_for_ever() {
    let call = |n: u32| calls([("box_t", json!({ "n": n }))]);
    let turns: Vec<ScriptedTurn> = (1..=7).map(call).chain([says("I know.")]).collect();
    let answer = json!({ "content": [{ "type": "text", "text": "here" }] });
    let rest = called(2, "", &answer) + "read -r asked; exit 3\n";
    let world = world(&turns, "[box.t]", &server(&json!([tool("t")]), &rest), "");
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    world.server.asked();
    let again = "; the next call starts its server again";
    let no_more = "; its server was started 3 times and is not started again";
    for says_so in ["here", again, "here", again, "here", no_more, no_more] {
        let told = told(&world);
        assert!(told.contains(says_so), "{says_so}: {told}");
    }
    assert_eq!(world.errors(), ["tool"; 4]);
    let logs = world.person.json(&["plan", "logs", "@last"]).data().to_string();
    assert_eq!(logs.matches("start_server").count(), 3, "{logs}");
    assert_eq!(alive(&world.person), 0);
}

#[test]
fn what_a_server_says_of_its_failure_has_no_secrets_in_it() {
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let failed = json!({ "content": [{ "type": "text", "text": format!("no {secret}") }], "isError": true });
    let one = json!([tool("t")]);
    for script in [
        server(&one, &format!("read -r asked; echo died of {secret} >&2; exit 7\n")),
        server(&one, &called(2, "", &failed)),
    ] {
        let turns = [calls([("box_t", json!({}))]), says("I know.")];
        let world = world(&turns, "[box.t]", &script, "timeout = \"5s\"\n");
        let said = world.run(&[]);
        assert_eq!(said.exit, 0, "{said:?}");
        world.server.asked();
        let told = told(&world);
        assert!(told.contains("TOOL_FAILED") && told.contains("[REDACTED:github_token:"), "{told}");
        assert!(!told.contains(secret), "{told}");
    }
}

#[test]
fn a_server_whose_patterns_grow_is_used_for_its_other_tools() {
    let fields: serde_json::Map<String, Value> = (0..60)
        .map(|at| {
            (
                format!("f{at}"),
                json!({ "type": "string", "pattern": format!("^(.{{1,{}}}x){{1,500}}$", 400 + at) }),
            )
        })
        .collect();
    let nasty = |at: usize| json!({ "name": format!("nasty{at}"), "inputSchema": { "type": "object", "properties": fields } });
    let tools: Vec<Value> = (0..10).map(nasty).chain([tool("t")]).collect();
    let done = json!({ "content": [{ "type": "text", "text": "done" }] });
    let script = server(&json!(tools), &called(2, "", &done));
    let turns = [calls([("box_t", json!({}))]), says("I know.")];
    let world = world(&turns, "[box.*]", &script, "start = \"60s\"\n");
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let asked = world.server.asked().body.to_string();
    assert!(asked.contains("box_t") && !asked.contains("nasty"), "{asked}");
    let logs = world.person.json(&["plan", "logs", "@last"]).data().to_string();
    assert!(logs.contains("box.nasty0 is left out"), "{logs}");
}

#[test]
fn a_server_that_does_not_start_fails_the_node_by_its_kind() {
    let unusable = json!({ "name": "u", "inputSchema": { "type": "object", "pattern": 7 } });
    let cases = [
        ("[box.*]", "sleep 600\n".to_owned(), "timeout", "box did not answer within 1 s in initialize"),
        ("[box.*]", "echo no key >&2; exit 2\n".to_owned(), "connection", "its error output: no key"),
        ("[box.*]", "echo Welcome to Box\ncat > /dev/null\n".to_owned(), "timeout", "Welcome to Box"),
        ("[box.u]", server(&json!([tool("t"), unusable]), ""), "invalid_input", "box.u is left out"),
    ];
    for (tools, script, category, says) in cases {
        let world = world(&[], tools, &script, "start = \"1s\"\n");
        let said = world.run(&[]);
        assert!([1, 6].contains(&said.exit), "{says}: {said:?}");
        let (found, message) = world.error();
        assert_eq!(found, category, "{message}");
        assert!(message.contains(says), "{says}: {message}");
        assert!(!world.errors().is_empty());
        assert_eq!(alive(&world.person), 0, "{says}");
    }
}

/// Writes a file, or finds that it cannot; `$did` has which.
fn attempt(name: &str) -> String {
    format!("(echo x > {name}) 2> /dev/null && did=wrote || did=refused")
}

/// Answers the first call with what became of that.
const ANSWER: &str =
    r#"printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$did""#;

#[test]
fn what_a_server_writes_is_the_calls_that_let_it_and_nothing_else_is_written() {
    let turns = || [calls([("box_t", json!({}))]), says("It is done.")];
    let script = attempt("early")
        + "\n"
        + &server(&json!([tool("t")]), &format!("read -r asked\n{}\n{ANSWER}\n", attempt("made")));
    for (settings, outcome, files) in [
        ("", "wrote", &["early", "made"][..]),
        ("read_only = [\"t\"]\n", "refused", &[]),
        ("writes = false\n", "refused", &[]),
    ] {
        let world = world(&turns(), "[box.t]", &script, settings);
        let said = world.run(&[]);
        assert_eq!(said.exit, 0, "{settings}: {said:?}");
        world.server.asked();
        assert!(told(&world).contains(outcome), "{settings}");
        assert_eq!(changed(&world.person), files, "{settings}");
    }
}

#[test]
fn what_a_server_writes_when_nobody_calls_it_any_more_is_kept() {
    let turns = [calls([("box_t", json!({}))]), says("It is done.")];
    let answer = json!({ "content": [{ "type": "text", "text": "made" }] });
    let script = server(&json!([tool("t")]), &called(2, "echo x > made", &answer)) + "echo y > late\n";
    let world = world(&turns, "[box.t]", &script, "");
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(changed(&world.person), ["late", "made"]);
    assert_eq!(world.person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(world.person.read("late"), "y\n");
}

#[test]
fn a_strategist_may_call_what_only_reads_and_its_servers_cannot_write() {
    let tools = json!([tool("look"), tool("make")]);
    let script = server(&tools, &format!("read -r asked\n{}\n{ANSWER}\n", attempt("sneaked")));
    let turns = [calls([("box_look", json!({}))]), calls([("box_make", json!({}))]), says("Mend the sum.")];
    let world = world(&turns, "[read]", &script, "read_only = [\"look\"]\n");
    let person = &world.person;
    let dir = person.home().join(".config/cleveragents");
    let thinker =
        "description: Thinks\nmodel: scripted/m-1\nprompt: Think.\ntools: [read, box.*]\nretries: 0\n";
    fs::write(dir.join("actors/thinker.yaml"), thinker).unwrap();
    let done = "description: Does\nrun: [tee, told.txt]\nstdin: \"{{strategy}}\"\n";
    fs::write(dir.join("actors/doer.yaml"), done).unwrap();
    let action = "description: Mend it\nactor: doer\nstrategist: thinker\n";
    fs::create_dir_all(dir.join("actions")).unwrap();
    fs::write(dir.join("actions/mend.yaml"), action).unwrap();
    let said = world.agents(&["--format", "json", "run", "mend"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let offered = world.server.asked().body["tools"].to_string();
    assert!(offered.contains("box_look") && !offered.contains("box_make"), "{offered}");
    assert!(told(&world).contains("refused"));
    let why = "NOT_ALLOWED: box.make is not allowed: files are read-only in strategize";
    assert!(told(&world).contains(why));
    assert_eq!(changed(person), ["told.txt"]);
    assert!(!person.project().join("sneaked").exists());
    assert_eq!(alive(person), 0);
}

#[test]
fn a_cancel_while_a_server_works_leaves_no_process() {
    let script =
        server(&json!([tool("t")]), "read -r asked; echo half > half.txt; (setsid sleep 600 &); sleep 600\n");
    let world = world(&[calls([("box_t", json!({}))])], "[box.t]", &script, "");
    let person = &world.person;
    // A pipe in the project would be captured; what the server does is seen by its processes.
    let mut command = person.command(&person.project(), &["run", "--actor", "mender", "Make the tests pass"]);
    let mut child =
        command.env("SCRIPTED_KEY", KEY).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    world.server.asked();
    while alive(person) < 3 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was called");
    }
    let cancelled = person.agents(&["plan", "cancel", "@last"]);
    assert_eq!(cancelled.exit, 0, "{cancelled:?}");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert_eq!(alive(person), 0);
    assert_eq!(person.json(&["plan", "status"]).data()["state"], "cancelled");
    assert_eq!(changed(person), ["half.txt"]);
}

fn checked(person: &TestUser) -> CommandOutput {
    person.json(&["actor", "check", "mender"])
}

#[test]
fn a_server_that_nobody_described_is_found_before_anything_runs() {
    let world = world(&[], "[bux.t]", "", "");
    let said = checked(&world.person);
    assert_eq!((said.exit, said.code()), (2, "DEFINITION_INVALID".to_owned()), "{said:?}");
    assert!(
        said.stdout.contains("your settings define no server `bux` ([mcp.bux]); did you mean `box`?"),
        "{said:?}"
    );
    assert_eq!(world.run(&[]).exit, 2);
    describe(&world.person, "[mcp.bux]\ncommand = [\"no-such-server\"]\n");
    assert_eq!(checked(&world.person).exit, 0);
    let said = world.run(&[]);
    assert_eq!((said.exit, said.code()), (4, "PREFLIGHT_FAILED".to_owned()), "{said:?}");
    assert!(said.stdout.contains("`no-such-server` of the server `bux` was not found on PATH"), "{said:?}");
}

#[test]
fn a_clone_describes_no_server_and_uses_none_without_a_yes() {
    let world = world(&[], "[read]", "", "");
    let person = &world.person;
    person.write(".cleveragents/actors/team.yaml", "model: scripted/m-1\nprompt: x\ntools: [box.*]\n");
    let said = world.agents(&["--format", "json", "run", "--actor", "team", "a task"]);
    assert_eq!((said.exit, said.code()), (6, "CONSENT_NEEDED".to_owned()), "{said:?}");
    assert!(said.stdout.contains("your server box"), "{said:?}");
    person.write(".cleveragents/config.toml", "[mcp.own]\ncommand = [\"sh\"]\n");
    let said = world.run(&[]);
    assert_eq!((said.exit, said.code()), (2, "CONFIG_NOT_ALLOWED_HERE".to_owned()), "{said:?}");
    assert!(said.stdout.contains("mcp.own"), "{said:?}");
}
