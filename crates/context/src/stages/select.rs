//! Stage 1: selects the strategies that run.
//!
//! # Invariants
//! 1. Every strategy that is wanted is asked how sure it is; none is skipped because another is sure.
//! 2. Every registered strategy is selected or refused with a reason.
//! 3. The order is by confidence times weight, then by name: it depends on no clock and no thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::context::Name;
use sync::contained;

use crate::Error;
use crate::request_inputs::RequestInputs;
use crate::strategies::{Confidence, ContextStrategy};

/// The factor of a preferred strategy's weight.
const PREFERRED: f32 = 1.5;
const WEIGHT_MAX: f32 = 10.0 * PREFERRED;

/// The strategy settings of the request and the configuration.
#[derive(Clone, Copy, Debug)]
pub struct StrategyPreferences<'a> {
    /// Those that are enabled.
    pub enabled: &'a [Name],
    /// These and no others, enabled or not; empty: the enabled ones.
    pub only: &'a [Name],
    /// Those that weigh more.
    pub prefer: &'a [Name],
    /// The weights of the configuration.
    pub weights: &'a BTreeMap<Name, f32>,
}

/// A strategy that runs.
#[derive(Clone)]
pub struct SelectedStrategy {
    /// The strategy.
    pub strategy: Arc<dyn ContextStrategy>,
    /// Its name.
    pub name: Name,
    /// Above 0, at most 1.
    pub confidence: f32,
    /// The weight of the strategy.
    pub weight: f32,
}

/// A strategy that does not run.
#[derive(Clone, Debug, PartialEq)]
pub struct SkippedStrategy {
    /// Its name.
    pub name: Name,
    /// The weight that the strategy would have.
    pub weight: f32,
    /// The reason.
    pub why: String,
}

/// The strategies that run, and the reasons of the others.
#[derive(Clone, Default)]
pub struct StrategySelection {
    /// In the order in which they run.
    pub selected: Vec<SelectedStrategy>,
    /// In the order in which they are registered.
    pub refused: Vec<SkippedStrategy>,
}

/// Decides which strategies run.
pub trait StrategySelector: Send + Sync {
    /// Selects among `strategies`.
    ///
    /// # Errors
    /// [`Error::StrategyUnknown`]: the request names one that there is not.
    fn select(
        &self,
        strategies: &[Arc<dyn ContextStrategy>],
        prepared: &RequestInputs,
        wanted: &StrategyPreferences<'_>,
    ) -> Result<StrategySelection, Error>;
}

/// Asks each how sure it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConfidenceWeightedSelector;

impl StrategySelector for ConfidenceWeightedSelector {
    fn select(
        &self,
        strategies: &[Arc<dyn ContextStrategy>],
        prepared: &RequestInputs,
        wanted: &StrategyPreferences<'_>,
    ) -> Result<StrategySelection, Error> {
        let known: Vec<Name> = strategies.iter().map(name).collect();
        for named in wanted.only.iter().chain(wanted.prefer) {
            if !known.contains(named) {
                return Err(Error::StrategyUnknown { name: named.clone(), known });
            }
        }
        let mut selection = StrategySelection::default();
        for (strategy, name) in strategies.iter().zip(known) {
            let weight = weight(strategy, &name, wanted);
            let answer = match refusal(&name, wanted) {
                None => confidence(strategy, prepared),
                Some(SkipReason::Others) => Err("not asked for".to_owned()),
                // The reason that it lacks something says more than that it is switched off.
                Some(SkipReason::Disabled) => {
                    Err(confidence(strategy, prepared).err().unwrap_or_else(|| "not enabled".to_owned()))
                }
            };
            match answer {
                Ok(confidence) => {
                    let strategy = Arc::clone(strategy);
                    selection.selected.push(SelectedStrategy { strategy, name, confidence, weight });
                }
                Err(why) => selection.refused.push(SkippedStrategy { name, weight, why }),
            }
        }
        if selection.selected.is_empty() {
            fall_back(strategies, prepared, &mut selection);
        }
        let value = |selected: &SelectedStrategy| selected.confidence * selected.weight;
        selection.selected.sort_by(|one, other| {
            value(other).total_cmp(&value(one)).then_with(|| one.name.cmp(&other.name))
        });
        Ok(selection)
    }
}

fn name(strategy: &Arc<dyn ContextStrategy>) -> Name {
    contained(|| strategy.name().clone()).unwrap_or_else(|_| Name::unnamed())
}

fn weight(strategy: &Arc<dyn ContextStrategy>, name: &Name, wanted: &StrategyPreferences<'_>) -> f32 {
    let own = || contained(|| strategy.weight()).unwrap_or(0.0);
    let weight = wanted.weights.get(name).copied().unwrap_or_else(own);
    let preferred = if wanted.prefer.contains(name) { PREFERRED } else { 1.0 };
    let weight = weight * preferred;
    if weight.is_nan() { 0.0 } else { weight.clamp(0.0, WEIGHT_MAX) }
}

/// The reason why a strategy is not asked.
enum SkipReason {
    /// The request names others.
    Others,
    /// It is not enabled.
    Disabled,
}

fn refusal(name: &Name, wanted: &StrategyPreferences<'_>) -> Option<SkipReason> {
    if !wanted.only.is_empty() {
        return (!wanted.only.contains(name)).then_some(SkipReason::Others);
    }
    (!wanted.enabled.contains(name)).then_some(SkipReason::Disabled)
}

fn confidence(strategy: &Arc<dyn ContextStrategy>, prepared: &RequestInputs) -> Result<f32, String> {
    match contained(|| strategy.confidence(prepared)) {
        Ok(Confidence::Of(confidence)) if confidence > 0.0 => Ok(confidence.min(1.0)),
        Ok(Confidence::Of(_)) => Err("it has no confidence in any result".to_owned()),
        Ok(Confidence::None(why)) => Err(why),
        Err(panicked) => Err(format!("it panicked while it computed its confidence: {}", panicked.message)),
    }
}

/// No strategy is sure: words are looked for all the same, or, without words, files that others refer to.
fn fall_back(
    strategies: &[Arc<dyn ContextStrategy>],
    prepared: &RequestInputs,
    selection: &mut StrategySelection,
) {
    let last_resort = if prepared.terms().is_empty() { "breadth-depth-navigator" } else { "simple-keyword" };
    let Some(strategy) = strategies.iter().find(|strategy| name(strategy).as_str() == last_resort) else {
        return;
    };
    let name = name(strategy);
    if let Some(at) = selection.refused.iter().position(|refused| refused.name == name) {
        let SkippedStrategy { name, weight, .. } = selection.refused.remove(at);
        let strategy = Arc::clone(strategy);
        selection.selected.push(SelectedStrategy { strategy, name, confidence: 1.0, weight });
    }
}
