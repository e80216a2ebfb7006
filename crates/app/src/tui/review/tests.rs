//! The review without a terminal: keys, choices and the painted screen.

use domain::{ChangeChoice, LineTag, TakenShare};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::tui::screen::{MouseInput, MoveKey, TerminalInput};

const PALETTE: ReviewPalette = ReviewPalette { with_colour: true, is_ascii: false };

/// A hunk of two runs: one line replaced, then one added.
fn hunk(number: u32) -> ReviewHunk {
    let first = number * 10;
    let lines = vec![
        ReviewLine::new(LineTag::Context, "same", first, first, 0),
        ReviewLine::new(LineTag::Removed, &format!("let old = {number};"), first + 1, 0, 1),
        ReviewLine::new(LineTag::Added, &format!("let new = {number};"), 0, first + 1, 2),
        ReviewLine::new(LineTag::Context, "between", first + 2, first + 2, 0),
        ReviewLine::new(LineTag::Added, "\tmore", 0, first + 3, 3),
    ];
    let (is_split, is_folded) = (false, false);
    let title = format!("@@ -{first},3 +{first},4 @@");
    ReviewHunk { number, title, lines, has_choice: true, can_edit: true, is_split, is_folded }
}

fn file(address: &str, hunks: u32) -> ReviewFile {
    let hunks: Vec<ReviewHunk> = (1..=hunks).map(hunk).collect();
    ReviewFile {
        name: address.to_owned(),
        address: address.to_owned(),
        letter: 'M',
        insertions: 2,
        deletions: 1,
        choice: ChangeChoice::new(&vec![3; hunks.len()], true),
        hunks,
        conflicts: Vec::new(),
        wins: Default::default(),
        notes: Vec::new(),
    }
}

fn review() -> Review {
    Review::new("plan 01JB".to_owned(), vec![file("src/a.rs", 2), file("src/b.rs", 1), file("doc.md", 3)])
}

/// Two files, of which the first has a conflict in its second hunk.
fn review_with_conflict() -> Review {
    let mut review = review();
    review.set_conflicts(|file| match file {
        "src/a.rs" => vec![ReviewConflict {
            hunks: [2].into(),
            sentence: "you and the plan changed line 21".to_owned(),
            yours: vec!["let mine = 2;".to_owned()],
            plans: vec!["let new = 2;".to_owned()],
        }],
        _ => Vec::new(),
    });
    review
}

fn type_in(review: &mut Review, keys: &str) -> ReviewStep {
    keys.chars().fold(ReviewStep::Stay, |_, key| match key {
        '\n' => review.press(KeyPress::Enter),
        '\x1b' => review.press(KeyPress::Escape),
        other => review.press(KeyPress::Char(other)),
    })
}

fn applied(reject: &[&str], take: &[&str]) -> ReviewStep {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    ReviewStep::End(ReviewEnding::Apply(ReviewChoice { reject: words(reject), take: words(take) }))
}

fn left_out(review: &Review) -> Vec<String> {
    review.choice().reject
}

fn place(review: &Review) -> (usize, usize, usize) {
    (review.cursor.file, review.cursor.hunk, review.cursor.part)
}

fn painted_as(review: &mut Review, palette: ReviewPalette, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(review, palette, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y: u16| {
        let cells: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        cells.trim_end().to_owned() + "\n"
    };
    (0..height).map(row).collect()
}

fn painted(review: &mut Review, width: u16, height: u16) -> String {
    painted_as(review, PALETTE, width, height)
}

#[test]
fn everything_is_taken_at_first() {
    let mut review = review();
    assert_eq!(type_in(&mut review, "\n"), applied(&[], &[]));
}

#[test]
fn a_hunk_or_a_file_is_left_out() {
    let mut review = review();
    type_in(&mut review, "j ");
    assert_eq!(left_out(&review), ["src/a.rs#2"]);
    type_in(&mut review, "nr");
    assert_eq!(left_out(&review), ["src/a.rs#2", "src/b.rs"]);
    type_in(&mut review, "pa");
    assert_eq!(left_out(&review), ["src/b.rs"]);
    assert_eq!(review.taken(), (5, 6));
}

#[test]
fn hunks_that_are_all_left_out_are_the_file() {
    let mut review = review();
    type_in(&mut review, " j ");
    assert_eq!(left_out(&review), ["src/a.rs"]);
    assert_eq!(review.files[0].choice.share(), TakenShare::None);
}

#[test]
fn a_split_hunk_is_taken_in_parts() {
    let mut review = review();
    type_in(&mut review, "s");
    assert_eq!(place(&review), (0, 0, 0));
    type_in(&mut review, "j ");
    assert_eq!((place(&review), left_out(&review)), ((0, 0, 1), vec!["src/a.rs#1:3".to_owned()]));
    type_in(&mut review, "k ");
    assert_eq!(left_out(&review), ["src/a.rs#1"]);
    // Put together again, the hunk is what its parts are.
    type_in(&mut review, " s");
    assert_eq!((place(&review), left_out(&review)), ((0, 0, 0), vec!["src/a.rs#1:3".to_owned()]));
    type_in(&mut review, " ");
    assert_eq!(left_out(&review), Vec::<String>::new(), "what is taken in part is taken whole first");
    type_in(&mut review, "sjjj");
    assert_eq!(place(&review), (1, 0, 0), "both parts, the next hunk, the next file");
    type_in(&mut review, "kkk");
    assert_eq!(place(&review), (0, 0, 0));
}

#[test]
fn single_lines_are_chosen() {
    let mut review = review();
    type_in(&mut review, "v ");
    assert_eq!(left_out(&review), ["src/a.rs#1:1"], "the line under the cursor, and it goes on to the next");
    type_in(&mut review, "j ");
    assert_eq!(left_out(&review), ["src/a.rs#1:1,3"]);
    type_in(&mut review, "kk ");
    assert_eq!(left_out(&review), ["src/a.rs#1:3"]);
    assert_eq!(review.mode, ReviewMode::Lines);
    type_in(&mut review, "q");
    assert_eq!(review.mode, ReviewMode::Browse, "q leaves the lines, not the review");
    type_in(&mut review, "vv\x1bv\x1bj");
    assert_eq!((review.mode.clone(), place(&review)), (ReviewMode::Browse, (0, 1, 0)));
    assert_eq!(type_in(&mut review, "kv\n"), applied(&["src/a.rs#1:3"], &[]), "enter applies there too");
}

#[test]
fn what_has_no_lines_is_not_split() {
    let mut whole = file("image.png", 1);
    (whole.hunks[0].has_choice, whole.hunks[0].can_edit) = (false, false);
    whole.hunks[0].lines.clear();
    whole.choice = ChangeChoice::new(&[0], true);
    let mut review = Review::new(String::new(), vec![whole]);
    for (keys, said) in
        [("s", "one piece"), ("v", "as a whole"), ("e", "no text to edit"), ("t", "no conflict")]
    {
        assert_eq!(type_in(&mut review, keys), ReviewStep::Stay);
        assert!(review.message.contains(said), "{keys}: {}", review.message);
    }
    type_in(&mut review, " ");
    assert_eq!(left_out(&review), ["image.png"]);
}

#[test]
fn choices_are_taken_back_one_by_one() {
    let mut review = review();
    type_in(&mut review, " nr");
    type_in(&mut review, "N");
    assert_eq!(review.taken(), (0, 6));
    type_in(&mut review, "u");
    assert_eq!(left_out(&review), ["src/a.rs#1", "src/b.rs"]);
    type_in(&mut review, "uu");
    assert_eq!((left_out(&review), place(&review)), (Vec::<String>::new(), (0, 0, 0)));
    type_in(&mut review, "u");
    assert!(review.message.contains("no choice"), "{}", review.message);
    for _ in 0..500 {
        type_in(&mut review, " ");
    }
    assert_eq!(review.taken().0, 6);
}

#[test]
fn all_or_none_means_the_files_that_are_shown() {
    let mut review = review();
    type_in(&mut review, "/src\nN\x1b");
    assert_eq!(left_out(&review), ["src/a.rs", "src/b.rs"]);
    type_in(&mut review, "NA");
    assert_eq!(left_out(&review), Vec::<String>::new());
}

#[test]
fn a_conflict_keeps_the_review_until_it_is_dealt_with() {
    let mut review = review_with_conflict();
    assert_eq!(type_in(&mut review, "nn \n"), ReviewStep::Stay);
    assert!(review.message.starts_with("1 conflict: space leaves"), "{}", review.message);
    assert_eq!((place(&review), review.open_conflicts()), ((0, 1, 0), 1), "the cursor is on it");
    let mut without = review.clone();
    assert_eq!(type_in(&mut without, " \n"), applied(&["src/a.rs#2", "doc.md#1"], &[]));
    let mut with_take = review.clone();
    assert_eq!(type_in(&mut with_take, "t\n"), applied(&["doc.md#1"], &["src/a.rs#2"]));
    type_in(&mut with_take, "t");
    assert_eq!(with_take.open_conflicts(), 1, "the user's side again");
    // Left out and then wanted over the user's side, it is taken.
    assert_eq!(type_in(&mut review, " t\n"), applied(&["doc.md#1"], &["src/a.rs#2"]));
}

#[test]
fn a_conflict_about_a_whole_file_is_won_by_the_file() {
    let mut review = review();
    review.set_conflicts(|file| match file {
        "src/b.rs" => vec![ReviewConflict {
            hunks: Default::default(),
            sentence: "you deleted it, the plan changes it".to_owned(),
            yours: Vec::new(),
            plans: Vec::new(),
        }],
        _ => Vec::new(),
    });
    assert_eq!(type_in(&mut review, "\n"), ReviewStep::Stay);
    assert_eq!(place(&review), (1, 0, 0));
    assert_eq!(type_in(&mut review, "t\n"), applied(&[], &["src/b.rs"]));
}

#[test]
fn conflicts_that_come_later_keep_the_choices() {
    let mut review = review();
    type_in(&mut review, " ");
    review.set_conflicts(|_| Vec::new());
    assert_eq!(left_out(&review), ["src/a.rs#1"]);
    let mut review = review_with_conflict();
    type_in(&mut review, "jt");
    review.reopen(["src/a.rs"].into_iter());
    assert_eq!(review.open_conflicts(), 1);
}

#[test]
fn an_edited_file_begins_anew_and_the_others_stay_as_chosen() {
    let mut review = review();
    type_in(&mut review, " n ");
    let mut edited = file("src/a.rs", 2);
    edited.hunks[0].lines[2] = ReviewLine::new(LineTag::Added, "let edited = 1;", 0, 11, 2);
    review.replace_files(vec![edited, file("src/b.rs", 1), file("doc.md", 3)]);
    assert_eq!((left_out(&review), place(&review)), (vec!["src/b.rs".to_owned()], (1, 0, 0)));
    review.replace_files(Vec::new());
    assert_eq!(review.taken(), (0, 0));
}

#[test]
fn the_cursor_goes_from_hunk_to_hunk_over_files_and_stops_at_both_ends() {
    let mut review = review();
    let mut seen = vec![place(&review)];
    for _ in 0..7 {
        review.press(KeyPress::Down);
        seen.push(place(&review));
    }
    let wanted = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2), (2, 2), (2, 2)];
    assert_eq!(seen, wanted.map(|(file, hunk)| (file, hunk, 0)));
    for _ in 0..7 {
        review.press(KeyPress::Up);
    }
    assert_eq!((place(&review), review.scroll), ((0, 0, 0), 0));
    type_in(&mut review, "G");
    assert_eq!(place(&review), (2, 2, 0));
    type_in(&mut review, "gJJK");
    assert_eq!(place(&review), (1, 0, 0));
    review.press(TerminalInput::Move(MoveKey::Tab));
    review.press(TerminalInput::Move(MoveKey::BackTab));
    assert_eq!(place(&review), (1, 0, 0));
}

#[test]
fn going_back_into_a_file_ends_at_its_last_hunk() {
    let mut review = review();
    type_in(&mut review, "nk");
    assert_eq!(place(&review), (0, 1, 0));
}

#[test]
fn the_view_stays_where_it_is_while_all_is_in_sight() {
    let mut review = review();
    painted(&mut review, 100, 30);
    type_in(&mut review, "j");
    painted(&mut review, 100, 30);
    assert_eq!(review.scroll, 0);
    // Where it does not fit, it goes no further than it must.
    painted(&mut review, 100, 14);
    type_in(&mut review, "kj");
    painted(&mut review, 100, 14);
    assert_eq!(review.scroll, 4);
    for _ in 0..50 {
        review.press(KeyPress::PageDown);
    }
    painted(&mut review, 100, 14);
    assert_eq!(review.scroll, 4, "there is nothing below the end");
    painted(&mut review, 100, 10);
    assert_eq!(review.scroll, 7, "on a smaller screen the cursor is in sight again");
}

#[test]
fn a_filter_hides_files_and_changes_no_choice() {
    let mut review = review();
    type_in(&mut review, "r/DOC\n");
    assert_eq!((review.shown.clone(), review.cursor.file), (vec![2], 2));
    type_in(&mut review, "nn ");
    assert_eq!(left_out(&review), ["src/a.rs", "doc.md#1"]);
    review.press(KeyPress::Escape);
    assert_eq!(review.shown, [0, 1, 2]);
    type_in(&mut review, "/zzz\n arstvwzhlgGe!");
    assert_eq!((review.shown.clone(), left_out(&review).len()), (Vec::new(), 2));
    let shown = painted(&mut review, 80, 10);
    assert!(shown.contains("no file has this"), "{shown}");
}

#[test]
fn while_a_filter_is_typed_letters_are_letters() {
    let mut review = review();
    type_in(&mut review, "/qr a");
    assert_eq!(review.mode, ReviewMode::Typing("qr a".to_owned()));
    review.press(TerminalInput::Move(MoveKey::Left));
    review.press(KeyPress::Backspace);
    review.press(KeyPress::Escape);
    assert_eq!(
        (review.mode.clone(), left_out(&review).len(), review.shown.len()),
        (ReviewMode::Browse, 0, 3)
    );
}

#[test]
fn nothing_is_applied_while_nothing_is_taken() {
    let mut review = Review::new(String::new(), vec![file("a", 1)]);
    assert_eq!(type_in(&mut review, "r\n"), ReviewStep::Stay);
    assert!(review.message.contains("nothing is taken"));
    assert_eq!(type_in(&mut review, "a\n"), applied(&[], &[]));
}

#[test]
fn who_only_reads_takes_nothing_and_leaves_nothing_out() {
    let mut review = Review::to_read("plan 01JB".to_owned(), vec![file("a", 2), file("b", 1)]);
    let before = review.clone();
    for key in " arANustvec!R\n".chars() {
        assert_eq!(type_in(&mut review, &key.to_string()), ReviewStep::Stay, "{key}");
    }
    assert_eq!(review, before);
    type_in(&mut review, "/b\n");
    assert_eq!((review.shown.clone(), review.press(KeyPress::Escape)), (vec![1], ReviewStep::Stay));
    assert_eq!(review.press(KeyPress::Escape), ReviewStep::End(ReviewEnding::Quit));
}

#[test]
fn wishes_that_others_fulfil_name_the_hunk() {
    let mut review = review();
    let second = HunkAddress::new("src/a.rs", 2);
    assert_eq!(type_in(&mut review, "je"), ReviewStep::End(ReviewEnding::Edit(second)));
    assert_eq!(type_in(&mut review, "R"), ReviewStep::End(ReviewEnding::SendBack));
}

/// The place and the text of the note that a key has ended.
fn noted(step: ReviewStep) -> (String, String) {
    let ReviewStep::End(ReviewEnding::Comment(draft)) = step else { panic!("{step:?}") };
    (draft.place.to_string(), draft.text)
}

#[test]
fn a_note_is_written_on_the_hunk_or_on_the_line_under_the_cursor() {
    let mut review = review();
    assert_eq!(
        noted(type_in(&mut review, "jcuse R, q and space\n")),
        ("src/a.rs#2".into(), "use R, q and space".into())
    );
    assert_eq!(noted(type_in(&mut review, "vcold\n")), ("-src/a.rs:21".into(), "old".into()));
    assert_eq!(review.mode, ReviewMode::Lines, "lines are still chosen");
    assert_eq!(noted(type_in(&mut review, "jcnew\n")), ("src/a.rs:21".into(), "new".into()));
    assert_eq!(left_out(&review), [""; 0], "what is typed into a note chooses nothing");
    type_in(&mut review, "cdropped\x1b");
    assert_eq!(type_in(&mut review, "c  \n"), ReviewStep::Stay);
    assert_eq!(review.mode, ReviewMode::Lines);
    let mut one = review.clone();
    one.press(KeyPress::Char('c'));
    type_in(&mut one, "ab");
    one.press(KeyPress::Backspace);
    one.press(TerminalInput::Paste("c\rq\n".to_owned()));
    assert_eq!(noted(one.press(KeyPress::Enter)).1, "ac\nq\n", "a pasted line end does not end it");
    one.press(TerminalInput::Paste("N\n".to_owned()));
    assert_eq!(left_out(&one), [""; 0], "a pasted text is no keys");
    type_in(&mut review, "cto be long");
    let tab = review.press(TerminalInput::Move(MoveKey::Tab));
    assert!(
        matches!(tab, ReviewStep::End(ReviewEnding::CommentInEditor(draft)) if draft.text == "to be long")
    );
}

/// The review with a note on a hunk, on a line, on a line of the old file, and one that is outdated.
fn review_with_notes() -> Review {
    let mut review = review();
    let note = |place: &str, text: &str, is_outdated: bool| {
        let (place, text) = (place.parse().unwrap(), text.to_owned());
        ReviewNote { place, is_outdated, text }
    };
    review.set_notes(|file| match file {
        "src/a.rs" => vec![
            note("src/a.rs:13", "why is this needed?", false),
            note("-src/a.rs:11", "keep the old name", false),
            note("src/a.rs#2", &"a longer remark on the whole hunk, ".repeat(3), false),
            note("src/a.rs:99", "the last function", true),
        ],
        _ => Vec::new(),
    });
    review
}

const NOTES_AT_80: &str = include_str!("notes_80.txt");
const NOTES_AT_140: &str = include_str!("notes_140.txt");

#[test]
fn notes_are_shown_at_their_lines_at_80_and_at_140_columns() {
    let mut review = review_with_notes();
    let shown = painted(&mut review, 80, 22);
    assert_eq!(shown, NOTES_AT_80, "{shown}");
    type_in(&mut review, "jvcand this one");
    let shown = painted(&mut review, 140, 26);
    assert_eq!(shown, NOTES_AT_140, "{shown}");
}

#[test]
fn rows_of_notes_count_in_the_view_of_the_cursor() {
    for keys in ["w", "s", "jv", "jsj", "Gv", "z"] {
        let mut review = review_with_notes();
        type_in(&mut review, keys);
        for (width, height) in [(80, 8), (30, 6), (140, 24)] {
            let shown = painted(&mut review, width, height);
            assert!(shown.contains('>'), "{keys} {width}x{height}: the cursor is in sight\n{shown}");
        }
    }
}

#[test]
fn the_input_line_shows_the_end_of_a_long_note() {
    let mut review = review();
    type_in(&mut review, &format!("c{}the end", "long ".repeat(40)));
    let shown = painted(&mut review, 80, 10);
    let last = shown.lines().last().unwrap();
    assert!(last.starts_with("note on src/a.rs#1: ") && last.ends_with("the end_"), "{last}");
    assert!(last.chars().count() <= 80, "{last}");
}

#[test]
fn quitting_applies_nothing() {
    assert_eq!(type_in(&mut review(), "q"), ReviewStep::End(ReviewEnding::Quit));
    let mut typing = review();
    type_in(&mut typing, "/x");
    assert_eq!(typing.press(KeyPress::Interrupt), ReviewStep::End(ReviewEnding::Interrupted));
}

#[test]
fn help_takes_the_next_key_for_itself() {
    let mut review = review();
    type_in(&mut review, "?");
    assert_eq!(review.mode, ReviewMode::Help);
    assert_eq!(type_in(&mut review, "q"), ReviewStep::Stay);
    assert_eq!(review.mode, ReviewMode::Browse);
}

#[test]
fn a_review_of_nothing_takes_every_key() {
    let mut empty = Review::new(String::new(), Vec::new());
    type_in(&mut empty, "jknp ar/\x1b?xhlgGJKwzANusvte!c\n");
    for press in [KeyPress::Up, KeyPress::Down, KeyPress::PageUp, KeyPress::PageDown, KeyPress::Escape] {
        empty.press(press);
    }
    empty.press(TerminalInput::Mouse(MouseInput::Click(3, 3)));
    painted(&mut empty, 80, 20);
    assert_eq!(empty.choice(), ReviewChoice::default());
}

#[test]
fn the_mouse_selects_and_scrolls() {
    let mut review = review();
    painted(&mut review, 100, 14);
    review.press(TerminalInput::Mouse(MouseInput::Click(5, 4)));
    assert_eq!(place(&review), (2, 0, 0), "the third file");
    painted(&mut review, 100, 14);
    review.press(TerminalInput::Mouse(MouseInput::Click(60, 10)));
    assert_eq!(place(&review), (2, 1, 0), "the second hunk");
    review.press(TerminalInput::Mouse(MouseInput::WheelDown(60, 5)));
    painted(&mut review, 100, 14);
    assert_eq!((place(&review), review.scroll), ((2, 1, 0), 3));
    review.press(TerminalInput::Mouse(MouseInput::WheelUp(5, 5)));
    assert_eq!(place(&review), (1, 0, 0), "over the list it goes from file to file");
    review.press(TerminalInput::Mouse(MouseInput::Click(99, 99)));
    assert_eq!(place(&review), (1, 0, 0));
}

const AT_80: &str = include_str!("screen_80.txt");

#[test]
fn a_review_reads_without_colour_at_80_columns() {
    let mut review = review_with_conflict();
    type_in(&mut review, "jtn kks");
    let shown = painted(&mut review, 80, 16);
    assert_eq!(shown, AT_80, "{shown}");
}

const AT_140: &str = include_str!("screen_140.txt");

#[test]
fn a_review_reads_without_colour_at_140_columns() {
    let mut review = review_with_conflict();
    type_in(&mut review, "n p");
    let shown = painted(&mut review, 140, 24);
    assert_eq!(shown, AT_140);
}

#[test]
fn lines_that_are_chosen_are_marked() {
    let mut review = review();
    type_in(&mut review, "v j");
    let shown = painted(&mut review, 80, 10);
    let rows: Vec<&str> =
        shown.lines().skip(3).take(5).map(|row| row.split('│').nth(3).unwrap().trim_end()).collect();
    assert_eq!(
        rows,
        ["10   same", "11  -let old = 1;", "11 x+let new = 1;", "12   between", "13>x+    more"]
    );
}

#[test]
fn long_lines_are_cut_scrolled_and_wrapped() {
    let mut long = file("a", 1);
    let text = (0..30).map(|no| format!("word{no:02} ")).collect::<String>() + "E";
    long.hunks[0].lines[1] = ReviewLine::new(LineTag::Removed, &text, 11, 0, 1);
    let mut review = Review::new(String::new(), vec![long]);
    let shown = painted(&mut review, 80, 20);
    assert!(shown.contains("word00") && shown.contains('…') && !shown.contains(" E"), "{shown}");
    type_in(&mut review, &"l".repeat(23));
    let shown = painted(&mut review, 80, 20);
    assert!(shown.contains("word29 E") && !shown.contains("word00"), "{shown}");
    type_in(&mut review, &"h".repeat(23));
    assert_eq!(review.sideways, 0);
    review.press(TerminalInput::Move(MoveKey::Right));
    assert_eq!(review.sideways, 8);
    type_in(&mut review, &"l".repeat(900));
    assert!(review.sideways < text.len(), "there is nothing to the right of the end");
    type_in(&mut review, "w");
    let shown = painted(&mut review, 80, 20);
    assert!(shown.contains("word00") && shown.contains("word29 E") && !shown.contains('…'), "{shown}");
    type_in(&mut review, "l");
    assert!(review.message.contains("wrapped"));
}

#[test]
fn a_folded_hunk_shows_its_head() {
    let mut review = review();
    type_in(&mut review, "z");
    let shown = painted(&mut review, 80, 20);
    assert!(shown.contains("#1  @@ -10,3 +10,4 @@  (5 lines hidden)"), "{shown}");
    assert!(!shown.contains("old = 1") && shown.contains("old = 2"), "{shown}");
    type_in(&mut review, "v");
    assert!(painted(&mut review, 80, 20).contains("old = 1"), "who chooses lines sees them");
}

#[test]
fn the_path_is_cut_in_its_middle() {
    let long = "crates/app/src/a/very/deep/directory/of/many/names/selection.rs";
    let mut review = Review::new("x".repeat(300), vec![file(long, 1)]);
    let shown = painted(&mut review, 80, 10);
    let row = shown.lines().nth(2).unwrap();
    assert!(row.contains('…') && row.contains("selection.rs +2 -1"), "{shown}");
    let title = shown.lines().next().unwrap();
    assert!(title.ends_with("1 of 1 hunk taken") && title.chars().count() <= 80, "{title}");
    assert_eq!(layout::cut_middle("a/b", 3, "…"), "a/b");
    assert_eq!(layout::cut_middle("abcdef", 4, "…"), "a…ef");
    assert_eq!(layout::cut_middle("日本語日本語", 7, "…"), "日…本語");
    assert_eq!(layout::cut_middle("abc", 1, ".."), ".");
}

#[test]
fn the_keys_that_one_needs_first_fit_any_width() {
    for (width, keys) in [
        (20, "enter apply  q quit"),
        (40, "enter apply  q quit  ? help  space take"),
        (80, "enter apply  q quit  ? help  space take  j/k hunk  n/p file  e edit  c note"),
    ] {
        let shown = painted(&mut review(), width, 12);
        assert_eq!(shown.lines().last().unwrap(), keys, "{width}");
    }
    let mut in_conflict = review_with_conflict();
    type_in(&mut in_conflict, "j");
    let shown = painted(&mut in_conflict, 80, 12);
    assert!(shown.ends_with("space leave out  t take the plan's  ! next conflict\n"), "{shown}");
}

#[test]
fn a_tiny_screen_is_no_trouble() {
    for (width, height) in [(1, 1), (3, 2), (10, 3), (49, 7), (50, 8)] {
        painted(&mut review(), width, height);
        let mut other = review_with_conflict();
        type_in(&mut other, "jswv");
        painted(&mut other, width, height);
        type_in(&mut other, "?");
        painted(&mut other, width, height);
    }
    let shown = painted(&mut review(), 20, 5);
    assert_eq!(
        shown,
        "6 of 6 hunks taken\n>[x] #1  @@ -10,3 +1\n10   same\n11  -let old = 1;\nenter apply  q quit\n"
    );
}

#[test]
fn without_utf_8_nothing_but_ascii_is_drawn() {
    let palette = ReviewPalette { with_colour: false, is_ascii: true };
    let long = "a/very/long/path/that/does/not/fit/into/the/list/of/files.rs";
    let mut review = Review::new("t".repeat(200), vec![file(long, 1)]);
    let shown = painted_as(&mut review, palette, 60, 12);
    assert!(shown.is_ascii(), "{shown}");
}

#[test]
fn help_tells_every_key() {
    let mut review = review();
    review.press(KeyPress::Char('?'));
    let shown = painted(&mut review, 80, 24);
    for key in [
        "space",
        "enter",
        "page keys",
        "/ ",
        "q  ",
        "A  N",
        "s ",
        "v ",
        "e ",
        "t ",
        "! ",
        "u ",
        "w ",
        "z ",
        "any key",
    ] {
        assert!(shown.contains(key), "{key}: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

#[test]
fn changed_words_and_left_out_lines_look_different() {
    let mut review = review();
    type_in(&mut review, "j ");
    let mut terminal = Terminal::new(TestBackend::new(100, 20)).unwrap();
    terminal.draw(|frame| draw(&mut review, PALETTE, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let cells = |text: &str| -> Vec<ratatui::style::Modifier> {
        for y in 0..20 {
            let row: Vec<&str> = (0..100).map(|x| buffer[(x, y)].symbol()).collect();
            let letters: Vec<String> = text.chars().map(String::from).collect();
            if let Some(x) = row.windows(letters.len()).position(|cells| cells == letters) {
                return (x..x + letters.len()).map(|x| buffer[(x as u16, y)].modifier).collect();
            }
        }
        panic!("{text} is not shown");
    };
    use ratatui::style::Modifier;
    let line = cells("let new = 1;");
    assert!(line[4..7].iter().all(|cell| cell.contains(Modifier::REVERSED)), "{line:?}");
    assert!(!line[0].contains(Modifier::REVERSED) && !line[8].contains(Modifier::REVERSED));
    assert!(!line[0].contains(Modifier::DIM) && cells("let new = 2;")[0].contains(Modifier::DIM));
}

#[test]
fn the_cursors_file_is_in_sight_however_long_the_list() {
    let files = (0..50).map(|no| file(&format!("f{no}"), 1)).collect();
    let mut review = Review::new(String::new(), files);
    for _ in 0..40 {
        review.press(KeyPress::Char('n'));
    }
    assert!(painted(&mut review, 60, 10).contains(">[x] M f40"));
}

#[test]
fn who_only_reads_sees_no_marks() {
    let mut review = Review::to_read("plan 01JB".to_owned(), vec![file("src/a.rs", 1)]);
    let shown = painted(&mut review, 70, 8);
    assert!(shown.starts_with("plan 01JB: 1 file\n") && shown.contains("│>M src/a.rs +2 -1"), "{shown}");
    assert!(!shown.contains("[x]") && shown.contains("q back"), "{shown}");
}
