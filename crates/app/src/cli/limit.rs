//! `--limit`: what a plan may use, as people type it.

use std::time::Duration;

use domain::money;
use domain::{Limits, SpendKind};

use crate::time::{format_typed, parse_duration};

/// The kinds that can be limited.
const KINDS: [SpendKind; 5] = SpendKind::ALL;

/// The largest number that is taken for a limit.
const COUNT_MAX: u64 = 1_000_000_000;
/// The same for tokens.
const TOKENS_MAX: u64 = 1_000_000_000_000;
/// The longest time that is taken for a limit, in seconds.
const TIME_MAX_S: u64 = 30 * 86_400;

/// One limit that a person sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitArg {
    /// Of what.
    pub(crate) kind: SpendKind,
    /// As the ledger counts it; none lifts the limit.
    pub(crate) max: Option<u64>,
}

/// Reads `steps=300`, `tool_calls=none`, `time=4h`, `cost=20`.
///
/// # Errors
/// There is no such limit, or it cannot be this.
pub(crate) fn parse(text: &str) -> Result<LimitArg, String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err("a limit is set as NAME=VALUE, like steps=300".to_owned());
    };
    let kind = SpendKind::parse(name).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.as_str()).collect();
        format!("there is no limit `{name}`; the limits are {}", names.join(", "))
    })?;
    let max = match kind {
        SpendKind::Time => time(value)?,
        SpendKind::Cost => cost(value)?,
        SpendKind::Tokens => count(kind, value, TOKENS_MAX)?,
        SpendKind::Steps | SpendKind::ToolCalls => count(kind, value, COUNT_MAX)?,
    };
    Ok(LimitArg { kind, max })
}

fn time(value: &str) -> Result<Option<u64>, String> {
    match parse_duration(value) {
        Ok(span) if (1..=TIME_MAX_S).contains(&span.as_secs()) => {
            Ok(Some(span.as_secs().saturating_mul(1_000)))
        }
        Ok(_) | Err(_) => Err(format!(
            "`{value}` is not a limit of time: it takes a duration from 1s to {}, like 30m or 4h",
            format_typed(Duration::from_secs(TIME_MAX_S))
        )),
    }
}

fn cost(value: &str) -> Result<Option<u64>, String> {
    match money::parse(value) {
        Some(micros) => Ok(Some(micros)),
        None if value == "none" => Ok(None),
        None => Err(format!("`{value}` is not a limit of cost: it takes {}, or none", money::ALLOWED)),
    }
}

fn count(kind: SpendKind, value: &str, count_max: u64) -> Result<Option<u64>, String> {
    match value.parse::<u64>() {
        Ok(count) if count <= count_max => Ok(Some(count)),
        Ok(_) | Err(_) if value == "none" => Ok(None),
        Ok(_) | Err(_) => Err(format!(
            "`{value}` is not a limit of {kind}: it takes a whole number up to {count_max}, or none"
        )),
    }
}

/// The limits and the time limit, in seconds, with what a person set in their place; the last word counts.
pub(crate) fn set(mut limits: Limits, mut time_s: u64, wanted: &[LimitArg]) -> (Limits, u64) {
    for LimitArg { kind, max } in wanted {
        match kind {
            SpendKind::Time => time_s = max.map_or(time_s, |ms| ms / 1_000),
            SpendKind::Steps => limits.steps = *max,
            SpendKind::ToolCalls => limits.tool_calls = *max,
            SpendKind::Tokens => limits.tokens = *max,
            SpendKind::Cost => limits.cost = *max,
        }
    }
    (limits, time_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_as_people_type_it() {
        let limit = |kind, max| Ok(LimitArg { kind, max });
        assert_eq!(parse("steps=300"), limit(SpendKind::Steps, Some(300)));
        assert_eq!(parse("tool_calls=0"), limit(SpendKind::ToolCalls, Some(0)));
        assert_eq!(parse("tool_calls=none"), limit(SpendKind::ToolCalls, None));
        assert_eq!(parse("time=1h30m"), limit(SpendKind::Time, Some(5_400_000)));
        assert_eq!(parse("tokens=2000000000"), limit(SpendKind::Tokens, Some(2_000_000_000)));
        assert_eq!(parse("cost=0.5"), limit(SpendKind::Cost, Some(500_000)));
        assert_eq!(parse("cost=none"), limit(SpendKind::Cost, None));
    }

    #[test]
    fn what_is_no_limit_is_told_with_what_would_be_one() {
        let said = |text: &str| parse(text).unwrap_err();
        assert_eq!(said("steps"), "a limit is set as NAME=VALUE, like steps=300");
        for name in ["costs", "Steps", ""] {
            let words =
                format!("there is no limit `{name}`; the limits are time, steps, tool_calls, tokens, cost");
            assert_eq!(said(&format!("{name}=1")), words);
        }
        for value in ["-1", "1.5", "many", "", "1000000001"] {
            let words = format!(
                "`{value}` is not a limit of steps: it takes a whole number up to 1000000000, or none"
            );
            assert_eq!(said(&format!("steps={value}")), words);
        }
        assert!(said("cost=-1").starts_with("`-1` is not a limit of cost: it takes dollars"));
        for value in ["90", "0s", "31d", "none"] {
            let words = format!(
                "`{value}` is not a limit of time: it takes a duration from 1s to 30d, like 30m or 4h"
            );
            assert_eq!(said(&format!("time={value}")), words);
        }
    }

    #[test]
    fn the_last_word_about_a_limit_counts() {
        let wanted: Vec<LimitArg> =
            ["steps=3", "steps=none", "time=5s"].map(|text| parse(text).unwrap()).into();
        let (limits, time_s) = set(Limits::default(), 7_200, &wanted);
        assert_eq!((limits, time_s), (Limits { steps: None, ..Limits::default() }, 5));
    }
}
