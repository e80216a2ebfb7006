//! The port for what plans spend: reserved before, settled after, never above a limit.

use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{
    Account, CallCategory, Claim, Day, ErrorClass, Ledger, LimitReached, LimitTooLow, NewCall, NewSpend,
    PlanId, ReserveError, SettledCall, Spend, SpendId, SpendKind, ToolCall,
};
use sync::Effect;

use crate::StoreError;
use crate::call_store::{CallAuthority, CallStore};

/// The reason why nothing was reserved, settled or allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerStoreError {
    /// A limit says no.
    #[error(transparent)]
    Limit(#[from] LimitReached),
    /// A limit that is to be set is below what was used already.
    #[error(transparent)]
    TooLow(#[from] LimitTooLow),
    /// The id names another spend of the plan already.
    #[error("the spend {spend} already exists with other values")]
    IdTaken {
        /// The id.
        spend: SpendId,
    },
    /// Nothing was reserved under this id.
    #[error("there is no reservation {spend}")]
    NotReserved {
        /// The id.
        spend: SpendId,
    },
    /// Nothing is stored of such a plan.
    #[error("there is no plan {plan}")]
    NotFound {
        /// The one that was asked for.
        plan: PlanId,
    },
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LedgerStoreError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Limit(reached) => reached.class(),
            Self::TooLow(_) | Self::NotFound { .. } => ErrorClass::Permanent,
            Self::IdTaken { .. } | Self::NotReserved { .. } => ErrorClass::Bug,
            Self::Store(error) => error.class(),
        }
    }
}

impl From<ReserveError> for LedgerStoreError {
    fn from(error: ReserveError) -> Self {
        match error {
            ReserveError::LeaseLost(lost) => Self::Store(lost.into()),
            ReserveError::Limit(reached) => Self::Limit(reached),
            ReserveError::IdTaken { spend } => Self::IdTaken { spend },
        }
    }
}

/// Stores accounts and spends.
///
/// An account begins with the limit that its plan was made with
/// ([`PlanSpec::limit`](domain::PlanSpec::limit)). Every step that takes a job from its owner (takeover,
/// release, every end) settles the open spends of the owner. Each is settled at the reserved amount and
/// marked as assumed.
#[async_trait]
pub trait LedgerStore: CallStore {
    /// Reserves what the owner is about to spend, in all accounts or in none. The same id again, also under a
    /// later claim, returns the same spend unchanged; nothing is reserved twice.
    async fn reserve(&self, effect: &Effect, claim: &Claim, new: NewSpend)
    -> Result<Spend, LedgerStoreError>;

    /// Settles a spend with what it came to, at most what was reserved; 0 when it did not take place. Settled
    /// already, it stays as it was, and that is the answer.
    async fn settle(
        &self,
        by: CallAuthority<'_>,
        claim: &Claim,
        id: SpendId,
        actual: u64,
    ) -> Result<Spend, LedgerStoreError>;

    /// Admits a call as [`CallStore::begin_call`] does, and counts it; or, when a limit says no, neither.
    async fn begin_counted(
        &self,
        effect: &Effect,
        claim: &Claim,
        call: NewCall,
        count_as: CallCategory,
    ) -> Result<ToolCall, LedgerStoreError>;

    /// Stores calls that have ended and changed nothing, with the nodes that they settle, and counts them. If
    /// a limit refuses one of them, none is stored. Such a call needs no row before it begins: an owner that
    /// finds none makes it again, and no harm is done.
    async fn keep_calls(
        &self,
        effect: &Effect,
        claim: &Claim,
        kept: Vec<SettledCall>,
    ) -> Result<Vec<ToolCall>, LedgerStoreError>;

    /// Adds what was spent and cannot be refused, up to the limit: the time of a run. Asked twice it is added
    /// twice.
    async fn add_spent(
        &self,
        by: CallAuthority<'_>,
        claim: &Claim,
        kind: SpendKind,
        amount: u64,
    ) -> Result<(), LedgerStoreError>;

    /// Sets limits of a plan, all or none. This is a person's doing and needs no claim.
    async fn set_limits(
        &self,
        plan: PlanId,
        limits: Vec<(SpendKind, Option<u64>)>,
    ) -> Result<Ledger, LedgerStoreError>;

    /// The accounts of a plan; none for an unknown one.
    async fn ledger(&self, plan: PlanId) -> Result<Ledger, StoreError>;

    /// The spends of a plan in order of id; none for an unknown one.
    async fn spends(&self, plan: PlanId) -> Result<Vec<Spend>, StoreError>;

    /// Returns the accounts of all plans for a day, also of those that are forgotten. The limit is the one
    /// that was last asked with.
    async fn day_ledger(&self, day: Day) -> Result<BTreeMap<SpendKind, Account>, StoreError>;
}
