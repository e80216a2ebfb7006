//! Promises of the writer, tested on a real file: which writes are undone, which are stored, and the answers.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::mpsc;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::sqlite::batch::Batches;
use crate::sqlite::contents::ContentFiles;
use crate::sqlite::transaction::Tx;
use crate::sqlite::{self, FIRST_FOR_PROCESS, FOR_POWER, FOR_PROCESS, open, schema};

struct WriterBench {
    dir: TempDir,
    path: PathBuf,
    writer: StoreWriter<Batches>,
}

type WriteFuture<'w> = Pin<Box<dyn Future<Output = Result<i64, StoreError>> + 'w>>;

impl WriterBench {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let (path, _) = open::open(dir.path()).unwrap();
        let writer = sqlite::writer(&path, &ContentFiles::new(dir.path().join("contents")));
        Self { dir, path, writer }
    }

    /// Writes a row of this name.
    fn row(&self, terms: WriteTerms, name: impl Into<String>) -> WriteFuture<'_> {
        let name = name.into();
        self.act(terms, move |tx| insert(tx, &name))
    }

    fn act(
        &self,
        terms: WriteTerms,
        act: impl FnOnce(&Tx<'_>) -> Result<i64, StoreError> + Send + 'static,
    ) -> WriteFuture<'_> {
        Box::pin(self.writer.submit(terms, act))
    }

    /// Blocks the writer until the answer is sent.
    fn hold(&self) -> (WriteFuture<'_>, mpsc::Sender<()>) {
        let (go_on, held) = mpsc::channel();
        let (begun, has_begun) = mpsc::channel();
        let mut hold = self.act(FOR_PROCESS, move |_| {
            begun.send(()).unwrap();
            held.recv().unwrap();
            Ok(0)
        });
        poll_once(&mut hold);
        has_begun.recv().unwrap();
        (hold, go_on)
    }

    /// The names of all rows, as another process would see them.
    fn rows(&self) -> Vec<String> {
        let other = Connection::open(&self.path).unwrap();
        let mut all = other.prepare("SELECT plan FROM plan_heads ORDER BY no").unwrap();
        all.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

fn insert(tx: &Tx<'_>, name: &str) -> Result<i64, StoreError> {
    tx.the("INSERT INTO plan_heads (plan) VALUES (?1) RETURNING no", [name], |row| row.get(0))
}

fn poll_once(answer: &mut WriteFuture<'_>) -> Option<Result<i64, StoreError>> {
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Waits for all, in whatever order they are answered.
fn all(answers: Vec<WriteFuture<'_>>) -> Vec<Result<i64, StoreError>> {
    answers.into_iter().map(block_on).collect()
}

/// Submits all while the writer is held, so that they share a batch; then waits.
fn in_one_batch<'w>(
    bench: &'w WriterBench,
    mut answers: Vec<WriteFuture<'w>>,
) -> Vec<Result<i64, StoreError>> {
    let (hold, go_on) = bench.hold();
    for answer in &mut answers {
        assert_eq!(poll_once(answer), None, "nobody is answered before the commit");
    }
    go_on.send(()).unwrap();
    block_on(hold).unwrap();
    all(answers)
}

fn why(answer: &Result<i64, StoreError>) -> &str {
    match answer {
        Err(StoreError::Broken { why }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_panicking_write_is_undone_alone() {
    let bench = WriterBench::new();
    let panicking = bench.act(FOR_PROCESS, |tx| {
        insert(tx, "half")?;
        panic!("out of ideas")
    });
    let answers =
        in_one_batch(&bench, vec![bench.row(FOR_PROCESS, "a"), panicking, bench.row(FOR_PROCESS, "b")]);
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_eq!(why(&answers[1]), "a write panicked: out of ideas; it was rolled back");
    assert_eq!(bench.rows(), ["a", "b"]);
    block_on(bench.row(FOR_PROCESS, "c")).unwrap();
    assert_eq!(bench.rows(), ["a", "b", "c"]);
}

#[test]
fn a_panicking_write_that_is_alone_in_its_batch_is_undone_too() {
    let bench = WriterBench::new();
    let panicking = bench.act(FOR_PROCESS, |tx| {
        insert(tx, "half")?;
        panic!("out of ideas")
    });
    assert!(why(&block_on(panicking)).contains("out of ideas"));
    block_on(bench.row(FOR_PROCESS, "a")).unwrap();
    assert_eq!(bench.rows(), ["a"]);
}

#[test]
fn a_refused_write_is_undone_alone_and_hears_its_own_refusal() {
    let bench = WriterBench::new();
    let refused = bench.act(FOR_PROCESS, |tx| {
        insert(tx, "half")?;
        Err(StoreError::Busy)
    });
    let wrong = bench.act(FOR_PROCESS, |tx| {
        insert(tx, "half")?;
        insert(tx, "half")
    });
    let answers =
        in_one_batch(&bench, vec![bench.row(FOR_PROCESS, "a"), refused, wrong, bench.row(FOR_PROCESS, "b")]);
    assert_eq!(answers[1], Err(StoreError::Busy));
    assert!(why(&answers[2]).contains("UNIQUE constraint failed"), "{answers:?}");
    assert_eq!(bench.rows(), ["a", "b"]);
}

#[test]
fn a_full_disk_undoes_the_batch_and_passes_when_there_is_room_again() {
    let bench = WriterBench::new();
    let set_limit = |pages: &'static str| {
        block_on(bench.act(FOR_PROCESS, move |tx| {
            tx.the(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get(0))
        }))
        .unwrap()
    };
    // Less than there are is taken for as many as there are.
    set_limit("1");
    let large = "x".repeat(1 << 20);
    let answers = in_one_batch(
        &bench,
        vec![bench.row(FOR_PROCESS, "a"), bench.row(FOR_POWER, large), bench.row(FOR_PROCESS, "b")],
    );
    assert_eq!(answers, [Err(StoreError::Full), Err(StoreError::Full), Err(StoreError::Full)]);
    assert_eq!(bench.rows(), Vec::<String>::new(), "also what was small enough is undone");
    set_limit("100000");
    block_on(bench.row(FOR_PROCESS, "c")).unwrap();
    assert_eq!(bench.rows(), ["c"]);
}

#[test]
fn after_a_commit_that_failed_nothing_is_written_any_more() {
    let bench = WriterBench::new();
    // It breaks the rule that a job has a plan, which SQLite is set to check in the commit.
    let spoils = bench.act(FOR_PROCESS, |tx| {
        tx.run("PRAGMA defer_foreign_keys = ON", [])?;
        tx.run("INSERT INTO decisions (head, seq, decision, created) VALUES (99, 1, '', 0)", [])?;
        Ok(0)
    });
    let answers = in_one_batch(&bench, vec![bench.row(FOR_PROCESS, "a"), spoils]);
    for answer in &answers {
        assert!(why(answer).contains("FOREIGN KEY constraint failed"), "{answers:?}");
    }
    let later = block_on(bench.row(FOR_PROCESS, "b"));
    assert!(why(&later).contains("FOREIGN KEY constraint failed"));
    assert_eq!(bench.rows(), Vec::<String>::new());
}

#[test]
fn a_newer_program_that_migrated_the_file_meanwhile_ends_the_writing() {
    let bench = WriterBench::new();
    block_on(bench.row(FOR_PROCESS, "a")).unwrap();
    Connection::open(&bench.path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    for name in ["b", "c"] {
        let answer = block_on(bench.row(FOR_PROCESS, name));
        assert_eq!(answer, Err(StoreError::TooNew { found: 99, known: schema::VERSION }));
    }
    assert_eq!(bench.rows(), ["a"]);
}

#[test]
fn a_file_that_was_set_back_to_an_older_form_is_not_written() {
    let bench = WriterBench::new();
    block_on(bench.row(FOR_PROCESS, "a")).unwrap();
    Connection::open(&bench.path).unwrap().execute_batch("PRAGMA user_version = 0").unwrap();
    let answer = block_on(bench.row(FOR_PROCESS, "b"));
    assert_eq!(
        why(&answer),
        format!("it now has version 0; this program writes version {}", schema::VERSION)
    );
    assert_eq!(bench.rows(), ["a"]);
}

#[test]
fn one_durable_write_makes_its_batch_durable_and_no_other() {
    let bench = WriterBench::new();
    let synchronous = |terms| bench.act(terms, |tx| tx.the("PRAGMA synchronous", [], |row| row.get(0)));
    const NORMAL: i64 = 1;
    const FULL: i64 = 2;
    assert_eq!(block_on(synchronous(FOR_PROCESS)), Ok(NORMAL));
    let answers = in_one_batch(&bench, vec![synchronous(FOR_PROCESS), synchronous(FOR_POWER)]);
    assert_eq!(answers, [Ok(FULL), Ok(FULL)]);
    assert_eq!(block_on(synchronous(FOR_PROCESS)), Ok(NORMAL));
    assert_eq!(block_on(synchronous(FOR_POWER)), Ok(FULL));
}

#[test]
fn urgent_writes_overtake_the_others() {
    let bench = WriterBench::new();
    let answers = vec![
        bench.row(FOR_PROCESS, "second"),
        bench.row(FOR_PROCESS, "third"),
        bench.row(FIRST_FOR_PROCESS, "first"),
    ];
    assert!(in_one_batch(&bench, answers).iter().all(Result::is_ok));
    assert_eq!(bench.rows(), ["first", "second", "third"]);
}

#[test]
fn beyond_a_full_lane_writes_wait_and_none_is_forgotten() {
    let bench = WriterBench::new();
    let (hold, go_on) = bench.hold();
    let count = 3 * BOUNDS.lane_writes_max;
    let mut answers: Vec<WriteFuture<'_>> =
        (0..count).map(|n| bench.row(FOR_PROCESS, format!("row {n}"))).collect();
    for answer in &mut answers {
        assert_eq!(poll_once(answer), None);
    }
    assert_eq!(bench.writer.lanes.waiting_writes(), BOUNDS.lane_writes_max);
    // An urgent one has its own lane.
    let mut urgent = bench.row(FIRST_FOR_PROCESS, "urgent");
    assert_eq!(poll_once(&mut urgent), None);
    assert_eq!(bench.writer.lanes.waiting_writes(), BOUNDS.lane_writes_max + 1);
    // A caller that loses interest takes no other's place with it.
    answers.drain(BOUNDS.lane_writes_max..BOUNDS.lane_writes_max + 500);
    go_on.send(()).unwrap();
    block_on(hold).unwrap();
    // The last first: each is woken by itself, not by its neighbour.
    for answer in answers.into_iter().rev().chain([urgent]) {
        block_on(answer).unwrap();
    }
    assert_eq!(bench.rows().len(), count - 500 + 1);
    assert_eq!(bench.rows()[0], "urgent");
}

#[test]
fn what_waits_when_the_store_is_dropped_is_written() {
    let bench = WriterBench::new();
    let (hold, go_on) = bench.hold();
    for n in 0..10 {
        poll_once(&mut bench.row(FOR_PROCESS, format!("row {n}")));
    }
    drop(hold);
    go_on.send(()).unwrap();
    let WriterBench { dir, path, writer } = bench;
    drop(writer);
    let rows =
        Connection::open(&path).unwrap().query_row("SELECT count(*) FROM plan_heads", [], |row| row.get(0));
    assert_eq!(rows, Ok(10));
    drop(dir);
}

#[test]
fn a_submit_beside_the_shutdown_is_written_or_refused() {
    for round in 1..=5 {
        let bench = WriterBench::new();
        let submit = |who: usize| {
            let mut kept = Vec::new();
            for n in 0.. {
                let name = format!("{who} {n}");
                match block_on(bench.row(FOR_PROCESS, name.clone())) {
                    Ok(_) => kept.push(name),
                    Err(refused) => {
                        assert_eq!(refused, stopped());
                        break;
                    }
                }
            }
            kept
        };
        let mut kept: Vec<String> = thread::scope(|scope| {
            let submitting: Vec<_> = (0..8)
                .map(|who| {
                    scope.spawn({
                        let submit = &submit;
                        move || submit(who)
                    })
                })
                .collect();
            while bench.rows().len() < round {}
            bench.writer.close();
            submitting.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let mut rows = bench.rows();
        rows.sort_unstable();
        kept.sort_unstable();
        assert_eq!(rows, kept, "who was answered Ok is there, and who was refused is not");
    }
}

#[test]
fn a_dropped_store_leaves_one_file() {
    let bench = WriterBench::new();
    block_on(bench.row(FOR_PROCESS, "a")).unwrap();
    let WriterBench { dir, writer, .. } = bench;
    drop(writer);
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["agents.db"]);
}
