//! Many plans at once: workers in other processes, plans that are left to them, kills and cancels across
//! processes.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{TestUser, alive};

/// A person whose plans may write to a directory outside their project, to be watched from there.
pub(super) struct WorkerFixture {
    pub(super) person: TestUser,
    pub(super) gate: PathBuf,
    env: Vec<(&'static str, &'static str)>,
}

impl WorkerFixture {
    pub(super) fn new() -> WorkerFixture {
        Self::with(&[])
    }

    pub(super) fn with(env: &[(&'static str, &'static str)]) -> WorkerFixture {
        let person = TestUser::new();
        let gate = person.home().join("gate");
        fs::create_dir(&gate).unwrap();
        WorkerFixture { person, gate, env: env.to_vec() }
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.person.command(&self.person.project(), args);
        command.envs(self.env.iter().copied());
        command
    }

    /// Calls the program; the answer is its exit and its envelope.
    pub(super) fn call(&self, args: &[&str]) -> (i32, Value) {
        let place = args.iter().position(|word| *word == "--").unwrap_or(args.len());
        let mut words = args.to_vec();
        words.splice(place..place, ["--format", "json"]);
        let answer = super::support::answer(&mut self.command(&words));
        (answer.exit, answer.envelope())
    }

    pub(super) fn data(&self, args: &[&str]) -> Value {
        let (exit, envelope) = self.call(args);
        assert_eq!(exit, 0, "{args:?}: {envelope}");
        envelope["data"].clone()
    }

    /// A worker that takes any plan, once it does.
    pub(super) fn worker(&self, args: &[&str]) -> Worker {
        let words: Vec<&str> = ["worker", "--format", "json"].iter().chain(args).copied().collect();
        let mut command = self.command(&words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let news =
                    serde_json::from_str(&line).unwrap_or_else(|_| json!({ "event": "said", "data": line }));
                let _ = sender.send(news);
            }
        });
        let worker = Worker { child, lines };
        worker.until("ready");
        worker
    }

    /// Leaves a script to the workers; the answer is the plan's id. `$G` is the gate.
    pub(super) fn left(&self, script: &str) -> String {
        let script = format!("G={}; {script}", self.gate.display());
        let gate = self.gate.display().to_string();
        let data = self.data(&["run", "--detach", "--writable", &gate, "--", "sh", "-c", &script]);
        assert_eq!(data["detached"], true);
        data["plan_id"].as_str().unwrap().to_owned()
    }

    pub(super) fn status(&self, plan: &str) -> Value {
        self.data(&["plan", "status", plan])
    }

    /// How the plan stands when nobody works on it any more.
    pub(super) fn ended(&self, plan: &str) -> Value {
        loop {
            let status = self.status(plan);
            let is_over = ["complete", "errored", "cancelled", "applied", "constrained"]
                .contains(&status["state"].as_str().unwrap());
            // Between two phases a plan is complete, too.
            if is_over && (status["phase"] != "strategize" || status["state"] != "complete") {
                return status;
            }
        }
    }

    /// The lines that plans wrote into a file of the gate.
    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.gate.join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(super) fn until_lines(&self, name: &str, count: usize) {
        while self.lines(name).len() < count {}
    }

    /// The workers that were started in the background for this person. Each leads a session of its own: the
    /// end of the terminal that it was started from does not reach it.
    fn background(&self) -> Vec<Pid> {
        let data_dir = self.person.home().join("data").display().to_string();
        let is_ours = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            words.contains("\0--background\0") && words.contains(&data_dir)
        };
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        // Its sandboxes are of its session, and have its name for a moment.
        let leads = |pid: &Pid| rustix::process::getsid(Some(*pid)) == Ok(*pid);
        pids.filter(is_ours).filter_map(Pid::from_raw).filter(leads).collect()
    }
}

/// No worker outlives its test.
impl Drop for WorkerFixture {
    fn drop(&mut self) {
        for pid in self.background() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

pub(super) struct Worker {
    child: Child,
    lines: Receiver<Value>,
}

impl Worker {
    /// What it tells next of this event.
    pub(super) fn until(&self, event: &str) -> Value {
        loop {
            let news = self.lines.recv().unwrap_or_else(|_| panic!("it ended before it told `{event}`"));
            if news["event"] == event {
                return news["data"].clone();
            }
        }
    }

    pub(super) fn send(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(super) fn kill_hard(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its answer, when it has ended.
    pub(super) fn answer(mut self) -> (Option<i32>, Value) {
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let envelope: Value = serde_json::from_str(&text).unwrap_or_default();
        (self.child.wait().unwrap().code(), envelope["data"].clone())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn two_workers_take_each_plan_of_one_queue_once() {
    let office = WorkerFixture::with(&[("CLEVERAGENTS_PLAN_CONCURRENCY", "8")]);
    let workers = [office.worker(&["--max", "3"]), office.worker(&["--max", "3"])];
    let plans: Vec<String> =
        (0..12).map(|n| office.left(&format!("echo {n} >> $G/ran; echo {n} > f{n}"))).collect();
    for plan in &plans {
        let status = office.ended(plan);
        assert_eq!(
            (&status["state"], &status["changes"]["files"]),
            (&json!("complete"), &json!(1)),
            "{status}"
        );
    }
    let mut ran = office.lines("ran");
    ran.sort_by_key(|line| line.parse::<u32>().unwrap());
    assert_eq!(ran, (0..12).map(|n| n.to_string()).collect::<Vec<_>>());
    let mut done = 0;
    for worker in workers {
        worker.send(Signal::TERM);
        let (exit, report) = worker.answer();
        assert_eq!((exit, &report["failed"], &report["lost"]), (Some(0), &json!(0), &json!(0)), "{report}");
        done += report["succeeded"].as_u64().unwrap();
    }
    assert_eq!(done, 12, "execute of each plan");
    assert_eq!(alive(&office.person), 0);
}

/// Its first try never ends, every later one does.
pub(super) const ENDS_LATER: &str =
    "echo try >> $G/tries; [ $(wc -l < $G/tries) -ge 2 ] || sleep 600; echo done > f";

#[test]
fn the_plan_of_a_killed_worker_is_taken_over_without_waiting_for_its_lease() {
    let office = WorkerFixture::with(&[("CLEVERAGENTS_ASYNC_LEASE", "1h")]);
    let first = office.worker(&[]);
    let plan = office.left(ENDS_LATER);
    office.until_lines("tries", 1);
    let second = office.worker(&[]);
    first.kill_hard();
    assert_eq!(second.until("freed"), json!({ "workers": 1, "jobs": 1 }));
    let status = office.ended(&plan);
    assert_eq!((&status["state"], &status["changes"]["files"]), (&json!("complete"), &json!(1)), "{status}");
    assert_eq!(office.lines("tries").len(), 2);
    // Nothing is left of the one that died.
    let left: Vec<_> = fs::read_dir(office.person.home().join("data/workers")).unwrap().flatten().collect();
    let names: Vec<String> =
        left.iter().map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names.iter().filter(|name| name.ends_with(".lock")).count(), 1, "{names:?}");
}

#[test]
fn a_plan_that_gets_on_is_not_given_up_however_many_of_its_workers_die() {
    let office = WorkerFixture::with(&[("CLEVERAGENTS_ASYNC_LEASE", "1h")]);
    let gate = office.gate.display().to_string();
    // One more than may die of a plan that does not get on. Each step kills, so to say, one worker.
    let steps: Vec<String> = (1..=usize::from(domain::LOST_LEASES_MAX) + 1)
        .map(|n| format!("echo try >> {gate}/s{n}; [ $(wc -l < {gate}/s{n}) -ge 2 ] || sleep 600"))
        .collect();
    let mut worker = office.worker(&[]);
    let mut words = vec!["run", "--detach", "--writable", &gate];
    words.extend(steps.iter().flat_map(|step| ["--step", step.as_str()]));
    let plan = office.data(&words)["plan_id"].as_str().unwrap().to_owned();
    for n in 1..=steps.len() {
        office.until_lines(&format!("s{n}"), 1);
        let next = office.worker(&[]);
        worker.kill_hard();
        worker = next;
    }
    let status = office.ended(&plan);
    assert_eq!(status["state"], json!("complete"), "{status}");
}

#[test]
fn a_worker_that_is_told_to_stop_lets_its_plans_finish() {
    let office = WorkerFixture::new();
    assert!(Command::new("mkfifo").arg(office.gate.join("pipe")).status().unwrap().success());
    let worker = office.worker(&[]);
    let plan = office.left("echo began >> $G/began; read line < $G/pipe; echo $line > f");
    office.until_lines("began", 1);
    let waits = office.data(&["plan", "use", "--", "true"])["plan_id"].as_str().unwrap().to_owned();
    worker.send(Signal::TERM);
    assert_eq!(worker.until("draining"), json!({ "running": 1 }));
    assert_eq!(office.data(&["plan", "execute", &waits, "--detach"])["worker_started"], true);
    fs::write(office.gate.join("pipe"), "go on\n").unwrap();
    let (exit, report) = worker.answer();
    assert_eq!((exit, &report["end"]), (Some(0), &json!("stopped")));
    assert_eq!(report["at_stop"], json!({ "finished": 1, "released": 0 }), "{report}");
    assert_eq!(office.ended(&plan)["state"], "complete");
    // What came meanwhile is for another worker.
    assert_eq!(office.ended(&waits)["state"], "complete");
}

#[test]
fn a_worker_that_is_told_twice_gives_its_plans_back_and_kills_what_ran() {
    let office = WorkerFixture::new();
    let worker = office.worker(&[]);
    let plan = office.left(ENDS_LATER);
    office.until_lines("tries", 1);
    worker.send(Signal::TERM);
    worker.until("draining");
    worker.send(Signal::TERM);
    worker.until("releasing");
    let (exit, report) = worker.answer();
    assert_eq!(exit, Some(0));
    assert_eq!(report["at_stop"], json!({ "finished": 0, "released": 1 }), "{report}");
    let status = office.status(&plan);
    assert_eq!((&status["state"], alive(&office.person)), (&json!("queued"), 0), "{status}");
    assert_eq!(status["waiting"]["command"], "agents worker", "{status}");
    let worker = office.worker(&["--until-idle", "0s"]);
    assert_eq!(office.ended(&plan)["state"], "complete");
    assert_eq!(worker.answer().1["end"], "idle");
}

#[test]
fn five_plans_that_are_left_at_once_start_one_worker() {
    let office = WorkerFixture::new();
    let start = |n: usize| {
        let script = format!("echo {n} > f{n}");
        let mut command = office.command(&["run", "--detach", "--format", "json", "--", "sh", "-c", &script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..5).map(start).collect();
    let answers: Vec<Value> = children
        .into_iter()
        .map(|child| serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    let started = answers.iter().filter(|answer| answer["data"]["worker_started"] == true).count();
    assert_eq!((started, office.background().len()), (1, 1), "{answers:?}");
    for answer in &answers {
        assert_eq!(office.ended(answer["data"]["plan_id"].as_str().unwrap())["state"], "complete");
    }
    let log = fs::read_to_string(office.person.home().join("data/logs/worker.log")).unwrap();
    assert!(log.contains("takes plans") && log.matches("execute done").count() == 5, "{log}");
}

#[test]
fn a_plan_that_a_worker_runs_is_cancelled_from_another_process_with_all_that_it_started() {
    // With a lease so long the owner hears of a cancel by the hint, or far too late.
    let office = WorkerFixture::with(&[("CLEVERAGENTS_ASYNC_LEASE", "1h")]);
    let worker = office.worker(&[]);
    let plan = office.left(
        "echo half > f; (setsid sh -c 'while :; do echo beat >> $0/beats; done' $G >/dev/null 2>&1 &); echo began >> $G/began; sleep 600",
    );
    office.until_lines("began", 1);
    office.until_lines("beats", 1);
    let data = office.data(&["plan", "cancel", &plan]);
    let after = fs::metadata(office.gate.join("beats")).unwrap().len();
    assert_eq!((&data["state"], &data["cancel"]["already"]), (&json!("cancelled"), &json!(false)), "{data}");
    assert_eq!(alive(&office.person), 0);
    assert_eq!(data["cancel"]["entries_kept"], 1);
    let finished = worker.until("finished");
    assert_eq!((&finished["how"], &finished["plan"]), (&json!("cancelled"), &json!(plan)));
    assert_eq!(
        fs::metadata(office.gate.join("beats")).unwrap().len(),
        after,
        "an effect after the acknowledgement"
    );
}

#[test]
fn of_ten_cancels_at_once_one_is_the_first() {
    let office = WorkerFixture::new();
    let _worker = office.worker(&[]);
    let plan = office.left("echo began >> $G/began; sleep 600");
    office.until_lines("began", 1);
    let start = |_| {
        let mut command = office.command(&["plan", "cancel", &plan, "--format", "json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..10).map(start).collect();
    let mut already = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (output.status.code(), &answer["data"]["state"]),
            (Some(0), &json!("cancelled")),
            "{answer}"
        );
        already.push(answer["data"]["cancel"]["already"].as_bool().unwrap());
    }
    assert_eq!(already.iter().filter(|already| !**already).count(), 1, "{already:?}");
}

#[test]
fn a_plan_whose_workers_die_four_times_is_given_up_and_told() {
    let office = WorkerFixture::with(&[("CLEVERAGENTS_ASYNC_LEASE", "1h")]);
    let mut worker = office.worker(&[]);
    let plan = office.left("echo try >> $G/tries; sleep 600");
    for deaths in 1..=4 {
        office.until_lines("tries", deaths);
        worker.kill_hard();
        worker = office.worker(&[]);
    }
    let status = office.ended(&plan);
    assert_eq!((&status["state"], office.lines("tries").len()), (&json!("errored"), 4), "{status}");
    assert_eq!(status["error"]["message"], "its worker died 4 times");
    let resume = format!("agents plan resume {}", status["short_id"].as_str().unwrap());
    assert_eq!(status["error"]["command"], resume);
    let hint = status["error"]["hint"].as_str().unwrap();
    let logs = resume.replace("resume", "logs");
    assert!(hint.contains("was killed") && hint.contains(&logs) && hint.contains(&resume), "{hint}");
    let (exit, told) = office.call(&["plan", "watch", &plan]);
    let said = &told["messages"][0];
    assert_eq!(
        (exit, &said["code"], &said["suggestions"]),
        (6, &json!("PLAN_ASKS"), &json!([hint])),
        "{told}"
    );
    let errors = office.data(&["plan", "errors", &plan]);
    let record = &errors["records"][0];
    assert_eq!(
        (&errors["recorded"], &record["message"]),
        (&json!(1), &json!("its worker died 4 times")),
        "{errors}"
    );
    assert_eq!((&record["category"], &record["command"]), (&json!("resource"), &json!(resume)));
    let jobs = office.data(&["job", "list", "--all", "--plan", &plan]);
    let job = jobs["jobs"].as_array().unwrap().last().unwrap();
    assert_eq!((&job["state"], &job["why"]), (&json!("failed"), &json!("its worker died 4 times")), "{jobs}");
    // The worker that gave it up lives and works.
    let next = office.left("true");
    assert_eq!(office.ended(&next)["state"], "complete");
}

#[test]
fn ten_plans_of_three_workers_run_one_at_a_time_when_that_is_set() {
    let office = WorkerFixture::with(&[("CLEVERAGENTS_PLAN_CONCURRENCY", "1")]);
    let _workers = [office.worker(&[]), office.worker(&[]), office.worker(&[])];
    let alone = "mkdir $G/alone || echo two >> $G/together; echo ran >> $G/ran; rmdir $G/alone";
    let plans: Vec<String> = (0..10).map(|_| office.left(alone)).collect();
    for plan in &plans {
        assert_eq!(office.ended(plan)["state"], "complete");
    }
    assert_eq!((office.lines("ran").len(), office.lines("together")), (10, Vec::new()));
}

#[test]
fn a_worker_leaves_alone_what_was_not_left_to_it() {
    let office = WorkerFixture::new();
    let worker = office.worker(&[]);
    let made = office.data(&["plan", "use", "--", "sh", "-c", "echo used > f"])["plan_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let run = office.data(&["run", "--", "sh", "-c", "echo run > f"]);
    assert_eq!(run["state"], "complete");
    let left = office.left("echo left > f");
    assert_eq!(office.ended(&left)["state"], "complete");
    let status = office.status(&made);
    assert_eq!((&status["phase"], &status["state"]), (&json!("execute"), &json!("queued")));
    assert_eq!(status["waiting"]["reason"], "the user executes it");
    assert_eq!(office.data(&["plan", "execute", &made, "--detach"])["worker_started"], false);
    assert_eq!(office.ended(&made)["state"], "complete");
    worker.send(Signal::TERM);
    assert_eq!(worker.answer().1["succeeded"], 2, "one phase of two plans");
}

#[test]
fn a_plan_that_a_worker_runs_is_watched_from_its_first_phase_to_its_last() {
    let office = WorkerFixture::new();
    let _worker = office.worker(&[]);
    let plan =
        office.data(&["run", "--detach", "--apply", "--", "sh", "-c", "echo new > f"])["plan_id"].clone();
    let watched = office.data(&["plan", "watch", plan.as_str().unwrap()]);
    assert_eq!(
        (&watched["plans"][0]["state"], office.person.read("f")),
        (&json!("applied"), "new\n".to_owned())
    );
}

#[test]
fn a_plan_that_is_left_with_a_yes_is_applied_and_one_that_failed_is_gone_on_with() {
    let office = WorkerFixture::new();
    let _worker = office.worker(&[]);
    let applied = office.data(&["run", "--detach", "--apply", "--", "sh", "-c", "echo new > f"]);
    let applied = applied["plan_id"].as_str().unwrap();
    while office.status(applied)["state"] != "applied" {}
    assert_eq!(office.person.read("f"), "new\n");

    let fails = office.left("echo try >> $G/tries; [ $(wc -l < $G/tries) -ge 2 ]");
    assert_eq!(office.ended(&fails)["state"], "errored");
    assert_eq!(office.data(&["plan", "resume", &fails, "--detach"])["worker_started"], false);
    office.until_lines("tries", 2);
    while office.status(&fails)["state"] != "complete" {}
    let (exit, answer) = office.call(&["plan", "resume", applied, "--detach"]);
    assert_eq!((exit, &answer["messages"][0]["code"]), (4, &json!("PLAN_FINAL")));
}

#[test]
fn who_waits_is_told_its_place() {
    let office = WorkerFixture::with(&[("CLEVERAGENTS_PLAN_CONCURRENCY", "1")]);
    let _worker = office.worker(&[]);
    let first = office.left("echo began >> $G/began; sleep 600");
    office.until_lines("began", 1);
    let second = office.left("true");
    let third = office.left("true");
    let of = |plan: &str| office.status(plan)["waiting"]["reason"].as_str().unwrap_or_default().to_owned();
    assert_eq!(of(&second), "waiting: 1 of 1 slots busy (plan.concurrency), this plan is next");
    assert_eq!(of(&third), "waiting: 1 of 1 slots busy (plan.concurrency), 1 plan before this one");
    assert_eq!(office.status(&third)["queue"], json!({ "slots": 1, "busy": 1, "before": 1, "served": true }));
    let mut run = office.command(&["run", "--format", "plain", "--", "true"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut progress = BufReader::new(run.stderr.take().unwrap()).lines().map_while(Result::ok);
    let waits = "waiting: 1 of 1 slots busy (plan.concurrency), 2 plans before this one";
    assert!(progress.any(|line| line.ends_with(waits)));
    assert_eq!(office.call(&["plan", "cancel", &first]).0, 0);
    for plan in [&second, &third] {
        assert_eq!(office.ended(plan)["state"], "complete");
    }
    drop(progress.last());
    assert_eq!(run.wait().unwrap().code(), Some(0));
}

#[test]
fn a_run_in_the_foreground_is_not_overtaken_by_what_came_later() {
    let office = WorkerFixture::with(&[("CLEVERAGENTS_PLAN_CONCURRENCY", "1")]);
    assert!(Command::new("mkfifo").arg(office.gate.join("pipe")).status().unwrap().success());
    let _worker = office.worker(&[]);
    office.left("echo began >> $G/began; read line < $G/pipe");
    office.until_lines("began", 1);
    let (gate, script) =
        (office.gate.display().to_string(), format!("echo run >> {}/ran", office.gate.display()));
    let mut run =
        office.command(&["run", "--format", "plain", "--writable", &gate, "--", "sh", "-c", &script]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut progress = BufReader::new(run.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(progress.any(|line| line.contains("this plan is next")));
    let later: Vec<String> = (0..5).map(|_| office.left("echo left >> $G/ran")).collect();
    fs::write(office.gate.join("pipe"), "go on\n").unwrap();
    drop(progress.last());
    assert_eq!(run.wait().unwrap().code(), Some(0));
    for plan in &later {
        assert_eq!(office.ended(plan)["state"], "complete");
    }
    assert_eq!(office.lines("ran"), ["run", "left", "left", "left", "left", "left"]);
}

#[test]
fn jobs_are_listed_shown_and_cancelled() {
    let office = WorkerFixture::new();
    let _worker = office.worker(&[]);
    let before = office.left("true");
    assert_eq!(office.ended(&before)["state"], "complete");
    let plan = office.left("echo began >> $G/began; sleep 600");
    office.until_lines("began", 1);
    let listed = office.data(&["job", "list"]);
    let [job] = &listed["jobs"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!(
        (&job["plan_id"], &job["phase"], &job["state"]),
        (&json!(plan), &json!("execute"), &json!("running"))
    );
    let id = job["job_id"].as_str().unwrap();
    let text = super::support::answer(&mut office.command(&["job", "list"])).stdout;
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(lines.next().unwrap(), ["JOB", "PLAN", "PHASE", "STATE", "WORKER", "LEASE", "AGE"]);
    let row = lines.next().unwrap();
    assert!(
        id.to_lowercase().ends_with(row[0]) && row[2..4] == ["execute", "running"] && row[5].ends_with('s'),
        "{text}"
    );
    let shown = super::support::answer(&mut office.command(&["job", "show", row[0]])).stdout;
    assert!(shown.contains(id) && shown.contains("running"), "{shown}");
    let code = |args: &[&str]| {
        let (exit, envelope) = office.call(args);
        (exit, envelope["messages"][0]["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(code(&["job", "show", "7ZZZ"]), (3, "JOB_NOT_FOUND".to_owned()));
    assert_eq!(code(&["job", "cancel", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"]), (3, "JOB_NOT_FOUND".to_owned()));
    assert_eq!(code(&["job", "show", "0"]), (2, "JOB_AMBIGUOUS".to_owned()));
    assert_eq!(office.data(&["job", "cancel", id])["state"], "cancelled");
    assert_eq!(code(&["job", "cancel", id]), (4, "JOB_FINAL".to_owned()));
    assert_eq!(office.data(&["job", "list"])["jobs"], json!([]));
}

#[test]
fn a_worker_refuses_what_would_never_work() {
    let office = WorkerFixture::new();
    let (exit, answer) = office.call(&["worker", "--max", "0"]);
    assert_eq!((exit, &answer["messages"][0]["code"]), (2, &json!("USAGE")));
    assert!(answer["messages"][0]["message"].as_str().unwrap().contains("from 1 to 1024"), "{answer}");
    for (name, value) in [("CLEVERAGENTS_ASYNC_LEASE", "1s"), ("CLEVERAGENTS_ASYNC_MAX_WORKERS", "0")] {
        let mut command = office.command(&["worker", "--format", "json"]);
        let answer = super::support::answer(command.env(name, value));
        assert_eq!((answer.exit, answer.code()), (2, "CONFIG_VALUE_INVALID".to_owned()), "{answer:?}");
    }
}
