//! The budget of a model call: its highest cost is reserved before it, and its real cost is settled after it.
//!
//! # Invariants
//! 1. Tokens are reserved for the whole prompt and the longest answer. If the price is known, money is
//!    reserved for the most expensive way to bill that. Both or none: if a limit refuses, nothing is
//!    reserved.
//! 2. A reservation is settled with the amount that the provider reports. If the call failed, it is settled
//!    with the prompt if that may have been read, and otherwise with nothing. If the process is killed in
//!    between, the next owner of the job does that.
//! 3. An amount beyond the reserve (an estimate that was too low) is added, up to the plan's limit and never
//!    above it. The account of the day has the reserved amount.
//! 4. A replay spends no money, so it reserves none.

use actors::model::{ModelAnswer, ModelError, TokenEstimate};
use domain::{Day, DayLimit, NewSpend, SpendId, SpendKind};
use store::CallAuthority;
use sync::Effect;

use super::turn::ModelCaller;
use crate::run::RunError;
use crate::run::accounting;

/// The reservation for a call.
pub(crate) struct SpendReservation {
    estimate: TokenEstimate,
    tokens: ReservedAmount,
    cost: Option<ReservedAmount>,
}

#[derive(Clone, Copy)]
struct ReservedAmount {
    id: SpendId,
    kind: SpendKind,
    amount: u64,
}

impl SpendReservation {
    /// Reserves for one call.
    pub(crate) async fn reserve(
        caller: &ModelCaller<'_, '_>,
        effect: &Effect,
        estimate: TokenEstimate,
    ) -> Result<SpendReservation, RunError> {
        let models = &caller.node.engine.models;
        let price = caller.resolved.price.filter(|_| !models.is_replay());
        let tokens = caller.hold(effect, SpendKind::Tokens, estimate.total(), None).await?;
        let Some(price) = price else { return Ok(SpendReservation { estimate, tokens, cost: None }) };
        let most = price.most_micros(estimate.prompt, estimate.answer);
        // Also where no limit is set: one that is set later counts what was spent before.
        let day = DayLimit { day: Day::from_wall(caller.node.engine.wall()), max: models.day_cost() };
        match caller.hold(effect, SpendKind::Cost, most, Some(day)).await {
            Ok(cost) => Ok(SpendReservation { estimate, tokens, cost: Some(cost) }),
            Err(stopped) => {
                caller.release(effect, tokens, 0).await?;
                Err(stopped)
            }
        }
    }

    /// Settles with what it came to.
    pub(crate) async fn settle(
        self,
        caller: &ModelCaller<'_, '_>,
        effect: &Effect,
        answer: &Result<ModelAnswer, ModelError>,
    ) -> Result<(), RunError> {
        let (tokens, cost) = match answer {
            Ok(answer) => (answer.usage.tokens(), answer.usage.cost_micros),
            Err(error) if error.was_sent => {
                let prompt = self.estimate.prompt;
                let cost = caller.resolved.price.map_or(0, |price| price.most_micros(prompt, 0));
                (prompt, cost)
            }
            Err(_) => (0, 0),
        };
        // Both, also when the first cannot be stored.
        let first = caller.release(effect, self.tokens, tokens).await;
        if let Some(held) = self.cost {
            caller.release(effect, held, cost).await?;
        }
        first
    }
}

impl ModelCaller<'_, '_> {
    async fn hold(
        &self,
        effect: &Effect,
        kind: SpendKind,
        amount: u64,
        day: Option<DayLimit>,
    ) -> Result<ReservedAmount, RunError> {
        let engine = self.node.engine;
        let id = SpendId::from_u128(engine.ids.ulid());
        let new = NewSpend { id, kind, amount, model: Some(self.model.to_owned()), day };
        let reserved = engine.store.reserve(effect, &self.node.job.claim(), new).await;
        reserved.map_err(|error| accounting::stopped(error, self.node.path))?;
        Ok(ReservedAmount { id, kind, amount })
    }

    async fn release(&self, effect: &Effect, held: ReservedAmount, actual: u64) -> Result<(), RunError> {
        let (store, claim) = (&self.node.engine.store, self.node.job.claim());
        let failed = |error| accounting::stopped(error, self.node.path);
        let settled = actual.min(held.amount);
        store.settle(CallAuthority::Effect(effect), &claim, held.id, settled).await.map_err(failed)?;
        if actual > settled {
            let beyond = actual - settled;
            store
                .add_spent(CallAuthority::Effect(effect), &claim, held.kind, beyond)
                .await
                .map_err(failed)?;
        }
        Ok(())
    }
}
