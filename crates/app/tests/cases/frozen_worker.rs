//! A worker that is stopped past its lease, and goes on when another has done its work.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{TestUser, alive};
use super::workers::WorkerFixture;

/// The shortest that there is.
const LEASE: (&str, &str) = ("CLEVERAGENTS_ASYNC_LEASE", "5s");

/// The first try leaves a process behind that ticks and holds a lock. Every later one tells whether that
/// lives, and whether it ticks; then it waits to be told to go on.
const TICKS: &str = "echo try >> $G/tries
    if [ $(wc -l < $G/tries) -ge 2 ]; then
        flock -n $G/lock true || echo lives >> $G/lives
        ticks=$(wc -l < $G/ticks)
        echo second says hello; echo waits >> $G/waits; read line < $G/pipe
        [ $(wc -l < $G/ticks) = $ticks ] || echo ticks >> $G/lives
        echo second > f
    else
        echo first > g
        (setsid flock $G/lock sh -c 'while :; do echo tick >> $0/ticks; sleep 0.02; done' $G > /dev/null 2>&1 &)
        sleep 600
    fi";

fn office() -> WorkerFixture {
    let office = WorkerFixture::with(&[LEASE]);
    let pipe = office.gate.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    office
}

/// Waits for what takes a lease, and says what never came.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} never came");
    }
}

fn sandboxes(person: &TestUser) -> Vec<String> {
    let listed = fs::read_dir(person.home().join("data/sandboxes")).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        listed.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// How many mount namespaces the process holds that it is not in: one for each sandbox on the rung `overlay`.
fn mounts_held(pid: Pid) -> usize {
    let held = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap().flatten();
    let held = held.filter_map(|fd| fs::read_link(fd.path()).ok());
    held.filter(|link| link.to_string_lossy().starts_with("mnt:[")).count()
}

/// Every row of every table, as text.
fn rows(office: &WorkerFixture) -> Vec<String> {
    let database = Connection::open(office.person.home().join("data/agents.db")).unwrap();
    let texts = |query: &str| -> Vec<String> {
        let mut statement = database.prepare(query).unwrap();
        let columns = statement.column_count();
        let text = |row: &rusqlite::Row<'_>| -> rusqlite::Result<String> {
            let values =
                (0..columns).map(|no| Ok(format!("{:?}", row.get::<_, rusqlite::types::Value>(no)?)));
            Ok(values.collect::<rusqlite::Result<Vec<_>>>()?.join(", "))
        };
        statement.query_map((), text).unwrap().map(Result::unwrap).collect()
    };
    let tables = texts("SELECT quote(name) FROM sqlite_schema WHERE type = 'table' ORDER BY name");
    let names = tables.iter().filter_map(|table| table.split('\'').nth(1));
    names.flat_map(|name| texts(&format!("SELECT '{name}', * FROM {name}"))).collect()
}

#[test]
fn the_plan_of_a_stopped_worker_is_done_once_and_nothing_of_it_lives_beside_the_second_try() {
    let office = office();
    let first = office.worker(&[]);
    let plan = office.left(TICKS);
    office.until_lines("ticks", 1);
    // The first tick may come before the worker has let go of what it started the command with.
    until("the start of the command", || mounts_held(first.pid()) <= 1);
    first.send(Signal::STOP);
    let second = office.worker(&[]);
    until("the takeover", || !office.lines("waits").is_empty());
    assert_eq!(office.lines("lives"), Vec::<String>::new());
    // Each has a sandbox of its own, and the output is that of the second.
    assert_eq!(sandboxes(&office.person), [format!("{plan}-1"), format!("{plan}-1.2")]);
    let logs = office.person.agents(&["plan", "logs", &plan]).stdout;
    assert!(logs.contains("second says hello"), "{logs}");
    fs::write(office.gate.join("pipe"), "go on\n").unwrap();
    let status = office.ended(&plan);
    assert_eq!((&status["state"], &status["changes"]["files"]), (&json!("complete"), &json!(1)), "{status}");
    assert_eq!((office.lines("lives"), office.lines("tries").len()), (Vec::new(), 2));
    assert_eq!(second.until("finished")["how"], "succeeded");

    let before = rows(&office);
    assert!(mounts_held(first.pid()) <= 1, "as many as sandboxes");
    first.send(Signal::CONT);
    assert_eq!(first.until("finished")["how"], "lease_lost");
    assert_eq!(rows(&office), before);
    // It is removed when the end is settled, and nobody waits for that.
    until("the end of its sandbox", || mounts_held(first.pid()) == 0 && sandboxes(&office.person).is_empty());
    assert_eq!(alive(&office.person), 0);
    for (worker, succeeded, lost) in [(first, 0, 1), (second, 1, 0)] {
        worker.send(Signal::TERM);
        let (exit, report) = worker.answer();
        let expected = (Some(0), &json!(succeeded), &json!(lost));
        assert_eq!((exit, &report["succeeded"], &report["lost"]), expected, "{report}");
    }
    assert_eq!(office.person.agents(&["plan", "diff", &plan, "--name-only"]).stdout, "f\n");
}

#[test]
fn a_cancel_of_what_a_stopped_worker_runs_is_acknowledged_when_all_of_it_is_dead() {
    let office = office();
    let worker = office.worker(&[]);
    let plan = office.left(TICKS);
    office.until_lines("ticks", 1);
    worker.send(Signal::STOP);
    // One call: the owner is taken for gone when its lease is over, while the cancel waits.
    assert_eq!(office.call(&["plan", "cancel", &plan, "--wait", "60s"]).0, 0);
    let ticks = office.lines("ticks").len();
    assert_eq!((office.status(&plan)["state"].clone(), alive(&office.person)), (json!("cancelled"), 0));
    let before = rows(&office);
    worker.send(Signal::CONT);
    assert_eq!(worker.until("finished")["how"], "lease_lost");
    assert_eq!(rows(&office), before);
    until("the end of its sandbox", || sandboxes(&office.person).is_empty());
    assert_eq!(office.lines("ticks").len(), ticks);
    worker.send(Signal::TERM);
    assert_eq!(worker.answer().0, Some(0));
}

#[test]
fn a_run_in_the_foreground_that_was_stopped_tells_what_became_of_its_plan() {
    let office = office();
    let gate = office.gate.display().to_string();
    let script = format!("G={gate}; {TICKS}");
    let mut run =
        office.command(&["run", "--format", "json", "--writable", &gate, "--", "sh", "-c", &script]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_child(&run);
    office.until_lines("ticks", 1);
    kill_process(pid, Signal::STOP).unwrap();
    fs::remove_file(office.gate.join("pipe")).unwrap();
    fs::write(office.gate.join("pipe"), "go on\n").unwrap();
    until("the takeover", || office.call(&["plan", "resume", "@last"]).0 == 0);
    assert_eq!((office.lines("lives"), office.lines("tries").len()), (Vec::new(), 2));
    let before = rows(&office);
    kill_process(pid, Signal::CONT).unwrap();
    let output = run.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["data"]["state"]), (Some(0), &json!("complete")), "{answer}");
    assert_eq!(rows(&office), before);
    assert_eq!((sandboxes(&office.person), alive(&office.person)), (Vec::new(), 0));
}
