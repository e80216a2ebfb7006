//! Renders the limits and the usage of a plan, for people and for programs.
//!
//! # Not here
//! The command that raises a limit (`next_steps`).

use std::time::Duration;

use domain::money;
use domain::{Account, Ledger, SpendKind};
use serde_json::{Value, json};

use crate::output::Paint;
use crate::time::{format_duration, format_typed};

/// The kinds that every plan reports; tokens and cost only if the plan used some.
const ALWAYS_TOLD: [SpendKind; 3] = [SpendKind::Time, SpendKind::Steps, SpendKind::ToolCalls];

/// Returns the usage on one line: `used  2 of 200 steps, 3 of 1000 tool calls, 41.2 s of 2h`. The time of a phase
/// is in the ledger when it ends; `running_ms` is that of the one that runs.
pub fn used_line(ledger: &Ledger, running_ms: u64, paint: Paint) -> String {
    let is_told = |kind: &SpendKind| ALWAYS_TOLD.contains(kind) || ledger.account(*kind).taken() > 0;
    let account = |kind| match kind {
        SpendKind::Time => {
            let Account { max, used, reserved } = ledger.account(kind);
            Account { max, used: used.saturating_add(running_ms), reserved }
        }
        SpendKind::Steps | SpendKind::ToolCalls | SpendKind::Tokens | SpendKind::Cost => ledger.account(kind),
    };
    let parts: Vec<String> =
        SpendKind::ALL.into_iter().filter(is_told).map(|kind| part(kind, account(kind))).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(used_line(&ledger, 0, plain), line);
        assert!(used_line(&ledger, 1_000, plain).starts_with("used  42.2 s of 2h, "));
        ledger.accounts.insert(SpendKind::Tokens, Account { max: None, used: 5, reserved: 0 });
        assert!(used_line(&ledger, 0, plain).ends_with(", 5 tokens\n"));
        ledger.accounts.insert(SpendKind::Cost, Account { max: Some(2_000_000), used: 12_500, reserved: 0 });
        assert!(used_line(&ledger, 0, plain).ends_with(", 5 tokens, 0.0125 of 2.00 dollars\n"));
        assert_eq!(
            to_json(&ledger)["tool_calls"],
            json!({ "used": 3, "reserved": 1, "max": 9, "assumed": 0 })
        );
    }
}
