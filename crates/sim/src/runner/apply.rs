//! From a plan's changes to the user's files: locks, merge, journal, seal, writes; as the engine carries an
//! apply.
//!
//! # How it goes
//! 1. The rows of plan and project are locked, and the project's root by the kernel.
//! 2. An interrupted apply is brought to its end first.
//! 3. Every file is compared with what the plan began from. Any conflict ends it here: nothing was written.
//! 4. The journal is written, the store seals, the commit mark is synced; then the files are written.
//! 5. If the user changed a file meanwhile, all of it is rolled back and begun again at 3, a few times.

use std::sync::Arc;
use std::time::Duration;

use ::worker::JobRun;
use domain::{
    ApplyEnd, ApplyId, ApplyKind, ApplyState, ConstraintReason, ErrorCategory, Hash, Lock, LockRequest,
    LockResource, NewApply, Plan, PlanState, net_hash,
};
use serde_json::Value;
use store::{ApplyStore, ChangesetStore, JobStoreError, LockStore, LockStoreError, PlanStore, StoreError};
use sync::Clock;

use super::execute::{file_of, net_of};
use super::{PhaseStop, SimRunner};
use crate::broken_programs::BrokenProgram;
use crate::housekeeping;
use crate::machine::{Journal, JournalEnd, SimJournalEntry, value_of};
use crate::world::SimWorld;

const TRIES_MAX: u32 = 3;
const ROW_LEASE: Duration = Duration::from_secs(2);
const RENEW_EVERY: Duration = Duration::from_millis(500);
/// Shorter than in the program, so that what comes after it is seen too.
const LOCK_WAIT: Duration = Duration::from_secs(4);
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// The kernel's lock on the project; it goes with the process that has it.
pub(crate) struct SimRootLock {
    world: Arc<SimWorld>,
    taking: u64,
}

impl SimRootLock {
    pub(crate) fn try_take(world: &Arc<SimWorld>, group: crate::executor::TaskGroup) -> Option<Self> {
        let taking = world.machine().lock_root(group)?;
        Some(Self { world: Arc::clone(world), taking })
    }
}

impl Drop for SimRootLock {
    fn drop(&mut self) {
        self.world.machine().unlock_root(self.taking);
    }
}

enum ApplyAttempt {
    Done,
    ChangedUnderUs,
}

impl SimRunner {
    pub(super) async fn apply(&self, run: &JobRun, plan: &Plan) -> Result<(), PhaseStop> {
        let entries = self.store.entries(plan.id, plan.attempt).await?;
        let net = net_of(&entries);
        if net.is_empty() {
            return Err(PhaseStop::failed(ErrorCategory::InvalidInput, "nothing to apply"));
        }
        let changes: Vec<SimJournalEntry> = net
            .iter()
            .map(|change| SimJournalEntry {
                file: file_of(&change.path),
                before: value_of(change.before),
                after: value_of(change.after),
            })
            .collect();
        let rows = self.take_rows(plan).await?;
        let carried = tokio::select! {
            biased;
            carried = self.carry(run, plan, &changes, net_hash(&net)) => carried,
            () = self.renew(&rows) => Err(PhaseStop::Cancelled),
        };
        self.release(&rows).await;
        carried
    }

    async fn take_rows(&self, plan: &Plan) -> Result<Vec<Lock>, PhaseStop> {
        let deadline = self.world.clock.now().saturating_add(LOCK_WAIT);
        let owner = format!("apply of plan {} {:x}", plan.id, self.ids.ulid());
        let mut rows = Vec::new();
        for resource in [LockResource::Plan(plan.id), LockResource::Project(Hash::from_bytes([7; 32]))] {
            let lease = match self.world.is_broken(BrokenProgram::LeakedLock) {
                true => Duration::from_secs(1_000_000),
                false => ROW_LEASE,
            };
            let request = LockRequest { resource, owner: owner.clone(), boot: self.world.boot(), lease };
            loop {
                match self.store.take_lock(request.clone()).await {
                    Ok(row) => break rows.push(row),
                    Err(LockStoreError::Held(_)) if self.world.clock.now() < deadline => {
                        self.world.clock.sleep(LOOK_EVERY).await;
                    }
                    Err(error) => {
                        self.release(&rows).await;
                        return Err(error.into());
                    }
                }
            }
        }
        Ok(rows)
    }

    async fn renew(&self, rows: &[Lock]) {
        loop {
            self.world.clock.sleep(RENEW_EVERY).await;
            for row in rows {
                let _ = self.store.renew_lock(row, ROW_LEASE).await;
            }
        }
    }

    async fn release(&self, rows: &[Lock]) {
        if self.world.is_broken(BrokenProgram::LeakedLock) {
            return;
        }
        for row in rows {
            let _ = self.store.release_lock(row).await;
        }
    }

    async fn lock_root(&self) -> Result<SimRootLock, PhaseStop> {
        let deadline = self.world.clock.now().saturating_add(LOCK_WAIT);
        loop {
            self.tick().await;
            if let Some(lock) = SimRootLock::try_take(&self.world, self.group) {
                return Ok(lock);
            }
            if self.world.clock.now() >= deadline {
                return Err(PhaseStop::failed(ErrorCategory::Sandbox, "the project is locked"));
            }
            self.world.clock.sleep(LOOK_EVERY).await;
        }
    }

    async fn carry(
        &self,
        run: &JobRun,
        plan: &Plan,
        changes: &[SimJournalEntry],
        net: Hash,
    ) -> Result<(), PhaseStop> {
        let root = self.lock_root().await?;
        housekeeping::recover(&self.world, self.group, &self.store, &root).await?;
        let now = self.store.plan(plan.id).await?;
        if now.state == PlanState::Apply(ApplyState::Applied) {
            return Ok(());
        }
        for _ in 0..TRIES_MAX {
            self.tick().await;
            let (due, conflicts) = self.merge(changes);
            if !conflicts.is_empty() {
                return Err(PhaseStop::Constrained(conflicts));
            }
            match self.attempt(run, plan, due, net).await? {
                ApplyAttempt::Done => return Ok(()),
                ApplyAttempt::ChangedUnderUs => {}
            }
        }
        Err(PhaseStop::Constrained(changes.iter().take(1).map(conflict).collect()))
    }

    /// Returns the files to write, and the conflicts.
    fn merge(&self, changes: &[SimJournalEntry]) -> (Vec<SimJournalEntry>, Vec<ConstraintReason>) {
        let machine = self.world.machine();
        let (mut due, mut conflicts) = (Vec::new(), Vec::new());
        for change in changes {
            match machine.files.value(change.file) {
                now if now == change.after => {}
                now if now == change.before => due.push(*change),
                _ => conflicts.push(conflict(change)),
            }
        }
        (due, conflicts)
    }

    /// One journal, from its first frame to the store's word.
    async fn attempt(
        &self,
        run: &JobRun,
        plan: &Plan,
        changes: Vec<SimJournalEntry>,
        net: Hash,
    ) -> Result<ApplyAttempt, PhaseStop> {
        let id = ApplyId::from_u128(self.ids.ulid());
        let full = || PhaseStop::failed(ErrorCategory::Sandbox, "no space for the journal");
        self.tick().await;
        {
            let mut machine = self.world.machine();
            if machine.is_full {
                return Err(full());
            }
            let journal = Journal { plan: plan.id, changes: changes.clone(), is_committed: false, end: None };
            machine.journals.insert(id, journal);
        }
        let files: Vec<u32> = changes.iter().map(|change| change.file).collect();
        if let Err(stopped) = self.seal(run, plan, id, net).await {
            self.tick().await;
            self.world.machine().retire(id, JournalEnd::NeverBegan { files });
            return Err(stopped);
        }
        self.tick().await;
        if let Some(journal) = self.world.machine().journals.get_mut(&id) {
            journal.is_committed = true;
        }
        for change in &changes {
            self.world.pass_a_moment().await;
            self.store.between_writes().await;
            self.tick().await;
            self.world.watch.observe_effect(plan.id, "an applied file");
            if !self.world.machine().carry_out(id, *change) {
                let end = {
                    let mut machine = self.world.machine();
                    let end = JournalEnd::TakenBack { left: machine.take_back(id), files };
                    machine.mark(id, &end);
                    end
                };
                self.store.end_apply(id, ApplyEnd::NeverBegan).await?;
                self.tick().await;
                self.world.machine().retire(id, end);
                return Ok(ApplyAttempt::ChangedUnderUs);
            }
        }
        self.store.between_writes().await;
        self.tick().await;
        let end = JournalEnd::Applied { files };
        {
            let mut machine = self.world.machine();
            machine.sync_all(&changes);
            machine.mark(id, &end);
        }
        self.store.end_apply(id, ApplyEnd::Applied).await?;
        self.tick().await;
        self.world.machine().retire(id, end);
        Ok(ApplyAttempt::Done)
    }

    async fn seal(&self, run: &JobRun, plan: &Plan, id: ApplyId, net: Hash) -> Result<(), PhaseStop> {
        let effect = run.enter()?;
        let new = NewApply {
            id,
            plan: plan.id,
            kind: ApplyKind::Apply,
            net_hash: net,
            selection: Value::Null,
            summary: Value::Null,
        };
        match self.store.seal_apply(&effect, &run.claim(), new).await {
            Ok(()) => Ok(()),
            Err(JobStoreError::Store(StoreError::LeaseLost(_)) | JobStoreError::Refused(_)) => {
                Err(PhaseStop::Cancelled)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn conflict(change: &SimJournalEntry) -> ConstraintReason {
    ConstraintReason {
        kind: "conflict".to_owned(),
        subject: format!("f{}", change.file),
        message: "both sides changed it".to_owned(),
    }
}
