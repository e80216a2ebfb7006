//! Renders the limits and the usage of a plan, for people and for programs; and the command that raises a
//! limit.

use std::time::Duration;

use domain::money;
use domain::{Account, ErrorCategory, ErrorRecord, Ledger, LimitReached, SpendKind};
use engine::PlanDetails;
use serde_json::{Value, json};

use crate::output::Paint;
use crate::time::{format_duration, format_typed};

/// The kinds that every plan reports; tokens and cost only if the plan used some.
const ALWAYS_TOLD: [SpendKind; 3] = [SpendKind::Time, SpendKind::Steps, SpendKind::ToolCalls];

/// Returns the usage on one line: `used  2 of 200 steps, 3 of 1000 tool calls, 41.2 s of 2h`.
pub fn used_line(ledger: &Ledger, paint: Paint) -> String {
    let is_told = |kind: &SpendKind| ALWAYS_TOLD.contains(kind) || ledger.account(*kind).taken() > 0;
    let parts: Vec<String> =
        SpendKind::ALL.into_iter().filter(is_told).map(|kind| part(kind, ledger.account(kind))).collect();
    format!("{}  {}\n", paint.dim("used"), parts.join(", "))
}

fn part(kind: SpendKind, account: Account) -> String {
    let Account { max, used, reserved } = account;
    if kind == SpendKind::Time {
        let max =
            max.map(|ms| format!(" of {}", format_typed(Duration::from_millis(ms)))).unwrap_or_default();
        return format!("{}{max}", format_duration(used));
    }
    let (shown, noun) = match kind {
        SpendKind::Cost => (money::format_dollars as fn(u64) -> String, "dollars".to_owned()),
        SpendKind::Time | SpendKind::Steps | SpendKind::ToolCalls | SpendKind::Tokens => {
            (format_count as fn(u64) -> String, kind.as_str().replace('_', " "))
        }
    };
    let max = max.map(|max| format!(" of {}", shown(max))).unwrap_or_default();
    let under_way =
        if reserved == 0 { String::new() } else { format!(" (and {} under way)", shown(reserved)) };
    format!("{}{max} {noun}{under_way}", shown(used))
}

fn format_count(count: u64) -> String {
    count.to_string()
}

/// The accounts, by kind.
pub fn to_json(ledger: &Ledger) -> Value {
    let account = |kind: SpendKind| {
        let Account { max, used, reserved } = ledger.account(kind);
        let assumed = ledger.assumed.get(&kind).copied().unwrap_or(0);
        json!({ "used": used, "reserved": reserved, "max": max, "assumed": assumed })
    };
    let of = |kind: SpendKind| {
        let name = if kind == SpendKind::Time { "time_ms" } else { kind.as_str() };
        (name.to_owned(), account(kind))
    };
    Value::Object(SpendKind::ALL.into_iter().map(of).collect())
}

/// Returns the usage by kind: only the numbers.
pub fn usage_json(ledger: &Ledger) -> Value {
    let used = |kind| ledger.account(kind).used;
    json!({
        "tokens": used(SpendKind::Tokens), "cost": used(SpendKind::Cost), "steps": used(SpendKind::Steps),
        "tool_calls": used(SpendKind::ToolCalls), "time_ms": used(SpendKind::Time),
    })
}

/// Returns the command that lets a plan continue after a limit stopped it, and not just for one call. It asks
/// for twice as much, or as much more as two calls reserve if that is more. `None` for another error.
pub fn raise_command(record: &ErrorRecord, facts: &PlanDetails, id: &str) -> Option<String> {
    let kind = LimitReached::kind_in(record.error.detail());
    let kind = kind.filter(|_| record.error.category() == ErrorCategory::Budget)?;
    let told = |key: &str| record.error.detail().get(key).and_then(Value::as_u64).unwrap_or_default();
    let wanted = told("used").saturating_add(told("reserved")).saturating_add(told("asked"));
    let scope = record.error.detail().get("scope").and_then(Value::as_str).unwrap_or_default();
    if scope.starts_with("day:") {
        let more = money::format_dollars(more_than(told("max"), told("asked"), wanted));
        return Some(format!("agents config set limits.day_cost={more}"));
    }
    let max = facts.ledger.account(kind).max.unwrap_or_default();
    let more = match kind {
        // In whole seconds, and no less than one.
        SpendKind::Time => format_typed(Duration::from_secs(max.div_ceil(1_000).max(1).saturating_mul(2))),
        SpendKind::Steps | SpendKind::ToolCalls => max.max(1).saturating_mul(2).to_string(),
        SpendKind::Tokens => more_than(max, told("asked"), wanted).to_string(),
        SpendKind::Cost => money::format_dollars(more_than(max, told("asked"), wanted)),
    };
    Some(format!("agents plan resume {id} --limit {kind}={more}"))
}

/// Twice the limit, or the limit and twice what was asked for: a call that is settled has used less than it
/// reserved, so there is room for the next ones. Rounded up, so that it can be typed.
fn more_than(max: u64, asked: u64, wanted: u64) -> u64 {
    let more = max.saturating_mul(2).max(max.saturating_add(asked.saturating_mul(2))).max(wanted);
    let unit = 10_u64.saturating_pow(more.checked_ilog10().unwrap_or(0).saturating_sub(1));
    more.div_ceil(unit).saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_twice_as_much_or_what_two_calls_ask_for_on_top_in_two_digits() {
        assert_eq!(more_than(5, 1, 6), 10);
        assert_eq!(more_than(9_000, 9_050, 9_050), 28_000);
        assert_eq!(more_than(100, 11_050, 11_050), 23_000, "and not 11050, which one call would reserve");
        assert_eq!(more_than(60_000, 11_050, 70_000), 120_000);
        assert_eq!(more_than(u64::MAX, 1, 1), u64::MAX);
    }

    #[test]
    fn what_was_used_is_told_with_its_limit() {
        let plain = crate::output::OutputStyle::find(
            Some(crate::output::Format::Plain),
            crate::output::ColorWhen::Never,
            |_| None,
        )
        .paint;
        let mut ledger = Ledger::default();
        ledger.accounts.insert(SpendKind::Time, Account { max: Some(7_200_000), used: 41_250, reserved: 9 });
        ledger.accounts.insert(SpendKind::ToolCalls, Account { max: Some(9), used: 3, reserved: 1 });
        let line = "used  41.2 s of 2h, 0 steps, 3 of 9 tool calls (and 1 under way)\n";
        assert_eq!(used_line(&ledger, plain), line);
        ledger.accounts.insert(SpendKind::Tokens, Account { max: None, used: 5, reserved: 0 });
        assert!(used_line(&ledger, plain).ends_with(", 5 tokens\n"));
        ledger.accounts.insert(SpendKind::Cost, Account { max: Some(2_000_000), used: 12_500, reserved: 0 });
        assert!(used_line(&ledger, plain).ends_with(", 5 tokens, 0.0125 of 2.00 dollars\n"));
        assert_eq!(
            to_json(&ledger)["tool_calls"],
            json!({ "used": 3, "reserved": 1, "max": 9, "assumed": 0 })
        );
    }
}
