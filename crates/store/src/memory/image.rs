//! Copies of all that the store holds. The simulation looks at them, and puts them back after a loss of
//! power.
//!
//! # Invariants
//! A plan is copied, and all of a copy put back, in one step.
//!
//! # Not here
//! Contents: no row that is put back names one.

use std::collections::{BTreeMap, HashMap};

use domain::{Lock, LockResource, PlanId, PlanRecord};
use sync::primitives::lock;

use super::MemoryStore;
use super::consents::Consents;
use super::ledger::Days;

/// A copy of what a store holds.
#[derive(Clone, Debug, Default)]
pub struct MemoryImage {
    plans: HashMap<PlanId, PlanRecord>,
    locks: BTreeMap<LockResource, Lock>,
    days: Days,
    consents: Consents,
}

impl MemoryStore {
    /// Passes all that is stored of a plan to `look`.
    pub fn look<R>(&self, plan: PlanId, look: impl FnOnce(Option<&PlanRecord>) -> R) -> R {
        self.plans.read(&plan, look)
    }

    /// Copies these plans, and all that belongs to none, into `image`.
    pub fn copy_to(&self, image: &mut MemoryImage, plans: impl IntoIterator<Item = PlanId>) {
        for plan in plans {
            match self.plans.read(&plan, |record| record.cloned()) {
                Some(record) => image.plans.insert(plan, record),
                None => image.plans.remove(&plan),
            };
        }
        image.locks.clone_from(&lock(&self.locks));
        image.days.clone_from(&lock(&self.days));
        image.consents.clone_from(&lock(&self.consents));
    }

    /// Forgets what is not in `image`.
    pub fn restore(&self, image: &MemoryImage) {
        self.plans.update_all(|plans| plans.clone_from(&image.plans));
        lock(&self.locks).clone_from(&image.locks);
        lock(&self.days).clone_from(&image.days);
        lock(&self.consents).clone_from(&image.consents);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::{JobId, Ms, NewJob, Phase};
    use sync::ManualClock;

    use super::*;
    use crate::JobStore;

    fn job(n: u128) -> NewJob {
        let (id, plan) = (JobId::from_u128(n), PlanId::from_u128(n));
        NewJob { id, plan, phase: Phase::Execute, not_before: Ms(0) }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_was_copied_is_put_back_and_the_rest_is_forgotten() {
        let store = MemoryStore::new(Arc::new(ManualClock::new()));
        let mut image = MemoryImage::default();
        let kept = store.enqueue(job(1)).await.unwrap();
        store.copy_to(&mut image, [PlanId::from_u128(1), PlanId::from_u128(9)]);
        store.cancel(kept.id, "enough").await.unwrap();
        store.enqueue(job(2)).await.unwrap();
        store.restore(&image);
        assert_eq!(store.jobs(None).await.unwrap(), [kept]);
        assert!(!store.look(PlanId::from_u128(2), |record| record.is_some()));
    }
}
