//! A day in UTC, as limits count it.

use std::fmt;
use std::str::FromStr;

use crate::time::WallMs;

const MS_PER_DAY: u64 = 86_400_000;

/// A day in UTC, by its number since 1970-01-01. Prints as `2026-11-15`.
///
/// ```
/// use domain::{Day, WallMs};
///
/// let day = Day::from_wall(WallMs(1_794_787_200_000));
/// assert_eq!(day.to_string(), "2026-11-16");
/// assert_eq!("2026-11-16".parse(), Ok(day));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(u32);

/// A text that is no day.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a day is written like 2026-11-15")]
pub struct DayError;

impl Day {
    /// The day of this moment.
    pub fn from_wall(at: WallMs) -> Day {
        // The days of four million years; whatever is later falls on the last of them.
        const LAST: u64 = 1_460_000_000;
        Day(u32::try_from((at.0 / MS_PER_DAY).min(LAST)).unwrap_or(0))
    }

    /// Its first moment.
    fn start(self) -> WallMs {
        WallMs(u64::from(self.0) * MS_PER_DAY)
    }

    /// Year, month and day of the month: the civil calendar, counted in eras of 400 years that begin in
    /// March.
    fn civil(self) -> (u64, u64, u64) {
        const DAYS_TO_1970: u64 = 719_468;
        const DAYS_PER_ERA: u64 = 146_097;
        let days = u64::from(self.0) + DAYS_TO_1970;
        let (era, of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        (era * 400 + year_of_era + u64::from(month <= 2), month, day)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl FromStr for Day {
    type Err = DayError;

    fn from_str(text: &str) -> Result<Day, DayError> {
        let mut parts = text.split('-').map(|part| part.parse::<u64>().map_err(|_| DayError));
        let mut part = || parts.next().unwrap_or(Err(DayError));
        let (year, month, day) = (part()?, part()?, part()?);
        let from_march = if month > 2 { month - 3 } else { month + 9 };
        let year_from_march = year.checked_sub(u64::from(month <= 2)).ok_or(DayError)?;
        let (era, of_era) = (year_from_march / 400, year_from_march % 400);
        let of_year = (153 * from_march + 2) / 5 + day.checked_sub(1).ok_or(DayError)?;
        let days = era
            .checked_mul(146_097)
            .and_then(|days| days.checked_add(of_era * 365 + of_era / 4 - of_era / 100 + of_year))
            .and_then(|days| days.checked_sub(719_468))
            .ok_or(DayError)?;
        let found = Day(u32::try_from(days).map_err(|_| DayError)?);
        // A text that prints otherwise was no day: a 31st of June, a month 13, a missing zero.
        if found.to_string() == text && Day::from_wall(found.start()) == found {
            Ok(found)
        } else {
            Err(DayError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_the_next_centuries_prints_in_order_and_reads_back() {
        let mut before = String::new();
        for no in 0..200_000 {
            let text = Day(no).to_string();
            assert!(before < text, "{before} {text}");
            assert_eq!(text.parse(), Ok(Day(no)));
            before = text;
        }
        assert_eq!(Day(0).to_string(), "1970-01-01");
        assert_eq!(Day(11_016).to_string(), "2000-02-29");
    }

    #[test]
    fn what_is_no_day_is_refused() {
        for text in ["", "2026", "2026-13-01", "2026-06-31", "2025-02-29", "2026-1-01", "1969-12-31", "x-y-z"]
        {
            assert_eq!(text.parse::<Day>(), Err(DayError), "{text}");
        }
        let huge = format!("{}-01-01", u64::MAX);
        assert_eq!(huge.parse::<Day>(), Err(DayError));
    }

    #[test]
    fn a_moment_belongs_to_the_day_in_utc() {
        assert_eq!(Day::from_wall(WallMs(MS_PER_DAY - 1)), Day(0));
        assert_eq!(Day::from_wall(WallMs(MS_PER_DAY)), Day(1));
        assert!(Day::from_wall(WallMs(u64::MAX)) > Day::from_wall(WallMs(MS_PER_DAY)));
    }
}
