//! The fence: whoever does not own the job writes nothing, whatever it tries and whatever claim it shows.
//!
//! Every promise tries every write of an owner, and compares all that the store tells before and after.

use domain::{
    ApplyKind, CallNumber, ChangesetEnding, ChangesetError, ChangesetId, Claim, ClaimRequest, ErrorCategory,
    Fence, Hash, JobId, JobState, JobTransitionRejection, LeaseLost, NewJob, NodeOutcome, PlanId,
    RecoveryPolicy, SpendId,
};
use store::{
    ChangesetStoreError, DecisionStoreError, JobEnd, JobStoreError, LedgerStoreError, StagedContent,
    StoreError,
};

use super::bench::{Bench, Owner, constrained, failed, outcome};
use super::contexts::context;
use super::sample::{
    ANN, BOB, LEASE, STRANGER, an_apply, change, changeset_id, decision, error, job_id, new_apply, new_call,
    node_run, plan_id, request, sandbox, spend,
};

/// A write that only the owner of a job may do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Write {
    Start(ChangesetId),
    Record(ChangesetId, u64),
    RecordLatest(u64),
    Close(ChangesetId),
    Finish(ChangesetEnding),
    RecordError(u64),
    Heartbeat,
    SettledNode,
    Seal,
    Succeed,
    Fail,
    AcknowledgeCancel,
    Release,
    Constrain,
    Decide,
    DecideAll,
    SettleNodes,
    KeepContext,
    BeginCall,
    EndCall(u32),
    OpenSandbox,
    SealApply,
    Reserve(u64),
    Settle(u64),
}

/// The number of what is in the store before the writes are tried, and of what is not.
const KNOWN: u64 = 1;
const NEW: u64 = 99;
const KNOWN_CALL: u32 = 1;
const NEW_CALL: u32 = 99;

/// All of them; those that have a name, with one that the store knows and with one that it does not.
fn all_writes() -> Vec<Write> {
    let (known, new) = (changeset_id(KNOWN), changeset_id(NEW));
    vec![
        Write::Start(known),
        Write::Start(new),
        Write::Record(known, KNOWN),
        Write::Record(known, NEW),
        Write::Record(new, NEW),
        Write::RecordLatest(KNOWN),
        Write::RecordLatest(NEW),
        Write::Close(known),
        Write::Close(new),
        Write::Finish(ChangesetEnding::Closed),
        Write::Finish(ChangesetEnding::Interrupted),
        Write::RecordError(KNOWN),
        Write::RecordError(NEW),
        Write::Heartbeat,
        Write::SettledNode,
        Write::Seal,
        Write::Succeed,
        Write::Fail,
        Write::AcknowledgeCancel,
        Write::Release,
        Write::Constrain,
        Write::Decide,
        Write::DecideAll,
        Write::SettleNodes,
        Write::KeepContext,
        Write::BeginCall,
        Write::EndCall(KNOWN_CALL),
        Write::EndCall(NEW_CALL),
        Write::OpenSandbox,
        Write::SealApply,
        Write::Reserve(KNOWN),
        Write::Reserve(NEW),
        Write::Settle(KNOWN),
        Write::Settle(NEW),
    ]
}

#[derive(Debug, PartialEq)]
enum Refusal {
    Changeset(ChangesetError),
    Job(JobStoreError),
    Store(StoreError),
    Ledger(LedgerStoreError),
}

impl From<ChangesetStoreError> for Refusal {
    fn from(error: ChangesetStoreError) -> Self {
        match error {
            ChangesetStoreError::Changeset(error) => Self::Changeset(error),
            ChangesetStoreError::Store(error) => Self::Store(error),
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<DecisionStoreError> for Refusal {
    fn from(error: DecisionStoreError) -> Self {
        match error {
            DecisionStoreError::Store(error) => Self::Store(error),
            other => panic!("{other}"),
        }
    }
}

impl From<LedgerStoreError> for Refusal {
    fn from(error: LedgerStoreError) -> Self {
        match error {
            LedgerStoreError::Store(error) => Self::Store(error),
            other => Self::Ledger(other),
        }
    }
}

impl From<JobStoreError> for Refusal {
    fn from(error: JobStoreError) -> Self {
        match error {
            JobStoreError::Store(error) => Self::Store(error),
            other => Self::Job(other),
        }
    }
}

impl Write {
    async fn by(self, owner: &Owner) -> Result<(), Refusal> {
        match self {
            Self::Start(id) => owner.start(id).await.map(drop)?,
            Self::Record(id, n) => owner.record(id, &change(n)).await.map(drop)?,
            Self::RecordLatest(n) => owner.record_latest(&change(n)).await.map(drop)?,
            Self::Close(id) => owner.close(id).await.map(drop)?,
            Self::Finish(how) => owner.finish(how).await.map(drop)?,
            Self::RecordError(n) => {
                let error = error(n, ErrorCategory::Timeout);
                owner.record_error(&RecoveryPolicy::default(), &error).await.map(drop)?;
            }
            Self::Heartbeat => owner.heartbeat().await.map(drop)?,
            Self::SettledNode => owner.settled_node().await?,
            Self::Seal => owner.seal().await?,
            Self::Succeed => owner.end(JobEnd::Succeeded).await.map(drop)?,
            Self::Fail => owner.end(failed()).await.map(drop)?,
            Self::AcknowledgeCancel => owner.end(JobEnd::Cancelled).await.map(drop)?,
            Self::Release => owner.release().await.map(drop)?,
            Self::Constrain => owner.end(constrained()).await.map(drop)?,
            Self::Decide => owner.decide(decision("so")).await.map(drop)?,
            Self::DecideAll => owner.decide_all(vec![decision("so").into(); 2]).await.map(drop)?,
            Self::SettleNodes => {
                owner.settle_nodes(vec![node_run("code", NodeOutcome::Succeeded, 7)]).await?
            }
            Self::KeepContext => {
                let text = StagedContent {
                    hash: Hash::from_content(b"t"),
                    size: 1,
                    text: true,
                    bytes: Some(b"t".to_vec()),
                };
                owner.keep_context(context(NEW, "t"), text).await?
            }
            Self::BeginCall => owner.begin_call(new_call(1, "execute")).await.map(drop)?,
            Self::EndCall(no) => {
                let outcome = outcome(no, changeset_id(KNOWN), vec![change(NEW)]);
                owner.end_call(outcome).await.map(drop)?;
            }
            Self::OpenSandbox => owner.sandbox_opened(sandbox(1, 1)).await?,
            Self::SealApply => owner.seal_apply(an_apply(1, 1, ApplyKind::Apply)).await?,
            Self::Reserve(n) => owner.reserve(spend(n, 1)).await.map(drop)?,
            Self::Settle(n) => owner.settle(SpendId::from_u128(n.into()), 1).await.map(drop)?,
        }
        Ok(())
    }

    /// Returns whether it moves the job itself, and so may be refused by the rules of jobs.
    fn is_of_the_job(self) -> bool {
        match self {
            Self::Start(_)
            | Self::Record(..)
            | Self::RecordLatest(_)
            | Self::Close(_)
            | Self::Finish(_)
            | Self::RecordError(_)
            | Self::Decide
            | Self::DecideAll
            | Self::SettleNodes
            | Self::KeepContext
            | Self::BeginCall
            | Self::EndCall(_)
            | Self::OpenSandbox
            | Self::Reserve(_)
            | Self::Settle(_) => false,
            Self::Heartbeat
            | Self::SettledNode
            | Self::Seal
            | Self::Succeed
            | Self::Fail
            | Self::AcknowledgeCancel
            | Self::Release
            | Self::Constrain
            | Self::SealApply => true,
        }
    }
}

fn lease_lost(claim: Claim) -> Result<(), Refusal> {
    let Claim { job, fence, .. } = claim;
    Err(Refusal::Store(LeaseLost { job, fence }.into()))
}

/// Tries every write under `claim`: each is answered as `expected` says, and nothing moves.
async fn writes_nothing(bench: &Bench, claim: Claim, expected: impl Fn(Write) -> Result<(), Refusal>) {
    let before = bench.snapshot().await;
    let owner = bench.as_owner(claim);
    for write in all_writes() {
        assert_eq!(write.by(&owner).await, expected(write), "{write:?} under {claim:?}");
        assert_eq!(bench.snapshot().await, before, "{write:?} under {claim:?}");
    }
}

/// Ann applies plan 1, with a changeset open that has an entry, with an error, with a call that runs
/// and with something reserved.
async fn busy_owner(bench: &Bench) -> Owner {
    let owner = bench.owner_of(new_apply(1)).await;
    for write in [
        Write::Start(changeset_id(KNOWN)),
        Write::Record(changeset_id(KNOWN), KNOWN),
        Write::RecordError(KNOWN),
        Write::BeginCall,
        Write::Reserve(KNOWN),
    ] {
        assert_eq!(write.by(&owner).await, Ok(()));
    }
    owner
}

pub(crate) async fn the_owner_may_write(bench: Bench) {
    // Each in a store of its own: this is what the other promises take away.
    for write in all_writes() {
        let bench = bench.another();
        let owner = busy_owner(&bench).await;
        if write == Write::AcknowledgeCancel {
            bench.store.cancel(job_id(1), "enough").await.unwrap();
        }
        let id = changeset_id(NEW);
        let expected = match write {
            Write::Record(named, _) | Write::Close(named) if named == id => {
                Err(Refusal::Changeset(ChangesetError::UnknownChangeset { id }))
            }
            Write::EndCall(NEW_CALL) => {
                let no = CallNumber(NEW_CALL);
                Err(Refusal::Changeset(ChangesetError::UnknownCall { attempt: 1, no }))
            }
            Write::Settle(NEW) => {
                let spend = SpendId::from_u128(NEW.into());
                Err(Refusal::Ledger(LedgerStoreError::NotReserved { spend }))
            }
            _ => Ok(()),
        };
        assert_eq!(write.by(&owner).await, expected, "{write:?}");
    }
}

pub(crate) async fn an_owner_that_was_replaced_writes_nothing(bench: Bench) {
    let old = busy_owner(&bench).await;
    bench.pass(LEASE);
    let new = bench.as_owner(bench.claim(request(BOB)).await.unwrap().claim());
    // The new owner has something open that the old one must not reach.
    assert_eq!(Write::Start(changeset_id(2)).by(&new).await, Ok(()));
    assert_eq!((old.claim.fence, new.claim.fence), (Fence(1), Fence(2)));
    writes_nothing(&bench, old.claim, |_| lease_lost(old.claim)).await;
    assert_eq!(Write::RecordLatest(NEW).by(&new).await, Ok(()), "and the new one goes on");
}

pub(crate) async fn a_fence_that_was_never_given_writes_nothing(bench: Bench) {
    let owner = busy_owner(&bench).await;
    for fence in [Fence::NONE, Fence(2), Fence(1 << 32 | 1)] {
        let claim = Claim { fence, ..owner.claim };
        writes_nothing(&bench, claim, |_| lease_lost(claim)).await;
    }
}

pub(crate) async fn nobody_writes_for_a_job_that_waits(bench: Bench) {
    let fresh = bench.enqueue(new_apply(2)).await.claim();
    let released = busy_owner(&bench).await;
    released.release().await.unwrap();
    writes_nothing(&bench, fresh, |_| lease_lost(fresh)).await;
    // It still shows the fence of its last owner, which may ask for its release again, and for nothing else.
    let last = released.claim;
    writes_nothing(&bench, last, |write| if write == Write::Release { Ok(()) } else { lease_lost(last) })
        .await;
}

/// The end of a job, and the write that ends it so.
const ENDS: [(JobState, Write); 4] = [
    (JobState::Succeeded, Write::Succeed),
    (JobState::Failed, Write::Fail),
    (JobState::Failed, Write::Constrain),
    (JobState::Cancelled, Write::AcknowledgeCancel),
];

pub(crate) async fn nobody_writes_for_a_job_that_has_ended(bench: Bench) {
    for (state, end) in ENDS {
        let bench = bench.another();
        let owner = busy_owner(&bench).await;
        if end == Write::AcknowledgeCancel {
            bench.store.cancel(job_id(1), "enough").await.unwrap();
        }
        assert_eq!(end.by(&owner).await, Ok(()));
        writes_nothing(&bench, owner.claim, |write| {
            if write == end {
                // Asked for again, it is answered again.
                Ok(())
            } else if write.is_of_the_job() {
                Err(Refusal::Job(JobStoreError::Refused(JobTransitionRejection::Final { state })))
            } else {
                lease_lost(owner.claim)
            }
        })
        .await;
        let stale = Claim { fence: Fence::NONE, ..owner.claim };
        writes_nothing(&bench, stale, |_| lease_lost(stale)).await;
    }
}

pub(crate) async fn the_next_job_of_a_plan_is_not_open_to_the_owner_of_the_last(bench: Bench) {
    let last = busy_owner(&bench).await;
    last.end(JobEnd::Succeeded).await.unwrap();
    let next = NewJob { plan: plan_id(1), ..new_apply(2) };
    let next = bench.owner_of(next).await;
    assert_eq!(Write::Start(changeset_id(2)).by(&next).await, Ok(()));
    assert_eq!(last.claim.fence, next.claim.fence, "only the job tells them apart");
    let state = JobState::Succeeded;
    writes_nothing(&bench, last.claim, |write| match write {
        Write::Succeed => Ok(()),
        _ if write.is_of_the_job() => {
            Err(Refusal::Job(JobStoreError::Refused(JobTransitionRejection::Final { state })))
        }
        _ => lease_lost(last.claim),
    })
    .await;
}

pub(crate) async fn a_claim_of_no_job_of_the_plan_writes_nothing(bench: Bench) {
    let first = busy_owner(&bench).await.claim;
    bench.enqueue(new_apply(2)).await;
    let only = Some(plan_id(2));
    let second = bench.claim(ClaimRequest { only, ..request(ANN) }).await.unwrap().claim();
    let claim = |plan: PlanId, job: JobId| Claim { plan, job, fence: Fence(1) };
    for claim in [claim(first.plan, job_id(9)), claim(first.plan, second.job), claim(second.plan, first.job)]
    {
        writes_nothing(&bench, claim, |_| lease_lost(claim)).await;
    }
}

pub(crate) async fn a_claim_of_no_plan_writes_nothing(bench: Bench) {
    let owner = busy_owner(&bench).await;
    for job in [owner.claim.job, job_id(9)] {
        let claim = Claim { plan: STRANGER, job, ..owner.claim };
        writes_nothing(&bench, claim, |_| lease_lost(claim)).await;
    }
    assert_eq!(bench.changesets(STRANGER).await, []);
    assert_eq!(bench.history(STRANGER).await.recorded(), 0);
}
