//! A content is on disk once, whoever needs it: the plan, its apply, its undo.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use domain::Hash;

use super::support::{CommandOutput, TestUser};

/// How large the changed file is.
const BYTES: usize = 20_000_000;
/// What the store takes for itself, and a copy too many would exceed.
const SMALL: u64 = 6_000_000;

/// What is really taken on the disk below a directory: a file with several names once.
fn disk_bytes(dir: &Path) -> u64 {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
            if metadata.is_dir() {
                dirs.push(entry.path());
            }
            found.insert((metadata.dev(), metadata.ino()), metadata.blocks() * 512);
        }
    }
    found.values().sum()
}

fn data(person: &TestUser) -> PathBuf {
    person.home().join("data")
}

/// At most so many copies of the file are in the data directory.
fn at_most(person: &TestUser, copies: u64, when: &str) {
    let bytes = disk_bytes(&data(person));
    assert!(bytes <= copies * BYTES as u64 + SMALL, "{when}: {bytes} bytes");
}

fn big(letter: u8) -> Vec<u8> {
    vec![letter; BYTES]
}

fn big_file(person: &TestUser) -> PathBuf {
    person.project().join("big")
}

fn is_all(person: &TestUser, letter: u8) -> bool {
    fs::read(big_file(person)).unwrap() == big(letter)
}

/// A plan that makes another letter of each in a large file.
fn big_plan(person: &TestUser) -> String {
    fs::write(big_file(person), big(b'a')).unwrap();
    person.plan("tr a b < big > other; cat other > big; rm other")
}

fn good(answer: CommandOutput) -> CommandOutput {
    assert_eq!(answer.exit, 0, "{answer:?}");
    answer
}

fn start(person: &TestUser, words: &[&str]) -> Child {
    let mut command = person.command(&person.project(), words);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills a command that writes the large file from the front, once it has written the byte at `place` with
/// this letter. Returns whether it had still to write.
fn kill_at(person: &TestUser, words: &[&str], place: usize, letter: u8) -> bool {
    // Opened before: a process that writes may keep others from opening the file.
    let file = File::open(big_file(person)).unwrap();
    let byte_at = |place: usize| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, place as u64).ok().map(|()| byte[0])
    };
    let mut child = start(person, words);
    while byte_at(place) != Some(letter) && child.try_wait().unwrap().is_none() {}
    child.kill().unwrap();
    child.wait().unwrap();
    byte_at(place) == Some(letter) && byte_at(BYTES - 1) != Some(letter)
}

/// Applies or undoes until a kill leaves half of the file written.
fn half_done(person: &TestUser, verb: &str, plan: &str, letter: u8) {
    let back = if verb == "apply" { "undo" } else { "apply" };
    while !kill_at(person, &["plan", verb, plan, "--yes"], 0, letter) {
        // It was too late, or too early; a next command may have brought it to its end.
        let whole = person.agents(&["plan", verb, plan, "--yes"]);
        assert!([0, 4].contains(&whole.exit), "{whole:?}");
        good(person.agents(&["plan", back, plan, "--yes"]));
    }
}

#[test]
fn a_large_file_that_is_applied_and_undone_is_on_disk_once_as_it_was_and_once_as_it_is() {
    let person = TestUser::new();
    let plan = big_plan(&person);
    at_most(&person, 2, "after the run");
    for round in 0..2 {
        good(person.agents(&["plan", "apply", &plan, "--yes"]));
        assert!(is_all(&person, b'b'));
        at_most(&person, 2, &format!("after apply {round}"));
        good(person.agents(&["plan", "undo", &plan, "--yes"]));
        assert!(is_all(&person, b'a'));
        at_most(&person, 2, &format!("after undo {round}"));
    }
    half_done(&person, "apply", &plan, b'b');
    at_most(&person, 2, "in the middle of an apply");
}

#[test]
fn a_large_file_is_whole_however_often_apply_undo_and_recovery_are_killed() {
    let person = TestUser::new();
    let plan = big_plan(&person);
    for (verb, letter) in [("apply", b'b'), ("undo", b'a'), ("apply", b'b'), ("undo", b'a')] {
        half_done(&person, verb, &plan, letter);
        for eighth in [5, 6] {
            kill_at(&person, &["plan", "status", &plan], BYTES / 8 * eighth, letter);
        }
        let status = good(person.json(&["plan", "status", &plan])).data();
        assert!(is_all(&person, letter), "{verb}: {status}");
        assert_eq!(status["undone"], verb == "undo", "{status}");
        assert_eq!(fs::read_dir(data(&person).join("journal")).unwrap().count(), 0);
    }
}

/// Puts a copy of a directory's content in the place of another's.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(to).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_dir = entry.file_type().unwrap().is_dir();
        if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }
    fs::create_dir_all(to).unwrap();
    assert!(Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap().success());
}

/// Where the store has a large content.
fn stored(person: &TestUser, letter: u8) -> PathBuf {
    let digits = Hash::from_content(&big(letter)).to_string();
    let (first, rest) = digits.split_at(2);
    data(person).join("contents").join(first).join(rest)
}

/// The names that journals have for contents.
fn linked(person: &TestUser) -> Vec<PathBuf> {
    let owners = fs::read_dir(data(person).join("journal-contents")).unwrap().flatten();
    let files = owners.flat_map(|owner| fs::read_dir(owner.path()).unwrap().flatten());
    files.map(|entry| entry.path()).collect()
}

fn flip(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(b"?", BYTES as u64 / 2).unwrap();
}

#[test]
fn a_content_that_is_damaged_or_removed_before_a_recovery_is_told_and_nothing_is_lost() {
    let person = TestUser::new();
    let plan = big_plan(&person);
    half_done(&person, "apply", &plan, b'b');
    let half = fs::read(big_file(&person)).unwrap();
    let saved = tempfile::tempdir().unwrap();
    let parts = ["data", "shop"];
    parts.iter().for_each(|part| copy(&person.home().join(part), &saved.path().join(part)));
    let restore = || parts.iter().for_each(|part| copy(&saved.path().join(part), &person.home().join(part)));
    // The names in the store are not needed.
    fs::remove_dir_all(data(&person).join("contents")).unwrap();
    good(person.agents(&["plan", "status", &plan]));
    assert!(is_all(&person, b'b'));
    good(person.agents(&["plan", "undo", &plan, "--yes"]));
    assert!(is_all(&person, b'a'));
    // The bytes are.
    let remove = |letter: u8| {
        let digits = Hash::from_content(&big(letter)).to_string();
        let link = linked(&person).into_iter().find(|path| path.ends_with(&digits));
        fs::remove_file(link.unwrap()).unwrap();
    };
    let damages: [&dyn Fn(); 4] =
        [&|| flip(&stored(&person, b'b')), &|| flip(&stored(&person, b'a')), &|| remove(b'b'), &|| {
            [b'a', b'b'].into_iter().for_each(remove)
        }];
    for (n, damage) in damages.into_iter().enumerate() {
        restore();
        damage();
        let names = linked(&person);
        let told = person.agents(&["plan", "status", &plan]);
        let said = format!("{}{}", told.stdout, told.stderr);
        assert!(told.exit == 6 && said.contains("JOURNAL_DAMAGED") && said.contains("big"), "{n}: {said}");
        assert!(fs::read(big_file(&person)).unwrap() == half, "{n}: the file is as the kill left it");
        assert_eq!(linked(&person), names, "{n}: nothing is removed");
        assert_eq!(fs::read_dir(data(&person).join("undo")).unwrap().count(), 1, "{n}");
        good(person.agents(&["plan", "list"]));
    }
}

#[test]
fn gc_between_apply_and_undo_takes_nothing_from_the_undo() {
    let person = TestUser::new();
    let plan = big_plan(&person);
    good(person.agents(&["plan", "apply", &plan, "--yes"]));
    good(person.agents(&["plan", "gc"]));
    assert_eq!(linked(&person).len(), 2);
    // More than any collection would take.
    fs::remove_dir_all(data(&person).join("contents")).unwrap();
    good(person.agents(&["plan", "gc"]));
    good(person.agents(&["plan", "undo", &plan, "--yes"]));
    assert!(is_all(&person, b'a'));
    assert_eq!(linked(&person).len(), 0);
}

#[test]
fn gc_removes_the_contents_of_a_journal_that_is_gone() {
    let person = TestUser::new();
    let plan = big_plan(&person);
    good(person.agents(&["plan", "apply", &plan, "--yes"]));
    let journal = fs::read_dir(data(&person).join("undo")).unwrap().flatten().next().unwrap().path();
    fs::remove_file(journal).unwrap();
    good(person.agents(&["plan", "gc"]));
    assert_eq!(linked(&person).len(), 0);
    // Forgetting a plan takes its contents with its journal.
    let undone = person.json(&["plan", "undo", &plan, "--yes"]);
    assert_eq!((undone.exit, undone.code()), (4, "UNDO_EXPIRED".to_owned()), "{undone:?}");
    let plan = {
        fs::remove_file(big_file(&person)).unwrap();
        big_plan(&person)
    };
    good(person.agents(&["plan", "apply", &plan, "--yes"]));
    good(person.agents(&["plan", "gc", "--older", "0s"]));
    assert_eq!((linked(&person).len(), fs::read_dir(data(&person).join("undo")).unwrap().count()), (0, 0));
    at_most(&person, 2, "what was stored within the hour stays");
}

#[test]
fn a_file_that_was_edited_before_the_apply_is_kept_once_and_comes_back() {
    let person = TestUser::new();
    let plan = big_plan(&person);
    fs::write(big_file(&person), big(b'c')).unwrap();
    good(person.agents(&["plan", "apply", &plan, "--take", "big", "--yes"]));
    assert!(is_all(&person, b'b'));
    at_most(&person, 3, "with the edit");
    good(person.agents(&["plan", "undo", &plan, "--yes"]));
    assert!(is_all(&person, b'c'));
    at_most(&person, 2, "after the undo");
}

#[test]
fn an_undo_whose_content_is_damaged_or_gone_is_refused_and_writes_nothing() {
    let person = TestUser::new();
    let plan = big_plan(&person);
    good(person.agents(&["plan", "apply", &plan, "--yes"]));
    let digits = Hash::from_content(&big(b'a')).to_string();
    let link = linked(&person).into_iter().find(|path| path.ends_with(&digits)).unwrap();
    flip(&link);
    let refused = |when: &str| {
        let refused = person.json(&["plan", "undo", &plan, "--yes"]);
        assert_eq!((refused.exit, refused.code().as_str()), (6, "JOURNAL_DAMAGED"), "{when}: {refused:?}");
        assert!(is_all(&person, b'b'), "{when}");
        assert_eq!(fs::read_dir(data(&person).join("journal")).unwrap().count(), 0, "{when}");
    };
    refused("damaged");
    fs::remove_file(&link).unwrap();
    refused("gone");
    // A person who has it elsewhere puts it back.
    fs::write(&link, big(b'a')).unwrap();
    good(person.agents(&["plan", "undo", &plan, "--yes"]));
    assert!(is_all(&person, b'a'));
}
