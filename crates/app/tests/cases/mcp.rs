//! `agents mcp`, driven by a client of the official Python SDK.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::support::TestUser;

/// Starts the server that its arguments name; then does a call for each line, and answers with a line.
const CLIENT: &str = r#"
import asyncio, json, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

def say(value):
    print(json.dumps(value), flush=True)

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        tools = (await session.list_tools()).tools
        hello = hello.model_dump(mode="json", by_alias=True)
        say({"hello": hello, "tools": [tool.model_dump(mode="json", by_alias=True) for tool in tools]})
        while line := await asyncio.to_thread(sys.stdin.readline):
            call = json.loads(line)
            try:
                result = await session.call_tool(call["tool"], call["arguments"])
                say(result.model_dump(mode="json", by_alias=True))
            except Exception as error:
                say({"raised": str(error)})

asyncio.run(main())
"#;

fn python() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let dir = target.parent().unwrap().join("peers/mcp-python");
    let is_whole = dir.join("installed").is_file();
    assert!(is_whole, "{} is not there: `cargo xtask peers` installs it, by pip", dir.display());
    dir.join("bin/python")
}

struct Client {
    process: Child,
    calls: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Client {
    fn start(person: &TestUser, options: &[&str]) -> (Client, Value) {
        let mut command = Command::new(python());
        command.args(["-c", CLIENT, env!("CARGO_BIN_EXE_agents"), "mcp"]).args(options);
        command.current_dir(person.project()).env_clear();
        command.env("HOME", person.home()).env("PATH", std::env::var_os("PATH").unwrap());
        command.env("CLEVERAGENTS_DATA_DIR", person.home().join("data"));
        command.env("CLEVERAGENTS_POLICY_TRUST", "all");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut client = Client { calls: process.stdin.take(), process, answers };
        let hello = client.answer();
        (client, hello)
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let call = json!({ "tool": tool, "arguments": arguments });
        writeln!(self.calls.as_mut().unwrap(), "{call}").unwrap();
        self.answer()
    }

    /// The envelope of a call that went well.
    fn done(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{result}");
        let envelope = result["structuredContent"].clone();
        assert_eq!(
            serde_json::from_str::<Value>(result["content"][0]["text"].as_str().unwrap()).unwrap(),
            envelope
        );
        assert_eq!(envelope["status"], "ok", "{envelope}");
        envelope
    }

    fn end(mut self) {
        self.calls = None;
        assert!(self.process.wait().unwrap().success());
    }
}

/// The code of the failure in a result.
fn code(result: &Value) -> String {
    assert_eq!(result["isError"], true, "{result}");
    let messages = result["structuredContent"]["messages"].as_array().unwrap();
    messages.last().unwrap()["code"].as_str().unwrap().to_owned()
}

#[test]
fn another_agent_runs_a_plan_looks_at_it_and_may_not_apply_it() {
    let person = TestUser::new();
    person.write("a.txt", "eins\n");
    let (mut client, hello) = Client::start(&person, &[]);
    assert_eq!(hello["hello"]["serverInfo"]["name"], "agents");
    let names: Vec<&str> =
        hello["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected = [
        "list_plans",
        "show_plan",
        "plan_diff",
        "plan_errors",
        "run_plan",
        "cancel_plan",
        "apply_plan",
        "request_context",
        "query_history",
        "get_context_budget",
    ];
    assert_eq!(names, expected);
    assert_eq!(client.done("list_plans", &json!({}))["data"]["total"], 0);

    let made =
        client.done("run_plan", &json!({ "command": ["sh", "-c", "echo zwei >> a.txt"], "title": "count" }));
    let id = made["data"]["plan_id"].as_str().unwrap().to_owned();
    assert_eq!(
        (made["data"]["detached"].clone(), made["data"]["title"].clone()),
        (json!(true), json!("count"))
    );
    assert_eq!(person.agents(&["plan", "watch", &id]).exit, 0);

    let plan = json!({ "plan": id });
    let shown = client.done("show_plan", &plan);
    // The same as the command says, but for when it was asked.
    let typed = person.json(&["plan", "status", &id]).envelope();
    assert_eq!((&shown["data"], &shown["command"]), (&typed["data"], &typed["command"]));
    assert_eq!(shown["data"]["state"], "complete");
    let diff = client.done("plan_diff", &json!({ "plan": id, "paths": ["a.txt"] }));
    assert_eq!(diff["data"], person.json(&["plan", "diff", &id, "a.txt"]).data());
    assert_eq!(diff["data"]["files"][0]["path"], "a.txt");
    assert_eq!(client.done("plan_errors", &plan)["data"]["recorded"], 0);
    assert_eq!(client.done("list_plans", &json!({ "limit": 5 }))["data"]["plans"][0]["plan_id"], id);

    assert_eq!(code(&client.call("apply_plan", &plan)), "CONFIRMATION_NEEDED");
    assert_eq!(person.read("a.txt"), "eins\n");
    client.end();
}

#[test]
fn a_server_that_was_allowed_to_applies() {
    let person = TestUser::new();
    person.write("a.txt", "eins\n");
    let id = person.plan("echo zwei >> a.txt; echo neu > b.txt");
    let (mut client, _) = Client::start(&person, &["--allow-apply"]);
    let applied = client.done("apply_plan", &json!({ "plan": id, "reject": ["b.txt"] }));
    assert_eq!(applied["data"]["files"], 1);
    assert_eq!(person.read("a.txt"), "eins\nzwei\n");
    assert!(!person.project().join("b.txt").exists());
    client.end();
}

#[test]
fn what_is_wrong_with_a_call_is_told() {
    let person = TestUser::new();
    let (mut client, _) = Client::start(&person, &[]);
    assert_eq!(code(&client.call("show_plan", &json!({ "plan": "01ZZZZZZZZ" }))), "PLAN_NOT_FOUND");
    assert_eq!(code(&client.call("list_plans", &json!({ "state": "happy" }))), "USAGE");
    assert_eq!(code(&client.call("run_plan", &json!({}))), "USAGE");
    let told = |result: &Value| result["content"][0]["text"].as_str().unwrap().to_owned();
    let wrong = client.call("show_plan", &json!({ "plan": "--help" }));
    assert!(told(&wrong).starts_with("the arguments of show_plan are not valid: `plan`"), "{wrong}");
    let wrong = client.call("run_plan", &json!({ "task": "-" }));
    assert!(told(&wrong).starts_with("the arguments of run_plan are not valid: `task`"), "{wrong}");
    let wrong = client.call("run_plan", &json!({ "command": ["x"], "network": true }));
    assert!(told(&wrong).contains("`network` is not a field"), "{wrong}");
    let unknown = client.call("drop_everything", &json!({}));
    assert!(unknown["raised"].as_str().unwrap().contains("there is no tool `drop_everything`"), "{unknown}");
    client.end();
}

#[test]
fn another_agent_asks_what_to_read_in_the_project() {
    let person = TestUser::new();
    person.write("login.py", "def login(user):\n    return check(user)\n");
    person.write("other.py", "def sell(item):\n    return item\n");
    person.git(&["add", "."]);
    person.git(&["commit", "-qm", "a way to log in"]);
    let (mut client, _) = Client::start(&person, &[]);
    let asked = json!({ "query": "why does login fail", "tokens": 400 });
    let found = client.done("request_context", &asked)["data"].clone();
    assert!(found["text"].as_str().unwrap().contains("def login(user):"), "{found}");
    assert!(found["tokens"].as_u64().unwrap() <= 400, "{found}");
    assert!(found["included"].as_array().unwrap().iter().any(|one| one["path"] == "login.py"), "{found}");
    let more = client.done("request_context", &json!({ "query": "why does login fail", "tokens": 1024 }));
    assert!(more.to_string().contains("Ask request_context for more"), "{more}");
    let wrong = client.call("request_context", &json!({ "query": "x", "focus": ["src/logni.py"] }));
    assert_eq!(code(&wrong), "FOCUS_NOT_FOUND");
    assert!(wrong.to_string().contains("did you mean `login.py`?"), "{wrong}");
    let dash = client.done("request_context", &json!({ "query": "-" }));
    assert!(dash["data"]["text"].is_string(), "{dash}");
    let past = client.done("query_history", &json!({ "text": "LOG IN" }))["data"].clone();
    assert_eq!(past["matches"][0]["text"], "a way to log in", "{past}");
    let none = client.done("query_history", &json!({ "kinds": ["decision"] }))["data"].clone();
    assert_eq!(none, json!({ "matches": [], "truncated": false }));
    let budget = client.done("get_context_budget", &json!({}))["data"].clone();
    assert_eq!((&budget["window"], &budget["available"]), (&json!(16_384), &json!(16_384)));
    client.end();
}

#[test]
fn what_one_call_indexed_the_next_has_in_memory() {
    let person = TestUser::new();
    person.write("login.py", "def login(user):\n    return check(user)\n");
    let (mut client, _) = Client::start(&person, &[]);
    let asked = json!({ "query": "why does login fail", "tokens": 400 });
    let first = client.done("request_context", &asked)["data"].clone();
    assert!(first["text"].as_str().unwrap().contains("def login(user):"), "{first}");
    // Who opened the index again would find something else in its place, and say so.
    let index = person.home().join("data/index");
    std::fs::rename(&index, person.home().join("data/index-of-before")).unwrap();
    std::fs::write(&index, "in the way").unwrap();
    let second = client.done("request_context", &asked)["data"].clone();
    assert_eq!((&second["text"], &second["notes"]), (&first["text"], &json!([])));
    client.end();
}

#[test]
fn another_agent_cancels_a_plan() {
    let person = TestUser::new();
    let (mut client, _) = Client::start(&person, &[]);
    let made = client.done("run_plan", &json!({ "command": ["sh", "-c", "echo x > x; exec sleep 1000"] }));
    let id = made["data"]["plan_id"].as_str().unwrap().to_owned();
    let cancelled = client.done("cancel_plan", &json!({ "plan": id, "reason": "not needed" }));
    assert_eq!(cancelled["data"]["cancel"]["reason"], "not needed");
    assert_eq!(client.done("show_plan", &json!({ "plan": id }))["data"]["state"], "cancelled");
    client.end();
}

#[test]
fn automation_of_the_user_applies_nothing_that_another_agent_started() {
    let person = TestUser::new();
    person.write("a.txt", "eins\n");
    assert_eq!(person.agents(&["config", "set", "automation=auto"]).exit, 0);
    let (mut client, _) = Client::start(&person, &[]);
    let command = ["sh", "-c", "echo zwei >> a.txt"];
    let made = client.done("run_plan", &json!({ "command": command, "checks": ["true"] }));
    let id = made["data"]["plan_id"].as_str().unwrap().to_owned();
    person.agents(&["plan", "watch", &id]);
    assert_eq!(client.done("show_plan", &json!({ "plan": id }))["data"]["automation"], "review");
    assert_eq!(person.read("a.txt"), "eins\n");
    client.end();
}

#[test]
fn by_hand_it_says_who_starts_it() {
    let person = TestUser::new();
    let answer = person.agents(&["mcp"]);
    assert_eq!(answer.exit, 2);
    assert_eq!(answer.stdout, "");
    assert!(
        answer.stderr.contains("hint: an agent starts this command, not a user: see docs/mcp.md"),
        "{answer:?}"
    );
}
