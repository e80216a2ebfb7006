//! The process that is killed: this program again, with another first word.
//!
//! It says `c` when its commit mark is on disk and `d` when the journal was put away, and nothing else.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sandbox::content::ContentSource;
use sandbox::journal::{JournalChange, JournalId, JournalKind, Journals};

use crate::requests;
use testkit::judge::Kind;

/// The first word of a child.
const CHILD: &str = "__killed";

/// What a child does.
#[derive(Clone, Copy)]
pub(crate) enum ChildAction {
    Carry { kind: Kind, id: JournalId, applied: JournalId },
    Recover,
}

/// Starts a child.
pub(crate) fn start(stage: &Path, files: usize, act: ChildAction) -> Child {
    let mut command = Command::new("/proc/self/exe");
    command.arg(CHILD).arg(stage).arg(files.to_string());
    match act {
        ChildAction::Carry { kind, id, applied } => {
            command.args([kind.word(), &id.to_string(), &applied.to_string()]);
        }
        ChildAction::Recover => {
            command.arg("recover");
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Whether this process is such a child; then it has done what it was started for.
pub(crate) fn acted() -> bool {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [CHILD, stage, _, "recover"] => {
            recover(&requests::journals(&Path::new(stage).join("data")));
            say(b'd');
        }
        [CHILD, stage, files, kind, id, applied] => {
            let kind = Kind::ALL.into_iter().find(|known| known.word() == kind).unwrap();
            carry(
                Path::new(stage),
                files.parse().unwrap(),
                kind,
                id.parse().unwrap(),
                applied.parse().unwrap(),
            );
        }
        _ => return false,
    }
    true
}

/// Brings what is open to its end and puts it away.
pub(crate) fn recover(journals: &Journals) {
    let recovery = journals.recover().unwrap();
    assert!(recovery.stuck.is_empty(), "{:?}", recovery.stuck);
    recovery.settled.into_iter().for_each(|settled| drop(settled.retire().unwrap()));
}

/// Applies, or undoes what was applied.
pub(crate) fn carry(stage: &Path, files: usize, kind: Kind, id: JournalId, applied: JournalId) {
    let journals = requests::journals(&stage.join("data"));
    match kind {
        Kind::Apply => {
            let (before, after) = testkit::mixed::trees(files);
            let changes = requests::changes(&before, &after);
            write(&journals, stage, (id, JournalKind::Apply), changes, &requests::EmptyContentSource);
        }
        Kind::Undo => {
            let undo = journals.read_undo(applied).unwrap();
            let mut changes = undo.changes().to_vec();
            for change in &mut changes {
                std::mem::swap(&mut change.pre, &mut change.post);
                change.from = None;
            }
            write(&journals, stage, (id, JournalKind::Undo), changes, &undo);
        }
    }
}

fn write(
    journals: &Journals,
    stage: &Path,
    (id, kind): (JournalId, JournalKind),
    changes: Vec<JournalChange>,
    content: &dyn ContentSource,
) {
    let request = requests::request(id, kind, &stage.join("project"), changes);
    let committed = journals.prepare(request, content).unwrap().commit().unwrap();
    say(b'c');
    committed.carry_out().unwrap().retire().unwrap();
    say(b'd');
}

/// To whoever started us; nobody, when this is the process that measures.
fn say(letter: u8) {
    if std::env::args().nth(1).as_deref() == Some(CHILD) {
        let mut out = std::io::stdout();
        out.write_all(&[letter]).and_then(|()| out.flush()).unwrap();
    }
}

/// Gives edited files a second name outside the project.
pub(crate) fn link(stage: &Path, files: usize) {
    fs::create_dir_all(stage.join("links")).unwrap();
    for (number, path) in testkit::mixed::linked(files).enumerate() {
        let second = stage.join("links").join(number.to_string());
        fs::hard_link(stage.join("project").join(path), &second).unwrap();
        assert_eq!(fs::metadata(second).unwrap().nlink(), 2);
    }
}
