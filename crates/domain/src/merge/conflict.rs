//! Conflicts: the reasons that a change cannot be merged, by name for programs and in a sentence for users.

use std::fmt::Write;
use std::ops::Range;

/// The limit of places that a sentence names before it counts the rest.
const PLACES_MAX: usize = 3;

/// Lines that both sides changed, in each of the three texts: from 0, half open, empty where there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// In the text that both began from.
    pub base: Range<u32>,
    /// In the text that is there now.
    pub now: Range<u32>,
    /// In the plan's text.
    pub plan: Range<u32>,
}

/// The reason why a change cannot be merged into what is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConflictKind {
    /// The file was changed, the plan deletes it.
    ChangedDeleted,
    /// The file was deleted, the plan changes or moves it.
    DeletedChanged,
    /// Both created the file, not alike.
    BothCreated,
    /// The base of the plan's change is not known.
    BaseMoved,
    /// Both changed the permission bits, not alike.
    Mode,
    /// One side made it another kind of file while the other changed it.
    Kind,
    /// The plan moves the file to a place that is taken.
    Occupied,
    /// Several names of one file would get different results. Only code that sees all changes can find it.
    Linked,
    /// Both changed a file or link that has no lines.
    Binary,
    /// Both changed these lines.
    Lines(Vec<Region>),
}

impl ConflictKind {
    /// The name that programs read.
    pub fn as_str(&self) -> &'static str {
        match self {
            ConflictKind::ChangedDeleted => "changed_deleted",
            ConflictKind::DeletedChanged => "deleted_changed",
            ConflictKind::BothCreated => "both_created",
            ConflictKind::BaseMoved => "base_moved",
            ConflictKind::Mode => "mode",
            ConflictKind::Kind => "kind",
            ConflictKind::Occupied => "occupied",
            ConflictKind::Linked => "linked",
            ConflictKind::Binary => "binary",
            ConflictKind::Lines(_) => "lines",
        }
    }

    /// Returns a sentence about the conflict for the owner of the file. Lines are those of their file, from
    /// 1.
    pub fn sentence(&self) -> String {
        let sentence = match self {
            ConflictKind::ChangedDeleted => "you changed it, the plan deletes it",
            ConflictKind::DeletedChanged => "you deleted it, the plan changes it",
            ConflictKind::BothCreated => "you and the plan created it, not alike",
            ConflictKind::BaseMoved => {
                "it was changed while the plan ran, so the plan's own part is not known"
            }
            ConflictKind::Mode => "you and the plan gave it different permissions",
            ConflictKind::Kind => "you and the plan changed it, one of you into another kind of file",
            ConflictKind::Occupied => "the plan moves it to a place that is taken",
            ConflictKind::Linked => {
                "it is one file under several names, and the plan changes them differently"
            }
            ConflictKind::Binary => {
                "you and the plan changed it, and lines are merged only of text files of at most 4 MiB"
            }
            ConflictKind::Lines(regions) => return lines_sentence(regions),
        };
        sentence.to_owned()
    }
}

fn lines_sentence(regions: &[Region]) -> String {
    let one_line = matches!(regions, [only] if line_range(only).count() == 1);
    let mut sentence = format!("you and the plan changed {}", if one_line { "line " } else { "lines " });
    let named = regions.len().min(PLACES_MAX);
    for (index, region) in regions.iter().take(named).enumerate() {
        if index > 0 {
            sentence.push_str(if index + 1 == regions.len() { " and " } else { ", " });
        }
        let lines = line_range(region);
        // Writing to a string does not fail.
        let _ = match (lines.start(), lines.end()) {
            (first, last) if first == last => write!(sentence, "{first}"),
            (first, last) => write!(sentence, "{first}-{last}"),
        };
    }
    if regions.len() > named {
        let _ = write!(sentence, " and in {} more places", regions.len() - named);
    }
    sentence
}

/// The region's lines from 1; where lines were removed, the one before the gap.
fn line_range(region: &Region) -> std::ops::RangeInclusive<u32> {
    let Range { start, end } = region.now.clone();
    if start < end { start.saturating_add(1)..=end } else { start.max(1)..=start.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(ranges: &[(u32, u32)]) -> String {
        let region = |&(start, end): &(u32, u32)| Region { base: 0..0, now: start..end, plan: 0..0 };
        ConflictKind::Lines(ranges.iter().map(region).collect()).sentence()
    }

    #[test]
    fn a_sentence_names_the_lines_as_an_editor_counts_them() {
        assert_eq!(lines(&[(39, 52)]), "you and the plan changed lines 40-52");
        assert_eq!(lines(&[(0, 1)]), "you and the plan changed line 1");
        assert_eq!(lines(&[(0, 0)]), "you and the plan changed line 1");
        assert_eq!(lines(&[(7, 7)]), "you and the plan changed line 7");
        assert_eq!(lines(&[(0, 1), (4, 6)]), "you and the plan changed lines 1 and 5-6");
        assert_eq!(lines(&[(0, 1), (4, 6), (8, 9)]), "you and the plan changed lines 1, 5-6 and 9");
        assert_eq!(
            lines(&[(0, 1), (4, 6), (8, 9), (20, 21), (30, 31)]),
            "you and the plan changed lines 1, 5-6, 9 and in 2 more places"
        );
    }

    #[test]
    fn every_conflict_has_its_own_name_and_sentence() {
        let kinds = [
            (ConflictKind::ChangedDeleted, "changed_deleted"),
            (ConflictKind::DeletedChanged, "deleted_changed"),
            (ConflictKind::BothCreated, "both_created"),
            (ConflictKind::BaseMoved, "base_moved"),
            (ConflictKind::Mode, "mode"),
            (ConflictKind::Kind, "kind"),
            (ConflictKind::Occupied, "occupied"),
            (ConflictKind::Linked, "linked"),
            (ConflictKind::Binary, "binary"),
            (ConflictKind::Lines(Vec::new()), "lines"),
        ];
        let sentences: std::collections::BTreeSet<String> =
            kinds.iter().map(|(kind, _)| kind.sentence()).collect();
        assert_eq!(sentences.len(), kinds.len());
        for (kind, name) in kinds {
            assert_eq!(kind.as_str(), name);
        }
        assert_eq!(ConflictKind::ChangedDeleted.sentence(), "you changed it, the plan deletes it");
    }
}
