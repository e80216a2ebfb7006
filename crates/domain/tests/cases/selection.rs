//! Words choose changes and hunks, and a word that fits nothing is told what it is like.

use domain::*;

use crate::sample::path;

fn change(root: u16, from: Option<&str>, at: &[u8]) -> NetChange {
    NetChange {
        root: RootIndex(root),
        path: RelPath::new(at).unwrap(),
        from: from.map(path),
        before: None,
        after: None,
        base: Base::Known,
        calls: vec![],
    }
}

/// Each with the number of lines to choose from in each of its hunks.
fn changes() -> Vec<(NetChange, Vec<u32>)> {
    vec![
        (change(0, None, b"src/lib.rs"), vec![2, 4, 0]),
        (change(0, None, b"src/net/tcp.rs"), vec![0]),
        (change(0, Some("docs/old.md"), b"docs/new.md"), vec![1, 1]),
        (change(0, None, b"a#1"), vec![1, 1]),
        (change(0, None, b"[id].ts"), vec![1]),
        (change(0, None, b"caf\xe9"), vec![1]),
        (change(1, None, b"src/lib.rs"), vec![1, 3]),
    ]
}

fn aliases() -> Vec<ProjectAlias> {
    let alias = |root, alias: &str| ProjectAlias { root: RootIndex(root), alias: alias.to_owned() };
    vec![alias(0, "web"), alias(1, "api")]
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn choose(only: &[&str], reject: &[&str], take: &[&str]) -> Result<Vec<SelectedChange>, SelectionError> {
    let changes = changes();
    let choosable: Vec<SelectableChange<'_>> =
        changes.iter().map(|(change, hunks)| SelectableChange { change, hunks }).collect();
    ChangeSelection::parse(&owned(only), &owned(reject), &owned(take), &aliases()).choose(&choosable)
}

/// For each change `.` if none is taken, `W` if all is, else what is left out.
fn parts(only: &[&str], reject: &[&str]) -> String {
    let shown = |chosen: &SelectedChange| match &chosen.part {
        SelectedPart::None => ".".to_owned(),
        SelectedPart::Whole => "W".to_owned(),
        SelectedPart::Some(choice) => choice.left_out("").join(""),
    };
    choose(only, reject, &[]).unwrap().iter().map(shown).collect::<Vec<_>>().join(" ")
}

#[test]
fn without_words_all_is_taken() {
    assert_eq!(parts(&[], &[]), "W W W W W W W");
}

#[test]
fn words_are_paths_directories_hunks_and_globs() {
    assert_eq!(parts(&["src/net/tcp.rs"], &[]), ". W . . . . .");
    assert_eq!(parts(&["src/net"], &[]), ". W . . . . .");
    assert_eq!(parts(&["./src/net/"], &[]), ". W . . . . .");
    assert_eq!(parts(&["."], &[]), "W W W W W W W");
    assert_eq!(parts(&["src/lib.rs#2"], &[]), "#1#3 . . . . . #1");
    assert_eq!(parts(&["web:src/lib.rs#2"], &[]), "#1#3 . . . . . .");
    assert_eq!(parts(&["api:src/lib.rs#1", "api:src/lib.rs#2"], &[]), ". . . . . . W");
    assert_eq!(parts(&["src/*"], &[]), "W W . . . . W");
    assert_eq!(parts(&["src/*.rs"], &[]), "W . . . . . W");
    assert_eq!(parts(&["*.rs"], &[]), "W W . . . . W");
    assert_eq!(parts(&["web:*.rs"], &[]), "W W . . . . .");
    assert_eq!(parts(&["src/{net,x}/**"], &[]), ". W . . . . .");
    assert_eq!(parts(&["api:."], &[]), ". . . . . . W");
    assert_eq!(parts(&["api:"], &[]), ". . . . . . W");
}

#[test]
fn a_name_is_a_name_before_it_is_anything_else() {
    assert_eq!(parts(&["a#1"], &[]), ". . . W . . .");
    assert_eq!(parts(&["a#1#2"], &[]), ". . . #1 . . .");
    assert_eq!(parts(&["[id].ts"], &[]), ". . . . W . .");
    assert_eq!(parts(&[r"caf\xE9"], &[]), ". . . . . W .");
    assert_eq!(parts(&["docs/old.md#1"], &[]), ". . #2 . . . .");
    assert_eq!(parts(&["docs/old.md"], &[]), ". . W . . . .");
}

#[test]
fn a_file_named_like_a_hunk_is_itself() {
    let (named, other) = (change(0, None, b"a#1"), change(0, None, b"a"));
    let choosable = [
        SelectableChange { change: &named, hunks: &[1] },
        SelectableChange { change: &other, hunks: &[1, 1] },
    ];
    let chosen = |word| ChangeSelection::parse(&owned(&[word]), &[], &[], &[]).choose(&choosable).unwrap();
    let part = |part| SelectedChange { part, take: ConflictTake::Nothing };
    let mut second = ChangeChoice::new(&[1, 1], false);
    second.set_hunk(2, true);
    assert_eq!(chosen("a#1"), [part(SelectedPart::Whole), part(SelectedPart::None)]);
    assert_eq!(chosen("a#2"), [part(SelectedPart::None), part(SelectedPart::Some(second))]);
}

#[test]
fn what_is_rejected_is_left_out() {
    assert_eq!(parts(&[], &["src/lib.rs#2"]), "#2 W W W W W #2");
    assert_eq!(parts(&["src"], &["src/net"]), "W . . . . . W");
    assert_eq!(parts(&["src/lib.rs"], &["src/lib.rs#1", "api:src"]), "#1 . . . . . .");
    assert_eq!(parts(&[], &["."]), ". . . . . . .");
}

#[test]
fn lines_of_a_hunk_are_words_too() {
    assert_eq!(parts(&["web:src/lib.rs#2:1-2,4"], &[]), "#1#2:3#3 . . . . . .");
    assert_eq!(parts(&[], &["src/lib.rs#2:2"]), "#2:2 W W W W W #2:2");
    assert_eq!(
        parts(&["web:src/lib.rs#2:1-2", "web:src/lib.rs#2:3-4"], &["web:src/lib.rs#2:4"]),
        "#1#2:4#3 . . . . . ."
    );
    assert_eq!(parts(&["a#1#2:1"], &[]), ". . . #1 . . .");
    // What was left out, left out again, is the same choice.
    let chosen = choose(&["web:src/lib.rs#1:2", "web:src/lib.rs#2:1,3"], &[], &[]).unwrap();
    let SelectedPart::Some(choice) = &chosen[0].part else { panic!("a part of it") };
    let left = choice.left_out("web:src/lib.rs");
    assert_eq!(left, ["web:src/lib.rs#1:1", "web:src/lib.rs#2:2,4", "web:src/lib.rs#3"]);
    let left: Vec<&str> = left.iter().map(String::as_str).collect();
    assert_eq!(choose(&["web:src/lib.rs"], &left, &[]).unwrap()[0].part, chosen[0].part);
    for beyond in [
        "web:src/lib.rs#2:5",
        "web:src/lib.rs#2:4-4000000000",
        "web:src/lib.rs#3:1",
        "src/lib.rs#2:0",
        "src/lib.rs#2:",
    ] {
        assert!(matches!(choose(&[beyond], &[], &[]), Err(SelectionError::NoSuchHunk { .. })), "{beyond}");
    }
}

#[test]
fn what_wins_over_a_conflict_is_a_file_or_a_hunk() {
    let text = Some(FileState::file(b"a", 0o644));
    let edited = NetChange { before: text, after: text, ..change(0, None, b"a") };
    let created = NetChange { after: text, ..change(0, None, b"new") };
    let choosable = [
        SelectableChange { change: &edited, hunks: &[1, 1, 1] },
        SelectableChange { change: &created, hunks: &[1] },
    ];
    let taken = |words: &[&str]| {
        let chosen = ChangeSelection::parse(&[], &[], &owned(words), &[]).choose(&choosable);
        chosen.map(|all| all.into_iter().map(|chosen| chosen.take).collect::<Vec<_>>())
    };
    use ConflictTake::{File, Hunks, Nothing};
    assert_eq!(taken(&["a"]).unwrap(), [File, Nothing]);
    assert_eq!(taken(&["a#2", "a#3"]).unwrap(), [Hunks([2, 3].into()), Nothing]);
    assert_eq!(taken(&["a#2", "a"]).unwrap(), [File, Nothing]);
    assert_eq!(taken(&["a", "a#2"]).unwrap(), [File, Nothing]);
    assert_eq!(taken(&["new#1"]).unwrap(), [Nothing, File], "a new file is taken whole");
    assert_eq!(
        taken(&["a#2:1"]).unwrap_err(),
        SelectionError::TakesLines { word: "a#2:1".to_owned(), hunk: "a#2".to_owned() }
    );
    assert!(Hunks([2, 3].into()).wins(&[3].into()) && !Hunks([2].into()).wins(&[2, 3].into()));
    assert!(!Hunks([2].into()).wins(&[].into()) && File.wins(&[].into()) && !Nothing.wins(&[1].into()));
}

#[test]
fn a_word_that_fits_nothing_is_told_the_nearest() {
    let nearest = |word: &str| match choose(&[word], &[], &[]) {
        Err(SelectionError::NoSuchHunk { word: told, nearest }) => {
            assert_eq!(told, word);
            nearest.unwrap()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(nearest("src/lob.rs"), "web:src/lib.rs");
    assert_eq!(nearest("api:src/lob.rs"), "api:src/lib.rs");
    assert_eq!(nearest("web:src/lib.rs#4"), "web:src/lib.rs#3");
    assert_eq!(nearest("src/lib.rs#0"), "web:src/lib.rs#1");
    assert_eq!(nearest("src/nett/tcp.rs#1"), "web:src/net/tcp.rs#1");
    assert_eq!(nearest("docs/*.rs"), "web:docs/new.md");
    for words in
        [[vec!["nope"], vec![], vec![]], [vec![], vec!["nope"], vec![]], [vec![], vec![], vec!["nope"]]]
    {
        let [only, reject, take] = words;
        assert!(matches!(choose(&only, &reject, &take), Err(SelectionError::NoSuchHunk { .. })));
    }
    let none = ChangeSelection::parse(&owned(&["x"]), &[], &[], &[]).choose(&[]);
    assert_eq!(none, Err(SelectionError::NoSuchHunk { word: "x".to_owned(), nearest: None }));
}

#[test]
fn an_address_has_its_project_only_among_several() {
    let change = change(1, None, b"src/lib.rs");
    assert_eq!(change_address(&change, &aliases()), "api:src/lib.rs");
    assert_eq!(change_address(&change, &aliases()[1..]), "src/lib.rs");
    assert_eq!(change_address(&change, &[]), "src/lib.rs");
}

#[test]
fn the_mark_of_a_secret_is_no_pattern() {
    // As a class of letters it would fit `[id].ts`, and with a star everything.
    for word in ["[REDACTED:github_token:d1ece63e].ts", "[REDACTED:known:0123]*"] {
        assert!(matches!(choose(&[word], &[], &[]), Err(SelectionError::NoSuchHunk { .. })), "{word}");
    }
}
