//! Signals at a program that works, and plans whose program is gone.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{TestUser, alive};

/// Starts a command of the program, and waits until the command of its plan has printed `ready`.
fn working(person: &TestUser, mut command: Command) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains("\nready") {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was ready");
    }
    child
}

fn run(person: &TestUser, script: &str) -> Child {
    let args = ["run", "--format", "json", "--", "sh", "-c", script];
    working(person, person.command(&person.project(), &args))
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// How the program ended, and its answer.
fn ended(mut child: Child) -> (Option<i32>, Value) {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    (child.wait().unwrap().code(), serde_json::from_str(&text).unwrap_or_default())
}

const HALF: &str = "echo half > f; (sleep 600 &); echo ready; sleep 600";

#[test]
fn a_polite_kill_interrupts_cleanly_and_keeps_what_was_done() {
    for (signal, reason) in
        [(Signal::TERM, "the program was told to end"), (Signal::HUP, "the terminal was closed")]
    {
        let person = TestUser::new();
        let child = run(&person, HALF);
        send(&child, signal);
        let (exit, envelope) = ended(child);
        assert_eq!((exit, &envelope["data"]["state"]), (Some(5), &json!("errored")), "{envelope}");
        assert_eq!(alive(&person), 0, "{signal:?}");
        assert_eq!(person.json(&["plan", "status"]).data()["interrupted"], true);
        assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "f\n");
        let watched = person.agents(&["plan", "watch"]).stdout;
        assert!(watched.contains(&format!("cancel asked for: {reason}")), "{watched}");
    }
}

#[test]
fn a_polite_kill_interrupts_what_execute_and_resume_work_on() {
    let person = TestUser::new();
    let id = person.json(&["plan", "use", "--", "sh", "-c", HALF]).data()["plan_id"].clone();
    let execute = person.command(&person.project(), &["plan", "execute", id.as_str().unwrap()]);
    let child = working(&person, execute);
    send(&child, Signal::TERM);
    assert_eq!(ended(child).0, Some(5));

    let person = TestUser::new();
    let mut child = run(&person, HALF);
    child.kill().unwrap();
    child.wait().unwrap();
    while alive(&person) > 0 {}
    let resume = person.command(&person.project(), &["plan", "resume", "@last"]);
    let mut child = working(&person, resume);
    // The first try has printed the word too, so only the second one's process tells that it runs.
    while alive(&person) == 0 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was interrupted");
    }
    send(&child, Signal::TERM);
    assert_eq!(ended(child).0, Some(5));
    assert_eq!(person.json(&["plan", "status"]).data()["interrupted"], true);
    assert_eq!(alive(&person), 0);
}

#[test]
fn a_run_that_is_to_outlive_its_terminal_does() {
    let person = TestUser::new();
    let gate = person.home().join("gate");
    fs::create_dir(&gate).unwrap();
    let (gate, pipe) = (gate.display().to_string(), gate.join("pipe"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let script = format!("echo ready; read line < {}", pipe.display());
    let words = ["run", "--format", "json", "--writable", &gate, "--", "sh", "-c", &script];
    let agents = person.command(&person.project(), &words);
    let mut nohup = Command::new("nohup");
    // The program and its words, without what sets its signals right.
    nohup.args(agents.get_args().skip(1));
    nohup.current_dir(person.project()).env_clear().stdin(Stdio::null());
    nohup.envs(agents.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let child = working(&person, nohup);
    send(&child, Signal::HUP);
    // Open both ways, so that nobody waits for a reader that was ended.
    let mut open = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    open.write_all(b"go on\n").unwrap();
    let (exit, envelope) = ended(child);
    assert_eq!((exit, &envelope["data"]["state"]), (Some(0), &json!("complete")), "{envelope}");
}

#[test]
fn a_plan_whose_program_is_gone_is_told_as_broken_off() {
    let person = TestUser::new();
    let mut child = run(&person, HALF);
    let lives = person.json(&["plan", "status"]).data();
    assert_eq!((&lives["state"], &lives["broken_off"]), (&json!("processing"), &json!(false)));
    child.kill().unwrap();
    child.wait().unwrap();

    let status = person.json(&["plan", "status"]).data();
    let id = status["short_id"].as_str().unwrap();
    let (resume, cancel) = (format!("agents plan resume {id}"), format!("agents plan cancel {id}"));
    assert_eq!(status["broken_off"], true);
    assert_eq!(status["waiting"]["command"], resume);
    let next: Vec<&Value> = status["next"].as_array().unwrap().iter().map(|step| &step["command"]).collect();
    assert_eq!(next, [&json!(resume), &json!(cancel)]);
    let text = person.agents(&["plan", "status"]).stdout;
    assert!(
        text.contains("  execute     interrupted") && text.contains("process that ran it is gone"),
        "{text}"
    );
    assert!(text.ends_with(&format!("next  {resume}     {cancel}\n")), "{text}");
    let list = person.agents(&["plan", "list"]).stdout;
    assert!(list.contains("interrupted") && list.contains(&resume) && list.contains(&cancel), "{list}");
    let watched = person.agents(&["plan", "watch"]);
    assert!(watched.exit == 4 && watched.stdout.contains("interrupted"), "{watched:?}");
    let said = person.agents(&["plan", "apply", "@last", "--yes"]);
    assert!(said.exit == 4 && said.stderr.contains("was interrupted in execute"), "{said:?}");
    assert!(said.stderr.contains(&resume), "{said:?}");
    assert_eq!(person.agents(&["plan", "cancel", "@last"]).exit, 0);
    assert_eq!(person.json(&["plan", "status"]).data()["broken_off"], false);
}
