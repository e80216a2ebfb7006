//! Programs that may only look, on a machine where nothing prevents them from writing.
//!
//! Wherever commands are isolated at all, one that may not write cannot. Without isolation (`policy.sandbox =
//! "optional"`, and no rung works) it could: then it works alone, and what it changed is found when it has
//! ended.
//!
//! # Invariants
//! 1. The writes of such a program are rolled back before any other call works in the sandbox, are recorded
//!    nowhere, and fail its node (`NODE_WROTE`). A server of such a node is checked when it has started,
//!    after each call, and when it has ended. The next call that writes may find what it writes in between.
//! 2. The user's files are never the ones that it wrote to: it sees the sandbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{RelPath, RootIndex};
use sandbox::isolation::{Isolation, IsolationBackend, IsolationPolicy};

use super::capture;
use super::command::EndedCommand;
use super::sandbox_call::SandboxCall;
use crate::run::RunError;
use crate::run::context::{NodeContext, RunContext};
use crate::run::plan_sandbox::blocking;

/// The number of paths that a message names.
const NAMED_MAX: usize = 5;

/// Returns whether programs of this plan can be prevented from writing. If the policy leaves it open, it is
/// tried once in a run.
pub(crate) async fn is_enforced(run: RunContext<'_>) -> Result<bool, RunError> {
    let RunContext { engine, state, plan, .. } = run;
    if plan.spec.isolation_required {
        return Ok(true);
    }
    let child = engine.options.child.clone();
    let trying = || async {
        let isolation = Isolation::new(IsolationPolicy::Required, child);
        blocking(move || isolation.probe().iter().any(|(_, tried)| tried.is_ok())).await
    };
    state.walls_hold.get_or_try_init(trying).await.copied()
}

/// Puts back what a program wrote that may only look; returns what it did, in words, or `None` if it wrote
/// nothing.
pub(crate) async fn revert_writes(
    context: &NodeContext<'_>,
    ran: &mut EndedCommand,
) -> Result<Option<String>, RunError> {
    let backend = ran.finished.ended.as_ref().ok().map(|(_, used)| used.rung);
    if ran.call.records() {
        return Ok(None);
    }
    if backend != Some(IsolationBackend::None) {
        ran.call.cannot_have_written();
        return Ok(None);
    }
    revert_changes(context, &mut ran.call).await
}

/// The same for a call of a server that may only look.
pub(crate) async fn revert_changes(
    context: &NodeContext<'_>,
    call: &mut SandboxCall,
) -> Result<Option<String>, RunError> {
    let changed = call.put_back(context).await?;
    Ok(describe_changes(context.path, &changed))
}

/// The same for servers that may only look and have ended. For the holder of a turn alone.
pub(crate) async fn revert_unattended(context: &NodeContext<'_>) -> Result<Option<String>, RunError> {
    let mut place = Arc::clone(&context.state.session).lock_owned().await;
    let node = context.path.to_owned();
    let changed = blocking(move || {
        let session = place.as_mut().ok_or(RunError::Cancelled)?;
        capture::scan(session, &node)?;
        let changed = capture::changed_paths(&session.found);
        capture::put_back(session).map(|()| changed)
    })
    .await??;
    Ok(describe_changes(context.path, &changed))
}

fn describe_changes(path: &str, changed: &[(RootIndex, RelPath)]) -> Option<String> {
    if changed.is_empty() {
        return None;
    }
    let paths: BTreeSet<&RelPath> = changed.iter().map(|(_, path)| path).collect();
    let named: Vec<String> = paths.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = if paths.len() > NAMED_MAX {
        format!(" and {} more", paths.len() - NAMED_MAX)
    } else {
        String::new()
    };
    Some(format!(
        "NODE_WROTE: node {path} is read-only, but it changed {}{more}. The changes were rolled back; this \
         machine cannot \
         prevent them",
        named.join(", ")
    ))
}
