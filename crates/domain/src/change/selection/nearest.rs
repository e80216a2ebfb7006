//! The address most like a word that fits nothing.

use strsim::levenshtein;

use super::{HunkAddress, ProjectAlias, SelectableChange, change_address};

/// The address that takes the fewest letters changed, added or left out to get from `word`; of equals the
/// first. A word with a hunk's number is answered with a hunk, if the file has any.
pub(super) fn nearest(
    word: &str,
    changes: &[SelectableChange<'_>],
    projects: &[ProjectAlias],
) -> Option<String> {
    let hunk: Option<HunkAddress> = word.parse().ok();
    let path = hunk.as_ref().map_or(word, |hunk| hunk.file.as_str());
    let (_, nearest, hunks) = changes
        .iter()
        .map(|change| {
            let address = change_address(change.change, projects);
            let bare = levenshtein(path, &change.change.path.to_string());
            let hunks = u32::try_from(change.hunks.len()).unwrap_or(u32::MAX);
            (levenshtein(path, &address).min(bare), address, hunks)
        })
        .min_by_key(|(distance, _, _)| *distance)?;
    match hunk {
        Some(hunk) if hunks > 0 => Some(HunkAddress::new(nearest, hunk.number.clamp(1, hunks)).to_string()),
        Some(_) | None => Some(nearest),
    }
}
