//! Writes the receipt.
//!
//! # Invariants
//! 1. Every strategy has one line; every proposed file is included or counted under one reason.
//! 2. Nothing is decided here: what the stages did is told.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::context::{
    BudgetLine, Candidate, ContextRequest, EXCLUDED_LINES_MAX, ExcludedLine, INCLUDED_LINES_MAX,
    IncludedLine, IndexLine, Outcome, Reason, Receipt, StrategyLine,
};

use crate::render::fragments;
use crate::stages::{Item, LeftOut, Packed, Selection, Share, Showing};
use crate::{Run, Split, TokenCounter};

/// What there is to tell.
pub(crate) struct Account<'a> {
    pub(crate) request: &'a ContextRequest,
    pub(crate) index: &'a IndexLine,
    pub(crate) split: &'a Split,
    pub(crate) counter: &'a dyn TokenCounter,
    pub(crate) selection: &'a Selection,
    pub(crate) shares: &'a [Share],
    pub(crate) runs: &'a [Run<Candidate>],
    pub(crate) dropped: &'a [u32],
    pub(crate) items: &'a [Item],
    pub(crate) packed: &'a Packed,
    pub(crate) order: &'a [usize],
    pub(crate) left_out: &'a [LeftOut],
    pub(crate) preamble: &'a str,
    pub(crate) skeleton: &'a str,
    pub(crate) tokens: u32,
}

/// The receipt of a context.
pub(crate) fn receipt(account: &Account<'_>, notes: Vec<String>) -> Receipt {
    let (excluded, excluded_by) = excluded(account);
    let shown = account.order.iter().map(|at| &account.items[*at]);
    Receipt {
        at: account.request.at,
        view: account.request.view,
        index: account.index.clone(),
        budget: budget(account),
        counter: account.counter.name().to_owned(),
        strategies: strategies(account),
        included: account
            .order
            .iter()
            .take(INCLUDED_LINES_MAX)
            .filter_map(|at| included(account, *at))
            .collect(),
        excluded,
        excluded_by,
        redacted: shown.filter(|item| item.is_redacted).count() as u32,
        notes,
    }
}

fn budget(account: &Account<'_>) -> BudgetLine {
    let preamble = account.counter.tokens(account.preamble);
    let skeleton = account.counter.tokens(account.skeleton);
    // Each part is rounded up, so together they may be a token above the whole.
    let files = account.tokens.saturating_sub(preamble).saturating_sub(skeleton);
    BudgetLine {
        window: account.request.budget.window,
        total: account.split.total,
        preamble,
        skeleton,
        files,
        free: account.split.total.saturating_sub(preamble + skeleton + files),
    }
}

fn strategies(account: &Account<'_>) -> Vec<StrategyLine> {
    let selected =
        account.selection.selected.iter().zip(account.shares).zip(account.runs).zip(account.dropped);
    let ran = selected.map(|(((selected, share), run), dropped)| StrategyLine {
        name: selected.name.clone(),
        confidence: selected.confidence,
        weight: selected.weight,
        tokens: share.tokens,
        proposed: (run.candidates.len() as u32).saturating_sub(*dropped),
        cut: u32::try_from(run.cut).unwrap_or(u32::MAX).saturating_add(*dropped),
        ms: ms(run.elapsed),
        outcome: outcome(&run.outcome),
    });
    let refused = account.selection.refused.iter().map(|refused| StrategyLine {
        name: refused.name.clone(),
        confidence: 0.0,
        weight: refused.weight,
        tokens: 0,
        proposed: 0,
        cut: 0,
        ms: 0,
        outcome: Outcome::Unavailable(refused.why.clone()),
    });
    ran.chain(refused).collect()
}

fn ms(elapsed: Duration) -> u32 {
    u32::try_from(elapsed.as_millis()).unwrap_or(u32::MAX)
}

fn outcome(outcome: &crate::Outcome) -> Outcome {
    match outcome {
        crate::Outcome::Ok => Outcome::Ok,
        crate::Outcome::Empty => Outcome::Empty,
        crate::Outcome::Open { retry_after } => Outcome::Open { retry_after_ms: u64::from(ms(*retry_after)) },
        crate::Outcome::Failed(message) => Outcome::Failed(message.clone()),
        crate::Outcome::Panicked(message) => Outcome::Panicked(message.clone()),
        crate::Outcome::TimedOut => Outcome::TimedOut,
        crate::Outcome::NotStarted => Outcome::NotStarted,
        crate::Outcome::Hung => Outcome::Hung,
    }
}

fn included(account: &Account<'_>, at: usize) -> Option<IncludedLine> {
    let item = account.items.get(at)?;
    let bought = account.packed.files.get(at)?.as_ref().ok()?;
    let text: String =
        fragments(item, bought, account.counter).into_iter().map(|fragment| fragment.text).collect();
    Some(IncludedLine {
        place: item.place.clone(),
        depth: bought.depth(),
        full_parts: bought.pieces.iter().filter(|showing| **showing == Some(Showing::Lines)).count() as u32,
        parts: item.pieces.len() as u32,
        tokens: account.counter.tokens(&text),
        score: item.score,
        hash: item.hash,
        why: item.why.clone(),
    })
}

/// The best of what was left out, and how many by why.
fn excluded(account: &Account<'_>) -> (Vec<ExcludedLine>, BTreeMap<Reason, u32>) {
    let line = |left_out: &LeftOut| ExcludedLine {
        place: left_out.place.clone(),
        reason: left_out.reason,
        score: left_out.score,
    };
    let mut lines: Vec<ExcludedLine> = account.left_out.iter().map(line).collect();
    for (item, file) in account.items.iter().zip(&account.packed.files) {
        if let Err(reason) = file {
            // What would only have been listed was left out for what it is, not for want of tokens.
            let reason = item.only_listed.unwrap_or(*reason);
            lines.push(ExcludedLine { place: item.place.clone(), reason, score: item.hit.fused() });
        }
    }
    let mut by_reason = BTreeMap::new();
    lines.iter().for_each(|line| *by_reason.entry(line.reason).or_insert(0) += 1);
    lines.sort_by(|one, other| other.score.total_cmp(&one.score).then_with(|| one.place.cmp(&other.place)));
    lines.truncate(EXCLUDED_LINES_MAX);
    (lines, by_reason)
}
