//! Renames that are found among deletions and additions: what is paired, and patches that git applies.

use std::collections::{BTreeMap, BTreeSet};

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

use super::hunks_git::{Thing, change, found, git, put, repository};

type Tree = BTreeMap<String, Thing>;

fn tree(files: &[(&str, &str)]) -> Tree {
    let file = |text: &str| Thing::File(text.as_bytes().to_vec(), 0o644);
    files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
}

fn changes(before: &Tree, after: &Tree) -> Vec<NetChange> {
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changes = paths.into_iter().map(|path| {
        let (old, new) = (before.get(path), after.get(path));
        change(path.as_bytes(), None, old, new)
    });
    changes.filter(|change| change.before != change.after).collect()
}

fn contents<'a>(trees: impl IntoIterator<Item = &'a Tree>) -> BTreeMap<Hash, Vec<u8>> {
    let things = trees.into_iter().flat_map(|tree| tree.values());
    things.map(|thing| (thing.state().hash, thing.content().to_vec())).collect()
}

/// The renames as (old path, new path, similarity).
fn renames(before: &Tree, after: &Tree) -> Vec<(String, String, u8)> {
    let (changes, contents) = (changes(before, after), contents([before, after]));
    let found = find_renames(&changes, |hash| contents.get(hash).cloned());
    let path = |at: usize| changes[at].path.to_string();
    found.iter().map(|rename| (path(rename.from), path(rename.to), rename.similarity)).collect()
}

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|line| format!("this is line {line}\n")).collect()
}

fn pair(from: &str, to: &str, similarity: u8) -> (String, String, u8) {
    (from.to_owned(), to.to_owned(), similarity)
}

#[test]
fn equal_contents_are_paired_first_and_by_name() {
    let same = lines(0..9);
    let before = tree(&[("a/one", &same), ("a/two", &same)]);
    let after = tree(&[("b/two", &same), ("c/other", &same)]);
    assert_eq!(
        renames(&before, &after),
        [pair("a/two", "b/two", 100), pair("a/one", "c/other", 100)],
        "the file name decides between equal contents"
    );
}

#[test]
fn an_edited_file_is_a_rename_if_half_of_it_is_left() {
    let edited = lines(0..20).replace("line 3\n", "row 3\n");
    let found = renames(&tree(&[("greet.sh", &lines(0..20))]), &tree(&[("welcome.sh", &edited)]));
    assert_eq!(found, [pair("greet.sh", "welcome.sh", 95)]);
    let half = lines(0..10) + &"x".repeat(lines(10..20).len());
    assert_eq!(renames(&tree(&[("a", &lines(0..20))]), &tree(&[("b", &half)])), [pair("a", "b", 48)][1..]);
    let all = tree(&[("b", &lines(0..60))]);
    assert_eq!(renames(&tree(&[("a", &lines(0..20))]), &all), [], "most of it is new");
}

#[test]
fn the_most_similar_pair_wins_and_each_file_is_in_one() {
    let before = tree(&[("a", &lines(0..20)), ("b", &lines(0..16))]);
    let after = tree(&[("c", &(lines(0..16) + "the end\n")), ("d", "quite another text\n")]);
    assert_eq!(renames(&before, &after), [pair("b", "c", 96)]);
}

#[test]
fn nothing_is_paired_that_is_not_one_file() {
    let same = lines(0..9);
    assert_eq!(renames(&tree(&[("a", "")]), &tree(&[("b", "")])), [], "empty files are alike by chance");
    assert_eq!(renames(&tree(&[("a", &same)]), &tree(&[("a/b", &same)])), [], "one is below the other");
    assert_eq!(renames(&tree(&[("a", &same)]), &tree(&[("a", &same), ("b", &same)])), [], "a copy");
    let link = Tree::from([("l".to_owned(), Thing::Link(same.clone().into_bytes()))]);
    assert_eq!(renames(&tree(&[("a", &same)]), &link), [], "a file and a link");
    let mut other = changes(&tree(&[("a", &same)]), &tree(&[("b", &same)]));
    other[1].root = RootIndex(1);
    assert_eq!(find_renames(&other, |_| None), [], "two projects");
    let mut unread = changes(&tree(&[("a", &same)]), &tree(&[("b", &same)]));
    let unknown = |state: Option<FileState>| {
        state.map(|state| FileState { hash: Hash::from_bytes([0; 32]), text: false, ..state })
    };
    unread[0].before = unknown(unread[0].before);
    unread[1].after = unknown(unread[1].after);
    assert_eq!(find_renames(&unread, |_| None), [], "contents that could not be read");
}

#[test]
fn the_cost_is_bounded_and_equal_contents_are_found_beyond_it() {
    let many = |dir: &str, last: &str| -> Tree {
        let file = |number: u32| {
            let text = format!("{}{number}\n{last}\n", lines(0..4));
            (format!("{dir}/{number:04}"), Thing::File(text.into_bytes(), 0o644))
        };
        (0..1100).map(file).collect()
    };
    assert_eq!(renames(&many("a", "x"), &many("b", "y")), []);
    assert_eq!(renames(&many("a", "x"), &many("b", "x")).len(), 1100);
}

#[test]
fn a_patch_of_one_of_several_projects_names_it_and_fits_no_other() {
    let (before, after) =
        (tree(&[("f", "a\n"), ("g", &lines(0..9))]), tree(&[("f", "b\n"), ("h", &lines(0..8))]));
    let patch = patch(&before, &after, Some("shop b"));
    let dir = repository();
    before.iter().for_each(|(path, thing)| put(dir.path(), &RelPath::new(path).unwrap(), thing));
    git(dir.path(), &["apply"], &patch).unwrap_err();
    git(dir.path(), &["apply", "-p2"], &patch).unwrap();
    assert_eq!(found(dir.path(), &RelPath::new("h").unwrap()), after.get("h").cloned());
}

/// The patch with the renames that are found in it.
fn patch(before: &Tree, after: &Tree, directory: Option<&str>) -> Vec<u8> {
    let (changes, contents) = (changes(before, after), contents([before, after]));
    let read = |hash: &Hash| contents.get(hash).cloned();
    let renames = find_renames(&changes, read);
    let mut patch = Vec::new();
    for (at, single) in changes.iter().enumerate() {
        if renames.iter().any(|rename| rename.from == at) {
            continue;
        }
        let rename = renames.iter().find(|rename| rename.to == at);
        let change = rename.map_or_else(|| single.clone(), |rename| rename.as_change(&changes).unwrap());
        let content = |state: Option<FileState>| state.and_then(|state| read(&state.hash));
        let hunks = hunks(content(change.before).as_deref(), content(change.after).as_deref(), &change);
        let options = PatchOptions { directory, similarity: rename.map(|rename| rename.similarity) };
        patch.extend(unified_with(&change, &hunks, &options));
    }
    patch
}

/// A file of a tree: the seed of its lines, how many there are, if it may be run.
type Seed = (u8, u8, bool);

/// What becomes of a file.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Stays,
    Goes,
    Moves { to: u8 },
    MovesEdited { to: u8, at: u8 },
    Edited { at: u8 },
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        Just(Fate::Stays),
        Just(Fate::Goes),
        (0_u8..12).prop_map(|to| Fate::Moves { to }),
        (0_u8..12, any::<u8>()).prop_map(|(to, at)| Fate::MovesEdited { to, at }),
        any::<u8>().prop_map(|at| Fate::Edited { at }),
    ]
}

fn name(number: u8) -> String {
    match number % 4 {
        0 => format!("file{number}"),
        1 => format!("dir/file{number}"),
        2 => format!("dir/deep er/file{number}"),
        _ => format!("caf\u{e9}/{number}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn git_makes_the_new_tree_of_the_patch_byte_for_byte(
        files in proptest::collection::vec(((0_u8..3, 1_u8..30, any::<bool>()), fate()), 1..8)
    ) {
        let thing = |(seed, count, runs): Seed, edit: Option<u8>| {
            let line = |line: u8| match edit {
                Some(at) if at % count == line => format!("edited {line} of {seed}\n"),
                _ => format!("{line} of {seed}\n"),
            };
            let text: String = (0..count).map(line).collect();
            let text = if seed == 0 { text.trim_end().to_owned() } else { text };
            Thing::File(text.into_bytes(), if runs { 0o755 } else { 0o644 })
        };
        let (mut before, mut after) = (Tree::new(), Tree::new());
        for ((seed, fate), number) in files.into_iter().zip(0_u8..) {
            before.insert(name(number), thing(seed, None));
            match fate {
                Fate::Goes => None,
                Fate::Stays => after.insert(name(number), thing(seed, None)),
                Fate::Edited { at } => after.insert(name(number), thing(seed, Some(at))),
                Fate::Moves { to } => after.insert(name(20 + to), thing(seed, None)),
                Fate::MovesEdited { to, at } => after.insert(name(20 + to), thing(seed, Some(at))),
            };
        }
        let patch = patch(&before, &after, None);
        let shown = patch.escape_ascii().to_string().replace("\\n", "\n");
        let dir = repository();
        for (path, thing) in &before {
            put(dir.path(), &RelPath::new(path).unwrap(), thing);
        }
        if !patch.is_empty() {
            git(dir.path(), &["apply"], &patch).unwrap_or_else(|error| panic!("{error}\n{shown}"));
        }
        for path in before.keys().chain(after.keys()) {
            let now = found(dir.path(), &RelPath::new(path).unwrap());
            prop_assert_eq!(now.as_ref(), after.get(path), "{} in\n{}", path, shown);
        }
    }
}
