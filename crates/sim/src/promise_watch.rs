//! The observer: sees every step of the store at the moment it is committed, and remembers what was
//! acknowledged.
//!
//! # Invariants
//! 1. It remembers the answers that the program got, by the contract of each step. A step that survives a
//!    loss of power makes all before it survive. A loss of power takes from its memory exactly what it may
//!    take from the store.
//! 2. It looks at rows only, and writes none.
//!
//! # Not here
//! The checks at the end of a run: `end_checks`.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    ChangeId, Claim, ErrorId, EventRecord, Fence, Job, JobId, JobState, NewError, PlanId, PlanRecord,
    PlanState, RecordedChange, RecoveryAction, RecoveryAdvice, RecoveryPolicy, Spend, SpendId, StepId,
};
use sync::primitives::{Mutex, MutexGuard, lock};

use crate::promise::{PROMISES, Promise, PromiseViolation};

/// The most violations of a run that are stored: a broken program breaks more and more.
const VIOLATIONS_MAX: usize = 20;

/// The durability of the writes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepDurability {
    /// Until the power is lost.
    Process,
    /// For ever, with all that was written before.
    Power,
}

/// An entry that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryFact {
    commit: u64,
    pub(crate) plan: PlanId,
    pub(crate) change: ChangeId,
    pub(crate) recorded: RecordedChange,
}

/// An error that was answered.
#[derive(Clone, Debug)]
pub(crate) struct ErrorFact {
    commit: u64,
    pub(crate) plan: PlanId,
    pub(crate) id: ErrorId,
    pub(crate) step: StepId,
    pub(crate) is_retry: bool,
}

#[derive(Clone, Copy, Debug)]
struct ClaimFact {
    commit: u64,
}

#[derive(Clone, Debug, Default)]
struct ObservedPlan {
    events: usize,
    fences: BTreeMap<JobId, Fence>,
    final_state: Option<PlanState>,
}

/// The facts that a run showed so far.
#[derive(Debug, Default)]
pub(crate) struct PromiseWatch {
    seen: Mutex<ObservedFacts>,
}

/// The facts that the observer recorded.
#[derive(Debug, Default)]
pub(crate) struct ObservedFacts {
    commits: u64,
    durable: u64,
    pub(crate) entries: Vec<EntryFact>,
    pub(crate) errors: Vec<ErrorFact>,
    claims: BTreeMap<(JobId, Fence), ClaimFact>,
    plans: BTreeMap<PlanId, ObservedPlan>,
    cancelled: BTreeSet<PlanId>,
    /// The calls that were granted, with the plan and the step that granted them.
    spends: BTreeMap<SpendId, (PlanId, u64)>,
    tries: BTreeMap<(Claim, String), (u32, u32)>,
    violations: Vec<PromiseViolation>,
    checks: [u64; PROMISES],
}

impl ObservedFacts {
    /// Returns the number of the step that is being reported: it is counted right after.
    fn next_commit(&self) -> u64 {
        self.commits + 1
    }

    pub(crate) fn count_check(&mut self, promise: Promise) {
        self.checks[promise.index()] += 1;
    }

    pub(crate) fn record_violation(&mut self, promise: Promise, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(PromiseViolation { promise, what });
        }
    }

    /// Checks one thing.
    pub(crate) fn check(&mut self, promise: Promise, holds: bool, what: impl FnOnce() -> String) {
        self.count_check(promise);
        if !holds {
            self.record_violation(promise, what());
        }
    }
}

impl PromiseWatch {
    pub(crate) fn seen(&self) -> MutexGuard<'_, ObservedFacts> {
        lock(&self.seen)
    }

    pub(crate) fn violations(&self) -> Vec<PromiseViolation> {
        self.seen().violations.clone()
    }

    pub(crate) fn checks(&self) -> [u64; PROMISES] {
        self.seen().checks
    }

    /// A step was committed.
    pub(crate) fn observe_commit(&self, durability: StepDurability) {
        let mut seen = self.seen();
        seen.commits += 1;
        if durability == StepDurability::Power {
            seen.durable = seen.commits;
        }
    }

    /// The power is lost: what was not synced need not be there any more.
    pub(crate) fn observe_power_loss<'a>(
        &self,
        plans: impl Iterator<Item = (PlanId, Option<&'a PlanRecord>)>,
    ) {
        let mut seen = self.seen();
        let durable = seen.durable;
        seen.entries.retain(|fact| fact.commit <= durable);
        seen.errors.retain(|fact| fact.commit <= durable);
        seen.claims.retain(|_, fact| fact.commit <= durable);
        seen.spends.retain(|_, (_, commit)| *commit <= durable);
        seen.tries.clear();
        for (plan, record) in plans {
            let known = seen.plans.remove(&plan).unwrap_or_default();
            let state = record.and_then(PlanRecord::row).map(|row| row.state);
            if let Some(was) = known.final_state {
                seen.check(Promise::OneLiveJob, state == Some(was), || {
                    format!("plan {plan} was {was}, and after a loss of power it is {state:?}")
                });
            }
            let fences = record.iter().flat_map(|record| record.jobs()).map(|job| (job.id, job.fence));
            let now = ObservedPlan {
                events: record.map_or(0, |record| record.events().len()),
                fences: fences.collect(),
                final_state: known.final_state,
            };
            seen.plans.insert(plan, now);
        }
    }

    /// Something of the plan has an effect.
    pub(crate) fn observe_effect(&self, plan: PlanId, what: &str) {
        let mut seen = self.seen();
        let is_cancelled = seen.cancelled.contains(&plan);
        if is_cancelled {
            seen.record_violation(Promise::CancelIsFinal, format!("{what} of plan {plan} after its cancel"));
        }
    }

    /// Checks the state of a plan after a step. The last argument is the number of its processes that are
    /// alive.
    pub(crate) fn inspect(&self, plan: PlanId, record: Option<&PlanRecord>, lives: usize) {
        let Some(record) = record else { return };
        let mut seen = self.seen();
        let mut known = seen.plans.remove(&plan).unwrap_or_default();
        see_jobs(&mut seen, plan, record, &mut known);
        see_events(&mut seen, plan, record.events(), &mut known);
        if let Some(row) = record.row() {
            if !row.state.is_processing() {
                let running = record.calls().filter(|call| call.end.is_none()).count();
                seen.check(Promise::CallsRecorded, running == 0, || {
                    format!("{running} calls are running in plan {plan}, which is {}", row.state)
                });
            }
            if let Some(was) = known.final_state {
                seen.check(Promise::OneLiveJob, row.state == was, || {
                    format!("plan {plan} was {was}, which is final, and is {}", row.state)
                });
            }
            if row.state.is_final() && known.final_state.is_none() {
                known.final_state = Some(row.state);
                if row.state.word() == "cancelled" {
                    seen.cancelled.insert(plan);
                    seen.check(Promise::CancelIsFinal, lives == 0, || {
                        format!("{lives} processes of plan {plan} are alive when its cancel is acknowledged")
                    });
                }
            }
        }
        seen.plans.insert(plan, known);
    }

    /// A check began in a sandbox that does not agree with the entries which it is believed for, in these
    /// files.
    pub(crate) fn observe_sandbox_check(&self, plan: PlanId, unlike: &[u32]) {
        self.seen().check(Promise::CallsRecorded, unlike.is_empty(), || {
            format!("a check of plan {plan} sees files {unlike:?} that differ from their records")
        });
    }

    /// Checks the end of an owner's run. The last argument is the number of processes of its calls that are
    /// alive.
    pub(crate) fn observe_run_end(&self, claim: &Claim, lives: usize) {
        self.seen().check(Promise::CallsRecorded, lives == 0, || {
            format!("{lives} processes of calls of job {} are alive when its run has ended", claim.job)
        });
    }

    /// A job was given to a worker.
    pub(crate) fn observe_claim(&self, job: &Job) {
        let mut seen = self.seen();
        let fact = ClaimFact { commit: seen.next_commit() };
        let before = seen.claims.insert((job.id, job.fence), fact);
        seen.check(Promise::OneLiveJob, before.is_none(), || {
            format!("job {} was claimed twice under fence {}", job.id, job.fence.0)
        });
    }

    /// An owner's write was taken, which showed `claim`; the job now has the fence `now`.
    pub(crate) fn observe_owner_write(&self, claim: &Claim, now: Option<Fence>, what: &str) {
        self.seen().check(Promise::FencesHold, now == Some(claim.fence), || {
            format!("{what} of job {} was accepted under fence {}, it is {now:?}", claim.job, claim.fence.0)
        });
    }

    /// A write with an old fence was refused.
    pub(crate) fn observe_refusal(&self) {
        self.seen().count_check(Promise::FencesHold);
    }

    /// Entries were acknowledged.
    pub(crate) fn observe_entries(
        &self,
        plan: PlanId,
        entries: impl IntoIterator<Item = (ChangeId, RecordedChange)>,
    ) {
        for (change, recorded) in entries {
            self.observe_effect(plan, "an entry");
            let mut seen = self.seen();
            let commit = seen.next_commit();
            if seen.entries.iter().all(|fact| fact.change != change) {
                seen.entries.push(EntryFact { commit, plan, change, recorded });
            }
        }
    }

    /// An error was answered.
    pub(crate) fn observe_error(
        &self,
        claim: &Claim,
        policy: &RecoveryPolicy,
        error: &NewError,
        answer: &RecoveryAdvice,
    ) {
        let mut seen = self.seen();
        if seen.errors.iter().any(|fact| fact.id == error.id()) {
            return;
        }
        let is_retry = matches!(answer.action, RecoveryAction::Retry { .. });
        let (commit, step) = (seen.next_commit(), error.step().clone());
        if is_retry {
            seen.tries.entry((*claim, step.node.clone())).or_default().1 += 1;
        }
        let fact = ErrorFact { commit, plan: claim.plan, id: error.id(), step: step.clone(), is_retry };
        seen.errors.push(fact);
        let retries = seen.errors.iter().filter(|fact| fact.plan == claim.plan && fact.is_retry);
        let of_plan = retries.clone().count();
        let of_step = retries.filter(|fact| fact.step == step).count();
        let holds = of_step <= policy.max_retries_per_step() as usize
            && of_plan <= policy.max_retries_per_plan() as usize;
        seen.check(Promise::ErrorsCount, holds, || {
            format!("{of_step} retries of {step:?}, {of_plan} of plan {}", claim.plan)
        });
    }

    /// A call was granted to a plan that may make `max` of them.
    pub(crate) fn observe_spend(&self, spend: &Spend, max: u64) {
        let mut seen = self.seen();
        let (plan, commit) = (spend.plan, seen.next_commit());
        seen.spends.entry(spend.id).or_insert((plan, commit));
        let granted = seen.spends.values().filter(|(of, _)| *of == plan).count() as u64;
        seen.check(Promise::LedgerHolds, granted <= max, || {
            format!("plan {plan} was granted {granted} calls of {max}")
        });
    }

    /// A step is tried, by this owner.
    pub(crate) fn observe_try(&self, claim: &Claim, node: &str) {
        let mut seen = self.seen();
        let (tries, granted) = seen.tries.entry((*claim, node.to_owned())).or_default();
        *tries += 1;
        let (tries, granted) = (*tries, *granted);
        seen.check(Promise::ErrorsCount, tries <= granted + 1, || {
            format!("{node} of plan {} is tried {tries} times with {granted} retries", claim.plan)
        });
    }
}

fn see_jobs(seen: &mut ObservedFacts, plan: PlanId, record: &PlanRecord, known: &mut ObservedPlan) {
    let live = record.jobs().filter(|job| !job.state.is_final()).count();
    seen.check(Promise::OneLiveJob, live <= 1, || format!("plan {plan} has {live} live jobs"));
    for job in record.jobs() {
        let before = known.fences.insert(job.id, job.fence);
        if before.is_some_and(|before| before > job.fence) {
            seen.record_violation(Promise::FencesHold, format!("the fence of job {} went back", job.id));
        }
    }
    let running = record.live_job().filter(|job| job.state == JobState::Running);
    if let Some(row) = record.row() {
        let is_processing = row.state.is_processing();
        let follows = running.is_some_and(|job| job.phase == row.state.phase());
        seen.check(
            Promise::OneLiveJob,
            is_processing == follows && is_processing == running.is_some(),
            || format!("plan {plan} is {} while its job is {running:?}", row.state),
        );
    }
}

fn see_events(seen: &mut ObservedFacts, plan: PlanId, events: &[EventRecord], known: &mut ObservedPlan) {
    let from = known.events.min(events.len());
    seen.check(Promise::EventsRetell, events.len() >= known.events, || {
        format!("plan {plan} had {} events and has {}", known.events, events.len())
    });
    let fresh = events.iter().zip(1..).skip(from);
    if let Some((event, n)) = fresh.clone().find(|(event, n)| event.n != *n) {
        seen.record_violation(
            Promise::EventsRetell,
            format!("event {n} of plan {plan} has the number {}", event.n),
        );
    }
    known.events = events.len();
}
