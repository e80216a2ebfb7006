//! Durations and moments as people type and read them.
//!
//! # Invariants
//! 1. [`parse_duration`] reads a text that [`format_typed`] printed back as the same duration.
//! 2. No text makes a function here panic, and none is taken for a duration that it does not say in full.
//!
//! # Not here
//! Clocks: the moment that an age is counted from is an argument, but for [`now`], the one place that reads
//! one.

use std::time::{Duration, SystemTime};

use domain::{DURATION_UNITS, WallMs, format_seconds, seconds_in};

/// The reason why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a duration: write a number and a unit, like 30s, 10m, 2h or 1h30m")]
pub struct DurationError {
    text: String,
}

/// Reads `30s`, `10m`, `2h`, `30d`, and such in a row, the larger unit first: `1h30m`.
///
/// # Errors
/// Anything else, and what is too long to count.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    seconds_in(text).map(Duration::from_secs).ok_or_else(|| DurationError { text: text.to_owned() })
}

/// The duration as it is typed, in whole seconds: `1h30m`, `0s`.
pub fn format_typed(duration: Duration) -> String {
    format_seconds(duration.as_secs())
}

/// Formats a duration: `41.2 s`, `3 min 05 s`, `2 h 10 min`.
pub fn format_duration(duration_ms: u64) -> String {
    let seconds = duration_ms / 1_000;
    match seconds {
        0..60 => format!("{}.{} s", seconds, duration_ms % 1_000 / 100),
        60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Formats the age of a moment in its largest unit: `12s`, `5m`, `3h`, `2d`.
pub fn age(then: WallMs, now: WallMs) -> String {
    let seconds = now.0.saturating_sub(then.0) / 1_000;
    let (unit, size) = DURATION_UNITS.into_iter().find(|(_, size)| seconds >= *size).unwrap_or(('s', 1));
    format!("{}{unit}", seconds / size)
}

/// The moment in UTC as programs read it: `2026-11-16T00:30:03.250Z`.
pub fn stamp(at: WallMs) -> String {
    let moment = i64::try_from(at.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    moment.map_or_else(|| format!("{} ms after 1970", at.0), |moment| format!("{moment:.3}"))
}

/// The moment as a person at this machine reads it: `2026-11-16 01:30:03`.
pub fn local(at: WallMs) -> String {
    let moment = i64::try_from(at.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    match moment {
        Some(moment) => {
            moment.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
        }
        None => stamp(at),
    }
}

/// The time of the day as a person at this machine reads it: `01:30:03`.
pub fn clock(at: WallMs) -> String {
    let whole = local(at);
    whole.split_once(' ').map_or_else(|| whole.clone(), |(_, clock)| clock.to_owned())
}

/// The wall clock, for people to read.
pub fn now() -> WallMs {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    WallMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_type_them() {
        let seconds = |text: &str| parse_duration(text).map(|duration| duration.as_secs()).ok();
        assert_eq!(seconds("30s"), Some(30));
        assert_eq!(seconds("10m"), Some(600));
        assert_eq!(seconds("2h"), Some(7_200));
        assert_eq!(seconds("30d"), Some(2_592_000));
        assert_eq!(seconds(" 1h30m "), Some(5_400));
        assert_eq!(seconds("0s"), Some(0));
        for wrong in ["", "10", "m", "-1s", "1.5h", "1m2h", "1s1s", "10 m", "5x", "99999999999999999999d"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        assert_eq!(
            parse_duration("soon").unwrap_err().to_string(),
            "`soon` is not a duration: write a number and a unit, like 30s, 10m, 2h or 1h30m"
        );
    }

    #[test]
    fn what_is_typed_reads_back() {
        for seconds in [0, 1, 59, 60, 61, 3_599, 3_600, 5_400, 86_400, 90_061, u64::MAX] {
            let duration = Duration::from_secs(seconds);
            assert_eq!(parse_duration(&format_typed(duration)), Ok(duration));
        }
        assert_eq!(format_typed(Duration::from_secs(90_061)), "1d1h1m1s");
    }

    #[test]
    fn spans_and_ages_are_short() {
        let spans = [0, 41_250, 59_999, 60_000, 185_000, 7_800_000].map(format_duration);
        assert_eq!(spans, ["0.0 s", "41.2 s", "59.9 s", "1 min 00 s", "3 min 05 s", "2 h 10 min"]);
        let now = WallMs(1_000_000_000);
        let ages = [0, 59_000, 60_000, 3_600_000, 172_800_000].map(|ago| age(WallMs(now.0 - ago), now));
        assert_eq!(ages, ["0s", "59s", "1m", "1h", "2d"]);
        assert_eq!(age(WallMs(now.0 + 5), now), "0s");
    }

    #[test]
    fn a_moment_is_stamped_in_utc() {
        assert_eq!(stamp(WallMs(1_794_789_003_250)), "2026-11-16T00:30:03.250Z");
        assert_eq!(stamp(WallMs(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(stamp(WallMs(u64::MAX)), format!("{} ms after 1970", u64::MAX));
    }
}
