//! The plans that a plan meets, ready to be told.

use std::collections::{BTreeMap, BTreeSet};

use domain::PlanId;
use engine::{Engine, Forecast, Forecasts};

use super::invocation::Named;
use crate::errors::{Failure, from_engine};
use crate::render::forecast::Met;

/// What plans meet, and how much of it was not looked at.
#[derive(Debug)]
pub(super) struct MetPlans<T> {
    pub(super) mets: T,
    pub(super) not_compared: usize,
}

/// What the plan meets, by the order of the other plans' ids.
pub(super) async fn of(engine: &Engine, plan: &Named) -> Result<MetPlans<Vec<Met>>, Failure> {
    let forecasts = engine.forecast(plan.id).await;
    let forecasts = forecasts.map_err(|error| from_engine::plan(&error, &plan.short))?;
    let shorts = shorts(engine, &forecasts.pairs).await?;
    let met = |forecast| Met::by(plan.id, forecast, |id| named(&shorts, id));
    let mets = forecasts.pairs.iter().filter_map(met).collect();
    Ok(MetPlans { mets, not_compared: forecasts.left_out() })
}

/// What all plans meet.
pub(super) async fn of_all(engine: &Engine) -> Result<MetPlans<BTreeMap<PlanId, Vec<Met>>>, Failure> {
    let forecasts: Forecasts = engine.forecasts().await.map_err(|error| from_engine::store(&error))?;
    let shorts = shorts(engine, &forecasts.pairs).await?;
    let mut mets: BTreeMap<PlanId, Vec<Met>> = BTreeMap::new();
    for forecast in &forecasts.pairs {
        for plan in [forecast.plan, forecast.other] {
            mets.entry(plan).or_default().extend(Met::by(plan, forecast, |id| named(&shorts, id)));
        }
    }
    Ok(MetPlans { mets, not_compared: forecasts.left_out() })
}

async fn shorts(engine: &Engine, forecasts: &[Forecast]) -> Result<BTreeMap<PlanId, String>, Failure> {
    let ids: BTreeSet<PlanId> =
        forecasts.iter().flat_map(|forecast| [forecast.plan, forecast.other]).collect();
    let ids: Vec<PlanId> = ids.into_iter().collect();
    let shorts = engine.short_ids(&ids).await.map_err(|error| from_engine::store(&error))?;
    Ok(ids.into_iter().zip(shorts).collect())
}

fn named(shorts: &BTreeMap<PlanId, String>, id: PlanId) -> String {
    shorts.get(&id).cloned().unwrap_or_else(|| id.to_string())
}
