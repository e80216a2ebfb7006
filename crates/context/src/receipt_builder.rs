//! Writes the receipt.
//!
//! # Invariants
//! 1. Every strategy has one line; every proposed file is included or counted under one reason.
//! 2. Nothing is decided here: the receipt only reports the work of the stages.
//! 3. The tokens add up. Those of the files, also of the files beyond the last line, are the tokens spent on
//!    files. With all other parts and the free tokens they are the whole budget.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::context::{
    BudgetLine, Candidate, ContextRequest, EXCLUDED_LINES_MAX, ExcludedLine, ExclusionReason, Fragment,
    INCLUDED_LINES_MAX, IncludedLine, IndexLine, MoreLine, Receipt, StrategyLine, StrategyOutcome,
};

use crate::render::fragments;
use crate::stages::{BudgetShare, ContextItem, ExcludedFile, PackResult, PartDetail, StrategySelection};
use crate::{Split, StrategyRun, TokenCounter};

/// The inputs of a receipt.
pub(crate) struct ReceiptBuilder<'a> {
    pub(crate) request: &'a ContextRequest,
    pub(crate) index: &'a IndexLine,
    pub(crate) split: &'a Split,
    pub(crate) counter: &'a dyn TokenCounter,
    pub(crate) selection: &'a StrategySelection,
    pub(crate) shares: &'a [BudgetShare],
    pub(crate) runs: &'a [StrategyRun<Candidate>],
    pub(crate) dropped: &'a [u32],
    pub(crate) items: &'a [ContextItem],
    pub(crate) packed: &'a PackResult,
    pub(crate) order: &'a [usize],
    pub(crate) left_out: &'a [ExcludedFile],
    pub(crate) preamble: &'a str,
    pub(crate) skeleton: &'a str,
    pub(crate) decisions: &'a [Fragment],
    /// The tokens of the whole text.
    pub(crate) tokens: u32,
}

/// The cost of each part of the text: its share of the whole, in whole tokens.
struct Costs {
    preamble: u32,
    skeleton: u32,
    decisions: u32,
    /// In the order of the text.
    files: Vec<u32>,
}

/// The receipt of a context.
pub(crate) fn receipt(account: &ReceiptBuilder<'_>, notes: Vec<String>) -> Receipt {
    let (excluded, excluded_by) = excluded(account);
    let costs = costs(account);
    let shown = account.order.iter().map(|at| &account.items[*at]);
    Receipt {
        at: account.request.at,
        view: account.request.view,
        index: account.index.clone(),
        budget: budget(account, &costs),
        counter: account.counter.name().to_owned(),
        strategies: strategies(account),
        included: account
            .order
            .iter()
            .zip(&costs.files)
            .take(INCLUDED_LINES_MAX)
            .filter_map(|(at, tokens)| included(account, *at, *tokens))
            .collect(),
        included_more: more(&costs.files),
        excluded,
        excluded_by,
        redacted: shown.filter(|item| item.is_redacted).count() as u32,
        notes,
    }
}

fn costs(account: &ReceiptBuilder<'_>) -> Costs {
    let decisions: String = account.decisions.iter().map(|fragment| fragment.text.as_str()).collect();
    let files = account.order.iter().map(|at| text_of(account, *at));
    let parts = [account.preamble, account.skeleton, &decisions].map(|part| account.counter.hundredths(part));
    let parts = parts.into_iter().chain(files.map(|text| account.counter.hundredths(&text)));
    let mut shares = shares(account.tokens, &parts.collect::<Vec<u64>>());
    let files = shares.split_off(3);
    Costs { preamble: shares[0], skeleton: shares[1], decisions: shares[2], files }
}

/// Divides whole tokens among parts by their costs, without a remainder.
fn shares(tokens: u32, costs: &[u64]) -> Vec<u32> {
    let sum: u64 = costs.iter().sum();
    let (mut spent, mut given) = (0, 0);
    let share = |cost: &u64| {
        spent += cost;
        let up_to = (u128::from(tokens) * u128::from(spent)).checked_div(u128::from(sum)).unwrap_or(0) as u32;
        up_to - std::mem::replace(&mut given, up_to)
    };
    costs.iter().map(share).collect()
}

fn budget(account: &ReceiptBuilder<'_>, costs: &Costs) -> BudgetLine {
    BudgetLine {
        window: account.request.budget.window,
        total: account.split.total,
        preamble: costs.preamble,
        skeleton: costs.skeleton,
        decisions: costs.decisions,
        files: costs.files.iter().sum(),
        free: account.split.total.saturating_sub(account.tokens),
    }
}

fn strategies(account: &ReceiptBuilder<'_>) -> Vec<StrategyLine> {
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
        outcome: StrategyOutcome::Unavailable(refused.why.clone()),
    });
    ran.chain(refused).collect()
}

fn ms(elapsed: Duration) -> u32 {
    u32::try_from(elapsed.as_millis()).unwrap_or(u32::MAX)
}

fn outcome(outcome: &crate::RunOutcome) -> StrategyOutcome {
    match outcome {
        crate::RunOutcome::Ok => StrategyOutcome::Ok,
        crate::RunOutcome::Empty => StrategyOutcome::Empty,
        crate::RunOutcome::Open { retry_after } => {
            StrategyOutcome::Open { retry_after_ms: u64::from(ms(*retry_after)) }
        }
        crate::RunOutcome::Failed(message) => StrategyOutcome::Failed(message.clone()),
        crate::RunOutcome::Panicked(message) => StrategyOutcome::Panicked(message.clone()),
        crate::RunOutcome::TimedOut => StrategyOutcome::TimedOut,
        crate::RunOutcome::NotStarted => StrategyOutcome::NotStarted,
        crate::RunOutcome::Hung => StrategyOutcome::Hung,
    }
}

/// Returns the shown text of a file.
fn text_of(account: &ReceiptBuilder<'_>, at: usize) -> String {
    let bought = account.packed.files.get(at).and_then(|bought| bought.as_ref().ok());
    let shown = account.items.get(at).zip(bought);
    let fragments = shown.map(|(item, bought)| fragments(item, bought, account.counter)).unwrap_or_default();
    fragments.into_iter().map(|fragment| fragment.text).collect()
}

/// Counts the files that have no line, and their tokens.
fn more(files: &[u32]) -> MoreLine {
    let beyond = files.get(INCLUDED_LINES_MAX..).unwrap_or_default();
    MoreLine { files: beyond.len() as u32, tokens: beyond.iter().sum() }
}

fn included(account: &ReceiptBuilder<'_>, at: usize, tokens: u32) -> Option<IncludedLine> {
    let item = account.items.get(at)?;
    let bought = account.packed.files.get(at)?.as_ref().ok()?;
    Some(IncludedLine {
        place: item.place.clone(),
        depth: bought.depth(),
        full_parts: bought.pieces.iter().filter(|showing| **showing == Some(PartDetail::Lines)).count()
            as u32,
        parts: item.pieces.len() as u32,
        tokens,
        score: item.score,
        hash: item.hash,
        why: item.why.clone(),
    })
}

/// The best of what was left out, and how many by why.
fn excluded(account: &ReceiptBuilder<'_>) -> (Vec<ExcludedLine>, BTreeMap<ExclusionReason, u32>) {
    let line = |left_out: &ExcludedFile| ExcludedLine {
        place: left_out.place.clone(),
        reason: left_out.reason,
        score: left_out.score,
    };
    let mut lines: Vec<ExcludedLine> = account.left_out.iter().map(line).collect();
    for (item, file) in account.items.iter().zip(&account.packed.files) {
        if let Err(reason) = file {
            // A file that would only have been listed was left out because of its kind, not for lack of
            // tokens.
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
