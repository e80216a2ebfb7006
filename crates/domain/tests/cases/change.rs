//! The kind of a change is derived from its two states; renames are found among the changes of one call.

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

use crate::sample::{change, entry, path};

fn file(content: &str) -> Option<FileState> {
    Some(FileState::file(content.as_bytes(), 0o644))
}

fn created(at: &str, content: &str) -> ChangeDraft {
    ChangeDraft::between(path(at), None, file(content)).unwrap()
}

fn deleted(at: &str, content: &str) -> ChangeDraft {
    ChangeDraft::between(path(at), file(content), None).unwrap()
}

/// A draft as it reads: operation, path and source.
fn told(drafts: Vec<ChangeDraft>) -> Vec<String> {
    let told = |draft: ChangeDraft| match draft.op() {
        ChangeOp::Create => format!("create {}", draft.path()),
        ChangeOp::Modify => format!("modify {}", draft.path()),
        ChangeOp::Delete => format!("delete {}", draft.path()),
        ChangeOp::Mode => format!("mode {}", draft.path()),
        ChangeOp::Rename { from } => format!("rename {from} to {}", draft.path()),
    };
    drafts.into_iter().map(told).collect()
}

#[test]
fn the_operation_follows_from_the_states() {
    let text = FileState::file(b"text", 0o644);
    let other = FileState::file(b"other", 0o644);
    let program = FileState::file(b"text", 0o755);
    let link = FileState::symlink(b"text");
    let larger = FileState { size: 9, ..text };
    let table = [
        (None, Some(text), Some(ChangeOp::Create)),
        (Some(text), None, Some(ChangeOp::Delete)),
        (Some(text), Some(other), Some(ChangeOp::Modify)),
        (Some(text), Some(larger), Some(ChangeOp::Modify)),
        (Some(text), Some(link), Some(ChangeOp::Modify)),
        (Some(program), Some(other), Some(ChangeOp::Modify)),
        (Some(text), Some(program), Some(ChangeOp::Mode)),
        (Some(text), Some(text), None),
        (None, None, None),
    ];
    for (before, after, op) in table {
        let draft = ChangeDraft::between(path("a"), before, after);
        let parts = draft.as_ref().map(|draft| {
            (draft.path().clone(), draft.op().clone(), draft.before().copied(), draft.after().copied())
        });
        assert_eq!(parts, op.map(|op| (path("a"), op, before, after)));
    }
}

#[test]
fn a_moved_file_is_renamed() {
    let before = FileState::file(b"text", 0o644);
    let after = FileState::file(b"text", 0o755);
    let gone = ChangeDraft::between(path("old"), Some(before), None).unwrap();
    let come = ChangeDraft::between(path("new"), None, Some(after)).unwrap();
    let renamed = pair_renames(vec![gone, come]);
    assert_eq!(renamed.len(), 1);
    assert_eq!(renamed[0].op(), &ChangeOp::Rename { from: path("old") });
    assert_eq!(renamed[0].path(), &path("new"));
    assert_eq!((renamed[0].before(), renamed[0].after()), (Some(&before), Some(&after)));
}

#[test]
fn what_differs_or_is_empty_is_no_rename() {
    let kept = [
        vec![created("new", "text, edited"), deleted("old", "text")],
        vec![created("new", ""), deleted("old", "")],
        vec![
            ChangeDraft::between(path("new"), None, Some(FileState::symlink(b"text"))).unwrap(),
            deleted("old", "text"),
        ],
        vec![
            ChangeDraft::between(path("new"), None, Some(FileState::dir(0o755))).unwrap(),
            ChangeDraft::between(path("old"), Some(FileState::dir(0o755)), None).unwrap(),
        ],
    ];
    for drafts in kept {
        assert_eq!(pair_renames(drafts.clone()), drafts);
    }
}

#[test]
fn the_same_name_wins_then_the_order_of_paths() {
    let drafts = vec![
        deleted("b/x", "text"),
        deleted("a/y", "text"),
        deleted("c/z", "text"),
        created("d/x", "text"),
        created("d/w", "text"),
        created("d/v", "text"),
        created("d/u", "text"),
    ];
    assert_eq!(
        told(pair_renames(drafts)),
        ["rename a/y to d/u", "rename c/z to d/v", "create d/w", "rename b/x to d/x"]
    );
}

#[test]
fn among_equal_names_the_first_path_goes_to_the_first_path() {
    let drafts = vec![created("d/x", "t"), created("c/x", "t"), deleted("b/x", "t"), deleted("a/x", "t")];
    assert_eq!(told(pair_renames(drafts)), ["rename a/x to c/x", "rename b/x to d/x"]);
}

#[test]
fn a_replaced_path_is_the_end_of_no_rename() {
    let link = ChangeDraft::between(path("a"), None, Some(FileState::symlink(b"b"))).unwrap();
    let replaced_source = vec![link, deleted("a", "text"), created("b", "text")];
    assert_eq!(told(pair_renames(replaced_source)), ["delete a", "create a", "create b"]);
    let link = ChangeDraft::between(path("b"), Some(FileState::symlink(b"x")), None).unwrap();
    let replaced_target = vec![created("b", "text"), link, deleted("a", "text")];
    assert_eq!(told(pair_renames(replaced_target)), ["delete a", "delete b", "create b"]);
}

#[test]
fn other_changes_stay_as_they_are() {
    let modified = ChangeDraft::between(path("m"), file("one"), file("two")).unwrap();
    let drafts = vec![modified, created("z", "two"), deleted("a", "two")];
    assert_eq!(told(pair_renames(drafts)), ["modify m", "rename a to z"]);
}

#[test]
fn an_entry_matches_its_change_and_no_other() {
    let recorded = change(1, "text");
    let entry = entry(ChangesetId::from_u128(1), 1, 1, &recorded);
    assert!(entry.matches(&recorded));
    let draft = |at: &str, before, after| ChangeDraft::between(path(at), before, after).unwrap();
    let others = [
        NewChange { id: ChangeId::from_u128(2), ..recorded.clone() },
        NewChange { call: CallNumber(2), ..recorded.clone() },
        NewChange { root: RootIndex(1), ..recorded.clone() },
        NewChange { base: Base::Moved, ..recorded.clone() },
        NewChange { draft: draft("other", None, file("text")), ..recorded.clone() },
        NewChange { draft: draft("file", None, file("other")), ..recorded.clone() },
        NewChange { draft: draft("file", file("text"), None), ..recorded.clone() },
        NewChange { draft: draft("file", file("other"), file("text")), ..recorded },
    ];
    for other in others {
        assert!(!entry.matches(&other), "{other:?}");
    }
    let from = |from: &str| {
        let drafts = vec![deleted(from, "text"), created("file", "text")];
        NewChange { draft: pair_renames(drafts).remove(0), ..change(1, "text") }
    };
    let renamed = crate::sample::entry(ChangesetId::from_u128(1), 1, 1, &from("a"));
    assert!(renamed.matches(&from("a")));
    assert!(!renamed.matches(&from("b")));
}

fn some_drafts() -> impl Strategy<Value = Vec<ChangeDraft>> {
    let draft =
        (prop_oneof!["[ab]/[xyz]", "[abc]"], "[st]?", any::<bool>()).prop_map(|(at, content, come)| {
            if come { created(&at, &content) } else { deleted(&at, &content) }
        });
    proptest::collection::vec(draft, 0..12).prop_map(|drafts| {
        // One delete and one create per path at most, as a scan finds them.
        let mut seen = std::collections::BTreeSet::new();
        let first =
            |draft: &ChangeDraft| seen.insert((draft.path().clone(), draft.op() == &ChangeOp::Create));
        drafts.into_iter().filter(first).collect()
    })
}

/// The files before or after a call, as far as it changed them: what pairing must not alter.
fn files(drafts: &[ChangeDraft], then: bool) -> Vec<(RelPath, FileState)> {
    let mut files: Vec<_> = drafts
        .iter()
        .filter_map(|draft| match (then, draft.op()) {
            (false, ChangeOp::Rename { from }) => draft.before().map(|state| (from.clone(), *state)),
            (false, _) => draft.before().map(|state| (draft.path().clone(), *state)),
            (true, _) => draft.after().map(|state| (draft.path().clone(), *state)),
        })
        .collect();
    files.sort();
    files
}

proptest! {
    #[test]
    fn pairing_loses_and_invents_nothing(
        (drafts, shuffled) in some_drafts().prop_flat_map(|drafts| (Just(drafts.clone()), Just(drafts).prop_shuffle())),
    ) {
        let paired = pair_renames(drafts.clone());
        prop_assert_eq!(files(&paired, false), files(&drafts, false));
        prop_assert_eq!(files(&paired, true), files(&drafts, true));
        prop_assert_eq!(&pair_renames(shuffled), &paired, "whatever order they were found in");
        prop_assert_eq!(&pair_renames(paired.clone()), &paired, "and no pair is left");
    }
}
