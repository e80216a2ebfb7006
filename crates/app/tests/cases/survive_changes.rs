//! The survival of changes: writers that do not know of each other, tools that fail after they wrote,
//! arguments in both their forms, and what is left on the disk.

use std::fs;
use std::process::Stdio;
use std::sync::{Arc, Condvar, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::model_world::{ModelFixture, ScriptedTurn, Wire, calls, says};
use super::servers::{called, changed, line, server, tool, world};
use super::support::{TestUser, alive};
use super::terminal::Terminal;
use testkit::scripted_server::{Asked, Script, Scripted};

/// Moments that are waited for.
#[derive(Default)]
struct Moments {
    passed: Mutex<Vec<&'static str>>,
    more: Condvar,
}

impl Moments {
    fn pass(&self, moment: &'static str) {
        self.passed.lock().unwrap().push(moment);
        self.more.notify_all();
    }

    fn wait(&self, moment: &'static str) {
        let passed = self.passed.lock().unwrap();
        drop(self.more.wait_while(passed, |passed| !passed.contains(&moment)).unwrap());
    }
}

/// What the results of tools in a conversation say, the first one first.
fn results(asked: &Asked) -> Vec<String> {
    let messages = asked.body["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// What the first one does: it reads, waits until the other has read too, and writes.
fn first(turn: usize, moments: &Moments) -> ScriptedTurn {
    match turn {
        0 => calls([("read_file", json!({"path": "f.txt"}))]),
        1 => {
            moments.pass("first has read");
            moments.wait("second has read");
            calls([("write_file", json!({"path": "f.txt", "content": "one\nfirst\n"}))])
        }
        _ => {
            moments.pass("first has written");
            says("Done.")
        }
    }
}

/// What the second does: it reads the same, and writes when the first one has. It is told, reads again and
/// writes.
fn second(turn: usize, stale: &Value, moments: &Moments) -> ScriptedTurn {
    let (name, arguments) = (stale["tool"].as_str().unwrap().to_owned(), stale["with"].clone());
    match turn {
        0 => {
            moments.wait("first has read");
            calls([("read_file", json!({"path": "f.txt"}))])
        }
        1 => {
            moments.pass("second has read");
            moments.wait("first has written");
            calls([(if name == "edit_file" { "edit_file" } else { "write_file" }, arguments)])
        }
        2 => calls([("read_file", json!({"path": "f.txt"}))]),
        3 => calls([("edit_file", json!({"path": "f.txt", "old": "first\n", "new": "first\nsecond\n"}))]),
        _ => says("Done."),
    }
}

#[test]
fn of_two_nodes_that_read_one_file_the_second_to_write_is_told_that_it_is_stale() {
    let overwrite = json!({"tool": "write_file", "with": {"path": "f.txt", "content": "second\n"}});
    let edit = json!({"tool": "edit_file", "with": {"path": "f.txt", "old": "one\n", "new": "second\n"}});
    for (order, stale) in
        [(["a", "b"], &overwrite), (["b", "a"], &edit), (["a", "b"], &edit), (["b", "a"], &overwrite)]
    {
        let moments = Arc::new(Moments::default());
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let answer = {
            let (stale, heard) = (stale.clone(), Arc::clone(&heard));
            move |number: usize, asked: &Asked| -> Script {
                let results = results(asked);
                let is_first = asked.body["messages"].to_string().contains("You are the first.");
                if !is_first && results.len() == 2 {
                    heard.lock().unwrap().push(results[1].clone());
                }
                let said = match is_first {
                    true => first(results.len(), &moments),
                    false => second(results.len(), &stale, &moments),
                };
                Wire::Openai.script(number, &said)
            }
        };
        let world = ModelFixture { person: TestUser::new(), server: Scripted::answering(answer) };
        let person = &world.person;
        person.write("f.txt", "one\n");
        world.settings(Wire::Openai, &world.server.url);
        let settings = fs::read_to_string(person.config_file()).unwrap();
        fs::write(person.config_file(), settings.replace("idle = \"1s\"", "idle = \"60s\"")).unwrap();
        let node = |name: &str| {
            let who = if name == order[0] { "first" } else { "second" };
            format!("  {name}: {{model: scripted/m-1, prompt: You are the {who}.}}\n")
        };
        let dir = person.home().join(".config/cleveragents/actors");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("mender.yaml"), format!("nodes:\n{}{}", node("a"), node("b"))).unwrap();
        let said = world.run(&[]);
        assert_eq!(said.exit, 0, "{said:?}");
        let heard = heard.lock().unwrap().clone();
        assert!(heard.len() == 1 && heard[0].contains("STALE_FILE"), "{order:?} {stale}: {heard:?}");
        let diff = person.agents(&["plan", "diff", "@last"]).stdout;
        assert!(diff.contains(" one\n+first\n+second\n"), "both changes are there: {diff}");
        let logs = person.json(&["plan", "logs", "@last"]).data();
        let refused: Vec<(&Value, &Value)> = logs["calls"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|call| call["error"].as_str().is_some_and(|error| error.starts_with("STALE_FILE")))
            .map(|call| (&call["node"], &call["tool"]))
            .collect();
        assert_eq!(refused, [(&json!(order[1]), &stale["tool"])], "{logs}");
    }
}

/// The calls of a tool, by number.
fn calls_of(person: &TestUser, tool: &str) -> Vec<Value> {
    let logs = person.json(&["plan", "logs", "@last"]).data();
    logs["calls"].as_array().unwrap().iter().filter(|call| call["tool"] == tool).cloned().collect()
}

/// What a call of the plan changed.
fn changed_by(person: &TestUser, call: &Value) -> Vec<String> {
    let number = call["call"].to_string();
    let said = person.agents(&["plan", "diff", "@last", "--name-only", "--call", &number]).stdout;
    said.lines().map(str::to_owned).collect()
}

#[test]
fn what_a_servers_tool_wrote_before_it_went_wrong_is_captured_with_its_call() {
    let one = json!([tool("t")]);
    let sum =
        json!({ "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"] });
    let lying = json!([{ "name": "t", "inputSchema": { "type": "object" }, "outputSchema": sum }]);
    let lies = json!({ "content": [], "structuredContent": { "sum": "many" } });
    let failed = json!({ "content": [{ "type": "text", "text": "no such row" }], "isError": true });
    let wrote = "echo half > made";
    let question =
        json!({ "message": "Which row?", "requestedSchema": { "type": "object", "properties": {} } });
    let asks =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": question }).to_string();
    let gives_up = called(
        2,
        "case \"$asked\" in *error*|*decline*) ;; *) echo it heard $asked >&2; exit 9;; esac",
        &failed,
    );
    let cases = [
        ("fails", server(&one, &called(2, wrote, &failed)), "no such row"),
        ("dies", server(&one, &format!("read -r asked; {wrote}; exit 7\n")), "disconnected"),
        ("hangs", server(&one, &format!("read -r asked; {wrote}; sleep 600\n")), "within 1 s"),
        (
            "says garbage",
            server(&one, &format!("read -r asked; {wrote}; echo what is this; exit 0\n")),
            "what is this",
        ),
        ("lies about its schema", server(&lying, &called(2, wrote, &lies)), "BAD_OUTPUT"),
        (
            "asks for input",
            server(&one, &format!("read -r asked; {wrote}; {}{gives_up}", line(&asks))),
            "no such row",
        ),
    ];
    for (what, script, says_so) in cases {
        let turns = [calls([("box_t", json!({}))]), says("I know.")];
        let world = world(&turns, "[box.t]", &script, "timeout = \"1s\"\n");
        let said = world.run(&[]);
        assert_eq!(said.exit, 0, "{what}: {said:?}");
        let person = &world.person;
        let calls = calls_of(person, "box.t");
        assert_eq!((calls.len(), calls[0]["state"].as_str()), (1, Some("failed")), "{what}: {calls:?}");
        assert!(calls[0]["error"].as_str().unwrap().contains(says_so), "{what}: {calls:?}");
        assert_eq!(changed_by(person, &calls[0]), ["made"], "{what}");
        assert_eq!(changed(person), ["made"], "{what}");
        assert_eq!(alive(person), 0, "{what}");
    }
}

#[test]
fn what_a_models_command_wrote_before_it_failed_or_was_ended_is_captured_with_its_call() {
    let turns = [
        calls([("run_command", json!({"command": "echo half > failed; exit 3"}))]),
        calls([("run_command", json!({"command": "echo half > late; sleep 600", "timeout_s": 1}))]),
        calls([("run_command", json!({"command": "echo half > killed; kill -9 $$"}))]),
        says("I know."),
    ];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let person = &world.person;
    let calls = calls_of(person, "run_command");
    let states: Vec<&str> = calls.iter().map(|call| call["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["failed", "timed_out", "failed"], "{calls:?}");
    for (call, file) in calls.iter().zip(["failed", "late", "killed"]) {
        assert_eq!(changed_by(person, call), [file]);
    }
    assert_eq!(alive(person), 0);
}

const SECRET: &str = "abcdefgh5678";
const OTHER_SECRET: &str = "ijklmnop9012";

/// What a model says that handles secrets in the file at `path`, in a turn of its own.
fn handling_secrets(path: &str, turn: usize) -> ScriptedTurn {
    let (first, second) = (format!("API_KEY={SECRET}\n"), format!("API_KEY={OTHER_SECRET}\n"));
    let curl = format!("curl -V -H 'Authorization: Bearer {SECRET}' || true");
    let cut_off = json!({"path": path, "content": first}).to_string();
    match turn {
        0 => calls([
            ("read_file", json!({"path": "./price.sh"})),
            ("write_file", json!({"path": path, "content": first})),
            ("edit_file", json!({"path": path, "old": first, "new": second})),
            ("run_command", json!({"command": "true", "env": {"API_TOKEN": SECRET}})),
            ("run_command", json!({"command": curl})),
            ("write_file", json!(cut_off[..cut_off.len() - 1])),
        ]),
        _ => says("Done."),
    }
}

#[test]
fn a_call_is_kept_as_it_was_asked_for_and_as_it_was_made_without_its_secrets() {
    for (way, is_absolute) in [("k.env", false), ("./k.env", false), ("k.env", true)] {
        let place: Arc<Mutex<String>> = Arc::new(Mutex::new(way.to_owned()));
        let server = Scripted::answering({
            let place = Arc::clone(&place);
            move |number, asked| {
                let said = handling_secrets(&place.lock().unwrap(), results(asked).len());
                Wire::Openai.script(number, &said)
            }
        });
        let world = ModelFixture { server, ..ModelFixture::new(Wire::Openai, Vec::new()) };
        world.settings(Wire::Openai, &world.server.url);
        if is_absolute {
            *place.lock().unwrap() = world.person.project().join(way).to_str().unwrap().to_owned();
        }
        let path = place.lock().unwrap().clone();
        let said = world.run(&[]);
        assert_eq!(said.exit, 0, "{said:?}");
        let read = calls_of(&world.person, "read_file");
        assert_eq!(read[0]["requested"], json!({"path": "./price.sh"}));
        assert_eq!(read[0]["effective"], json!({"path": "price.sh", "offset": 1, "limit": 2000}));
        let wrote = calls_of(&world.person, "write_file");
        let paths = (&wrote[0]["requested"]["path"], &wrote[0]["effective"]["path"]);
        assert_eq!(paths, (&json!(path), &json!("k.env")));
        let logs = world.person.json(&["plan", "logs", "@last"]).data();
        for call in logs["calls"].as_array().unwrap() {
            let kept = call.to_string();
            assert!(!kept.contains(SECRET) && !kept.contains(OTHER_SECRET), "{path}: {call}");
        }
        assert_eq!(logs.to_string().matches("[REDACTED:").count(), 15, "{path}: {logs}");
        // In the file it is what it is.
        assert_eq!(world.person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
        assert_eq!(world.person.read("k.env"), format!("API_KEY={OTHER_SECRET}\n"), "{path}");
    }
}

/// What lies where sandboxes are.
fn sandboxes(person: &TestUser) -> Vec<String> {
    let found = fs::read_dir(person.home().join("data/sandboxes")).into_iter().flatten();
    found.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn nothing_of_a_sandbox_is_left_however_a_plan_ends_and_its_entries_are_kept() {
    let person = TestUser::new();
    let look = "description: look\nread_only: true\nactor: {run: \"touch x 2> /dev/null || echo cannot\", writes: false}\n";
    person.write(".cleveragents/actions/look.yaml", look);
    let said = person.json(&["run", "look"]);
    assert_eq!((said.exit, &said.data()["changes"]["files"]), (0, &json!(0)), "{said:?}");
    assert_eq!(sandboxes(&person), [] as [&str; 0], "one that only reads");
    assert_eq!(person.json(&["run", "--", "sh", "-c", "echo half > failed; exit 3"]).exit, 1);
    assert_eq!((sandboxes(&person), changed(&person)), (Vec::new(), vec!["failed".to_owned()]));
    let script = "echo half > cancelled; echo at it; sleep 1000";
    let mut command = person.command(&person.project(), &["run", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains("\nat it") {
        assert_eq!(child.try_wait().unwrap(), None, "it ended and did not wait");
    }
    assert_eq!(sandboxes(&person).len(), 1, "it has one while it works");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert_eq!((sandboxes(&person), changed(&person)), (Vec::new(), vec!["cancelled".to_owned()]));
}

#[test]
fn after_a_crash_in_the_seventh_call_six_come_back_and_the_seventh_is_made_anew() {
    let person = TestUser::new();
    let outside = person.home().join("outside");
    fs::create_dir(&outside).unwrap();
    let place = outside.to_str().unwrap();
    let nodes: String = (1..=8)
        .map(|n| {
            let needs = if n == 1 { String::new() } else { format!("needs: [n{}], ", n - 1) };
            let waits =
                if n == 7 { "echo half > half; echo at it; test -e ready || sleep 1000; " } else { "" };
            format!("  n{n}: {{{needs}run: \"echo {n} >> {place}/ran; echo {n} >> f; {waits}true\"}}\n")
        })
        .collect();
    person.write(".cleveragents/actors/team.yaml", &format!("nodes:\n{nodes}"));
    let args = ["run", "--trust", "--actor", "team", "--writable", place, "a task"];
    let mut command = person.command(&person.project(), &args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains("\nat it") {
        assert_eq!(child.try_wait().unwrap(), None, "it ended and did not wait");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    person.write("ready", "");
    let said = person.json(&["plan", "resume", "@last"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let ran = fs::read_to_string(outside.join("ran")).unwrap();
    assert_eq!(ran, "1\n2\n3\n4\n5\n6\n7\n7\n8\n", "only the seventh was begun twice");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("f"), "1\n2\n3\n4\n5\n6\n7\n8\n", "what it had half done was taken back");
}

#[test]
fn two_checks_that_print_keep_each_its_own_output() {
    let person = TestUser::new();
    let checks = ["--check", "echo this is one", "--check", "echo this is two; exit 1"];
    let said = person.json(&[&["run"][..], &checks, &["--", "touch", "made"]].concat());
    assert_eq!((said.exit, &said.data()["validations"]["verdict"]), (4, &json!("failed")), "{said:?}");
    let logs = person.json(&["plan", "logs", "@last"]).data();
    let printed: Vec<(&str, &str)> = logs["calls"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|call| call["node"].as_str().unwrap().starts_with("validate/"))
        .map(|call| (call["state"].as_str().unwrap(), call["stdout"].as_str().unwrap()))
        .collect();
    assert_eq!(printed, [("ok", "this is one\n"), ("failed", "this is two\n")], "{logs}");
}

#[test]
fn a_program_that_asks_for_input_finds_nobody_and_fails_in_words() {
    let person = TestUser::new();
    let asks = "echo half > half; printf 'Do you trust it? [y/N] '; read answer || { echo nobody answers >&2; exit 9; }";
    person.write(".cleveragents/actors/asks.yaml", &format!("run: {asks}\n"));
    let said = person.json(&["run", "a task", "--actor", "asks"]);
    assert_eq!((said.exit, said.code()), (1, "COMMAND_FAILED".to_owned()), "{said:?}");
    let records = person.json(&["plan", "errors", "@last"]).data()["records"].clone();
    assert_eq!(
        (records.as_array().unwrap().len(), &records[0]["category"]),
        (1, &json!("tool")),
        "{records}"
    );
    let logs = person.agents(&["plan", "logs", "@last"]).stdout;
    assert!(logs.contains("[y/N]") && logs.contains("nobody answers"), "{logs}");
    assert_eq!((changed(&person), alive(&person)), (vec!["half".to_owned()], 0));
    // Nor at the terminal of who runs it: what is typed there is not for what runs in a sandbox.
    let at_terminal = "exec 3<> /dev/tty || exit 8; read answer <&3";
    person.write(".cleveragents/actors/asks.yaml", &format!("run: {at_terminal}\n"));
    let mut terminal = Terminal::call(&person, &["run", "a task", "--actor", "asks"]);
    terminal.types("y\r");
    let left = terminal.ends();
    assert_eq!(left.exit, Some(1), "{}", left.text);
}
