//! Invariants: rules on what was touched, sentences that are told once.

use domain::plan::invariant::{effective, violations};
use domain::{CheckedFile, Invariant, InvariantRule, InvariantScope, RelPath};
use proptest::prelude::*;

fn broken(rule: InvariantRule, files: &[(&str, &str, Option<&str>, u64)]) -> Option<String> {
    let paths: Vec<(RelPath, Option<RelPath>)> = files
        .iter()
        .map(|(_, path, from, _)| (RelPath::new(path).unwrap(), from.map(|from| RelPath::new(from).unwrap())))
        .collect();
    let touched: Vec<CheckedFile<'_>> = files
        .iter()
        .zip(&paths)
        .map(|((alias, _, _, lines), (path, from))| CheckedFile {
            alias,
            path,
            from: from.as_ref(),
            lines: *lines,
        })
        .collect();
    let invariant = Invariant { text: "rule".to_owned(), scope: InvariantScope::Action, rule: Some(rule) };
    violations(&[invariant], &touched).first().map(|violation| violation.what.clone())
}

fn globs(globs: &[&str]) -> Vec<String> {
    globs.iter().map(|glob| (*glob).to_owned()).collect()
}

#[test]
fn what_must_not_be_touched_is_found_wherever_it_lies() {
    let touched = |path| [("shop", path, None, 1)];
    for (glob, path, hit) in [
        ("**/snapshots/**", "a/snapshots/b/c.snap", true),
        ("**/snapshots/**", "snapshots/c.snap", true),
        ("**/snapshots/**", "a/snapshot.rs", false),
        ("*.lock", "deep/Cargo.lock", true),
        ("docs/*.md", "docs/a.md", true),
        ("docs/*.md", "docs/b/a.md", false),
        ("docs/", "docs/b/a.md", true),
        ("docs", "src/docs/a.md", true),
        ("src/docs", "docs/a.md", false),
        ("shop:*.rs", "a.rs", true),
        ("other:*.rs", "a.rs", false),
    ] {
        assert_eq!(
            broken(InvariantRule::Never(globs(&[glob])), &touched(path)).is_some(),
            hit,
            "{glob} {path}"
        );
        assert_eq!(
            broken(InvariantRule::Only(globs(&[glob])), &touched(path)).is_none(),
            hit,
            "{glob} {path}"
        );
    }
}

#[test]
fn a_moved_file_counts_with_both_its_paths() {
    let moved = [("shop", "b.rs", Some("a.snap"), 0)];
    assert_eq!(
        broken(InvariantRule::Never(globs(&["*.snap"])), &moved).as_deref(),
        Some("a.snap must not be touched")
    );
    assert_eq!(
        broken(InvariantRule::Only(globs(&["*.rs"])), &moved).as_deref(),
        Some("a.snap must not be touched")
    );
    assert_eq!(broken(InvariantRule::MaxFiles(1), &moved), None, "it is one file");
}

#[test]
fn counts_are_bounds_that_may_be_reached() {
    let files = [("a", "x", None, 3), ("a", "y", None, 4)];
    assert_eq!(
        (broken(InvariantRule::MaxFiles(2), &files), broken(InvariantRule::MaxLines(7), &files)),
        (None, None)
    );
    assert_eq!(
        broken(InvariantRule::MaxFiles(1), &files).as_deref(),
        Some("2 files are touched, 1 are allowed")
    );
    assert_eq!(
        broken(InvariantRule::MaxLines(6), &files).as_deref(),
        Some("7 lines are changed, 6 are allowed")
    );
    assert!(
        broken(InvariantRule::MaxLines(6), &[("a", "x", None, u64::MAX), ("a", "y", None, u64::MAX)])
            .is_some()
    );
}

#[test]
fn many_places_are_named_in_part() {
    let names: Vec<String> = (0..8).map(|at| format!("f{at}")).collect();
    let files: Vec<_> = names.iter().map(|name| ("a", name.as_str(), None, 0)).collect();
    let said = broken(InvariantRule::Never(globs(&["*"])), &files);
    assert_eq!(said.as_deref(), Some("f0, f1, f2, f3, f4 and 3 more must not be touched"));
}

#[test]
fn a_bad_glob_is_told_before_anything_runs() {
    assert!(InvariantRule::Never(globs(&["a[", "", "ok"])).flaws().len() == 2);
    assert_eq!(InvariantRule::Only(Vec::new()).flaws(), ["there is not a glob"]);
    assert!(InvariantRule::MaxFiles(0).flaws().is_empty());
}

#[test]
fn what_is_typed_is_a_rule_or_a_sentence() {
    let read = |text: &str| Invariant::parse(text, InvariantScope::Plan).map(|one| (one.text, one.rule));
    let rule = |words: &str, rule: InvariantRule| Ok((words.to_owned(), Some(rule)));
    assert_eq!(
        read("never=src/{a,b}.rs, *.lock"),
        rule("never touch src/{a,b}.rs, *.lock", InvariantRule::Never(globs(&["src/{a,b}.rs", "*.lock"])))
    );
    assert_eq!(
        read("only=[,a]x,b"),
        rule("touch only [,a]x, b", InvariantRule::Only(globs(&["[,a]x", "b"])))
    );
    assert_eq!(read("max_files=3"), rule("touch at most 3 files", InvariantRule::MaxFiles(3)));
    assert_eq!(read("max_lines= 40"), rule("change at most 40 lines", InvariantRule::MaxLines(40)));
    for sentence in ["Keep x=1 as it is", "never touch it"] {
        assert_eq!(read(sentence), Ok((sentence.to_owned(), None)));
    }
    for (wrong, why) in [
        ("never=", "there is not a glob"),
        ("only=a[", "is not a glob"),
        ("max_files=-1", "not a whole number"),
        (" ", "is empty"),
        (&"x".repeat(2_001), "at most 2000 characters"),
    ] {
        let said = read(wrong).unwrap_err();
        assert!(said.contains(why), "{wrong}: {said}");
    }
}

#[test]
fn equal_sentences_are_told_once_and_the_stronger_come_first() {
    let told = |text: &str, scope| Invariant { text: text.to_owned(), scope, rule: None };
    let all = [
        told("Keep the  API", InvariantScope::User),
        told("no unsafe", InvariantScope::Action),
        told("keep the api", InvariantScope::Plan),
        Invariant { rule: Some(InvariantRule::MaxFiles(3)), ..told("no unsafe", InvariantScope::Project) },
    ];
    let effective = effective(all);
    let texts: Vec<(&str, InvariantScope)> =
        effective.iter().map(|one| (one.text.as_str(), one.scope)).collect();
    assert_eq!(
        texts,
        [
            ("keep the api", InvariantScope::Plan),
            ("no unsafe", InvariantScope::Action),
            ("no unsafe", InvariantScope::Project),
        ],
        "a rule is not lost behind a sentence of the same words"
    );
}

proptest! {
    #[test]
    fn never_and_only_are_opposites_for_a_file_that_stays(
        glob in "[ab*?/]{1,6}", path in "[ab]{1,2}(/[ab]{1,2}){0,2}",
    ) {
        prop_assume!(InvariantRule::Never(globs(&[&glob])).flaws().is_empty());
        let file = [("shop", path.as_str(), None, 1)];
        let never = broken(InvariantRule::Never(globs(&[&glob])), &file).is_some();
        let only = broken(InvariantRule::Only(globs(&[&glob])), &file).is_some();
        prop_assert!(never != only, "{glob} {path}");
    }

    #[test]
    fn counts_agree_with_counting(lines in prop::collection::vec(0..9_u64, 0..6), max in 0..30_u64) {
        let names: Vec<String> = (0..lines.len()).map(|at| format!("f{at}")).collect();
        let files: Vec<_> = names.iter().zip(&lines).map(|(name, lines)| ("a", name.as_str(), None, *lines)).collect();
        prop_assert_eq!(broken(InvariantRule::MaxLines(max), &files).is_some(), lines.iter().sum::<u64>() > max);
        prop_assert_eq!(broken(InvariantRule::MaxFiles(max), &files).is_some(), lines.len() as u64 > max);
    }
}

#[test]
fn the_word_of_a_rule_is_read_with_spaces_and_in_any_case_and_a_slip_is_refused() {
    let read = |text: &str| Invariant::parse(text, InvariantScope::Plan);
    let vendor = Some(InvariantRule::Never(globs(&["vendor/**"])));
    for text in ["never=vendor/**", "never = vendor/**", "Never=vendor/**", " NEVER =vendor/** "] {
        assert_eq!(read(text).unwrap().rule, vendor, "{text}");
    }
    assert_eq!(read("Max_Files = 3").unwrap().rule, Some(InvariantRule::MaxFiles(3)));
    for (slip, meant) in [
        ("nevr=a", "never"),
        ("Nver = a", "never"),
        ("ony=a", "only"),
        ("max-files=3", "max_files"),
        ("max lines = 3", "max_lines"),
        ("max_line=3", "max_lines"),
    ] {
        assert!(read(slip).unwrap_err().ends_with(&format!("did you mean `{meant}=`?")), "{slip}");
    }
    for sentence in
        ["Keep x = y", "a=b", "Prices stay whole", "never touch vendor", "total == price * number"]
    {
        assert_eq!(read(sentence).unwrap().rule, None, "{sentence}");
    }
}
