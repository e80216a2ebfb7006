//! Programs that are only to look, on a machine where nothing keeps them from writing.
//!
//! Wherever commands are isolated at all, one that may not write cannot. Without isolation (`policy.sandbox = "optional"`,
//! and no rung works) it could: then it works alone, and what it changed is found when it has ended.
//!
//! # Invariants
//! 1. What such a program wrote is taken back before anybody else works in the sandbox, is recorded nowhere, and fails its
//!    node (`NODE_WROTE`).
//! 2. The user's files are never the ones that it wrote to: it sees the sandbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::RelPath;
use sandbox::isolation::{Isolation, IsolationPolicy, IsolationRung};

use super::super::facts::RUN_COMMAND;
use super::Stopped;
use super::command;
use super::finished::Finished;
use super::ground::blocking;
use super::node::Node;

/// How many paths a message names.
const NAMED_MAX: usize = 5;

/// Whether programs of this plan can be kept from writing. It is tried, once in a run, where the policy leaves it open.
pub(super) async fn hold(node: &Node<'_>) -> Result<bool, Stopped> {
    if node.plan.spec.isolation_required {
        return Ok(true);
    }
    let child = node.house.options.child.clone();
    let trying = || async {
        let isolation = Isolation::new(IsolationPolicy::Required, child);
        blocking(move || isolation.probe().iter().any(|(_, tried)| tried.is_ok())).await
    };
    node.live.walls_hold.get_or_try_init(trying).await.copied()
}

/// Takes back what a program wrote that was only to look; says what it did, in words, or nothing when it kept to it.
pub(super) async fn wrote(node: &Node<'_>, finished: &Finished) -> Result<Option<String>, Stopped> {
    let rung = finished.ended.as_ref().ok().map(|(_, used)| used.rung);
    let is_kept_out = finished.may_have_written || finished.call.new.tool != RUN_COMMAND;
    if is_kept_out || rung != Some(IsolationRung::None) {
        return Ok(None);
    }
    found(node).await
}

/// The same for the servers of a node in whose phase nobody writes.
pub(super) async fn servers_wrote(node: &Node<'_>) -> Result<(), Stopped> {
    if !node.only_reads() || hold(node).await? || node.live.open.lock().await.is_none() {
        return Ok(());
    }
    let _permit = node.live.permit(&node.scope, true).await?;
    match found(node).await? {
        None => Ok(()),
        Some(message) => Err(Stopped::failed(domain::ErrorCategory::Tool, message)),
    }
}

async fn found(node: &Node<'_>) -> Result<Option<String>, Stopped> {
    let changed = command::changed(node.live).await?;
    if changed.is_empty() {
        return Ok(None);
    }
    command::put_back(node.live).await?;
    if let Some(open) = Arc::clone(&node.live.open).lock_owned().await.as_ref() {
        open.staging.clear();
    }
    let paths: BTreeSet<&RelPath> = changed.iter().map(|(_, path)| path).collect();
    let named: Vec<String> = paths.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = if paths.len() > NAMED_MAX {
        format!(" and {} more", paths.len() - NAMED_MAX)
    } else {
        String::new()
    };
    Ok(Some(format!(
        "NODE_WROTE: node {} may only look, and it changed {}{more}; that is taken back. Nothing could keep it from it \
         here: see `agents doctor`",
        node.path,
        named.join(", ")
    )))
}
