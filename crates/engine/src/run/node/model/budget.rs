//! What a call of a model may cost, reserved before it, and what it did cost, settled after it.
//!
//! # Invariants
//! 1. Tokens are reserved for the whole prompt and the longest answer; money, where the price is known, for the dearest
//!    way in which that can be billed. Both or none: what a limit refuses leaves nothing reserved.
//! 2. What was reserved is settled: with what the provider says; when it failed, with the prompt if that may have been
//!    read, else with nothing. Who is killed in between leaves that to whoever takes the job over.
//! 3. What went beyond its reserve (an estimate that was too low) is added, up to the plan's limit and never above it; the
//!    account of the day has what was reserved.
//! 4. A replay spends no money, so it reserves none.

use actors::model::{ModelAnswer, ModelError, TokenEstimate};
use domain::{Day, DayLimit, NewSpend, SpendId, SpendKind};
use store::By;
use sync::Effect;

use super::turn::Asker;
use crate::run::Stopped;
use crate::run::accounting;

/// What is reserved for a call.
pub(crate) struct Reserved {
    estimate: TokenEstimate,
    tokens: Hold,
    cost: Option<Hold>,
}

#[derive(Clone, Copy)]
struct Hold {
    id: SpendId,
    kind: SpendKind,
    amount: u64,
}

impl Reserved {
    /// Reserves for one call.
    pub(crate) async fn of(
        asker: &Asker<'_, '_>,
        effect: &Effect,
        estimate: TokenEstimate,
    ) -> Result<Reserved, Stopped> {
        let models = &asker.node.house.models;
        let price = asker.resolved.price.filter(|_| !models.is_replay());
        let tokens = asker.hold(effect, SpendKind::Tokens, estimate.total(), None).await?;
        let Some(price) = price else { return Ok(Reserved { estimate, tokens, cost: None }) };
        let most = price.most_micros(estimate.prompt, estimate.answer);
        // Also where no limit is set: one that is set later counts what was spent before.
        let day = DayLimit { day: Day::of(asker.node.house.wall()), max: models.day_cost() };
        match asker.hold(effect, SpendKind::Cost, most, Some(day)).await {
            Ok(cost) => Ok(Reserved { estimate, tokens, cost: Some(cost) }),
            Err(stopped) => {
                asker.release(effect, tokens, 0).await?;
                Err(stopped)
            }
        }
    }

    /// Settles with what it came to.
    pub(crate) async fn settle(
        self,
        asker: &Asker<'_, '_>,
        effect: &Effect,
        answer: &Result<ModelAnswer, ModelError>,
    ) -> Result<(), Stopped> {
        let (tokens, cost) = match answer {
            Ok(answer) => (answer.usage.tokens(), answer.usage.cost_micros),
            Err(error) if error.was_sent => {
                let prompt = self.estimate.prompt;
                let cost = asker.resolved.price.map_or(0, |price| price.most_micros(prompt, 0));
                (prompt, cost)
            }
            Err(_) => (0, 0),
        };
        // Both, also when the first cannot be stored.
        let first = asker.release(effect, self.tokens, tokens).await;
        if let Some(held) = self.cost {
            asker.release(effect, held, cost).await?;
        }
        first
    }
}

impl Asker<'_, '_> {
    async fn hold(
        &self,
        effect: &Effect,
        kind: SpendKind,
        amount: u64,
        day: Option<DayLimit>,
    ) -> Result<Hold, Stopped> {
        let house = self.node.house;
        let id = SpendId::from_u128(house.ids.ulid());
        let new = NewSpend { id, kind, amount, model: Some(self.model.to_owned()), day };
        let reserved = house.store.reserve(effect, &self.node.run.claim(), new).await;
        reserved.map_err(|error| accounting::stopped(error, self.node.path))?;
        Ok(Hold { id, kind, amount })
    }

    async fn release(&self, effect: &Effect, held: Hold, actual: u64) -> Result<(), Stopped> {
        let (store, claim) = (&self.node.house.store, self.node.run.claim());
        let failed = |error| accounting::stopped(error, self.node.path);
        let settled = actual.min(held.amount);
        store.settle(By::Effect(effect), &claim, held.id, settled).await.map_err(failed)?;
        if actual > settled {
            let beyond = actual - settled;
            store.add_spent(By::Effect(effect), &claim, held.kind, beyond).await.map_err(failed)?;
        }
        Ok(())
    }
}
