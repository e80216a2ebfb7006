//! Durations as people type them: `30s`, `10m`, `1h30m`.
//!
//! # Invariants
//! 1. What [`typed_seconds`] prints, [`seconds_in`] reads back as the same.
//! 2. No text is taken for a duration that it does not say in full, and none makes a function here panic.

/// The units, the largest first, and how many seconds each has.
pub const DURATION_UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// The seconds in `30s`, `10m`, `2h`, `30d`, and such in a row, the larger unit first: `1h30m`. None for anything else, and
/// for what is too long to count.
///
/// ```
/// use domain::{seconds_in, typed_seconds};
///
/// assert_eq!(seconds_in("1h30m"), Some(5_400));
/// assert_eq!(seconds_in("30m1h"), None);
/// assert_eq!(typed_seconds(5_400), "1h30m");
/// ```
pub fn seconds_in(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    let mut units = DURATION_UNITS.iter();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.chars().next()?;
        // The units go on where the last one stood, so none comes twice and none out of order.
        let (_, seconds) = units.find(|(letter, _)| *letter == unit)?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*seconds)?)?;
        rest = &tail[unit.len_utf8()..];
    }
    Some(total)
}

/// Seconds as they are typed: `1h30m`, `0s`.
pub fn typed_seconds(seconds: u64) -> String {
    let mut left = seconds;
    let mut text = String::new();
    for (unit, each) in DURATION_UNITS {
        if left >= each {
            text.push_str(&format!("{}{unit}", left / each));
            left %= each;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}
