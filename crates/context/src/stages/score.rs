//! Stage 6: scores each file.
//!
//! In addition to the scores of the strategies it counts the nearness of a file to the focus. It also counts
//! whether the file is a test. Tests say the words of the code that they test, and more of them, so without a
//! discount they come before it.
//!
//! # Invariants
//! 1. Scores are from 0 to 1, and sums run in the order of the runs.
//! 2. A file that the request is about scores 1.

use domain::RelPath;
use domain::context::{FileLocation, ProjectIndex};

use super::ContextItem;
use crate::request_inputs::{PathStatus, RequestInputs};

/// The weight of nearness to the focus of the request.
const NEARNESS_COUNTS: f32 = 0.3;
/// The factor of a test, unless the query asks for tests.
const TEST_COUNTS: f32 = 0.9;

/// Decides what files are worth.
pub trait FragmentScorer: Send + Sync {
    /// Sets the score of each item, and what it is made of.
    fn score(&self, prepared: &RequestInputs, items: &mut [ContextItem]);
}

/// Scores by the combined weights of the strategies, and by nearness.
#[derive(Clone, Copy, Debug, Default)]
pub struct WeightedCompositeScorer;

impl FragmentScorer for WeightedCompositeScorer {
    fn score(&self, prepared: &RequestInputs, items: &mut [ContextItem]) {
        let near: Vec<FileLocation> = near_what(prepared);
        let asks_for_tests = prepared.asks_for_tests();
        let mut largest = 0.0_f32;
        for item in items.iter_mut() {
            let nearness = near.iter().map(|place| nearness(&item.place, place)).fold(0.0, f32::max);
            item.why = item.hit.parts.iter().map(|(name, _, share)| (name.to_string(), *share)).collect();
            if nearness > 0.0 {
                item.why.push(("proximity".to_owned(), nearness));
            }
            let counts = if asks_for_tests || !is_test(&item.place.path) { 1.0 } else { TEST_COUNTS };
            item.score = counts * (item.hit.fused() + NEARNESS_COUNTS * nearness);
            largest = largest.max(item.score);
        }
        for item in items {
            let is_about = prepared.anchors().iter().any(|anchor| anchor.file == item.file);
            item.score = if is_about {
                1.0
            } else if largest > 0.0 {
                item.score / largest
            } else {
                0.0
            };
        }
    }
}

/// Returns the explicit focus of the request, and the files that its plan has changed.
fn near_what(prepared: &RequestInputs) -> Vec<FileLocation> {
    let about = prepared.anchors().iter().map(|anchor| prepared.place(anchor.file));
    let touched = prepared.plan().into_iter().flat_map(|plan| &plan.touched);
    let touched =
        touched.filter(|place| matches!(prepared.standing(place.project, &place.path), PathStatus::Seen(_)));
    about.chain(touched.cloned()).collect()
}

/// Returns true if a path is that of a test, as most languages have it.
fn is_test(path: &RelPath) -> bool {
    let mut names = path.as_bytes().split(|byte| *byte == b'/');
    let file = names.next_back().unwrap_or_default().to_ascii_lowercase();
    let is_folder =
        |name: &[u8]| matches!(name, b"test" | b"tests" | b"__tests__" | b"spec" | b"specs" | b"testdata");
    let mut parts = file.split(|byte| *byte == b'.');
    let stem = parts.next().unwrap_or_default();
    let is_stem = matches!(stem, b"test" | b"tests")
        || stem.starts_with(b"test_")
        || stem.ends_with(b"_test")
        || stem.ends_with(b"_tests")
        || stem.ends_with(b"_spec");
    is_stem
        || parts.any(|part| matches!(part, b"test" | b"spec"))
        || names.any(|name| is_folder(&name.to_ascii_lowercase()))
}

/// The same file 1, the same folder a half, one level up or down a quarter.
fn nearness(one: &FileLocation, other: &FileLocation) -> f32 {
    if one.project != other.project {
        return 0.0;
    }
    if one.path == other.path {
        return 1.0;
    }
    let (one, other): (Folder, Folder) = (folder(one), folder(other));
    if one == other {
        0.5
    } else if is_above(&one, &other) || is_above(&other, &one) {
        0.25
    } else {
        0.0
    }
}

type Folder = (ProjectIndex, Option<RelPath>);

fn folder(place: &FileLocation) -> Folder {
    (place.project, place.path.parent())
}

fn is_above(upper: &Folder, lower: &Folder) -> bool {
    lower.1.as_ref().is_some_and(|path| path.parent() == upper.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_by_their_path() {
        let of = |path: &str| is_test(&RelPath::new(path).expect("a path"));
        for path in
            ["tests/a.rs", "a/__tests__/b.ts", "a/b_test.go", "test_a.py", "src/a.test.tsx", "spec/a_spec.rb"]
        {
            assert!(of(path), "{path}");
        }
        for path in ["src/a.rs", "src/testing.rs", "src/latest.rs", "contest/a.py", "src/a.tests"] {
            assert!(!of(path), "{path}");
        }
    }

    #[test]
    fn nearness_is_of_folders_and_one_level_apart() {
        let place =
            |path: &str| FileLocation::file(ProjectIndex::default(), RelPath::new(path).expect("a path"));
        let of = |one: &str, other: &str| nearness(&place(one), &place(other));
        assert_eq!(of("a/b/c", "a/b/c"), 1.0);
        assert_eq!(of("a/b/c", "a/b/d"), 0.5);
        assert_eq!((of("a/b/c", "a/d"), of("a/d", "a/b/c")), (0.25, 0.25));
        assert_eq!((of("a/c", "d"), of("d", "e")), (0.25, 0.5));
        assert_eq!((of("a/b/c", "d"), of("a/b/c", "a/e/c")), (0.0, 0.0));
        let elsewhere = FileLocation { project: domain::RootIndex(1), ..place("a/b") };
        assert_eq!(nearness(&place("a/b"), &elsewhere), 0.0);
    }
}
