//! Mending what the checks found: the node that an actor names for it is done again, with the findings in its brief.
//!
//! # Invariants
//! 1. A round of mending is a node run of its own, `ID.fixN`: a plan that is broken off goes on with the round that had
//!    not settled, and no round is done twice.
//! 2. There are at most `validation.fix_attempts` rounds, and a round that changed nothing is the last.

use domain::{Action, Gate, Outcome, ValidationResult};

use super::{checks, execute};
use crate::run::graph::{Actor, Progress, RoundEnd, do_node};
use crate::run::node::Node;
use crate::run::{Failure, Stopped, Told, tell};

/// Runs the checks, and mends what they find as long as that is allowed and leads anywhere.
pub(crate) async fn check_and_mend(actor: &Actor<'_>, progress: &Progress) -> Result<RoundEnd, Stopped> {
    let mut round = progress.rounds_mended();
    loop {
        let found = checks::run_all(actor).await?;
        let may_mend = actor.plan.spec.gate_of_fix() == Gate::Auto
            && round < usize::try_from(actor.plan.spec.fix_attempts).unwrap_or(0);
        let Some(fix) = actor.plan.spec.fix.as_deref().filter(|_| may_mend && !found.is_empty()) else {
            return Ok(RoundEnd::Done);
        };
        round += 1;
        match mend(actor, fix, round, &findings(&found)).await? {
            Mended::Changed => {}
            Mended::Nothing => return Ok(RoundEnd::Done),
            Mended::Again(again) => return Ok(again),
        }
    }
}

/// What a round came to.
enum Mended {
    Changed,
    /// It changed nothing, so the checks would say what they said.
    Nothing,
    /// It is to be tried again.
    Again(RoundEnd),
}

async fn mend(actor: &Actor<'_>, fix: &str, round: usize, findings: &str) -> Result<Mended, Stopped> {
    let Actor { house, run, live, plan, phase, steps } = *actor;
    let Some(step) = steps.iter().find(|step| step.node == fix) else { return Ok(Mended::Nothing) };
    let path = format!("{fix}.fix{round}");
    let progress = execute::progress(actor, findings).await?;
    let (values, guidance_seen) = actor.told(progress.values()).await?;
    let values = &values;
    let started = house.wall();
    let scope = run.scope().clone();
    let node = Node {
        house,
        run,
        live,
        plan,
        step,
        phase,
        path: &path,
        values,
        guidance_seen,
        scope,
        tries: 1,
        started,
        began: None,
    };
    let done = match do_node(&node).await {
        Ok(done) => done,
        Err(Stopped::Failed { category, message, call, .. }) => {
            let failure = Failure { category, message, call };
            let Told { message, recovery } = tell(house, run, plan, Some(step), failure).await;
            return match recovery.map(|recovery| recovery.action) {
                Some(Action::Retry { after, .. }) => Ok(Mended::Again(RoundEnd::Again { after })),
                Some(Action::Revert | Action::Ask | Action::GiveUp | Action::Told) | None => {
                    Err(Stopped::Told(message))
                }
            };
        }
        Err(stopped) => return Err(stopped),
    };
    let ended = done.stored(house, run).await?;
    live.close_changeset(&path).await?;
    Ok(if ended.changed == 0 { Mended::Nothing } else { Mended::Changed })
}

/// What the checks found, as it is told to who mends.
fn findings(found: &[ValidationResult]) -> String {
    let one = |result: &ValidationResult| {
        let how = match result.outcome {
            Outcome::Passed | Outcome::Failed => "failed",
            Outcome::Errored => "could not be finished",
        };
        format!("The check `{}` {how}:\n{}", result.validation, result.message)
    };
    found.iter().map(one).collect::<Vec<_>>().join("\n\n")
}
