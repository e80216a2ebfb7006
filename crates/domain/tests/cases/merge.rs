//! Contents are merged by lines, and the laws of merging hold.

use std::collections::BTreeSet;

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

fn merged(base: &str, now: &str, plan: &str) -> Merge {
    merge(base.as_bytes(), now.as_bytes(), plan.as_bytes())
}

fn text(text: &str) -> Merge {
    Merge::Merged(text.as_bytes().to_vec())
}

fn region(base: std::ops::Range<u32>, now: std::ops::Range<u32>, plan: std::ops::Range<u32>) -> Region {
    Region { base, now, plan }
}

#[test]
fn changes_apart_are_both_taken() {
    assert_eq!(merged("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n"), text("A\nb\nC\n"));
    assert_eq!(merged("a\nb\nc\n", "b\nc\n", "a\nb\nc\nd\n"), text("b\nc\nd\n"));
    assert_eq!(merged("a\nb\nc\n", "x\na\nb\nc\n", "a\nb\n"), text("x\na\nb\n"));
    assert_eq!(
        merged("1\n2\n3\n4\n5\n6\n7\n", "1\n2\nnow\n4\n5\n6\n7\n", "plan\n2\n3\n4\n5\n7\nplan\n"),
        text("plan\n2\nnow\n4\n5\n7\nplan\n")
    );
}

#[test]
fn equal_changes_are_taken_once() {
    assert_eq!(merged("a\nb\nc\n", "a\nX\nc\n", "a\nX\nc\nd\n"), text("a\nX\nc\nd\n"));
    assert_eq!(merged("a\nb\nc\n", "a\nX\nc\nd\n", "a\nX\nc\n"), Merge::Same);
    assert_eq!(merged("a\nb\n", "a\nnew\nb\n", "a\nnew\nb\n"), Merge::Same);
}

#[test]
fn changes_that_overlap_or_touch_conflict() {
    assert_eq!(
        merged("a\nb\nc\n", "a\nX\nc\n", "a\nY\nc\n"),
        Merge::Conflict(vec![region(1..2, 1..2, 1..2)])
    );
    assert_eq!(
        merged("a\nb\nc\n", "a\nX\nc\n", "a\nb\nY\n"),
        Merge::Conflict(vec![region(1..3, 1..3, 1..3)]),
        "touching"
    );
    assert_eq!(
        merged("a\nb\n", "a\nX\nb\n", "a\nY\nb\n"),
        Merge::Conflict(vec![region(1..1, 1..2, 1..2)]),
        "both put something in one place"
    );
    assert_eq!(
        merged("a\nb\nc\nd\ne\n", "a\nc\nd\nE\n", "a\nB\nc\nd\nF\n"),
        Merge::Conflict(vec![region(1..2, 1..1, 1..2), region(4..5, 3..4, 4..5)]),
        "every place is named"
    );
    assert_eq!(
        merged("1\n2\n3\n4\n5\n", "A\nB\nC\nD\n5\n", "1\nX\n3\nY\n5\n"),
        Merge::Conflict(vec![region(0..4, 0..4, 0..4)]),
        "one change over two"
    );
}

#[test]
fn line_ends_are_part_of_lines() {
    assert_eq!(merged("a\r\nb\r\nc\r\n", "A\r\nb\r\nc\r\n", "a\r\nb\r\nC\r\n"), text("A\r\nb\r\nC\r\n"));
    assert_eq!(
        merged("a\nb\nc\n", "a\r\nb\r\nc\r\n", "a\nb\nC\n"),
        Merge::Conflict(vec![region(0..3, 0..3, 0..3)])
    );
    assert_eq!(merged("a\nb\nc", "A\nb\nc", "a\nb\nc\n"), text("A\nb\nc\n"), "the end was added");
    assert_eq!(merged("a\nb\nc\n", "A\nb\nc\n", "a\nb\nc"), text("A\nb\nc"), "the end was taken away");
    assert!(matches!(merged("a\nb", "a\nb\n", "a\nb\nc\n"), Merge::Conflict(_)), "never `bc`");
}

#[test]
fn empty_contents_merge() {
    assert_eq!(merged("", "", "a\n"), text("a\n"));
    assert_eq!(merged("", "a\n", ""), Merge::Same);
    assert_eq!(merged("a\n", "", ""), Merge::Same);
    assert_eq!(merged("a\n", "", "a\n"), Merge::Same);
    assert_eq!(merged("a\n", "a\n", ""), text(""));
    assert_eq!(merged("", "a\n", "b\n"), Merge::Conflict(vec![region(0..0, 0..1, 0..1)]));
}

/// Few different lines, so that they meet again; sometimes without the last line's end.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        6 => (0..5_u8).prop_map(|letter| vec![b'a' + letter, b'\n']),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"a\r\n".to_vec()),
        1 => Just(b"\tx\n".to_vec()),
    ];
    let last = prop_oneof![3 => Just(Vec::new()), 1 => Just(b"a".to_vec()), 1 => Just(b"\xff".to_vec())];
    (prop::collection::vec(line, 0..14), last).prop_map(|(lines, last)| [lines.concat(), last].concat())
}

/// A content and an edit of it: some lines replaced, put in or left out.
fn edit_of(base: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((0..16_usize, 0..3_usize, content()), 0..3);
    edits.prop_map(move |edits| {
        let mut lines: Vec<Vec<u8>> =
            base.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for (at, removed, added) in edits {
            let at = at.min(lines.len());
            let end = (at + removed).min(lines.len());
            let added = added.split_inclusive(|byte| *byte == b'\n').take(2).map(<[u8]>::to_vec);
            lines.splice(at..end, added.collect::<Vec<_>>());
        }
        lines.concat()
    })
}

fn three() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, Vec<u8>)> {
    content().prop_flat_map(|base| (Just(base.clone()), edit_of(base.clone()), edit_of(base)))
}

/// The merged file; none on conflict.
fn result(merge: Merge, now: &[u8]) -> Option<Vec<u8>> {
    match merge {
        Merge::Same => Some(now.to_vec()),
        Merge::Merged(bytes) => Some(bytes),
        Merge::Conflict(_) => None,
    }
}

fn lines(text: &[u8]) -> BTreeSet<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_side_that_did_nothing_changes_nothing(base in content(), other in content()) {
        prop_assert_eq!(result(merge(&base, &base, &other), &base), Some(other.clone()));
        prop_assert_eq!(merge(&base, &other, &base), Merge::Same);
        prop_assert_eq!(merge(&base, &other, &other), Merge::Same);
    }

    #[test]
    fn the_lines_alone_say_nothing_else_than_the_merge((base, now, plan) in three()) {
        let (ours, theirs) = (replaced_lines(&base, &now), replaced_lines(&base, &plan));
        let verdict = compare_lines(&ours, &theirs);
        prop_assert_eq!(verdict, compare_lines(&theirs, &ours));
        match (verdict, merge(&base, &now, &plan)) {
            (LinesVerdict::Merge, Merge::Same | Merge::Merged(_)) => {}
            (LinesVerdict::Conflict, Merge::Conflict(_)) => {}
            (LinesVerdict::Unsure, Merge::Same | Merge::Merged(_) | Merge::Conflict(_)) => {}
            (said, merged) => prop_assert!(false, "{said:?}, but {merged:?}"),
        }
    }

    #[test]
    fn the_sides_can_be_exchanged((base, now, plan) in three()) {
        let one = merge(&base, &now, &plan);
        let other = merge(&base, &plan, &now);
        match (&one, &other) {
            (Merge::Conflict(one), Merge::Conflict(other)) => {
                let exchanged: Vec<Region> = other
                    .iter()
                    .map(|region| Region { base: region.base.clone(), now: region.plan.clone(), plan: region.now.clone() })
                    .collect();
                prop_assert_eq!(one, &exchanged);
            }
            (Merge::Same | Merge::Merged(_) | Merge::Conflict(_), _) => {
                prop_assert_eq!(result(one, &now), result(other, &plan));
            }
        }
    }

    #[test]
    fn nothing_is_made_up_and_nothing_glued((base, now, plan) in three()) {
        match merge(&base, &now, &plan) {
            Merge::Same => {}
            Merge::Merged(bytes) => {
                prop_assert_ne!(&bytes, &now);
                let known: BTreeSet<&[u8]> = lines(&now).union(&lines(&plan)).copied().collect();
                prop_assert!(lines(&bytes).is_subset(&known));
            }
            Merge::Conflict(regions) => {
                prop_assert!(!regions.is_empty());
                let count = |text: &[u8]| text.split_inclusive(|byte| *byte == b'\n').count();
                for region in regions {
                    prop_assert!(region.base.end as usize <= count(&base));
                    prop_assert!(region.now.end as usize <= count(&now));
                    prop_assert!(region.plan.end as usize <= count(&plan));
                    prop_assert!(region.now.start <= region.now.end && region.plan.start <= region.plan.end);
                }
            }
        }
    }

    #[test]
    fn what_was_merged_can_be_undone((base, now, plan) in three()) {
        // Undo: from the plan's side back to the base, into what the merge made.
        if let Merge::Merged(bytes) = merge(&base, &now, &plan)
            && let Some(undone) = result(merge(&plan, &bytes, &base), &bytes)
            && let Merge::Merged(again) = merge(&base, &undone, &plan)
        {
            prop_assert_eq!(again, bytes);
        }
    }
}
