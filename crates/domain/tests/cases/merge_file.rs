//! The table of merges, row by row and over all small states.

use domain::*;

const KNOWN: Base = Base::Known;
const MOVED: Base = Base::Moved;

fn file(content: &str, mode: u16) -> Option<FileState> {
    Some(FileState::file(content.as_bytes(), mode))
}

fn text(content: &str) -> Option<FileState> {
    file(content, 0o644)
}

fn link(target: &str) -> Option<FileState> {
    Some(FileState::symlink(target.as_bytes()))
}

fn stays(base: Option<FileState>, now: Option<FileState>, plan: Option<FileState>, trust: Base) -> FileMerge {
    merge_file(&MergeSides { base, now, plan, trust, place: MergePlacement::Stays })
}

fn moves(
    base: Option<FileState>,
    now: Option<FileState>,
    plan: Option<FileState>,
    there: Option<FileState>,
) -> FileMerge {
    merge_file(&MergeSides { base, now, plan, trust: KNOWN, place: MergePlacement::Moves { there } })
}

fn write(state: Option<FileState>) -> FileMerge {
    FileMerge::Write(state.unwrap())
}

fn conflict(kind: ConflictKind) -> FileMerge {
    FileMerge::Conflict(kind)
}

#[test]
fn a_file_as_the_plan_found_it_becomes_what_the_plan_made() {
    assert_eq!(stays(text("a"), text("a"), text("b"), KNOWN), write(text("b")));
    assert_eq!(stays(text("a"), text("a"), file("a", 0o755), KNOWN), write(file("a", 0o755)));
    assert_eq!(stays(text("a"), text("a"), link("b"), KNOWN), write(link("b")));
    assert_eq!(stays(text("a"), text("a"), None, KNOWN), FileMerge::Remove);
    assert_eq!(stays(None, None, text("a"), KNOWN), write(text("a")));
    assert_eq!(moves(text("a"), text("a"), text("a"), None), FileMerge::Move(text("a").unwrap()));
    assert_eq!(moves(text("a"), text("a"), text("b"), None), FileMerge::Move(text("b").unwrap()));
}

#[test]
fn a_changed_file_is_merged_or_a_conflict() {
    assert_eq!(stays(text("a"), text("n"), text("b"), KNOWN), FileMerge::MergeLines { mode: 0o644 });
    assert_eq!(moves(text("a"), text("n"), text("b"), None), FileMerge::MergeLines { mode: 0o644 });
    assert_eq!(moves(text("a"), text("n"), text("a"), None), FileMerge::Move(text("n").unwrap()));
    assert_eq!(stays(text("a"), text("n"), None, KNOWN), conflict(ConflictKind::ChangedDeleted));
    assert_eq!(stays(text("a"), file("a", 0o755), None, KNOWN), conflict(ConflictKind::ChangedDeleted));
    assert_eq!(stays(None, text("n"), text("b"), KNOWN), conflict(ConflictKind::BothCreated));
    assert_eq!(stays(None, link("b"), text("b"), KNOWN), conflict(ConflictKind::BothCreated));
    assert_eq!(stays(None, text("b"), file("b", 0o755), KNOWN), conflict(ConflictKind::Mode));
}

#[test]
fn a_file_that_is_gone_cannot_be_changed() {
    assert_eq!(stays(text("a"), None, text("b"), KNOWN), conflict(ConflictKind::DeletedChanged));
    assert_eq!(moves(text("a"), None, text("a"), None), conflict(ConflictKind::DeletedChanged));
    assert_eq!(stays(text("a"), None, None, KNOWN), FileMerge::AlreadyThere);
}

#[test]
fn what_is_as_the_plan_wants_it_is_left_alone_even_on_an_unknown_base() {
    for trust in [KNOWN, MOVED] {
        assert_eq!(stays(text("a"), text("b"), text("b"), trust), FileMerge::AlreadyThere);
        assert_eq!(stays(None, text("b"), text("b"), trust), FileMerge::AlreadyThere);
        assert_eq!(stays(text("a"), None, None, trust), FileMerge::AlreadyThere);
        let moved = MergePlacement::Moves { there: text("b") };
        let sides = MergeSides { base: text("a"), now: None, plan: text("b"), trust, place: moved };
        assert_eq!(merge_file(&sides), FileMerge::AlreadyThere);
    }
}

#[test]
fn nothing_is_merged_upon_an_unknown_base() {
    let base_moved = conflict(ConflictKind::BaseMoved);
    assert_eq!(stays(text("a"), text("a"), text("b"), MOVED), base_moved);
    assert_eq!(stays(text("a"), text("n"), text("b"), MOVED), base_moved);
    assert_eq!(stays(text("a"), text("a"), None, MOVED), base_moved);
    assert_eq!(stays(None, None, text("b"), MOVED), base_moved);
    let place = MergePlacement::Moves { there: None };
    let sides = MergeSides { base: text("a"), now: text("a"), plan: text("a"), trust: MOVED, place };
    assert_eq!(merge_file(&sides), base_moved);
}

#[test]
fn modes_merge_as_values() {
    assert_eq!(stays(text("a"), file("a", 0o600), text("b"), KNOWN), write(file("b", 0o600)));
    assert_eq!(stays(text("a"), text("n"), file("a", 0o755), KNOWN), write(file("n", 0o755)));
    assert_eq!(stays(text("a"), file("a", 0o755), file("b", 0o755), KNOWN), write(file("b", 0o755)));
    assert_eq!(
        stays(text("a"), file("n", 0o600), file("b", 0o644), KNOWN),
        FileMerge::MergeLines { mode: 0o600 }
    );
    assert_eq!(stays(text("a"), file("a", 0o600), file("a", 0o755), KNOWN), conflict(ConflictKind::Mode));
}

#[test]
fn kinds_must_agree() {
    assert_eq!(stays(text("a"), link("n"), text("b"), KNOWN), conflict(ConflictKind::Kind));
    assert_eq!(stays(text("a"), text("n"), link("b"), KNOWN), conflict(ConflictKind::Kind));
    assert_eq!(stays(text("a"), link("n"), text("a"), KNOWN), FileMerge::AlreadyThere);
}

#[test]
fn what_has_no_lines_is_taken_whole_or_not_at_all() {
    assert_eq!(stays(text("\0a"), text("\0n"), text("\0b"), KNOWN), conflict(ConflictKind::Binary));
    assert_eq!(stays(text("a"), text("\0n"), text("b"), KNOWN), conflict(ConflictKind::Binary));
    assert_eq!(stays(link("a"), link("n"), link("b"), KNOWN), conflict(ConflictKind::Binary));
    assert_eq!(stays(text("\0a"), file("\0a", 0o755), text("\0b"), KNOWN), write(file("\0b", 0o755)));
}

#[test]
fn a_place_that_is_taken_is_not_moved_to() {
    assert_eq!(moves(text("a"), text("a"), text("a"), text("x")), conflict(ConflictKind::Occupied));
    assert_eq!(moves(text("a"), text("a"), text("a"), text("a")), conflict(ConflictKind::Occupied));
    assert_eq!(moves(text("a"), None, text("a"), text("x")), conflict(ConflictKind::Occupied));
}

#[test]
fn a_directory_is_there_or_not() {
    let dir = |mode| Some(FileState::dir(mode));
    assert_eq!(stays(None, dir(0o700), dir(0o755), KNOWN), FileMerge::AlreadyThere);
    assert_eq!(stays(dir(0o755), dir(0o700), None, KNOWN), FileMerge::Remove);
    assert_eq!(stays(dir(0o755), text("n"), None, KNOWN), conflict(ConflictKind::ChangedDeleted));
    assert_eq!(stays(None, text("n"), dir(0o755), KNOWN), conflict(ConflictKind::BothCreated));
}

#[test]
fn the_sides_of_a_change_are_those_of_its_move() {
    let change = NetChange {
        root: RootIndex(0),
        path: crate::sample::path("b"),
        from: Some(crate::sample::path("a")),
        before: text("a"),
        after: text("b"),
        base: MOVED,
        calls: vec![],
    };
    let place = MergePlacement::Moves { there: text("t") };
    let sides = MergeSides { base: text("a"), now: text("n"), plan: text("b"), trust: MOVED, place };
    assert_eq!(MergeSides::from_change(&change, text("n"), text("t")), sides);
    let stays = MergeSides { place: MergePlacement::Stays, ..sides };
    assert_eq!(MergeSides::from_change(&NetChange { from: None, ..change }, text("n"), text("t")), stays);
}

fn states() -> Vec<Option<FileState>> {
    vec![
        None,
        text("a"),
        text("b"),
        text("c"),
        file("a", 0o755),
        file("b", 0o600),
        text("\0a"),
        text("\0b"),
        link("a"),
        link("b"),
        Some(FileState::dir(0o755)),
        Some(FileState::dir(0o700)),
    ]
}

/// The part of the user's work that would be lost if the decision were carried out.
#[test]
fn over_all_states_nobodys_work_is_lost() {
    let mut seen = 0;
    for base in states() {
        for now in states() {
            for plan in states() {
                for trust in [KNOWN, MOVED] {
                    seen += 1;
                    let both_dirs =
                        [now, base].iter().all(|state| state.is_some_and(|s| s.kind == Kind::Dir));
                    match stays(base, now, plan, trust) {
                        FileMerge::AlreadyThere | FileMerge::Conflict(_) => {}
                        FileMerge::Remove => {
                            assert!(trust == KNOWN && plan.is_none() && (now == base || both_dirs));
                        }
                        FileMerge::Write(state) => {
                            assert_eq!(trust, KNOWN);
                            let kept = now.is_none_or(|now| {
                                Some(now) == base
                                    || state.hash == now.hash
                                    || base.is_some_and(|base| base.hash == now.hash && base.kind == now.kind)
                            });
                            assert!(kept, "{base:?} {now:?} {plan:?}");
                            assert!(now.is_some() || base.is_none(), "what was deleted stays deleted");
                        }
                        FileMerge::MergeLines { .. } => {
                            let all = [base, now, plan].map(Option::unwrap);
                            assert!(trust == KNOWN && all.iter().all(|state| state.text));
                        }
                        FileMerge::Move(_) => panic!("nothing moves that stays"),
                    }
                }
            }
        }
    }
    assert_eq!(seen, 12 * 12 * 12 * 2);
}

/// Undo is the same function: what was written from the base alone goes back to it.
#[test]
fn what_was_written_can_be_unwritten() {
    for base in states() {
        for plan in states() {
            match stays(base, base, plan, KNOWN) {
                FileMerge::Write(state) => assert_eq!(Some(state), plan),
                FileMerge::Remove => assert_eq!(plan, None),
                FileMerge::AlreadyThere => assert_eq!(base, plan),
                other => panic!("{base:?} {plan:?}: {other:?}"),
            }
            let undone = stays(plan, plan, base, KNOWN);
            match base {
                _ if base == plan => assert_eq!(undone, FileMerge::AlreadyThere),
                Some(base) => assert_eq!(undone, FileMerge::Write(base)),
                None => assert_eq!(undone, FileMerge::Remove),
            }
        }
    }
}
