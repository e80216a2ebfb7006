//! The overlap of two plans, on changes and contents made up here.

use std::collections::BTreeMap;
use std::io::{self, Read};

use domain::{ByteText, NewPlan, PlanSpec, ProjectLink, RelPath, RootIndex, WallMs};
use serde_json::json;

use super::*;

/// Contents in memory.
#[derive(Default)]
struct MemoryContents(BTreeMap<Hash, Vec<u8>>);

impl ContentSource for MemoryContents {
    fn open(&self, hash: &Hash) -> io::Result<Box<dyn Read + '_>> {
        let bytes = self.0.get(hash).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Box::new(bytes.as_slice()))
    }
}

impl MemoryContents {
    fn file(&mut self, text: &str) -> Option<FileState> {
        let state = FileState::file(text.as_bytes(), 0o644);
        self.0.insert(state.hash, text.as_bytes().to_vec());
        Some(state)
    }
}

fn plan(no: u128, root: &str) -> Plan {
    let spec = json!({
        "steps": [], "max_file_bytes": 1024, "sandbox": "auto", "isolation_required": true, "time_limit_s": 60,
    });
    let spec: PlanSpec = serde_json::from_value(spec).unwrap();
    let link = ProjectLink { alias: "p".to_owned(), root: ByteText::from(root), read_only: false };
    Plan::new(
        NewPlan { id: PlanId::from_u128(no), title: String::new(), spec, projects: vec![link] },
        WallMs(0),
    )
}

fn change(path: &str, before: Option<FileState>, after: Option<FileState>) -> NetChange {
    let path = RelPath::new(path).unwrap();
    NetChange { root: RootIndex(0), path, from: None, before, after, base: Base::Known, calls: Vec::new() }
}

fn moved(from: &str, path: &str, state: Option<FileState>, after: Option<FileState>) -> NetChange {
    NetChange { from: Some(RelPath::new(from).unwrap()), ..change(path, state, after) }
}

const ROOT: &str = "/srv/me/shop";

/// Returns the overlaps of plans of one project that make these changes; the same from both sides.
fn met(kept: &MemoryContents, one: Vec<NetChange>, other: Vec<NetChange>) -> Vec<(String, ForecastKind)> {
    met_in(kept, (ROOT, one), (ROOT, other))
}

type ChangesInRoot<'a> = (&'a str, Vec<NetChange>);

fn met_in(
    kept: &MemoryContents,
    one: ChangesInRoot<'_>,
    other: ChangesInRoot<'_>,
) -> Vec<(String, ForecastKind)> {
    let (one, other) = (
        PlanFootprint::new(&plan(1, one.0), one.1, kept),
        PlanFootprint::new(&plan(2, other.0), other.1, kept),
    );
    let paths = |all: [PlanFootprint; 2]| {
        let found = Comparison::new(&all, kept, OF_ALL).of_all();
        assert_eq!(Comparison::new(&all, kept, OF_ONE).of_first(), found, "all of two is the first of two");
        let paths = found.pairs.iter().flat_map(|forecast| forecast.paths.iter());
        paths.map(|path| (path.address.clone(), path.kind)).collect::<Vec<_>>()
    };
    let (ours, theirs) = (paths([one.clone(), other.clone()]), paths([other, one]));
    let kinds = |paths: &[(String, ForecastKind)]| paths.iter().map(|path| path.1).collect::<BTreeSet<_>>();
    assert_eq!(kinds(&ours), kinds(&theirs), "it matters who is asked");
    ours
}

fn overlap(path: &str, kind: ForecastKind) -> Vec<(String, ForecastKind)> {
    vec![(path.to_owned(), kind)]
}

#[test]
fn plans_that_change_the_same_lines_are_told_from_those_that_change_the_same_file() {
    let mut kept = MemoryContents::default();
    let base = kept.file("1\n2\n3\n4\n5\n");
    let (first, other_first, last) =
        (kept.file("one\n2\n3\n4\n5\n"), kept.file("eins\n2\n3\n4\n5\n"), kept.file("1\n2\n3\n4\nfive\n"));
    let edit = |after| vec![change("a", base, after)];
    assert_eq!(met(&kept, edit(first), edit(other_first)), overlap("a", ForecastKind::SameLines));
    assert_eq!(met(&kept, edit(first), edit(last)), overlap("a", ForecastKind::SameFile));
    assert_eq!(met(&kept, edit(first), edit(first)), overlap("a", ForecastKind::SameFile), "the same twice");
    assert_eq!(met(&kept, edit(first), vec![change("b", base, last)]), []);
}

#[test]
fn who_deletes_or_moves_what_another_changes_is_told() {
    let mut kept = MemoryContents::default();
    let (base, edited) = (kept.file("old\n"), kept.file("new\n"));
    let edit = || vec![change("a", base, edited)];
    assert_eq!(met(&kept, edit(), vec![change("a", base, None)]), overlap("a", ForecastKind::OneDeletes));
    // Applied after the edit the move would take it along; applied before, the edit finds nothing.
    assert_eq!(met(&kept, edit(), vec![moved("a", "b", base, base)]), overlap("a", ForecastKind::OneDeletes));
    let both = vec![change("a", base, None)];
    assert_eq!(met(&kept, both.clone(), both), overlap("a", ForecastKind::SameFile));
}

#[test]
fn what_no_merge_brings_together_is_told() {
    let mut kept = MemoryContents::default();
    let (one, other) = (kept.file("one\n"), kept.file("other\n"));
    assert_eq!(
        met(&kept, vec![change("a", None, one)], vec![change("a", None, other)]),
        overlap("a", ForecastKind::NoMerge)
    );
    let arrives = vec![moved("b", "a", other, other)];
    assert_eq!(met(&kept, vec![change("a", None, one)], arrives), overlap("a", ForecastKind::NoMerge));
    let lost = FileState::file(b"lost\n", 0o644);
    let base = kept.file("base\n");
    assert_eq!(
        met(&kept, vec![change("a", base, one)], vec![change("a", base, Some(lost))]),
        overlap("a", ForecastKind::NoMerge),
        "a content that is not stored"
    );
}

#[test]
fn modes_and_contents_go_together_and_different_modes_do_not() {
    let mut kept = MemoryContents::default();
    let (base, edited) = (kept.file("old\n").unwrap(), kept.file("new\n"));
    let mode = |mode| vec![change("a", Some(base), Some(FileState { mode, ..base }))];
    let edit = vec![change("a", Some(base), edited)];
    assert_eq!(met(&kept, mode(0o755), edit), overlap("a", ForecastKind::SameFile));
    assert_eq!(met(&kept, mode(0o755), mode(0o600)), overlap("a", ForecastKind::NoMerge));
}

#[test]
fn plans_of_other_projects_do_not_meet_and_those_of_nested_ones_do() {
    let mut kept = MemoryContents::default();
    let base = kept.file("1\n");
    let (one, other) = (kept.file("one\n"), kept.file("other\n"));
    let edit = |path: &str, after| vec![change(path, base, after)];
    assert_eq!(met_in(&kept, (ROOT, edit("a", one)), ("/srv/me/shop2", edit("a", other))), []);
    let inner = ("/srv/me/shop/lib", edit("a", other));
    assert_eq!(met_in(&kept, (ROOT, edit("lib/a", one)), inner), overlap("lib/a", ForecastKind::SameLines));
}

#[test]
fn a_footprint_is_read_as_it_was_made_and_damage_is_none() {
    let mut kept = MemoryContents::default();
    let (base, edited) = (kept.file("1\n2\n3\n"), kept.file("1\nzwei\n3\n"));
    let link = FileState { kind: Kind::Symlink, text: false, ..base.unwrap() };
    let changes = vec![
        change("a", base, edited),
        change("d/\u{e9}", None, Some(FileState::dir(0o750))),
        change("gone", Some(link), None),
        moved("from", "to", base, edited),
    ];
    let files = PlanFootprint::new(&plan(1, ROOT), changes, &kept).files;
    assert_eq!(
        files.iter().map(|file| file.lines.is_some()).collect::<Vec<_>>(),
        [true, false, false, false]
    );
    let bytes = footprint::to_bytes(&files);
    assert_eq!(footprint::from_bytes(&bytes), Some(Footprint::Files(files)));
    assert_eq!(footprint::from_bytes(&footprint::too_large()), Some(Footprint::TooLarge));
    assert_eq!(footprint::from_bytes(&bytes[..bytes.len() - 1]), None);
    assert_eq!(footprint::from_bytes(&[]), None);
    assert_eq!(footprint::from_bytes(&[&[99], &bytes[1..]].concat()), None, "of another version");
}

#[test]
fn what_is_not_listed_or_compared_is_counted() {
    let mut kept = MemoryContents::default();
    let base = kept.file("1\n2\n3\n4\n5\n");
    let (first, last) = (kept.file("one\n2\n3\n4\n5\n"), kept.file("1\n2\n3\n4\nfive\n"));
    let other_first = kept.file("eins\n2\n3\n4\n5\n");
    let names: Vec<String> = (0..9).map(|no| format!("f{no}")).collect();
    let edits = |after: [Option<FileState>; 2]| -> Vec<NetChange> {
        // The last file of all is in conflict.
        names.iter().map(|name| change(name, base, after[usize::from(name == "f8")])).collect()
    };
    let all = [
        PlanFootprint::new(&plan(1, ROOT), edits([first, first]), &kept),
        PlanFootprint::new(&plan(2, ROOT), edits([last, other_first]), &kept),
    ];
    let bounds = ForecastLimits { listed_of_pair: 2, ..OF_ALL };
    let found = Comparison::new(&all, &kept, bounds).of_all();
    let [pair] = found.pairs.as_slice() else { panic!("{found:?}") };
    assert_eq!(pair.paths.iter().map(|path| path.address.as_str()).collect::<Vec<_>>(), ["f1", "f8"]);
    assert_eq!((pair.more_conflicts, pair.more_merges, pair.kind), (0, 7, ForecastKind::SameLines));
    let none = ForecastLimits { compare: Duration::ZERO, ..OF_ALL };
    let found = Comparison::new(&all, &kept, none).of_all();
    assert_eq!((found.pairs.len(), found.not_compared), (0, 9));
}

#[test]
fn texts_whose_lines_do_not_tell_are_merged_as_often_as_may_be() {
    let mut kept = MemoryContents::default();
    let base = kept.file("1\n2\n3\n4\n5\n");
    // Lines that touch, which only a merge can decide.
    let (one, other) = (kept.file("1\nzwei\n3\n4\n5\n"), kept.file("1\n2\ndrei\n4\n5\n"));
    let all = [
        PlanFootprint::new(&plan(1, ROOT), vec![change("a", base, one)], &kept),
        PlanFootprint::new(&plan(2, ROOT), vec![change("a", base, other)], &kept),
    ];
    let found = Comparison::new(&all, &kept, OF_ALL).of_all();
    assert_eq!((found.pairs[0].kind, found.not_compared), (ForecastKind::SameLines, 0));
    let found = Comparison::new(&all, &kept, ForecastLimits { merges: 0, ..OF_ALL }).of_all();
    assert_eq!((found.pairs.len(), found.not_compared), (0, 1));
}

#[test]
fn a_directory_that_both_make_is_no_meeting() {
    let kept = MemoryContents::default();
    let made = |mode| vec![change("d", None, Some(FileState::dir(mode)))];
    assert_eq!(met(&kept, made(0o755), made(0o755)), []);
}

#[test]
fn a_forecast_names_the_other_plan() {
    let (plan, other) = (PlanId::from_u128(1), PlanId::from_u128(2));
    let kind = ForecastKind::SameLines;
    let forecast = Forecast { plan, other, paths: [].into(), more_conflicts: 0, more_merges: 0, kind };
    assert!(kind.is_conflict() && !ForecastKind::SameFile.is_conflict());
    assert_eq!([plan, other].map(|id| forecast.other_than(id)), [Some(other), Some(plan)]);
    assert_eq!(forecast.other_than(PlanId::from_u128(3)), None);
}

#[test]
fn only_plans_that_may_still_be_applied_are_forecast() {
    let open: Vec<String> =
        PlanState::ALL.iter().filter(|state| is_open(**state)).map(ToString::to_string).collect();
    assert_eq!(
        open,
        [
            "execute/queued",
            "execute/processing",
            "execute/complete",
            "apply/queued",
            "apply/processing",
            "apply/constrained",
            "apply/errored"
        ]
    );
}
