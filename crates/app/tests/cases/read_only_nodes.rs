//! Programs that may only look, on a machine where nothing keeps them from writing.
//!
//! The machine is made so: a filter refuses the calls that make namespaces, mounts and Landlock's rules.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;

use super::model_world::{KEY, calls, says};
use super::servers::{called, changed, server, tool, world};
use super::support::{CommandOutput, TestUser, answer};

/// Runs its arguments under a filter. Numbers of calls are those of the machine.
const FILTER: &str = r#"
import ctypes, os, platform, struct, sys
UNSHARE, SETNS, CLONE, CLONE3 = {"x86_64": (272, 308, 56, 435), "aarch64": (97, 268, 220, 435)}[platform.machine()]
LANDLOCK, NEWNS, EPERM, ENOSYS = 444, 0x20000, 1, 38
def op(code, jt, jf, k): return struct.pack("HBBI", code, jt, jf, k)
LOAD, JEQ, JSET, RET = 0x20, 0x15, 0x45, 0x06
def deny(errno): return op(RET, 0, 0, 0x00050000 | errno)
program = b"".join([
    op(LOAD, 0, 0, 0),
    op(JEQ, 0, 1, LANDLOCK), deny(ENOSYS),
    op(JEQ, 0, 1, CLONE3), deny(ENOSYS),
    op(JEQ, 0, 1, UNSHARE), deny(EPERM),
    op(JEQ, 0, 1, SETNS), deny(EPERM),
    op(JEQ, 0, 3, CLONE), op(LOAD, 0, 0, 16), op(JSET, 0, 1, NEWNS), deny(EPERM),
    op(RET, 0, 0, 0x7fff0000),
])
libc = ctypes.CDLL(None, use_errno=True)
held = ctypes.create_string_buffer(program)
fprog = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, fprog, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execvp(sys.argv[1], sys.argv[1:])
"#;

/// A person on such a machine, who lets commands run all the same.
fn person() -> TestUser {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    without_walls(&person);
    person
}

fn without_walls(person: &TestUser) {
    fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
    let settings = fs::read_to_string(person.config_file()).unwrap_or_default();
    fs::write(person.config_file(), format!("policy.sandbox = \"optional\"\n{settings}")).unwrap();
    fs::write(person.home().join("filter.py"), FILTER).unwrap();
}

fn agents(person: &TestUser, args: &[&str]) -> CommandOutput {
    filtered(person, &person.command(&person.project(), args))
}

/// The command on such a machine.
fn filtered(person: &TestUser, plain: &Command) -> CommandOutput {
    let mut command = Command::new("python3");
    command.arg(person.home().join("filter.py")).arg(plain.get_program()).args(plain.get_args());
    command.current_dir(person.project()).env_clear().stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    answer(&mut command)
}

fn run(person: &TestUser, yaml: &str) -> CommandOutput {
    person.write(".cleveragents/actors/looks.yaml", yaml);
    agents(person, &["run", "--format", "json", "--trust", "--actor", "looks", "look at it"])
}

#[test]
fn a_node_that_may_only_look_and_wrote_has_failed_and_nothing_of_it_is_kept() {
    let person = person();
    let yaml =
        "nodes:\n  look: {run: \"cat a.txt; echo two >> a.txt; touch made\", writes: false, retries: 0}\n";
    let said = run(&person, yaml);
    assert_ne!(said.exit, 0, "{said:?}");
    let errors = person.json(&["plan", "errors", "@last"]).envelope().to_string();
    assert!(errors.contains("NODE_WROTE: node look is read-only, but it changed a.txt, made"), "{errors}");
    let logs = person.json(&["plan", "logs", "@last"]).envelope().to_string();
    assert!(logs.contains("\"rung\":\"none\"") || logs.contains("none"), "{logs}");
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "");
    assert_eq!(person.read("a.txt"), "one\n");
    assert!(!person.project().join("made").exists());
}

#[test]
fn what_one_node_wrote_is_gone_before_the_next_looks_and_one_that_keeps_to_it_is_fine() {
    let person = person();
    let yaml = "nodes:\n  bad: {run: \"touch made\", writes: false, retries: 0}\n  \
        after: {needs: [bad], on: always, run: \"ls > seen\"}\n  \
        good: {needs: [after], run: \"cat a.txt\", writes: false}\n";
    let said = run(&person, yaml);
    assert_eq!(said.exit, 0, "the failure is handled: {said:?}");
    assert_eq!(agents(&person, &["plan", "apply", "@last", "--yes"]).exit, 0);
    let seen = person.read("seen");
    assert!(!seen.contains("made") && seen.contains("a.txt"), "{seen}");
}

#[test]
fn a_strategist_that_wrote_has_failed() {
    let person = person();
    person.write(".cleveragents/actors/thinker.yaml", "run: touch thought\nretries: 0\n");
    let action = "description: think\nstrategist: thinker\nautomation: manual\nactor: {run: \"true\"}\n";
    person.write(".cleveragents/actions/think.yaml", action);
    let said = agents(&person, &["run", "--format", "json", "--trust", "think"]);
    assert_ne!(said.exit, 0, "{said:?}");
    let errors = person.json(&["plan", "errors", "@last"]).envelope().to_string();
    assert!(errors.contains("NODE_WROTE") && errors.contains("thought"), "{errors}");
    assert!(!person.project().join("thought").exists());
}

/// A person on such a machine with a server `box`, whose tool `t` only looks, they say. It does `start` when
/// it is started, `call` when it is called and `end` when nobody speaks to it any more.
fn person_with_server([start, call, end]: [&str; 3]) -> TestUser {
    let person = person();
    let answer = json!({ "content": [{ "type": "text", "text": "looked" }] });
    let script = server(&json!([tool("t")]), &called(2, call, &answer));
    person.write("server.sh", &format!("{start}\n{script}{end}\n"));
    let settings = fs::read_to_string(person.config_file()).unwrap();
    let table = "[mcp.box]\ncommand = [\"sh\", \"server.sh\"]\nread_only = [\"t\"]\n";
    fs::write(person.config_file(), settings + table).unwrap();
    person
}

#[test]
fn a_server_that_may_only_look_and_wrote_fails_its_node_whenever_it_did() {
    let yaml = "nodes:\n  look: {tool: box.t, with: {}, retries: 0}\n";
    for (does, file) in [
        (["echo x > early", ":", ":"], "early"),
        ([":", "echo x > called", ":"], "called"),
        ([":", ":", "echo x > late"], "late"),
    ] {
        let person = person_with_server(does);
        let said = run(&person, yaml);
        assert_ne!(said.exit, 0, "{file}: {said:?}");
        let errors = person.json(&["plan", "errors", "@last"]).envelope().to_string();
        let says = format!("NODE_WROTE: node look is read-only, but it changed {file}");
        assert!(errors.contains(&says), "{file}: {errors}");
        assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "", "{file}");
        assert!(!person.project().join(file).exists(), "{file}");
    }
    let person = person_with_server([":", ":", ":"]);
    let said = run(&person, yaml);
    assert_eq!(said.exit, 0, "one that keeps to it is fine: {said:?}");
}

#[test]
fn what_a_server_wrote_that_may_only_look_is_nobody_elses_change() {
    let answer = json!({ "content": [{ "type": "text", "text": "looked" }] });
    for (start, call) in [("echo x > sneaked", ":"), (":", "echo x > sneaked")] {
        let script = server(&json!([tool("t")]), &called(2, call, &answer));
        let write = json!({ "path": "mine", "content": "x\n" });
        let turns = [calls([("box_t", json!({})), ("write_file", write)]), says("done")];
        let script = format!("{start}\n{script}");
        let world = world(&turns, "[write, box.t]", &script, "read_only = [\"t\"]\n");
        let person = &world.person;
        without_walls(person);
        let words = ["run", "--format", "json", "--actor", "mender", "Make the tests pass"];
        let said = filtered(person, person.command(&person.project(), &words).env("SCRIPTED_KEY", KEY));
        assert_ne!(said.exit, 0, "{start} {call}: {said:?}");
        assert!(said.stdout.contains("NODE_WROTE: node main is read-only"), "{start} {call}: {said:?}");
        assert!(!changed(person).contains(&"sneaked".to_owned()), "{start} {call}");
    }
}
