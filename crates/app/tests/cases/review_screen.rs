//! The review on the screen: lines, split hunks, conflicts, the mouse, and the same choices by flags.

use super::support::TestUser;
use super::terminal::{ENTER, Left, Terminal};

/// Two runs of changes in the first hunk, one in the second.
const OLD: &str = "one\ntwo\nthree\nfour\nfive\nsix\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\nlast\n";

pub(super) fn person_with_a_plan() -> TestUser {
    let person = TestUser::new();
    person.write("a.txt", OLD);
    person.plan("sed -i 's/one/ONE/; s/five/FIVE/; s/last/LAST/' a.txt; printf 'x\\ny\\nz\\n' > new.txt");
    person
}

fn review(person: &TestUser) -> Terminal {
    let terminal = Terminal::call(person, &["plan", "apply", "@last", "-i"]);
    terminal.shows("enter apply  q quit  ? help  space take");
    terminal
}

fn is_applied(left: &Left) {
    assert_eq!((left.exit, left.is_restored), (Some(0), true), "{left:?}");
}

#[test]
fn parts_of_a_split_hunk_and_single_lines_reach_the_files() {
    let person = person_with_a_plan();
    let mut terminal = review(&person);
    // The second part of the first hunk is left out, and the middle line of the new file.
    terminal.types("sj ");
    terminal.shows("[ ] #1:3-4");
    terminal.types("nvj ");
    terminal.shows("v back");
    terminal.types(ENTER);
    let left = terminal.ends();
    is_applied(&left);
    assert!(left.text.contains("left out: a.txt#1:3-4, new.txt#1:2"), "{left:?}");
    assert_eq!(person.read("a.txt"), OLD.replace("one", "ONE").replace("last", "LAST"));
    assert_eq!(person.read("new.txt"), "x\nz\n");
}

#[test]
fn changes_that_came_while_a_person_reviewed_are_shown_before_they_are_applied() {
    let person = person_with_a_plan();
    let mut terminal = review(&person);
    terminal.types("j ");
    terminal.shows("[ ] #2");
    let back = person.json(&["plan", "rollback", "@last", "--to", "0"]);
    assert_eq!(back.exit, 0, "{back:?}");
    let revised = person.json(&["plan", "revise", "@last", "again"]);
    assert_eq!(revised.exit, 0, "{revised:?}");
    // The same command on the same files: what it leaves is what was shown.
    terminal.types(ENTER);
    is_applied(&terminal.ends());
    assert_eq!(person.read("a.txt"), OLD.replace("one", "ONE").replace("five", "FIVE"));

    let person = person_with_a_plan();
    let mut terminal = review(&person);
    person.write("a.txt", &OLD.replace("two", "one and two"));
    assert_eq!(person.json(&["plan", "rollback", "@last", "--to", "0"]).exit, 0);
    assert_eq!(person.json(&["plan", "revise", "@last", "again"]).exit, 0);
    terminal.types(ENTER);
    terminal.shows("another process changed the plan since");
    terminal.types("q");
    is_applied(&terminal.ends());
    assert_eq!(person.read("a.txt"), OLD.replace("two", "one and two"), "nothing was written");
}

#[test]
fn lines_are_chosen_by_flags_as_on_the_screen() {
    let person = person_with_a_plan();
    let said = person.agents(&[
        "plan",
        "apply",
        "@last",
        "--yes",
        "--only",
        "a.txt#1:3-4",
        "--only",
        "new.txt",
        "--reject",
        "new.txt#1:1",
    ]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(
        (person.read("a.txt"), person.read("new.txt")),
        (OLD.replace("five", "FIVE"), "y\nz\n".to_owned())
    );
    assert!(said.stdout.contains("left out: a.txt#1:1-2, a.txt#2, new.txt#1:1"), "{said:?}");
    // The same choice in other words is the same apply.
    let again = person.agents(&[
        "plan",
        "apply",
        "@last",
        "--yes",
        "--reject",
        "a.txt#1:1-2",
        "--reject",
        "a.txt#2",
        "--reject",
        "new.txt#1:1",
    ]);
    assert!(again.exit == 0 && again.stdout.starts_with("already applied"), "{again:?}");
    assert_eq!(person.agents(&["plan", "undo", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("a.txt"), OLD);
    let wrong = person.json(&["plan", "apply", "@last", "--yes", "--only", "a.txt#1:9"]);
    assert_eq!((wrong.exit, wrong.code()), (2, "NO_SUCH_HUNK".to_owned()), "{wrong:?}");
}

#[test]
fn a_conflict_is_marked_and_neither_ends_the_review_nor_loses_a_choice() {
    let person = person_with_a_plan();
    person.write("a.txt", &OLD.replace("last", "mine").replace("12\n", "twelve\n"));
    let mut terminal = review(&person);
    terminal.shows("[x]!M a.txt");
    terminal.shows("conflict: you and the plan changed line 17");
    terminal.shows("| mine");
    terminal.shows("| LAST");
    // Another choice, which stays while the conflict is dealt with.
    terminal.types(" ");
    terminal.types(ENTER);
    terminal.shows("1 conflict: space leaves the hunk out, t takes the plan's side");
    terminal.types("t");
    terminal.shows("(the plan's side) #2");
    terminal.types(ENTER);
    let left = terminal.ends();
    is_applied(&left);
    // What the user edited elsewhere in the file stays.
    assert_eq!(person.read("a.txt"), OLD.replace("last", "LAST").replace("12\n", "twelve\n"));
}

#[test]
fn a_conflict_that_comes_while_one_reviews_keeps_the_screen() {
    let person = person_with_a_plan();
    let mut terminal = review(&person);
    terminal.types(" ");
    terminal.shows("2 of 3 hunks taken");
    person.write("a.txt", &OLD.replace("last", "mine"));
    terminal.types(ENTER);
    terminal.shows("1 conflict: space leaves");
    terminal.types(" ");
    terminal.shows("1 of 3 hunks taken");
    terminal.types(ENTER);
    is_applied(&terminal.ends());
    assert_eq!(
        (person.read("a.txt"), person.read("new.txt")),
        (OLD.replace("last", "mine"), "x\ny\nz\n".to_owned())
    );
}

#[test]
fn a_hunk_is_taken_over_a_conflict_by_a_flag_and_other_edits_stay() {
    let person = person_with_a_plan();
    person.write("a.txt", &OLD.replace("last", "mine").replace("one", "my own").replace("12\n", "twelve\n"));
    let said = person.json(&["plan", "apply", "@last", "--yes", "--take", "a.txt#2"]);
    assert_eq!((said.exit, said.code()), (4, "CONFLICTS".to_owned()), "the other conflict is left: {said:?}");
    let said =
        person.agents(&["plan", "apply", "@last", "--yes", "--take", "a.txt#2", "--reject", "a.txt#1"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let wanted = OLD.replace("last", "LAST").replace("one", "my own").replace("12\n", "twelve\n");
    assert_eq!(person.read("a.txt"), wanted);
}

#[test]
fn a_conflict_is_addressed_by_its_number_whatever_else_is_left_out() {
    let person = person_with_a_plan();
    person.write("a.txt", &OLD.replace("last", "mine"));
    let said = person.agents(&["plan", "apply", "@last", "--yes", "--reject", "a.txt#1"]);
    assert!(said.exit == 4 && said.stderr.contains("a.txt#2  you and the plan"), "{said:?}");
}

#[test]
fn all_none_undo_and_the_mouse_choose_too() {
    let person = person_with_a_plan();
    let mut terminal = review(&person);
    terminal.types("N");
    terminal.shows("0 of 3 hunks taken");
    terminal.types(ENTER);
    terminal.shows("nothing is taken");
    terminal.types("u");
    terminal.shows("3 of 3 hunks taken");
    // A click on the second file of the list.
    terminal.types("\x1b[<0;5;4M\x1b[<0;5;4m");
    terminal.shows(">[x] A new.txt");
    terminal.types(" ");
    terminal.shows("2 of 3 hunks taken");
    terminal.types(ENTER);
    is_applied(&terminal.ends());
    assert!(!person.project().join("new.txt").exists());
}

#[test]
fn eighty_columns_show_how_to_apply_and_to_leave() {
    let person = person_with_a_plan();
    let command = person.command(&person.project(), &["plan", "apply", "@last", "-i"]);
    let mut terminal = Terminal::with_columns(&command, 80);
    terminal.shows("enter apply  q quit  ? help  space take  j/k hunk  n/p file  e edit  c note\n");
    terminal.types("q");
    is_applied(&terminal.ends());
    assert_eq!(person.read("a.txt"), OLD);
}

/// Opens the review with an editor that runs this script on the file `$1`.
pub(super) fn review_with_editor(person: &TestUser, script: &str) -> Terminal {
    let editor = person.home().join("editor.sh");
    std::fs::write(&editor, script).unwrap();
    let mut command = person.command(&person.project(), &["plan", "apply", "@last", "-i"]);
    command.env("EDITOR", format!("sh {}", editor.display())).env("TMPDIR", person.home());
    let terminal = Terminal::start(&command);
    terminal.shows("enter apply  q quit  ? help  space take");
    terminal
}

/// The texts that editors were given and that are still there.
pub(super) fn texts_left(person: &TestUser) -> usize {
    let all = std::fs::read_dir(person.home()).unwrap().flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with("agents-edit-")).count()
}

#[test]
fn an_edited_hunk_is_applied_and_recorded_as_the_persons() {
    let person = person_with_a_plan();
    let mut terminal = review_with_editor(&person, "sed -i 's/ONE/EINS/' \"$1\"");
    // A choice in another file, which stays.
    terminal.types("n ");
    terminal.shows("2 of 3 hunks taken");
    terminal.types("pe");
    terminal.shows("your edit is recorded as yours");
    terminal.shows("+EINS");
    terminal.shows("2 of 3 hunks taken");
    terminal.types(ENTER);
    is_applied(&terminal.ends());
    let wanted = OLD.replace("one", "EINS").replace("five", "FIVE").replace("last", "LAST");
    assert_eq!((person.read("a.txt"), person.project().join("new.txt").exists()), (wanted, false));
    let diff = person.json(&["plan", "diff", "@last", "a.txt"]).data();
    let calls = diff["files"][0]["calls"].as_array().unwrap().clone();
    let call = calls.last().unwrap().to_string();
    let edit = person.agents(&["plan", "diff", "@last", "--call", &call]);
    assert!(edit.stdout.contains("-ONE\n+EINS\n") && !edit.stdout.contains("FIVE\n+"), "{edit:?}");
    let logs = person.agents(&["plan", "logs", "@last"]);
    assert!(logs.stdout.contains("edit_by_user"), "{logs:?}");
    assert_eq!(texts_left(&person), 0);
}

#[test]
fn an_editor_that_fails_or_deletes_the_file_changes_nothing() {
    let person = person_with_a_plan();
    for (script, said) in [
        ("echo other > \"$1\"; exit 3", "so nothing was changed"),
        ("rm \"$1\"", "the editor left no file, so nothing was changed"),
        ("rm -r \"$(dirname \"$1\")\"", "the editor left no file, so nothing was changed"),
        ("true", "nothing was changed"),
        ("printf 'a\\0b' > \"$1\"", "is not a text of at most 4 MiB; your text is in"),
    ] {
        let mut terminal = review_with_editor(&person, script);
        terminal.types(" e");
        terminal.shows(said);
        terminal.shows("2 of 3 hunks taken");
        terminal.types("q");
        is_applied(&terminal.ends());
        assert_eq!(
            person.json(&["plan", "diff", "@last"]).data()["files"][0]["calls"].as_array().unwrap().len(),
            1
        );
    }
    assert_eq!(texts_left(&person), 2, "what was saved and could not be recorded is not lost");
    let said = person.agents(&["plan", "apply", "@last", "--yes"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(person.read("a.txt").starts_with("ONE\n"));
}

#[test]
fn notes_are_written_on_the_screen_and_sent_as_a_revision() {
    let person = person_with_a_plan();
    let mut terminal = review(&person);
    terminal.types("R");
    terminal.shows("there is no open note: c writes one");
    terminal.types("cplease q R N");
    terminal.shows("note on a.txt#1: please q R N_");
    terminal.types(ENTER);
    terminal.shows("1 open note: R revises the plan with them");
    terminal.shows("note: please q R N");
    // On the line that was removed, pasted with a line end in it.
    terminal.types("vc");
    terminal.shows("note on -a.txt:1: _");
    terminal.types("\x1b[200~keep it\rq\x1b[201~");
    terminal.shows("keep it q_");
    terminal.types(ENTER);
    terminal.shows("2 open notes");
    let notes = person.json(&["plan", "notes", "@last"]).data()["notes"].clone();
    assert_eq!((&notes[0]["place"], &notes[1]["place"]), (&"a.txt#1".into(), &"-a.txt:1".into()), "{notes}");
    assert_eq!(notes[1]["text"], "keep it\nq", "{notes}");
    terminal.types("R");
    let left = terminal.ends();
    is_applied(&left);
    assert!(left.text.contains("2 notes sent along"), "{left:?}");
    let status = person.json(&["plan", "status", "@last"]).data();
    assert_eq!((&status["attempt"], &status["state"]), (&2.into(), &"complete".into()), "{status}");
    assert_eq!(person.json(&["plan", "notes", "@last"]).data()["notes"].as_array().unwrap().len(), 0);
    assert_eq!(person.read("a.txt"), OLD, "nothing was applied");
}

#[test]
fn a_long_note_is_written_in_the_editor_and_none_is_lost() {
    let person = person_with_a_plan();
    let notes = || person.json(&["plan", "notes", "@last"]).data()["notes"].as_array().unwrap().len();
    let mut terminal = review_with_editor(&person, "printf ' and\\nmore' >> \"$1\"");
    terminal.types("cfirst\t");
    terminal.shows("the note is written");
    terminal.types("q");
    is_applied(&terminal.ends());
    assert_eq!(person.json(&["plan", "notes"]).data()["notes"][0]["text"], "first and\nmore");

    // What was typed is still on the input line when the editor fails.
    let mut terminal = review_with_editor(&person, "exit 3");
    terminal.types("cnot lost\t");
    terminal.shows("failed");
    terminal.types("!");
    terminal.shows("note on a.txt#1: not lost!_");
    terminal.types("\x1b");
    terminal.shows("enter apply  q quit");
    terminal.types("q");
    terminal.ends();
    assert_eq!(notes(), 1);

    let mut terminal = review_with_editor(&person, "head -c 100000 /dev/zero | tr '\\0' x > \"$1\"");
    terminal.types("c\t");
    terminal.shows("a note has from 1 to 16384 bytes, this one has 100000; your text is in");
    terminal.types("q");
    terminal.ends();
    assert_eq!((notes(), texts_left(&person)), (1, 1), "what could not be recorded is not lost");
}

#[test]
fn a_review_is_held_on_a_tiny_screen_and_on_one_that_changes_its_size() {
    let person = person_with_a_plan();
    let command = person.command(&person.project(), &["plan", "apply", "@last", "-i"]);
    let mut terminal = Terminal::with_size(&command, 20, 5);
    terminal.shows("enter apply  q quit");
    terminal.types(" ");
    for (columns, rows) in [(1, 1), (140, 30), (3, 2), (81, 7), (20, 5), (120, 24)] {
        terminal.resize(columns, rows);
        terminal.types("jkw");
    }
    terminal.shows("2 of 3 hunks taken");
    terminal.types(ENTER);
    is_applied(&terminal.ends());
    assert_eq!(person.read("a.txt"), OLD.replace("last", "LAST"));
}

#[test]
fn a_terminal_without_colour_or_utf_8_shows_the_review_and_one_without_a_screen_says_so() {
    let person = person_with_a_plan();
    let mut command = person.command(&person.project(), &["plan", "apply", "@last", "-i"]);
    command.env("NO_COLOR", "1").env("LC_ALL", "C");
    // So few rows that no place on the screen reads like a colour.
    let mut terminal = Terminal::with_size(&command, 80, 20);
    terminal.shows("+files");
    terminal.types("q");
    let left = terminal.ends();
    is_applied(&left);
    let is_coloured = |code: &str| left.text.contains(&format!("\x1b[{code}"));
    assert!(!["31m", "32m", "38;", "36m"].into_iter().any(is_coloured), "{left:?}");
    let drawn = left.text.split("nothing was applied").next().unwrap();
    assert!(drawn.is_ascii(), "{drawn:?}");

    let mut command = person.command(&person.project(), &["plan", "apply", "@last", "-i"]);
    command.env("TERM", "dumb");
    let left = Terminal::start(&command).ends();
    assert_eq!(left.exit, Some(6), "{left:?}");
    assert!(left.text.contains("TERM is `dumb`") && left.text.contains("--only"), "{left:?}");
    assert_eq!(person.read("a.txt"), OLD);
}
