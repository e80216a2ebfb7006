//! The address most like a word that fits nothing.

use super::{ProjectAlias, SelectableChange, change_address};

/// The address that takes the fewest letters changed, added or left out to get from `word`; of equals the
/// first. A word with a hunk's number is answered with a hunk, if the file has any.
pub(super) fn nearest(
    word: &str,
    changes: &[SelectableChange<'_>],
    projects: &[ProjectAlias],
) -> Option<String> {
    let hunk = word.rsplit_once('#').and_then(|(path, number)| Some((path, number.parse::<u32>().ok()?)));
    let path = hunk.map_or(word, |(path, _)| path);
    let (_, nearest, hunks) = changes
        .iter()
        .map(|change| {
            let address = change_address(change.change, projects);
            let bare = edit_distance(path, &change.change.path.to_string());
            (edit_distance(path, &address).min(bare), address, change.hunks)
        })
        .min_by_key(|(distance, _, _)| *distance)?;
    match hunk {
        Some((_, number)) if hunks > 0 => Some(format!("{nearest}#{}", number.clamp(1, hunks))),
        Some(_) | None => Some(nearest),
    }
}

fn edit_distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = at;
        row[0] = at + 1;
        for (place, candidate) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *candidate);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_letters_changed_added_and_left_out() {
        let cases = [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("äb", "ab", 1)];
        for (one, other, distance) in cases {
            assert_eq!(edit_distance(one, other), distance, "{one} {other}");
            assert_eq!(edit_distance(other, one), distance, "{other} {one}");
        }
    }
}
