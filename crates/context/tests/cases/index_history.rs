//! The newest commits in the index: read once, then only what is new, and anew when history was rewritten.

use std::sync::Mutex;

use context::StopCheck;
use context::index::{CommitFacts, Oid, terms};
use context::ports::{COMMIT_PATHS_MAX, Commit, CommitLog, History, PortError};
use proptest::prelude::*;

use crate::index_support::{MemTree, Rig, path};

fn oid(number: u32) -> Oid {
    Oid::new(&format!("{number:040x}")).expect("hexadecimal digits")
}

fn commit(number: u32, at: i64, message: &str, paths: &[&str]) -> Commit {
    let paths = paths.iter().map(path).collect();
    Commit { oid: oid(number), at, message: message.to_owned(), paths }
}

/// A history in memory, told by time. Each round of commits has a head of its own; it remembers what was
/// asked.
#[derive(Default)]
struct FakeHistory {
    rounds: Mutex<Vec<(Oid, Vec<Commit>)>>,
    asked: Mutex<Vec<Option<Oid>>>,
    is_broken: Mutex<bool>,
    cut_at: Mutex<String>,
}

impl FakeHistory {
    fn of(commits: Vec<Commit>) -> FakeHistory {
        let history = FakeHistory::default();
        history.push(commits[0].oid.clone(), commits);
        history
    }

    fn push(&self, head: Oid, commits: Vec<Commit>) {
        self.rounds.lock().expect("not poisoned").push((head, commits));
    }

    fn asked(&self) -> Vec<Option<Oid>> {
        std::mem::take(&mut *self.asked.lock().expect("not poisoned"))
    }

    fn answer(&self) -> Result<(), PortError> {
        match *self.is_broken.lock().expect("not poisoned") {
            true => Err(PortError { message: "git is broken".to_owned(), source: None }),
            false => Ok(()),
        }
    }
}

impl History for FakeHistory {
    fn head(&self, _: &StopCheck) -> Result<Option<Oid>, PortError> {
        self.answer()?;
        Ok(self.rounds.lock().expect("not poisoned").last().map(|(head, _)| head.clone()))
    }

    fn cut_at(&self) -> String {
        self.cut_at.lock().expect("not poisoned").clone()
    }

    fn log(&self, stop_at: Option<&Oid>, max: u32, _: &StopCheck) -> Result<CommitLog, PortError> {
        self.answer()?;
        self.asked.lock().expect("not poisoned").push(stop_at.cloned());
        let rounds = self.rounds.lock().expect("not poisoned");
        let known = stop_at.and_then(|stop_at| rounds.iter().position(|(head, _)| head == stop_at));
        let new = &rounds[known.map_or(0, |round| round + 1)..];
        let mut told: Vec<Commit> = new.iter().flat_map(|(_, commits)| commits.clone()).collect();
        told.sort_by(|a, b| (b.at, &b.oid).cmp(&(a.at, &a.oid)));
        told.truncate(max as usize);
        Ok(CommitLog { commits: told, joins: known.is_some() })
    }
}

fn subjects(commits: &[CommitFacts]) -> Vec<(u32, &str)> {
    commits.iter().map(|commit| (commit.rank, commit.subject.as_str())).collect()
}

#[test]
fn only_what_is_new_is_asked_for_also_by_a_new_process() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("i.sqlite");
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let history = FakeHistory::of(vec![
        commit(2, 20, "second\n\nSigned-off-by: x", &["b", "a"]),
        commit(1, 10, "first", &["a"]),
    ]);
    let index = rig.in_file(&file);
    let first = rig.update_with(&index, &tree, Some(&history)).snapshot;
    let expected = CommitFacts {
        oid: oid(2),
        rank: 0,
        at: 20,
        subject: "second".to_owned(),
        terms: terms::of_text("second"),
        paths: vec![path("a"), path("b")],
    };
    assert_eq!((first.commits().len(), &first.commits()[0]), (2, &expected));
    assert_eq!(history.asked(), [None]);

    let same = rig.update_with(&index, &tree, Some(&history)).snapshot;
    assert_eq!((history.asked().len(), same.commits()), (0, first.commits()));

    history.push(oid(3), vec![commit(3, 30, "third", &["c"])]);
    drop(index);
    let index = rig.in_file(&file);
    let after = rig.update_with(&index, &tree, Some(&history)).snapshot;
    assert_eq!(subjects(after.commits()), [(0, "third"), (1, "second"), (2, "first")]);
    assert_eq!(history.asked(), [Some(oid(2))]);
    drop(index);
    let stored = rig.update_with(&rig.in_file(&file), &tree, Some(&history)).snapshot;
    assert_eq!((stored.commits(), history.asked().len()), (after.commits(), 0));
}

#[test]
fn a_project_without_files_has_its_history_in_every_process() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let (file, tree) = (dir.path().join("i.sqlite"), MemTree::new(&rig.wall));
    let history = FakeHistory::of(vec![commit(1, 10, "first", &["a"])]);
    for process in 0..2 {
        let snapshot = rig.update_with(&rig.in_file(&file), &tree, Some(&history)).snapshot;
        assert_eq!(subjects(snapshot.commits()), [(0, "first")], "{process}");
    }
}

#[test]
fn a_rewritten_history_is_read_anew() {
    let rig = Rig::new();
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let history = FakeHistory::of(vec![commit(2, 20, "second", &["a"]), commit(1, 10, "first", &["a"])]);
    let index = rig.in_memory();
    rig.update_with(&index, &tree, Some(&history));
    *history.rounds.lock().expect("not poisoned") =
        vec![(oid(9), vec![commit(9, 21, "amended", &["a"]), commit(1, 10, "first", &["a"])])];
    let after = rig.update_with(&index, &tree, Some(&history)).snapshot;
    assert_eq!(subjects(after.commits()), [(0, "amended"), (1, "first")]);
    assert_eq!(history.asked(), [None, Some(oid(2)), None]);
    // All of it is younger than what was known, and still nothing of that.
    *history.rounds.lock().expect("not poisoned") = vec![(oid(8), vec![commit(8, 30, "rebased", &["a"])])];
    let after = rig.update_with(&index, &tree, Some(&history)).snapshot;
    assert_eq!(subjects(after.commits()), [(0, "rebased")]);
    history.rounds.lock().expect("not poisoned").clear();
    assert_eq!(rig.update_with(&index, &tree, Some(&history)).snapshot.commits().len(), 0);
}

#[test]
fn a_git_that_fails_is_a_note_and_what_is_known_stays() {
    let rig = Rig::new();
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let history = FakeHistory::of(vec![commit(1, 10, "first", &["a"])]);
    let index = rig.in_memory();
    rig.update_with(&index, &tree, Some(&history));
    *history.is_broken.lock().expect("not poisoned") = true;
    let updated = rig.update_with(&index, &tree, Some(&history));
    assert_eq!(updated.notes, ["the history is not up to date: git is broken"]);
    assert_eq!(subjects(updated.snapshot.commits()), [(0, "first")]);
    let none = rig.update_with(&rig.in_memory(), &tree, Some(&history));
    assert_eq!(none.notes, ["the history is left out: git is broken"]);
}

#[test]
fn a_history_that_is_gone_or_not_to_be_looked_at_is_forgotten_for_good() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("i.sqlite");
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let history = FakeHistory::of(vec![commit(1, 10, "first", &["a"])]);
    let commits = |history: Option<&FakeHistory>| {
        let index = rig.in_file(&file);
        let history = history.map(|history| history as &dyn History);
        rig.update_with(&index, &tree, history).snapshot.commits().len()
    };
    assert_eq!(
        [commits(Some(&history)), commits(None), commits(None), commits(Some(&history))],
        [1, 0, 0, 1]
    );
}

#[test]
fn a_clone_that_was_made_deeper_is_read_anew() {
    let rig = Rig::new();
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let history = FakeHistory::of(vec![commit(2, 20, "second", &["a"])]);
    *history.cut_at.lock().expect("not poisoned") = "2".to_owned();
    let index = rig.in_memory();
    rig.update_with(&index, &tree, Some(&history));
    history.rounds.lock().expect("not poisoned")[0].1.push(commit(1, 10, "first", &["a"]));
    assert_eq!(rig.update_with(&index, &tree, Some(&history)).snapshot.commits().len(), 1);
    history.cut_at.lock().expect("not poisoned").clear();
    let whole = rig.update_with(&index, &tree, Some(&history)).snapshot;
    assert_eq!(subjects(whole.commits()), [(0, "second"), (1, "first")]);
}

#[test]
fn commits_without_paths_or_with_too_many_count_but_are_not_told() {
    let mut rig = Rig::new();
    rig.config.history_commits = 4;
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let many: Vec<String> = (0..=COMMIT_PATHS_MAX).map(|number| format!("p{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let history = FakeHistory::of(vec![
        commit(5, 50, "wide", &many),
        commit(4, 40, "just", &many[1..]),
        commit(3, 30, "empty", &[]),
        commit(2, 20, "second", &["a"]),
        commit(1, 10, "too old", &["a"]),
    ]);
    let snapshot = rig.update_with(&rig.in_memory(), &tree, Some(&history)).snapshot;
    assert_eq!(subjects(snapshot.commits()), [(1, "just"), (3, "second")]);
    rig.config.history_commits = 0;
    let off = rig.update_with(&rig.in_memory(), &tree, Some(&history)).snapshot;
    assert_eq!(off.commits().len(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Commits come with any times, as merges of old branches bring them.
    #[test]
    fn what_is_known_after_any_updates_is_what_a_look_at_all_would_give(
        rounds in proptest::collection::vec(proptest::collection::vec((0..9_i64, 0..3_usize), 0..4), 1..6)
    ) {
        let mut rig = Rig::new();
        rig.config.history_commits = 6;
        let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
        let history = FakeHistory::default();
        let index = rig.in_memory();
        let mut number = 0;
        for (round, commits) in rounds.into_iter().enumerate() {
            let commits = commits.into_iter().map(|(later, paths)| {
                number += 1;
                let at = i64::try_from(round).expect("small") * 4 + later;
                commit(number, at, &format!("message {number}"), &["a", "b"][..paths])
            });
            let commits = commits.collect();
            history.push(oid(1000 + u32::try_from(round).expect("small")), commits);
            let known = rig.update_with(&index, &tree, Some(&history)).snapshot;
            let fresh = rig.update_with(&rig.in_memory(), &tree, Some(&history)).snapshot;
            prop_assert_eq!(known.commits(), fresh.commits());
        }
    }
}
