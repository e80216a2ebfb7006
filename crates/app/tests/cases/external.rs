//! Agent programs over the Agent Client Protocol as nodes of a plan, in its sandbox.
//!
//! Most agents here are lines of a shell that answer in the order in which they are asked; one is a real one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::support::{CommandOutput, TestUser, alive};
use testkit::peers::peer;

/// Reads a line; `$line` has it.
const READ: &str = "read -r line\n";
/// Stays until nobody speaks to it any more.
const STAY: &str = "cat > /dev/null\n";

fn says(message: &Value) -> String {
    format!("printf '%s\\n' '{message}'\n")
}

fn result(id: u32, result: &Value) -> String {
    says(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// Is ready and has got its prompt, which is in `$line`.
fn prompted() -> String {
    let ready = result(0, &json!({ "protocolVersion": 1 }));
    format!("{READ}{ready}{READ}{}{READ}", result(1, &json!({ "sessionId": "s1" })))
}

fn text(text: &str) -> String {
    let update =
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
    says(&json!({
        "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s1", "update": update },
    }))
}

/// Asks for something, and keeps the answer.
fn asks(id: u32, method: &str, params: &Value) -> String {
    let asked = says(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    format!("{asked}{READ}printf '%s\\n' \"$line\" >> heard\n")
}

fn stops(reason: &str) -> String {
    result(2, &json!({ "stopReason": reason }))
}

/// A person whose actor `agent` is this program, with more keys.
fn person(script: &str, more: &str) -> TestUser {
    let person = TestUser::new();
    person.write("a.txt", "one\ntwo\nthree\n");
    person.write("agent.sh", script);
    person.git(&["add", "."]);
    person.git(&["commit", "-qm", "first"]);
    actor(&person, &format!("description: An agent\nexternal: [sh, agent.sh]\nretries: 0\n{more}"));
    person
}

/// The user's own, so that nothing has to be consented to.
fn actor(person: &TestUser, yaml: &str) {
    let dir = person.home().join(".config/cleveragents/actors");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("agent.yaml"), yaml).unwrap();
}

fn run(person: &TestUser) -> CommandOutput {
    person.json(&["run", "--actor", "agent", "Make it good"])
}

fn changed(person: &TestUser) -> Vec<String> {
    let said = person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
    said.lines().map(str::to_owned).collect()
}

#[test]
fn an_agent_works_in_the_sandbox_and_its_changes_are_the_plans() {
    let person = person("", "");
    let at = |name: &str| person.project().join(name).to_str().unwrap().to_owned();
    let of = |path: &str| json!({ "sessionId": "s1", "path": path });
    let part = json!({ "sessionId": "s1", "path": at("a.txt"), "line": 2, "limit": 1 });
    let write = json!({ "sessionId": "s1", "path": at("deep/b.txt"), "content": "through us\n" });
    let options = json!([{ "optionId": "y", "name": "Yes", "kind": "allow_once" }]);
    let may =
        json!({ "sessionId": "s1", "toolCall": { "toolCallId": "t", "title": "Edit" }, "options": options });
    let script = prompted()
        + "printf '%s\\n' \"$line\" > task\n"
        + &text("I shall look.")
        + &asks(10, "fs/read_text_file", &of(&at("a.txt")))
        + &asks(11, "fs/read_text_file", &part)
        + &asks(12, "fs/read_text_file", &of("/etc/hostname"))
        + &asks(13, "fs/read_text_file", &of(&at("../secret")))
        + &asks(14, "fs/write_text_file", &write)
        + &asks(15, "session/request_permission", &may)
        + "echo by hand > c.txt\necho one of mine >&2\n"
        + &text("It is done.")
        + &stops("end_turn")
        + STAY;
    fs::write(person.project().join("agent.sh"), script).unwrap();
    fs::write(person.project().parent().unwrap().join("secret"), "s").unwrap();
    let said = run(&person);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(changed(&person), ["c.txt", "deep/b.txt", "heard", "task"]);
    assert!(!person.project().join("c.txt").exists());
    let logs = person.agents(&["plan", "logs", "@last"]).stdout;
    assert!(logs.contains("I shall look.") && logs.contains("It is done."), "{logs}");
    assert!(logs.contains("one of mine"), "{logs}");
    assert_eq!(alive(&person), 0);

    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("deep/b.txt"), "through us\n");
    let task: Value = serde_json::from_str(&person.read("task")).unwrap();
    let prompt = task["params"]["prompt"][0]["text"].as_str().unwrap();
    assert!(prompt.contains("Make it good"), "{prompt}");
    let heard: Vec<Value> =
        person.read("heard").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(heard[0]["result"]["content"], "one\ntwo\nthree\n");
    assert_eq!(heard[1]["result"]["content"], "two\n");
    for refused in &heard[2..4] {
        assert!(refused["error"]["message"].is_string(), "{refused}");
    }
    assert_eq!(heard[5]["result"]["outcome"]["optionId"], "y");
}

#[test]
fn an_agent_that_is_to_write_nothing_cannot() {
    let person = person("", "writes: false\n");
    let path = person.project().join("b.txt").to_str().unwrap().to_owned();
    let params = json!({ "sessionId": "s1", "path": path, "content": "no" }).to_string();
    let asked = format!(r#"{{"jsonrpc":"2.0","id":10,"method":"fs/write_text_file","params":{params}}}"#);
    let back = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}\n"#;
    let script = prompted()
        + &format!("printf '%s\\n' '{asked}'\n{READ}")
        + "(touch c.txt) 2> /dev/null && own=written || own=refused\n"
        + "case \"$line\" in *'cannot be written: this node is read-only'*) ours=refused;; *) ours=written;; esac\n"
        + &format!("printf '{back}' \"$own $ours\"\n")
        + &stops("end_turn")
        + STAY;
    fs::write(person.project().join("agent.sh"), script).unwrap();
    let said = run(&person);
    assert_eq!(said.exit, 0, "{said:?}");
    let logs = person.agents(&["plan", "logs", "@last"]).stdout;
    assert!(logs.contains("refused refused"), "{logs}");
    assert_eq!(changed(&person), Vec::<String>::new());
}

#[test]
fn an_agent_that_fails_is_told_by_its_kind_and_what_it_changed_is_kept() {
    let half = "echo half > half.txt\n";
    let login = r#"printf '%s\n' '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"log in"}}'"#;
    let ready = result(0, &json!({ "protocolVersion": 1 }));
    let cases = [
        // It dies.
        (
            prompted() + half + "echo no model >&2; exit 3\n",
            "connection",
            "disconnected in session/prompt; it ended with exit status: 3; its error output: no model",
        ),
        // It says what nobody understands.
        (
            half.to_owned() + READ + "printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":7}'\n" + STAY,
            "tool",
            "broke the protocol in initialize",
        ),
        // It asks at a terminal that is not there, and waits for ever.
        (
            half.to_owned() + "printf 'Do you trust this directory? [y/N] '\n" + STAY,
            "timeout",
            "did not answer within 2 s in initialize",
        ),
        // It works for ever.
        (prompted() + half + "sleep 600\n", "timeout", "did not answer within 2 s in session/prompt"),
        // It wants somebody to log in.
        (half.to_owned() + READ + &ready + READ + login + "\n" + STAY, "auth", "requires a login"),
        // Its model refuses.
        (
            prompted() + half + &text("I will not.") + &stops("refusal") + STAY,
            "model_output",
            "its model refused",
        ),
        (prompted() + half + &stops("max_tokens") + STAY, "model_output", "was cut off"),
    ];
    for (script, category, says) in cases {
        let person = person(&script, "timeout: 2s\n");
        let said = run(&person);
        assert!([1, 6].contains(&said.exit), "{says}: {said:?}");
        let error = person.json(&["plan", "status"]).data()["error"].clone();
        assert_eq!(error["category"], category, "{says}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(says) && message.contains("the agent sh"), "{says}: {message}");
        assert_eq!(changed(&person), ["half.txt"], "{says}");
        assert_eq!(alive(&person), 0, "{says}");
    }
}

#[test]
fn the_tries_of_an_agent_are_counted_over_a_restart() {
    let person = person(&(prompted() + "exit 3\n"), "");
    let said = run(&person);
    assert_ne!(said.exit, 0, "{said:?}");
    let works = prompted() + "echo done > done.txt\n" + &stops("end_turn") + STAY;
    fs::write(person.project().join("agent.sh"), works).unwrap();
    let said = person.json(&["plan", "resume", "@last"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(said.data()["steps"][0]["tries"], 2, "{said:?}");
}

#[test]
fn an_agent_program_that_is_not_there_is_told() {
    let person = person("", "");
    actor(&person, "description: x\nexternal: [no-such-agent, --acp]\n");
    let said = run(&person);
    assert_eq!((said.exit, said.code()), (4, "PREFLIGHT_FAILED".to_owned()), "{said:?}");
    assert!(said.stdout.contains("`no-such-agent` was not found on PATH"), "{said:?}");
}

#[test]
fn a_cancel_in_the_middle_leaves_no_process_and_keeps_what_was_done() {
    let script = prompted() + "echo half > half.txt; (setsid sleep 600 &)\n" + &text("ready") + "sleep 600\n";
    let person = person(&script, "");
    let mut command =
        person.command(&person.project(), &["run", "--actor", "agent", "--format", "json", "go on"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains("ready") {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was ready");
    }
    assert!(alive(&person) > 0);
    let cancelled = person.agents(&["plan", "cancel", "@last"]);
    assert_eq!(cancelled.exit, 0, "{cancelled:?}");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert_eq!(alive(&person), 0);
    assert_eq!(person.json(&["plan", "status"]).data()["state"], "cancelled");
    assert_eq!(changed(&person), ["half.txt"]);
}

/// Cancels what runs in this process, and waits for its end.
fn cancelled(person: &TestUser, mut child: std::process::Child) {
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains("ready") {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was ready");
    }
    let cancelled = person.agents(&["plan", "cancel", "@last"]);
    assert_eq!(cancelled.exit, 0, "{cancelled:?}");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert_eq!(alive(person), 0);
}

#[test]
fn an_agent_hears_of_a_cancel_before_it_is_killed_and_can_put_things_in_order() {
    // It is told by a line of its own, tidies up and says that it has stopped.
    let tidies = "case \"$line\" in *session/cancel*) echo tidy > tidy.txt;; esac\n";
    let script =
        prompted() + "echo half > half.txt\n" + &text("ready") + READ + tidies + &stops("cancelled") + STAY;
    let person = person(&script, "");
    let words = ["run", "--actor", "agent", "--format", "json", "go on"];
    let mut command = person.command(&person.project(), &words);
    cancelled(&person, command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    assert_eq!(person.json(&["plan", "status"]).data()["state"], "cancelled");
    assert_eq!(changed(&person), ["half.txt", "tidy.txt"]);
}

#[test]
fn a_known_agent_that_can_be_spoken_to_is_and_logs_in_by_its_key() {
    let person = person("", "");
    let bin = person.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(person.home().join(".codex")).unwrap();
    let program = |name: &str, script: &str| {
        use std::os::unix::fs::PermissionsExt;
        fs::write(bin.join(name), format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("codex", "echo as a command > how.txt\n");
    let ready = result(
        0,
        &json!({ "protocolVersion": 1, "authMethods": [{ "id": "openai-api-key", "name": "Key" }] }),
    );
    let asked = "printf '%s\\n' \"$line\" >> how.txt\n";
    let script = format!("{READ}{ready}{READ}{asked}")
        + &result(1, &json!({}))
        + READ
        + &result(2, &json!({ "sessionId": "s1" }))
        + READ
        + &result(3, &json!({ "stopReason": "end_turn" }))
        + STAY;
    program("codex-acp", &script);
    let how = |key: &str| {
        // What is writable is also seen, wherever this home lies.
        let seen = bin.to_str().unwrap();
        let words = ["run", "--format", "json", "--writable", seen, "--actor", "codex", "Make it good"];
        let mut command = person.command(&person.project(), &words);
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let said = super::support::answer(command.env("PATH", path).env("OPENAI_API_KEY", key));
        assert_eq!(said.exit, 0, "{said:?}");
        person.agents(&["plan", "diff", "@last"]).stdout
    };
    let spoken = how("sk-0123456789abcdef");
    assert!(spoken.contains("authenticate") && spoken.contains("openai-api-key"), "{spoken}");
    // Without a key nobody could log in for it: it is run as a command, as ever.
    assert!(how("").contains("as a command"));
}

/// The root of this repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// A scripted model; it ends with this.
struct Model {
    process: std::process::Child,
    url: String,
}

impl Model {
    fn start() -> Model {
        use std::io::BufRead;
        let mut command = Command::new("python3");
        command.arg(root().join("examples/scripted-model/server.py"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let mut lines = std::io::BufReader::new(process.stdout.take().unwrap()).lines();
        Model { process, url: lines.next().unwrap().unwrap() }
    }
}

impl Model {
    fn port(&self) -> u16 {
        let address = self.url.split_once("127.0.0.1:").unwrap().1;
        address.split('/').next().unwrap().parse().unwrap()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn codex_over_the_protocol_edits_a_project_in_its_sandbox() {
    let person = TestUser::new();
    for file in ["README.md", "greet.sh", "lib/greet.sh", "names.txt", "rename.sh", "test.sh"] {
        person.write(file, &fs::read_to_string(root().join("examples/sample").join(file)).unwrap());
    }
    person.git(&["add", "."]);
    person.git(&["commit", "-qm", "first"]);
    let model = Model::start();
    let program = peer("codex-acp", "node_modules/.bin/codex-acp");
    // Codex does not like a home among temporary files.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let config = format!(
        "model = \"scripted\"\nmodel_provider = \"scripted\"\n[model_providers.scripted]\nname = \"scripted\"\n\
         base_url = \"{}\"\nwire_api = \"responses\"\n[analytics]\nenabled = false\n",
        model.url
    );
    fs::write(home.path().join("config.toml"), config).unwrap();
    let words =
        json!([program, "-c", "sandbox_mode=\"danger-full-access\"", "-c", "approval_policy=\"untrusted\""]);
    // What is writable is also seen, wherever the target directory lies.
    let seen = json!([home.path(), program.ancestors().nth(3).unwrap()]);
    let env = json!({ "CODEX_HOME": home.path(), "HOME": home.path() });
    let yaml = json!({
        "description": "Codex", "external": words, "network": true, "allow_loopback": [model.port()], "writable": seen, "env": env, "retries": 0,
    });
    // JSON is YAML.
    actor(&person, &yaml.to_string());
    let said = person.json(&["run", "--actor", "agent", "--check", "sh test.sh", "Welcome everybody"]);
    assert_eq!(said.exit, 0, "{said:?} {}", person.agents(&["plan", "logs", "@last"]).stdout);
    assert_eq!(changed(&person), ["lib/greet.sh", "test.sh"]);
    let logs = person.agents(&["plan", "logs", "@last"]).stdout;
    assert!(logs.contains("Everybody is welcomed now, and the test expects it."), "{logs}");
    assert_eq!(alive(&person), 0);
    assert!(person.read("lib/greet.sh").contains("Hello, %s!"));
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert!(person.read("lib/greet.sh").contains("Welcome, %s!"));
}

/// Is ready, says whether it loads sessions, and keeps all that it is asked in `heard`.
fn keeps_all(loads: bool) -> String {
    let ready = result(0, &json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": loads } }));
    let keep = "printf '%s\\n' \"$line\" >> heard\n";
    let opened = result(1, &json!({ "sessionId": "s1" }));
    format!(
        "{READ}{ready}{READ}{keep}{}{opened}{READ}{keep}{}{}{STAY}",
        text("of before"),
        text("All done."),
        stops("end_turn")
    )
}

#[test]
fn an_agent_that_loads_sessions_continues_its_own_and_another_gets_its_last_answer() {
    for loads in [true, false] {
        let person = person(&keeps_all(loads), "");
        let ran = run(&person);
        assert_eq!(ran.exit, 0, "{ran:?}");
        let revised = person.json(&["plan", "revise", "@last", "keep the name"]);
        assert_eq!(revised.exit, 0, "{revised:?}");
        assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
        let heard = person.read("heard");
        let lines: Vec<Value> = heard.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (opening, prompt) = (&lines[2], lines[3]["params"]["prompt"][0]["text"].as_str().unwrap());
        assert!(
            prompt.contains("keep the name") && prompt.contains("already in the working tree"),
            "{prompt}"
        );
        match loads {
            true => {
                assert_eq!(
                    (&opening["method"], &opening["params"]["sessionId"]),
                    (&json!("session/load"), &json!("s1"))
                );
                assert!(!prompt.contains("Make it good"), "it knows the task: {prompt}");
            }
            false => {
                assert_eq!(opening["method"], "session/new");
                assert!(prompt.contains("Make it good") && prompt.contains("All done."), "{prompt}");
            }
        }
    }
}
