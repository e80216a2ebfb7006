//! Models without a known price.
//!
//! # Invariants
//! 1. A limit of money that the user set, and that cannot be enforced, is refused before a plan is made.
//! 2. If only the default limit applies, a note says that it does not hold; that of the tokens does.

use domain::PlanSpec;
use engine::Engine;

use super::plan_args::PendingPlan;
use crate::config::{SettingKey, SettingOrigin, Settings};
use crate::errors::{CommandError, Hint, codes, hints};
use crate::output::OutputNote;

/// Returns a note about the unpriced models of a plan that is about to be made; `None` if all prices are
/// known.
///
/// # Errors
/// Returns an error if a limit that the user set cannot be enforced.
pub(super) fn check_price(asked: &PendingPlan, engine: &Engine) -> Result<Option<OutputNote>, CommandError> {
    let spec = &asked.request.spec;
    let models = engine.unpriced(spec);
    let Some(first) = models.first() else { return Ok(None) };
    let costs = format!("what {} costs is not known", models.join(", "));
    let Some(limit) = limit_set(spec, &asked.settings) else {
        let is_limited = spec.limits.cost.is_some();
        return Ok(is_limited.then(|| {
            OutputNote::info(format!(
                "{costs}, so `limits.cost` does not hold for it; `limits.tokens` does. Say it in your settings: \
                 [prices.\"{first}\"]"
            ))
        }));
    };
    Err(CommandError::new(&codes::PREFLIGHT_FAILED, format!("{costs}, so `{limit}` could not be enforced"))
        .hint(hints::SET_PRICE)
        .field("model", first)
        .hint(lift(limit)))
}

/// Returns the limit of money that the user set; `None` if there is none.
fn limit_set(spec: &PlanSpec, settings: &Settings) -> Option<&'static str> {
    let (usual, origin) = (settings.money(SettingKey::LimitsCost), settings.get(SettingKey::LimitsCost).1);
    let is_own =
        spec.limits.cost.is_some() && (*origin != SettingOrigin::Default || spec.limits.cost != usual);
    if is_own {
        return Some("limits.cost");
    }
    settings.money(SettingKey::LimitsDayCost).map(|_| "limits.day_cost")
}

fn lift(limit: &str) -> Hint {
    match limit {
        "limits.cost" => hints::LIFT_COST,
        _ => hints::LIFT_DAY_COST,
    }
}
