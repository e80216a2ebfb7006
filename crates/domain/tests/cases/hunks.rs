//! Hunks part a change, and chosen ones put together what was chosen.

use std::collections::BTreeSet;

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

use crate::sample::path;

pub(crate) fn net(before: Option<FileState>, after: Option<FileState>) -> NetChange {
    NetChange {
        root: RootIndex(0),
        path: path("f"),
        from: None,
        before,
        after,
        base: Base::Known,
        calls: vec![],
    }
}

fn edit(before: &str, after: &str) -> NetChange {
    net(Some(FileState::file(before.as_bytes(), 0o644)), Some(FileState::file(after.as_bytes(), 0o644)))
}

fn hunks_of(before: &str, after: &str) -> Vec<Hunk> {
    hunks(Some(before.as_bytes()), Some(after.as_bytes()), &edit(before, after))
}

/// `@@ -1,2 +1,3 @@` and the lines, as a patch has them.
fn shown(hunk: &Hunk) -> String {
    let Hunk { number, part, old_start, old_lines, new_start, new_lines, lines } = hunk;
    let mut text = format!("#{number} {part:?} -{old_start},{old_lines} +{new_start},{new_lines}");
    for line in lines {
        let tag = match line.tag {
            LineTag::Context => ' ',
            LineTag::Removed => '-',
            LineTag::Added => '+',
        };
        text.push_str(&format!("|{tag}{}", line.bytes.escape_ascii()));
    }
    text
}

/// The choice of the hunks with these numbers, all lines of them.
fn only_hunks(lines: &[u32], numbers: &[u32]) -> ChangeChoice {
    let mut choice = ChangeChoice::new(lines, false);
    numbers.iter().for_each(|number| choice.set_hunk(*number, true));
    choice
}

/// What becomes of `before` if the lines of the only hunk that `taken` names come.
fn with_lines(before: &str, after: &str, taken: &str) -> String {
    let hunks = hunks_of(before, after);
    let lines = selectable_lines(&edit(before, after), &hunks);
    let mut choice = ChangeChoice::new(&lines, false);
    choice.set_lines(1, &taken.parse().unwrap(), true);
    String::from_utf8(apply_hunks(before.as_bytes(), after.as_bytes(), &choice)).unwrap()
}

#[test]
fn single_lines_are_taken_and_the_others_stay_as_they_were() {
    let (before, after) = ("a\nb\nc\n", "a\nB\nnew\nc\n");
    // -b +B +new
    assert_eq!(with_lines(before, after, "1-3"), after);
    assert_eq!(with_lines(before, after, "1-2"), "a\nB\nc\n");
    assert_eq!(with_lines(before, after, "2"), "a\nb\nB\nc\n");
    assert_eq!(with_lines(before, after, "1"), "a\nc\n");
    assert_eq!(with_lines(before, after, "3"), "a\nb\nnew\nc\n");
    // -a -b +A +B: each new line comes where the old one was.
    assert_eq!(with_lines("a\nb\n", "A\nB\n", "1,3"), "A\nb\n");
    assert_eq!(with_lines("a\nb\n", "A\nB\n", "2,4"), "a\nB\n");
}

#[test]
fn a_last_line_without_a_line_end_is_never_joined_with_another() {
    assert_eq!(with_lines("a\nb", "a\nc\nd", "2"), "a\nb\nc\n");
    assert_eq!(with_lines("a\nb", "a\nc\nd", "2-3"), "a\nb\nc\nd");
    assert_eq!(with_lines("a", "b", "2"), "a\nb");
}

#[test]
fn the_new_text_of_a_hunk_is_replaced_and_nothing_else() {
    let before = numbered(30);
    let after = before.replace("\n5\n", "\nfive\n").replace("\n25\n", "\n");
    let hunks = hunks_of(&before, &after);
    assert_eq!(new_text(&hunks[0]), b"2\n3\n4\nfive\n6\n7\n8\n");
    let edited = |hunk: usize, text: &str| {
        String::from_utf8(with_new_text(after.as_bytes(), &hunks[hunk], text.as_bytes())).unwrap()
    };
    for (number, hunk) in hunks.iter().enumerate() {
        let same = String::from_utf8(new_text(hunk)).unwrap();
        assert_eq!(edited(number, &same), after);
        assert_eq!(edited(number, same.trim_end()), after, "a line end that an editor left out is put back");
    }
    assert_eq!(edited(0, "2\n3\n4\nFUENF\nmore\n6\n7\n8\n"), after.replace("five\n", "FUENF\nmore\n"));
    assert_eq!(edited(0, ""), after.replace("2\n3\n4\nfive\n6\n7\n8\n", ""));
    let gone = hunks_of("a\n", "");
    assert_eq!(with_new_text(b"", &gone[0], b"b\n"), b"b\n");
    let bare = hunks_of("a\nb", "a\nc");
    assert_eq!(with_new_text(b"a\nc", &bare[0], b"a\nd"), b"a\nd", "no line end where there was none");
}

#[test]
fn a_new_file_can_be_had_in_part() {
    let created = net(None, Some(FileState::file(b"a\nb\nc\n", 0o755)));
    let after: Option<&[u8]> = Some(b"a\nb\nc\n");
    let lines = selectable_lines(&created, &hunks(None, after, &created));
    assert_eq!(lines, [3]);
    let mut choice = ChangeChoice::new(&lines, true);
    choice.set_lines(1, &"2".parse().unwrap(), false);
    let NarrowedChange::Part { change, content } = narrow(&created, None, after, &choice) else {
        panic!("it is parted")
    };
    assert_eq!((content.as_slice(), change.after), (&b"a\nc\n"[..], Some(FileState::file(b"a\nc\n", 0o755))));
    let deleted = net(Some(FileState::file(b"a\n", 0o644)), None);
    assert_eq!(selectable_lines(&deleted, &hunks(Some(b"a\n"), None, &deleted)), [0]);
}

#[test]
fn the_plans_lines_can_win_over_one_conflict_and_not_over_another() {
    let (base, now, plan) = ("1\n2\n3\n4\n5\n", "one\n2\n3\n4\nfive\nsix\n", "eins\n2\nDREI\n4\nfuenf\n");
    let merged = |takes: &dyn Fn(&Region) -> bool| {
        merge_taking(base.as_bytes(), now.as_bytes(), plan.as_bytes(), takes)
    };
    let Merge::Conflict(left) = merged(&|region| region.base.start == 0) else { panic!("one is left") };
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].now, 4..6);
    assert_eq!(merged(&|_| true), Merge::Merged(b"eins\n2\nDREI\n4\nfuenf\n".to_vec()));
}

fn numbered(count: u32) -> String {
    (1..=count).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_hunk_has_three_lines_of_context() {
    let before = numbered(9);
    let after = before.replace("5\n", "five\n");
    assert_eq!(
        hunks_of(&before, &after).iter().map(shown).collect::<Vec<_>>(),
        [r"#1 Lines -2,7 +2,7| 2\n| 3\n| 4\n|-5\n|+five\n| 6\n| 7\n| 8\n"]
    );
    let grown = format!("0\n{before}");
    assert_eq!(
        hunks_of(&before, &grown).iter().map(shown).collect::<Vec<_>>(),
        [r"#1 Lines -1,3 +1,4|+0\n| 1\n| 2\n| 3\n"]
    );
    assert_eq!(hunks_of("a\n", "").iter().map(shown).collect::<Vec<_>>(), [r"#1 Lines -1,1 +0,0|-a\n"]);
}

#[test]
fn changes_whose_context_meets_are_one_hunk() {
    let before = numbered(20);
    let count = |first: &str, second: &str| {
        let after = before.replace(first, "\nx\n").replace(second, "\ny\n");
        hunks_of(&before, &after).len()
    };
    assert_eq!(count("\n2\n", "\n9\n"), 1, "six lines between");
    assert_eq!(count("\n2\n", "\n10\n"), 2, "seven lines between");
}

#[test]
fn what_cannot_be_parted_is_one_whole_hunk() {
    let file = |content: &str, mode| Some(FileState::file(content.as_bytes(), mode));
    let link = |target: &str| Some(FileState::symlink(target.as_bytes()));
    let table = [
        (None, file("a\nb", 0o644), "", "a\nb", r"#1 Whole -0,0 +1,2|+a\n|+b"),
        (file("a\n", 0o644), None, "a\n", "", r"#1 Whole -1,1 +0,0|-a\n"),
        (None, file("", 0o644), "", "", "#1 Whole -0,0 +0,0"),
        (file("a\0", 0o644), file("b\0", 0o644), "a\0", "b\0", "#1 Whole -0,0 +0,0"),
        (file("a", 0o644), file("a", 0o755), "a", "a", "#1 Whole -0,0 +0,0"),
        (link("a"), link("b"), "a", "b", "#1 Whole -1,1 +1,1|-a|+b"),
        (file("a\n", 0o644), link("b"), "a\n", "b", r"#1 Whole -1,1 +1,1|-a\n|+b"),
        (None, Some(FileState::dir(0o755)), "", "", "#1 Whole -0,0 +0,0"),
    ];
    for (old, new, before, after, expected) in table {
        let before = old.map(|_| before.as_bytes());
        let after = new.map(|_| after.as_bytes());
        let found: Vec<String> = hunks(before, after, &net(old, new)).iter().map(shown).collect();
        assert_eq!(found, [expected]);
    }
    let same = file("a", 0o644);
    let moved = NetChange { from: Some(path("old")), ..net(same, same) };
    assert_eq!(
        hunks(Some(b"a"), Some(b"a"), &moved).iter().map(shown).collect::<Vec<_>>(),
        ["#1 Whole -0,0 +0,0"]
    );
    assert_eq!(
        hunks(None, None, &edit("a", "b")).iter().map(shown).collect::<Vec<_>>(),
        ["#1 Whole -0,0 +0,0"]
    );
    assert_eq!(hunks(Some(b"a"), Some(b"a"), &net(same, same)), []);
}

#[test]
fn a_mode_that_changed_along_is_the_last_hunk() {
    let before = numbered(20);
    let after = before.replace("\n2\n", "\nx\n").replace("\n19\n", "\ny\n");
    let change = NetChange { after: Some(FileState::file(after.as_bytes(), 0o755)), ..edit(&before, "") };
    let (before, after) = (before.as_bytes(), after.as_bytes());
    let parts: Vec<(u32, HunkPart)> =
        hunks(Some(before), Some(after), &change).iter().map(|hunk| (hunk.number, hunk.part)).collect();
    assert_eq!(parts, [(1, HunkPart::Lines), (2, HunkPart::Lines), (3, HunkPart::Mode)]);

    let lines = selectable_lines(&change, &hunks(Some(before), Some(after), &change));
    assert_eq!(lines, [2, 2, 0]);
    let narrowed = |taken: &[u32]| narrow(&change, Some(before), Some(after), &only_hunks(&lines, taken));
    let part = |content: String, mode| {
        let state = FileState::file(content.as_bytes(), mode);
        NarrowedChange::Part {
            change: NetChange { after: Some(state), ..change.clone() },
            content: content.into(),
        }
    };
    assert_eq!(narrowed(&[]), NarrowedChange::Nothing);
    assert_eq!(narrowed(&[9]), NarrowedChange::Nothing);
    assert_eq!(narrowed(&[1, 2, 3]), NarrowedChange::Whole);
    assert_eq!(narrowed(&[3]), part(numbered(20), 0o755));
    assert_eq!(narrowed(&[2]), part(numbered(20).replace("\n19\n", "\ny\n"), 0o644));
    assert_eq!(narrowed(&[1, 3]), part(numbered(20).replace("\n2\n", "\nx\n"), 0o755));
    let created = net(None, Some(FileState::file(b"a", 0o644)));
    assert_eq!(narrow(&created, None, Some(b"a"), &ChangeChoice::new(&[1], true)), NarrowedChange::Whole);
}

#[test]
fn a_conflict_is_addressed_by_its_hunk() {
    let base = numbered(60);
    let plan = base.replace("\n2\n", "\nx\n").replace("\n30\n", "\ny\n").replace("\n50\n", "\nz\n");
    let now = base.replace("\n30\n", "\nmine\n").replace("\n51\n", "\n");
    let (base, plan) = (base.as_bytes(), plan.as_bytes());
    let Merge::Conflict(regions) = merge(base, now.as_bytes(), plan) else { panic!("no conflict") };
    assert_eq!(hunks_in_conflict(base, plan, &regions), BTreeSet::from([2, 3]));
    assert_eq!(hunks_in_conflict(base, plan, &regions[..1]), BTreeSet::from([2]));
    assert_eq!(hunks_in_conflict(base, plan, &[]), BTreeSet::new());
    assert_eq!(hunks_by_conflict(base, plan, &regions), [BTreeSet::from([2]), BTreeSet::from([3])]);
}

#[test]
fn insertions_and_deletions_are_counted() {
    let changed = lines_changed(&hunks_of("a\nb\nc\n", "a\nx\ny\nc\n"));
    assert_eq!(changed, LinesChanged { insertions: 2, deletions: 1 });
    assert_eq!(lines_changed(&[]), LinesChanged::default());
}

fn content() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        5 => (0..30_u8).prop_map(|line| format!("line {line}\n")),
        2 => (0..3_u8).prop_map(|indent| format!("{}x\n", "\t".repeat(indent.into()))),
        1 => Just("\n".to_owned()),
    ];
    let last = prop_oneof![2 => Just(""), 1 => Just("end")];
    (prop::collection::vec(line, 0..40), last).prop_map(|(lines, last)| lines.concat() + last)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn all_hunks_are_the_change_and_none_is_none_of_it(before in content(), after in content(), mask in any::<u64>()) {
        let hunks = hunks_of(&before, &after);
        let numbers: Vec<u32> = hunks.iter().map(|hunk| hunk.number).collect();
        prop_assert_eq!(&numbers, &(1..=numbers.len() as u32).collect::<Vec<_>>());
        let (old, new) = (before.as_bytes(), after.as_bytes());
        let lines = selectable_lines(&edit(&before, &after), &hunks);
        prop_assert_eq!(apply_hunks(old, new, &ChangeChoice::new(&lines, true)), new);
        prop_assert_eq!(apply_hunks(old, new, &ChangeChoice::new(&lines, false)), old);

        // Some of them, put in line by line as they are shown.
        let chosen: Vec<u32> = numbers.into_iter().filter(|number| mask >> (number % 64) & 1 == 1).collect();
        let choice = only_hunks(&lines, &chosen);
        let lines: Vec<&[u8]> = old.split_inclusive(|byte| *byte == b'\n').collect();
        let mut expected = Vec::new();
        let mut done = 0;
        for hunk in hunks.iter().filter(|hunk| chosen.contains(&hunk.number)) {
            let begin = (hunk.old_start as usize).saturating_sub(usize::from(hunk.old_lines > 0));
            expected.extend(lines[done..begin].concat());
            let kept = hunk.lines.iter().filter(|line| line.tag != LineTag::Removed);
            expected.extend(kept.flat_map(|line| line.bytes.clone()));
            done = begin + hunk.old_lines as usize;
        }
        expected.extend(lines[done..].concat());
        prop_assert_eq!(apply_hunks(old, new, &choice), expected);
    }
}
