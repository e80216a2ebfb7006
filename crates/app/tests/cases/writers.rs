//! Writers that are stopped after they changed the sandbox and before that was captured: each change is
//! recorded for the node and the call that made it, the next writer records only its own, and no call is left
//! running.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::model_world::{KEY, Wire, calls};
use super::servers::{called, server, tool};
use super::support::{CommandOutput, TestUser, answer};
use testkit::scripted_server::{Asked, Script, Scripted};

/// What the model of the writer is asked, and the one that fails when the writer has changed something.
const WRITE: &str = "Be the writer.";
const FAIL: &str = "Be the sibling that fails.";
/// A file of the project with which the model of the writer fails when it has called its tool.
const FAILS_LATER: &str = "fails-later";
/// Limits of time, each tried if the writer had not begun by the one before.
const SECONDS: [u32; 4] = [3, 12, 40, 120];

/// Somebody who changes the sandbox, and does not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// A tool of ours that a model calls, and that takes its time.
    ModelTool,
    /// A tool of a server, which does not answer.
    ServerTool,
    /// A server that writes and does not shake hands.
    ServerStart,
    /// A command.
    Command,
    /// An agent program over the Agent Client Protocol, which does not answer.
    Acp,
    /// The same, which writes through us.
    AcpThroughUs,
    /// An agent program that is run as a command with its task.
    AgentCommand,
}

const ALL: [Writer; 7] = [
    Writer::ModelTool,
    Writer::ServerTool,
    Writer::ServerStart,
    Writer::Command,
    Writer::Acp,
    Writer::AcpThroughUs,
    Writer::AgentCommand,
];

const READ: &str = "read -r line\n";

fn line(message: &Value) -> String {
    format!("printf '%s\\n' '{message}'\n")
}

fn result(id: u32, result: &Value) -> String {
    line(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

impl Writer {
    /// The keys of its node.
    fn keys(self) -> String {
        match self {
            Writer::ModelTool => format!("model: scripted/m-1, prompt: {WRITE}, tools: [delete_file]"),
            Writer::ServerTool | Writer::ServerStart => {
                format!("model: scripted/m-1, prompt: {WRITE}, tools: [box.*]")
            }
            Writer::Command => "run: \"echo mine > a.txt; sleep 1000\"".to_owned(),
            Writer::Acp | Writer::AcpThroughUs => "external: [sh, program.sh]".to_owned(),
            Writer::AgentCommand => "run: [sh, program.sh, \"{{task}}\"]".to_owned(),
        }
    }

    /// The program that it is, or that its server is.
    fn program(self, person: &TestUser) -> String {
        let wrote = "echo mine > a.txt\n";
        let prompted = {
            let ready = result(0, &json!({ "protocolVersion": 1 }));
            format!("{READ}{ready}{READ}{}{READ}", result(1, &json!({ "sessionId": "s1" })))
        };
        match self {
            Writer::ModelTool | Writer::Command => String::new(),
            Writer::ServerTool => server(&json!([tool("t")]), &format!("read -r asked\n{wrote}")),
            Writer::ServerStart => format!("{wrote}cat > /dev/null\n"),
            Writer::Acp => format!("{prompted}{wrote}cat > /dev/null\n"),
            Writer::AcpThroughUs => {
                let path = person.project().join("a.txt").to_str().unwrap().to_owned();
                let params = json!({ "sessionId": "s1", "path": path, "content": "mine\n" });
                let asked =
                    json!({ "jsonrpc": "2.0", "id": 9, "method": "fs/write_text_file", "params": params });
                format!("{prompted}{}cat > /dev/null\n", line(&asked))
            }
            Writer::AgentCommand => format!("{wrote}sleep 1000\n"),
        }
    }

    /// The file that it changes.
    fn file(self) -> &'static str {
        match self {
            Writer::ModelTool => "big.bin",
            Writer::ServerTool
            | Writer::ServerStart
            | Writer::Command
            | Writer::Acp
            | Writer::AcpThroughUs
            | Writer::AgentCommand => "a.txt",
        }
    }

    /// The tool of its call.
    fn tool(self) -> &'static str {
        match self {
            Writer::ModelTool => "delete_file",
            Writer::ServerTool => "box.t",
            Writer::ServerStart => "start_server",
            Writer::Command | Writer::Acp | Writer::AcpThroughUs | Writer::AgentCommand => "run_command",
        }
    }

    /// Whether it has begun to change the sandbox.
    fn has_begun(self, person: &TestUser) -> bool {
        match self {
            // Its base is saved first, which takes a while: it is in the middle of it when the call is there.
            Writer::ModelTool => logged(person).iter().any(|call| call["tool"] == self.tool()),
            Writer::ServerTool
            | Writer::ServerStart
            | Writer::Command
            | Writer::Acp
            | Writer::AcpThroughUs
            | Writer::AgentCommand => holds(&person.home().join("data/sandboxes"), "a.txt", "mine\n"),
        }
    }
}

/// Whether a file of this name with this content is somewhere below a directory.
fn holds(dir: &Path, name: &str, content: &str) -> bool {
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            } else if entry.file_name() == name
                && fs::read_to_string(entry.path()).is_ok_and(|text| text == content)
            {
                return true;
            }
        }
    }
    false
}

/// The calls of the newest plan; none if there is no plan yet.
fn logged(person: &TestUser) -> Vec<Value> {
    let logs = person.json(&["plan", "logs", "@last"]);
    if logs.exit != 0 {
        return Vec::new();
    }
    logs.data()["calls"].as_array().unwrap().clone()
}

/// Of each file that the newest plan changed, the nodes and tools of the calls that it is recorded for. No
/// call runs.
fn authors(person: &TestUser) -> BTreeMap<String, Vec<(String, String)>> {
    let mut authors: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for call in logged(person) {
        assert!(!["running", "broken_off"].contains(&call["state"].as_str().unwrap()), "{call}");
        let word = |key: &str| call[key].as_str().unwrap().to_owned();
        let no = call["call"].to_string();
        let names = person.agents(&["plan", "diff", "@last", "--call", &no, "--name-only"]).stdout;
        for name in names.lines() {
            authors.entry(name.to_owned()).or_default().push((word("node"), word("tool")));
        }
    }
    authors
}

fn author(node: &str, tool: &str) -> Vec<(String, String)> {
    vec![(node.to_owned(), tool.to_owned())]
}

/// A person, the writer, and a server that speaks for the models.
struct Bench {
    person: Arc<TestUser>,
    writer: Writer,
    _server: Scripted,
}

impl Bench {
    fn new(writer: Writer) -> Bench {
        let person = Arc::new(TestUser::new());
        person.write("program.sh", &writer.program(&person));
        person.git(&["add", "."]);
        person.git(&["commit", "-qm", "first"]);
        if writer == Writer::ModelTool {
            let big = fs::File::create(person.project().join("big.bin")).unwrap();
            big.set_len(600 << 20).unwrap();
        }
        let seen = Arc::clone(&person);
        let server = Scripted::answering(move |_, asked| answered(&seen, writer, asked));
        let settings = format!(
            "[providers.scripted]\nspeaks = \"openai\"\nurl = \"{}/v1\"\nkey_env = \"SCRIPTED_KEY\"\nidle = \"10m\"\n\
             [prices.\"scripted/m-1\"]\ninput = 2\noutput = 10\n\
             [mcp.box]\ncommand = [\"sh\", \"program.sh\"]\n",
            server.url
        );
        fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
        fs::write(person.config_file(), settings).unwrap();
        Bench { person, writer, _server: server }
    }

    /// An actor of the user's own.
    fn actor(&self, name: &str, yaml: &str) {
        let dir = self.person.home().join(".config/cleveragents/actors");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{name}.yaml")), yaml).unwrap();
    }

    /// The writer as the node `a`, with more keys.
    fn node(&self, more: &str) -> String {
        format!("  a: {{{}, retries: 0{more}}}\n", self.writer.keys())
    }

    fn words(more: &[&str]) -> Vec<String> {
        let words = ["run", "--format", "json", "--actor", "team"].iter().chain(more).chain(&["a task"]);
        words.map(|word| (*word).to_owned()).collect()
    }

    fn run(&self, more: &[&str]) -> CommandOutput {
        let mut command = self.person.command(&self.person.project(), &Self::words(more));
        answer(command.env("SCRIPTED_KEY", KEY))
    }

    fn start(&self) -> Child {
        let mut command = self.person.command(&self.person.project(), &Self::words(&[]));
        command.env("SCRIPTED_KEY", KEY).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn until_begun(&self) {
        while !self.writer.has_begun(&self.person) {}
    }

    /// Runs the team with a limit of time, longer ones if the writer had not begun by then.
    fn run_timed(&self, run: impl Fn(u32) -> CommandOutput) -> CommandOutput {
        let mut last = None;
        for seconds in SECONDS {
            let answer = run(seconds);
            if logged(&self.person).iter().any(|call| call["tool"] == self.writer.tool())
                && authors(&self.person).contains_key(self.writer.file())
            {
                return answer;
            }
            last = Some(answer);
        }
        panic!("{:?} never began, or what it changed is lost: {last:?}", self.writer);
    }

    /// The writer's file is recorded for its call and for nothing else.
    fn assert_own(&self, node: &str) {
        let (authors, writer) = (authors(&self.person), self.writer);
        assert_eq!(authors.get(writer.file()), Some(&author(node, writer.tool())), "{writer:?}: {authors:?}");
    }
}

/// What the models are answered.
fn answered(person: &TestUser, writer: Writer, asked: &Asked) -> Script {
    let body = asked.body.to_string();
    if body.contains(FAIL) {
        while !writer.has_begun(person) {}
        return Script::status("400 Bad Request", &[], r#"{"error":{"message":"no"}}"#);
    }
    if body.contains("\"role\":\"tool\"") && person.project().join(FAILS_LATER).exists() {
        return Script::status("400 Bad Request", &[], r#"{"error":{"message":"no"}}"#);
    }
    if body.contains("\"role\":\"tool\"") {
        // The writer does not end by itself.
        return Script::silence();
    }
    let said = match writer {
        Writer::ModelTool => calls([("delete_file", json!({ "path": "big.bin" }))]),
        Writer::ServerTool
        | Writer::ServerStart
        | Writer::Command
        | Writer::Acp
        | Writer::AcpThroughUs
        | Writer::AgentCommand => calls([("box_t", json!({}))]),
    };
    Wire::Openai.script(0, &said)
}

#[test]
fn what_a_writer_had_changed_when_its_time_was_up_is_its_own_and_not_that_of_the_next_writer() {
    for writer in ALL {
        let bench = Bench::new(writer);
        let answer = bench.run_timed(|seconds| {
            let next = "  b: {needs: [a], on: failure, run: [tee, b.txt], stdin: \"a changed {{nodes.a.changed}}\"}\n";
            bench.actor("team", &format!("nodes:\n{}{next}", bench.node(&format!(", timeout: {seconds}s"))));
            bench.run(&[])
        });
        assert_eq!(answer.exit, 0, "{writer:?}: {answer:?}");
        bench.assert_own("a");
        assert_eq!(authors(&bench.person)["b.txt"], author("b", "run_command"), "{writer:?}");
        // A node that failed says what it changed.
        let diff = bench.person.agents(&["plan", "diff", "@last", "b.txt"]).stdout;
        assert!(diff.contains("+a changed 1"), "{writer:?}: {diff}");
    }
}

#[test]
fn a_check_after_a_stopped_writer_is_believed_only_for_what_is_recorded() {
    for writer in [Writer::ModelTool, Writer::ServerTool, Writer::Acp] {
        let bench = Bench::new(writer);
        let file = writer.file();
        let check = match writer == Writer::ModelTool {
            true => format!("test ! -e {file}"),
            false => format!("grep -q mine {file}"),
        };
        let answer = bench.run_timed(|seconds| {
            // The next node only reads.
            let next = "  b: {needs: [a], on: failure, run: \"ls\", writes: false}\n";
            bench.actor("team", &format!("nodes:\n{}{next}", bench.node(&format!(", timeout: {seconds}s"))));
            bench.run(&["--check", &check])
        });
        assert_eq!(answer.exit, 0, "{writer:?}: {answer:?}");
        bench.assert_own("a");
        let names = bench.person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
        assert_eq!(names, format!("{file}\n"), "{writer:?}");
        let status = bench.person.json(&["plan", "status", "@last"]).data();
        assert_eq!(status["changes"]["files"], 1, "{writer:?}: {status}");
    }
}

#[test]
fn what_a_writer_had_changed_when_a_sibling_failed_is_its_own_and_not_that_of_the_next_writer() {
    for writer in ALL {
        let bench = Bench::new(writer);
        let sibling = format!("  s: {{model: scripted/m-1, prompt: {FAIL}, retries: 0}}\n");
        bench.actor("pair", &format!("nodes:\n{}{sibling}result: a\n", bench.node("")));
        let next = "  b: {needs: [pair], on: failure, run: \"echo b > b.txt\"}\n";
        bench.actor("team", &format!("nodes:\n  pair: {{actor: pair}}\n{next}"));
        let answer = bench.run(&[]);
        assert_eq!(answer.exit, 0, "{writer:?}: {answer:?}");
        bench.assert_own("pair/a");
        assert_eq!(authors(&bench.person)["b.txt"], author("b", "run_command"), "{writer:?}");
    }
}

#[test]
fn what_a_writer_had_changed_when_its_plan_was_cancelled_is_its_own() {
    for writer in ALL {
        let bench = Bench::new(writer);
        bench.actor("team", &format!("nodes:\n{}", bench.node("")));
        let mut run = bench.start();
        bench.until_begun();
        let cancelled = bench.person.json(&["plan", "cancel", "@last"]);
        assert_eq!((cancelled.exit, run.wait().unwrap().code()), (0, Some(5)), "{writer:?}: {cancelled:?}");
        bench.assert_own("a");
    }
}

#[test]
fn what_a_writer_had_changed_when_a_limit_of_its_plan_was_reached_is_its_own() {
    for writer in ALL {
        let bench = Bench::new(writer);
        bench.actor("team", &format!("nodes:\n{}", bench.node("")));
        let answer = bench.run_timed(|seconds| bench.run(&["--limit", &format!("time={seconds}s")]));
        assert_eq!(answer.exit, 6, "{writer:?}: {answer:?}");
        bench.assert_own("a");
    }
}

#[test]
fn a_plan_whose_process_was_killed_between_change_and_capture_has_no_running_call_when_it_is_resumed() {
    let bench = Bench::new(Writer::Command);
    let run = "echo mine > a.txt; test -e proceed || sleep 1000";
    bench.actor(
        "team",
        &format!("nodes:\n  a: {{run: \"{run}\"}}\n  b: {{needs: [a], run: \"echo b > b.txt\"}}\n"),
    );
    let mut started = bench.start();
    bench.until_begun();
    kill_process(Pid::from_child(&started), Signal::KILL).unwrap();
    started.wait().unwrap();
    bench.person.write("proceed", "");
    let resumed = bench.person.json(&["plan", "resume", "@last"]);
    assert_eq!(resumed.exit, 0, "{resumed:?}");
    let authors = authors(&bench.person);
    assert_eq!(
        (&authors["a.txt"], &authors["b.txt"]),
        (&author("a", "run_command"), &author("b", "run_command"))
    );
    let states: Vec<Value> = logged(&bench.person).iter().map(|call| call["state"].clone()).collect();
    assert_eq!(states, ["cancelled", "ok", "ok"]);
}

#[test]
fn a_server_that_writes_between_its_calls_writes_for_its_own_node() {
    // It writes when it is asked to end, which is when its node has failed and no call of it runs.
    let script = server(&json!([tool("t")]), &called(2, "", &json!({ "content": [] })));
    let bench = Bench::new(Writer::ServerTool);
    bench.person.write("program.sh", &format!("{script}echo mine > a.txt\n"));
    bench.person.write(FAILS_LATER, "");
    let next = "  b: {needs: [a], on: failure, run: \"echo b > b.txt\"}\n";
    bench.actor("team", &format!("nodes:\n{}{next}", bench.node("")));
    let answer = bench.run(&[]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let authors = authors(&bench.person);
    assert_eq!(authors["b.txt"], author("b", "run_command"), "{authors:?}");
    assert_eq!(authors.get("a.txt"), Some(&author("a", "end_server")), "{authors:?}");
}
