//! The ports that no test of the engine puts anything before: passed on to the in-memory store inside.

/// Implements the ports of `$store` that it does not implement itself by asking its field `inner`.
macro_rules! delegate_other_ports {
    ($store:ty) => {
        #[async_trait::async_trait]
        impl store::PlanStore for $store {
            async fn create(
                &self,
                new: domain::NewPlan,
                decisions: Vec<domain::NewDecision>,
                job: domain::NewJob,
            ) -> Result<domain::Plan, store::PlanStoreError> {
                self.inner.create(new, decisions, job).await
            }

            async fn move_plan(
                &self,
                request: store::PlanMove,
            ) -> Result<domain::Plan, store::PlanStoreError> {
                self.inner.move_plan(request).await
            }

            async fn find_plan(&self, id: domain::PlanId) -> Result<Option<domain::Plan>, store::StoreError> {
                self.inner.find_plan(id).await
            }

            async fn plans(
                &self,
                filter: &store::PlanFilter,
            ) -> Result<(Vec<domain::Plan>, usize), store::StoreError> {
                self.inner.plans(filter).await
            }

            async fn newest_plans(
                &self,
                filter: &store::PlanFilter,
            ) -> Result<Vec<domain::Plan>, store::StoreError> {
                self.inner.newest_plans(filter).await
            }

            async fn newest_plan(
                &self,
                root: Option<&[u8]>,
            ) -> Result<Option<domain::PlanId>, store::StoreError> {
                self.inner.newest_plan(root).await
            }

            async fn plans_ending(
                &self,
                ends: &std::collections::BTreeSet<String>,
            ) -> Result<Vec<domain::PlanId>, store::StoreError> {
                self.inner.plans_ending(ends).await
            }

            async fn ended_plans(
                &self,
                before: domain::WallMs,
            ) -> Result<store::FinishedPlans, store::StoreError> {
                self.inner.ended_plans(before).await
            }

            async fn plans_like(
                &self,
                prefix: &str,
                limit: usize,
            ) -> Result<Vec<domain::PlanId>, store::StoreError> {
                self.inner.plans_like(prefix, limit).await
            }

            async fn decide(
                &self,
                effect: &sync::Effect,
                claim: &domain::Claim,
                decision: domain::NewDecision,
            ) -> Result<domain::Decision, store::DecisionStoreError> {
                self.inner.decide(effect, claim, decision).await
            }

            async fn decide_all(
                &self,
                effect: &sync::Effect,
                claim: &domain::Claim,
                decisions: Vec<domain::StepDecision>,
            ) -> Result<Vec<domain::Decision>, store::DecisionStoreError> {
                self.inner.decide_all(effect, claim, decisions).await
            }

            async fn add_guidance(
                &self,
                plan: domain::PlanId,
                guidance: domain::NewDecision,
            ) -> Result<domain::Decision, store::DecisionStoreError> {
                self.inner.add_guidance(plan, guidance).await
            }

            async fn decisions(
                &self,
                plan: domain::PlanId,
            ) -> Result<Vec<domain::Decision>, store::StoreError> {
                self.inner.decisions(plan).await
            }

            async fn events(
                &self,
                plan: domain::PlanId,
                after: u64,
                limit: usize,
            ) -> Result<Vec<domain::EventRecord>, store::StoreError> {
                self.inner.events(plan, after, limit).await
            }

            async fn events_of(
                &self,
                plan: domain::PlanId,
                kind: domain::EventKind,
            ) -> Result<Vec<domain::EventRecord>, store::StoreError> {
                self.inner.events_of(plan, kind).await
            }

            async fn last_event(&self, plan: domain::PlanId) -> Result<u64, store::StoreError> {
                self.inner.last_event(plan).await
            }

            async fn forget(
                &self,
                plans: Vec<domain::PlanId>,
            ) -> Result<Vec<domain::PlanId>, store::StoreError> {
                self.inner.forget(plans).await
            }
        }

        #[async_trait::async_trait]
        impl store::CallStore for $store {
            async fn begin_call(
                &self,
                effect: &sync::Effect,
                claim: &domain::Claim,
                new: domain::NewCall,
            ) -> Result<domain::ToolCall, store::StoreError> {
                self.inner.begin_call(effect, claim, new).await
            }

            async fn end_call(
                &self,
                by: store::CallAuthority<'_>,
                claim: &domain::Claim,
                outcome: store::CallOutcome,
            ) -> Result<Vec<domain::RecordedChange>, store::ChangesetStoreError> {
                self.inner.end_call(by, claim, outcome).await
            }

            async fn calls(&self, plan: domain::PlanId) -> Result<Vec<domain::ToolCall>, store::StoreError> {
                self.inner.calls(plan).await
            }

            async fn sandbox_opened(
                &self,
                effect: &sync::Effect,
                claim: &domain::Claim,
                record: domain::SandboxRecord,
            ) -> Result<(), store::StoreError> {
                self.inner.sandbox_opened(effect, claim, record).await
            }

            async fn sandbox_closed(&self, record: domain::SandboxRecord) -> Result<(), store::StoreError> {
                self.inner.sandbox_closed(record).await
            }

            async fn sandboxes(
                &self,
                plan: domain::PlanId,
            ) -> Result<Vec<domain::SandboxRecord>, store::StoreError> {
                self.inner.sandboxes(plan).await
            }
        }

        #[async_trait::async_trait]
        impl store::NodeStore for $store {
            async fn node_waits(
                &self,
                effect: &sync::Effect,
                claim: &domain::Claim,
                wait: domain::NodeWait,
            ) -> Result<(), store::StoreError> {
                self.inner.node_waits(effect, claim, wait).await
            }

            async fn settle_nodes(
                &self,
                by: store::CallAuthority<'_>,
                claim: &domain::Claim,
                runs: Vec<domain::NodeRun>,
            ) -> Result<(), store::StoreError> {
                self.inner.settle_nodes(by, claim, runs).await
            }

            async fn node_runs(
                &self,
                plan: domain::PlanId,
            ) -> Result<Vec<domain::NodeRun>, store::StoreError> {
                self.inner.node_runs(plan).await
            }
        }

        #[async_trait::async_trait]
        impl store::ContextStore for $store {
            async fn keep_context(
                &self,
                effect: &sync::Effect,
                claim: &domain::Claim,
                record: domain::context::ContextRecord,
                text: store::StagedContent,
            ) -> Result<(), store::StoreError> {
                self.inner.keep_context(effect, claim, record, text).await
            }

            async fn contexts(
                &self,
                plan: domain::PlanId,
            ) -> Result<Vec<domain::context::ContextRecord>, store::StoreError> {
                self.inner.contexts(plan).await
            }

            async fn context(
                &self,
                id: domain::ContextId,
            ) -> Result<Option<domain::context::ContextRecord>, store::StoreError> {
                self.inner.context(id).await
            }
        }

        #[async_trait::async_trait]
        impl store::ConsentStore for $store {
            async fn consented(&self, root: &[u8], digest: &str) -> Result<bool, store::StoreError> {
                self.inner.consented(root, digest).await
            }

            async fn consent(&self, root: &[u8], digest: &str) -> Result<(), store::StoreError> {
                self.inner.consent(root, digest).await
            }

            async fn consented_roots(&self) -> Result<Vec<(Vec<u8>, usize)>, store::StoreError> {
                self.inner.consented_roots().await
            }

            async fn revoke_consents(&self, root: &[u8]) -> Result<usize, store::StoreError> {
                self.inner.revoke_consents(root).await
            }
        }

        impl store::ContentStore for $store {
            fn stage(&self, reader: &mut dyn std::io::Read) -> std::io::Result<store::StagedContent> {
                self.inner.stage(reader)
            }

            fn open_content(&self, hash: &domain::Hash) -> std::io::Result<Box<dyn std::io::Read + Send>> {
                self.inner.open_content(hash)
            }

            fn content_file(&self, hash: &domain::Hash) -> std::io::Result<Option<store::StoredFile>> {
                self.inner.content_file(hash)
            }

            fn collect(&self, dry_run: bool) -> std::io::Result<store::CollectedContents> {
                self.inner.collect(dry_run)
            }
            fn collectable(&self, without: &[domain::PlanId]) -> std::io::Result<store::CollectedContents> {
                self.inner.collectable(without)
            }
            fn give_back(&self) -> std::io::Result<store::ReclaimedSpace> {
                self.inner.give_back()
            }
        }

        #[async_trait::async_trait]
        impl store::LedgerStore for $store {
            async fn reserve(
                &self,
                effect: &sync::Effect,
                claim: &domain::Claim,
                new: domain::NewSpend,
            ) -> Result<domain::Spend, store::LedgerStoreError> {
                self.inner.reserve(effect, claim, new).await
            }

            async fn settle(
                &self,
                by: store::CallAuthority<'_>,
                claim: &domain::Claim,
                id: domain::SpendId,
                actual: u64,
            ) -> Result<domain::Spend, store::LedgerStoreError> {
                self.inner.settle(by, claim, id, actual).await
            }

            async fn begin_counted(
                &self,
                effect: &sync::Effect,
                claim: &domain::Claim,
                call: domain::NewCall,
                count_as: domain::CallCategory,
            ) -> Result<domain::ToolCall, store::LedgerStoreError> {
                self.inner.begin_counted(effect, claim, call, count_as).await
            }

            async fn keep_calls(
                &self,
                effect: &sync::Effect,
                claim: &domain::Claim,
                kept: Vec<domain::SettledCall>,
            ) -> Result<Vec<domain::ToolCall>, store::LedgerStoreError> {
                self.inner.keep_calls(effect, claim, kept).await
            }

            async fn add_spent(
                &self,
                by: store::CallAuthority<'_>,
                claim: &domain::Claim,
                kind: domain::SpendKind,
                amount: u64,
            ) -> Result<(), store::LedgerStoreError> {
                self.inner.add_spent(by, claim, kind, amount).await
            }

            async fn set_limits(
                &self,
                plan: domain::PlanId,
                limits: Vec<(domain::SpendKind, Option<u64>)>,
            ) -> Result<domain::Ledger, store::LedgerStoreError> {
                self.inner.set_limits(plan, limits).await
            }

            async fn ledger(&self, plan: domain::PlanId) -> Result<domain::Ledger, store::StoreError> {
                self.inner.ledger(plan).await
            }

            async fn spends(&self, plan: domain::PlanId) -> Result<Vec<domain::Spend>, store::StoreError> {
                self.inner.spends(plan).await
            }

            async fn day_ledger(
                &self,
                day: domain::Day,
            ) -> Result<std::collections::BTreeMap<domain::SpendKind, domain::Account>, store::StoreError>
            {
                self.inner.day_ledger(day).await
            }
        }

        #[async_trait::async_trait]
        impl store::LockStore for $store {
            async fn take_lock(
                &self,
                request: domain::LockRequest,
            ) -> Result<domain::Lock, store::LockStoreError> {
                self.inner.take_lock(request).await
            }

            async fn renew_lock(
                &self,
                lock: &domain::Lock,
                lease: std::time::Duration,
            ) -> Result<bool, store::StoreError> {
                self.inner.renew_lock(lock, lease).await
            }

            async fn release_lock(&self, lock: &domain::Lock) -> Result<(), store::StoreError> {
                self.inner.release_lock(lock).await
            }

            async fn locks(&self) -> Result<Vec<domain::Lock>, store::StoreError> {
                self.inner.locks().await
            }
        }

        #[async_trait::async_trait]
        impl store::ApplyStore for $store {
            async fn seal_apply(
                &self,
                effect: &sync::Effect,
                claim: &domain::Claim,
                new: domain::NewApply,
            ) -> Result<(), store::JobStoreError> {
                self.inner.seal_apply(effect, claim, new).await
            }

            async fn begin_apply(&self, new: domain::NewApply) -> Result<(), store::StoreError> {
                self.inner.begin_apply(new).await
            }

            async fn end_apply(
                &self,
                id: domain::ApplyId,
                end: domain::ApplyEnd,
            ) -> Result<bool, store::StoreError> {
                self.inner.end_apply(id, end).await
            }

            async fn applies(
                &self,
                plan: domain::PlanId,
            ) -> Result<Vec<domain::ApplyRecord>, store::StoreError> {
                self.inner.applies(plan).await
            }

            async fn open_applies(&self) -> Result<Vec<domain::ApplyRecord>, store::StoreError> {
                self.inner.open_applies().await
            }

            async fn apply(
                &self,
                id: domain::ApplyId,
            ) -> Result<Option<domain::ApplyRecord>, store::StoreError> {
                self.inner.apply(id).await
            }
        }
    };
}
