//! The plans that a plan overlaps with, ready for output.

use std::collections::{BTreeMap, BTreeSet};

use domain::PlanId;
use engine::{Engine, Forecast, Forecasts};

use super::invocation::NamedPlan;
use crate::errors::{CommandError, from_engine};
use crate::render::forecast::OverlappingPlan;

/// The overlaps of plans, and how much was not compared.
#[derive(Debug)]
pub(super) struct OverlappingPlans<T> {
    pub(super) mets: T,
    pub(super) not_compared: usize,
}

/// Returns the plans that the plan overlaps with, by the order of their ids.
pub(super) async fn find_overlaps(
    engine: &Engine,
    plan: &NamedPlan,
) -> Result<OverlappingPlans<Vec<OverlappingPlan>>, CommandError> {
    let forecasts = engine.forecast(plan.id).await;
    let forecasts = forecasts.map_err(|error| from_engine::plan(&error, &plan.short))?;
    let shorts = shorts(engine, &forecasts.pairs).await?;
    let met = |forecast| OverlappingPlan::by(plan.id, forecast, |id| named(&shorts, id));
    let mets = forecasts.pairs.iter().filter_map(met).collect();
    Ok(OverlappingPlans { mets, not_compared: forecasts.left_out() })
}

/// Returns the overlaps of all plans.
pub(super) async fn find_all_overlaps(
    engine: &Engine,
) -> Result<OverlappingPlans<BTreeMap<PlanId, Vec<OverlappingPlan>>>, CommandError> {
    let forecasts: Forecasts = engine.forecasts().await.map_err(|error| from_engine::store(&error))?;
    let shorts = shorts(engine, &forecasts.pairs).await?;
    let mut mets: BTreeMap<PlanId, Vec<OverlappingPlan>> = BTreeMap::new();
    for forecast in &forecasts.pairs {
        for plan in [forecast.plan, forecast.other] {
            mets.entry(plan)
                .or_default()
                .extend(OverlappingPlan::by(plan, forecast, |id| named(&shorts, id)));
        }
    }
    Ok(OverlappingPlans { mets, not_compared: forecasts.left_out() })
}

async fn shorts(engine: &Engine, forecasts: &[Forecast]) -> Result<BTreeMap<PlanId, String>, CommandError> {
    let ids: BTreeSet<PlanId> =
        forecasts.iter().flat_map(|forecast| [forecast.plan, forecast.other]).collect();
    let ids: Vec<PlanId> = ids.into_iter().collect();
    let shorts = engine.short_ids(&ids).await.map_err(|error| from_engine::store(&error))?;
    Ok(ids.into_iter().zip(shorts).collect())
}

fn named(shorts: &BTreeMap<PlanId, String>, id: PlanId) -> String {
    shorts.get(&id).cloned().unwrap_or_else(|| id.to_string())
}
