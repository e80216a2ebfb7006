//! Stage 10: compresses the context of the parent plan for a child plan.
//!
//! # Invariants
//! 1. It costs at most its reserve, and without a parent it is empty.
//!
//! # Not here
//! Reading files again: only the files that the parent was given are named.

use std::collections::BTreeSet;

use domain::context::{AssembledContext, Depth, FileLocation, Fragment};

use crate::TokenCounter;

const HEADER: &str = "## given to the plan above\n";

/// Compresses the context of a parent.
pub trait SkeletonCompressor: Send + Sync {
    /// Whole lines of at most `tokens`. `here` are the files that are shown anyway, `about` what the request
    /// is about.
    fn compress(
        &self,
        parent: &AssembledContext,
        about: &[FileLocation],
        here: &BTreeSet<FileLocation>,
        tokens: u32,
        counter: &dyn TokenCounter,
    ) -> String;
}

/// Files and names that the parent was given, those near to what the child is about first.
#[derive(Clone, Copy, Debug, Default)]
pub struct DepthReductionCompressor;

impl SkeletonCompressor for DepthReductionCompressor {
    fn compress(
        &self,
        parent: &AssembledContext,
        about: &[FileLocation],
        here: &BTreeSet<FileLocation>,
        tokens: u32,
        counter: &dyn TokenCounter,
    ) -> String {
        let limit = u64::from(tokens) * 100;
        let mut text = HEADER.to_owned();
        let mut spent = counter.hundredths(HEADER);
        for fragment in nearest_first(parent, about, here) {
            let cost: u64 = fragment.text.split_inclusive('\n').map(|line| counter.hundredths(line)).sum();
            if spent + cost <= limit {
                spent += cost;
                text.push_str(&fragment.text);
            }
        }
        if text.len() == HEADER.len() { String::new() } else { text }
    }
}

/// The parent's fragments that only name things, of files that are not shown here.
fn nearest_first<'a>(
    parent: &'a AssembledContext,
    about: &[FileLocation],
    here: &BTreeSet<FileLocation>,
) -> Vec<&'a Fragment> {
    let folders: BTreeSet<_> = about.iter().map(|place| (place.project, place.path.parent())).collect();
    let is_far = |fragment: &&Fragment| {
        let folder = fragment.place.as_ref().map(|place| (place.project, place.path.parent()));
        !folder.is_some_and(|folder| folders.contains(&folder))
    };
    let is_new = |fragment: &&Fragment| {
        let place = fragment.place.as_ref().map(|place| FileLocation { span: None, ..place.clone() });
        fragment.depth <= Depth::Outline && place.is_some_and(|place| !here.contains(&place))
    };
    let mut kept: Vec<&Fragment> = parent.fragments.iter().filter(is_new).collect();
    // Stable: within near and far the parent's order, which had the best first.
    kept.sort_by_key(is_far);
    kept
}
