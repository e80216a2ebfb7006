//! Turn after turn: somebody applies or undoes, is killed, and is recovered from.
//!
//! An apply that went through is followed by an undo, and the other way round, so that one project serves for
//! all.
//!
//! # Invariants
//! 1. What the journal says decides what the tree has to be: no commit mark, as it was; a commit mark, as
//!    asked.
//! 2. A turn that goes wrong is counted and told, and the next one starts from a fresh project.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use sandbox::journal::{JournalId, Journals};
use tempfile::TempDir;

use crate::child::{self, ChildAction};
use crate::requests;
use testkit::journal_marks::{ReachedMark, reached};
use testkit::judge::{Kind, TreeJudge, TreeSide};
use testkit::moments::{Dice, DurationSpan, wait};

/// One in so many kills is drawn over the whole life of the process.
const WHOLE_LIFE_EVERY: u64 = 3;
/// One in so many interrupted ones is interrupted in its recovery as well.
const RECOVERY_EVERY: u64 = 2;
/// How often in a row a recovery is killed at most.
const RECOVERY_KILLS_MAX: usize = 3;

/// How many of each kind are let go through first.
const LEARNED: usize = 5;

/// Of the runs of a kind, this share has to be killed between commit and done mark …
const BETWEEN_PERCENT: usize = 30;
/// … and this one in a recovery.
const IN_RECOVERY_PERCENT: usize = 10;

/// What happened to the runs of one kind.
#[derive(Default)]
struct KillTally {
    runs: usize,
    reached: BTreeMap<ReachedMark, usize>,
    /// Of those killed between the marks: how much was written, in tenths.
    written: [usize; 11],
    /// Recoveries that were killed, and runs in which one was.
    recoveries: usize,
    in_recovery: usize,
    torn: Vec<String>,
    lost: Vec<String>,
}

/// How long the parts take when nobody kills.
struct RunSpans {
    whole: DurationSpan,
    to_done: DurationSpan,
    recovery: DurationSpan,
}

/// A project, and all kills in it so far.
pub(crate) struct Kills {
    dir: TempDir,
    files: usize,
    judge: TreeJudge,
    journals: Journals,
    side: TreeSide,
    next_id: u128,
    applied: JournalId,
    spans: BTreeMap<Kind, RunSpans>,
    tallies: BTreeMap<Kind, KillTally>,
}

impl Kills {
    /// Makes the project, and learns how long things take.
    pub(crate) fn new(files: usize, dice: &mut Dice) -> Kills {
        let dir = tempfile::tempdir().unwrap();
        let judge = make(dir.path(), files);
        let journals = requests::journals(&dir.path().join("data"));
        let mut kills = Kills {
            dir,
            files,
            judge,
            journals,
            side: TreeSide::Before,
            next_id: 1,
            applied: JournalId::from_u128(0),
            spans: BTreeMap::new(),
            tallies: Kind::ALL.map(|kind| (kind, KillTally::default())).into(),
        };
        kills.learn_spans(dice);
        kills
    }

    /// Lets some go through, and takes the middle of their times.
    fn learn_spans(&mut self, dice: &mut Dice) {
        let mut times: BTreeMap<Kind, Vec<(Duration, Duration)>> = BTreeMap::new();
        for _ in 0..LEARNED {
            for kind in Kind::ALL {
                let start = Instant::now();
                let (mut process, id) = self.start(kind);
                assert!(heard_commit(&mut process));
                let committed = start.elapsed();
                assert!(process.wait().unwrap().success());
                times.entry(kind).or_default().push((start.elapsed(), start.elapsed() - committed));
                self.settle(kind, id, ReachedMark::Retired, dice);
            }
        }
        for (kind, mut times) in times {
            times.sort();
            let (whole, from_commit) = times[LEARNED / 2];
            println!(
                "a whole {}: {:.1} ms, {:.1} ms from its commit",
                kind.word(),
                ms(whole),
                ms(from_commit)
            );
            // From the commit to the done mark, and a recovery, it is at most so long: the kills find out.
            let [whole, to_done, recovery] = [whole, from_commit, from_commit].map(DurationSpan::new);
            self.spans.insert(kind, RunSpans { whole, to_done, recovery });
        }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn take_id(&mut self) -> JournalId {
        self.next_id += 1;
        JournalId::from_u128(self.next_id)
    }

    fn start(&mut self, kind: Kind) -> (Child, JournalId) {
        let id = self.take_id();
        (
            child::start(self.dir.path(), self.files, ChildAction::Carry { kind, id, applied: self.applied }),
            id,
        )
    }

    pub(crate) fn are_enough(&self, runs: usize) -> bool {
        self.tallies.values().all(|tally| tally.runs >= runs)
    }

    /// One run: an apply, or an undo when the last apply stands.
    pub(crate) fn turn(&mut self, runs: usize, dice: &mut Dice) {
        let kind = Kind::from(self.side);
        if self.tallies[&kind].runs >= runs {
            // Only to come to the other kind.
            let id = self.take_id();
            child::carry(self.dir.path(), self.files, kind, id, self.applied);
            self.settle(kind, id, ReachedMark::Retired, dice);
            return;
        }
        let (mut process, id) = self.start(kind);
        let start = Instant::now();
        let whole_life = dice.one_in(WHOLE_LIFE_EVERY);
        let spans = self.spans.get_mut(&kind).unwrap();
        if whole_life {
            let ended = wait(&mut process, start, spans.whole.draw(dice));
            spans.whole.learn(ended);
        } else {
            heard_commit(&mut process);
            wait(&mut process, Instant::now(), spans.to_done.draw(dice));
        }
        let acknowledged = kill(&mut process);
        let reached = reached(&self.data(), &id.to_string());
        if !whole_life {
            self.spans.get_mut(&kind).unwrap().to_done.aim(reached == ReachedMark::Commit);
        }
        let tally = self.tallies.get_mut(&kind).unwrap();
        tally.runs += 1;
        *tally.reached.entry(reached).or_default() += 1;
        if acknowledged && reached != ReachedMark::Retired {
            tally.lost.push(format!("it said that it was done, and came only so far: {}", reached.words()));
        }
        if reached == ReachedMark::Commit {
            let percent = self.judge.percent_after(&self.root());
            let written = match kind {
                Kind::Apply => percent,
                Kind::Undo => 100 - percent,
            };
            self.tallies.get_mut(&kind).unwrap().written[written / 10] += 1;
        }
        self.settle(kind, id, reached, dice);
    }

    /// Recovers, perhaps killed again and again, and judges.
    fn settle(&mut self, kind: Kind, id: JournalId, came_to: ReachedMark, dice: &mut Dice) {
        if came_to == ReachedMark::Commit && dice.one_in(RECOVERY_EVERY) {
            self.kill_recoveries(kind, id, dice);
        }
        child::recover(&self.journals);
        let expected = if came_to < ReachedMark::Commit { kind.source() } else { kind.goal() };
        let found = self.judge.side(&self.root());
        let tally = self.tallies.get_mut(&kind).unwrap();
        match &found {
            Ok(side) if *side == expected => {}
            Ok(side) => tally.lost.push(format!("{id} reached {came_to:?} and the tree is {side:?}")),
            Err(why) => tally.torn.push(format!("{id} reached {came_to:?}: {why}")),
        }
        let open = self.journals.open_ids().unwrap();
        if !open.is_empty() {
            tally.lost.push(format!("after its recovery {} journals are open", open.len()));
        }
        match found {
            Ok(side) if side == expected => self.side = side,
            Ok(_) | Err(_) => self.start_anew(),
        }
        if kind == Kind::Apply && self.side == TreeSide::After {
            self.applied = id;
        }
        let old: Vec<_> =
            self.journals.undo_ids().unwrap().into_iter().filter(|old| old.id != self.applied).collect();
        old.into_iter().for_each(|old| self.journals.forget_undo(old.id).unwrap());
    }

    fn kill_recoveries(&mut self, kind: Kind, id: JournalId, dice: &mut Dice) {
        let mut killed = 0;
        for _ in 0..RECOVERY_KILLS_MAX {
            let start = Instant::now();
            let mut process = child::start(self.dir.path(), self.files, ChildAction::Recover);
            wait(&mut process, start, self.spans[&kind].recovery.draw(dice));
            kill(&mut process);
            let was_over = reached(&self.data(), &id.to_string()) == ReachedMark::Retired;
            self.spans.get_mut(&kind).unwrap().recovery.aim(!was_over);
            if was_over {
                break;
            }
            killed += 1;
        }
        let tally = self.tallies.get_mut(&kind).unwrap();
        tally.recoveries += killed;
        tally.in_recovery += usize::from(killed > 0);
    }

    fn start_anew(&mut self) {
        self.dir = tempfile::tempdir().unwrap();
        self.judge = make(self.dir.path(), self.files);
        self.journals = requests::journals(&self.data());
        self.side = TreeSide::Before;
    }

    pub(crate) fn torn_share(&self, kind: Kind) -> f64 {
        let tally = &self.tallies[&kind];
        tally.torn.len() as f64 / tally.runs.max(1) as f64
    }

    pub(crate) fn nothing_torn_or_lost(&self, kind: Kind) -> bool {
        let tally = &self.tallies[&kind];
        tally.torn.is_empty() && tally.lost.is_empty()
    }

    /// Whether as many kills met the moments that this is about as they should; says so when not.
    pub(crate) fn met_enough(&self, kind: Kind, runs: usize) -> bool {
        let tally = &self.tallies[&kind];
        let between = tally.reached.get(&ReachedMark::Commit).copied().unwrap_or_default();
        let asked = (runs * BETWEEN_PERCENT / 100, runs * IN_RECOVERY_PERCENT / 100);
        let is_enough = between >= asked.0 && tally.in_recovery >= asked.1;
        if !is_enough {
            println!("too few kills of {}: {} and {} are asked for", kind.word(), asked.0, asked.1);
        }
        is_enough
    }

    /// The histogram.
    pub(crate) fn print(&self) {
        for (kind, tally) in &self.tallies {
            println!("\n{} × {}, killed", tally.runs, kind.word());
            for reached in ReachedMark::ALL {
                let count = tally.reached.get(&reached).copied().unwrap_or_default();
                println!("  {:<32} {count:>5}  {}", reached.words(), bar(count, tally.runs));
            }
            println!("  between the marks, by files written:");
            for (tenth, count) in tally.written.iter().enumerate() {
                println!("    {:>3} %{:26} {count:>5}  {}", tenth * 10, "", bar(*count, tally.runs));
            }
            let (runs, kills) = (tally.in_recovery, tally.recoveries);
            println!("  of them killed in a recovery too {runs:>5}  ({kills} recoveries)");
            println!("  torn {}, lost {}", tally.torn.len(), tally.lost.len());
            tally.torn.iter().chain(&tally.lost).take(10).for_each(|what| println!("    {what}"));
        }
    }
}

fn make(dir: &Path, files: usize) -> TreeJudge {
    let (before, after) = testkit::mixed::trees(files);
    testkit::trees::plant(&dir.join("project"), &before);
    child::link(dir, files);
    TreeJudge::new(&dir.join("project"), before, after)
}

/// Waits until the child says that its commit mark is on disk; false when it ended without.
fn heard_commit(process: &mut Child) -> bool {
    let mut letter = [0];
    let heard = process.stdout.as_mut().unwrap().read(&mut letter).unwrap();
    heard == 1 && letter == *b"c"
}

/// Kills it; whether it had said that all was done. One that failed by itself fails us.
fn kill(process: &mut Child) -> bool {
    process.kill().unwrap();
    let status = process.wait().unwrap();
    assert!(status.success() || status.signal() == Some(libc::SIGKILL), "the child failed: {status}");
    let mut said = Vec::new();
    process.stdout.as_mut().unwrap().read_to_end(&mut said).unwrap();
    said.ends_with(b"d")
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn bar(count: usize, of: usize) -> String {
    "#".repeat((count * 60).div_ceil(of.max(1)))
}
