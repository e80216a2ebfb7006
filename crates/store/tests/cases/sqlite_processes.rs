//! Many processes on one store, some of them killed: real processes, this very binary started again.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use domain::{
    ChangesetId, ChangesetState, Claim, Detail, ErrorCategory, ErrorId, Hash, JobState, NewError, Phase,
    PlanId, RecoveryAction, RecoveryPolicy, StepDecision, StepId,
};
use rusqlite::Connection;
use store::{
    CallAuthority, CallOutcome, CallStore, ChangesetStore, ContentStore, ErrorStore, JobEnd, JobStore,
    NodeStore, PlanStore, SqliteStore,
};
use sync::{CancelReason, EffectGate};
use tempfile::TempDir;

use crate::sqlite_bench::{
    PLAN, call_end, change, choice, database, effect, made, new_call, node_run, open, owner,
};

/// Tells a process that it is such a child, and where the store is.
const ROLE: &str = "STORE_TEST_ROLE";
const DIR: &str = "STORE_TEST_DIR";
const NUMBER: &str = "STORE_TEST_NUMBER";

/// The number of writes that each of several processes does.
const WRITES: u128 = 300;
/// The number of decisions that a strategist takes in a step.
const FIVE: u32 = 5;
/// The number of changes that each call of a writing process makes.
const CHANGES: u128 = 3;

fn start(role: &str, dir: &Path, number: u128) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite_processes::a_child_does_what_its_role_says", "--nocapture"])
        .env(ROLE, role)
        .env(DIR, dir)
        .env(NUMBER, number.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets children that wait for their input go on together, and waits until all have done well.
fn all_succeed(mut children: Vec<Child>) {
    for child in &mut children {
        let mut ready = String::new();
        let mut output = BufReader::new(child.stdout.as_mut().unwrap());
        while !ready.ends_with("ready\n") {
            assert_ne!(output.read_line(&mut ready).unwrap(), 0, "a child has died: {ready}");
        }
    }
    children.iter_mut().for_each(|child| drop(child.stdin.take()));
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Does nothing, unless another test started it.
#[tokio::test]
async fn a_child_does_what_its_role_says() {
    let (Ok(role), Some(dir)) = (std::env::var(ROLE), std::env::var_os(DIR)) else { return };
    let number: u128 = std::env::var(NUMBER).unwrap().parse().unwrap();
    let dir = Path::new(&dir);
    match role.as_str() {
        "opens" => {
            wait_for_the_others();
            owner(&open(dir), PlanId::from_u128(number)).await;
        }
        "writes" => {
            let store = open(dir);
            wait_for_the_others();
            write_much(&store, number).await;
        }
        "writes until killed" => write_until_killed(&open(dir), number).await,
        "fails until killed" => fail_until_killed(&open(dir), number).await,
        other => panic!("there is no role {other}"),
    }
}

/// Tells the test that started this process.
fn say(line: &str) {
    std::io::stdout().lock().write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn wait_for_the_others() {
    say("ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

async fn write_much(store: &SqliteStore, number: u128) {
    let claim = owner(store, PlanId::from_u128(number)).await;
    for n in 1..=WRITES / 10 {
        let set = ChangesetId::from_u128(number << 64 | n);
        store.start(&effect(), &claim, set).await.unwrap();
        for k in 0..10 {
            store.record(&effect(), &claim, set, change(n << 8 | k, b"content")).await.unwrap();
        }
        store.close(&effect(), &claim, set).await.unwrap();
    }
    let finisher = EffectGate::new().close(CancelReason::User).unwrap();
    store.end(&finisher, &claim, JobEnd::Succeeded).await.unwrap();
}

/// Ends call after call, and says so as soon as it knows.
async fn write_until_killed(store: &SqliteStore, number: u128) {
    let claim = owner(store, PlanId::from_u128(number)).await;
    let set = ChangesetId::from_u128(number);
    store.start(&effect(), &claim, set).await.unwrap();
    for n in 1.. {
        let ids = |k: u128| n * CHANGES + k;
        let changes: Vec<_> = (0..CHANGES).map(|k| change(ids(k), &content(ids(k)))).collect();
        let contents = (0..CHANGES).map(|k| store.stage(&mut content(ids(k)).as_slice()).unwrap()).collect();
        end_call(store, &claim, set, changes, contents).await;
        say(&format!("done {n}"));
    }
}

async fn end_call(
    store: &SqliteStore,
    claim: &Claim,
    set: ChangesetId,
    changes: Vec<domain::NewChange>,
    contents: Vec<store::StagedContent>,
) {
    let call = store.begin_call(&effect(), claim, new_call()).await.unwrap();
    let changeset = Some(set);
    let settles = vec![node_run(&call.no.0.to_string()), node_run(&format!("{}/skipped", call.no.0))];
    let outcome =
        CallOutcome { attempt: 1, no: call.no, end: call_end(), changeset, changes, contents, settles };
    store.end_call(CallAuthority::Effect(&effect()), claim, outcome).await.unwrap();
}

/// Has one error after the other, and says so as soon as it knows what is done about it.
async fn fail_until_killed(store: &SqliteStore, number: u128) {
    let claim = owner(store, PlanId::from_u128(number)).await;
    for n in 1.. {
        store.record_error(&claim, &RecoveryPolicy::default(), error(n), 0).await.unwrap();
        say(&format!("done {n}"));
    }
}

/// Error `n`, which tells its number in its details.
fn error(n: u128) -> NewError {
    let step = StepId { attempt: 1, node: "code".to_owned(), visit: 1 };
    let detail = Detail::from([("no".to_owned(), n.to_string().into())]);
    NewError::new(ErrorId::from_u128(n), Phase::Execute, step, ErrorCategory::Timeout, "no answer")
        .with_detail(detail)
}

/// Every third is large.
fn content(n: u128) -> Vec<u8> {
    n.to_string().into_bytes().repeat(if n.is_multiple_of(3) { 20_000 } else { 1 })
}

#[tokio::test]
async fn of_four_processes_that_open_a_new_directory_one_makes_the_store() {
    for _ in 0..5 {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        all_succeed((1..=4).map(|number| start("opens", &data, number)).collect());
        let jobs = open(&data).jobs(None).await.unwrap();
        assert_eq!(jobs.iter().map(|job| job.id.as_u128()).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(jobs.iter().all(|job| job.state == JobState::Running));
    }
}

#[tokio::test]
async fn five_processes_write_at_once_and_all_is_there() {
    let dir = TempDir::new().unwrap();
    drop(open(dir.path()));
    all_succeed((1..=5).map(|number| start("writes", dir.path(), number)).collect());
    let store = open(dir.path());
    for number in 1..=5 {
        let sets = store.changesets(PlanId::from_u128(number)).await.unwrap();
        assert_eq!(sets.len() as u128, WRITES / 10);
        assert!(sets.iter().all(|set| set.state == ChangesetState::Closed && set.entries.len() == 10));
        let numbers: Vec<u64> = sets.iter().flat_map(|set| &set.entries).map(|entry| entry.no).collect();
        assert!(numbers.into_iter().map(u128::from).eq(1..=WRITES));
    }
    let jobs = store.jobs(None).await.unwrap();
    assert!(jobs.len() == 5 && jobs.iter().all(|job| job.state == JobState::Succeeded));
}

#[tokio::test]
async fn what_a_killed_process_was_told_is_there_and_no_call_is_there_in_part() {
    let dir = TempDir::new().unwrap();
    for round in 1..=6 {
        let mut child = start("writes until killed", dir.path(), round);
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let killed_at = format!("done {}", 7 * round);
        assert!(output.any(|line| line.unwrap() == killed_at), "it was still writing");
        child.kill().unwrap();
        child.wait().unwrap();
        // The lines that it printed before the kill reached it.
        let last = output.map_while(Result::ok).filter(|line| line.starts_with("done ")).last();
        let told: u128 =
            last.as_deref().unwrap_or(&killed_at).strip_prefix("done ").unwrap().parse().unwrap();

        let store = open(dir.path());
        let plan = PlanId::from_u128(round);
        let sets = store.changesets(plan).await.unwrap();
        let entries = &sets[0].entries;
        let kept = entries.len() as u128;
        assert!(kept >= told * CHANGES, "{told} calls were answered, {kept} entries are there");
        assert_eq!(kept % CHANGES, 0, "the changes of a call are all there or none");
        let calls = store.calls(plan).await.unwrap();
        let ended = calls.iter().filter(|call| call.end.is_some()).count() as u128;
        assert_eq!(ended * CHANGES, kept, "a call has ended exactly if its changes are there");
        let nodes = store.node_runs(plan).await.unwrap().len() as u128;
        assert_eq!(nodes, 2 * ended, "and exactly if the nodes that it settles are there");
        for (n, entry) in (1..).zip(entries) {
            assert_eq!((u128::from(entry.seq), u128::from(entry.no)), (n, n), "there are no gaps");
            let id = n + CHANGES - 1;
            let mut bytes = Vec::new();
            store.open_content(&Hash::from_content(&content(id))).unwrap().read_to_end(&mut bytes).unwrap();
            assert!(bytes == content(id), "the content of entry {n}");
        }
        // The dead one's plan goes on where it stopped.
        let next = sets[0].entries.len() as u64 + 1;
        let job = store.jobs(Some(plan)).await.unwrap().remove(0);
        let more = change(1 << 100, b"more");
        let recorded = store.record(&effect(), &job.claim(), sets[0].id, more).await.unwrap();
        assert_eq!(recorded.no, next);
    }
}

#[tokio::test]
async fn what_a_killed_process_was_told_of_its_errors_is_there_and_the_next_is_counted_after_them() {
    let dir = TempDir::new().unwrap();
    let mut child = start("fails until killed", dir.path(), 1);
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(output.any(|line| line.unwrap() == "done 7"), "it was still failing");
    child.kill().unwrap();
    child.wait().unwrap();
    let last = output.map_while(Result::ok).filter(|line| line.starts_with("done ")).last();
    let told: u64 = last.as_deref().unwrap_or("done 7").strip_prefix("done ").unwrap().parse().unwrap();

    let store = open(dir.path());
    let history = store.history(PLAN).await.unwrap();
    assert!(history.recorded() >= told, "{told} errors were answered, {} are there", history.recorded());
    let actions: Vec<bool> = history
        .records()
        .map(|record| matches!(record.recovery.action, RecoveryAction::Retry { .. }))
        .collect();
    if history.recorded() <= 100 {
        assert_eq!(actions[..4], [true, true, true, false], "the retries of a step");
    }
    // A final failure comes after them, and takes nothing of their details away.
    let (claim, next) = (store.jobs(None).await.unwrap().remove(0).claim(), history.recorded() + 1);
    let recovery =
        store.record_error(&claim, &RecoveryPolicy::default(), error(next.into()), 0).await.unwrap();
    assert_eq!((recovery.seq, recovery.action), (next, RecoveryAction::Ask));
    let details = store.history(PLAN).await.unwrap().details();
    let kept = details["no"].as_array().unwrap();
    assert_eq!(kept.last().unwrap(), &next.to_string());
    assert!(kept.len() > 1, "{kept:?}");
}

/// The bytes of the log's head, and of each page in it with the page's own head.
const LOG_HEAD_BYTES: usize = 32;
const LOG_PAGE_BYTES: usize = 24 + 4096;

/// The store of this directory as losses of power might have left it: with its log cut, at the ends of its
/// pages and within them. Something of each of so many writes is in the log.
fn cut_logs(dir: &Path, writes: usize) -> impl Iterator<Item = (usize, TempDir)> {
    let [file, log] = ["agents.db", "agents.db-wal"].map(|name| std::fs::read(dir.join(name)).unwrap());
    let pages = (log.len() - LOG_HEAD_BYTES) / LOG_PAGE_BYTES;
    assert!(pages > writes, "all of it is in the log");
    let places = (0..=pages).flat_map(|page| [0, 1, LOG_PAGE_BYTES / 2].map(|within| (page, within)));
    places.map(move |(page, within)| {
        let cut = (LOG_HEAD_BYTES + page * LOG_PAGE_BYTES + within).min(log.len());
        let lost = TempDir::new().unwrap();
        std::fs::write(database(lost.path()), &file).unwrap();
        std::fs::write(lost.path().join("agents.db-wal"), &log[..cut]).unwrap();
        (cut, lost)
    })
}

#[tokio::test]
async fn of_a_strategist_that_decides_five_times_in_a_step_a_cut_log_holds_whole_steps_and_no_gap() {
    const STEPS: u32 = 6;
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let claim = made(&store, PLAN).await;
    let reader = Connection::open(database(dir.path())).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM jobs;").unwrap();
    for n in 1..=STEPS {
        let follows = |parent| StepDecision { parent: Some(parent), ..choice("part").into() };
        let mut five = vec![choice(&format!("strategy {n}")).into()];
        five.extend((0..FIVE as usize - 1).map(follows));
        store.decide_all(&effect(), &claim, five).await.unwrap();
    }
    let mut before = 0;
    for (cut, lost) in cut_logs(dir.path(), STEPS as usize) {
        let store = open(lost.path());
        let decisions = store.decisions(PLAN).await.unwrap();
        let count = decisions.len() as u32;
        assert!(
            count == 0 || (count - 1).is_multiple_of(FIVE),
            "cut at {cut}: {count} decisions, a step in part"
        );
        assert!(count >= before, "cut at {cut}: what is there is a prefix");
        before = count;
        assert!(decisions.iter().map(|decision| decision.seq).eq(1..=count), "cut at {cut}: a gap");
        if let Some(job) = store.jobs(Some(PLAN)).await.unwrap().first().filter(|job| job.is_owned_by(&claim))
        {
            let next = store.decide(&effect(), &job.claim(), choice("more")).await.unwrap();
            assert_eq!(next.seq, count + 1, "cut at {cut}: a count without its rows");
        }
    }
    assert_eq!(before, 1 + STEPS * FIVE, "uncut it has all");
    drop(reader);
}

#[tokio::test]
async fn a_log_that_a_power_loss_cut_holds_a_prefix_of_the_calls_and_none_in_part() {
    const CALLS: u128 = 12;
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let claim = owner(&store, PLAN).await;
    let set = ChangesetId::from_u128(1);
    store.start(&effect(), &claim, set).await.unwrap();
    // As long as somebody reads what is there now, the log is not moved on into the file.
    let reader = Connection::open(database(dir.path())).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM jobs;").unwrap();
    for n in 1..=CALLS {
        let changes = (0..CHANGES).map(|k| change(n * CHANGES + k, b"small")).collect();
        let contents = vec![store.stage(&mut &b"small"[..]).unwrap()];
        end_call(&store, &claim, set, changes, contents).await;
    }
    let mut before = 0;
    for (cut, lost) in cut_logs(dir.path(), CALLS as usize) {
        let store = open(lost.path());
        let entries =
            store.changesets(PLAN).await.unwrap().first().map_or(0, |set| set.entries.len()) as u128;
        let calls = store.calls(PLAN).await.unwrap();
        let ended = calls.iter().filter(|call| call.end.is_some()).count() as u128;
        assert_eq!(
            entries,
            ended * CHANGES,
            "cut at {cut}: a call has ended exactly if its changes are there"
        );
        let nodes = store.node_runs(PLAN).await.unwrap().len() as u128;
        assert_eq!(nodes, 2 * ended, "cut at {cut}: and exactly if the nodes that it settles are there");
        assert!(
            ended >= before && calls.len() as u128 <= ended + 1,
            "cut at {cut}: what is there is a prefix"
        );
        before = ended;
    }
    assert_eq!(before, CALLS, "uncut it has all");
    drop(reader);
}
