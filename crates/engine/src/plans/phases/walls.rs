//! Programs that are only to look, on a machine where nothing keeps them from writing.
//!
//! Wherever commands are isolated at all, one that may not write cannot. Without isolation (`policy.sandbox = "optional"`,
//! and no rung works) it could: then it works alone, and what it changed is found when it has ended.
//!
//! # Invariants
//! 1. What such a program wrote is taken back before anybody else works in the sandbox, is recorded nowhere, and fails its
//!    node (`NODE_WROTE`).
//!    A server of such a node is looked after when it has started, after each call, and when it has ended: what it writes
//!    in between may be found by who writes next.
//! 2. The user's files are never the ones that it wrote to: it sees the sandbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{Plan, RelPath};
use sandbox::isolation::{Isolation, IsolationPolicy, IsolationRung};

use super::super::House;
use super::super::facts::RUN_COMMAND;
use super::Stopped;
use super::command;
use super::finished::Finished;
use super::ground::blocking;
use super::node::Node;
use super::work::LiveRun;

/// How many paths a message names.
const NAMED_MAX: usize = 5;

/// Whether programs of this plan can be kept from writing. It is tried, once in a run, where the policy leaves it open.
pub(super) async fn hold(house: &House, live: &LiveRun, plan: &Plan) -> Result<bool, Stopped> {
    if plan.spec.isolation_required {
        return Ok(true);
    }
    let child = house.options.child.clone();
    let trying = || async {
        let isolation = Isolation::new(IsolationPolicy::Required, child);
        blocking(move || isolation.probe().iter().any(|(_, tried)| tried.is_ok())).await
    };
    live.walls_hold.get_or_try_init(trying).await.copied()
}

/// Takes back what a program wrote that was only to look; says what it did, in words, or nothing when it kept to it.
pub(super) async fn wrote(node: &Node<'_>, finished: &Finished) -> Result<Option<String>, Stopped> {
    let rung = finished.ended.as_ref().ok().map(|(_, used)| used.rung);
    let is_kept_out = finished.may_have_written || finished.call.new.tool != RUN_COMMAND;
    if is_kept_out || rung != Some(IsolationRung::None) {
        return Ok(None);
    }
    found(node.live, node.path).await
}

/// The same for a server that may only look, by who has the permit alone. `path` is that of its node.
pub(super) async fn found(live: &LiveRun, path: &str) -> Result<Option<String>, Stopped> {
    let changed = command::changed_beside(live, path).await?;
    if changed.is_empty() {
        return Ok(None);
    }
    command::put_back(live).await?;
    if let Some(open) = Arc::clone(&live.open).lock_owned().await.as_ref() {
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
        "NODE_WROTE: node {path} may only look, and it changed {}{more}; that is taken back. Nothing could keep it from it \
         here: see `agents doctor`",
        named.join(", ")
    )))
}
