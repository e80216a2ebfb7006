//! The checks that came with a project: run only if the user trusts what they run, at that project's place.
//!
//! # Invariants
//! Trust is found by the digest of what the plan has frozen, never by what a file of the project says now.
//!
//! # Not here
//! How the user is asked, and what else needs a yes: `app`. The stored answers: [`store::ConsentStore`].

use domain::{Hash, Plan, Validation, ValidationResult, ValidationSummary, sum_up};
use store::StoreError;

use crate::engine::EngineInner;

impl EngineInner {
    /// Returns whether a check of a plan may be run: it is the user's own, or the user trusts it.
    pub(crate) async fn may_run_check(&self, plan: &Plan, check: &Validation) -> Result<bool, StoreError> {
        if !check.needs_trust {
            return Ok(true);
        }
        let project = plan.projects.get(usize::from(check.root.0));
        match project {
            Some(project) => self.store.consented(project.root.as_bytes(), &check.content_digest()).await,
            None => Ok(false),
        }
    }

    /// Sums up the checks of a plan for the changes with this hash, and names those that wait for trust or
    /// got it since.
    pub(crate) async fn sum_up_checks(
        &self,
        plan: &Plan,
        results: &[ValidationResult],
        net_hash: &Hash,
    ) -> Result<ValidationSummary, StoreError> {
        let mut summary = sum_up(&plan.spec.all_checks(), results, net_hash);
        let present = net_hash.to_string();
        for check in plan.spec.validations.iter().filter(|check| check.needs_trust) {
            let has_run =
                |result: &ValidationResult| result.validation == check.name && result.net_hash == present;
            if results.iter().any(has_run) {
                continue;
            }
            let may_run = self.may_run_check(plan, check).await?;
            let names = if may_run { &mut summary.trusted_since } else { &mut summary.untrusted };
            names.push(check.name.clone());
        }
        Ok(summary)
    }
}
