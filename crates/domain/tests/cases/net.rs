//! Folding entries is replaying them, and says the least that is true.

use std::collections::BTreeMap;

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

use crate::sample::path;

fn file(content: &str) -> FileState {
    FileState::file(content.as_bytes(), 0o644)
}

/// Entries with their numbers given in order, each by its own call.
#[derive(Default)]
struct Entries(Vec<ChangeEntry>);

impl Entries {
    fn push(
        mut self,
        root: u16,
        at: &str,
        op: ChangeOp,
        before: Option<FileState>,
        after: Option<FileState>,
    ) -> Self {
        let no = self.0.len() as u64 + 1;
        self.0.push(ChangeEntry {
            id: ChangeId::from_u128(u128::from(no)),
            changeset: ChangesetId::from_u128(1),
            seq: u32::try_from(no).unwrap(),
            no,
            call: CallNumber(u32::try_from(no).unwrap()),
            root: RootIndex(root),
            path: path(at),
            op,
            before,
            after,
            base: Base::Known,
        });
        self
    }

    fn create(self, at: &str, content: &str) -> Self {
        self.push(0, at, ChangeOp::Create, None, Some(file(content)))
    }

    fn modify(self, at: &str, before: &str, after: &str) -> Self {
        self.push(0, at, ChangeOp::Modify, Some(file(before)), Some(file(after)))
    }

    fn delete(self, at: &str, content: &str) -> Self {
        self.push(0, at, ChangeOp::Delete, Some(file(content)), None)
    }

    fn rename(self, from: &str, to: &str, content: &str) -> Self {
        self.push(0, to, ChangeOp::Rename { from: path(from) }, Some(file(content)), Some(file(content)))
    }

    fn net(self) -> Vec<NetChange> {
        fold(&self.0)
    }
}

fn net(from: Option<&str>, at: &str, before: Option<&str>, after: Option<&str>, calls: &[u32]) -> NetChange {
    NetChange {
        root: RootIndex(0),
        path: path(at),
        from: from.map(path),
        before: before.map(file),
        after: after.map(file),
        base: Base::Known,
        calls: calls.iter().copied().map(CallNumber).collect(),
    }
}

fn entries() -> Entries {
    Entries::default()
}

#[test]
fn the_first_state_and_the_last_count() {
    assert_eq!(entries().net(), []);
    assert_eq!(
        entries().modify("a", "1", "2").modify("b", "x", "y").modify("a", "2", "3").net(),
        [net(None, "a", Some("1"), Some("3"), &[1, 3]), net(None, "b", Some("x"), Some("y"), &[2])]
    );
    assert_eq!(
        entries().create("a", "1").modify("a", "1", "2").net(),
        [net(None, "a", None, Some("2"), &[1, 2])]
    );
    assert_eq!(
        entries().delete("a", "1").create("a", "2").net(),
        [net(None, "a", Some("1"), Some("2"), &[1, 2])]
    );
}

#[test]
fn what_ends_as_it_began_drops_out() {
    assert_eq!(entries().create("a", "1").delete("a", "1").net(), []);
    assert_eq!(entries().modify("a", "1", "2").modify("a", "2", "1").net(), []);
    assert_eq!(entries().delete("a", "1").create("a", "1").net(), []);
    assert_eq!(entries().rename("a", "b", "1").rename("b", "a", "1").net(), []);
    assert_eq!(entries().create("a", "1").rename("a", "b", "1").delete("b", "1").net(), []);
}

#[test]
fn moves_fold_into_one() {
    assert_eq!(
        entries().rename("a", "b", "1").rename("b", "c", "1").net(),
        [net(Some("a"), "c", Some("1"), Some("1"), &[1, 2])]
    );
    assert_eq!(
        entries().rename("a", "b", "1").modify("b", "1", "2").net(),
        [net(Some("a"), "b", Some("1"), Some("2"), &[1, 2])]
    );
    assert_eq!(
        entries().modify("a", "1", "2").rename("a", "b", "2").net(),
        [net(Some("a"), "b", Some("1"), Some("2"), &[1, 2])]
    );
    assert_eq!(
        entries().rename("a", "b", "1").modify("b", "1", "2").delete("b", "2").net(),
        [net(None, "a", Some("1"), None, &[1, 2, 3])]
    );
    assert_eq!(
        entries().create("a", "1").rename("a", "b", "1").net(),
        [net(None, "b", None, Some("1"), &[1, 2])]
    );
}

#[test]
fn a_move_over_a_file_keeps_what_was_overwritten() {
    assert_eq!(
        entries().delete("b", "old").rename("a", "b", "1").net(),
        [net(None, "a", Some("1"), None, &[2]), net(None, "b", Some("old"), Some("1"), &[1, 2])]
    );
    // Two files that changed places.
    assert_eq!(
        entries().rename("a", "t", "1").rename("b", "a", "2").rename("t", "b", "1").net(),
        [net(None, "a", Some("1"), Some("2"), &[1, 2]), net(None, "b", Some("2"), Some("1"), &[1, 2, 3])]
    );
}

#[test]
fn a_file_made_anew_where_one_moved_away_is_an_edit_of_the_place() {
    assert_eq!(
        entries().rename("a", "b", "1").create("a", "2").net(),
        [net(None, "a", Some("1"), Some("2"), &[1, 2]), net(None, "b", None, Some("1"), &[1])]
    );
    assert_eq!(
        entries().rename("a", "b", "1").delete("b", "1").create("b", "2").net(),
        [net(None, "a", Some("1"), None, &[1, 2]), net(None, "b", None, Some("2"), &[1, 2, 3])],
        "the new file has nothing of the old one"
    );
    let moved_twice = entries().rename("a", "b", "1").create("a", "2").rename("a", "c", "2").net();
    assert_eq!(
        moved_twice,
        [net(Some("a"), "b", Some("1"), Some("1"), &[1, 2, 3]), net(None, "c", None, Some("2"), &[1, 2, 3])]
    );
}

#[test]
fn a_moved_file_that_became_a_link_is_told_apart() {
    let link = Some(FileState::symlink(b"1"));
    let folded = entries().rename("a", "b", "1").push(0, "b", ChangeOp::Modify, Some(file("1")), link).net();
    assert_eq!(
        folded,
        [
            net(None, "a", Some("1"), None, &[1]),
            NetChange { after: link, ..net(None, "b", None, None, &[1, 2]) }
        ]
    );
}

#[test]
fn roots_are_apart_and_the_answer_is_in_their_order() {
    let twice = entries()
        .push(1, "a", ChangeOp::Create, None, Some(file("1")))
        .push(0, "b", ChangeOp::Create, None, Some(file("1")))
        .push(0, "a", ChangeOp::Delete, Some(file("1")), None);
    let places: Vec<(u16, String)> =
        twice.net().iter().map(|change| (change.root.0, change.path.to_string())).collect();
    assert_eq!(places, [(0, "a".to_owned()), (0, "b".to_owned()), (1, "a".to_owned())]);
}

#[test]
fn the_base_is_that_of_the_first_entry() {
    let mut moved_later = entries().modify("a", "1", "2").modify("a", "2", "3");
    moved_later.0[1].base = Base::Moved;
    assert_eq!(moved_later.net()[0].base, Base::Known);
    let mut moved_first = entries().modify("a", "1", "2").rename("a", "b", "2");
    moved_first.0[0].base = Base::Moved;
    assert_eq!(moved_first.net()[0].base, Base::Moved);
}

#[test]
fn the_net_hash_tells_trees_apart_and_nothing_else() {
    let of = |entries: Entries| net_hash(&entries.net());
    let created = of(entries().create("b", "1"));
    assert_eq!(created, of(entries().create("b", "0").modify("b", "0", "1")), "by whatever way");
    let mut reversed = entries().create("a", "1").create("b", "2").net();
    let straight = net_hash(&reversed);
    reversed.reverse();
    assert_eq!(straight, net_hash(&reversed), "in whatever order");
    assert_eq!(
        of(entries().rename("a", "b", "1")),
        of(entries().delete("a", "1").create("b", "1")),
        "a move is a file that went and one that came"
    );
    let all = [
        of(entries()),
        created,
        of(entries().create("b", "2")),
        of(entries().create("c", "1")),
        of(entries().delete("b", "1")),
        of(entries().rename("a", "b", "1")),
        of(entries().push(1, "b", ChangeOp::Create, None, Some(file("1")))),
        of(entries().create("a", "1").create("b", "1")),
        of(entries().push(0, "b", ChangeOp::Create, None, Some(FileState::file(b"1", 0o755)))),
    ];
    for (at, one) in all.iter().enumerate() {
        assert_eq!(all.iter().position(|other| other == one), Some(at), "{at}");
    }
}

type Tree = BTreeMap<(RootIndex, RelPath), FileState>;

/// The next action of a plan; one that is not possible now does nothing.
#[derive(Clone, Debug)]
enum Deed {
    Put(usize, u8),
    Delete(usize),
    Chmod(usize),
    Link(usize),
    Move(usize, usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    let place = || 0..5_usize;
    prop_oneof![
        (place(), 0..3_u8).prop_map(|(at, content)| Deed::Put(at, content)),
        place().prop_map(Deed::Delete),
        place().prop_map(Deed::Chmod),
        place().prop_map(Deed::Link),
        (place(), place()).prop_map(|(from, to)| Deed::Move(from, to)),
    ]
}

fn key(at: usize) -> (RootIndex, RelPath) {
    (RootIndex(u16::from(at == 4)), path(["a", "b", "c", "d", "a"][at]))
}

/// Does the deed to the tree, and tells it as an entry.
fn play(tree: &mut Tree, entries: Entries, deed: &Deed) -> Entries {
    let (at, after) = match *deed {
        Deed::Put(at, content) => (at, Some(FileState::file(&[content], 0o644))),
        Deed::Delete(at) => (at, None),
        Deed::Chmod(at) => (at, tree.get(&key(at)).map(|old| FileState { mode: old.mode ^ 0o111, ..*old })),
        Deed::Link(at) => (at, Some(FileState::symlink(b"x"))),
        Deed::Move(from, to) => return play_move(tree, entries, from, to),
    };
    let (root, at) = key(at);
    let before = match after {
        Some(after) => tree.insert((root, at.clone()), after),
        None => tree.remove(&(root, at.clone())),
    };
    match ChangeDraft::between(at.clone(), before, after) {
        Some(draft) => entries.push(root.0, &at.to_string(), draft.op().clone(), before, after),
        None => entries,
    }
}

fn play_move(tree: &mut Tree, entries: Entries, from: usize, to: usize) -> Entries {
    let ((from_root, from), (to_root, to)) = (key(from), key(to));
    if from_root != to_root || from == to || tree.contains_key(&(to_root, to.clone())) {
        return entries;
    }
    let Some(state) = tree.remove(&(from_root, from.clone())) else { return entries };
    tree.insert((to_root, to.clone()), state);
    entries.push(to_root.0, &to.to_string(), ChangeOp::Rename { from }, Some(state), Some(state))
}

/// The tree with the changes made, or unmade: sources are emptied first, then targets filled.
fn carried_out(tree: &Tree, changes: &[NetChange]) -> Tree {
    let mut tree = tree.clone();
    for change in changes {
        let source = (change.root, change.from.clone().unwrap_or(change.path.clone()));
        assert_eq!(tree.remove(&source), change.before, "before {change:?}");
    }
    for change in changes {
        if let Some(after) = change.after {
            assert_eq!(tree.insert((change.root, change.path.clone()), after), None, "at {change:?}");
        }
    }
    tree
}

fn unmade(change: &NetChange) -> NetChange {
    let (path, from) = match change.from.clone() {
        Some(from) => (from, Some(change.path.clone())),
        None => (change.path.clone(), None),
    };
    NetChange { path, from, before: change.after, after: change.before, ..change.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn fold_is_replay(
        begin in prop::collection::vec(deed(), 0..6),
        deeds in prop::collection::vec(deed(), 0..24),
    ) {
        let mut first = Tree::new();
        begin.iter().for_each(|deed| { play(&mut first, entries(), deed); });
        let mut last = first.clone();
        let told = deeds.iter().fold(entries(), |told, deed| play(&mut last, told, deed));
        let changes = told.net();

        prop_assert_eq!(&carried_out(&first, &changes), &last);
        let undone: Vec<NetChange> = changes.iter().map(unmade).collect();
        prop_assert_eq!(&carried_out(&last, &undone), &first);
        let places: Vec<_> = changes.iter().map(|change| (change.root, change.path.clone())).collect();
        prop_assert!(places.is_sorted() && changes.iter().all(|change| change.calls.is_sorted()));
        prop_assert!(changes.iter().all(|change| change.from.is_some() || change.before != change.after));
        prop_assert_eq!(changes.is_empty(), first == last);
    }
}
