//! The plans that a plan meets, ready to be told.

use std::collections::{BTreeMap, BTreeSet};

use domain::PlanId;
use engine::plans::{Engine, Forecast};

use super::invocation::{Named, short_id};
use crate::failure::{Failure, from_engine};
use crate::forecast_view::Met;

/// What the plan meets, by the order of the other plans' ids.
pub(super) async fn of(engine: &Engine, plan: &Named) -> Result<Vec<Met>, Failure> {
    let forecasts = engine.forecast(plan.id).await;
    let forecasts = forecasts.map_err(|error| from_engine::plan(&error, &plan.short))?;
    let shorts = shorts(engine, &forecasts).await?;
    Ok(forecasts.iter().filter_map(|forecast| Met::by(plan.id, forecast, |id| named(&shorts, id))).collect())
}

/// What all plans meet.
pub(super) async fn of_all(engine: &Engine) -> Result<BTreeMap<PlanId, Vec<Met>>, Failure> {
    let forecasts = engine.forecasts().await.map_err(|error| from_engine::store(&error))?;
    let shorts = shorts(engine, &forecasts).await?;
    let mut mets: BTreeMap<PlanId, Vec<Met>> = BTreeMap::new();
    for forecast in &forecasts {
        for plan in [forecast.plan, forecast.other] {
            mets.entry(plan).or_default().extend(Met::by(plan, forecast, |id| named(&shorts, id)));
        }
    }
    Ok(mets)
}

async fn shorts(engine: &Engine, forecasts: &[Forecast]) -> Result<BTreeMap<PlanId, String>, Failure> {
    let ids: BTreeSet<PlanId> =
        forecasts.iter().flat_map(|forecast| [forecast.plan, forecast.other]).collect();
    let mut shorts = BTreeMap::new();
    for id in ids {
        shorts.insert(id, short_id(engine, id).await?);
    }
    Ok(shorts)
}

fn named(shorts: &BTreeMap<PlanId, String>, id: PlanId) -> String {
    shorts.get(&id).cloned().unwrap_or_else(|| id.to_string())
}
