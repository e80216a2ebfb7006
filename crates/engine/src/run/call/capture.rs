//! The third step of a call: scans the sandbox for what it changed, puts that back, or stores its logs. For
//! the call that is alone in the sandbox.

use std::path::Path;
use std::sync::Arc;

use domain::{
    CaptureOmissions, ErrorCategory, NodePath, OmissionKind, OmittedPart, PathChange, Plan, PlanStep,
    RelPath, RootIndex, StoredOutput, carriers,
};
use sandbox::capture::{LeftOutExample, LeftOutReason};
use sandbox::descriptors::with_room;
use sandbox::{CaptureRules, CapturedChange};

use super::sandbox_call::{CallMark, ChangeDisposition, SandboxCall, SandboxUse};
use crate::engine::EngineInner;
use crate::run::context::NodeContext;
use crate::run::plan_sandbox::blocking;
use crate::run::plan_sandbox::content::Staging;
use crate::run::plan_sandbox::location::log_dir;
use crate::run::state::SandboxSession;
use crate::run::{RunError, sandbox_category};

impl SandboxCall {
    /// Captures what it changed, and returns where. Once nothing of it is alive, once is enough.
    ///
    /// # Errors
    /// The files cannot be read.
    pub(crate) async fn capture(
        &mut self,
        context: &NodeContext<'_>,
    ) -> Result<Vec<(RootIndex, RelPath)>, RunError> {
        let SandboxUse::Marked { is_captured, .. } = &mut self.work else { return Ok(Vec::new()) };
        let mut place = Arc::clone(&context.state.session).lock_owned().await;
        let (is_done, node) = (*is_captured, self.call.new.node.clone());
        let paths = blocking(move || {
            let session = place.as_mut().ok_or(RunError::Cancelled)?;
            if !is_done {
                scan(session, &node)?;
            }
            Ok::<_, RunError>(changed_paths(&session.found))
        })
        .await??;
        *is_captured = true;
        Ok(paths)
    }

    /// Captures what it changed, puts that back and returns where it was.
    ///
    /// # Errors
    /// The files cannot be read or written.
    pub(crate) async fn put_back(
        &mut self,
        context: &NodeContext<'_>,
    ) -> Result<Vec<(RootIndex, RelPath)>, RunError> {
        let paths = self.capture(context).await?;
        if !paths.is_empty() {
            let mut place = Arc::clone(&context.state.session).lock_owned().await;
            blocking(move || place.as_mut().map_or(Err(RunError::Cancelled), put_back)).await??;
        }
        Ok(paths)
    }
}

/// The changes and logs that a stopped call left in the sandbox.
pub(crate) struct CallLeftovers {
    pub(crate) changes: Vec<CapturedChange>,
    pub(crate) outputs: [Option<StoredOutput>; 2],
}

impl CallLeftovers {
    /// Captures them. From a retained sandbox it captures nothing but the logs, because a later capture takes
    /// its changes as a whole.
    pub(crate) fn capture(
        engine: &EngineInner,
        session: &mut SandboxSession,
        mark: &CallMark,
    ) -> Result<CallLeftovers, RunError> {
        if session.kept.is_none() {
            scan(session, &mark.call.new.node)?;
        }
        let changes = match (&mark.changes, session.kept.is_some()) {
            (ChangeDisposition::Recorded(_), false) => session.found.clone(),
            (ChangeDisposition::PutBack, false) => {
                put_back(session)?;
                Vec::new()
            }
            (ChangeDisposition::Recorded(_) | ChangeDisposition::PutBack, true) => Vec::new(),
        };
        Ok(CallLeftovers { changes, outputs: Self::logs(engine, session, mark) })
    }

    /// Returns the content of its logs, without changes.
    pub(crate) fn of_logs(engine: &EngineInner, session: &SandboxSession, mark: &CallMark) -> CallLeftovers {
        CallLeftovers { changes: Vec::new(), outputs: Self::logs(engine, session, mark) }
    }

    fn logs(engine: &EngineInner, session: &SandboxSession, mark: &CallMark) -> [Option<StoredOutput>; 2] {
        let logs = log_dir(session.sandbox.dir(), mark.call.no);
        ["stdout", "stderr"].map(|name| store_log(engine, &session.staging, &logs.join(name)))
    }
}

/// Adds what changed since the last look to what was found. `node` is that of the call that changed it.
pub(crate) fn scan(session: &mut SandboxSession, node: &str) -> Result<(), RunError> {
    let rules = rules(session, node);
    let (sandbox, staging) = (&mut session.sandbox, &session.staging);
    let captured = with_room(|| false, || sandbox.scan(staging.as_ref(), &rules))
        .map_err(|error| RunError::failed(sandbox_category(&error), error))?;
    let left_out = captured.not_captured;
    session.record.not_captured = CaptureOmissions {
        scratch: left_out.scratch,
        protected: left_out.protected,
        special: left_out.special,
        patterns_left_out: captured.patterns_left_out,
        set_id: left_out.set_id,
        attributes: left_out.attributes,
        hard_links: left_out.hard_links,
        repository: left_out.repository,
        root_modes: left_out.root_modes,
        named: captured.examples.iter().map(|example| left_out_part(&session.plan, example)).collect(),
    };
    session.found.extend(captured.drafts);
    Ok(())
}

/// Returns the part of the sandbox that was left out.
fn left_out_part(plan: &Plan, example: &LeftOutExample) -> OmittedPart {
    let kind = match example.why {
        LeftOutReason::Scratch => OmissionKind::Scratch,
        LeftOutReason::Protected => OmissionKind::Protected,
        LeftOutReason::Special => OmissionKind::Special,
        LeftOutReason::SetId => OmissionKind::SetId,
        LeftOutReason::Attribute => OmissionKind::Attribute,
        LeftOutReason::HardLink => OmissionKind::HardLink,
        LeftOutReason::Repository => OmissionKind::Repository,
        LeftOutReason::RootMode => OmissionKind::RootMode,
    };
    let at = example.path.as_ref().map_or_else(|| ".".to_owned(), RelPath::to_string);
    let project = plan.projects.get(usize::from(example.root.0)).filter(|_| plan.projects.len() > 1);
    let path = match project {
        Some(project) => format!("{}:{at}", project.alias),
        None => at,
    };
    OmittedPart { kind, path, what: example.what.clone() }
}

/// Returns the changed paths among the found changes. Directories that only hold other new files are
/// captured, and not named.
pub(crate) fn changed_paths(found: &[CapturedChange]) -> Vec<(RootIndex, RelPath)> {
    let ends = found.iter().map(|found| {
        let (before, after) = (found.draft.before().copied(), found.draft.after().copied());
        PathChange::new(found.root, found.draft.path(), before, after)
    });
    let carriers = carriers(ends);
    let named = found.iter().enumerate().filter(|(at, _)| !carriers.contains(at));
    named.map(|(_, found)| (found.root, found.draft.path().clone())).collect()
}

/// Puts back what was found: the files are as they were before.
pub(crate) fn put_back(session: &mut SandboxSession) -> Result<(), RunError> {
    let back: Vec<_> = session.found.iter().map(|found| domain::undoing(found.root, &found.draft)).collect();
    let restored = session.sandbox.restore(&back, session.staging.as_ref());
    restored.map_err(|error| RunError::failed(ErrorCategory::Sandbox, error))?;
    session.found.clear();
    session.staging.clear();
    Ok(())
}

/// Returns the capture rules for a call of `node`: without the paths that the plan, or the node, leaves out.
pub(crate) fn rules(session: &SandboxSession, node: &str) -> CaptureRules {
    let plan = &session.plan;
    let is_its =
        |step: &&PlanStep| step.node == node || NodePath::parse(node).step() == Some(step.node.as_str());
    let of_node = plan.spec.steps.iter().filter(is_its).flat_map(|step| &step.ignore);
    CaptureRules {
        ignore: plan.spec.ignore.iter().chain(of_node).cloned().collect(),
        protected: plan.spec.protected.clone(),
        max_file_bytes: plan.spec.max_file_bytes,
    }
}

/// The log of a command that was stopped, without known secrets; `None` if it is empty or cannot be read.
pub(crate) fn store_log(engine: &EngineInner, staging: &Staging, log: &Path) -> Option<StoredOutput> {
    let bytes = std::fs::read(log).ok().filter(|bytes| !bytes.is_empty())?;
    let bytes = engine.redactor.redact_known(&bytes);
    let kept = staging.keep_bytes(&bytes).ok()?;
    Some(StoredOutput { hash: kept.hash, total: kept.size, left_out: 0 })
}
