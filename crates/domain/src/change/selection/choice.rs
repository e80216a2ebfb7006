//! The choice among the parts of one change: which hunks, and which lines of them, are taken.
//!
//! The flags of the program and the review screen make the same choice: each sets parts of a
//! [`ChangeChoice`], and [`crate::narrow`] carries it out.
//!
//! # Invariants
//! 1. A hunk that cannot be parted is taken or left as a whole: it counts as one line.
//! 2. [`ChangeChoice::left_out`] gives words that, as `--reject`, make the same choice again.

use std::fmt;
use std::str::FromStr;

use super::{HunkAddress, SelectedPart};
use crate::change::net::NetChange;
use crate::diff::hunks::{Hunk, HunkPart, LineTag, in_lines};

/// Numbers of lines, as people write them: `2-4,7`. They rise, and no two ranges touch.
///
/// ```
/// use domain::LineRanges;
///
/// let ranges: LineRanges = "7,2-3,4".parse().unwrap();
/// assert_eq!(ranges.to_string(), "2-4,7");
/// assert!("3-2".parse::<LineRanges>().is_err() && "0".parse::<LineRanges>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineRanges(Vec<(u32, u32)>);

/// A text that does not name lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lines are numbers and ranges, such as `2-4,7`")]
pub struct LineRangesInvalid;

impl LineRanges {
    /// The lines with these numbers, from 1.
    pub fn from_numbers(numbers: impl IntoIterator<Item = u32>) -> LineRanges {
        LineRanges::from_ranges(numbers.into_iter().map(|number| (number, number)).collect())
    }

    fn from_ranges(mut ranges: Vec<(u32, u32)>) -> LineRanges {
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for (first, last) in ranges {
            match joined.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                Some(_) | None => joined.push((first, last)),
            }
        }
        LineRanges(joined)
    }

    /// Returns true if it names no line.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The highest number; `None` if it names no line.
    pub fn last(&self) -> Option<u32> {
        self.0.last().map(|(_, last)| *last)
    }

    /// The numbers up to `max`, rising.
    fn numbers(&self, max: u32) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(move |(first, last)| *first..=(*last).min(max))
    }
}

impl FromStr for LineRanges {
    type Err = LineRangesInvalid;

    fn from_str(text: &str) -> Result<LineRanges, LineRangesInvalid> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some((first, last))
        };
        let ranges: Option<Vec<(u32, u32)>> = text.split(',').map(range).collect();
        ranges.map(LineRanges::from_ranges).ok_or(LineRangesInvalid)
    }
}

impl fmt::Display for LineRanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (no, (first, last)) in self.0.iter().enumerate() {
            let comma = if no > 0 { "," } else { "" };
            match first == last {
                true => write!(formatter, "{comma}{first}")?,
                false => write!(formatter, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// The taken share of something that can be taken in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenShare {
    /// All of it.
    All,
    /// Some of it.
    Some,
    /// Nothing.
    None,
}

impl TakenShare {
    fn of_lines<'a>(lines: impl IntoIterator<Item = &'a bool>) -> TakenShare {
        let (mut taken, mut left) = (false, false);
        for line in lines {
            if *line {
                taken = true;
            } else {
                left = true;
            }
        }
        match (taken, left) {
            (true, true) => TakenShare::Some,
            (false, true) => TakenShare::None,
            (_, false) => TakenShare::All,
        }
    }
}

/// The number of lines of each hunk that can be taken or left one by one: those added or removed. It is 0 for
/// a hunk that cannot be parted.
pub fn selectable_lines(change: &NetChange, hunks: &[Hunk]) -> Vec<u32> {
    let is_new_text = change.before.is_none() && change.after.is_some_and(|after| in_lines(&after));
    let count = |hunk: &Hunk| match hunk.part {
        HunkPart::Whole if !is_new_text => 0,
        HunkPart::Mode => 0,
        HunkPart::Lines | HunkPart::Whole => {
            let changed = hunk.lines.iter().filter(|line| line.tag != LineTag::Context).count();
            u32::try_from(changed).unwrap_or(u32::MAX)
        }
    };
    hunks.iter().map(count).collect()
}

/// The choice among the parts of one change.
///
/// ```
/// use domain::{ChangeChoice, TakenShare};
///
/// // Two hunks, of which the first has three lines to choose from.
/// let mut choice = ChangeChoice::new(&[3, 0], true);
/// choice.set_lines(1, &"2-3".parse().unwrap(), false);
/// assert_eq!((choice.hunk(1), choice.hunk(2)), (TakenShare::Some, TakenShare::All));
/// assert_eq!(choice.left_out("src/lib.rs"), ["src/lib.rs#1:2-3"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeChoice {
    /// True for each line of each hunk that is taken; one flag for a hunk that cannot be parted.
    hunks: Vec<Vec<bool>>,
}

impl ChangeChoice {
    /// All of the change is taken, or all of it is left. `lines` is from [`selectable_lines`]; a change
    /// without hunks counts as one.
    pub fn new(lines: &[u32], taken: bool) -> ChangeChoice {
        let lines = if lines.is_empty() { &[0] } else { lines };
        ChangeChoice { hunks: lines.iter().map(|count| vec![taken; (*count).max(1) as usize]).collect() }
    }

    /// Takes or leaves all.
    pub fn set_all(&mut self, taken: bool) {
        self.hunks.iter_mut().for_each(|lines| lines.fill(taken));
    }

    /// Takes or leaves a hunk. A number that no hunk has plays no part.
    pub fn set_hunk(&mut self, number: u32, taken: bool) {
        if let Some(lines) = self.hunks.get_mut(index(number)) {
            lines.fill(taken);
        }
    }

    /// Takes or leaves lines of a hunk; lines that it does not have play no part.
    pub fn set_lines(&mut self, number: u32, lines: &LineRanges, taken: bool) {
        let Some(hunk) = self.hunks.get_mut(index(number)) else { return };
        for line in lines.numbers(u32::try_from(hunk.len()).unwrap_or(u32::MAX)) {
            hunk[index(line)] = taken;
        }
    }

    /// Returns whether this line of a hunk is taken: both from 1.
    pub fn is_taken(&self, number: u32, line: u32) -> bool {
        self.hunks.get(index(number)).and_then(|lines| lines.get(index(line))).copied().unwrap_or(false)
    }

    /// The taken share of a hunk.
    pub fn hunk(&self, number: u32) -> TakenShare {
        TakenShare::of_lines(self.hunks.get(index(number)).into_iter().flatten())
    }

    /// The taken share of these lines of a hunk.
    pub fn lines(&self, number: u32, lines: std::ops::RangeInclusive<u32>) -> TakenShare {
        let hunk = self.hunks.get(index(number)).map_or(&[][..], Vec::as_slice);
        let end = hunk.len().min(*lines.end() as usize);
        TakenShare::of_lines(hunk.get(index(*lines.start())..end).unwrap_or_default())
    }

    /// The taken share of the change.
    pub fn share(&self) -> TakenShare {
        TakenShare::of_lines(self.hunks.iter().flatten())
    }

    /// The numbers of hunks of which something is taken, and of all.
    pub fn count(&self) -> (usize, usize) {
        (self.hunks.iter().filter(|lines| lines.contains(&true)).count(), self.hunks.len())
    }

    /// The addresses of what is left out of the file with this address.
    pub fn left_out(&self, file: &str) -> Vec<String> {
        match self.share() {
            TakenShare::All => return Vec::new(),
            TakenShare::None => return vec![file.to_owned()],
            TakenShare::Some => {}
        }
        let word = |(lines, number): (&Vec<bool>, u32)| {
            let address = HunkAddress::new(file, number);
            match TakenShare::of_lines(lines) {
                TakenShare::All => None,
                TakenShare::None => Some(address.to_string()),
                TakenShare::Some => {
                    let left = lines.iter().zip(1_u32..).filter(|(taken, _)| !**taken);
                    let lines = LineRanges::from_numbers(left.map(|(_, line)| line));
                    Some(HunkAddress { lines, ..address }.to_string())
                }
            }
        };
        self.hunks.iter().zip(1_u32..).filter_map(word).collect()
    }

    /// The part of the change that is selected.
    pub(super) fn into_part(self) -> SelectedPart {
        match self.share() {
            TakenShare::All => SelectedPart::Whole,
            TakenShare::None => SelectedPart::None,
            TakenShare::Some => SelectedPart::Some(self),
        }
    }
}

/// Numbers run from 1.
fn index(number: u32) -> usize {
    (number as usize).wrapping_sub(1)
}
