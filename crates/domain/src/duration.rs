//! Durations as people type them: `30s`, `10m`, `1h30m`.
//!
//! # Invariants
//! 1. [`seconds_in`] reads a text that [`format_seconds`] printed back as the same duration.
//! 2. No text is taken for a duration that it does not say in full, and none makes a function here panic.

/// The units, the largest first, and how many seconds each has.
pub const DURATION_UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// The seconds in `30s`, `10m`, `2h`, `30d`, and such in a row, the larger unit first: `1h30m`. `None` for
/// anything else, and for what is too long to count.
///
/// ```
/// use domain::{seconds_in, format_seconds};
///
/// assert_eq!(seconds_in("1h30m"), Some(5_400));
/// assert_eq!(seconds_in("30m1h"), None);
/// assert_eq!(format_seconds(5_400), "1h30m");
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
        // The units continue where the last one was, so none comes twice and none out of order.
        let (_, seconds) = units.find(|(letter, _)| *letter == unit)?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*seconds)?)?;
        rest = &tail[unit.len_utf8()..];
    }
    Some(total)
}

/// Durations that are given as examples, in seconds.
const EXAMPLES_S: [u64; 3] = [30, 600, 7_200];

/// Returns what is allowed, with examples that are: `a duration from 0s to 5m, like 30s`.
///
/// ```
/// use domain::allowed_durations;
///
/// assert_eq!(allowed_durations(0, 300), "a duration from 0s to 5m, like 30s");
/// assert_eq!(allowed_durations(1, 86_400), "a duration from 1s to 1d, like 30s, 10m or 2h");
/// assert_eq!(allowed_durations(1, 5), "a duration from 1s to 5s, like 5s");
/// ```
pub fn allowed_durations(min_s: u64, max_s: u64) -> String {
    let within = EXAMPLES_S.into_iter().filter(|seconds| (min_s..=max_s).contains(seconds));
    let mut like: Vec<String> = within.map(format_seconds).collect();
    let last = like.pop().unwrap_or_else(|| format_seconds(max_s));
    let like = if like.is_empty() { last } else { format!("{} or {last}", like.join(", ")) };
    format!("a duration from {} to {}, like {like}", format_seconds(min_s), format_seconds(max_s))
}

/// Seconds as they are typed: `1h30m`, `0s`.
pub fn format_seconds(seconds: u64) -> String {
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
