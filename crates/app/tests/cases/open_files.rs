//! Many plans at once under a low limit of open files: the limit is raised, and where it cannot be, plans
//! wait.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::support::answer;
use super::workers::WorkerFixture;

/// An office in which as many plans may run at once as there are slots.
fn crowded_office() -> WorkerFixture {
    WorkerFixture::with(&[("CLEVERAGENTS_PLAN_CONCURRENCY", "1024")])
}

/// The command below other limits of open files.
fn limited(command: &Command, soft: u32, hard: Option<u32>) -> Command {
    let hard = hard.map(|hard| format!("ulimit -Hn {hard}; ")).unwrap_or_default();
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -Sn {soft}; {hard}exec \"$0\" \"$@\"")]);
    limited.arg(command.get_program()).args(command.get_args()).env_clear();
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    limited
}

/// A worker under these limits.
fn worker(office: &WorkerFixture, max: &str, soft: u32, hard: Option<u32>) -> Child {
    let command = office.command(&["worker", "--max", max]);
    let mut worker = limited(&command, soft, hard).stderr(Stdio::piped()).spawn().unwrap();
    let mut news = BufReader::new(worker.stderr.take().unwrap()).lines();
    // Before it takes plans, a command that leaves one would start another worker.
    let ready = news.by_ref().map_while(Result::ok).any(|line| line.contains("takes plans"));
    assert!(ready, "the worker ended before it was ready");
    std::thread::spawn(move || news.map_while(Result::ok).for_each(drop));
    worker
}

/// Leaves a plan for each of `count` lines to the worker that lives.
fn leave(office: &WorkerFixture, count: usize, script: &str) -> Vec<String> {
    let items: String = (0..count).map(|item| format!("{item}\n")).collect();
    fs::write(office.person.home().join("items"), items).unwrap();
    let (items, gate) = (office.person.home().join("items"), office.gate.display().to_string());
    let script = format!("G={gate}; {script}");
    let words =
        ["run", "--for-each", items.to_str().unwrap(), "--writable", &gate, "--", "sh", "-c", &script];
    let plans = office.data(&words)["plans"].as_array().unwrap().clone();
    plans.iter().map(|plan| plan.as_str().unwrap().to_owned()).collect()
}

fn until_complete(office: &WorkerFixture, plans: &[String]) {
    for plan in plans {
        let watched = answer(&mut office.command(&["plan", "watch", plan, "--format", "json"]));
        let state = watched.data()["plans"][0]["state"].clone();
        assert_eq!((watched.exit, state), (0, json!("complete")), "{watched:?}");
    }
}

fn end(mut worker: Child) {
    worker.kill().unwrap();
    worker.wait().unwrap();
}

#[test]
fn more_plans_run_at_once_than_the_soft_limit_of_open_files_allows_and_commands_see_that_limit() {
    let office = crowded_office();
    let worker = worker(&office, "24", 128, None);
    let script = "ulimit -n >> $G/began; until [ -e $G/go ]; do sleep 0.1; done";
    let plans = leave(&office, 24, script);
    office.until_lines("began", 24);
    fs::write(office.gate.join("go"), "").unwrap();
    until_complete(&office, &plans);
    assert_eq!(office.lines("began"), vec!["128"; 24]);
    end(worker);
}

#[test]
fn plans_for_which_no_open_file_is_left_wait_and_none_fails() {
    let office = crowded_office();
    let worker = worker(&office, "40", 256, Some(256));
    let script = "echo >> $G/began; until [ $(wc -l < $G/began) -ge 6 ]; do sleep 0.1; done";
    let plans = leave(&office, 40, script);
    until_complete(&office, &plans);
    assert_eq!(office.lines("began").len(), 40);
    end(worker);
}

#[test]
fn a_worker_says_how_many_plans_its_open_files_allow() {
    let office = crowded_office();
    let command = office.command(&["worker", "--max", "200", "--until-idle", "0s"]);
    let said = answer(&mut limited(&command, 256, Some(256)));
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stderr.contains("it works on 8 plans at once, not on 200"), "{said:?}");
}
